//! For each rule a Northbound that breaks it, and one that nearly does.

use netloom_contract::external_id::KEY;
use std::sync::Arc;

use netloom_ovsdb::{Atom, Datum, Table};

use crate::check::{RULES, check};
use crate::key::Key;
use crate::northbound::{Member, Northbound, RowId};
use crate::rows::{
    Acl, AddressSet, HaChassis, HaChassisGroup, LoadBalancer, LoadBalancerGroup, LoadBalancerHealthCheck, LogicalRouter,
    LogicalRouterPolicy, LogicalRouterPort, LogicalRouterStaticRoute, LogicalSwitch, LogicalSwitchPort, Meter, MeterBand, Nat, PortGroup,
};

/// A Northbound in the making.
#[derive(Default)]
struct Made(Northbound);

impl Made {
    fn put<T: Table>(&mut self, key: &str, row: T) -> RowId {
        let id = RowId::of(T::TABLE, &Key::new(key));
        let mut row = row.to_row();
        if T::TABLE != LoadBalancerGroup::TABLE {
            row.insert("external_ids", Datum::map([(KEY, key)]));
        }
        self.0.insert_row(id, Arc::new(row));
        id
    }

    fn add(&mut self, holder: RowId, column: &'static str, value: impl Into<Atom>) {
        let value = value.into();
        self.0.insert_member(Member {
            row: holder,
            column,
            value,
        });
    }

    /// Puts a row into a collection.
    fn hold<T: Table>(&mut self, holder: RowId, column: &'static str, key: &str, row: T) -> RowId {
        let id = self.put(key, row);
        self.add(holder, column, id.uuid);
        id
    }

    fn switch(&mut self, name: &str) -> RowId {
        let row = LogicalSwitch {
            name: name.to_owned(),
            ..Default::default()
        };
        self.put(&format!("switch/node/{name}"), row)
    }

    fn router(&mut self, name: &str) -> RowId {
        let row = LogicalRouter {
            name: name.to_owned(),
            ..Default::default()
        };
        self.put(&format!("router/{name}"), row)
    }

    fn port(&mut self, switch: RowId, name: &str, addresses: &str) -> RowId {
        let row = LogicalSwitchPort {
            name: name.to_owned(),
            addresses: [addresses.to_owned()].into(),
            ..Default::default()
        };
        self.hold(switch, "ports", &format!("port/{name}"), row)
    }

    /// A router's port, and its peer on a switch.
    fn router_port(&mut self, router: RowId, switch: RowId, name: &str, mac: &str, network: &str) {
        let row = LogicalRouterPort {
            name: name.to_owned(),
            mac: mac.to_owned(),
            networks: [network.to_owned()].into(),
            ..Default::default()
        };
        self.hold(router, "ports", &format!("router-port/{name}"), row);
        let peer = LogicalSwitchPort::router(format!("{name}_peer"), name.to_owned(), [].into());
        self.hold(switch, "ports", &format!("router-peer/{name}"), peer);
    }

    fn group(&mut self, name: &str) -> RowId {
        let row = PortGroup {
            name: name.to_owned(),
            ..Default::default()
        };
        self.put(&format!("group/{name}"), row)
    }

    fn set(&mut self, name: &str, addresses: &[&str]) -> RowId {
        let row = AddressSet {
            name: name.to_owned(),
            ..Default::default()
        };
        let id = self.put(&format!("set/{name}"), row);
        addresses.iter().for_each(|address| self.add(id, "addresses", *address));
        id
    }

    fn acl(&mut self, group: RowId, key: &str, condition: &str) -> RowId {
        let row = Acl {
            action: "drop".to_owned(),
            direction: "to-lport".to_owned(),
            priority: 1,
            match_: condition.to_owned(),
            ..Default::default()
        };
        self.hold(group, "acls", key, row)
    }

    fn policy(&mut self, router: RowId, key: &str, action: &str, condition: &str) {
        let row = LogicalRouterPolicy {
            action: action.to_owned(),
            priority: 1,
            match_: condition.to_owned(),
            ..Default::default()
        };
        self.hold(router, "policies", key, row);
    }

