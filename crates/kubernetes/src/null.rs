//! Go writes `null` for a list or map that is empty. A field that is null is read as one that is missing, as Kubernetes itself does.

use serde::{Deserialize, Deserializer, de};
use serde_json::Value;

/// JSON objects of which every field may be missing or null.
macro_rules! shape {
    ($($(#[$about:meta])* $visibility:vis struct $name:ident { $($(#[$of:meta])* $shown:vis $field:ident: $type:ty,)* })*) => {$(
        $(#[$about])*
        #[derive(Default, serde::Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        $visibility struct $name {
            $(
                $(#[$of])*
                #[serde(deserialize_with = "crate::null::as_default")]
                $shown $field: $type,
            )*
        }
    )*};
}
pub(crate) use shape;

/// Reads null as the default.
pub fn as_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(deserializer: D) -> Result<T, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// A value that is read without its nulls, for types of the core that do not accept them.
#[derive(Default)]
pub struct Given<T>(pub T);

impl<'de, T: de::DeserializeOwned> Deserialize<'de> for Given<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut value = Value::deserialize(deserializer)?;
        remove(&mut value);
        T::deserialize(value).map(Self).map_err(de::Error::custom)
    }
}

/// Removes fields that are null at any depth. Not for maps that users fill, where a null is an empty text.
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
