//! Properties of the planner under random changes: incremental equals full, a transaction takes observed to desired, restart writes
//! nothing, the order of events leaves no trace, no address is used twice, released addresses return.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod cluster_policies;
mod database;
mod policies;
mod services;

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

use database::Database;
use netloom_network::cluster::{ClusterNetwork, NamedPort};
use netloom_network::ipam::Mac;
use netloom_network::settings::{ClusterCidrSpec, ClusterNetworkSpec, ServicesSpec};
use netloom_network::{Node, Object, Planner, Pod, PodName, Scope, ServiceName, check, decide, diff, plan};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    Network {
        cidrs: Vec<&'static str>,
        kube_proxy: bool,
    },
    Node {
        number: u8,
        gateway: bool,
        address: bool,
        ready: bool,
        excluded: bool,
        zone: Option<u8>,
        labels: BTreeMap<String, String>,
    },
    /// A namespace or a policy.
    Policy(Object),
    PolicyGone(Object),
    /// A service, a slice or a pool.
    Service(Object),
    Gone(Object),
    NodeGone(u8),
    Pod {
        number: u8,
        node: u8,
        generation: u8,
        finished: bool,
        asks: Option<u8>,
        labels: BTreeMap<String, String>,
        ports: Vec<NamedPort>,
        network: Option<(String, String)>,
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
        1 => (network, prop::bool::weighted(0.2)).prop_map(|(cidrs, kube_proxy)| Step::Network { cidrs, kube_proxy }),
        4 => (0..6u8, any::<bool>(), any::<bool>(), any::<bool>(), prop::bool::weighted(0.1), prop::option::of(0..2u8), policies::labels())
            .prop_map(|(number, gateway, address, ready, excluded, zone, labels)| Step::Node { number, gateway, address, ready, excluded, zone, labels }),
        10 => services::object().prop_map(Step::Service),
        3 => services::object().prop_map(Step::Gone),
        1 => (0..6u8).prop_map(Step::NodeGone),
        12 => (0..24u8, 0..6u8, 0..2u8, prop::bool::weighted(0.1), prop::option::weighted(0.1, 0..16u8), policies::labels(), policies::ports(), policies::network_named())
            .prop_map(|(number, node, generation, finished, asks, labels, ports, network)| Step::Pod { number, node, generation, finished, asks, labels, ports, network }),
        8 => policies::object().prop_map(Step::Policy),
        4 => cluster_policies::object().prop_map(Step::Policy),
        1 => cluster_policies::object().prop_map(Step::PolicyGone),
        2 => policies::object().prop_map(Step::PolicyGone),
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
    services: services::Objects,
    policies: policies::Objects,
}

