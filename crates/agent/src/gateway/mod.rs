//! The node's gateway: the flows of br-ex that let the node, OVN's gateway router and services share one wire, and the
//! facts about the node's address which the controller needs. Flows are replaced as a whole, atomically, when the
//! bridge's ports or the node's addresses change and when vswitchd was restarted; a service or an announced MAC that
//! comes or goes changes only its own flows. Until the first time, br-ex switches normally and the host is reachable.

pub mod annotation;
pub mod facts;
pub mod flows;
mod openflow;
mod restart;

use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use netloom_retry::{Changes, Converge};
use tokio::sync::watch;
use tracing::info;

use crate::host_port::Role;
use crate::net::announcement::{self, Owner, announce};
use crate::node::{INTEGRATION_BRIDGE, Node};
use crate::services::offer::{Terms, Vips};
use crate::southbound::Binding;
use crate::southbound::claim::Claim;
use crate::switch::SwitchState;
use flows::{Base, Entries, Ports};
use netloom_contract::name::ANNOUNCE_PATCH;
use restart::SocketWatch;

/// The bridge with the node's uplink.
pub const EXTERNAL_BRIDGE: &str = "br-ex";

/// Keeps the flows of br-ex as they should be, and announces what has come here.
pub struct Gateway {
    node: Arc<Node>,
    run_directory: PathBuf,
    changes: Changes,
    kernel: watch::Receiver<u64>,
    restarts: Option<SocketWatch>,
    restarted: u64,
    programmed: Option<Programmed>,
    announced: Vec<Claim>,
}

/// What wakes the gateway: everything its flows depend on, and what makes the switch forget flows.
#[derive(Clone, Debug, PartialEq)]
pub struct Inputs {
    known: bool,
    ports: Option<Ports>,
    flow_policy: String,
    service_port: Option<Arc<Binding>>,
    balancers: u64,
    claims: Vec<Claim>,
    kernel: u64,
    /// How often vswitchd was restarted.
    restarted: u64,
}

/// What the switch was told.
struct Programmed {
    base: Base,
    entries: Entries,
    flow_policy: String,
}

impl Gateway {
    /// `run_directory` is where vswitchd has its management sockets; `kernel` tells of changed addresses.
    pub fn new(node: Arc<Node>, run_directory: PathBuf, kernel: watch::Receiver<u64>) -> Self {
        let changes = Changes::default()
            .of(node.switch.changes())
            .of(node.southbound.changes())
            .of(kernel.clone());
        Self {
            node,
            run_directory,
            changes,
            kernel,
            restarts: None,
            restarted: 0,
            programmed: None,
            announced: Vec::new(),
        }
    }

    /// Tells the switch the difference to what it was told last; everything if the base of all flows is another.
    async fn program(&mut self, target: &str, base: Base, entries: Entries, flow_policy: String) -> anyhow::Result<()> {
        // Taken, so that after a failure everything is told: nobody knows what is there then.
        match self.programmed.take() {
            Some(old) if old.base == base && old.flow_policy == flow_policy => {
                let (removed, added) = (old.entries.without(&entries), entries.without(&old.entries));
                if !removed.is_empty() || !added.is_empty() {
                    openflow::change(target, &flows::change(&base, &removed, &added)).await?;
                    info!(
                        bridge = EXTERNAL_BRIDGE,
                        removed = removed.vips.len(),
                        added = added.vips.len(),
                        claimed = added.claimed.len(),
                        "gateway flows changed"
                    );
                }
            }
            _ => {
                openflow::replace(target, &flows::all(&base, &entries)).await?;
                info!(
                    bridge = EXTERNAL_BRIDGE,
                    uplink = base.ports.uplink,
                    patch = base.ports.patch,
                    announce = base.ports.announce,
                    services = entries.vips.len(),
                    "gateway flows replaced"
                );
            }
        }
        self.programmed = Some(Programmed {
            base,
            entries,
            flow_policy,
        });
        Ok(())
    }

    /// Announces what was claimed since the last time, now that frames for it are let in.
    async fn announce(&mut self, claims: Vec<Claim>) -> anyhow::Result<()> {
        if claims.iter().any(|claim| !self.announced.contains(claim)) {
            let Some(link) = self.node.netlink.link(EXTERNAL_BRIDGE).await? else {
                return Ok(());
            };
            let socket = announcement::socket().context("open a socket for announcements")?;
            for claim in claims.iter().filter(|claim| !self.announced.contains(claim)) {
                announce(socket.as_fd(), link.index, Owner::Router, claim.mac, &claim.addresses)?;
                info!(mac = %claim.mac, addresses = ?claim.addresses, "announced");
            }
        }
        self.announced = claims;
        Ok(())
    }
}

impl Converge for Gateway {
    const NAME: &'static str = "gateway flows";
    type Inputs = Inputs;

    fn inputs(&self) -> Inputs {
        let port = Role::Service.port_of(&self.node.name);
        let (ports, flow_policy) = self.node.switch.read(|state| {
            let policy = state.bridge(EXTERNAL_BRIDGE).map(|(_, bridge)| bridge.flow_policy.clone());
            (find_ports(state), policy.unwrap_or_default())
        });
        let kernel = *self.kernel.borrow();
        self.node.southbound.read(|state| Inputs {
            known: state.ports_shown,
            ports,
            flow_policy,
            service_port: state.binding(&port).cloned(),
            balancers: state.balancers_revision,
            claims: state.claims(),
            kernel,
            restarted: self.restarted,
        })
    }

