//! What users get wrong about services: each gets an answer on the object that causes it, and the service next to it goes on.

use std::net::IpAddr;

use netloom_lab::{Lab, Machine};

use crate::{acl_mentions, backend, backends_are, field, service, wait_for};
use netloom_lab_fixtures::ask::{Ask, Protocol, ask, names};
use netloom_lab_fixtures::world::{addresses, drift, ended, event, lab_with, pod, wait_ready};

#[test]
fn mistakes_are_answered_and_other_services_go_on() {
    let lab = lab_with("mistakes", |spec| spec.nodes(2));
    let pool = |name: &str, spec: &str| {
        format!("apiVersion: netloom.io/v1alpha1\nkind: ExternalPool\nmetadata: {{ name: {name} }}\nspec: {spec}\n---\n")
    };
    let pools = pool("small", "{ ranges: [172.30.0.200-172.30.0.201] }")
        + &pool("theirs", "{ cidrs: [172.30.0.208/29], namespaces: [theirs], autoAssign: false }")
        + &pool("routed", "{ ranges: [198.51.100.7-198.51.100.7], autoAssign: false }");
    lab.apply(
        &(pools
            + &backend("back", "node1", "back")
            + &pod("client", "node2")
            + &service("witness", "back", &["type: LoadBalancer", "ipFamilyPolicy: SingleStack"]).replacen(
                "  ipFamilyPolicy: PreferDualStack\n",
                "",
                1,
            )),
    )
    .unwrap();
    wait_ready(&lab);
    wait_for(&lab, "service/witness", "{.status.loadBalancer.ingress[0].ip}");
    backends_are(&lab, "witness", "tcp", 8080, &["back".to_owned()]);
    goes_on(&lab);

    what_nobody_serves(&lab);
    what_the_api_refuses(&lab);
    pools_that_cannot_give(&lab);
    the_same_address_twice(&lab);
    endpoints_nobody_owns(&lab);
    too_many_endpoints(&lab);
    only_these_clients(&lab);
    goes_on(&lab);
    assert_eq!(drift(&lab), "None.\n");
    assert_eq!(ended(&lab), Vec::<String>::new(), "parts crashed");
}

fn single(name: &str, more: &[&str]) -> String {
    service(name, "back", more).replace("  ipFamilyPolicy: PreferDualStack\n", "")
}

fn goes_on(lab: &Lab) {
    let inside: IpAddr = field(lab, "service/witness", "{.spec.clusterIP}").parse().unwrap();
    let external: IpAddr = field(lab, "service/witness", "{.status.loadBalancer.ingress[0].ip}")
        .parse()
        .unwrap();
    for (shell, address) in [(lab.pod("default", "client"), inside), (lab.outside(), external)] {
        let answers = ask(&shell, &Ask::new(Protocol::Tcp, address, 80).until_answered());
        assert_eq!(names(&answers).into_iter().collect::<Vec<_>>(), ["back"]);
    }
}

fn what_the_api_refuses(lab: &Lab) {
    let refused = |manifest: &str| lab.apply(manifest).unwrap_err().to_string();
    let witness = field(lab, "service/witness", "{.spec.clusterIP}");
    assert!(refused(&single("outside-range", &["clusterIP: 192.0.2.1"])).contains("spec.clusterIP"));
    assert!(refused(&single("taken", &[&format!("clusterIP: {witness}")])).contains("already allocated"));
    let twice = single("twice", &[]).replace(
        "{ name: udp, port: 80, targetPort: 9090, protocol: UDP }",
        "{ name: again, port: 80 }",
    );
    assert!(refused(&twice).contains("Duplicate value"), "{}", refused(&twice));
}

