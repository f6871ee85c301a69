use super::*;
use netloom_policy::{Source, judge};

const WORLD: &str = "
kind: Pod
metadata: { name: web, namespace: shop, labels: { app: web } }
spec: { nodeName: node1 }
status: { podIPs: [{ ip: 10.0.1.5 }, { ip: 'fd00:1::5' }] }
---
kind: Pod
metadata: { name: db, namespace: shop, labels: { app: db } }
spec: { nodeName: node2 }
status: { podIPs: [{ ip: 10.0.2.5 }, { ip: 'fd00:2::5' }] }
---
kind: Pod
metadata: { name: new, namespace: shop, labels: { app: new } }
spec: { nodeName: node2 }
---
kind: Network
metadata: { name: blue }
spec: { subnets: [192.168.10.0/24] }
---
kind: Pod
metadata: { name: tenant, namespace: shop, labels: { app: tenant }, annotations: { netloom.io/network: blue } }
spec: { nodeName: node1 }
status: { podIPs: [{ ip: 10.0.1.7 }] }
---
kind: Pod
metadata: { name: other, namespace: shop, labels: { app: tenant }, annotations: { netloom.io/network: blue } }
spec: { nodeName: node2 }
status: { podIPs: [{ ip: 10.0.2.8 }] }
---
kind: Service
metadata: { name: db, namespace: shop }
spec: { clusterIPs: [10.96.0.7, 'fd00:96::7'], externalIPs: [203.0.113.7], selector: { app: db }, ports: [{ port: 80, targetPort: 5432 }] }
---
kind: Service
metadata: { name: names, namespace: shop }
spec: { clusterIP: None, selector: { app: db }, ports: [{ port: 80 }] }
---
kind: Node
metadata: { name: node1, annotations: { netloom.io/subnets: 10.0.1.0/24 } }
status: { addresses: [{ type: InternalIP, address: 192.0.2.1 }] }
";

fn asked(from: &str, to: &str, port: u16) -> Result<Vec<Microflow>, String> {
    let mut cluster = Cluster::default();
    let documents: Vec<Value> = serde_saphyr::from_multiple(WORLD).unwrap();
    documents.iter().for_each(|document| cluster.add_manifest(document).unwrap());
    let question = Question {
        from: Source::parse(from, "shop").unwrap(),
        to: Target::parse(to, "shop").unwrap(),
        protocol: Protocol::Tcp,
        port,
    };
    let verdict = judge(&cluster, &question).unwrap();
    assert_eq!(verdict.flows.len(), 1);
    microflows(&cluster, &question, &verdict.flows[0])
}

fn known() -> BTreeMap<String, BoundPort> {
    let port = |name: &str, mac: &str, datapath: &str| {
        let (mac, datapath) = (mac.to_owned(), datapath.to_owned());
        (name.to_owned(), BoundPort { mac, datapath })
    };
    BTreeMap::from([
        port("shop/web", "0a:00:00:00:01:05", "switch-1"),
        port("shop/db", "0a:00:00:00:02:05", "switch-2"),
        port("cluster-router_to_switch_node1", "0a:00:00:00:01:01", "router"),
        port("switch_node1_to_cluster-router", "router", "switch-1"),
        port("switch_node2_to_cluster-router", "router", "switch-2"),
        port("shop/tenant", "0a:00:00:00:01:07", "switch-blue"),
        port("shop/other", "0a:00:00:00:02:08", "switch-blue"),
        port("network_blue_to_switch", "0a:00:c0:a8:0a:01", "router-blue"),
        port("network_blue_to_switch_peer", "router", "switch-blue"),
    ])
}

#[test]
fn a_pod_elsewhere_is_behind_the_router_in_both_families() {
    let microflows = asked("web", "db", 5432).unwrap();
    let flows: Vec<String> = microflows
        .iter()
        .map(|microflow| microflow.arguments(&known()).unwrap().pop().unwrap())
        .collect();
    assert_eq!(
        flows,
        [
            "inport == \"shop/web\" && eth.src == 0a:00:00:00:01:05 && eth.dst == 0a:00:00:00:01:01 && ip4.src == 10.0.1.5 && \
             ip4.dst == 10.0.2.5 && ip.ttl == 64 && tcp.src == 10000 && tcp.dst == 5432",
            "inport == \"shop/web\" && eth.src == 0a:00:00:00:01:05 && eth.dst == 0a:00:00:00:01:01 && ip6.src == fd00:1::5 && \
             ip6.dst == fd00:2::5 && ip.ttl == 64 && tcp.src == 10000 && tcp.dst == 5432",
        ]
    );
}

#[test]
fn a_pod_on_the_same_switch_is_addressed_itself() {
    let microflow = asked("web", "db", 5432).unwrap().remove(0);
    let mut ports = known();
    for name in ["shop/db", "switch_node2_to_cluster-router"] {
        ports.get_mut(name).unwrap().datapath = "switch-1".to_owned();
    }
    let flow = microflow.arguments(&ports).unwrap().pop().unwrap();
    assert!(flow.contains("eth.dst == 0a:00:00:00:02:05"), "{flow}");
    // Through a service it is still the gateway.
    let microflow = asked("web", "svc/db", 80).unwrap().remove(0);
    let flow = microflow.arguments(&ports).unwrap().pop().unwrap();
    assert!(flow.contains("eth.dst == 0a:00:00:00:01:01"), "{flow}");
}