    fn route(&mut self, router: RowId, key: &str, prefix: &str, source: bool) {
        let row = LogicalRouterStaticRoute {
            ip_prefix: prefix.to_owned(),
            nexthop: key.to_owned(),
            policy: source.then(|| "src-ip".to_owned()),
            ..Default::default()
        };
        self.hold(router, "static_routes", key, row);
    }

    fn balancer(&mut self, key: &str, protocol: &str, vip: &str) -> RowId {
        let row = LoadBalancer {
            name: key.to_owned(),
            protocol: Some(protocol.to_owned()),
            vips: [(vip.to_owned(), String::new())].into(),
            ..Default::default()
        };
        self.put(key, row)
    }
}

/// Names of the rules that are broken.
fn broken(make: impl FnOnce(&mut Made)) -> Vec<&'static str> {
    let mut made = Made::default();
    make(&mut made);
    let violations = check(&made.0).into_iter();
    violations.map(|violation| violation.rule).collect()
}

#[test]
fn rules_have_names_of_their_own() {
    let mut names: Vec<_> = RULES.iter().map(|rule| rule.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), RULES.len());
}

#[test]
fn key() {
    let with = |id: &'static str| {
        broken(move |made| {
            let row = PortGroup {
                name: "a".to_owned(),
                external_ids: [(KEY.to_owned(), "group/a".to_owned())].into(),
                ..Default::default()
            };
            made.0
                .insert_row(RowId::of(PortGroup::TABLE, &Key::new(id)), Arc::new(row.to_row()));
        })
    };
    assert_eq!(with("group/b"), ["key"]);
    assert_eq!(with("group/a"), [""; 0]);
}

#[test]
fn holder_and_reference() {
    let group = RowId::of(PortGroup::TABLE, &Key::new("group/a"));
    let port = Key::new("port/a").uuid(LogicalSwitchPort::TABLE);
    assert_eq!(broken(|made| made.add(group, "ports", port)), ["holder", "reference"]);
    let with = |member: uuid::Uuid| {
        broken(move |made| {
            let group = made.group("a");
            made.add(group, "ports", member);
        })
    };
    assert_eq!(with(port), ["reference"]);
    // A row of another program, whose UUID the server chose.
    assert_eq!(with(uuid::Uuid::from_u128(0x1111_2222_3333_4444_8555_6666_7777_8888)), [""; 0]);
    let meter = |band: bool| {
        broken(move |made| {
            let bands = [Key::new("band").uuid(MeterBand::TABLE)].into();
            made.put(
                "meter",
                Meter {
                    name: "m".to_owned(),
                    bands,
                    ..Default::default()
                },
            );
            if band {
                made.put("band", MeterBand::default());
            }
        })
    };
    assert_eq!(meter(false), ["reference"]);
    assert_eq!(meter(true), [""; 0]);
}

#[test]
fn root() {
    // A port group does not keep its ports alive.
    let with = |on_switch: bool| {
        broken(move |made| {
            let (switch, group) = (made.switch("s"), made.group("g"));
            let port = if on_switch {
                made.port(switch, "a", "unknown")
            } else {
                made.put(
                    "port/a",
                    LogicalSwitchPort {
                        name: "a".to_owned(),
                        ..Default::default()
                    },
                )
            };
            made.add(group, "ports", port.uuid);
        })
    };
    assert_eq!(with(false), ["root"]);
    assert_eq!(with(true), [""; 0]);
}

#[test]
fn name() {
    let sets = |other: &'static str| {
        broken(move |made| {
            made.group("a");
            made.set("b", &[]);
            made.put(
                "set/other",
                AddressSet {
                    name: other.to_owned(),
                    ..Default::default()
                },
            );
        })
    };
    assert_eq!(sets("b"), ["name"]);
    assert_eq!(sets("a_ip4"), ["name"], "OVN makes this set itself");
    assert_eq!(sets("a"), [""; 0], "groups and sets are named apart");
}

