//! A lab, and tables of who is asked where, who must answer and whom it must see. Everything a place asks is asked in one go.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use netloom_lab::echo::client::Attempt;
use netloom_lab::{Machine, Shell};

use crate::objects::{TCP, UDP, policy};
use netloom_lab_fixtures::ask::Protocol;
use netloom_lab_fixtures::world::{Checked, lab_with, wait_no_row, wait_ready};

/// Questions to a service: that one of three backends never answers by chance is less likely than one in five million.
const MANY: usize = 40;

/// Who must answer.
#[derive(Clone, Copy, Debug)]
pub enum Answer {
    /// Nobody, nor may anybody refuse.
    Nobody,
    /// The pod that is asked.
    Itself,
    /// Exactly these pods, each `namespace/name`, in turn.
    Pods(&'static [&'static str]),
}

/// One question and what must come of it.
#[derive(Clone, Debug)]
pub struct Line {
    pub what: String,
    pub from: String,
    pub to: IpAddr,
    pub protocol: Protocol,
    pub port: u16,
    /// Who must answer, each `namespace/name`; none: it must stay silent.
    pub by: BTreeSet<String>,
    /// The address they must see.
    pub seen: Option<IpAddr>,
    /// Whether somebody may be chosen, so that it takes many questions to know who is not.
    chosen: bool,
}

pub struct World {
    pub lab: Checked,
    markers: AtomicUsize,
    known: Mutex<BTreeMap<String, Vec<IpAddr>>>,
}

impl World {
    /// A lab of three nodes with these objects in it, whose pods are ready.
    pub fn up(test: &str, manifest: &str) -> Self {
        let world = Self::empty(test);
        world.lab.apply(manifest).unwrap();
        wait_ready(&world.lab);
        world.settle();
        world
    }

    pub fn empty(test: &str) -> Self {
        Self {
            lab: lab_with(&format!("networks-{test}"), |spec| spec),
            markers: AtomicUsize::new(0),
            known: Mutex::default(),
        }
    }

    pub fn kubectl(&self, arguments: &[&str]) -> String {
        self.lab.kubectl(arguments).unwrap_or_else(|error| panic!("{error:#}"))
    }

    /// Applies objects and waits until every switch does what they say.
    pub fn apply(&self, manifest: &str) {
        self.lab.apply(manifest).unwrap_or_else(|error| panic!("{error:#}"));
        wait_ready(&self.lab);
        self.settle();
    }

    /// The same for what is taken away: words of `kubectl delete`.
    pub fn delete(&self, words: &[&str]) {
        self.kubectl(&[&["delete"], words].concat());
        self.settle();
    }

    /// Waits until every switch does what policies say now. The controller hears of them in order: when it has written one more, it has
    /// written those before.
    pub fn settle(&self) {
        let number = self.markers.fetch_add(1, Ordering::Relaxed);
        let spec = format!("{{ podSelector: {{ matchLabels: {{ marker: n{number} }} }} }}");
        self.lab.apply(&policy("default", "marker", &spec)).unwrap();
        self.wait_row("Port_Group", &format!("subject/default/marker=n{number}"));
        self.sync();
    }

    /// Waits until the controller has written a row.
    pub fn wait_row(&self, table: &str, key: &str) {
        let watch = format!("ovsdb-client monitor unix:/run/ovn/ovnnb_db.sock OVN_Northbound {table} external_ids");
        let script = format!(
            "while read -t 30 line; do [[ $line == *'{key}\"'* || $line == *'{key},'* || $line == *'{key}}}'* ]] && exit 0; done < <({watch}); echo '{key} never came'; exit 1"
        );
        self.lab.control().run(&["bash", "-c", &script]).unwrap();
    }

    /// Waits until no row of a table has a key that begins so, and every switch knows it.
    pub fn wait_no_row(&self, table: &str, key: &str) {
        wait_no_row(&self.lab, table, key);
    }

    /// Waits until an object was told something, and returns what.
    pub fn told(&self, namespace: &str, name: &str, reason: &str) -> String {
        let watch = format!(
            "kubectl get events -n {namespace} --watch --no-headers -o custom-columns=MESSAGE:.message --field-selector involvedObject.name={name},reason={reason}"
        );
        let script =
            format!("read -t 30 line < <(exec timeout 30 {watch}) && echo \"$line\" || {{ echo 'no Event {reason} on {name}'; exit 1; }}");
        self.lab
            .control()
            .run(&["bash", "-c", &script])
            .unwrap_or_else(|error| panic!("{error:#}"))
    }

    /// Waits until a pod is ready.
    pub fn wait_pod(&self, pod: &str) {
        let (namespace, name) = pod.split_once('/').unwrap();
        self.kubectl(&["wait", "pod", name, "-n", namespace, "--for=condition=Ready", "--timeout=60s"]);
    }

