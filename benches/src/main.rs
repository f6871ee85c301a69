//! `make bench`: what things cost, as tables with ratios measured in one run. Nothing here asserts; `docs/benchmarks.md` keeps results.
//!
//! `netloom-bench` runs everything; `netloom-bench core` only what needs neither root nor OVN.

mod attach;
mod burst;
mod connections;
mod control;
mod core;
mod cost;
mod policies;
mod report;
mod services;

use anyhow::{Result, bail};

fn main() -> Result<()> {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    // How a benchmark measures the memory of a process that did nothing else.
    if let [first, rest @ ..] = wanted.as_slice()
        && first == "memory"
    {
        return policies::memory(rest);
    }
    let all = ["core", "burst", "attach", "services", "policies", "connections", "cost"];
    if let Some(unknown) = wanted.iter().find(|name| !all.contains(&name.as_str())) {
        bail!("no benchmark named {unknown}; there are {}", all.join(", "));
    }
    for name in all.iter().filter(|name| wanted.is_empty() || wanted.iter().any(|w| w == *name)) {
        match *name {
            "core" => core::run(),
            "burst" => burst::run()?,
            "attach" => attach::run()?,
            "services" => services::run()?,
            "policies" => policies::run()?,
            "connections" => connections::run()?,
            _ => cost::run()?,
        }
    }
    Ok(())
}
