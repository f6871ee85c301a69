//! Load balancers of a service. Those that are the same everywhere are in the group that all switches, or all gateways, have. Those whose
//! backends depend on the node have a row for each audience: a node or a zone with endpoints of its own, and all the others.

use netloom_contract::balancer::{
    HEALTH_CHECK_PORT, KEEPS_SOURCE, LOCAL, Local, NODE, NODE_ADDRESSES, OF_GATEWAYS, READY_ENDPOINTS, SERVICE,
};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use crate::annotations::HealthCheck;
use crate::cluster::{Feature, NodeName, View};
use crate::ipam::MANAGEMENT_HOST;
use crate::key::Key;
use crate::northbound::{Placed, group_key, ids, put};
use crate::problem::{ObjectRef, Problem};
use crate::rows::{LoadBalancer, LoadBalancerGroup, LogicalRouter, LogicalSwitch};
use crate::service::{Protocol, Service, ServiceKind, ServiceName};
use crate::settings::{is_ipv4, nth_host};
use crate::unit::service::backends::Backend;
use crate::unit::service::frontends::{Frontend, Reach};
use crate::unit::service::health;
use crate::unit::{Fragment, GATEWAYS_GROUP, NETWORKS_GROUP, SERVICES_GROUP, commas, gateway, node};

/// Most backends of one address and port: `ovs-vswitchd` cannot describe larger groups to its clients.
pub(crate) const MOST_BACKENDS: usize = 500;
/// Most backends of all addresses and ports of a service: every node carries each of them in memory, twice.
const MOST_IN_ALL: usize = 30_000;

/// Where a load balancer works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Site {
    /// On nodes' switches, for pods and for the node itself.
    Switch,
    /// On gateways, for clients outside.
    Gateway,
}

/// Nodes that are given the same backends.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Audience {
    Everywhere,
    /// Everywhere too, for what has no endpoint. A gateway gives what it forwards its own address as source, and would do so with a
    /// refusal, which the client then would not know as one; so these are apart and keep theirs.
    Refused,
    Node(NodeName),
    Zone(String),
    Elsewhere,
    /// On networks that users define, which nodes share: all backends.
    Networks,
}

/// What the load balancers of a service have in common.
pub(super) struct Balancers<'a> {
    pub(super) view: &'a View<'a>,
    pub(super) name: &'a ServiceName,
    pub(super) service: &'a Service,
    pub(super) owner: ObjectRef,
    pub(super) health: Option<HealthCheck>,
    /// Most endpoints any address and port would have.
    pub(super) most: usize,
    /// Most that each is given.
    pub(super) limit: usize,
    /// Whether some endpoint is in a host's network; asked only where nodes serve each for itself.
    pub(super) hosts: bool,
}

