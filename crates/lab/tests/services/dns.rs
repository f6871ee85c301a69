//! Names: services, pods behind headless services, ports. As a pod sees them, through its own resolv.conf and the service of the DNS server.

use netloom_lab::Lab;

use crate::{backend, field, service};
use netloom_lab_fixtures::world::{addresses, lab, pod, wait_ready};

#[test]
fn names_resolve_out_of_the_box() {
    let lab = lab("dns");
    let headless = service("crew", "crew", &["clusterIP: None"]);
    let member =
        |name: &str, node: &str| backend(name, node, "crew").replace("spec:\n", &format!("spec:\n  hostname: {name}\n  subdomain: crew\n"));
    let plain = pod("defaulted", "node1").replace("spec:\n", "spec:\n  dnsPolicy: Default\n");
    let own = pod("own", "node1").replace("spec:\n", "spec:\n  dnsPolicy: None\n  dnsConfig: { nameservers: [192.0.2.53], searches: [example.test], options: [{ name: ndots, value: \"2\" }] }\n");
    lab.apply(
        &(member("ann", "node1")
            + &member("bob", "node2")
            + &pod("client", "node3")
            + &plain
            + &own
            + &headless
            + &service("web", "crew", &[])),
    )
    .unwrap();
    wait_ready(&lab);
    let pods = addresses(&lab);
    let cluster_ips = field(&lab, "service/web", "{.spec.clusterIPs[*]}");

    for name in ["web", "web.default", "web.default.svc", "web.default.svc.cluster.local"] {
        assert_eq!(resolved(&lab, name), sorted(cluster_ips.split_whitespace()), "{name}");
    }
    let everybody = pods["ann"].iter().chain(&pods["bob"]).map(ToString::to_string).collect::<Vec<_>>();
    wait_resolved(&lab, "crew", everybody.len());
    assert_eq!(resolved(&lab, "crew"), sorted(everybody.iter().map(String::as_str)));
    let ann: Vec<String> = pods["ann"].iter().map(ToString::to_string).collect();
    assert_eq!(resolved(&lab, "ann.crew"), sorted(ann.iter().map(String::as_str)));
    let dashed = pods["bob"][0].to_string().replace('.', "-");
    assert_eq!(
        resolved(&lab, &format!("{dashed}.default.pod.cluster.local")),
        [pods["bob"][0].to_string()]
    );
    assert_eq!(resolved(&lab, "nobody"), Vec::<String>::new());

    let said = lab
        .kubectl(&[
            "exec",
            "client",
            "--",
            "python3",
            "-c",
            SRV,
            "_tcp._tcp.crew.default.svc.cluster.local",
        ])
        .unwrap();
    assert_eq!(
        sorted(said.lines()),
        ["8080 ann.crew.default.svc.cluster.local", "8080 bob.crew.default.svc.cluster.local"]
    );
    let said = lab
        .kubectl(&[
            "exec",
            "client",
            "--",
            "python3",
            "-c",
            SRV,
            "_udp._udp.web.default.svc.cluster.local",
        ])
        .unwrap();
    assert_eq!(sorted(said.lines()), ["80 web.default.svc.cluster.local"]);

    let page = lab
        .kubectl(&["exec", "client", "--", "curl", "-s", "-m", "5", "http://web/"])
        .unwrap();
    assert!(page.contains("pod: ann") || page.contains("pod: bob"), "{page}");

    let file = |pod: &str| lab.kubectl(&["exec", pod, "--", "cat", "/etc/resolv.conf"]).unwrap();
    assert!(
        file("client").contains("search default.svc.cluster.local svc.cluster.local cluster.local") && file("client").contains("ndots:5")
    );
    assert!(!file("defaulted").contains("cluster.local"), "{}", file("defaulted"));
    assert_eq!(file("own"), "nameserver 192.0.2.53\nsearch example.test\noptions ndots:2\n");
}

/// What a pod's own resolver makes of a name.
fn resolved(lab: &Lab, name: &str) -> Vec<String> {
    let said = lab
        .kubectl(&["exec", "client", "--", "sh", "-c", &format!("getent ahosts {name} || true")])
        .unwrap();
    let mut addresses: Vec<String> = said
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .map(str::to_owned)
        .collect();
    addresses.sort();
    addresses.dedup();
    addresses
}

/// Waits until a name has so many addresses: the server hears of endpoints some time after their pods are ready.
fn wait_resolved(lab: &Lab, name: &str, count: usize) {
    let script = format!(
        "for n in {{1..1000}}; do [ $(getent ahosts {name} | awk '{{ print $1 }}' | sort -u | wc -l) = {count} ] && exit; done; getent ahosts {name}; exit 1"
    );
    lab.kubectl(&["exec", "client", "--", "bash", "-c", &script]).unwrap();
}

fn sorted<'a>(words: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut words: Vec<String> = words.map(str::to_owned).collect();
    words.sort();
    words
}

/// Asks the first nameserver of resolv.conf for SRV records: glibc's tools do not.
const SRV: &str = r#"
import socket, struct, sys
server = [l.split()[1] for l in open("/etc/resolv.conf") if l.startswith("nameserver")][0]
question = b"".join(bytes([len(p)]) + p.encode() for p in sys.argv[1].split(".")) + b"\0" + struct.pack("!HH", 33, 1)
s = socket.socket(socket.AF_INET6 if ":" in server else socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(5)
s.sendto(struct.pack("!6H", 77, 0x100, 1, 0, 0, 0) + question, (server, 53))
m = s.recv(4096)
def name(at):
    parts = []
    while m[at]:
        if m[at] >= 192:
            rest, _ = name(struct.unpack("!H", m[at:at+2])[0] & 0x3fff)
            return parts + rest, at + 2
        parts.append(m[at+1:at+1+m[at]].decode())
        at += 1 + m[at]
    return parts, at + 1
at = 12 + len(question)
for _ in range(struct.unpack("!H", m[6:8])[0]):
    _, at = name(at)
    kind, _, _, length = struct.unpack("!HHIH", m[at:at+10])
    if kind == 33:
        print(struct.unpack("!H", m[at+14:at+16])[0], ".".join(name(at + 16)[0]))
    at += 10 + length
"#;
