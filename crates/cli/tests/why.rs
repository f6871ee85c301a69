//! `netloom why` as a user sees it: on manifests without a cluster and without root, and on the Kubernetes API.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::io::Write as _;
use std::net::TcpListener;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::serde::de::DeserializeOwned;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams};
use kube::{Api, Client, Config};
use serde_json::{Value, json};

const SHOP: &str = "
kind: Deployment
metadata: { name: web, namespace: shop }
spec:
  replicas: 1
  selector: { matchLabels: { app: web } }
  template:
    metadata: { labels: { app: web } }
    spec: { containers: [{ name: web, ports: [{ name: http, containerPort: 8080 }] }] }
---
kind: StatefulSet
metadata: { name: db, namespace: shop }
spec:
  replicas: 2
  template:
    metadata: { labels: { app: db } }
    spec: { containers: [{ name: db, ports: [{ name: sql, containerPort: 5432 }] }] }
---
kind: Service
metadata: { name: db, namespace: shop }
spec: { selector: { app: db }, ports: [{ port: 5432, targetPort: sql }] }
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: { name: db, namespace: shop }
spec:
  podSelector: { matchLabels: { app: db } }
  ingress:
    - from: [{ podSelector: { matchLabels: { app: web } } }]
      ports: [{ port: sql }]
    - from: [{ ipBlock: { cidr: 10.0.0.0/8, except: [192.0.2.0/24] } }]
";

