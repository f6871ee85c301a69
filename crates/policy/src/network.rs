//! Networks that users define (`Network`, netloom.io/v1alpha1), as far as they say who reaches whom: which pods are on one, and whether it is
//! isolated. Which addresses pods have there is nobody's business here, but a Network with a mistake has no pods, so all of it is read.

use std::net::IpAddr;

use ipnet::IpNet;
use serde_json::Value;

use crate::cluster::{Cluster, Labels, Name};
use crate::labels::Selector;
use crate::problem::{Object, Problem};
use crate::reader::{self, Reader, given};

/// Annotation of a pod, or of a namespace for its pods, with the name of a Network.
const NETWORK: &str = "netloom.io/network";
/// Reason of mistakes in a Network.
const INVALID: &str = "InvalidNetwork";
/// The fewest bits for hosts: a subnet needs its own address, the gateway's, a pod's and the one to all.
const FEWEST_BITS: u8 = 2;

/// A Network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Network {
    /// Pods that are not on it do not reach those that are, but through services.
    pub isolated: bool,
    /// Namespaces whose pods may be on it.
    pub namespaces: Selector,
    /// Its mistakes. With any of them no pod can be on it.
    pub problems: Vec<Problem>,
}

/// The name that annotations give.
pub fn named(annotations: &Labels) -> Option<String> {
    annotations.get(NETWORK).map(|name| name.trim().to_owned())
}

impl Network {
    /// Reads a spec.
    pub fn read(name: &str, spec: &Value) -> Self {
        let mut reader = Reader::new(Object::of_cluster("Network", name), INVALID);
        let known = ["subnets", "gateways", "routes", "isolated", "namespaceSelector"];
        reader.has_only("spec", spec, &known);
        let subnets = reader.subnets(spec);
        let gateways = reader.gateways(spec, &subnets);
        reader.routes(spec, &subnets, &gateways);
        let isolated = match given(spec, "isolated") {
            None => false,
            Some(Value::Bool(isolated)) => *isolated,
            Some(_) => {
                reader.problem("isolated", "use true or false");
                true
            }
        };
        let selector = given(spec, "namespaceSelector");
        Self {
            isolated,
            namespaces: selector
                .map(|written| reader.written_selector("namespaceSelector", written))
                .unwrap_or_default(),
            problems: reader.problems,
        }
    }
}

impl Reader {
    fn subnets(&mut self, spec: &Value) -> Vec<IpNet> {
        let mut subnets: Vec<IpNet> = Vec::new();
        let before = self.problems.len();
        for (field, text) in self.texts(spec, "subnets") {
            match exact_range(&text) {
                Err(message) => self.problem(field, message),
                Ok(subnet) if subnet.max_prefix_len() - subnet.prefix_len() < FEWEST_BITS => {
                    self.problem(field, format!("{subnet} has no room for pods; give a larger one"));
                }
                Ok(subnet) if subnets.iter().any(|other| is_v4(other) == is_v4(&subnet)) => {
                    self.problem(field, "is the second of its family; give one of each");
                }
                Ok(subnet) => subnets.push(subnet),
            }
        }
        if subnets.is_empty() && self.problems.len() == before {
            self.problem("subnets", "has none; give one of each family, for example 192.168.10.0/24");
        }
        subnets
    }

    /// The gateway of each subnet: the one that is written, or its first address.
    fn gateways(&mut self, spec: &Value, subnets: &[IpNet]) -> Vec<IpAddr> {
        let mut gateways: Vec<IpAddr> = Vec::new();
        for (field, text) in self.texts(spec, "gateways") {
            match text.trim().parse::<IpAddr>() {
                Err(_) => self.problem(field, format!("{text:?} is no IP address")),
                Ok(ip) if !subnets.iter().any(|subnet| is_for_hosts(subnet, ip)) => {
                    self.problem(field, format!("{ip} is no address in the subnets; choose one that is"));
                }
                Ok(ip) if gateways.iter().any(|other| other.is_ipv4() == ip.is_ipv4()) => {
                    self.problem(field, "is the second of its family; give one of each");
                }
                Ok(ip) => gateways.push(ip),
            }
        }
        let missing = subnets.iter().filter(|subnet| !gateways.iter().any(|ip| subnet.contains(ip)));
        let first: Vec<IpAddr> = missing
            .filter_map(|subnet| subnet.hosts().find(|ip| is_for_hosts(subnet, *ip)))
            .collect();
        gateways.extend(first);
        gateways
    }

