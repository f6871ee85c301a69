//! Facts: the pieces of a cluster that can change, and that rows and decisions are made from.
//!
//! A [`Cluster`](crate::Cluster) is made of [`Table`]s. Every change goes through [`Table::set`], which notes in [`Changes`] which facts
//! differ now; setting an equal value notes nothing. Units and decisions read through a [`View`](crate::cluster::View), which notes the
//! facts they read. Whoever read a fact that changed is looked at again: nothing is marked by hand.

mod schema;

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;

pub use schema::*;

use crate::plan::Work;

/// Identity of something that can be read and can change. It is a hash: two facts that share one are looked at together, which costs a
/// little and changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fact(u64);

/// What a table holds, and what it gives rise to.
pub trait Schema {
    /// Tells its facts from those of other tables.
    const NUMBER: u8;
    /// What its values are found by.
    type Key: Ord + Clone + Hash;
    /// What is known by a key.
    type Value: PartialEq;

    /// Units and decisions that exist because a key does.
    fn work(_key: &Self::Key) -> Vec<Work> {
        Vec::new()
    }
}

/// A map whose changes are noted.
pub struct Table<S: Schema>(BTreeMap<S::Key, S::Value>);

/// What differs since somebody last looked.
#[derive(Debug, Default)]
pub struct Changes {
    /// Facts that changed.
    pub(crate) facts: Vec<Fact>,
    /// Work that a key gives rise to from now on (true), or no longer.
    pub(crate) work: Vec<(Work, bool)>,
}

impl Fact {
    /// The value of a key.
    pub(crate) fn value<S: Schema, Q: Hash + ?Sized>(key: &Q) -> Self {
        Self::of(S::NUMBER << 1, key)
    }

    /// Whether a key is there.
    pub(crate) fn presence<S: Schema, Q: Hash + ?Sized>(key: &Q) -> Self {
        Self::of((S::NUMBER << 1) | 1, key)
    }

    /// Any value of a table.
    pub(crate) fn all<S: Schema>() -> Self {
        Self(u64::from(S::NUMBER << 1))
    }

    /// Which keys a table has.
    pub(crate) fn keys<S: Schema>() -> Self {
        Self(u64::from((S::NUMBER << 1) | 1))
    }

    fn of<Q: Hash + ?Sized>(aspect: u8, key: &Q) -> Self {
        let mut hasher = Mix::default();
        aspect.hash(&mut hasher);
        key.hash(&mut hasher);
        Self(hasher.finish())
    }
}

/// A hash that is quick for short keys. Nobody gains by making two of them collide.
#[derive(Default)]
pub(crate) struct Mix(u64);

/// An odd number with as many ones as zeros.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

impl Hasher for Mix {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u8(&mut self, number: u8) {
        self.write_u64(u64::from(number));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0.rotate_left(29) ^ number).wrapping_mul(FACTOR);
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }

    fn finish(&self) -> u64 {
        (self.0 ^ (self.0 >> 32)).wrapping_mul(FACTOR)
    }
}

impl<S: Schema> Table<S> {
    /// Sets what is known by a key, or removes it.
    pub(crate) fn set<Q>(&mut self, key: &Q, value: Option<S::Value>, changes: &mut Changes)
    where
        S::Key: Borrow<Q>,
        Q: Ord + Hash + ToOwned<Owned = S::Key> + ?Sized,
    {
        let before = self.0.get(key);
        if before == value.as_ref() {
            return;
        }
        let appears = (before.is_some() != value.is_some()).then_some(value.is_some());
        Self::note(key, appears, changes);
        match value {
            Some(value) => drop(self.0.insert(key.to_owned(), value)),
            None => drop(self.0.remove(key)),
        }
    }

    fn note<Q>(key: &Q, appears: Option<bool>, changes: &mut Changes)
    where
        S::Key: Borrow<Q>,
        Q: Hash + ToOwned<Owned = S::Key> + ?Sized,
    {
        changes.facts.extend([Fact::value::<S, Q>(key), Fact::all::<S>()]);
        if let Some(appears) = appears {
            changes.facts.extend([Fact::presence::<S, Q>(key), Fact::keys::<S>()]);
            let work = S::work(&key.to_owned()).into_iter();
            changes.work.extend(work.map(|work| (work, appears)));
        }
    }
}

/// Sets are changed by their elements; an empty set is none.
impl<T: Ord, S: Schema<Value = BTreeSet<T>>> Table<S> {
    /// Adds an element to the set of a key.
    pub(crate) fn include(&mut self, key: &S::Key, element: T, changes: &mut Changes) {
        let set = self.0.entry(key.clone()).or_default();
        let first = set.is_empty();
        if set.insert(element) {
            Self::note(key, first.then_some(true), changes);
        }
    }

    /// Takes an element out of the set of a key.
    pub(crate) fn exclude(&mut self, key: &S::Key, element: &T, changes: &mut Changes) {
        let Some(set) = self.0.get_mut(key) else { return };
        if !set.remove(element) {
            return;
        }
        let last = set.is_empty();
        if last {
            self.0.remove(key);
        }
        Self::note(key, last.then_some(false), changes);
    }

    /// Adds what `after` has and `before` had not, and takes out the rest of `before`.
    pub(crate) fn move_element(&mut self, element: &T, before: &BTreeSet<S::Key>, after: &BTreeSet<S::Key>, changes: &mut Changes)
    where
        T: Clone,
    {
        for key in before.difference(after) {
            self.exclude(key, element, changes);
        }
        for key in after.difference(before) {
            self.include(key, element.clone(), changes);
        }
    }
}

impl<S: Schema> Deref for Table<S> {
    type Target = BTreeMap<S::Key, S::Value>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<S: Schema> Default for Table<S> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<S: Schema> Clone for Table<S>
where
    S::Value: Clone,
{
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<S: Schema> PartialEq for Table<S> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl<S: Schema> Eq for Table<S> where S::Value: Eq {}

impl<S: Schema> fmt::Debug for Table<S>
where
    S::Key: fmt::Debug,
    S::Value: fmt::Debug,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_borrowed_key_is_the_same_fact() {
        let text = |text: &str| text.to_owned();
        for label in [None, Some(("app", "web"))] {
            let owned = (text("shop"), label.map(|(key, value)| (text(key), text(value))));
            assert_eq!(Fact::value::<Anchored, _>(&("shop", label)), Fact::value::<Anchored, _>(&owned));
        }
    }
}
