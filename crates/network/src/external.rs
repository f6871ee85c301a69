//! Pools of external addresses: what an `ExternalPool` says, read into ranges without anything left to interpret. Which service has which
//! of them is decided in [`crate::decide`].

mod range;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;
pub use range::Range;

use crate::cluster::View;
use crate::problem::Problem;
use crate::service::ExternalPool;
use crate::settings::Settings;

/// A pool that can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// Its addresses, in the order they are given.
    pub ranges: Vec<Range>,
    /// Namespaces whose services may have them; all if empty.
    pub namespaces: BTreeSet<String>,
    /// Whether a service that asks for no address may get one.
    pub auto_assign: bool,
}

impl Pool {
    pub(crate) fn allows(&self, namespace: &str) -> bool {
        self.namespaces.is_empty() || self.namespaces.contains(namespace)
    }

    pub(crate) fn contains(&self, address: IpAddr) -> bool {
        self.ranges.iter().any(|range| range.contains(address))
    }

    /// A range of it that the cluster network uses for itself.
    pub(crate) fn conflict(&self, settings: &Settings) -> Option<(Range, IpNet)> {
        let mut own = settings.ranges().chain(settings.services.cidrs.iter().copied());
        own.find_map(|own| {
            let range = self.ranges.iter().find(|range| range.overlaps(&Range::of(own)))?;
            Some((*range, own))
        })
    }
}

/// Reads all pools. Of two that overlap, the one with the later name cannot be used.
pub fn pools(written: &BTreeMap<String, ExternalPool>) -> BTreeMap<String, Result<Pool, String>> {
    let mut read: BTreeMap<String, Result<Pool, String>> = BTreeMap::new();
    for (name, pool) in written {
        let result = pool_of(pool).and_then(|pool| match overlap(&pool, &read) {
            None => Ok(pool),
            Some((range, other)) => Err(format!("{range} overlaps ExternalPool/{other}; give ranges that share no address")),
        });
        read.insert(name.clone(), result);
    }
    read
}

/// What is wrong with a pool.
pub(crate) fn pool_problem(view: &View<'_>, name: &str) -> Option<Problem> {
    let problem = |why: String| Problem::new(view.pool_ref(name), "InvalidPool", why);
    let pool = match view.pool(name)? {
        Ok(pool) => pool,
        Err(why) => return Some(problem(why.clone())),
    };
    let (range, taken) = pool.conflict(view.settings()?)?;
    Some(problem(format!(
        "{range} overlaps {taken} of the cluster network, whose addresses are not given to services; give another range"
    )))
}

fn pool_of(pool: &ExternalPool) -> Result<Pool, String> {
    let cidrs = pool.spec.cidrs.iter().map(|text| Range::of_cidr(text));
    let ranges = pool.spec.ranges.iter().map(|text| text.parse());
    let ranges = cidrs.chain(ranges).collect::<Result<Vec<Range>, String>>()?;
    if ranges.is_empty() {
        return Err("spec has neither cidrs nor ranges; give it addresses, for example cidrs: [192.0.2.0/28]".to_owned());
    }
    for (i, a) in ranges.iter().enumerate() {
        if let Some(b) = ranges[i + 1..].iter().find(|b| a.overlaps(b)) {
            return Err(format!("{a} and {b} overlap; give ranges that share no address"));
        }
    }
    Ok(Pool {
        ranges,
        namespaces: pool.spec.namespaces.iter().cloned().collect(),
        auto_assign: pool.spec.auto_assign,
    })
}

fn overlap(pool: &Pool, others: &BTreeMap<String, Result<Pool, String>>) -> Option<(Range, String)> {
    let readable = others.iter().filter_map(|(name, other)| Some((name, other.as_ref().ok()?)));
    let mut pairs = readable.flat_map(|(name, other)| other.ranges.iter().map(move |range| (name, range)));
    pairs.find_map(|(name, theirs)| {
        let ours = pool.ranges.iter().find(|ours| ours.overlaps(theirs))?;
        Some((*ours, name.clone()))
    })
}
