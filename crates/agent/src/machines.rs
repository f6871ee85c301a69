//! Machines that are no pods. Whoever runs one plugs its interface into the switch with the `iface-id` of its port, and OVN does the rest; the
//! userspace datapath alone needs the agent, to keep the kernel's stack off the interface ([`fence`]).

use std::collections::BTreeMap;
use std::sync::Arc;

use netloom_retry::{Changes, Converge};

use crate::net::fence;
use crate::node::{INTEGRATION_BRIDGE, Node};
use crate::switch::Interface;
use netloom_contract::external_id;
use netloom_contract::name::PodPort;

/// Keeps the interfaces of machines fenced.
pub struct Machines {
    node: Arc<Node>,
    changes: Changes,
    /// Device and OpenFlow port: a device that was made anew has another.
    fenced: BTreeMap<String, i64>,
}

impl Machines {
    /// Watches the switch.
    pub fn new(node: Arc<Node>) -> Self {
        let changes = Changes::default().of(node.switch.changes());
        Self {
            node,
            changes,
            fenced: BTreeMap::new(),
        }
    }

    /// What is to be fenced; none while that is not known.
    fn wanted(&self) -> Option<BTreeMap<String, i64>> {
        self.node.switch.read(|state| {
            if !state.is_userspace(INTEGRATION_BRIDGE) {
                return state.connected.then(BTreeMap::new);
            }
            let devices = state.interfaces().filter(|(_, row)| is_machine(row));
            let open = devices.filter_map(|(_, row)| Some((row.name.clone(), row.ofport.filter(|port| *port > 0)?)));
            state.connected.then(|| open.collect())
        })
    }
}

/// Whether an interface is that of a machine.
pub fn is_machine(row: &Interface) -> bool {
    let of_machine = |id: &String| PodPort::parse(id).is_some_and(|port| port.is_machine());
    row.sandbox().is_none() && row.external_ids.get(external_id::IFACE_ID).is_some_and(of_machine)
}

impl Converge for Machines {
    const NAME: &'static str = "machines";
    type Inputs = Option<BTreeMap<String, i64>>;

    fn inputs(&self) -> Self::Inputs {
        self.wanted()
    }

    async fn changed(&mut self) {
        self.changes.next().await;
    }

    async fn apply(&mut self) -> anyhow::Result<()> {
        let Some(wanted) = self.wanted() else { return Ok(()) };
        // A device that was unplugged is the host's again.
        let unplugged = self.fenced.keys().filter(|device| !wanted.contains_key(*device));
        fence::lower(&unplugged.cloned().collect::<Vec<_>>()).await?;
        self.fenced.retain(|device, port| wanted.get(device) == Some(port));
        let unfenced = wanted.into_iter().filter(|(device, _)| !self.fenced.contains_key(device));
        for (device, port) in unfenced.collect::<Vec<_>>() {
            // The fence of a device that is gone stays without it, and would stand in the way of another.
            fence::lower(std::slice::from_ref(&device)).await?;
            fence::raise(&device).await?;
            self.fenced.insert(device, port);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface(pairs: &[(&str, &str)]) -> Interface {
        Interface {
            external_ids: pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
            ..Interface::default()
        }
    }

    #[test]
    fn a_machine_is_told_from_pods_and_from_the_nodes_own_ports() {
        assert!(is_machine(&interface(&[("iface-id", "shop/port_db")])));
        assert!(!is_machine(&interface(&[("iface-id", "shop/db")])));
        assert!(!is_machine(&interface(&[("iface-id", "management_node1")])));
        assert!(!is_machine(&interface(&[(external_id::SANDBOX, "s")])));
    }
}