    /// Waits until every switch does what the controller has written.
    pub fn sync(&self) {
        self.lab.control().run(&["ovn-nbctl", "--wait=hv", "--timeout=30", "sync"]).unwrap();
    }

    pub fn shell(&self, place: &str) -> Shell<'_> {
        match place.split_once('/') {
            Some((namespace, name)) => self.lab.pod(namespace, name),
            None if place == "outside" => self.lab.outside(),
            None => self.lab.node(place),
        }
    }

    /// Forgets addresses, for pods that were made again.
    pub fn forget(&self) {
        self.known.lock().unwrap().clear();
    }

    /// Addresses of a pod (`namespace/name`), of a pod in its network (`link namespace/name`), of a service (`service namespace/name`),
    /// of a node as its pods see it (`node1`), as backends see it (`services node1`), of its gateway (`gateway node1`) or of `outside`.
    pub fn addresses(&self, of: &str) -> Vec<IpAddr> {
        let mut known = self.known.lock().unwrap();
        known.entry(of.to_owned()).or_insert_with(|| self.told_addresses(of)).clone()
    }

    fn told_addresses(&self, of: &str) -> Vec<IpAddr> {
        let told = |kind: &str, name: &str, path: &str| {
            let (namespace, name) = name.split_once('/').unwrap();
            self.kubectl(&["get", kind, name, "-n", namespace, "-o", &format!("jsonpath={path}")])
        };
        let port = |name: String, column: &str| self.column("Logical_Switch_Port", column, &name);
        let text = match of.split_once(' ') {
            Some(("service", name)) => told("service", name, "{.spec.clusterIPs[*]}"),
            Some(("link", name)) => port(name.to_owned(), "external_ids:\"netloom.io/network-addresses\""),
            Some(("services", node)) => port(format!("service_{node}"), "addresses"),
            Some(("gateway", node)) => self.column("Logical_Router_Port", "networks", &format!("gateway_{node}_to_join")),
            _ if of == "outside" => format!("{} {}", Machine::Outside.v4(), Machine::Outside.v6()),
            _ if of.contains('/') => told("pod", of, "{.status.podIPs[*].ip}"),
            _ => port(format!("management_{of}"), "addresses"),
        };
        let word = |word: &str| word.split('/').next()?.parse().ok();
        let mut addresses: Vec<IpAddr> = text.split([' ', ',', '"', '\n', '[', ']']).filter_map(word).collect();
        addresses.sort();
        assert_eq!(addresses.len(), 2, "{of} has both families: {text}");
        addresses
    }

    fn column(&self, table: &str, column: &str, row: &str) -> String {
        self.lab.control().run(&["ovn-nbctl", "get", table, row, column]).unwrap()
    }

    /// What one place asks another: over TCP and UDP, in both families.
    pub fn lines(&self, from: &str, to: &str, answer: Answer) -> Vec<Line> {
        let pod = to.strip_prefix("link ").unwrap_or(to);
        let (by, ports): (&[&str], _) = match (answer, to) {
            (Answer::Nobody, _) => (&[], (TCP, UDP)),
            (Answer::Pods(pods), _) => (pods, (80, 80)),
            (Answer::Itself, "outside") => (&["/outside"], (80, 7)),
            (Answer::Itself, _) => (&[pod], (TCP, UDP)),
        };
        let ports = if to.starts_with("service ") { (80, 80) } else { ports };
        let seen = match from.split_once('/') {
            Some(_) if to.starts_with("link ") => self.addresses(&format!("link {from}")),
            Some(_) => self.addresses(from),
            None if to.starts_with("service ") => self.addresses(&format!("services {from}")),
            None => self.addresses(from),
        };
        self.lines_to(from, to, &self.addresses(to), ports, by, &seen)
    }

    /// The same to addresses and ports as given.
    pub fn lines_to(&self, from: &str, what: &str, to: &[IpAddr], (tcp, udp): (u16, u16), by: &[&str], seen: &[IpAddr]) -> Vec<Line> {
        let line = |to: IpAddr, protocol, port| Line {
            what: what.to_owned(),
            from: from.to_owned(),
            to,
            protocol,
            port,
            by: by.iter().map(|name| (*name).to_owned()).collect(),
            seen: seen.iter().copied().find(|seen| seen.is_ipv4() == to.is_ipv4()),
            chosen: what.contains(' ') && !what.starts_with("link "),
        };
        let both = |to: &IpAddr| [line(*to, Protocol::Tcp, tcp), line(*to, Protocol::Udp, udp)];
        to.iter().flat_map(both).collect()
    }

    /// Asks a table of `from`, `to` and who must answer.
    pub fn check(&self, what: &str, table: &[(&str, &str, Answer)]) {
        let lines = table.iter().flat_map(|(from, to, answer)| self.lines(from, to, *answer));
        self.check_lines(what, &lines.collect::<Vec<_>>());
    }

    /// Asks all lines, those that must be answered first: only then silence means something.
    pub fn check_lines(&self, what: &str, lines: &[Line]) {
        let (silent, answered): (Vec<&Line>, Vec<&Line>) = lines.iter().partition(|line| line.by.is_empty());
        let mut wrong = self.wrong(&answered);
        wrong.extend(self.wrong(&silent));
        assert_eq!(wrong, Vec::<String>::new(), "{what}: {} lines are wrong", wrong.len());
    }

    fn wrong(&self, lines: &[&Line]) -> Vec<String> {
        let places: BTreeSet<&str> = lines.iter().map(|line| line.from.as_str()).collect();
        thread::scope(|scope| {
            let asked: Vec<_> = places
                .into_iter()
                .map(|place| {
                    let own: Vec<&Line> = lines.iter().copied().filter(|line| line.from == place).collect();
                    scope.spawn(move || self.ask_all(place, &own))
                })
                .collect();
            asked.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        })
    }

    fn ask_all(&self, place: &str, lines: &[&Line]) -> Vec<String> {
        let questions: String = lines.iter().enumerate().map(|(number, line)| question(number, line)).collect();
        // Several writers of one memory file may overwrite each other's lines; those of a pipe do not.
        let said = self
            .shell(place)
            .run(&["bash", "-c", &format!("{{ {questions}wait; }} | cat")])
            .unwrap();
        let mut attempts: Vec<Vec<Attempt>> = vec![Vec::new(); lines.len()];
        for line in said.lines() {
            let (number, attempt) = line.split_once(' ').unwrap();
            attempts[number.parse::<usize>().unwrap()].push(serde_json::from_str(attempt).unwrap_or_else(|_| panic!("{line}")));
        }
        let verdicts = lines.iter().zip(&attempts);
        verdicts
            .filter_map(|(line, attempts)| {
                let why = verdict(line, attempts)?;
                let Line {
                    what,
                    from,
                    to,
                    protocol,
                    port,
                    ..
                } = line;
                Some(format!("{from} to {what} at {} {protocol:?}: {why}", SocketAddr::new(*to, *port)))
            })
            .collect()
    }
}

