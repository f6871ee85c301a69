//! Pods in three namespaces on two nodes, services before them, and tables of who reaches whom, asked with real packets.
//!
//! All tests share a lab. Each has namespaces of its own, which tables name by their role: `open`, `isolated` (by the annotation of the
//! example) and `second`, which a test isolates itself.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use netloom_lab::Shell;
use netloom_lab_fixtures::SharedLab;
use netloom_lab_fixtures::ask::{Ask, Protocol, answered, ask};
use netloom_lab_fixtures::world::{Checked, ended, wait_no_row};

pub const TCP: u16 = 8080;
pub const UDP: u16 = 9090;

/// A machine that is no pod, and where it is plugged in.
pub const MACHINE: &str = "second/machine";
pub const MACHINE_NODE: &str = "node1";
pub const MACHINE_FILE: &str = "/run/machine";

const ROLES: [&str; 3] = ["open", "isolated", "second"];
/// Role of the namespace, name and node.
const PODS: [(&str, &str, &str); 6] = [
    ("open", "example1", "node1"),
    ("open", "example2", "node2"),
    ("isolated", "example3", "node1"),
    ("isolated", "example4", "node2"),
    ("second", "example5", "node1"),
    ("second", "example6", "node2"),
];

static LAB: SharedLab = SharedLab::new("isolation", |spec| spec.nodes(2));

pub fn pod(namespace: &str, name: &str, node: &str, more: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{ name: {name}, namespace: {namespace}, labels: {{ run: {name} }}{more} }}\nspec:\n  nodeName: {node}\n  \
         terminationGracePeriodSeconds: 0\n  containers:\n    - name: echo\n      image: any\n      \
         ports: [{{ containerPort: {TCP} }}, {{ containerPort: 7000 }}, {{ containerPort: {UDP}, protocol: UDP }}]\n---\n"
    )
}

/// A service in front of the pod that has its name.
pub fn service(namespace: &str, name: &str, more: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{ name: {name}, namespace: {namespace} }}\nspec:\n  selector: {{ run: {name} }}\n  ipFamilyPolicy: PreferDualStack\n{more}  \
         ports: [{{ name: tcp, port: {TCP} }}, {{ name: udp, port: {UDP}, protocol: UDP }}]\n---\n"
    )
}

pub fn namespace(name: &str, annotations: &str) -> String {
    format!("apiVersion: v1\nkind: Namespace\nmetadata: {{ name: {name}, annotations: {{ {annotations} }} }}\n---\n")
}

/// A way to ask.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Probe {
    Ping,
    Over(Protocol, u16),
}

/// A test's own namespaces in the lab, deleted when dropped.
pub struct World {
    pub lab: Arc<Checked>,
    test: &'static str,
    /// How often it was waited for.
    markers: AtomicUsize,
    /// Addresses as they were told first; that they stay is asked apart.
    known: Mutex<BTreeMap<String, Vec<IpAddr>>>,
    /// Parts that other tests found crashed.
    ended: Vec<String>,
}

impl World {
    /// The namespaces of a test, with their pods.
    pub fn up(test: &'static str) -> Self {
        let lab = LAB.get();
        let world = Self {
            ended: ended(&lab),
            lab,
            test,
            markers: AtomicUsize::new(0),
            known: Mutex::default(),
        };
        let of = |role: &str| world.namespace(role);
        let namespaces = namespace(&of("open"), "")
            + &namespace(&of("isolated"), "opencontrail.kubernetes.isolated: \"true\"")
            + &namespace(&of("second"), "");
        let pods = PODS.map(|(role, name, node)| pod(&of(role), name, node, "") + &service(&of(role), name, ""));
        let published = format!(
            "apiVersion: v1\nkind: Service\nmetadata: {{ name: published, namespace: {} }}\nspec: {{ type: NodePort, selector: {{ run: example4 }}, \
             ipFamilyPolicy: PreferDualStack, ports: [{{ port: {TCP} }}] }}\n---\n",
            of("isolated")
        );
        world.lab.apply(&(namespaces + &pods.concat() + &published)).unwrap();
        world.wait_ready();
        world.settle();
        world
    }

