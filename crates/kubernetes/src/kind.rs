//! The kinds the network depends on. Each is stated once, as a row of the table in `kind/table.rs`; reading, watching, listing, naming,
//! rights and definitions are derived from the rows, or tested against them (`tests/chart.rs`).

mod table;

use netloom_network::{Cluster, Object, ObjectRef};
use serde::{Deserialize, Deserializer};

use crate::metadata::HasMetadata;
pub(crate) use table::DEFAULT;
pub use table::Kind;

/// What Kubernetes has to know of a kind, and people of its objects.
#[derive(Debug)]
pub struct Resource {
    /// Group; empty for Kubernetes' first one.
    pub group: &'static str,
    /// Version.
    pub version: &'static str,
    /// The name in paths, e.g. `pods`.
    pub plural: &'static str,
    /// Whether its objects are in namespaces.
    pub namespaced: bool,
    /// Whether the API server may lack the kind; then there is no object of it.
    pub optional: bool,
    /// A label selector for the objects that matter; it may only ask whether labels exist.
    pub selector: &'static str,
    /// The condition that shows problems of an object; none for kinds whose status is not ours to write.
    pub condition: Option<&'static str>,
    /// The condition's message on an object that has no problem; none for kinds that only show problems.
    pub in_force: Option<&'static str>,
    /// The CustomResourceDefinition; none for Kubernetes' own kinds.
    pub definition: Option<&'static str>,
}

/// A row of the table.
struct Row {
    name: &'static str,
    resource: Resource,
    /// Objects that a new list does not have any more.
    absent: fn(&Cluster, &[Object]) -> Vec<Object>,
}

/// An object that was read.
#[derive(Clone, Debug)]
pub struct Read {
    /// Its `metadata.resourceVersion`.
    pub resource_version: String,
    /// None for an object the network does not depend on.
    pub object: Option<Object>,
}

/// Something to do with a kind that must be known at compile time: a type that a library deserializes has no other way to know its kind.
pub trait Visit {
    /// The result.
    type Output;

    /// Does it for [`Kind::ALL`]`[KIND]`.
    fn visit<const KIND: usize>(self) -> Self::Output;
}

/// Makes the table: each kind with the function that reads it, what is absent from a list of it, and its resource.
macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident: $read:expr, $absent:expr, $resource:expr;)*) => {
        /// A kind of objects that the network depends on.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Kind {
            $($(#[$doc])* $kind,)*
        }

        impl Kind {
            /// All kinds.
            pub const ALL: &'static [Self] = &[$(Self::$kind),*];

            pub(super) fn row(self) -> &'static Row {
                match self {
                    $(Self::$kind => &const { Row { name: stringify!($kind), resource: $resource, absent: $absent } },)*
                }
            }

            /// Reads an object of this kind.
            pub fn deserialize<'de, D: Deserializer<'de>>(self, deserializer: D) -> Result<Read, D::Error> {
                match self {
                    $(Self::$kind => read(deserializer, $read),)*
                }
            }

            /// Calls the visitor with this kind as a constant.
            pub fn visit<V: Visit>(self, visitor: V) -> V::Output {
                match self {
                    $(Self::$kind => visitor.visit::<{ Self::$kind as usize }>(),)*
                }
            }
        }
    };
}
use kinds;

impl Kind {
    /// Its name, e.g. `Pod`.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// Where it is served, and what people see of it.
    pub fn resource(self) -> &'static Resource {
        &self.row().resource
    }

    /// The kind with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.name() == name)
    }

    /// The kind that a manifest means. Others have kinds of the same names, so the group counts, if there is one.
    pub fn of(api_version: Option<&str>, name: &str) -> Option<Self> {
        let group = api_version.map(|version| version.rsplit_once('/').map_or("", |(group, _)| group));
        Self::named(name).filter(|kind| group.is_none_or(|group| group == kind.resource().group))
    }

    /// Its name among all groups, e.g. `networks.netloom.io`; also that of its definition.
    pub fn qualified(self) -> String {
        let Resource { group, plural, .. } = self.resource();
        match *group {
            "" => (*plural).to_owned(),
            group => format!("{plural}.{group}"),
        }
    }

    /// The definitions to install.
    pub fn definitions() -> impl Iterator<Item = &'static str> {
        Self::ALL.iter().filter_map(|kind| kind.resource().definition)
    }

    /// Where it is served, e.g. `networking.k8s.io/v1`.
    pub fn api_version(self) -> String {
        let Resource { group, version, .. } = self.resource();
        match *group {
            "" => (*version).to_owned(),
            group => format!("{group}/{version}"),
        }
    }

    /// A reference to an object of this kind.
    pub fn reference(self, namespace: &str, name: &str, uid: &str) -> ObjectRef {
        ObjectRef::namespaced(self.name(), namespace, name, uid)
    }

    /// Objects of this kind that the cluster knows and a new list of them does not have; only their names are filled in.
    pub fn absent(self, cluster: &Cluster, present: &[Object]) -> Vec<Object> {
        (self.row().absent)(cluster, present)
    }

    /// Whether the labels of an object are those of the objects that matter.
    pub fn selects<'a>(self, has: impl Fn(&'a str) -> bool) -> bool {
        let mut terms = self.resource().selector.split(',').filter(|term| !term.is_empty());
        terms.all(|term| term.strip_prefix('!').map_or_else(|| has(term), |name| !has(name)))
    }
}

fn read<'de, D, W>(deserializer: D, read: fn(W) -> Option<Object>) -> Result<Read, D::Error>
where
    D: Deserializer<'de>,
    W: Deserialize<'de> + HasMetadata,
{
    let mut written = W::deserialize(deserializer)?;
    Ok(Read {
        resource_version: std::mem::take(&mut written.metadata().resource_version),
        object: read(written),
    })
}
