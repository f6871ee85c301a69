//! The table: kinds of address × protocols × places × families × policies. Each line says who may answer and whom the answerer must see.
//!
//! Backends are on node1 and node2, none is on node3. So node3 shows what happens where there is none.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Mutex;
use std::thread;

use netloom_lab::echo::client::Attempt;
use netloom_lab::{Lab, Machine, Shell};

use crate::{POOL, backend, field, service, steady_lab, wait_for};
use netloom_lab_fixtures::ask::{Ask, Protocol, answered, ask, failed, names};
use netloom_lab_fixtures::world::{addresses, announced_by, ended, pod, wait_ready};

/// Two backends and so many questions: that one of them never answers by chance is less likely than one in eight million.
const QUESTIONS: usize = 24;
/// After so many, where every backend there is may answer, it is enough that all have.
const ENOUGH: usize = 8;
/// Served by all nodes, announced by none: the host outside has a route to it through one node.
const ROUTED: [&str; 4] = ["198.51.100.1", "2001:db8:100::1", "198.51.100.2", "2001:db8:100::2"];
const ROUTED_POOL: &str = "apiVersion: netloom.io/v1alpha1\nkind: ExternalPool\nmetadata: { name: routed }\n\
    spec: { cidrs: [198.51.100.0/24, \"2001:db8:100::/120\"], autoAssign: false }\n---\n";

#[test]
fn every_kind_of_service_answers_as_kubernetes_defines_it() {
    let lab = steady_lab("services");
    let world = World::new(&lab);
    let mut lines = Vec::new();
    for family in [4, 6] {
        for protocol in Protocol::available() {
            for service in ["cluster", "local"] {
                lines.extend(world.cluster_ip(service, protocol, family));
                lines.extend(world.node_port(service, protocol, family));
                lines.extend(world.external(service, protocol, family));
                lines.extend(world.load_balancer(service, protocol, family));
            }
        }
    }
    // Who must answer first: that shows that a service is in place, and only then silence means something.
    lines.sort_by_key(|line| line.answer.is_none());
    let (answered, silent): (Vec<&Line>, Vec<&Line>) = lines.iter().partition(|line| line.answer.is_some());
    println!("{} lines of which {} must stay silent", lines.len(), silent.len());
    assert!(!silent.is_empty() && answered.len() > silent.len());
    let mut wrong = world.check(&answered);
    wrong.extend(world.check(&silent));
    assert_eq!(wrong, Vec::<String>::new());
    assert_eq!(ended(&lab), Vec::<String>::new(), "parts crashed");
}

/// A place packets come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Client {
    Pod(&'static str),
    Node(usize),
    Outside,
}

/// One line of the table.
#[derive(Debug)]
struct Line {
    what: String,
    from: Client,
    protocol: Protocol,
    address: IpAddr,
    port: u16,
    /// Backends that must all answer, and the address they must see; none when nobody may answer.
    answer: Option<(BTreeSet<&'static str>, IpAddr)>,
}

struct World<'a> {
    lab: &'a Lab,
    pods: BTreeMap<String, Vec<IpAddr>>,
    /// What commands said, each of which is asked once: in an emulated machine they take seconds.
    said: Mutex<BTreeMap<String, String>>,
}

const BOTH: [&str; 2] = ["back1", "back2"];

