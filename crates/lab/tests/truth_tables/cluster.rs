//! The lab with the pods of a random cluster, and how it becomes the next one.

use std::net::IpAddr;

use serde_json::{Value, json};

use netloom_lab_fixtures::generate::{self, Known, Random, Shape, of_kind, text};
use netloom_lab_fixtures::world::{Checked, lab_with, wait_ready};

/// Label with the service a pod is behind.
const SERVES: &str = "serves";

/// Ports that every pod answers on, besides its own.
const MORE_PORTS: [(u16, &str); 4] = [(80, "TCP"), (81, "TCP"), (80, "UDP"), (80, "SCTP")];

/// The lab, and the objects its pods were made from.
pub struct Cluster {
    pub lab: Checked,
    objects: Vec<Value>,
}

impl Cluster {
    /// Pods, namespaces and services of a seed, on two nodes.
    pub fn up(seed: u64, shape: &Shape) -> Self {
        let objects = generate::objects(&mut Random::new(seed), shape);
        // Nodes and endpoints are there already, or come by themselves.
        let mut objects: Vec<Value> = objects
            .into_iter()
            .filter(|object| object["kind"] != "Node")
            .map(runnable)
            .collect();
        keep_endpoints(&mut objects);
        let lab = lab_with("truth-tables", |spec| spec.nodes(2));
        let marker = [
            json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "marker" } }),
            runnable(json!({
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": { "namespace": "marker", "name": "marker" },
                "spec": { "nodeName": "node1", "containers": [{ "name": "main", "image": "any" }] },
            })),
        ];
        lab.apply(&manifest(objects.iter().chain(&marker))).unwrap();
        wait_ready(&lab);
        Self { lab, objects }
    }

    /// Gives pods and namespaces the labels of another seed, replaces all policies, and waits until every switch does what they say. Returns
    /// everything there is, as the API server tells it.
    pub fn become_like(&self, seed: u64, shape: &Shape) -> Value {
        let mut random = Random::new(seed);
        let others = generate::objects(&mut random, shape);
        let label = |object: &Value, number: usize| {
            let kind = text(object, "/kind");
            let other = of_kind(&others, kind).nth(number).unwrap();
            let mut object = object.clone();
            let serves = object["metadata"]["labels"].get(SERVES).cloned();
            object["metadata"]["labels"] = other["metadata"]["labels"].clone();
            if let Some(service) = serves {
                object["metadata"]["labels"][SERVES] = service;
            }
            object
        };
        let of = |kind| {
            of_kind(&self.objects, kind)
                .enumerate()
                .map(|(number, object)| label(object, number))
        };
        let labelled: Vec<Value> = of("Namespace").chain(of("Pod")).collect();
        self.lab.kubectl(&["delete", "networkpolicy", "--all", "--all-namespaces"]).unwrap();
        let rules = generate::rules(&mut random, shape, &labelled, &known(&self.all()));
        self.lab.apply(&manifest(labelled.iter().chain(&rules))).unwrap();
        self.settle(seed);
        self.all()
    }

    fn all(&self) -> Value {
        let kinds = "namespaces,pods,nodes,services,endpointslices,networkpolicies";
        let text = self.lab.kubectl(&["get", kinds, "--all-namespaces", "-o", "json"]).unwrap();
        serde_json::from_str(&text).unwrap()
    }

    /// The controller hears of the objects of each kind in order. When the set of pods that have a mark, in namespaces that have it, has somebody
    /// because of a policy, it has heard of all of them.
    fn settle(&self, seed: u64) {
        let mark = json!({ "marker": format!("n{seed}") });
        let selector = json!({ "matchLabels": mark });
        let policy = json!({
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": { "namespace": "marker", "name": "marker" },
            "spec": { "podSelector": {}, "ingress": [{ "from": [{ "podSelector": selector, "namespaceSelector": selector }] }] },
        });
        self.lab.apply(&policy.to_string()).unwrap();
        for object in [["namespace", "marker"], ["pod", "marker"]] {
            let label = format!("marker=n{seed}");
            let words = ["label", object[0], object[1], "--namespace=marker", "--overwrite", &label];
            self.lab.kubectl(&words).unwrap();
        }
        let watch = "ovsdb-client monitor unix:/run/ovn/ovnnb_db.sock OVN_Northbound Address_Set addresses,external_ids";
        let key = format!("peers/(marker=n{seed})/marker=n{seed}/4");
        let script = format!(
            "while read -t 60 line; do [[ $line == *'{key}'* && $line == *10.244.* ]] && exit 0; done < <({watch}); echo 'the marker never came'; exit 1"
        );
        self.lab.control().run(&["bash", "-c", &script]).unwrap();
        self.lab.control().run(&["ovn-nbctl", "--wait=hv", "--timeout=60", "sync"]).unwrap();
    }
}

