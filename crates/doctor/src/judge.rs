//! From facts to findings: pure functions, one check each, so that every judgement can be tested with a made-up world.
//! The order is that of cause and consequence: a reader fixes things from the top.

mod addressing;
mod cni;
mod database;
mod host;
mod installation;
mod leftovers;
mod mtu;
mod nodes;
mod ovn;
mod switch;
#[cfg(test)]
mod tests;
mod trust;

use crate::cluster::ClusterFacts;
use crate::finding::{Check, Finding};
use crate::node::NodeFacts;

/// All findings about a machine.
pub fn node(facts: &NodeFacts) -> Vec<Finding> {
    [
        host::judge(facts),
        trust::node(facts),
        switch::judge(facts),
        ovn::judge(facts),
        mtu::judge(facts),
        cni::judge(facts),
        leftovers::node(facts),
    ]
    .concat()
}

/// All findings about a cluster.
pub fn cluster(facts: &ClusterFacts) -> Vec<Finding> {
    let check = Check("kubernetes", "api-server");
    match &facts.version {
        Err(unseen) => vec![unseen.failed(
            check,
            "the API server",
            "see whether it runs and whether the address in your kubeconfig is right: kubectl cluster-info",
        )],
        Ok(_) => [
            installation::judge(facts),
            addressing::judge(facts),
            nodes::judge(facts),
            database::cluster(facts),
            trust::cluster(facts),
            leftovers::cluster(facts),
        ]
        .concat(),
    }
}

/// Whether a version, as `v1.35.8` or `3.5.0`, is at least this one; one that cannot be read is not.
fn at_least(version: &str, major: u32, minor: u32) -> bool {
    numbers(version).is_some_and(|found| found >= (major, minor))
}

/// Major and minor number of a version.
fn numbers(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.trim_start_matches('v').split(['.', '-', '+']);
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// The first few names of a list.
fn some<T: AsRef<str>>(names: &[T]) -> String {
    const SHOWN: usize = 5;
    let shown: Vec<&str> = names.iter().take(SHOWN).map(AsRef::as_ref).collect();
    match names.len().saturating_sub(SHOWN) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}