#[test]
fn a_pod_on_a_network_finds_everybody_behind_its_router() {
    for (from, to, gateway) in [
        ("tenant", "db", "0a:00:c0:a8:0a:01"),
        ("tenant", "other", "0a:00:c0:a8:0a:01"),
        ("tenant", "svc/db", "0a:00:c0:a8:0a:01"),
        ("web", "tenant", "0a:00:00:00:01:01"),
    ] {
        let microflow = asked(from, to, 80).unwrap().remove(0);
        let flow = microflow.arguments(&known()).unwrap().pop().unwrap();
        assert!(flow.contains(&format!("eth.dst == {gateway}")), "{from} to {to}: {flow}");
    }
}

#[test]
fn a_pod_that_is_elsewhere_than_it_says_is_not_traced() {
    let mut ports = known();
    ports.get_mut("shop/tenant").unwrap().datapath = "switch-1".to_owned();
    for (from, to) in [("tenant", "db"), ("web", "tenant")] {
        let microflow = asked(from, to, 80).unwrap().remove(0);
        assert_eq!(
            microflow.arguments(&ports).unwrap_err(),
            "OVN has shop/tenant on another network than it is to be on; only a new pod moves there"
        );
    }
}

#[test]
fn a_service_is_asked_for_one_backend() {
    let microflows = asked("web", "svc/db", 80).unwrap();
    let words: Vec<Vec<String>> = microflows.iter().map(|microflow| microflow.arguments(&known()).unwrap()).collect();
    assert!(words[0].contains(&"--lb-dst=10.0.2.5:5432".to_owned()), "{words:?}");
    assert!(words[1].contains(&"--lb-dst=[fd00:2::5]:5432".to_owned()), "{words:?}");
    assert!(
        words[0]
            .last()
            .unwrap()
            .ends_with("ip4.dst == 10.96.0.7 && ip.ttl == 64 && tcp.src == 10000 && tcp.dst == 80")
    );
    assert!(words[1].last().unwrap().contains("ip6.dst == fd00:96::7"));
    // By address it is one family; a headless service is its pods.
    assert_eq!(asked("web", "fd00:96::7", 80).unwrap().len(), 1);
    assert_eq!(asked("web", "svc/names", 80).unwrap()[0].backend, None);
}

#[test]
fn a_node_sends_from_its_own_ports() {
    let microflow = asked("node/node1", "db", 5432).unwrap().remove(0);
    assert_eq!(
        (microflow.inport.as_str(), microflow.source.to_string()),
        ("management_node1", "10.0.1.2".to_owned())
    );
    let microflow = asked("node/node1", "svc/db", 80).unwrap().remove(0);
    assert_eq!(
        (microflow.inport.as_str(), microflow.source.to_string()),
        ("service_node1", "10.0.1.3".to_owned())
    );
    assert_eq!(
        asked("192.0.2.1", "db", 80).unwrap_err(),
        "node node1 does not send to pods from the addresses this is about"
    );
}

#[test]
fn what_cannot_be_traced_says_why() {
    let why = |from, to, port| asked(from, to, port).unwrap_err();
    assert_eq!(
        why("198.51.100.1", "db", 80),
        "what address 198.51.100.1 sends has no port of its own to start from"
    );
    assert_eq!(why("new", "db", 80), "there are no addresses to send from or to yet");
    assert_eq!(why("web", "203.0.113.7", 80), "service shop/db is not met at its cluster address");
    assert_eq!(why("web", "10.0.1.2", 80), "the node's own port is not behind the router");
    let microflow = asked("db", "web", 80).unwrap().remove(0);
    assert_eq!(
        microflow.arguments(&known()),
        Err("OVN has no port cluster-router_to_switch_node2".to_owned())
    );
}

#[test]
fn a_trace_arrives_where_the_packet_should() {
    let microflow = asked("web", "db", 80).unwrap().remove(0);
    assert!(microflow.arrives("ct_lb_mark {\n    ip.ttl--;\n    ct_lb_mark {\n        output(\"shop/db\");\n    };\n};\n"));
    assert!(!microflow.arrives("ct_lb_mark {\n    ip.ttl--;\n    ct_lb_mark;\n};\n"));
    assert!(!microflow.arrives("output(\"shop/db2\");"));
    let out = asked("web", "198.51.100.1", 443).unwrap().remove(0);
    assert!(out.arrives("ct_lb_mark {\n    ip.ttl--;\n    output(\"uplink_node1\");\n};\n"));
    assert!(!out.arrives("ct_lb_mark;\n"));
}

#[test]
fn ports_are_read_from_the_southbound() {
    let json = r#"{"data":[["shop/web","0a:4e:0a:f4:00:05 10.244.0.5 fd00::5",["uuid","37d7"]],["odd",["set",[]],["uuid","1"]]],"headings":["logical_port","mac","datapath"]}"#;
    let read = ports(json).unwrap();
    assert_eq!(read.len(), 1);
    assert_eq!(
        (read["shop/web"].mac.as_str(), read["shop/web"].datapath.as_str()),
        ("0a:4e:0a:f4:00:05", "37d7")
    );
    assert!(ports("nonsense").is_err());
}