impl<'a> World<'a> {
    fn new(lab: &'a Lab) -> Self {
        let pods = backend("back1", "node1", "back") + &backend("back2", "node2", "back") + &pod("near", "node1") + &pod("far", "node3");
        let [v4, v6, local4, local6] = ROUTED;
        let all = |more: &[&str], addresses: String| {
            let mut lines = vec!["type: LoadBalancer".to_owned(), addresses];
            lines.extend(more.iter().map(|line| (*line).to_owned()));
            lines
        };
        let cluster = all(&[], format!("externalIPs: [{v4}, \"{v6}\"]"));
        let local = all(
            &["externalTrafficPolicy: Local", "internalTrafficPolicy: Local"],
            format!("externalIPs: [{local4}, \"{local6}\"]"),
        );
        let text = |lines: &[String]| lines.iter().map(String::as_str).map(str::to_owned).collect::<Vec<_>>();
        let of = |name: &str, lines: &[String]| service(name, "back", &text(lines).iter().map(String::as_str).collect::<Vec<_>>());
        lab.apply(&(POOL.to_owned() + ROUTED_POOL + &pods + &of("cluster", &cluster) + &of("local", &local)))
            .unwrap();
        wait_ready(lab);
        // Outside, the routed addresses are reached through node1, and through node3 by another route where a test says so.
        for address in ROUTED {
            let via = if address.contains(':') {
                IpAddr::from(Machine::Node(1).v6())
            } else {
                IpAddr::from(Machine::Node(1).v4())
            };
            lab.outside()
                .run(&["ip", "route", "replace", address, "via", &via.to_string()])
                .unwrap();
        }
        for name in ["cluster", "local"] {
            wait_for(lab, &format!("service/{name}"), "{.status.loadBalancer.ingress[1].ip}");
        }
        Self {
            lab,
            pods: addresses(lab),
            said: Mutex::default(),
        }
    }

    fn pod(&self, name: &str, family: u8) -> IpAddr {
        self.pods[name][usize::from(family == 6)]
    }

    fn node(&self, number: usize, family: u8) -> IpAddr {
        if family == 4 {
            Machine::Node(number).v4().into()
        } else {
            Machine::Node(number).v6().into()
        }
    }

    fn outside(&self, family: u8) -> IpAddr {
        if family == 4 {
            Machine::Outside.v4().into()
        } else {
            Machine::Outside.v6().into()
        }
    }

    /// The address a node has where it meets services: what backends see of the node itself.
    fn service_port(&self, number: usize, family: u8) -> IpAddr {
        self.address_of("Logical_Switch_Port", "addresses", &format!("service_node{number}"), family)
    }

    /// The address of a node's gateway inside the cluster: what backends see of clients outside when their address is not kept.
    fn gateway(&self, number: usize, family: u8) -> IpAddr {
        self.address_of("Logical_Router_Port", "networks", &format!("gateway_node{number}_to_join"), family)
    }

    fn once(&self, what: &str, ask: impl FnOnce() -> String) -> String {
        self.said.lock().unwrap().entry(what.to_owned()).or_insert_with(ask).clone()
    }

    fn field(&self, service: &str, path: &str) -> String {
        let object = format!("service/{service}");
        self.once(&format!("{object} {path}"), || field(self.lab, &object, path))
    }

    fn address_of(&self, table: &str, column: &str, name: &str, family: u8) -> IpAddr {
        let (columns, named) = (format!("--columns={column}"), format!("name={name}"));
        let command = ["ovn-nbctl", "--bare", &columns, "find", table, &named];
        let said = self.once(&command.join(" "), || self.lab.control().run(&command).unwrap());
        let mut found = said
            .split_whitespace()
            .filter_map(|word| word.split('/').next()?.parse::<IpAddr>().ok());
        found
            .find(|ip| ip.is_ipv4() == (family == 4))
            .unwrap_or_else(|| panic!("{name} has no address of family {family}: {said}"))
    }

    /// What a place is seen as by backends when it asks an address that its own node serves.
    fn seen(&self, from: Client, family: u8) -> IpAddr {
        match from {
            Client::Pod(name) => self.pod(name, family),
            Client::Node(number) => self.service_port(number, family),
            Client::Outside => self.outside(family),
        }
    }