    fn routes(&mut self, spec: &Value, subnets: &[IpNet], gateways: &[IpAddr]) {
        let Some(routes) = given(spec, "routes") else { return };
        let Value::Array(routes) = routes else {
            self.problem("routes", "has to be a list");
            return;
        };
        for (index, route) in routes.iter().enumerate() {
            let field = format!("routes[{index}]");
            if !self.has_only(&field, route, &["to", "via"]) {
                continue;
            }
            let text = |name: &str| given(route, name).and_then(Value::as_str).unwrap_or_default();
            let via = text("via").trim().parse::<IpAddr>().ok().filter(|via| !gateways.contains(via));
            let behind = via.and_then(|via| subnets.iter().find(|subnet| is_for_hosts(subnet, via)));
            match (exact_range(text("to")), behind) {
                (Err(message), _) => self.problem(format!("{field}.to"), message),
                (Ok(_), None) => {
                    let message = format!("{:?} is no address a pod of the network can have", text("via"));
                    self.problem(format!("{field}.via"), message);
                }
                (Ok(to), Some(subnet)) => {
                    if is_v4(&to) != is_v4(subnet) || to.contains(subnet) || subnet.contains(&to) {
                        let message = format!("{to} is not behind {subnet}; give a range of its family outside of it");
                        self.problem(format!("{field}.to"), message);
                    }
                }
            }
        }
    }

    /// Each text of a list, with its place.
    fn texts(&mut self, spec: &Value, name: &str) -> Vec<(String, String)> {
        let list = match given(spec, name) {
            None => return Vec::new(),
            Some(Value::Array(list)) => list.as_slice(),
            Some(_) => {
                self.problem(name, "has to be a list");
                return Vec::new();
            }
        };
        let place = |index: usize| format!("{name}[{index}]");
        let mut texts = Vec::new();
        for (index, value) in list.iter().enumerate() {
            match value.as_str() {
                Some(text) => texts.push((place(index), text.to_owned())),
                None => self.problem(place(index), format!("{value} is no text")),
            }
        }
        texts
    }
}

/// A range whose host bits are zero.
fn exact_range(text: &str) -> Result<IpNet, String> {
    let text = text.trim();
    let range = reader::range(text)?;
    let written = text.parse::<IpNet>().ok();
    match written.filter(|written| *written != range) {
        Some(written) => Err(format!("{written} has host bits set; write {range}")),
        None => Ok(range),
    }
}

fn is_v4(subnet: &IpNet) -> bool {
    subnet.addr().is_ipv4()
}

/// Whether somebody can have an address in a subnet: it is neither the subnet's own nor the one to all.
fn is_for_hosts(subnet: &IpNet, ip: IpAddr) -> bool {
    subnet.contains(&ip) && ip != subnet.network() && !(is_v4(subnet) && ip == subnet.broadcast())
}

impl Cluster {
    /// The Network a pod is on, by its own annotation or that of its namespace; the error says why it is on none although it names one, so
    /// that it neither sends nor receives.
    pub fn network_of(&self, pod: &Name) -> Result<Option<&str>, Box<Problem>> {
        let Some(found) = self.pods.get(pod).filter(|pod| !pod.host_network && !pod.finished) else {
            return Ok(None);
        };
        let namespace = self.namespaces.get(&pod.namespace);
        let of_namespace = || namespace.and_then(|namespace| namespace.network.as_deref());
        let Some(name) = found.network.as_deref().or_else(of_namespace) else {
            return Ok(None);
        };
        let problem = |reason, message| {
            Box::new(Problem {
                object: Object::of_pod(pod),
                reason,
                field: format!("annotation {NETWORK}"),
                message,
            })
        };
        match self.networks.get(name) {
            None => Err(problem(
                "NetworkUnusable",
                format!("there is no Network {name:?}; create it or correct the name"),
            )),
            Some(Network { problems, .. }) if !problems.is_empty() => {
                let mistakes: Vec<String> = problems.iter().map(|one| format!("{}: {}", one.field, one.message)).collect();
                let message = format!("Network {name} cannot be read: {}", mistakes.join("; "));
                Err(problem("NetworkUnusable", message))
            }
            Some(network) if !network.namespaces.matches(&self.namespace_labels(&pod.namespace)) => Err(problem(
                "NetworkForbidden",
                format!(
                    "the namespaceSelector of Network {name} does not match namespace {}; label the namespace, or name another Network",
                    pod.namespace
                ),
            )),
            Some(_) => Ok(Some(name)),
        }
    }

    /// The isolated Network a pod is on.
    pub fn isolated_network_of(&self, pod: &Name) -> Option<&str> {
        let name = self.network_of(pod).ok().flatten()?;
        self.networks.get(name).filter(|network| network.isolated).map(|_| name)
    }
}
