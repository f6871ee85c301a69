//! The order in which an API server gets to see what is reported, played by the test itself.

#![allow(clippy::unwrap_used)]

use std::sync::{Arc, Mutex};

use axum::extract::Request;
use axum::{Json, Router};
use serde_json::json;

use super::*;

/// An API server that takes everything and remembers what it was asked, and a client of it.
async fn server() -> (kube::Client, Arc<Mutex<Vec<String>>>) {
    let _ = tracing_subscriber::fmt().with_test_writer().with_env_filter("warn").try_init();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let remember = Arc::clone(&asked);
    let answer = move |request: Request| {
        let remember = Arc::clone(&remember);
        async move {
            let path = request.uri().path();
            let kind = if path.ends_with("/events") { "Event" } else { "Pod" };
            remember.lock().unwrap().push(format!("{} {path}", request.method()));
            Json(json!({ "apiVersion": "v1", "kind": kind, "metadata": { "name": "any" }, "involvedObject": {} }))
        }
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, Router::new().fallback(answer)).await });
    let config = kube::Config::new(address.parse().unwrap());
    (kube::Client::try_from(config).unwrap(), asked)
}

fn flood(count: usize) -> Findings {
    let pod = |number: usize| ObjectRef::namespaced("Pod", "default", &format!("pod-{number:04}"), "");
    let problem = |number: usize| Problem::new(pod(number), "InvalidAddress", "choose another".to_owned());
    Findings {
        problems: (0..count).map(problem).collect(),
        ..Findings::default()
    }
}

fn conditions(asked: &[String]) -> usize {
    asked
        .iter()
        .filter(|asked| asked.starts_with("PATCH") && asked.contains("/pods/"))
        .count()
}

#[tokio::test]
async fn a_status_waits_for_a_portion_of_a_flood_of_problems_and_not_for_all() {
    let (client, asked) = server().await;
    let (mut told, mut findings) = (Told::default(), flood(500));
    // Something newer is there at once: what is left of the flood waits for it.
    assert!(tell(&client, &mut told, &findings, || true).await);
    assert_eq!(conditions(&asked.lock().unwrap()), PORTION);

    let node = ObjectRef::cluster("Node", "node1", "");
    findings.statuses.insert(node, Shows::Subnets("10.244.0.0/24".to_owned()));
    asked.lock().unwrap().clear();
    assert!(tell(&client, &mut told, &findings, || false).await);
    let asked = asked.lock().unwrap().clone();
    assert_eq!(asked[0], "PATCH /api/v1/nodes/node1");
    assert_eq!(conditions(&asked), 500 - PORTION, "each is told once");
}
