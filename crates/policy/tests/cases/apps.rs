//! App networks: labels on pods and on services.

use super::{answers, ask, check, cluster, policy, told};

/// Pods `a/one` and `a/two` with these labels; `b/one` with those of `a/one`.
fn pods(one: &str, two: &str) -> String {
    let pod = |namespace: &str, name: &str, labels: &str, ip: &str| {
        format!(
            "---\nkind: Pod\nmetadata: {{ name: {name}, namespace: {namespace}, labels: {{ {labels} }} }}\nspec: {{ nodeName: node1 }}\nstatus: {{ podIPs: [{{ ip: {ip} }}] }}\n"
        )
    };
    pod("a", "one", one, "10.0.1.21") + &pod("a", "two", two, "10.0.1.22") + &pod("b", "one", one, "10.0.1.23")
}

fn service(labels: &str, selector: &str) -> String {
    format!(
        "---\nkind: Service\nmetadata: {{ name: shop, namespace: a, labels: {{ {labels} }} }}\nspec: {{ clusterIPs: [10.96.0.5], selector: {{ {selector} }}, ports: [{{ port: 80 }}] }}\n"
    )
}

#[test]
fn a_pod_in_an_app_network_receives_from_its_fellows_only() {
    check(
        &pods("netloom.io/app: shop", "opencontrail.org/name: shop"),
        &[
            "a/two > a/one 80",
            "a/one > a/two 53 UDP",
            "node/node1 > a/one 80",
            "a/one > a/one 80",
        ],
        &[
            "a/web > a/one 80",
            "b/one > a/one 80",
            "node/node2 > a/one 80",
            "198.51.100.1 > a/one 80",
        ],
    );
}

#[test]
fn what_it_sends_is_not_restricted() {
    check(
        &pods("netloom.io/app: shop", "netloom.io/app: other"),
        &["a/one > a/web 80", "a/one > b/web 80", "a/one > 198.51.100.1 80"],
        &["a/one > a/two 80", "a/two > a/one 80", "a/one > b/one 80"],
    );
}

#[test]
fn policies_open_it() {
    let web = policy(
        "web",
        "{ podSelector: { matchLabels: { netloom.io/app: shop } }, ingress: [{ from: [{ podSelector: { matchLabels: { app: web } } }] }] }",
    );
    check(
        &(pods("netloom.io/app: shop", "netloom.io/app: shop") + &web),
        &["a/web > a/one 80", "a/two > a/one 80"],
        &["a/db > a/one 80"],
    );
    // One that is about egress alone opens nothing.
    let egress = policy("web", "{ podSelector: {}, policyTypes: [Egress], egress: [{}] }");
    check(
        &(pods("netloom.io/app: shop", "netloom.io/app: shop") + &egress),
        &["a/two > a/one 80"],
        &["a/db > a/one 80"],
    );
}

#[test]
fn a_labelled_service_adds_the_pods_it_selects() {
    check(
        &(pods("x: 'y'", "netloom.io/app: shop") + &service("netloom.io/app: shop", "x: 'y'")),
        &["a/one > a/two 80", "a/two > a/one 80", "a/two > svc/a/shop 80", "b/one > b/web 80"],
        &["a/web > a/one 80", "a/web > svc/a/shop 80", "b/one > a/two 80"],
    );
    // In addition to their own.
    check(
        &(pods("x: 'y', netloom.io/app: own", "netloom.io/app: shop") + &service("opencontrail.org/name: shop", "x: 'y'")),
        &["a/one > a/two 80", "a/two > a/one 80"],
        &["a/web > a/one 80"],
    );
    // Without a selector it selects nobody.
    check(
        &(pods("x: 'y'", "z: 'y'") + &service("netloom.io/app: shop", "")),
        &["a/web > a/one 80"],
        &[],
    );
}

#[test]
fn labels_that_contradict_each_other_isolate_and_open_nothing() {
    let read = cluster(&pods("netloom.io/app: shop, opencontrail.org/name: mart", "netloom.io/app: shop"));
    answers(
        &read,
        &["a/one > a/web 80", "node/node1 > a/one 80"],
        &["a/two > a/one 80", "a/one > a/two 80", "a/web > a/one 80"],
    );
    let message = |name: &str| {
        format!(
            "ConflictingApp Pod {name}: label netloom.io/app: is \"shop\", but opencontrail.org/name is \"mart\", so it is isolated and in no \
             app's network; remove one of them"
        )
    };
    assert_eq!(told(&read), [message("a/one"), message("b/one")]);
    assert_eq!(ask(&read, "a/two > a/one 80").unwrap().problems.len(), 1);
    // The same of a service adds nobody.
    let labels = "netloom.io/app: shop, opencontrail.org/name: mart";
    let read = cluster(&(pods("x: 'y'", "netloom.io/app: shop") + &service(labels, "x: 'y'")));
    answers(&read, &["a/web > a/one 80"], &["a/one > a/two 80"]);
    assert_eq!(
        told(&read),
        [
            "ConflictingApp Service a/shop: label netloom.io/app: is \"shop\", but opencontrail.org/name is \"mart\", so they put its pods in no \
          app's network; remove one of them"
        ]
    );
}

#[test]
fn pods_in_the_network_of_their_node_are_in_none() {
    let host = "---\nkind: Pod\nmetadata: { name: one, namespace: c, labels: { netloom.io/app: shop } }\nspec: { nodeName: node1, hostNetwork: true }\n";
    check(host, &["b/web > c/one 80", "c/one > c/plain 80"], &[]);
}
