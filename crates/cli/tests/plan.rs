//! `netloom plan` as a user without a cluster and without root sees it.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::io::Write as _;
use std::process::{Command, Output, Stdio};

fn plan(arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_netloom"))
        .arg("plan")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_folder_of_manifests_becomes_rows() {
    let output = plan(&["-f", concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples")], "");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let shown = text(&output.stdout);
    for part in [
        "Logical_Switch_Port port/default/web-2/eth0",
        "name: default/web-2",
        "Logical_Switch switch/node/node1",
        "addresses: 0a:4e:0a:f4:00:07 10.244.0.7 fd00:10:244::7",
    ] {
        assert!(shown.contains(part), "no {part:?} in\n{shown}");
    }
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_netloom"))
        .args(["plan", "-f", concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples")])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""));
}

#[test]
fn problems_are_told_beside_the_rows_and_in_the_exit_code() {
    let output = plan(
        &["-f", "-"],
        "kind: Pod\nmetadata: { name: a, annotations: { netloom.io/addresses: nine } }\n---\nkind: Pod\nmetadata: { name: b }\n",
    );
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(
        text(&output.stderr),
        "problem: Pod/default/a: InvalidAnnotation: netloom.io/addresses: \"nine\" is not an IP address; write for example 10.244.1.7\n"
    );
    assert!(text(&output.stdout).contains("name: default/b"));
}

#[test]
fn mistakes_in_files_name_the_file_and_the_field() {
    let output = plan(&["-f", "/nowhere.yaml"], "");
    assert_eq!(
        text(&output.stderr),
        "error: read /nowhere.yaml: No such file or directory (os error 2)\n"
    );
    let output = plan(&["-f", "-"], "kind: Pod\nmetadata: { name: a }\nspec: { hostNetwork: [] }\n");
    assert!(
        text(&output.stderr).starts_with("error: -: Pod/a: spec: "),
        "{}",
        text(&output.stderr)
    );
    let output = plan(&["-f", "-"], "kind: ConfigMap\nmetadata: { name: a }\n");
    assert!(text(&output.stderr).contains("nothing to plan"), "{}", text(&output.stderr));
}

/// Go writes null for a list or a map that is empty.
#[test]
fn what_go_writes_is_read() {
    let slice = r#"{
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": { "name": "web-1", "creationTimestamp": null, "annotations": null, "labels": { "kubernetes.io/service-name": "web" } },
        "ports": null, "endpoints": null
    }"#;
    let service = r#"{
        "apiVersion": "v1", "kind": "Service", "metadata": { "name": "web", "creationTimestamp": null },
        "spec": { "ports": [{ "port": 80 }], "selector": null, "externalIPs": null, "clusterIP": "10.96.0.7" }, "status": { "loadBalancer": { "ingress": null } }
    }"#;
    let output = plan(
        &["-f", "-"],
        &format!(r#"{{ "kind": "List", "apiVersion": "v1", "items": [{service}, {slice}] }}"#),
    );
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
    assert!(text(&output.stdout).contains("10.96.0.7:80"), "{}", text(&output.stdout));
}
