//! A service as a row of a table: addresses and ports apart, as kubectl shows them, and its backends counted or listed.

use std::collections::BTreeMap;
use std::net::IpAddr;

use netloom_network::show::{BackendView, ServiceView};

use super::list;

/// The columns.
pub const HEADER: &[&str] = &["NAMESPACE", "NAME", "TYPE", "ADDRESSES", "PORTS", "BACKENDS", "ANNOUNCED"];

/// A service's cells; `wide` lists every backend on a line of its own.
pub fn row(service: &ServiceView, wide: bool) -> Vec<String> {
    let (addresses, ports) = apart(&service.addresses);
    vec![
        service.namespace.clone(),
        service.name.clone(),
        service.kind.to_owned(),
        list(&addresses),
        list(&ports),
        if wide {
            each(&service.backends)
        } else {
            counted(&service.backends)
        },
        service.announced.clone().unwrap_or_else(|| "-".to_owned()),
    ]
}

/// `10.96.0.5:80/tcp` is reached at `10.96.0.5` on `80/tcp`; a port of every node stays `*:30080/tcp`.
fn apart(places: &[String]) -> (Vec<&str>, Vec<&str>) {
    let (mut addresses, mut ports) = (Vec::new(), Vec::new());
    for place in places {
        match place.rsplit_once(':') {
            Some((address, port)) if address != "*" => {
                add(&mut addresses, address.trim_matches(['[', ']']));
                add(&mut ports, port);
            }
            _ => add(&mut ports, place.as_str()),
        }
    }
    (addresses, ports)
}

fn add<'a>(list: &mut Vec<&'a str>, text: &'a str) {
    if !list.contains(&text) {
        list.push(text);
    }
}

/// `3 ready`, `2 ready, 1 offline`. One backend counts once, whatever ports it has, and as its worst port is. The families are the same
/// backends again: the one with more of them is told, and of equals the one with more trouble.
fn counted(backends: &[BackendView]) -> String {
    let family = |ipv4: bool| {
        let mut worst: BTreeMap<IpAddr, &str> = BTreeMap::new();
        for backend in backends.iter().filter(|backend| backend.address.is_ipv4() == ipv4) {
            let state = worst.entry(backend.address.ip()).or_insert(backend.state);
            if *state == "ready" {
                *state = backend.state;
            }
        }
        let mut states: BTreeMap<&str, usize> = BTreeMap::new();
        worst.values().for_each(|state| *states.entry(*state).or_default() += 1);
        // Those that serve first.
        let ready = states.remove("ready").unwrap_or_default();
        (worst.len(), worst.len() - ready, ready, states)
    };
    let (_, _, ready, others) = family(true).max(family(false));
    let ready = Some(("ready", ready)).filter(|(_, count)| *count > 0);
    let shown: Vec<String> = ready
        .into_iter()
        .chain(others)
        .map(|(state, count)| format!("{count} {state}"))
        .collect();
    if shown.is_empty() { "none".to_owned() } else { shown.join(", ") }
}

fn each(backends: &[BackendView]) -> String {
    let line = |backend: &BackendView| {
        let node = backend.node.as_deref().unwrap_or("-");
        format!("{}/{} {node} {}", backend.address, backend.protocol, backend.state)
    };
    let lines: Vec<String> = backends.iter().map(line).collect();
    if lines.is_empty() { "none".to_owned() } else { lines.join("\n") }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use netloom_network::service::Protocol;

    use super::*;

    fn web() -> ServiceView {
        let backend = |address: &str, state| BackendView {
            address: address.parse().unwrap(),
            protocol: Protocol::Tcp,
            node: Some("node1".to_owned()),
            state,
        };
        let places = [
            "10.96.0.5:80/tcp",
            "[fd00:10:96::5]:80/tcp",
            "192.0.2.1:80/tcp",
            "*:30080/tcp",
            "10.96.0.5:53/udp",
        ];
        ServiceView {
            namespace: "default".to_owned(),
            name: "web".to_owned(),
            kind: "LoadBalancer",
            addresses: places.map(str::to_owned).to_vec(),
            backends: vec![backend("10.244.0.5:8080", "offline"), backend("[fd00::5]:8080", "ready")],
            announced: None,
        }
    }

    #[test]
    fn addresses_and_ports_are_shown_once_each() {
        let cells = row(&web(), false);
        assert_eq!(
            cells[3..],
            ["10.96.0.5,fd00:10:96::5,192.0.2.1", "80/tcp,*:30080/tcp,53/udp", "1 offline", "-"]
        );
    }

    #[test]
    fn a_backend_counts_once() {
        let mut service = web();
        for (ip, state) in [("10.244.0.6", "ready"), ("10.244.0.7", "ready"), ("10.244.0.8", "terminating")] {
            for port in [8080, 9090] {
                service.backends.push(BackendView {
                    address: format!("{ip}:{port}").parse().unwrap(),
                    protocol: Protocol::Tcp,
                    node: None,
                    state,
                });
            }
        }
        assert_eq!(row(&service, false)[5], "2 ready, 1 offline, 1 terminating");
    }

    #[test]
    fn wide_lists_every_backend() {
        let cells = row(&web(), true);
        assert_eq!(cells[5], "10.244.0.5:8080/tcp node1 offline\n[fd00::5]:8080/tcp node1 ready");
        let nobody = ServiceView {
            backends: Vec::new(),
            ..web()
        };
        assert_eq!(row(&nobody, true)[5], "none");
    }
}
