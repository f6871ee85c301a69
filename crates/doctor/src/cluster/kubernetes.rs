//! Talks to the API server for both examinations: the client, its clock, and lists in which a refusal is told apart from an error.

use std::path::Path;

use k8s_openapi::serde::de::DeserializeOwned;
use kube::api::{GetParams, ListParams, Request};
use kube::client::Body;
use kube::{Api, Client};

use crate::unseen::{Seen, Unseen};

/// A client, if this machine has a way to the API server: a kubeconfig that was given, or a pod's service account.
pub async fn client_if_any(kubeconfig: Option<&Path>) -> anyhow::Result<Option<Client>> {
    let in_pod = std::env::var_os("KUBERNETES_SERVICE_HOST").is_some();
    if kubeconfig.is_none() && !in_pod {
        return Ok(None);
    }
    netloom_controller::kubernetes(kubeconfig).await.map(Some)
}

/// The API server's version.
pub async fn version(client: &Client) -> Seen<String> {
    let info = client.apiserver_version().await.map_err(unseen)?;
    Ok(info.git_version)
}

/// Seconds our clock is ahead of the API server's, to the second: that is all an HTTP date tells.
pub async fn skew(client: &Client) -> Seen<i64> {
    let request = Request::new("").get("version", &GetParams::default()).map_err(Unseen::error)?;
    let before = jiff::Timestamp::now();
    let response = client.send(request.map(Body::from)).await.map_err(unseen)?;
    let after = jiff::Timestamp::now();
    let date = response.headers().get("date").and_then(|date| date.to_str().ok());
    let date = date.ok_or_else(|| Unseen::Error("its answers have no date".to_owned()))?;
    let server = jiff::fmt::rfc2822::parse(date).map_err(Unseen::error)?.timestamp();
    // A date is cut to the second, so the true time is up to a second later; ours is right if it is within the exchange.
    let ahead = before.as_second() - server.as_second() - 1;
    let behind = server.as_second() - after.as_second();
    Ok(if ahead > 0 {
        ahead
    } else if behind > 0 {
        -behind
    } else {
        0
    })
}

/// Whether services are native, by the ClusterNetwork; native where there is none.
pub async fn native_services(client: &Client) -> Seen<Option<bool>> {
    let network = super::objects::network(client).await?;
    Ok(Some(
        network.is_none_or(|network| network.spec.services.mode.as_deref() != Some("kube-proxy")),
    ))
}

/// All objects of a kind.
pub async fn list<K>(api: Api<K>, parameters: &ListParams) -> Seen<Vec<K>>
where
    K: Clone + DeserializeOwned + std::fmt::Debug,
{
    Ok(api.list(parameters).await.map_err(unseen)?.items)
}

/// All objects of a kind; none where the API server does not have the kind.
pub async fn list_or_none<K>(api: Api<K>, parameters: &ListParams) -> Seen<Vec<K>>
where
    K: Clone + DeserializeOwned + std::fmt::Debug,
{
    match api.list(parameters).await {
        Ok(list) => Ok(list.items),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Vec::new()),
        Err(error) => Err(unseen(error)),
    }
}

/// Tells a refusal from an error.
pub fn unseen(error: kube::Error) -> Unseen {
    match error {
        kube::Error::Api(status) if matches!(status.code, 401 | 403) => Unseen::Forbidden(status.message.clone()),
        kube::Error::Api(status) => Unseen::Error(status.message.clone()),
        other => {
            let causes = std::iter::successors(std::error::Error::source(&other), |cause| cause.source());
            let reason = causes.last().map_or_else(|| other.to_string(), ToString::to_string);
            Unseen::Error(reason)
        }
    }
}
