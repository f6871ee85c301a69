//! A verdict in words: the first line is the answer, what follows is why. Pure, so that the output is tested without a terminal.

use std::fmt::Write as _;

use crate::cluster::Name;
use crate::isolation::{Crossing, Shut};
use crate::policy::Direction;
use crate::verdict::{Decision, End, Flow, Miss, Step, Verdict, Why};

/// The verdict for people, about what was asked in these words.
pub fn words(verdict: &Verdict, from: &str, to: &str) -> String {
    let mut text = String::new();
    let allowed = verdict.flows.iter().filter(|flow| flow.allowed).count();
    let all = verdict.flows.len();
    let answer = match allowed {
        _ if verdict.allowed => "allowed".to_owned(),
        0 => "denied".to_owned(),
        some => format!("denied in part ({some} of {all} ways allowed)"),
    };
    let _ = match verdict.flows.as_slice() {
        [flow] if flow.service.is_none() => writeln!(text, "{answer}: {} to {}, {} {}", flow.from, flow.to, flow.protocol, flow.port),
        _ => writeln!(text, "{answer}: {from} to {to}"),
    };
    for flow in &verdict.flows {
        let mut indent = "  ";
        if all > 1 || flow.service.is_some() {
            text += &headline(flow, all);
            indent = "    ";
        }
        let state = |allows: bool| if allows { "allowed" } else { "denied" };
        if let Some(isolation) = &flow.isolation {
            let _ = writeln!(
                text,
                "{indent}isolated {:<8} {}",
                state(isolation.allows()),
                crossing(isolation, flow)
            );
        }
        for (direction, side, subject) in [
            (Direction::Egress, &flow.egress, &flow.from),
            (Direction::Ingress, &flow.ingress, &flow.to),
        ] {
            let decision = &side.decision;
            let trail: String = side.passed.iter().map(|step| passed(step) + "; ").collect();
            let _ = writeln!(
                text,
                "{indent}{:<8} {:<8} {trail}{}",
                direction.to_string(),
                state(decision.allows()),
                reason(decision, direction, subject)
            );
            for line in misses(decision, direction, flow) {
                let _ = writeln!(text, "{indent}{:18}{line}", "");
            }
        }
    }
    for problem in &verdict.problems {
        let _ = writeln!(text, "problem: {problem}");
    }
    for note in &verdict.notes {
        let _ = writeln!(text, "note: {note}");
    }
    text
}

/// Which way this is, of several.
fn headline(flow: &Flow, all: usize) -> String {
    let state = if flow.allowed { "allowed" } else { "denied" };
    let role = if flow.service.is_some() { "backend " } else { "" };
    let addresses = |end: &End| end.addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let mut line = format!("  {role}{}, {} {}", flow.to, flow.protocol, flow.port);
    if all > 1 && !flow.to.addresses.is_empty() {
        let _ = write!(line, " ({} to {})", addresses(&flow.from), addresses(&flow.to));
    }
    format!("{line}: {state}\n")
}

fn crossing(isolation: &Crossing, flow: &Flow) -> String {
    match isolation {
        Crossing::ThroughService { into } => match into {
            Shut::Namespace(name) => format!("namespace {name} is isolated, but reached through a service"),
            Shut::Network(name) => format!("network {name} is isolated, but reached through a service"),
        },
        Crossing::Direct { into } => match into {
            Shut::Namespace(name) => {
                format!("namespace {name} is isolated: pods of other namespaces reach its pods through services only, if at all")
            }
            Shut::Network(name) => format!("network {name} is isolated: pods that are not on it reach pods on it through services only"),
        },
        Crossing::Service { namespace } => match &flow.service {
            Some(service) if service.namespace == *namespace => {
                format!("namespace {namespace} is isolated with its services: pods of other namespaces do not reach them")
            }
            _ => format!("the pod is of namespace {namespace}, which is isolated with its services"),
        },
        Crossing::Unpublished { namespace } => {
            format!("namespace {namespace} is isolated with its services: they have no node ports and no addresses outside the cluster")
        }
    }
}

/// What left the decision to the next.
fn passed(step: &Step) -> String {
    match step {
        Step::SecurityGroups { rules } => {
            let noun = if rules.len() == 1 { "lets" } else { "let" };
            format!("SecurityGroup {} {noun} it pass", list(rules))
        }
        Step::Pass { rule } => format!("{rule} passes it on"),
    }
}

fn list<T: ToString>(items: &[T]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn reason(decision: &Decision, direction: Direction, subject: &End) -> String {
    match decision {
        Decision::NotAPod => format!("policies do not apply to {subject}"),
        Decision::NotIsolated => format!("no policy isolates {subject} for {direction}"),
        Decision::Itself => "a pod may always talk to itself".to_owned(),
        Decision::OwnNode => format!("{subject} is isolated, but its own node always reaches it"),
        Decision::NoGroupRule { groups } => {
            let noun = if groups.len() == 1 { "SecurityGroup" } else { "SecurityGroups" };
            format!("{subject} is in {noun} {}, and no rule matches", list(groups))
        }
        Decision::Accepted { rule } => format!("by {rule}"),
        Decision::Denied { rule } if rule.closed => format!("by {rule}: it has a mistake, so it denies everything"),
        Decision::Denied { rule } => format!("by {rule}"),
        Decision::Rules { rules, apps } => {
            let of_policies = (!rules.is_empty()).then(|| format!("by NetworkPolicy {}", list(rules)));
            let of_apps = (!apps.is_empty()).then(|| format!("in app network {}", apps.join(", ")));
            of_policies.into_iter().chain(of_apps).collect::<Vec<_>>().join(" and ")
        }
        Decision::NoRule {
            policies,
            apps,
            conflicting_apps,
            ..
        } => {
            let noun = if policies.len() == 1 { "NetworkPolicy" } else { "NetworkPolicies" };
            let of_policies = (!policies.is_empty()).then(|| format!("{noun} {}", list(policies)));
            let of_apps = (!apps.is_empty()).then(|| format!("app network {}", apps.join(", ")));
            let by_mistake = conflicting_apps.then(|| "app labels that contradict each other".to_owned());
            let isolating: Vec<String> = of_policies.into_iter().chain(of_apps).chain(by_mistake).collect();
            format!("{subject} is isolated by {}, and no rule matches", isolating.join(" and "))
        }
    }
}

/// Each rule that does not match, and each policy that has none.
fn misses(decision: &Decision, direction: Direction, flow: &Flow) -> Vec<String> {
    let Decision::NoRule { policies, misses, .. } = decision else {
        return Vec::new();
    };
    let (side, other) = match direction {
        Direction::Egress => ("to", &flow.to),
        Direction::Ingress => ("from", &flow.from),
    };
    let port = format!("{} {}", flow.protocol, flow.port);
    let line = |miss: &Miss| {
        let why = match miss.why {
            Why::Peer => format!("{other} is not in its \"{side}\""),
            Why::Port => format!("{port} is not in its \"ports\""),
            Why::PeerAndPort => format!("{other} is not in its \"{side}\", nor {port} in its \"ports\""),
            Why::Closed => "it has a mistake, so it allows nothing".to_owned(),
        };
        format!("{}: {why}", miss.rule)
    };
    let empty = |policy: &&Name| misses.iter().all(|miss| miss.rule.policy != **policy);
    let empty = policies.iter().filter(empty);
    let empty = empty.map(|policy| format!("{policy} has no {direction} rule, so it allows nothing"));
    misses.iter().map(line).chain(empty).collect()
}
