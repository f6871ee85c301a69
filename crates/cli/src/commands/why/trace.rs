//! The second opinion: `ovn-trace` on the Southbound database, run where it can be reached. A thin shell around [`super::microflow`].

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use netloom_discovery::{Database, Service};
use netloom_lab::{Home, Lab};
use netloom_ovsdb::client::Tls;
use netloom_policy::{Cluster, Name, Party, Question, Verdict};
use serde::Serialize;

use super::microflow::{self, Microflow};
use super::read::Living;

/// How many seconds a database may take to answer.
const PATIENCE: &str = "20";
/// Exit code of `timeout` when they are over.
const TOO_LONG: i32 = 124;
/// The Southbound database's socket on the machine, or in the pod, it runs on.
const SOCKET: &str = "unix:/run/ovn/ovnsb_db.sock";
/// Labels of Netloom's pods with the databases.
const DATABASES: [(&str, &str); 2] = [("app.kubernetes.io/name", "netloom"), ("app.kubernetes.io/component", "ovn")];

/// Where `ovn-trace` runs.
pub enum Tracer {
    /// In a lab's control machine.
    Lab(Box<Lab>),
    /// Here, in a pod of Netloom.
    Here {
        /// Southbound servers.
        southbound: String,
        /// Certificates for them.
        tls: Option<Tls>,
    },
    /// In a pod with the databases, by kubectl.
    Pod {
        /// How kubectl reaches the cluster.
        kubeconfig: Option<PathBuf>,
        /// The pod.
        pod: Name,
    },
}

/// What the traces say.
#[derive(Debug, Default, Serialize)]
pub struct Trace {
    /// Whether all traces say what the verdict does; none if nothing was traced.
    pub agrees: Option<bool>,
    /// Packets that were traced.
    pub packets: Vec<Packet>,
    /// Why others were not.
    pub skipped: Vec<String>,
}

/// A packet that was traced.
#[derive(Debug, Serialize)]
pub struct Packet {
    /// Which of the verdict's flows it stands for, from 0.
    pub flow: usize,
    /// Source address.
    pub from: IpAddr,
    /// Destination address: a service's, if it goes through one.
    pub to: IpAddr,
    /// Whether it arrives.
    pub allowed: bool,
}

impl Tracer {
    /// The nearest place there is; otherwise why there is none.
    pub async fn find(kubeconfig: Option<PathBuf>, databases: Option<Service>, tls: Option<Tls>, cluster: &Cluster) -> Result<Self> {
        if let Some(databases) = databases {
            let client = netloom_controller::kubernetes(kubeconfig.as_deref()).await?;
            let mut members = netloom_discovery::watch(client, databases.clone());
            let waiting = std::time::Duration::from_secs(5);
            let members = tokio::time::timeout(waiting, netloom_discovery::known(&mut members)).await;
            let members = members.with_context(|| format!("service {databases} of the databases has no endpoints"))?;
            let southbound = members.remotes(Database::Southbound, tls.is_some());
            let southbound = southbound.context("no Southbound server is known")?.to_string();
            return Ok(Self::Here { southbound, tls });
        }
        let kubeconfig = kubeconfig.or_else(|| std::env::var_os("KUBECONFIG").map(PathBuf::from));
        if let Some(lab) = kubeconfig.as_deref().and_then(lab_of) {
            return Ok(Self::Lab(Box::new(lab)));
        }
        let of_databases = cluster.pods.iter().filter(|(_, pod)| {
            let has = |(label, value): (&str, &str)| pod.labels.get(label).is_some_and(|own| own == value);
            !pod.finished && DATABASES.into_iter().all(has)
        });
        let of_databases = of_databases.min_by_key(|(name, _)| *name);
        match of_databases {
            Some((pod, _)) => Ok(Self::Pod {
                kubeconfig,
                pod: pod.clone(),
            }),
            None => bail!("the Southbound database cannot be reached: this is not a lab, and no pod of the databases was found"),
        }
    }

    fn run(&self, program: &str, words: &[String]) -> Result<String> {
        let mut all = vec![
            "timeout".to_owned(),
            PATIENCE.to_owned(),
            program.to_owned(),
            "--no-leader-only".to_owned(),
        ];
        match self {
            Self::Lab(_) | Self::Pod { .. } => all.push(format!("--db={SOCKET}")),
            Self::Here { southbound, tls } => {
                all.push(format!("--db={southbound}"));
                for (flag, file) in tls.iter().flat_map(|tls| [("-p", &tls.key), ("-c", &tls.cert), ("-C", &tls.ca)]) {
                    all.extend([flag.to_owned(), file.display().to_string()]);
                }
            }
        }
        all.extend_from_slice(words);
        match self {
            Self::Lab(lab) => lab.control().run_words(&all),
            Self::Here { .. } => output(Command::new("timeout").args(&all[1..]), program),
            Self::Pod { kubeconfig, pod } => {
                let mut kubectl = Command::new("kubectl");
                kubectl.args(
                    kubeconfig
                        .iter()
                        .flat_map(|file| ["--kubeconfig".into(), file.clone().into_os_string()]),
                );
                kubectl
                    .args(["-n", &pod.namespace, "exec", &pod.name, "-c", "southbound", "--"])
                    .args(&all);
                output(&mut kubectl, &format!("kubectl exec {} -- {program}", pod.name))
            }
        }
    }

