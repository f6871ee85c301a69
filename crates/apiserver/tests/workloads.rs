//! Deployments, DaemonSets, the scheduler and EndpointSlices, with the test in the place of the kubelets.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, Patch, PatchParams},
    runtime::{WatchStreamExt, watcher},
};
use serde_json::json;
use support::Lab;

/// Runs every pod that has a node: ready at once, and gone when asked.
async fn play_kubelets(client: kube::Client) {
    let pods: Api<Pod> = Api::all(client.clone());
    let mut changes = std::pin::pin!(watcher(pods, watcher::Config::default()).applied_objects());
    let mut count = 0;
    while let Some(Ok(pod)) = changes.next().await {
        let api: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace().unwrap());
        let placed = pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
        let ready = pod.status.as_ref().is_some_and(|status| status.phase.as_deref() == Some("Running"));
        if pod.metadata.deletion_timestamp.is_some() {
            let _ = api.delete(&pod.name_any(), &DeleteParams::default().grace_period(0)).await;
        } else if placed && !ready {
            count += 1;
            let name = &pod.spec.as_ref().unwrap().containers[0].name;
            let image = &pod.spec.as_ref().unwrap().containers[0].image;
            let status = json!({ "status": {
                "phase": "Running", "podIP": format!("10.244.0.{count}"),
                "podIPs": [{ "ip": format!("10.244.0.{count}") }, { "ip": format!("fd00::{count}") }],
                "conditions": [{ "type": "Ready", "status": "True" }],
                "containerStatuses": [{ "name": name, "ready": true, "restartCount": 0, "image": image, "imageID": "", "state": { "running": {} } }],
            }});
            let _ = api
                .patch_status(&pod.name_any(), &PatchParams::default(), &Patch::Strategic(status))
                .await;
        }
    }
}

const MANIFEST: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 4
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: 'nginx:1', ports: [{containerPort: 8080, name: http}]}]}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {ipFamilyPolicy: PreferDualStack, selector: {app: web}, ports: [{port: 80, targetPort: http}]}
";

#[tokio::test]
async fn a_deployment_rolls_out_scales_and_rolls_back() {
    let lab = Lab::start().await;
    lab.node("node1").await;
    lab.node("node2").await;
    let kubelets = tokio::spawn(play_kubelets(lab.client()));
    let path = lab.manifest("web.yaml", MANIFEST);
    lab.kubectl(&["apply", "-f", &path]).await;
    let text = lab.kubectl(&["rollout", "status", "deploy/web", "--timeout=30s"]).await;
    assert!(text.contains("deployment \"web\" successfully rolled out"), "{text}");
    let pods = lab.kubectl(&["get", "pods", "-o", "wide"]).await;
    assert_eq!(pods.matches("node1").count(), 2, "{pods}");
    assert!(pods.contains("1/1     Running   0"), "{pods}");

    lab.kubectl(&[
        "wait",
        "--for=jsonpath={.endpoints[3].conditions.ready}=true",
        "endpointslice",
        "-l",
        "kubernetes.io/service-name=web",
        "--timeout=20s",
    ])
    .await;
    let slices = "jsonpath={range .items[*]}{.addressType} {.ports[0].port} {.endpoints[*].nodeName}{'\\n'}{end}";
    let text = lab
        .kubectl(&["get", "endpointslices", "-l", "kubernetes.io/service-name=web", "-o", slices])
        .await;
    assert!(text.contains("IPv4 8080") && text.contains("IPv6 8080"), "{text}");

    lab.manifest("web.yaml", &MANIFEST.replace("nginx:1", "nginx:2"));
    lab.kubectl(&["apply", "-f", &path]).await;
    lab.kubectl(&["rollout", "status", "deploy/web", "--timeout=30s"]).await;
    let images = lab
        .kubectl(&[
            "get",
            "pods",
            "-l",
            "app=web",
            "--field-selector=status.phase=Running",
            "-o",
            "jsonpath={.items[*].spec.containers[0].image}",
        ])
        .await;
    assert_eq!(images, "nginx:2 nginx:2 nginx:2 nginx:2");
    assert!(
        lab.kubectl(&["rollout", "history", "deploy/web"])
            .await
            .contains("2         <none>")
    );
    lab.kubectl(&["rollout", "undo", "deploy/web"]).await;
    lab.kubectl(&["rollout", "status", "deploy/web", "--timeout=30s"]).await;
    assert_eq!(
        lab.kubectl(&["get", "deploy", "web", "-o", "jsonpath={.spec.template.spec.containers[0].image}"])
            .await,
        "nginx:1"
    );

    lab.kubectl(&["scale", "deploy", "web", "--replicas=1"]).await;
    lab.kubectl(&["wait", "--for=jsonpath={.status.replicas}=1", "deploy/web", "--timeout=20s"])
        .await;
    assert!(
        lab.kubectl(&["describe", "deploy", "web"])
            .await
            .contains("1 desired | 1 updated | 1 total | 1 available")
    );
    // Deleting the Deployment takes its ReplicaSets and pods along.
    lab.kubectl(&["delete", "deploy", "web", "--cascade=foreground", "--timeout=20s"])
        .await;
    assert!(lab.kubectl(&["get", "rs,pods"]).await.contains("No resources found"));
    kubelets.abort();
}

