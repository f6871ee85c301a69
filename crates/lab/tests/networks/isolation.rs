//! Isolated networks, and isolated namespaces on networks they share with others.

use crate::link::{heard, heard_by_gateway, link_local};
use crate::objects::{SUBNETS, namespace, namespace_on, network, pod, service};
use crate::questions::{Answer, World};
use netloom_lab_fixtures::world::ended;

/// Namespaces `a` and `d` are on a network that is isolated, `b` and `c` on one that is not; `c` and `d` are isolated themselves.
#[test]
fn isolated_networks_and_namespaces_are_reached_through_services_only() {
    let isolated = |name: &str, network: &str| namespace(name, &format!("netloom.io/network: {network}, netloom.io/isolation: pods"));
    let mut manifest = network("shut", &format!("{SUBNETS}, isolated: true"))
        + &network("open", SUBNETS)
        + &namespace_on("a", "shut")
        + &namespace_on("b", "open")
        + &isolated("c", "open")
        + &isolated("d", "shut");
    for namespace in ["a", "b", "c", "d", "default"] {
        manifest += &pod(namespace, "p1", "node1");
        manifest += &pod(namespace, "p2", "node2");
        manifest += &service(namespace, "p2", "run: p2", "");
    }
    let world = World::up("isolation", &manifest);
    a_network_is_isolated_from_all_others(&world);
    a_namespace_is_isolated_from_its_neighbours(&world);
    the_namespace_counts_on_an_isolated_network(&world);
    what_is_sent_on_the_link_is_not_heard(&world);
    the_gateway_leads_to_no_neighbour(&world);
    a_network_opens_and_closes(&world);
    a_deleted_network_stays_closed(&world);
    assert_eq!(ended(&world.lab), Vec::<String>::new(), "parts crashed");
}

fn a_network_is_isolated_from_all_others(world: &World) {
    use Answer::{Itself, Nobody, Pods};
    world.check(
        "an isolated network",
        &[
            ("a/p1", "a/p2", Itself),
            ("a/p1", "link a/p2", Itself),
            ("a/p2", "link a/p1", Itself),
            ("a/p1", "default/p1", Itself),
            ("a/p1", "default/p2", Itself),
            ("a/p2", "b/p1", Itself),
            ("default/p1", "a/p1", Nobody),
            ("default/p1", "a/p2", Nobody),
            ("b/p1", "a/p1", Nobody),
            ("b/p2", "a/p1", Nobody),
            ("c/p1", "a/p1", Nobody),
            ("node1", "a/p1", Itself),
            ("node2", "a/p1", Itself),
            ("default/p1", "service a/p2", Pods(&["a/p2"])),
            ("b/p1", "service a/p2", Pods(&["a/p2"])),
            ("a/p1", "service a/p2", Pods(&["a/p2"])),
            ("a/p1", "service default/p2", Pods(&["default/p2"])),
            ("a/p1", "service c/p2", Pods(&["c/p2"])),
        ],
    );
}

fn a_namespace_is_isolated_from_its_neighbours(world: &World) {
    use Answer::{Itself, Nobody, Pods};
    world.check(
        "an isolated namespace",
        &[
            ("b/p1", "link b/p2", Itself),
            ("b/p1", "b/p2", Itself),
            ("b/p1", "link c/p1", Nobody),
            ("b/p1", "link c/p2", Nobody),
            ("b/p2", "link c/p1", Nobody),
            ("b/p1", "c/p1", Nobody),
            ("b/p1", "c/p2", Nobody),
            ("default/p1", "c/p1", Nobody),
            ("c/p1", "link c/p2", Itself),
            ("c/p1", "c/p2", Itself),
            ("c/p1", "link b/p1", Itself),
            ("c/p1", "link b/p2", Itself),
            ("c/p2", "b/p1", Itself),
            ("b/p1", "service c/p2", Pods(&["c/p2"])),
            ("b/p2", "service c/p2", Pods(&["c/p2"])),
            ("c/p1", "service c/p2", Pods(&["c/p2"])),
            ("node1", "c/p1", Itself),
            ("node1", "c/p2", Itself),
        ],
    );
}

