//! Facts: the pieces of a cluster that can change, and that rows and decisions are made from.
//!
//! A [`Cluster`](crate::Cluster) is made of [`Table`]s. Every change goes through [`Table::set`], which notes in [`Changes`] which facts
//! differ now; setting an equal value notes nothing. Units and decisions read through a [`View`](crate::cluster::View), which notes the
//! facts they read. Whoever read a fact that changed is looked at again: nothing is marked by hand.

mod hash;
mod schema;
mod store;

use std::borrow::Borrow;
use std::collections::BTreeSet;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;

pub use hash::HashMap;
pub(crate) use hash::Mix;
pub use schema::*;
pub use store::{Hashed, Ordered, Store};

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
    /// What keeps them.
    type Store: Store<Self::Key, Self::Value>;

    /// Units and decisions that exist because a key does.
    fn work(_key: &Self::Key) -> Vec<Work> {
        Vec::new()
    }
}

/// A map whose changes are noted.
pub struct Table<S: Schema>(S::Store);

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

impl<S: Schema> Table<S> {
    /// Sets what is known by a key, or removes it.
    pub(crate) fn set<Q>(&mut self, key: &Q, value: Option<S::Value>, changes: &mut Changes)
    where
        S::Key: Borrow<Q>,
        Q: Ord + Hash + ToOwned<Owned = S::Key> + ?Sized,
    {
        match (self.0.find_mut(key), value) {
            (None, None) => {}
            (Some(known), Some(value)) if *known == value => {}
            (Some(known), Some(value)) => {
                *known = value;
                Self::note(key, None, changes);
            }
            (Some(_), None) => {
                self.0.take(key);
                Self::note(key, Some(false), changes);
            }
            (None, Some(value)) => {
                self.0.put(key.to_owned(), value);
                Self::note(key, Some(true), changes);
            }
        }
    }

    /// What is known by a key.
    pub(crate) fn value<Q>(&self, key: &Q) -> Option<&S::Value>
    where
        S::Key: Borrow<Q>,
        Q: Ord + Hash + ?Sized,
    {
        self.0.find(key)
    }

    /// Everything, in no order that means something.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&S::Key, &S::Value)> {
        self.0.entries()
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
        let Some(set) = self.0.find_mut(key) else {
            Self::note(key, Some(true), changes);
            return self.0.put(key.clone(), BTreeSet::from([element]));
        };
        if set.insert(element) {
            Self::note(key, None, changes);
        }
    }

    /// Takes an element out of the set of a key.
    pub(crate) fn exclude(&mut self, key: &S::Key, element: &T, changes: &mut Changes) {
        let Some(set) = self.0.find_mut(key) else { return };
        if !set.remove(element) {
            return;
        }
        let last = set.is_empty();
        if last {
            self.0.take(key);
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
    type Target = S::Store;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<S: Schema> Default for Table<S> {
    fn default() -> Self {
        Self(S::Store::default())
    }
}

impl<S: Schema> Clone for Table<S>
where
    S::Store: Clone,
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
    S::Store: fmt::Debug,
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
