//! Keeps a [`guard`] in front of every pod and machine on this node. A pod gets its own when it is attached, before it is plugged in; this adds
//! those of machines, which others plug in, and whatever is missing: after an upgrade, or when a firewall that is set up anew has flushed all tables.

use std::collections::BTreeMap;
use std::sync::Arc;

use netloom_retry::{Changes, Converge};
use tokio::sync::watch;

use crate::machines::is_machine;
use crate::net::guard;
use crate::node::Node;

/// Devices that are plugged in, with their OpenFlow port: a machine's device that was made anew has another.
type Devices = BTreeMap<String, Device>;

/// A device of a pod or machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Device {
    port: i64,
    machine: bool,
}

/// Keeps pods and machines guarded.
pub struct Guards {
    node: Arc<Node>,
    changes: Changes,
    deletions: watch::Receiver<u64>,
    guarded: Devices,
}

impl Guards {
    /// Watches the switch and, through `deletions`, the tables of nftables.
    pub fn new(node: Arc<Node>, deletions: watch::Receiver<u64>) -> Self {
        let changes = Changes::default().of(node.switch.changes()).of(deletions.clone());
        Self {
            node,
            changes,
            deletions,
            guarded: Devices::new(),
        }
    }

    /// What is to be guarded; none while that is not known.
    fn wanted(&self) -> Option<Devices> {
        self.node.switch.read(|state| {
            let devices = state.interfaces().filter_map(|(_, row)| {
                let machine = is_machine(row);
                let port = row.ofport.filter(|port| *port > 0)?;
                (machine || row.sandbox().is_some()).then(|| (row.name.clone(), Device { port, machine }))
            });
            state.connected.then(|| devices.collect())
        })
    }
}

impl Converge for Guards {
    const NAME: &'static str = "guards";
    type Inputs = (Option<Devices>, u64);

    fn inputs(&self) -> Self::Inputs {
        (self.wanted(), *self.deletions.borrow())
    }

    async fn changed(&mut self) {
        self.changes.next().await;
    }

    async fn apply(&mut self) -> anyhow::Result<()> {
        let Some(wanted) = self.wanted() else { return Ok(()) };
        let raised = guard::raised().await?;
        let missing = missing(&wanted, &self.guarded, |device| raised.contains(device));
        guard::raise(&missing).await?;
        // A machine's device that was unplugged is the host's again; that of a pod is removed with its guard when the pod is detached.
        let unplugged = self
            .guarded
            .iter()
            .filter(|(name, device)| device.machine && !wanted.contains_key(*name));
        guard::lower(&unplugged.map(|(name, _)| name.clone()).collect::<Vec<_>>()).await?;
        self.guarded = wanted;
        Ok(())
    }
}

/// The devices that need a guard: those without one, and machines' that were made anew, whose guard stayed with the old device.
fn missing(wanted: &Devices, guarded: &Devices, raised: impl Fn(&str) -> bool) -> Vec<String> {
    let anew = |name: &str, device: &Device| device.machine && guarded.get(name) != Some(device);
    let lacks = |(name, device): &(&String, &Device)| !raised(name) || anew(name, device);
    wanted.iter().filter(lacks).map(|(name, _)| name.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_guard_gets_one_and_so_does_a_device_that_was_made_anew() {
        let device = |port, machine| Device { port, machine };
        let wanted = Devices::from([
            ("nl0a".to_owned(), device(1, false)),
            ("nl0b".to_owned(), device(2, false)),
            ("tap1".to_owned(), device(3, true)),
            ("tap2".to_owned(), device(5, true)),
        ]);
        let guarded = Devices::from([("tap1".to_owned(), device(3, true)), ("tap2".to_owned(), device(4, true))]);
        assert_eq!(missing(&wanted, &guarded, |name| name != "nl0b"), ["nl0b", "tap2"]);
        assert_eq!(missing(&wanted, &wanted, |_| false).len(), 4, "another program flushed all tables");
    }
}
