//! The chassis that are rows only. Each has a tunnel, and claims what its ovn-controller would: its pods' ports, its gateway, its routers' ports.

use std::collections::{BTreeMap, BTreeSet};

use netloom_ovsdb::{Datum, Operation, Replica, Row};
use uuid::Uuid;

use crate::cluster::{node_address, node_name};
use crate::watch::Watch;

/// What is monitored of the Southbound: claims, and flows to count.
pub const TABLES: &[(&str, &[&str])] = &[
    ("SB_Global", &["nb_cfg"]),
    ("Chassis", &["name"]),
    ("Chassis_Private", &["nb_cfg"]),
    (
        "Port_Binding",
        &["type", "chassis", "requested_chassis", "options", "ha_chassis_group"],
    ),
    ("HA_Chassis_Group", &["ha_chassis"]),
    ("HA_Chassis", &["chassis", "priority"]),
    ("Logical_Flow", &["pipeline"]),
];

/// Has as many chassis as there are nodes, the real one included, and lets each claim what is its own.
pub async fn keep(southbound: &Watch, nodes: usize) {
    let there: BTreeMap<String, Uuid> = southbound.read(names);
    let wanted: BTreeSet<String> = (1..nodes).map(node_name).collect();
    let mut operations = Vec::new();
    for (name, uuid) in &there {
        if !wanted.contains(name) && *name != node_name(0) {
            operations.push(Operation::delete("Chassis", *uuid));
        }
    }
    for number in (1..nodes).filter(|number| !there.contains_key(&node_name(*number))) {
        operations.extend(chassis(number));
    }
    if !operations.is_empty() {
        southbound.write(operations).await;
    }
    // Changes are seen by whoever has made them once they are written.
    let claims = southbound.read(claims);
    if !claims.is_empty() {
        southbound.write(claims).await;
    }
}

fn names(replica: &Replica) -> BTreeMap<String, Uuid> {
    let rows = replica.rows("Chassis");
    rows.filter_map(|(uuid, row)| Some((row.get("name")?.as_str()?.to_owned(), *uuid)))
        .collect()
}

/// A chassis as its ovn-controller would write it, without the row in which it counts what it has done: it does nothing.
fn chassis(number: usize) -> [Operation; 2] {
    let (chassis, encap) = (Uuid::new_v4(), Uuid::new_v4());
    let name = node_name(number);
    let text = |column: &str, value: &str| (column.to_owned(), Datum::string(value));
    let row = Row::from([
        text("type", "geneve"),
        text("ip", &node_address(number).to_string()),
        text("chassis_name", &name),
        ("options".to_owned(), Datum::map([("csum", "true")])),
    ]);
    let config = [
        ("is-interconn", "false"),
        ("datapath-type", "dummy"),
        ("ct-no-masked-label", "true"),
        ("mac-binding-timestamp", "true"),
    ];
    let columns = Row::from([
        text("name", &name),
        text("hostname", &name),
        ("encaps".to_owned(), Datum::uuid(encap)),
        ("other_config".to_owned(), Datum::map(config)),
    ]);
    [
        Operation::insert("Encap", encap, row),
        Operation::insert("Chassis", chassis, columns),
    ]
}

/// Port bindings of chassis that are rows and have not claimed them yet. Whoever had one before is not asked.
fn claims(replica: &Replica) -> Vec<Operation> {
    let chassis = names(replica);
    let real = chassis.get(&node_name(0)).copied();
    let bindings = replica.rows("Port_Binding");
    let owned =
        bindings.filter_map(|(uuid, row)| Some((*uuid, owner(replica, row, &chassis)?, row.get("chassis").and_then(Datum::as_uuid))));
    let of_others = owned.filter(|(_, owner, holder)| Some(*owner) != real && Some(*owner) != *holder);
    let claimed = of_others.map(|(uuid, owner, _)| {
        let columns = Row::from([("chassis".to_owned(), Datum::uuid(owner)), ("up".to_owned(), Datum::boolean(true))]);
        Operation::update("Port_Binding", uuid, columns)
    });
    claimed.collect()
}

/// The chassis that a port belongs to.
fn owner(replica: &Replica, binding: &Row, chassis: &BTreeMap<String, Uuid>) -> Option<Uuid> {
    match binding.get("type")?.as_str()? {
        "" => binding.get("requested_chassis")?.as_uuid(),
        "l3gateway" => chassis.get(binding.get("options")?.get("l3gateway-chassis")?).copied(),
        "chassisredirect" => {
            let group = replica.row("HA_Chassis_Group", &binding.get("ha_chassis_group")?.as_uuid()?)?;
            let candidates = group.get("ha_chassis")?.uuids().filter_map(|uuid| replica.row("HA_Chassis", &uuid));
            let first = candidates.max_by_key(|row| row.get("priority").and_then(Datum::as_integer));
            first?.get("chassis")?.as_uuid()
        }
        _ => None,
    }
}
