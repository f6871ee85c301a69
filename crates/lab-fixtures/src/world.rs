//! What the lab tests share: a lab per test, pods by the handful, and questions whose answers are packets.

use std::collections::BTreeMap;
use std::net::IpAddr;

use netloom_lab::{Lab, Shell, Spec};

pub use crate::lint::Checked;

/// A lab of three nodes named after the test, checked and removed when dropped.
pub fn lab(test: &str) -> Checked {
    lab_with(test, |spec| spec)
}

/// A lab with its own wishes; `NETLOOM_DATAPATH` chooses the datapath, so that the same tests run on both.
pub fn lab_with(test: &str, wish: impl FnOnce(Spec) -> Spec) -> Checked {
    let mut spec = Spec::new(format!("test-{test}-{}", std::process::id()));
    if let Ok(datapath) = std::env::var("NETLOOM_DATAPATH") {
        spec = spec.datapath(datapath.parse().unwrap());
    }
    Checked(Lab::up(wish(spec)).unwrap_or_else(|error| panic!("{error:#}")))
}

/// A pod that answers on 8080/TCP and 9090/UDP, bound to a node.
pub fn pod(name: &str, node: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{ name: {name}, labels: {{ app: echo }} }}\nspec:\n  nodeName: {node}\n  terminationGracePeriodSeconds: 0\n  containers:\n    - name: echo\n      image: any\n      ports: [{{ containerPort: 8080 }}, {{ containerPort: 9090, protocol: UDP }}]\n---\n"
    )
}

/// The same on the node's own network.
pub fn host_pod(name: &str, node: &str) -> String {
    pod(name, node).replace("spec:\n", "spec:\n  hostNetwork: true\n")
}

/// Waits, by watching, until all pods are ready.
pub fn wait_ready(lab: &Lab) {
    lab.kubectl(&[
        "wait",
        "pod",
        "--all",
        "--all-namespaces",
        "--for=condition=Ready",
        "--timeout=120s",
    ])
    .unwrap();
}

/// Addresses of the pods of a namespace as the API tells them, IPv4 first.
pub fn addresses(lab: &Lab) -> BTreeMap<String, Vec<IpAddr>> {
    let path = r#"jsonpath={range .items[*]}{.metadata.name}{"\t"}{range .status.podIPs[*]}{.ip}{" "}{end}{"\n"}{end}"#;
    let text = lab.kubectl(&["get", "pods", "-o", path]).unwrap();
    text.lines()
        .map(|line| {
            let (name, ips) = line.split_once('\t').unwrap();
            (name.to_owned(), ips.split_whitespace().map(|ip| ip.parse().unwrap()).collect())
        })
        .collect()
}

/// Somebody to ask: an address, whose name must be in the answer, and the client address that must be seen there.
#[derive(Clone, Debug)]
pub struct Target {
    /// Name of the pod.
    pub name: String,
    /// Where it is asked.
    pub address: IpAddr,
    /// Its TCP port.
    pub port: u16,
    /// Its UDP port.
    pub udp: u16,
    /// Client address the target must see; none when any will do.
    pub seen_as: Option<IpAddr>,
    /// Largest packet that must pass.
    pub mtu: u16,
}

/// A shell script that asks every target in every way and prints a line for each failure.
pub fn probes(targets: &[Target]) -> String {
    let mut script = String::from(
        "fail() { echo \"FAILED $*\"; }\n\
         udp() { exec 3<>/dev/udp/$1/$2 || return 1; echo hello >&3; line=$(timeout 5 dd bs=65536 count=1 <&3 2>/dev/null | head -n1); exec 3>&-; [ \"$line\" = \"pod: $3\" ]; }\n",
    );
    for Target {
        name,
        address,
        port,
        udp,
        seen_as,
        mtu,
    } in targets
    {
        let host = if address.is_ipv6() {
            format!("[{address}]")
        } else {
            address.to_string()
        };
        let overhead = if address.is_ipv6() { 48 } else { 28 };
        let full = mtu - overhead;
        let seen = seen_as.map_or_else(
            || "client: ".to_owned(),
            |ip| {
                if ip.is_ipv6() {
                    format!("client: [{ip}]:")
                } else {
                    format!("client: {ip}:")
                }
            },
        );
        script += &format!(
            "ping -n -q -c1 -W5 {address} >/dev/null || fail icmp {name} {address}\n\
             ping -n -q -c1 -W5 -M do -s {full} {address} >/dev/null || fail full-mtu-{full} {name} {address}\n\
             page=$(curl -s -g -m 10 http://{host}:{port}/) && [[ $page == *'pod: {name}'* && $page == *'{seen}'* ]] || fail tcp {name} {address}: want '{seen}', got $page\n\
             udp {address} {udp} {name} || fail udp {name} {address}\n\
             [ \"$(curl -s -g -m 10 http://{host}:{port}/bytes/60000 | wc -c)\" = 60000 ] || fail 60kB-down {name} {address}\n\
             head -c 60000 /dev/zero | curl -s -g -m 10 --data-binary @- http://{host}:{port}/ | grep -q 'pod: {name}' || fail 60kB-up {name} {address}\n"
        );
    }
    script
}

