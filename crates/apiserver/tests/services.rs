//! Services as people make and change them: what is given, what is refused, and where their traffic is meant to go.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use support::Lab;

fn service(spec: &str) -> String {
    format!("apiVersion: v1\nkind: Service\nmetadata: {{name: web}}\nspec: {spec}\n")
}

async fn field(lab: &Lab, path: &str) -> String {
    lab.kubectl(&["get", "svc", "web", "-o", &format!("jsonpath={path}")]).await
}

#[tokio::test]
async fn mistakes_are_named_field_by_field() {
    let lab = Lab::start().await;
    let taken = lab.manifest(
        "taken.yaml",
        "apiVersion: v1\nkind: Service\nmetadata: {name: taken}\nspec: {type: NodePort, clusterIP: 10.96.0.7, ports: [{port: 80, nodePort: 30007}]}\n",
    );
    lab.kubectl(&["create", "-f", &taken]).await;
    for (spec, field, why) in [
        (
            "{clusterIP: 10.97.0.1, ports: [{port: 80}]}",
            "spec.clusterIPs[0]",
            "not in the valid range",
        ),
        (
            "{clusterIP: 10.96.0.7, ports: [{port: 80}]}",
            "spec.clusterIPs[0]",
            "already allocated",
        ),
        (
            "{clusterIP: nonsense, ports: [{port: 80}]}",
            "spec.clusterIPs[0]",
            "must be a valid IP address",
        ),
        (
            "{clusterIP: 'fd00:10:96::7', ipFamilies: [IPv4], ports: [{port: 80}]}",
            "spec.clusterIPs[0]",
            "expected an IPv4 value",
        ),
        (
            "{ports: [{port: 80, name: a}, {port: 80, name: b}]}",
            "spec.ports[1]",
            "Duplicate value",
        ),
        (
            "{ports: [{port: 80, name: a}, {port: 81, name: a}]}",
            "spec.ports[1].name",
            "Duplicate value: \"a\"",
        ),
        ("{ports: [{port: 80}, {port: 81, name: b}]}", "spec.ports[0].name", "Required value"),
        (
            "{ports: [{port: 80, targetPort: Not_A_Name}]}",
            "spec.ports[0].targetPort",
            "name of a container's port",
        ),
        (
            "{ports: [{port: 80, nodePort: 30001}]}",
            "spec.ports[0].nodePort",
            "may not be used when `type` is 'ClusterIP'",
        ),
        (
            "{type: NodePort, ports: [{port: 80, nodePort: 80}]}",
            "spec.ports[0].nodePort",
            "not in the valid range",
        ),
        (
            "{type: NodePort, ports: [{port: 80, nodePort: 30007}]}",
            "spec.ports[0].nodePort",
            "already allocated",
        ),
        (
            "{externalIPs: [1.2.3], ports: [{port: 80}]}",
            "spec.externalIPs[0]",
            "must be a valid IP address",
        ),
        (
            "{externalIPs: ['127.0.0.1'], ports: [{port: 80}]}",
            "spec.externalIPs[0]",
            "loopback",
        ),
        (
            "{type: LoadBalancer, loadBalancerSourceRanges: [10.0.0.0/33], ports: [{port: 80}]}",
            "spec.loadBalancerSourceRanges[0]",
            "must be a valid CIDR value",
        ),
        (
            "{loadBalancerClass: a/b, ports: [{port: 80}]}",
            "spec.loadBalancerClass",
            "may only be used when `type` is 'LoadBalancer'",
        ),
        (
            "{trafficDistribution: PreferFar, ports: [{port: 80}]}",
            "spec.trafficDistribution",
            "supported values: \"PreferClose\"",
        ),
        (
            "{ipFamilies: [IPv5], ports: [{port: 80}]}",
            "spec.ipFamilies[0]",
            "supported values: \"IPv4\", \"IPv6\"",
        ),
        (
            "{externalTrafficPolicy: Local, ports: [{port: 80}]}",
            "spec.externalTrafficPolicy",
            "externally-accessible",
        ),
        (
            "{healthCheckNodePort: 30009, ports: [{port: 80}]}",
            "spec.healthCheckNodePort",
            "may only be set when",
        ),
        (
            "{sessionAffinity: ClientIP, sessionAffinityConfig: {clientIP: {timeoutSeconds: 100000}}, ports: [{port: 80}]}",
            "spec.sessionAffinityConfig.clientIP.timeoutSeconds",
            "less than or equal to 86400",
        ),
        (
            "{type: NodePort, clusterIP: None, ports: [{port: 80}]}",
            "spec.clusterIPs[0]",
            "may not be set to 'None' for NodePort",
        ),
        ("{type: ExternalName}", "spec.externalName", "Required value"),
    ] {
        let path = lab.manifest("bad.yaml", &service(spec));
        let text = lab.refused(&["create", "-f", &path]).await;
        assert!(text.contains(field) && text.contains(why), "{spec} gave {text}");
    }
}

