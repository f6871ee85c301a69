//! Every kind of name, asked as a resolver asks.
#![allow(clippy::unwrap_used)]

use super::*;
use serde_json::{Value, json};

fn add_service(zone: &mut Zone, name: &str, spec: Value) {
    let object = serde_json::from_value(json!({ "spec": spec })).unwrap();
    zone.add_service(("default".into(), name.into()), &object);
}

fn add_slice(zone: &mut Zone, name: &str, service: &str, endpoints: Value) {
    let object = serde_json::from_value(json!({
        "metadata": { "labels": { "kubernetes.io/service-name": service } },
        "addressType": "IPv4", "endpoints": endpoints,
        "ports": [{ "name": "http", "port": 8080, "protocol": "TCP" }],
    }))
    .unwrap();
    zone.add_slice(("default".into(), name.into()), &object);
}

fn cluster() -> Zone {
    let mut zone = Zone::default();
    zone.add_namespace("default".into());
    let ports = json!([{ "name": "http", "port": 80, "protocol": "TCP" }, { "name": "dns", "port": 53, "protocol": "UDP" }]);
    add_service(
        &mut zone,
        "web",
        json!({ "clusterIP": "10.96.0.2", "clusterIPs": ["10.96.0.2", "fd00:10:96::2"], "ports": ports }),
    );
    let headless = json!({ "clusterIP": "None", "clusterIPs": ["None"], "ports": [{ "name": "http", "port": 80 }] });
    add_service(&mut zone, "db", headless.clone());
    add_slice(
        &mut zone,
        "db-1",
        "db",
        json!([
            { "addresses": ["10.244.0.5"], "hostname": "db-0", "conditions": { "ready": true } },
            { "addresses": ["10.244.0.6"] },
            { "addresses": ["10.244.0.7"], "hostname": "db-2", "conditions": { "ready": false } },
        ]),
    );
    add_slice(&mut zone, "db-2", "db", json!([{ "addresses": ["fd00::5"], "hostname": "db-0" }]));
    add_service(&mut zone, "empty", headless);
    add_service(&mut zone, "away", json!({ "type": "ExternalName", "externalName": "Example.COM" }));
    add_service(
        &mut zone,
        "alias",
        json!({ "type": "ExternalName", "externalName": "web.default.svc.cluster.local" }),
    );
    zone
}

/// The answer section as text, or the reason why there is none.
fn ask_of(zone: &Zone, name: &str, wanted: u16) -> Vec<String> {
    let answer = zone.answer(&Name::new(name), wanted);
    if answer.answers.is_empty() {
        assert!(answer.authority.len() == 1 || !answer.authoritative, "{answer:?}");
        return vec![format!("{:?}", answer.code)];
    }
    assert_eq!((answer.code, answer.authority.len()), (Code::NoError, 0));
    answer.answers.iter().map(|(_, data)| text(data)).collect()
}

fn text(data: &Data) -> String {
    match data {
        Data::A(address) => address.to_string(),
        Data::Aaaa(address) => address.to_string(),
        Data::Cname(name) | Data::Ptr(name) | Data::Ns(name) => name.to_string(),
        Data::Srv { weight, port, target } => format!("{weight} {port} {target}"),
        other => format!("{other:?}"),
    }
}

fn ask(name: &str, wanted: u16) -> Vec<String> {
    ask_of(&cluster(), name, wanted)
}

const NODATA: [&str; 1] = ["NoError"];
const NXDOMAIN: [&str; 1] = ["NoSuchName"];

#[test]
fn services_have_addresses() {
    assert_eq!(ask("web.default.svc.cluster.local", kind::A), ["10.96.0.2"]);
    assert_eq!(ask("WEB.Default.svc.cluster.local", kind::AAAA), ["fd00:10:96::2"]);
    assert_eq!(ask("db.default.svc.cluster.local", kind::A), ["10.244.0.5", "10.244.0.6"]);
    assert_eq!(ask("db.default.svc.cluster.local", kind::AAAA), ["fd00::5"]);
}

#[test]
fn unready_endpoints_are_told_when_the_service_says_so() {
    let mut zone = cluster();
    let spec = json!({ "clusterIP": "None", "publishNotReadyAddresses": true });
    add_service(&mut zone, "db", spec);
    let all = ask_of(&zone, "db.default.svc.cluster.local", kind::A);
    assert_eq!(all, ["10.244.0.5", "10.244.0.6", "10.244.0.7"]);
    assert_eq!(ask_of(&zone, "db-2.db.default.svc.cluster.local", kind::A), ["10.244.0.7"]);
}

#[test]
fn endpoints_of_headless_services_have_names() {
    assert_eq!(ask("db-0.db.default.svc.cluster.local", kind::A), ["10.244.0.5"]);
    assert_eq!(ask("db-0.db.default.svc.cluster.local", kind::AAAA), ["fd00::5"]);
    assert_eq!(ask("10-244-0-6.db.default.svc.cluster.local", kind::A), ["10.244.0.6"]);
    assert_eq!(ask("10-244-0-6.db.default.svc.cluster.local", kind::AAAA), NODATA);
    assert_eq!(ask("db-2.db.default.svc.cluster.local", kind::A), NXDOMAIN);
    assert_eq!(ask("10-96-0-2.web.default.svc.cluster.local", kind::A), NXDOMAIN);
}

