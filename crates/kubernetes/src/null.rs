//! What Go writes for what is empty: `null`. A field that is null is one that was not written, here as in Kubernetes itself.

use serde::{Deserialize, Deserializer, de};
use serde_json::Value;

/// Reads null as the default.
pub fn as_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(deserializer: D) -> Result<T, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// A value that is read without its nulls: for types of the core, which know none.
#[derive(Default)]
pub struct Given<T>(pub T);

impl<'de, T: de::DeserializeOwned> Deserialize<'de> for Given<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut value = Value::deserialize(deserializer)?;
        remove(&mut value);
        T::deserialize(value).map(Self).map_err(de::Error::custom)
    }
}

/// Removes fields that are null, however deep they are. Not for maps that users fill: there a null is an empty text.
fn remove(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(remove);
        }
        Value::Array(items) => items.iter_mut().for_each(remove),
        _ => {}
    }
}
