//! Which policy has the last word: tiers, priorities, places in a list, and what is told about it.

use netloom_policy::{Decision, Side, Step};

use super::{answers, ask, check, cluster, cluster_policy, policy};

const FROM_BLUE: &str = "from: [{ namespaces: { matchLabels: { team: blue } } }]";

/// Ingress rules from pods of `b`, with these actions.
fn from_blue(actions: &[&str]) -> String {
    let rules: Vec<String> = actions
        .iter()
        .map(|action| format!("{{ name: {action}-blue, action: {action}, {FROM_BLUE} }}"))
        .collect();
    format!("ingress: [{}]", rules.join(", "))
}

fn ingress(policies: &str, question: &str) -> Side {
    ask(&cluster(policies), question).unwrap().flows.remove(0).ingress
}

const OPEN: &str = "{ podSelector: {}, ingress: [{}] }";
const SHUT: &str = "{ podSelector: {} }";

#[test]
fn admin_comes_before_network_policies() {
    let admin = |actions: &[&str]| cluster_policy("p", "Admin", 5, &from_blue(actions));
    check(
        &(admin(&["Accept"]) + &policy("shut", SHUT)),
        &["b/web > a/web 80"],
        &["a/db > a/web 80"],
    );
    check(
        &(admin(&["Deny"]) + &policy("open", OPEN)),
        &["a/db > a/web 80"],
        &["b/web > a/web 80"],
    );
    check(&(admin(&["Pass", "Deny"]) + &policy("open", OPEN)), &["b/web > a/web 80"], &[]);
    check(&(admin(&["Pass", "Accept"]) + &policy("shut", SHUT)), &[], &["b/web > a/web 80"]);
    check(&admin(&["Pass", "Deny"]), &["b/web > a/web 80"], &[]);
}

#[test]
fn baseline_comes_after_network_policies_and_only_where_none_isolates() {
    let baseline = |actions: &[&str]| cluster_policy("p", "Baseline", 5, &from_blue(actions));
    check(&baseline(&["Deny"]), &["a/db > a/web 80"], &["b/web > a/web 80"]);
    check(&(baseline(&["Deny"]) + &policy("open", OPEN)), &["b/web > a/web 80"], &[]);
    check(&(baseline(&["Accept"]) + &policy("shut", SHUT)), &[], &["b/web > a/web 80"]);
    // A policy for the other direction does not isolate in this one.
    let egress = policy("egress", "{ podSelector: {}, policyTypes: [Egress] }");
    check(&(baseline(&["Deny"]) + &egress), &[], &["b/web > a/web 80"]);
    // Pass leaves it to the default, which is open.
    check(&baseline(&["Pass", "Deny"]), &["b/web > a/web 80"], &[]);
    // An app network isolates as a policy does.
    let app = "---\nkind: Pod\nmetadata: { name: web, namespace: a, labels: { netloom.io/app: shop } }\nspec: { nodeName: node1 }\nstatus: { podIPs: [{ ip: 10.0.1.10 }] }\n";
    check(&(baseline(&["Accept"]) + app), &[], &["b/web > a/web 80"]);
}

#[test]
fn the_lowest_priority_comes_first_then_the_place_in_the_list() {
    let at = |name: &str, priority, actions: &[&str]| cluster_policy(name, "Admin", priority, &from_blue(actions));
    check(
        &(at("late", 1000, &["Deny"]) + &at("soon", 0, &["Accept"])),
        &["b/web > a/web 80"],
        &[],
    );
    check(
        &(at("a-late", 1000, &["Accept"]) + &at("soon", 999, &["Deny"])),
        &[],
        &["b/web > a/web 80"],
    );
    check(&at("p", 5, &["Accept", "Deny"]), &["b/web > a/web 80"], &[]);
    check(&at("p", 5, &["Deny", "Accept"]), &[], &["b/web > a/web 80"]);
    // Pass skips the rest of the tier, in other policies too.
    check(
        &(at("first", 1, &["Pass"]) + &at("second", 2, &["Deny"])),
        &["b/web > a/web 80"],
        &[],
    );
}