#[tokio::test]
async fn daemon_sets_run_everywhere_and_pods_wait_for_nodes() {
    let lab = Lab::start().await;
    let kubelets = tokio::spawn(play_kubelets(lab.client()));
    lab.kubectl(&["run", "early", "--image=x"]).await;
    lab.kubectl(&["wait", "--for=condition=PodScheduled=false", "pod/early", "--timeout=20s"])
        .await;
    lab.kubectl(&[
        "wait",
        "--for=jsonpath={.reason}=FailedScheduling",
        "events",
        "--all",
        "--timeout=20s",
    ])
    .await;
    let text = lab.kubectl(&["describe", "pod", "early"]).await;
    assert!(text.contains("0/0 nodes are available"), "{text}");
    lab.node("node1").await;
    lab.kubectl(&["wait", "--for=condition=Ready", "pod/early", "--timeout=20s"]).await;

    lab.node("node2").await;
    lab.kubectl(&["cordon", "node2"]).await;
    let manifest = "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: agent}\nspec: {selector: {matchLabels: {app: agent}}, template: {metadata: {labels: {app: agent}}, spec: {containers: [{name: a, image: 'a:1'}]}}}\n";
    let path = lab.manifest("ds.yaml", manifest);
    lab.kubectl(&["apply", "-f", &path]).await;
    let text = lab.kubectl(&["rollout", "status", "ds/agent", "--timeout=20s"]).await;
    assert!(text.contains("successfully rolled out"), "{text}");
    lab.manifest("ds.yaml", &manifest.replace("a:1", "a:2"));
    lab.kubectl(&["apply", "-f", &path]).await;
    lab.kubectl(&["rollout", "status", "ds/agent", "--timeout=20s"]).await;
    let images = lab
        .kubectl(&[
            "get",
            "pods",
            "-l",
            "app=agent",
            "-o",
            "jsonpath={.items[*].spec.containers[0].image}",
        ])
        .await;
    assert_eq!(images, "a:2 a:2");
    assert!(lab.kubectl(&["get", "nodes"]).await.contains("Ready,SchedulingDisabled"));
    assert!(
        lab.kubectl(&["get", "events"])
            .await
            .contains("Successfully assigned default/early to node1")
    );
    kubelets.abort();
}

#[tokio::test]
async fn a_pod_on_a_node_waits_for_its_kubelet() {
    let lab = Lab::start().await;
    lab.node("node1").await;
    lab.kubectl(&["run", "p", "--image=x"]).await;
    lab.kubectl(&["wait", "--for=condition=PodScheduled", "pod/p", "--timeout=20s"])
        .await;
    lab.kubectl(&["delete", "pod", "p", "--wait=false"]).await;
    assert!(lab.kubectl(&["get", "pod", "p"]).await.contains("Terminating"));
    lab.kubectl(&["delete", "pod", "p", "--grace-period=0", "--force"]).await;
    lab.refused(&["get", "pod", "p"]).await;
}
