//! Statuses: what an object has to show its owner. Units yield them next to rows and problems; the controller writes them once what they
//! say is in the database. All but [`Shows::InForce`] are yielded only while the object shows something else.

use std::net::IpAddr;

use crate::port::PortStatus;
use crate::problem::ObjectRef;

/// What one object has to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The object.
    pub object: ObjectRef,
    /// What it has to show.
    pub shows: Shows,
}

/// What an object has to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shows {
    /// That it is in force, as long as it has no problem.
    InForce,
    /// The subnets of a node, comma separated.
    Subnets(String),
    /// External addresses of a service.
    ExternalAddresses(Vec<IpAddr>),
    /// Addresses of a pod in its network, comma separated. They are found here when the database is lost.
    NetworkAddresses(String),
    /// What the machine behind a port has to know.
    Port(PortStatus),
}
