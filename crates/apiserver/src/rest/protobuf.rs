//! The little protobuf that kubectl insists on: `kubectl create configmap|deployment|ingress|namespace|secret|service…`
//! send their object in Kubernetes' protobuf envelope and know no fallback. The fields those commands set are described
//! here as data; a field that is not is refused rather than lost.

use serde_json::{Map, Value, json};

use crate::status::{Failure, Result};

/// The media type.
pub const MEDIA: &str = "application/vnd.kubernetes.protobuf";

/// What each message starts with.
const MAGIC: &[u8] = b"k8s\0";

/// How a field is written.
enum Shape {
    /// A string; empty means unset.
    Text,
    /// Several strings.
    Texts,
    /// An integer; zero means unset.
    Number,
    /// An integer that is present only if set.
    Pointer,
    /// A boolean; false means unset.
    Flag,
    /// A message.
    One(&'static Message),
    /// Several messages.
    Many(&'static Message),
    /// A map of strings.
    Map,
    /// A map of byte strings.
    Blobs,
    /// A number or a string.
    Either,
    /// Set by the server, or empty whenever these commands send it.
    Ignored,
}

use Shape::{Blobs, Either, Flag, Ignored, Many, Number, One, Pointer, Text, Texts};

/// Number, name in JSON ("" if its fields belong to the parent), shape.
type Message = [(u64, &'static str, Shape)];

static META: &Message = &[
    (1, "name", Text),
    (2, "generateName", Text),
    (3, "namespace", Text),
    (4, "selfLink", Ignored),
    (5, "uid", Text),
    (6, "resourceVersion", Text),
    (7, "generation", Ignored),
    (8, "creationTimestamp", Ignored),
    (11, "labels", Shape::Map),
    (12, "annotations", Shape::Map),
    (14, "finalizers", Texts),
];
static CONFIG_MAP: &Message = &[
    (1, "metadata", One(META)),
    (2, "data", Shape::Map),
    (3, "binaryData", Blobs),
    (4, "immutable", Flag),
];
static SECRET: &Message = &[
    (1, "metadata", One(META)),
    (2, "data", Blobs),
    (3, "type", Text),
    (4, "stringData", Shape::Map),
    (5, "immutable", Flag),
];
static NAMESPACE: &Message = &[(1, "metadata", One(META)), (2, "spec", One(NAMESPACE_SPEC)), (3, "status", Ignored)];
static NAMESPACE_SPEC: &Message = &[(1, "finalizers", Texts)];
static SERVICE_ACCOUNT: &Message = &[(1, "metadata", One(META))];
static SERVICE: &Message = &[(1, "metadata", One(META)), (2, "spec", One(SERVICE_SPEC)), (3, "status", Ignored)];
static SERVICE_SPEC: &Message = &[
    (1, "ports", Many(SERVICE_PORT)),
    (2, "selector", Shape::Map),
    (3, "clusterIP", Text),
    (4, "type", Text),
    (5, "externalIPs", Texts),
    (7, "sessionAffinity", Text),
    (8, "loadBalancerIP", Text),
    (9, "loadBalancerSourceRanges", Texts),
    (10, "externalName", Text),
    (11, "externalTrafficPolicy", Text),
    (12, "healthCheckNodePort", Number),
    (13, "publishNotReadyAddresses", Flag),
    (17, "ipFamilyPolicy", Text),
    (18, "clusterIPs", Texts),
    (19, "ipFamilies", Texts),
    (22, "internalTrafficPolicy", Text),
];
static SERVICE_PORT: &Message = &[
    (1, "name", Text),
    (2, "protocol", Text),
    (3, "port", Number),
    (4, "targetPort", Either),
    (5, "nodePort", Number),
    (6, "appProtocol", Text),
];
static DEPLOYMENT: &Message = &[
    (1, "metadata", One(META)),
    (2, "spec", One(DEPLOYMENT_SPEC)),
    (3, "status", Ignored),
];
static DEPLOYMENT_SPEC: &Message = &[
    (1, "replicas", Pointer),
    (2, "selector", One(SELECTOR)),
    (3, "template", One(TEMPLATE)),
    (4, "strategy", One(STRATEGY)),
    (5, "minReadySeconds", Number),
    (6, "revisionHistoryLimit", Pointer),
    (7, "paused", Flag),
    (9, "progressDeadlineSeconds", Pointer),
];
static STRATEGY: &Message = &[(1, "type", Text)];
static SELECTOR: &Message = &[(1, "matchLabels", Shape::Map)];
static TEMPLATE: &Message = &[(1, "metadata", One(META)), (2, "spec", One(POD_SPEC))];
static POD_SPEC: &Message = &[
    (2, "containers", Many(CONTAINER)),
    (3, "restartPolicy", Text),
    (4, "terminationGracePeriodSeconds", Pointer),
    (6, "dnsPolicy", Text),
    (7, "nodeSelector", Shape::Map),
    (8, "serviceAccountName", Text),
    (9, "serviceAccount", Text),
    (10, "nodeName", Text),
    (11, "hostNetwork", Flag),
    (12, "hostPID", Flag),
    (13, "hostIPC", Flag),
    (14, "securityContext", Ignored),
    (16, "hostname", Text),
    (17, "subdomain", Text),
    (19, "schedulerName", Text),
    (24, "priorityClassName", Text),
];
static CONTAINER: &Message = &[
    (1, "name", Text),
    (2, "image", Text),
    (3, "command", Texts),
    (4, "args", Texts),
    (5, "workingDir", Text),
    (6, "ports", Many(CONTAINER_PORT)),
    (8, "resources", Ignored),
    (13, "terminationMessagePath", Text),
    (14, "imagePullPolicy", Text),
    (16, "stdin", Flag),
    (17, "stdinOnce", Flag),
    (18, "tty", Flag),
    (20, "terminationMessagePolicy", Text),
];
static CONTAINER_PORT: &Message = &[
    (1, "name", Text),
    (2, "hostPort", Number),
    (3, "containerPort", Number),
    (4, "protocol", Text),
    (5, "hostIP", Text),
];
static INGRESS: &Message = &[(1, "metadata", One(META)), (2, "spec", One(INGRESS_SPEC)), (3, "status", Ignored)];
static INGRESS_SPEC: &Message = &[
    (1, "defaultBackend", One(BACKEND)),
    (2, "tls", Many(INGRESS_TLS)),
    (3, "rules", Many(INGRESS_RULE)),
    (4, "ingressClassName", Text),
];
static INGRESS_TLS: &Message = &[(1, "hosts", Texts), (2, "secretName", Text)];
static INGRESS_RULE: &Message = &[(1, "host", Text), (2, "", One(INGRESS_VALUE))];
static INGRESS_VALUE: &Message = &[(1, "http", One(INGRESS_HTTP))];
static INGRESS_HTTP: &Message = &[(1, "paths", Many(INGRESS_PATH))];
static INGRESS_PATH: &Message = &[(1, "path", Text), (2, "backend", One(BACKEND)), (3, "pathType", Text)];
static BACKEND: &Message = &[(4, "service", One(BACKEND_SERVICE))];
static BACKEND_SERVICE: &Message = &[(1, "name", Text), (2, "port", One(BACKEND_PORT))];
static BACKEND_PORT: &Message = &[(1, "name", Text), (2, "number", Number)];

static KINDS: &[(&str, &str, &Message)] = &[
    ("v1", "ConfigMap", CONFIG_MAP),
    ("v1", "Secret", SECRET),
    ("v1", "Namespace", NAMESPACE),
    ("v1", "ServiceAccount", SERVICE_ACCOUNT),
    ("v1", "Service", SERVICE),
    ("apps/v1", "Deployment", DEPLOYMENT),
    ("networking.k8s.io/v1", "Ingress", INGRESS),
];

static TYPE: &Message = &[(1, "apiVersion", Text), (2, "kind", Text)];

/// The object in an envelope.
pub fn decode(body: &[u8]) -> Result<Value> {
    let body = body
        .strip_prefix(MAGIC)
        .ok_or_else(|| Failure::bad_request("error decoding body: not a protobuf envelope"))?;
    let (mut raw, mut head) = (&body[..0], json!({}));
    for field in Fields(body) {
        match field? {
            (1, Wire::Bytes(bytes)) => head = message(TYPE, "TypeMeta", bytes)?,
            (2, Wire::Bytes(bytes)) => raw = bytes,
            _ => {}
        }
    }
    let (version, kind) = (crate::json::text(&head, "/apiVersion"), crate::json::text(&head, "/kind"));
    let known = KINDS.iter().find(|(v, k, _)| *v == version && *k == kind);
    let (_, _, description) =
        known.ok_or_else(|| Failure::unsupported_media(&format!("{MEDIA} of {version} {kind}"), "application/json, application/yaml"))?;
    let mut object = message(description, kind, raw)?;
    object["apiVersion"] = json!(version);
    object["kind"] = json!(kind);
    Ok(object)
}

enum Wire<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// The fields of an encoded message, in order.
struct Fields<'a>(&'a [u8]);

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u64, Wire<'a>)>;

    fn next(&mut self) -> Option<Self::Item> {
        (!self.0.is_empty()).then(|| {
            self.read()
                .ok_or_else(|| Failure::bad_request("error decoding body: truncated protobuf"))
        })
    }
}

impl<'a> Fields<'a> {
    fn read(&mut self) -> Option<(u64, Wire<'a>)> {
        let result = self.field();
        if result.is_none() {
            self.0 = &[];
        }
        result
    }

    fn field(&mut self) -> Option<(u64, Wire<'a>)> {
        let tag = self.number()?;
        let wire = match tag & 7 {
            0 => Wire::Number(self.number()?),
            2 => {
                let length = usize::try_from(self.number()?).ok()?;
                let (bytes, rest) = self.0.split_at_checked(length)?;
                self.0 = rest;
                Wire::Bytes(bytes)
            }
            _ => return None,
        };
        Some((tag >> 3, wire))
    }

    fn number(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.0.split_first()?;
            self.0 = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }
}

fn message(description: &Message, name: &str, bytes: &[u8]) -> Result<Value> {
    let mut object = Map::new();
    for field in Fields(bytes) {
        let (number, wire) = field?;
        let Some((_, field, shape)) = description.iter().find(|(n, ..)| *n == number) else {
            let message = format!(
                "field {number} of {name} in protobuf is not supported by the lab's API server; send JSON, for example with kubectl apply"
            );
            return Err(Failure::bad_request(message));
        };
        add(&mut object, field, shape, wire)?;
    }
    Ok(Value::Object(object))
}

fn add(object: &mut Map<String, Value>, field: &str, shape: &Shape, wire: Wire) -> Result<()> {
    let push = |object: &mut Map<String, Value>, value: Value| {
        if let Value::Array(list) = object.entry(field).or_insert_with(|| json!([])) {
            list.push(value);
        }
    };
    match (shape, wire) {
        (Text, Wire::Bytes(bytes)) if !bytes.is_empty() => drop(object.insert(field.into(), text(bytes))),
        (Texts, Wire::Bytes(bytes)) => push(object, text(bytes)),
        (Number, Wire::Number(number)) if number != 0 => drop(object.insert(field.into(), json!(number.cast_signed()))),
        (Pointer, Wire::Number(number)) => drop(object.insert(field.into(), json!(number.cast_signed()))),
        (Flag, Wire::Number(1)) => drop(object.insert(field.into(), json!(true))),
        (One(description), Wire::Bytes(bytes)) => {
            let inner = message(description, field, bytes)?;
            match (field, inner) {
                ("", Value::Object(inner)) => object.extend(inner),
                (field, inner) => drop(object.insert(field.into(), inner)),
            }
        }
        (Many(description), Wire::Bytes(bytes)) => push(object, message(description, field, bytes)?),
        (Shape::Map | Blobs, Wire::Bytes(bytes)) => {
            let (mut key, mut value) = (&bytes[..0], &bytes[..0]);
            for field in Fields(bytes) {
                match field? {
                    (1, Wire::Bytes(bytes)) => key = bytes,
                    (2, Wire::Bytes(bytes)) => value = bytes,
                    _ => {}
                }
            }
            let value = match shape {
                Blobs => serde_json::to_value(k8s_openapi::ByteString(value.to_vec())).unwrap_or(Value::Null),
                _ => text(value),
            };
            let key = String::from_utf8_lossy(key).into_owned();
            crate::json::object(object.entry(field).or_insert(Value::Null)).insert(key, value);
        }
        (Either, Wire::Bytes(bytes)) => {
            let (mut string, mut number, mut words) = (false, 0, json!(""));
            for field in Fields(bytes) {
                match field? {
                    (1, Wire::Number(kind)) => string = kind == 1,
                    (2, Wire::Number(value)) => number = value.cast_signed(),
                    (3, Wire::Bytes(bytes)) => words = text(bytes),
                    _ => {}
                }
            }
            if string || number != 0 {
                object.insert(field.into(), if string { words } else { json!(number) });
            }
        }
        _ => {}
    }
    Ok(())
}

fn text(bytes: &[u8]) -> Value {
    json!(String::from_utf8_lossy(bytes))
}
