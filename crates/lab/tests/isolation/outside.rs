//! Hosts outside the cluster.

use std::net::IpAddr;

use netloom_lab::Machine;
use netloom_lab_fixtures::world::echo_requests;

use crate::questions::World;

/// Pods are reached from outside by their addresses, if a route leads there; but not from an address by which policies know a pod's node, or
/// another pod.
#[test]
fn no_host_outside_is_taken_for_a_pod_or_a_node() {
    let world = World::up("outside");
    let (pod, neighbour) = ("open/example1", world.addresses("open/example2"));
    let management = world
        .lab
        .node("node1")
        .run(&["ip", "-br", "addr", "show", "dev", "netloom0", "scope", "global"])
        .unwrap();
    let of_node = management
        .split_whitespace()
        .filter_map(|word| word.split_once('/')?.0.parse().ok());
    let inside = neighbour.into_iter().chain(of_node).collect::<Vec<IpAddr>>();
    assert_eq!(inside.len(), 4, "{management}");
    for (to, node) in world
        .addresses(pod)
        .into_iter()
        .zip([IpAddr::from(Machine::Node(1).v4()), Machine::Node(1).v6().into()])
    {
        // The route and the address are removed again in any case: other tests use this host too.
        let heard = |source: Option<&IpAddr>| {
            let before = echo_requests(&world.shell(pod), to.is_ipv6());
            let (add, from, remove) = source.map_or_else(Default::default, |source| {
                (
                    format!("ip addr add {source} dev lo;"),
                    format!("-I {source}"),
                    format!("ip addr del {source} dev lo;"),
                )
            });
            let script =
                format!("{add} ip route replace {to} via {node}; ping -n -q -c2 -i0.2 -W1 {from} {to}; ip route del {to}; {remove} true");
            let said = world.shell("outside").run(&["bash", "-c", &script]).unwrap();
            assert!(said.contains("2 packets transmitted"), "{said}");
            echo_requests(&world.shell(pod), to.is_ipv6()) - before
        };
        assert_eq!(heard(None), 2, "outside is heard by {to}");
        for source in inside.iter().filter(|source| source.is_ipv4() == to.is_ipv4()) {
            assert_eq!(heard(Some(source)), 0, "outside is heard by {to} as {source}");
        }
    }
}