    fn ports(&self, names: &[String]) -> Result<BTreeMap<String, microflow::BoundPort>> {
        let mut words: Vec<String> = [
            "--format=json",
            "--if-exists",
            "--columns=logical_port,mac,datapath",
            "list",
            "Port_Binding",
        ]
        .map(str::to_owned)
        .to_vec();
        words.extend_from_slice(names);
        microflow::ports(&self.run("ovn-sbctl", &words)?).map_err(|why| anyhow!(why))
    }
}

/// The lab whose kubeconfig this is.
fn lab_of(kubeconfig: &Path) -> Option<Lab> {
    let wanted = kubeconfig.canonicalize().ok()?;
    let mut names = Home::all().into_iter();
    let name = names.find(|name| Home::of(name).kubeconfig().canonicalize().is_ok_and(|own| own == wanted))?;
    Lab::find(&name).ok().flatten()
}

fn output(command: &mut Command, what: &str) -> Result<String> {
    let output = command.output().with_context(|| format!("run {what}"))?;
    let said = String::from_utf8_lossy(&output.stderr)
        .trim()
        .lines()
        .collect::<Vec<_>>()
        .join("; ");
    ensure!(output.status.code() != Some(TOO_LONG), "{what} took longer than {PATIENCE} s");
    ensure!(output.status.success(), "{what}: {said}");
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

impl Trace {
    /// Nothing was traced.
    pub fn impossible(why: &anyhow::Error) -> Self {
        Self {
            skipped: vec![format!("{why:#}")],
            ..Self::default()
        }
    }

    /// Traces what stands for the flows of a verdict, of which this is the first number.
    pub fn add(&mut self, place: &Tracer, living: &Living, question: &Question, verdict: &Verdict, first: usize) {
        for (flow, number) in verdict.flows.iter().zip(first..) {
            let itself = flow.from.party == flow.to.party && matches!(flow.from.party, Party::Pod(_));
            let microflows = match microflow::microflows(&living.cluster, question, flow) {
                _ if itself => Err("traffic of a pod to itself is not traced".to_owned()),
                Ok(microflows) if living.kube_proxy && microflows.iter().any(|way| way.backend.is_some()) => {
                    Err("kube-proxy translates services, so OVN does not see which backend it chooses".to_owned())
                }
                microflows => microflows,
            };
            let traced = microflows
                .map_err(|why| anyhow!(why))
                .and_then(|microflows| trace(place, &microflows));
            match traced {
                Ok(traced) => {
                    for (way, allowed) in traced {
                        self.agrees = Some(self.agrees.unwrap_or(true) && allowed == flow.allowed);
                        let (from, to) = (way.source, way.destination);
                        self.packets.push(Packet {
                            flow: number,
                            from,
                            to,
                            allowed,
                        });
                    }
                }
                Err(why) => {
                    let why = format!("{why:#}");
                    if !self.skipped.contains(&why) {
                        self.skipped.push(why);
                    }
                }
            }
        }
    }

    /// A line for what there is to tell, for people.
    pub fn lines(&self, verdict: &Verdict) -> Vec<String> {
        let mut lines: Vec<String> = self
            .packets
            .iter()
            .filter_map(|packet| {
                let flow = verdict.flows.get(packet.flow)?;
                let said = if packet.allowed { "allowed" } else { "denied" };
                (packet.allowed != flow.allowed).then(|| {
                    format!(
                        "BUG: ovn-trace says {said} for {} to {}, {} {} ({} to {}), please report, unless something was changed just now",
                        flow.from, flow.to, flow.protocol, flow.port, packet.from, packet.to
                    )
                })
            })
            .collect();
        if self.agrees == Some(true) {
            lines.push(format!("trace: ovn-trace says the same ({})", count(self.packets.len())));
        }
        lines.extend(self.skipped.iter().map(|why| format!("note: not compared with ovn-trace: {why}")));
        lines
    }
}

fn count(packets: usize) -> String {
    if packets == 1 {
        "1 packet".to_owned()
    } else {
        format!("{packets} packets")
    }
}

fn trace(place: &Tracer, microflows: &[Microflow]) -> Result<Vec<(Microflow, bool)>> {
    let mut names: Vec<String> = microflows.iter().flat_map(Microflow::ports).collect();
    names.sort();
    names.dedup();
    let ports = place.ports(&names)?;
    let mut traced = Vec::new();
    for way in microflows {
        let words = way.arguments(&ports).map_err(|why| anyhow!(why))?;
        let said = place.run("ovn-trace", &words)?;
        traced.push((way.clone(), way.arrives(&said)));
    }
    Ok(traced)
}
