//! External addresses: which service has which address of which `ExternalPool`. As with pods' addresses, deciding only reads and
//! [`Records`](crate::ipam::Records) notes what was decided; the durable record is the service's announcer row.
//!
//! Invariant: an address belongs to at most one service, and a service keeps a valid one.

mod range;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;

use ipnet::IpNet;
pub use range::Range;

use crate::annotations;
use crate::cluster::Cluster;
use crate::problem::Problem;
use crate::service::{ExternalPool, Family, Service, ServiceName};
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
    fn allows(&self, namespace: &str) -> bool {
        self.namespaces.is_empty() || self.namespaces.contains(namespace)
    }

    fn contains(&self, address: IpAddr) -> bool {
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

/// What a service gets, and why it does not get all it wants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// At most one address of each family, IPv4 first.
    pub addresses: Vec<IpAddr>,
    /// What the user has to mend.
    pub problems: Vec<Problem>,
}

/// Where the search for a free address goes on, while nothing is given back in between.
#[derive(Default)]
pub struct Search(HashMap<Range, IpAddr>);

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
pub fn pool_problem(cluster: &Cluster, name: &str) -> Option<Problem> {
    let problem = |why: String| Problem::new(cluster.pool_ref(name), "InvalidPool", why);
    if let Some(why) = cluster.pool_error(name) {
        return Some(problem(why.to_owned()));
    }
    let (range, taken) = cluster.read_pool(name)?.conflict(cluster.records.settings.as_ref()?)?;
    Some(problem(format!(
        "{range} overlaps {taken} of the cluster network, whose addresses are not given to services; give another range"
    )))
}

/// Decides a service's external addresses: the recorded ones, those it asks for, those its status shows, or the first free ones, if `search` is
/// given.
pub fn decide(cluster: &Cluster, name: &ServiceName, mut search: Option<&mut Search>) -> Decision {
    let mut decision = Decision::default();
    let Some(service) = cluster.services.get(name).filter(|service| wants(cluster, name, service)) else {
        return decision;
    };
    let problem = |reason, why: String| Problem::new(cluster.service_ref(name), reason, why);
    let asked = match asked(cluster, service) {
        Ok(asked) => asked,
        Err(why) => {
            decision.problems.push(problem("ExternalAddressRefused", why));
            return decision;
        }
    };
    for stray in asked.iter().filter(|ip| !service.families.contains(&Family::of(**ip))) {
        let why = format!("{stray} is of a family the service does not have; add it to spec.ipFamilies or ask for another");
        decision.problems.push(problem("ExternalAddressRefused", why));
    }
    let families: BTreeSet<Family> = service.families.iter().copied().collect();
    for family in families {
        match decide_family(cluster, name, service, family, &asked, search.as_deref_mut()) {
            Ok(address) => decision.addresses.push(address),
            Err((reason, why)) => decision.problems.push(problem(reason, why)),
        }
    }
    decision
}

/// The recorded addresses a service may keep.
pub fn kept(cluster: &Cluster, name: &ServiceName) -> Vec<IpAddr> {
    let Some(service) = cluster.services.get(name).filter(|service| wants(cluster, name, service)) else {
        return Vec::new();
    };
    let Ok(asked) = asked(cluster, service) else { return Vec::new() };
    let as_asked = |ip: &IpAddr| {
        asked
            .iter()
            .filter(|other| Family::of(**other) == Family::of(*ip))
            .all(|other| other == ip)
    };
    let may_keep = |ip: &&IpAddr| service.families.contains(&Family::of(**ip)) && as_asked(ip) && requested(cluster, name, **ip).is_ok();
    let recorded = cluster.records.external_of(name, &service.uid);
    recorded.iter().filter(may_keep).copied().collect()
}

/// Whether a service asks for certain addresses.
pub fn asks(cluster: &Cluster, service: &Service) -> bool {
    asked(cluster, service).is_ok_and(|asked| !asked.is_empty())
}

/// Whether a service may have external addresses at all.
fn wants(cluster: &Cluster, name: &ServiceName, service: &Service) -> bool {
    service.is_ours() && !service.cluster_ips.is_empty() && !cluster.is_closed(name)
}

fn decide_family(
    cluster: &Cluster,
    name: &ServiceName,
    service: &Service,
    family: Family,
    asked: &BTreeSet<IpAddr>,
    search: Option<&mut Search>,
) -> Result<IpAddr, (&'static str, String)> {
    let of_family = |ip: &&IpAddr| Family::of(**ip) == family;
    let mut wanted = asked.iter().filter(of_family);
    if let Some(address) = wanted.next() {
        if let Some(second) = wanted.next() {
            let why = format!("both {address} and {second} are asked for; a service has one address of each family");
            return Err(("ExternalAddressRefused", why));
        }
        return requested(cluster, name, *address).map_err(|why| ("ExternalAddressRefused", why));
    }
    let recorded = cluster.records.external_of(name, &service.uid).iter();
    let usable = |ip: &&IpAddr| requested(cluster, name, **ip).is_ok();
    let known = recorded.chain(&service.status_addresses).filter(of_family).find(usable);
    known
        .copied()
        .or_else(|| first_free(cluster, name, family, search?))
        .ok_or_else(|| ("NoExternalAddress", why_none(cluster, name, family)))
}