    async fn changed(&mut self) {
        let restarted = async {
            match &mut self.restarts {
                Some(watch) => watch.created().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.changes.next() => {}
            () = restarted => {
                // A new vswitchd starts with an empty table, whatever we remember.
                self.programmed = None;
                self.restarted += 1;
            }
        }
    }

    async fn apply(&mut self) -> anyhow::Result<()> {
        let socket = format!("{EXTERNAL_BRIDGE}.mgmt");
        if self.restarts.is_none() {
            self.restarts = Some(SocketWatch::new(&self.run_directory, &socket)?);
        }
        let inputs = self.inputs();
        // An agent that has just started would take away what services need until it knows of them.
        let Some(ports) = inputs.ports.filter(|_| inputs.known) else {
            return Ok(());
        };
        let facts = facts::read(&self.node.netlink, EXTERNAL_BRIDGE).await?;
        let mac = facts.as_ref().map(|facts| facts.mac);
        let addresses = facts.iter().flat_map(|facts| &facts.addresses);
        let terms = inputs.service_port.as_deref().and_then(Terms::parse);
        let base = Base {
            ports,
            mac,
            addresses: addresses.map(|net| net.addr()).collect(),
            // A binding that is gone for a moment (the chassis registers anew) takes nothing away.
            terms: terms.or_else(|| self.programmed.as_ref()?.base.terms.clone()),
        };
        let vips = |terms| self.node.southbound.read(|state| Vips::read(state, terms, &self.node.name));
        let entries = Entries {
            vips: base.terms.as_ref().map(vips).unwrap_or_default(),
            claimed: inputs.claims.iter().map(|claim| claim.mac).collect(),
        };
        let target = format!("unix:{}", self.run_directory.join(socket).display());
        self.program(&target, base, entries, inputs.flow_policy).await?;
        self.announce(inputs.claims).await
    }
}

/// The uplink is the port of br-ex that is neither the bridge itself nor a patch; the patch is the one whose peer is
/// on br-int, whatever ovn-controller chose to call it, unless it is the announcers'.
fn find_ports(state: &SwitchState) -> Option<Ports> {
    let (_, external) = state.bridge(EXTERNAL_BRIDGE)?;
    let number = |ofport: Option<i64>| ofport.and_then(|ofport| u32::try_from(ofport).ok()).filter(|ofport| *ofport > 0);
    let integration: Vec<&str> = state
        .bridge(INTEGRATION_BRIDGE)
        .map(|(_, bridge)| state.interfaces_of(bridge).map(|interface| interface.name.as_str()).collect())
        .unwrap_or_default();
    let (mut uplink, mut patch, mut announce) = (None, None, None);
    for interface in state.interfaces_of(external) {
        let ofport = number(interface.ofport);
        match interface.kind.as_str() {
            "internal" => {}
            "patch" if !interface.peer.as_deref().is_some_and(|peer| integration.contains(&peer)) => {}
            "patch" if interface.name == ANNOUNCE_PATCH => announce = ofport,
            "patch" => patch = patch.min(ofport).or(ofport),
            _ => uplink = uplink.min(ofport).or(ofport),
        }
    }
    Some(Ports {
        uplink: uplink?,
        patch,
        announce,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mirror::Reflect as _;
    use netloom_ovsdb::{Datum, Row};
    use uuid::Uuid;

    fn bridge(state: &mut SwitchState, name: &str, interfaces: &[(&str, &str, i64, &str)]) {
        let mut ports = Vec::new();
        for (name, kind, ofport, peer) in interfaces {
            let (interface, port) = (Uuid::new_v4(), Uuid::new_v4());
            let mut row = Row::from([
                ("name".to_owned(), Datum::string(name)),
                ("type".to_owned(), Datum::string(kind)),
                ("ofport".to_owned(), Datum::integer(*ofport)),
            ]);
            if !peer.is_empty() {
                row.insert("options", Datum::map([("peer", *peer)]));
            }
            state.put("Interface", interface, Some(&row));
            state.put("Port", port, Some(&Row::from([("interfaces".to_owned(), Datum::uuid(interface))])));
            ports.push(port);
        }
        let row = Row::from([("name".to_owned(), Datum::string(name)), ("ports".to_owned(), Datum::set(ports))]);
        state.put("Bridge", Uuid::new_v4(), Some(&row));
    }

    #[test]
    fn ports_are_found_by_what_they_are() {
        let mut state = SwitchState::default();
        assert_eq!(find_ports(&state), None);
        bridge(
            &mut state,
            "br-ex",
            &[
                ("br-ex", "internal", 65534, ""),
                ("eth0", "", 3, ""),
                ("p1", "patch", 5, "p2"),
                ("q1", "patch", 4, "q2"),
                (ANNOUNCE_PATCH, "patch", 2, "a2"),
            ],
        );
        let ports = |patch, announce| {
            Some(Ports {
                uplink: 3,
                patch,
                announce,
            })
        };
        assert_eq!(find_ports(&state), ports(None, None));
        bridge(&mut state, "br-int", &[("p2", "patch", 1, "p1"), ("a2", "patch", 2, "a1")]);
        assert_eq!(find_ports(&state), ports(Some(5), Some(2)));
    }

    #[test]
    fn a_bridge_without_a_working_uplink_is_left_alone() {
        let mut state = SwitchState::default();
        bridge(&mut state, "br-ex", &[("br-ex", "internal", 65534, ""), ("eth0", "", -1, "")]);
        assert_eq!(find_ports(&state), None);
    }
}
