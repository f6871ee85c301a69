//! HTTP: from request to verb. One function takes every request apart, because paths depend on the kinds that exist at
//! the moment; then [`read`], [`watch`], [`write`], [`subresource`] and [`exec`] do the rest. Everything but health and
//! version asks for the token.

pub mod body;
mod exec;
mod format;
mod protobuf;
mod read;
mod subresource;
mod watch;
mod write;

use std::sync::Arc;

use axum::{
    Router,
    body::{Body, Bytes},
    extract::{Query, Request, State},
    http::{HeaderMap, Method, Uri, header, request::Parts},
    response::{IntoResponse, Response},
};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::{
    api::Api,
    discovery,
    kind::Kind,
    kubelet::Kubelet,
    openapi,
    status::{Failure, Result},
};

/// Objects are small; a body beyond this is a mistake.
const LIMIT: usize = 3 * 1024 * 1024;

/// What requests work on.
#[derive(Clone)]
pub struct Server {
    /// The objects.
    pub api: Arc<Api>,
    /// The token requests must carry.
    pub token: String,
    /// For exec and logs.
    pub kubelet: Arc<dyn Kubelet>,
    /// Ends watches when the server stops.
    pub stop: CancellationToken,
}

/// A request for objects of one kind.
pub(crate) struct Target {
    kind: Arc<Kind>,
    namespace: String,
    name: String,
    subresource: String,
    query: Parameters,
    headers: HeaderMap,
}

/// The parameters after `?`, in order.
pub(crate) struct Parameters(Vec<(String, String)>);

impl Parameters {
    fn parse(uri: &Uri) -> Result<Self> {
        let query = Query::<Vec<(String, String)>>::try_from_uri(uri);
        query
            .map(|Query(pairs)| Self(pairs))
            .map_err(|error| Failure::bad_request(error.body_text()))
    }

    fn text(&self, name: &str) -> &str {
        self.0.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value)
    }

    fn all(&self, name: &str) -> Vec<String> {
        self.0
            .iter()
            .filter(|(key, _)| key == name)
            .map(|(_, value)| value.clone())
            .collect()
    }

    fn flag(&self, name: &str) -> bool {
        self.0
            .iter()
            .any(|(key, value)| key == name && ["", "1", "true", "True"].contains(&value.as_str()))
    }

    fn number(&self, name: &str) -> Option<i64> {
        self.text(name).parse().ok()
    }

    fn dry_run(&self) -> Result<bool> {
        match self.all("dryRun").join(",").as_str() {
            "" => Ok(false),
            "All" => Ok(true),
            other => Err(Failure::bad_request(format!(
                "dryRun: Unsupported value: \"{other}\": supported values: \"All\""
            ))),
        }
    }
}

/// The service that answers everything.
pub fn router(server: Server) -> Router {
    Router::new().fallback(answer).with_state(server)
}

async fn answer(State(server): State<Server>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let result = route(&server, parts, body).await;
    result.unwrap_or_else(|failure| {
        if failure.code >= 500 {
            tracing::warn!(failure.message, "request failed");
        }
        failure.into_response()
    })
}

async fn route(server: &Server, parts: Parts, body: Body) -> Result<Response> {
    let path = parts.uri.path().to_owned();
    let mut segments: Vec<&str> = path.split('/').filter(|s| !s.is_empty()).collect();
    let mut token = bearer(&parts.headers);
    if let ["token", given, ..] = segments.as_slice() {
        token = given;
        segments.drain(..2);
    }
    match segments.as_slice() {
        ["livez" | "readyz" | "healthz", ..] => return Ok("ok".into_response()),
        ["version"] => return Ok(json_response(&discovery::version())),
        _ => {}
    }
    if token != server.token || server.token.is_empty() {
        return Err(Failure::unauthorized());
    }
    if let Some(response) = describe(server, &parts.headers, &segments) {
        return response;
    }
    let (group, version, rest) = match segments.as_slice() {
        ["api", version, rest @ ..] => ("", *version, rest),
        ["apis", group, version, rest @ ..] => (*group, *version, rest),
        _ => return Err(Failure::no_such_path()),
    };
    let (namespace, plural, name, subresource, more) = split(rest);
    if more {
        return Err(Failure::no_such_path());
    }
    let kind = server.api.registry.find(group, version, plural)?;
    let target = Target {
        kind,
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        subresource: subresource.to_owned(),
        query: Parameters::parse(&parts.uri)?,
        headers: parts.headers.clone(),
    };
    if target.kind.is("pods") && ["exec", "attach", "portforward"].contains(&subresource) {
        return exec::stream(server, target, parts).await;
    }
    dispatch(server, &parts.method, target, body).await
}