#[test]
fn named() {
    let with = |chassis: &'static str, meter: &'static str, router_port: &'static str| {
        broken(move |made| {
            let (switch, router) = (made.switch("node1"), made.router("r"));
            made.router_port(router, switch, "lrp", "0a:00:00:00:00:01", "10.0.0.1/24");
            let options = [("requested-chassis".to_owned(), chassis.to_owned())].into();
            let port = LogicalSwitchPort {
                name: "p".to_owned(),
                options,
                ..Default::default()
            };
            made.hold(switch, "ports", "port/p", port);
            let ha = made.put(
                "ha",
                HaChassisGroup {
                    name: "ha".to_owned(),
                    ..Default::default()
                },
            );
            made.hold(
                ha,
                "ha_chassis",
                "ha/1",
                HaChassis {
                    chassis_name: chassis.to_owned(),
                    ..Default::default()
                },
            );
            made.put(
                "meter",
                Meter {
                    name: "m".to_owned(),
                    ..Default::default()
                },
            );
            let group = made.group("g");
            let acl = Acl {
                match_: "ip".to_owned(),
                meter: Some(meter.to_owned()),
                ..Default::default()
            };
            made.hold(group, "acls", "acl", acl);
            if router_port != "lrp" {
                let other = made.put(
                    "switch/x",
                    LogicalSwitch {
                        name: "x".to_owned(),
                        ..Default::default()
                    },
                );
                let peer = LogicalSwitchPort::router("peer".to_owned(), router_port.to_owned(), [].into());
                made.hold(other, "ports", "port/peer", peer);
            }
        })
    };
    assert_eq!(with("node1", "m", "lrp"), [""; 0]);
    assert_eq!(with("node2", "m", "lrp"), ["named", "named"]);
    assert_eq!(with("node1", "n", "lrp"), ["named"]);
    assert_eq!(with("node1", "m", "other"), ["named"]);
}

#[test]
fn attached() {
    let with = |switches: usize| {
        broken(move |made| {
            let router = made.router("r");
            let row = LogicalRouterPort {
                name: "lrp".to_owned(),
                ..Default::default()
            };
            made.hold(router, "ports", "router-port/lrp", row);
            for number in 0..switches {
                let switch = made.switch(&format!("s{number}"));
                let peer = LogicalSwitchPort::router(format!("peer{number}"), "lrp".to_owned(), [].into());
                made.hold(switch, "ports", &format!("peer/{number}"), peer);
            }
        })
    };
    assert_eq!(with(0), ["attached"]);
    assert_eq!(with(1), [""; 0]);
    assert_eq!(with(2), ["attached"]);
}

#[test]
fn ethernet_and_address() {
    let with = |port: &'static str, elsewhere: &'static str| {
        broken(move |made| {
            let (switch, other, router) = (made.switch("s"), made.switch("t"), made.router("r"));
            made.router_port(router, switch, "lrp", "0a:00:00:00:00:01", "10.0.0.1/24");
            made.port(switch, "a", "0a:00:00:00:00:02 10.0.0.2 fd00::2");
            made.port(switch, "b", port);
            made.port(other, "c", elsewhere);
        })
    };
    assert_eq!(
        with("0a:00:00:00:00:03 10.0.0.3", "0a:00:00:00:00:02 10.0.0.2"),
        [""; 0],
        "another switch is another segment"
    );
    assert_eq!(with("unknown", "unknown"), [""; 0]);
    assert_eq!(with("0A:00:00:00:00:02 10.0.0.3", "unknown"), ["ethernet"]);
    assert_eq!(with("0a:00:00:00:00:01 10.0.0.3", "unknown"), ["ethernet"], "that of the router");
    assert_eq!(with("0a:00:00:00:00:03 10.0.0.1", "unknown"), ["address"], "that of the router");
    assert_eq!(with("0a:00:00:00:00:03 10.0.0.3 fd00::2", "unknown"), ["address"]);
}

