//! Everything about this node that the verbs of CNI share: the two databases, the kernel, the underlay, and which
//! sandboxes are being worked on. Built once by [`run`](crate::run). Work on one sandbox is serialised here; a DEL
//! cancels an ADD of the same sandbox that is still waiting, because the runtime has given up on it.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedMutexGuard, watch};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::cni::error::CniError;
use crate::cni::request::Sandbox;
use crate::metrics::Metrics;
use crate::net::netlink::Netlink;
use crate::net::watch::VETH_PREFIX;
use crate::published::Progress;
use crate::southbound::Southbound;
use crate::switch::{Switch, SwitchError};
use netloom_contract::cni::Code;

/// The bridge OVN runs on.
pub const INTEGRATION_BRIDGE: &str = "br-int";
/// What Geneve adds to a packet on IPv4, Ethernet header of the inner frame included.
const OVERHEAD_IPV4: u32 = 58;
/// The same on IPv6.
const OVERHEAD_IPV6: u32 = 78;
/// Name space of the hash behind device names.
const DEVICE_NAMES: Uuid = Uuid::from_u128(0x6f1d_3c55_8a0e_4b6c_9d0e_5b8f_7a5e_2c11);

/// This node.
#[derive(Debug)]
pub struct Node {
    /// Its Kubernetes and OVN name.
    pub name: String,
    /// The local switch.
    pub switch: Arc<Switch>,
    /// The Southbound database, as far as it concerns this node.
    pub southbound: Arc<Southbound>,
    /// The host's links, addresses and routes.
    pub netlink: Netlink,
    /// Counters.
    pub metrics: Metrics,
    /// How long an ADD waits for its logical port, and again for OVN to install it.
    pub deadline: Duration,
    /// MTU of pods, where it is not derived from the underlay.
    pub mtu: Option<u32>,
    /// The MTU of the device with the encapsulation address, until something changes.
    pub underlay: Underlay,
    /// Sandboxes that are being worked on.
    pub busy: Busy,
    /// Whether Netloom is being, or was, removed from this node: nothing is attached any more.
    pub removing: AtomicBool,
    /// Pods whose ports are open on the node.
    pub published: Progress,
}

impl Node {
    /// The MTU for interfaces on the overlay: the underlay's, less what encapsulation adds.
    pub async fn overlay_mtu(&self) -> Result<u32, CniError> {
        if let Some(mtu) = self.mtu {
            return Ok(mtu);
        }
        let encap = self.switch.read(|state| {
            state.check_connected()?;
            Ok::<_, SwitchError>(state.external_ids.get("ovn-encap-ip").cloned())
        })?;
        let encap: IpAddr = encap
            .as_deref()
            .and_then(|text| text.split(',').next()?.parse().ok())
            .ok_or_else(|| {
                CniError::new(
                    Code::TryAgain,
                    "cannot tell the MTU: Open_vSwitch external_ids:ovn-encap-ip is not set",
                )
                .details("set it (ovs-vsctl set open_vswitch . external_ids:ovn-encap-ip=ADDRESS) or give an `mtu`")
            })?;
        let underlay = self.underlay.mtu(&self.netlink, encap).await?;
        Ok(underlay.saturating_sub(if encap.is_ipv4() { OVERHEAD_IPV4 } else { OVERHEAD_IPV6 }))
    }
}

/// The name of the host's end of a sandbox's veth: short enough for the kernel, the same after every restart.
pub fn veth_name(sandbox: &Sandbox) -> String {
    let hash = Uuid::new_v5(&DEVICE_NAMES, format!("{}/{}", sandbox.container, sandbox.ifname).as_bytes());
    let hex = hash.simple().to_string();
    format!("{VETH_PREFIX}{}", &hex[..12])
}

/// The MTU of the underlay device, remembered until a netlink notification says something changed.
#[derive(Debug)]
pub struct Underlay {
    changes: watch::Receiver<u64>,
    known: Mutex<Option<(u64, IpAddr, u32)>>,
}

impl Underlay {
    /// Remembers until `changes` ticks.
    pub fn new(changes: watch::Receiver<u64>) -> Self {
        Self {
            changes,
            known: Mutex::new(None),
        }
    }