/// Discovery and OpenAPI: paths that concern no object.
fn describe(server: &Server, headers: &HeaderMap, segments: &[&str]) -> Option<Result<Response>> {
    let accept = headers.get(header::ACCEPT).and_then(|v| v.to_str().ok()).unwrap_or("");
    let kinds = || server.api.registry.all();
    let value = match segments {
        ["api"] if wants_aggregated(accept) => return Some(Ok(aggregated(&discovery::aggregated(&kinds(), true)))),
        ["apis"] if wants_aggregated(accept) => return Some(Ok(aggregated(&discovery::aggregated(&kinds(), false)))),
        ["openapi", "v2"] => return Some(Ok(openapi_v2(accept))),
        ["api"] => Some(discovery::core_versions()),
        ["apis"] => Some(discovery::groups(&kinds())),
        ["apis", group] => discovery::group(&kinds(), group),
        ["api", version] => discovery::resources(&kinds(), "", version),
        ["apis", group, version] => discovery::resources(&kinds(), group, version),
        ["openapi", "v3"] => Some(openapi::index(&kinds())),
        ["openapi", "v3", "api", version] => openapi::document(&kinds(), "", version),
        ["openapi", "v3", "apis", group, version] => openapi::document(&kinds(), group, version),
        _ => return None,
    };
    Some(value.map(|value| json_response(&value)).ok_or_else(Failure::no_such_path))
}

async fn dispatch(server: &Server, method: &Method, target: Target, body: Body) -> Result<Response> {
    let (kind, api) = (target.kind.clone(), &server.api);
    let scoped = kind.namespaced && target.namespace.is_empty();
    if (!kind.namespaced && !target.namespace.is_empty()) || (scoped && !target.name.is_empty()) {
        return Err(Failure::no_such_path());
    }
    if !target.subresource.is_empty() {
        return subresource::answer(server, method, &target, read_body(body).await?).await;
    }
    match (method, target.name.is_empty()) {
        (&Method::GET | &Method::HEAD, true) if target.query.flag("watch") => watch::watch(server, &target).await,
        (&Method::GET | &Method::HEAD, true) => read::list(api, &target).await,
        (&Method::GET | &Method::HEAD, false) => read::get(api, &target).await,
        (&Method::POST, true) if !scoped => write::create(api, &target, &read_body(body).await?).await,
        (&Method::PUT, false) => write::update(api, &target, &read_body(body).await?).await,
        (&Method::PATCH, false) => write::patch(api, &target, &read_body(body).await?).await,
        (&Method::DELETE, false) => write::delete(api, &target, &read_body(body).await?).await,
        (&Method::DELETE, true) => write::delete_collection(api, &target, &read_body(body).await?).await,
        _ => Err(Failure::method_not_allowed()),
    }
}

/// `[namespaces/NS/]PLURAL[/NAME[/SUBRESOURCE]]`; a namespace is itself an object with subresources.
fn split<'a>(rest: &[&'a str]) -> (&'a str, &'a str, &'a str, &'a str, bool) {
    let (namespace, rest) = match rest {
        ["namespaces", _] | ["namespaces", _, "status" | "finalize"] => ("", rest),
        ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (*namespace, rest),
        _ => ("", rest),
    };
    let part = |index: usize| rest.get(index).copied().unwrap_or("");
    (namespace, part(0), part(1), part(2), rest.len() > 3)
}

/// The token in the headers, or "".
fn bearer(headers: &HeaderMap) -> &str {
    let given = headers.get(header::AUTHORIZATION).and_then(|v| v.to_str().ok()).unwrap_or("");
    given
        .strip_prefix("Bearer ")
        .or_else(|| given.strip_prefix("bearer "))
        .unwrap_or("")
        .trim()
}

async fn read_body(body: Body) -> Result<Bytes> {
    axum::body::to_bytes(body, LIMIT)
        .await
        .map_err(|error| Failure::bad_request(format!("read the request body: {error}")))
}

fn json_response(value: &Value) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], value.to_string()).into_response()
}

fn wants_aggregated(accept: &str) -> bool {
    let wanted = |range: &str| range.contains("as=APIGroupDiscoveryList") && range.split(';').any(|p| p.trim() == "v=v2");
    accept.split(',').any(wanted)
}

fn aggregated(value: &Value) -> Response {
    let media = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    ([(header::CONTENT_TYPE, media)], value.to_string()).into_response()
}

fn openapi_v2(accept: &str) -> Response {
    if accept.contains("application/json") || !accept.contains("protobuf") {
        return json_response(&openapi::v2());
    }
    // Asked for with an @, which is not allowed in a media type and which clients do not understand in an answer.
    let media = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
    ([(header::CONTENT_TYPE, media)], openapi::v2_protobuf()).into_response()
}
