//! A node next to the databases: northd, Open vSwitch and ovn-controller, each as its container runs it.

use std::os::unix::process::ExitStatusExt as _;

use netloom_ovsdb::{Client, Event, MonitorTable, Options, Replica};

use crate::world::{IN_CLUSTER, World, within};

/// Waits until a database shows something in a table.
async fn shows(mut options: Options, table: &str, found: impl Fn(&Replica) -> bool) -> Client {
    options.monitor = vec![MonitorTable::all(table)];
    let (client, mut events) = Client::start(options);
    within(table, async {
        while let Some(event) = events.recv().await {
            let changed = matches!(event, Event::Snapshot(_) | Event::Update(_));
            if changed && client.read(&found) == Some(true) {
                return;
            }
        }
    })
    .await;
    client
}

#[tokio::test]
async fn a_node_joins_and_a_restart_of_ovn_controller_does_not_remove_it() {
    let world = World::start().await;
    let databases = ["northbound", "southbound"].map(|database| world.member_of(database, 0, 1));
    let relay = world.relay(0);
    world.certify("node1").await;
    let has_settings = |replica: &Replica| {
        let mut rows = replica.rows("NB_Global");
        rows.any(|(_, row)| row.get("options").and_then(|options| options.get("bfd-min-rx")) == Some("100"))
    };
    shows(world.options(&world.remote(0), true), "NB_Global", has_settings).await;

    let run = ["--run-directory", "/mnt/node"];
    let mut switch_database = world.run(&[&["switch-database", "--file", "/mnt/node/conf.db"], &run[..]].concat());
    let local = format!("unix:{}", world.path("node/db.sock").display());
    let ovs = Options::new(local.parse().unwrap(), "Open_vSwitch");
    shows(ovs.clone(), "Open_vSwitch", |_| true).await;
    let mut switch = world.run_apart(&[&["switch", "--datapath", "userspace"], &run[..]].concat());
    let southbound = world.remote(0).replace("6641", "6642");
    let remote = format!("external_ids:ovn-remote={southbound}");
    let set = [
        "--no-wait",
        "init",
        "--",
        "set",
        "Open_vSwitch",
        ".",
        "external_ids:system-id=node1",
        &remote,
    ];
    let how = [
        "external_ids:ovn-encap-type=geneve",
        "external_ids:ovn-encap-ip=127.0.0.1",
        "external_ids:ovn-bridge-datapath-type=netdev",
    ];
    world
        .tool(&[&["ovs-vsctl", "--db=unix:/mnt/node/db.sock"], &set[..], &how[..]].concat())
        .await;

    let controller = ["ovn-controller", "--ovs", "unix:/mnt/node/db.sock", "--tls", "/mnt/node1"];
    let mut ovn_controller = world.run(&[&controller[..], &run[..]].concat());
    // Whoever is first waits for the other: what a node may write, northd writes.
    let northd = world.run(&[&["northd", "--tls", "/mnt/ovn", "--run-directory", "/mnt/0/run"], &IN_CLUSTER[..]].concat());
    let mut options = world.options(&world.remote(0).replace("6641", "6645"), true);
    options.database = "OVN_Southbound".to_owned();
    let joined = |replica: &Replica| replica.rows("Chassis").count() == 1;
    let client = shows(options, "Chassis", joined).await;
    let bridge = |replica: &Replica| replica.rows("Bridge").count() == 1;
    shows(ovs, "Bridge", bridge).await;

    // What a user sees who looks from inside a pod.
    world.install_definitions().await;
    let shown = [
        "/opt/netloom",
        "show",
        "services",
        "--kubeconfig",
        "/mnt/kubeconfig",
        "--tls",
        "/mnt/controller",
    ];
    let shown = world
        .tool(&[&shown[..], &["--databases", "netloom-system/netloom-ovn"]].concat())
        .await;
    assert!(shown.contains("netloom-ovn"), "{shown}");

    assert_eq!(ovn_controller.end().await.signal(), Some(15), "{}", ovn_controller.text());
    within("an answer", client.transact(netloom_ovsdb::Operation::Comment("after".to_owned())))
        .await
        .unwrap();
    assert_eq!(client.read(joined), Some(true), "the node is still a chassis");
    for part in [&mut switch, &mut switch_database] {
        part.end().await;
    }
    northd.stop().await;
    let mut relay = relay;
    relay.end().await;
    for database in databases {
        database.stop().await;
    }
}
