//! The files a kubelet gives every container: `/etc/resolv.conf`, `/etc/hosts` and `/etc/hostname`, as the pod's spec wants them.
//!
//! The content is computed from the pod, its record and its node; [`write`] puts it where the containers' own view of `/etc` takes it from.

use std::collections::BTreeSet;
use std::net::IpAddr;

use anyhow::Context as _;
use k8s_openapi::api::core::v1::Pod;

use super::container::Node;
use crate::pods::{PodRecord, files};
use crate::spec::IpFamily;

/// The cluster's domain.
const DOMAIN: &str = "cluster.local";
/// More than this many name servers are not asked by anybody's resolver.
const NAME_SERVERS: usize = 3;

/// Writes a pod's files; files that are there are written again in place, so that running containers see the change.
pub fn write(pod: &Pod, record: &PodRecord, node: &Node) -> anyhow::Result<()> {
    let directory = files(&record.uid);
    std::fs::create_dir_all(&directory).with_context(|| format!("creating {}", directory.display()))?;
    let of_node = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let content = [
        ("resolv.conf", resolv_conf(pod, record, node, &of_node("/etc/resolv.conf"))),
        ("hosts", hosts(pod, record, node, &of_node("/etc/hosts"))),
        ("hostname", format!("{}\n", hostname(pod, record, node))),
    ];
    for (name, text) in content {
        let path = directory.join(name);
        std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(())
}

/// Removes a pod's files.
pub fn remove(uid: &str) {
    let _ = std::fs::remove_dir_all(files(uid));
}

/// The host name a pod's containers see.
pub fn hostname(pod: &Pod, record: &PodRecord, node: &Node) -> String {
    if record.network.is_none() {
        return node.name.clone();
    }
    let wants_full = pod.spec.as_ref().and_then(|spec| spec.set_hostname_as_fqdn) == Some(true);
    full_name(pod, record)
        .filter(|_| wants_full)
        .unwrap_or_else(|| short_name(pod, record))
}

/// The host name without a domain: the one asked for, or the pod's own, as far as a host name may be long.
fn short_name(pod: &Pod, record: &PodRecord) -> String {
    let asked = pod
        .spec
        .as_ref()
        .and_then(|spec| spec.hostname.clone())
        .filter(|name| !name.is_empty());
    let name = asked.unwrap_or_else(|| record.name.clone());
    name.chars().take(63).collect::<String>().trim_end_matches(['-', '.']).to_owned()
}

/// The name the cluster's DNS has for a pod of a subdomain.
fn full_name(pod: &Pod, record: &PodRecord) -> Option<String> {
    let subdomain = pod.spec.as_ref()?.subdomain.as_deref().filter(|name| !name.is_empty())?;
    Some(format!("{}.{subdomain}.{}.svc.{DOMAIN}", short_name(pod, record), record.namespace))
}

/// What a resolver needs.
#[derive(Debug, Default, PartialEq, Eq)]
struct Resolver {
    servers: Vec<String>,
    searches: Vec<String>,
    options: Vec<String>,
}

fn resolv_conf(pod: &Pod, record: &PodRecord, node: &Node, of_node: &str) -> String {
    let spec = pod.spec.as_ref();
    let of_node = Resolver::parse(of_node);
    let mut resolver = match (spec.and_then(|spec| spec.dns_policy.as_deref()), record.network.is_some()) {
        (Some("None"), _) => Resolver::default(),
        // A pod on the node's own network asks whom the node asks, unless it says otherwise.
        (Some("Default"), _) | (None | Some("ClusterFirst"), false) => of_node,
        _ => {
            let own = [format!("{}.svc.{DOMAIN}", record.namespace), format!("svc.{DOMAIN}"), DOMAIN.into()];
            Resolver {
                servers: servers(&node.addresses),
                searches: own.into_iter().chain(of_node.searches).collect(),
                options: vec!["ndots:5".into()],
            }
        }
    };
    if let Some(config) = spec.and_then(|spec| spec.dns_config.as_ref()) {
        resolver.servers.extend(config.nameservers.iter().flatten().cloned());
        resolver.searches.extend(config.searches.iter().flatten().cloned());
        for option in config.options.iter().flatten() {
            let Some(name) = &option.name else { continue };
            resolver.options.retain(|other| other.split(':').next() != Some(name));
            let value = option.value.as_ref().map(|value| format!(":{value}")).unwrap_or_default();
            resolver.options.push(format!("{name}{value}"));
        }
    }
    resolver.to_string()
}

/// The cluster's DNS, in the families of the node's addresses.
fn servers(addresses: &[IpAddr]) -> Vec<String> {
    IpFamily::of(addresses).cluster_dns().iter().map(ToString::to_string).collect()
}

impl Resolver {
    fn parse(text: &str) -> Self {
        let mut resolver = Resolver::default();
        for line in text.lines() {
            let mut words = line.split_whitespace().map(String::from);
            match words.next().as_deref() {
                Some("nameserver") => resolver.servers.extend(words.next()),
                Some("search" | "domain") => resolver.searches = words.collect(),
                Some("options") => resolver.options.extend(words),
                _ => {}
            }
        }
        resolver
    }
}

impl std::fmt::Display for Resolver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let once = |words: &[String]| {
            let mut seen = BTreeSet::new();
            words.iter().filter(|word| seen.insert(word.as_str())).cloned().collect::<Vec<_>>()
        };
        for server in once(&self.servers).iter().take(NAME_SERVERS) {
            writeln!(f, "nameserver {server}")?;
        }
        for (word, values) in [("search", once(&self.searches)), ("options", once(&self.options))] {
            if !values.is_empty() {
                writeln!(f, "{word} {}", values.join(" "))?;
            }
        }
        Ok(())
    }
}

