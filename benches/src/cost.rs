//! What OVN has to carry for each feature, in clusters of 1 to 100 chassis: one of them real, the others rows that claim their ports.

use std::time::Duration;

use anyhow::Result;
use netloom_cost::growth::exponent;
use netloom_cost::{Counts, FEATURES, Feature, Measure, Ovn, Size, cluster};

use crate::report::{Report, time};

const CHASSIS: [usize; 4] = [1, 10, 50, 100];
/// Pods of each node that no feature is about.
const PODS: usize = 10;
/// How often the change is measured. The least counts: whatever else ovn-controller does in between is not the change.
const ROUNDS: usize = 3;

/// One line: a feature at a size.
struct Line {
    objects: usize,
    counts: Counts,
    cpu: Option<Duration>,
    memory: u64,
}

/// Measures and prints.
pub fn run() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(measure());
    Ok(())
}

async fn measure() {
    let mut bases = Vec::new();
    let mut lines: Vec<Vec<Line>> = FEATURES.iter().map(|_| Vec::new()).collect();
    for chassis in CHASSIS {
        let mut ovn = Ovn::start().await;
        let size = Size {
            nodes: chassis,
            pods: PODS,
            objects: 0,
        };
        let counts = ovn.count(chassis, &cluster::compile(size, None)).await;
        eprintln!("{chassis} chassis, without a feature: {counts:?}, {} KiB", ovn.memory());
        bases.push(Line {
            objects: chassis,
            counts,
            cpu: None,
            memory: ovn.memory(),
        });
        for (feature, lines) in FEATURES.iter().zip(&mut lines) {
            ovn.replace_chassis();
            let line = of_feature(&mut ovn, size, feature, counts).await;
            // The whole takes long: whoever waits sees that it goes on.
            eprintln!(
                "{chassis} chassis, {}: {:?}, {:?}, {} KiB",
                feature.name, line.counts, line.cpu, line.memory
            );
            lines.push(line);
        }
    }
    let mut report = Report::new(
        "What OVN carries for each feature",
        &[
            "feature",
            "chassis",
            "objects",
            "rows",
            "logical flows",
            "exponent",
            "OpenFlow flows on a node",
            "exponent",
            "CPU for one more",
            "memory",
        ],
    );
    print(&mut report, &format!("nodes with {PODS} pods each"), &bases);
    for (feature, lines) in FEATURES.iter().zip(&lines) {
        print(&mut report, &format!("{}: {}", feature.name, feature.object), lines);
    }
    report.print();
}

/// A feature on a chassis that has seen nothing before. What the nodes and their pods have without it is not counted.
async fn of_feature(ovn: &mut Ovn, size: Size, feature: &Feature, base: Counts) -> Line {
    let objects = feature.per_node * size.nodes;
    let with = cluster::compile(Size { objects, ..size }, Some(feature));
    let one_more = cluster::compile(
        Size {
            objects: objects + 1,
            ..size
        },
        Some(feature),
    );
    let counts = ovn.count(size.nodes, &with).await.beyond(base);
    let memory = ovn.memory();
    let (mut idle, mut busy) = (Duration::MAX, Duration::MAX);
    for _ in 0..ROUNDS {
        idle = idle.min(ovn.cpu_to_become_like(size.nodes, &with).await);
        busy = busy.min(ovn.cpu_to_become_like(size.nodes, &one_more).await);
        ovn.become_like(size.nodes, &with).await;
    }
    Line {
        objects,
        counts,
        cpu: Some(busy.saturating_sub(idle)),
        memory,
    }
}

fn print(report: &mut Report, name: &str, lines: &[Line]) {
    for (place, (chassis, line)) in CHASSIS.iter().zip(lines).enumerate() {
        let grown = |measure: Measure| {
            let before = place.checked_sub(1).and_then(|before| Some((CHASSIS[before], lines.get(before)?)));
            before.map_or_else(String::new, |(size, before)| {
                format!(
                    "{:.2}",
                    exponent((size, before.counts.of(measure)), (*chassis, line.counts.of(measure)))
                )
            })
        };
        report.row(&[
            if place == 0 { name.to_owned() } else { String::new() },
            chassis.to_string(),
            line.objects.to_string(),
            line.counts.rows.to_string(),
            line.counts.logical.to_string(),
            grown(Measure::Logical),
            line.counts.openflow.to_string(),
            grown(Measure::OpenFlow),
            line.cpu.map_or_else(|| "-".to_owned(), time),
            format!("{} MiB", line.memory / 1024),
        ]);
    }
}
