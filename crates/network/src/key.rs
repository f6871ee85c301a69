//! Identity of rows: a readable key names a row, its UUID follows from table and key, so references between rows are plain values
//! and two processes that never met agree on them.

use std::fmt;

use uuid::Uuid;

/// Fixed for all time: changing it orphans every row ever written.
const NAMESPACE: Uuid = Uuid::from_u128(0x6e65_746c_6f6f_6d2e_8f3a_94b1_07c6_52d8);

/// A readable row key, e.g. `port/default/web-0/eth0`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(String);

impl Key {
    /// A key from its text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The key as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The UUID of the row with this key in `table`.
    pub fn uuid(&self, table: &str) -> Uuid {
        Uuid::new_v5(&NAMESPACE, format!("{table}/{}", self.0).as_bytes())
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
