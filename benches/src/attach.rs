//! CNI ADD to a usable pod, split in stages, next to what OVN itself needs from a new port to `ovn-installed`, in the same lab.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, Result};
use netloom_lab::{Lab, Spec};

use crate::report::{Report, ratio, time};

const PODS: usize = 30;

/// Measures and prints.
pub fn run() -> Result<()> {
    let lab = Lab::up(Spec::new(format!("bench-attach-{}", std::process::id())))?;
    let bare = bare_port(&lab)?;
    let before = stages(&lab)?;
    for number in 0..PODS {
        let name = format!("pod-{number}");
        lab.apply(&format!("apiVersion: v1\nkind: Pod\nmetadata: {{ name: {name} }}\nspec: {{ nodeName: node1, containers: [{{ name: main, image: any }}] }}\n"))?;
        lab.kubectl(&["wait", "pod", &name, "--for=condition=Ready", "--timeout=30s"])?;
    }
    let after = stages(&lab)?;
    let mut report = Report::new(
        &format!("CNI ADD, mean of {PODS} pods one at a time"),
        &["stage", "time", "against OVN's own"],
    );
    let labels = [
        ("wait_port", "wait for the controller and northd (runs beside the next stage)"),
        ("link", "veth, addresses, routes"),
        ("ovs_commit", "Open vSwitch transaction"),
        ("installed", "wait for ovn-controller and vswitchd"),
        ("agent", "our own part"),
        ("total", "all"),
    ];
    for (stage, label) in labels {
        let mean = |(sum, count): (f64, f64), (sum_before, count_before): (f64, f64)| {
            Duration::from_secs_f64((sum - sum_before) / (count - count_before).max(1.0))
        };
        let took = mean(
            after.get(stage).copied().unwrap_or_default(),
            before.get(stage).copied().unwrap_or_default(),
        );
        report.row(&[label.to_owned(), time(took), ratio(took, bare)]);
    }
    report.row(&["OVN alone: new port to ovn-installed".to_owned(), time(bare), "1.00×".to_owned()]);
    report.print();
    Ok(())
}

/// The mean time from a logical port and its interface to `ovn-installed`, without any of our parts.
fn bare_port(lab: &Lab) -> Result<Duration> {
    lab.control().run(&["ovn-nbctl", "ls-add", "bare"])?;
    let mut total = Duration::ZERO;
    for number in 0..PODS {
        let port = format!("bare{number}");
        lab.node("node1").run(&[
            "ovs-vsctl",
            "add-port",
            "br-int",
            &port,
            "--",
            "set",
            "interface",
            &port,
            "type=internal",
            &format!("external_ids:iface-id={port}"),
        ])?;
        let started = std::time::Instant::now();
        lab.control().run(&["ovn-nbctl", "lsp-add", "bare", &port])?;
        lab.node("node1").run(&[
            "ovs-vsctl",
            "--timeout=10",
            "wait-until",
            "interface",
            &port,
            "external_ids:ovn-installed=true",
        ])?;
        total += started.elapsed();
        lab.node("node1").run(&["ovs-vsctl", "del-port", &port])?;
    }
    lab.control().run(&["ovn-nbctl", "ls-del", "bare"])?;
    Ok(total / PODS as u32)
}

/// Sum and count of every stage, as the agent of node1 tells them.
fn stages(lab: &Lab) -> Result<BTreeMap<String, (f64, f64)>> {
    let text = lab.node("node1").run(&["curl", "-s", "http://127.0.0.1:9642/metrics"])?;
    let mut stages: BTreeMap<String, (f64, f64)> = BTreeMap::new();
    for line in text.lines() {
        let Some((name, value)) = line.rsplit_once(' ') else { continue };
        let Some(stage) = name.split("stage=\"").nth(1).and_then(|rest| rest.split('"').next()) else {
            continue;
        };
        let value: f64 = value.parse().with_context(|| format!("read {line}"))?;
        if name.starts_with("netloom_cni_add_seconds_sum") {
            stages.entry(stage.to_owned()).or_default().0 = value;
        } else if name.starts_with("netloom_cni_add_seconds_count") {
            stages.entry(stage.to_owned()).or_default().1 = value;
        }
    }
    Ok(stages)
}
