//! The control machine of a lab, as benchmarks see it.

use anyhow::{Context as _, Result};
use netloom_lab::{Lab, MachineStatus};

/// Where the Northbound database of a lab is reached.
pub fn northbound(lab: &Lab) -> Result<String> {
    let pid = control(lab)?.pid.context("the lab is not running")?;
    Ok(format!("unix:/proc/{pid}/root/run/ovn/ovnnb_db.sock"))
}

/// Resident memory of the controller.
pub fn memory(lab: &Lab) -> Result<String> {
    let part = control(lab)?
        .parts
        .into_iter()
        .find(|part| part.name == "controller")
        .context("no controller runs")?;
    let pid = part.pid.context("the controller has no process")?;
    let status = lab.control().run(&["cat", &format!("/proc/{pid}/status")])?;
    Ok(format!(
        "{:.0} MiB",
        resident(&status).context("read the controller's memory")? / 1024.0
    ))
}

/// Resident memory in KiB, from what `/proc/PID/status` says.
pub fn resident(status: &str) -> Option<f64> {
    status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB")?.parse().ok())
}

/// Logical flows in the Southbound database, once northd has seen everything.
pub fn flows(lab: &Lab) -> Result<usize> {
    let count = "ovn-nbctl --timeout=300 --wait=sb sync && ovn-sbctl --timeout=300 --bare --columns=_uuid list Logical_Flow | grep -c .";
    let said = lab.control().run(&["sh", "-c", count])?;
    said.trim().parse().context("count the logical flows")
}

fn control(lab: &Lab) -> Result<MachineStatus> {
    let mut machines = lab.status().into_iter();
    machines
        .find(|machine| machine.machine == "control")
        .context("the lab has no control machine")
}
