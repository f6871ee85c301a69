//! The healthy worlds that tests spoil.

use std::collections::BTreeMap;

use netloom_kubernetes::Kind;

use crate::cluster::databases::{Member, MemberState};
use crate::cluster::{ClusterFacts, Condition, DaemonSetSeen, Definition, Network, NodeSeen, PodSeen, Workload};
use crate::node::{Authority, Bridge, Certificates, CniFiles, Device, Firewall, Host, Interface, Module, NodeFacts, Ovn, Switch};
use crate::unseen::Unseen;

/// The time in these worlds.
pub const NOW: i64 = 1_800_000_000;
/// Seconds of a day.
pub const DAY: i64 = 24 * 3600;

/// A map of texts.
pub fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// A device, without an address if that is empty.
pub fn device(name: &str, mtu: u32, address: &str) -> Device {
    Device {
        name: name.to_owned(),
        mtu,
        addresses: address.parse().into_iter().collect(),
    }
}

/// An interface of a bridge.
pub fn interface(name: &str, kind: &str) -> Interface {
    Interface {
        name: name.to_owned(),
        kind: kind.to_owned(),
        error: None,
    }
}

/// A server that is well.
pub fn member(database: &'static str, remote: &str, leader: bool) -> Member {
    Member {
        database,
        remote: remote.to_owned(),
        state: Ok(MemberState {
            clustered: true,
            leader,
            connected: true,
        }),
    }
}

/// Something that went wrong.
pub fn error() -> Unseen {
    Unseen::Error("broken".to_owned())
}

/// A node with nothing wrong.
pub fn healthy_node() -> NodeFacts {
    NodeFacts {
        node: "node1".to_owned(),
        host: Host {
            release: "6.12.1-amd64".to_owned(),
            openvswitch: Module::Loaded,
            geneve: Module::Loaded,
            settings: map(&[
                ("ipv4/ip_forward", "1"),
                ("ipv6/conf/all/forwarding", "1"),
                ("ipv6/conf/all/disable_ipv6", "0"),
                ("ipv4/conf/all/rp_filter", "1"),
                ("ipv4/conf/netloom0/rp_filter", "2"),
                ("ipv4/conf/netloom1/rp_filter", "2"),
                ("netfilter/nf_conntrack_max", "1000"),
                ("netfilter/nf_conntrack_count", "10"),
            ]),
            tun: true,
            disk: Ok((50 << 30, 100 << 30)),
        },
        devices: Ok(vec![
            device("br-ex", 1500, "172.30.0.11"),
            device("netloom0", 1442, "10.244.0.2"),
            device("nl0123456789ab", 1442, ""),
            device("tunl0", 1480, ""),
        ]),
        firewall: Ok(Firewall::default()),
        switch: Ok(Switch {
            version: None,
            current: true,
            external_ids: map(&[
                ("system-id", "node1"),
                ("ovn-encap-ip", "172.30.0.11"),
                ("ovn-encap-type", "geneve"),
                ("ovn-remote", "ssl:172.30.0.1:6642"),
                ("ovn-bridge-mappings", "external:br-ex"),
            ]),
            bridges: [
                (
                    "br-int",
                    vec![
                        interface("br-int", "internal"),
                        interface("netloom0", "internal"),
                        interface("nl0123456789ab", ""),
                        interface("ovn-node2-0", "geneve"),
                    ],
                ),
                ("br-ex", vec![interface("eth0", "")]),
            ]
            .into_iter()
            .map(|(name, interfaces)| {
                let datapath = "system".to_owned();
                (name.to_owned(), Bridge { datapath, interfaces })
            })
            .collect(),
        }),
        vswitchd: Ok(Some("3.5.0".to_owned())),
        ovn: Ok(Some(Ovn {
            version: "25.03.0".to_owned(),
            connection: "connected".to_owned(),
        })),
        discovered: Some(vec!["ssl:172.30.0.1:6642".to_owned()]),
        southbound: Ok(vec![
            member("OVN_Southbound", "ssl:172.30.0.1:6642", true),
            member("OVN_Southbound", "ssl:172.30.0.2:6642", false),
            member("OVN_Southbound", "ssl:172.30.0.3:6642", false),
        ]),
        chassis: Some(Ok(BTreeMap::from([
            ("node1".to_owned(), vec!["172.30.0.11".to_owned()]),
            ("node2".to_owned(), vec!["172.30.0.12".to_owned()]),
        ]))),
        agent: Ok(()),
        cni: CniFiles {
            bin_directory: "/opt/cni/bin".to_owned(),
            conf_directory: "/etc/cni/net.d".to_owned(),
            plugin: true,
            configuration: Ok(true),
            others: Vec::new(),
        },
        certificates: Some(Ok(Certificates {
            file: "/etc/netloom/tls/tls.crt".to_owned(),
            not_before: NOW - 10 * DAY,
            not_after: NOW + 80 * DAY,
            key_matches: true,
            signed: true,
            authorities: vec![
                Authority {
                    name: "CN=netloom".to_owned(),
                    not_after: NOW + 3000 * DAY,
                    ours: true,
                },
                Authority {
                    name: "CN=netloom of the past".to_owned(),
                    not_after: NOW - DAY,
                    ours: false,
                },
            ],
        })),
        clock: Some(Ok(1)),
        native_services: Some(true),
        now: NOW,
    }
}