/// An address of the services' ranges that no service has, and a port that a service has not, are refused at once, and nothing of it is seen
/// outside. What nodes say to each other in tunnels, no pod says to a node or to the outside.
fn what_nobody_serves(lab: &Lab) {
    let witness = field(lab, "service/witness", "{.spec.clusterIP}");
    let client = lab.pod("default", "client");
    let (outside, node) = (Machine::Outside.v4(), Machine::Node(1).v4());
    let refused = |target: &str| client.run(&["sh", "-c", &format!("nc -vz -w 5 {target} 2>&1 | grep refused")]);
    let say = |port: &str, to| client.run(&["bash", "-c", &format!("echo hello >/dev/udp/{to}/{port}")]);
    // Outside, whatever comes until three packets have that may: of those that may not, two were sent in between.
    let watch = "seen=0; while read -r -t 60 line; do echo \"$line\"; [[ $line == *.6082:* ]] && ((++seen == 3)) && exit 0; done \
        < <(exec timeout 60 tcpdump -lnni any 'udp port 6081 or udp port 6082 or net 10.96.0.0/16' 2>/dev/null); exit 1";
    let seen = std::thread::scope(|scope| {
        let watching = scope.spawn(|| lab.outside().run(&["bash", "-c", watch]));
        while !watching.is_finished() {
            for target in ["10.96.0.250 80", &format!("{witness} 4711")] {
                assert!(refused(target).is_ok(), "{target}: {:?}", refused(target));
            }
            for (port, to) in [("6081", outside), ("6081", node), ("6082", outside)] {
                say(port, to).unwrap();
            }
        }
        watching.join().unwrap().unwrap()
    });
    assert!(!seen.contains(".6081:") && !seen.contains("10.96."), "{seen}");
}

fn pools_that_cannot_give(lab: &Lab) {
    lab.apply(&(single("second", &["type: LoadBalancer"]))).unwrap();
    wait_for(lab, "service/second", "{.status.loadBalancer.ingress[0].ip}");
    lab.apply(&(single("third", &["type: LoadBalancer"]))).unwrap();
    let said = event(lab, "third", "NoExternalAddress");
    assert!(said.contains("small") && said.contains("are taken"), "{said}");
    lab.apply(&(single("fourth", &["type: LoadBalancer", "loadBalancerIP: 192.0.2.9"])))
        .unwrap();
    assert!(event(lab, "fourth", "ExternalAddressRefused").contains("192.0.2.9"));
    lab.apply(&(single("fifth", &["type: LoadBalancer", "loadBalancerIP: 172.30.0.209"])))
        .unwrap();
    let said = event(lab, "fifth", "ExternalAddressRefused");
    assert!(said.contains("theirs") && said.contains("namespace"), "{said}");
    let witness = field(lab, "service/witness", "{.status.loadBalancer.ingress[0].ip}");
    lab.apply(&(single("sixth", &["type: LoadBalancer", &format!("loadBalancerIP: {witness}")])))
        .unwrap();
    assert!(event(lab, "sixth", "ExternalAddressRefused").contains("witness"));
    // An address that is given back goes to the one that waits.
    lab.kubectl(&["delete", "service", "second"]).unwrap();
    wait_for(lab, "service/third", "{.status.loadBalancer.ingress[0].ip}");
    lab.apply(
        "apiVersion: netloom.io/v1alpha1\nkind: ExternalPool\nmetadata: { name: broken }\nspec: { ranges: [172.30.0.9-172.30.0.1] }\n",
    )
    .unwrap();
    assert!(event(lab, "broken", "InvalidPool").contains("172.30.0.9-172.30.0.1"));
    lab.kubectl(&["delete", "service", "third", "fourth", "fifth", "sixth"]).unwrap();
}

fn the_same_address_twice(lab: &Lab) {
    // What no pool has nobody gets, not even the address of the control plane.
    lab.apply(&single("thief", &["externalIPs: [172.30.0.1]"])).unwrap();
    assert!(event(lab, "thief", "ExternalAddressRefused").contains("172.30.0.1"));
    lab.apply(&single("first-come", &["externalIPs: [198.51.100.7]"])).unwrap();
    backends_are(lab, "first-come", "tcp", 8080, &["back".to_owned()]);
    lab.apply(&single("latecomer", &["externalIPs: [198.51.100.7]"])).unwrap();
    let said = event(lab, "latecomer", "ExternalAddressRefused");
    assert!(said.contains("198.51.100.7") && said.contains("first-come"), "{said}");
    lab.kubectl(&["delete", "service", "first-come", "latecomer", "thief"]).unwrap();
}

