//! Properties of the planner under random changes: incremental equals full, a transaction takes observed to desired, restart writes
//! nothing, no address is used twice, released addresses return.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod database;

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

use database::Database;
use netloom_network::cluster::ClusterNetwork;
use netloom_network::settings::{ClusterCidrSpec, ClusterNetworkSpec};
use netloom_network::{Node, Object, Planner, Pod, PodName, Scope, check, diff, plan};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    Network(Vec<&'static str>),
    Node {
        number: u8,
        gateway: bool,
        address: bool,
    },
    NodeGone(u8),
    Pod {
        number: u8,
        node: u8,
        generation: u8,
        finished: bool,
        asks: Option<u8>,
    },
    PodGone(u8),
    Compile,
}

fn step() -> impl Strategy<Value = Step> {
    let network = prop_oneof![
        Just(vec!["10.244.0.0/27"]),
        Just(vec!["10.244.0.0/27", "fd00::/60"]),
        Just(vec!["10.244.0.0/27", "10.9.0.0/28"]),
        Just(vec!["10.9.0.0/28"]),
        Just(vec!["broken"]),
    ];
    prop_oneof![
        1 => network.prop_map(Step::Network),
        4 => (0..6u8, any::<bool>(), any::<bool>()).prop_map(|(number, gateway, address)| Step::Node { number, gateway, address }),
        1 => (0..6u8).prop_map(Step::NodeGone),
        12 => (0..24u8, 0..6u8, 0..2u8, prop::bool::weighted(0.1), prop::option::weighted(0.1, 0..16u8))
            .prop_map(|(number, node, generation, finished, asks)| Step::Pod { number, node, generation, finished, asks }),
        5 => (0..24u8).prop_map(Step::PodGone),
        6 => Just(Step::Compile),
    ]
}

/// The API's objects, as a restarted controller would list them.
#[derive(Default)]
struct World {
    network: Option<ClusterNetwork>,
    nodes: BTreeMap<String, Node>,
    pods: BTreeMap<PodName, Pod>,
}

