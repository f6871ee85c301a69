//! From a verdict to what is asked of `ovn-trace`, and from its answer back. Pure: names of ports and the form of a microflow, nothing
//! about where a trace runs.

use std::collections::BTreeMap;
use std::net::IpAddr;

use netloom_policy::{Cluster, Flow, Name, Party, Protocol, Question, Target};
use serde_json::Value;

/// How often a packet may be looked up in connection tracking; each time it is new.
const LOOKUPS: usize = 8;
/// A source port as clients have it.
const SOURCE_PORT: u16 = 40_000;

/// One packet to trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Way {
    /// The sender's port in OVN.
    pub inport: String,
    /// The port of its switch at the router.
    pub gateway: String,
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
}

/// A port as the Southbound database knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// Its MAC address.
    pub mac: String,
    /// The switch or router it belongs to.
    pub datapath: String,
}

/// The packets that stand for a flow, one for each family; or why none can.
pub fn ways(cluster: &Cluster, question: &Question, flow: &Flow) -> Result<Vec<Way>, String> {
    let service = translating(cluster, flow);
    let sender = sender(cluster, flow, service.is_some())?;
    if !flow.egress.rivals.is_empty() || !flow.ingress.rivals.is_empty() {
        return Err("policies with the same priority contradict each other, so OVN may take either".to_owned());
    }
    if service.is_some() && flow.isolation.is_some() {
        return Err("ovn-trace has a service's address translated before it comes to the isolation of namespaces".to_owned());
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
    let pairs = [true, false].into_iter().filter_map(|v4| {
        let of_family = |addresses: &[IpAddr]| addresses.iter().copied().find(|address| address.is_ipv4() == v4);
        Some((of_family(&sender.addresses)?, of_family(&flow.to.addresses)?))
    });
    let way = |(source, receiver): (IpAddr, IpAddr)| {
        let destination = match service {
            Some(service) => virtual_address(cluster, &question.to, service, receiver.is_ipv4())?,
            None => receiver,
        };
        Ok(Way {
            inport: sender.inport.clone(),
            gateway: format!("cluster-router_to_switch_{}", sender.node),
            source,
            destination,
            protocol: flow.protocol,
            port: if service.is_some() { question.port } else { flow.port },
            backend: service.map(|_| (receiver, flow.port)),
            outport: outport.clone(),
        })
    };
    let found: Vec<Way> = pairs.map(way).collect::<Result<_, String>>()?;
    if found.is_empty() {
        return Err("there are no addresses to send from or to yet".to_owned());
    }
    Ok(found)
}

/// Where a packet enters OVN.
struct Sender<'a> {
    node: &'a str,
    inport: String,
    addresses: Vec<IpAddr>,
}

