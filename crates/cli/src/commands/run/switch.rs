//! The parts of a node: Open vSwitch's database, Open vSwitch and ovn-controller. Each replaces this process, but for a userspace Open vSwitch,
//! whose receive queues need somebody beside it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context as _, Result, bail};
use clap::ValueEnum;
use netloom_agent::policy_log;
use netloom_ovsdb::client::{Client, MonitorTable, Options, Tls};
use netloom_ovsdb::{Remotes, Row};
use tracing::{info, warn};

use super::super::process::{self, TlsFlags};
use super::child::{CONSOLE, Child, code, replace};
use super::queues;

/// Flags of `netloom run switch-database`.
#[derive(clap::Args)]
pub struct DatabaseFlags {
    /// The database file
    #[arg(long, default_value = "/etc/openvswitch/conf.db")]
    file: PathBuf,
    /// Its schema
    #[arg(long, default_value = "/usr/share/openvswitch/vswitch.ovsschema")]
    schema: PathBuf,
    /// Directory of sockets and process ids
    #[arg(long, default_value = "/run/openvswitch")]
    run_directory: PathBuf,
}

/// Makes or converts the database, and serves it.
pub fn database(flags: &DatabaseFlags) -> Result<ExitCode> {
    make_directory(&flags.run_directory)?;
    let (file, schema) = (&flags.file, &flags.schema);
    file.parent().map_or(Ok(()), make_directory)?;
    remove_stale_lock(file)?;
    if file.exists() {
        convert(file, schema)?;
    } else {
        tool(&["create".as_ref(), file.as_ref(), schema.as_ref()])?;
        info!(file = %file.display(), "made the switch's database");
    }
    let run = flags.run_directory.display();
    let arguments = [
        format!("--remote=punix:{run}/db.sock"),
        format!("--pidfile={run}/ovsdb-server.pid"),
        format!("--unixctl={run}/ovsdb-server.ctl"),
        "--remote=db:Open_vSwitch,Open_vSwitch,manager_options".to_owned(),
        file.display().to_string(),
    ];
    replace("ovsdb-server", CONSOLE.map(str::to_owned).into_iter().chain(arguments))
}

/// Brings a standalone database to a newer schema. An older one is left alone: what is in the newer one's columns would be lost.
pub fn convert(file: &Path, schema: &Path) -> Result<()> {
    let has = tool(&["db-version".as_ref(), file.as_ref()])?;
    let wants = tool(&["schema-version".as_ref(), schema.as_ref()])?;
    if is_older(&has, &wants)? {
        let backup = PathBuf::from(format!("{}.backup{has}", file.display()));
        std::fs::copy(file, &backup).with_context(|| format!("copy {} to {}", file.display(), backup.display()))?;
        tool(&["convert".as_ref(), file.as_ref(), schema.as_ref()])?;
        info!(file = %file.display(), from = has, to = wants, backup = %backup.display(), "converted the database");
    }
    Ok(())
}

/// Whether one version of a schema is older than another.
pub fn is_older(has: &str, wants: &str) -> Result<bool> {
    let numbers = |version: &str| -> Result<Vec<u32>> {
        let numbers: Result<_, _> = version.split('.').map(str::parse).collect();
        numbers.with_context(|| format!("read the schema version `{version}`"))
    };
    Ok(numbers(has)? < numbers(wants)?)
}

/// A server that was killed leaves its lock file behind; who holds the lock is known to the kernel, so the file means nothing.
pub fn remove_stale_lock(file: &Path) -> Result<()> {
    let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let lock = file.with_file_name(format!(".{name}.~lock~"));
    match std::fs::remove_file(&lock) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error).with_context(|| format!("remove {}", lock.display())),
        _ => Ok(()),
    }
}

/// Makes a directory unless it is there.
pub fn make_directory(path: &Path) -> Result<()> {
    std::fs::create_dir_all(path).with_context(|| format!("make directory {}", path.display()))
}

