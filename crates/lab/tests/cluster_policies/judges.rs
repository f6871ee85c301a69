//! Cluster-wide policies that come and go, and waiting until every node's switch does what they say.

use std::sync::atomic::{AtomicUsize, Ordering};

use netloom_lab_fixtures::policies::World;

/// The world of network policies, with cluster-wide ones.
pub struct Judges {
    pub world: World,
    markers: AtomicUsize,
}

impl Judges {
    pub fn up() -> Self {
        Self {
            world: World::up("cluster-policies"),
            markers: AtomicUsize::new(0),
        }
    }

    /// Makes a `ClusterNetworkPolicy`, in place of one of its name.
    pub fn cluster(&self, name: &str, tier: &str, priority: u16, subject: &str, rules: &str) {
        self.put_cluster(name, tier, priority, subject, rules);
        self.settle();
    }

    fn put_cluster(&self, name: &str, tier: &str, priority: u16, subject: &str, rules: &str) {
        let spec = format!("{{ tier: {tier}, priority: {priority}, subject: {subject}, {rules} }}");
        self.put("v1alpha2", "ClusterNetworkPolicy", name, &spec);
    }

    /// Makes a policy of one of the older kinds.
    pub fn older(&self, kind: &str, name: &str, spec: &str) {
        self.put("v1alpha1", kind, name, spec);
        self.accepted(kind, name);
    }

    pub fn forget_cluster(&self, names: &[&str]) {
        self.world.lab.kubectl(&[&["delete", "cnp"], names].concat()).unwrap();
        self.settle();
    }

    /// The controller hears of policies of one kind in order, and says of each that it is in force once it is written.
    pub fn settle(&self) {
        let name = format!("marker-{}", self.markers.fetch_add(1, Ordering::Relaxed));
        self.put_cluster(
            &name,
            "Baseline",
            1000,
            "{ namespaces: { matchLabels: { marker: none } } }",
            "ingress: []",
        );
        self.accepted("ClusterNetworkPolicy", &name);
        self.world.lab.kubectl(&["delete", "cnp", &name]).unwrap();
    }

    fn put(&self, version: &str, kind: &str, name: &str, spec: &str) {
        let manifest =
            format!("apiVersion: policy.networking.k8s.io/{version}\nkind: {kind}\nmetadata: {{ name: {name} }}\nspec: {spec}\n");
        self.world.lab.apply(&manifest).unwrap();
    }

    fn accepted(&self, kind: &str, name: &str) {
        let object = format!("{}/{name}", kind.to_lowercase());
        let wait = ["wait", &object, "--for=condition=Accepted", "--timeout=30s"];
        self.world.lab.kubectl(&wait).unwrap();
        let sync = ["ovn-nbctl", "--wait=hv", "--timeout=30", "sync"];
        self.world.lab.control().run(&sync).unwrap();
    }
}