impl World {
    fn apply(&mut self, planner: &mut Planner, step: &Step) {
        match step {
            Step::Network(cidrs) => {
                let cluster_cidrs = cidrs.iter().map(|c| ClusterCidrSpec {
                    cidr: (*c).to_owned(),
                    node_prefix: c.starts_with("10.").then_some(29),
                });
                let network = ClusterNetwork {
                    uid: "n".to_owned(),
                    spec: ClusterNetworkSpec {
                        cluster_cidrs: cluster_cidrs.collect(),
                        join_cidrs: vec![],
                    },
                };
                self.network = Some(network.clone());
                planner.apply(Object::ClusterNetwork(network));
            }
            Step::Node { number, gateway, address } => {
                let ip = IpAddr::from([172, 30, 0, *number]);
                let report = format!(r#"{{"mac":"02:00:00:00:00:{number:02x}","addresses":["{ip}/24"]}}"#);
                let annotations = gateway.then(|| ("netloom.io/gateway".to_owned(), report)).into_iter().collect();
                let node = Node {
                    uid: format!("node-{number}"),
                    addresses: address.then_some(ip).into_iter().collect(),
                    annotations,
                };
                self.nodes.insert(format!("node{number}"), node.clone());
                planner.apply(Object::Node(format!("node{number}"), node));
            }
            Step::NodeGone(number) => {
                self.nodes.remove(&format!("node{number}"));
                planner.delete_node(&format!("node{number}"));
            }
            Step::Pod {
                number,
                node,
                generation,
                finished,
                asks,
            } => {
                let asked = asks.map(|host| ("netloom.io/addresses".to_owned(), format!("10.244.0.{host}")));
                let pod = Pod {
                    uid: format!("pod-{number}-{generation}-on-{node}"), // a pod never changes its node
                    node: Some(format!("node{node}")),
                    finished: *finished,
                    annotations: asked.into_iter().collect(),
                    ..Pod::default()
                };
                self.pods.insert(name(*number), pod.clone());
                planner.apply(Object::Pod(name(*number), pod));
            }
            Step::PodGone(number) => {
                self.pods.remove(&name(*number));
                planner.delete_pod(&name(*number));
            }
            Step::Compile => {}
        }
    }

    fn objects(&self) -> Vec<Object> {
        let network = self.network.clone().map(Object::ClusterNetwork);
        let nodes = self.nodes.clone().into_iter().map(|(name, node)| Object::Node(name, node));
        let pods = self.pods.clone().into_iter().map(|(name, pod)| Object::Pod(name, pod));
        network.into_iter().chain(nodes).chain(pods).collect()
    }
}

fn name(number: u8) -> PodName {
    PodName {
        namespace: "default".to_owned(),
        name: format!("pod{number}"),
    }
}

fn assert_addresses_are_sound(planner: &Planner) -> Result<(), TestCaseError> {
    let mut owners: HashMap<IpAddr, &PodName> = HashMap::new();
    for (pod, assignment) in planner.cluster().records.assignments() {
        let living = planner
            .cluster()
            .pods
            .get(pod)
            .is_some_and(|p| p.wants_port() && p.uid == assignment.uid);
        prop_assert!(living, "{pod} is gone and keeps {:?}", assignment.addresses);
        for ip in &assignment.addresses {
            if let Some(other) = owners.insert(*ip, pod) {
                prop_assert!(false, "{ip} belongs to {pod} and {other}");
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, ..ProptestConfig::default() })]

    #[test]
    fn incremental_equals_full_and_restart_writes_nothing(steps in prop::collection::vec(step(), 1..120), missed in prop::collection::vec(step(), 0..40), shuffle in any::<u64>()) {
        let (mut world, mut planner, mut database) = (World::default(), Planner::default(), Database::default());
        planner.restore(&database.observed());
        for step in steps.iter().chain([&Step::Compile]) {
            world.apply(&mut planner, step);
            if !matches!(step, Step::Compile) {
                continue;
            }
            let scope = planner.compile();
            let (full, problems) = plan::compile(planner.cluster());
            prop_assert_eq!(planner.desired(), &full);
            prop_assert_eq!(planner.problems().iter().cloned().collect::<Vec<_>>(), problems);
            prop_assert_eq!(check::check(&full), vec![]);
            assert_addresses_are_sound(&planner)?;

            let observed = database.observed();
            let transaction = diff(&observed, planner.desired(), &scope);
            prop_assert_eq!(transaction.is_empty(), diff(&observed, planner.desired(), &Scope::All).is_empty());
            database.apply(&transaction);
            prop_assert_eq!(&database.observed(), planner.desired());
            prop_assert!(diff(planner.desired(), planner.desired(), &Scope::All).is_empty());
        }

        let mut objects = world.objects();
        if !objects.is_empty() {
            let turn = usize::try_from(shuffle % objects.len() as u64).unwrap();
            objects.rotate_left(turn);
        }
        let mut restarted = Planner::default();
        restarted.restore(&database.observed());
        for object in objects {
            restarted.apply(object);
        }
        restarted.compile();
        let writes = diff(&database.observed(), restarted.desired(), &Scope::All);
        prop_assert!(writes.is_empty(), "a restart writes\n{}", writes);
        prop_assert_eq!(restarted.problems(), planner.problems());

        // What happened while no controller ran is caught up with in one transaction, and nothing is leaked or doubled.
        let mut unseen = Planner::default();
        for step in &missed {
            world.apply(&mut unseen, step);
        }
        let mut successor = Planner::default();
        successor.restore(&database.observed());
        for object in world.objects() {
            successor.apply(object);
        }
        let mut scope = successor.compile();
        scope.extend(Scope::All);
        let transaction = diff(&database.observed(), successor.desired(), &scope);
        let mut in_parts = database.clone();
        database.apply(&transaction);
        prop_assert_eq!(&database.observed(), &plan::compile(successor.cluster()).0);
        prop_assert_eq!(check::check(&database.observed()), vec![]);
        assert_addresses_are_sound(&successor)?;

        // Part by part it comes to the same.
        for part in successor.parts(&in_parts.observed()) {
            in_parts.apply(&diff(&in_parts.observed(), successor.desired(), &part.scope));
        }
        prop_assert_eq!(&in_parts.observed(), successor.desired());
    }
}
