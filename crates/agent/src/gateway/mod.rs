//! The node's gateway: the flows of br-ex that let the node and OVN's gateway router share one address, and the facts
//! about that address which the controller needs. Flows are replaced as a whole, atomically, when the bridge's ports
//! change and when vswitchd was restarted; until the first time, br-ex switches normally and the host is reachable.

pub mod annotation;
pub mod facts;
pub mod flows;
mod restart;

use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;

use anyhow::{Context, bail};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::sync::watch;
use tracing::info;

use crate::converge::Converge;
use crate::node::{INTEGRATION_BRIDGE, Node};
use crate::switch::SwitchState;
use flows::{Ports, flows};
use restart::SocketWatch;

/// The bridge with the node's uplink.
pub const EXTERNAL_BRIDGE: &str = "br-ex";

/// Keeps the flows of br-ex as they should be.
pub struct Gateway {
    node: Arc<Node>,
    run_directory: PathBuf,
    switch: watch::Receiver<SwitchState>,
    restarts: Option<SocketWatch>,
    seen: Option<Inputs>,
    programmed: Option<Inputs>,
}

/// What the flows depend on: the ports, and what makes the switch forget flows.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Inputs {
    ports: Option<Ports>,
    flow_policy: String,
}

impl Gateway {
    /// `run_directory` is where vswitchd has its management sockets.
    pub fn new(node: Arc<Node>, run_directory: PathBuf) -> Self {
        let switch = node.switch.changes();
        Self {
            node,
            run_directory,
            switch,
            restarts: None,
            seen: None,
            programmed: None,
        }
    }

    fn inputs(&self) -> Inputs {
        self.node.switch.read(|state| Inputs {
            ports: find_ports(state),
            flow_policy: state
                .bridge(EXTERNAL_BRIDGE)
                .map(|(_, bridge)| bridge.flow_policy.clone())
                .unwrap_or_default(),
        })
    }
}

impl Converge for Gateway {
    const NAME: &'static str = "gateway flows";

    async fn woken(&mut self) {
        loop {
            let inputs = self.inputs();
            if self.seen.as_ref() != Some(&inputs) {
                self.seen = Some(inputs);
                return;
            }
            let restarted = async {
                match &mut self.restarts {
                    Some(watch) => watch.created().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                changed = self.switch.changed() => {
                    if changed.is_err() {
                        std::future::pending::<()>().await;
                    }
                }
                () = restarted => {
                    // A new vswitchd starts with an empty table, whatever we remember.
                    self.programmed = None;
                    return;
                }
            }
        }
    }

    async fn apply(&mut self) -> anyhow::Result<()> {
        let socket = format!("{EXTERNAL_BRIDGE}.mgmt");
        if self.restarts.is_none() {
            self.restarts = Some(SocketWatch::new(&self.run_directory, &socket)?);
        }
        let inputs = self.inputs();
        let Some(ports) = inputs.ports.filter(|_| self.programmed.as_ref() != Some(&inputs)) else {
            return Ok(());
        };
        replace_flows(&format!("unix:{}", self.run_directory.join(socket).display()), &flows(ports)).await?;
        info!(
            bridge = EXTERNAL_BRIDGE,
            uplink = ports.uplink,
            patch = ports.patch,
            "gateway flows replaced"
        );
        self.programmed = Some(inputs);
        Ok(())
    }
}

/// The uplink is the port of br-ex that is neither the bridge itself nor a patch; the patch is the one whose peer is
/// on br-int, whatever ovn-controller chose to call it.
fn find_ports(state: &SwitchState) -> Option<Ports> {
    let (_, external) = state.bridge(EXTERNAL_BRIDGE)?;
    let number = |ofport: Option<i64>| ofport.and_then(|ofport| u32::try_from(ofport).ok()).filter(|ofport| *ofport > 0);
    let integration: Vec<&str> = state
        .bridge(INTEGRATION_BRIDGE)
        .map(|(_, bridge)| state.interfaces_of(bridge).map(|interface| interface.name.as_str()).collect())
        .unwrap_or_default();
    let (mut uplink, mut patch) = (None, None);
    for interface in state.interfaces_of(external) {
        let ofport = number(interface.ofport);
        match interface.kind.as_str() {
            "internal" => {}
            "patch" if interface.peer.as_deref().is_some_and(|peer| integration.contains(&peer)) => {
                patch = patch.min(ofport).or(ofport);
            }
            "patch" => {}
            _ => uplink = uplink.min(ofport).or(ofport),
        }
    }
    Some(Ports { uplink: uplink?, patch })
}

async fn replace_flows(target: &str, flows: &str) -> anyhow::Result<()> {
    let run = async {
        let mut child = Command::new("ovs-ofctl")
            .args(["--bundle", "replace-flows", target, "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(flows.as_bytes()).await?;
        }
        child.wait_with_output().await
    };
    let output = run.await.context("run ovs-ofctl")?;
    if !output.status.success() {
        bail!("replace the flows of {target}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
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
                row.insert("options".to_owned(), Datum::map([("peer", *peer)]));
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
            ],
        );
        assert_eq!(find_ports(&state), Some(Ports { uplink: 3, patch: None }));
        bridge(&mut state, "br-int", &[("p2", "patch", 1, "p1")]);
        assert_eq!(find_ports(&state), Some(Ports { uplink: 3, patch: Some(5) }));
    }

    #[test]
    fn a_bridge_without_a_working_uplink_is_left_alone() {
        let mut state = SwitchState::default();
        bridge(&mut state, "br-ex", &[("br-ex", "internal", 65534, ""), ("eth0", "", -1, "")]);
        assert_eq!(find_ports(&state), None);
    }
}
