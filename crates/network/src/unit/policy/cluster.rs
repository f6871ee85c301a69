//! A cluster-wide policy: its rules as ACLs on the port group of the pods it judges, one after the other by priority. The group denies
//! nothing by itself; what no rule decides is left to the next tier.

use crate::cluster::View;
use crate::key::Key;
use crate::northbound::{ids, put};
use crate::policy::cluster::{Action, ClusterTier, RUNS, RankedPolicy, RankedRule};
use crate::policy::log::{Log, Verdict};
use crate::policy::{ClusterPolicyName, Direction};
use crate::problem::Problem;
use crate::rows::{Acl, PortGroup};
use crate::status::Shows;
use crate::unit::Fragment;
use crate::unit::policy::selection::cluster_group;
use crate::unit::policy::{FIRST, Matches, Tier, acl, log};

pub(in crate::unit) fn compile(view: &View<'_>, name: &ClusterPolicyName, fragment: &mut Fragment) {
    let Some(policy) = view.ranked_policy(name) else { return };
    let owner = view.cluster_policy_ref(name);
    fragment.show(owner.clone(), Shows::InForce);
    let complaints = policy.complaints.iter();
    fragment
        .problems
        .extend(complaints.map(|why| Problem::new(owner.clone(), "InvalidPolicy", why.as_str())));
    if let Some(annotation) = view.cluster_log_of(name) {
        log::put_meter(annotation, &name.to_string(), &owner, fragment);
    }
    let rules = policy.rules.iter();
    for (direction, ranked) in rules.flat_map(|(direction, rules)| rules.iter().map(|ranked| (*direction, ranked))) {
        let place = RulePosition {
            view,
            name,
            policy,
            direction,
        };
        place.put(ranked, fragment);
    }
}

/// Where a rule stands.
struct RulePosition<'a> {
    view: &'a View<'a>,
    name: &'a ClusterPolicyName,
    policy: &'a RankedPolicy,
    direction: Direction,
}

impl RulePosition<'_> {
    fn put(&self, ranked: &RankedRule, fragment: &mut Fragment) {
        let Self {
            view,
            name,
            policy,
            direction,
        } = *self;
        let (group, number) = (cluster_group(&policy.subject), ranked.rule.number);
        let matches = Matches {
            view,
            subject: &policy.subject,
            group: group.clone(),
            rule: &ranked.rule,
            direction,
        };
        let logged = verdict(ranked.action).and_then(|verdict| view.cluster_log(name, verdict));
        let what = format!("{name} {}[{number}]", direction.as_str());
        for (part, condition) in matches.conditions() {
            let key = Key::new(format!("cluster-policy/{name}/{}/{number}{part}", direction.as_str()));
            let mut put = |key: Key, condition, log: Option<&Log>| {
                let row = self.acl(&key, ranked, condition);
                let row = match log {
                    Some(log) => log.on(row, &what),
                    None => row,
                };
                put(fragment, &key, row).add_to::<PortGroup>(fragment, &group, "acls");
            };
            match &logged {
                // No priority is free between two runs, so what is logged of the accepted and what is not exclude each other.
                Some(log) if ranked.action == Action::Accept => {
                    put(Key::new(format!("{key}/log")), log::first_of_connections(&condition), Some(log));
                    put(key, log::not_first_of_connections(&condition), None);
                }
                log => put(key, condition, log.as_ref()),
            }
        }
    }

    fn acl(&self, key: &Key, ranked: &RankedRule, condition: String) -> Acl {
        let tier = match self.policy.tier {
            ClusterTier::Admin => Tier::Admin,
            ClusterTier::Baseline => Tier::Rest,
        };
        let (priority, action) = (priority(self.policy, ranked), action(self.policy.tier, ranked.action));
        Acl {
            external_ids: ids(key, &self.view.cluster_policy_ref(self.name)),
            ..acl(tier, self.direction, priority, action, condition)
        }
    }
}

/// Higher is earlier in OVN, lower in Kubernetes. Below [`FIRST`], above what is left.
fn priority(policy: &RankedPolicy, rule: &RankedRule) -> i64 {
    FIRST - 1 - i64::from(RUNS) * i64::from(policy.priority) - i64::from(rule.run)
}

/// What is logged of an action: what it decides.
fn verdict(action: Action) -> Option<Verdict> {
    match action {
        Action::Accept => Some(Verdict::Allowed),
        Action::Deny => Some(Verdict::Dropped),
        Action::Pass => None,
    }
}

/// Nothing comes after the last tier, so what it passes on is allowed, and must be with its replies.
fn action(tier: ClusterTier, action: Action) -> &'static str {
    match (tier, action) {
        (_, Action::Deny) => "drop",
        (ClusterTier::Admin, Action::Pass) => "pass",
        (_, Action::Accept) | (ClusterTier::Baseline, Action::Pass) => "allow-related",
    }
}