fn hosts(pod: &Pod, record: &PodRecord, node: &Node, of_node: &str) -> String {
    let mut text = if record.network.is_none() && !of_node.is_empty() {
        format!("# Written by the lab's kubelet from the node's own.\n{of_node}")
    } else {
        String::from(
            "# Written by the lab's kubelet.\n127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n\
             fe00::0\tip6-localnet\nfe00::0\tip6-mcastprefix\nfe00::1\tip6-allnodes\nfe00::2\tip6-allrouters\n",
        )
    };
    if record.network.is_some() {
        let short = short_name(pod, record);
        let names = full_name(pod, record).map_or_else(|| short.clone(), |full| format!("{full}\t{short}"));
        for address in &record.addresses {
            text.push_str(&format!("{address}\t{names}\n"));
        }
    } else if of_node.is_empty() {
        for address in &node.addresses {
            text.push_str(&format!("{address}\t{}\n", node.name));
        }
    }
    for alias in pod.spec.iter().flat_map(|spec| spec.host_aliases.iter().flatten()) {
        let names = alias.hostnames.iter().flatten().cloned().collect::<Vec<_>>().join("\t");
        text.push_str(&format!("{}\t{names}\n", alias.ip));
    }
    text
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::{Value, json};

    const OF_NODE: &str = "nameserver 192.0.2.53\nsearch example.com\noptions timeout:1\n";

    fn pod(spec: Value) -> (Pod, PodRecord, Node) {
        let host = spec["hostNetwork"] == true;
        let record = PodRecord {
            namespace: "shop".into(),
            name: "web-0".into(),
            uid: "u".into(),
            sandbox: "s".into(),
            network: (!host).then(|| "/run/netns/s".into()),
            addresses: vec!["10.244.0.5".parse().unwrap(), "fd00::5".parse().unwrap()],
            port_mappings: Vec::new(),
        };
        let node = Node {
            name: "node1".into(),
            addresses: vec!["172.30.0.11".parse().unwrap(), "fd30::b".parse().unwrap()],
        };
        (serde_json::from_value(json!({ "spec": spec })).unwrap(), record, node)
    }

    fn resolver(spec: Value) -> String {
        let (pod, record, node) = pod(spec);
        resolv_conf(&pod, &record, &node, OF_NODE)
    }

    const CLUSTER: &str = "nameserver 10.96.0.10\nnameserver fd00:10:96::a\n\
        search shop.svc.cluster.local svc.cluster.local cluster.local example.com\noptions ndots:5\n";

    #[test]
    fn every_policy_has_its_servers() {
        assert_eq!(resolver(json!({"containers": []})), CLUSTER);
        assert_eq!(resolver(json!({"containers": [], "dnsPolicy": "ClusterFirst"})), CLUSTER);
        let on_node = json!({"containers": [], "dnsPolicy": "ClusterFirst", "hostNetwork": true});
        assert_eq!(resolver(on_node), OF_NODE);
        let both = json!({"containers": [], "dnsPolicy": "ClusterFirstWithHostNet", "hostNetwork": true});
        assert_eq!(resolver(both), CLUSTER);
        assert_eq!(resolver(json!({"containers": [], "dnsPolicy": "Default"})), OF_NODE);
        assert_eq!(resolver(json!({"containers": [], "dnsPolicy": "None"})), "");
    }

    #[test]
    fn the_pod_adds_its_own() {
        let config = json!({
            "nameservers": ["192.0.2.1", "192.0.2.1", "192.0.2.2"],
            "searches": ["svc.cluster.local", "more.example"],
            "options": [{"name": "ndots", "value": "2"}, {"name": "edns0"}],
        });
        assert_eq!(
            resolver(json!({"containers": [], "dnsPolicy": "None", "dnsConfig": config.clone()})),
            "nameserver 192.0.2.1\nnameserver 192.0.2.2\nsearch svc.cluster.local more.example\noptions ndots:2 edns0\n"
        );
        assert_eq!(
            resolver(json!({"containers": [], "dnsConfig": config})),
            "nameserver 10.96.0.10\nnameserver fd00:10:96::a\nnameserver 192.0.2.1\n\
             search shop.svc.cluster.local svc.cluster.local cluster.local example.com more.example\noptions ndots:2 edns0\n"
        );
    }

    #[test]
    fn names_of_the_pod_itself() {
        let (plain, record, node) = pod(json!({"containers": []}));
        assert_eq!(hostname(&plain, &record, &node), "web-0");
        assert!(hosts(&plain, &record, &node, "").ends_with("\n10.244.0.5\tweb-0\nfd00::5\tweb-0\n"));
        let (named, ..) = pod(json!({
            "containers": [], "hostname": "db-0", "subdomain": "db", "hostAliases": [{"ip": "192.0.2.9", "hostnames": ["a", "b"]}],
        }));
        assert_eq!(hostname(&named, &record, &node), "db-0");
        let text = hosts(&named, &record, &node, "");
        assert!(text.contains("\n10.244.0.5\tdb-0.db.shop.svc.cluster.local\tdb-0\n"), "{text}");
        assert!(text.ends_with("192.0.2.9\ta\tb\n"), "{text}");
        let (host, record, node) = pod(json!({"containers": [], "hostNetwork": true}));
        assert_eq!(hostname(&host, &record, &node), "node1");
        assert!(hosts(&host, &record, &node, "127.0.0.1\tlocalhost\n").ends_with("\n127.0.0.1\tlocalhost\n"));
    }
}
