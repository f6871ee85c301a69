//! Policies: what many of them cost to compile, what one pod or one label more costs with all of them there, and what OVN makes of them.
//! Beside each number stands that of a layout where every policy has sets of its own.

mod naive;
mod ovn;
mod shape;

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use netloom_kubernetes::manifest;
use netloom_network::{Northbound, Object, Planner, PodName, Scope, diff};
use serde_json::Value;

use crate::control::resident;
use crate::report::{Report, ratio, time};
use naive::Naive;
use shape::{NAMESPACES, Shape, apply, namespace};

const PODS: [usize; 2] = [1_000, 10_000];
const POLICIES: [usize; 2] = [1_000, 10_000];
const CHANGES: usize = 500;
const RELABELS: usize = 20;

/// Measures and prints.
pub fn run() -> Result<()> {
    planned()?;
    ovn::run()
}

/// What needs no OVN.
fn planned() -> Result<()> {
    let beside = "own sets";
    let mut whole = Report::new(
        "Policies: compile a whole cluster",
        &[
            "pods",
            "policies",
            "compile",
            "without policies",
            "rows each",
            "members",
            "rows each, own sets",
            "members, own sets",
            "members: ratio",
        ],
    );
    let mut pod = Report::new(
        "Policies: one pod more (mean of 500)",
        &[
            "pods",
            "policies",
            "time",
            "against the first",
            "rows touched",
            "time, own sets",
            "rows touched, own sets",
            "rows: ratio",
        ],
    );
    let mut label = Report::new(
        "Policies: one namespace goes to another team (mean of 20)",
        &[
            "pods",
            "policies",
            "time",
            "rows touched",
            "time, own sets",
            "rows touched, own sets",
            "rows: ratio",
        ],
    );
    let mut space = Report::new(
        "Policies: memory of the planner",
        &[
            "pods",
            "policies",
            "without policies",
            "with them",
            beside,
            "ratio of what policies add",
        ],
    );
    let mut first = None;
    for shape in PODS
        .iter()
        .flat_map(|pods| POLICIES.map(|policies| Shape { pods: *pods, policies }))
    {
        let sizes = [shape.pods.to_string(), shape.policies.to_string()];
        let row = |cells: &[String]| [&sizes[..], cells].concat();
        let (mut bare, bare_compile) = compiled(shape.without_policies()?);
        let (mut planner, compile) = compiled(shape.planner()?);
        let mut naive = Naive::build(&bare, &shape.policies()?);
        let added = |northbound: &Northbound| northbound.rows().count() as f64 / shape.policies as f64;
        let ours = Counted::of(planner.desired());
        let theirs = Counted::of(&naive.northbound);
        whole.row(&row(&[
            time(compile),
            time(bare_compile),
            format!("{:.1}", (added(planner.desired()) - added(bare.desired())).max(0.0)),
            ours.members.to_string(),
            format!("{:.1}", added(&naive.northbound)),
            theirs.members.to_string(),
            times(theirs.members as f64, ours.members as f64),
        ]));

        let one = add_pods(shape, &mut planner, None)?;
        let one_naive = add_pods(shape, &mut bare, Some(&mut naive))?;
        let first = *first.get_or_insert(one.time);
        pod.row(&row(&[
            time(one.time),
            ratio(one.time, first),
            format!("{:.1}", one.rows),
            time(one_naive.time),
            format!("{:.1}", one_naive.rows),
            times(one_naive.rows, one.rows),
        ]));

        let one = relabel(&mut planner)?;
        let one_naive = relabel_naive(&mut naive)?;
        label.row(&row(&[
            time(one.time),
            format!("{:.1}", one.rows),
            time(one_naive.time),
            format!("{:.1}", one_naive.rows),
            times(one_naive.rows, one.rows),
        ]));

        let used = |layout: &str| used(shape, layout);
        let (none, shared, own) = (used("none")?, used("shared")?, used("own")?);
        space.row(&row(&[
            format!("{none:.0} MiB"),
            format!("{shared:.0} MiB"),
            format!("{own:.0} MiB"),
            times(own - none, shared - none),
        ]));
    }
    for report in [whole, pod, label, space] {
        report.print();
    }
    Ok(())
}

/// Members of the sets that policies need.
struct Counted {
    members: usize,
}

impl Counted {
    fn of(northbound: &Northbound) -> Self {
        let sets = northbound
            .collections()
            .filter(|(id, column, _)| matches!((id.table, *column), ("Address_Set", _) | ("Port_Group", "ports")));
        Self {
            members: sets.map(|(_, _, values)| values.len()).sum(),
        }
    }
}

/// The mean of some changes.
struct Mean {
    time: Duration,
    rows: f64,
}

