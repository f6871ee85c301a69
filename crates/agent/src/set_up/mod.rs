//! Sets this node's switch and kernel up for OVN, and keeps them so (`--set-up-switch`): who the node is, where its
//! tunnels end and its databases are, br-int, and the kernel's settings for a node that forwards. What others changed is
//! put back; what is not ours is never written. [`plan`] decides, this follows the databases and the kernel.

pub mod kernel;
pub mod once;
pub mod plan;

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use netloom_retry::{Changes, Converge, Every};
use tokio::sync::watch;
use tracing::info;

use crate::cni::status::status;
use crate::databases::Southbound;
use crate::node::Node;
use crate::switch::SwitchState;
use plan::Terms;

/// Where packets are switched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Datapath {
    /// In the kernel if it can, and as long as nothing else was chosen before.
    #[default]
    Auto,
    /// In the kernel.
    Kernel,
    /// In vswitchd.
    Userspace,
}

impl Datapath {
    /// Whether packets are switched in vswitchd.
    pub fn is_userspace(self, state: &SwitchState) -> bool {
        match (self, state.external_ids.get(plan::DATAPATH_KEY).map(String::as_str)) {
            (Self::Kernel, _) | (Self::Auto, Some("system")) => false,
            (Self::Userspace, _) | (Self::Auto, Some("netdev")) => true,
            (Self::Auto, _) => !Path::new("/sys/module/openvswitch").exists(),
        }
    }
}

/// Keeps the switch set up.
pub struct SetUp {
    node: Arc<Node>,
    encap: Option<IpAddr>,
    datapath: Datapath,
    external_bridge: bool,
    southbound: Southbound,
    changes: Changes,
    kernel: watch::Receiver<u64>,
    settings: kernel::Settings,
    /// The state of the kernel for which its settings were looked at.
    looked_at: Option<u64>,
}

impl SetUp {
    /// With `external_bridge` br-ex is made too, without an uplink.
    pub fn new(
        node: Arc<Node>,
        encap: Option<IpAddr>,
        datapath: Datapath,
        external_bridge: bool,
        southbound: Southbound,
        kernel: watch::Receiver<u64>,
    ) -> Self {
        let changes = Changes::default().of(node.switch.changes()).of(kernel.clone());
        Self {
            node,
            encap,
            datapath,
            external_bridge,
            southbound,
            changes,
            kernel,
            settings: kernel::Settings::default(),
            looked_at: None,
        }
    }
}

impl Converge for SetUp {
    const NAME: &'static str = "set-up of the switch";
    type Inputs = Every;

    fn inputs(&self) -> Every {
        Every
    }

    async fn changed(&mut self) {
        tokio::select! {
            () = self.changes.next() => {}
            () = self.southbound.changed() => {}
        }
    }

    async fn apply(&mut self) -> anyhow::Result<()> {
        let encap = self
            .encap
            .context("the node's address is not known: give --node-ip (or HOST_IP), the address where tunnels end")?;
        let tick = *self.kernel.borrow();
        if self.looked_at != Some(tick) {
            self.settings.apply().await?;
            self.looked_at = Some(tick);
        }
        if !self.node.switch.read(|state| state.connected) {
            return Ok(());
        }
        let terms = Terms {
            node: self.node.name.clone(),
            encap,
            southbound: self.southbound.current().map(|remotes| remotes.to_string()),
            settled: status(&self.node).is_ok(),
            userspace: self.node.switch.read(|state| self.datapath.is_userspace(state)),
            external_bridge: self.external_bridge,
        };
        if self
            .node
            .switch
            .change("set up the node", |state| plan::set_up(state, &terms))
            .await?
        {
            info!(encap = %terms.encap, southbound = terms.southbound, userspace = terms.userspace, "switch set up");
        }
        Ok(())
    }
}
