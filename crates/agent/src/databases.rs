//! Where the Southbound database is: named once and for all, or found by its members, which may move. The Southbound client and
//! the set-up of the switch (`ovn-remote`) use it.

use netloom_discovery::{Database, Members};
use netloom_ovsdb::Remotes;
use tokio::sync::watch;

/// The servers of the Southbound database.
#[derive(Clone, Debug)]
pub enum Southbound {
    /// Always these.
    Fixed(Remotes),
    /// The members of a Service, with or without TLS; none while they are not known.
    Members(watch::Receiver<Members>, bool),
}

impl Southbound {
    /// The remotes as they are now, if they are known.
    pub fn current(&self) -> Option<Remotes> {
        match self {
            Self::Fixed(remotes) => Some(remotes.clone()),
            Self::Members(members, tls) => members.borrow().remotes(Database::Southbound, *tls),
        }
    }

    /// Waits until they change. Safe to cancel.
    pub async fn changed(&mut self) {
        if let Self::Members(members, _) = self
            && members.changed().await.is_ok()
        {
            return;
        }
        // Fixed ones never change, and those nobody follows any more stay as they are.
        std::future::pending().await
    }

    /// Waits until they are known.
    pub async fn remotes(&mut self) -> Remotes {
        loop {
            if let Some(remotes) = self.current() {
                return remotes;
            }
            self.changed().await;
        }
    }
}
