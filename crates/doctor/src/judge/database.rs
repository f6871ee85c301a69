//! Judges the servers of OVN's databases: each answers, has a majority, and one of them leads.

use super::some;
use crate::cluster::ClusterFacts;
use crate::cluster::databases::Member;
use crate::finding::{Check, Finding};
use crate::unseen::{Seen, Unseen};

/// The databases of a cluster, where they were asked for.
pub fn cluster(facts: &ClusterFacts) -> Vec<Finding> {
    facts.databases.iter().flat_map(|seen| members("databases", seen)).collect()
}

/// One finding for each database, or one if their servers are not known.
pub fn members(group: &'static str, seen: &Seen<Vec<Member>>) -> Vec<Finding> {
    let members = match seen {
        Ok(members) => members,
        Err(unseen) => {
            return vec![unseen.failed(
                Check(group, "members"),
                "the servers of the databases",
                "see that the pods of StatefulSet netloom-ovn run: kubectl -n netloom-system get pods,endpointslices",
            )];
        }
    };
    let mut names: Vec<&str> = members.iter().map(|member| member.database).collect();
    names.dedup();
    names.iter().map(|name| database(group, name, members)).collect()
}

fn database(group: &'static str, name: &str, all: &[Member]) -> Finding {
    let check = Check(group, "members");
    let members: Vec<&Member> = all.iter().filter(|member| member.database == name).collect();
    let away: Vec<String> = members
        .iter()
        .filter_map(|member| {
            let why = match &member.state {
                Ok(state) if state.connected => return None,
                Ok(_) => "is cut off from its cluster",
                Err(Unseen::Late) => "does not answer",
                Err(Unseen::Error(reason) | Unseen::Forbidden(reason)) => reason,
            };
            Some(format!("{}: {why}", member.remote))
        })
        .collect();
    let count = members.len();
    let leads = members.iter().any(|member| member.state.as_ref().is_ok_and(|state| state.leader));
    let advice = "see the pods of StatefulSet netloom-ovn, their logs, the certificates and the way to their ports";
    if away.len() == count || away.len() * 2 >= count && count > 1 {
        return check.failed(
            format!("{name}: {} of {count} servers are of no use: {}", away.len(), some(&away)),
            advice,
        );
    }
    let alone = |member: &&&Member| member.state.as_ref().is_ok_and(|state| !state.clustered);
    if count > 1 && members.iter().any(|member| alone(&member)) {
        return check.failed(
            format!("{name}: its {count} servers are no cluster, so each tells something else"),
            "leave one of them in the list, or make a cluster of them (replicas of StatefulSet netloom-ovn)",
        );
    }
    if !leads {
        return check.failed(
            format!("{name}: none of its {count} servers leads, so nothing can be written"),
            advice,
        );
    }
    if !away.is_empty() {
        return check.warning(
            format!(
                "{name}: {} of {count} servers are of no use: {}; without a majority nothing can be written",
                away.len(),
                some(&away)
            ),
            advice,
        );
    }
    match count {
        1 => check.ok(format!("{name}: its server answers")),
        count => check.ok(format!("{name}: {count} servers answer, one leads")),
    }
}
