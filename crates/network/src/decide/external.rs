//! A service's external addresses: those it asks for, the recorded ones, those its status shows, or the first free ones of its pools. It
//! keeps a valid one, and gives back what it may no longer have. Whoever has one has all its ports: an address that nobody gave it, or that no
//! pool allows its namespace, is none of a service's business, whatever its `spec.externalIPs` say.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use crate::annotations;
use crate::cluster::View;
use crate::decide::allocator::Allocator;
use crate::decide::{Choice, Outcome, Rank};
use crate::external::Pool;
use crate::ipam::{External, Holder, Mac, Segment, Space};
use crate::problem::Problem;
use crate::service::{Family, Service, ServiceName};

/// Most addresses of `spec.externalIPs` of a service: each is one more for every port on every node.
const MOST_LISTED: usize = 16;

pub(super) fn decide(view: &View<'_>, name: &ServiceName) -> Outcome {
    let Some(service) = view.service(name) else {
        return Outcome::of(Choice::External(None));
    };
    if may_have(view, name, service) && !view.has_namespace(&name.namespace) {
        // Whether it may have any, its namespace has to say.
        return Outcome::of(Choice::External(view.external(name, &service.uid).cloned()));
    }
    let it = Request {
        view,
        name,
        service,
        holder: Holder::Service(Arc::new(name.clone())),
    };
    let (addresses, refusals) = it.addresses();
    Outcome {
        choice: Choice::External(it.record(addresses)),
        refusals,
    }
}

pub(super) fn rank(view: &View<'_>, name: &ServiceName) -> Rank {
    let Some(service) = view.service(name).filter(|service| may_have(view, name, service)) else {
        return Rank::Release;
    };
    Rank::External {
        unknown: of_load_balancer(service, &service.status_addresses).is_empty() || view.external(name, &service.uid).is_some(),
        undemanding: service.external_ips.is_empty() && asked(service).is_ok_and(|asked| asked.is_empty()),
        created: service.created.clone(),
    }
}

/// Whether a service may have external addresses of ours at all.
fn may_have(view: &View<'_>, name: &ServiceName, service: &Service) -> bool {
    let wants = service.is_ours() || !service.external_ips.is_empty();
    wants && !service.cluster_ips.is_empty() && !view.is_closed(name)
}

/// What a load balancer asks for: by annotation or `spec.loadBalancerIP`.
fn asked(service: &Service) -> Result<BTreeSet<IpAddr>, String> {
    let mut asked: BTreeSet<IpAddr> = annotations::external_addresses(&service.annotations)?.into_iter().collect();
    if let Some(text) = service.requested.as_deref().filter(|text| !text.is_empty()) {
        let wrong = |_| format!("spec.loadBalancerIP: \"{text}\" is not an IP address");
        asked.insert(text.parse().map_err(wrong)?);
    }
    Ok(asked)
}

/// Of the recorded addresses of a service those of the load balancer, which its status shows; the others are its `spec.externalIPs`.
pub(crate) fn of_load_balancer(service: &Service, recorded: &[IpAddr]) -> Vec<IpAddr> {
    let asked = asked(service).unwrap_or_default();
    let of_it = |ip: &&IpAddr| service.is_ours() && (!service.external_ips.contains(ip) || asked.contains(ip));
    recorded.iter().filter(of_it).copied().collect()
}

/// Why an address is not given: a reason and a sentence.
type Refusal = (&'static str, String);

/// A service, and what it wants.
struct Request<'v> {
    view: &'v View<'v>,
    name: &'v ServiceName,
    service: &'v Service,
    holder: Holder,
}

