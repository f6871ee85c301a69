//! `netloom run database`: one member of the Northbound or Southbound database.
//!
//! ```text
//! file ──step (pure)──► make it, make a cluster, join one, or serve ──► ovsdb-server ──► duties while it runs
//! ```
//!
//! A member is its node's address: the file remembers it, and so do the other members. There is never a second cluster: a member
//! without a file makes one only if it is the first by name and nobody else has or had one.

mod duties;
mod peers;
mod step;

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use clap::ValueEnum;
use netloom_discovery::{Database, Members};
use netloom_ovsdb::client::Tls;
use tokio::sync::watch::Receiver;
use tracing::info;

use super::super::process::{self, TlsFlags};
use super::Cluster;
use super::child::{CONSOLE, Child, code, output};
use super::switch::{certificates, convert, make_directory, remove_stale_lock};
use step::{File, Step};

/// Flags of `netloom run database`.
#[derive(clap::Args)]
pub struct Flags {
    /// Which database
    #[arg(value_enum)]
    database: Which,
    #[command(flatten)]
    cluster: Cluster,
    /// Name of this member; the number at its end is its index
    #[arg(long, env = "POD_NAME")]
    member: String,
    /// Number of members: one uses a plain file, several replicate it with Raft
    #[arg(long, env = "NETLOOM_REPLICAS", default_value_t = 3)]
    replicas: u32,
    /// Address of this node, at which clients and other members reach this member
    #[arg(long, env = "HOST_IP")]
    address: IpAddr,
    #[command(flatten)]
    tls: TlsFlags,
    /// Directory of the database file
    #[arg(long, default_value = "/var/lib/ovn")]
    data: PathBuf,
    /// Directory of the schemas
    #[arg(long, default_value = "/usr/share/ovn")]
    schemas: PathBuf,
    /// Directory of sockets and process ids
    #[arg(long, default_value = "/run/ovn")]
    run_directory: PathBuf,
}

#[derive(Clone, Copy, ValueEnum)]
enum Which {
    Northbound,
    Southbound,
}

/// What everything here needs to know of this member.
struct Member {
    database: Database,
    service: netloom_discovery::Service,
    address: IpAddr,
    replicas: u32,
    tls: Option<Tls>,
    file: PathBuf,
    schema: PathBuf,
    socket: PathBuf,
    control: PathBuf,
    pidfile: PathBuf,
}

impl Member {
    fn new(flags: Flags) -> (Self, Cluster, String) {
        let (database, short) = match flags.database {
            Which::Northbound => (Database::Northbound, "nb"),
            Which::Southbound => (Database::Southbound, "sb"),
        };
        let run = |suffix: &str| flags.run_directory.join(format!("ovn{short}_db.{suffix}"));
        let member = Member {
            database,
            service: flags.cluster.databases.clone(),
            address: flags.address,
            replicas: flags.replicas,
            tls: flags.tls.into(),
            file: flags.data.join(format!("ovn{short}_db.db")),
            schema: flags.schemas.join(format!("ovn-{short}.ovsschema")),
            socket: run("sock"),
            control: run("ctl"),
            pidfile: run("pid"),
        };
        (member, flags.cluster, flags.member)
    }

    /// Where a member at this address speaks to the others.
    fn raft(&self, address: IpAddr) -> String {
        let scheme = if self.tls.is_some() { "ssl" } else { "tcp" };
        format!("{scheme}:{}", SocketAddr::new(address, self.database.raft_port()))
    }

    fn arguments(&self) -> Vec<String> {
        let scheme = if self.tls.is_some() { "pssl" } else { "ptcp" };
        let address = match self.address {
            IpAddr::V4(address) => address.to_string(),
            IpAddr::V6(address) => format!("[{address}]"),
        };
        let mut arguments = CONSOLE.map(str::to_owned).to_vec();
        arguments.extend([
            format!("--remote=punix:{}", self.socket.display()),
            format!("--remote={scheme}:{}:{address}", self.database.port()),
            format!("--pidfile={}", self.pidfile.display()),
            format!("--unixctl={}", self.control.display()),
        ]);
        arguments.extend(self.tls.iter().flat_map(certificates));
        arguments.push(self.file.display().to_string());
        arguments
    }

    /// A command to the running server.
    async fn control(&self, command: &[&str]) -> Result<String> {
        let target = self.control.display().to_string();
        output("ovs-appctl", ["-t", &target].iter().chain(command)).await
    }
}

