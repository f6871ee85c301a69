//! Which objects a new list does not have any more, for the rows of the table of kinds.

use netloom_network::{Cluster, Object};

/// Of a kind whose objects are an [`Object`] of this variant, and whose names the cluster has here: those that a list has not. Only their
/// names are filled in.
macro_rules! absent {
    ($variant:ident, $cluster:ident => $names:expr) => {
        |$cluster, present| {
            let listed = present.iter().filter_map(|object| match object {
                Object::$variant(name, _) => Some(name),
                _ => None,
            });
            let listed: std::collections::HashSet<_> = listed.collect();
            let gone = $names.filter(|name| !listed.contains(name));
            gone.map(|name| Object::$variant(name.clone(), Default::default())).collect()
        }
    };
}
pub(crate) use absent;

/// The same of the `ClusterNetwork`, of which there is one.
pub fn cluster_network(cluster: &Cluster, present: &[Object]) -> Vec<Object> {
    let known = cluster.network().into_iter().filter(|_| present.is_empty());
    known.cloned().map(Object::ClusterNetwork).collect()
}
