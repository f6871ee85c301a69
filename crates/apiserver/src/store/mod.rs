//! The objects, their one revision counter and their recent history. Everything above reads and writes through [`Store`];
//! below it [`journal`] makes each write survive the process. A write is visible to its writer's competitors at once (so
//! that they collide), but no read, watch or acknowledgement leaves the server before the journal has it: a revision that
//! anyone has seen is never given out twice.

mod journal;

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    ops::Bound,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use axum::body::Bytes;
use serde_json::Value;
use tokio::sync::watch;

use crate::json;
use journal::{Entry, Journal};

/// How many changes of one resource a watch may lag behind.
const HISTORY: usize = 8192;

/// Where an object is inside its resource: namespace ("" if cluster scoped) and name.
pub type Key = (String, String);

/// An object as stored: parsed, and as the bytes every reader is sent.
#[derive(Debug)]
pub struct Object {
    /// The object.
    pub value: Value,
    /// The same object serialised.
    pub json: Bytes,
    /// Its `metadata.resourceVersion`.
    pub revision: u64,
}

impl Object {
    fn new(mut value: Value, revision: u64) -> Result<Self, StoreError> {
        json::set(&mut value, "/metadata/resourceVersion", revision.to_string());
        let json = serde_json::to_vec(&value)?.into();
        Ok(Self { value, json, revision })
    }
}

/// What happened to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// It was created.
    Added,
    /// It was replaced by a newer version.
    Modified,
    /// It is gone; the event holds its last state.
    Deleted,
}

/// One change of one object.
#[derive(Debug)]
pub struct Event {
    /// The revision the change made.
    pub revision: u64,
    /// What happened.
    pub change: Change,
    /// The new state, or the last one of a deleted object.
    pub object: Arc<Object>,
    /// The state before.
    pub previous: Option<Arc<Object>>,
}

/// Why the store could not be opened or written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database file is unusable.
    #[error("open store {path}: {source}; is another server using it?")]
    Open {
        /// The file.
        path: String,
        /// What redb said.
        source: Box<redb::Error>,
    },
    /// A stored object is not JSON.
    #[error("read stored object: {0}")]
    Corrupt(#[from] serde_json::Error),
    /// The journal ended; nothing more can be acknowledged.
    #[error("write store: the journal has stopped, see the log for the cause (a full disk?)")]
    Stopped,
}

/// Why a swap did not happen.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// The object is not at the expected revision any more.
    #[error("the object changed meanwhile")]
    Moved,
    /// The namespace of a new object does not exist.
    #[error("namespace not found")]
    NoNamespace,
    /// The namespace of a new object is being deleted.
    #[error("namespace is terminating")]
    Terminating,
    /// The store is broken.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A watch that lags further behind than the history reaches.
#[derive(Debug, Clone, Copy)]
pub struct Expired {
    /// Where the watch was.
    pub revision: u64,
    /// The oldest revision a watch can start from.
    pub oldest: u64,
}

/// All objects of all resources.
pub struct Store {
    state: Mutex<State>,
    journal: Journal,
}

struct State {
    revision: u64,
    /// Revision found at start: no history reaches further back.
    origin: u64,
    tables: HashMap<String, Table>,
}

struct Table {
    objects: BTreeMap<Key, Arc<Object>>,
    history: VecDeque<Arc<Event>>,
    /// A watch from this revision or later misses nothing.
    floor: u64,
    committed: watch::Sender<u64>,
}

impl State {
    fn table(&mut self, resource: &str) -> &mut Table {
        let floor = self.origin;
        if !self.tables.contains_key(resource) {
            let table = Table {
                objects: BTreeMap::new(),
                history: VecDeque::new(),
                floor,
                committed: watch::channel(floor).0,
            };
            self.tables.insert(resource.to_owned(), table);
        }
        match self.tables.get_mut(resource) {
            Some(table) => table,
            None => unreachable!("the table was inserted above"),
        }
    }
}

impl Store {
    /// Opens the file at `path`, or creates it, and loads every object.
    pub fn open(path: &Path) -> Result<Arc<Self>, StoreError> {
        let (journal, content) = Journal::open(path)?;
        let mut state = State {
            revision: content.revision,
            origin: content.revision,
            tables: HashMap::new(),
        };
        for (resource, key, json) in content.objects {
            let value: Value = serde_json::from_slice(&json)?;
            let revision = json::text(&value, "/metadata/resourceVersion").parse().unwrap_or(0);
            let object = Arc::new(Object {
                value,
                json: json.into(),
                revision,
            });
            state.table(&resource).objects.insert(key, object);
        }
        Ok(Arc::new(Self {
            state: Mutex::new(state),
            journal,
        }))
    }

