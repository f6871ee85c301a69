//! What users get wrong and what breaks underneath: each gives a clear answer on the object that causes it, nothing else is affected, and
//! it mends by itself once the cause is gone.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use netloom_lab::{Lab, Signal};
use netloom_lab_fixtures::world::{addresses, drift, event, lab_with, pod, wait_ready};

#[test]
fn mistakes_are_answered_and_outages_are_survived() {
    let lab = lab_with("trouble", |spec| spec.nodes(2));
    lab.apply(&(pod("witness", "node1") + &pod("other", "node2"))).unwrap();
    wait_ready(&lab);

    bad_annotations(&lab);
    a_full_subnet(&lab);
    a_node_without_an_address(&lab);
    bad_ranges(&lab);
    the_witness_is_unaffected(&lab);

    the_api_server_is_away(&lab);
    the_databases_are_away(&lab);
    the_witness_is_unaffected(&lab);
    assert_eq!(drift(&lab), "None.\n");
}

fn the_witness_is_unaffected(lab: &Lab) {
    for ip in &addresses(lab)["other"] {
        lab.pod("default", "witness")
            .run(&["ping", "-n", "-q", "-c1", "-W5", &ip.to_string()])
            .unwrap();
    }
}

fn bad_annotations(lab: &Lab) {
    let annotated = |name: &str, text: &str| pod(name, "node1").replace("labels:", &format!("annotations: {{ {text} }}, labels:"));
    lab.apply(&annotated("misspelt", "netloom.io/adresses: 10.244.0.9")).unwrap();
    assert!(event(lab, "misspelt", "InvalidAnnotation").contains("known are netloom.io/addresses"));
    lab.apply(&annotated("elsewhere", "netloom.io/addresses: 192.0.2.7")).unwrap();
    assert!(event(lab, "elsewhere", "AddressRefused").contains("192.0.2.7 is not in its node's subnet"));
    let condition = "--for=jsonpath={.status.conditions[?(@.type=='netloom.io/NetworkReady')].reason}=AddressRefused";
    lab.kubectl(&["wait", "pod", "elsewhere", condition, "--timeout=30s"]).unwrap();
    let shown = std::process::Command::new(&lab.spec().binary)
        .args(["show", "problems", "--name", &lab.spec().name])
        .output()
        .unwrap();
    assert!(
        String::from_utf8_lossy(&shown.stdout).contains("Pod/default/elsewhere"),
        "{shown:?}"
    );
    lab.kubectl(&["delete", "pod", "misspelt", "elsewhere", "--wait=true", "--timeout=60s"])
        .unwrap();
}

/// A node of which only the object exists, so that its subnet can be filled without running anything.
fn a_full_subnet(lab: &Lab) {
    lab.apply("apiVersion: v1\nkind: Node\nmetadata: { name: ghost }\n").unwrap();
    let address = r#"{"status":{"addresses":[{"type":"InternalIP","address":"172.30.0.99"}]}}"#;
    lab.kubectl(&["patch", "node", "ghost", "--subresource=status", "-p", address])
        .unwrap();
    let many: String = (0..250).map(|number| pod(&format!("ghost-{number:03}"), "ghost")).collect();
    lab.apply(&many).unwrap();
    lab.apply(&pod("one-too-many", "ghost")).unwrap();
    let message = event(lab, "one-too-many", "SubnetFull");
    assert!(message.contains("no free address in 10.244."), "{message}");
    lab.kubectl(&["delete", "pod", "ghost-100", "--grace-period=0", "--force"]).unwrap();
    lab.kubectl(&[
        "wait",
        "pod",
        "one-too-many",
        "--for=jsonpath={.status.conditions[?(@.type=='netloom.io/NetworkReady')].status}=True",
        "--timeout=30s",
    ])
    .unwrap();
    lab.kubectl(&[
        "delete",
        "pods",
        "--field-selector=spec.nodeName=ghost",
        "--grace-period=0",
        "--force",
    ])
    .unwrap();
    lab.kubectl(&["delete", "node", "ghost"]).unwrap();
}

fn a_node_without_an_address(lab: &Lab) {
    lab.apply("apiVersion: v1\nkind: Node\nmetadata: { name: nowhere }\n").unwrap();
    assert!(event(lab, "nowhere", "NodeWithoutAddress").contains("InternalIP"));
    lab.kubectl(&["delete", "node", "nowhere"]).unwrap();
}