/// What a service asks for: by annotation, `spec.loadBalancerIP`, or those of `spec.externalIPs` that lie in a pool.
fn asked(cluster: &Cluster, service: &Service) -> Result<BTreeSet<IpAddr>, String> {
    let mut asked: BTreeSet<IpAddr> = annotations::external_addresses(&service.annotations)?.into_iter().collect();
    if let Some(text) = service.requested.as_deref().filter(|text| !text.is_empty()) {
        let wrong = |_| format!("spec.loadBalancerIP: \"{text}\" is not an IP address");
        asked.insert(text.parse().map_err(wrong)?);
    }
    let in_pool = |ip: &&IpAddr| cluster.usable_pools().any(|(_, pool)| pool.contains(**ip));
    asked.extend(service.external_ips.iter().filter(in_pool));
    Ok(asked)
}

fn requested(cluster: &Cluster, name: &ServiceName, address: IpAddr) -> Result<IpAddr, String> {
    let Some((pool, found)) = cluster.usable_pools().find(|(_, pool)| pool.contains(address)) else {
        return Err(format!(
            "{address} is in no ExternalPool; ask for one that is, or add a pool with it (kubectl get externalpools)"
        ));
    };
    if !found.allows(&name.namespace) {
        return Err(format!(
            "{address} is in ExternalPool/{pool}, which namespace {} may not use; add it to the pool's spec.namespaces or ask for another",
            name.namespace
        ));
    }
    match taken(cluster, name, address) {
        Some(by) => Err(format!("{address} is taken by {by}; ask for another")),
        None => Ok(address),
    }
}

/// Who has an address that is not this service's to have.
fn taken(cluster: &Cluster, name: &ServiceName, address: IpAddr) -> Option<String> {
    if let Some(owner) = cluster.records.external_owner(address).filter(|owner| *owner != name) {
        return Some(format!("Service/{owner}"));
    }
    let node = cluster.nodes.iter().find(|(_, node)| node.addresses.contains(&address));
    node.map(|(node, _)| format!("Node/{node}"))
}

fn first_free(cluster: &Cluster, name: &ServiceName, family: Family, search: &mut Search) -> Option<IpAddr> {
    let open = cluster
        .usable_pools()
        .filter(|(_, pool)| pool.auto_assign && pool.allows(&name.namespace));
    let ranges = open.flat_map(|(_, pool)| &pool.ranges).filter(|range| range.family() == family);
    let free = |address: &IpAddr| taken(cluster, name, *address).is_none() && cluster.claimants_of(*address).all(|other| other == name);
    for range in ranges {
        let start = search.0.get(range).copied().unwrap_or(range.first);
        let found = range.from(start).find(free);
        search.0.insert(*range, found.unwrap_or(range.last));
        if found.is_some() {
            return found;
        }
    }
    None
}

fn why_none(cluster: &Cluster, name: &ServiceName, family: Family) -> String {
    let of_family: Vec<(&String, &Pool)> = cluster
        .usable_pools()
        .filter(|(_, pool)| pool.ranges.iter().any(|range| range.family() == family))
        .collect();
    let allowed: Vec<&(&String, &Pool)> = of_family.iter().filter(|(_, pool)| pool.allows(&name.namespace)).collect();
    let named = |pools: &[&(&String, &Pool)]| pools.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ");
    if of_family.is_empty() {
        return format!("there is no ExternalPool with {family} addresses; create one");
    }
    if allowed.is_empty() {
        let namespace = &name.namespace;
        return format!(
            "namespace {namespace} may not use any ExternalPool with {family} addresses ({}); add it to spec.namespaces of one",
            named(&of_family.iter().collect::<Vec<_>>())
        );
    }
    let open: Vec<_> = allowed.iter().copied().filter(|(_, pool)| pool.auto_assign).collect();
    if open.is_empty() {
        return format!(
            "ExternalPools with {family} addresses ({}) give them only on request; ask for one with annotation {} or set spec.autoAssign",
            named(&allowed),
            annotations::EXTERNAL_ADDRESSES
        );
    }
    format!(
        "all {family} addresses of ExternalPool {} are taken; add ranges (the service gets an address as soon as one is free)",
        named(&open)
    )
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
