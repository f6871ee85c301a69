//! What a kind is: its names, scope, subresources, and the functions that make it behave. Built-in kinds are rows of the
//! table in [`crate::native`]; custom ones are read from their CustomResourceDefinition. The verbs know neither: they ask
//! the [`Kind`].

use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError, RwLock},
};

use serde_json::Value;

use crate::{
    crd::Custom,
    native::{NATIVE, Native},
    status::{Cause, Failure, Result},
};

/// One kind in one version.
#[derive(Debug, Clone)]
pub struct Kind {
    /// API group, "" for the core group.
    pub group: String,
    /// Version inside the group.
    pub version: String,
    /// e.g. `Pod`.
    pub kind: String,
    /// e.g. `PodList`.
    pub list_kind: String,
    /// e.g. `pods`.
    pub plural: String,
    /// e.g. `pod`.
    pub singular: String,
    /// e.g. `po`.
    pub short_names: Vec<String>,
    /// e.g. `all`.
    pub categories: Vec<String>,
    /// Whether objects live in namespaces.
    pub namespaced: bool,
    /// `status`, `scale`…
    pub subresources: Vec<String>,
    /// Where its behaviour comes from.
    pub source: Source,
}

/// Where the behaviour of a kind comes from.
#[derive(Debug, Clone)]
pub enum Source {
    /// Built in.
    Native(&'static Native),
    /// A CustomResourceDefinition.
    Custom(Arc<Custom>),
}

impl Kind {
    fn native(native: &'static Native) -> Self {
        let owned = |list: &[&str]| list.iter().map(|&s| s.to_owned()).collect();
        Self {
            group: native.group.into(),
            version: native.version.into(),
            kind: native.kind.into(),
            list_kind: format!("{}List", native.kind),
            plural: native.plural.into(),
            singular: native.kind.to_lowercase(),
            short_names: owned(native.short_names),
            categories: owned(native.categories),
            namespaced: native.namespaced,
            subresources: owned(native.subresources),
            source: Source::Native(native),
        }
    }

    /// `pods`, `deployments.apps`: the name of the resource across groups, also its name in the store.
    pub fn resource(&self) -> String {
        if self.group.is_empty() {
            self.plural.clone()
        } else {
            format!("{}.{}", self.plural, self.group)
        }
    }

    /// `Pod`, `Deployment.apps`: how messages about invalid objects name the kind.
    pub fn qualified(&self) -> String {
        if self.group.is_empty() {
            self.kind.clone()
        } else {
            format!("{}.{}", self.kind, self.group)
        }
    }

    /// `v1`, `apps/v1`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.clone()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// Whether the kind has this subresource.
    pub fn has(&self, subresource: &str) -> bool {
        self.subresources.iter().any(|s| s == subresource)
    }

    /// Whether this is the built-in kind with that plural name.
    pub fn is(&self, plural: &str) -> bool {
        matches!(self.source, Source::Native(_)) && self.plural == plural
    }

    /// Fields a field selector may name, besides name and namespace.
    pub fn selectable_fields(&self) -> Vec<&str> {
        match &self.source {
            Source::Native(native) => native.fields.to_vec(),
            Source::Custom(custom) => custom.selectable_fields.iter().map(String::as_str).collect(),
        }
    }

    /// Checks the types of all fields, drops unknown ones and fills in defaults.
    pub fn normalize(&self, value: Value) -> Result<Value> {
        match &self.source {
            Source::Native(native) => {
                let mut value = native.convert(&value, self)?;
                (native.default)(&mut value);
                Ok(value)
            }
            Source::Custom(custom) => Ok(custom.normalize(value)),
        }
    }

    /// The fields of an object that this kind does not have.
    pub fn unknown_fields(&self, value: &Value) -> Result<Vec<String>> {
        let known = match &self.source {
            Source::Native(native) => native.convert(value, self)?,
            Source::Custom(custom) => custom.pruned(value.clone()),
        };
        let mut lost = Vec::new();
        missing(value, &known, "", &mut lost);
        Ok(lost)
    }

