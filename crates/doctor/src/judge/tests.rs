//! Worlds with exactly one thing wrong: each gives exactly that finding, and the healthy ones give none.

mod worlds;

use std::collections::BTreeMap;

use State::{Failed, Warning};
use worlds::{DAY, NOW, daemon_set, device, error, healthy_cluster, healthy_node, interface};

use crate::cluster::{ClusterFacts, Condition, Network, NodeSeen};
use crate::finding::{Finding, State};
use crate::node::{Certificates, Interface, Module, NodeFacts, Switch};
use crate::unseen::Unseen;

/// What is not ok, as `group/check`; every such finding says what to do.
fn wrong(findings: &[Finding]) -> Vec<(String, State)> {
    let wrong = findings.iter().filter(|finding| finding.state != State::Ok);
    wrong
        .map(|finding| {
            assert!(!finding.what_to_do.is_empty(), "{finding:?} does not say what to do");
            (format!("{}/{}", finding.group, finding.check), finding.state)
        })
        .collect()
}

/// A check, how bad it is, words of what was found, and what is wrong in the world.
type Case<F> = (&'static str, State, &'static str, fn(&mut F));

fn try_all<F>(healthy: impl Fn() -> F, judge: impl Fn(&F) -> Vec<Finding>, cases: &[Case<F>]) {
    assert_eq!(wrong(&judge(&healthy())), []);
    for (check, state, words, spoil) in cases {
        let mut facts = healthy();
        spoil(&mut facts);
        let findings = judge(&facts);
        assert_eq!(wrong(&findings), [((*check).to_owned(), *state)], "{words}");
        let text: String = findings
            .iter()
            .filter(|finding| finding.state != State::Ok)
            .map(|finding| finding.found.as_str())
            .collect();
        assert!(text.contains(words), "{check}: \"{words}\" is not in \"{text}\"");
    }
}

fn switch(facts: &mut NodeFacts) -> &mut Switch {
    facts.switch.as_mut().unwrap()
}

fn set(facts: &mut NodeFacts, name: &str, value: &str) {
    facts.host.settings.insert(name.to_owned(), value.to_owned());
}

fn tell(facts: &mut NodeFacts, name: &str, value: &str) {
    switch(facts).external_ids.insert(name.to_owned(), value.to_owned());
}

fn userspace(facts: &mut NodeFacts) {
    for bridge in switch(facts).bridges.values_mut() {
        bridge.datapath = "netdev".to_owned();
    }
}

fn certificates(facts: &mut NodeFacts) -> &mut Certificates {
    facts.certificates.as_mut().unwrap().as_mut().unwrap()
}