#[test]
fn policy() {
    let with = |action: &'static str, condition: &'static str| {
        broken(move |made| {
            let router = made.router("r");
            made.policy(router, "policy/1", "drop", "ip4.src == 10.0.0.0/8");
            made.policy(router, "policy/2", action, condition);
            let other = made.router("other");
            made.policy(other, "policy/3", "allow", "ip4.src == 10.0.0.0/8");
        })
    };
    assert_eq!(with("allow", "ip4.src == 10.0.0.0/24"), ["policy"]);
    assert_eq!(with("allow", "ip4.dst == 10.0.0.0/24"), ["policy"]);
    assert_eq!(with("allow", "ip4.src == 192.168.0.0/24"), [""; 0]);
    assert_eq!(with("drop", "ip4.src == 10.0.0.0/24"), [""; 0]);
}

#[test]
fn route_and_translation() {
    let with = |prefix: &'static str, source: bool| {
        broken(move |made| {
            let router = made.router("r");
            made.route(router, "route/1", "172.30.0.1", false);
            made.route(router, "route/2", prefix, source);
            let other = made.router("other");
            made.route(other, "route/3", "172.30.0.1", false);
        })
    };
    assert_eq!(with("172.30.0.1/32", false), ["route"]);
    assert_eq!(with("172.30.0.1/32", true), [""; 0], "by source is another table");
    assert_eq!(with("172.30.0.0/24", false), [""; 0], "the longer prefix wins");
    let translated = |other: &'static str| {
        broken(move |made| {
            let router = made.router("r");
            let nat = |ip: &str| Nat {
                type_: "snat".to_owned(),
                logical_ip: ip.to_owned(),
                ..Default::default()
            };
            made.hold(router, "nat", "nat/1", nat("10.0.0.0/16"));
            made.hold(router, "nat", "nat/2", nat(other));
        })
    };
    assert_eq!(translated("10.0.0.0/16"), ["translation"]);
    assert_eq!(translated("10.1.0.0/16"), [""; 0]);
}

#[test]
fn frontend() {
    let with = |protocol: &'static str, vip: &'static str, on_router: bool| {
        broken(move |made| {
            let (switch, router) = (made.switch("s"), made.router("r"));
            let group = made.put(
                "lb-group/services",
                LoadBalancerGroup {
                    name: "services".to_owned(),
                    ..Default::default()
                },
            );
            made.add(switch, "load_balancer_group", group.uuid);
            let (one, two) = (made.balancer("one", "tcp", "10.96.0.1:80"), made.balancer("two", protocol, vip));
            made.add(group, "load_balancer", one.uuid);
            made.add(if on_router { router } else { switch }, "load_balancer", two.uuid);
        })
    };
    assert_eq!(with("tcp", "10.96.0.1:80", false), ["frontend"]);
    assert_eq!(with("udp", "10.96.0.1:80", false), [""; 0]);
    assert_eq!(with("tcp", "10.96.0.1:81", false), [""; 0]);
    assert_eq!(with("tcp", "10.96.0.1:80", true), [""; 0], "a router is another place");
}

#[test]
fn probe() {
    let with = |port: &'static str, vip: &'static str| {
        broken(move |made| {
            let switch = made.switch("s");
            made.port(switch, "shop/web", "0a:00:00:00:00:02 10.0.0.2");
            let row = LoadBalancer {
                name: "lb".to_owned(),
                vips: [("10.96.0.1:80".to_owned(), "10.0.0.2:80".to_owned())].into(),
                ip_port_mappings: [("10.0.0.2".to_owned(), format!("{port}:10.0.0.4"))].into(),
                ..Default::default()
            };
            let balancer = made.put("lb", row);
            let check = LoadBalancerHealthCheck {
                vip: vip.to_owned(),
                ..Default::default()
            };
            made.hold(balancer, "health_check", "check", check);
        })
    };
    assert_eq!(with("shop/web", "10.96.0.1:80"), [""; 0]);
    assert_eq!(with("shop/db", "10.96.0.1:80"), ["probe"]);
    assert_eq!(with("shop/web", "10.96.0.1:81"), ["probe"]);
}

