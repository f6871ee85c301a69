//! Links and addresses of one network namespace ([`route`](super::route) has its routes). A [`Netlink`] belongs to the
//! namespace its socket was opened in, whichever thread uses it later: the pod's and the host's are the same type.
//! Everything that changes state is safe to repeat.

use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::Arc;

use futures::{Stream, TryStreamExt};
use ipnet::IpNet;
use nix::libc;
use rtnetlink::packet_route::address::{AddressAttribute, AddressHeaderFlags, AddressScope};
use rtnetlink::packet_route::link::{AfSpecInet6, AfSpecUnspec, In6AddrGenMode, InfoData, InfoVeth, LinkAttribute, LinkFlags, LinkMessage};
use rtnetlink::sys::TokioSocket;
use rtnetlink::{Handle, LinkMessageBuilder, LinkUnspec, LinkVeth};
use tokio::sync::Mutex;

use super::NetError;
use netloom_contract::Mac;

/// A link as the kernel describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its index in its namespace.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Its MAC address, if it is an Ethernet device.
    pub mac: Option<Mac>,
    /// Its MTU.
    pub mtu: u32,
    /// Whether it is administratively up.
    pub up: bool,
    /// Whether somebody is at its other end: of a device of the userspace datapath, vswitchd.
    pub carrier: bool,
    /// Index of the other end of a veth, in its namespace.
    pub peer: Option<u32>,
}

/// What to change on a link; `None` leaves a property alone.
#[derive(Clone, Copy, Debug, Default)]
pub struct LinkChange {
    /// The MAC address to set.
    pub mac: Option<Mac>,
    /// The MTU to set.
    pub mtu: Option<u32>,
    /// Set it up.
    pub up: bool,
    /// Give it no IPv6 link-local address: the host's end of a pod's veth must stay silent.
    pub silent: bool,
}

/// An address on a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// Index of the link.
    pub index: u32,
    /// The address and its prefix length.
    pub net: IpNet,
    /// Whether it is of global scope.
    pub global: bool,
}

/// A netlink socket bound to one namespace.
#[derive(Clone, Debug)]
pub struct Netlink {
    pub(super) handle: Handle,
    /// The kernel runs one dump per socket at a time and answers a second one with "busy".
    dumping: Arc<Mutex<()>>,
}

impl Netlink {
    /// Opens a socket in the calling thread's namespace.
    pub fn here() -> Result<Self, NetError> {
        let (connection, handle, _) = rtnetlink::new_connection().map_err(NetError::io("open a netlink socket"))?;
        tokio::spawn(connection);
        Ok(Self::with(handle))
    }

    /// Takes a socket opened elsewhere; its namespace stays what it was.
    pub fn over(socket: TokioSocket) -> Self {
        let (connection, handle, _) = rtnetlink::from_socket(socket);
        tokio::spawn(connection);
        Self::with(handle)
    }

    fn with(handle: Handle) -> Self {
        Self {
            handle,
            dumping: Arc::default(),
        }
    }

    /// Runs one dump at a time, each to its end even if nobody waits for it any more.
    pub(super) async fn dump<T, S>(
        &self,
        operation: &'static str,
        request: impl FnOnce(Handle) -> S + Send + 'static,
    ) -> Result<Vec<T>, NetError>
    where
        T: Send + 'static,
        S: Stream<Item = Result<T, rtnetlink::Error>> + Send + 'static,
    {
        let dumping = self.dumping.clone().lock_owned().await;
        let handle = self.handle.clone();
        let run = tokio::spawn(async move {
            let all: Result<Vec<T>, _> = request(handle).try_collect().await;
            drop(dumping);
            all
        });
        let all = run.await.unwrap_or(Err(rtnetlink::Error::RequestFailed));
        all.map_err(NetError::netlink(operation))
    }

    /// The link called `name`, if there is one.
    pub async fn link(&self, name: &str) -> Result<Option<Link>, NetError> {
        let found = self.handle.link().get().match_name(name).execute().try_next().await;
        absent(found.map_err(NetError::netlink(format!("look up link {name}")))).map(|message| message.as_ref().map(link_of))
    }

    /// The link with this index, if there is one.
    pub async fn link_at(&self, index: u32) -> Result<Option<Link>, NetError> {
        let found = self.handle.link().get().match_index(index).execute().try_next().await;
        absent(found.map_err(NetError::netlink(format!("look up link {index}")))).map(|message| message.as_ref().map(link_of))
    }

    /// All links.
    pub async fn links(&self) -> Result<Vec<Link>, NetError> {
        let messages = self.dump("list links", |handle| handle.link().get().execute()).await?;
        Ok(messages.iter().map(link_of).collect())
    }

    /// Creates a veth pair in one call: `name` here, `peer` in the namespace behind `netns`.
    pub async fn add_veth(&self, name: &str, peer: &str, netns: BorrowedFd<'_>, mtu: u32) -> Result<(), NetError> {
        let peer = LinkMessageBuilder::<LinkUnspec>::new()
            .name(peer)
            .mtu(mtu)
            .setns_by_fd(netns.as_raw_fd())
            .build();
        let message = LinkVeth::new(name, "")
            .mtu(mtu)
            .set_info_data(InfoData::Veth(InfoVeth::Peer(peer)))
            .build();
        let operation = format!("create veth {name}");
        self.handle
            .link()
            .add(message)
            .execute()
            .await
            .map_err(NetError::netlink(operation))
    }

