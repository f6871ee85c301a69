//! Networks that users define, as read, and who names them.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::cluster::{Cluster, Pod, PodName, View};
use crate::custom_network::{self, CustomNetwork, Read};
use crate::facts::Changes;

impl Cluster {
    pub(super) fn set_custom_network(&mut self, name: &str, network: Option<CustomNetwork>, changes: &mut Changes) {
        let as_read = network.as_ref().map(|network| custom_network::read(&network.spec).map(Arc::new));
        self.read_networks.set(name, as_read, changes);
        self.custom_networks.set(name, network, changes);
    }

    /// The network a pod is to be on, by its own annotation or that of its namespace.
    pub fn network_named<'a>(&'a self, name: &PodName, pod: &'a Pod) -> Option<&'a str> {
        View::new(self).network_named(name, pod)
    }
}

impl<'a> View<'a> {
    /// A network as written.
    pub(crate) fn custom_network(&self, name: &str) -> Option<&'a CustomNetwork> {
        self.get(&self.cluster.custom_networks, name)
    }

    /// Whether a network is defined.
    pub(crate) fn has_custom_network(&self, name: &str) -> bool {
        self.has(&self.cluster.custom_networks, name)
    }

    /// A network as read; the error says what to change.
    pub(crate) fn read_network(&self, name: &str) -> Option<&'a Result<Arc<Read>, String>> {
        self.get(&self.cluster.read_networks, name)
    }

    /// The network a pod is to be on, by its own annotation or that of its namespace.
    pub(crate) fn network_named<'p>(&self, name: &PodName, pod: &'p Pod) -> Option<&'p str>
    where
        'a: 'p,
    {
        custom_network::named(&pod.annotations).or_else(|| self.namespace_network(&name.namespace))
    }

    /// Whether pods of a namespace may be on a network.
    pub(crate) fn may_attach(&self, namespace: &str, network: &Read) -> bool {
        let none = BTreeMap::new();
        network
            .namespaces
            .as_ref()
            .is_none_or(|selector| selector.matches(self.namespace_labels(namespace).unwrap_or(&none)))
    }
}