#[test]
fn one_thing_wrong_with_a_host_is_one_finding() {
    try_all(
        healthy_node,
        super::node,
        &[
            ("host/kernel", Warning, "4.19", |f| f.host.release = "4.19.0-5".to_owned()),
            ("host/datapath", Failed, "geneve is not part", |f| f.host.geneve = Module::Absent),
            ("host/datapath", Failed, "openvswitch is loadable", |f| {
                f.host.openvswitch = Module::Loadable
            }),
            ("host/datapath", Warning, "the kernel has openvswitch", userspace),
            ("host/datapath", Warning, "no module openvswitch", |f| {
                userspace(f);
                f.host.openvswitch = Module::Absent;
            }),
            ("host/datapath", Failed, "/dev/net/tun", |f| {
                userspace(f);
                f.host.tun = false;
            }),
            ("host/conntrack", Warning, "900 of 1000", |f| {
                set(f, "netfilter/nf_conntrack_count", "900")
            }),
            ("host/conntrack", Warning, "not loaded", |f| {
                f.host.settings.remove("netfilter/nf_conntrack_max");
            }),
            ("host/forwarding", Warning, "net.ipv4.ip_forward is off", |f| {
                set(f, "ipv4/ip_forward", "0")
            }),
            ("host/forwarding", Warning, "net.ipv6.conf.all.forwarding is off", |f| {
                set(f, "ipv6/conf/all/forwarding", "0")
            }),
            ("host/rp-filter", Failed, "netloom1 is strict", |f| {
                set(f, "ipv4/conf/netloom1/rp_filter", "0")
            }),
            ("host/forward-policy", Warning, "ip filter FORWARD", |f| {
                f.firewall.as_mut().unwrap().forward_drops.push("ip filter FORWARD".to_owned());
            }),
            ("host/disk", Warning, "0.5 of", |f| f.host.disk = Ok((1 << 29, 100 << 30))),
            ("host/disk", Failed, "0.0 of", |f| f.host.disk = Ok((1 << 20, 100 << 30))),
            ("trust/clock", Warning, "5 s behind", |f| f.clock = Some(Ok(-5))),
            ("trust/clock", Failed, "100 s ahead", |f| f.clock = Some(Ok(100))),
            ("trust/clock", Warning, "no answer", |f| f.clock = Some(Err(Unseen::Late))),
            ("trust/certificate", Warning, "1 more days", |f| {
                certificates(f).not_after = NOW + DAY
            }),
            ("trust/certificate", Failed, "expired 2 days ago", |f| {
                certificates(f).not_after = NOW - 2 * DAY
            }),
            ("trust/certificate", Failed, "not valid yet", |f| {
                certificates(f).not_before = NOW + 60
            }),
            ("trust/certificate", Failed, "is not the certificate's", |f| {
                certificates(f).key_matches = false
            }),
            ("trust/certificate", Failed, "not signed by", |f| certificates(f).signed = false),
            ("trust/certificate", Failed, "authority", |f| {
                certificates(f).authorities[0].not_after = NOW - 1
            }),
            ("trust/certificate", Failed, "broken", |f| f.certificates = Some(Err(error()))),
        ],
    );
}

