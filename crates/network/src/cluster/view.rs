//! How units and decisions read a cluster: every fact they read is noted, so that they are looked at again when one of them changes, and
//! only then. They have no other way to the cluster.

use std::borrow::Borrow;
use std::cell::RefCell;
use std::hash::Hash;

use crate::cluster::Cluster;
use crate::facts::{Fact, Schema, Table};

/// How many facts a unit reads, more or less.
const USUAL: usize = 16;

/// A cluster, and what was read of it.
pub struct View<'a> {
    /// For the accessors in this folder, each of which notes what it reads.
    pub(super) cluster: &'a Cluster,
    /// None if nobody asks.
    reads: Option<RefCell<Vec<Fact>>>,
}

impl<'a> View<'a> {
    /// A view of whoever needs no notes.
    pub fn new(cluster: &'a Cluster) -> Self {
        Self { cluster, reads: None }
    }

    /// A view that notes what is read through it.
    pub(crate) fn noting(cluster: &'a Cluster) -> Self {
        Self {
            cluster,
            reads: Some(RefCell::new(Vec::with_capacity(USUAL))),
        }
    }

    /// The facts that were read, each once.
    pub(crate) fn into_reads(self) -> Vec<Fact> {
        let mut reads = self.reads.map(RefCell::into_inner).unwrap_or_default();
        reads.sort_unstable();
        reads.dedup();
        reads
    }

    /// What is known by a key.
    pub(super) fn get<S: Schema, Q>(&self, table: &'a Table<S>, key: &Q) -> Option<&'a S::Value>
    where
        S::Key: Borrow<Q>,
        Q: Ord + Hash + ?Sized,
    {
        self.note(|| Fact::value::<S, Q>(key));
        table.value(key)
    }

    /// Whether a key is there.
    pub(super) fn has<S: Schema, Q>(&self, table: &'a Table<S>, key: &Q) -> bool
    where
        S::Key: Borrow<Q>,
        Q: Ord + Hash + ?Sized,
    {
        self.note(|| Fact::presence::<S, Q>(key));
        table.value(key).is_some()
    }

    /// All keys.
    pub(super) fn keys<S: Schema>(&self, table: &'a Table<S>) -> impl Iterator<Item = &'a S::Key> + use<'a, S> {
        self.note(Fact::keys::<S>);
        table.entries().map(|(key, _)| key)
    }

    /// All keys and what is known by them.
    pub(super) fn all<S: Schema>(&self, table: &'a Table<S>) -> impl Iterator<Item = (&'a S::Key, &'a S::Value)> + use<'a, S> {
        self.note(Fact::all::<S>);
        table.entries()
    }

    /// Notes that a fact was read.
    pub(super) fn note(&self, fact: impl FnOnce() -> Fact) {
        if let Some(reads) = &self.reads {
            reads.borrow_mut().push(fact());
        }
    }
}