/// Services get pods by a label of their own, so that other labels leave their endpoints alone.
fn keep_endpoints(objects: &mut [Value]) {
    let places: Vec<Value> = of_kind(objects, "Pod").map(|pod| pod["metadata"]["namespace"].clone()).collect();
    let mut pods = 0;
    for object in objects.iter_mut() {
        if object["kind"] == "Pod" {
            object["metadata"]["labels"][SERVES] = json!(format!("s{}", pods % 2));
            pods += 1;
        }
    }
    for (number, service) in objects.iter_mut().filter(|object| object["kind"] == "Service").enumerate() {
        service["metadata"]["namespace"] = places[number].clone();
        service["spec"]["selector"] = json!({ SERVES: service["metadata"]["name"] });
    }
}

/// As a kubelet takes it: no status, an end at once.
fn runnable(mut object: Value) -> Value {
    if object["kind"] == "Pod" {
        object["spec"]["terminationGracePeriodSeconds"] = json!(0);
        object.as_object_mut().unwrap().remove("status");
        object["metadata"].as_object_mut().unwrap().remove("uid");
        // Init containers that are to end would have to.
        object["spec"].as_object_mut().unwrap().remove("initContainers");
        answer_more(&mut object["spec"]["containers"][0]);
    }
    if object["kind"] == "Service" {
        object["metadata"].as_object_mut().unwrap().remove("uid");
        // Its addresses may be another's.
        let spec = object["spec"].as_object_mut().unwrap();
        spec.retain(|field, _| !field.starts_with("clusterIP"));
    }
    object
}

/// Some ports without a name, of all pods: what is closed there must be closed by a policy.
fn answer_more(container: &mut Value) {
    let mut ports = container["ports"].as_array().cloned().unwrap_or_default();
    for (number, protocol) in MORE_PORTS {
        let same = |port: &Value| port["containerPort"] == number && port["protocol"].as_str().unwrap_or("TCP") == protocol;
        if !ports.iter().any(same) {
            ports.push(json!({ "containerPort": number, "protocol": protocol }));
        }
    }
    container["ports"] = ports.into();
}

fn manifest<'a>(objects: impl Iterator<Item = &'a Value>) -> String {
    json!({ "apiVersion": "v1", "kind": "List", "items": objects.collect::<Vec<_>>() }).to_string()
}

/// Addresses that are there.
fn known(all: &Value) -> Known {
    let items = all["items"].as_array().unwrap();
    let addresses = |kind: &'static str, list: &'static str, field: &'static str| -> Vec<IpAddr> {
        let lists = of_kind(items, kind).flat_map(move |object| object.pointer(list).and_then(Value::as_array).into_iter().flatten());
        lists
            .filter_map(|one| one.pointer(field).unwrap_or(one).as_str()?.parse().ok())
            .collect()
    };
    Known {
        pods: addresses("Pod", "/status/podIPs", "/ip"),
        nodes: addresses("Node", "/status/addresses", "/address"),
        services: addresses("Service", "/spec/clusterIPs", "/none"),
        outside: ["192.0.2.7".parse().unwrap(), "2001:db8::7".parse().unwrap()].to_vec(),
    }
}
