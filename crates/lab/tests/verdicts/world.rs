//! A cluster on both sides: compiled into the Northbound, and read by the evaluator. Addresses are the planner's choice, and are written
//! into the pods' status as kubelets would.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use netloom_kubernetes::manifest;
use netloom_network::ipam::{Assignment, GATEWAY_HOST, MANAGEMENT_HOST, Mac, SERVICE_HOST};
use netloom_network::settings::nth_host;
use netloom_network::{Object, Planner, PodName, check};
use serde_json::{Value, json};

use netloom_lab_fixtures::generate::{self, Known, Random, Shape, of_kind, text};

/// Addresses of nobody in the cluster.
pub const OUTSIDE: [&str; 4] = ["192.0.2.7", "198.51.100.9", "2001:db8::7", "2001:db8:1::9"];

/// The compiler's side; it goes from one cluster to the next as a controller would.
#[derive(Default)]
pub struct Compiler {
    planner: Planner,
    there: BTreeMap<String, Object>,
}

impl Compiler {
    /// Makes the cluster consist of these objects.
    pub fn become_like(&mut self, objects: &[Value]) {
        let written = generate::machines::with_ports(objects);
        let read = written.iter().flat_map(|object| manifest::read(object).unwrap());
        let next: BTreeMap<String, Object> = read.map(|object| (name(&object), object)).collect();
        let gone = self.there.iter().filter(|(name, _)| !next.contains_key(*name));
        gone.for_each(|(_, object)| self.planner.remove(object));
        for object in next.values() {
            self.planner.apply(object.clone());
        }
        self.there = next;
        self.planner.compile();
        assert_eq!(check::check(self.planner.desired()), []);
    }

    pub fn planner(&self) -> &Planner {
        &self.planner
    }

    /// Address number `number` in each of a node's subnets.
    pub fn hosts(&self, node: &str, number: u64) -> Vec<IpAddr> {
        let subnets = self.planner.cluster().records.subnets(node);
        subnets
            .iter()
            .filter_map(|subnet| nth_host(subnet, number))
            .map(|host| host.addr())
            .collect()
    }
}

fn name(object: &Object) -> String {
    let text = format!("{object:?}");
    let kind = text.split('(').next().unwrap_or_default();
    match object {
        Object::Node(name, _) | Object::Namespace(name, _) | Object::ExternalPool(name, _) => format!("{kind} {name}"),
        Object::Pod(name, _) => format!("{kind} {name}"),
        Object::Service(name, _) => format!("{kind} {name}"),
        Object::EndpointSlice(name, _) => format!("{kind} {name}"),
        Object::NetworkPolicy(name, _) => format!("{kind} {name}"),
        #[allow(unreachable_patterns)] // kinds that have come since
        _ => named(&text),
    }
}

/// Kind and name of any object, as they stand at the beginning of its text.
fn named(text: &str) -> String {
    text.split('{').take(2).collect::<Vec<_>>().join("{")
}

/// One random cluster, with addresses.
#[derive(Clone, Debug)]
pub struct World {
    pub objects: Vec<Value>,
    /// Which of its backends each service uses.
    pub choice: u64,
}

impl World {
    /// The cluster of a seed.
    pub fn random(seed: u64, shape: &Shape, compiler: &mut Compiler) -> Self {
        let mut random = Random::new(seed);
        let mut objects = generate::objects(&mut random, shape);
        compiler.become_like(&objects);
        give_addresses(compiler, &mut objects);
        let known = known(&objects, compiler);
        let rules = generate::rules(&mut random, shape, &objects, &known);
        objects.extend(rules);
        let world = Self { objects, choice: seed };
        world.compile(compiler);
        world
    }

    /// Compiles it, with the endpoints its services have.
    pub fn compile(&self, compiler: &mut Compiler) {
        compiler.become_like(&self.with_slices());
    }

