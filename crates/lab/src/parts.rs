//! What runs on each kind of machine: plain lists of settings, steps and parts that a machine's init carries out.
//!
//! Everything here is data computed from the [`Record`]; [`crate::init`] gives it life. A reader who wants to know how a node boots reads
//! this file from top to bottom.

use crate::home::Record;
use crate::root::{KUBECONFIG, LOGS, NETLOOM};
use crate::spec::{Datapath, Machine, NORTHBOUND_PORT, SOUTHBOUND_PORT};
use crate::underlay::UPLINK;

/// How a machine comes up.
#[derive(Debug, Default)]
pub struct Boot {
    /// Sysctls of the machine's own network namespace, without the `net/` prefix.
    pub sysctls: &'static [(&'static str, &'static str)],
    /// Commands run once, in order, before any part.
    pub steps: Vec<Step>,
    /// Long-running processes.
    pub parts: Vec<Part>,
}

/// One command that must succeed.
#[derive(Debug, Clone)]
pub struct Step {
    /// Program and arguments.
    pub command: Vec<String>,
    /// What it reads from standard input.
    pub input: String,
}

/// One long-running process, restarted when it ends.
#[derive(Debug, Clone, Default)]
pub struct Part {
    /// Its name; also that of its log file.
    pub name: &'static str,
    /// Program and arguments.
    pub command: Vec<String>,
    /// Set for programs that detach: they hand over to a daemon, named in this pid file, when it serves.
    pub daemon_pid_file: Option<String>,
    /// Parts that must be ready before it starts.
    pub needs: Vec<&'static str>,
    /// Parts that cannot work on when it ends and are restarted with it.
    pub takes_down: Vec<&'static str>,
    /// Commands run after every start; it is ready when they are done.
    pub after: Vec<Step>,
    /// Whether the API listener made in the host's network namespace is its standard input.
    pub takes_listener: bool,
}

/// How `machine` comes up.
pub fn boot(record: &Record, machine: Machine) -> Boot {
    match machine {
        Machine::Control => control(record),
        Machine::Outside => outside(record),
        Machine::Node(_) => node(record, machine),
    }
}

fn control(record: &Record) -> Boot {
    let address = Machine::Control.v4();
    let northbound = format!("tcp:{address}:{NORTHBOUND_PORT}");
    let database = |name: &str| format!("database {name} --replicas 1 --member control-0 --address {address}");
    Boot {
        sysctls: &[],
        steps: vec![],
        parts: vec![
            program("northbound", &database("northbound"), "/run/ovn/ovnnb_db.pid"),
            program("southbound", &database("southbound"), "/run/ovn/ovnsb_db.pid"),
            Part {
                needs: vec!["northbound", "southbound"],
                ..program(
                    "northd",
                    "northd --northbound unix:/run/ovn/ovnnb_db.sock --southbound unix:/run/ovn/ovnsb_db.sock",
                    "/run/ovn/ovn-northd.pid",
                )
            },
            Part {
                name: "apiserver",
                command: words(format!("{NETLOOM} lab apiserver --ip-family {}", record.spec.ip_family)),
                takes_listener: true,
                ..Part::default()
            },
            Part {
                name: "dns",
                command: words(format!(
                    "{NETLOOM} lab dns --ip-family {} --kubeconfig {KUBECONFIG}",
                    record.spec.ip_family
                )),
                needs: vec!["apiserver"],
                ..Part::default()
            },
            Part {
                name: "controller",
                command: words(format!("{NETLOOM} controller --northbound {northbound} --kubeconfig {KUBECONFIG}")),
                needs: vec!["northbound", "apiserver"],
                ..Part::default()
            },
        ],
    }
}

/// A program of OVN or Open vSwitch, started as in a cluster, but detached: it is ready when it serves, and what is killed is the program
/// itself.
fn program(name: &'static str, arguments: &str, pid_file: &str) -> Part {
    Part {
        name,
        command: words(format!("{NETLOOM} run {arguments} --detach {LOGS}/{name}.log")),
        daemon_pid_file: Some(pid_file.into()),
        ..Part::default()
    }
}

/// Addresses that exist only behind `outside`, as the rest of the world would.
pub const WORLD: [&str; 2] = ["203.0.113.1/32", "2001:db8::1/128"];

fn outside(record: &Record) -> Boot {
    let mut batch = assign(record, Machine::Outside, UPLINK);
    for address in WORLD {
        batch.push_str(&format!("address replace {address} dev lo\n"));
    }
    Boot {
        sysctls: FORWARDING,
        steps: vec![ip(batch)],
        parts: vec![Part {
            name: "echo",
            command: words(format!(
                "{NETLOOM} lab container --name outside --port 80/TCP --port 8080/TCP --port 7/TCP --port 7/UDP --port 53/UDP"
            )),
            ..Part::default()
        }],
    }
}