    /// The current object at `key`.
    pub fn get(&self, resource: &str, key: &Key) -> Option<Arc<Object>> {
        self.lock().tables.get(resource)?.objects.get(key).cloned()
    }

    /// All objects of a resource, or those of one namespace, in key order, and the revision they are from.
    pub fn list(&self, resource: &str, namespace: Option<&str>) -> (Vec<Arc<Object>>, u64) {
        let state = self.lock();
        let Some(table) = state.tables.get(resource) else {
            return (Vec::new(), state.revision);
        };
        let objects = match namespace {
            None => table.objects.values().cloned().collect(),
            Some(namespace) => {
                let start = Bound::Included((namespace.to_owned(), String::new()));
                let range = table.objects.range((start, Bound::Unbounded));
                range
                    .take_while(|((ns, _), _)| ns == namespace)
                    .map(|(_, object)| object.clone())
                    .collect()
            }
        };
        (objects, state.revision)
    }

    /// Waits until everything up to `revision` survives the process.
    pub async fn settled(&self, revision: u64) -> Result<(), StoreError> {
        self.journal.settled(revision).await
    }

    /// Replaces what is at `key`, provided it still is at revision `expected` (`None`: absent). `new` of `None` removes.
    /// The result is the new object, or the last state of a removed one. It is not yet durable: see [`Store::settled`].
    pub fn swap(&self, resource: &str, key: &Key, expected: Option<u64>, new: Option<Value>) -> Result<Arc<Object>, Refused> {
        let mut state = self.lock();
        if expected.is_none() && !key.0.is_empty() {
            let namespace = (String::new(), key.0.clone());
            let found = state.tables.get("namespaces").and_then(|table| table.objects.get(&namespace));
            match found {
                None => return Err(Refused::NoNamespace),
                Some(found) if json::terminating(&found.value) => return Err(Refused::Terminating),
                Some(_) => {}
            }
        }
        let revision = state.revision + 1;
        let table = state.table(resource);
        let previous = table.objects.get(key).cloned();
        if previous.as_ref().map(|object| object.revision) != expected {
            return Err(Refused::Moved);
        }
        let (change, object) = match (new, &previous) {
            (Some(value), None) => (Change::Added, Object::new(value, revision)?),
            (Some(value), Some(_)) => (Change::Modified, Object::new(value, revision)?),
            (None, Some(previous)) => (Change::Deleted, Object::new(previous.value.clone(), revision)?),
            (None, None) => return Err(Refused::Moved),
        };
        let object = Arc::new(object);
        let entry = Entry {
            revision,
            path: journal::path(resource, key),
            json: (change != Change::Deleted).then(|| object.json.clone()),
            committed: table.committed.clone(),
        };
        match change {
            Change::Deleted => table.objects.remove(key),
            _ => table.objects.insert(key.clone(), object.clone()),
        };
        if table.history.len() == HISTORY
            && let Some(oldest) = table.history.pop_front()
        {
            table.floor = oldest.revision;
        }
        table.history.push_back(Arc::new(Event {
            revision,
            change,
            object: object.clone(),
            previous,
        }));
        state.revision = revision;
        // Sent under the lock: the journal must see revisions in order.
        self.journal.append(entry)?;
        Ok(object)
    }

    /// Follows a resource from just after `revision`.
    pub fn follow(self: &Arc<Self>, resource: &str, revision: u64) -> Result<Follow, Expired> {
        let mut state = self.lock();
        let newest = state.revision;
        let table = state.table(resource);
        // A revision from the future belongs to a store that was wiped: the client must list again.
        if revision < table.floor || revision > newest {
            return Err(Expired {
                revision,
                oldest: table.floor,
            });
        }
        let committed = table.committed.subscribe();
        Ok(Follow {
            store: self.clone(),
            resource: resource.to_owned(),
            revision,
            committed,
        })
    }

    /// All changes of a resource after a revision, durable or not yet.
    pub(crate) fn changes(&self, resource: &str, revision: u64) -> Result<Vec<Arc<Event>>, Expired> {
        self.between(resource, revision, u64::MAX)
    }