#[test]
fn one_thing_wrong_with_switch_and_ovn_is_one_finding() {
    try_all(
        healthy_node,
        super::node,
        &[
            ("open vswitch/database", Failed, "broken", |f| f.switch = Err(error())),
            ("open vswitch/vswitchd", Failed, "has not done", |f| switch(f).current = false),
            ("open vswitch/version", Failed, "2.17.0", |f| {
                f.vswitchd = Ok(Some("2.17.0".to_owned()))
            }),
            ("open vswitch/br-int", Failed, "does not exist", |f| {
                switch(f).bridges.remove("br-int");
            }),
            ("open vswitch/br-ex", Warning, "does not exist", |f| {
                switch(f).bridges.remove("br-ex");
            }),
            ("open vswitch/br-ex", Failed, "physnet1:br-ex", |f| {
                tell(f, "ovn-bridge-mappings", "physnet1:br-ex")
            }),
            ("open vswitch/interfaces", Warning, "nlgone (No such device)", |f| {
                let gone = Interface {
                    error: Some("No such device".to_owned()),
                    ..interface("nlgone", "")
                };
                switch(f).bridges.get_mut("br-int").unwrap().interfaces.push(gone);
            }),
            ("ovn/system-id", Failed, "is other", |f| tell(f, "system-id", "other")),
            ("ovn/encapsulation", Failed, "is not set", |f| tell(f, "ovn-encap-ip", "")),
            ("ovn/encapsulation", Failed, "no device of this host has", |f| {
                tell(f, "ovn-encap-ip", "192.0.2.1")
            }),
            ("ovn/encapsulation", Failed, "not geneve", |f| tell(f, "ovn-encap-type", "vxlan")),
            ("ovn/remote", Failed, "is not set", |f| tell(f, "ovn-remote", "")),
            ("ovn/remote", Warning, "but the databases are at ssl:172.30.0.9:6642", |f| {
                f.discovered = Some(vec!["ssl:172.30.0.9:6642".to_owned()])
            }),
            ("ovn/controller", Failed, "broken", |f| f.ovn = Err(error())),
            ("ovn/controller", Warning, "though the Southbound", |f| f.ovn = Ok(None)),
            ("ovn/controller", Failed, "is not connected to", |f| {
                f.ovn.as_mut().unwrap().as_mut().unwrap().connection = "not connected".to_owned();
            }),
            ("ovn/controller", Warning, "22.03.0", |f| {
                f.ovn.as_mut().unwrap().as_mut().unwrap().version = "22.03.0".to_owned()
            }),
            ("ovn/members", Failed, "broken", |f| f.southbound = Err(error())),
            (
                "ovn/members",
                Warning,
                "1 of 3 servers are of no use: ssl:172.30.0.3:6642: broken",
                |f| {
                    f.southbound.as_mut().unwrap()[2].state = Err(error());
                },
            ),
            ("ovn/members", Failed, "2 of 3 servers", |f| {
                f.southbound.as_mut().unwrap()[1].state = Err(error());
                f.southbound.as_mut().unwrap()[2].state = Err(Unseen::Late);
            }),
            ("ovn/members", Failed, "none of its 3 servers leads", |f| {
                f.southbound.as_mut().unwrap()[0].state.as_mut().unwrap().leader = false;
            }),
            ("ovn/members", Failed, "are no cluster", |f| {
                f.southbound.as_mut().unwrap()[0].state.as_mut().unwrap().clustered = false;
            }),
            ("ovn/chassis", Failed, "no chassis node1", |f| f.chassis = Some(Ok(BTreeMap::new()))),
            ("ovn/chassis", Failed, "chassis old has the encapsulation address", |f| {
                let chassis = f.chassis.as_mut().unwrap().as_mut().unwrap();
                chassis.insert("old".to_owned(), vec!["172.30.0.11".to_owned()]);
            }),
            ("mtu/underlay", Failed, "more on netloom0 (1442)", |f| {
                f.devices.as_mut().unwrap()[0].mtu = 1450
            }),
            ("mtu/underlay", Failed, "IPv6 needs 1280", |f| {
                f.devices.as_mut().unwrap()[0].mtu = 1300
            }),
            ("mtu/pods", Warning, "MTUs 1400, 1442", |f| {
                f.devices.as_mut().unwrap()[2].mtu = 1400
            }),
        ],
    );
}

#[test]
fn one_thing_wrong_with_cni_or_left_behind_is_one_finding() {
    try_all(
        healthy_node,
        super::node,
        &[
            ("cni/plugin", Failed, "/opt/cni/bin/netloom-cni", |f| f.cni.plugin = false),
            ("cni/configuration", Failed, "does not name", |f| f.cni.configuration = Ok(false)),
            ("cni/configuration", Failed, "broken", |f| f.cni.configuration = Err(error())),
            ("cni/other-configurations", Failed, "05-cilium.conflist sorts before", |f| {
                f.cni.others = vec!["05-cilium.conflist".to_owned()]
            }),
            ("cni/other-configurations", Warning, "would take over", |f| {
                f.cni.others = vec!["20-flannel.conflist".to_owned()]
            }),
            ("cni/agent", Failed, "broken", |f| f.agent = Err(error())),
            ("leftovers/devices", Warning, "cali12 (of Calico)", |f| {
                f.devices.as_mut().unwrap().push(device("cali12", 1500, ""))
            }),
            ("leftovers/devices", Warning, "tunl0 (of Calico)", |f| {
                f.devices.as_mut().unwrap().push(device("tunl0", 1480, "10.1.1.1"))
            }),
            ("leftovers/kube-proxy-rules", Warning, "kube-ipvs0", |f| {
                f.devices.as_mut().unwrap().push(device("kube-ipvs0", 1500, ""))
            }),
            ("leftovers/kube-proxy-rules", Warning, "ip kube-proxy", |f| {
                f.firewall.as_mut().unwrap().kube_proxy.push("ip kube-proxy".to_owned());
            }),
        ],
    );
}

