//! Security groups: a port group and sets of the pods that name one, with what its rules allow; and one port group of all pods that name
//! any, which drops the rest in both directions. What rules allow goes on to policies: both have to agree.

use crate::cluster::{Feature, View};
use crate::key::Key;
use crate::northbound::{ids, put};
use crate::policy::Direction;
use crate::policy::log::Verdict;
use crate::problem::Problem;
use crate::rows::{Acl, PortGroup};
use crate::security_group::{Remote, Rule, SecurityGroupName};
use crate::service::Family;
use crate::status::Shows;
use crate::unit::Fragment;
use crate::unit::policy::clause::{self, Addresses, Term};
use crate::unit::policy::sets::{add_pod, among, group_name, put_group, put_sets};
use crate::unit::policy::{ALLOW, DENY, DENY_ALL, Tier, acl, isolation};
use crate::unit::port::Joining;

const UNKNOWN: &str = "UnknownSecurityGroup";

/// Key of the pods of a group.
fn members(group: &SecurityGroupName) -> Key {
    Key::new(format!("security-group/{group}"))
}

/// Key of the pods that name any group.
fn everybody() -> Key {
    Key::new("security-groups")
}

/// What is denied to pods that name a group.
pub(in crate::unit) fn compile_shared(view: &View<'_>, fragment: &mut Fragment) {
    if !view.uses(Feature::Groups) {
        return;
    }
    let (group, owner) = (everybody(), view.network_ref());
    put_group(&group, &owner, fragment);
    for direction in Direction::ALL {
        let key = Key::new(format!("{group}/deny/{}", direction.as_str()));
        let condition = format!("{} && ip", direction.of_group(&group_name(&group)));
        let row = Acl {
            external_ids: ids(&key, &owner),
            ..acl(Tier::Always, direction, DENY_ALL, "drop", condition)
        };
        put(fragment, &key, row).add_to::<PortGroup>(fragment, &group, "acls");
    }
}

/// What a group allows.
pub(in crate::unit) fn compile(view: &View<'_>, name: &SecurityGroupName, fragment: &mut Fragment) {
    let Some(read) = view.security_group(name) else { return };
    let (group, owner) = (members(name), view.security_group_ref(name));
    let problem = |reason, why: String| Problem::new(owner.clone(), reason, why);
    fragment.show(owner.clone(), Shows::InForce);
    let complaints = read.complaints.iter();
    fragment
        .problems
        .extend(complaints.map(|why| problem("InvalidSecurityGroup", why.clone())));
    put_group(&group, &owner, fragment);
    put_sets(view, &group, &owner, fragment);
    log_denial(view, name, fragment);
    for rule in &read.rules {
        if let Some(Remote::Group(remote)) = &rule.remote
            && !view.has_security_group(remote)
        {
            let why = format!(
                "spec.rules[{}]: there is no SecurityGroup {} in namespace {}, so the rule allows nothing; create it or correct the name",
                rule.number, remote.name, remote.namespace
            );
            fragment.problems.push(problem(UNKNOWN, why));
            continue;
        }
        for (part, condition) in clause::every(&terms(view, rule)) {
            let key = Key::new(format!("{group}/{}/{}{part}", rule.direction.as_str(), rule.number));
            let condition = format!("{} && {condition}", rule.direction.of_group(&group_name(&group)));
            let row = Acl {
                external_ids: ids(&key, &owner),
                ..acl(Tier::Always, rule.direction, ALLOW, "pass", condition)
            };
            put(fragment, &key, row).add_to::<PortGroup>(fragment, &group, "acls");
        }
    }
}

/// The denial of all groups, of one group's pods and logged.
fn log_denial(view: &View<'_>, name: &SecurityGroupName, fragment: &mut Fragment) {
    let Some(log) = view.log(&name.namespace, Verdict::Dropped) else {
        return;
    };
    let group = members(name);
    for direction in Direction::ALL {
        let key = Key::new(format!("{group}/deny/{}", direction.as_str()));
        let condition = format!("{} && ip", direction.of_group(&group_name(&group)));
        let row = Acl {
            external_ids: ids(&key, &view.security_group_ref(name)),
            ..acl(Tier::Always, direction, DENY, "drop", condition)
        };
        let row = log.on(row, &format!("security group {name}"));
        put(fragment, &key, row).add_to::<PortGroup>(fragment, &group, "acls");
    }
}

/// Packets a rule is about.
fn terms(view: &View<'_>, rule: &Rule) -> Vec<Vec<Term>> {
    let side = rule.direction.peer_side();
    let remote = rule.remote.as_ref().map(|remote| match remote {
        Remote::Group(group) => among(view, side, [&members(group)]),
        Remote::Range(range) => {
            let mut addresses = Addresses::new(side);
            addresses.add_range(*range);
            addresses.terms()
        }
    });
    let transport = match (rule.protocol, rule.ports) {
        (None, _) => remote.is_none().then(|| vec![Term::new("", "ip".to_owned())]),
        (Some("icmp"), _) => Some(vec![
            Term::of_family(Family::Ipv4, "icmp4", "icmp4".to_owned()),
            Term::of_family(Family::Ipv6, "icmp6", "icmp6".to_owned()),
        ]),
        (Some(protocol), None) => Some(vec![Term::new(protocol, protocol.to_owned())]),
        (Some(protocol), Some((first, last))) if first == last => Some(vec![Term::new(protocol, format!("{protocol}.dst == {first}"))]),
        (Some(protocol), Some((first, last))) => {
            let range = format!("{protocol}.dst >= {first} && {protocol}.dst <= {last}");
            Some(vec![Term::new(protocol, range)])
        }
    };
    remote.into_iter().chain(transport).collect()
}

/// Adds a port and its addresses to the groups its pod names.
pub(in crate::unit) fn join(it: &Joining<'_>, fragment: &mut Fragment) {
    let named = it.pod.security_groups(it.name);
    for group in &named {
        if !it.view.has_security_group(group) {
            let why = format!(
                "there is no SecurityGroup {} in namespace {}; create it or correct the name. Until then it allows the pod nothing",
                group.name, group.namespace
            );
            fragment.problems.push(Problem::new(it.view.pod_ref(it.name), UNKNOWN, why));
            continue;
        }
        it.port.add_to::<PortGroup>(fragment, &members(group), "ports");
        add_pod(it.view, &members(group), it.assignment, fragment);
    }
    if !named.is_empty() {
        it.port.add_to::<PortGroup>(fragment, &everybody(), "ports");
        isolation::join(it, fragment);
    }
}