/// Prepares the file and serves it until the server ends or is asked to stop.
pub async fn run(flags: Flags) -> Result<ExitCode> {
    let stop = process::stop_on_signal()?;
    let (member, cluster, name) = Member::new(flags);
    let mut directories = [&member.file, &member.socket].into_iter().filter_map(|file| file.parent());
    directories.try_for_each(make_directory)?;
    remove_stale_lock(&member.file)?;
    let watched = if member.replicas > 1 { Some(cluster.watch().await?) } else { None };
    tokio::select! {
        () = stop.cancelled() => return Ok(ExitCode::SUCCESS),
        prepared = prepare(&member, &name, watched.clone()) => prepared?,
    }
    let mut server = Child::start("ovsdb-server", member.arguments())?;
    let duties = async {
        match watched {
            Some((client, members)) => duties::run(&member, client, members).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        status = server.ended() => Ok(code("ovsdb-server", status?)),
        () = duties => bail!("the watch of this member's server ended"),
        () = stop.cancelled() => {
            // Asked this way, a leader hands over before it goes; after a signal the others would have to wait for an election.
            if member.control(&["exit"]).await.is_err() {
                server.stop().await?;
            }
            server.ended().await?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Sees to it that there is a file to serve.
async fn prepare(member: &Member, name: &str, watched: Option<(kube::Client, Receiver<Members>)>) -> Result<()> {
    let mut file = inspect(&member.file).await?;
    if let (File::Clustered(address), Some((client, _))) = (&file, &watched) {
        let server = output("ovsdb-tool", ["db-sid".into(), text(&member.file)]).await?;
        if peers::was_removed(member, client, &duties::name(&server, address)).await? {
            let aside = PathBuf::from(format!("{}.removed", member.file.display()));
            std::fs::rename(&member.file, &aside).with_context(|| format!("move {} to {}", member.file.display(), aside.display()))?;
            info!(file = %aside.display(), "the cluster went on without this file's server; joining anew");
            file = File::Missing;
        }
    }
    let step = step::choose(&file, &member.raft(member.address), member.replicas, step::place(name)?)
        .map_err(|reason| anyhow::anyhow!("{}: {reason}", member.file.display()))?;
    match (step, watched) {
        (Step::Serve, _) => Ok(()),
        (Step::Convert, _) => convert(&member.file, &member.schema),
        (Step::Make, _) => make(member, &member.file).await,
        (_, None) => bail!("a cluster of {} members cannot be made without the API", member.replicas),
        (Step::MakeClusterFrom, Some((client, _))) => {
            peers::refuse_second(member, client).await?;
            let plain = PathBuf::from(format!("{}.standalone", member.file.display()));
            std::fs::rename(&member.file, &plain).with_context(|| format!("move {} to {}", member.file.display(), plain.display()))?;
            make_cluster(member, &plain).await
        }
        (Step::MakeOrJoin, Some((client, members))) => match peers::find_or_none(member, client, members).await? {
            None => {
                let first = PathBuf::from(format!("{}.first", member.file.display()));
                make(member, &first).await?;
                make_cluster(member, &first).await?;
                std::fs::remove_file(&first).with_context(|| format!("remove {}", first.display()))
            }
            Some(found) => join(member, &found).await,
        },
        (Step::Join, Some((_, members))) => join(member, &peers::find(member, members).await).await,
    }
}

/// A new database, not seen until it is complete. The Southbound has its one row of settings from the start: northd writes it too,
/// but an ovn-controller that meets a second node before it is there dies of it.
async fn make(member: &Member, file: &Path) -> Result<()> {
    let new = PathBuf::from(format!("{}.new", file.display()));
    match std::fs::remove_file(&new) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("remove {}, which was never completed", new.display()));
        }
        _ => {}
    }
    tool(["create".into(), text(&new), text(&member.schema)]).await?;
    if member.database == Database::Southbound {
        let row = r#"["OVN_Southbound", {"op": "insert", "table": "SB_Global", "row": {}}]"#;
        tool(["transact".into(), text(&new), row.into()]).await?;
    }
    std::fs::rename(&new, file).with_context(|| format!("move {} to {}", new.display(), file.display()))
}

async fn make_cluster(member: &Member, content: &Path) -> Result<()> {
    let own = member.raft(member.address);
    info!(own, "making the cluster");
    tool(["create-cluster".into(), text(&member.file), text(content), own]).await
}

async fn join(member: &Member, found: &peers::Found) -> Result<()> {
    let own = member.raft(member.address);
    info!(own, cluster = %found.cluster, "joining the cluster");
    let mut arguments = vec![format!("--cid={}", found.cluster), "join-cluster".to_owned(), text(&member.file)];
    arguments.extend([member.database.name().to_owned(), own]);
    arguments.extend(found.members.iter().map(|address| member.raft(*address)));
    tool(arguments).await
}

/// What the file is.
async fn inspect(file: &Path) -> Result<File> {
    if !file.exists() {
        return Ok(File::Missing);
    }
    if output("ovsdb-tool", ["db-is-standalone".into(), text(file)]).await.is_ok() {
        return Ok(File::Standalone);
    }
    let address = output("ovsdb-tool", ["db-local-address".into(), text(file)])
        .await
        .with_context(|| {
            format!(
                "read {}: it is damaged; move it away, and the member joins the others anew",
                file.display()
            )
        })?;
    Ok(File::Clustered(address))
}

async fn tool(arguments: impl IntoIterator<Item = String>) -> Result<()> {
    output("ovsdb-tool", arguments).await.map(drop)
}

fn text(path: &Path) -> String {
    path.display().to_string()
}
