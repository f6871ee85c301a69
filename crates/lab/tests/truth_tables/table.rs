//! Who is asked by whom, what the answer must be, and what it is.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::thread;

use netloom_lab::echo::client::Attempt;
use netloom_policy::{Name, Source, Target, judge};
use serde_json::Value;

use crate::cluster::Cluster;
use netloom_lab_fixtures::ask::{Protocol, kernel_datapath};
use netloom_lab_fixtures::generate::{of_kind, text};

/// How long an answer may take that must come, and how often it is asked for; and how long one is waited for that must not.
const PATIENCE_MS: u32 = 8_000;
const ATTEMPTS: u32 = 4;
const SILENCE_MS: u32 = 1_500;

/// One question.
struct Question {
    /// The pod or node that asks.
    from: String,
    to: SocketAddr,
    protocol: Protocol,
    /// Whether there must be an answer.
    allowed: bool,
}

/// All of them.
pub struct Table(Vec<Question>);

/// The table of a cluster: pods and nodes to every port of every pod, and to services whose backends are all judged alike.
pub fn of(objects: &Value) -> Table {
    let mut evaluator = netloom_policy::Cluster::default();
    evaluator.add_manifest(objects).unwrap();
    let items = objects["items"].as_array().unwrap();
    let name = |object: &Value| Name::new(text(object, "/metadata/namespace"), text(object, "/metadata/name"));
    let pods: Vec<&Value> = of_kind(items, "Pod")
        .filter(|pod| !["marker", "kube-system"].contains(&text(pod, "/metadata/namespace")))
        .collect();
    // Where it comes from, who that is, and the addresses it has there.
    let mut senders: Vec<(String, Source, Vec<IpAddr>)> = Vec::new();
    for pod in &pods {
        senders.push((
            name(pod).to_string(),
            Source::Pod(name(pod)),
            addresses(pod, "/status/podIPs", "/ip"),
        ));
    }
    // In the emulated machine of the kernel's datapath every question takes its time.
    for (node, found) in evaluator.nodes.iter().filter(|_| !kernel_datapath()) {
        // A node's first address in each of its subnets is the one it talks to pods from.
        let inside = found.inside.iter().step_by(2).copied().collect();
        senders.push((node.clone(), Source::Node(node.clone()), inside));
    }
    let mut questions = Vec::new();
    for (from, source, own) in &senders {
        for to in &pods {
            if *from == name(to).to_string() {
                continue;
            }
            let ports = ports(to);
            for (protocol, port) in &ports {
                let question = netloom_policy::Question {
                    from: source.clone(),
                    to: Target::Pod(name(to)),
                    protocol: policy_protocol(*protocol),
                    port: *port,
                };
                let verdict = judge(&evaluator, &question).unwrap();
                for address in addresses(to, "/status/podIPs", "/ip") {
                    let own = own.iter().find(|own| own.is_ipv4() == address.is_ipv4()).unwrap();
                    let flow = verdict
                        .flows
                        .iter()
                        .find(|flow| flow.from.addresses.contains(own) && flow.to.addresses.contains(&address));
                    questions.push(Question {
                        from: from.clone(),
                        to: SocketAddr::new(address, *port),
                        protocol: *protocol,
                        allowed: flow.unwrap().allowed,
                    });
                }
            }
        }
    }
    let services = of_kind(items, "Service").filter(|service| text(service, "/metadata/name").starts_with('s'));
    for service in services {
        for port in service["spec"]["ports"].as_array().into_iter().flatten() {
            let number = u16::try_from(port["port"].as_u64().unwrap()).unwrap();
            let Some(protocol) = protocol(text(port, "/protocol")) else {
                continue;
            };
            for (from, source, _) in senders.iter().filter(|(_, source, _)| matches!(source, Source::Pod(_))) {
                for address in addresses(service, "/spec/clusterIPs", "/none") {
                    let question = netloom_policy::Question {
                        from: source.clone(),
                        to: Target::Address(address),
                        protocol: policy_protocol(protocol),
                        port: number,
                    };
                    let Ok(verdict) = judge(&evaluator, &question) else { continue };
                    let allowed = verdict.allowed;
                    let listens = |ip: &IpAddr, port: u16| {
                        let pod = pods.iter().find(|pod| addresses(pod, "/status/podIPs", "/ip").contains(ip));
                        pod.is_some_and(|pod| ports(pod).contains(&(protocol, port)))
                    };
                    let alike = verdict
                        .flows
                        .iter()
                        .all(|flow| flow.allowed == allowed && flow.to.addresses.iter().all(|ip| listens(ip, flow.port)));
                    if alike {
                        questions.push(Question {
                            from: from.clone(),
                            to: SocketAddr::new(address, number),
                            protocol,
                            allowed,
                        });
                    }
                }
            }
        }
    }
    Table(questions)
}

