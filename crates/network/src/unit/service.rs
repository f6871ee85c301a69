//! A service: its load balancers on nodes' switches and on gateways, who may use its external addresses, and where those are
//! announced. With kube-proxy only the last is made here; the translation is the node's.

mod announcer;
pub(crate) mod backends;
mod balancers;
pub(crate) mod frontends;
mod health;
mod source_ranges;

use std::collections::BTreeSet;
use std::net::IpAddr;

use crate::annotations;
use crate::cluster::View;
use crate::decide::Decision;
use crate::decide::external::of_load_balancer;
use crate::isolation::ISOLATION;
use crate::problem::Problem;
use crate::service::{Service, ServiceKind, ServiceName};
use crate::settings::{ServiceMode, Settings};
use crate::status::Shows;
use crate::unit::Fragment;
use crate::unit::policy::{app, network};
use crate::unit::service::backends::gather;
use crate::unit::service::balancers::Balancers;
use crate::unit::service::frontends::{cluster_addresses, frontends};

/// How many addresses a problem names at most.
const NAMED: usize = 5;

pub(super) fn compile(view: &View<'_>, name: &ServiceName, fragment: &mut Fragment) {
    let (Some(service), Some(settings)) = (view.service(name), view.settings()) else {
        return;
    };
    if let Some(shows) = to_show(view, name, service) {
        fragment.show(view.service_ref(name), shows);
    }
    fragment.problems.extend(app::service_problem(view, name, service));
    if service.cluster_ips.is_empty() {
        return;
    }
    if view.is_closed(name) {
        let served = cluster_addresses(view, settings, name, service, &mut Vec::new());
        network::close_service(view, &name.namespace, &served, fragment);
        fragment.problems.extend(unpublished(view, settings, name, service));
    }
    let health = read_annotations(view, name, service, fragment);
    fragment
        .problems
        .extend(view.refusals(&Decision::External(name.clone())).iter().cloned());
    let (ports, left_out) = gather(view, settings, name, &service.ports);
    fragment.problems.extend(without_pod(view, name, &left_out.without_pod));
    fragment.problems.extend(isolated(view, name, &left_out.isolated));
    announcer::compile(view, name, service, &ports, fragment);
    if settings.services.mode == ServiceMode::KubeProxy {
        return;
    }
    let frontends = frontends(view, settings, name, service, &ports, &mut fragment.problems);
    let mut balancers = Balancers {
        view,
        name,
        service,
        owner: view.service_ref(name),
        health,
        most: 0,
        limit: 0,
        hosts: false,
    };
    balancers.compile(&frontends, fragment);
    source_ranges::compile(view, settings, name, service, fragment);
}

/// The addresses a service's status should show instead of those it shows.
fn to_show(view: &View<'_>, name: &ServiceName, service: &Service) -> Option<Shows> {
    let given = view.external(name, &service.uid);
    let addresses = given
        .map(|external| of_load_balancer(service, &external.addresses))
        .unwrap_or_default();
    if service.status_addresses == addresses {
        return None;
    }
    // What it shows may be the work of another controller, which gives addresses where we give none.
    let ours = match service.kind {
        ServiceKind::LoadBalancer => service.is_ours() && (given.is_some() || service.class.is_some() || view.has_pools()),
        // Only load balancers have addresses in their status; these are left from when it was one.
        ServiceKind::ClusterIp | ServiceKind::NodePort => true,
    };
    ours.then_some(Shows::ExternalAddresses(addresses))
}

fn read_annotations(view: &View<'_>, name: &ServiceName, service: &Service, fragment: &mut Fragment) -> Option<annotations::HealthCheck> {
    let mut problem = |why| {
        let problem = Problem::new(view.service_ref(name), "InvalidAnnotation", why);
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
fn unpublished(view: &View<'_>, settings: &Settings, name: &ServiceName, service: &Service) -> Option<Problem> {
    if service.kind == ServiceKind::ClusterIp && service.external_ips.is_empty() {
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
    Some(Problem::new(view.service_ref(name), "ServiceIsolated", why))
}

fn without_pod(view: &View<'_>, name: &ServiceName, addresses: &BTreeSet<IpAddr>) -> Option<Problem> {
    let why = format!(
        "no pod has these endpoint addresses, which lie in the pods' range: {}; they are left out until a pod has them",
        listed(addresses)?
    );
    Some(Problem::new(view.service_ref(name), "EndpointWithoutPod", why))
}

/// Endpoints that somebody wrote by hand: a service leads to pods that are isolated, and who made it is not asked by them.
fn isolated(view: &View<'_>, name: &ServiceName, addresses: &BTreeSet<IpAddr>) -> Option<Problem> {
    let why = format!(
        "these endpoint addresses are those of isolated pods of other namespaces: {}; they are left out. A service of the pods' own namespace leads to them",
        listed(addresses)?
    );
    Some(Problem::new(view.service_ref(name), "EndpointIsolated", why))
}

/// The first of some addresses. Not how many more there are: with each that comes and goes it would be said again.
fn listed(addresses: &BTreeSet<IpAddr>) -> Option<String> {
    let mut named: Vec<String> = addresses.iter().take(NAMED).map(ToString::to_string).collect();
    if addresses.len() > NAMED {
        named.push("and others".to_owned());
    }
    (!named.is_empty()).then(|| named.join(", "))
}
