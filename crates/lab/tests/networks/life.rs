//! Networks that come, go, change and are written wrongly while pods live: who waits is told why, and nobody else notices.

use std::collections::BTreeMap;
use std::thread;

use netloom_lab::Signal;
use netloom_lab::echo::client::Attempt;
use serde_json::{Value, json};

use crate::objects::{SUBNETS, TCP, namespace_on, network, pod, pod_with};
use crate::questions::{Answer, World};
use netloom_lab_fixtures::ask::{Ask, Protocol, ask, failed};
use netloom_lab_fixtures::world::drift;

use Answer::Itself;

#[test]
fn networks_live_and_pods_wait_for_them() {
    let manifest = [
        network("red", SUBNETS),
        network("blue", SUBNETS),
        namespace_on("red", "red"),
        namespace_on("blue", "blue"),
        pod("red", "one", "node1"),
        pod("red", "two", "node2"),
        pod("blue", "one", "node2"),
        pod("default", "plain", "node3"),
    ];
    let world = World::up("life", &manifest.concat());
    a_pod_waits_for_its_network(&world);
    a_pod_waits_for_its_namespace_to_be_let_in(&world);
    a_network_that_cannot_be_is_told(&world);
    a_full_subnet_is_told_and_what_is_freed_is_used(&world);
    a_restarted_controller_writes_nothing(&world);
    a_pod_stays_where_it_was_born(&world);
    a_deleted_network_serves_the_pods_it_has(&world);
    assert_eq!(drift(&world.lab), "None.\n");
}

/// Pods of both networks, on two nodes, and one that is on none.
fn others_are_unaffected(world: &World, when: &str) {
    world.check(
        when,
        &[
            ("red/one", "link red/two", Itself),
            ("red/two", "red/one", Itself),
            ("default/plain", "blue/one", Itself),
            ("blue/one", "default/plain", Itself),
        ],
    );
}

/// A pod that waits: it was told why, and has no address.
fn waits(world: &World, pod: &str, reason: &str, why: &str) {
    let (namespace, name) = pod.split_once('/').unwrap();
    let said = world.told(namespace, name, reason);
    assert!(said.contains(why), "{pod}: {said}");
    let address = world.kubectl(&["get", "pod", name, "-n", namespace, "-o", "jsonpath={.status.podIP}"]);
    assert_eq!(address, "", "{pod} waits");
}

fn a_pod_waits_for_its_network(world: &World) {
    world
        .lab
        .apply(&pod_with("default", "early", "node1", "", "netloom.io/network: later"))
        .unwrap();
    waits(world, "default/early", "NetworkUnusable", "there is no Network later");
    world
        .lab
        .apply(&network("later", "subnets: [192.168.20.0/24, \"fd01:20::/64\"]"))
        .unwrap();
    world.wait_pod("default/early");
    let on_it = world.addresses("link default/early");
    assert!(on_it[0].to_string().starts_with("192.168.20."), "{on_it:?}");
    world.check(
        "it came up",
        &[("default/plain", "default/early", Itself), ("default/early", "red/one", Itself)],
    );
}

fn a_pod_waits_for_its_namespace_to_be_let_in(world: &World) {
    let picky = network(
        "picky",
        &format!("{SUBNETS}, namespaceSelector: {{ matchLabels: {{ tenant: known }} }}"),
    );
    world
        .lab
        .apply(&(picky + &namespace_on("guest", "picky") + &pod("guest", "one", "node2")))
        .unwrap();
    waits(world, "guest/one", "NetworkForbidden", "its namespaceSelector does not match");
    world.kubectl(&["label", "namespace", "guest", "tenant=known"]);
    world.wait_pod("guest/one");
    world.check("it was let in", &[("default/plain", "guest/one", Itself)]);
}

