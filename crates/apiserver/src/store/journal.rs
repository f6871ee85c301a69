//! Durability. One thread owns the redb file and commits whatever has queued up since its last commit in one transaction.
//! The failure this protects from is the death of the process, not of the machine: commits reach the kernel's page cache
//! before they are acknowledged, but are not forced to the disk (a lab on a laptop would pay an fsync for each pod
//! otherwise). The file is synced once, on a clean stop.

use std::{fs::File, path::Path, sync::mpsc, thread};

use axum::body::Bytes;
use redb::{Database, ReadableDatabase, ReadableTable, StorageBackend, TableDefinition, backends::FileBackend};
use tokio::sync::watch;

use super::{Key, StoreError};

const OBJECTS: TableDefinition<'static, &str, &[u8]> = TableDefinition::new("objects");
const COUNTERS: TableDefinition<'static, &str, u64> = TableDefinition::new("counters");
const BATCH: usize = 1024;

/// One write on its way to the file.
pub(super) struct Entry {
    pub revision: u64,
    pub path: String,
    /// `None` removes.
    pub json: Option<Bytes>,
    /// Told when the write is durable.
    pub committed: watch::Sender<u64>,
}

/// What the file held when it was opened.
#[derive(Default)]
pub(super) struct Content {
    pub revision: u64,
    pub objects: Vec<(String, Key, Vec<u8>)>,
}

pub(super) struct Journal {
    /// `None` only while being dropped.
    queue: Option<mpsc::Sender<Entry>>,
    settled: watch::Receiver<u64>,
    thread: Option<thread::JoinHandle<()>>,
}

/// The database key of an object.
pub(super) fn path(resource: &str, (namespace, name): &Key) -> String {
    format!("{resource}/{namespace}/{name}")
}

impl Journal {
    pub(super) fn open(path: &Path) -> Result<(Self, Content), StoreError> {
        let failed = |source: redb::Error| StoreError::Open {
            path: path.display().to_string(),
            source: Box::new(source),
        };
        let file = File::options().read(true).write(true).create(true).truncate(false).open(path);
        let file = file.map_err(|error| failed(error.into()))?;
        let (database, content) = load(file).map_err(failed)?;
        let (queue, entries) = mpsc::channel();
        let (committed, settled) = watch::channel(content.revision);
        let thread = thread::Builder::new()
            .name("journal".into())
            .spawn(move || write(&database, &entries, &committed));
        let thread = thread.map_err(|error| failed(error.into()))?;
        Ok((
            Self {
                queue: Some(queue),
                settled,
                thread: Some(thread),
            },
            content,
        ))
    }

    pub(super) fn append(&self, entry: Entry) -> Result<(), StoreError> {
        let queue = self.queue.as_ref().ok_or(StoreError::Stopped)?;
        queue.send(entry).map_err(|_| StoreError::Stopped)
    }

    pub(super) async fn settled(&self, revision: u64) -> Result<(), StoreError> {
        let mut settled = self.settled.clone();
        settled
            .wait_for(|committed| *committed >= revision)
            .await
            .map_err(|_| StoreError::Stopped)?;
        Ok(())
    }

    /// The newest revision that is durable.
    pub(super) fn newest(&self) -> u64 {
        *self.settled.borrow()
    }

    pub(super) async fn broken(&self) -> StoreError {
        let mut settled = self.settled.clone();
        while settled.changed().await.is_ok() {}
        StoreError::Stopped
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was already reported by the runtime.
            let _ = thread.join();
        }
    }
}

fn load(file: File) -> Result<(Database, Content), redb::Error> {
    let backend = PageCache {
        file: FileBackend::new(file)?,
    };
    let database = Database::builder().create_with_backend(backend)?;
    let transaction = database.begin_write()?;
    transaction.open_table(OBJECTS)?;
    transaction.open_table(COUNTERS)?;
    transaction.commit()?;

    let transaction = database.begin_read()?;
    let counters = transaction.open_table(COUNTERS)?;
    let mut content = Content {
        revision: counters.get("revision")?.map_or(1, |v| v.value()),
        objects: Vec::new(),
    };
    for row in transaction.open_table(OBJECTS)?.iter()? {
        let (path, json) = row?;
        let mut parts = path.value().splitn(3, '/').map(str::to_owned);
        if let (Some(resource), Some(namespace), Some(name)) = (parts.next(), parts.next(), parts.next()) {
            content.objects.push((resource, (namespace, name), json.value().to_vec()));
        }
    }
    Ok((database, content))
}

/// The journal's thread: ends when the store is dropped, or when a commit fails (which `broken` reports).
fn write(database: &Database, entries: &mpsc::Receiver<Entry>, committed: &watch::Sender<u64>) {
    while let Ok(first) = entries.recv() {
        let batch: Vec<_> = std::iter::once(first).chain(entries.try_iter().take(BATCH)).collect();
        if let Err(error) = commit(database, &batch) {
            tracing::error!(%error, "the store cannot be written");
            return;
        }
        if let Some(last) = batch.last() {
            committed.send_replace(last.revision);
        }
        for entry in batch {
            entry.committed.send_replace(entry.revision);
        }
    }
}

fn commit(database: &Database, batch: &[Entry]) -> Result<(), redb::Error> {
    let transaction = database.begin_write()?;
    {
        let mut objects = transaction.open_table(OBJECTS)?;
        for entry in batch {
            match &entry.json {
                Some(json) => objects.insert(entry.path.as_str(), json.as_ref())?,
                None => objects.remove(entry.path.as_str())?,
            };
        }
        if let Some(last) = batch.last() {
            transaction.open_table(COUNTERS)?.insert("revision", last.revision)?;
        }
    }
    transaction.commit()?;
    Ok(())
}

/// A file whose writes are left to the kernel until it is closed.
#[derive(Debug)]
struct PageCache {
    file: FileBackend,
}

impl StorageBackend for PageCache {
    fn len(&self) -> Result<u64, std::io::Error> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), std::io::Error> {
        self.file.read(offset, out)
    }

    fn set_len(&self, len: u64) -> Result<(), std::io::Error> {
        self.file.set_len(len)
    }

    fn sync_data(&self) -> Result<(), std::io::Error> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), std::io::Error> {
        self.file.write(offset, data)
    }

    fn close(&self) -> Result<(), std::io::Error> {
        self.file.sync_data()?;
        self.file.close()
    }
}
