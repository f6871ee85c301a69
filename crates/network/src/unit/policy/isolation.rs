//! What no policy takes from a pod: its own node reaches it, also through a service; health checks are answered, and it reaches itself
//! through a service. A port group per node of the pods that any policy isolates has these ACLs. They also make OVN follow connections on the
//! node's switch, without which a denial would meet replies and neighbour discovery as well.
//!
//! Every tier says something about every packet of these pods. OVN takes it for allowed when a tier says nothing about a packet of a
//! connection that was cut, whatever later tiers say; and it does not follow connections that a tier passes on and no later one allows.

use std::net::IpAddr;

use ipnet::IpNet;

use netloom_contract::name::management_port;

use crate::cluster::{Feature, View};
use crate::ipam::{MANAGEMENT_HOST, PROBE_HOST, SERVICE_HOST};
use crate::key::Key;
use crate::northbound::{ids, put};
use crate::policy::Direction;
use crate::rows::{Acl, PortGroup};
use crate::settings::nth_host;
use crate::unit::Fragment;
use crate::unit::policy::clause::{Addresses, Side};
use crate::unit::policy::{FIRST, LAST, Tier, acl};
use crate::unit::port::Joining;

/// Key of the port group of a node's isolated pods.
fn isolated(node: &str) -> Key {
    Key::new(format!("isolated/{node}"))
}

/// Adds a port to the group of its node.
pub(super) fn join(it: &Joining<'_>, fragment: &mut Fragment) {
    it.port.add_to::<PortGroup>(fragment, &isolated(&it.assignment.node), "ports");
}

/// OVN reads no hyphen in the name of a group, and a node's name may have one, or a dot.
fn name(node: &str) -> String {
    let digest: String = isolated(node).uuid("Port_Group").simple().to_string().chars().take(16).collect();
    format!("isolated_{digest}")
}

/// The group of a node with these subnets.
pub(in crate::unit) fn compile(view: &View<'_>, node: &str, subnets: &[IpNet], fragment: &mut Fragment) {
    let (group, name, owner) = (isolated(node), name(node), view.node_ref(node));
    let row = PortGroup {
        name: name.clone(),
        external_ids: ids(&group, &owner),
        ..Default::default()
    };
    put(fragment, &group, row);
    let host = |number| {
        subnets
            .iter()
            .filter_map(move |subnet| nth_host(subnet, number))
            .map(|host| host.addr())
    };
    let own = view.node(node).into_iter().flat_map(|node| node.addresses.iter().copied());
    let own: Vec<IpAddr> = host(MANAGEMENT_HOST).chain(own).collect();
    let clause = |side: Side, hosts: Vec<IpAddr>| {
        let mut addresses = Addresses::new(side);
        hosts.into_iter().for_each(|host| addresses.add_range(IpNet::from(host)));
        addresses.to_clause()
    };
    // The node's own packets come in where it is; what it sends to a service comes back from the router, with the service port's address.
    let from_node = clause(Side::Source, own).map(|own| format!(r#"inport == "{}" && {own}"#, management_port(node)));
    let routed = view
        .uses(Feature::Networks)
        .then(|| clause(Side::Source, host(MANAGEMENT_HOST).collect()));
    let routed = routed.flatten();
    let exceptions = [
        ("node", Direction::Ingress, from_node),
        // To a network it comes from the router.
        ("node-routed", Direction::Ingress, routed),
        (
            "service-port",
            Direction::Ingress,
            clause(Side::Source, host(SERVICE_HOST).collect()),
        ),
        // OVN lets its checks in by itself, and their answers out only where ACLs come before services.
        ("probe", Direction::Egress, clause(Side::Destination, host(PROBE_HOST).collect())),
        // Only a service leads a packet back to the port it came from.
        (
            "itself",
            Direction::Ingress,
            Some(format!("inport == @{name} && flags.loopback && ip")),
        ),
    ];
    let mut add = |what: &str, direction: Direction, condition: String, row: &dyn Fn(String) -> Acl| {
        let key = Key::new(format!("isolated/{node}/{what}/{}", direction.as_str()));
        let row = Acl {
            external_ids: ids(&key, &owner),
            ..row(format!("{} && {condition}", direction.of_group(&name)))
        };
        put(fragment, &key, row).add_to::<PortGroup>(fragment, &group, "acls");
    };
    for (what, direction, condition) in exceptions {
        let Some(condition) = condition else { continue };
        add(what, direction, condition, &|condition| {
            acl(Tier::Always, direction, FIRST, "allow-related", condition)
        });
    }
    for direction in Direction::ALL {
        for tier in Tier::BEFORE_REST {
            add(&format!("pass-{}", tier as i64), direction, "ip".to_owned(), &|condition| {
                acl(tier, direction, LAST, "pass", condition)
            });
        }
        add("rest", direction, "ip".to_owned(), &|condition| {
            acl(Tier::Rest, direction, LAST, "allow-related", condition)
        });
    }
}
