//! A running lab: up, down, restart, and running commands in its machines and pods.
//!
//! Used by the command line and by tests, so every call blocks and needs no async runtime of its own. The state lives in files and in the
//! machines; a [`Lab`] is only a name for it, and any process may open it.

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, bail, ensure};
use nix::fcntl::{Flock, FlockArg};
use nix::mount::{MntFlags, umount2};
use nix::sys::signal::Signal;
use serde::Serialize;

use crate::cluster;
use crate::home::{Home, Record};
use crate::launch::{self, end, launch};
use crate::logs;
use crate::progress::Progress;
use crate::protocol::{BootEvent, PartStatus, Reply, Request, ask};
use crate::shell::Shell;
use crate::spec::{CONTROL, Datapath, Machine, OUTSIDE, Spec};

/// How long a lab may take to come up before that counts as a failure; an emulated machine that also compiles needs a good minute.
const PATIENCE: Duration = Duration::from_secs(180);

/// A lab on this machine.
pub struct Lab {
    home: Home,
    record: Record,
    remove_on_drop: bool,
}

/// State of one machine.
#[derive(Debug, Serialize)]
pub struct MachineStatus {
    /// Name of the machine.
    pub machine: String,
    /// Process number of its init on the host; `None` when it is not running.
    pub pid: Option<i32>,
    /// State of its parts.
    pub parts: Vec<PartStatus>,
}

impl Lab {
    /// Starts a lab for a test: silent, and gone when the value is dropped.
    pub fn up(spec: Spec) -> anyhow::Result<Lab> {
        let mut lab = Lab::start(spec, &Progress::quiet())?.0;
        lab.remove_on_drop = true;
        Ok(lab)
    }

    /// Starts a lab; the second value is false if it was running already.
    pub fn start(mut spec: Spec, progress: &Progress) -> anyhow::Result<(Lab, bool)> {
        spec.check()?;
        let home = Home::of(&spec.name);
        let _lock = lock(&home)?;
        let known = home.load()?;
        let record = match known.clone() {
            Some(known) => {
                ensure!(
                    (known.spec.nodes, known.spec.ip_family) == (spec.nodes, spec.ip_family)
                        && (spec.datapath == Datapath::Auto || spec.datapath == known.spec.datapath),
                    "lab {} exists with {} nodes, {:?} addresses and the {:?} datapath; remove it first with `netloom lab down --name {}`",
                    spec.name,
                    known.spec.nodes,
                    known.spec.ip_family,
                    known.spec.datapath,
                    spec.name
                );
                // A newer build or image is taken up by machines that are started now.
                spec.datapath = known.spec.datapath;
                Record { spec, ..known }
            }
            None => {
                spec.datapath = resolve_datapath(spec.datapath)?;
                Record {
                    spec,
                    api_port: free_port()?,
                    token: uuid::Uuid::new_v4().simple().to_string(),
                }
            }
        };
        let lab = Lab {
            home,
            record,
            remove_on_drop: false,
        };
        let down: Vec<_> = lab
            .record
            .spec
            .machines()
            .into_iter()
            .filter(|machine| launch::pid(&lab.home, &machine.name()).is_none())
            .collect();
        if down.is_empty() {
            return Ok((lab, false));
        }
        let fresh = known.is_none();
        let keep = lab.record.spec.keep_failed || !fresh;
        match lab.boot(&down, progress) {
            Ok(()) => Ok((lab, true)),
            Err(error) if keep => Err(error).context(format!(
                "lab {} is not up; look at it with `netloom lab status` and `netloom lab logs`, remove it with `netloom lab down`",
                lab.record.spec.name
            )),
            Err(error) => {
                lab.remove().context("removing the lab that did not start")?;
                Err(error)
            }
        }
    }

    /// The lab with this name, if there is one.
    pub fn find(name: &str) -> anyhow::Result<Option<Lab>> {
        let home = Home::of(name);
        Ok(home.load()?.map(|record| Lab {
            home,
            record,
            remove_on_drop: false,
        }))
    }

    /// The lab with this name, running or not.
    pub fn open(name: &str) -> anyhow::Result<Lab> {
        Lab::find(name)?.with_context(|| match Home::all() {
            all if all.is_empty() => format!("no lab {name}: start one with `netloom lab up`"),
            all => format!("no lab {name}; there are {}", all.join(", ")),
        })
    }

    /// What the lab is.
    pub fn spec(&self) -> &Spec {
        &self.record.spec
    }

