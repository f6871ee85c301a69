//! Questions, each as a packet for `ovn-trace` and as a question for the evaluator, and whether both answer alike.

use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, SocketAddr};

use netloom_network::ipam::Mac;
use netloom_policy::{Cluster, Name, Source, Target, judge};

use crate::ovn::Tracer;
use crate::world::Port;

/// A packet and what it asks.
#[derive(Clone, Debug)]
pub struct Question {
    /// What kind it is, for the count.
    pub kind: &'static str,
    pub expected: Expected,
    pub ask: netloom_policy::Question,
    /// The port it comes from, and the address it has there.
    pub from: Port,
    pub source: IpAddr,
    pub destination: IpAddr,
    /// Hardware address it is sent to.
    pub next_hop: Mac,
    /// The port it must come to if it is allowed; of a service none is known before.
    pub arrives: Option<String>,
}

/// What is right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// What the evaluator says.
    Verdict,
    /// What it says where these addresses are those of the two pods.
    VerdictByAddress,
    /// That it comes to no pod, whatever policies say.
    NoPod,
    /// That it comes to nobody.
    Nobody,
}

/// What OVN does with a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fate {
    /// Ports it comes out of; none if it is dropped.
    pub outputs: BTreeSet<String>,
    /// The backend a service chose.
    pub backend: Option<SocketAddr>,
}

impl Fate {
    /// From the summary of a trace.
    fn read(text: &str) -> Self {
        let mut fate = Self {
            outputs: BTreeSet::new(),
            backend: None,
        };
        for line in text.lines() {
            if let Some((_, rest)) = line.split_once("/* output to \"") {
                let (name, kind) = rest.split_once("\", type \"").unwrap();
                // Patch ports lead on to the next datapath.
                if kind.starts_with('"') || kind.starts_with("localnet") {
                    fate.outputs.insert(name.to_owned());
                }
            }
            if let Some((_, list)) = line.split_once("(backends=")
                && fate.backend.is_none()
            {
                let list = list.split([')', ';']).next().unwrap_or_default();
                // Of several, ovn-trace chooses none; its --lb-dst would also be the destination of packets to no service.
                fate.backend = Some(list.parse().unwrap_or_else(|_| panic!("more than one backend: {list}")));
            }
        }
        fate
    }
}

/// Both answers to a question.
pub struct Answer {
    /// What the evaluator says.
    pub allowed: bool,
    /// How OVN differs from it.
    pub difference: Option<String>,
}

impl Question {
    fn packet(&self) -> String {
        let (source, destination) = (self.source, self.destination);
        let ip = if source.is_ipv4() { "ip4" } else { "ip6" };
        let protocol = self.ask.protocol.to_string().to_lowercase();
        format!(
            "inport == \"{}\" && eth.src == {} && eth.dst == {} && {ip}.src == {source} && {ip}.dst == {destination} && ip.ttl == 64 && \
             {protocol}.src == 10000 && {protocol}.dst == {}",
            self.from.name, self.from.mac, self.next_hop, self.ask.port
        )
    }

    /// Asks both; none if it has no answer: a service without a backend, or whose backend is the sender.
    pub fn ask(&self, tracer: &Tracer, cluster: &Cluster) -> Option<Answer> {
        match self.expected {
            Expected::Verdict => self.compare(tracer, cluster),
            Expected::VerdictByAddress => {
                let mut there = cluster.clone();
                if let (Source::Pod(from), Target::Pod(to)) = (&self.ask.from, &self.ask.to) {
                    there.pods.get_mut(from)?.addresses = vec![self.source];
                    there.pods.get_mut(to)?.addresses = vec![self.destination];
                }
                self.compare(tracer, &there)
            }
            Expected::NoPod => Some(self.stays_away(tracer, |port| port.starts_with("uplink_"))),
            Expected::Nobody => Some(self.stays_away(tracer, |_| false)),
        }
    }

    /// It comes out of these ports at most.
    fn stays_away(&self, tracer: &Tracer, may: fn(&str) -> bool) -> Answer {
        let fate = Fate::read(&tracer.trace(&self.packet(), false));
        // The router may have the address itself, and answer.
        let wrong = fate.outputs.iter().any(|port| !may(port) && *port != self.from.name);
        let difference = wrong.then(|| {
            let text = tracer.trace(&self.packet(), true);
            format!("{self}: must not arrive, and OVN does {fate:?}\n{text}")
        });
        let allowed = false;
        Answer { allowed, difference }
    }

    fn compare(&self, tracer: &Tracer, cluster: &Cluster) -> Option<Answer> {
        let verdict = judge(cluster, &self.ask).ok()?;
        let of_family = |ip: &IpAddr| ip.is_ipv4() == self.destination.is_ipv4();
        if !verdict.flows.iter().any(|flow| flow.to.addresses.iter().any(of_family)) {
            return None; // all backends are on networks of the other family
        }
        let text = tracer.trace(&self.packet(), false);
        let fate = Fate::read(&text);
        let to_itself = fate.backend.is_some_and(|backend| backend.ip() == self.source);
        if to_itself {
            return None; // ovn-trace does not follow packets that a service leads back; the lab's tests do
        }
        let flows = verdict.flows.iter().filter(|flow| flow.from.addresses.contains(&self.source));
        let chosen = fate.backend.map(|backend| (backend.ip(), backend.port()));
        let allowed = if chosen.is_none() && matches!(self.ask.to, Target::Service(_)) {
            // It never came to a choice, so no choice may be allowed.
            let mut allowed = flows.filter(|flow| flow.allowed);
            allowed.any(|flow| flow.to.addresses.iter().any(of_family))
        } else {
            let (ip, port) = chosen.unwrap_or((self.destination, self.ask.port));
            let mut flows = flows.filter(|flow| flow.to.addresses.contains(&ip) && flow.port == port);
            flows
                .next()
                .unwrap_or_else(|| panic!("nothing about {ip} {port} in {verdict:#?}"))
                .allowed
        };
        let right = match &self.arrives {
            _ if !allowed => fate.outputs.is_empty(),
            Some(port) => fate.outputs == BTreeSet::from([port.clone()]),
            None => fate.outputs.len() == 1,
        };
        let difference = (!right).then(|| {
            let should = if allowed { "allowed" } else { "denied" };
            let text = tracer.trace(&self.packet(), true);
            format!("{self}: {should} by the evaluator, and OVN does {fate:?}\n{verdict:#?}\n{text}")
        });
        Some(Answer { allowed, difference })
    }

    /// Whether it is about an object of this name.
    pub fn names(&self, name: &str) -> bool {
        let of = |found: &Name| found.name == name;
        matches!(&self.ask.from, Source::Pod(found) if of(found))
            || matches!(&self.ask.to, Target::Pod(found) | Target::Service(found) if of(found))
    }
}

impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let netloom_policy::Question { from, to, protocol, port } = &self.ask;
        write!(
            f,
            "{}: {from:?} ({}) to {to:?} ({}), {protocol} {port}",
            self.kind, self.source, self.destination
        )
    }
}