#[tokio::test]
async fn a_change_of_type_gives_and_takes_ports() {
    let lab = Lab::start().await;
    let spec = "{type: LoadBalancer, externalTrafficPolicy: Local, loadBalancerClass: example.com/lb, ports: [{name: a, port: 53, protocol: UDP}, {name: b, port: 53}]}";
    let path = lab.manifest("svc.yaml", &service(spec));
    lab.kubectl(&["create", "-f", &path]).await;
    // Both protocols of one port share a node port.
    assert_eq!(
        field(&lab, "{.spec.ports[*].nodePort} {.spec.healthCheckNodePort}").await,
        "30000 30000 32767"
    );
    let text = lab.kubectl(&["get", "svc", "web"]).await;
    assert!(text.contains("<pending>"), "{text}");
    let status = r#"{"status":{"loadBalancer":{"ingress":[{"ip":"203.0.113.80","ipMode":"VIP"}]}}}"#;
    lab.kubectl(&["patch", "svc", "web", "--subresource=status", "--type=merge", "-p", status])
        .await;
    let text = lab.kubectl(&["get", "svc", "web"]).await;
    assert!(
        text.contains("203.0.113.80") && text.contains("53:30000/UDP,53:30000/TCP"),
        "{text}"
    );

    let text = lab
        .refused(&["patch", "svc", "web", "-p", r#"{"spec":{"loadBalancerClass":"example.com/other"}}"#])
        .await;
    assert!(
        text.contains("spec.loadBalancerClass") && text.contains("may not change once set"),
        "{text}"
    );
    let text = lab
        .refused(&["patch", "svc", "web", "-p", r#"{"spec":{"healthCheckNodePort":30100}}"#])
        .await;
    assert!(text.contains("spec.healthCheckNodePort") && text.contains("immutable"), "{text}");

    lab.kubectl(&["patch", "svc", "web", "-p", r#"{"spec":{"externalTrafficPolicy":"Cluster"}}"#])
        .await;
    assert_eq!(
        field(&lab, "{.spec.ports[*].nodePort} {.spec.healthCheckNodePort}").await,
        "30000 30000 "
    );
    lab.kubectl(&["patch", "svc", "web", "-p", r#"{"spec":{"type":"ClusterIP"}}"#])
        .await;
    let rest = "{.spec.ports[*].nodePort}{.spec.externalTrafficPolicy}{.spec.loadBalancerClass}{.spec.allocateLoadBalancerNodePorts}";
    assert_eq!(field(&lab, rest).await, "");
    lab.kubectl(&[
        "patch",
        "svc",
        "web",
        "-p",
        r#"{"spec":{"type":"ExternalName","externalName":"example.com"}}"#,
    ])
    .await;
    assert_eq!(field(&lab, "{.spec.clusterIP}{.spec.clusterIPs}{.spec.ipFamilies}").await, "");
    // What was given back is there for the next.
    let other =
        service("{type: LoadBalancer, allocateLoadBalancerNodePorts: false, ports: [{port: 80}, {name: b, port: 81, nodePort: 30000}]}")
            .replace("{port: 80}", "{name: a, port: 80}")
            .replace("name: web", "name: other");
    let path = lab.manifest("other.yaml", &other);
    lab.kubectl(&["create", "-f", &path]).await;
    let text = lab.kubectl(&["get", "svc", "other", "-o", "jsonpath={.spec.ports}"]).await;
    assert!(text.contains("30000") && text.matches("nodePort").count() == 1, "{text}");
}

#[tokio::test]
async fn defaults_and_kubectl_shorthands() {
    let lab = Lab::start().await;
    lab.kubectl(&["create", "service", "clusterip", "web", "--tcp=80:8080"]).await;
    assert_eq!(
        field(
            &lab,
            "{.spec.type} {.spec.sessionAffinity} {.spec.internalTrafficPolicy} {.spec.ports[0].targetPort} {.spec.ipFamilyPolicy}"
        )
        .await,
        "ClusterIP None Cluster 8080 SingleStack"
    );
    lab.kubectl(&["patch", "svc", "web", "-p", r#"{"spec":{"sessionAffinity":"ClientIP"}}"#])
        .await;
    assert_eq!(field(&lab, "{.spec.sessionAffinityConfig.clientIP.timeoutSeconds}").await, "10800");
    lab.kubectl(&["create", "service", "nodeport", "port", "--tcp=80"]).await;
    lab.kubectl(&["create", "service", "loadbalancer", "balancer", "--tcp=80"]).await;
    lab.kubectl(&["create", "service", "externalname", "name", "--external-name=example.com"])
        .await;
    lab.kubectl(&["create", "deployment", "app", "--image=any", "--port=8080"]).await;
    lab.kubectl(&["expose", "deployment", "app", "--port=80", "--target-port=8080", "--type=NodePort"])
        .await;
    let table = lab.kubectl(&["get", "svc"]).await;
    for (name, kind, external) in [
        ("port", "NodePort", "<none>"),
        ("balancer", "LoadBalancer", "<pending>"),
        ("name", "ExternalName", "example.com"),
        ("app", "NodePort", "<none>"),
    ] {
        let line = table.lines().find(|line| line.starts_with(name)).unwrap_or_default();
        assert!(line.contains(kind) && line.contains(external), "{name}: {table}");
    }
    // The address that cluster DNS has by custom is left for it.
    for number in 0..8 {
        lab.kubectl(&["create", "service", "clusterip", &format!("filler{number}"), "--tcp=80"])
            .await;
    }
    let all = lab.kubectl(&["get", "svc", "-o", "jsonpath={.items[*].spec.clusterIP}"]).await;
    assert!(
        all.split(' ').all(|address| address != "10.96.0.10") && all.contains("10.96.0.11"),
        "{all}"
    );
    let headless = lab.manifest(
        "none.yaml",
        &service("{clusterIP: None, ports: [{port: 80}]}").replace("name: web", "name: manual"),
    );
    lab.kubectl(&["create", "-f", &headless]).await;
    let families = lab.kubectl(&["get", "svc", "manual", "-o", "jsonpath={.spec.ipFamilies}"]).await;
    assert_eq!(families, r#"["IPv4","IPv6"]"#);
}

#[tokio::test]
async fn endpoints_know_their_zone_and_for_whom_they_are() {
    let lab = Lab::start().await;
    lab.node("node1").await;
    lab.kubectl(&["label", "node", "node1", "topology.kubernetes.io/zone=east"]).await;
    let manifest =
        service("{trafficDistribution: PreferSameNode, publishNotReadyAddresses: true, selector: {app: web}, ports: [{port: 80}]}");
    let path = lab.manifest(
        "all.yaml",
        &format!("{manifest}---\napiVersion: v1\nkind: Pod\nmetadata: {{name: p, labels: {{app: web}}}}\nspec: {{nodeName: node1, containers: [{{name: c, image: any}}]}}\n"),
    );
    lab.kubectl(&["create", "-f", &path]).await;
    let status = async |ready: &str| {
        let patch = format!(
            r#"{{"status":{{"phase":"Running","podIP":"10.244.0.5","podIPs":[{{"ip":"10.244.0.5"}}],"conditions":[{{"type":"Ready","status":"{ready}"}}]}}}}"#
        );
        lab.kubectl(&["patch", "pod", "p", "--subresource=status", "-p", &patch]).await;
    };
    let expect = async |path: &str, value: &str| {
        let condition = format!("--for=jsonpath={{.endpoints[0].{path}}}={value}");
        let slices = ["endpointslice", "-l", "kubernetes.io/service-name=web", "--timeout=20s"];
        lab.kubectl(&[&["wait", &condition][..], &slices[..]].concat()).await;
    };
    status("False").await;
    expect("conditions.ready", "true").await;
    expect("conditions.serving", "false").await;
    status("True").await;
    expect("hints.forNodes[0].name", "node1").await;
    expect("hints.forZones[0].name", "east").await;
    lab.kubectl(&["label", "node", "node1", "--overwrite", "topology.kubernetes.io/zone=west"])
        .await;
    expect("zone", "west").await;
    lab.kubectl(&["patch", "svc", "web", "-p", r#"{"spec":{"trafficDistribution":"PreferClose"}}"#])
        .await;
    let none = "jsonpath={.items[0].endpoints[0].hints}";
    expect("hints.forZones[0].name", "west").await;
    lab.kubectl(&["label", "node", "node1", "topology.kubernetes.io/zone-"]).await;
    lab.kubectl(&[
        "patch",
        "svc",
        "web",
        "--type=merge",
        "-p",
        r#"{"metadata":{"labels":{"touched":"yes"}}}"#,
    ])
    .await;
    // The slice carries the Service's labels, so it is as new as they are.
    lab.kubectl(&[
        "wait",
        "--for=jsonpath={.metadata.labels.touched}=yes",
        "endpointslice",
        "-l",
        "kubernetes.io/service-name=web",
        "--timeout=20s",
    ])
    .await;
    assert_eq!(
        lab.kubectl(&["get", "endpointslices", "-l", "kubernetes.io/service-name=web", "-o", none])
            .await,
        ""
    );
}

#[tokio::test]
async fn an_address_is_taken_as_long_as_its_service_is_there() {
    let mut lab = Lab::start().await;
    let path = lab.manifest(
        "web.yaml",
        &service("{type: NodePort, clusterIP: 10.96.0.7, ports: [{port: 80, nodePort: 30007}]}"),
    );
    lab.kubectl(&["create", "-f", &path]).await;
    let other = service("{type: NodePort, clusterIP: 10.96.0.7, ports: [{port: 80, nodePort: 30007}]}").replace("name: web", "name: other");
    let other = lab.manifest("other.yaml", &other);
    lab.refused(&["create", "-f", &other]).await;
    // A server that starts again knows it from its objects alone.
    lab.restart().await;
    let text = lab.refused(&["create", "-f", &other]).await;
    assert!(
        text.contains("spec.clusterIPs[0]") && text.contains("spec.ports[0].nodePort"),
        "{text}"
    );
    lab.kubectl(&["delete", "svc", "web"]).await;
    lab.kubectl(&["create", "-f", &other]).await;
    // Its own address is not in its own way.
    lab.kubectl(&["patch", "svc", "other", "-p", r#"{"spec":{"sessionAffinity":"ClientIP"}}"#])
        .await;
}

#[tokio::test]
async fn a_list_is_made_at_once() {
    let lab = Lab::start().await;
    let items: Vec<_> = ["a", "b"]
        .map(|name| serde_json::json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name } }))
        .into();
    let path = lab.manifest(
        "list.json",
        &serde_json::json!({ "apiVersion": "v1", "kind": "List", "items": items }).to_string(),
    );
    assert_eq!(
        lab.kubectl(&["create", "-f", &path]).await,
        "configmap/a created\nconfigmap/b created\n"
    );
}
