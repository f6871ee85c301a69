//! Datums: the contents of a column, a set of atoms or a map between atoms.
//!
//! Sets and maps are sorted boxed slices, not trees: most hold one element, databases hold hundreds of thousands of
//! them, and they are read far more often than changed. The order and the absence of duplicates are kept by construction.

use std::cmp::Ordering;
use std::fmt;
use std::ops::Deref;

use serde::de::Error as _;
use serde::ser::SerializeTuple;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use uuid::Uuid;

use crate::atom::{Atom, InvalidValue};

/// The contents of a column. A scalar is a set of one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Datum {
    /// A set, including scalars (one element) and optional values (one or none).
    Set(Set),
    /// A map.
    Map(Map),
}

impl Datum {
    /// A set of no elements.
    pub fn empty_set() -> Self {
        Datum::Set(Set::default())
    }

    /// A map of no elements.
    pub fn empty_map() -> Self {
        Datum::Map(Map::default())
    }

    /// A scalar.
    pub fn scalar(atom: impl Into<Atom>) -> Self {
        Datum::Set(Set(Box::new([atom.into()])))
    }

    /// A scalar string.
    pub fn string(value: impl AsRef<str>) -> Self {
        Datum::scalar(value.as_ref())
    }

    /// A scalar integer.
    pub fn integer(value: i64) -> Self {
        Datum::scalar(value)
    }

    /// A scalar boolean.
    pub fn boolean(value: bool) -> Self {
        Datum::scalar(value)
    }

    /// A reference to one row.
    pub fn uuid(value: Uuid) -> Self {
        Datum::scalar(value)
    }

    /// A reference to the row that the same transaction inserts under this name.
    pub fn named_uuid(name: &str) -> Self {
        Datum::scalar(Atom::NamedUuid(name.into()))
    }

    /// A set of the given elements.
    pub fn set<A: Into<Atom>>(elements: impl IntoIterator<Item = A>) -> Self {
        Datum::Set(elements.into_iter().collect())
    }

    /// A map of the given pairs.
    pub fn map<K: Into<Atom>, V: Into<Atom>>(pairs: impl IntoIterator<Item = (K, V)>) -> Self {
        Datum::Map(pairs.into_iter().collect())
    }

    /// Whether it has no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of elements or pairs.
    pub fn len(&self) -> usize {
        match self {
            Datum::Set(set) => set.len(),
            Datum::Map(map) => map.len(),
        }
    }

    /// The only element of a set of one.
    pub fn as_atom(&self) -> Option<&Atom> {
        match self {
            Datum::Set(set) => match &**set {
                [atom] => Some(atom),
                _ => None,
            },
            Datum::Map(_) => None,
        }
    }

    /// The value of a scalar string.
    pub fn as_str(&self) -> Option<&str> {
        self.as_atom()?.as_str()
    }

    /// The value of a scalar integer.
    pub fn as_integer(&self) -> Option<i64> {
        self.as_atom()?.as_integer()
    }

    /// The value of a scalar boolean.
    pub fn as_bool(&self) -> Option<bool> {
        self.as_atom()?.as_bool()
    }

    /// The value of a scalar UUID.
    pub fn as_uuid(&self) -> Option<Uuid> {
        self.as_atom()?.as_uuid()
    }

    /// The set, if it is one.
    pub fn as_set(&self) -> Option<&Set> {
        match self {
            Datum::Set(set) => Some(set),
            Datum::Map(_) => None,
        }
    }

    /// The map, if it is one.
    pub fn as_map(&self) -> Option<&Map> {
        match self {
            Datum::Map(map) => Some(map),
            Datum::Set(_) => None,
        }
    }

    /// The elements of a set; none for a map.
    pub fn atoms(&self) -> impl Iterator<Item = &Atom> {
        self.as_set().into_iter().flat_map(|set| set.iter())
    }

    /// The strings of a set.
    pub fn strings(&self) -> impl Iterator<Item = &str> {
        self.atoms().filter_map(Atom::as_str)
    }

    /// The UUIDs of a set.
    pub fn uuids(&self) -> impl Iterator<Item = Uuid> {
        self.atoms().filter_map(Atom::as_uuid)
    }

    /// The string a map of strings has for this key.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.as_map()?.get(key)?.as_str()
    }

    /// What must be applied to `self` to reach `new`: the form in which servers report changes of sets and maps.
    ///
    /// `old.apply_difference(&old.difference(&new)) == new` for two datums of the same kind.
    pub fn difference(&self, new: &Datum) -> Datum {
        match (self, new) {
            (Datum::Set(old), Datum::Set(new)) => Datum::Set(old.symmetric_difference(new)),
            (Datum::Map(old), Datum::Map(new)) => Datum::Map(old.difference(new)),
            _ => new.clone(),
        }
    }

    /// Applies a [`difference`](Datum::difference).
    pub fn apply_difference(&self, difference: &Datum) -> Datum {
        match (self, difference) {
            (Datum::Set(old), Datum::Set(difference)) => Datum::Set(old.symmetric_difference(difference)),
            (Datum::Map(old), Datum::Map(difference)) => Datum::Map(old.apply_difference(difference)),
            _ => difference.clone(),
        }
    }

    /// Reads a datum from its JSON form.
    pub fn from_json(json: &Value) -> Result<Datum, InvalidValue> {
        match json.as_array().map(Vec::as_slice) {
            Some([Value::String(tag), Value::Array(elements)]) if tag == "set" => {
                Ok(Datum::Set(elements.iter().map(Atom::from_json).collect::<Result<_, _>>()?))
            }
            Some([Value::String(tag), Value::Array(pairs)]) if tag == "map" => Ok(Datum::Map(
                pairs
                    .iter()
                    .map(|pair| match pair.as_array().map(Vec::as_slice) {
                        Some([key, value]) => Ok((Atom::from_json(key)?, Atom::from_json(value)?)),
                        _ => Err(InvalidValue::new("not a pair", pair)),
                    })
                    .collect::<Result<_, _>>()?,
            )),
            _ => Ok(Datum::scalar(Atom::from_json(json)?)),
        }
    }
}