fn a_network_that_cannot_be_is_told(world: &World) {
    let condition = |wanted: &str| {
        world.kubectl(&[
            "wait",
            "network/broken",
            &format!("--for=condition=Ready={wanted}"),
            "--timeout=30s",
        ]);
        let path = "jsonpath={.status.conditions[?(@.type=='Ready')].message}";
        world.kubectl(&["get", "network", "broken", "-o", path])
    };
    let pods = pod_with("default", "hopeful", "node3", "", "netloom.io/network: broken");
    world.lab.apply(&(network("broken", "subnets: [10.244.0.0/24]") + &pods)).unwrap();
    let said = condition("False");
    assert!(said.contains("overlaps 10.244.0.0/16"), "{said}");
    waits(
        world,
        "default/hopeful",
        "NetworkUnusable",
        "network broken: subnet 10.244.0.0/24 overlaps",
    );
    others_are_unaffected(world, "while a network is wrong");

    world
        .lab
        .apply(&network("broken", &format!("{SUBNETS}, namespaceSelektor: {{}}")))
        .unwrap();
    world.told("default", "broken", "InvalidNetwork");
    let path = "--for=jsonpath={.status.conditions[0].message}=spec: unknown field `namespaceSelektor`, expected one of `subnets`, `gateways`, `routes`, `isolated`, `namespaceSelector`";
    world.kubectl(&["wait", "network/broken", path, "--timeout=30s"]);

    world.kubectl(&[
        "patch",
        "network",
        "broken",
        "--type=merge",
        "-p",
        r#"{"spec":{"namespaceSelektor":null}}"#,
    ]);
    condition("True");
    world.wait_pod("default/hopeful");
    world.check("it was mended", &[("red/one", "default/hopeful", Itself)]);
}

/// Room for one pod: the rest of the four addresses are the gateway's, and nobody's.
fn a_full_subnet_is_told_and_what_is_freed_is_used(world: &World) {
    let tiny = network("tiny", "subnets: [192.168.77.0/30, \"fd01:77::/64\"]");
    world
        .lab
        .apply(&(tiny + &namespace_on("tiny", "tiny") + &pod("tiny", "one", "node1")))
        .unwrap();
    world.wait_pod("tiny/one");
    let only = world.addresses("link tiny/one")[0];
    assert_eq!(only.to_string(), "192.168.77.2");
    world.lab.apply(&pod("tiny", "two", "node2")).unwrap();
    waits(
        world,
        "tiny/two",
        "SubnetFull",
        "no free address in 192.168.77.0/30 of network tiny",
    );
    world.check("who has it", &[("default/plain", "tiny/one", Itself)]);
    world.kubectl(&["delete", "pod", "one", "-n", "tiny"]);
    world.wait_pod("tiny/two");
    assert_eq!(world.addresses("link tiny/two")[0], only);
    world.check("who has it now", &[("default/plain", "tiny/two", Itself)]);
}

/// Versions of all rows by key; the database gives a row another one whenever it is changed.
fn versions(world: &World) -> BTreeMap<String, String> {
    const TABLES: [&str; 10] = [
        "Logical_Switch",
        "Logical_Switch_Port",
        "Logical_Router",
        "Logical_Router_Port",
        "Logical_Router_Static_Route",
        "Logical_Router_Policy",
        "ACL",
        "Port_Group",
        "Address_Set",
        "Load_Balancer",
    ];
    let select = |table: &&str| json!({ "op": "select", "table": table, "where": [], "columns": ["_uuid", "_version", "external_ids"] });
    let mut query = vec![json!("OVN_Northbound")];
    query.extend(TABLES.iter().map(select));
    let said = world
        .lab
        .control()
        .run(&[
            "ovsdb-client",
            "query",
            "unix:/run/ovn/ovnnb_db.sock",
            &Value::from(query).to_string(),
        ])
        .unwrap();
    let results: Vec<Value> = serde_json::from_str(&said).unwrap();
    let rows = results.iter().flat_map(|result| result["rows"].as_array().unwrap());
    let key = |row: &Value| {
        let ids = row["external_ids"][1].as_array().unwrap();
        let key = ids.iter().find(|id| id[0] == "netloom.io/key").map(|id| id[1].as_str().unwrap());
        key.map_or_else(|| row["_uuid"][1].to_string(), str::to_owned)
    };
    rows.map(|row| (key(row), row["_version"][1].to_string())).collect()
}

