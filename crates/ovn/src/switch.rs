//! Open vSwitch on a node: its database, and vswitchd. Both replace this process, except a vswitchd with a userspace datapath, whose receive
//! queues have to be lengthened from outside. Those of a detached one keep the kernel's length, because nothing stays beside it.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail, ensure};
use netloom_ovsdb::Remotes;
use tokio::process::Command;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::file::{convert, create, make_directory, remove_stale_lock};
use crate::program::{Child, Manner, code, replace};
use crate::queues;

/// The database of Open vSwitch.
#[derive(Clone, Debug)]
pub struct SwitchDatabase {
    /// Its file.
    pub file: PathBuf,
    /// Its schema.
    pub schema: PathBuf,
    /// Directory of sockets and process ids.
    pub run_directory: PathBuf,
    /// How it runs.
    pub manner: Manner,
}

impl SwitchDatabase {
    /// Creates or converts the file, and serves it.
    pub async fn run(&self) -> Result<ExitCode> {
        make_directory(&self.run_directory)?;
        self.file.parent().map_or(Ok(()), make_directory)?;
        remove_stale_lock(&self.file)?;
        if self.file.exists() {
            convert(&self.file, &self.schema).await?;
        } else {
            create(&self.file, &self.schema, None).await?;
        }
        replace("ovsdb-server", self.arguments())
    }

    fn arguments(&self) -> Vec<String> {
        let run = self.run_directory.display();
        let mut arguments = self.manner.arguments(&self.run_directory, "ovsdb-server");
        arguments.extend([
            format!("--remote=punix:{run}/db.sock"),
            "--remote=db:Open_vSwitch,Open_vSwitch,manager_options".to_owned(),
            self.file.display().to_string(),
        ]);
        arguments
    }
}

/// Where packets are switched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Datapath {
    /// In the kernel if it has the openvswitch module, else in vswitchd.
    Auto,
    /// In the kernel.
    Kernel,
    /// In vswitchd.
    Userspace,
}

/// vswitchd.
#[derive(Clone, Debug)]
pub struct Switch {
    /// Where packets are switched.
    pub datapath: Datapath,
    /// Directory of sockets and process ids, also those of its database.
    pub run_directory: PathBuf,
    /// How it runs.
    pub manner: Manner,
}

impl Switch {
    /// Runs it until it ends or `stop`. It waits for its database by itself.
    pub async fn run(&self, stop: CancellationToken) -> Result<ExitCode> {
        make_directory(&self.run_directory)?;
        let userspace = !in_kernel(self.datapath).await?;
        let arguments = self.arguments(userspace);
        if !userspace || self.manner.is_detached() {
            return replace("ovs-vswitchd", arguments);
        }
        let mut switch = Child::start("ovs-vswitchd", arguments)?;
        let id = switch.id().context("ovs-vswitchd ended as soon as it was started")?;
        tokio::select! {
            status = switch.ended() => Ok(code("ovs-vswitchd", status?)),
            () = queues::lengthen(self.database()?, id) => bail!("the watch of the switch's database ended"),
            () = stop.cancelled() => {
                switch.stop().await?;
                Ok(ExitCode::SUCCESS)
            }
        }
    }

    fn database(&self) -> Result<Remotes> {
        let database = format!("unix:{}/db.sock", self.run_directory.display());
        database.parse().context("read the remote of the switch's database")
    }

    fn arguments(&self, userspace: bool) -> Vec<String> {
        let run = self.run_directory.display();
        let mut arguments = self.manner.arguments(&self.run_directory, "ovs-vswitchd");
        arguments.push(format!("unix:{run}/db.sock"));
        if userspace {
            arguments.push("--disable-system".to_owned());
        }
        arguments
    }
}

async fn in_kernel(datapath: Datapath) -> Result<bool> {
    if datapath == Datapath::Userspace {
        return Ok(false);
    }
    let there = || Path::new("/sys/module/openvswitch").exists();
    if !there() {
        // It fails where modules cannot be loaded; whether there is one is what counts.
        let loaded = Command::new("modprobe").arg("openvswitch").output().await;
        if !loaded.is_ok_and(|loaded| loaded.status.success()) {
            warn!("cannot load the kernel module openvswitch");
        }
    }
    ensure!(
        there() || datapath == Datapath::Auto,
        "the kernel has no module openvswitch: install it (it comes with the distribution's kernel), or use --datapath userspace"
    );
    info!(datapath = if there() { "kernel" } else { "userspace" }, "chose the datapath");
    Ok(there())
}
