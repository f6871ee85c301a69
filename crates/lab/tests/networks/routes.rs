//! Ways out of a network behind one of its pods, gateways that are not the first address, and addresses that pods ask for.

use std::net::IpAddr;

use crate::link::heard;
use crate::objects::{SUBNETS, TCP, UDP, namespace_on, network, pod, pod_with};
use crate::questions::{Answer, Line, World};
use netloom_lab_fixtures::world::ended;

/// What is behind the pod that leads there.
const BEHIND: [&str; 2] = ["10.9.0.1", "fd09::1"];

#[test]
fn networks_have_ways_out_and_addresses_as_asked_for() {
    let spec = format!(
        "{SUBNETS}, gateways: [192.168.10.254, \"fd01:10::fe\"], \
         routes: [{{ to: 10.9.0.0/16, via: 192.168.10.9 }}, {{ to: \"fd09::/64\", via: \"fd01:10::9\" }}]"
    );
    let asking = |v4: &str, v6: &str| format!("netloom.io/network-addresses: \"{v4},{v6}\"");
    let manifest = [
        network("red", &spec),
        namespace_on("red", "red"),
        pod_with("red", "leads", "node1", "", &asking("192.168.10.9", "fd01:10::9")),
        pod_with("red", "first", "node2", "", &asking("192.168.10.1", "fd01:10::1")),
    ];
    let world = World::up("routes", &manifest.concat());
    // Later, for whoever asks for nothing may be given what others are about to ask for.
    world.apply(&(pod("red", "near", "node1") + &pod("red", "far", "node3") + &pod("default", "plain", "node1")));
    addresses_are_as_asked_for(&world);
    the_gateway_is_where_the_network_says(&world);
    what_is_behind_a_pod_is_reached_through_it(&world);
    an_address_that_is_taken_is_refused(&world);
    assert_eq!(ended(&world.lab), Vec::<String>::new(), "parts crashed");
}

fn addresses_are_as_asked_for(world: &World) {
    let shown = |pod: &str| {
        world
            .addresses(&format!("link {pod}"))
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
    };
    assert_eq!(shown("red/leads"), ["192.168.10.9", "fd01:10::9"]);
    assert_eq!(
        shown("red/first"),
        ["192.168.10.1", "fd01:10::1"],
        "the gateway is elsewhere, so it is free"
    );
    for (from, to) in [("red/near", "red/leads"), ("red/far", "red/first"), ("red/first", "red/leads")] {
        world.check(
            "by the address asked for",
            &[(from, &format!("link {to}"), Answer::Itself), (from, to, Answer::Itself)],
        );
    }
}

fn the_gateway_is_where_the_network_says(world: &World) {
    let routes = world
        .shell("red/far")
        .run(&["bash", "-c", "ip route show default; ip -6 route show default"])
        .unwrap();
    assert!(
        routes.contains("via 192.168.10.254") && routes.contains("via fd01:10::fe"),
        "{routes}"
    );
    let gateway = ["192.168.10.254", "fd01:10::fe"];
    for address in gateway {
        world.shell("red/far").run(&["ping", "-n", "-q", "-c1", "-W5", address]).unwrap();
    }
    use Answer::Itself;
    world.check(
        "by the gateway",
        &[
            ("red/far", "default/plain", Itself),
            ("default/plain", "red/far", Itself),
            ("red/first", "default/plain", Itself),
        ],
    );
}

fn what_is_behind_a_pod_is_reached_through_it(world: &World) {
    let take = |pod: &str, [v4, v6]: [&str; 2]| {
        let script = format!("ip addr add {v4}/32 dev lo && ip addr add {v6}/128 dev lo");
        world.shell(pod).run(&["bash", "-c", &script]).unwrap();
    };
    take("red/leads", BEHIND);
    let behind = BEHIND.map(|address| address.parse::<IpAddr>().unwrap());
    let lines = |from: &str, by: &[&str]| -> Vec<Line> { world.lines_to(from, "behind", &behind, (TCP, UDP), by, &world.addresses(from)) };
    let all = ["red/near", "red/far", "red/first"].map(|from| lines(from, &["red/leads"]));
    world.check_lines(
        "behind a pod",
        &[all.concat(), lines("default/plain", &[]), lines("node1", &[])].concat(),
    );
    // From the address in the network as well.
    for (to, source) in behind.iter().zip(world.addresses("link red/far")) {
        let asked = heard(world, "red/far", &format!("-I {source} {to}"), &["red/leads"]);
        assert_eq!(asked, [2], "{source} to {to}");
    }
    // The pod that leads there does not send with these addresses to the rest of the cluster.
    for (source, to) in BEHIND.iter().zip(world.addresses("default/plain")) {
        assert_eq!(
            heard(world, "red/leads", &to.to_string(), &["default/plain"]),
            [2],
            "its own address is heard"
        );
        let lie = heard(world, "red/leads", &format!("-I {source} {to}"), &["default/plain"]);
        assert_eq!(lie, [0], "default/plain hears {source}, which is behind a pod of a network");
    }
    // Nobody else has these addresses, whatever it says.
    take("red/near", ["10.9.0.2", "fd09::2"]);
    for (source, index) in [("10.9.0.2", 0), ("fd09::2", 1)] {
        let to = world.addresses("link red/far")[index];
        assert_eq!(
            heard(world, "red/near", &to.to_string(), &["red/far"]),
            [2],
            "the honest address is heard"
        );
        let lie = heard(world, "red/near", &format!("-I {source} {to}"), &["red/far"]);
        assert_eq!(lie, [0], "red/near is heard from {source}, which is behind another");
    }
}

fn an_address_that_is_taken_is_refused(world: &World) {
    let twice = "netloom.io/network-addresses: 192.168.10.9";
    world.lab.apply(&pod_with("red", "twice", "node2", "", twice)).unwrap();
    let said = world.told("red", "twice", "AddressRefused");
    assert!(said.contains("192.168.10.9 of network red is in use by pod red/leads"), "{said}");
    world.check("whoever has it", &[("red/far", "link red/leads", Answer::Itself)]);
    let phase = world.kubectl(&["get", "pod", "twice", "-n", "red", "-o", "jsonpath={.status.phase} {.status.podIP}"]);
    assert_eq!(phase.trim(), "Pending", "it waits");
    world.kubectl(&["delete", "pod", "leads", "-n", "red"]);
    world.wait_pod("red/twice");
    world.forget();
    // Neighbours who knew the one before have heard of the next.
    world.check(
        "its next owner",
        &[
            ("default/plain", "red/twice", Answer::Itself),
            ("red/far", "link red/twice", Answer::Itself),
        ],
    );
}
