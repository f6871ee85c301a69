//! References to the objects of a cluster, as rows name their owners and problems their causes.

use crate::cluster::{Cluster, PodName};
use crate::policy::{ClusterPolicyName, PolicyName};
use crate::problem::ObjectRef;
use crate::security_group::SecurityGroupName;
use crate::service::ServiceName;

impl Cluster {
    /// Reference to a pod, or to the `Port` that is one to us, for owners and problems.
    pub fn pod_ref(&self, name: &PodName) -> ObjectRef {
        let uid = self.pods.get(name).map_or("", |pod| pod.uid.as_str());
        match name.machine() {
            Some(port) => ObjectRef::namespaced("Port", &name.namespace, port, uid),
            None => ObjectRef::namespaced("Pod", &name.namespace, &name.name, uid),
        }
    }

    /// Reference to a node for owners and problems.
    pub fn node_ref(&self, name: &str) -> ObjectRef {
        ObjectRef::cluster("Node", name, self.nodes.get(name).map_or("", |node| node.uid.as_str()))
    }

    /// Reference to a service for owners and problems.
    pub fn service_ref(&self, name: &ServiceName) -> ObjectRef {
        let uid = self.services.get(name).map_or("", |service| service.uid.as_str());
        ObjectRef::namespaced("Service", &name.namespace, &name.name, uid)
    }

    /// Reference to a namespace for owners.
    pub fn namespace_ref(&self, name: &str) -> ObjectRef {
        ObjectRef::cluster(
            "Namespace",
            name,
            self.namespaces.get(name).map_or("", |namespace| namespace.uid.as_str()),
        )
    }

    /// Reference to a policy for owners and problems.
    pub fn policy_ref(&self, name: &PolicyName) -> ObjectRef {
        let uid = self.policies.get(name).map_or("", |policy| policy.uid.as_str());
        ObjectRef::namespaced("NetworkPolicy", &name.namespace, &name.name, uid)
    }

    /// Reference to a cluster-wide policy for owners and problems.
    pub fn cluster_policy_ref(&self, name: &ClusterPolicyName) -> ObjectRef {
        let uid = self.cluster_policies.get(name).map_or("", |policy| policy.uid.as_str());
        ObjectRef::cluster(name.kind.as_str(), &name.name, uid)
    }

    /// Reference to a security group for owners and problems.
    pub fn security_group_ref(&self, name: &SecurityGroupName) -> ObjectRef {
        let uid = self.security_groups.get(name).map_or("", |group| group.uid.as_str());
        ObjectRef::namespaced("SecurityGroup", &name.namespace, &name.name, uid)
    }

    /// Reference to a `Network` for owners and problems.
    pub fn custom_network_ref(&self, name: &str) -> ObjectRef {
        let uid = self.custom_networks.get(name).map_or("", |network| network.uid.as_str());
        ObjectRef::cluster("Network", name, uid)
    }

    /// Reference to a pool for problems.
    pub fn pool_ref(&self, name: &str) -> ObjectRef {
        ObjectRef::cluster("ExternalPool", name, self.pools.get(name).map_or("", |pool| pool.uid.as_str()))
    }

    /// Reference to the `ClusterNetwork` for owners and problems.
    pub fn network_ref(&self) -> ObjectRef {
        ObjectRef::cluster(
            "ClusterNetwork",
            "default",
            self.network.as_ref().map_or("", |network| network.uid.as_str()),
        )
    }
}
