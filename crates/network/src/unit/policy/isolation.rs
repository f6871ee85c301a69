//! What no policy takes from a pod: its own node reaches it, also through a service; health checks are answered, and it reaches itself
//! through a service. A port group per node of the pods that any policy isolates has these ACLs. They also make OVN follow connections on the
//! node's switch, without which a denial would meet replies and neighbour discovery as well.
//!
//! Every tier says something about every packet of these pods. OVN takes it for allowed when a tier says nothing about a packet of a
//! connection that was cut, whatever later tiers say; and it does not follow connections that a tier passes on and no later one allows.

use std::net::IpAddr;

use ipnet::IpNet;

use netloom_contract::name::management_port;
use netloom_contract::source_port::OF_NODE;

use crate::cluster::{Feature, View};
use crate::ipam::{MANAGEMENT_HOST, PROBE_HOST, SERVICE_HOST};
use crate::key::Key;
use crate::northbound::{ids, put};
use crate::policy::Direction;
use crate::problem::ObjectRef;
use crate::rows::{Acl, PortGroup};
use crate::service::Protocol;
use crate::settings::{ServiceMode, nth_host};
use crate::unit::Fragment;
use crate::unit::policy::clause::{self, Addresses, Side, Term};
use crate::unit::policy::{DENY_ALL, FIRST, LAST, Tier, acl, sets};
use crate::unit::port::Joining;

/// Key of the port group of a node's isolated pods.
fn isolated(node: &str) -> Key {
    Key::new(format!("isolated/{node}"))
}

/// Key of the port group of a node's pods to which everything is denied in a direction that nobody allows.
pub(super) fn denied(node: &str, direction: Direction) -> Key {
    Key::new(format!("denied/{node}/{}", direction.as_str()))
}

/// Adds a port to the group of its node.
pub(super) fn join(it: &Joining<'_>, fragment: &mut Fragment) {
    it.port.add_to::<PortGroup>(fragment, &isolated(&it.assignment.node), "ports");
}

/// What no policy allows. Below the same denial of a policy that is logged.
fn compile_denial(node: &str, direction: Direction, owner: &ObjectRef, fragment: &mut Fragment) {
    let group = denied(node, direction);
    sets::put_group(&group, owner, fragment);
    let (key, condition) = (
        Key::new(format!("{group}/all")),
        format!("{} && ip", direction.of_group(&sets::group_name(&group))),
    );
    let row = Acl {
        external_ids: ids(&key, owner),
        ..acl(Tier::Policy, direction, DENY_ALL, "drop", condition)
    };
    put(fragment, &key, row).add_to::<PortGroup>(fragment, &group, "acls");
}

/// The groups of a node with these subnets.
pub(in crate::unit) fn compile(view: &View<'_>, node: &str, subnets: &[IpNet], fragment: &mut Fragment) {
    let (group, owner) = (isolated(node), view.node_ref(node));
    let name = sets::group_name(&group);
    sets::put_group(&group, &owner, fragment);
    for direction in Direction::ALL {
        compile_denial(node, direction, &owner, fragment);
    }
    let host = |number| {
        subnets
            .iter()
            .filter_map(move |subnet| nth_host(subnet, number))
            .map(|host| host.addr())
    };
    let own = view.node(node).into_iter().flat_map(|node| node.addresses.iter().copied());
    let own: Vec<IpAddr> = host(MANAGEMENT_HOST).chain(own).collect();
    let of = |side: Side, hosts: Vec<IpAddr>| {
        let mut addresses = Addresses::new(side);
        hosts.into_iter().for_each(|host| addresses.add_range(IpNet::from(host)));
        addresses.terms()
    };
    let at = |port: String| Term::new("", format!(r#"inport == "{port}""#));
    let mut from_services = vec![of(Side::Source, host(SERVICE_HOST).collect())];
    if view
        .settings()
        .is_some_and(|settings| settings.services.mode == ServiceMode::Native)
    {
        let of_node = |protocol: Protocol| Term::new(protocol.as_str(), format!("{protocol}.src <= {}", OF_NODE.end()));
        from_services.push(Protocol::ALL.map(of_node).into());
    }
    let mut exceptions = vec![
        // The node's own packets come in where it is; what it sends to a service comes back from the router, with the service port's address. So
        // does what it translates for others, from ports of their own.
        (
            "node",
            Direction::Ingress,
            vec![vec![at(management_port(node))], of(Side::Source, own)],
        ),
        ("service-port", Direction::Ingress, from_services),
        // OVN lets its checks in by itself, and their answers out only where ACLs come before services.
        ("probe", Direction::Egress, vec![of(Side::Destination, host(PROBE_HOST).collect())]),
        // Only a service leads a packet back to the port it came from.
        (
            "itself",
            Direction::Ingress,
            vec![vec![Term::new("", format!("inport == @{name} && flags.loopback && ip"))]],
        ),
    ];
    if view.uses(Feature::Networks) {
        // To a network what the node sends comes from the router.
        let routed = of(Side::Source, host(MANAGEMENT_HOST).collect());
        exceptions.push(("node-routed", Direction::Ingress, vec![routed]));
    }
    let mut add = |what: &str, direction: Direction, condition: String, row: &dyn Fn(String) -> Acl| {
        let key = Key::new(format!("isolated/{node}/{what}/{}", direction.as_str()));
        let row = Acl {
            external_ids: ids(&key, &owner),
            ..row(format!("{} && {condition}", direction.of_group(&name)))
        };
        put(fragment, &key, row).add_to::<PortGroup>(fragment, &group, "acls");
    };
    for (what, direction, terms) in exceptions {
        for (part, condition) in clause::every(&terms) {
            add(&format!("{what}{part}"), direction, condition, &|condition| {
                acl(Tier::Always, direction, FIRST, "allow-related", condition)
            });
        }
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