impl Mean {
    fn of(count: usize, took: Duration, operations: usize) -> Self {
        Self {
            time: took / count as u32,
            rows: operations as f64 / count as f64,
        }
    }
}

fn compiled(mut planner: Planner) -> (Planner, Duration) {
    let started = Instant::now();
    planner.compile();
    (planner, started.elapsed())
}

/// Adds pods one by one, each with its own compile and comparison. In the naive layout the planner makes only the port.
fn add_pods(shape: Shape, planner: &mut Planner, mut naive: Option<&mut Naive>) -> Result<Mean> {
    let observed = planner.desired().clone();
    let observed_sets = naive.as_ref().map(|naive| naive.northbound.clone());
    let pods: Vec<Value> = (0..CHANGES).map(|number| shape.pod(1_000_000 + number)).collect();
    let (mut took, mut operations) = (Duration::ZERO, 0);
    for pod in &pods {
        let started = Instant::now();
        apply(planner, pod)?;
        let scope = planner.compile();
        operations += diff(&observed, planner.desired(), &scope).len();
        if let (Some(naive), Some(observed)) = (naive.as_mut(), &observed_sets) {
            let scope = naive.add_pod(planner, &name(pod)?);
            operations += diff(observed, &naive.northbound, &scope).len();
        }
        took += started.elapsed();
    }
    Ok(Mean::of(CHANGES, took, operations))
}

fn name(pod: &Value) -> Result<PodName> {
    match manifest::read(pod).map_err(anyhow::Error::msg)?.into_iter().next() {
        Some(Object::Pod(name, _)) => Ok(name),
        _ => bail!("the manifest of a pod gave none"),
    }
}

/// Gives namespaces to the next team.
fn relabel(planner: &mut Planner) -> Result<Mean> {
    let observed = planner.desired().clone();
    let (mut took, mut operations) = (Duration::ZERO, 0);
    for number in 0..RELABELS {
        let started = Instant::now();
        apply(planner, &namespace(number, number + 1))?;
        let scope = planner.compile();
        operations += diff(&observed, planner.desired(), &scope).len();
        took += started.elapsed();
    }
    Ok(Mean::of(RELABELS, took, operations))
}

fn relabel_naive(naive: &mut Naive) -> Result<Mean> {
    let observed = naive.northbound.clone();
    let labels = |number: usize, team: usize| match manifest::read(&namespace(number, team)).map_err(anyhow::Error::msg)?.pop() {
        Some(Object::Namespace(name, namespace)) => Ok((name, namespace.labels)),
        _ => bail!("the manifest of a namespace gave none"),
    };
    let (mut took, mut operations) = (Duration::ZERO, 0);
    for number in 0..RELABELS {
        let ((name, before), (_, after)) = (labels(number % NAMESPACES, number)?, labels(number % NAMESPACES, number + 1)?);
        let started = Instant::now();
        let scope = naive.relabel(&name, &before, &after);
        operations += diff(&observed, &naive.northbound, &scope).len();
        took += started.elapsed();
    }
    Ok(Mean::of(RELABELS, took, operations))
}

fn times(a: f64, b: f64) -> String {
    format!("{:.1}×", a / b.max(f64::EPSILON))
}

/// Memory of a process of its own that holds such a cluster: what was freed before would count otherwise.
fn used(shape: Shape, layout: &str) -> Result<f64> {
    let program = std::env::current_exe()?;
    let sizes = [shape.pods.to_string(), shape.policies.to_string()];
    let said = Command::new(program)
        .arg("memory")
        .args(sizes)
        .arg(layout)
        .output()
        .context("start a process to measure")?;
    let kibibytes: f64 = String::from_utf8_lossy(&said.stdout)
        .trim()
        .parse()
        .context("read what the process measured")?;
    Ok(kibibytes / 1024.0)
}

/// That process: holds the cluster and prints its own memory, in KiB.
pub fn memory(arguments: &[String]) -> Result<()> {
    let [pods, policies, layout] = arguments else {
        bail!("memory takes pods, policies and a layout")
    };
    let shape = Shape {
        pods: pods.parse()?,
        policies: policies.parse()?,
    };
    let mut planner = if layout == "shared" {
        shape.planner()?
    } else {
        shape.without_policies()?
    };
    let scope = planner.compile();
    drop::<Scope>(scope);
    let naive = if layout == "own" {
        Some(Naive::build(&planner, &shape.policies()?))
    } else {
        None
    };
    let status = std::fs::read_to_string("/proc/self/status")?;
    println!("{}", resident(&status).context("read the memory of this process")?);
    drop((planner, naive));
    Ok(())
}
