//! A port: named `namespace/pod`, or `namespace/pod/interface` for a pod's further ones, on its node's switch or that of its network, with its recorded addresses and no others, and in the
//! groups and sets of everything that says who reaches it.

use netloom_contract::external_id::{ADDRESSES, GATEWAYS, NETWORK, NETWORK_ADDRESSES, POD, UID};
use netloom_contract::name::pod_id;
use std::net::IpAddr;

use ipnet::IpNet;

use crate::annotations;
use crate::cluster::{Pod, PodName, View, pod_ref};
use crate::decide::Decision;
use crate::ipam::{Assignment, Attachment, GATEWAY_HOST, PortName};
use crate::key::Key;
use crate::northbound::{Placed, ids, put};
use crate::port::PortStatus;
use crate::problem::Problem;
use crate::rows::{LogicalSwitch, LogicalSwitchPort};
use crate::settings::nth_host;
use crate::status::Shows;
use crate::unit::node::switch;
use crate::unit::policy::{app, group, network, selection};
use crate::unit::{Fragment, commas, custom_network};

/// A port that is put into groups and sets.
pub(super) struct Joining<'a> {
    pub(super) view: &'a View<'a>,
    pub(super) name: &'a PodName,
    pub(super) pod: &'a Pod,
    pub(super) assignment: &'a Assignment,
    pub(super) port: Placed,
}

fn key(name: &PortName) -> Key {
    let PodName { namespace, name: pod } = &name.owner;
    Key::new(format!("port/{namespace}/{pod}/{}", name.interface()))
}

pub(super) fn compile(view: &View<'_>, port: &PortName, fragment: &mut Fragment) {
    fragment
        .problems
        .extend(view.refusals(&Decision::Port(port.clone())).iter().cloned());
    let name = &port.owner;
    let Some(pod) = view.pod(name).filter(|pod| pod.wants_port()) else {
        return;
    };
    let Some(assignment) = view.assignment(port, &pod.uid) else {
        return;
    };
    let node = &assignment.node;
    fragment.problems.extend(misplaced(view, name, pod, assignment.attachment.as_ref()));
    let wiring = wire(view, node, assignment);
    let (key, owner) = (key(port), pod_ref(name, &pod.uid));
    if let Some(shows) = to_show(port, pod, assignment, &wiring) {
        fragment.show(owner.clone(), shows);
    }
    let mut external_ids = ids(&key, &owner);
    external_ids.insert(POD.to_owned(), pod_id(&name.namespace, name.machine().unwrap_or(&name.name)));
    external_ids.insert(UID.to_owned(), pod.uid.clone());
    external_ids.insert(ADDRESSES.to_owned(), commas(&wiring.of_node));
    external_ids.insert(GATEWAYS.to_owned(), commas(&wiring.gateways));
    let mut own = assignment.addresses.clone();
    let mut security = own.iter().map(ToString::to_string).collect::<Vec<_>>();
    let on = match &assignment.attachment {
        None => switch(node),
        Some(attachment) => {
            external_ids.insert(NETWORK.to_owned(), attachment.network.clone());
            external_ids.insert(NETWORK_ADDRESSES.to_owned(), commas(&attachment.addresses));
            custom_network::lead(view, &owner, assignment, attachment, fragment);
            own.extend(attachment.addresses.iter().map(IpNet::addr));
            let network = view.network(&attachment.network).map(|record| &record.read);
            security = own.iter().map(ToString::to_string).collect();
            // Whoever leads out of the network also has what is behind it.
            let behind = own
                .iter()
                .flat_map(|ip| network.into_iter().flat_map(|network| network.routes_via(*ip)));
            security.extend(behind.map(ToString::to_string));
            custom_network::switch(&attachment.network)
        }
    };
    let mac = assignment.mac;
    let row = LogicalSwitchPort {
        name: port.to_string(),
        addresses: [format!(
            "{mac} {}",
            own.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
        )]
        .into(),
        port_security: [format!("{mac} {}", security.join(" "))].into(),
        options: [("requested-chassis".to_owned(), node.clone())].into(),
        external_ids,
        ..Default::default()
    };
    let placed = put(fragment, &key, row);
    placed.add_to::<LogicalSwitch>(fragment, &on, "ports");
    // In the same transaction as the port: there is no moment in which it is not isolated.
    let joining = Joining {
        view,
        name,
        pod,
        assignment,
        port: placed,
    };
    selection::join(&joining, fragment);
    network::join(&joining, fragment);
    app::join(&joining, fragment);
    group::join(&joining, fragment);
}

