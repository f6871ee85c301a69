//! What the doctor knows of this machine, and how it is gathered: all looks at once, each with its deadline.
//! The facts are plain values; what they mean is decided in [`crate::judge`].

mod agent;
mod certificates;
mod firewall;
mod host;
mod switch;

use std::collections::BTreeMap;
use std::net::IpAddr;

use anyhow::{Context as _, Result};
use netloom_certificate::in_directory;
use netloom_ovsdb::client::Remotes;

pub use agent::CniFiles;
#[cfg(test)]
pub use certificates::Authority;
pub use certificates::Certificates;
pub use firewall::Firewall;
pub use host::{Host, Module};
#[cfg(test)]
pub use switch::{Bridge, Interface};
pub use switch::{Ovn, Switch};

use crate::NodeOptions;
use crate::cluster::databases::{self, Member};
use crate::cluster::kubernetes;
use crate::unseen::{Seen, Unseen, in_time};

/// All that was seen of this machine. What was not asked for is `None`.
#[derive(Clone, Debug)]
pub struct NodeFacts {
    /// Its name in Kubernetes.
    pub node: String,
    /// Kernel, settings, disk.
    pub host: Host,
    /// Its devices.
    pub devices: Seen<Vec<Device>>,
    /// What nftables does.
    pub firewall: Seen<Firewall>,
    /// Open vSwitch's database.
    pub switch: Seen<Switch>,
    /// Version of the vswitchd that answers; none when there is no socket of one.
    pub vswitchd: Seen<Option<String>>,
    /// The ovn-controller that answers; none when there is no socket of one.
    pub ovn: Seen<Option<Ovn>>,
    /// Addresses of the Southbound servers by the service that was given, sorted.
    pub discovered: Option<Vec<String>>,
    /// The Southbound servers.
    pub southbound: Seen<Vec<Member>>,
    /// Encapsulation addresses in the Southbound database by chassis.
    pub chassis: Option<Seen<BTreeMap<String, Vec<String>>>>,
    /// Whether the agent would attach a pod now.
    pub agent: Seen<()>,
    /// The CNI plugin and the configurations.
    pub cni: CniFiles,
    /// The certificates for the databases.
    pub certificates: Option<Seen<Certificates>>,
    /// Seconds our clock is ahead of the API server's.
    pub clock: Option<Seen<i64>>,
    /// Whether the cluster's services are native; none when that is not known.
    pub native_services: Option<bool>,
    /// Seconds since 1970, here.
    pub now: i64,
}

/// A network device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Its name.
    pub name: String,
    /// Its MTU.
    pub mtu: u32,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
}

/// Looks at everything.
pub async fn gather(options: &NodeOptions) -> Result<NodeFacts> {
    let node = match &options.node {
        Some(node) => node.clone(),
        None => host::name().context("find the name of this host; give --node")?,
    };
    let tls = options.tls.as_deref().map(in_directory);
    let client = kubernetes::client_if_any(options.kubeconfig.as_deref()).await?;
    let switch = async {
        let switch = in_time(switch::read(&options.ovs)).await;
        let told = switch.as_ref().ok().and_then(|switch| switch.external_ids.get("ovn-remote"));
        let told = told.map(|told| told.parse::<Remotes>().map_err(Unseen::error));
        let discovered = match (&options.databases, &client) {
            (Some(service), Some(client)) => Some(in_time(databases::remotes(client, service, databases::SOUTHBOUND, tls.is_some())).await),
            _ => None,
        };
        // Where the service cannot be read, what ovn-controller is told is the next best.
        let known = match (&discovered, told) {
            (Some(Ok(remotes)), _) => Ok(remotes.clone()),
            (_, Some(told)) => told,
            (Some(Err(unseen)), None) => Err(unseen.clone()),
            (None, None) => Err(Unseen::Error("Open_vSwitch external_ids:ovn-remote does not name any".to_owned())),
        };
        let discovered = discovered
            .and_then(Result::ok)
            .map(|remotes| remotes.iter().map(ToString::to_string).collect());
        let (southbound, chassis) = match known {
            Ok(remotes) => {
                let (members, chassis) = tokio::join!(
                    databases::members(databases::SOUTHBOUND, &remotes, tls.as_ref()),
                    in_time(databases::encapsulations(&remotes, tls.as_ref())),
                );
                (Ok(members), Some(chassis))
            }
            Err(unseen) => (Err(unseen), None),
        };
        (switch, discovered, southbound, chassis)
    };
    let api = async {
        let Some(client) = &client else { return (None, None) };
        tokio::join!(async { Some(in_time(kubernetes::skew(client)).await) }, async {
            in_time(kubernetes::native_services(client)).await.ok().flatten()
        },)
    };
    let (host, devices, firewall, (switch, discovered, southbound, chassis), vswitchd, ovn, agent, (clock, native_services)) = tokio::join!(
        host::read(),
        in_time(devices()),
        in_time(firewall::read()),
        switch,
        in_time(switch::vswitchd(&options.ovs)),
        in_time(switch::ovn_controller(&options.ovn_run_directory)),
        in_time(agent::status(&options.socket)),
        api,
    );
    Ok(NodeFacts {
        node,
        host,
        devices,
        firewall,
        switch,
        vswitchd,
        ovn,
        discovered,
        southbound,
        chassis,
        agent,
        cni: agent::files(&options.cni_bin_directory, &options.cni_conf_directory),
        certificates: tls.as_ref().map(certificates::read),
        clock,
        native_services,
        now: jiff::Timestamp::now().as_second(),
    })
}

async fn devices() -> Seen<Vec<Device>> {
    let netlink = netloom_agent::net::netlink::Netlink::here().map_err(Unseen::error)?;
    let links = netlink.links().await.map_err(Unseen::error)?;
    let addresses = netlink.addresses().await.map_err(Unseen::error)?;
    let device = |link: &netloom_agent::net::netlink::Link| Device {
        name: link.name.clone(),
        mtu: link.mtu,
        addresses: addresses
            .iter()
            .filter(|address| address.index == link.index)
            .map(|address| address.net.addr())
            .collect(),
    };
    Ok(links.iter().map(device).collect())
}
