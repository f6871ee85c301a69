//! Addresses of services, tried by pods, nodes and hosts outside that they are not for.

use std::net::IpAddr;
use std::thread;

use netloom_lab::{Machine, Shell};
use netloom_lab_fixtures::ask::{Ask, Protocol, ask, names};

use crate::{apply, field, lab_with, namespace, network, pod};

fn service(namespace: &str, name: &str, spec: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{ name: {name}, namespace: {namespace} }}\nspec: {{ selector: {{ run: victim }}, ipFamilyPolicy: PreferDualStack, {spec}, \
         ports: [{{ name: tcp, port: 80, targetPort: 8080 }}, {{ name: udp, port: 9, protocol: UDP }}] }}\n---\n"
    )
}

/// Asks for addresses and ports that no service has, in every way that is not TCP, which has a test of its own.
fn unserved(vips: &str) -> String {
    let outside = Machine::Outside.v4();
    let mut script = String::new();
    for to in vips.split_whitespace().chain(["10.96.250.250", "fd00:10:96::fafa"]) {
        script += &format!("ping -n -q -c1 -W0.3 {to} > /dev/null && echo {to} answers\necho red > /dev/udp/{to}/4711\n");
    }
    script + &format!("echo red > /dev/udp/{outside}/9001\ntrue\n")
}

/// Nothing of it is seen outside, where a host could answer; and a service's address does not answer to ping.
#[test]
fn what_no_service_serves_never_leaves_the_cluster() {
    let objects = namespace("red-services", "")
        + &network("red-services", "192.168.69.0/24, \"fd01:69::/64\"")
        + &namespace("red-services-network", "netloom.io/network: red-services")
        + &pod("red-services", "victim", "node2")
        + &pod("red-services", "attacker", "node1")
        + &pod("red-services-network", "attacker", "node1")
        + &service("red-services", "web", "type: ClusterIP");
    let lab = lab_with(&objects);
    let script = unserved(&field(&lab, "red-services", "service/web", "{.spec.clusterIPs[*]}"));
    let senders: [(&str, Shell<'_>); 3] = [
        ("pod", lab.pod("red-services", "attacker")),
        ("pod on a Network", lab.pod("red-services-network", "attacker")),
        ("node", lab.node("node1")),
    ];
    let watch = "seen=0; while read -r -t 60 line; do echo \"$line\"; [[ $line == *.9001:* ]] && ((++seen == 12)) && exit 0; done \
        < <(exec timeout 120 tcpdump -lnni any 'udp port 9001 or net 10.96.0.0/16 or net fd00:10:96::/112' 2>/dev/null); exit 1";
    let seen = thread::scope(|scope| {
        let watching = scope.spawn(|| lab.outside().run(&["bash", "-c", watch]));
        while !watching.is_finished() {
            for (who, shell) in &senders {
                assert_eq!(shell.run(&["bash", "-c", &script]).unwrap(), "", "{who}");
            }
        }
        watching.join().unwrap().unwrap()
    });
    let strays: Vec<&str> = seen.lines().filter(|line| !line.contains(".9001:")).collect();
    assert_eq!(strays, Vec::<&str>::new(), "seen outside");
}

/// `loadBalancerSourceRanges` bind pods on Networks as they bind all other clients.
#[test]
fn source_ranges_bind_pods_on_networks() {
    let objects = namespace("red-ranges", "")
        + "apiVersion: netloom.io/v1alpha1\nkind: ExternalPool\nmetadata: { name: red-ranges }\nspec: { ranges: [172.30.0.220-172.30.0.221], namespaces: [red-ranges] }\n---\n"
        + &network("red-ranges", "192.168.70.0/24, \"fd01:70::/64\"")
        + &namespace("red-ranges-network", "netloom.io/network: red-ranges")
        + &pod("red-ranges", "victim", "node2")
        + &pod("red-ranges-network", "attacker", "node1");
    let lab = lab_with(&objects);
    let guarded = |ranges: &str| {
        let spec = format!("type: LoadBalancer, loadBalancerSourceRanges: [{ranges}]");
        service("red-ranges", "web", &spec).replace("PreferDualStack", "SingleStack")
    };
    let attacker = lab.pod("red-ranges-network", "attacker");
    // First it may, so that silence means something.
    apply(&lab, &guarded(&format!("10.244.0.0/16, {}/32", Machine::Outside.v4())));
    let address = "{.status.loadBalancer.ingress[0].ip}";
    lab.kubectl(&[
        "wait",
        "service/web",
        "-n",
        "red-ranges",
        &format!("--for=jsonpath={address}"),
        "--timeout=30s",
    ])
    .unwrap();
    let address: IpAddr = field(&lab, "red-ranges", "service/web", address).parse().unwrap();
    let question = Ask::new(Protocol::Tcp, address, 80);
    ask(&attacker, &question.clone().until_answered());
    apply(&lab, &guarded(&format!("{}/32", Machine::Outside.v4())));
    ask(&attacker, &question.clone().until_lost());
    let answers = ask(&attacker, &question.clone().count(5).timeout_ms(500));
    assert!(names(&answers).is_empty(), "a pod on a Network is not in the range: {answers:?}");
    ask(&lab.outside(), &question.until_answered());
    lab.kubectl(&["delete", "service", "web", "-n", "red-ranges"]).unwrap();
    lab.kubectl(&["delete", "externalpool", "red-ranges"]).unwrap();
}
