//! A linter of Northbounds we made: a list of named rules about what is never the user's fault. Tests call [`check`] on everything they
//! compile and on what a lab's database holds; a violation is a bug of ours.
//!
//! The last rules are about cost: rows that are right, but that OVN would multiply out on every node.

mod balancers;
mod costs;
mod expression;
mod matches;
mod names;
mod reading;
mod references;
mod routers;
mod segments;
#[cfg(test)]
mod tests;

use std::fmt;

pub use references::{HOLDERS, ROOTS};

use crate::check::reading::Reading;
use crate::northbound::Northbound;

/// What holds in every Northbound of ours.
pub struct Rule {
    /// Its name.
    pub name: &'static str,
    /// What it says.
    pub says: &'static str,
    find: fn(&Reading<'_>) -> Vec<Broken>,
}

/// Where a rule is broken: the row, and how.
type Broken = (String, String);

/// All rules.
pub const RULES: &[Rule] = &[
    rule("key", "every row carries the key that its UUID follows from", references::keys),
    rule("holder", "a row whose collection has members exists", references::holders),
    rule("reference", "a row that is referred to exists", references::references),
    rule(
        "root",
        "every row is held, in the end, by a row that the server keeps for its own sake",
        references::roots,
    ),
    rule("name", "names by which rows are found are unique", names::unique),
    rule("named", "ports, meters and chassis that are named exist", names::named),
    rule("attached", "a router's port is on exactly one switch", segments::attached),
    rule(
        "ethernet",
        "no two ports on a switch have the same Ethernet address",
        segments::ethernet,
    ),
    rule("address", "no two ports on a switch have the same IP address", segments::addresses),
    rule(
        "policy",
        "of a router's policies with one priority, no two say different things of one packet",
        routers::policies,
    ),
    rule("route", "a router has one route to a destination", routers::routes),
    rule("translation", "a router translates a source in one way", routers::translations),
    rule(
        "frontend",
        "on a switch or router, an address and port belongs to one load balancer",
        balancers::frontends,
    ),
    rule(
        "probe",
        "health checks are of addresses, and of ports, that exist",
        balancers::probes,
    ),
    rule("match", "every match is an expression that OVN can read", matches::readable),
    rule("operand", "every group, set and port that a match names exists", matches::operands),
    rule("set", "a set has addresses of the kind it is compared with", matches::sets),
    rule(
        "verdict",
        "ACLs of one port group with one match and priority do the same",
        matches::verdicts,
    ),
    rule(
        "negated",
        "no match has !=, of which OVN makes a flow for each bit, and of a set the product",
        costs::negated,
    ),
    rule(
        "multiplied",
        "no match has a disjunction over several fields next to another set: OVN makes the product",
        costs::multiplied,
    ),
];

const fn rule(name: &'static str, says: &'static str, find: fn(&Reading<'_>) -> Vec<Broken>) -> Rule {
    Rule { name, says, find }
}

/// A rule that is broken.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Violation {
    /// The rule's name.
    pub rule: &'static str,
    /// Table and key of the row that breaks it.
    pub row: String,
    /// How.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let says = RULES.iter().find(|rule| rule.name == self.rule).map_or("", |rule| rule.says);
        write!(f, "{}: {} (rule {}: {says})", self.row, self.what, self.rule)
    }
}

/// Every broken invariant, none if all is well.
pub fn check(northbound: &Northbound) -> Vec<Violation> {
    let reading = Reading::of(northbound);
    let of_rule = |rule: &'static Rule| {
        let broken = (rule.find)(&reading).into_iter();
        broken.map(|(row, what)| Violation {
            rule: rule.name,
            row,
            what,
        })
    };
    let mut violations: Vec<Violation> = RULES.iter().flat_map(of_rule).collect();
    violations.sort();
    violations
}
