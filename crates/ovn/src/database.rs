//! One member of the Northbound or Southbound database.
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

use anyhow::{Context as _, Result, bail, ensure};
use netloom_discovery::{Database, Members};
use netloom_ovsdb::client::Tls;
use tokio::sync::watch::Receiver;
use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::Discovery;
use crate::file::{self, make_directory, remove_stale_lock, rename, text, tool};
use crate::program::{Child, Manner, certificates, code, output, replace};
use step::{File, Step};

/// After how many milliseconds without a word from the leader a member asks for votes. A server that works on a large transaction, or writes
/// the whole database anew, says nothing meanwhile; with OVN's own default, one second, it would lose its place for being busy.
const ELECTION_TIMER: u32 = 5000;

/// One member of a database.
#[derive(Clone, Debug)]
pub struct Member {
    /// Which database.
    pub database: Database,
    /// Its name; the number at its end is its place.
    pub name: String,
    /// Number of members: one uses a plain file, several replicate it with Raft.
    pub replicas: u32,
    /// Address of this node, at which clients and other members reach it.
    pub address: IpAddr,
    /// Certificates of clients and members.
    pub tls: Option<Tls>,
    /// Directory of the database file.
    pub data: PathBuf,
    /// Directory of the schemas.
    pub schemas: PathBuf,
    /// Directory of sockets and process ids.
    pub run_directory: PathBuf,
    /// How it runs; only a single member can be detached.
    pub manner: Manner,
}

/// Where the other members are, for several of them.
#[derive(Clone)]
struct Others {
    discovery: Discovery,
    members: Receiver<Members>,
}

impl Member {
    /// Prepares the file and serves it until the server ends or `stop`. Several members need the API to find each other.
    pub async fn run(&self, discovery: Option<Discovery>, stop: CancellationToken) -> Result<ExitCode> {
        ensure!(
            self.replicas <= 1 || !self.manner.is_detached(),
            "one of several members has to follow the others and cannot be detached"
        );
        make_directory(&self.data)?;
        make_directory(&self.run_directory)?;
        remove_stale_lock(&self.file())?;
        let others = discovery.filter(|_| self.replicas > 1).map(|discovery| Others {
            members: discovery.members(),
            discovery,
        });
        tokio::select! {
            () = stop.cancelled() => return Ok(ExitCode::SUCCESS),
            prepared = prepare(self, others.clone()) => prepared?,
        }
        if self.manner.is_detached() {
            return replace("ovsdb-server", self.arguments());
        }
        let mut server = Child::start("ovsdb-server", self.arguments())?;
        let duties = async {
            match others {
                Some(others) => duties::run(self, others).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            status = server.ended() => Ok(code("ovsdb-server", status?)),
            () = duties => bail!("the watch of this member's server ended"),
            () = stop.cancelled() => {
                // Asked this way, a leader hands over before it ends; after a signal the others would have to wait for an election.
                if self.control(&["exit"]).await.is_err() {
                    server.stop().await?;
                }
                server.ended().await?;
                Ok(ExitCode::SUCCESS)
            }
        }
    }

    /// What the names of its files begin with.
    fn stem(&self) -> &'static str {
        match self.database {
            Database::Northbound => "ovnnb_db",
            Database::Southbound => "ovnsb_db",
        }
    }

    fn file(&self) -> PathBuf {
        self.data.join(format!("{}.db", self.stem()))
    }

    fn schema(&self) -> PathBuf {
        self.schemas.join(match self.database {
            Database::Northbound => "ovn-nb.ovsschema",
            Database::Southbound => "ovn-sb.ovsschema",
        })
    }

    /// A socket of the running server.
    fn runtime(&self, suffix: &str) -> PathBuf {
        self.run_directory.join(format!("{}.{suffix}", self.stem()))
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
        let mut arguments = self.manner.arguments(&self.run_directory, self.stem());
        arguments.extend([
            format!("--remote=punix:{}", self.runtime("sock").display()),
            format!("--remote={scheme}:{}:{address}", self.database.member_port(self.tls.is_some())),
        ]);
        if self.manner.is_detached() {
            // Not the name that OVS chooses: both databases may be served by programs of one name.
            arguments.push(format!("--unixctl={}", self.runtime("ctl").display()));
        }
        arguments.extend(self.tls.iter().flat_map(certificates));
        arguments.push(text(&self.file()));
        arguments
    }