    /// Where it keeps its files.
    pub fn home(&self) -> &Home {
        &self.home
    }

    fn boot(&self, machines: &[Machine], progress: &Progress) -> anyhow::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        for directory in [self.home.state().to_path_buf(), self.home.sockets()] {
            fs::create_dir_all(&directory).with_context(|| format!("creating {}", directory.display()))?;
        }
        crate::image::prepare(&self.home, &self.record.spec.image)?;
        self.home.save(&self.record)?;
        cluster::write_kubeconfigs(&self.home, &self.record)?;
        let (sender, events) = mpsc::channel();
        // The control machine comes first: its launcher makes the bridge that the others' cables need.
        for machine in machines.iter().copied() {
            progress.step(&machine.name(), "starting");
            let mut launched = launch(&self.home, &self.record, machine).with_context(|| format!("starting machine {}", machine.name()))?;
            let sender = sender.clone();
            thread::spawn(move || {
                let mut up = false;
                while let Ok(Some(event)) = launched.next_event() {
                    up |= matches!(event, BootEvent::Up);
                    let _ = sender.send((machine, Some(event)));
                }
                if !up {
                    let _ = sender.send((machine, None));
                }
            });
        }
        drop(sender);
        self.follow(machines, &events, deadline, progress)?;
        self.wait_for_cluster(deadline, progress)
    }

    fn follow(
        &self,
        machines: &[Machine],
        events: &mpsc::Receiver<(Machine, Option<BootEvent>)>,
        deadline: Instant,
        progress: &Progress,
    ) -> anyhow::Result<()> {
        let mut waiting: Vec<_> = machines.iter().map(Machine::name).collect();
        while !waiting.is_empty() {
            let left = deadline.saturating_duration_since(Instant::now());
            let (machine, event) = events
                .recv_timeout(left)
                .map_err(|_| anyhow!("{} did not come up within {} s", waiting.join(", "), PATIENCE.as_secs()))?;
            let machine = machine.name();
            match event {
                Some(BootEvent::PartReady(part)) => progress.step(&machine, &format!("{part} ready")),
                Some(BootEvent::Up) => {
                    progress.done(&machine, "up");
                    waiting.retain(|name| *name != machine);
                }
                Some(BootEvent::Failed { part, reason }) => {
                    progress.failed(&machine, &format!("{part}: {reason}"));
                    bail!("{machine}/{part} failed: {reason}{}", logs::tail(&self.home, &machine, &part));
                }
                None => {
                    progress.failed(&machine, "ended");
                    bail!(
                        "machine {machine} ended while it came up{}",
                        logs::tail(&self.home, &machine, "init")
                    );
                }
            }
        }
        Ok(())
    }

    fn wait_for_cluster(&self, deadline: Instant, progress: &Progress) -> anyhow::Result<()> {
        progress.step("cluster", "waiting for the nodes");
        let boots = self.boot_ids()?;
        let kubeconfig = self.home.kubeconfig();
        let outcome = block_on(async {
            let client = cluster::client(&kubeconfig).await?;
            let ready = cluster::wait_for_nodes(&client, &boots, |node| progress.step("cluster", &format!("{node} is Ready")));
            match tokio::time::timeout_at(deadline.into(), ready).await {
                Ok(outcome) => outcome,
                Err(_) => {
                    let reasons = tokio::time::timeout(Duration::from_secs(2), cluster::explain_nodes(&client, &boots)).await;
                    Err(anyhow!(
                        "not Ready within {} s: {}",
                        PATIENCE.as_secs(),
                        reasons.unwrap_or_else(|_| vec!["the API server does not answer".into()]).join("; ")
                    ))
                }
            }
        });
        match outcome {
            Ok(()) => progress.done("cluster", "ready"),
            Err(error) => {
                progress.failed("cluster", "not Ready");
                bail!("the machines are up but the cluster is not: {error:#}{}", self.unhealthy_parts());
            }
        }
        Ok(())
    }

    fn boot_ids(&self) -> anyhow::Result<BTreeMap<String, String>> {
        let nodes = (1..=self.record.spec.nodes).map(|number| Machine::Node(number).name());
        nodes
            .map(|node| {
                let pid = launch::pid(&self.home, &node).with_context(|| format!("{node} is not running"))?;
                let path = format!("/proc/{pid}/root{}", crate::root::BOOT_ID);
                let boot = fs::read_to_string(&path).with_context(|| format!("reading {path}"))?;
                Ok((node, boot))
            })
            .collect()
    }

    /// Names the parts that keep ending, with the end of their logs: most often the cause of a cluster that is not Ready.
    fn unhealthy_parts(&self) -> String {
        let mut text = String::new();
        for machine in self.status() {
            for part in machine.parts.iter().filter(|part| part.restarts > 0) {
                let reason = part.reason.as_deref().unwrap_or("ended");
                text.push_str(&format!(
                    "\n{}/{} {reason} ({} restarts){}",
                    machine.machine,
                    part.name,
                    part.restarts,
                    logs::tail(&self.home, &machine.machine, &part.name)
                ));
            }
        }
        text
    }

    /// State of every machine and part.
    pub fn status(&self) -> Vec<MachineStatus> {
        let machines = self.record.spec.machines();
        let names = machines.iter().map(Machine::name);
        names
            .map(|machine| {
                let pid = launch::pid(&self.home, &machine);
                let parts = match pid.map(|_| self.ask(&machine, &Request::Status)) {
                    Some(Ok(Reply::Parts(parts))) => parts,
                    _ => Vec::new(),
                };
                MachineStatus { machine, pid, parts }
            })
            .collect()
    }

    /// Power-cycles one machine: everything running in it is killed, its files stay.
    pub fn restart_node(&self, name: &str) -> anyhow::Result<()> {
        self.restart(&[self.record.spec.machine(name)?], &Progress::quiet())
    }

    /// Power-cycles all machines.
    pub fn restart_all(&self) -> anyhow::Result<()> {
        self.restart(&self.record.spec.machines(), &Progress::quiet())
    }

    /// Power-cycles these machines and returns when the cluster is Ready again.
    pub fn restart(&self, machines: &[Machine], progress: &Progress) -> anyhow::Result<()> {
        let _lock = lock(&self.home)?;
        self.end_machines(machines)?;
        self.boot(machines, progress)
    }

    /// Sends a signal to one part of one machine, e.g. to see it killed and restarted.
    pub fn kill_part(&self, machine: &str, part: &str, signal: Signal) -> anyhow::Result<()> {
        self.ask(
            machine,
            &Request::Kill {
                part: part.into(),
                signal: signal as i32,
            },
        )
        .map(drop)
        .with_context(|| format!("signalling {machine}/{part}"))
    }

    /// Sends a signal to a whole machine: with SIGKILL it is gone as if its power was cut, until it is restarted.
    pub fn kill_machine(&self, name: &str, signal: Signal) -> anyhow::Result<()> {
        let machine = self.status().into_iter().find(|machine| machine.machine == name);
        let pid = machine
            .and_then(|machine| machine.pid)
            .with_context(|| format!("no machine {name} runs"))?;
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), signal).with_context(|| format!("signalling {name}"))
    }

    /// A node, or any machine by name.
    pub fn node(&self, name: &str) -> Shell<'_> {
        Shell::machine(&self.record.spec, name)
    }

    /// The machine with the databases and the API server.
    pub fn control(&self) -> Shell<'_> {
        self.node(CONTROL)
    }

    /// The host outside the cluster.
    pub fn outside(&self) -> Shell<'_> {
        self.node(OUTSIDE)
    }

    /// A pod's network.
    pub fn pod(&self, namespace: &str, name: &str) -> Shell<'_> {
        Shell::pod(&self.record.spec, namespace, name)
    }

    /// Runs kubectl against the lab and returns what it prints.
    pub fn kubectl<S: AsRef<str>>(&self, arguments: &[S]) -> anyhow::Result<String> {
        self.control().run_words(&with_kubectl(arguments))
    }

    /// `kubectl apply` of this text.
    pub fn apply(&self, manifest: &str) -> anyhow::Result<String> {
        self.control().run_with_input(&["kubectl", "apply", "-f", "-"], manifest)
    }

    /// The node that OVN prefers to answer for a service's external addresses, once it does.
    pub fn announcing_node(&self, namespace: &str, service: &str) -> anyhow::Result<String> {
        let owner = format!("external_ids:\"netloom.io/owner\"=\"Service/{namespace}/{service}\"");
        let columns = "--columns=chassis_name";
        let find = ["ovn-nbctl", "--bare", columns, "find", "HA_Chassis", "priority=100", &owner];
        let node = self.control().run(&find)?.trim().to_owned();
        let port = format!("announcer_{namespace}_{service}_port");
        let hosting = format!("status:hosting-chassis={node}");
        let wait = ["ovn-nbctl", "--timeout=30", "wait-until", "Logical_Router_Port", &port, &hosting];
        self.control().run(&wait)?;
        Ok(node)
    }

    /// Removes the lab: processes, namespaces, mounts and files.
    pub fn down(mut self) -> anyhow::Result<()> {
        self.remove_on_drop = false;
        let _lock = lock(&self.home)?;
        self.remove()
    }

    fn remove(&self) -> anyhow::Result<()> {
        let mut problems = Vec::new();
        let mut note = |result: anyhow::Result<()>| problems.extend(result.err().map(|error| format!("{error:#}")));
        note(self.end_machines(&self.record.spec.machines()));
        if self.home.underlay().exists() {
            note(
                umount2(&self.home.underlay(), MntFlags::MNT_DETACH)
                    .context("unpinning the underlay")
                    .or_else(not_mounted),
            );
        }
        note(crate::image::release(&self.home));
        for directory in [self.home.run(), self.home.state()] {
            note(match fs::remove_dir_all(directory) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    Err(error).with_context(|| format!("removing {}", directory.display()))
                }
                _ => Ok(()),
            });
            // The last lab also takes the directory of labs with it; with others there, this fails as it should.
            if let Some(parent) = directory.parent() {
                let _ = fs::remove_file(parent.join(format!("{}.lock", self.record.spec.name)));
                let _ = fs::remove_dir(parent);
            }
        }
        ensure!(problems.is_empty(), "{}", problems.join("; "));
        Ok(())
    }

    fn end_machines(&self, machines: &[Machine]) -> anyhow::Result<()> {
        thread::scope(|scope| {
            let ends: Vec<_> = machines
                .iter()
                .map(|machine| scope.spawn(|| end(&self.home, &machine.name())))
                .collect();
            ends.into_iter()
                .try_for_each(|end| end.join().unwrap_or_else(|_| Err(anyhow!("a thread ending a machine panicked"))))
        })
    }

    fn ask(&self, machine: &str, request: &Request) -> anyhow::Result<Reply> {
        let socket = self.home.init_socket(machine);
        block_on(ask(&socket, request))
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if self.remove_on_drop
            && let Err(error) = self.remove()
        {
            eprintln!("removing lab {}: {error:#}", self.record.spec.name);
        }
    }
}

