//! Measures how fast pods are created: `cargo run --release --example creates -- COUNT CONNECTIONS`.

use std::{net::TcpListener, sync::Arc, time::Instant};

use futures::future::try_join_all;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client, Config, api::PostParams};
use netloom_apiserver::{NoKubelet, Options};
use tokio_util::sync::CancellationToken;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1).filter_map(|a| a.parse::<usize>().ok());
    let (count, connections) = (arguments.next().unwrap_or(5000), arguments.next().unwrap_or(32));
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let directory = tempfile::tempdir()?;
    let stop = CancellationToken::new();
    let options = Options {
        advertise: Vec::new(),
        listeners: vec![listener],
        data: directory.path().join("objects.redb"),
        token: "secret".into(),
        service_cidrs: vec!["10.96.0.0/16".parse()?],
        kubelet: Arc::new(NoKubelet),
        stop: stop.clone(),
    };
    let server = tokio::spawn(netloom_apiserver::run(options));
    let mut config = Config::new(format!("http://{address}").parse()?);
    config.auth_info.token = Some("secret".to_owned().into());
    let node = serde_json::from_value(serde_json::json!({
        "metadata": { "name": "node1" }, "status": { "conditions": [{ "type": "Ready", "status": "True" }] },
    }))?;
    let nodes: Api<k8s_openapi::api::core::v1::Node> = Api::all(Client::try_from(config.clone())?);
    nodes.create(&PostParams::default(), &node).await?;

    let started = Instant::now();
    let tasks = (0..connections).map(|task| {
        let config = config.clone();
        tokio::spawn(async move {
            let api: Api<Pod> = Api::default_namespaced(Client::try_from(config)?);
            for index in (task..count).step_by(connections) {
                let pod = serde_json::from_value(serde_json::json!({
                    "metadata": { "name": format!("pod-{index}"), "labels": { "app": "bench" } },
                    "spec": { "containers": [{ "name": "main", "image": "x:1", "ports": [{ "containerPort": 80 }] }] },
                }))?;
                api.create(&PostParams::default(), &pod).await?;
            }
            anyhow::Ok(())
        })
    });
    for result in try_join_all(tasks).await? {
        result?;
    }
    let seconds = started.elapsed().as_secs_f64();
    println!(
        "{count} pods over {connections} connections in {seconds:.2} s: {:.0} creates/s",
        count as f64 / seconds
    );
    stop.cancel();
    Ok(server.await??)
}
