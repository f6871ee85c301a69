//! Judges the MTU: what encapsulation adds must fit on the underlay, and all devices on the integration bridge agree.

use std::net::IpAddr;

use super::some;
use crate::finding::{Check, Finding};
use crate::node::{Device, NodeFacts};

/// What Geneve adds on IPv4 and on IPv6, as the agent counts it.
const OVERHEAD: (u32, u32) = (58, 78);
/// The least an IPv6 link must carry.
const IPV6_LEAST: u32 = 1280;

/// All about the MTU; nothing without switch and devices, whose checks have failed then.
pub fn judge(facts: &NodeFacts) -> Vec<Finding> {
    let (Ok(switch), Ok(devices)) = (&facts.switch, &facts.devices) else {
        return Vec::new();
    };
    let encapsulation = switch
        .external_ids
        .get("ovn-encap-ip")
        .and_then(|text| text.split(',').next()?.parse::<IpAddr>().ok());
    let underlay = encapsulation.and_then(|address| Some((address, devices.iter().find(|device| device.addresses.contains(&address))?)));
    let Some((address, underlay)) = underlay else {
        return Vec::new();
    };
    let room = underlay.mtu.saturating_sub(if address.is_ipv4() { OVERHEAD.0 } else { OVERHEAD.1 });
    let on_bridge = switch.bridges.get("br-int").into_iter().flat_map(|bridge| &bridge.interfaces);
    let ours = on_bridge.filter(|interface| interface.name != "br-int" && matches!(interface.kind.as_str(), "" | "system" | "internal"));
    let ours: Vec<&Device> = ours
        .filter_map(|interface| devices.iter().find(|device| device.name == interface.name))
        .collect();
    vec![room_for_packets(underlay, room, &ours), agreement(&ours)]
}

fn room_for_packets(underlay: &Device, room: u32, ours: &[&Device]) -> Finding {
    let check = Check("mtu", "underlay");
    if room < IPV6_LEAST {
        return check.failed(
            format!(
                "{} has MTU {}, which leaves {room} for pods; IPv6 needs {IPV6_LEAST}",
                underlay.name, underlay.mtu
            ),
            format!(
                "raise it: ip link set {} mtu 1500, and the same in the network's configuration",
                underlay.name
            ),
        );
    }
    let large: Vec<String> = ours
        .iter()
        .filter(|device| device.mtu > room)
        .map(|device| format!("{} ({})", device.name, device.mtu))
        .collect();
    if large.is_empty() {
        return check.ok(format!("{} has MTU {}, which leaves {room} for pods", underlay.name, underlay.mtu));
    }
    check.failed(
        format!(
            "{} has MTU {}, which leaves {room} for pods, but there is more on {}: large packets to other nodes are lost",
            underlay.name,
            underlay.mtu,
            some(&large)
        ),
        format!(
            "raise the MTU of {} to what it was, or give the agent --mtu {room} and recreate the pods of this node",
            underlay.name
        ),
    )
}

fn agreement(ours: &[&Device]) -> Finding {
    let check = Check("mtu", "pods");
    let mut sizes: Vec<u32> = ours.iter().map(|device| device.mtu).collect();
    sizes.sort_unstable();
    sizes.dedup();
    match sizes.as_slice() {
        [] => check.ok("no device of ours is on br-int yet"),
        [size] => check.ok(format!("{} devices on br-int have MTU {size}", ours.len())),
        sizes => {
            let sizes: Vec<String> = sizes.iter().map(ToString::to_string).collect();
            check.warning(
                format!(
                    "devices on br-int have MTUs {}: the setting was changed while pods ran",
                    some(&sizes)
                ),
                "recreate the older pods of this node, so that all have the current MTU",
            )
        }
    }
}
