//! A difference committed in several transactions: after each the database is whole, and no pod can do what it may not.

use std::collections::BTreeSet;
use std::net::IpAddr;

use netloom_network::annotations::ADDRESSES;
use netloom_network::northbound::{Member, RowId};
use netloom_network::{Namespace, Namespaced, NetworkPolicy, Node, Northbound, Object, Part, Planner, Pod, Scope, Unit, diff};
use netloom_ovsdb::Atom;
use serde_json::json;

use crate::database::Database;
use crate::run::same;

fn named(name: &str) -> Namespaced {
    Namespaced {
        namespace: "default".to_owned(),
        name: name.to_owned(),
    }
}

fn pod(name: &str, app: &str, address: Option<&str>) -> Object {
    let pod = Pod {
        uid: name.to_owned(),
        node: Some("node1".to_owned()),
        labels: [("app".to_owned(), app.to_owned())].into(),
        annotations: address
            .map(|address| (ADDRESSES.to_owned(), address.to_owned()))
            .into_iter()
            .collect(),
        ..Pod::default()
    };
    Object::Pod(named(name), pod)
}

/// A node and its pods, of which those of the app `web` can be reached by those of the app `client` only.
fn planner(pods: impl IntoIterator<Item = Object>) -> Planner {
    let node = Node {
        addresses: vec![IpAddr::from([172, 30, 0, 1])],
        ..Node::default()
    };
    let spec = json!({
        "podSelector": { "matchLabels": { "app": "web" } },
        "ingress": [{ "from": [{ "podSelector": { "matchLabels": { "app": "client" } } }] }],
    });
    let policy = NetworkPolicy {
        uid: String::new(),
        spec: serde_json::from_value(spec).unwrap(),
    };
    let mut planner = Planner::default();
    planner.apply(Object::Namespace(
        "default".to_owned(),
        Namespace::new("default", String::new(), [].into()),
    ));
    planner.apply(Object::Node("node1".to_owned(), node));
    planner.apply(Object::NetworkPolicy(named("web"), policy));
    for pod in pods {
        planner.apply(pod);
    }
    planner.compile();
    planner
}

#[test]
fn a_first_commit_is_many_transactions_of_bounded_size_in_which_pods_are_never_without_their_policies() {
    let planner = planner((0..200).map(|number| pod(&format!("web-{number}"), "web", None)));
    let sizes = in_batches(&planner, Database::default(), 50).unwrap();
    assert!(sizes.len() >= 4 && sizes.iter().all(|size| *size <= 50), "{sizes:?}");
    assert_eq!(in_batches(&planner, Database::of(planner.desired()), 50), Ok(vec![]));
}

#[test]
fn whoever_has_an_address_next_inherits_no_membership() {
    let address = Some("10.244.0.77");
    let database = Database::of(planner([pod("old", "client", address)]).desired());
    for limit in [1, 3] {
        in_batches(&planner([pod("new", "other", address)]), database.clone(), limit).unwrap();
    }
}

/// Writes what differs in transactions of few operations, looks into the database after each, and returns the number of operations of each.
pub fn in_batches(planner: &Planner, mut database: Database, limit: usize) -> Result<Vec<usize>, String> {
    let mut sizes = Vec::new();
    let before = database.observed().clone();
    for parts in planner.batches(database.observed(), limit) {
        let mut scope = Scope::default();
        parts.iter().for_each(|part| scope.extend(part.scope.clone()));
        let transaction = diff(database.observed(), planner.desired(), &scope);
        if parts.len() > 1 && transaction.len() > limit {
            return Err(format!("a batch of {} operations: {transaction}", transaction.len()));
        }
        sizes.push(transaction.len());
        database.apply(&transaction)?;
        database.whole()?;
        for part in &parts {
            closed(part, &before, database.observed(), planner.desired())?;
        }
    }
    same("the database after all batches", database.observed(), planner.desired())?;
    Ok(sizes)
}

/// A port that was just written is in all groups and sets it has to be in, and an address it did not have `before` is in none that its last
/// holder was in.
pub fn closed(part: &Part, before: &Northbound, observed: &Northbound, desired: &Northbound) -> Result<(), String> {
    let (Some(Unit::Port(_)), Scope::Some { rows, members }) = (&part.unit, &part.scope) else {
        return Ok(());
    };
    if let Some(missing) = members.iter().find(|member| !observed.has(member)) {
        return Err(format!("{:?} is written without its membership {missing:?}", part.unit));
    }
    let addresses = |northbound: &Northbound| -> BTreeSet<String> {
        let texts = rows
            .iter()
            .filter_map(|id| Some(northbound.row(id)?.get("addresses")?.as_str()?.to_owned()));
        texts
            .flat_map(|text| text.split(' ').map(str::to_owned).collect::<Vec<_>>())
            .collect()
    };
    for address in addresses(observed).difference(&addresses(before)) {
        let left = |(id, column, values): (&RowId, &'static str, &BTreeSet<Atom>)| {
            let member = Member {
                row: *id,
                column,
                value: address.as_str().into(),
            };
            (values.contains(&member.value) && !desired.has(&member)).then_some(member)
        };
        if let Some(left) = observed.collections().find_map(left) {
            return Err(format!("{:?} is written while another's {left:?} is there", part.unit));
        }
    }
    Ok(())
}