    /// The namespace that this test has for a role.
    pub fn namespace(&self, role: &str) -> String {
        format!("{}-{role}", self.test)
    }

    /// Waits, by watching, until all pods of this test are ready.
    pub fn wait_ready(&self) {
        for role in ROLES {
            let of = ["-n", &self.namespace(role), "--for=condition=Ready", "--timeout=120s"];
            self.kubectl(&[&["wait", "pod", "--all"], of.as_slice()].concat());
        }
    }

    pub fn kubectl(&self, arguments: &[&str]) -> String {
        self.lab.kubectl(arguments).unwrap_or_else(|error| panic!("{error:#}"))
    }

    pub fn shell(&self, place: &str) -> Shell<'_> {
        match place.split_once('/') {
            Some(_) if place == MACHINE => self.lab.node(MACHINE_NODE).in_namespace(MACHINE_FILE),
            Some((role, name)) => self.lab.pod(&self.namespace(role), name),
            None if place == "outside" => self.lab.outside(),
            None => self.lab.node(place),
        }
    }

    /// Addresses of a pod (`role/name`) or of a service (`service role/name`).
    pub fn addresses(&self, of: &str) -> Vec<IpAddr> {
        let mut known = self.known.lock().unwrap();
        known.entry(of.to_owned()).or_insert_with(|| self.told_addresses(of)).clone()
    }

    fn told_addresses(&self, of: &str) -> Vec<IpAddr> {
        let (kind, path, name) = match of.strip_prefix("service ") {
            Some(name) => ("service", "{.spec.clusterIPs[*]}", name),
            None if of == MACHINE => ("port", "{.status.addresses[*]}", of),
            None => ("pod", "{.status.podIPs[*].ip}", of),
        };
        let (role, name) = name.split_once('/').unwrap();
        let text = self.kubectl(&["get", kind, name, "-n", &self.namespace(role), "-o", &format!("jsonpath={path}")]);
        let plain = |word: &str| word.split('/').next().unwrap_or_default().parse().unwrap();
        let addresses: Vec<IpAddr> = text.split_whitespace().map(plain).collect();
        assert_eq!(addresses.len(), 2, "{of} has both families");
        addresses
    }

    /// Addresses of all pods of this test, as they are told now.
    pub fn pod_addresses(&self) -> [String; 3] {
        let path = r#"jsonpath={range .items[*]}{.metadata.name}{" "}{.status.podIPs[*].ip}{"\n"}{end}"#;
        ROLES.map(|role| self.kubectl(&["get", "pods", "-n", &self.namespace(role), "-o", path]))
    }

    /// Changes a namespace's annotations (`name=value`, `name-`) and waits until every switch does what they say.
    pub fn annotate(&self, role: &str, annotations: &[&str]) {
        self.kubectl(&[&["annotate", "--overwrite", "namespace", &self.namespace(role)], annotations].concat());
        self.settle();
    }

    /// The controller hears of namespaces in order: when it has written one more, it has written those before.
    pub fn settle(&self) {
        let name = format!("{}-marker-{}", self.test, self.markers.fetch_add(1, Ordering::Relaxed));
        self.lab.apply(&namespace(&name, "netloom.io/isolation: pods")).unwrap();
        self.wait_row("Port_Group", &format!("network/{name}-vn"));
        self.kubectl(&["delete", "namespace", &name]);
    }

    /// Waits until an object has an Event with this reason. Events of a namespace are in `default`.
    pub fn wait_event(&self, namespace: &str, name: &str, reason: &str) {
        let watch =
            format!("kubectl get events -n {namespace} --watch --no-headers --field-selector involvedObject.name={name},reason={reason}");
        let script = format!("read -t 30 line < <(exec timeout 30 {watch}) || {{ echo 'no Event {reason} on {name}'; exit 1; }}");
        self.lab.control().run(&["bash", "-c", &script]).unwrap();
    }

    /// Waits until the controller has written a row and every switch knows it.
    pub fn wait_row(&self, table: &str, key: &str) {
        let watch = format!("ovsdb-client monitor unix:/run/ovn/ovnnb_db.sock OVN_Northbound {table} external_ids");
        let script = format!(
            "while read -t 30 line; do [[ $line == *'{key}\"'* || $line == *'{key},'* || $line == *'{key}}}'* ]] && exit 0; done < <({watch}); echo '{key} never came'; exit 1"
        );
        self.lab.control().run(&["bash", "-c", &script]).unwrap();
        self.lab.control().run(&["ovn-nbctl", "--wait=hv", "--timeout=30", "sync"]).unwrap();
    }

    /// Waits until an address set of this key has an address, and every switch knows it.
    pub fn wait_member(&self, set: &str, address: &str) {
        let watch = "ovsdb-client monitor unix:/run/ovn/ovnnb_db.sock OVN_Northbound Address_Set external_ids,addresses";
        let script = format!(
            "while read -t 30 line; do [[ $line == *'{set}/'* && $line == *'{address}'* ]] && exit 0; done < <({watch}); echo '{address} never came'; exit 1"
        );
        self.lab.control().run(&["bash", "-c", &script]).unwrap();
        self.lab.control().run(&["ovn-nbctl", "--wait=hv", "--timeout=30", "sync"]).unwrap();
    }

    /// Waits until no row of a table has a key that begins so, and every switch knows it.
    pub fn wait_no_row(&self, table: &str, key: &str) {
        wait_no_row(&self.lab, table, key);
    }

    /// Asks in every way; see [`Self::check_by`].
    pub fn check(&self, what: &str, table: &[(&str, &str, bool)]) {
        let ways = |to: &str| {
            let ping = (!to.starts_with("service")).then_some(Probe::Ping);
            [Probe::Over(Protocol::Tcp, TCP), Probe::Over(Protocol::Udp, UDP)]
                .into_iter()
                .chain(ping)
        };
        let each = table
            .iter()
            .flat_map(|(from, to, answer)| ways(to).map(|way| (*from, *to, way, *answer)));
        self.check_by(what, &each.collect::<Vec<_>>());
    }

    /// Asks everything at the same time, in both families, and tells every answer that is not as it must be.
    pub fn check_by(&self, what: &str, table: &[(&str, &str, Probe, bool)]) {
        let targets: BTreeSet<&str> = table.iter().map(|(_, to, ..)| *to).collect();
        let known: BTreeMap<&str, Vec<IpAddr>> = targets.into_iter().map(|to| (to, self.addresses(to))).collect();
        let questions = table
            .iter()
            .flat_map(|question| known[question.1].iter().map(move |address| (question, *address)));
        let wrong: Vec<String> = thread::scope(|scope| {
            let asked: Vec<_> = questions
                .map(|((from, to, way, answer), address)| {
                    scope.spawn(move || {
                        let right = self.reaches(from, address, *way, *answer) == *answer;
                        (!right).then(|| format!("{from} to {to} at {address} by {way:?}: must it be answered? {answer}"))
                    })
                })
                .collect();
            asked.into_iter().filter_map(|answer| answer.join().unwrap()).collect()
        });
        assert_eq!(wrong, Vec::<String>::new(), "{what}");
    }

    /// Whether there is an answer; who must not answer is given a second.
    pub fn reaches(&self, from: &str, to: IpAddr, way: Probe, expected: bool) -> bool {
        let seconds = if expected { 8 } else { 1 };
        match way {
            Probe::Over(protocol, port) => answered(&ask(&self.shell(from), &Ask::new(protocol, to, port).timeout_ms(seconds * 1000))),
            Probe::Ping => {
                let script = format!("ping -n -q -c1 -W{seconds} {to} >/dev/null && echo answered; true");
                self.shell(from).run(&["bash", "-c", &script]).unwrap().contains("answered")
            }
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if !thread::panicking() {
            self.lab.lint();
        }
        let deleted = self.lab.kubectl(
            &[
                vec!["delete".to_owned(), "namespace".to_owned()],
                ROLES.map(|role| self.namespace(role)).to_vec(),
            ]
            .concat(),
        );
        if !thread::panicking() {
            deleted.unwrap_or_else(|error| panic!("{error:#}"));
            assert_eq!(ended(&self.lab), self.ended, "parts crashed");
        }
    }
}