/// Endpoints somebody wrote by hand.
fn slice(service: &str, addresses: &[String]) -> String {
    let list: Vec<String> = addresses.iter().map(|ip| format!("{{ addresses: [\"{ip}\"] }}")).collect();
    format!(
        "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {{ name: {service}-by-hand-{}, labels: {{ kubernetes.io/service-name: {service} }} }}\naddressType: IPv4\n\
         endpoints: [{}]\nports: [{{ name: tcp, port: 8080 }}]\n---\n",
        addresses[0].replace('.', "-"),
        list.join(", ")
    )
}

fn endpoints_nobody_owns(lab: &Lab) {
    let back = addresses(lab)["back"][0].to_string();
    let by_hand = single("by-hand", &[]).replace("  selector: { app: back }\n", "");
    lab.apply(&(by_hand + &slice("by-hand", &[back, "10.244.1.250".to_owned()])))
        .unwrap();
    let said = event(lab, "by-hand", "EndpointWithoutPod");
    assert!(said.contains("10.244.1.250"), "{said}");
    backends_are(lab, "by-hand", "tcp", 8080, &["back".to_owned()]);
    let address: IpAddr = field(lab, "service/by-hand", "{.spec.clusterIP}").parse().unwrap();
    let answers = ask(&lab.pod("default", "client"), &Ask::new(Protocol::Tcp, address, 80).count(24));
    assert_eq!(
        names(&answers).into_iter().collect::<Vec<_>>(),
        ["back"],
        "half of the connections would be lost"
    );
}

/// More than a switch can hold in one group: it uses what it can, says so, and lives.
fn too_many_endpoints(lab: &Lab) {
    let many = single("crowd", &[]).replace("  selector: { app: back }\n", "");
    let all: Vec<String> = (0..5000u32).map(|n| format!("192.0.{}.{}", n / 250, n % 250 + 1)).collect();
    let slices: String = all.chunks(1000).map(|chunk| slice("crowd", chunk)).collect();
    // All endpoints first: the service is told once, about all of them.
    lab.apply(&slices).unwrap();
    lab.apply(&many).unwrap();
    let said = event(lab, "crowd", "TooManyEndpoints");
    assert!(said.contains("more endpoints than the 500"), "{said}");
    crate::settle(lab);
    for node in ["node1", "node2"] {
        lab.node(node)
            .run(&["sh", "-c", "ovs-ofctl -O OpenFlow15 dump-groups br-int | wc -c"])
            .unwrap();
    }
    lab.kubectl(&["delete", "service", "crowd"]).unwrap();
}

fn only_these_clients(lab: &Lab) {
    let outside = Machine::Outside.v4();
    let ranges = |range: &str| single("guarded", &["type: LoadBalancer", &format!("loadBalancerSourceRanges: [{range}]")]);
    lab.apply(&ranges(&format!("{outside}/32"))).unwrap();
    wait_for(lab, "service/guarded", "{.status.loadBalancer.ingress[0].ip}");
    let address: IpAddr = field(lab, "service/guarded", "{.status.loadBalancer.ingress[0].ip}")
        .parse()
        .unwrap();
    let question = Ask::new(Protocol::Tcp, address, 80);
    ask(&lab.outside(), &question.clone().until_answered());
    let pod = ask(&lab.pod("default", "client"), &question.clone().count(2).timeout_ms(500));
    assert!(names(&pod).is_empty(), "a pod is not in the range: {pod:?}");
    lab.apply(&ranges("192.0.2.0/24")).unwrap();
    acl_mentions(lab, "guarded", "192.0.2.0/24");
    let answers = ask(&lab.outside(), &question.count(3).timeout_ms(500));
    assert!(names(&answers).is_empty(), "outside is not in the range: {answers:?}");
    lab.kubectl(&["delete", "service", "guarded"]).unwrap();
}
