//! The real kubectl against the lab, the way people use it.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use netloom_lab_fixtures::world::{ended, lab, pod, wait_ready};

const DEPLOYMENT: &str = "apiVersion: apps/v1
kind: Deployment
metadata: { name: web }
spec:
  replicas: 3
  selector: { matchLabels: { app: web } }
  template:
    metadata: { labels: { app: web } }
    spec:
      terminationGracePeriodSeconds: 0
      containers: [{ name: nginx, image: 'nginx:1.27', ports: [{ containerPort: 80 }] }]
";

const DAEMONS: &str = "apiVersion: apps/v1
kind: DaemonSet
metadata: { name: everywhere }
spec:
  selector: { matchLabels: { app: everywhere } }
  template:
    metadata: { labels: { app: everywhere } }
    spec:
      terminationGracePeriodSeconds: 0
      containers: [{ name: main, image: busybox, command: [sh, -c, 'echo hello from $(hostname); exec sleep infinity'] }]
";

#[test]
fn the_usual_commands_do_what_people_expect() {
    let lab = lab("kubectl");
    let kubectl = |arguments: &[&str]| lab.kubectl(arguments).unwrap_or_else(|error| panic!("{error:#}"));

    assert_eq!(lab.apply(DEPLOYMENT).unwrap(), "deployment.apps/web created\n");
    assert_eq!(lab.apply(DEPLOYMENT).unwrap(), "deployment.apps/web unchanged\n");
    assert!(kubectl(&["rollout", "status", "deployment/web", "--timeout=60s"]).contains("successfully rolled out"));

    let wide = kubectl(&["get", "pods", "-o", "wide"]);
    assert!(wide.lines().next().unwrap().starts_with("NAME"), "{wide}");
    for node in ["node1", "node2", "node3"] {
        assert!(wide.contains(node), "the scheduler spreads three pods over three nodes:\n{wide}");
    }
    assert_eq!(wide.matches("1/1").count(), 3, "{wide}");

    lab.apply(DAEMONS).unwrap();
    assert!(kubectl(&["rollout", "status", "daemonset/everywhere", "--timeout=60s"]).contains("successfully rolled out"));
    assert_eq!(kubectl(&["get", "pods", "-l", "app=everywhere", "-o", "name"]).lines().count(), 3);

    kubectl(&["scale", "deployment/web", "--replicas=6"]);
    kubectl(&["rollout", "status", "deployment/web", "--timeout=60s"]);
    assert_eq!(kubectl(&["get", "pods", "-l", "app=web", "-o", "name"]).lines().count(), 6);
    kubectl(&["scale", "deployment/web", "--replicas=1"]);
    kubectl(&["wait", "deployment/web", "--for=jsonpath={.status.replicas}=1", "--timeout=60s"]);

    let name = kubectl(&["get", "pods", "-l", "app=everywhere", "-o", "jsonpath={.items[0].metadata.name}"]);
    // That it runs does not say that it has said anything yet.
    let first = format!("read -t 30 line < <(exec kubectl logs --follow {name}) && echo \"$line\"");
    assert_eq!(lab.control().run(&["bash", "-c", &first]).unwrap(), format!("hello from {name}\n"));
    let ip = kubectl(&["get", "pod", &name, "-o", "jsonpath={.status.podIP}"]);
    assert!(kubectl(&["exec", &name, "--", "ip", "-br", "addr"]).contains(&ip));
    let failed = lab.kubectl(&["exec", &name, "--", "sh", "-c", "exit 7"]).unwrap_err();
    assert!(format!("{failed:#}").contains("exit code 7"), "{failed:#}");

    let described = kubectl(&["describe", "pod", &name]);
    for part in ["Name:", &name, "Node:", "Status:           Running", &ip, "Events:"] {
        assert!(described.contains(part), "describe has no {part:?}:\n{described}");
    }
    let subnets = "--for=jsonpath={.metadata.annotations.netloom\\.io/subnets}";
    kubectl(&["wait", "node/node1", subnets, "--timeout=30s"]);
    assert!(kubectl(&["describe", "node", "node1"]).contains("netloom.io/subnets"));
    assert!(kubectl(&["explain", "pod.spec.nodeName"]).contains("nodeName"));
    assert!(kubectl(&["get", "clusternetworks"]).contains("10.244.0.0/16"));

    kubectl(&["delete", "daemonset/everywhere", "deployment/web"]);
    kubectl(&["wait", "pod", "--all", "--for=delete", "--timeout=60s"]);
    wait_nothing_left(&lab);
    assert_eq!(ended(&lab), Vec::<String>::new(), "parts crashed");
}

/// Deleting gives everything back: no pod's port is left in the Northbound database.
fn wait_nothing_left(lab: &netloom_lab::Lab) {
    lab.apply(&pod("last", "node1")).unwrap();
    wait_ready(lab);
    let ports = lab
        .control()
        .run(&[
            "ovn-nbctl",
            "--bare",
            "--columns=name",
            "find",
            "Logical_Switch_Port",
            "port_security!=[]",
        ])
        .unwrap();
    assert_eq!(ports.split_whitespace().collect::<Vec<_>>(), ["default/last"]);
}