    async fn mtu(&self, netlink: &Netlink, encap: IpAddr) -> Result<u32, CniError> {
        let tick = *self.changes.borrow();
        let known = *self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, _, mtu)) = known.filter(|(at, address, _)| *at == tick && *address == encap) {
            return Ok(mtu);
        }
        let missing = || {
            CniError::new(
                Code::TryAgain,
                format!("no device of this node has the encapsulation address {encap}"),
            )
            .details("compare `ip address` with external_ids:ovn-encap-ip of `ovs-vsctl list open_vswitch`")
        };
        let addresses = netlink.addresses().await?;
        let address = addresses.iter().find(|address| address.net.addr() == encap).ok_or_else(missing)?;
        let link = netlink.link_at(address.index).await?.ok_or_else(missing)?;
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = Some((tick, encap, link.mtu));
        Ok(link.mtu)
    }
}

/// The sandboxes that are being worked on.
#[derive(Debug, Default)]
pub struct Busy(Mutex<HashMap<Sandbox, Slot>>);

#[derive(Debug, Default)]
struct Slot {
    lock: Arc<tokio::sync::Mutex<()>>,
    cancel: CancellationToken,
    users: usize,
}

/// The right to work on one sandbox, until dropped.
#[derive(Debug)]
pub struct Claim<'a> {
    busy: &'a Busy,
    sandbox: Sandbox,
    /// Fires when a later request makes this one pointless.
    pub cancelled: CancellationToken,
    _guard: Option<OwnedMutexGuard<()>>,
}

impl Busy {
    /// Waits for the turn of this request; with `cancel_others`, earlier requests for the sandbox are told to give up.
    pub async fn claim(&self, sandbox: &Sandbox, cancel_others: bool) -> Claim<'_> {
        let (lock, cancelled) = {
            let mut slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let slot = slots.entry(sandbox.clone()).or_default();
            slot.users += 1;
            if cancel_others {
                std::mem::take(&mut slot.cancel).cancel();
            }
            (slot.lock.clone(), slot.cancel.clone())
        };
        // Made before waiting, so that giving up while waiting also leaves the table clean.
        let mut claim = Claim {
            busy: self,
            sandbox: sandbox.clone(),
            cancelled,
            _guard: None,
        };
        claim._guard = Some(lock.lock_owned().await);
        claim
    }

    /// The devices of all sandboxes that are being worked on.
    pub fn devices(&self) -> Vec<String> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .keys()
            .map(veth_name)
            .collect()
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let mut slots = self.busy.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = slots.get_mut(&self.sandbox) {
            slot.users -= 1;
            if slot.users == 0 {
                slots.remove(&self.sandbox);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::watch::is_pod_veth;

    fn sandbox(container: &str) -> Sandbox {
        Sandbox {
            container: container.to_owned(),
            ifname: "eth0".to_owned(),
        }
    }

    #[test]
    fn device_names_are_stable_short_and_distinct() {
        let name = veth_name(&sandbox("abc"));
        assert!(is_pod_veth(&name), "{name}");
        assert_eq!(name, veth_name(&sandbox("abc")));
        assert_ne!(name, veth_name(&sandbox("abd")));
        assert_ne!(
            name,
            veth_name(&Sandbox {
                ifname: "eth1".to_owned(),
                ..sandbox("abc")
            })
        );
    }

    #[tokio::test]
    async fn one_at_a_time_per_sandbox_and_del_cancels_add() {
        let busy = Busy::default();
        let add = busy.claim(&sandbox("a"), false).await;
        let other = busy.claim(&sandbox("b"), false).await;
        assert_eq!(busy.devices().len(), 2);
        let same = sandbox("a");
        let del = busy.claim(&same, true);
        let give_up = async {
            add.cancelled.cancelled().await;
            drop(add);
        };
        let (del, ()) = tokio::join!(del, give_up);
        assert!(!del.cancelled.is_cancelled());
        assert!(!other.cancelled.is_cancelled());
        drop((del, other));
        assert!(busy.devices().is_empty());
    }
}
