//! The schema of a database: which tables and columns exist, of which types, and what their defaults are.
//!
//! Parsed from an `.ovsschema` file or a `get_schema` reply. The replica and the client use it to turn rows from the
//! wire into canonical [`Row`]s; nothing here validates what a client is about to write, the server does that.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;
use uuid::Uuid;

use crate::atom::{Atom, InvalidValue, Real};
use crate::datum::Datum;
use crate::row::Row;

/// A database schema.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Schema {
    /// The name of the database.
    pub name: String,
    /// The version of the schema, `x.y.z`.
    #[serde(default)]
    pub version: String,
    /// The tables by name.
    pub tables: BTreeMap<String, TableSchema>,
}

/// The columns and constraints of a table.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct TableSchema {
    /// The columns by name, without the implicit `_uuid` and `_version`.
    pub columns: BTreeMap<String, ColumnSchema>,
    /// Whether rows live on without being referred to.
    #[serde(default, rename = "isRoot")]
    pub is_root: bool,
    /// The most rows the table may have.
    #[serde(default, rename = "maxRows")]
    pub max_rows: Option<u64>,
    /// The sets of columns that must be unique together.
    #[serde(default)]
    pub indexes: Vec<Vec<String>>,
}

/// The type of a column.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "wire::Column")]
pub struct ColumnSchema {
    /// Which of the four shapes the column has, with the types of its atoms.
    pub kind: Kind,
    /// The fewest elements.
    pub min: u64,
    /// The most elements, `None` if unlimited.
    pub max: Option<u64>,
    /// The table and strength of references in elements or keys.
    pub key_reference: Option<Reference>,
    /// The table and strength of references in values of a map.
    pub value_reference: Option<Reference>,
    /// The strings allowed for elements or keys, if restricted.
    pub choices: Vec<String>,
    /// Whether the column may change after the row was inserted.
    pub mutable: bool,
    /// Whether the contents may be lost when the server restarts.
    pub ephemeral: bool,
}

/// A reference to rows of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// The table referred to.
    pub table: String,
    /// Whether the reference keeps the row alive and must not dangle.
    pub strong: bool,
}

/// The type of an atom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AtomType {
    /// A 64-bit signed integer.
    Integer,
    /// A floating-point number.
    Real,
    /// True or false.
    Boolean,
    /// A string.
    String,
    /// The identity of a row.
    Uuid,
}

/// The shape of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Exactly one value.
    Scalar(AtomType),
    /// One value or none.
    Optional(AtomType),
    /// Any number of values.
    Set(AtomType),
    /// Pairs of key and value.
    Map(AtomType, AtomType),
}

impl AtomType {
    /// The value of a scalar that was never set.
    pub fn default_atom(self) -> Atom {
        match self {
            AtomType::Integer => Atom::Integer(0),
            AtomType::Real => Atom::Real(Real::default()),
            AtomType::Boolean => Atom::Boolean(false),
            AtomType::String => Atom::from(""),
            AtomType::Uuid => Atom::Uuid(Uuid::nil()),
        }
    }

    /// The atom as this type; reals with no fraction travel as integers.
    fn coerce(self, atom: Atom) -> Atom {
        match (self, atom) {
            (AtomType::Real, Atom::Integer(value)) => Atom::from(value as f64),
            (_, atom) => atom,
        }
    }
}

impl Kind {
    /// The contents of a column that was never set.
    pub fn default_datum(self) -> Datum {
        match self {
            Kind::Scalar(atom) => Datum::scalar(atom.default_atom()),
            Kind::Optional(_) | Kind::Set(_) => Datum::empty_set(),
            Kind::Map(..) => Datum::empty_map(),
        }
    }

    /// Whether the datum is what [`default_datum`](Kind::default_datum) returns, without making one.
    pub fn is_default(self, datum: &Datum) -> bool {
        match (self, datum) {
            (Kind::Scalar(AtomType::String), datum) => datum.as_str() == Some(""),
            (Kind::Scalar(atom), datum) => datum.as_atom() == Some(&atom.default_atom()),
            (_, datum) => datum.is_empty(),
        }
    }

    /// Whether servers report a change as a difference (sets and maps) instead of the new value.
    pub fn changes_by_difference(self) -> bool {
        matches!(self, Kind::Set(_) | Kind::Map(..))
    }

    /// The datum in the one form this kind of column has.
    pub fn normalize(self, datum: Datum) -> Datum {
        match (self, datum) {
            (Kind::Map(..), Datum::Set(set)) if set.is_empty() => Datum::empty_map(),
            (Kind::Map(key, value), Datum::Map(map)) if key == AtomType::Real || value == AtomType::Real => {
                Datum::map(map.iter().map(|(k, v)| (key.coerce(k.clone()), value.coerce(v.clone()))))
            }
            (Kind::Scalar(AtomType::Real) | Kind::Optional(AtomType::Real) | Kind::Set(AtomType::Real), Datum::Set(set)) => {
                Datum::set(set.iter().map(|atom| AtomType::Real.coerce(atom.clone())))
            }
            (_, datum) => datum,
        }
    }
}

impl ColumnSchema {
    /// The contents of the column in a row that does not mention it.
    pub fn default_datum(&self) -> Datum {
        self.kind.default_datum()
    }
}