/// How a pod's interface is configured.
struct Wiring {
    /// Its addresses, with the prefix of its node's subnets.
    of_node: Vec<IpNet>,
    /// The routers on its link.
    gateways: Vec<IpAddr>,
}

fn wire(view: &View<'_>, node: &str, assignment: &Assignment) -> Wiring {
    let subnets = view.subnets(node);
    let within = |ip: &IpAddr| subnets.iter().find(|subnet| subnet.contains(ip));
    let of_node = assignment.addresses.iter();
    let gateways = match &assignment.attachment {
        None => {
            let gateway = |ip: &IpAddr| Some(nth_host(within(ip)?, GATEWAY_HOST)?.addr());
            assignment.addresses.iter().filter_map(gateway).collect()
        }
        Some(attachment) => {
            let families = |gateway: &IpAddr| assignment.addresses.iter().any(|ip| ip.is_ipv4() == gateway.is_ipv4());
            let network = view.network(&attachment.network).into_iter();
            let gateways = network.flat_map(|network| network.read.gateways.iter().copied());
            gateways.filter(families).collect()
        }
    };
    Wiring {
        of_node: of_node.filter_map(|ip| IpNet::new(*ip, within(ip)?.prefix_len()).ok()).collect(),
        gateways,
    }
}

/// What a pod on a network, or the port of a machine, has to show and does not. There it is found again when the database is lost.
fn to_show(name: &PortName, pod: &Pod, assignment: &Assignment, wiring: &Wiring) -> Option<Shows> {
    let on_network = assignment.attachment.as_ref();
    let addresses = on_network.map(|on| commas(on.addresses.iter().map(IpNet::addr)));
    let shown = addresses.is_none() || pod.annotations.get(annotations::NETWORK_ADDRESSES) == addresses.as_ref();
    if name.owner.machine().is_none() {
        return addresses.filter(|_| !shown).map(Shows::NetworkAddresses);
    }
    // On a network the subnet of its node is elsewhere, behind the gateway.
    let of_node = match on_network {
        None => wiring.of_node.clone(),
        Some(_) => assignment.addresses.iter().copied().map(IpNet::from).collect(),
    };
    let text = |addresses: &[IpNet]| addresses.iter().map(ToString::to_string).collect();
    let status = PortStatus {
        interface_id: name.to_string(),
        mac: assignment.mac.to_string(),
        addresses: text(&of_node),
        network_addresses: on_network.map(|on| text(&on.addresses)).unwrap_or_default(),
        gateways: wiring.gateways.iter().map(ToString::to_string).collect(),
    };
    (!shown || pod.addresses != assignment.addresses).then_some(Shows::Port(status))
}

/// A pod stays on the network it was given an address in; another one needs another pod.
fn misplaced(view: &View<'_>, name: &PodName, pod: &Pod, on: Option<&Attachment>) -> Option<Problem> {
    let on = on.map(|attachment| attachment.network.as_str());
    let wanted = view.network_named(name, pod);
    let shown = |network: Option<&str>| network.map_or_else(|| "the cluster's own network".to_owned(), |name| format!("network {name}"));
    let why = match on {
        _ if on != wanted => format!(
            "it is on {}, and its annotations or its namespace's now say {}; a pod cannot change networks: delete it, so that a new one is made",
            shown(on),
            shown(wanted)
        ),
        Some(network) if !view.has_custom_network(network) => {
            format!("network {network} was deleted; it serves the pods it has, but no new ones; create it again or delete the pod")
        }
        _ => return None,
    };
    Some(Problem::new(view.pod_ref(name), "NetworkNeedsNewPod", why))
}
