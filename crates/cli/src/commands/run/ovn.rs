//! Flags of the parts that run once in a cluster: the databases and northd.

use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::ValueEnum;
use netloom_discovery::{Database, Service};
use netloom_ovn::Discovery;
use netloom_ovn::database::Member;
use netloom_ovn::northd::{Databases, Northd};
use netloom_ovn::relay::Relay;
use netloom_ovsdb::Remotes;
use netloom_ovsdb::client::Tls;

use super::MannerFlag;
use super::process::{TlsFlags, stop_on_signal};

/// Where the members of the databases are found.
#[derive(clap::Args)]
struct Cluster {
    /// Service whose endpoints serve the databases, as NAMESPACE/NAME
    #[arg(long, visible_alias = "service", env = "NETLOOM_DATABASES")]
    databases: Option<Service>,
    /// Kubeconfig file; the pod's own service account by default
    #[arg(long, env = "KUBECONFIG")]
    kubeconfig: Option<PathBuf>,
}

impl Cluster {
    async fn discovery(self) -> Result<Discovery> {
        Ok(Discovery {
            client: netloom_controller::kubernetes(self.kubeconfig.as_deref()).await?,
            service: self.databases.context("find the databases: pass --databases")?,
        })
    }
}

/// Flags of `netloom run database`.
#[derive(clap::Args)]
pub struct DatabaseFlags {
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
    #[command(flatten)]
    manner: MannerFlag,
}

#[derive(Clone, Copy, ValueEnum)]
enum Which {
    Northbound,
    Southbound,
}

impl DatabaseFlags {
    /// Runs the member until it ends or is asked to stop.
    pub async fn run(self) -> Result<ExitCode> {
        let stop = stop_on_signal()?;
        let member = Member {
            database: match self.database {
                Which::Northbound => Database::Northbound,
                Which::Southbound => Database::Southbound,
            },
            name: self.member,
            replicas: self.replicas,
            address: self.address,
            tls: self.tls.into(),
            data: self.data,
            schemas: self.schemas,
            run_directory: self.run_directory,
            manner: self.manner.into(),
        };
        // One member has no others to find.
        let discovery = match self.replicas {
            0 | 1 => None,
            _ => Some(self.cluster.discovery().await?),
        };
        member.run(discovery, stop).await
    }
}

/// Flags of `netloom run relay`.
#[derive(clap::Args)]
pub struct RelayFlags {
    /// Address of this node, at which other nodes reach the relay
    #[arg(long, env = "HOST_IP")]
    address: IpAddr,
    /// Socket of the member of the Southbound database
    #[arg(long, default_value = "/run/ovn/ovnsb_db.sock")]
    member: PathBuf,
    /// Directory with clients.crt, which nodes are trusted by, tls.crt and tls.key
    #[arg(long, env = "NETLOOM_TLS", value_name = "DIRECTORY")]
    tls: PathBuf,
    /// Directory of sockets and process ids
    #[arg(long, default_value = "/run/ovn")]
    run_directory: PathBuf,
}

impl RelayFlags {
    /// Runs the relay in place of this process, once nodes may be served.
    pub async fn run(self) -> Result<ExitCode> {
        let relay = Relay {
            address: self.address,
            member: self.member,
            tls: Tls {
                ca: self.tls.join(netloom_certificate::CLIENTS),
                ..netloom_certificate::in_directory(&self.tls)
            },
            run_directory: self.run_directory,
        };
        relay.run(stop_on_signal()?).await
    }
}

/// Flags of `netloom run northd`.
#[derive(clap::Args)]
pub struct NorthdFlags {
    #[command(flatten)]
    cluster: Cluster,
    /// Northbound database servers, e.g. unix:/run/ovn/ovnnb_db.sock, instead of --databases
    #[arg(long, requires = "southbound")]
    northbound: Option<Remotes>,
    /// Southbound database servers, e.g. unix:/run/ovn/ovnsb_db.sock, instead of --databases
    #[arg(long, requires = "northbound")]
    southbound: Option<Remotes>,
    #[command(flatten)]
    tls: TlsFlags,
    /// Directory of sockets and process ids
    #[arg(long, default_value = "/run/ovn")]
    run_directory: PathBuf,
    #[command(flatten)]
    manner: MannerFlag,
}

impl NorthdFlags {
    /// Runs ovn-northd until it ends or is asked to stop.
    pub async fn run(self) -> Result<ExitCode> {
        let stop = stop_on_signal()?;
        let databases = match self.northbound.zip(self.southbound) {
            Some((northbound, southbound)) => Databases::Fixed { northbound, southbound },
            None => Databases::Members(self.cluster.discovery().await?),
        };
        let northd = Northd {
            databases,
            tls: self.tls.into(),
            run_directory: self.run_directory,
            manner: self.manner.into(),
        };
        northd.run(stop).await
    }
}
