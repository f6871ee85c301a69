//! A service: its load balancers on nodes' switches and on gateways, who may use its external addresses, and where those are
//! announced. With kube-proxy only the last is made here; the translation is the node's.

mod announcer;
pub(crate) mod backends;
pub(crate) mod frontends;
mod health;
mod source_ranges;
mod views;

use std::collections::BTreeSet;
use std::net::IpAddr;

pub use announcer::announcer_port;

use crate::annotations;
use crate::cluster::Cluster;
use crate::external::{self, Search};
use crate::isolation::ISOLATION;
use crate::problem::Problem;
use crate::service::{Service, ServiceKind, ServiceName};
use crate::settings::{ServiceMode, Settings};
use crate::unit::Fragment;
use crate::unit::policy::{app, network};
use crate::unit::service::backends::gather;
use crate::unit::service::frontends::frontends;
use crate::unit::service::views::Balancers;

/// How many addresses a problem names before it only counts.
const NAMED: usize = 5;

pub(super) fn compile(cluster: &Cluster, name: &ServiceName, fragment: &mut Fragment) {
    let (Some(service), Some(settings)) = (cluster.services.get(name), &cluster.records.settings) else {
        return;
    };
    fragment.problems.extend(app::service_problem(cluster, name, service));
    if service.cluster_ips.is_empty() {
        return;
    }
    if cluster.is_closed(name) {
        network::close_service(&name.namespace, &service.cluster_ips, fragment);
        fragment.problems.extend(unpublished(cluster, settings, name, service));
    }
    let health = read_annotations(cluster, name, service, fragment);
    fragment
        .problems
        .extend(external::decide(cluster, name, Some(&mut Search::default())).problems);
    fragment.problems.extend(outside_range(cluster, settings, name, service));
    let (ports, strays) = gather(cluster, settings, name, &service.ports);
    fragment.problems.extend(without_pod(cluster, name, &strays));
    announcer::compile(cluster, name, service, &ports, fragment);
    if settings.services.mode == ServiceMode::KubeProxy {
        return;
    }
    let frontends = frontends(cluster, settings, name, service, &ports, &mut fragment.problems);
    let mut balancers = Balancers {
        cluster,
        name,
        service,
        owner: cluster.service_ref(name),
        health,
        most: 0,
        hosts: false,
    };
    balancers.compile(&frontends, fragment);
    source_ranges::compile(cluster, name, service, fragment);
}

fn read_annotations(cluster: &Cluster, name: &ServiceName, service: &Service, fragment: &mut Fragment) -> Option<annotations::HealthCheck> {
    let mut problem = |why| {
        let problem = Problem::new(cluster.service_ref(name), "InvalidAnnotation", why);
        fragment.problems.push(problem);
    };
    if let Err(why) = annotations::unknown_on_service(&service.annotations) {
        problem(why);
    }
    annotations::health_check(&service.annotations).unwrap_or_else(|why| {
        problem(why);
        None
    })
}

/// What a service asks for and is not given, because its namespace is closed to the outside.
fn unpublished(cluster: &Cluster, settings: &Settings, name: &ServiceName, service: &Service) -> Option<Problem> {
    if service.kind == ServiceKind::ClusterIp && service.claimed().is_empty() {
        return None;
    }
    let what = match settings.services.mode {
        ServiceMode::Native => "its node ports and external addresses are not served",
        ServiceMode::KubeProxy => "it gets no external address, but kube-proxy serves its node ports all the same",
    };
    let why = format!(
        "namespace {} isolates its services, so {what}; make it a ClusterIP service without externalIPs, or change annotation {ISOLATION} of the namespace",
        name.namespace
    );
    Some(Problem::new(cluster.service_ref(name), "ServiceIsolated", why))
}

fn outside_range(cluster: &Cluster, settings: &Settings, name: &ServiceName, service: &Service) -> Vec<Problem> {
    let outside = service.cluster_ips.iter().filter(|ip| settings.service_range_of(**ip).is_none());
    outside
        .map(|ip| {
            let why = format!("its address {ip} is in no range of services, so nodes cannot reach it; add the range to ClusterNetwork/default spec.services.cidrs");
            Problem::new(cluster.service_ref(name), "OutsideServiceRange", why)
        })
        .collect()
}

fn without_pod(cluster: &Cluster, name: &ServiceName, strays: &BTreeSet<IpAddr>) -> Option<Problem> {
    if strays.is_empty() {
        return None;
    }
    let mut named: Vec<String> = strays.iter().take(NAMED).map(ToString::to_string).collect();
    if strays.len() > NAMED {
        named.push(format!("and {} more", strays.len() - NAMED));
    }
    let why = format!(
        "no pod has these endpoint addresses, which lie in the pods' range: {}; they are left out until a pod has them",
        named.join(", ")
    );
    Some(Problem::new(cluster.service_ref(name), "EndpointWithoutPod", why))
}
