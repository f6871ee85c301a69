//! Sets a switch up once, before its vswitchd runs, and gives its uplink to br-ex. For a machine whose addresses are on br-ex from the start,
//! as in the lab; in a cluster [`SetUp`](super::SetUp) and [`crate::uplink`] make the same changes and keep them.

use std::collections::BTreeMap;

use netloom_ovsdb::Remotes;

use super::plan::{self, Terms};
use crate::switch::Switch;
use crate::uplink::plan_uplink;

/// The device that leads out of the machine.
#[derive(Clone, Debug)]
pub struct Device {
    /// Its name.
    pub name: String,
    /// Its MAC address, which br-ex takes.
    pub mac: String,
}

/// Writes what differs to the switch's database.
pub async fn once(ovs: Remotes, terms: &Terms, uplink: &Device) -> anyhow::Result<()> {
    let (switch, events) = Switch::start(ovs);
    let change = async {
        switch.connected().await?;
        switch.change("set up the node", |state| plan::set_up(state, terms)).await?;
        let none = BTreeMap::new();
        let plan = |state: &_| plan_uplink(state, terms.userspace, &uplink.name, Some(&uplink.mac), &none);
        switch.change("give the uplink to br-ex", plan).await?;
        anyhow::Ok(())
    };
    tokio::select! {
        changed = change => changed,
        error = events => Err(error),
    }
}
