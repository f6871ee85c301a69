//! Two networks with the same addresses, and pods that are on neither.

use crate::objects::{SUBNETS, namespace_on, network, pod};
use crate::questions::{Answer, World};
use netloom_lab_fixtures::world::ended;

const NODES: [&str; 3] = ["node1", "node2", "node3"];

#[test]
fn tenants_have_the_same_addresses_and_do_not_meet() {
    let mut manifest = network("red", SUBNETS) + &network("blue", SUBNETS) + &namespace_on("red", "red") + &namespace_on("blue", "blue");
    for (number, node) in NODES.iter().enumerate() {
        for namespace in ["red", "blue", "default"] {
            manifest += &pod(namespace, &format!("p{}", number + 1), node);
        }
    }
    let world = World::up("tenants", &manifest);
    they_have_the_same_addresses(&world);
    pods_of_a_network_reach_each_other_by_both_addresses(&world);
    networks_and_the_cluster_reach_each_other_by_cluster_addresses(&world);
    addresses_of_a_network_are_reached_from_nowhere_else(&world);
    assert_eq!(ended(&world.lab), Vec::<String>::new(), "parts crashed");
}

fn they_have_the_same_addresses(world: &World) {
    let of = |namespace: &str| {
        let mut all: Vec<_> = (1..=3)
            .flat_map(|number| world.addresses(&format!("link {namespace}/p{number}")))
            .collect();
        all.sort();
        all
    };
    assert_eq!(of("red"), of("blue"), "or else it would not show whether they mix");
}

fn pods_of_a_network_reach_each_other_by_both_addresses(world: &World) {
    let mut lines = Vec::new();
    for namespace in ["red", "blue"] {
        for (from, to) in pairs() {
            let (from, to) = (format!("{namespace}/{from}"), format!("{namespace}/{to}"));
            lines.extend(world.lines(&from, &format!("link {to}"), Answer::Itself));
            lines.extend(world.lines(&from, &to, Answer::Itself));
        }
    }
    assert_eq!(lines.len(), 2 * 6 * 2 * 4);
    world.check_lines("inside of a network", &lines);
}

fn pairs() -> impl Iterator<Item = (&'static str, &'static str)> {
    const PODS: [&str; 3] = ["p1", "p2", "p3"];
    PODS.into_iter()
        .flat_map(|from| PODS.into_iter().map(move |to| (from, to)))
        .filter(|(from, to)| from != to)
}

fn networks_and_the_cluster_reach_each_other_by_cluster_addresses(world: &World) {
    use Answer::Itself;
    world.check(
        "across networks",
        &[
            ("default/p1", "red/p1", Itself),
            ("default/p1", "red/p2", Itself),
            ("default/p3", "blue/p2", Itself),
            ("red/p1", "default/p1", Itself),
            ("red/p1", "default/p3", Itself),
            ("blue/p2", "default/p1", Itself),
            ("red/p1", "blue/p1", Itself),
            ("red/p1", "blue/p3", Itself),
            ("blue/p3", "red/p3", Itself),
            ("blue/p3", "red/p2", Itself),
        ],
    );
}

fn addresses_of_a_network_are_reached_from_nowhere_else(world: &World) {
    let mut lines = Vec::new();
    for from in ["default/p1", "default/p2", "node1", "node3", "outside"] {
        for to in ["link red/p1", "link blue/p3"] {
            let to_addresses = world.addresses(to);
            lines.extend(world.lines_to(from, to, &to_addresses, (crate::objects::TCP, crate::objects::UDP), &[], &[]));
        }
    }
    world.check_lines("from outside of a network", &lines);
}
