//! Host ports: what pods publish on their node, reached from the node itself, from outside and from other pods.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod world;

use serde_json::{Value, json};
use world::{Pod, World};

const NODE: &str = "172.30.0.2";
const NODE6: &str = "fd30::2";
const PORT: u16 = 54323;

impl World {
    /// A pod that publishes these ports and answers every connection on 8080, TCP and UDP, with its name and the
    /// client's address.
    fn publish(&self, name: &'static str, number: u8, mappings: Value) -> Pod {
        let pod = self.pod(name, number);
        let config = json!({ "runtimeConfig": { "portMappings": mappings } });
        self.cni("ADD", &pod, "1.0.0", config)
            .unwrap_or_else(|error| panic!("ADD {name}: {error}\n{}", self.agent_log()));
        self.answer(&pod);
        pod
    }

    fn answer(&self, pod: &Pod) {
        let (name, netns) = (pod.name, &pod.netns);
        // All of the question is read before it is answered: socat would rather tell of an error than pass the answer on.
        let answer = format!(
            "while read line; do [ ${{#line}} -gt 1 ] || break; done; printf \"HTTP/1.0 200 OK\\r\\n\\r\\n{name} $SOCAT_PEERADDR\\n\""
        );
        self.sh(&format!(
            "printf '%s\\n' '{answer}' >/tmp/answer-{name}
             printf '%s\\n' 'read line; echo {name}' >/tmp/echo-{name}
             nsenter --net={netns} sh -c 'socat TCP6-LISTEN:8080,fork,reuseaddr EXEC:\"sh /tmp/answer-{name}\" >/dev/null 2>&1 &
                                          socat UDP6-LISTEN:8080,fork,reuseaddr EXEC:\"sh /tmp/echo-{name}\" >/dev/null 2>&1 &'"
        ));
        self.wait_until(|| self.in_pod(pod, "ss -ltn | grep -q :8080") && self.in_pod(pod, "ss -lun | grep -q :8080"));
    }

    /// Who answers on a TCP port; `from` is a command that changes the place, or nothing.
    fn tcp(&self, from: &str, options: &str, address: &str) -> String {
        let output = self.try_sh(&format!("{from} curl -sm 5 {options} http://{address}:{PORT}/hostname"));
        let text = String::from_utf8(output.stdout).unwrap();
        // socat writes every digit of the address.
        text.trim()
            .replace("0000:0000:0000:0000:0000:ffff:0af4:0102", "10.244.1.2")
            .replace("fd00:0010:0244:0001:0000:0000:0000:0002", "fd00:10:244:1::2")
    }

