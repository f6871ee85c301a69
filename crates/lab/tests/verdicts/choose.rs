//! Which questions are asked about a cluster: of every kind of way a packet can take, with addresses and ports chosen at random.

mod networks;

use std::net::IpAddr;

use netloom_network::ipam::{MANAGEMENT_HOST, Mac};
use netloom_policy::{Name, Protocol, Source, Target};
use serde_json::Value;

use crate::questions::{Expected, Question};
use crate::world::{Compiler, Port, World, node_addresses, pod_name};
use netloom_lab_fixtures::generate::{Random, of_kind, text};

/// Ports to ask about: those that pods have, and some that nobody has.
const PORTS: &[u16] = &[80, 80, 81, 81, 8080, 5060, 9, 1, 65535];
const PROTOCOLS: &[Protocol] = &[Protocol::Tcp, Protocol::Tcp, Protocol::Udp, Protocol::Sctp];

/// So many questions about a cluster, of all kinds.
pub fn questions(random: &mut Random, world: &World, compiler: &Compiler, count: usize) -> Vec<Question> {
    let pods: Vec<&Value> = world.pods().collect();
    let nodes: Vec<&Value> = of_kind(&world.objects, "Node").collect();
    let services: Vec<&Value> = of_kind(&world.objects, "Service").collect();
    let hosts: Vec<&Value> = world.host_pods().collect();
    let mut questions = Vec::new();
    if pods.is_empty() {
        return questions;
    }
    let on_networks: Vec<&Value> = pods
        .iter()
        .copied()
        .filter(|pod| !compiler.pod_port(pod).on_network.is_empty())
        .collect();
    while questions.len() < count {
        let (one, other) = (*random.pick(&pods), *random.pick(&pods));
        let node = *random.pick(&nodes);
        if !on_networks.is_empty() && random.chance(40) {
            let other = *random.pick(&on_networks);
            let other = compiler.pod_port(other);
            // Mostly from one of its neighbours, if it has any.
            let near: Vec<&Value> = on_networks
                .iter()
                .copied()
                .filter(|pod| compiler.pod_port(pod).switch == other.switch)
                .collect();
            let one = if random.chance(70) { *random.pick(&near) } else { one };
            questions.extend(networks::question(random, compiler, one, other));
            continue;
        }
        let asking = Asking { random, compiler };
        questions.extend(match asking.random.below(20) {
            0..=8 => asking.pod_to_pod(one, other),
            9..=11 if !services.is_empty() => {
                let service = *asking.random.pick(&services);
                asking.pod_to_service(one, service)
            }
            12 if !services.is_empty() => {
                let service = *asking.random.pick(&services);
                asking.node_to_service(node, service)
            }
            13 if !hosts.is_empty() => {
                let host = *asking.random.pick(&hosts);
                let node = nodes
                    .iter()
                    .find(|node| node["metadata"]["name"] == host["spec"]["nodeName"])
                    .unwrap();
                asking.node_to_pod(node, Some(host), other)
            }
            13..=15 => asking.node_to_pod(node, None, other),
            16 | 17 if asking.random.chance(25) => asking.impostor_to_pod(node, one, other),
            16 | 17 => asking.outside_to_pod(node, other),
            18 => asking.pod_to_outside(one),
            _ => asking.pod_to_node(one, node),
        });
    }
    questions
}

struct Asking<'a> {
    random: &'a mut Random,
    compiler: &'a Compiler,
}

/// Both ends.
struct Ends {
    from: (Source, Port),
    to: (Target, Vec<IpAddr>),
    /// The switch the destination is on, with its hardware address there.
    near: Option<(String, Mac)>,
    arrives: Option<String>,
}

