//! STATUS, and readiness: can a pod be attached right now? Answers from the replicas alone, so it costs nothing and
//! never blocks; every "no" says what is missing.

use std::sync::atomic::Ordering;

use super::error::CniError;
use crate::host_port::Role;
use crate::node::{INTEGRATION_BRIDGE, Node};
use netloom_contract::cni::Code;

/// Whether pods can be attached; the error says why not.
pub fn status(node: &Node) -> Result<(), CniError> {
    let unavailable = |message: String| Err(CniError::new(Code::NotAvailable, message));
    if node.removing.load(Ordering::Relaxed) {
        return unavailable("netloom is being removed from this node".to_owned());
    }
    let port = Role::Management.port_of(&node.name);
    let missing = node.switch.read(|state| {
        if !state.connected {
            return Some(format!(
                "not connected to the local Open vSwitch database ({})",
                state.disconnected_because
            ));
        }
        if state.bridge(INTEGRATION_BRIDGE).is_none() {
            return Some(format!("bridge {INTEGRATION_BRIDGE} does not exist: is ovn-controller running?"));
        }
        let installed = state
            .interfaces()
            .any(|(_, interface)| interface.carries(&port) && interface.installed());
        (!installed).then(|| format!("the management port {port} is not installed yet"))
    });
    // The Southbound is looked at first: without it the management port cannot be there either.
    let missing = node
        .southbound
        .read(|state| {
            if !state.connected {
                return Some(format!(
                    "not connected to the OVN Southbound database ({})",
                    state.disconnected_because
                ));
            }
            let name = &node.name;
            state
                .chassis
                .is_none()
                .then(|| format!("the Southbound database has no chassis {name}: is ovn-controller running?"))
        })
        .or(missing);
    missing.map_or(Ok(()), unavailable)
}
