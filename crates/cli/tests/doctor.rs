//! `netloom doctor` on a lab: a healthy one has nothing that failed, and each thing that is broken is named.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::path::Path;
use std::process::Command;

use netloom_lab::{Lab, Signal, Spec};
use serde_json::Value;

/// What a doctor said: its exit code and its findings.
struct Report {
    code: i32,
    findings: Vec<Value>,
}

impl Report {
    fn read(code: i32, stdout: &str, stderr: &str) -> Self {
        let report: Value = serde_json::from_str(stdout).unwrap_or_else(|error| panic!("{error}: {stdout}{stderr}"));
        Self {
            code,
            findings: report["findings"].as_array().unwrap().clone(),
        }
    }

    fn of_node(lab: &Lab, node: &str) -> Self {
        let command = ["netloom", "doctor", "node", "-o", "json", "--kubeconfig", "/etc/netloom/kubeconfig"];
        let output = lab.node(node).try_run(&command).unwrap();
        Self::read(output.code, &output.stdout, &output.stderr)
    }

    fn of_cluster(lab: &Lab, arguments: &[&str]) -> Self {
        let output = lab
            .control()
            .try_run(&[&["netloom", "doctor", "-o", "json"], arguments].concat())
            .unwrap();
        Self::read(output.code, &output.stdout, &output.stderr)
    }

    /// Findings in a state, as `group/check`.
    fn in_state(&self, state: &str) -> Vec<String> {
        let findings = self.findings.iter().filter(|finding| finding["state"] == state);
        findings
            .map(|finding| format!("{}/{}", finding["group"].as_str().unwrap(), finding["check"].as_str().unwrap()))
            .collect()
    }

    /// What was found by a check that is not ok.
    fn words(&self, check: &str) -> String {
        let found = self
            .findings
            .iter()
            .find(|finding| finding["check"] == check && finding["state"] != "ok");
        let found = found.unwrap_or_else(|| panic!("{check} is not told: {:#?}", self.findings));
        assert_ne!(found["whatToDo"], "", "{found}");
        found["found"].as_str().unwrap().to_owned()
    }
}

#[test]
fn what_is_broken_is_named() {
    let spec = Spec::new(format!("test-doctor-{}", std::process::id())).nodes(2);
    let lab = Lab::up(spec).unwrap_or_else(|error| panic!("{error:#}"));

    let healthy = Report::of_node(&lab, "node1");
    assert_eq!((healthy.code, healthy.in_state("failed")), (0, vec![]), "{:#?}", healthy.findings);
    // The kernel of this machine decides which datapath a lab has.
    assert!(
        healthy.in_state("warning").iter().all(|check| check == "host/datapath"),
        "{:#?}",
        healthy.findings
    );
    assert!(healthy.findings.len() > 25, "{:#?}", healthy.findings);

    settings(&lab);
    files(&lab);
    switch(&lab);
    all_is_well(&lab);
    cluster(&lab);
    daemons(&lab);
}

fn on_node(lab: &Lab, script: &str) {
    lab.node("node1").run(&["bash", "-ec", script]).unwrap();
}

fn all_is_well(lab: &Lab) {
    let report = Report::of_node(lab, "node1");
    assert_eq!(report.in_state("failed"), Vec::<String>::new(), "{:#?}", report.findings);
}

fn settings(lab: &Lab) {
    on_node(
        lab,
        "echo 0 >/proc/sys/net/ipv4/ip_forward; ip link add cali0123 type veth peer name cali4567
         nft 'table ip filter { chain FORWARD { type filter hook forward priority 0; policy drop; }; }
              table ip kube-proxy { }'",
    );
    let report = Report::of_node(lab, "node1");
    assert_eq!(report.code, 0, "warnings are no failure");
    assert!(report.words("forwarding").contains("net.ipv4.ip_forward is off"));
    assert!(report.words("forward-policy").contains("ip filter FORWARD"));
    assert!(report.words("kube-proxy-rules").contains("ip kube-proxy"));
    assert!(report.words("devices").contains("cali0123 (of Calico)"));
    on_node(
        lab,
        "echo 1 >/proc/sys/net/ipv4/ip_forward; ip link delete cali0123; nft delete table ip filter; nft delete table ip kube-proxy",
    );
}

fn files(lab: &Lab) {
    on_node(lab, "echo '{}' >/etc/cni/net.d/05-cilium.conflist");
    let report = Report::of_node(lab, "node1");
    assert_eq!(
        (report.code, report.in_state("failed")),
        (1, vec!["cni/other-configurations".to_owned()])
    );
    assert!(
        report
            .words("other-configurations")
            .contains("05-cilium.conflist sorts before 10-netloom.conflist")
    );
    let told = lab.node("node1").try_run(&["netloom", "doctor", "node", "--problems"]).unwrap();
    assert!(told.stdout.contains("rm /etc/cni/net.d/05-cilium.conflist"), "{}", told.stdout);
    assert!(told.stdout.lines().last().unwrap().starts_with("1 failed, "), "{}", told.stdout);
    on_node(lab, "rm /etc/cni/net.d/05-cilium.conflist");
}

