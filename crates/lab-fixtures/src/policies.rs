//! A world of pods in two namespaces on two nodes, for tests of policies, and questions whose answers are packets.

mod connections;

use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use netloom_lab::Shell;

pub use connections::are_cut_but_for_the_allowed;

use crate::ask::{Ask, Protocol, answered, ask};
use crate::world::{Checked, lab_with, wait_ready};

/// A port of every pod; also `http`, but of `shop/web-2`.
pub const TCP: u16 = 8080;
/// Another port of every pod.
pub const UDP: u16 = 9090;

/// Pods of this world: namespace, name, node, labels and the number of their port `http`.
const PODS: [(&str, &str, &str, &str, u16); 5] = [
    ("shop", "web-1", "node1", "app: web", TCP),
    ("shop", "web-2", "node2", "app: web", 8081),
    ("shop", "client", "node1", "app: client", TCP),
    ("shop", "db", "node2", "app: db", TCP),
    ("other", "client", "node2", "app: client", TCP),
];

/// A pod: namespace, name, node, labels and the number of its port `http`.
pub fn pod((namespace, name, node, labels, http): (&str, &str, &str, &str, u16)) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{ name: {name}, namespace: {namespace}, labels: {{ {labels} }} }}\nspec:\n  nodeName: {node}\n  \
         terminationGracePeriodSeconds: 0\n  containers:\n    - name: echo\n      image: any\n      ports:\n        \
         - {{ name: http, containerPort: {http} }}\n        - {{ containerPort: 7000 }}\n        - {{ containerPort: 7010 }}\n        - {{ name: udp, containerPort: {UDP}, protocol: UDP }}\n---\n"
    )
}

fn namespace(name: &str, labels: &str) -> String {
    format!("apiVersion: v1\nkind: Namespace\nmetadata: {{ name: {name}, labels: {{ {labels} }} }}\n---\n")
}

/// A network policy.
pub fn policy(namespace: &str, name: &str, spec: &str) -> String {
    format!(
        "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {{ name: {name}, namespace: {namespace} }}\nspec: {spec}\n---\n"
    )
}

const SERVICES: &str = "apiVersion: v1\nkind: Service\nmetadata: { name: web, namespace: shop }\nspec:\n  selector: { app: web }\n  ipFamilyPolicy: PreferDualStack\n  \
    ports: [{ name: http, port: 80, targetPort: http }]\n---\n\
    apiVersion: v1\nkind: Service\nmetadata: { name: db, namespace: shop }\nspec:\n  selector: { app: db }\n  ipFamilyPolicy: PreferDualStack\n  \
    ports: [{ name: http, port: 80, targetPort: http }]\n---\n";

/// The lab and how often it was waited for.
pub struct World {
    /// The lab.
    pub lab: Checked,
    markers: AtomicUsize,
}

/// One question: from whom, to which address and port, and whether there must be an answer.
pub struct Question<'a> {
    /// A pod (`namespace/name`), a node or `outside`.
    pub from: &'a str,
    /// The address that is asked.
    pub to: IpAddr,
    /// By which protocol.
    pub protocol: Protocol,
    /// At which port.
    pub port: u16,
    /// Whether there must be an answer.
    pub answer: bool,
}

impl World {
    /// A world of its own for a test.
    pub fn up(test: &str) -> Self {
        let world = Self {
            lab: lab_with(test, |spec| spec.nodes(2)),
            markers: AtomicUsize::new(0),
        };
        let namespaces = namespace("shop", "team: shop") + &namespace("other", "team: other") + &namespace("marker", "team: none");
        world.lab.apply(&(namespaces + &PODS.map(pod).concat() + SERVICES)).unwrap();
        wait_ready(&world.lab);
        world
    }

