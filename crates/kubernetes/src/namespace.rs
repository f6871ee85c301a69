//! Namespaces: their labels and annotations.

use netloom_network::{Namespace, Object};
use serde::de::IgnoredAny;

use crate::metadata::Written;

/// A namespace.
pub fn read(written: Written<IgnoredAny>) -> Option<Object> {
    let metadata = written.metadata;
    let namespace = Namespace::new(&metadata.name, metadata.uid, metadata.labels.0).annotated(metadata.annotations.0);
    Some(Object::Namespace(metadata.name, namespace))
}
