//! The plugin as a runtime sees it: the real binary, its environment, stdin, stdout and exit code, with a socket
//! that plays the agent.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::{self, JoinHandle};

use serde_json::{Value, json};

struct Outcome {
    success: bool,
    stdout: String,
}

impl Outcome {
    fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {:?}", self.stdout))
    }

    fn assert_error(&self, code: u64, words: &str) {
        assert!(!self.success, "expected a failure, got {}", self.stdout);
        let document = self.json();
        assert_eq!(document["code"], code, "{document}");
        assert!(document["cniVersion"].is_string(), "{document}");
        assert!(document["msg"].as_str().unwrap().contains(words), "{document}");
    }
}

fn run(environment: &[(&str, &str)], stdin: &str) -> Outcome {
    let mut child = Command::new(env!("CARGO_BIN_EXE_netloom-cni"))
        .env_clear()
        .envs(environment.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(stdin.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    Outcome {
        success: output.status.success(),
        stdout: String::from_utf8(output.stdout).unwrap(),
    }
}

fn pod(command: &str) -> Vec<(&str, &str)> {
    vec![
        ("CNI_COMMAND", command),
        ("CNI_CONTAINERID", "abc123"),
        ("CNI_NETNS", "/run/netns/abc"),
        ("CNI_IFNAME", "eth0"),
        ("CNI_ARGS", "K8S_POD_NAMESPACE=default;K8S_POD_NAME=web-0"),
        ("CNI_PATH", "/opt/cni/bin"),
    ]
}

fn config(version: &str, socket: &Path) -> String {
    json!({ "cniVersion": version, "name": "netloom", "type": "netloom-cni", "socket": socket }).to_string()
}

/// Answers one request with `reply` and returns what was asked.
fn agent(socket: &Path, reply: &'static str) -> JoinHandle<Value> {
    let listener = UnixListener::bind(socket).unwrap();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = Vec::new();
        stream.read_to_end(&mut request).unwrap();
        stream.write_all(reply.as_bytes()).unwrap();
        serde_json::from_slice(&request).unwrap()
    })
}

#[test]
fn version_needs_no_agent() {
    let outcome = run(&[("CNI_COMMAND", "VERSION")], r#"{"cniVersion":"0.4.0"}"#);
    assert!(outcome.success);
    assert_eq!(
        outcome.json(),
        json!({ "cniVersion": "0.4.0", "supportedVersions": ["0.3.1", "0.4.0", "1.0.0", "1.1.0"] })
    );
}

#[test]
fn add_carries_the_request_and_prints_the_result() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("cni.sock");
    let asked = agent(&socket, r#"{"cniVersion":"1.0.0","ips":[]}"#);
    let outcome = run(&pod("ADD"), &config("1.0.0", &socket));
    assert!(outcome.success);
    assert_eq!(outcome.json(), json!({ "cniVersion": "1.0.0", "ips": [] }));
    let asked = asked.join().unwrap();
    assert_eq!(asked["command"], "ADD");
    assert_eq!(asked["containerId"], "abc123");
    assert_eq!(asked["netns"], "/run/netns/abc");
    assert_eq!(asked["args"], "K8S_POD_NAMESPACE=default;K8S_POD_NAME=web-0");
    assert_eq!(asked["config"]["type"], "netloom-cni");
}

#[test]
fn del_prints_nothing_and_needs_no_netns() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("cni.sock");
    let asked = agent(&socket, "{}");
    let environment: Vec<_> = pod("DEL").into_iter().filter(|(name, _)| *name != "CNI_NETNS").collect();
    let outcome = run(&environment, &config("1.0.0", &socket));
    assert!(outcome.success);
    assert_eq!(outcome.stdout, "");
    assert_eq!(asked.join().unwrap()["netns"], "");
}

#[test]
fn an_error_of_the_agent_is_passed_on() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("cni.sock");
    let asked = agent(&socket, r#"{"code":101,"msg":"the MAC of eth0 differs","details":"x"}"#);
    let outcome = run(&pod("CHECK"), &config("0.4.0", &socket));
    outcome.assert_error(101, "MAC of eth0");
    assert_eq!(outcome.json()["cniVersion"], "0.4.0");
    asked.join().unwrap();
}

#[test]
fn an_absent_agent_means_try_again() {
    let socket = Path::new("/nonexistent/cni.sock");
    for command in ["ADD", "DEL", "CHECK", "GC"] {
        run(&pod(command), &config("1.1.0", socket)).assert_error(11, "/nonexistent/cni.sock");
    }
    run(&pod("STATUS"), &config("1.1.0", socket)).assert_error(50, "/nonexistent/cni.sock");
}

#[test]
fn an_agent_that_dies_midway_means_try_again() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("cni.sock");
    let asked = agent(&socket, "");
    run(&pod("DEL"), &config("1.0.0", &socket)).assert_error(11, "without an answer");
    asked.join().unwrap();
}

#[test]
fn malformed_input_has_the_codes_of_the_specification() {
    let socket = Path::new("/nonexistent/cni.sock");
    let good = config("1.0.0", socket);
    run(&[], &good).assert_error(4, "CNI_COMMAND");
    run(&[("CNI_COMMAND", "FLY")], &good).assert_error(4, "FLY");
    for missing in ["CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME"] {
        let environment: Vec<_> = pod("ADD").into_iter().filter(|(name, _)| *name != missing).collect();
        run(&environment, &good).assert_error(4, missing);
    }
    let mut bad = pod("ADD");
    bad[3].1 = "a/b";
    run(&bad, &good).assert_error(4, "CNI_IFNAME");
    run(&pod("ADD"), "not json").assert_error(6, "not JSON");
    run(&pod("ADD"), "[]").assert_error(7, "object");
    run(&pod("ADD"), r#"{"name":"x"}"#).assert_error(7, "cniVersion");
    run(&pod("ADD"), r#"{"cniVersion":"1.0.0"}"#).assert_error(7, "name");
    run(&pod("ADD"), r#"{"cniVersion":"1.0.0","name":"x","socket":5}"#).assert_error(7, "socket");
    run(&pod("ADD"), r#"{"cniVersion":"0.2.0","name":"x"}"#).assert_error(1, "0.2.0");
    run(&pod("CHECK"), r#"{"cniVersion":"0.3.1","name":"x"}"#).assert_error(1, "0.4.0");
    run(&pod("STATUS"), r#"{"cniVersion":"1.0.0","name":"x"}"#).assert_error(1, "1.1.0");
}
