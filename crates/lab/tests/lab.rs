//! A real lab, its machines, its pods and their packets. Needs root, the node image and a built `netloom` (`cargo build -p netloom-cli`).

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use netloom_lab::{IpFamily, Lab, PartState, Signal, Spec};

/// A lab's name; another run of these tests on this machine has another.
fn named(test: &str) -> String {
    format!("test-{test}-{}", std::process::id())
}

fn pod(name: &str, node: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n  nodeName: {node}\n  terminationGracePeriodSeconds: 1\n  \
         containers: [{{name: main, image: any, ports: [{{containerPort: 80}}, {{containerPort: 7, protocol: UDP}}]}}]\n---\n"
    )
}

fn nothing_is_left_of(test: &str) {
    let name = named(test);
    for folder in ["/var/lib/netloom", "/run/netloom"] {
        assert!(!Path::new(folder).join(&name).exists(), "{folder}/{name} is left behind");
    }
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    assert!(!mounts.contains(&name), "{mounts}");
}

fn ready(lab: &Lab, pods: &[&str]) {
    let pods = pods.iter().map(|pod| format!("pod/{pod}"));
    let words: Vec<String> = ["wait", "--for=condition=Ready", "--timeout=30s"]
        .map(String::from)
        .into_iter()
        .chain(pods)
        .collect();
    lab.kubectl(&words).unwrap();
}

fn address(lab: &Lab, pod: &str, index: usize) -> String {
    lab.kubectl(&["get", "pod", pod, "-o", &format!("jsonpath={{.status.podIPs[{index}].ip}}")])
        .unwrap()
}

#[test]
fn a_lab_from_up_to_down() {
    let lab = Lab::up(Spec::new(named("life")).nodes(2)).unwrap();

    // Every part of every machine serves, and OVN knows both nodes.
    for machine in lab.status() {
        assert!(machine.parts.iter().all(|part| part.state == PartState::Ready), "{machine:?}");
    }
    let chassis = lab
        .control()
        .run(&["ovn-sbctl", "--bare", "--columns=name", "list", "Chassis"])
        .unwrap();
    assert!(chassis.contains("node1") && chassis.contains("node2"), "{chassis}");

    // Pods on different nodes reach each other, in both families, and see each other's own address.
    lab.apply(&(pod("a", "node1") + &pod("b", "node2"))).unwrap();
    ready(&lab, &["a", "b"]);
    let (a4, b4, b6) = (address(&lab, "a", 0), address(&lab, "b", 0), address(&lab, "b", 1));
    let answer = lab.pod("default", "a").run(&["curl", "-sm5", &b4]).unwrap();
    assert!(
        answer.contains("pod: b\n") && answer.contains(&format!("client: {a4}:")),
        "{answer}"
    );
    let answer = lab.pod("default", "a").run(&["curl", "-sgm5", &format!("http://[{b6}]/")]).unwrap();
    assert!(answer.contains("node: node2\n"), "{answer}");

    // Output, exit code and input go through kubectl.
    assert!(lab.kubectl(&["logs", "a"]).unwrap().contains("answers on 2 ports"));
    assert_eq!(lab.kubectl(&["exec", "a", "--", "hostname"]).unwrap(), "a\n");
    assert_eq!(
        lab.control()
            .try_run(&["kubectl", "exec", "a", "--", "sh", "-c", "exit 7"])
            .unwrap()
            .code,
        7
    );

    // The kubelet may die: the pod does not notice, and the next kubelet knows it.
    let before = lab
        .kubectl(&["get", "pod", "a", "-o", "jsonpath={.status.containerStatuses[0].containerID}"])
        .unwrap();
    lab.kill_part("node1", "kubelet", Signal::SIGKILL).unwrap();
    lab.apply(&pod("c", "node1")).unwrap();
    ready(&lab, &["c"]);
    let after = lab
        .kubectl(&["get", "pod", "a", "-o", "jsonpath={.status.containerStatuses[0].containerID}"])
        .unwrap();
    assert_eq!(before, after);

    // A power-cycle of everything finds the objects again.
    lab.restart_all().unwrap();
    ready(&lab, &["a", "b", "c"]);
    let b4 = address(&lab, "b", 0);
    lab.pod("default", "a")
        .run(&["curl", "-sm5", "--retry", "10", "--retry-all-errors", &b4])
        .unwrap();

    // Deleting a pod leaves nothing of it on its node.
    lab.kubectl(&["delete", "pod", "a", "c"]).unwrap();
    assert_eq!(lab.node("node1").run(&["ls", "/run/netns"]).unwrap(), "");

    lab.down().unwrap();
    nothing_is_left_of("life");
}

#[test]
fn two_labs_side_by_side_with_one_family_each() {
    let v4 = Lab::up(Spec::new(named("v4")).nodes(1).ip_family(IpFamily::Ipv4)).unwrap();
    let v6 = Lab::up(Spec::new(named("v6")).nodes(1).ip_family(IpFamily::Ipv6)).unwrap();
    for lab in [&v4, &v6] {
        lab.apply(&pod("a", "node1")).unwrap();
        ready(lab, &["a"]);
    }
    for (lab, separator) in [(&v4, '.'), (&v6, ':')] {
        let pod = lab.kubectl(&["get", "pod", "a", "-o", "json"]).unwrap();
        assert!(address(lab, "a", 0).contains(separator), "{pod}");
    }
    // The outside sees the node's address, not the pod's.
    let answer = v4.pod("default", "a").run(&["curl", "-sm5", "172.30.0.254"]).unwrap();
    assert!(answer.contains("client: 172.30.0.11:"), "{answer}");
    let answer = v6.pod("default", "a").run(&["curl", "-sgm5", "http://[fd30::fe]/"]).unwrap();
    assert!(answer.contains("client: [fd30::b]:"), "{answer}");
}

#[test]
fn a_wrong_request_is_refused_before_anything_starts() {
    let refusal = Lab::up(Spec::new("Not A Name")).err().unwrap().to_string();
    assert!(refusal.contains("lower-case letters"), "{refusal}");
    let mut spec = Spec::new(named("image"));
    spec.image = "/nonexistent".into();
    let refusal = Lab::up(spec).err().unwrap().to_string();
    assert!(refusal.contains("run `make rootfs` first"), "{refusal}");
    nothing_is_left_of("image");
}

/// An image like the real one, made of links to it, in which one program cannot start.
#[test]
fn a_failed_start_names_the_part_shows_its_log_and_leaves_nothing() {
    let mut spec = Spec::new(named("failing")).nodes(1);
    let copy = tempfile::tempdir_in(spec.image.parent().unwrap()).unwrap();
    let image = copy.path().join("rootfs");
    assert!(
        Command::new("cp")
            .arg("-al")
            .args([&spec.image, &image])
            .status()
            .unwrap()
            .success()
    );
    let northd = image.join("usr/bin/ovn-northd");
    std::fs::remove_file(&northd).unwrap();
    std::fs::write(&northd, "#!/bin/sh\necho the dog ate my database >&2\nexit 3\n").unwrap();
    std::fs::set_permissions(&northd, std::fs::Permissions::from_mode(0o755)).unwrap();
    spec.image = image;

    let said = format!("{:#}", Lab::up(spec).err().unwrap());
    assert!(said.contains("control/northd failed"), "{said}");
    assert!(said.contains("the dog ate my database"), "{said}");
    nothing_is_left_of("failing");
}