impl Request<'_> {
    /// What the service may have, and what the user has to change to get all that is wanted.
    fn addresses(&self) -> (Vec<IpAddr>, Vec<Problem>) {
        let Self { view, name, service, .. } = self;
        if !may_have(view, name, service) {
            return (Vec::new(), Vec::new());
        }
        let shown = self.shown();
        if !shown.is_empty() {
            return (shown, Vec::new());
        }
        let (mut addresses, mut refusals) = if service.is_ours() {
            self.of_load_balancer()
        } else {
            (Vec::new(), Vec::new())
        };
        if let Some(more) = service.external_ips.get(MOST_LISTED) {
            let why = format!("a service has at most {MOST_LISTED} of spec.externalIPs; {more} and those after it are not served");
            refusals.push(("ExternalAddressRefused", why));
        }
        for listed in service.external_ips.iter().take(MOST_LISTED) {
            match self.of_its_families(*listed).and_then(|()| self.check(*listed)) {
                Ok(()) if addresses.contains(listed) => {}
                Ok(()) => addresses.push(*listed),
                Err(why) => refusals.push(("ExternalAddressRefused", why)),
            }
        }
        let problem = |(reason, why)| Problem::new(view.service_ref(name), reason, why);
        (addresses, refusals.into_iter().map(problem).collect())
    }

    /// At most one address of each family, IPv4 first, and why it is not one of each.
    fn of_load_balancer(&self) -> (Vec<IpAddr>, Vec<Refusal>) {
        let asked = match asked(self.service) {
            Ok(asked) => asked,
            Err(why) => return (Vec::new(), vec![("ExternalAddressRefused", why)]),
        };
        let strays = asked.iter().filter_map(|ip| self.of_its_families(*ip).err());
        let (mut addresses, mut refusals) = (Vec::new(), strays.map(|why| ("ExternalAddressRefused", why)).collect::<Vec<_>>());
        for family in self.service.families.iter().copied().collect::<BTreeSet<Family>>() {
            match self.of_family(family, &asked) {
                Ok(address) => addresses.push(address),
                Err(refusal) => refusals.push(refusal),
            }
        }
        (addresses, refusals)
    }

    /// Where the records were lost, everybody first has again what its status shows, and only then is anything given that is new.
    fn shown(&self) -> Vec<IpAddr> {
        let Self { view, name, service, .. } = self;
        if view.external(name, &service.uid).is_some() || asked(service).is_err() {
            return Vec::new();
        }
        let families: BTreeSet<Family> = service.families.iter().copied().collect();
        let status = of_load_balancer(service, &service.status_addresses);
        let of = |family: &Family| {
            let mut shown = status.iter().copied().filter(|ip| Family::of(*ip) == *family);
            shown.find(|ip| self.check(*ip).is_ok())
        };
        families.iter().filter_map(of).collect()
    }

    fn of_family(&self, family: Family, asked: &BTreeSet<IpAddr>) -> Result<IpAddr, Refusal> {
        let of_family = |ip: &&IpAddr| Family::of(**ip) == family;
        let mut wanted = asked.iter().filter(of_family);
        if let Some(address) = wanted.next() {
            if let Some(second) = wanted.next() {
                let why = format!("both {address} and {second} are asked for; a service has one address of each family");
                return Err(("ExternalAddressRefused", why));
            }
            let checked = self.check(*address).map(|()| *address);
            return checked.map_err(|why| ("ExternalAddressRefused", why));
        }
        let recorded = self.view.external_addresses(self.name, &self.service.uid).iter();
        let mut known = recorded.filter(of_family).filter(|ip| !self.service.external_ips.contains(ip));
        let known = known.find(|ip| self.check(**ip).is_ok());
        known
            .copied()
            .or_else(|| self.first_free(family))
            .ok_or_else(|| ("NoExternalAddress", self.why_none(family)))
    }

    fn of_its_families(&self, address: IpAddr) -> Result<(), String> {
        if self.service.families.contains(&Family::of(address)) {
            return Ok(());
        }
        Err(format!(
            "{address} is of a family the service does not have; add it to spec.ipFamilies or ask for another"
        ))
    }

    /// Whether the service may have an address; if not, why.
    fn check(&self, address: IpAddr) -> Result<(), String> {
        // A mistake in a pool takes no address away: others may wait for it.
        if !(self.had(address) && self.view.has_unusable_pools()) {
            self.is_in_pool(address)?;
        }
        let taken = |by: String| Err(format!("{address} is taken by {by}; ask for another"));
        if let Some(holder) = self.view.holder(Space::External, address).filter(|holder| **holder != self.holder) {
            return taken(holder.to_string());
        }
        match self.view.node_at(address) {
            Some(node) => taken(format!("Node/{node}")),
            None => Ok(()),
        }
    }

    /// Whether the address was the service's: by the record or, where that was lost, by its status.
    fn had(&self, address: IpAddr) -> bool {
        match self.view.external(self.name, &self.service.uid) {
            Some(recorded) => recorded.addresses.contains(&address),
            None => of_load_balancer(self.service, &self.service.status_addresses).contains(&address),
        }
    }

    fn is_in_pool(&self, address: IpAddr) -> Result<(), String> {
        let Some((pool, found)) = self.view.usable_pools().find(|(_, pool)| pool.contains(address)) else {
            return Err(format!(
                "{address} is in no ExternalPool; ask for one that is, or add a pool with it (kubectl get externalpools)"
            ));
        };
        if !found.allows(&self.name.namespace) {
            return Err(format!(
                "{address} is in ExternalPool/{pool}, which namespace {} may not use; add it to the pool's spec.namespaces or ask for another",
                self.name.namespace
            ));
        }
        Ok(())
    }

    fn first_free(&self, family: Family) -> Option<IpAddr> {
        let open = self.pools().filter(|(_, pool)| pool.auto_assign);
        let mut ranges = open
            .flat_map(|(_, pool)| &pool.ranges)
            .filter(|range| range.family() == family)
            .peekable();
        ranges.peek()?;
        let (nodes, holders) = (self.view.node_addresses(), self.view.all_holders());
        let reserved = |address: IpAddr| nodes.contains_key(&address) || self.service.external_ips.contains(&address);
        ranges.find_map(|range| {
            let allocator = Allocator {
                space: Space::External,
                range: *range,
                start: range.first,
                reserved: &reserved,
            };
            allocator.next_free(holders)
        })
    }

    /// Pools the service may have addresses of.
    fn pools(&self) -> impl Iterator<Item = (&String, &Pool)> {
        self.view.usable_pools().filter(|(_, pool)| pool.allows(&self.name.namespace))
    }

    fn why_none(&self, family: Family) -> String {
        let has_family = |pool: &Pool| pool.ranges.iter().any(|range| range.family() == family);
        let of_family = || self.view.usable_pools().filter(|(_, pool)| has_family(pool));
        let allowed = || self.pools().filter(|(_, pool)| has_family(pool));
        let open = || allowed().filter(|(_, pool)| pool.auto_assign);
        let named = |pools: Vec<(&String, &Pool)>| pools.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ");
        if of_family().next().is_none() {
            return format!("there is no ExternalPool with {family} addresses; create one");
        }
        if allowed().next().is_none() {
            let namespace = &self.name.namespace;
            return format!(
                "namespace {namespace} may not use any ExternalPool with {family} addresses ({}); add it to spec.namespaces of one",
                named(of_family().collect())
            );
        }
        if open().next().is_none() {
            return format!(
                "ExternalPools with {family} addresses ({}) give them only on request; ask for one with annotation {} or set spec.autoAssign",
                named(allowed().collect()),
                annotations::EXTERNAL_ADDRESSES
            );
        }
        format!(
            "all {family} addresses of ExternalPool {} are taken; add ranges (the service gets an address as soon as one is free)",
            named(open().collect())
        )
    }

    /// What is recorded for these addresses. That a service had some is remembered as long as its status shows any, which has to change.
    fn record(&self, addresses: Vec<IpAddr>) -> Option<External> {
        let recorded = self.view.external(self.name, &self.service.uid);
        let uid = self.service.uid.clone();
        let Some(first) = addresses.first() else {
            let shows = recorded.filter(|_| !self.service.status_addresses.is_empty());
            return shows.map(|recorded| External {
                uid,
                addresses,
                mac: recorded.mac,
            });
        };
        let free = |mac: &Mac| {
            let holder = self.view.mac_holder(&Segment::Announce, *mac);
            holder.is_none_or(|holder| *holder == self.holder)
        };
        let recorded = recorded
            .filter(|recorded| recorded.addresses.first() == Some(first))
            .map(|recorded| recorded.mac);
        let mac = recorded.or_else(|| Mac::announcers(*first).find(free))?;
        Some(External { uid, addresses, mac })
    }
}
