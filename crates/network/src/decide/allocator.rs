//! The one way to an address, whatever it is an address of: a range, who has which of it, and what nobody may have.

use std::net::IpAddr;

use ipnet::IpNet;

use crate::cluster::View;
use crate::external::Range;
use crate::facts::{Holders, Table};
use crate::ipam::{Holder, Segment, Space};
use crate::settings::{hosts, is_ipv4, nth_host};

/// Addresses of one range.
pub(super) struct Allocator<'v> {
    /// Where they are unique.
    pub(super) space: Space,
    /// Those that can be had.
    pub(super) range: Range,
    /// The one to try first.
    pub(super) start: IpAddr,
    /// Those of the range that nobody may have.
    pub(super) reserved: &'v dyn Fn(IpAddr) -> bool,
}

/// Why an address cannot be had.
pub(super) enum Unavailable<'a> {
    Outside,
    Reserved,
    /// Somebody else has it.
    Taken(&'a Holder),
}

impl<'v> Allocator<'v> {
    /// The hosts of a subnet from number `first` on.
    pub(super) fn of_subnet(
        view: &View<'_>,
        space: Space,
        subnet: &IpNet,
        first: u64,
        reserved: &'v dyn Fn(IpAddr) -> bool,
    ) -> Option<Self> {
        // The last address of an IPv4 subnet means all of them.
        let last = hosts(subnet) - 1 - u64::from(is_ipv4(subnet));
        let host = |number: u64| Some(nth_host(subnet, number)?.addr());
        let range = Range {
            first: host(first)?,
            last: host(last)?,
        };
        let start = host(view.cursor(&space, subnet)).filter(|start| range.contains(*start));
        Some(Self {
            start: start.unwrap_or(range.first),
            space,
            range,
            reserved,
        })
        .filter(|_| first <= last)
    }

    /// Checks an address that is asked for.
    pub(super) fn request<'a>(&self, view: &View<'a>, address: IpAddr, by: &Holder) -> Result<(), Unavailable<'a>> {
        if !self.range.contains(address) {
            return Err(Unavailable::Outside);
        }
        if (self.reserved)(address) {
            return Err(Unavailable::Reserved);
        }
        match view.holder(self.space.clone(), address) {
            Some(holder) if holder != by => Err(Unavailable::Taken(holder)),
            _ => Ok(()),
        }
    }

    /// The next address nobody has.
    pub(super) fn next_free(&self, holders: &Table<Holders>) -> Option<IpAddr> {
        let free = |address: &IpAddr| !holders.contains_key(&(self.space.clone(), *address)) && !(self.reserved)(*address);
        let before = self.range.from(self.range.first).take_while(|address| *address < self.start);
        self.range.from(self.start).chain(before).find(free)
    }
}

/// The next address on a segment nobody has.
pub(super) fn next_on(view: &View<'_>, segment: &Segment, allocator: Option<Allocator<'_>>) -> Option<IpAddr> {
    allocator?.next_free(view.holders_while_populated(segment))
}
