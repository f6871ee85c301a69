//! References to the objects of a cluster, as rows name their owners and problems their causes.

use crate::cluster::{PodName, View};
use crate::policy::{ClusterPolicyName, PolicyName};
use crate::problem::ObjectRef;
use crate::security_group::SecurityGroupName;
use crate::service::ServiceName;

impl View<'_> {
    /// Reference to a pod, or to the `Port` that is one to us, for owners and problems.
    pub fn pod_ref(&self, name: &PodName) -> ObjectRef {
        pod_ref(name, self.pod(name).map_or("", |pod| pod.uid.as_str()))
    }

    /// Reference to a node for owners and problems.
    pub fn node_ref(&self, name: &str) -> ObjectRef {
        ObjectRef::cluster("Node", name, self.host(name).map_or("", |host| host.uid.as_str()))
    }

    /// Reference to a service for owners and problems.
    pub fn service_ref(&self, name: &ServiceName) -> ObjectRef {
        let uid = self.service(name).map_or("", |service| service.uid.as_str());
        ObjectRef::namespaced("Service", &name.namespace, &name.name, uid)
    }

    /// Reference to a namespace for owners.
    pub fn namespace_ref(&self, name: &str) -> ObjectRef {
        ObjectRef::cluster("Namespace", name, self.namespace_uid(name))
    }

    /// Reference to a policy for owners and problems.
    pub fn policy_ref(&self, name: &PolicyName) -> ObjectRef {
        let uid = self.get(&self.cluster.policies, name).map_or("", |policy| policy.uid.as_str());
        ObjectRef::namespaced("NetworkPolicy", &name.namespace, &name.name, uid)
    }

    /// Reference to a cluster-wide policy for owners and problems.
    pub fn cluster_policy_ref(&self, name: &ClusterPolicyName) -> ObjectRef {
        let uid = self.cluster_policy(name).map_or("", |policy| policy.uid.as_str());
        ObjectRef::cluster(name.kind.as_str(), &name.name, uid)
    }

    /// Reference to a security group for owners and problems.
    pub fn security_group_ref(&self, name: &SecurityGroupName) -> ObjectRef {
        let uid = self.get(&self.cluster.security_groups, name).map_or("", |group| group.uid.as_str());
        ObjectRef::namespaced("SecurityGroup", &name.namespace, &name.name, uid)
    }

    /// Reference to a `Network` for owners and problems.
    pub fn custom_network_ref(&self, name: &str) -> ObjectRef {
        let uid = self.custom_network(name).map_or("", |network| network.uid.as_str());
        ObjectRef::cluster("Network", name, uid)
    }

    /// Reference to a pool for problems.
    pub fn pool_ref(&self, name: &str) -> ObjectRef {
        ObjectRef::cluster(
            "ExternalPool",
            name,
            self.get(&self.cluster.pools, name).map_or("", |pool| pool.uid.as_str()),
        )
    }

    /// Reference to the `ClusterNetwork` for owners and problems.
    pub fn network_ref(&self) -> ObjectRef {
        ObjectRef::cluster(
            "ClusterNetwork",
            "default",
            self.get(&self.cluster.network, &()).map_or("", |network| network.uid.as_str()),
        )
    }
}

/// Reference to a pod with this UID, or to the `Port` that is one to us.
pub(crate) fn pod_ref(name: &PodName, uid: &str) -> ObjectRef {
    match name.machine() {
        Some(port) => ObjectRef::namespaced("Port", &name.namespace, port, uid),
        None => ObjectRef::namespaced("Pod", &name.namespace, &name.name, uid),
    }
}