fn a_restarted_controller_writes_nothing(world: &World) {
    let (to, enough) = (world.addresses("link red/two")[0], "/tmp/restart-is-over");
    let before = versions(world);
    assert!(
        before.keys().any(|key| key == "switch/network/red") && before.len() > 100,
        "{before:?}"
    );
    let talk = thread::scope(|scope| {
        let question = Ask::new(Protocol::Tcp, to, TCP)
            .keep()
            .timeout_ms(5000)
            .interval_ms(20)
            .until_file(enough);
        let talk = scope.spawn(move || ask(&world.shell("red/one"), &question));
        world.lab.kill_part("control", "controller", Signal::SIGKILL).unwrap();
        // Something to do for the next one.
        world.lab.apply(&pod("default", "after", "node3")).unwrap();
        world.wait_pod("default/after");
        world.shell("node1").run(&["touch", enough]).unwrap();
        talk.join().unwrap()
    });
    assert!(talk.len() > 10, "asked only {} times", talk.len());
    assert_eq!(failed(&talk), Vec::<&Attempt>::new());
    assert!(
        talk.iter()
            .all(|answer| (answer.namespace.as_str(), answer.pod.as_str()) == ("red", "two")),
        "{talk:?}"
    );
    let after = versions(world);
    let changed: Vec<&String> = before
        .iter()
        .filter(|(key, version)| after.get(*key) != Some(version))
        .map(|(key, _)| key)
        .collect();
    assert_eq!(changed, ["switch/node/node3"], "but for the new pod's switch nothing is written");
    others_are_unaffected(world, "after a restart");
}

fn a_pod_stays_where_it_was_born(world: &World) {
    world.kubectl(&["annotate", "namespace", "red", "--overwrite", "netloom.io/network=blue"]);
    for pod in ["one", "two"] {
        let said = world.told("red", pod, "NetworkNeedsNewPod");
        assert!(
            said.contains("it is on network red") && said.contains("now say network blue"),
            "{said}"
        );
    }
    others_are_unaffected(world, "when another network is named");
    world.lab.apply(&pod("red", "three", "node3")).unwrap();
    world.wait_pod("red/three");
    let network = [
        "ovn-nbctl",
        "get",
        "Logical_Switch_Port",
        "red/three",
        "external_ids:\"netloom.io/network\"",
    ];
    assert_eq!(world.lab.control().run(&network).unwrap().trim(), "blue");
    world.check(
        "a new pod is on the new network",
        &[
            ("red/three", "link blue/one", Itself),
            ("blue/one", "link red/three", Itself),
            ("red/three", "red/one", Itself),
        ],
    );
    world.kubectl(&["annotate", "namespace", "red", "--overwrite", "netloom.io/network=red"]);
    world.told("red", "three", "NetworkNeedsNewPod");
}

/// Nor does a mistake in it cut them off.
fn a_deleted_network_serves_the_pods_it_has(world: &World) {
    let mistake = r#"{"spec":{"subnets":["10.244.0.0/24"]}}"#;
    world.kubectl(&["patch", "network", "red", "--type=merge", "-p", mistake]);
    world.kubectl(&["wait", "network/red", "--for=condition=Ready=False", "--timeout=30s"]);
    world.sync();
    others_are_unaffected(world, "when their network is wrong");
    world.kubectl(&["delete", "network", "red"]);
    let deleted = "kubectl get events -n red --watch --no-headers -o custom-columns=MESSAGE:.message --field-selector involvedObject.name=one,reason=NetworkNeedsNewPod";
    let script = format!(
        "while read -t 30 line; do [[ $line == *'network red was deleted'* ]] && exit 0; done < <(exec timeout 30 {deleted}); exit 1"
    );
    world.lab.control().run(&["bash", "-c", &script]).unwrap();
    others_are_unaffected(world, "when their network is deleted");
    world.lab.apply(&pod("red", "four", "node1")).unwrap();
    waits(world, "red/four", "NetworkUnusable", "there is no Network red");
    world.lab.apply(&network("red", SUBNETS)).unwrap();
    world.wait_pod("red/four");
    world.check(
        "a network is back",
        &[("red/four", "link red/two", Itself), ("red/one", "link red/four", Itself)],
    );
    others_are_unaffected(world, "when a network is back");
}