    /// Of each service one backend is ready, so that it is known which one a packet goes to.
    fn with_slices(&self) -> Vec<Value> {
        let mut slices = generate::slices(&self.objects);
        let mut backends: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        let service = |slice: &Value| slice["metadata"]["namespace"].to_string() + &slice["metadata"]["labels"].to_string();
        let endpoints = |slice: &Value| slice["endpoints"].as_array().cloned().unwrap_or_default();
        for slice in &slices {
            let pods = endpoints(slice)
                .into_iter()
                .map(|endpoint| text(&endpoint, "/targetRef/name").to_owned());
            backends.entry(service(slice)).or_default().extend(pods);
        }
        for slice in &mut slices {
            let all: Vec<&String> = backends[&service(slice)].iter().collect();
            let chosen = all[usize::try_from(self.choice).unwrap() % all.len()];
            for endpoint in slice["endpoints"].as_array_mut().into_iter().flatten() {
                let ready = text(endpoint, "/targetRef/name") == chosen;
                endpoint["conditions"] = json!({ "ready": ready, "serving": ready, "terminating": false });
            }
        }
        [self.objects.clone(), slices].concat()
    }

    /// The evaluator's side.
    pub fn evaluator(&self) -> netloom_policy::Cluster {
        let mut cluster = netloom_policy::Cluster::default();
        let written = generate::machines::with_ports(&self.with_slices());
        written.iter().for_each(|object| cluster.add_manifest(object).unwrap());
        cluster
    }

    /// Pods with a port of their own; one that waits for its network has none.
    pub fn pods(&self) -> impl Iterator<Item = &Value> {
        self.running(false).filter(|pod| !addresses(pod).is_empty())
    }

    /// Pods that share their node's network.
    pub fn host_pods(&self) -> impl Iterator<Item = &Value> {
        self.running(true)
    }

    fn running(&self, on_host: bool) -> impl Iterator<Item = &Value> {
        of_kind(&self.objects, "Pod").filter(move |pod| {
            let own = pod["spec"]["hostNetwork"] == true;
            own == on_host && text(pod, "/status/phase") == "Running"
        })
    }

    /// Both sides have every pod on the same network, and the same pods waiting for theirs.
    pub fn check_networks(&self, compiler: &Compiler) {
        let evaluator = self.evaluator();
        for pod in self.running(false) {
            let name = pod_name(pod);
            let said = evaluator.network_of(&netloom_policy::Name::new(&name.namespace, &name.name));
            let assignment = compiler.assignment(pod);
            let done = assignment.map(|assignment| assignment.attachment.as_ref().map(|on| on.network.as_str()));
            assert_eq!(said.as_ref().ok(), done.as_ref(), "{name}: {said:?}\n{}", self.to_text());
        }
    }

    /// As a file for `netloom why -f` and `netloom plan -f`.
    pub fn to_text(&self) -> String {
        let objects = generate::machines::with_ports(&self.with_slices());
        let texts = objects.iter().map(|object| serde_json::to_string_pretty(object).unwrap());
        texts.collect::<Vec<_>>().join("\n---\n") + "\n"
    }
}

/// Writes down what the planner has chosen: pods' addresses and nodes' subnets.
fn give_addresses(compiler: &Compiler, objects: &mut [Value]) {
    let records = &compiler.planner.cluster().records;
    for object in objects.iter_mut() {
        if object["kind"] == "Node" {
            let subnets = records.subnets(text(object, "/metadata/name"));
            let subnets: Vec<String> = subnets.iter().map(ToString::to_string).collect();
            object["metadata"]["annotations"]["netloom.io/subnets"] = json!(subnets.join(","));
        } else if object["kind"] == "Pod" {
            let name = pod_name(object);
            if let Some(assignment) = records.assignment(&name, text(object, "/metadata/uid")) {
                let addresses: Vec<Value> = assignment.addresses.iter().map(|address| json!({ "ip": address })).collect();
                object["status"]["podIPs"] = addresses.into();
            }
        }
    }
}

pub fn pod_name(pod: &Value) -> PodName {
    PodName {
        namespace: text(pod, "/metadata/namespace").to_owned(),
        name: text(pod, "/metadata/name").to_owned(),
    }
}

/// Hardware address of a node's gateway outside.
fn gateway_mac(node: &Value) -> Mac {
    let gateway: Value = serde_json::from_str(text(node, "/metadata/annotations/netloom.io~1gateway")).unwrap();
    text(&gateway, "/mac").parse().unwrap()
}

/// Addresses a pod has.
pub fn addresses(pod: &Value) -> Vec<IpAddr> {
    let addresses = pod["status"]["podIPs"].as_array().into_iter().flatten();
    addresses.map(|address| text(address, "/ip").parse().unwrap()).collect()
}