impl World {
    fn apply(&mut self, planner: &mut Planner, step: &Step) {
        match step {
            Step::Network { cidrs, kube_proxy } => {
                let cluster_cidrs = cidrs.iter().map(|c| ClusterCidrSpec {
                    cidr: (*c).to_owned(),
                    node_prefix: c.starts_with("10.").then_some(29),
                });
                let network = ClusterNetwork {
                    uid: "n".to_owned(),
                    spec: ClusterNetworkSpec {
                        cluster_cidrs: cluster_cidrs.collect(),
                        services: ServicesSpec {
                            mode: kube_proxy.then(|| "kube-proxy".to_owned()),
                            cidrs: vec![],
                        },
                        ..ClusterNetworkSpec::default()
                    },
                };
                self.network = Some(network.clone());
                planner.apply(Object::ClusterNetwork(network));
            }
            Step::Policy(object) => {
                self.policies.insert(object.clone());
                planner.apply(object.clone());
            }
            Step::PolicyGone(object) => {
                self.policies.remove(object);
                planner.remove(object);
            }
            Step::Service(object) => {
                self.services.insert(object.clone());
                planner.apply(object.clone());
            }
            Step::Gone(object) => {
                self.services.remove(object);
                planner.remove(object);
            }
            Step::Node {
                number,
                gateway,
                address,
                ready,
                excluded,
                zone,
                labels,
            } => {
                let ip = IpAddr::from([172, 30, 0, *number]);
                let report = format!(r#"{{"mac":"02:00:00:00:00:{number:02x}","addresses":["{ip}/24"]}}"#);
                let annotations = gateway.then(|| ("netloom.io/gateway".to_owned(), report)).into_iter().collect();
                let node = Node {
                    uid: format!("node-{number}"),
                    addresses: address.then_some(ip).into_iter().collect(),
                    annotations,
                    ready: *ready,
                    excluded: *excluded,
                    zone: zone.map(|zone| format!("zone{zone}")),
                    labels: labels.clone(),
                    ..Node::default()
                };
                self.nodes.insert(format!("node{number}"), node.clone());
                planner.apply(Object::Node(format!("node{number}"), node));
            }
            Step::NodeGone(number) => {
                self.nodes.remove(&format!("node{number}"));
                planner.remove(&Object::Node(format!("node{number}"), Node::default()));
            }
            Step::Pod {
                number,
                node,
                generation,
                finished,
                asks,
                labels,
                ports,
                network,
            } => {
                let asked = asks.map(|host| match host % 2 {
                    0 => ("netloom.io/addresses".to_owned(), format!("10.244.0.{host}")),
                    _ => ("netloom.io/mac".to_owned(), format!("52:54:00:00:00:0{}", host % 3)),
                });
                let pod = Pod {
                    uid: format!("pod-{number}-{generation}-on-{node}"), // a pod never changes its node
                    node: Some(format!("node{node}")),
                    finished: *finished,
                    annotations: asked.into_iter().chain(network.clone()).collect(),
                    labels: labels.clone(),
                    ports: ports.clone(),
                    ..Pod::default()
                };
                self.pods.insert(name(*number), pod.clone());
                planner.apply(Object::Pod(name(*number), pod));
            }
            Step::PodGone(number) => {
                self.pods.remove(&name(*number));
                planner.remove(&Object::Pod(name(*number), Pod::default()));
            }
            Step::Compile => {}
        }
    }

    fn objects(&self) -> Vec<Object> {
        let network = self.network.clone().map(Object::ClusterNetwork);
        let nodes = self.nodes.clone().into_iter().map(|(name, node)| Object::Node(name, node));
        let pods = self.pods.clone().into_iter().map(|(name, pod)| Object::Pod(name, pod));
        let others = self.services.all().chain(self.policies.all());
        network.into_iter().chain(nodes).chain(pods).chain(others).collect()
    }
}

fn name(number: u8) -> PodName {
    let pod = PodName {
        namespace: policies::NAMESPACES[usize::from(number < 8)].to_owned(),
        name: format!("pod{number}"),
    };
    // Some are machines.
    if number.is_multiple_of(6) { pod.of_machine() } else { pod }
}

fn assert_addresses_are_sound(planner: &Planner) -> Result<(), TestCaseError> {
    let mut owners: HashMap<IpAddr, &PodName> = HashMap::new();
    let mut in_networks: HashMap<(&str, IpAddr), &PodName> = HashMap::new();
    let mut macs: HashMap<(Option<&String>, Mac), &PodName> = HashMap::new();
    for (pod, assignment) in planner.cluster().records.assignments() {
        let living = planner
            .cluster()
            .pods
            .get(pod)
            .is_some_and(|p| p.wants_port() && p.uid == assignment.uid);
        prop_assert!(living, "{pod} is gone and keeps {:?}", assignment.addresses);
        let node = planner.cluster().pods.get(pod).and_then(|pod| pod.node.as_ref());
        let twin = macs.insert((node, assignment.mac), pod);
        prop_assert!(twin.is_none(), "{pod} and {twin:?} have {}", assignment.mac);
        for ip in &assignment.addresses {
            if let Some(other) = owners.insert(*ip, pod) {
                prop_assert!(false, "{ip} belongs to {pod} and {other}");
            }
        }
    }
    for (pod, assignment) in planner.cluster().records.assignments() {
        for (network, ip) in assignment
            .attachment
            .iter()
            .flat_map(|on| on.addresses.iter().map(move |ip| (&on.network, ip.addr())))
        {
            if let Some(other) = in_networks.insert((network, ip), pod) {
                prop_assert!(false, "{ip} of {network} belongs to {pod} and {other}");
            }
        }
    }
    for (service, external) in planner.cluster().records.externals() {
        let living = planner
            .cluster()
            .services
            .get(service)
            .is_some_and(|s| s.is_ours() && s.uid == external.uid);
        prop_assert!(living, "{service} is gone and keeps {:?}", external.addresses);
        for ip in &external.addresses {
            if let Some(other) = owners.insert(*ip, service) {
                prop_assert!(false, "{ip} belongs to {service} and {other}");
            }
        }
    }
    Ok(())
}

/// A planner that knows nothing but these objects.
fn fresh(objects: Vec<Object>) -> Planner {
    let mut planner = Planner::default();
    for object in objects {
        planner.apply(object);
    }
    planner.compile();
    planner
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

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
            prop_assert_eq!(decide::undecided(planner.cluster()), vec![]);
            prop_assert_eq!(check::check(&full), vec![]);
            assert_addresses_are_sound(&planner)?;
            prop_assert_eq!(policies::wrong_sets(&planner), Vec::<String>::new());
            prop_assert_eq!(cluster_policies::wrong_sets(&planner), Vec::<String>::new());
            prop_assert_eq!(policies::wrong_groups(&planner), Vec::<String>::new());

            let observed = database.observed();
            let transaction = diff(&observed, planner.desired(), &scope);
            prop_assert_eq!(transaction.is_empty(), diff(&observed, planner.desired(), &Scope::All).is_empty());
            database.apply(&transaction);
            database.assert_whole();
            prop_assert_eq!(&database.observed(), planner.desired());
            prop_assert!(diff(planner.desired(), planner.desired(), &Scope::All).is_empty());
        }

        // The order in which objects are listed does not matter, and without a database services keep what their status shows.
        let (mut forward, mut backward) = (fresh(world.objects()), fresh(world.objects().into_iter().rev().collect()));
        prop_assert_eq!(forward.desired(), backward.desired());
        prop_assert_eq!(forward.problems(), backward.problems());
        prop_assert!(forward.compile().is_empty() && backward.compile().is_empty());
        let given: BTreeMap<ServiceName, Vec<IpAddr>> =
            planner.cluster().records.externals().map(|(name, external)| (name.clone(), external.addresses.clone())).collect();
        let lost = fresh(world.objects().into_iter().map(|object| services::with_status(object, &given)).collect());
        let settings_kept = lost.cluster().records.settings() == planner.cluster().records.settings();
        for (service, addresses) in given.iter().filter(|_| settings_kept) {
            prop_assert_eq!(lost.cluster().records.external(service), &addresses[..]);
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
            in_parts.assert_whole();
        }
        prop_assert_eq!(&in_parts.observed(), successor.desired());
    }
}
