//! What generated row types are made of: the trait they implement and the conversions of their fields.
//!
//! Reading is total: a column that is absent or of another type becomes the field's default. Writing leaves defaults
//! out, so the result is a canonical [`Row`].

use std::collections::{BTreeMap, BTreeSet};

use uuid::Uuid;

use crate::atom::{Atom, Real};
use crate::datum::Datum;
use crate::row::Row;
use crate::schema::Kind;

/// A typed row of a table.
pub trait Table: Sized {
    /// The name of the table.
    const TABLE: &'static str;
    /// The columns of the table, sorted by name.
    const COLUMNS: &'static [Column];

    /// The canonical row: columns that hold their default are left out.
    fn to_row(&self) -> Row;

    /// Reads a row; what is missing or of another type becomes the default.
    fn from_row(row: &Row) -> Self;
}

/// What is known about a column when the program is compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// The name.
    pub name: &'static str,
    /// The shape and the types of the atoms.
    pub kind: Kind,
    /// The table that elements or keys refer to.
    pub refers_to: Option<&'static str>,
    /// The table that the values of a map refer to.
    pub values_refer_to: Option<&'static str>,
    /// Whether it may change after the row was inserted.
    pub mutable: bool,
}

impl Column {
    /// The contents that a row without the column has.
    pub fn default_datum(&self) -> Datum {
        self.kind.default_datum()
    }
}

/// A type that is one atom.
pub trait Scalar: Ord + Sized {
    /// The atom.
    fn to_atom(&self) -> Atom;
    /// The value of an atom of the right type.
    fn from_atom(atom: &Atom) -> Option<Self>;
}

macro_rules! scalar {
    ($type:ty, $to:expr, $from:expr) => {
        impl Scalar for $type {
            fn to_atom(&self) -> Atom {
                ($to)(self)
            }

            fn from_atom(atom: &Atom) -> Option<Self> {
                ($from)(atom)
            }
        }

        impl Field for $type {
            fn to_datum(&self) -> Option<Datum> {
                (*self != Self::default()).then(|| Datum::scalar(self.to_atom()))
            }

            fn from_datum(datum: &Datum) -> Option<Self> {
                datum.as_atom().and_then(Self::from_atom)
            }
        }
    };
}

/// A type that is the contents of a column.
pub trait Field: Default {
    /// The contents, or `None` for the default.
    fn to_datum(&self) -> Option<Datum>;
    /// The value of contents of the right type.
    fn from_datum(datum: &Datum) -> Option<Self>;
}

scalar!(String, |value: &String| Atom::from(value.as_str()), |atom: &Atom| atom
    .as_str()
    .map(str::to_owned));
scalar!(i64, |value: &i64| Atom::from(*value), Atom::as_integer);
scalar!(bool, |value: &bool| Atom::from(*value), Atom::as_bool);
scalar!(Uuid, |value: &Uuid| Atom::from(*value), Atom::as_uuid);
scalar!(Real, |value: &Real| Atom::from(*value), |atom: &Atom| atom.as_real().map(Real::new));

impl<T: Scalar> Field for Option<T> {
    fn to_datum(&self) -> Option<Datum> {
        self.as_ref().map(|value| Datum::scalar(value.to_atom()))
    }

    fn from_datum(datum: &Datum) -> Option<Self> {
        Some(datum.as_atom().and_then(T::from_atom))
    }
}

impl<T: Scalar> Field for BTreeSet<T> {
    fn to_datum(&self) -> Option<Datum> {
        (!self.is_empty()).then(|| Datum::set(self.iter().map(T::to_atom)))
    }

    fn from_datum(datum: &Datum) -> Option<Self> {
        Some(datum.atoms().filter_map(T::from_atom).collect())
    }
}

impl<K: Scalar, V: Scalar> Field for BTreeMap<K, V> {
    fn to_datum(&self) -> Option<Datum> {
        (!self.is_empty()).then(|| Datum::map(self.iter().map(|(key, value)| (key.to_atom(), value.to_atom()))))
    }

    fn from_datum(datum: &Datum) -> Option<Self> {
        let pairs = datum.as_map()?.iter();
        Some(
            pairs
                .filter_map(|(key, value)| Some((K::from_atom(key)?, V::from_atom(value)?)))
                .collect(),
        )
    }
}

/// Writes a field into a row, unless it holds the default.
pub fn put<F: Field>(row: &mut Row, column: &'static str, field: &F) {
    if let Some(datum) = field.to_datum() {
        row.insert_known(column, datum);
    }
}

/// Reads a field from a row.
pub fn get<F: Field>(row: &Row, column: &str) -> F {
    row.get(column).and_then(F::from_datum).unwrap_or_default()
}
