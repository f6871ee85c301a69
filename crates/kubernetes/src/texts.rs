//! Maps of texts that users fill: labels, selectors, and the annotations the network reads. A null among them is an empty text.

use std::collections::BTreeMap;
use std::fmt;

use netloom_contract::annotation::PREFIX;
use netloom_network::isolation::ISOLATED;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// Labels, all of them.
#[derive(Default)]
pub struct Labels(pub BTreeMap<String, String>);

/// Annotations that the network reads. The others, which may be long, are skipped.
#[derive(Default)]
pub struct Annotations(pub BTreeMap<String, String>);

impl<'de> Deserialize<'de> for Labels {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Named(|_| true)).map(Self)
    }
}

impl<'de> Deserialize<'de> for Annotations {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let ours = Named(|name| name.starts_with(PREFIX) || name == ISOLATED);
        deserializer.deserialize_map(ours).map(Self)
    }
}

/// Reads the entries with such a name.
struct Named(fn(&str) -> bool);

impl<'de> Visitor<'de> for Named {
    type Value = BTreeMap<String, String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map of texts")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut read = BTreeMap::new();
        while let Some(name) = map.next_key::<String>()? {
            if (self.0)(&name) {
                read.insert(name, map.next_value::<Option<String>>()?.unwrap_or_default());
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(read)
    }
}