    /// A command to the running server.
    async fn control(&self, command: &[&str]) -> Result<String> {
        let target = text(&self.runtime("ctl"));
        output("ovs-appctl", ["-t", &target].iter().chain(command)).await
    }
}

/// Sees to it that there is a file to serve.
async fn prepare(member: &Member, others: Option<Others>) -> Result<()> {
    let path = member.file();
    let mut file = inspect(&path).await?;
    if let (File::Clustered(address), Some(others)) = (&file, &others) {
        let server = tool(["db-sid".to_owned(), text(&path)]).await?;
        if peers::was_removed(member, &others.discovery, &duties::name(&server, address)).await? {
            let aside = PathBuf::from(format!("{}.removed", path.display()));
            rename(&path, &aside)?;
            info!(file = %aside.display(), "the cluster went on without this file's server; joining anew");
            file = File::Missing;
        }
    }
    let step = step::choose(&file, &member.raft(member.address), member.replicas, step::place(&member.name)?)
        .map_err(|reason| anyhow::anyhow!("{}: {reason}", path.display()))?;
    match (step, others) {
        (Step::Serve, _) => Ok(()),
        (Step::Convert, _) => file::convert(&path, &member.schema()).await,
        (Step::Make, _) => create(member, &path).await,
        (_, None) => bail!("a cluster of {} members cannot be made without the API", member.replicas),
        (Step::MakeClusterFrom, Some(others)) => {
            peers::refuse_second(member, &others.discovery).await?;
            let plain = PathBuf::from(format!("{}.standalone", path.display()));
            rename(&path, &plain)?;
            make_cluster(member, &plain).await
        }
        (Step::MakeOrJoin, Some(others)) => match peers::find_or_none(member, &others.discovery, others.members).await? {
            None => {
                let first = PathBuf::from(format!("{}.first", path.display()));
                create(member, &first).await?;
                make_cluster(member, &first).await?;
                file::remove(&first)
            }
            Some(found) => join(member, &found).await,
        },
        (Step::Join, Some(others)) => join(member, &peers::find(member, others.members).await).await,
    }
}

async fn create(member: &Member, file: &Path) -> Result<()> {
    file::create(file, &member.schema(), Some(first_row(member.database))).await
}

/// The one row of settings that each database has from the start, before anybody serves or writes it. northd adds a row that is missing,
/// but an ovn-controller that meets a second node before that ends with a failure. In the Northbound it lets gateways notice a dead peer
/// after 300 ms; OVN's own default is five seconds. Nothing writes these keys again, so a value that an administrator sets stays.
fn first_row(database: Database) -> &'static str {
    match database {
        Database::Northbound => {
            r#"["OVN_Northbound", {"op": "insert", "table": "NB_Global", "row": {"options":
                ["map", [["bfd-min-rx", "100"], ["bfd-min-tx", "100"], ["bfd-mult", "3"]]]}}]"#
        }
        Database::Southbound => r#"["OVN_Southbound", {"op": "insert", "table": "SB_Global", "row": {}}]"#,
    }
}

async fn make_cluster(member: &Member, content: &Path) -> Result<()> {
    let own = member.raft(member.address);
    info!(own, "making the cluster");
    // Recorded in the file; those who join learn it from there. An administrator may change it while the cluster runs.
    let timer = format!("--election-timer={ELECTION_TIMER}");
    let arguments = [timer, "create-cluster".to_owned(), text(&member.file()), text(content), own];
    tool(arguments).await.map(drop)
}

async fn join(member: &Member, found: &peers::Found) -> Result<()> {
    let own = member.raft(member.address);
    info!(own, cluster = %found.cluster, "joining the cluster");
    let mut arguments = vec![
        format!("--cid={}", found.cluster),
        "join-cluster".to_owned(),
        text(&member.file()),
        member.database.name().to_owned(),
        own,
    ];
    arguments.extend(found.members.iter().map(|address| member.raft(*address)));
    tool(arguments).await.map(drop)
}

/// What the file is.
async fn inspect(file: &Path) -> Result<File> {
    if !file.exists() {
        return Ok(File::Missing);
    }
    if tool(["db-is-standalone".to_owned(), text(file)]).await.is_ok() {
        return Ok(File::Standalone);
    }
    let address = tool(["db-local-address".to_owned(), text(file)]).await.with_context(|| {
        format!(
            "read {}: it is damaged; move it away, and the member joins the others anew",
            file.display()
        )
    })?;
    Ok(File::Clustered(address))
}