fn why(arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_netloom"))
        .arg("why")
        .args(arguments)
        .env_remove("KUBECONFIG")
        .env_remove("NETLOOM_DATABASES")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // It may have ended before it read anything.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn allowed_is_zero_and_names_the_rule() {
    let output = why(&["web-0", "svc/db", "-n", "shop", "-f", "-"], SHOP);
    assert_eq!(
        text(&output.stdout),
        "allowed: web-0 to svc/db\n  \
         backend pod shop/db-0, TCP 5432: allowed\n    \
         egress   allowed  no policy isolates pod shop/web-0 for egress\n    \
         ingress  allowed  by NetworkPolicy shop/db ingress[0]\n  \
         backend pod shop/db-1, TCP 5432: allowed\n    \
         egress   allowed  no policy isolates pod shop/web-0 for egress\n    \
         ingress  allowed  by NetworkPolicy shop/db ingress[0]\n\
         problem: NetworkPolicy shop/db: ingress[1].from[0]: except 192.0.2.0/24 is not within 10.0.0.0/8; name a part of it\n",
        "{}",
        text(&output.stderr)
    );
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn denied_is_one_and_says_why_no_rule_matches() {
    let output = why(&["198.51.100.7", "shop/db-0", "22", "-f", "-"], SHOP);
    assert_eq!(
        text(&output.stdout),
        "denied: address 198.51.100.7 to pod shop/db-0, TCP 22\n  \
         egress   allowed  policies do not apply to address 198.51.100.7\n  \
         ingress  denied   pod shop/db-0 is isolated by NetworkPolicy shop/db, and no rule matches\n                    \
         shop/db ingress[0]: address 198.51.100.7 is not in its \"from\", nor TCP 22 in its \"ports\"\n                    \
         shop/db ingress[1]: it has a mistake, so it allows nothing\n\
         problem: NetworkPolicy shop/db: ingress[1].from[0]: except 192.0.2.0/24 is not within 10.0.0.0/8; name a part of it\n"
    );
    assert_eq!(output.status.code(), Some(1));
}

/// More of the cluster: isolation, groups, and policies of the whole cluster.
const CLUSTER: &str = "
---
kind: Namespace
metadata: { name: blue, labels: { team: blue }, annotations: { opencontrail.kubernetes.isolated: 'true' } }
---
kind: Pod
metadata: { name: web-0, namespace: blue, annotations: { netloom.io/security-groups: web } }
---
kind: SecurityGroup
metadata: { name: web, namespace: blue }
spec: { rules: [{ direction: Egress }] }
---
kind: AdminNetworkPolicy
metadata: { name: guard }
spec:
  priority: 10
  subject: { namespaces: {} }
  ingress:
    - { action: Deny, from: [{ namespaces: { matchLabels: { team: red } } }] }
    - { name: blue, action: Pass, from: [{ namespaces: { matchLabels: { team: blue } } }] }
---
kind: BaselineAdminNetworkPolicy
metadata: { name: default }
spec: { subject: { namespaces: {} }, ingress: [{ action: Deny, from: [{ namespaces: {} }] }] }
";

#[test]
fn manifests_of_all_kinds_count() {
    let all = SHOP.to_owned() + CLUSTER;
    let output = why(&["blue/web-0", "shop/web-0", "8080", "-f", "-"], &all);
    assert_eq!(
        text(&output.stdout),
        "denied: pod blue/web-0 to pod shop/web-0, TCP 8080\n  \
         egress   allowed  SecurityGroup blue/web rules[0] lets it pass; no policy isolates pod blue/web-0 for egress\n  \
         ingress  denied   AdminNetworkPolicy guard ingress[1] \"blue\" passes it on; by BaselineAdminNetworkPolicy default ingress[0]\n",
        "{}",
        text(&output.stderr)
    );
    let output = why(&["shop/web-0", "blue/web-0", "8080", "-f", "-"], &all);
    assert_eq!(
        text(&output.stdout),
        "denied: pod shop/web-0 to pod blue/web-0, TCP 8080\n  \
         isolated denied   namespace blue is isolated: pods of other namespaces reach its pods through services only, if at all\n  \
         egress   allowed  no policy isolates pod shop/web-0 for egress\n  \
         ingress  denied   pod blue/web-0 is in SecurityGroup blue/web, and no rule matches\n",
        "{}",
        text(&output.stderr)
    );
    assert_eq!(output.status.code(), Some(1));
}

const NETWORK: &str = "
---
apiVersion: netloom.io/v1alpha1
kind: Network
metadata: { name: tenants }
spec: { subnets: [192.168.10.0/24], isolated: true }
---
kind: Pod
metadata: { name: tenant-0, namespace: shop, annotations: { netloom.io/network: tenants } }
---
kind: Pod
metadata: { name: lost-0, namespace: shop, annotations: { netloom.io/network: tenant } }
";

#[test]
fn an_isolated_network_keeps_others_out() {
    let all = SHOP.to_owned() + NETWORK;
    let output = why(&["shop/web-0", "shop/tenant-0", "80", "-f", "-"], &all);
    assert_eq!(
        text(&output.stdout),
        "denied: pod shop/web-0 to pod shop/tenant-0, TCP 80\n  \
         isolated denied   network tenants is isolated: pods that are not on it reach pods on it through services only\n  \
         egress   allowed  no policy isolates pod shop/web-0 for egress\n  \
         ingress  allowed  no policy isolates pod shop/tenant-0 for ingress\n",
        "{}",
        text(&output.stderr)
    );
    assert_eq!(output.status.code(), Some(1));
    let output = why(&["shop/web-0", "shop/lost-0", "80", "-f", "-"], &all);
    assert_eq!(
        text(&output.stderr),
        "cannot tell: pod shop/lost-0 is on no network, so it neither sends nor receives: there is no Network \"tenant\"; create it or correct the \
         name\n"
    );
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn machines_read_json() {
    let output = why(
        &["shop/web-0", "shop/db-0", "sql", "--protocol", "tcp", "-o", "json", "-f", "-"],
        SHOP,
    );
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let verdict: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(verdict["allowed"], true);
    let flow = &verdict["flows"][0];
    assert_eq!(
        flow["to"],
        json!({ "kind": "pod", "namespace": "shop", "name": "db-0", "addresses": [] })
    );
    assert_eq!((&flow["protocol"], &flow["port"]), (&json!("TCP"), &json!(5432)));
    assert_eq!(
        flow["ingress"],
        json!({
            "reason": "rules",
            "rules": [{ "policy": { "namespace": "shop", "name": "db" }, "direction": "ingress", "index": 0 }]
        })
    );
    let output = why(
        &["web-0", "db-0", "22", "--protocol", "UDP", "-o", "json", "-n", "shop", "-f", "-"],
        SHOP,
    );
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn what_cannot_be_told_is_two_and_helps() {
    for (arguments, message) in [
        (
            ["web-0", "shop/db-0", "80"],
            "there is no pod default/web-0; namespace default has no pods; is the namespace right (-n)?",
        ),
        (
            ["shop/web-1", "shop/db-0", "80"],
            "there is no pod shop/web-1; pods of namespace shop: db-0, db-1, web-0",
        ),
        (
            ["shop/web-0", "svc/shop/db", "80"],
            "service shop/db has no port TCP 80; it has: TCP 5432",
        ),
        (
            ["shop/web-0", "shop/db-0", "http"],
            "TO has no port called \"http\"; it has: TCP 5432 sql",
        ),
        (
            ["svc/web", "shop/db-0", "80"],
            "service default/web sends nothing; name a pod, a node or an address as FROM",
        ),
    ] {
        let output = why(&[&arguments[..], &["-f", "-"]].concat(), SHOP);
        assert_eq!(text(&output.stderr), format!("cannot tell: {message}\n"));
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0));
    }
    let output = why(&["a", "b", "80", "-f", "/nowhere.yaml"], "");
    assert_eq!(
        text(&output.stderr),
        "cannot tell: read /nowhere.yaml: No such file or directory (os error 2)\n"
    );
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn without_manifests_the_api_is_asked() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let url = netloom_apiserver::server_url(address, "secret");
    let stop = tokio_util::sync::CancellationToken::new();
    let server = runtime.spawn(netloom_apiserver::run(netloom_apiserver::Options {
        listeners: vec![listener],
        data: folder.path().join("data"),
        token: "secret".to_owned(),
        service_cidrs: vec!["10.96.0.0/16".parse().unwrap()],
        advertise: vec![address],
        kubelet: Arc::new(netloom_apiserver::NoKubelet),
        stop: stop.clone(),
    }));
    runtime.block_on(async {
        let client = Client::try_from(Config::new(url.parse().unwrap())).unwrap();
        for (name, ip) in [("web", "10.244.0.5"), ("db", "10.244.0.6")] {
            let spec = json!({ "nodeName": "node1", "containers": [{ "name": "c", "image": "any" }] });
            create::<Pod>(
                &client,
                json!({ "metadata": { "name": name, "labels": { "app": name } }, "spec": spec }),
            )
            .await;
            let status = json!({ "status": { "phase": "Running", "podIP": ip, "podIPs": [{ "ip": ip }] } });
            let pods: Api<Pod> = Api::default_namespaced(client.clone());
            pods.patch_status(name, &PatchParams::default(), &Patch::Merge(status))
                .await
                .unwrap();
        }
        let block = json!({ "ipBlock": { "cidr": "10.244.0.5/32" } });
        let spec =
            json!({ "podSelector": { "matchLabels": { "app": "db" } }, "ingress": [{ "from": [block], "ports": [{ "port": 5432 }] }] });
        create::<NetworkPolicy>(&client, json!({ "metadata": { "name": "db" }, "spec": spec })).await;
    });

    let kubeconfig = folder.path().join("kubeconfig");
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "x",
        "clusters": [{ "name": "x", "cluster": { "server": url } }],
        "users": [{ "name": "x", "user": {} }],
        "contexts": [{ "name": "x", "context": { "cluster": "x", "user": "x" } }],
    });
    std::fs::write(&kubeconfig, config.to_string()).unwrap();
    let kubeconfig = kubeconfig.to_str().unwrap();
    let output = why(&["web", "db", "5432", "--kubeconfig", kubeconfig], "");
    assert_eq!(
        text(&output.stdout),
        "allowed: pod default/web to pod default/db, TCP 5432\n  \
         egress   allowed  no policy isolates pod default/web for egress\n  \
         ingress  allowed  by NetworkPolicy default/db ingress[0]\n\
         note: not compared with ovn-trace: the Southbound database cannot be reached: this is not a lab, and no pod of the databases was \
         found\n",
        "{}",
        text(&output.stderr)
    );
    assert_eq!(output.status.code(), Some(0));
    // Kinds that this API server does not have are none; one that it has counts.
    runtime.block_on(admin_policy(url.as_ref()));
    let output = why(&["web", "db", "5432", "--no-trace", "--kubeconfig", kubeconfig], "");
    assert_eq!(
        text(&output.stdout),
        "denied: pod default/web to pod default/db, TCP 5432\n  \
         egress   allowed  no policy isolates pod default/web for egress\n  \
         ingress  denied   by AdminNetworkPolicy lock ingress[0] \"everybody\"\n",
        "{}",
        text(&output.stderr)
    );
    let output = why(&["web", "db", "5433", "--kubeconfig", kubeconfig], "");
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));

    stop.cancel();
    runtime.block_on(server).unwrap().unwrap();
    let output = why(&["web", "db", "5432", "--kubeconfig", kubeconfig], "");
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).starts_with("cannot tell: list "), "{}", text(&output.stderr));
}