impl<A: Into<Atom>> From<A> for Datum {
    fn from(atom: A) -> Self {
        Datum::scalar(atom)
    }
}

impl fmt::Display for Datum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn list<T>(
            f: &mut fmt::Formatter<'_>,
            items: impl Iterator<Item = T>,
            item: impl Fn(&mut fmt::Formatter<'_>, T) -> fmt::Result,
        ) -> fmt::Result {
            for (index, value) in items.enumerate() {
                f.write_str(if index == 0 { "" } else { ", " })?;
                item(f, value)?;
            }
            Ok(())
        }
        match self {
            Datum::Set(set) if set.len() == 1 => write!(f, "{}", set[0]),
            Datum::Set(set) => {
                f.write_str("[")?;
                list(f, set.iter(), |f, atom| write!(f, "{atom}"))?;
                f.write_str("]")
            }
            Datum::Map(map) => {
                f.write_str("{")?;
                list(f, map.iter(), |f, (key, value)| write!(f, "{key}={value}"))?;
                f.write_str("}")
            }
        }
    }
}

impl Serialize for Datum {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut tuple = match self {
            Datum::Set(set) if set.len() == 1 => return set[0].serialize(serializer),
            Datum::Set(_) | Datum::Map(_) => serializer.serialize_tuple(2)?,
        };
        match self {
            Datum::Set(set) => {
                tuple.serialize_element("set")?;
                tuple.serialize_element(&**set)?;
            }
            Datum::Map(map) => {
                tuple.serialize_element("map")?;
                tuple.serialize_element(&map.0)?;
            }
        }
        tuple.end()
    }
}

impl<'de> Deserialize<'de> for Datum {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Datum::from_json(&Value::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

/// A set of atoms, sorted; reads like a slice.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Set(Box<[Atom]>);

impl Set {
    /// Whether the atom is an element.
    pub fn contains(&self, atom: &Atom) -> bool {
        self.0.binary_search(atom).is_ok()
    }

    /// The elements that are in exactly one of both sets.
    pub fn symmetric_difference(&self, other: &Set) -> Set {
        // A merge of two sorted slices: sets of ten thousand ports change one port at a time.
        let mut atoms = Vec::with_capacity(self.len() + other.len());
        let (mut left, mut right) = (&*self.0, &*other.0);
        while let ([a, left_rest @ ..], [b, right_rest @ ..]) = (left, right) {
            match a.cmp(b) {
                Ordering::Less => {
                    atoms.push(a.clone());
                    left = left_rest;
                }
                Ordering::Greater => {
                    atoms.push(b.clone());
                    right = right_rest;
                }
                Ordering::Equal => (left, right) = (left_rest, right_rest),
            }
        }
        atoms.extend_from_slice(left);
        atoms.extend_from_slice(right);
        Set(atoms.into_boxed_slice())
    }
}

impl Deref for Set {
    type Target = [Atom];

    fn deref(&self) -> &[Atom] {
        &self.0
    }
}

impl<A: Into<Atom>> FromIterator<A> for Set {
    fn from_iter<I: IntoIterator<Item = A>>(elements: I) -> Self {
        let mut atoms: Vec<Atom> = elements.into_iter().map(Into::into).collect();
        atoms.sort_unstable();
        atoms.dedup();
        Set(atoms.into_boxed_slice())
    }
}

impl<'a> IntoIterator for &'a Set {
    type Item = &'a Atom;
    type IntoIter = std::slice::Iter<'a, Atom>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

/// A map between atoms, sorted by key.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Map(Box<[(Atom, Atom)]>);

impl Map {
    /// The number of pairs.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no pairs.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The pairs in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = (&Atom, &Atom)> {
        self.0.iter().map(|(key, value)| (key, value))
    }

    /// The value of a key.
    pub fn get_atom(&self, key: &Atom) -> Option<&Atom> {
        let index = self.0.binary_search_by(|(candidate, _)| candidate.cmp(key)).ok()?;
        self.0.get(index).map(|(_, value)| value)
    }

    /// The value of a string key.
    pub fn get(&self, key: &str) -> Option<&Atom> {
        self.get_atom(&Atom::from(key))
    }

    fn difference(&self, new: &Map) -> Map {
        let removed = self.0.iter().filter(|(key, _)| new.get_atom(key).is_none());
        let changed = new.0.iter().filter(|(key, value)| self.get_atom(key) != Some(value));
        removed.chain(changed).cloned().collect()
    }

    fn apply_difference(&self, difference: &Map) -> Map {
        let kept = self.0.iter().filter(|(key, _)| difference.get_atom(key).is_none());
        let changed = difference.0.iter().filter(|(key, value)| self.get_atom(key) != Some(value));
        kept.chain(changed).cloned().collect()
    }
}

impl<K: Into<Atom>, V: Into<Atom>> FromIterator<(K, V)> for Map {
    /// The last of several values for one key wins.
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        let mut pairs: Vec<(Atom, Atom)> = pairs.into_iter().map(|(key, value)| (key.into(), value.into())).collect();
        // A stable sort of the reverse puts the last value of a key first, which is the one dedup keeps.
        pairs.reverse();
        pairs.sort_by(|(a, _), (b, _)| a.cmp(b));
        pairs.dedup_by(|(later, _), (first, _)| later == first);
        Map(pairs.into_boxed_slice())
    }
}
