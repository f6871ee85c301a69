//! The wires: a bridge in the control machine's network namespace and one veth pair from it to every other machine.
//!
//! Runs in the short-lived launcher of a machine, which is single-threaded, so entering a namespace affects nobody else. Devices are made
//! in the control machine's namespace and moved from there: the host's own namespace never sees one.

use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::path::Path;

use anyhow::Context as _;
use futures::TryStreamExt as _;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, setns, unshare};
use rtnetlink::{Handle, LinkBridge, LinkUnspec, LinkVeth};

use crate::spec::{IpFamily, Machine};

/// Name of the bridge in the control machine.
pub const BRIDGE: &str = "underlay";
/// Name of the underlay interface in every other machine.
pub const UPLINK: &str = "uplink";

/// Settings of every network namespace of a lab: addresses are usable at once, and IPv6 is there whatever the host does.
///
/// Written while only `lo` exists, because an interface takes its own copy of the defaults when it appears.
const SYSCTLS: &[(&str, &str)] = &[
    ("ipv6/conf/all/disable_ipv6", "0"),
    ("ipv6/conf/default/disable_ipv6", "0"),
    ("ipv6/conf/all/accept_dad", "0"),
    ("ipv6/conf/default/accept_dad", "0"),
    ("ipv6/conf/all/accept_ra", "0"),
    ("ipv6/conf/default/accept_ra", "0"),
    ("ipv4/ping_group_range", "0 2147483647"),
];

/// Writes sysctls of the calling thread's network namespace; names are relative to `net`.
pub fn set_sysctls(settings: &[(&str, &str)]) -> anyhow::Result<()> {
    for (name, value) in settings {
        let path = Path::new("/proc/sys/net").join(name);
        // A kernel without IPv6 has none of its settings.
        if path.exists() {
            std::fs::write(&path, value).with_context(|| format!("setting {} to {value:?}", path.display()))?;
        }
    }
    Ok(())
}

/// Makes a network namespace, enters it and prepares what every namespace needs.
pub fn enter_fresh_namespace() -> anyhow::Result<()> {
    unshare(CloneFlags::CLONE_NEWNET).context("making a network namespace")?;
    set_sysctls(SYSCTLS)?;
    netlink(async |handle| up(&handle, "lo").await)
}

/// Enters the namespace that holds the bridge, making and pinning it at `pin` the first time.
///
/// Pinned, it outlives the control machine: a power-cycle of the control plane does not pull the cable of every node.
pub fn enter_bridge_namespace(pin: &Path, family: IpFamily) -> anyhow::Result<()> {
    if pin.exists() {
        let namespace = File::open(pin).with_context(|| format!("opening {}", pin.display()))?;
        return setns(namespace, CloneFlags::CLONE_NEWNET).context("entering the underlay's network namespace");
    }
    enter_fresh_namespace()?;
    File::create(pin).with_context(|| format!("creating {}", pin.display()))?;
    mount(Some("/proc/self/ns/net"), pin, None::<&str>, MsFlags::MS_BIND, None::<&str>)
        .with_context(|| format!("pinning the underlay at {}", pin.display()))?;
    netlink(async |handle| {
        handle
            .link()
            .add(LinkBridge::new(BRIDGE).address(Machine::Control.mac().to_vec()).up().build())
            .execute()
            .await
            .context("adding the underlay bridge")?;
        let bridge = index(&handle, BRIDGE).await?;
        for (address, prefix) in Machine::Control.addresses(family) {
            handle
                .address()
                .add(bridge, address, prefix)
                .execute()
                .await
                .with_context(|| format!("adding {address} to the underlay bridge"))?;
        }
        Ok(())
    })
}

/// Makes this process's new network namespace and a cable from it to the bridge.
pub fn enter_new_namespace(pin: &Path, machine: Machine) -> anyhow::Result<()> {
    enter_fresh_namespace()?;
    let own = File::open("/proc/self/ns/net").context("opening the new network namespace")?;
    let bridge_namespace = File::open(pin).with_context(|| format!("opening {}: the control machine is not running", pin.display()))?;

    setns(&bridge_namespace, CloneFlags::CLONE_NEWNET).context("entering the underlay's network namespace")?;
    let name = machine.name();
    let far = format!("{name}-{UPLINK}");
    netlink(async |handle| {
        let bridge = index(&handle, BRIDGE).await?;
        // The kernel takes a dead machine's namespace down later, and with it the old cable; it may be doing so right now.
        if let Ok(old) = index(&handle, &name).await {
            let removed = handle.link().del(old).execute().await;
            if index(&handle, &name).await.is_ok() {
                removed.with_context(|| format!("removing the old cable of {name}"))?;
            }
        }
        let cable = LinkVeth::new(&name, &far).controller(bridge).up().build();
        handle
            .link()
            .add(cable)
            .execute()
            .await
            .with_context(|| format!("adding the cable of {name}"))?;
        let end = LinkUnspec::new_with_index(index(&handle, &far).await?)
            .address(machine.mac().to_vec())
            .name(UPLINK)
            .setns_by_fd(own.as_raw_fd());
        handle
            .link()
            .set(end.build())
            .execute()
            .await
            .with_context(|| format!("moving the cable of {name} into it"))
    })?;

    setns(&own, CloneFlags::CLONE_NEWNET).context("entering the new network namespace")?;
    netlink(async |handle| up(&handle, UPLINK).await)
}

fn netlink<F>(work: F) -> anyhow::Result<()>
where
    F: AsyncFnOnce(Handle) -> anyhow::Result<()>,
{
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let (connection, handle, _) = rtnetlink::new_connection().context("opening a netlink socket")?;
        let connection = tokio::spawn(connection);
        let result = work(handle).await;
        connection.abort();
        result
    })
}

async fn index(handle: &Handle, name: &str) -> anyhow::Result<u32> {
    let link = handle
        .link()
        .get()
        .match_name(name.to_string())
        .execute()
        .try_next()
        .await
        .with_context(|| format!("looking up interface {name}"))?;
    Ok(link.with_context(|| format!("no interface {name}"))?.header.index)
}

async fn up(handle: &Handle, name: &str) -> anyhow::Result<()> {
    let link = LinkUnspec::new_with_index(index(handle, name).await?).up().build();
    handle
        .link()
        .set(link)
        .execute()
        .await
        .with_context(|| format!("bringing {name} up"))
}
