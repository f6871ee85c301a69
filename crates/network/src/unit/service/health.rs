//! Health checks by OVN itself: on each backend's node a probe from the node's probe address, and backends that do not answer are
//! left out of the load balancer until they do.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use crate::annotations::HealthCheck;
use crate::cluster::View;
use crate::ipam::PROBE_HOST;
use crate::key::Key;
use crate::northbound::{Placed, RowId, ids, put};
use crate::problem::ObjectRef;
use crate::rows::LoadBalancerHealthCheck;
use crate::service::{Protocol, ServiceName};
use crate::settings::nth_host;
use crate::unit::Fragment;
use crate::unit::service::backends::Backend;
use netloom_ovsdb::Table;

/// OVN has no probe for SCTP.
pub(super) fn can_check(protocol: Protocol) -> bool {
    protocol != Protocol::Sctp
}

/// For each backend that is a pod: its port, and where its probes come from. The others are not checked.
pub(super) fn mappings(view: &View<'_>, backends: &[Backend<'_>]) -> BTreeMap<String, String> {
    backends.iter().filter_map(|backend| mapping(view, backend.at.ip())).collect()
}

/// The check of one address and port; rows that serve the same one share it.
pub(super) fn compile(
    name: &ServiceName,
    protocol: Protocol,
    at: SocketAddr,
    check: HealthCheck,
    owner: &ObjectRef,
    fragment: &mut Fragment,
) -> Placed {
    let key = Key::new(format!("health/{name}/{protocol}/{at}"));
    let id = RowId::of(LoadBalancerHealthCheck::TABLE, &key);
    if fragment.rows.iter().any(|(known, _)| *known == id) {
        return Placed::of::<LoadBalancerHealthCheck>(&key);
    }
    let options = [
        ("interval", check.interval),
        ("timeout", check.timeout),
        ("failure_count", check.failures),
        ("success_count", check.successes),
    ];
    let row = LoadBalancerHealthCheck {
        vip: at.to_string(),
        options: options
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value.to_string()))
            .collect(),
        external_ids: ids(&key, owner),
    };
    put(fragment, &key, row)
}

fn mapping(view: &View<'_>, backend: IpAddr) -> Option<(String, String)> {
    let (port, assignment) = view.port_at(backend)?;
    // A pod on a network answers by its router, and OVN would not hear it.
    if assignment.attachment.is_some() {
        return None;
    }
    let subnet = view
        .subnets(&assignment.node)
        .into_iter()
        .find(|subnet| subnet.contains(&backend))?;
    let probe = nth_host(&subnet, PROBE_HOST)?.addr();
    Some((bracketed(backend), format!("{port}:{}", bracketed(probe))))
}

fn bracketed(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    }
}