/// A cluster with nothing wrong.
pub fn healthy_cluster() -> ClusterFacts {
    let node = |name: &str, address: &str| NodeSeen {
        name: name.to_owned(),
        ready: Some(Condition {
            is_true: true,
            message: String::new(),
        }),
        addresses: vec![address.parse().unwrap()],
        gateway: Some(format!(r#"{{"mac":"02:00:00:00:00:01","addresses":["{address}/24"]}}"#)),
        tainted: false,
        kubelet: "v1.34.2".to_owned(),
    };
    let agent = |node: &str| PodSeen {
        name: format!("netloom-agent-{node}"),
        node: node.to_owned(),
        ready: true,
        waiting: None,
    };
    let workload = |name: &str| Workload {
        name: name.to_owned(),
        wanted: 2,
        ready: 2,
        images: vec!["netloom.io/netloom:0.1.0".to_owned()],
    };
    ClusterFacts {
        namespace: "netloom-system".to_owned(),
        version: Ok("v1.35.8".to_owned()),
        clock: Ok(0),
        definitions: Ok(Kind::ALL
            .iter()
            .filter(|kind| kind.resource().definition.is_some())
            .map(|kind| Definition {
                name: kind.qualified(),
                established: true,
            })
            .collect()),
        network: Ok(Some(Network {
            spec: Default::default(),
            ready: Some(Condition {
                is_true: true,
                message: "in force".to_owned(),
            }),
        })),
        service_cidrs: Ok(vec!["10.96.0.0/16".to_owned()]),
        nodes: Ok(vec![node("node1", "172.30.0.11"), node("node2", "172.30.0.12")]),
        renewals: Ok(BTreeMap::from([("node1".to_owned(), NOW - 8)])),
        agents: Ok(vec![agent("node1"), agent("node2")]),
        workloads: Ok([
            "StatefulSet/netloom-ovn",
            "Deployment/netloom-controller",
            "DaemonSet/netloom-switch",
            "DaemonSet/netloom-agent",
        ]
        .map(workload)
        .to_vec()),
        daemon_sets: Ok(vec![daemon_set("kube-system", "log-shipper")]),
        refused_pods: Ok(Vec::new()),
        secrets: BTreeMap::from([("netloom-ca".to_owned(), (NOW - 600 * DAY, NOW + 3000 * DAY))]),
        databases: Some(Ok(vec![
            member("OVN_Northbound", "ssl:172.30.0.1:6641", true),
            member("OVN_Southbound", "ssl:172.30.0.1:6642", true),
        ])),
        now: NOW,
    }
}

/// A DaemonSet that runs.
pub fn daemon_set(namespace: &str, name: &str) -> DaemonSetSeen {
    DaemonSetSeen {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        wanted: 2,
    }
}
