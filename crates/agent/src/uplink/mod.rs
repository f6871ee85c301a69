//! Gives the node's uplink to br-ex and carries its addresses and routes there (`--uplink`), again whenever they come
//! back on the uplink (a DHCP client renews) and whenever br-ex comes back bare (vswitchd made it anew). While there is no
//! br-ex the uplink has them. [`record`] decides. Needs no API server: it may be reached through that very device.

pub mod record;

use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;

use anyhow::Context;
use netloom_ovsdb::{Datum, Mutation, Operation, Row, Transaction};
use netloom_retry::{Changes, Converge};
use tokio::sync::watch;
use tracing::{info, warn};
use uuid::Uuid;

use crate::gateway::EXTERNAL_BRIDGE;
use crate::net::link_config::{LinkAddress, LinkConfig, holds};
use crate::net::netlink::{Link, LinkChange, Netlink};
use crate::net::{fence, nft, sysctl};
use crate::node::Node;
use crate::set_up::{Datapath, plan};
use crate::switch::SwitchState;
use record::{Record, wanted};

/// Which device leads out of the node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// None is given to br-ex: it is as somebody else has made it.
    #[default]
    None,
    /// The one that has the node's address.
    Auto,
    /// This one.
    Device(String),
}

impl FromStr for Choice {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text {
            "none" => Self::None,
            "auto" => Self::Auto,
            device => Self::Device(device.to_owned()),
        })
    }
}

/// Keeps the uplink in br-ex.
pub struct Uplink {
    node: Arc<Node>,
    choice: Choice,
    address: Option<IpAddr>,
    datapath: Datapath,
    /// Whether the switch is set up by us, which has to come first.
    set_up: bool,
    boot: String,
    changes: Changes,
    kernel: watch::Receiver<u64>,
    deletions: watch::Receiver<u64>,
    /// The device that is fenced, and how many tables had been deleted by then.
    fenced: Option<(u32, u64)>,
}

/// What wakes it: most changes of the switch are about pods.
#[derive(PartialEq)]
pub struct Inputs {
    ready: bool,
    bridge: Option<Arc<crate::switch::state::Bridge>>,
    uplink: Option<String>,
    kernel: u64,
    deletions: u64,
}

impl Uplink {
    /// `address` is the node's, to find the device by; with `set_up` the switch is set up by us, and that has to come first;
    /// `deletions` tells of deleted nftables tables.
    #[allow(clippy::too_many_arguments)]
    pub fn new(
        node: Arc<Node>,
        choice: Choice,
        address: Option<IpAddr>,
        datapath: Datapath,
        set_up: bool,
        kernel: watch::Receiver<u64>,
        deletions: watch::Receiver<u64>,
    ) -> Self {
        let changes = Changes::default()
            .of(node.switch.changes())
            .of(kernel.clone())
            .of(deletions.clone());
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        Self {
            node,
            choice,
            address,
            datapath,
            set_up,
            boot: boot.trim().to_owned(),
            changes,
            kernel,
            deletions,
            fenced: None,
        }
    }

    /// The switch's own settings come before its first device.
    fn is_ready(&self, state: &SwitchState) -> bool {
        state.connected && (!self.set_up || state.external_ids.contains_key(plan::DATAPATH_KEY))
    }

    /// The uplink's name: what was asked for, what br-ex has already, or the device with the node's address.
    async fn device(&self) -> anyhow::Result<String> {
        if let Choice::Device(device) = &self.choice {
            return Ok(device.clone());
        }
        if let Some(device) = self.node.switch.read(port_of_bridge) {
            return Ok(device);
        }
        let address = self
            .address
            .context("cannot tell the uplink: give --node-ip (or HOST_IP), or name the device with --uplink")?;
        let netlink = &self.node.netlink;
        let addresses = netlink.addresses().await?;
        let found = addresses.iter().find(|found| found.net.addr() == address);
        let found = found
            .with_context(|| format!("no device has the node's address {address}: correct --node-ip, or name the uplink with --uplink"))?;
        let link = netlink
            .link_at(found.index)
            .await?
            .context("the device with the node's address is gone")?;
        if link.name == EXTERNAL_BRIDGE {
            anyhow::bail!("{EXTERNAL_BRIDGE} has the node's address but no uplink: name the device with --uplink");
        }
        Ok(link.name)
    }

    /// Keeps the kernel's stack off a device that the userspace datapath reads.
    async fn fence(&mut self, uplink: &Link) -> anyhow::Result<()> {
        let deletions = *self.deletions.borrow();
        if self.fenced == Some((uplink.index, deletions)) {
            return Ok(());
        }
        if self.fenced.is_none_or(|(index, _)| index != uplink.index) || !nft::has_table("netdev netloom").await? {
            fence::raise(&uplink.name).await?;
        }
        self.fenced = Some((uplink.index, deletions));
        Ok(())
    }