impl Balancers<'_> {
    /// All rows of the service.
    pub(super) fn compile(&mut self, frontends: &[Frontend<'_>], fragment: &mut Fragment) {
        let mut all = frontends.iter().flat_map(|frontend| frontend.endpoints.all());
        self.hosts = self.service.external_local && all.any(|backend| self.is_in_host(backend));
        self.limit = MOST_BACKENDS.min(MOST_IN_ALL / frontends.len().max(1)).max(1);
        for protocol in Protocol::ALL {
            let of_protocol: Vec<&Frontend<'_>> = frontends.iter().filter(|f| f.protocol == protocol).collect();
            self.compile_site(Site::Switch, protocol, &of_protocol, fragment);
            let external: Vec<&Frontend<'_>> = of_protocol.into_iter().filter(|f| f.reach == Reach::Everywhere).collect();
            self.compile_site(Site::Gateway, protocol, &external, fragment);
        }
        if self.most > self.limit {
            // Without how many: with each that comes and goes it would be said again.
            let why = format!(
                "it has more endpoints than the {} that each of its ports is served with; the others get no traffic; spread them over several services",
                self.limit
            );
            fragment.problems.push(Problem::new(self.owner.clone(), "TooManyEndpoints", why));
        }
    }

    fn compile_site(&mut self, site: Site, protocol: Protocol, frontends: &[&Frontend<'_>], fragment: &mut Fragment) {
        let depends = |f: &&&Frontend<'_>| self.is_local(site, f) || (f.endpoints.has_hints() && !matches!(f.reach, Reach::Node(_)));
        let (dependent, same): (Vec<&Frontend<'_>>, Vec<&Frontend<'_>>) = frontends.iter().partition(depends);
        let refused = |f: &&Frontend<'_>| site == Site::Gateway && f.endpoints.is_empty();
        let (refused, served): (Vec<&Frontend<'_>>, Vec<&Frontend<'_>>) = same.into_iter().partition(refused);
        for (audience, same) in [(Audience::Everywhere, served), (Audience::Refused, refused)] {
            if !same.is_empty() {
                let group = if site == Site::Switch { SERVICES_GROUP } else { GATEWAYS_GROUP };
                self.compile_row(site, protocol, &audience, &same, fragment)
                    .add_to::<LoadBalancerGroup>(fragment, &group_key(group), "load_balancer");
            }
        }
        if dependent.is_empty() {
            return;
        }
        if site == Site::Switch && self.view.uses(Feature::Networks) {
            self.compile_row(site, protocol, &Audience::Networks, &dependent, fragment)
                .add_to::<LoadBalancerGroup>(fragment, &group_key(NETWORKS_GROUP), "load_balancer");
        }
        let mut audiences: BTreeMap<Audience, Vec<&NodeName>> = BTreeMap::new();
        for node in self.view.slotted_nodes().filter(|node| self.is_at(site, node)) {
            audiences.entry(self.audience_of(site, node, &dependent)).or_default().push(node);
        }
        for (audience, nodes) in audiences {
            let row = self.compile_row(site, protocol, &audience, &dependent, fragment);
            for name in nodes {
                match site {
                    Site::Switch => row.add_to::<LogicalSwitch>(fragment, &node::switch(name), "load_balancer"),
                    Site::Gateway => row.add_to::<LogicalRouter>(fragment, &gateway::router(name), "load_balancer"),
                }
            }
        }
    }

    /// One row: what an audience is given.
    fn compile_row(
        &mut self,
        site: Site,
        protocol: Protocol,
        audience: &Audience,
        frontends: &[&Frontend<'_>],
        fragment: &mut Fragment,
    ) -> Placed {
        let (path, suffix) = suffixes(site, audience);
        let key = Key::new(format!("service/{}/{protocol}{path}", self.name));
        let mut row = LoadBalancer {
            name: format!("service_{}_{}_{protocol}{suffix}", self.name.namespace, self.name.name),
            protocol: Some(protocol.as_str().to_owned()),
            external_ids: ids(&key, &self.owner),
            ..Default::default()
        };
        let (mut starved, mut used, mut ready, mut checked) = (false, BTreeSet::new(), 0, Vec::new());
        for frontend in frontends {
            let mut backends = self.backends(site, audience, frontend);
            self.most = self.most.max(backends.len());
            backends.truncate(self.limit);
            starved |= backends.is_empty() && self.is_local(site, frontend) && !frontend.endpoints.is_empty();
            let texts: Vec<String> = backends.iter().map(|backend| self.target(site, backend).to_string()).collect();
            row.vips.insert(frontend.at.to_string(), texts.join(","));
            if self.health.is_some() && health::can_check(protocol) {
                let mappings = health::mappings(self.view, &backends);
                if !mappings.is_empty() {
                    checked.push(frontend.at);
                }
                row.ip_port_mappings.extend(mappings);
            }
            used.extend(backends.iter().map(|backend| backend.at.ip()));
            ready = ready.max(backends.iter().filter(|backend| backend.endpoint.ready).count());
        }
        if self.service.affinity {
            row.selection_fields = ["ip_src".to_owned(), "ipv6_src".to_owned()].into();
        }
        let is_node = |name: &str| {
            self.view
                .host(name)
                .is_some_and(|node| node.addresses.iter().any(|ip| used.contains(ip)))
        };
        let keeps_source = match audience {
            Audience::Refused => true,
            // The answer of the node itself would miss the gateway.
            Audience::Node(name) if is_node(name) => false,
            _ => self.service.external_local,
        };
        row.options = options(site, protocol, starved, keeps_source);
        if site == Site::Gateway {
            row.options.extend(self.for_agents(audience, ready));
        }
        let placed = put(fragment, &key, row);
        if let Some(check) = self.health {
            for at in checked {
                health::compile(self.name, protocol, at, check, &self.owner, fragment).add_to::<LoadBalancer>(
                    fragment,
                    &key,
                    "health_check",
                );
            }
        }
        placed
    }

    /// What agents have to know of the service.
    fn for_agents(&self, audience: &Audience, ready: usize) -> BTreeMap<String, String> {
        let mut options = BTreeMap::from([(SERVICE.to_owned(), self.name.to_string())]);
        if let Audience::Node(name) = audience {
            options.insert(NODE.to_owned(), name.clone());
        }
        if !self.service.external_local {
            return options;
        }
        let local = if self.hosts { Local::Hosts } else { Local::Pods };
        options.insert(LOCAL.to_owned(), local.as_str().to_owned());
        if let Audience::Node(name) = audience {
            let addresses = self.view.host(name).into_iter().flat_map(|node| &node.addresses);
            options.insert(NODE_ADDRESSES.to_owned(), commas(addresses));
        }
        let port = self.service.health_check_port;
        if let Some(port) = port.filter(|_| self.service.kind == ServiceKind::LoadBalancer) {
            options.insert(HEALTH_CHECK_PORT.to_owned(), port.to_string());
            options.insert(READY_ENDPOINTS.to_owned(), ready.to_string());
        }
        options
    }

    fn backends<'b>(&self, site: Site, audience: &Audience, frontend: &Frontend<'b>) -> Vec<Backend<'b>> {
        if let Reach::Node(name) = frontend.reach {
            return frontend.endpoints.local(name);
        }
        let (node, zone) = match audience {
            Audience::Everywhere | Audience::Refused | Audience::Elsewhere | Audience::Networks => (None, None),
            Audience::Zone(zone) => (None, Some(zone.as_str())),
            Audience::Node(node) => (Some(node.as_str()), self.zone(node)),
        };
        if self.is_local(site, frontend) && *audience != Audience::Networks {
            return node.map(|node| frontend.endpoints.local(node)).unwrap_or_default();
        }
        frontend.endpoints.hinted(node, zone)
    }

    /// Where a backend is found. A gateway has its node's own address and drops what comes from it, so it finds a backend in the host's
    /// network at the node's management port.
    fn target(&self, site: Site, backend: &Backend<'_>) -> SocketAddr {
        let at = backend.at;
        let management = || {
            let own = site == Site::Gateway && self.is_in_host(backend);
            let name = backend.endpoint.node.as_ref().filter(|_| own)?;
            let subnets = self.view.subnets(name);
            let subnet = subnets.iter().find(|subnet| is_ipv4(subnet) == at.is_ipv4())?;
            Some(SocketAddr::new(nth_host(subnet, MANAGEMENT_HOST)?.addr(), at.port()))
        };
        management().unwrap_or(at)
    }

    fn is_in_host(&self, backend: &Backend<'_>) -> bool {
        let node = backend.endpoint.node.as_ref().and_then(|name| self.view.host(name));
        node.is_some_and(|node| node.addresses.contains(&backend.at.ip()))
    }

    fn audience_of(&self, site: Site, node: &NodeName, frontends: &[&Frontend<'_>]) -> Audience {
        let own = |f: &&Frontend<'_>| {
            if self.is_local(site, f) {
                f.endpoints.nodes().any(|name| name == node)
            } else {
                f.endpoints.prefers_node(node)
            }
        };
        if frontends.iter().any(own) {
            return Audience::Node(node.clone());
        }
        let zonal = |zone: &&str| frontends.iter().any(|f| !self.is_local(site, f) && f.endpoints.prefers_zone(zone));
        self.zone(node)
            .filter(zonal)
            .map_or(Audience::Elsewhere, |zone| Audience::Zone(zone.to_owned()))
    }

    fn is_local(&self, site: Site, frontend: &Frontend<'_>) -> bool {
        match site {
            Site::Switch => self.service.internal_local && frontend.reach == Reach::Inside,
            Site::Gateway => self.service.external_local,
        }
    }

    fn is_at(&self, site: Site, node: &str) -> bool {
        site == Site::Switch || self.view.gateway(node).is_some()
    }

    fn zone(&self, node: &str) -> Option<&str> {
        self.view.host(node)?.zone.as_deref()
    }
}

