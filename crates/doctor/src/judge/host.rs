//! Judges the kernel: release, modules, packet filter, forwarding, reverse path filter, disk.

use super::at_least;
use crate::finding::{Check, Finding};
use crate::node::{Module, NodeFacts};

/// The oldest kernel Netloom is tested with.
const KERNEL: (u32, u32) = (5, 10);
const GIB: u64 = 1 << 30;

/// All about the host.
pub fn judge(facts: &NodeFacts) -> Vec<Finding> {
    vec![
        release(facts),
        datapath(facts),
        conntrack(facts),
        nftables(facts),
        forwarding(facts),
        reverse_path(facts),
        forward_policy(facts),
        disk(facts),
    ]
}

fn release(facts: &NodeFacts) -> Finding {
    let check = Check("host", "kernel");
    let release = &facts.host.release;
    if at_least(release, KERNEL.0, KERNEL.1) {
        return check.ok(format!("kernel {release}"));
    }
    check.warning(
        format!(
            "kernel {release} is older than {}.{}, with which nothing was tested",
            KERNEL.0, KERNEL.1
        ),
        "upgrade the kernel of this node",
    )
}

fn datapath(facts: &NodeFacts) -> Finding {
    let check = Check("host", "datapath");
    let (openvswitch, geneve) = (facts.host.openvswitch, facts.host.geneve);
    let bridge = facts.switch.as_ref().ok().and_then(|switch| switch.bridges.get("br-int"));
    let userspace = bridge.is_some_and(|bridge| bridge.datapath == "netdev");
    let usable = |module| matches!(module, Module::Loaded | Module::Loadable);
    let both = usable(openvswitch) && usable(geneve);
    if userspace && !facts.host.tun {
        return check.failed(
            "br-int is on the userspace datapath, which needs /dev/net/tun, and there is none",
            "load the module on the node (modprobe tun), or give the switch's container /dev/net/tun",
        );
    }
    if userspace {
        let consequence =
            "br-int is on the userspace datapath: packets cost several times the CPU, and a restart of vswitchd interrupts traffic";
        return match both {
            true => check.warning(
                format!("{consequence}; the kernel has openvswitch and geneve"),
                "set the agent's datapath to kernel (--datapath kernel) and restart this node's switch and agent",
            ),
            false => check.warning(
                format!("{consequence}; no module openvswitch and geneve was found for this kernel"),
                "install them (Debian: linux-image-amd64; Ubuntu: linux-modules-extra) and restart the node's switch, or accept the cost",
            ),
        };
    }
    let found = format!("openvswitch is {}, geneve is {}", word(openvswitch), word(geneve));
    let is_running = bridge.is_some() && openvswitch != Module::Loaded;
    let absent = openvswitch == Module::Absent || geneve == Module::Absent;
    if absent || is_running {
        return check.failed(
            found,
            "run modprobe -a openvswitch vport-geneve on the node; if the kernel has none, install its modules or use --datapath userspace",
        );
    }
    check.ok(found)
}

fn word(module: Module) -> &'static str {
    match module {
        Module::Loaded => "loaded",
        Module::Loadable => "loadable",
        Module::Absent => "not part of this kernel",
        Module::Unknown => "not loaded, and /lib/modules is not visible here",
    }
}

fn conntrack(facts: &NodeFacts) -> Finding {
    let check = Check("host", "conntrack");
    let number = |name: &str| facts.host.settings.get(name).and_then(|text| text.parse::<u64>().ok());
    let (count, max) = (number("netfilter/nf_conntrack_count"), number("netfilter/nf_conntrack_max"));
    match (count, max) {
        (Some(count), Some(max)) if max > 0 && count * 10 >= max * 8 => check.warning(
            format!("{count} of {max} connections are tracked; new ones are refused when it is full"),
            format!("raise the limit: sysctl -w net.netfilter.nf_conntrack_max={}", max * 2),
        ),
        (Some(count), Some(max)) => check.ok(format!("{count} of {max} connections are tracked")),
        _ => check.warning(
            "the kernel's connection tracking (nf_conntrack) is not loaded",
            "run modprobe nf_conntrack on the node, and add it to /etc/modules-load.d to keep it after a reboot",
        ),
    }
}