    /// Without vswitchd the userspace datapath's br-ex is dead, or not even there, and the node would be cut off, also from
    /// whoever could start vswitchd again: the uplink has its addresses and routes meanwhile.
    async fn stand_in(&mut self, bridge: Option<(Link, LinkConfig)>) -> anyhow::Result<()> {
        let recorded = |state: &SwitchState| Record::read(&state.bridge(EXTERNAL_BRIDGE)?.1.external_ids);
        let Some(record) = self.node.switch.read(recorded).filter(|record| record.boot == self.boot) else {
            return Ok(());
        };
        let netlink = &self.node.netlink;
        let Some(uplink) = netlink.link(&record.uplink).await? else {
            return Ok(());
        };
        let belongings = bridge.as_ref().map_or(&record.belongings, |(_, belongings)| belongings);
        let present = netlink.belongings(uplink.index).await?;
        let lost = |address: &&LinkAddress| !holds(&present.addresses, address.net);
        let lost: Vec<&LinkAddress> = belongings.addresses.iter().filter(lost).collect();
        for address in &lost {
            netlink.hold(uplink.index, **address).await?;
        }
        self.fenced = None;
        if fence::is_raised(&uplink.name).await? {
            fence::lower(std::slice::from_ref(&uplink.name)).await?;
        }
        carry(netlink, bridge.as_ref(), &uplink, belongings).await?;
        if !lost.is_empty() {
            warn!(uplink = uplink.name, "br-ex is dead: the uplink has its addresses until it is back");
        }
        Ok(())
    }

    /// Tells the switch: the bridge, the uplink in it, and the record.
    async fn tell(&self, userspace: bool, uplink: &Link, record: &Record) -> anyhow::Result<()> {
        let ids = record.write()?;
        let hwaddr = uplink.mac.map(|mac| mac.to_string());
        let plan = |state: &SwitchState| plan_uplink(state, userspace, &uplink.name, hwaddr.as_deref(), &ids);
        self.node.switch.change("give the uplink to br-ex", plan).await?;
        Ok(())
    }
}

impl Converge for Uplink {
    const NAME: &'static str = "uplink";
    type Inputs = Inputs;

    fn inputs(&self) -> Inputs {
        let (kernel, deletions) = (*self.kernel.borrow(), *self.deletions.borrow());
        self.node.switch.read(|state| Inputs {
            ready: self.is_ready(state),
            bridge: state.bridge(EXTERNAL_BRIDGE).map(|(_, bridge)| bridge.clone()),
            uplink: port_of_bridge(state),
            kernel,
            deletions,
        })
    }

    async fn changed(&mut self) {
        self.changes.next().await;
    }

    async fn apply(&mut self) -> anyhow::Result<()> {
        let netlink = self.node.netlink.clone();
        let found = bridge(&netlink).await?;
        match &found {
            Some((bridge, _)) if bridge.up && !bridge.carrier => return self.stand_in(found).await,
            Some(_) => {}
            None => self.stand_in(None).await?,
        }
        let (bridge, on_bridge) = found.unzip();
        if !self.node.switch.read(|state| self.is_ready(state)) {
            return Ok(());
        }
        let name = self.device().await?;
        // A device that is not there yet will be announced by netlink.
        let Some(uplink) = netlink.link(&name).await? else { return Ok(()) };
        let userspace = self.node.switch.read(|state| self.datapath.is_userspace(state));
        let on_uplink = netlink.belongings(uplink.index).await?;
        let on_bridge = on_bridge.unwrap_or_default();
        let ids = self
            .node
            .switch
            .read(|state| Some(state.bridge(EXTERNAL_BRIDGE)?.1.external_ids.clone()));
        let old = ids.as_ref().and_then(Record::read);
        let index = bridge.as_ref().map(|bridge| bridge.index);
        let belongings = wanted(old.as_ref(), &self.boot, index, &on_bridge, &on_uplink);
        let complete = on_uplink.is_empty() && belongings == on_bridge;
        let mut record = Record {
            uplink: name.clone(),
            belongings,
            boot: self.boot.clone(),
            complete_on: index.filter(|_| complete),
        };
        // Before anything moves: whoever continues after us has to know it all.
        self.tell(userspace, &uplink, &record).await?;
        // The switch has not made it yet, or not given it its address; netlink will tell.
        let Some(bridge) = bridge.filter(|bridge| bridge.mac == uplink.mac) else {
            return Ok(());
        };
        if !uplink.up || !bridge.up || bridge.mtu != uplink.mtu {
            bring_up(&netlink, &uplink, &bridge).await?;
        }
        if !complete {
            accept_router_advertisements(&name)?;
            for address in &record.belongings.addresses {
                if !holds(&on_bridge.addresses, address.net) {
                    netlink.hold(bridge.index, *address).await?;
                }
            }
        }
        if userspace {
            self.fence(&uplink).await?;
        }
        if complete {
            return Ok(());
        }
        carry(&netlink, Some(&(uplink.clone(), on_uplink)), &bridge, &record.belongings).await?;
        record.complete_on = Some(bridge.index);
        // As the kernel has it now, so that nothing is left to correct.
        record.belongings = netlink.belongings(bridge.index).await?;
        self.tell(userspace, &uplink, &record).await?;
        let addresses: Vec<String> = record.belongings.addresses.iter().map(|held| held.net.to_string()).collect();
        info!(
            uplink = name,
            addresses = addresses.join(","),
            routes = record.belongings.routes.len(),
            "addresses moved to br-ex"
        );
        Ok(())
    }
}