    fn line(&self, what: String, from: Client, protocol: Protocol, to: (IpAddr, u16), answer: Option<(&[&'static str], IpAddr)>) -> Line {
        Line {
            what,
            from,
            protocol,
            address: to.0,
            port: to.1,
            answer: answer.map(|(names, seen)| (names.iter().copied().collect(), seen)),
        }
    }

    fn cluster_ip(&self, service: &str, protocol: Protocol, family: u8) -> Vec<Line> {
        let index = usize::from(family == 6);
        let address: IpAddr = self.field(service, &format!("{{.spec.clusterIPs[{index}]}}")).parse().unwrap();
        let places = [Client::Pod("near"), Client::Pod("far"), Client::Node(1), Client::Node(3)];
        let line = |from: Client| {
            let has_backend = matches!(from, Client::Pod("near") | Client::Node(1));
            let seen = self.seen(from, family);
            let answer: Option<(&[&'static str], IpAddr)> = match service {
                "cluster" => Some((&BOTH, seen)),
                _ if has_backend => Some((&["back1"], seen)),
                _ => None,
            };
            self.line(format!("ClusterIP {service}"), from, protocol, (address, 80), answer)
        };
        places.into_iter().map(line).collect()
    }

    fn node_port(&self, service: &str, protocol: Protocol, family: u8) -> Vec<Line> {
        let path = format!("{{.spec.ports[?(@.name==\"{}\")].nodePort}}", protocol.name());
        let port: u16 = self.field(service, &path).parse().unwrap();
        let mut lines = Vec::new();
        for number in [1, 3] {
            let to = (self.node(number, family), port);
            let what = format!("NodePort {service} of node{number}");
            for from in [
                Client::Pod("near"),
                Client::Pod("far"),
                Client::Node(1),
                Client::Node(3),
                Client::Outside,
            ] {
                let itself = from == Client::Node(number);
                let answer: Option<(&[&'static str], IpAddr)> = match (service, from) {
                    // The node itself is inside the cluster: every backend will do, also with policy Local, which shows its own address.
                    ("cluster", _) if itself => Some((&BOTH, self.service_port(number, family))),
                    _ if itself => Some((&BOTH, self.node(number, family))),
                    ("cluster", Client::Pod(_)) => Some((&BOTH, self.service_port(number, family))),
                    ("cluster", _) => Some((&BOTH, self.gateway(number, family))),
                    // With policy Local the node's own backend is meant, and it sees who asks.
                    (_, Client::Node(asker)) if number == 1 => Some((&["back1"], self.node(asker, family))),
                    (_, _) if number == 1 => Some((&["back1"], self.seen(from, family))),
                    _ => None,
                };
                lines.push(self.line(what.clone(), from, protocol, to, answer));
            }
        }
        lines
    }

    /// Addresses that somebody else's router leads to a node: here node1.
    fn external(&self, service: &str, protocol: Protocol, family: u8) -> Vec<Line> {
        let index = usize::from(family == 6) + if service == "local" { 2 } else { 0 };
        let to = (ROUTED[index].parse().unwrap(), 80);
        self.outward(&format!("externalIP {service}"), service, protocol, family, to, 1)
    }

    /// An address of the pool, answered for by one node.
    fn load_balancer(&self, service: &str, protocol: Protocol, family: u8) -> Vec<Line> {
        let ips = self.field(service, "{.status.loadBalancer.ingress[*].ip}");
        let address: IpAddr = ips
            .split_whitespace()
            .map(|ip| ip.parse().unwrap())
            .find(|ip: &IpAddr| ip.is_ipv4() == (family == 4))
            .unwrap();
        let announcing = || announced_by(self.lab, "default", service).to_string();
        let host = self.once(&format!("announcer of {service}"), announcing).parse().unwrap();
        self.outward(&format!("LoadBalancer {service}"), service, protocol, family, (address, 80), host)
    }

    /// An external address: whoever is inside the cluster is served by its own node, the rest by the node packets are led to.
    fn outward(&self, what: &str, service: &str, protocol: Protocol, family: u8, to: (IpAddr, u16), host: usize) -> Vec<Line> {
        let inside = [Client::Pod("near"), Client::Pod("far"), Client::Node(1), Client::Node(3)];
        let mut lines: Vec<Line> = inside
            .into_iter()
            .map(|from| self.line(what.to_owned(), from, protocol, to, Some((&BOTH, self.seen(from, family)))))
            .collect();
        let local: &[&'static str] = if host == 1 { &["back1"] } else { &["back2"] };
        let answer = match service {
            "cluster" => (&BOTH[..], self.gateway(host, family)),
            _ => (local, self.outside(family)),
        };
        lines.push(self.line(what.to_owned(), Client::Outside, protocol, to, Some(answer)));
        lines
    }

    fn shell(&self, place: Client) -> Shell<'_> {
        match place {
            Client::Pod(name) => self.lab.pod("default", name),
            Client::Node(number) => self.lab.node(&format!("node{number}")),
            Client::Outside => self.lab.outside(),
        }
    }

    /// Asks what every line says, each place on its own thread, and tells what was not as it should be.
    fn check(&self, lines: &[&Line]) -> Vec<String> {
        let places: BTreeSet<Client> = lines.iter().map(|line| line.from).collect();
        thread::scope(|scope| {
            let asked: Vec<_> = places
                .into_iter()
                .map(|place| {
                    scope.spawn(move || {
                        lines
                            .iter()
                            .filter(|line| line.from == place)
                            .filter_map(|line| self.verdict(line))
                            .collect::<Vec<_>>()
                    })
                })
                .collect();
            asked.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        })
    }

    fn verdict(&self, line: &Line) -> Option<String> {
        let shell = self.shell(line.from);
        let mut question = Ask::new(line.protocol, line.address, line.port);
        if line.from == Client::Outside {
            // The host outside has more addresses than one, and SCTP would use any of them.
            question = question.source(self.outside(if line.address.is_ipv4() { 4 } else { 6 }));
        }
        let wrong = |why: String| {
            Some(format!(
                "{} {:?} {}:{} from {:?}: {why}",
                line.what, line.protocol, line.address, line.port, line.from
            ))
        };
        let Some((backends, seen)) = &line.answer else {
            let answers = ask(&shell, &question.count(2).timeout_ms(300));
            // Dropped, as Kubernetes says: neither answered nor refused, and the client itself is in order.
            let silent = answers.iter().all(|attempt| attempt.outcome == "timeout");
            return if silent {
                None
            } else {
                wrong(format!("should be silent: {answers:?}"))
            };
        };
        let anybody = *backends == BTreeSet::from(BOTH);
        let first = if anybody { ENOUGH } else { QUESTIONS };
        let mut answers = ask(&shell, &question.clone().count(first));
        if answers[0].outcome != "ok" {
            // Nodes learn of a service each in its own time; from the first answer on, all is in place.
            if !answered(&ask(&shell, &question.clone().until_answered())) {
                return wrong("never answered".to_owned());
            }
            answers = ask(&shell, &question.clone().count(first));
        }
        let all = |answers: &[Attempt]| names(answers).iter().map(String::as_str).eq(BOTH);
        while anybody && answers.len() < QUESTIONS && !all(&answers) {
            answers.extend(ask(&shell, &question.clone().count(ENOUGH)));
        }
        // A datagram may be lost.
        let lost = usize::from(line.protocol == Protocol::Udp);
        if let Some(failed) = failed(&answers).get(lost) {
            return wrong(format!("{failed:?}"));
        }
        answers.retain(|attempt| attempt.outcome == "ok");
        let names: BTreeSet<&str> = answers.iter().map(|answer| answer.pod.as_str()).collect();
        if names != *backends {
            return wrong(format!("answered by {names:?}, should be {backends:?}"));
        }
        let strangers: BTreeSet<IpAddr> = answers
            .iter()
            .filter_map(|answer| Some(answer.client?.ip()))
            .filter(|client| client != seen)
            .collect();
        if strangers.is_empty() {
            None
        } else {
            wrong(format!("seen as {strangers:?}, should be {seen}"))
        }
    }
}
