//! From a verdict to what is asked of `ovn-trace`, and from its answer back. Pure: names of ports and the form of a microflow, nothing
//! about where a trace runs.

use std::collections::BTreeMap;
use std::net::IpAddr;

use netloom_policy::{Cluster, Flow, Name, Party, Protocol, Question, Target};
use serde_json::Value;

/// How often a packet may be looked up in connection tracking; each time it is new.
const LOOKUPS: usize = 8;
/// A source port as clients have it.
const SOURCE_PORT: u16 = 10_000;

/// One packet to trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Microflow {
    /// The sender's port in OVN.
    pub inport: String,
    /// The way out of its switch.
    pub gateway: Gateway,
    /// Source address.
    pub source: IpAddr,
    /// Destination address: the receiver's, or the service's.
    pub destination: IpAddr,
    /// Protocol.
    pub protocol: Protocol,
    /// Destination port.
    pub port: u16,
    /// The backend that is to be chosen, if it goes to a service.
    pub backend: Option<(IpAddr, u16)>,
    /// The receiver's port in OVN; none for nodes and outside, where being routed is all that policies can grant.
    pub outport: Option<String>,
    /// The way out of the receiver's switch.
    pub beyond: Option<Gateway>,
}

/// Where a switch meets its router.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gateway {
    /// The router's port.
    pub router: String,
    /// The switch's port.
    pub switch: String,
    /// The switch is that of a Network, where pods find all addresses but those of the network behind the router.
    pub of_network: bool,
}

impl Gateway {
    fn of_node(node: &str) -> Self {
        Self {
            router: format!("cluster-router_to_switch_{node}"),
            switch: format!("switch_{node}_to_cluster-router"),
            of_network: false,
        }
    }

    /// That of a pod; none if it is nowhere yet.
    fn of_pod(cluster: &Cluster, name: &Name) -> Result<Option<Self>, String> {
        let network = cluster.network_of(name).map_err(|problem| problem.message)?;
        let node = cluster.pods.get(name).and_then(|pod| pod.node.as_deref());
        let of_network = |network: &str| Self {
            router: format!("network_{network}_to_switch"),
            switch: format!("network_{network}_to_switch_peer"),
            of_network: true,
        };
        Ok(network.map(of_network).or_else(|| node.map(Self::of_node)))
    }
}

/// A port as the Southbound database knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundPort {
    /// Its MAC address.
    pub mac: String,
    /// The switch or router it belongs to.
    pub datapath: String,
}

/// The packets that stand for a flow, one for each family; or why none can.
pub fn microflows(cluster: &Cluster, question: &Question, flow: &Flow) -> Result<Vec<Microflow>, String> {
    let service = translating(cluster, flow);
    let sender = sender(cluster, flow, service.is_some())?;
    if !flow.egress.rivals.is_empty() || !flow.ingress.rivals.is_empty() {
        return Err("policies with the same priority contradict each other, so OVN may take either".to_owned());
    }
    if service.is_some() && flow.isolation.is_some() {
        return Err("ovn-trace translates a service's address before it evaluates the isolation of namespaces".to_owned());
    }
    let outport = match &flow.to.party {
        Party::Pod(name) => Some(port_name(name)),
        Party::Node { name, .. } => {
            let inside = cluster.nodes.get(name).map(|node| node.inside.as_slice()).unwrap_or_default();
            if flow.to.addresses.iter().any(|address| inside.contains(address)) {
                return Err("the node's own port is not behind the router".to_owned());
            }
            None
        }
        Party::External => None,
    };
    let beyond = match &flow.to.party {
        Party::Pod(name) => Gateway::of_pod(cluster, name)?,
        Party::Node { .. } | Party::External => None,
    };
    let pairs = [true, false].into_iter().filter_map(|v4| {
        let of_family = |addresses: &[IpAddr]| addresses.iter().copied().find(|address| address.is_ipv4() == v4);
        Some((of_family(&sender.addresses)?, of_family(&flow.to.addresses)?))
    });
    let way = |(source, receiver): (IpAddr, IpAddr)| {
        let destination = match service {
            Some(service) => virtual_address(cluster, &question.to, service, receiver.is_ipv4())?,
            None => receiver,
        };
        Ok(Microflow {
            inport: sender.inport.clone(),
            gateway: sender.gateway.clone(),
            source,
            destination,
            protocol: flow.protocol,
            port: if service.is_some() { question.port } else { flow.port },
            backend: service.map(|_| (receiver, flow.port)),
            outport: outport.clone(),
            beyond: beyond.clone(),
        })
    };
    let found: Vec<Microflow> = pairs.map(way).collect::<Result<_, String>>()?;
    if found.is_empty() {
        return Err("there are no addresses to send from or to yet".to_owned());
    }
    Ok(found)
}

/// Where a packet enters OVN.
struct Sender {
    gateway: Gateway,
    inport: String,
    addresses: Vec<IpAddr>,
}

