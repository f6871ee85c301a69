//! The parts of an object's metadata that are kept, and the shape most objects have.

use netloom_network::Namespaced;
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::null::{self, shape};
use crate::texts::{Annotations, Labels};

shape! {
    /// Metadata, without what the network does not need.
    pub struct Metadata {
        pub name: String,
        pub namespace: String,
        pub uid: String,
        pub resource_version: String,
        pub creation_timestamp: String,
        pub labels: Labels,
        pub annotations: Annotations,
    }
}

impl Metadata {
    /// Takes namespace and name.
    pub fn namespaced(&mut self) -> Namespaced {
        Namespaced {
            namespace: std::mem::take(&mut self.namespace),
            name: std::mem::take(&mut self.name),
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

/// Anything with metadata.
pub trait HasMetadata {
    /// Its metadata.
    fn metadata(&mut self) -> &mut Metadata;
}

impl<Spec, Status> HasMetadata for Written<Spec, Status> {
    fn metadata(&mut self) -> &mut Metadata {
        &mut self.metadata
    }
}