    /// Applies `change` to the link with this index, in one call.
    pub async fn change(&self, index: u32, change: LinkChange) -> Result<(), NetError> {
        let mut message = LinkUnspec::new_with_index(index);
        if let Some(mac) = change.mac {
            message = message.address(mac.0.to_vec());
        }
        if let Some(mtu) = change.mtu {
            message = message.mtu(mtu);
        }
        if change.silent {
            message = message.append_extra_attribute(LinkAttribute::AfSpecUnspec(vec![AfSpecUnspec::Inet6(vec![
                AfSpecInet6::AddrGenMode(In6AddrGenMode::None),
            ])]));
        }
        if change.up {
            message = message.up();
        }
        self.handle
            .link()
            .change(message.build())
            .execute()
            .await
            .map_err(NetError::netlink(format!("configure link {index}")))
    }

    /// Deletes the link called `name`; tells whether it was there.
    pub async fn delete(&self, name: &str) -> Result<bool, NetError> {
        let message = LinkUnspec::new_with_name(name).build();
        let done = self.handle.link().del_with_message(message).execute().await;
        absent(done.map(Some).map_err(NetError::netlink(format!("delete link {name}")))).map(|done| done.is_some())
    }

    /// All addresses of the namespace.
    pub async fn addresses(&self) -> Result<Vec<Address>, NetError> {
        let messages = self.dump("list addresses", |handle| handle.address().get().execute()).await?;
        Ok(messages
            .iter()
            .filter_map(|message| {
                // IPv4 names the own address LOCAL (ADDRESS is the peer's on point-to-point links); IPv6 has only ADDRESS.
                let local = message.attributes.iter().find_map(|attribute| match attribute {
                    AddressAttribute::Local(address) => Some(*address),
                    _ => None,
                });
                let address = local.or_else(|| {
                    message.attributes.iter().find_map(|attribute| match attribute {
                        AddressAttribute::Address(address) => Some(*address),
                        _ => None,
                    })
                })?;
                Some(Address {
                    index: message.header.index,
                    net: IpNet::new(address, message.header.prefix_len).ok()?,
                    global: message.header.scope == AddressScope::Universe,
                })
            })
            .collect())
    }

    /// Adds an address; having it already is fine. IPv6 skips duplicate detection: the controller owns uniqueness, and
    /// the pod must be able to speak at once.
    pub async fn add_address(&self, index: u32, address: IpNet) -> Result<(), NetError> {
        let mut request = self.handle.address().add(index, address.addr(), address.prefix_len()).replace();
        if address.addr().is_ipv6() {
            request.message_mut().header.flags |= AddressHeaderFlags::Nodad;
        }
        request
            .execute()
            .await
            .map_err(NetError::netlink(format!("add address {address} to link {index}")))
    }

    /// Adds an address that nobody is to use, on this link or beyond; having it already is fine.
    pub async fn add_link_address(&self, index: u32, address: IpNet) -> Result<(), NetError> {
        let mut request = self.handle.address().add(index, address.addr(), address.prefix_len()).replace();
        request.message_mut().header.scope = AddressScope::Link;
        request
            .execute()
            .await
            .map_err(NetError::netlink(format!("add address {address} to link {index}")))
    }

    /// Removes an address; not having it is fine.
    pub async fn delete_address(&self, index: u32, address: IpNet) -> Result<(), NetError> {
        let mut request = self.handle.address().add(index, address.addr(), address.prefix_len());
        let message = request.message_mut().clone();
        let done = self.handle.address().del(message).execute().await;
        let operation = format!("remove address {address} from link {index}");
        absent(done.map(Some).map_err(NetError::netlink(operation))).map(drop)
    }
}

/// Turns "no such thing" into `None`: absence is an answer, not a failure.
pub(super) fn absent<T>(result: Result<Option<T>, NetError>) -> Result<Option<T>, NetError> {
    match result {
        Err(error) if matches!(error.errno(), Some(libc::ENODEV | libc::ESRCH | libc::EADDRNOTAVAIL)) => Ok(None),
        other => other,
    }
}

/// Reads a link message; netlink events carry the same ones.
pub fn link_of(message: &LinkMessage) -> Link {
    let mut link = Link {
        index: message.header.index,
        name: String::new(),
        mac: None,
        mtu: 0,
        up: message.header.flags.contains(LinkFlags::Up),
        carrier: message.header.flags.contains(LinkFlags::LowerUp),
        peer: None,
    };
    for attribute in &message.attributes {
        match attribute {
            LinkAttribute::IfName(name) => link.name.clone_from(name),
            LinkAttribute::Mtu(mtu) => link.mtu = *mtu,
            LinkAttribute::Link(peer) => link.peer = Some(*peer),
            LinkAttribute::Address(bytes) => link.mac = <[u8; 6]>::try_from(bytes.as_slice()).ok().map(Mac),
            _ => {}
        }
    }
    link
}
