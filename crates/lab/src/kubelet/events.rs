//! Events on pods: what `kubectl describe` shows about a pod's life on its node.
//!
//! Written in the background: a pod never waits for its story to be told.

use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::{Api, PostParams};
use kube::{Client, Resource as _};
use serde_json::json;

/// Writes events in the name of one node's kubelet.
#[derive(Clone)]
pub struct Events {
    client: Client,
    node: String,
}

impl Events {
    /// Events of this node.
    pub fn new(client: Client, node: &str) -> Self {
        Events { client, node: node.into() }
    }

    /// Something went as it should.
    pub fn normal(&self, pod: &Pod, reason: &str, message: String) {
        self.write("Normal", pod, reason, message);
    }

    /// Something went wrong.
    pub fn warning(&self, pod: &Pod, reason: &str, message: String) {
        tracing::warn!(pod = pod.metadata.name, namespace = pod.metadata.namespace, reason, message, "pod");
        self.write("Warning", pod, reason, message);
    }

    fn write(&self, kind: &str, pod: &Pod, reason: &str, message: String) {
        let namespace = pod.metadata.namespace.clone().unwrap_or_default();
        let now = jiff::Timestamp::now();
        let name = format!("{}.{:x}", pod.metadata.name.as_deref().unwrap_or_default(), now.as_nanosecond());
        let event = serde_json::from_value::<Event>(json!({
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": pod.object_ref(&()),
            "type": kind,
            "reason": reason,
            "message": message,
            "count": 1,
            "firstTimestamp": super::status::now(),
            "lastTimestamp": super::status::now(),
            "source": {"component": "kubelet", "host": self.node},
            "reportingComponent": "kubelet",
            "reportingInstance": self.node,
        }));
        let api = Api::<Event>::namespaced(self.client.clone(), &namespace);
        tokio::spawn(async move {
            let written = match event {
                Ok(event) => api
                    .create(&PostParams::default(), &event)
                    .await
                    .map(drop)
                    .map_err(|error| error.to_string()),
                Err(error) => Err(error.to_string()),
            };
            if let Err(error) = written {
                tracing::warn!(error, "cannot write an event");
            }
        });
    }
}
