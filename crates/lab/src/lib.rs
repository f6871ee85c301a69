//! A whole multi-node cluster network on one machine.
//!
//! A lab is a handful of *machines* (`control`, `node1`…, `outside`), each a set of Linux namespaces over one root file system image, joined by
//! a bridge that has no way out. [`Lab`] starts, inspects and removes them; the other public modules are what runs inside.
//!
//! ```text
//! netloom lab up ──► Lab ──► launch ──► init (PID 1 of a machine) ──► parts: ovsdb, vswitchd, agent, kubelet …
//!                     │                   ▲ socket                               │
//!                     └── status, kill ───┘◄──────── containers of pods ─────────┘
//! ```
//!
//! Nothing of the host changes: no device, route, sysctl or firewall rule; only files below `/var/lib/netloom` and `/run/netloom`.

pub mod apiserver;
mod cluster;
mod containers;
pub mod dns;
pub mod echo;
pub mod enter;
mod files;
mod home;
mod image;
pub mod init;
pub mod kubelet;
mod lab;
pub mod launch;
pub mod logs;
mod parts;
pub mod pods;
mod process;
mod progress;
mod protocol;
mod reaper;
mod root;
mod shell;
mod spec;
mod underlay;
mod wire;

pub use home::Home;
pub use lab::{Lab, MachineStatus};
pub use nix::sys::signal::Signal;
pub use progress::Progress;
pub use protocol::{PartState, PartStatus};
pub use shell::{Output, Shell};
pub use spec::{Datapath, IpFamily, Machine, Spec};