/// Defines the kind AdminNetworkPolicy as its project does, as far as it matters here, and creates one.
async fn admin_policy(url: &str) {
    let client = Client::try_from(Config::new(url.parse().unwrap())).unwrap();
    let schema = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let definition = json!({
        "metadata": { "name": "adminnetworkpolicies.policy.networking.k8s.io" },
        "spec": {
            "group": "policy.networking.k8s.io",
            "scope": "Cluster",
            "names": { "kind": "AdminNetworkPolicy", "listKind": "AdminNetworkPolicyList", "plural": "adminnetworkpolicies", "singular": "adminnetworkpolicy" },
            "versions": [{ "name": "v1alpha1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema } }],
        },
    });
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    definitions
        .create(&PostParams::default(), &serde_json::from_value(definition).unwrap())
        .await
        .unwrap();
    let named = kube::runtime::wait::conditions::is_crd_established();
    kube::runtime::wait::await_condition(definitions, "adminnetworkpolicies.policy.networking.k8s.io", named)
        .await
        .unwrap();
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("policy.networking.k8s.io", "v1alpha1", "AdminNetworkPolicy"));
    let policies: Api<DynamicObject> = Api::all_with(client, &resource);
    let rule = json!({ "name": "everybody", "action": "Deny", "from": [{ "namespaces": {} }] });
    let policy = json!({
        "apiVersion": "policy.networking.k8s.io/v1alpha1",
        "kind": "AdminNetworkPolicy",
        "metadata": { "name": "lock" },
        "spec": { "priority": 7, "subject": { "namespaces": {} }, "ingress": [rule] },
    });
    policies
        .create(&PostParams::default(), &serde_json::from_value(policy).unwrap())
        .await
        .unwrap();
}

async fn create<K>(client: &Client, object: Value)
where
    K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
        + Clone
        + DeserializeOwned
        + serde::Serialize
        + std::fmt::Debug,
{
    let object: K = serde_json::from_value(object).unwrap();
    let api: Api<K> = Api::default_namespaced(client.clone());
    api.create(&PostParams::default(), &object).await.unwrap();
}