/// These have consequences that are told as well, each under its own name.
#[test]
fn what_cannot_be_seen_is_told_where_it_matters() {
    let mut facts = healthy_node();
    facts.firewall = Err(error());
    assert_eq!(
        wrong(&super::node(&facts)),
        [("host/nftables".to_owned(), Failed), ("host/forward-policy".to_owned(), Warning)]
    );
    for vswitchd in [Err(error()), Ok(None)] {
        let mut facts = healthy_node();
        facts.vswitchd = vswitchd;
        assert_eq!(
            wrong(&super::node(&facts)),
            [
                ("open vswitch/vswitchd".to_owned(), Failed),
                ("open vswitch/version".to_owned(), Warning)
            ]
        );
    }
    let mut facts = healthy_node();
    facts.ovn = Ok(None);
    facts.chassis = None;
    assert_eq!(wrong(&super::node(&facts)), [("ovn/controller".to_owned(), Failed)]);
    let mut facts = healthy_node();
    facts.native_services = Some(false);
    facts.firewall.as_mut().unwrap().kube_proxy.push("ip kube-proxy".to_owned());
    assert_eq!(wrong(&super::node(&facts)), [], "kube-proxy is wanted there");
}

#[test]
fn one_thing_wrong_with_a_cluster_is_one_finding() {
    try_all(
        healthy_cluster,
        super::cluster,
        &[
            ("kubernetes/api-server", Failed, "broken", |f| f.version = Err(error())),
            ("kubernetes/definitions", Failed, "externalpools.netloom.io", |f| {
                let definitions = f.definitions.as_mut().unwrap();
                definitions
                    .iter_mut()
                    .find(|d| d.name.starts_with("externalpools"))
                    .unwrap()
                    .established = false
            }),
            ("kubernetes/definitions", Warning, "not allowed to look", |f| {
                f.definitions = Err(Unseen::Forbidden("no".to_owned()))
            }),
            ("kubernetes/cluster-network", Warning, "there is no ClusterNetwork", |f| {
                f.network = Ok(None)
            }),
            ("kubernetes/cluster-network", Warning, "no controller has said", |f| {
                network(f).ready = None
            }),
            ("kubernetes/cluster-network", Failed, "overlap", |f| {
                network(f).ready = Some(Condition {
                    is_true: false,
                    message: "ranges overlap".to_owned(),
                });
            }),
            ("kubernetes/workloads", Failed, "Deployment/netloom-controller has 1 of 2", |f| {
                f.workloads.as_mut().unwrap()[1].ready = 1
            }),
            ("kubernetes/workloads", Failed, "StatefulSet/netloom-ovn is missing", |f| {
                f.workloads.as_mut().unwrap().remove(0);
            }),
            ("kubernetes/workloads", Warning, "agents run on the nodes", |f| {
                f.workloads = Ok(Vec::new())
            }),
            ("kubernetes/images", Warning, "netloom:0.2.0", |f| {
                f.workloads.as_mut().unwrap()[3].images = vec!["netloom.io/netloom:0.2.0".to_owned()];
            }),
            ("kubernetes/problems", Warning, "default/web", |f| {
                f.refused_pods = Ok(vec!["default/web".to_owned()])
            }),
            ("addresses/ranges", Failed, "100.64.0.0/16 (spec.joinCIDRs)", |f| {
                f.service_cidrs = Ok(vec!["100.64.9.0/24".to_owned()])
            }),
            ("addresses/ranges", Failed, "ClusterNetwork default: ", |f| {
                network(f).spec.join_cidrs = vec!["10.244.0.0/24".to_owned()]
            }),
            ("addresses/service-ranges", Failed, "10.96.0.0/12", |f| {
                f.service_cidrs = Ok(vec!["10.96.0.0/12".to_owned()])
            }),
            ("addresses/nodes", Failed, "node1 has address 10.244.7.1", |f| {
                nodes(f)[0].addresses = vec!["10.244.7.1".parse().unwrap()]
            }),
            ("nodes/ready", Failed, "node2 is not ready: cni", |f| {
                nodes(f)[1].ready = Some(Condition {
                    is_true: false,
                    message: "cni plugin not initialized".to_owned(),
                });
            }),
            ("nodes/agent", Failed, "netloom-agent-node1", |f| {
                f.agents.as_mut().unwrap()[0].ready = false
            }),
            ("nodes/agent", Failed, "node1 has no pod", |f| {
                f.agents.as_mut().unwrap().remove(0);
            }),
            ("nodes/gateway", Warning, "node1 has no annotation", |f| nodes(f)[0].gateway = None),
            ("nodes/gateway", Failed, "not what an agent writes", |f| {
                nodes(f)[0].gateway = Some("{}".to_owned())
            }),
            ("nodes/taint", Warning, "node2 still has", |f| nodes(f)[1].tainted = true),
            ("nodes/kubelet", Warning, "must not be newer", |f| {
                nodes(f)[0].kubelet = "v1.36.0".to_owned()
            }),
            ("nodes/kubelet", Warning, "behind", |f| nodes(f)[0].kubelet = "v1.31.0".to_owned()),
            ("nodes/clock", Warning, "20 s ahead", |f| {
                f.renewals = Ok(BTreeMap::from([("node1".to_owned(), NOW + 20)]))
            }),
            ("nodes/clock", Warning, "500 s behind", |f| {
                f.renewals = Ok(BTreeMap::from([("node1".to_owned(), NOW - 500)]))
            }),
            ("nodes/nodes", Warning, "has no node", |f| f.nodes = Ok(Vec::new())),
            ("databases/members", Failed, "OVN_Northbound: 1 of 1", |f| {
                f.databases.as_mut().unwrap().as_mut().unwrap()[0].state = Err(Unseen::Late);
            }),
            ("trust/secrets", Warning, "netloom-ca (5 days)", |f| {
                f.secrets.insert("netloom-ca".to_owned(), (NOW - 85 * DAY, NOW + 5 * DAY));
            }),
            ("trust/secrets", Failed, "expired", |f| {
                f.secrets.insert("netloom-member-tls".to_owned(), (NOW - 90 * DAY, NOW - 1));
            }),
            ("trust/clock", Warning, "10 s ahead", |f| {
                f.clock = Ok(10);
                f.renewals = Ok(BTreeMap::new());
            }),
            ("leftovers/kube-proxy", Warning, "kube-system/kube-proxy runs", |f| {
                f.daemon_sets.as_mut().unwrap().push(daemon_set("kube-system", "kube-proxy"));
            }),
            ("leftovers/kube-proxy", Warning, "no DaemonSet kube-proxy runs", |f| {
                network(f).spec.services.mode = Some("kube-proxy".to_owned());
            }),
            ("leftovers/other-networks", Warning, "kube-flannel/kube-flannel-ds", |f| {
                f.daemon_sets.as_mut().unwrap().push(daemon_set("kube-flannel", "kube-flannel-ds"));
            }),
        ],
    );
}

fn network(facts: &mut ClusterFacts) -> &mut Network {
    facts.network.as_mut().unwrap().as_mut().unwrap()
}

fn nodes(facts: &mut ClusterFacts) -> &mut Vec<NodeSeen> {
    facts.nodes.as_mut().unwrap()
}

#[test]
fn an_account_that_may_read_nothing_gives_warnings_alone() {
    let mut facts = ClusterFacts::unreachable("netloom-system", Unseen::Forbidden("no".to_owned()));
    facts.version = Ok("v1.35.0".to_owned());
    let findings = wrong(&super::cluster(&facts));
    assert!(
        findings.len() > 5 && findings.iter().all(|(_, state)| *state == Warning),
        "{findings:?}"
    );
}
