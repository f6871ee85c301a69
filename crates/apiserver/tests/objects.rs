//! What people do to single objects with kubectl.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use support::Lab;
use tokio::io::{AsyncBufReadExt, BufReader};

const DEPLOYMENT: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: web, image: 'nginx:1', ports: [{containerPort: 80, name: http}], env: [{name: A, value: a}, {name: B, value: b}]}
";

#[tokio::test]
async fn apply_creates_changes_and_leaves_alone() {
    let lab = Lab::start().await;
    let path = lab.manifest("web.yaml", DEPLOYMENT);
    assert_eq!(lab.kubectl(&["apply", "-f", &path]).await, "deployment.apps/web created\n");
    assert_eq!(lab.kubectl(&["apply", "-f", &path]).await, "deployment.apps/web unchanged\n");
    // One environment variable goes, the image changes, the other variable stays: strategic merge patch at work.
    lab.manifest(
        "web.yaml",
        &DEPLOYMENT.replace("nginx:1", "nginx:2").replace(", {name: B, value: b}", ""),
    );
    assert_eq!(lab.kubectl(&["apply", "-f", &path]).await, "deployment.apps/web configured\n");
    let template =
        "jsonpath={.spec.template.spec.containers[0].image} {.spec.template.spec.containers[0].env[*].name} {.metadata.generation}";
    assert_eq!(lab.kubectl(&["get", "deploy", "web", "-o", template]).await, "nginx:2 A 2");
    assert!(lab.kubectl(&["diff", "-f", &path]).await.is_empty());
}