fn with_kubectl<S: AsRef<str>>(arguments: &[S]) -> Vec<String> {
    std::iter::once("kubectl")
        .chain(arguments.iter().map(AsRef::as_ref))
        .map(String::from)
        .collect()
}

fn not_mounted(error: anyhow::Error) -> anyhow::Result<()> {
    match error.downcast_ref::<nix::errno::Errno>() {
        Some(nix::errno::Errno::EINVAL) => Ok(()),
        _ => Err(error),
    }
}

/// One command at a time may change a lab.
fn lock(home: &Home) -> anyhow::Result<Flock<fs::File>> {
    let path = home.run().with_extension("lock");
    fs::create_dir_all("/run/netloom").context("creating /run/netloom")?;
    let file = fs::File::create(&path).with_context(|| format!("opening {}", path.display()))?;
    Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|_| anyhow!("another command is changing this lab; wait for it to finish"))
}

fn resolve_datapath(asked: Datapath) -> anyhow::Result<Datapath> {
    if asked == Datapath::Userspace {
        return Ok(asked);
    }
    let loaded = || fs::exists("/sys/module/openvswitch").unwrap_or(false);
    let modprobe = || {
        std::process::Command::new("modprobe")
            .arg("openvswitch")
            .stderr(std::process::Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    };
    match (loaded() || modprobe(), asked) {
        (true, _) => Ok(Datapath::Kernel),
        (false, Datapath::Kernel) => bail!("this kernel has no openvswitch module: use `--datapath userspace`"),
        (false, _) => Ok(Datapath::Userspace),
    }
}

fn free_port() -> anyhow::Result<u16> {
    let probe = TcpListener::bind("127.0.0.1:0").context("looking for a free port")?;
    Ok(probe.local_addr()?.port())
}

/// Runs a future on a thread of its own, so that callers may or may not have a runtime.
fn block_on<T: Send>(future: impl Future<Output = anyhow::Result<T>> + Send) -> anyhow::Result<T> {
    thread::scope(|scope| {
        let thread = scope.spawn(|| tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(future));
        thread
            .join()
            .unwrap_or_else(|_| Err(anyhow!("a thread talking to the lab panicked")))
    })
}