/// Addresses of a node as its status tells them.
pub fn node_addresses(node: &Value) -> Vec<IpAddr> {
    let addresses = node["status"]["addresses"].as_array().into_iter().flatten();
    addresses.map(|address| text(address, "/address").parse().unwrap()).collect()
}

fn known(objects: &[Value], compiler: &Compiler) -> Known {
    let nodes = of_kind(objects, "Node").flat_map(|node| {
        let ports = [MANAGEMENT_HOST, SERVICE_HOST].map(|host| compiler.hosts(text(node, "/metadata/name"), host));
        [node_addresses(node), ports.concat()].concat()
    });
    let services = of_kind(objects, "Service").flat_map(|service| service["spec"]["clusterIPs"].as_array().into_iter().flatten());
    Known {
        pods: of_kind(objects, "Pod")
            .flat_map(|pod| [addresses(pod), compiler.network_addresses(pod)].concat())
            .collect(),
        nodes: nodes.collect(),
        services: services.filter_map(|ip| ip.as_str()?.parse().ok()).collect(),
        outside: OUTSIDE.map(|address| address.parse().unwrap()).to_vec(),
    }
}

/// A place packets come from or go to: a logical port and its addresses.
#[derive(Clone, Debug)]
pub struct Port {
    pub name: String,
    /// The switch it is on, and the router's hardware address there.
    pub switch: String,
    pub router: Mac,
    pub mac: Mac,
    pub addresses: Vec<IpAddr>,
    /// Its addresses in the network it is on.
    pub on_network: Vec<IpAddr>,
}

impl Compiler {
    /// The port of a pod.
    pub fn pod_port(&self, pod: &Value) -> Port {
        let assignment = self.assignment(pod).unwrap();
        let node = text(pod, "/spec/nodeName");
        let (switch, router) = match &assignment.attachment {
            None => (node.to_owned(), self.router_mac(node)),
            Some(on) => {
                let network = &self.planner.cluster().records.network(&on.network).unwrap().read;
                (format!("network_{}", on.network), Mac::of(network.gateways[0]))
            }
        };
        Port {
            name: pod_name(pod).port(),
            switch,
            router,
            mac: assignment.mac,
            addresses: assignment.addresses.clone(),
            on_network: self.network_addresses(pod),
        }
    }

    fn assignment(&self, pod: &Value) -> Option<&Assignment> {
        let records = &self.planner.cluster().records;
        records.assignment(&pod_name(pod), text(pod, "/metadata/uid"))
    }

    fn network_addresses(&self, pod: &Value) -> Vec<IpAddr> {
        let on = self.assignment(pod).and_then(|assignment| assignment.attachment.as_ref());
        on.into_iter().flat_map(|on| &on.addresses).map(|address| address.addr()).collect()
    }

    /// The port by which a node talks to pods, from its own addresses as well.
    pub fn management_port(&self, node: &Value) -> Port {
        let name = text(node, "/metadata/name");
        let inside = self.hosts(name, MANAGEMENT_HOST);
        Port {
            name: format!("management_{name}"),
            switch: name.to_owned(),
            router: self.router_mac(name),
            on_network: Vec::new(),
            mac: Mac::of(inside[0]),
            addresses: [inside, node_addresses(node)].concat(),
        }
    }

    /// The port by which a node talks to services.
    pub fn service_port(&self, node: &Value) -> Port {
        let name = text(node, "/metadata/name");
        let inside = self.hosts(name, SERVICE_HOST);
        Port {
            name: format!("service_{name}"),
            switch: name.to_owned(),
            router: self.router_mac(name),
            on_network: Vec::new(),
            mac: Mac::of(inside[0]),
            addresses: inside,
        }
    }

    /// A node's uplink: where packets of the outside come in. The neighbour's hardware address does not matter.
    pub fn uplink(&self, node: &Value) -> Port {
        let name = text(node, "/metadata/name");
        Port {
            name: format!("uplink_{name}"),
            switch: format!("external_{name}"),
            router: gateway_mac(node),
            on_network: Vec::new(),
            mac: "0a:00:00:00:00:ff".parse().unwrap(),
            addresses: OUTSIDE.map(|address| address.parse().unwrap()).to_vec(),
        }
    }

    /// The router's port on a node's switch.
    fn router_mac(&self, node: &str) -> Mac {
        Mac::of(self.hosts(node, GATEWAY_HOST)[0])
    }
}