/// br-ex, and what it has. One that is going loses that before it is gone, which must not be taken for somebody's wish.
async fn bridge(netlink: &Netlink) -> anyhow::Result<Option<(Link, LinkConfig)>> {
    let Some(bridge) = netlink.link(EXTERNAL_BRIDGE).await? else {
        return Ok(None);
    };
    let belongings = netlink.belongings(bridge.index).await?;
    let now = netlink.link(EXTERNAL_BRIDGE).await?;
    let stays = now.is_some_and(|now| now.index == bridge.index && now.up == bridge.up);
    Ok(stays.then_some((bridge, belongings)))
}

async fn bring_up(netlink: &Netlink, uplink: &Link, bridge: &Link) -> anyhow::Result<()> {
    let up = LinkChange {
        up: true,
        ..LinkChange::default()
    };
    netlink.change(uplink.index, up).await?;
    let change = LinkChange {
        mtu: (bridge.mtu != uplink.mtu).then_some(uplink.mtu),
        ..up
    };
    netlink.change(bridge.index, change).await?;
    Ok(())
}

/// Takes addresses and routes off one link, if it is there, and leads the routes through the other, which has the addresses
/// already. Removing an address takes every route along that names it as source, on whichever link: routes come last.
async fn carry(netlink: &Netlink, from: Option<&(Link, LinkConfig)>, to: &Link, belongings: &LinkConfig) -> anyhow::Result<()> {
    if let Some((from, leaving)) = from {
        // Else the first address of a network would take along others that came after we looked.
        sysctl::set(&format!("ipv4/conf/{}/promote_secondaries", from.name), "1")?;
        for address in &leaving.addresses {
            netlink.delete_address(from.index, address.net).await?;
        }
    }
    let mut outcome = Ok(());
    let present = netlink.belongings(to.index).await?;
    for way in belongings.routes.iter().filter(|way| !present.routes.contains(way)) {
        // One that is refused does not keep the others out.
        if let Err(error) = netlink.lead(to.index, *way).await {
            outcome = Err(error);
        }
    }
    if let Some((from, _)) = from {
        for way in netlink.belongings(from.index).await?.routes {
            netlink.abandon(from.index, way).await?;
        }
    }
    Ok(outcome?)
}

/// What listened to routers on the uplink does so on br-ex now, also on a node that forwards.
fn accept_router_advertisements(uplink: &str) -> anyhow::Result<()> {
    let forwards = sysctl::read("ipv6/conf/all/forwarding")?.is_some_and(|value| value == "1");
    let accepts = match sysctl::read(&format!("ipv6/conf/{uplink}/accept_ra"))?.as_deref() {
        Some("2") => true,
        Some("1") => !forwards,
        _ => false,
    };
    sysctl::set(&format!("ipv6/conf/{EXTERNAL_BRIDGE}/accept_ra"), if accepts { "2" } else { "0" })?;
    Ok(())
}

/// The device in br-ex that is neither the bridge itself nor a patch.
pub fn port_of_bridge(state: &SwitchState) -> Option<String> {
    let (_, bridge) = state.bridge(EXTERNAL_BRIDGE)?;
    let mut devices = state
        .interfaces_of(bridge)
        .filter(|interface| interface.kind.is_empty())
        .map(|interface| interface.name.clone());
    devices.find(|name| name != EXTERNAL_BRIDGE)
}

/// The transaction that gives a device to br-ex and notes `ids` there; empty if it has it.
pub(crate) fn plan_uplink(
    state: &SwitchState,
    userspace: bool,
    device: &str,
    hwaddr: Option<&str>,
    ids: &std::collections::BTreeMap<&'static str, String>,
) -> Transaction {
    let mut transaction = Transaction::new();
    let root = plan::root(state, &mut transaction);
    let terms = plan::BridgeTerms {
        name: EXTERNAL_BRIDGE,
        userspace,
        secure: false,
        hwaddr,
    };
    let bridge = plan::bridge(state, root, &terms, &mut transaction);
    let existing = state.bridge(EXTERNAL_BRIDGE).map(|(_, bridge)| bridge);
    if !existing.is_some_and(|bridge| state.interfaces_of(bridge).any(|interface| interface.name == device)) {
        let (port, interface) = (Uuid::new_v4(), Uuid::new_v4());
        let named = || ("name".to_owned(), Datum::string(device));
        transaction.push(Operation::insert("Interface", interface, Row::from([named()])));
        let row = Row::from([named(), ("interfaces".to_owned(), Datum::uuid(interface))]);
        transaction.push(Operation::insert("Port", port, row));
        let ports = vec![Mutation::insert("ports", Datum::uuid(port))];
        transaction.push(Operation::mutate("Bridge", bridge, ports));
    }
    let present = existing.map(|bridge| bridge.external_ids.clone()).unwrap_or_default();
    let mutations = plan::set("external_ids", &present, ids);
    if !mutations.is_empty() {
        transaction.push(Operation::mutate("Bridge", bridge, mutations));
    }
    transaction
}
