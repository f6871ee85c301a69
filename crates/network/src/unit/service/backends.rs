//! Endpoints of a service's port, and which of them a client is given. The rules are those of kube-proxy: ready ones; if there is
//! none, those that still serve while they terminate; hints only where every ready endpoint has them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use crate::cluster::{Feature, View};
use crate::ipam::{Holder, Space};
use crate::isolation::Isolation;
use crate::service::{Endpoint, Family, ServiceName, ServicePort};
use crate::settings::Settings;

/// An endpoint that takes connections, now or for want of a better one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Backend<'a> {
    pub(crate) at: SocketAddr,
    pub(crate) endpoint: &'a Endpoint,
}

impl Backend<'_> {
    fn is_on(&self, node: &str) -> bool {
        self.endpoint.node.as_deref() == Some(node)
    }
}

/// The endpoints of one port and one family, in the order of their addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Endpoints<'a>(Vec<Backend<'a>>);

impl<'a> Endpoints<'a> {
    /// Whether no client is given any.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Those a client anywhere is given.
    pub(crate) fn usable(&self) -> Vec<Backend<'a>> {
        chosen(&self.0, |_| true)
    }

    /// Those a client of a node is given that must stay on the node.
    pub(crate) fn local(&self, node: &str) -> Vec<Backend<'a>> {
        chosen(&self.0, |backend| backend.is_on(node))
    }

    /// Those a client of a node in a zone is given.
    pub(crate) fn hinted(&self, node: Option<&str>, zone: Option<&str>) -> Vec<Backend<'a>> {
        if let Some(node) = node.filter(|node| self.prefers_node(node)) {
            return chosen(&self.0, |backend| backend.endpoint.nodes.iter().any(|name| name == node));
        }
        if let Some(zone) = zone.filter(|zone| self.prefers_zone(zone)) {
            return chosen(&self.0, |backend| backend.endpoint.zones.iter().any(|name| name == zone));
        }
        self.usable()
    }

    /// Whether the choice depends on where the client is.
    pub(crate) fn has_hints(&self) -> bool {
        self.all_ready(|endpoint| !endpoint.nodes.is_empty()) || self.all_ready(|endpoint| !endpoint.zones.is_empty())
    }

    /// Whether clients of a node have endpoints of their own.
    pub(crate) fn prefers_node(&self, node: &str) -> bool {
        let meant = |endpoint: &Endpoint| endpoint.nodes.iter().any(|name| name == node);
        self.all_ready(|endpoint| !endpoint.nodes.is_empty()) && self.0.iter().any(|b| b.endpoint.ready && meant(b.endpoint))
    }

    /// Whether clients of a zone have endpoints of their own.
    pub(crate) fn prefers_zone(&self, zone: &str) -> bool {
        let meant = |endpoint: &Endpoint| endpoint.zones.iter().any(|name| name == zone);
        self.all_ready(|endpoint| !endpoint.zones.is_empty()) && self.0.iter().any(|b| b.endpoint.ready && meant(b.endpoint))
    }

    /// Nodes that have endpoints.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter_map(|backend| backend.endpoint.node.as_deref())
    }

    /// All of them, whether or not a client is given them now.
    pub(crate) fn all(&self) -> &[Backend<'a>] {
        &self.0
    }

    fn all_ready(&self, test: impl Fn(&Endpoint) -> bool) -> bool {
        let mut ready = self.0.iter().filter(|backend| backend.endpoint.ready).peekable();
        ready.peek().is_some() && ready.all(|backend| test(backend.endpoint))
    }
}

/// Of those that pass: the ready ones, or all if none is ready.
fn chosen<'a>(all: &[Backend<'a>], test: impl Fn(&Backend<'a>) -> bool) -> Vec<Backend<'a>> {
    let mut passed: Vec<Backend<'a>> = all.iter().filter(|backend| test(backend)).copied().collect();
    if passed.iter().any(|backend| backend.endpoint.ready) {
        passed.retain(|backend| backend.endpoint.ready);
    }
    passed
}

/// A port of a service and its endpoints.
pub(crate) struct ServedPort<'a> {
    pub(crate) port: &'a ServicePort,
    ipv4: Endpoints<'a>,
    ipv6: Endpoints<'a>,
}

impl<'a> ServedPort<'a> {
    /// Its endpoints of one family.
    pub(crate) fn endpoints(&self, family: Family) -> &Endpoints<'a> {
        match family {
            Family::Ipv4 => &self.ipv4,
            Family::Ipv6 => &self.ipv6,
        }
    }
}

/// Addresses of endpoints that no client is given.
#[derive(Default)]
pub(crate) struct LeftOut {
    /// No pod has them.
    pub(crate) without_pod: BTreeSet<IpAddr>,
    /// They are those of isolated pods of other namespaces, which services reach.
    pub(crate) isolated: BTreeSet<IpAddr>,
}

