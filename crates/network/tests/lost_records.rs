//! A database that was lost is made again from what objects show: nobody is given what the status of another shows.
#![allow(clippy::unwrap_used, missing_docs)]

use netloom_kubernetes::manifest;
use netloom_network::Planner;

/// One IPv4 address is left in the pool. `a` has only its IPv6 address, `b` has the IPv4 address.
const SHOP: &str = r#"
apiVersion: netloom.io/v1alpha1
kind: ExternalPool
metadata: { name: pool }
spec: { cidrs: ["192.0.2.3/32", "fd01::/126"] }
---
apiVersion: v1
kind: Service
metadata: { name: a, namespace: shop, uid: a }
spec: { type: LoadBalancer, clusterIPs: [10.96.0.2, "fd00:10:96::2"], ipFamilies: [IPv4, IPv6], ports: [{ port: 80 }] }
status: { loadBalancer: { ingress: [{ ip: "fd01::1" }] } }
---
apiVersion: v1
kind: Service
metadata: { name: b, namespace: shop, uid: b }
spec: { type: LoadBalancer, clusterIPs: [10.96.0.3], ipFamilies: [IPv4], ports: [{ port: 80 }] }
status: { loadBalancer: { ingress: [{ ip: 192.0.2.3 }] } }
"#;

/// `a` asks for the IPv4 address that `b` has.
const ASKED: &str = r#"
apiVersion: netloom.io/v1alpha1
kind: ExternalPool
metadata: { name: pool }
spec: { cidrs: ["192.0.2.2/31", "fd01::/126"] }
---
apiVersion: v1
kind: Service
metadata: { name: a, namespace: shop, uid: a }
spec: { type: LoadBalancer, clusterIPs: [10.96.0.2, "fd00:10:96::2"], ipFamilies: [IPv4, IPv6], ports: [{ port: 80 }], loadBalancerIP: 192.0.2.2 }
status: { loadBalancer: { ingress: [{ ip: "fd01::1" }] } }
---
apiVersion: v1
kind: Service
metadata: { name: b, namespace: shop, uid: b }
spec: { type: LoadBalancer, clusterIPs: [10.96.0.3], ipFamilies: [IPv4], ports: [{ port: 80 }] }
status: { loadBalancer: { ingress: [{ ip: 192.0.2.2 }] } }
"#;

/// `a` is of another controller, which gave it an address, and lists the one that `b` has.
const LISTED: &str = r#"
apiVersion: netloom.io/v1alpha1
kind: ExternalPool
metadata: { name: pool }
spec: { cidrs: ["192.0.2.2/31"] }
---
apiVersion: v1
kind: Service
metadata: { name: a, namespace: other, uid: a }
spec: { type: LoadBalancer, loadBalancerClass: example.com/other, clusterIPs: [10.96.0.2], ipFamilies: [IPv4], ports: [{ port: 80 }], externalIPs: [192.0.2.2] }
status: { loadBalancer: { ingress: [{ ip: 198.51.100.1 }] } }
---
apiVersion: v1
kind: Service
metadata: { name: b, namespace: shop, uid: b, creationTimestamp: "2026-01-01T00:00:00Z" }
spec: { type: LoadBalancer, clusterIPs: [10.96.0.3], ipFamilies: [IPv4], ports: [{ port: 80 }] }
status: { loadBalancer: { ingress: [{ ip: 192.0.2.2 }] } }
"#;

/// `a` asks for what it lists as well, and lists the one that `b` has.
const ASKED_AND_LISTED: &str = r#"
apiVersion: netloom.io/v1alpha1
kind: ExternalPool
metadata: { name: pool }
spec: { ranges: [192.0.2.5-192.0.2.7] }
---
apiVersion: v1
kind: Service
metadata: { name: a, namespace: other, uid: a }
spec: { type: LoadBalancer, clusterIPs: [10.96.0.2], ipFamilies: [IPv4], ports: [{ port: 80 }], loadBalancerIP: 192.0.2.5, externalIPs: [192.0.2.5, 192.0.2.6] }
status: { loadBalancer: { ingress: [{ ip: 192.0.2.5 }] } }
---
apiVersion: v1
kind: Service
metadata: { name: b, namespace: shop, uid: b, creationTimestamp: "2026-01-01T00:00:00Z" }
spec: { type: LoadBalancer, clusterIPs: [10.96.0.3], ipFamilies: [IPv4], ports: [{ port: 80 }] }
status: { loadBalancer: { ingress: [{ ip: 192.0.2.6 }] } }
"#;

#[test]
fn a_service_keeps_the_address_its_status_shows_though_another_lists_it() {
    assert_eq!(given(LISTED), ["shop/b [192.0.2.2]"]);
    assert_eq!(given(ASKED_AND_LISTED), ["other/a [192.0.2.5]", "shop/b [192.0.2.6]"]);
}

#[test]
fn a_service_keeps_the_address_its_status_shows_though_another_lacks_one() {
    assert_eq!(given(SHOP), ["shop/a [fd01::1]", "shop/b [192.0.2.3]"]);
}

#[test]
fn a_service_keeps_the_address_its_status_shows_though_another_asks_for_it() {
    assert_eq!(given(ASKED), ["shop/a [fd01::1]", "shop/b [192.0.2.2]"]);
}

/// What services have, by the records made from these manifests.
fn given(manifests: &str) -> Vec<String> {
    let manifests: Vec<serde_json::Value> = serde_saphyr::from_multiple(manifests).unwrap();
    let mut planner = Planner::default();
    for object in manifest::cluster(&manifests).unwrap() {
        planner.apply(object);
    }
    planner.compile();
    let records = &planner.cluster().records;
    records
        .externals()
        .map(|(name, external)| format!("{name} {:?}", external.addresses))
        .collect()
}