impl Schema {
    /// Parses a schema.
    pub fn parse(json: &str) -> Result<Schema, SchemaError> {
        Ok(serde_json::from_str(json)?)
    }

    /// Reads a schema from a `get_schema` reply.
    pub fn from_json(json: &Value) -> Result<Schema, SchemaError> {
        Ok(Schema::deserialize(json)?)
    }

    /// The table of this name.
    pub fn table(&self, table: &str) -> Result<&TableSchema, UnknownName> {
        self.tables.get(table).ok_or_else(|| UnknownName(format!("table `{table}`")))
    }

    /// Turns a row from the wire into a canonical row.
    pub fn normalize(&self, table: &str, json: &Value) -> Result<Row, NormalizeError> {
        self.table(table)?.normalize(json)
    }
}

impl TableSchema {
    /// The kind of a column, including the implicit ones.
    pub fn kind(&self, column: &str) -> Result<Kind, UnknownName> {
        match self.columns.get(column) {
            Some(schema) => Ok(schema.kind),
            None if column == "_uuid" || column == "_version" => Ok(Kind::Scalar(AtomType::Uuid)),
            None => Err(UnknownName(format!("column `{column}`"))),
        }
    }

    /// Turns a row from the wire into a canonical row.
    pub fn normalize(&self, json: &Value) -> Result<Row, NormalizeError> {
        let columns = json.as_object().ok_or_else(|| InvalidValue::new("not a row", json))?;
        let mut row = Row::new();
        for (column, value) in columns {
            let kind = self.kind(column)?;
            let datum = kind.normalize(Datum::from_json(value)?);
            if !kind.is_default(&datum) {
                row.insert(column, datum);
            }
        }
        Ok(row)
    }
}

/// A document that is not a database schema.
#[derive(Debug, thiserror::Error)]
#[error("parse database schema: {0}")]
pub struct SchemaError(#[from] serde_json::Error);

/// A name that the schema does not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the schema has no {0}")]
pub struct UnknownName(String);

/// A row that does not fit the schema.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NormalizeError {
    /// A table or column is not in the schema.
    #[error(transparent)]
    Unknown(#[from] UnknownName),
    /// A value is not well formed.
    #[error(transparent)]
    Invalid(#[from] InvalidValue),
}

/// The JSON forms of a column, which have several abbreviations.
mod wire {
    use serde::Deserialize;
    use serde_json::Value;

    use super::{AtomType, ColumnSchema, Kind, Reference};

    #[derive(Deserialize)]
    pub(super) struct Column {
        r#type: Type,
        #[serde(default)]
        ephemeral: bool,
        mutable: Option<bool>,
    }

    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Type {
        Atom(AtomType),
        Full(Box<Full>),
    }

    #[derive(Deserialize)]
    struct Full {
        key: Base,
        value: Option<Base>,
        min: Option<u64>,
        max: Option<Limit>,
    }

    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Limit {
        Count(u64),
        Word(String),
    }

    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Base {
        Atom(AtomType),
        Full {
            r#type: AtomType,
            r#enum: Option<Value>,
            #[serde(rename = "refTable")]
            ref_table: Option<String>,
            #[serde(rename = "refType")]
            ref_type: Option<String>,
        },
    }

    impl Base {
        fn atom_type(&self) -> AtomType {
            match self {
                Base::Atom(atom) => *atom,
                Base::Full { r#type, .. } => *r#type,
            }
        }

        fn reference(&self) -> Option<Reference> {
            match self {
                Base::Full {
                    ref_table: Some(table),
                    ref_type,
                    ..
                } => Some(Reference {
                    table: table.clone(),
                    strong: ref_type.as_deref() != Some("weak"),
                }),
                _ => None,
            }
        }

        fn choices(&self) -> Vec<String> {
            match self {
                Base::Full { r#enum: Some(json), .. } => crate::Datum::from_json(json)
                    .map(|datum| datum.strings().map(str::to_owned).collect())
                    .unwrap_or_default(),
                _ => Vec::new(),
            }
        }
    }

    impl TryFrom<Column> for ColumnSchema {
        type Error = String;

        fn try_from(column: Column) -> Result<Self, String> {
            let (key, value, min, max) = match column.r#type {
                Type::Atom(atom) => (Base::Atom(atom), None, 1, Some(1)),
                Type::Full(full) => {
                    let Full { key, value, min, max } = *full;
                    let max = match max {
                        None => Some(1),
                        Some(Limit::Count(count)) => Some(count),
                        Some(Limit::Word(word)) if word == "unlimited" => None,
                        Some(Limit::Word(word)) => return Err(format!("`max` is `{word}`")),
                    };
                    (key, value, min.unwrap_or(1), max)
                }
            };
            let kind = match (&value, min, max) {
                (Some(value), ..) => Kind::Map(key.atom_type(), value.atom_type()),
                (None, 0, Some(1)) => Kind::Optional(key.atom_type()),
                (None, _, Some(1)) => Kind::Scalar(key.atom_type()),
                (None, ..) => Kind::Set(key.atom_type()),
            };
            Ok(ColumnSchema {
                kind,
                min,
                max,
                key_reference: key.reference(),
                value_reference: value.as_ref().and_then(Base::reference),
                choices: key.choices(),
                mutable: column.mutable.unwrap_or(true),
                ephemeral: column.ephemeral,
            })
        }
    }
}
