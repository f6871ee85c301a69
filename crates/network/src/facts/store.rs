//! What keeps the values of a table: in the order of the keys, or found in one step.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::hash::Hash;

use crate::facts::HashMap;

/// For tables that are read in the order of their keys.
pub type Ordered<K, V> = BTreeMap<K, V>;
/// For tables with an entry per pod, which are looked up for every change.
pub type Hashed<K, V> = HashMap<K, V>;

/// What both can do.
pub trait Store<K, V>: Default + PartialEq {
    /// What is known by a key.
    fn find<Q: Ord + Hash + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>;
    /// The same, to change it.
    fn find_mut<Q: Ord + Hash + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>;
    /// Adds a key.
    fn put(&mut self, key: K, value: V);
    /// Takes a key away.
    fn take<Q: Ord + Hash + ?Sized>(&mut self, key: &Q)
    where
        K: Borrow<Q>;
    /// Everything.
    fn entries<'a>(&'a self) -> impl Iterator<Item = (&'a K, &'a V)>
    where
        K: 'a,
        V: 'a;
}

macro_rules! store {
    ($map:ident) => {
        impl<K: Ord + Hash, V: PartialEq> Store<K, V> for $map<K, V> {
            fn find<Q: Ord + Hash + ?Sized>(&self, key: &Q) -> Option<&V>
            where
                K: Borrow<Q>,
            {
                self.get(key)
            }

            fn find_mut<Q: Ord + Hash + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
            where
                K: Borrow<Q>,
            {
                self.get_mut(key)
            }

            fn put(&mut self, key: K, value: V) {
                self.insert(key, value);
            }

            fn take<Q: Ord + Hash + ?Sized>(&mut self, key: &Q)
            where
                K: Borrow<Q>,
            {
                self.remove(key);
            }

            fn entries<'a>(&'a self) -> impl Iterator<Item = (&'a K, &'a V)>
            where
                K: 'a,
                V: 'a,
            {
                self.iter()
            }
        }
    };
}

store!(Ordered);
store!(Hashed);
