//! How units and decisions read a cluster: every fact they read is noted, so that they are looked at again when one of them changes, and
//! only then. They have no other way to the cluster.

use std::borrow::Borrow;
use std::cell::RefCell;
use std::hash::Hash;

use crate::cluster::Cluster;
use crate::facts::{Fact, Schema, Table};

/// A cluster, and what was read of it.
pub struct View<'a> {
    /// For the accessors in this folder, each of which notes what it reads.
    pub(super) cluster: &'a Cluster,
    reads: RefCell<Vec<Fact>>,
}

impl<'a> View<'a> {
    /// A view nothing was read through yet.
    pub fn new(cluster: &'a Cluster) -> Self {
        Self {
            cluster,
            reads: RefCell::default(),
        }
    }

    /// The facts that were read, each once.
    pub(crate) fn into_reads(self) -> Vec<Fact> {
        let mut reads = self.reads.into_inner();
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
        self.note(Fact::value::<S, Q>(key));
        table.get(key)
    }

    /// Whether a key is there.
    pub(super) fn has<S: Schema, Q>(&self, table: &'a Table<S>, key: &Q) -> bool
    where
        S::Key: Borrow<Q>,
        Q: Ord + Hash + ?Sized,
    {
        self.note(Fact::presence::<S, Q>(key));
        table.contains_key(key)
    }

    /// All keys.
    pub(super) fn keys<S: Schema>(&self, table: &'a Table<S>) -> impl Iterator<Item = &'a S::Key> + use<'a, S> {
        self.note(Fact::keys::<S>());
        table.keys()
    }

    /// All keys and what is known by them.
    pub(super) fn all<S: Schema>(&self, table: &'a Table<S>) -> impl Iterator<Item = (&'a S::Key, &'a S::Value)> + use<'a, S> {
        self.note(Fact::all::<S>());
        table.iter()
    }

    fn note(&self, fact: Fact) {
        self.reads.borrow_mut().push(fact);
    }
}
