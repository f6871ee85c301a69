//! A verdict in words: the first line is the answer, what follows is why. Pure, so that the output is tested without a terminal.

use std::fmt::Write as _;

use crate::cluster::Name;
use crate::policy::Direction;
use crate::verdict::{Decision, End, Flow, Miss, Verdict, Why};

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
        for (direction, decision, subject) in [
            (Direction::Egress, &flow.egress, &flow.from),
            (Direction::Ingress, &flow.ingress, &flow.to),
        ] {
            let state = if decision.allows() { "allowed" } else { "denied" };
            let _ = writeln!(
                text,
                "{indent}{:<8} {state:<8} {}",
                direction.to_string(),
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

fn reason(decision: &Decision, direction: Direction, subject: &End) -> String {
    match decision {
        Decision::NotAPod => format!("policies do not apply to {subject}"),
        Decision::NotIsolated => format!("no policy isolates {subject} for {direction}"),
        Decision::Itself => "a pod may always talk to itself".to_owned(),
        Decision::OwnNode => format!("{subject} is isolated, but its own node always reaches it"),
        Decision::Rules { rules } => {
            let rules: Vec<String> = rules.iter().map(ToString::to_string).collect();
            format!("by NetworkPolicy {}", rules.join(", "))
        }
        Decision::NoRule { policies, .. } => {
            let names: Vec<String> = policies.iter().map(ToString::to_string).collect();
            let noun = if names.len() == 1 { "NetworkPolicy" } else { "NetworkPolicies" };
            format!("{subject} is isolated by {noun} {}, and no rule matches", names.join(", "))
        }
    }
}

/// Each rule that does not match, and each policy that has none.
fn misses(decision: &Decision, direction: Direction, flow: &Flow) -> Vec<String> {
    let Decision::NoRule { policies, misses } = decision else {
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