    fn between(&self, resource: &str, revision: u64, last: u64) -> Result<Vec<Arc<Event>>, Expired> {
        let mut state = self.lock();
        let table = state.table(resource);
        if revision < table.floor {
            return Err(Expired {
                revision,
                oldest: table.floor,
            });
        }
        let start = table.history.partition_point(|event| event.revision <= revision);
        let end = table.history.partition_point(|event| event.revision <= last);
        Ok(table.history.range(start..end.max(start)).cloned().collect())
    }

    /// The newest revision given out.
    pub fn revision(&self) -> u64 {
        self.lock().revision
    }

    /// Waits until the journal has failed; pending for ever while it works.
    pub async fn broken(&self) -> StoreError {
        self.journal.broken().await
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Every mutation leaves the state consistent before anything that could panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A position in the history of one resource.
pub struct Follow {
    store: Arc<Store>,
    resource: String,
    revision: u64,
    committed: watch::Receiver<u64>,
}

impl Follow {
    /// The next changes, in order, as soon as there are any that are durable.
    pub async fn next(&mut self) -> Result<Vec<Arc<Event>>, Expired> {
        loop {
            let committed = *self.committed.borrow_and_update();
            let events = self.store.between(&self.resource, self.revision, committed)?;
            if let Some(last) = events.last() {
                self.revision = last.revision;
                return Ok(events);
            }
            if self.committed.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// The revision up to which this resource has no changes that were not handed out.
    pub fn caught_up(&mut self) -> u64 {
        let settled = self.store.journal.newest();
        let state = self.store.lock();
        let newest = state.tables.get(&self.resource).and_then(|table| table.history.back());
        if newest.is_none_or(|event| event.revision <= self.revision) {
            self.revision = self.revision.max(settled);
        }
        self.revision
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests {
    use serde_json::json;

    use super::*;

    fn key(name: &str) -> Key {
        (String::new(), name.to_owned())
    }

    fn put(store: &Store, name: &str, expected: Option<u64>) -> Result<Arc<Object>, Refused> {
        store.swap("nodes", &key(name), expected, Some(json!({ "metadata": { "name": name } })))
    }

    #[tokio::test]
    async fn acknowledged_writes_survive_the_process() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("objects");
        let store = Store::open(&path).unwrap();
        let kept = put(&store, "kept", None).unwrap();
        let gone = put(&store, "gone", None).unwrap();
        let last = store.swap("nodes", &key("gone"), Some(gone.revision), None).unwrap();
        store.settled(last.revision).await.unwrap();
        // What the kernel has of the file when the process is killed: no destructor of the store has run.
        let copy = directory.path().join("copy");
        std::fs::copy(&path, &copy).unwrap();
        let after = Store::open(&copy).unwrap();
        assert_eq!(after.revision(), last.revision);
        assert_eq!(after.get("nodes", &key("kept")).unwrap().value, kept.value);
        assert!(after.get("nodes", &key("gone")).is_none());
        assert!(after.follow("nodes", kept.revision).is_err(), "history does not survive");
        assert!(after.follow("nodes", last.revision).is_ok());
    }

    #[tokio::test]
    async fn writers_collide_and_watches_see_each_change_once() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(&directory.path().join("objects")).unwrap();
        let mut follow = store.follow("nodes", store.revision()).unwrap();
        let first = put(&store, "a", None).unwrap();
        assert!(matches!(put(&store, "a", None), Err(Refused::Moved)));
        put(&store, "a", Some(first.revision)).unwrap();
        assert!(matches!(put(&store, "a", Some(first.revision)), Err(Refused::Moved)));
        let mut seen = Vec::new();
        while seen.len() < 2 {
            seen.extend(follow.next().await.unwrap().iter().map(|event| event.change));
        }
        assert_eq!(seen, [Change::Added, Change::Modified]);
        let namespaced = ("nowhere".to_owned(), "a".to_owned());
        assert!(matches!(
            store.swap("pods", &namespaced, None, Some(json!({}))),
            Err(Refused::NoNamespace)
        ));
    }

    #[tokio::test]
    async fn a_watch_that_lags_too_far_behind_expires() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(&directory.path().join("objects")).unwrap();
        let start = store.revision();
        let mut follow = store.follow("nodes", start).unwrap();
        let mut revision = put(&store, "a", None).unwrap().revision;
        for _ in 0..HISTORY {
            revision = put(&store, "a", Some(revision)).unwrap().revision;
        }
        store.settled(revision).await.unwrap();
        assert!(follow.next().await.is_err());
        assert!(store.follow("nodes", start).is_err());
        assert!(store.follow("nodes", revision + 1).is_err(), "a revision of another life");
    }
}