/// A question as a job of a shell script. One that must be answered is asked until it is, so that a switch may learn where a neighbour is.
fn question(number: usize, line: &Line) -> String {
    let client = format!(
        "netloom lab ask {} --protocol {} --json",
        SocketAddr::new(line.to, line.port),
        line.protocol.name().to_uppercase()
    );
    let tell = format!("while read -r line; do echo \"{number} $line\"");
    match line.by.len() {
        0 => format!("{{ {client} --count 2 --timeout-ms 400 | {tell}; done; }} &\n"),
        _ if !line.chosen => format!(
            "{{ {tell}; [[ $line == *'\"outcome\":\"ok\"'* ]] && break; done < <(exec timeout 20 {client} --count 0 --interval-ms 50 --timeout-ms 1000); }} &\n"
        ),
        _ => format!("{{ {client} --count {MANY} --timeout-ms 8000 | {tell}; done; }} &\n"),
    }
}

/// What is wrong with what came of a line.
fn verdict(line: &Line, attempts: &[Attempt]) -> Option<String> {
    let Line { by, seen, protocol, .. } = line;
    let answers: Vec<&Attempt> = attempts.iter().filter(|attempt| attempt.outcome == "ok").collect();
    let names: BTreeSet<String> = answers
        .iter()
        .map(|answer| format!("{}/{}", answer.namespace, answer.pod))
        .collect();
    if names != *by {
        return Some(format!("answered by {names:?}, must be {by:?}: {:?}", attempts.last()));
    }
    if by.is_empty() {
        let heard = attempts
            .iter()
            .find(|attempt| !["timeout", "unreachable"].contains(&attempt.outcome.as_str()));
        return if attempts.is_empty() {
            Some("was not asked".to_owned())
        } else {
            heard.map(|heard| format!("{heard:?}"))
        };
    }
    // A datagram may be lost.
    let lost = attempts.len() - answers.len();
    if line.chosen && lost > usize::from(*protocol == Protocol::Udp) {
        return Some(format!("{lost} of {} were not answered", attempts.len()));
    }
    let strangers: BTreeSet<IpAddr> = answers
        .iter()
        .filter_map(|answer| Some(answer.client?.ip()))
        .filter(|client| seen.is_some_and(|seen| *client != seen))
        .collect();
    (!strangers.is_empty()).then(|| format!("seen as {strangers:?}, must be {seen:?}"))
}