    /// A shell at a place; see [`Question::from`].
    pub fn shell(&self, place: &str) -> Shell<'_> {
        match place.split_once('/') {
            Some((namespace, name)) => self.lab.pod(namespace, name),
            None if place == "outside" => self.lab.outside(),
            None => self.lab.node(place),
        }
    }

    /// Addresses of a pod (`namespace/name`).
    pub fn addresses(&self, pod: &str) -> Vec<IpAddr> {
        let (namespace, name) = pod.split_once('/').unwrap();
        self.field(namespace, &format!("pod/{name}"), "{.status.podIPs[*].ip}")
    }

    /// Addresses in a field of an object.
    pub fn field(&self, namespace: &str, object: &str, path: &str) -> Vec<IpAddr> {
        let text = self
            .lab
            .kubectl(&["get", object, "-n", namespace, "-o", &format!("jsonpath={path}")])
            .unwrap();
        text.split_whitespace().map(|ip| ip.parse().unwrap()).collect()
    }

    /// Applies policies and waits until every node's switch does what they say.
    pub fn apply(&self, manifest: &str) {
        self.lab.apply(manifest).unwrap();
        self.settle();
    }

    /// Deletes a network policy and waits until every node's switch has forgotten it.
    pub fn delete(&self, namespace: &str, policy: &str) {
        self.lab.kubectl(&["delete", "networkpolicy", "-n", namespace, policy]).unwrap();
        self.settle();
    }

    /// The controller hears of policies in order: when it has written one more, it has written those before.
    fn settle(&self) {
        let number = self.markers.fetch_add(1, Ordering::Relaxed);
        let spec = format!("{{ podSelector: {{ matchLabels: {{ marker: n{number} }} }} }}");
        self.lab.apply(&policy("marker", "marker", &spec)).unwrap();
        let watch = "ovsdb-client monitor unix:/run/ovn/ovnnb_db.sock OVN_Northbound Port_Group external_ids";
        let script = format!(
            "while read -t 30 line; do [[ $line == *'subject/marker/marker=n{number}\"'* || $line == *'subject/marker/marker=n{number},'* ]] && exit 0; done < <({watch}); echo 'marker {number} never came'; exit 1"
        );
        self.lab.control().run(&["bash", "-c", &script]).unwrap();
        self.lab.control().run(&["ovn-nbctl", "--wait=hv", "--timeout=30", "sync"]).unwrap();
    }

    /// Asks at the same time and tells every answer that is not as it must be. Who must not answer is given a second.
    fn wrong(&self, questions: &[Question<'_>]) -> Vec<String> {
        let one = |question: &Question<'_>| {
            let Question {
                from,
                to,
                protocol,
                port,
                answer,
            } = question;
            let timeout = if *answer { 8000 } else { 1000 };
            let attempts = ask(&self.shell(from), &Ask::new(*protocol, *to, *port).timeout_ms(timeout));
            let right = answered(&attempts) == *answer;
            (!right).then(|| format!("{from} to {to} {protocol:?} {port}: must it be answered? {answer}"))
        };
        thread::scope(|scope| {
            let asked: Vec<_> = questions.iter().map(|question| scope.spawn(move || one(question))).collect();
            asked.into_iter().filter_map(|answer| answer.join().unwrap()).collect()
        })
    }

    /// Everything from one place to a pod: TCP at its port `http` and UDP, both families.
    pub fn all<'a>(&self, from: &'a str, to: &str, answer: bool) -> Vec<Question<'a>> {
        let http = if to.ends_with("web-2") { 8081 } else { TCP };
        let ports = [(Protocol::Tcp, http), (Protocol::Udp, UDP)];
        let addresses = self.addresses(to);
        assert_eq!(addresses.len(), 2, "{to} has both families");
        let each = addresses
            .into_iter()
            .flat_map(|to| ports.map(|(protocol, port)| (to, protocol, port)));
        each.map(|(to, protocol, port)| Question {
            from,
            to,
            protocol,
            port,
            answer,
        })
        .collect()
    }

    /// TCP to one port of a pod in both families.
    pub fn tcp<'a>(&self, from: &'a str, to: &str, port: u16, answer: bool) -> Vec<Question<'a>> {
        let question = |to| Question {
            from,
            to,
            protocol: Protocol::Tcp,
            port,
            answer,
        };
        self.addresses(to).into_iter().map(question).collect()
    }

    /// Asks all of them at the same time; every answer must be as it must be.
    pub fn check(&self, what: &str, questions: Vec<Vec<Question<'_>>>) {
        let questions: Vec<Question<'_>> = questions.into_iter().flatten().collect();
        assert_eq!(self.wrong(&questions), Vec::<String>::new(), "{what}");
    }
}
