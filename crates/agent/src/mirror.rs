//! A mirror of the part of a database the agent needs: fed by the client's events, looked at and waited on by everyone else.
//!
//! Nothing polls: [`Mirror::until`] looks again after a change and at no other time.

use netloom_ovsdb::{Event, Row, Uuid};
use tokio::sync::watch;
use tracing::{info, warn};

/// What a mirror shows.
pub trait Reflect: Default {
    /// What the database is called in logs.
    const DATABASE: &'static str;
    /// Forgets all rows.
    fn clear(&mut self);
    /// Takes over a row; `None` when it is gone.
    fn put(&mut self, table: &str, uuid: Uuid, row: Option<&Row>);
    /// Notes whether there is a connection, and if not, why.
    fn set_connected(&mut self, connected: Result<(), String>);
}

/// The mirror.
#[derive(Debug, Default)]
pub struct Mirror<S>(watch::Sender<S>);

impl<S: Reflect> Mirror<S> {
    /// Looks. Be brief: the writer waits.
    pub fn read<T>(&self, look: impl FnOnce(&S) -> T) -> T {
        look(&self.0.borrow())
    }

    /// Waits until `find` finds something.
    pub async fn until<T>(&self, find: impl Fn(&S) -> Option<T>) -> T {
        let mut changes = self.0.subscribe();
        loop {
            if let Some(found) = find(&changes.borrow_and_update()) {
                return found;
            }
            if changes.changed().await.is_err() {
                // The sender lives in `self`: it cannot be gone while we are here.
                std::future::pending::<()>().await;
            }
        }
    }

    /// Notifies of every change.
    pub fn changes(&self) -> watch::Receiver<S> {
        self.0.subscribe()
    }

    /// Notes something the client does not say.
    pub fn note(&self, note: impl FnOnce(&mut S)) {
        self.0.send_modify(note);
    }

    /// Takes over what the client says.
    pub fn apply(&self, event: Event) {
        let database = S::DATABASE;
        match event {
            Event::Connected { remote, resumed } => {
                info!(%remote, resumed, "connected to the {database}");
                if resumed {
                    self.0.send_modify(|state| state.set_connected(Ok(())));
                }
            }
            Event::Snapshot(replica) => self.0.send_modify(|state| {
                state.clear();
                state.set_connected(Ok(()));
                for (table, rows) in replica.tables() {
                    rows.iter().for_each(|(uuid, row)| state.put(table, *uuid, Some(row)));
                }
            }),
            Event::Update(changes) => self.0.send_modify(|state| {
                for change in &changes {
                    state.put(&change.table, change.uuid, change.new.as_deref());
                }
            }),
            Event::Unreachable { remote, reason } => {
                warn!(%remote, %reason, "cannot connect to the {database}");
                self.0.send_modify(|state| state.set_connected(Err(reason.to_string())));
            }
            Event::Disconnected(reason) => {
                warn!(%reason, "lost the connection to the {database}");
                self.0.send_modify(|state| state.set_connected(Err(reason.to_string())));
            }
            _ => {}
        }
    }
}