impl Asking<'_> {
    fn pod_to_pod(self, one: &Value, other: &Value) -> Option<Question> {
        let (from, to) = (self.compiler.pod_port(one), self.compiler.pod_port(other));
        if from.name == to.name {
            return None; // a pod's packets to itself never leave it
        }
        let ends = Ends {
            from: (Source::Pod(name(one)), from),
            to: (Target::Pod(name(other)), to.addresses),
            // On a network these addresses are nobody's neighbour.
            near: Some((to.switch, to.mac)).filter(|_| to.on_network.is_empty()),
            arrives: Some(to.name),
        };
        self.question("pod to pod", ends, None)
    }

    /// From a node, or from a pod that shares its network.
    fn node_to_pod(self, node: &Value, host: Option<&Value>, pod: &Value) -> Option<Question> {
        let (mut from, to) = (self.compiler.management_port(node), self.compiler.pod_port(pod));
        let kind = if from.switch == text(pod, "/spec/nodeName") {
            "own node to pod"
        } else {
            "other node to pod"
        };
        if !to.on_network.is_empty() {
            // There the node is known by the address it has among pods, as it sends from unless told otherwise.
            from.addresses.retain(|address| !node_addresses(node).contains(address));
        }
        let source = host.map_or_else(
            || Source::Node(text(node, "/metadata/name").to_owned()),
            |host| Source::Pod(name(host)),
        );
        let ends = Ends {
            from: (source, from),
            to: (Target::Pod(name(pod)), to.addresses),
            near: Some((to.switch, to.mac)),
            arrives: Some(to.name),
        };
        self.question(kind, ends, None)
    }

    fn outside_to_pod(self, node: &Value, pod: &Value) -> Option<Question> {
        let source = *self.random.pick(&self.compiler.uplink(node).addresses);
        self.by_the_uplink("outside to pod", node, source, pod)
    }

    /// From outside, by an address that is a pod's or its node's among pods: policies would know it for one of them.
    fn impostor_to_pod(self, node: &Value, one: &Value, other: &Value) -> Option<Question> {
        let of_node = self.compiler.hosts(text(other, "/spec/nodeName"), MANAGEMENT_HOST);
        let source = *self.random.pick(&[self.compiler.pod_port(one).addresses, of_node].concat());
        Some(Question {
            expected: Expected::Nobody,
            ..self.by_the_uplink("never from outside as one inside", node, source, other)?
        })
    }

    fn by_the_uplink(self, kind: &'static str, node: &Value, source: IpAddr, pod: &Value) -> Option<Question> {
        let (from, to) = (self.compiler.uplink(node), self.compiler.pod_port(pod));
        let from = Port {
            addresses: vec![source],
            ..from
        };
        let ends = Ends {
            near: None,
            from: (Source::Address(source), from),
            to: (Target::Pod(name(pod)), to.addresses),
            arrives: Some(to.name),
        };
        self.question(kind, ends, None)
    }

    fn pod_to_outside(self, pod: &Value) -> Option<Question> {
        let from = self.compiler.pod_port(pod);
        let to: IpAddr = self.random.pick(&crate::world::OUTSIDE).parse().unwrap();
        let ends = Ends {
            arrives: Some(format!("uplink_{}", text(pod, "/spec/nodeName"))),
            from: (Source::Pod(name(pod)), from),
            to: (Target::Address(to), vec![to]),
            near: None,
        };
        self.question("pod to outside", ends, None)
    }

    fn pod_to_node(self, pod: &Value, node: &Value) -> Option<Question> {
        let (from, to) = (self.compiler.pod_port(pod), self.compiler.management_port(node));
        // The management port's own address is of the node's switch; the others are routed there.
        let destination = *self.random.pick(&to.addresses);
        let inside = !node_addresses(node).contains(&destination);
        let ends = Ends {
            from: (Source::Pod(name(pod)), from),
            to: (Target::Address(destination), vec![destination]),
            near: inside.then_some((to.switch, to.mac)),
            arrives: Some(to.name),
        };
        self.question("pod to node", ends, None)
    }

    fn pod_to_service(self, pod: &Value, service: &Value) -> Option<Question> {
        let from = (Source::Pod(name(pod)), self.compiler.pod_port(pod));
        self.through_service("pod to service", from, service)
    }

    fn node_to_service(self, node: &Value, service: &Value) -> Option<Question> {
        let from = (
            Source::Node(text(node, "/metadata/name").to_owned()),
            self.compiler.service_port(node),
        );
        self.through_service("node to service", from, service)
    }

    fn through_service(self, kind: &'static str, from: (Source, Port), service: &Value) -> Option<Question> {
        let addresses = service["spec"]["clusterIPs"].as_array().unwrap();
        let addresses = addresses.iter().map(|address| address.as_str().unwrap().parse().unwrap());
        let ports = service["spec"]["ports"].as_array().unwrap();
        let port = self.random.pick(ports);
        let protocol = Protocol::parse(text(port, "/protocol")).unwrap();
        let number = u16::try_from(port["port"].as_u64().unwrap()).unwrap();
        let ends = Ends {
            from,
            to: (Target::Service(name(service)), addresses.collect()),
            near: None,
            arrives: None,
        };
        self.question(kind, ends, Some((protocol, number)))
    }

    /// Chooses addresses of one family, and a port unless one is given.
    fn question(self, kind: &'static str, ends: Ends, port: Option<(Protocol, u16)>) -> Option<Question> {
        let destination = *self.random.pick(&ends.to.1);
        let same = |ip: &&IpAddr| ip.is_ipv4() == destination.is_ipv4();
        let sources: Vec<IpAddr> = ends.from.1.addresses.iter().filter(same).copied().collect();
        if sources.is_empty() {
            return None;
        }
        let source = *self.random.pick(&sources);
        let (protocol, port) = port.unwrap_or_else(|| (*self.random.pick(PROTOCOLS), *self.random.pick(PORTS)));
        let switch = &ends.from.1.switch;
        let next_hop = match ends.near {
            Some((near, mac)) if near == *switch => mac,
            _ => ends.from.1.router,
        };
        Some(Question {
            kind,
            expected: Expected::Verdict,
            ask: netloom_policy::Question {
                from: ends.from.0,
                to: ends.to.0,
                protocol,
                port,
            },
            from: ends.from.1,
            source,
            destination,
            next_hop,
            arrives: ends.arrives,
        })
    }
}

fn name(object: &Value) -> Name {
    let name = pod_name(object);
    Name::new(name.namespace, name.name)
}
