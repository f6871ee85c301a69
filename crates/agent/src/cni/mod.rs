//! CNI as the agent serves it: requests in, results or errors out, on a unix socket that `netloom-cni` talks to.
//! The verbs (`attach`, `detach`, `check`, `status`) live in files of their own and share one [`Node`](crate::node::Node).

pub mod attach;
pub mod check;
pub mod detach;
pub mod error;
pub mod request;
pub mod result;
pub mod server;
pub mod status;