/// The ports of a service with their endpoints, and which of these are left out.
pub(crate) fn gather<'a>(
    view: &'a View<'a>,
    settings: &Settings,
    name: &ServiceName,
    ports: &'a [ServicePort],
) -> (Vec<ServedPort<'a>>, LeftOut) {
    let mut left_out = LeftOut::default();
    let isolates = view.uses(Feature::Isolates);
    let mut is_left_out = |endpoint: &Endpoint| {
        // That an endpoint is a pod's is believed while no pod is isolated.
        if !settings.is_pod_address(endpoint.address) || (endpoint.pod && !isolates) {
            return false;
        }
        let found = match view.holder(Space::Cluster, endpoint.address) {
            // A pod that is gone, or one that has no address yet. Whoever gets the address next may be isolated.
            None if endpoint.pod => return true,
            None => &mut left_out.without_pod,
            Some(holder) if is_isolated(view, name, holder) => &mut left_out.isolated,
            Some(_) => return false,
        };
        found.insert(endpoint.address);
        true
    };
    let ports = ports
        .iter()
        .map(|port| {
            let mut found: BTreeMap<SocketAddr, &Endpoint> = BTreeMap::new();
            for slice in view.slices_of(name) {
                let matching = slice.ports.iter().filter(|p| p.name == port.name && p.protocol == port.protocol);
                for (number, endpoint) in matching.flat_map(|p| slice.endpoints.iter().map(|endpoint| (p.port, endpoint))) {
                    if is_left_out(endpoint) {
                        continue;
                    }
                    if endpoint.ready || (endpoint.serving && endpoint.terminating) {
                        // An endpoint that moves between slices is in both for a while; it is ready if one says so.
                        let known = found.entry(SocketAddr::new(endpoint.address, number)).or_insert(endpoint);
                        if !known.ready {
                            *known = endpoint;
                        }
                    }
                }
            }
            let all = found.into_iter().map(|(at, endpoint)| Backend { at, endpoint });
            let (ipv4, ipv6) = all.partition(|backend| backend.at.is_ipv4());
            ServedPort {
                port,
                ipv4: Endpoints(ipv4),
                ipv6: Endpoints(ipv6),
            }
        })
        .collect();
    (ports, left_out)
}

/// Whether an address is that of an isolated pod of another namespace than the service's.
fn is_isolated(view: &View<'_>, service: &ServiceName, holder: &Holder) -> bool {
    let Holder::Port(port) = holder else { return false };
    let namespace = &port.owner.namespace;
    let on_network = || view.network_of(port).is_some_and(|network| view.is_isolated_network(network));
    *namespace != service.namespace && (view.isolation(namespace) > Isolation::None || on_network())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(host: u8, node: &str, ready: bool) -> Endpoint {
        Endpoint {
            address: IpAddr::from([10, 244, 0, host]),
            ready,
            serving: true,
            terminating: !ready,
            node: Some(node.to_owned()),
            zones: Vec::new(),
            nodes: Vec::new(),
            pod: true,
        }
    }

    fn of(endpoints: &[Endpoint]) -> Endpoints<'_> {
        let backend = |endpoint| Backend {
            at: SocketAddr::new(Endpoint::clone(endpoint).address, 80),
            endpoint,
        };
        Endpoints(endpoints.iter().map(backend).collect())
    }

    fn hosts(backends: &[Backend<'_>]) -> Vec<u8> {
        let last = |backend: &Backend<'_>| match backend.at.ip() {
            IpAddr::V4(ip) => ip.octets()[3],
            IpAddr::V6(_) => 0,
        };
        backends.iter().map(last).collect()
    }

    #[test]
    fn terminating_endpoints_serve_only_when_nothing_else_is_left() {
        let all = [endpoint(1, "a", true), endpoint(2, "a", false), endpoint(3, "b", false)];
        assert_eq!(hosts(&of(&all).usable()), [1]);
        assert_eq!(hosts(&of(&all[1..]).usable()), [2, 3]);
        assert_eq!(hosts(&of(&all).local("a")), [1]);
        assert_eq!(hosts(&of(&all).local("b")), [3], "the node's own are looked at by themselves");
        assert!(of(&all).local("c").is_empty());
    }

    #[test]
    fn hints_count_only_if_every_ready_endpoint_has_them() {
        let mut all = [endpoint(1, "a", true), endpoint(2, "b", true), endpoint(3, "c", false)];
        all[0].zones = vec!["east".to_owned()];
        assert!(!of(&all).has_hints());
        assert_eq!(hosts(&of(&all).hinted(None, Some("east"))), [1, 2]);
        all[1].zones = vec!["west".to_owned()];
        assert!(of(&all).has_hints());
        assert_eq!(hosts(&of(&all).hinted(None, Some("east"))), [1]);
        assert_eq!(
            hosts(&of(&all).hinted(Some("a"), Some("north"))),
            [1, 2],
            "a zone without endpoints uses all"
        );
        all[0].nodes = vec!["a".to_owned()];
        all[1].nodes = vec!["b".to_owned()];
        assert_eq!(hosts(&of(&all).hinted(Some("b"), Some("east"))), [2], "a node goes before its zone");
        assert_eq!(hosts(&of(&all).hinted(Some("d"), Some("east"))), [1]);
    }

    #[test]
    fn hints_of_endpoints_that_terminate_do_not_count() {
        let mut all = [endpoint(1, "a", false), endpoint(2, "b", false)];
        all[0].zones = vec!["east".to_owned()];
        all[1].zones = vec!["west".to_owned()];
        assert!(!of(&all).has_hints());
        assert_eq!(hosts(&of(&all).hinted(None, Some("east"))), [1, 2]);
    }
}