#[test]
fn ports_have_hosts() {
    let zone = cluster();
    assert_eq!(
        ask_of(&zone, "_http._tcp.web.default.svc.cluster.local", kind::SRV),
        ["100 80 web.default.svc.cluster.local."]
    );
    assert_eq!(
        ask_of(&zone, "_http._tcp.db.default.svc.cluster.local", kind::SRV),
        [
            "50 8080 10-244-0-6.db.default.svc.cluster.local.",
            "50 8080 db-0.db.default.svc.cluster.local."
        ]
    );
    let answer = zone.answer(&Name::new("_http._tcp.db.default.svc.cluster.local"), kind::SRV);
    let extra: Vec<_> = answer
        .additional
        .iter()
        .map(|(name, data)| format!("{name} {}", text(data)))
        .collect();
    assert_eq!(
        extra,
        [
            "10-244-0-6.db.default.svc.cluster.local. 10.244.0.6",
            "db-0.db.default.svc.cluster.local. 10.244.0.5",
            "db-0.db.default.svc.cluster.local. fd00::5"
        ]
    );
    assert_eq!(ask("_dns._udp.web.default.svc.cluster.local", kind::A), NODATA);
    assert_eq!(ask("_http._udp.web.default.svc.cluster.local", kind::SRV), NXDOMAIN);
    assert_eq!(ask("_udp.web.default.svc.cluster.local", kind::SRV), NODATA);
    assert_eq!(ask("_sctp.web.default.svc.cluster.local", kind::SRV), NXDOMAIN);
}

#[test]
fn external_names_are_followed_as_far_as_this_cluster_goes() {
    assert_eq!(ask("away.default.svc.cluster.local", kind::A), ["example.com."]);
    assert_eq!(ask("away.default.svc.cluster.local", kind::CNAME), ["example.com."]);
    assert_eq!(
        ask("alias.default.svc.cluster.local", kind::A),
        ["web.default.svc.cluster.local.", "10.96.0.2"]
    );
    let mut zone = cluster();
    for (name, next) in [("a", "b"), ("b", "a")] {
        let spec = json!({ "type": "ExternalName", "externalName": format!("{next}.default.svc.cluster.local") });
        add_service(&mut zone, name, spec);
    }
    assert!(ask_of(&zone, "a.default.svc.cluster.local", kind::A).len() <= LONGEST_CHAIN + 1);
}

#[test]
fn pods_have_names_that_are_their_addresses() {
    assert_eq!(ask("10-244-0-9.default.pod.cluster.local", kind::A), ["10.244.0.9"]);
    assert_eq!(ask("fd00-10--9.default.pod.cluster.local", kind::AAAA), ["fd00:10::9"]);
    assert_eq!(ask("10-244-0-9.default.pod.cluster.local", kind::AAAA), NODATA);
    assert_eq!(ask("10-244-0.default.pod.cluster.local", kind::A), NXDOMAIN);
    assert_eq!(ask("10-244-0-9.nowhere.pod.cluster.local", kind::A), NXDOMAIN);
}

#[test]
fn addresses_have_names() {
    assert_eq!(ask("2.0.96.10.in-addr.arpa", kind::PTR), ["web.default.svc.cluster.local."]);
    assert_eq!(ask("5.0.244.10.in-addr.arpa", kind::PTR), ["db-0.db.default.svc.cluster.local."]);
    assert_eq!(
        ask("6.0.244.10.in-addr.arpa", kind::PTR),
        ["10-244-0-6.db.default.svc.cluster.local."]
    );
    let v6 = "2.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.6.9.0.0.0.1.0.0.0.0.d.f.ip6.arpa";
    assert_eq!(ask(v6, kind::PTR), ["web.default.svc.cluster.local."]);
    assert_eq!(ask("3.0.96.10.in-addr.arpa", kind::PTR), NXDOMAIN);
    assert_eq!(ask("2.0.96.10.in-addr.arpa", kind::A), NODATA);
    assert_eq!(ask("96.10.in-addr.arpa", kind::PTR), NXDOMAIN);
}

#[test]
fn a_name_without_such_records_is_not_a_name_that_is_not_there() {
    for name in [
        "empty.default.svc.cluster.local",
        "default.svc.cluster.local",
        "default.pod.cluster.local",
        "svc.cluster.local",
        "cluster.local",
    ] {
        assert_eq!(ask(name, kind::A), NODATA, "{name}");
    }
    for name in [
        "nothing.default.svc.cluster.local",
        "web.nowhere.svc.cluster.local",
        "nowhere.svc.cluster.local",
        "web.cluster.local",
        "web.default.svc.cluster.local.default.svc.cluster.local",
        "example.com",
        "local",
    ] {
        assert_eq!(ask(name, kind::A), NXDOMAIN, "{name}");
    }
    let apex = cluster().answer(&Name::new("cluster.local"), kind::SOA);
    assert!(matches!(apex.answers[..], [(_, Data::Soa { .. })]), "{apex:?}");
    assert!(cluster().answer(&Name::new("web.nowhere.svc.cluster.local"), kind::A).authoritative);
    assert!(!cluster().answer(&Name::new("example.com"), kind::A).authoritative);
}

#[test]
fn what_goes_is_forgotten() {
    let mut zone = cluster();
    zone.remove_slice(&("default".into(), "db-1".into()));
    assert_eq!(ask_of(&zone, "db.default.svc.cluster.local", kind::A), NODATA);
    assert_eq!(ask_of(&zone, "5.0.244.10.in-addr.arpa", kind::PTR), NXDOMAIN);
    zone.remove_service(&("default".into(), "web".into()));
    assert_eq!(ask_of(&zone, "web.default.svc.cluster.local", kind::A), NXDOMAIN);
    assert_eq!(ask_of(&zone, "2.0.96.10.in-addr.arpa", kind::PTR), NXDOMAIN);
    zone.remove_service(&("default".into(), "db".into()));
    zone.remove_slice(&("default".into(), "db-2".into()));
    assert!(
        zone.reverse.is_empty() && zone.owners.is_empty() && zone.slices.is_empty(),
        "{zone:?}"
    );
}