/// A pod sends from its own port; a node from its management port, and to services from its service port.
fn sender(cluster: &Cluster, flow: &Flow, to_service: bool) -> Result<Sender, String> {
    match &flow.from.party {
        Party::Pod(name) => Ok(Sender {
            gateway: Gateway::of_pod(cluster, name)?.ok_or_else(|| format!("{} is on no node", flow.from))?,
            inport: port_name(name),
            addresses: flow.from.addresses.clone(),
        }),
        Party::Node { name, .. } if matches!(flow.to.party, Party::Pod(_)) => {
            let inside = cluster.nodes.get(name).map(|node| node.inside.as_slice()).unwrap_or_default();
            let own = inside.chunks_exact(2).map(|ports| ports[usize::from(to_service)]);
            let addresses: Vec<IpAddr> = own.filter(|address| flow.from.addresses.contains(address)).collect();
            if addresses.is_empty() {
                return Err(format!("{} does not send to pods from the addresses this is about", flow.from));
            }
            let port = if to_service { "service" } else { "management" };
            Ok(Sender {
                gateway: Gateway::of_node(name),
                inport: format!("{port}_{name}"),
                addresses,
            })
        }
        Party::Node { .. } => Err(format!("what {} sends to {} does not pass OVN", flow.from, flow.to)),
        Party::External => Err(format!("what {} sends has no port of its own to start from", flow.from)),
    }
}

/// The service that translates the packet; a headless one does not.
fn translating<'a>(cluster: &Cluster, flow: &'a Flow) -> Option<&'a Name> {
    let name = flow.service.as_ref()?;
    cluster.services.get(name).filter(|service| !service.headless)?;
    Some(name)
}

fn virtual_address(cluster: &Cluster, asked: &Target, service: &Name, v4: bool) -> Result<IpAddr, String> {
    let addresses = cluster
        .services
        .get(service)
        .map(|service| service.cluster_ips.as_slice())
        .unwrap_or_default();
    let wanted = |address: &&IpAddr| match asked {
        Target::Address(asked) => *address == asked,
        _ => address.is_ipv4() == v4,
    };
    let found = addresses.iter().find(wanted).copied();
    found.ok_or_else(|| format!("service {service} is not met at its cluster address"))
}

fn port_name(pod: &Name) -> String {
    format!("{}/{}", pod.namespace, pod.name)
}

impl Microflow {
    /// Names of the ports that have to be known.
    pub fn ports(&self) -> Vec<String> {
        let gateways = [Some(&self.gateway), self.beyond.as_ref()].into_iter().flatten();
        let gateways = gateways.flat_map(|gateway| [&gateway.router, &gateway.switch]);
        let own = [Some(&self.inport), self.outport.as_ref()].into_iter().flatten();
        own.chain(gateways).cloned().collect()
    }

    /// Words for `ovn-trace`, with what is known of the ports; what is missing is named.
    pub fn arguments(&self, ports: &BTreeMap<String, BoundPort>) -> Result<Vec<String>, String> {
        let port = |name: &String| ports.get(name).ok_or_else(|| format!("OVN has no port {name}"));
        let (from, gateway) = (port(&self.inport)?, port(&self.gateway.router)?);
        // A pod stays on the network it began on, whatever its annotations have come to say, and the verdict is about what they say.
        for (name, gateway) in [
            (Some(&self.inport), Some(&self.gateway)),
            (self.outport.as_ref(), self.beyond.as_ref()),
        ] {
            if let (Some(name), Some(gateway)) = (name, gateway)
                && port(name)?.datapath != port(&gateway.switch)?.datapath
            {
                return Err(format!(
                    "OVN has {name} on another network than it is to be on; only a new pod moves there"
                ));
            }
        }
        let near = match &self.outport {
            // On one switch, and not to a service's address, it goes to the receiver straight away.
            Some(name) => Some(port(name)?).filter(|to| to.datapath == from.datapath && self.backend.is_none() && !self.gateway.of_network),
            None => None,
        };
        let mut words = vec!["--minimal".to_owned()];
        words.extend((0..LOOKUPS).flat_map(|_| ["--ct".to_owned(), "new".to_owned()]));
        if let Some((address, port)) = self.backend {
            words.push(format!("--lb-dst={}", std::net::SocketAddr::new(address, port)));
        }
        let ip = if self.source.is_ipv4() { "ip4" } else { "ip6" };
        let protocol = self.protocol.to_string().to_lowercase();
        words.push(format!(
            "inport == \"{}\" && eth.src == {} && eth.dst == {} && {ip}.src == {} && {ip}.dst == {} && ip.ttl == 64 && \
             {protocol}.src == {SOURCE_PORT} && {protocol}.dst == {}",
            self.inport,
            from.mac,
            near.unwrap_or(gateway).mac,
            self.source,
            self.destination,
            self.port
        ));
        Ok(words)
    }

    /// Whether a trace ends where the packet should.
    pub fn arrives(&self, trace: &str) -> bool {
        match &self.outport {
            Some(name) => trace.contains(&format!("output(\"{name}\");")),
            None => trace.contains("ip.ttl--;"),
        }
    }
}

/// Reads what `ovn-sbctl --format=json --columns=logical_port,mac,datapath list Port_Binding` prints.
pub fn ports(json: &str) -> Result<BTreeMap<String, BoundPort>, String> {
    let table: Value = serde_json::from_str(json).map_err(|error| format!("read ports: {error}"))?;
    let rows = table["data"].as_array().ok_or("read ports: no rows")?;
    let row = |row: &Value| {
        let text = |index: usize| row.get(index).and_then(Value::as_str);
        let mac = text(1)?.split_whitespace().next()?.to_owned();
        let datapath = row.pointer("/2/1").and_then(Value::as_str)?.to_owned();
        Some((text(0)?.to_owned(), BoundPort { mac, datapath }))
    };
    Ok(rows.iter().filter_map(row).collect())
}

#[cfg(test)]
mod tests;