fn switch(lab: &Lab) {
    on_node(lab, "ovs-vsctl remove Open_vSwitch . external_ids ovn-encap-ip");
    let report = Report::of_node(lab, "node1");
    assert!(report.words("encapsulation").contains("external_ids:ovn-encap-ip is not set"));
    on_node(lab, "ovs-vsctl set Open_vSwitch . external_ids:ovn-encap-ip=172.30.0.99");
    let report = Report::of_node(lab, "node1");
    assert!(
        report
            .words("encapsulation")
            .contains("172.30.0.99, which no device of this host has")
    );
    on_node(
        lab,
        "ovs-vsctl set Open_vSwitch . external_ids:ovn-encap-ip=172.30.0.11 -- set Interface br-ex mtu_request=1300",
    );
    let report = Report::of_node(lab, "node1");
    assert!(
        report
            .words("underlay")
            .contains("br-ex has MTU 1300, which leaves 1242 for pods; IPv6 needs 1280")
    );
    on_node(lab, "ovs-vsctl set Interface br-ex mtu_request=1500");
}

fn cluster(lab: &Lab) {
    let kubeconfig = ["--kubeconfig", "/etc/netloom/kubeconfig"];
    let healthy = Report::of_cluster(lab, &kubeconfig);
    assert_eq!((healthy.code, healthy.in_state("failed")), (0, vec![]), "{:#?}", healthy.findings);
    assert_eq!(healthy.in_state("warning"), ["kubernetes/workloads"], "a lab's parts are no pods");

    // An agent that works takes the taint away at once.
    let agent = |signal| lab.kill_part("node2", "agent", signal).unwrap();
    agent(Signal::SIGSTOP);
    lab.kubectl(&["taint", "node", "node2", "netloom.io/not-ready=:NoSchedule"])
        .unwrap();
    let report = Report::of_cluster(lab, &kubeconfig);
    assert!(report.words("taint").contains("node node2 still has the taint"));
    agent(Signal::SIGCONT);

    lab.apply(
        "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: { name: ovn, labels: { kubernetes.io/service-name: ovn } }\n\
         addressType: IPv4\nendpoints: [{ addresses: [172.30.0.1] }]\nports: []\n",
    )
    .unwrap();
    let databases = Report::of_cluster(lab, &[&kubeconfig[..], &["--databases", "default/ovn"]].concat());
    let asked = databases
        .findings
        .iter()
        .filter(|finding| finding["group"] == "databases" && finding["state"] == "ok");
    assert_eq!(asked.count(), 2, "{:#?}", databases.findings);
    let nowhere = Report::of_cluster(lab, &[&kubeconfig[..], &["--databases", "default/nowhere"]].concat());
    assert!(nowhere.words("members").contains("service default/nowhere has no endpoints"));
}

/// Last, because what was stopped takes its time to come back.
fn daemons(lab: &Lab) {
    lab.kill_part("node1", "ovn-controller", Signal::SIGSTOP).unwrap();
    let report = Report::of_node(lab, "node1");
    assert!(report.words("controller").contains("no answer about ovn-controller"));
    lab.kill_part("node1", "ovn-controller", Signal::SIGCONT).unwrap();
    lab.kill_part("control", "southbound", Signal::SIGSTOP).unwrap();
    let report = Report::of_node(lab, "node1");
    assert!(report.words("members").contains("tcp:172.30.0.1:6642: does not answer"));
    lab.kill_part("control", "southbound", Signal::SIGCONT).unwrap();
    lab.kill_part("node1", "vswitchd", Signal::SIGSTOP).unwrap();
    let report = Report::of_node(lab, "node1");
    assert!(report.words("vswitchd").contains("no answer about vswitchd"));
    lab.kill_part("node1", "vswitchd", Signal::SIGCONT).unwrap();
}

fn doctor(arguments: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_netloom"));
    let output = command.arg("doctor").args(arguments).env_remove("KUBECONFIG").output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&text).into_owned())
}

#[test]
fn a_doctor_that_cannot_look_says_so() {
    let (code, text) = doctor(&["--kubeconfig", "/nonexistent/kubeconfig"]);
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("/nonexistent/kubeconfig"), "{text}");

    let directory = tempfile::tempdir().unwrap();
    let kubeconfig = directory.path().join("kubeconfig");
    write_kubeconfig(&kubeconfig);
    let (code, text) = doctor(&["--kubeconfig", kubeconfig.to_str().unwrap()]);
    assert_eq!(code, Some(1), "an API server that does not answer is a finding: {text}");
    assert!(text.contains("api-server") && text.contains("kubectl cluster-info"), "{text}");
}

/// Of a server on a port nobody listens on: it was ours a moment ago.
fn write_kubeconfig(path: &Path) {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{{ name: c, context: {{ cluster: c, user: u }} }}]\n\
         users: [{{ name: u, user: {{}} }}]\nclusters: [{{ name: c, cluster: {{ server: 'http://127.0.0.1:{port}' }} }}]\n"
    );
    std::fs::write(path, text).unwrap();
}