/// A pod sends from its own port; a node from its management port, and to services from its service port.
fn sender<'a>(cluster: &'a Cluster, flow: &'a Flow, to_service: bool) -> Result<Sender<'a>, String> {
    match &flow.from.party {
        Party::Pod(name) => {
            let node = cluster.pods.get(name).and_then(|pod| pod.node.as_deref());
            Ok(Sender {
                node: node.ok_or_else(|| format!("{} is on no node", flow.from))?,
                inport: port_name(name),
                addresses: flow.from.addresses.clone(),
            })
        }
        Party::Node { name, .. } if matches!(flow.to.party, Party::Pod(_)) => {
            let inside = cluster.nodes.get(name).map(|node| node.inside.as_slice()).unwrap_or_default();
            let own = inside.chunks_exact(2).map(|ports| ports[usize::from(to_service)]);
            let addresses: Vec<IpAddr> = own.filter(|address| flow.from.addresses.contains(address)).collect();
            if addresses.is_empty() {
                return Err(format!("{} does not send to pods from the addresses this is about", flow.from));
            }
            let port = if to_service { "service" } else { "management" };
            Ok(Sender {
                node: name,
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

impl Way {
    /// Names of the ports that have to be known.
    pub fn ports(&self) -> Vec<String> {
        [Some(&self.inport), Some(&self.gateway), self.outport.as_ref()]
            .into_iter()
            .flatten()
            .cloned()
            .collect()
    }

    /// Words for `ovn-trace`, with what is known of the ports; what is missing is named.
    pub fn arguments(&self, ports: &BTreeMap<String, Port>) -> Result<Vec<String>, String> {
        let port = |name: &String| ports.get(name).ok_or_else(|| format!("OVN has no port {name}"));
        let (from, gateway) = (port(&self.inport)?, port(&self.gateway)?);
        let near = match &self.outport {
            // On one switch, and not to a service's address, it goes to the receiver straight away.
            Some(name) => Some(port(name)?).filter(|to| to.datapath == from.datapath && self.backend.is_none()),
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
pub fn ports(json: &str) -> Result<BTreeMap<String, Port>, String> {
    let table: Value = serde_json::from_str(json).map_err(|error| format!("read ports: {error}"))?;
    let rows = table["data"].as_array().ok_or("read ports: no rows")?;
    let row = |row: &Value| {
        let text = |index: usize| row.get(index).and_then(Value::as_str);
        let mac = text(1)?.split_whitespace().next()?.to_owned();
        let datapath = row.pointer("/2/1").and_then(Value::as_str)?.to_owned();
        Some((text(0)?.to_owned(), Port { mac, datapath }))
    };
    Ok(rows.iter().filter_map(row).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use netloom_policy::{Source, judge};

    const WORLD: &str = "
kind: Pod
metadata: { name: web, namespace: shop, labels: { app: web } }
spec: { nodeName: node1 }
status: { podIPs: [{ ip: 10.0.1.5 }, { ip: 'fd00:1::5' }] }
---
kind: Pod
metadata: { name: db, namespace: shop, labels: { app: db } }
spec: { nodeName: node2 }
status: { podIPs: [{ ip: 10.0.2.5 }, { ip: 'fd00:2::5' }] }
---
kind: Pod
metadata: { name: new, namespace: shop, labels: { app: new } }
spec: { nodeName: node2 }
---
kind: Service
metadata: { name: db, namespace: shop }
spec: { clusterIPs: [10.96.0.7, 'fd00:96::7'], externalIPs: [203.0.113.7], selector: { app: db }, ports: [{ port: 80, targetPort: 5432 }] }
---
kind: Service
metadata: { name: names, namespace: shop }
spec: { clusterIP: None, selector: { app: db }, ports: [{ port: 80 }] }
---
kind: Node
metadata: { name: node1, annotations: { netloom.io/subnets: 10.0.1.0/24 } }
status: { addresses: [{ type: InternalIP, address: 192.0.2.1 }] }
";

    fn asked(from: &str, to: &str, port: u16) -> Result<Vec<Way>, String> {
        let mut cluster = Cluster::default();
        let documents: Vec<Value> = serde_saphyr::from_multiple(WORLD).unwrap();
        documents.iter().for_each(|document| cluster.add_manifest(document).unwrap());
        let question = Question {
            from: Source::parse(from, "shop").unwrap(),
            to: Target::parse(to, "shop").unwrap(),
            protocol: Protocol::Tcp,
            port,
        };
        let verdict = judge(&cluster, &question).unwrap();
        assert_eq!(verdict.flows.len(), 1);
        ways(&cluster, &question, &verdict.flows[0])
    }

    fn known() -> BTreeMap<String, Port> {
        let port = |name: &str, mac: &str, datapath: &str| {
            let (mac, datapath) = (mac.to_owned(), datapath.to_owned());
            (name.to_owned(), Port { mac, datapath })
        };
        BTreeMap::from([
            port("shop/web", "0a:00:00:00:01:05", "switch-1"),
            port("shop/db", "0a:00:00:00:02:05", "switch-2"),
            port("cluster-router_to_switch_node1", "0a:00:00:00:01:01", "router"),
        ])
    }

    #[test]
    fn a_pod_elsewhere_is_behind_the_router_in_both_families() {
        let ways = asked("web", "db", 5432).unwrap();
        let flows: Vec<String> = ways.iter().map(|way| way.arguments(&known()).unwrap().pop().unwrap()).collect();
        assert_eq!(
            flows,
            [
                "inport == \"shop/web\" && eth.src == 0a:00:00:00:01:05 && eth.dst == 0a:00:00:00:01:01 && ip4.src == 10.0.1.5 && \
                 ip4.dst == 10.0.2.5 && ip.ttl == 64 && tcp.src == 40000 && tcp.dst == 5432",
                "inport == \"shop/web\" && eth.src == 0a:00:00:00:01:05 && eth.dst == 0a:00:00:00:01:01 && ip6.src == fd00:1::5 && \
                 ip6.dst == fd00:2::5 && ip.ttl == 64 && tcp.src == 40000 && tcp.dst == 5432",
            ]
        );
    }

    #[test]
    fn a_pod_on_the_same_switch_is_addressed_itself() {
        let way = asked("web", "db", 5432).unwrap().remove(0);
        let mut ports = known();
        ports.get_mut("shop/db").unwrap().datapath = "switch-1".to_owned();
        let flow = way.arguments(&ports).unwrap().pop().unwrap();
        assert!(flow.contains("eth.dst == 0a:00:00:00:02:05"), "{flow}");
        // Through a service it is still the gateway.
        let way = asked("web", "svc/db", 80).unwrap().remove(0);
        let flow = way.arguments(&ports).unwrap().pop().unwrap();
        assert!(flow.contains("eth.dst == 0a:00:00:00:01:01"), "{flow}");
    }

    #[test]
    fn a_service_is_asked_for_one_backend() {
        let ways = asked("web", "svc/db", 80).unwrap();
        let words: Vec<Vec<String>> = ways.iter().map(|way| way.arguments(&known()).unwrap()).collect();
        assert!(words[0].contains(&"--lb-dst=10.0.2.5:5432".to_owned()), "{words:?}");
        assert!(words[1].contains(&"--lb-dst=[fd00:2::5]:5432".to_owned()), "{words:?}");
        assert!(
            words[0]
                .last()
                .unwrap()
                .ends_with("ip4.dst == 10.96.0.7 && ip.ttl == 64 && tcp.src == 40000 && tcp.dst == 80")
        );
        assert!(words[1].last().unwrap().contains("ip6.dst == fd00:96::7"));
        // By address it is one family; a headless service is its pods.
        assert_eq!(asked("web", "fd00:96::7", 80).unwrap().len(), 1);
        assert_eq!(asked("web", "svc/names", 80).unwrap()[0].backend, None);
    }

    #[test]
    fn a_node_sends_from_its_own_ports() {
        let way = asked("node/node1", "db", 5432).unwrap().remove(0);
        assert_eq!(
            (way.inport.as_str(), way.source.to_string()),
            ("management_node1", "10.0.1.2".to_owned())
        );
        let way = asked("node/node1", "svc/db", 80).unwrap().remove(0);
        assert_eq!(
            (way.inport.as_str(), way.source.to_string()),
            ("service_node1", "10.0.1.3".to_owned())
        );
        assert_eq!(
            asked("192.0.2.1", "db", 80).unwrap_err(),
            "node node1 does not send to pods from the addresses this is about"
        );
    }

    #[test]
    fn what_cannot_be_traced_says_why() {
        let why = |from, to, port| asked(from, to, port).unwrap_err();
        assert_eq!(
            why("198.51.100.1", "db", 80),
            "what address 198.51.100.1 sends has no port of its own to start from"
        );
        assert_eq!(why("new", "db", 80), "there are no addresses to send from or to yet");
        assert_eq!(why("web", "203.0.113.7", 80), "service shop/db is not met at its cluster address");
        assert_eq!(why("web", "10.0.1.2", 80), "the node's own port is not behind the router");
        let way = asked("db", "web", 80).unwrap().remove(0);
        assert_eq!(
            way.arguments(&known()),
            Err("OVN has no port cluster-router_to_switch_node2".to_owned())
        );
    }

    #[test]
    fn a_trace_arrives_where_the_packet_should() {
        let way = asked("web", "db", 80).unwrap().remove(0);
        assert!(way.arrives("ct_lb_mark {\n    ip.ttl--;\n    ct_lb_mark {\n        output(\"shop/db\");\n    };\n};\n"));
        assert!(!way.arrives("ct_lb_mark {\n    ip.ttl--;\n    ct_lb_mark;\n};\n"));
        assert!(!way.arrives("output(\"shop/db2\");"));
        let out = asked("web", "198.51.100.1", 443).unwrap().remove(0);
        assert!(out.arrives("ct_lb_mark {\n    ip.ttl--;\n    output(\"uplink_node1\");\n};\n"));
        assert!(!out.arrives("ct_lb_mark;\n"));
    }

    #[test]
    fn ports_are_read_from_the_southbound() {
        let json = r#"{"data":[["shop/web","0a:4e:0a:f4:00:05 10.244.0.5 fd00::5",["uuid","37d7"]],["odd",["set",[]],["uuid","1"]]],"headings":["logical_port","mac","datapath"]}"#;
        let read = ports(json).unwrap();
        assert_eq!(read.len(), 1);
        assert_eq!(
            (read["shop/web"].mac.as_str(), read["shop/web"].datapath.as_str()),
            ("0a:4e:0a:f4:00:05", "37d7")
        );
        assert!(ports("nonsense").is_err());
    }
}