/// `starved`: a client is to wait rather than be refused, because another node has endpoints.
fn options(site: Site, protocol: Protocol, starved: bool, keeps_source: bool) -> BTreeMap<String, String> {
    let gateway = site == Site::Gateway;
    let options = [
        (!starved).then_some(("reject", "true")),
        // A flow to a backend that is gone must not outlive it; connections of the other protocols end by themselves.
        (protocol == Protocol::Udp).then_some(("ct_flush", "true")),
        gateway.then_some(OF_GATEWAYS),
        (gateway && keeps_source).then_some((KEEPS_SOURCE, "true")),
    ];
    let text = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
    options.into_iter().flatten().map(text).collect()
}

/// What an audience adds to the key and to the name of its row.
fn suffixes(site: Site, audience: &Audience) -> (String, String) {
    let site = if site == Site::Switch { "" } else { "gateway" };
    let (kind, name) = match audience {
        Audience::Everywhere => ("", ""),
        Audience::Refused => ("refused", ""),
        Audience::Node(name) => ("node", name.as_str()),
        Audience::Zone(zone) => ("zone", zone.as_str()),
        Audience::Elsewhere => ("elsewhere", ""),
        Audience::Networks => ("networks", ""),
    };
    let words = || [site, kind, name].into_iter().filter(|word| !word.is_empty());
    (
        words().map(|word| format!("/{word}")).collect(),
        words().map(|word| format!("_{word}")).collect(),
    )
}
