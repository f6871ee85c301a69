//! A cluster-wide policy: its rules as ACLs on the port group of the pods it judges, one after the other by priority. The group denies
//! nothing by itself; what no rule decides is left to the next tier.

use crate::cluster::Cluster;
use crate::key::Key;
use crate::northbound::{ids, put};
use crate::policy::ClusterPolicyName;
use crate::policy::cluster::{Action, ClusterTier, RUNS, RankedPolicy, RankedRule};
use crate::problem::Problem;
use crate::rows::{Acl, PortGroup};
use crate::unit::Fragment;
use crate::unit::policy::selection::cluster_group;
use crate::unit::policy::{FIRST, Matches, Tier, acl};

pub(in crate::unit) fn compile(cluster: &Cluster, name: &ClusterPolicyName, fragment: &mut Fragment) {
    let Some(policy) = cluster.ranked_policy(name) else { return };
    let owner = cluster.cluster_policy_ref(name);
    let complaints = policy.complaints.iter();
    fragment
        .problems
        .extend(complaints.map(|why| Problem::new(owner.clone(), "InvalidPolicy", why.as_str())));
    let group = cluster_group(&policy.subject);
    let tier = match policy.tier {
        ClusterTier::Admin => Tier::Admin,
        ClusterTier::Baseline => Tier::Rest,
    };
    for (direction, rules) in &policy.rules {
        for ranked in rules {
            let matches = Matches {
                cluster,
                subject: &policy.subject,
                group: group.clone(),
                rule: &ranked.rule,
                direction: *direction,
            };
            for (part, condition) in matches.conditions() {
                let number = ranked.rule.number;
                let key = Key::new(format!("cluster-policy/{name}/{}/{number}{part}", direction.as_str()));
                let row = Acl {
                    external_ids: ids(&key, &owner),
                    ..acl(
                        tier,
                        *direction,
                        priority(policy, ranked),
                        action(policy.tier, ranked.action),
                        condition,
                    )
                };
                put(fragment, &key, row).add_to::<PortGroup>(fragment, &group, "acls");
            }
        }
    }
}

/// Higher is earlier in OVN, lower in Kubernetes. Below [`FIRST`], above what is left.
fn priority(policy: &RankedPolicy, rule: &RankedRule) -> i64 {
    FIRST - 1 - i64::from(RUNS) * i64::from(policy.priority) - i64::from(rule.run)
}

/// Nothing comes after the last tier, so what it passes on is allowed, and must be with its replies.
fn action(tier: ClusterTier, action: Action) -> &'static str {
    match (tier, action) {
        (_, Action::Deny) => "drop",
        (ClusterTier::Admin, Action::Pass) => "pass",
        (_, Action::Accept) | (ClusterTier::Baseline, Action::Pass) => "allow-related",
    }
}