impl Table {
    /// How many must be answered, and how many must not.
    pub fn count(&self) -> (usize, usize) {
        let allowed = self.0.iter().filter(|question| question.allowed).count();
        (allowed, self.0.len() - allowed)
    }

    /// Asks them all and tells every answer that is not as it must be.
    pub fn wrong(&self, cluster: &Cluster) -> Vec<String> {
        let mut by_sender: BTreeMap<&str, Vec<&Question>> = BTreeMap::new();
        for question in &self.0 {
            by_sender.entry(&question.from).or_default().push(question);
        }
        let ask = |(from, questions): (&str, Vec<&Question>)| -> Vec<String> {
            let shell = match from.split_once('/') {
                Some((namespace, name)) => cluster.lab.pod(namespace, name),
                None => cluster.lab.node(from),
            };
            let said = shell.run(&["bash", "-c", &script(&questions)]).unwrap();
            let answers: BTreeMap<usize, &str> = said
                .lines()
                .filter_map(|line| line.split_once(' '))
                .map(|(number, line)| (number.parse().unwrap(), line))
                .collect();
            let check = |(number, question): (usize, &&Question)| {
                let line = answers
                    .get(&number)
                    .unwrap_or_else(|| panic!("{from}: no answer to {number} in {said}"));
                let attempt: Attempt = serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"));
                let answered = attempt.outcome == "ok";
                (answered != question.allowed).then(|| {
                    let Question {
                        from,
                        to,
                        protocol,
                        allowed,
                        ..
                    } = question;
                    format!("{from} to {to} {protocol:?}: must it be answered? {allowed}; {line}")
                })
            };
            questions.iter().enumerate().filter_map(check).collect()
        };
        thread::scope(|scope| {
            let asked: Vec<_> = by_sender.into_iter().map(|one| scope.spawn(move || ask(one))).collect();
            asked.into_iter().flat_map(|answers| answers.join().unwrap()).collect()
        })
    }
}

/// Asks some at the same time and prints a line for each, with its number before. Of packets that may pass one may still be lost, so who must
/// answer is asked again.
fn script(questions: &[&Question]) -> String {
    let together = if kernel_datapath() { 4 } else { 24 };
    let one = |(number, question): (usize, &&Question)| {
        let (to, protocol) = (question.to, question.protocol.name().to_uppercase());
        let (times, timeout) = if question.allowed {
            (ATTEMPTS, PATIENCE_MS)
        } else {
            (1, SILENCE_MS)
        };
        let ask = format!("netloom lab ask {to} --protocol {protocol} --count 1 --timeout-ms {timeout} --json");
        let turn = if (number + 1) % together == 0 { "wait\n" } else { "" };
        format!(
            "(for try in {{1..{times}}}; do line=$({ask}); [[ $line == *'\"outcome\":\"ok\"'* ]] && break; done; echo \"{number} $line\") &\n{turn}"
        )
    };
    let all: String = questions.iter().enumerate().map(one).collect();
    // Several writers of one memory file may overwrite each other's lines; those of a pipe do not.
    format!("{{\n{all}wait\n}} | cat")
}

fn addresses(object: &Value, list: &str, field: &str) -> Vec<IpAddr> {
    let list = object.pointer(list).and_then(Value::as_array).into_iter().flatten();
    list.filter_map(|one| one.pointer(field).unwrap_or(one).as_str()?.parse().ok())
        .collect()
}

/// Ports a pod answers on, as far as this datapath has their protocols.
fn ports(pod: &Value) -> Vec<(Protocol, u16)> {
    let containers = pod["spec"]["containers"].as_array().into_iter().flatten();
    let ports = containers.flat_map(|container| container["ports"].as_array().into_iter().flatten());
    ports
        .filter_map(|port| {
            Some((
                protocol(port["protocol"].as_str().unwrap_or("TCP"))?,
                u16::try_from(port["containerPort"].as_u64()?).ok()?,
            ))
        })
        .collect()
}

fn protocol(text: &str) -> Option<Protocol> {
    Protocol::available()
        .into_iter()
        .find(|protocol| protocol.name().to_uppercase() == text)
}

fn policy_protocol(protocol: Protocol) -> netloom_policy::Protocol {
    match protocol {
        Protocol::Tcp => netloom_policy::Protocol::Tcp,
        Protocol::Udp => netloom_policy::Protocol::Udp,
        Protocol::Sctp => netloom_policy::Protocol::Sctp,
    }
}