fn bad_ranges(lab: &Lab) {
    let good = lab
        .kubectl(&["get", "clusternetwork", "default", "-o", "jsonpath={.spec.clusterCIDRs}"])
        .unwrap();
    let patch = |cidrs: &str| {
        lab.kubectl(&[
            "patch",
            "clusternetwork",
            "default",
            "--type=merge",
            "-p",
            &format!(r#"{{"spec":{{"clusterCIDRs":{cidrs}}}}}"#),
        ])
        .unwrap()
    };
    for (cidrs, reason, words) in [
        (r#"[{"cidr":"10.244.0.0"}]"#, "InvalidNetwork", "is not a CIDR"),
        (
            r#"[{"cidr":"10.244.0.0/16"},{"cidr":"10.244.3.0/24"}]"#,
            "InvalidNetwork",
            "overlap",
        ),
        (
            r#"[{"cidr":"10.77.0.0/16"}]"#,
            "ChangeRefused",
            "cannot change while nodes have subnets",
        ),
    ] {
        patch(cidrs);
        lab.kubectl(&["wait", "clusternetwork", "default", "--for=condition=Ready=False", "--timeout=30s"])
            .unwrap();
        let wait = format!("--for=jsonpath={{.status.conditions[0].reason}}={reason}");
        lab.kubectl(&["wait", "clusternetwork", "default", &wait, "--timeout=30s"]).unwrap();
        let message = lab
            .kubectl(&["get", "clusternetwork", "default", "-o", "jsonpath={.status.conditions[0].message}"])
            .unwrap();
        assert!(message.contains(words), "{message}");
    }
    the_witness_is_unaffected(lab);
    lab.apply(&pod("meanwhile", "node2")).unwrap();
    lab.kubectl(&["wait", "pod", "meanwhile", "--for=condition=Ready", "--timeout=30s"])
        .unwrap();
    patch(&good);
    lab.kubectl(&["wait", "clusternetwork", "default", "--for=condition=Ready=True", "--timeout=30s"])
        .unwrap();
}

fn the_api_server_is_away(lab: &Lab) {
    lab.kill_part("control", "apiserver", Signal::SIGKILL).unwrap();
    the_api_answers_again(lab);
    lab.kill_part("control", "apiserver", Signal::SIGSTOP).unwrap();
    let target = lab
        .node("node2")
        .run(&["bash", "-c", "ip -br -4 addr show netloom0 | awk '{print $3}' | cut -d/ -f1"])
        .unwrap();
    lab.pod("default", "witness")
        .run(&["ping", "-n", "-q", "-c20", "-i0.1", "-W5", target.trim()])
        .unwrap();
    lab.kill_part("control", "apiserver", Signal::SIGCONT).unwrap();
    lab.apply(&pod("after-the-api", "node1")).unwrap();
    lab.kubectl(&["wait", "pod", "after-the-api", "--for=condition=Ready", "--timeout=60s"])
        .unwrap();
}

fn the_api_answers_again(lab: &Lab) {
    lab.control()
        .run(&[
            "curl",
            "-s",
            "--retry",
            "60",
            "--retry-delay",
            "1",
            "--retry-all-errors",
            "-o",
            "/dev/null",
            &format!("http://{}:6443/readyz", netloom_lab::Machine::Control.v4()),
        ])
        .unwrap();
}

fn the_databases_are_away(lab: &Lab) {
    for (part, name) in [("northbound", "after-the-northbound"), ("southbound", "after-the-southbound")] {
        lab.kill_part("control", part, Signal::SIGSTOP).unwrap();
        lab.apply(&pod(name, "node2")).unwrap();
        the_witness_is_unaffected(lab);
        lab.kill_part("control", part, Signal::SIGCONT).unwrap();
        lab.kubectl(&["wait", "pod", name, "--for=condition=Ready", "--timeout=60s"])
            .unwrap();
        lab.kill_part("control", part, Signal::SIGKILL).unwrap();
        let again = format!("{name}-again");
        lab.apply(&pod(&again, "node1")).unwrap();
        lab.kubectl(&["wait", "pod", &again, "--for=condition=Ready", "--timeout=60s"])
            .unwrap();
    }
}
