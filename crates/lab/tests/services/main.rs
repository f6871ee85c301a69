//! Services with real packets: who answers, and whom it saw, for every kind of service, from everywhere, as Kubernetes defines it.
//! Runs on the userspace datapath here and on the kernel's, with SCTP, in `make test-kernel`.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod availability;
mod balance;
mod dns;
mod health;
mod kube_proxy;
mod table;
mod trouble;

use std::net::{IpAddr, SocketAddr};

use netloom_lab::Lab;
use netloom_lab_fixtures::world;

/// A lab whose nodes do not take each other for dead while this machine is busy with something else for a third of a second: external
/// addresses stay where they are, and with them the connections through them.
fn steady_lab(test: &str) -> world::Checked {
    let lab = world::lab(test);
    lab.control()
        .run(&["ovn-nbctl", "set", "NB_Global", ".", "options:bfd-mult=100"])
        .unwrap();
    lab
}

/// A pod with labels that answers on 8080/TCP, 9090/UDP and 7070/SCTP.
fn backend(name: &str, node: &str, app: &str) -> String {
    world::pod(name, node)
        .replace("app: echo", &format!("app: {app}"))
        .replace("protocol: UDP }", "protocol: UDP }, { containerPort: 7070, protocol: SCTP }")
}

/// A service for the backends of an app; `more` are further lines of its spec.
fn service(name: &str, app: &str, more: &[&str]) -> String {
    let more: String = more.iter().map(|line| format!("  {line}\n")).collect();
    format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{ name: {name} }}\nspec:\n  selector: {{ app: {app} }}\n  ipFamilyPolicy: PreferDualStack\n{more}  ports:\n\
         \x20   - {{ name: tcp, port: 80, targetPort: 8080 }}\n\
         \x20   - {{ name: udp, port: 80, targetPort: 9090, protocol: UDP }}\n\
         \x20   - {{ name: sctp, port: 80, targetPort: 7070, protocol: SCTP }}\n---\n"
    )
}

/// Addresses that LoadBalancer services get in these tests: part of the network outside.
const POOL: &str = "apiVersion: netloom.io/v1alpha1\nkind: ExternalPool\nmetadata: { name: pool }\nspec: { cidrs: [172.30.0.192/28, \"fd30::c0/124\"] }\n---\n";

/// A field of an object.
fn field(lab: &Lab, object: &str, path: &str) -> String {
    lab.kubectl(&["get", object, "-o", &format!("jsonpath={path}")]).unwrap()
}

/// Waits, by watching, until a field of an object has a value.
fn wait_for(lab: &Lab, object: &str, path: &str) {
    lab.kubectl(&["wait", object, &format!("--for=jsonpath={path}"), "--timeout=30s"])
        .unwrap();
}

/// Waits until every node's switch does what the cluster says: the controller has nothing left to write and OVN has carried it out.
fn settle(lab: &Lab) {
    lab.control().run(&["ovn-nbctl", "--wait=hv", "--timeout=30", "sync"]).unwrap();
}

/// Waits until a vip of a service has exactly these backends, `address:port` in order, and every node's switch does so.
fn vip_is(lab: &Lab, service: &str, protocol: &str, vip: &str, backends: &str) {
    let row = format!("service_default_{service}_{protocol}");
    let wanted = format!("vips:\"{vip}\"=\"{backends}\"");
    lab.control()
        .run(&["ovn-nbctl", "--timeout=30", "wait-until", "Load_Balancer", &row, &wanted])
        .unwrap_or_else(|error| panic!("{row} never got {wanted}: {error:#}\n{}", list(lab, &row)));
    settle(lab);
}

/// Waits until every address of a service leads to these pods. Each family has endpoints of its own, which come in any order.
fn backends_are(lab: &Lab, service: &str, protocol: &str, port: u16, pods: &[String]) {
    let known = world::addresses(lab);
    for vip in field(lab, &format!("service/{service}"), "{.spec.clusterIPs[*]}").split_whitespace() {
        let vip: IpAddr = vip.parse().unwrap();
        let of_family = |pod: &String| known[pod].iter().copied().find(|ip| ip.is_ipv4() == vip.is_ipv4()).unwrap();
        let mut backends: Vec<IpAddr> = pods.iter().map(of_family).collect();
        backends.sort();
        let backends: Vec<String> = backends.iter().map(|ip| SocketAddr::new(*ip, port).to_string()).collect();
        vip_is(lab, service, protocol, &SocketAddr::new(vip, 80).to_string(), &backends.join(","));
    }
}

/// Waits until a service has a load balancer of its own for some nodes.
fn view_is_in_place(lab: &Lab, service: &str, view: &str) {
    let row = format!("service_default_{service}_tcp_{view}");
    lab.control()
        .run(&["ovn-nbctl", "--timeout=30", "wait-until", "Load_Balancer", &row])
        .unwrap();
    settle(lab);
}

/// Waits until the ACL of a service's source ranges says this.
fn acl_mentions(lab: &Lab, service: &str, range: &str) {
    let watch = "ovsdb-client monitor unix:/run/ovn/ovnnb_db.sock OVN_Northbound ACL match";
    let script = format!(
        "while read -t 30 line; do [[ $line == *'{range}'* ]] && exit 0; done < <({watch}); echo 'no ACL of {service} says {range}'; exit 1"
    );
    lab.control().run(&["bash", "-c", &script]).unwrap();
    settle(lab);
}

fn list(lab: &Lab, row: &str) -> String {
    lab.control()
        .run(&["ovn-nbctl", "find", "Load_Balancer", &format!("name={row}")])
        .unwrap()
}