/// The failures of a script's output.
pub fn failures(place: &str, output: &str) -> Vec<String> {
    output.lines().map(|line| format!("from {place}: {line}")).collect()
}

/// How the Northbound database differs from what the cluster compiles to.
pub fn drift(lab: &Lab) -> String {
    let spec = lab.spec();
    let output = std::process::Command::new(&spec.binary)
        .args(["show", "drift", "--name", &spec.name])
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Parts that ended although nobody killed them; the lab restarts them, so only this shows a crash.
pub fn ended(lab: &Lab) -> Vec<String> {
    let machines = lab.status();
    let parts = machines
        .iter()
        .flat_map(|machine| machine.parts.iter().map(move |part| (machine, part)));
    parts
        .filter(|(_, part)| part.restarts > 0)
        .map(|(machine, part)| {
            format!(
                "{}/{}: {:?}, restarted {} times",
                machine.machine, part.name, part.reason, part.restarts
            )
        })
        .collect()
}

/// Waits for an Event of an object with a reason, and returns its message. A watch also tells what was there before it.
pub fn event(lab: &Lab, object: &str, reason: &str) -> String {
    let watch = format!(
        "kubectl get events --watch --no-headers -o custom-columns=MESSAGE:.message --field-selector involvedObject.name={object},reason={reason}"
    );
    lab.control()
        .run(&["bash", "-c", &format!("read -t 30 line < <(exec {watch}) && echo \"$line\"")])
        .unwrap_or_else(|error| panic!("no Event {reason} on {object}: {error:#}"))
}

/// Number of the node that answers for a service's external address, once all gateways have reported and the one OVN is to prefer has it.
pub fn announced_by(lab: &Lab, namespace: &str, service: &str) -> usize {
    for node in ["node1", "node2", "node3"] {
        let reported = "--for=jsonpath={.metadata.annotations.netloom\\.io/gateway}";
        lab.kubectl(&["wait", &format!("node/{node}"), reported, "--timeout=30s"]).unwrap();
    }
    let node = lab.announcing_node(namespace, service).unwrap();
    node.trim_start_matches("node").parse().unwrap()
}

/// How many echo requests the kernel of a place has received.
pub fn echo_requests(of: &Shell<'_>, ipv6: bool) -> u64 {
    let script = if ipv6 {
        "awk '/^Icmp6InEchos / { print $2 }' /proc/net/snmp6"
    } else {
        r#"awk '/^Icmp:/ { if (!n) { for (i = 1; i <= NF; i++) if ($i == "InEchos") n = i } else print $n }' /proc/net/snmp"#
    };
    of.run(&["bash", "-c", script]).unwrap().trim().parse().unwrap()
}

/// Waits until no row of a table has a key that begins so, and every switch knows it.
pub fn wait_no_row(lab: &Lab, table: &str, key: &str) {
    let list = format!("ovn-nbctl --bare --columns=external_ids list {table}");
    let watch = format!("ovsdb-client monitor unix:/run/ovn/ovnnb_db.sock OVN_Northbound {table} external_ids");
    let script =
        format!("while read -t 30 line; do {list} | grep -q '{key}' || exit 0; done < <({watch}); echo '{key} never went'; exit 1");
    lab.control().run(&["bash", "-c", &script]).unwrap();
    lab.control().run(&["ovn-nbctl", "--wait=hv", "--timeout=30", "sync"]).unwrap();
}