/// What is broken by an ACL with this match, where there are a group, sets of each kind and a port.
fn with_match(condition: &str) -> Vec<&'static str> {
    let condition = condition.to_owned();
    broken(move |made| {
        let (switch, group) = (made.switch("s"), made.group("g"));
        made.port(switch, "p", "unknown");
        made.set("v4", &["10.0.0.1", "10.1.0.0/16"]);
        made.set("v6", &["fd00::1"]);
        made.set("link", &["0a:00:00:00:00:01"]);
        made.acl(group, "acl", &condition);
    })
}

#[test]
fn match_and_operand_and_set() {
    assert_eq!(with_match("outport == @g && inport == \"p\" && ip4.src == $v4"), [""; 0]);
    assert_eq!(with_match("outport == @g && ip && eth.src == $link"), [""; 0]);
    assert_eq!(with_match("outport == @g && ip4.src == fd00::1"), ["match"]);
    assert_eq!(with_match("outport == @other && ip"), ["operand"]);
    assert_eq!(with_match("ip4.src == $other"), ["operand"]);
    assert_eq!(with_match("inport == \"other\""), ["operand"]);
    assert_eq!(with_match("ip4.src == $v6"), ["set"]);
    assert_eq!(with_match("eth.src == $v4"), ["set"]);
}

#[test]
fn verdict() {
    let with = |action: &'static str, tier: i64| {
        broken(move |made| {
            let group = made.group("g");
            let acl = |action: &str, tier| Acl {
                action: action.to_owned(),
                match_: "ip".to_owned(),
                tier,
                ..Default::default()
            };
            made.hold(group, "acls", "acl/1", acl("drop", 0));
            made.hold(group, "acls", "acl/2", acl(action, tier));
        })
    };
    assert_eq!(with("pass", 0), ["verdict"]);
    assert_eq!(with("pass", 1), [""; 0]);
    assert_eq!(with("drop", 0), [""; 0]);
}

#[test]
fn negated() {
    assert_eq!(with_match("outport == @g && ip4.src != {10.0.0.1, 10.0.0.2}"), ["negated"]);
    assert_eq!(with_match("outport == @g && ip4.src != $v4"), ["negated"]);
    assert_eq!(with_match("outport == @g && ip4.src != 10.0.0.1"), ["negated"]);
    assert_eq!(with_match("outport == @g && !(ip4.src == $v4)"), ["negated"]);
    assert_eq!(with_match("outport == @g && !(ip4.src != $v4)"), [""; 0]);
    assert_eq!(with_match("outport == @g && (!ct.trk || !ct.new)"), [""; 0]);
}

#[test]
fn multiplied() {
    assert_eq!(
        with_match("(ip4.src == $v4 || ip6.src == $v6) && tcp.dst == 80 && outport == @g"),
        ["multiplied"]
    );
    assert_eq!(with_match("outport == @g && (ip4 || ip6.src == $v6)"), ["multiplied"]);
    assert_eq!(
        with_match("outport == @g && (tcp.dst == 80 || (udp.dst >= 53 && udp.dst <= 54))"),
        ["multiplied"]
    );
    assert_eq!(
        with_match("ip && (ip4 || (outport == @g && (ip4.src == $v4 || ip6.src == $v6)))"),
        ["multiplied"]
    );
    // One field in each term: the sum.
    assert_eq!(
        with_match("outport == @g && ip4.src == {$v4, 10.2.0.0/16} && (tcp.dst == 80 || (tcp.dst >= 90 && tcp.dst <= 99))"),
        [""; 0]
    );
    // A factor that does not grow.
    assert_eq!(with_match("outport == @g && (ip4.src == 10.0.0.1 || ip6.src == fd00::1)"), [""; 0]);
    // Nothing to multiply with.
    assert_eq!(with_match("inport == \"p\" && (ip4.src == $v4 || ip6.src == $v6)"), [""; 0]);
}