#[test]
fn a_baseline_admin_network_policy_comes_after_all_others_of_its_tier() {
    let banp = format!(
        "---\nkind: BaselineAdminNetworkPolicy\nmetadata: {{ name: default }}\nspec: {{ subject: {{ namespaces: {{}} }}, ingress: [{{ action: Deny, {FROM_BLUE} }}] }}\n"
    );
    check(&banp, &[], &["b/web > a/web 80"]);
    let last = cluster_policy("p", "Baseline", 1000, &from_blue(&["Accept"]));
    check(&(banp + &last), &["b/web > a/web 80"], &["b/web > c/plain 80"]);
}

#[test]
fn security_groups_come_before_all() {
    let member = "---\nkind: Pod\nmetadata: { name: web, namespace: a, labels: { netloom.io/security-group: web } }\nspec: { nodeName: node1 }\nstatus: { podIPs: [{ ip: 10.0.1.10 }] }\n\
                  ---\nkind: SecurityGroup\nmetadata: { name: web, namespace: a }\nspec: { rules: [{ direction: Ingress, protocol: TCP, port: 80 }] }\n";
    let admin = |action| member.to_owned() + &cluster_policy("p", "Admin", 5, &from_blue(&[action]));
    check(&admin("Accept"), &["b/web > a/web 80"], &["b/web > a/web 81", "a/web > b/web 80"]);
    check(&admin("Deny"), &["a/db > a/web 80"], &["b/web > a/web 80"]);
}

#[test]
fn isolation_of_namespaces_comes_before_all() {
    let admin = super::annotated("netloom.io/isolation: pods") + &cluster_policy("p", "Admin", 5, &from_blue(&["Accept"]));
    check(&admin, &[], &["b/web > a/web 80"]);
}

#[test]
fn the_deciding_rule_is_named() {
    let side = ingress(&cluster_policy("p", "Admin", 5, &from_blue(&["Deny"])), "b/web > a/web 80");
    let Decision::Denied { rule } = side.decision else {
        panic!("{side:?}")
    };
    assert_eq!(
        (rule.to_string().as_str(), rule.priority, rule.closed),
        ("ClusterNetworkPolicy p ingress[0] \"Deny-blue\"", 5, false)
    );
    let policies =
        cluster_policy("p", "Admin", 5, &from_blue(&["Pass"])) + &cluster_policy("q", "Baseline", 7, &from_blue(&["Pass", "Deny"]));
    let side = ingress(&policies, "b/web > a/web 80");
    assert_eq!(side.decision, Decision::NotIsolated);
    let passed: Vec<String> = side
        .passed
        .iter()
        .map(|step| match step {
            Step::Pass { rule } => rule.to_string(),
            Step::SecurityGroups { .. } => "a group".to_owned(),
        })
        .collect();
    assert_eq!(
        passed,
        [
            "ClusterNetworkPolicy p ingress[0] \"Pass-blue\"",
            "ClusterNetworkPolicy q ingress[0] \"Pass-blue\""
        ]
    );
}

#[test]
fn the_same_priority_is_told_where_it_matters() {
    let at = |name: &str, actions: &[&str]| cluster_policy(name, "Admin", 5, &from_blue(actions));
    let anp = "---\nkind: AdminNetworkPolicy\nmetadata: { name: a }\nspec: { priority: 5, subject: { namespaces: {} }, ingress: [{ action: Deny, from: [{ namespaces: {} }] }] }\n";
    let read = cluster(&(at("p", &["Accept"]) + &at("q", &["Deny"]) + &at("r", &["Accept"]) + anp));
    answers(&read, &["b/web > a/web 80"], &["a/db > a/web 80"]);
    let verdict = ask(&read, "b/web > a/web 80").unwrap();
    let note = |rival: &str| {
        format!(
            "{rival} says Deny with the same priority 5 as the rule that was taken: which of them holds is not defined; give one another priority"
        )
    };
    assert_eq!(
        verdict.notes,
        [
            note("AdminNetworkPolicy a ingress[0]"),
            note("ClusterNetworkPolicy q ingress[0] \"Deny-blue\"")
        ]
    );
    assert_eq!(verdict.flows[0].ingress.rivals.len(), 2);
    // Where they say the same, or are in other tiers, nothing is to be told.
    let read = cluster(&(at("p", &["Deny"]) + &at("q", &["Deny"]) + &cluster_policy("r", "Baseline", 5, &from_blue(&["Accept"]))));
    assert_eq!(ask(&read, "b/web > a/web 80").unwrap().notes, Vec::<String>::new());
}