    /// Who answers on a UDP port.
    fn udp(&self, from: &str, address: &str) -> String {
        let output = self.try_sh(&format!("echo hello | {from} timeout 3 socat -t 2 - UDP:{address}:{PORT}"));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    fn table(&self) -> String {
        String::from_utf8(self.try_sh("nft -a list table inet netloom-ports").stdout).unwrap()
    }

    fn routes_localnet(&self) -> bool {
        self.sh("sysctl -n net.ipv4.conf.netloom0.route_localnet").trim() == "1"
    }
}

fn on(address: &str, protocol: &str) -> Value {
    json!([{ "hostPort": PORT, "containerPort": 8080, "protocol": protocol, "hostIP": address }])
}

fn inside(pod: &Pod) -> String {
    format!("nsenter --net={}", pod.netns)
}

const OUTSIDE: &str = "ip netns exec outside";

#[test]
fn one_port_leads_to_different_pods_by_address_and_protocol() {
    let world = World::with_services();
    world.wait_for_log("patch=");
    let pods = [
        world.publish("pod1", 31, on("127.0.0.1", "tcp")),
        world.publish("pod2", 32, on(NODE, "tcp")),
        world.publish("pod3", 33, on(NODE, "udp")),
    ];
    let client = world.pod("client", 40);
    world.add(&client);
    // ADD has waited until the ports are open: the first packet counts. The pods see the node's address among pods.
    assert_eq!(
        world.tcp("", "--interface 172.30.0.2", "127.0.0.1"),
        "pod1 [10.244.1.2]",
        "{}",
        world.table()
    );
    assert_eq!(world.tcp("", "", "127.0.0.1"), "pod1 [10.244.1.2]");
    assert_eq!(world.tcp("", "--interface 172.30.0.2", NODE), "pod2 [10.244.1.2]");
    assert_eq!(world.udp("", NODE), "pod3");
    let places = [
        OUTSIDE.to_owned(),
        inside(&client),
        inside(&pods[0]),
        inside(&pods[1]),
        inside(&pods[2]),
    ];
    for from in &places {
        assert_eq!(world.tcp(from, "", NODE), "pod2 [10.244.1.2]", "from {from}");
        assert_eq!(world.udp(from, NODE), "pod3", "from {from}");
    }
    assert_eq!(world.tcp("", "", "10.244.1.2"), "", "nobody publishes on the management address");
    assert!(world.routes_localnet());

    world.del(&pods[0]);
    world.wait_until(|| world.tcp("", "", "127.0.0.1").is_empty());
    world.wait_until(|| !world.routes_localnet());
    assert_eq!(world.tcp("", "", NODE), "pod2 [10.244.1.2]");
    world.del(&pods[1]);
    world.del(&pods[2]);
    world.wait_until(|| world.table().is_empty());
    assert_eq!(world.tcp(OUTSIDE, "", NODE), "");
}

#[test]
fn without_an_address_every_address_of_the_node_serves() {
    let world = World::with_services();
    world.wait_for_log("patch=");
    let pod = world.publish("web", 31, json!([{ "hostPort": PORT, "containerPort": 8080, "protocol": "tcp" }]));
    let client = world.pod("client", 40);
    world.add(&client);
    // The host asks for a pod's MAC with the device's link-local address, which a new device has only after a second.
    world.wait_until(|| world.sh("ip -6 addr show dev netloom0 tentative").is_empty());
    let v4 = "web [10.244.1.2]";
    let v6 = "web [fd00:10:244:1::2]";
    let served = |from: &str| world.tcp(from, "", NODE) == v4 && world.tcp(from, "-g", "[fd30::2]") == v6;
    for from in ["", OUTSIDE, &inside(&client), &inside(&pod)] {
        assert!(
            served(from),
            "from {from:?}: {} {}\n{}",
            world.tcp(from, "", NODE),
            world.tcp(from, "-g", "[fd30::2]"),
            world.table()
        );
    }
    assert_eq!(world.tcp("", "", "127.0.0.1"), v4);
    assert_eq!(world.tcp("", "", "127.1.2.3"), v4);
    assert_eq!(world.tcp("", "", "10.244.1.2"), v4);
    assert_eq!(world.tcp("", "-g", "[::1]"), "", "::1 cannot be led elsewhere");
    world.publish("six", 34, on(NODE6, "udp"));
    assert_eq!(world.udp(OUTSIDE, "[fd30::2]"), "six");

    // What somebody else takes away comes back: the table, and the settings of a device that is made anew.
    let lines = || world.sh("nft list table inet netloom-ports");
    let before = lines();
    world.sh("nft delete table inet netloom-ports");
    world.wait_until(|| !world.table().is_empty());
    assert_eq!(lines(), before);
    world.restart_switch();
    world.wait_until(|| world.routes_localnet());
    world.wait_until(|| world.tcp("", "", "127.0.0.1") == v4);
    world.wait_until(|| served(OUTSIDE));
    assert_eq!(lines(), before);

    // Who serves services does not matter.
    world.serve_with_kube_proxy();
    world.wait_until(|| world.service_state().contains("masquerade"));
    for from in ["", OUTSIDE, &inside(&client)] {
        world.wait_until(|| served(from));
    }
    assert_eq!(world.tcp("", "", "127.0.0.1"), v4);
}

#[test]
fn a_new_agent_changes_nothing() {
    let world = World::with_services();
    world.publish("pod1", 31, on("127.0.0.1", "tcp"));
    world.publish("pod2", 32, on(NODE, "udp"));
    let before = world.table();
    world.stop_agent("-KILL");
    assert_eq!(world.tcp("", "", "127.0.0.1"), "pod1 [10.244.1.2]");
    assert_eq!(world.table(), before);
    world.sh("stdbuf -oL nft monitor tables >/tmp/monitor 2>&1 & echo $! >/tmp/monitor.pid");
    // The monitor says nothing of itself: a table that comes and goes shows that it listens.
    world.wait_until(|| {
        world.holds("nft add table inet probe; nft delete table inet probe; grep -q 'delete table inet probe' /tmp/monitor")
    });
    world.start_agent();
    world.wait_for_log("services set up on the host");
    // Its own port is published after everything that is there has been looked at.
    world.publish("pod3", 33, on(NODE, "tcp"));
    world.wait_until(|| world.holds("grep -q 'delete table inet netloom-ports' /tmp/monitor"));
    let written = world.sh("grep -c 'delete table inet netloom-ports' /tmp/monitor");
    assert_eq!(written.trim(), "1", "the table was written anew: {}", world.sh("cat /tmp/monitor"));
    assert_eq!(world.udp("", NODE), "pod2");
    assert_eq!(world.tcp("", "", NODE), "pod3 [10.244.1.2]");
}

#[test]
fn a_udp_client_follows_the_port_to_another_pod() {
    let world = World::with_services();
    let ask = || {
        let socat = format!("echo hello | timeout 3 socat -t 2 - UDP:{NODE}:{PORT},sourceport=5000,reuseaddr");
        String::from_utf8(world.try_sh(&socat).stdout).unwrap()
    };
    // Nobody is there yet: the kernel remembers that this client's packets stay on the node.
    assert_eq!(ask(), "");
    let first = world.publish("first", 31, on(NODE, "udp"));
    assert_eq!(ask().trim(), "first");
    world.del(&first);
    world.wait_until(|| world.table().is_empty());
    world.publish("second", 32, on(NODE, "udp"));
    assert_eq!(ask().trim(), "second");
}

#[test]
fn pods_do_not_reach_the_hosts_loopback_addresses() {
    let world = World::with_services();
    let pod = world.publish("web", 31, on("127.0.0.1", "tcp"));
    world.sh("socat TCP4-LISTEN:7000,bind=127.0.0.1,fork,reuseaddr EXEC:'echo secret' >/dev/null 2>&1 &");
    world.wait_until(|| world.holds("ss -ltn | grep -q 127.0.0.1:7000"));
    let inside = inside(&pod);
    world.sh(&format!(
        "{inside} sysctl -qw net.ipv4.conf.eth0.route_localnet=1
         {inside} ip addr del 127.0.0.1/8 dev lo
         {inside} ip route add 127.0.0.0/8 via 10.244.1.2 dev eth0"
    ));
    let steal = || world.in_pod(&pod, "sh -c 'nc -w 1 127.0.0.1 7000 </dev/null | grep -q secret'");
    assert!(!steal());
    // It is the guard that keeps them out.
    world.sh("nft flush chain inet netloom-ports guard");
    world.wait_until(steal);
}

#[test]
fn a_port_of_a_service_comes_first() {
    let world = World::with_services();
    let service = world.service();
    world.wait_until(|| world.outside_connects(NODE, 30080) && world.node_connects(NODE, 30080));
    world.publish("web2", 31, json!([{ "hostPort": 30080, "containerPort": 8080, "protocol": "tcp" }]));
    for (from, bytes) in [("", 6), (OUTSIDE, 12)] {
        world.sh(&format!("echo hello | {from} nc -N -w 2 {NODE} 30080"));
        world.wait_received(&service.pod, bytes);
    }
}

#[test]
fn what_cannot_be_published_is_refused() {
    let world = World::ready();
    let pod = world.pod("a", 10);
    let refused = |mappings: Value| {
        let config = json!({ "runtimeConfig": { "portMappings": mappings } });
        let error = world.cni("ADD", &pod, "1.0.0", config).unwrap_err();
        assert_eq!(error["code"], 7, "{error}");
        error["msg"].as_str().unwrap().to_owned()
    };
    assert!(refused(json!([{ "hostPort": 0, "containerPort": 80, "protocol": "tcp" }])).contains("`hostPort` must be a port"));
    assert!(refused(json!([{ "hostPort": 80, "containerPort": 80, "protocol": "icmp" }])).contains("\"icmp\""));
    assert!(refused(on("localhost", "tcp")).contains("\"localhost\""));
    assert!(world.interfaces_of(&pod.port()).is_empty());
    // What the runtime asks for is what is recorded, and a repeated ADD is no new one.
    let config = json!({ "runtimeConfig": { "portMappings": on("127.0.0.1", "tcp") } });
    for _ in 0..2 {
        world.cni("ADD", &pod, "1.0.0", config.clone()).unwrap();
    }
    let recorded = world.sh("ovs-vsctl --bare get interface $(ovs-vsctl --bare --columns=name find interface 'external_ids:iface-id=\"default/a\"') external_ids:netloom.io/host-ports");
    assert!(recorded.contains("54323"), "{recorded}");
    world.check(&pod);
}