fn the_namespace_counts_on_an_isolated_network(world: &World) {
    use Answer::{Itself, Nobody, Pods};
    world.check(
        "an isolated namespace on an isolated network",
        &[
            ("a/p1", "link d/p1", Nobody),
            ("a/p1", "link d/p2", Nobody),
            ("a/p1", "d/p1", Nobody),
            ("a/p1", "d/p2", Nobody),
            ("default/p1", "d/p1", Nobody),
            ("c/p1", "d/p1", Nobody),
            ("d/p1", "link d/p2", Itself),
            ("d/p1", "d/p2", Itself),
            ("d/p1", "link a/p1", Itself),
            ("d/p1", "link a/p2", Itself),
            ("d/p1", "a/p2", Itself),
            ("a/p1", "service d/p2", Pods(&["d/p2"])),
            ("default/p2", "service d/p2", Pods(&["d/p2"])),
        ],
    );
}

/// Also when the sender is on another node than the receiver.
fn what_is_sent_on_the_link_is_not_heard(world: &World) {
    for (from, open, isolated) in [("b/p1", "b/p2", ["c/p1", "c/p2"]), ("a/p1", "a/p2", ["d/p1", "d/p2"])] {
        let all = [open, isolated[0], isolated[1]];
        for to in ["ff02::1%eth0", "-b 192.168.10.255"] {
            assert_eq!(heard(world, from, to, &all), [2, 0, 0], "{from} to {to}, heard by {all:?}");
        }
        for (to, count) in all.into_iter().zip([2, 0, 0]) {
            let address = link_local(world, to);
            assert_eq!(heard(world, from, &address, &[to]), [count], "{from} to {to} at {address}");
        }
    }
}

fn the_gateway_leads_to_no_neighbour(world: &World) {
    for to in ["c/p1", "c/p2", "b/p2"] {
        let heard = heard_by_gateway(world, "open", "b/p1", to);
        assert_eq!(heard, [0, 0], "{to} hears what b/p1 sends by the gateway");
    }
}

fn a_network_opens_and_closes(world: &World) {
    use Answer::{Itself, Nobody};
    let set = |isolated: bool| {
        let patch = format!(r#"{{"spec":{{"isolated":{isolated}}}}}"#);
        world.kubectl(&["patch", "network", "shut", "--type=merge", "-p", &patch]);
    };
    set(false);
    world.wait_no_row("Port_Group", "custom-network/shut");
    world.check(
        "a network that was opened",
        &[
            ("default/p1", "a/p1", Itself),
            ("default/p1", "a/p2", Itself),
            ("default/p1", "d/p1", Nobody),
            ("a/p1", "link d/p1", Nobody),
        ],
    );
    set(true);
    world.wait_row("Port_Group", "custom-network/shut");
    world.sync();
    world.check(
        "a network that was closed again",
        &[
            ("default/p1", "a/p1", Nobody),
            ("default/p1", "a/p2", Nobody),
            ("a/p1", "link a/p2", Itself),
            ("a/p1", "link d/p1", Nobody),
        ],
    );
}

fn a_deleted_network_stays_closed(world: &World) {
    use Answer::{Itself, Nobody};
    world.kubectl(&["delete", "network", "shut"]);
    world.told("a", "p1", "NetworkNeedsNewPod");
    world.sync();
    world.check(
        "a network that was deleted",
        &[
            ("a/p1", "link a/p2", Itself),
            ("a/p1", "a/p2", Itself),
            ("a/p1", "default/p2", Itself),
            ("default/p1", "a/p1", Nobody),
            ("default/p1", "a/p2", Nobody),
            ("a/p1", "link d/p1", Nobody),
            ("default/p1", "service a/p2", Answer::Pods(&["a/p2"])),
        ],
    );
    world.kubectl(&["delete", "pod", "--all", "-n", "a"]);
    world.kubectl(&["delete", "pod", "--all", "-n", "d"]);
    world.wait_no_row("Logical_Router", "router/network/shut");
    world.wait_no_row("Port_Group", "custom-network/shut");
}