fn tool(arguments: &[&std::ffi::OsStr]) -> Result<String> {
    let output = Command::new("ovsdb-tool").args(arguments).stderr(Stdio::inherit()).output();
    let output = output.context("run ovsdb-tool; is this the node image?")?;
    anyhow::ensure!(
        output.status.success(),
        "ovsdb-tool {}: {}",
        arguments.join(" ".as_ref()).display(),
        output.status
    );
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Flags of `netloom run switch`.
#[derive(clap::Args)]
pub struct SwitchFlags {
    /// Datapath: in the kernel or in userspace
    #[arg(long, value_enum, default_value = "auto")]
    datapath: Datapath,
    /// Directory of sockets and process ids
    #[arg(long, default_value = "/run/openvswitch")]
    run_directory: PathBuf,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Datapath {
    /// The kernel if it has the openvswitch module, else userspace
    Auto,
    Kernel,
    Userspace,
}

/// Runs Open vSwitch. It waits for its database by itself.
pub fn switch(flags: &SwitchFlags) -> Result<ExitCode> {
    make_directory(&flags.run_directory)?;
    let run = flags.run_directory.display();
    let database = format!("unix:{run}/db.sock");
    let mut arguments = CONSOLE.map(str::to_owned).to_vec();
    arguments.push(database.clone());
    arguments.push(format!("--pidfile={run}/ovs-vswitchd.pid"));
    arguments.push(format!("--unixctl={run}/ovs-vswitchd.ctl"));
    if in_kernel(flags.datapath)? {
        return replace("ovs-vswitchd", arguments);
    }
    arguments.push("--disable-system".to_owned());
    super::block_on(userspace(arguments, database.parse()?))
}

async fn userspace(arguments: Vec<String>, database: Remotes) -> Result<ExitCode> {
    let stop = process::stop_on_signal()?;
    let mut switch = Child::start("ovs-vswitchd", arguments)?;
    let id = switch.id().context("ovs-vswitchd ended as soon as it was started")?;
    tokio::select! {
        status = switch.ended() => Ok(code("ovs-vswitchd", status?)),
        () = queues::lengthen(database, id) => bail!("the watch of the switch's database ended"),
        () = stop.cancelled() => {
            switch.stop().await?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn in_kernel(datapath: Datapath) -> Result<bool> {
    if datapath == Datapath::Userspace {
        return Ok(false);
    }
    let there = || Path::new("/sys/module/openvswitch").exists();
    if !there() {
        // It fails where modules cannot be loaded; whether there is one is what counts.
        let loaded = Command::new("modprobe").arg("openvswitch").output();
        if !loaded.is_ok_and(|loaded| loaded.status.success()) {
            warn!("cannot load the kernel module openvswitch");
        }
    }
    anyhow::ensure!(
        there() || datapath == Datapath::Auto,
        "the kernel has no module openvswitch: install it (it comes with the distribution's kernel), or use --datapath userspace"
    );
    info!(datapath = if there() { "kernel" } else { "userspace" }, "chose the datapath");
    Ok(there())
}

/// Flags of `netloom run ovn-controller`.
#[derive(clap::Args)]
pub struct OvnControllerFlags {
    /// The node's own Open vSwitch database
    #[arg(long, default_value = "unix:/run/openvswitch/db.sock")]
    ovs: String,
    /// Directory of sockets and process ids
    #[arg(long, default_value = "/run/ovn")]
    run_directory: PathBuf,
    /// Address at which the agent receives the verdicts of policies to log
    #[arg(long, default_value = policy_log::ADDRESS)]
    policy_log: SocketAddr,
    #[command(flatten)]
    tls: TlsFlags,
}

/// Runs ovn-controller once the agent has set the node up: before, it would make bridges of its own idea, and so it would after the agent
/// has removed them. Where the Southbound database is, it reads from the node's Open vSwitch database. SIGTERM ends it without removing
/// the node from the Southbound database: only its control command `exit` does that.
pub fn ovn_controller(flags: OvnControllerFlags) -> Result<ExitCode> {
    make_directory(&flags.run_directory)?;
    super::block_on(node_is_set_up(
        flags.ovs.parse().context("read the remotes of the switch's database")?,
    ))?;
    let run = flags.run_directory.display();
    let mut arguments = CONSOLE.map(str::to_owned).to_vec();
    arguments.push(flags.ovs);
    arguments.push(format!("--pidfile={run}/ovn-controller.pid"));
    arguments.push(format!("--unixctl={run}/ovn-controller.ctl"));
    arguments.extend(Option::<Tls>::from(flags.tls).iter().flat_map(certificates));
    arguments.push(format!("--syslog-method=udp:{}", flags.policy_log));
    arguments.extend(["-vacl_log:syslog:info", "-vacl_log:console:off"].map(str::to_owned));
    replace("ovn-controller", arguments)
}

/// Waits until the node's Open vSwitch knows a Southbound database.
async fn node_is_set_up(ovs: Remotes) -> Result<()> {
    let mut options = Options::new(ovs, "Open_vSwitch");
    options.monitor = vec![MonitorTable {
        columns: Some(vec!["external_ids".to_owned()]),
        ..MonitorTable::all("Open_vSwitch")
    }];
    let (client, mut events) = Client::start(options);
    let knows = |row: &Row| row.get("external_ids").is_some_and(|ids| ids.get("ovn-remote").is_some());
    info!("waiting for the agent to set the node up");
    while client.read(|replica| replica.rows("Open_vSwitch").any(|(_, row)| knows(row))) != Some(true) {
        events.recv().await.context("the client of the switch's database ended")?;
    }
    Ok(())
}

/// The arguments with which programs of OVS and OVN are told their certificates. They read changed files again by themselves.
pub fn certificates(tls: &Tls) -> [String; 3] {
    [
        format!("--private-key={}", tls.key.display()),
        format!("--certificate={}", tls.cert.display()),
        format!("--ca-cert={}", tls.ca.display()),
    ]
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_number() {
        assert!(is_older("7.9.0", "7.10.0").unwrap());
        assert!(!is_older("7.10.0", "7.10.0").unwrap());
        assert!(!is_older("8.0.0", "7.10.0").unwrap());
        assert!(is_older("", "7.10.0").is_err());
    }
}