#[tokio::test]
async fn server_side_apply_owns_fields() {
    let lab = Lab::start().await;
    let path = lab.manifest(
        "a.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {x: '1', y: '2'}\n",
    );
    assert_eq!(
        lab.kubectl(&["apply", "--server-side", "-f", &path]).await,
        "configmap/a serverside-applied\n"
    );
    lab.manifest("a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {x: '3'}\n");
    lab.kubectl(&["apply", "--server-side", "-f", &path]).await;
    assert_eq!(lab.kubectl(&["get", "cm", "a", "-o", "jsonpath={.data}"]).await, r#"{"x":"3"}"#);

    lab.manifest(
        "a.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {x: '4', z: '1'}\n",
    );
    let refusal = lab.refused(&["apply", "--server-side", "--field-manager=other", "-f", &path]).await;
    assert!(refusal.contains(r#"conflict with "kubectl": .data.x"#), "{refusal}");
    lab.kubectl(&["apply", "--server-side", "--field-manager=other", "--force-conflicts", "-f", &path])
        .await;
    assert_eq!(
        lab.kubectl(&["get", "cm", "a", "-o", "jsonpath={.data}"]).await,
        r#"{"x":"4","z":"1"}"#
    );
    let managers = lab
        .kubectl(&[
            "get",
            "cm",
            "a",
            "--show-managed-fields",
            "-o",
            "jsonpath={.metadata.managedFields[*].manager}",
        ])
        .await;
    assert_eq!(managers, "other");
}

#[tokio::test]
async fn patches_of_every_type() {
    let lab = Lab::start().await;
    let path = lab.manifest("web.yaml", DEPLOYMENT);
    lab.kubectl(&["create", "-f", &path]).await;
    let strategic = r#"{"spec":{"template":{"spec":{"containers":[{"name":"web","image":"nginx:3"},{"name":"side","image":"s"}]}}}}"#;
    lab.kubectl(&["patch", "deploy", "web", "-p", strategic]).await;
    let images = "jsonpath={.spec.template.spec.containers[*].image}";
    assert_eq!(lab.kubectl(&["get", "deploy", "web", "-o", images]).await, "nginx:3 s");
    let delete = r#"{"spec":{"template":{"spec":{"containers":[{"name":"side","$patch":"delete"}]}}}}"#;
    lab.kubectl(&["patch", "deploy", "web", "-p", delete]).await;
    assert_eq!(lab.kubectl(&["get", "deploy", "web", "-o", images]).await, "nginx:3");
    lab.kubectl(&[
        "patch",
        "deploy",
        "web",
        "--type=merge",
        "-p",
        r#"{"metadata":{"labels":{"app":null,"tier":"front"}}}"#,
    ])
    .await;
    assert_eq!(
        lab.kubectl(&["get", "deploy", "web", "-o", "jsonpath={.metadata.labels}"]).await,
        r#"{"tier":"front"}"#
    );
    lab.kubectl(&[
        "patch",
        "deploy",
        "web",
        "--type=json",
        "-p",
        r#"[{"op":"replace","path":"/spec/replicas","value":5}]"#,
    ])
    .await;
    assert_eq!(lab.kubectl(&["get", "deploy", "web", "-o", "jsonpath={.spec.replicas}"]).await, "5");
    let refusal = lab
        .refused(&[
            "patch",
            "deploy",
            "web",
            "--type=json",
            "-p",
            r#"[{"op":"test","path":"/spec/replicas","value":1}]"#,
        ])
        .await;
    assert!(refusal.contains("rejected our request"), "{refusal}");

    lab.kubectl(&["label", "deploy", "web", "color=blue"]).await;
    lab.kubectl(&["annotate", "deploy", "web", "note=hello"]).await;
    lab.kubectl(&["set", "image", "deploy/web", "web=nginx:4"]).await;
    assert!(
        lab.kubectl(&["get", "deploy", "-l", "color in (blue,red),tier", "-o", "name"])
            .await
            .contains("web")
    );
    assert!(
        lab.kubectl(&["get", "deploy", "-l", "color!=blue"])
            .await
            .contains("No resources found")
    );
}

#[tokio::test]
async fn refusals_say_what_people_know() {
    let lab = Lab::start().await;
    let refused = async |manifest: &str| {
        let path = lab.manifest("bad.yaml", manifest);
        lab.refused(&["create", "-f", &path]).await
    };
    assert_eq!(
        lab.refused(&["get", "pod", "nope"]).await,
        "Error from server (NotFound): pods \"nope\" not found\n"
    );
    assert_eq!(
        lab.refused(&["get", "deploy", "nope"]).await,
        "Error from server (NotFound): deployments.apps \"nope\" not found\n"
    );
    let text = refused("apiVersion: v1\nkind: Pod\nmetadata: {name: Bad_Name}\nspec: {containers: [{image: x}]}\n").await;
    assert!(text.contains("The Pod \"Bad_Name\" is invalid"), "{text}");
    assert!(text.contains("spec.containers[0].name: Required value"), "{text}");
    assert!(
        text.contains("metadata.name: Invalid value: \"Bad_Name\": a lowercase RFC 1123 subdomain"),
        "{text}"
    );
    let text =
        refused("apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, ports: [{containerPort: eighty}]}]}\n")
            .await;
    assert!(
        text.contains("cannot unmarshal string into field spec.containers[0].ports[0].containerPort of type integer"),
        "{text}"
    );
    let text = refused("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: nowhere}\n").await;
    assert!(text.contains("namespaces \"nowhere\" not found"), "{text}");
    let path = lab.manifest("a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n");
    lab.kubectl(&["create", "-f", &path]).await;
    assert!(
        lab.refused(&["create", "-f", &path])
            .await
            .contains("configmaps \"a\" already exists")
    );
    let stale = lab.manifest(
        "stale.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, resourceVersion: '1'}\n",
    );
    let text = lab.refused(&["replace", "-f", &stale]).await;
    assert!(
        text.contains("(Conflict)") && text.contains("the object has been modified; please apply your changes to the latest version"),
        "{text}"
    );
    let pod = lab.manifest(
        "p.yaml",
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, image: a}]}\n",
    );
    lab.kubectl(&["create", "-f", &pod]).await;
    lab.kubectl(&["set", "image", "pod/p", "c=b"]).await;
    let text = lab.refused(&["patch", "pod", "p", "-p", r#"{"spec":{"hostNetwork":true}}"#]).await;
    assert!(text.contains("pod updates may not change fields other than"), "{text}");
    let text = refused("apiVersion: v1\nkind: Pod\nmetadata: {name: q}\nspec: {containers: [{name: c, imag: x}]}\n").await;
    assert!(
        text.contains("strict decoding error: unknown field \"spec.containers[0].imag\""),
        "{text}"
    );
}

#[tokio::test]
async fn finalizers_dry_run_and_namespaces() {
    let lab = Lab::start().await;
    let path = lab.manifest(
        "a.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, finalizers: [example.com/hold]}\n",
    );
    assert_eq!(
        lab.kubectl(&["create", "--dry-run=server", "-f", &path]).await,
        "configmap/a created (server dry run)\n"
    );
    lab.refused(&["get", "cm", "a"]).await;
    lab.kubectl(&["create", "-f", &path]).await;
    lab.kubectl(&["delete", "cm", "a", "--wait=false"]).await;
    assert!(
        !lab.kubectl(&["get", "cm", "a", "-o", "jsonpath={.metadata.deletionTimestamp}"])
            .await
            .is_empty()
    );
    lab.kubectl(&["patch", "cm", "a", "--type=merge", "-p", r#"{"metadata":{"finalizers":null}}"#])
        .await;
    lab.refused(&["get", "cm", "a"]).await;

    lab.kubectl(&["create", "namespace", "team"]).await;
    lab.kubectl(&["create", "configmap", "b", "-n", "team", "--from-literal=x=y"]).await;
    lab.kubectl(&["wait", "--for=create", "serviceaccount/default", "-n", "team", "--timeout=10s"])
        .await;
    lab.kubectl(&["delete", "namespace", "team", "--timeout=20s"]).await;
    lab.refused(&["get", "cm", "b", "-n", "team"]).await;
    assert!(
        lab.refused(&["delete", "namespace", "default"])
            .await
            .contains("may not be deleted")
    );
}

#[tokio::test]
async fn discovery_explain_and_columns() {
    let lab = Lab::start().await;
    let resources = lab.kubectl(&["api-resources"]).await;
    let of_policies = ["networkpolicies", "netpol", "networking.k8s.io/v1", "true", "NetworkPolicy"];
    let lists = |line: &str| line.split_whitespace().eq(of_policies);
    assert!(resources.lines().any(lists), "{resources}");
    let text = lab.kubectl(&["explain", "pod.spec.containers.ports"]).await;
    assert!(
        text.contains("FIELD: ports <[]ContainerPort>") && text.contains("Number of port to expose on the pod's IP address"),
        "{text}"
    );
    lab.node("node1").await;
    let wide = lab.kubectl(&["get", "nodes", "-o", "wide"]).await;
    assert!(wide.starts_with("NAME    STATUS   ROLES    AGE"), "{wide}");
    assert!(wide.contains("172.30.0.2"), "{wide}");
    assert!(lab.kubectl(&["describe", "node", "node1"]).await.contains("Non-terminated Pods"));
    assert!(lab.kubectl(&["get", "svc", "-o", "yaml"]).await.contains("clusterIP: 10.96.0.1"));
    assert!(lab.kubectl(&["version"]).await.contains("Server Version: v1.32"));
}

#[tokio::test]
async fn services_get_addresses() {
    let lab = Lab::start().await;
    let manifest = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {type: NodePort, ipFamilyPolicy: RequireDualStack, selector: {app: web}, ports: [{port: 80}]}\n";
    let path = lab.manifest("svc.yaml", manifest);
    lab.kubectl(&["apply", "-f", &path]).await;
    let fields = "jsonpath={.spec.clusterIPs} {.spec.ipFamilies} {.spec.ports[0].nodePort} {.spec.ports[0].targetPort} {.spec.internalTrafficPolicy}";
    let text = lab.kubectl(&["get", "svc", "web", "-o", fields]).await;
    assert_eq!(text, r#"["10.96.0.2","fd00:10:96::2"] ["IPv4","IPv6"] 30000 80 Cluster"#);
    lab.manifest("svc.yaml", &manifest.replace("port: 80", "port: 81"));
    lab.kubectl(&["apply", "-f", &path]).await;
    let text = lab
        .kubectl(&["get", "svc", "web", "-o", "jsonpath={.spec.clusterIP} {.spec.ports[*].port}"])
        .await;
    assert_eq!(text, "10.96.0.2 81");
    let clash = lab.manifest(
        "clash.yaml",
        "apiVersion: v1\nkind: Service\nmetadata: {name: b}\nspec: {clusterIP: 10.96.0.2, ports: [{port: 80}]}\n",
    );
    assert!(
        lab.refused(&["create", "-f", &clash])
            .await
            .contains("provided IP is already allocated")
    );
}

#[tokio::test]
async fn get_watch_prints_changes_as_they_happen() {
    let lab = Lab::start().await;
    lab.kubectl(&["create", "configmap", "first"]).await;
    let mut command = tokio::process::Command::from(lab.command(&["get", "configmap", "first", "--watch"]));
    let mut child = command.stdout(std::process::Stdio::piped()).kill_on_drop(true).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.next_line().await.unwrap().unwrap().starts_with("NAME    DATA   AGE"));
    assert!(lines.next_line().await.unwrap().unwrap().starts_with("first   0"));
    lab.kubectl(&["patch", "configmap", "first", "-p", r#"{"data":{"x":"y"}}"#]).await;
    assert!(lines.next_line().await.unwrap().unwrap().starts_with("first   1"));
    child.kill().await.unwrap();
}