fn nftables(facts: &NodeFacts) -> Finding {
    let check = Check("host", "nftables");
    match &facts.firewall {
        Ok(_) => check.ok("nft answers"),
        Err(unseen) => unseen.failed(
            check,
            "nftables",
            "run modprobe nf_tables on the node, install nft, and run the doctor as root: the agent needs both",
        ),
    }
}

fn forwarding(facts: &NodeFacts) -> Finding {
    let check = Check("host", "forwarding");
    let setting = |name: &str| facts.host.settings.get(name).map(String::as_str);
    let has_ipv6 = setting("ipv6/conf/all/disable_ipv6") == Some("0");
    let mut off = Vec::new();
    if setting("ipv4/ip_forward") != Some("1") {
        off.push("net.ipv4.ip_forward");
    }
    if has_ipv6 && setting("ipv6/conf/all/forwarding") != Some("1") {
        off.push("net.ipv6.conf.all.forwarding");
    }
    if off.is_empty() {
        return check.ok("the host forwards packets");
    }
    let commands: Vec<String> = off.iter().map(|name| format!("{name}=1")).collect();
    check.warning(
        format!(
            "{} is off: what enters by other devices than Netloom's is not routed to pods, and older kernels serve no IPv6 node ports",
            off.join(" and ")
        ),
        format!("sysctl -w {}, and the same in /etc/sysctl.d", commands.join(" ")),
    )
}

fn reverse_path(facts: &NodeFacts) -> Finding {
    let check = Check("host", "rp-filter");
    let number = |name: String| facts.host.settings.get(&name).and_then(|text| text.parse::<u8>().ok());
    let all = number("ipv4/conf/all/rp_filter".to_owned()).unwrap_or(0);
    // The kernel takes the larger of the two, and 1 is the strict one.
    let effective = |device: &&str| number(format!("ipv4/conf/{device}/rp_filter")).map(|own| own.max(all));
    let strict: Vec<&str> = ["netloom0", "netloom1"]
        .into_iter()
        .filter(|device| effective(device) == Some(1))
        .collect();
    if strict.is_empty() {
        return check.ok("the reverse path filter lets our devices be");
    }
    let commands: Vec<String> = strict.iter().map(|device| format!("net.ipv4.conf.{device}.rp_filter=2")).collect();
    check.failed(
        format!(
            "the reverse path filter of {} is strict: answers that come back by another device are dropped",
            strict.join(" and ")
        ),
        format!(
            "sysctl -w {}; find in /etc/sysctl.d what sets it for all devices",
            commands.join(" ")
        ),
    )
}

fn forward_policy(facts: &NodeFacts) -> Finding {
    let check = Check("host", "forward-policy");
    let Ok(firewall) = &facts.firewall else {
        return check.warning("not known: nftables could not be read", "fix the check nftables and look again");
    };
    if firewall.forward_drops.is_empty() {
        return check.ok("no firewall drops what the host forwards by default");
    }
    check.warning(
        format!(
            "chain {} drops what no rule accepts: traffic between the uplink and netloom0 or netloom1 can be lost",
            firewall.forward_drops.join(" and ")
        ),
        "accept it there: iptables -I FORWARD -i netloom+ -j ACCEPT and iptables -I FORWARD -o netloom+ -j ACCEPT (ip6tables too), \
         or the same in the firewall that owns the chain",
    )
}

fn disk(facts: &NodeFacts) -> Finding {
    let check = Check("host", "disk");
    match &facts.host.disk {
        Err(unseen) => unseen.warning(check, "the file system of /var/lib/netloom"),
        Ok((free, total)) => {
            let found = format!("{:.1} of {:.1} GiB are free at /var/lib/netloom", gib(*free), gib(*total));
            let advice = "make room: the databases are kept there, and one that cannot write stops";
            match *free {
                free if free < GIB / 10 => check.failed(found, advice),
                free if free < GIB => check.warning(found, advice),
                _ => check.ok(found),
            }
        }
    }
}

fn gib(bytes: u64) -> f64 {
    bytes as f64 / GIB as f64
}
