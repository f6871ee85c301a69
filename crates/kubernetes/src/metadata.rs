//! What of an object's metadata is kept, and the two shapes most objects have.

use std::collections::BTreeMap;
use std::fmt;

use netloom_network::Namespaced;
use netloom_network::annotations::PREFIX;
use netloom_network::isolation::ISOLATED;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::null;

/// Metadata, cut down.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Metadata {
    #[serde(deserialize_with = "null::as_default")]
    pub name: String,
    #[serde(deserialize_with = "null::as_default")]
    pub namespace: String,
    #[serde(deserialize_with = "null::as_default")]
    pub uid: String,
    #[serde(deserialize_with = "null::as_default")]
    pub resource_version: String,
    #[serde(deserialize_with = "null::as_default")]
    pub creation_timestamp: String,
    #[serde(deserialize_with = "texts")]
    pub labels: BTreeMap<String, String>,
    /// Those that the network reads.
    #[serde(deserialize_with = "relevant")]
    pub annotations: BTreeMap<String, String>,
}

impl Metadata {
    /// Namespace and name.
    pub fn namespaced(self) -> Namespaced {
        Namespaced {
            namespace: self.namespace,
            name: self.name,
        }
    }
}

/// An object as it is written.
#[derive(Default, Deserialize)]
#[serde(
    default,
    bound(deserialize = "Spec: Deserialize<'de> + Default, Status: Deserialize<'de> + Default")
)]
pub struct Written<Spec, Status = IgnoredAny> {
    #[serde(deserialize_with = "null::as_default")]
    pub metadata: Metadata,
    #[serde(deserialize_with = "null::as_default")]
    pub spec: Spec,
    #[serde(deserialize_with = "null::as_default")]
    pub status: Status,
}

/// Whatever has metadata.
pub trait HasMetadata {
    /// It.
    fn metadata(&mut self) -> &mut Metadata;
}

impl<Spec, Status> HasMetadata for Written<Spec, Status> {
    fn metadata(&mut self) -> &mut Metadata {
        &mut self.metadata
    }
}

/// A map of texts; a null in it is an empty one.
pub fn texts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, String>, D::Error> {
    deserializer.deserialize_option(Texts { wanted: |_| true })
}

/// Annotations that the network reads; the others, which may be long, are skipped.
fn relevant<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, String>, D::Error> {
    deserializer.deserialize_option(Texts {
        wanted: |name| name.starts_with(PREFIX) || name == ISOLATED,
    })
}

/// Reads the entries of a map whose name is wanted.
struct Texts {
    wanted: fn(&str) -> bool,
}

impl<'de> Visitor<'de> for Texts {
    type Value = BTreeMap<String, String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map of texts")
    }

    fn visit_none<E>(self) -> Result<Self::Value, E> {
        Ok(BTreeMap::new())
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(BTreeMap::new())
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut read = BTreeMap::new();
        while let Some(name) = map.next_key::<String>()? {
            if (self.wanted)(&name) {
                read.insert(name, map.next_value::<Option<String>>()?.unwrap_or_default());
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(read)
    }
}
