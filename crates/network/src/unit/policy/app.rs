//! Networks of apps: a port group of an app's pods, to which nothing comes in that nobody allows, as to the pods of a policy, so that policies
//! open it; and what pods of the same app may do. Pods put themselves in.

use crate::app::{self, App};
use crate::cluster::View;
use crate::key::Key;
use crate::northbound::{ids, put};
use crate::policy::Direction;
use crate::policy::log::Verdict;
use crate::problem::Problem;
use crate::rows::{Acl, PortGroup};
use crate::service::{Service, ServiceName};
use crate::unit::Fragment;
use crate::unit::policy::clause::{self, Side};
use crate::unit::policy::sets::{add_pod, among, group_name, put_group, put_sets};
use crate::unit::policy::{ALLOW, ALLOW_AND_LOG, DENY, Tier, acl, isolation, log};
use crate::unit::port::Joining;

const REASON: &str = "ConflictingApp";

fn network(app: &App) -> Key {
    Key::new(format!("app/{app}"))
}

pub(in crate::unit) fn compile(view: &View<'_>, app: &App, fragment: &mut Fragment) {
    let (owner, group) = (view.namespace_ref(&app.namespace), network(app));
    put_group(&group, &owner, fragment);
    let [dropped, allowed] = [Verdict::Dropped, Verdict::Allowed].map(|verdict| view.log(&app.namespace, verdict));
    let mut rules = Vec::new();
    if dropped.is_some() {
        rules.push(("deny/ingress".to_owned(), DENY, "drop", "ip".to_owned(), dropped));
    }
    if app.name.is_some() {
        put_sets(view, &group, &owner, fragment);
        for (part, inside) in clause::every(&[among(view, Side::Source, [&group])]) {
            let what = format!("inside/ingress{part}");
            if allowed.is_some() {
                let first = log::first_of_connections(&inside);
                rules.push((format!("{what}/log"), ALLOW_AND_LOG, "allow-related", first, allowed.clone()));
            }
            rules.push((what, ALLOW, "allow-related", inside, None));
        }
    }
    for (what, priority, action, condition, log) in rules {
        let key = Key::new(format!("{group}/{what}"));
        let condition = format!("{} && {condition}", Direction::Ingress.of_group(&group_name(&group)));
        let mut row = Acl {
            external_ids: ids(&key, &owner),
            ..acl(Tier::Policy, Direction::Ingress, priority, action, condition)
        };
        if let Some(log) = log {
            row = log.on(row, &format!("app {app}"));
        }
        put(fragment, &key, row).add_to::<PortGroup>(fragment, &group, "acls");
    }
}

/// Adds a port and its addresses to the apps its pod is in.
pub(in crate::unit) fn join(it: &Joining<'_>, fragment: &mut Fragment) {
    let apps = it.view.apps_of(it.name, it.pod);
    for app in &apps {
        it.port.add_to::<PortGroup>(fragment, &network(app), "ports");
        if app.name.is_none() {
            let why = app::conflict(&it.pod.labels, "they let no pod in");
            fragment.problems.push(Problem::new(it.view.pod_ref(it.name), REASON, why));
        } else {
            add_pod(it.view, &network(app), it.assignment, fragment);
        }
    }
    if !apps.is_empty() {
        isolation::join(it, fragment);
        let denied = isolation::denied(&it.assignment.node, Direction::Ingress);
        it.port.add_to::<PortGroup>(fragment, &denied, "ports");
    }
}

/// What is wrong with a service's labels.
pub(in crate::unit) fn service_problem(view: &View<'_>, name: &ServiceName, service: &Service) -> Option<Problem> {
    let said = app::read(&name.namespace, &service.labels)?;
    let why = || app::conflict(&service.labels, "they put its pods into no app");
    said.name.is_none().then(|| Problem::new(view.service_ref(name), REASON, why()))
}