fn node(record: &Record, machine: Machine) -> Boot {
    let userspace = record.spec.datapath == Datapath::Userspace;
    let datapath = if userspace { "userspace" } else { "kernel" };
    let name = machine.name();
    let southbound = format!("tcp:{}:{SOUTHBOUND_PORT}", Machine::Control.v4());
    let mut steps = vec![];
    if userspace {
        // The userspace datapath copies packets off the uplink; the kernel must not answer them as well.
        steps.push(step(
            "nft -f -",
            format!(
                "table netdev netloom-lab {{ chain uplink {{ type filter hook ingress device \"{UPLINK}\" priority 0; policy drop; }}\n}}\n"
            ),
        ));
    }
    let addresses = record
        .spec
        .ip_family
        .pick(format!("--address {}", machine.v4()), format!("--address {}", machine.v6()))
        .join(" ");
    let mut addressed = assign(record, machine, "br-ex");
    addressed.push_str(&format!("route replace default via {}\n", Machine::Outside.v4()));
    if record.spec.ip_family.has_v6() {
        addressed.push_str(&format!("route replace default via {}\n", Machine::Outside.v6()));
    }
    Boot {
        sysctls: FORWARDING,
        steps,
        parts: vec![
            Part {
                after: vec![set_up_switch(machine, datapath, &southbound)],
                ..program("ovsdb", "switch-database", "/run/openvswitch/ovsdb-server.pid")
            },
            Part {
                // A new vswitchd may make br-ex anew, without addresses.
                after: std::iter::once(ip(addressed))
                    .chain(userspace.then(|| introduce_neighbours(record, machine)))
                    .collect(),
                needs: vec!["ovsdb"],
                // Alone, ovn-controller would notice after a back-off of up to 8 s.
                takes_down: vec!["ovn-controller"],
                ..program(
                    "vswitchd",
                    &format!("switch --datapath {datapath}"),
                    "/run/openvswitch/ovs-vswitchd.pid",
                )
            },
            Part {
                needs: vec!["vswitchd"],
                ..program("ovn-controller", "ovn-controller", "/run/ovn/ovn-controller.pid")
            },
            Part {
                name: "agent",
                command: words(format!(
                    "{NETLOOM} agent --node {name} --southbound {southbound} --kubeconfig {KUBECONFIG}"
                )),
                needs: vec!["vswitchd"],
                ..Part::default()
            },
            Part {
                name: "kubelet",
                command: words(format!("{NETLOOM} lab kubelet --node {name} {addresses} --kubeconfig {KUBECONFIG}")),
                // Its way to the API server is br-ex.
                needs: vec!["vswitchd"],
                ..Part::default()
            },
        ],
    }
}

/// Everything Open vSwitch and OVN must know about the node, before vswitchd starts. The agent of a cluster writes the same.
fn set_up_switch(machine: Machine, datapath: &str, southbound: &str) -> Step {
    let (name, address, mac) = (machine.name(), machine.v4(), mac_text(machine));
    step(
        &format!(
            "{NETLOOM} lab set-up-switch --node {name} --address {address} --southbound {southbound} --datapath {datapath} \
             --uplink {UPLINK} --mac {mac}"
        ),
        String::new(),
    )
}

/// Tells the userspace datapath the other nodes' hardware addresses: it drops the packet for which it first has to ask. The kernel's
/// datapath keeps such a packet and needs none of this.
fn introduce_neighbours(record: &Record, machine: Machine) -> Step {
    let mut script = String::from("ovs-appctl tnl/neigh/aging 3600 >/dev/null\n");
    for other in (1..=record.spec.nodes).map(Machine::Node).filter(|other| *other != machine) {
        script.push_str(&format!(
            "ovs-appctl tnl/neigh/set br-ex {} {} >/dev/null\n",
            other.v4(),
            mac_text(other)
        ));
    }
    step("sh -e -s", script)
}

fn mac_text(machine: Machine) -> String {
    machine.mac().map(|byte| format!("{byte:02x}")).join(":")
}

/// Nodes and the outside are routers.
const FORWARDING: &[(&str, &str)] = &[
    ("ipv4/ip_forward", "1"),
    ("ipv6/conf/all/forwarding", "1"),
    ("ipv4/conf/all/rp_filter", "0"),
    ("ipv4/conf/default/rp_filter", "0"),
];

fn assign(record: &Record, machine: Machine, device: &str) -> String {
    let mut batch = format!("link set {device} up\n");
    for (address, prefix) in machine.addresses(record.spec.ip_family) {
        batch.push_str(&format!("address replace {address}/{prefix} dev {device}\n"));
    }
    batch
}

fn ip(batch: String) -> Step {
    step("ip -batch -", batch)
}

fn step(command: &str, input: String) -> Step {
    Step {
        command: words(command),
        input,
    }
}

fn words(text: impl AsRef<str>) -> Vec<String> {
    text.as_ref().split_whitespace().map(String::from).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::spec::Spec;

    #[test]
    fn every_need_is_a_part_of_the_same_machine() {
        let mut spec = Spec::new("t").nodes(2);
        spec.datapath = Datapath::Userspace;
        let record = Record {
            spec: spec.clone(),
            api_port: 1,
            token: "t".into(),
        };
        for machine in spec.machines() {
            let boot = boot(&record, machine);
            for part in &boot.parts {
                for other in part.needs.iter().chain(&part.takes_down) {
                    assert!(
                        boot.parts.iter().any(|p| p.name == *other),
                        "{} of {} names {other}",
                        part.name,
                        machine.name()
                    );
                }
            }
        }
    }

    #[test]
    fn tunnels_use_the_node_address() {
        let command = set_up_switch(Machine::Node(2), "userspace", "tcp:172.30.0.1:6642")
            .command
            .join(" ");
        assert!(command.contains("--address 172.30.0.12 "), "{command}");
        assert!(command.ends_with("--mac 02:4e:4c:1e:00:0c"), "{command}");
    }
}
