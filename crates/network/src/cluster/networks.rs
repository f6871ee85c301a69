//! Networks that users define, as read, and who names them.
//!
//! Each entry follows from the objects alone; the order they came in leaves no trace.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::cluster::{Cluster, Pod, PodName};
use crate::custom_network::{self, CustomNetwork, Read};
use crate::isolation::Isolation;

/// Secondary keys of networks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Networks {
    read: BTreeMap<String, Result<Arc<Read>, String>>,
    /// Those that say they are isolated.
    isolated: BTreeSet<String>,
    /// Pods by the network they name themselves.
    pods: BTreeMap<String, BTreeSet<PodName>>,
}

impl Networks {
    pub(super) fn set_pod(&mut self, name: &PodName, pod: &Pod, there: bool) {
        let Some(network) = custom_network::named(&pod.annotations) else {
            return;
        };
        let pods = self.pods.entry(network.to_owned()).or_default();
        if there {
            pods.insert(name.clone());
        } else {
            pods.remove(name);
        }
        if pods.is_empty() {
            self.pods.remove(network);
        }
    }
}

impl Cluster {
    /// Adds or replaces a network, or takes it away.
    pub(crate) fn set_custom_network(&mut self, name: &str, network: Option<CustomNetwork>) {
        match network {
            Some(network) => {
                let read = custom_network::read(&network.spec).map(Arc::new);
                self.network_index.isolated.remove(name);
                let isolated = read.as_ref().is_ok_and(|read| read.isolated).then(|| name.to_owned());
                self.network_index.isolated.extend(isolated);
                self.network_index.read.insert(name.to_owned(), read);
                self.custom_networks.insert(name.to_owned(), network);
            }
            None => {
                self.network_index.read.remove(name);
                self.network_index.isolated.remove(name);
                self.custom_networks.remove(name);
            }
        }
    }

    /// A network that can be used; the error says why not.
    pub fn custom_network(&self, name: &str) -> Result<&Read, String> {
        match self.network_index.read.get(name) {
            None => Err(format!("there is no Network {name}; create it or correct the name")),
            Some(Err(why)) => Err(why.clone()),
            Some(Ok(read)) => match self.refusal(name, read) {
                Some(why) => Err(why),
                None => Ok(read),
            },
        }
    }

    /// Why what a network says cannot be in force: the cluster has its addresses, or pods on it would lose theirs.
    fn refusal(&self, name: &str, read: &Read) -> Option<String> {
        let conflict = self.records.settings.as_ref().and_then(|settings| read.conflict(settings));
        let in_use = || {
            let old = self.records.network_read(name).filter(|_| self.records.is_populated(name))?;
            let same = (&old.subnets, &old.gateways) == (&read.subnets, &read.gateways);
            let list = |values: &[String]| values.join(" and ");
            (!same).then(|| {
                format!(
                    "subnets and gateways cannot change while pods are on it, which keep {} with {}; delete them, or make another Network",
                    list(&old.subnets.iter().map(ToString::to_string).collect::<Vec<_>>()),
                    list(&old.gateways.iter().map(ToString::to_string).collect::<Vec<_>>())
                )
            })
        };
        conflict.or_else(in_use)
    }

    /// A network as the pods on it have it: what it says, or said when it could last be read. Whoever deletes it or makes a mistake in it
    /// neither cuts them off nor opens it.
    pub(crate) fn network_in_force(&self, name: &str) -> Option<&Read> {
        self.custom_network(name).ok().or_else(|| self.records.network_read(name))
    }

    /// The network a pod is to be on, by its own annotation or that of its namespace.
    pub fn network_named<'a>(&'a self, name: &PodName, pod: &'a Pod) -> Option<&'a str> {
        let of_namespace = || custom_network::named(&self.namespaces.get(&name.namespace)?.annotations);
        custom_network::named(&pod.annotations).or_else(of_namespace)
    }

    /// Whether pods of a namespace may be on a network.
    pub fn may_attach(&self, namespace: &str, network: &Read) -> bool {
        let labels = self.namespaces.get(namespace).map(|namespace| &namespace.labels);
        let none = BTreeMap::new();
        network
            .namespaces
            .as_ref()
            .is_none_or(|selector| selector.matches(labels.unwrap_or(&none)))
    }

    /// Pods that are to be on a network, whether or not it exists.
    pub(crate) fn pods_wanting<'a>(&'a self, network: &'a str) -> impl Iterator<Item = &'a PodName> {
        let named = self.network_index.pods.get(network).into_iter().flatten();
        let namespaces = self
            .namespaces
            .iter()
            .filter(move |(_, namespace)| custom_network::named(&namespace.annotations) == Some(network));
        named.chain(namespaces.flat_map(|(name, _)| self.pods_of(name).map(|(pod, _)| pod)))
    }

    /// Networks known by an object or by pods that are still on them.
    pub(crate) fn custom_network_names(&self) -> BTreeSet<String> {
        let recorded = self.records.networks().chain(self.records.joined_networks());
        self.custom_networks.keys().chain(recorded).cloned().collect()
    }

    /// Whether pods that are not on a network do not reach those that are.
    pub(crate) fn is_isolated_network(&self, name: &str) -> bool {
        self.network_in_force(name).is_some_and(|network| network.isolated)
    }

    /// Whether any network is isolated.
    pub(crate) fn isolates_networks(&self) -> bool {
        let mut names = self.network_index.isolated.iter().chain(self.records.isolated_networks());
        names.any(|name| self.is_isolated_network(name))
    }

    /// Whether anything is isolated from pods that are not in it.
    pub(crate) fn isolates(&self) -> bool {
        self.isolated(Isolation::Pods).next().is_some() || self.isolates_networks()
    }

    /// Whether there is any network but the cluster's.
    pub(crate) fn has_custom_networks(&self) -> bool {
        !self.custom_networks.is_empty() || self.records.networks().next().is_some()
    }
}
