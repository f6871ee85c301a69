//! watch: a stream of changes, one JSON object per line, each sent as soon as it is durable. The stream ends by the
//! client's timeout, by the server's stop, or with an `Expired` error if the client fell too far behind.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use axum::{
    body::{Body, Bytes},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};
use tokio::time::{Instant, Interval};
use tokio_util::sync::CancellationToken;

use super::{Server, Target, format::Format};
use crate::{
    json,
    kind::Kind,
    selector::Selector,
    status::{Failure, Result},
    store::{Change, Event, Expired, Follow, Object},
};

/// How often a quiet watch tells its client how far it has come.
const BOOKMARK: Duration = Duration::from_secs(60);
/// How long a watch lives if the client does not say.
const LIFETIME: Duration = Duration::from_secs(3600);

struct Watch {
    kind: Arc<Kind>,
    namespace: String,
    selector: Selector,
    format: Format,
    follow: Follow,
    ready: VecDeque<Bytes>,
    end: Instant,
    bookmarks: Option<Interval>,
    stop: CancellationToken,
    over: bool,
}

/// Answers with the stream.
pub async fn watch(server: &Server, target: &Target) -> Result<Response> {
    let (api, kind) = (&server.api, &target.kind);
    let selector = Selector::parse(kind, target.query.text("labelSelector"), target.query.text("fieldSelector"))?;
    let revision = target.query.text("resourceVersion");
    let initial = match target.query.text("sendInitialEvents") {
        "" => ["", "0"].contains(&revision),
        flag => flag == "true" || flag == "1",
    };
    let namespace = (!target.namespace.is_empty()).then_some(target.namespace.as_str());
    let (objects, newest) = api.store.list(&kind.resource(), namespace);
    let start = match revision {
        _ if initial => newest,
        "" | "0" => newest,
        given => given
            .parse()
            .map_err(|_| Failure::bad_request(format!("resourceVersion: Invalid value: \"{given}\": must be a number")))?,
    };
    api.store.settled(start.min(newest)).await?;
    let follow = match api.store.follow(&kind.resource(), start) {
        Ok(follow) => follow,
        // Told inside the stream, as clients expect: some take a refused request for a reason to ask again.
        Err(lost) => {
            return Ok(stream_response(Body::from(line(
                "ERROR",
                expired(lost).to_value().to_string().as_bytes(),
            ))));
        }
    };
    let bookmarks = target.query.flag("allowWatchBookmarks");
    let lifetime = target
        .query
        .number("timeoutSeconds")
        .and_then(|s| u64::try_from(s).ok())
        .filter(|s| *s > 0);
    let mut watch = Watch {
        kind: kind.clone(),
        namespace: target.namespace.clone(),
        selector,
        format: Format::of(target),
        follow,
        ready: VecDeque::new(),
        end: Instant::now() + lifetime.map_or(LIFETIME, Duration::from_secs),
        bookmarks: bookmarks.then(|| tokio::time::interval_at(Instant::now() + BOOKMARK, BOOKMARK)),
        stop: server.stop.clone(),
        over: false,
    };
    if initial {
        watch.replay(&objects);
        if !target.query.text("sendInitialEvents").is_empty() && bookmarks {
            watch.bookmark(newest, true);
        }
    }
    let stream = futures::stream::unfold(watch, |mut watch| async move {
        let line = watch.next().await?;
        Some((Ok::<_, std::convert::Infallible>(line), watch))
    });
    Ok(stream_response(Body::from_stream(stream)))
}

fn stream_response(body: Body) -> Response {
    (StatusCode::OK, [(header::CONTENT_TYPE, "application/json")], body).into_response()
}

fn expired(expired: Expired) -> Failure {
    Failure::expired(expired.revision, expired.oldest)
}

impl Watch {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(line) = self.ready.pop_front() {
                return Some(line);
            }
            if self.over {
                return None;
            }
            let tick = async {
                match &mut self.bookmarks {
                    Some(interval) => interval.tick().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = self.stop.cancelled() => self.over = true,
                events = self.follow.next() => match events {
                    Ok(events) => events.iter().for_each(|event| self.deliver(event)),
                    Err(lost) => {
                        let status = expired(lost).to_value().to_string();
                        self.push("ERROR", status.as_bytes());
                        self.over = true;
                    }
                },
                _ = tick => {
                    let revision = self.follow.caught_up();
                    self.bookmark(revision, false);
                }
                () = tokio::time::sleep_until(self.end) => {
                    self.over = true;
                    if self.bookmarks.is_some() {
                        let revision = self.follow.caught_up();
                        self.bookmark(revision, false);
                    }
                }
            }
        }
    }

    /// What already exists, as if it had just been added.
    fn replay(&mut self, objects: &[Arc<Object>]) {
        for object in objects.iter().filter(|object| self.selector.matches(&object.value)) {
            let bytes = self.format.object(&self.kind, object);
            self.ready.push_back(line("ADDED", &bytes));
        }
    }

    /// A change, as it looks to someone who sees only what the selector matches.
    fn deliver(&mut self, event: &Event) {
        let inside =
            |object: &Value| (self.namespace.is_empty() || json::namespace(object) == self.namespace) && self.selector.matches(object);
        let before = event.previous.as_ref().is_some_and(|previous| inside(&previous.value));
        let after = event.change != Change::Deleted && inside(&event.object.value);
        let name = match (before, after) {
            (false, true) => "ADDED",
            (true, true) => "MODIFIED",
            (true, false) => "DELETED",
            (false, false) => return,
        };
        let bytes = self.format.object(&self.kind, &event.object);
        self.push(name, &bytes);
    }

    fn bookmark(&mut self, revision: u64, initial: bool) {
        let mut metadata = json!({ "resourceVersion": revision.to_string(), "creationTimestamp": null });
        if initial {
            metadata["annotations"] = json!({ "k8s.io/initial-events-end": "true" });
        }
        let object = match self.format {
            Format::Object => json!({ "kind": self.kind.kind, "apiVersion": self.kind.api_version(), "metadata": metadata }),
            Format::Partial => json!({ "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata }),
            Format::Table(_) => json!({
                "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata, "columnDefinitions": [],
                "rows": [{ "cells": [], "object": { "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata } }],
            }),
        };
        self.push("BOOKMARK", object.to_string().as_bytes());
    }

    fn push(&mut self, name: &str, object: &[u8]) {
        self.ready.push_back(line(name, object));
    }
}

fn line(name: &str, object: &[u8]) -> Bytes {
    let head = format!("{{\"type\":\"{name}\",\"object\":");
    [head.as_bytes(), object, b"}\n"].concat().into()
}
