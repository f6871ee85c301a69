//! Ports of machines: what they show is what they have, and is found again when the database is lost.

use kube::Api;
use kube::api::{ApiResource, DynamicObject, PostParams};
use kube::core::GroupVersionKind;
use serde_json::{Value, json};

use crate::world::World;

struct Ports {
    api: Api<DynamicObject>,
    kind: ApiResource,
}

impl Ports {
    fn of(world: &World) -> Self {
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("netloom.io", "v1alpha1", "Port"));
        let api = Api::namespaced_with(world.kubernetes.client.clone(), "default", &kind);
        Self { api, kind }
    }

    async fn make(&self, name: &str, spec: Value) {
        let port = DynamicObject::new(name, &self.kind).data(json!({ "spec": spec }));
        self.api.create(&PostParams::default(), &port).await.unwrap();
    }

    /// The status of a port, once it is ready.
    async fn status(&self, world: &World, name: &str) -> Value {
        world.kubernetes.condition(&self.api, name, "Ready", "True", "InForce").await;
        self.api.get(name).await.unwrap().data["status"].clone()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_shows_what_to_tell_the_machine() {
    let mut world = World::two_nodes().await;
    let ports = Ports::of(&world);
    let _controller = world.controller();
    let (mac, address) = ("52:54:00:12:34:56", "10.244.0.50");
    ports
        .make("db", json!({ "node": "node1", "mac": mac, "addresses": [address] }))
        .await;
    let status = ports.status(&world, "db").await;
    assert_eq!(
        (&status["interfaceID"], &status["mac"]),
        (&json!("default/port_db"), &json!(mac)),
        "{status}"
    );
    assert_eq!(status["addresses"][0], json!(format!("{address}/24")), "{status}");
    assert_eq!(status["gateways"][0], json!("10.244.0.1"), "{status}");
    let has = world.database.port("port_db").await;
    assert!(has.iter().any(|word| word == address), "{has:?}");

    // A pod of the same name is another.
    world.kubernetes.pod("db", "node1").await;
    assert!(!world.database.port("db").await.contains(&address.to_owned()));

    ports.make("lost", json!({ "node": "nowhere" })).await;
    let told = world.kubernetes.event("lost", "NodeUnknown").await;
    assert!(told.contains("there is no node nowhere"), "{told}");

    ports.api.delete("db", &Default::default()).await.unwrap();
    world.database.no_port("port_db").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_has_the_same_addresses_after_the_database_is_lost() {
    let mut world = World::two_nodes().await;
    let ports = Ports::of(&world);
    let _controller = world.controller();
    // The address of the first is free again when the database is lost, and would be given to the second.
    ports.make("first", json!({ "node": "node1" })).await;
    ports.status(&world, "first").await;
    ports.make("second", json!({ "node": "node1" })).await;
    ports.status(&world, "second").await;
    let before = world.database.port("port_second").await;
    ports.api.delete("first", &Default::default()).await.unwrap();
    world.database.no_port("port_first").await;
    // The controller has seen all of this when it has seen what came after it.
    world.kubernetes.node("node3").await;
    world.database.subnets("node3").await;
    world.database.lose_everything().await;
    assert_eq!(world.database.port("port_second").await, before);
}
