//! A real OVN without packets: the image's database server with both databases, northd, and `ovn-trace`, which is asked over its control
//! socket because a process for each question would read the whole Southbound each time. Every wait is for an event or an answer.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::Duration;

use netloom_controller::monitored_tables;
use netloom_fixtures::{NORTHBOUND, SOUTHBOUND, Server, program};
use netloom_network::{Northbound, Scope, diff};
use netloom_ovsdb::{Client, Datum, Event, Events, MonitorTable, Operation, Options, Row, Transaction, Uuid};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

/// A hanging test fails; nothing depends on how long anything takes.
const PATIENCE: Duration = Duration::from_secs(60);
/// More than any path has. Where they are used up, `ovn-trace` takes packets for those of a connection that exists.
const CONNTRACK_STEPS: usize = 24;
/// What it says then.
const USED_UP: &str = "default (use --ct";

/// Both databases, northd and what the Northbound holds.
pub struct Ovn {
    northd: Child,
    server: Server,
    client: Client,
    events: Events,
    observed: Northbound,
    /// The row northd counts in, what was asked of it and what it has done.
    global: Option<Uuid>,
    asked: i64,
    done: i64,
}

impl Ovn {
    pub async fn start() -> Self {
        let server = Server::start(&[NORTHBOUND, SOUTHBOUND]);
        let mut options = Options::new(server.remote.parse().unwrap(), NORTHBOUND.name);
        options.monitor = monitored_tables();
        options.monitor.push(MonitorTable::all("NB_Global"));
        let (client, events) = Client::start(options);
        tokio::time::timeout(PATIENCE, client.ready()).await.expect("no database").unwrap();
        let path = |name: &str| server.folder().join(name).display().to_string();
        let northd = program("usr/bin/ovn-northd")
            .arg(format!("--ovnnb-db={}", server.remote))
            .arg(format!("--ovnsb-db={}", server.remote))
            .arg(format!("--unixctl={}", path("northd.control")))
            .arg(format!("--log-file={}", path("northd.log")))
            .arg("-vconsole:off")
            .stdin(Stdio::null())
            .spawn();
        let mut ovn = Self {
            northd: northd.unwrap(),
            server,
            client,
            events,
            observed: Northbound::default(),
            global: None,
            asked: 0,
            done: 0,
        };
        while ovn.global.is_none() {
            ovn.next("northd").await;
        }
        ovn
    }

    /// Makes the Northbound this one, by its difference from what is there, and waits until northd has turned it into flows.
    pub async fn become_like(&mut self, desired: &Northbound) {
        let transaction = diff(&self.observed, desired, &Scope::All);
        self.write(transaction).await;
        let left = diff(&self.observed, desired, &Scope::All);
        assert!(left.is_empty(), "the difference did not make one the other: {left:?}");
    }

    /// Writes, and waits until northd has turned it into flows.
    pub async fn write(&mut self, transaction: Transaction) {
        self.asked += 1;
        let count = Row::from([("nb_cfg".to_owned(), Datum::integer(self.asked))]);
        let mut operations = transaction.0;
        operations.push(Operation::update("NB_Global", self.global.unwrap(), count));
        let written = tokio::time::timeout(PATIENCE, self.client.transact(operations)).await;
        written.expect("no answer of the database").unwrap();
        while let Some(event) = self.events.try_recv() {
            self.take(event);
        }
        while self.done < self.asked {
            self.next("northd to be done").await;
        }
    }

    /// Reads the Southbound as it is now, for so many questions.
    pub fn tracer(&self, questions: usize) -> Tracer {
        Tracer::start(&self.server, Paused::pause(&self.northd), questions)
    }

    async fn next(&mut self, waiting_for: &str) {
        let event = tokio::time::timeout(PATIENCE, self.events.recv()).await;
        let event = event.unwrap_or_else(|_| panic!("still waiting for {waiting_for}"));
        self.take(event.expect("the client has ended"));
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Snapshot(replica) => {
                self.observed = Northbound::default();
                for (table, rows) in replica.tables() {
                    rows.iter().for_each(|(uuid, row)| self.see(table, *uuid, Some(row)));
                }
            }
            Event::Update(changes) => {
                for change in changes.iter() {
                    self.see(&change.table, change.uuid, change.new.as_deref());
                }
            }
            _ => {}
        }
    }

    fn see(&mut self, table: &str, uuid: Uuid, row: Option<&Row>) {
        match (table, row) {
            ("NB_Global", Some(row)) => {
                self.global = Some(uuid);
                self.done = row.get("sb_cfg").and_then(Datum::as_integer).unwrap_or_default();
            }
            ("NB_Global", None) => {}
            _ => drop(self.observed.observe(table, uuid, row)),
        }
    }
}

impl Drop for Ovn {
    fn drop(&mut self) {
        self.northd.kill().unwrap();
        self.northd.wait().unwrap();
    }
}

/// northd, stopped for a while. It writes to the Southbound also when it has done what it was asked for, and `ovn-trace` may end when what it
/// has read changes.
struct Paused(Pid);

impl Paused {
    fn pause(northd: &Child) -> Self {
        let northd = Pid::from_raw(northd.id().cast_signed());
        kill(northd, Signal::SIGSTOP).unwrap();
        Self(northd)
    }
}

impl Drop for Paused {
    fn drop(&mut self) {
        kill(self.0, Signal::SIGCONT).unwrap();
    }
}

/// `ovn-trace` with the Southbound as it was when it started. Every packet is the first of its connection.
pub struct Tracer {
    control: PathBuf,
    _northd: Paused,
}

impl Tracer {
    fn start(server: &Server, northd: Paused, questions: usize) -> Self {
        let control = server.folder().join("trace.control");
        let status = program("usr/bin/ovn-trace")
            .arg(format!("--db={}", server.remote))
            .arg(format!("--unixctl={}", control.display()))
            .args(["--detach", "--no-chdir", "-vconsole:off"])
            .args(vec!["--ct=new"; CONNTRACK_STEPS * questions])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .status();
        assert!(status.unwrap().success(), "ovn-trace does not start");
        Self { control, _northd: northd }
    }

    /// What becomes of a packet, and for people also why. Where it begins is said by the port it comes from.
    pub fn trace(&self, packet: &str, why: bool) -> String {
        let form = if why { "--detailed" } else { "--summary" };
        let answer = self.ask("trace", &[form, packet]);
        let answer = answer.unwrap_or_else(|error| panic!("ovn-trace '{packet}': {error}"));
        assert!(!answer.contains(USED_UP), "{CONNTRACK_STEPS} steps are too few:\n{answer}");
        answer
    }

    fn ask(&self, method: &str, arguments: &[&str]) -> Result<String, String> {
        let mut stream = UnixStream::connect(&self.control).map_err(|error| error.to_string())?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(|error| error.to_string())?;
        let request = json!({ "id": 0, "method": method, "params": arguments });
        stream
            .write_all(request.to_string().as_bytes())
            .map_err(|error| error.to_string())?;
        let answers = serde_json::Deserializer::from_reader(stream).into_iter::<Value>();
        let answer = answers.into_iter().next().ok_or("no answer")?.map_err(|error| error.to_string())?;
        match (&answer["result"], &answer["error"]) {
            (Value::String(text), _) => Ok(text.clone()),
            (_, error) => Err(error.to_string()),
        }
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        let ended = self.ask("exit", &[]);
        // A test that failed says why by itself.
        assert!(ended.is_ok() || std::thread::panicking(), "ovn-trace does not end: {ended:?}");
    }
}
