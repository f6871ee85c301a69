//! The objects of an API server, as a controller that starts lists them.

use std::collections::BTreeMap;

use netloom_network::{EndpointSlice, Node, Object, Pod, Service};

/// Kind and name.
type Identity = (u8, String);

#[derive(Clone, Default)]
pub struct World(BTreeMap<Identity, Object>);

impl World {
    pub fn insert(&mut self, object: Object) {
        self.0.insert(identity(&object), object);
    }

    pub fn remove(&mut self, object: &Object) {
        self.0.remove(&identity(object));
    }

    pub fn objects(&self) -> Vec<Object> {
        self.0.values().cloned().collect()
    }

    pub fn all(&self) -> impl Iterator<Item = &Object> {
        self.0.values()
    }
}

fn identity(object: &Object) -> Identity {
    match object {
        Object::ClusterNetwork(_) => (0, String::new()),
        Object::Node(name, _) => (1, name.clone()),
        Object::Namespace(name, _) => (2, name.clone()),
        Object::CustomNetwork(name, _) => (3, name.clone()),
        Object::Pod(name, _) => (4, name.to_string()),
        Object::Service(name, _) => (5, name.to_string()),
        Object::EndpointSlice(name, _) => (6, name.to_string()),
        Object::ExternalPool(name, _) => (7, name.clone()),
        Object::NetworkPolicy(name, _) => (8, name.to_string()),
        Object::ClusterPolicy(name, _) => (9, format!("{name:?}")),
        Object::SecurityGroup(name, _) => (10, name.to_string()),
    }
}

/// The object as events of deletion have it: of some, only the name is known.
pub fn bare(object: Object) -> Object {
    match object {
        Object::Node(name, _) => Object::Node(name, Node::default()),
        Object::Pod(name, _) => Object::Pod(name, Pod::default()),
        Object::Service(name, _) => Object::Service(name, Service::default()),
        Object::EndpointSlice(name, _) => Object::EndpointSlice(name, EndpointSlice::default()),
        other => other,
    }
}
