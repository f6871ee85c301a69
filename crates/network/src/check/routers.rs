//! Routers: what they do with a packet is said once.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;
use netloom_ovsdb::{Row, Table as _};

use crate::check::Broken;
use crate::check::expression::Expression;
use crate::check::reading::{Reading, number, strings, text};
use crate::northbound::RowId;
use crate::rows::{LogicalRouter, LogicalRouterPolicy, LogicalRouterStaticRoute, Nat};

pub(super) fn policies(reading: &Reading<'_>) -> Vec<Broken> {
    let trees = reading.matches.iter().filter_map(|(id, read)| Some((*id, read.as_ref().ok()?)));
    let trees: BTreeMap<RowId, &Expression> = trees.collect();
    let mut broken = Vec::new();
    for (router, _) in reading.rows(LogicalRouter::TABLE) {
        let mut levels: BTreeMap<i64, Vec<(RowId, &Row)>> = BTreeMap::new();
        for (id, row) in reading.held(router, "policies", LogicalRouterPolicy::TABLE) {
            levels.entry(number(row, "priority")).or_default().push((id, row));
        }
        for policies in levels.values() {
            for (i, (id, row)) in policies.iter().enumerate() {
                let clash = |(other, found): &&(RowId, &Row)| {
                    let apart = || Some(trees.get(id)?.is_disjoint(trees.get(other)?));
                    says(row) != says(found) && apart() == Some(false)
                };
                if let Some((other, _)) = policies[..i].iter().find(clash) {
                    let why = format!("a packet may match it and {}, which says something else", reading.named(*other));
                    broken.push((reading.named(*id), why));
                }
            }
        }
    }
    broken
}

/// What a policy does with a packet.
fn says(row: &Row) -> (&str, Vec<&str>, &str) {
    (text(row, "action"), strings(row, "nexthops").collect(), text(row, "nexthop"))
}

pub(super) fn routes(reading: &Reading<'_>) -> Vec<Broken> {
    twice(reading, "static_routes", LogicalRouterStaticRoute::TABLE, |row| {
        let table = text(row, "route_table");
        let by = if text(row, "policy") == "src-ip" { "from" } else { "to" };
        format!("{by} {} {table}", prefix(text(row, "ip_prefix")))
    })
}

pub(super) fn translations(reading: &Reading<'_>) -> Vec<Broken> {
    twice(reading, "nat", Nat::TABLE, |row| {
        format!("{} {}", text(row, "type"), prefix(text(row, "logical_ip")))
    })
}

/// Rows of one router that are about the same.
fn twice(reading: &Reading<'_>, column: &'static str, table: &'static str, about: impl Fn(&Row) -> String) -> Vec<Broken> {
    let mut broken = Vec::new();
    for (router, _) in reading.rows(LogicalRouter::TABLE) {
        let mut first: BTreeMap<String, RowId> = BTreeMap::new();
        for (id, row) in reading.held(router, column, table) {
            if let Some(other) = first.insert(about(row), id) {
                let why = format!("it is about {} as {} is", about(row).trim(), reading.named(other));
                broken.push((reading.named(id), why));
            }
        }
    }
    broken
}

/// One text for one range: a single address is a range as well.
fn prefix(text: &str) -> String {
    let single = || text.parse::<IpAddr>().map(IpNet::from).ok();
    let range = text.parse::<IpNet>().ok().or_else(single);
    range.map_or_else(|| text.to_owned(), |range| range.trunc().to_string())
}