    /// Everything that is wrong with an object; `old` is the one it replaces.
    pub fn validate(&self, new: &Value, old: Option<&Value>) -> Vec<Cause> {
        match &self.source {
            Source::Native(native) => (native.validate)(new, old),
            Source::Custom(custom) => custom.validate(new),
        }
    }

    /// Whether a change from `old` to `new` is one of intent, which `metadata.generation` counts.
    pub fn intent_changed(&self, old: &Value, new: &Value) -> bool {
        match &self.source {
            Source::Native(native) => native.generation && old.get("spec") != new.get("spec"),
            Source::Custom(_) => {
                let intent = |value: &Value| {
                    let mut value = value.clone();
                    for other in ["metadata", "status", "apiVersion", "kind"] {
                        crate::json::object(&mut value).remove(other);
                    }
                    value
                };
                intent(old) != intent(new)
            }
        }
    }

    /// Whether objects of the kind carry `metadata.generation`.
    pub fn has_generation(&self) -> bool {
        match &self.source {
            Source::Native(native) => native.generation,
            Source::Custom(_) => true,
        }
    }
}

/// The fields of `given` that `kept` has not.
fn missing(given: &Value, kept: &Value, path: &str, lost: &mut Vec<String>) {
    match given {
        Value::Object(map) => {
            for (key, value) in map.iter().filter(|(_, value)| !value.is_null()) {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                match kept.get(key) {
                    Some(kept) => missing(value, kept, &path, lost),
                    None => lost.push(path),
                }
            }
        }
        Value::Array(list) => {
            for (index, (value, kept)) in list.iter().zip(kept.as_array().into_iter().flatten()).enumerate() {
                missing(value, kept, &format!("{path}[{index}]"), lost);
            }
        }
        _ => {}
    }
}

type Kinds = BTreeMap<(String, String, String), Arc<Kind>>;

/// All kinds served at the moment.
pub struct Registry {
    native: Kinds,
    current: RwLock<Arc<Kinds>>,
}

impl Default for Registry {
    fn default() -> Self {
        let native: Kinds = NATIVE.iter().map(Kind::native).map(entry).collect();
        Self {
            current: RwLock::new(Arc::new(native.clone())),
            native,
        }
    }
}

fn entry(kind: Kind) -> ((String, String, String), Arc<Kind>) {
    ((kind.group.clone(), kind.version.clone(), kind.plural.clone()), Arc::new(kind))
}

impl Registry {
    /// The kind behind a path.
    pub fn find(&self, group: &str, version: &str, plural: &str) -> Result<Arc<Kind>> {
        let key = (group.to_owned(), version.to_owned(), plural.to_owned());
        self.kinds().get(&key).cloned().ok_or_else(Failure::no_such_path)
    }

    /// The kind an `apiVersion` and `kind` name.
    pub fn by_name(&self, api_version: &str, kind: &str) -> Option<Arc<Kind>> {
        self.all().into_iter().find(|k| k.kind == kind && k.api_version() == api_version)
    }

    /// Every kind, ordered by group, version and name.
    pub fn all(&self) -> Vec<Arc<Kind>> {
        self.kinds().values().cloned().collect()
    }

    /// One kind per resource: the same objects may be served in several versions.
    pub fn resources(&self) -> Vec<Arc<Kind>> {
        let mut seen = std::collections::BTreeSet::new();
        self.all().into_iter().filter(|kind| seen.insert(kind.resource())).collect()
    }

    /// Replaces all custom kinds by those that these CustomResourceDefinitions define.
    pub fn define<'a>(&self, definitions: impl Iterator<Item = &'a Value>) {
        let mut kinds = self.native.clone();
        for kind in definitions.flat_map(crate::crd::kinds) {
            let (key, kind) = entry(kind);
            kinds.entry(key).or_insert(kind);
        }
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(kinds);
    }

    fn kinds(&self) -> Arc<Kinds> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
