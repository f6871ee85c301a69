//! The verbs on objects, without HTTP: what create, update, patch, apply and delete mean. The REST layer and the built-in
//! controllers both come in here, so every object obeys the same rules however it arrived. Updates are functions from the
//! old object to the new one, run again if the object moved meanwhile: the only retry in the crate.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::{
    Options, json,
    kind::{Kind, Registry},
    services::{self, Addresses},
    status::{Failure, Result},
    store::{Key, Object, Refused, Store, StoreError},
    taken::Taken,
    validate,
};

/// The API: kinds, objects and addresses.
pub struct Api {
    /// The objects.
    pub store: Arc<Store>,
    /// The kinds.
    pub registry: Registry,
    /// Cluster addresses and node ports.
    pub(crate) addresses: Addresses,
    /// What Services have; held from the choice of something free until it is written.
    taken: tokio::sync::Mutex<Taken>,
}

/// Which part of an object an update may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Everything but the status.
    Main,
    /// The status only.
    Status,
    /// Everything: controllers that set fields users may not.
    Whole,
}

/// How to delete.
#[derive(Debug, Clone, Default)]
pub struct Deletion {
    /// Pretend only.
    pub dry_run: bool,
    /// Seconds a pod may take, if given.
    pub grace: Option<i64>,
    /// Only this very object.
    pub uid: Option<String>,
    /// Only this version of it.
    pub revision: Option<String>,
    /// `Background`, `Foreground` or `Orphan`.
    pub propagation: Option<String>,
}

/// What became of a deletion.
pub enum Deleted {
    /// The object is gone; this was its last state.
    Gone(Arc<Object>),
    /// The object waits for its kubelet or its finalizers.
    Pending(Value),
}

/// Finalizer: dependents keep living without this owner.
pub const ORPHAN: &str = "orphan";
/// Finalizer: dependents go first.
pub const FOREGROUND: &str = "foregroundDeletion";

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Failure::internal(error)
    }
}

impl Api {
    /// The API on a store, with the kinds its CustomResourceDefinitions define.
    pub fn new(store: Arc<Store>, options: &Options) -> Arc<Self> {
        let addresses = Addresses::new(&options.service_cidrs);
        let api = Self {
            store,
            registry: Registry::default(),
            addresses,
            taken: tokio::sync::Mutex::default(),
        };
        api.refresh_kinds();
        Arc::new(api)
    }

    /// One object.
    pub fn get(&self, kind: &Kind, namespace: &str, name: &str) -> Result<Arc<Object>> {
        self.store
            .get(&kind.resource(), &key(namespace, name))
            .ok_or_else(|| Failure::not_found(kind, name))
    }

    /// Makes a new object.
    pub async fn create(&self, kind: &Kind, namespace: &str, mut value: Value, dry_run: bool) -> Result<Arc<Object>> {
        json::set(&mut value, "/apiVersion", kind.api_version());
        json::set(&mut value, "/kind", kind.kind.as_str());
        place(kind, namespace, &mut value)?;
        let prefix = json::text(&value, "/metadata/generateName").to_owned();
        let generated = json::name(&value).is_empty() && !prefix.is_empty();
        if generated {
            json::set(&mut value, "/metadata/name", format!("{}{}", truncated(&prefix), suffix()));
        }
        for field in ["resourceVersion", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
            json::remove(&mut value, &format!("/metadata/{field}"));
        }
        json::set(&mut value, "/metadata/uid", uuid::Uuid::new_v4().to_string());
        json::set(&mut value, "/metadata/creationTimestamp", json::now());
        if kind.has_generation() {
            json::set(&mut value, "/metadata/generation", 1);
        }
        if kind.has("status") && !kind.is("nodes") && !kind.is("customresourcedefinitions") {
            json::remove(&mut value, "/status");
        }
        let mut value = kind.normalize(value)?;
        let name = json::name(&value).to_owned();
        let mut causes = validate::metadata(kind, &value);
        causes.extend(kind.validate(&value, None));
        if !causes.is_empty() {
            return Err(Failure::invalid(kind, &name, &causes));
        }
        let allocating = self.allocate(kind, &mut value, None).await?;
        let key = key(if kind.namespaced { namespace } else { "" }, &name);
        if dry_run {
            if self.store.get(&kind.resource(), &key).is_some() {
                return Err(Failure::already_exists(kind, &name));
            }
            return pretend(value);
        }
        let object = self
            .store
            .swap(&kind.resource(), &key, None, Some(value))
            .map_err(|refused| match refused {
                Refused::Moved => Failure::already_exists(kind, &name),
                Refused::NoNamespace => self.no_namespace(namespace),
                Refused::Terminating => Failure::terminating(kind, &name, namespace),
                Refused::Store(error) => error.into(),
            })?;
        drop(allocating);
        self.acknowledge(kind, &object).await?;
        Ok(object)
    }

    /// Replaces an object by what `change` makes of it. Returns the object as it is afterwards, also if nothing changed
    /// or if the change was the last thing that kept a deleted object.
    pub async fn update(
        &self,
        kind: &Kind,
        namespace: &str,
        name: &str,
        part: Part,
        dry_run: bool,
        mut change: impl FnMut(&Value) -> Result<Value>,
    ) -> Result<Arc<Object>> {
        let key = key(if kind.namespaced { namespace } else { "" }, name);
        loop {
            let old = self
                .store
                .get(&kind.resource(), &key)
                .ok_or_else(|| Failure::not_found(kind, name))?;
            let mut new = self.revise(kind, &old, part, change(&old.value)?)?;
            let allocating = self.allocate(kind, &mut new, Some(&old.value)).await?;
            if same(&old.value, &new) {
                self.store.settled(old.revision).await?;
                return Ok(old);
            }
            if dry_run {
                return pretend(new);
            }
            let finished = json::terminating(&new) && kept_by(kind, &new).is_none();
            let swapped = self
                .store
                .swap(&kind.resource(), &key, Some(old.revision), (!finished).then_some(new));
            drop(allocating);
            match swapped {
                Ok(object) => {
                    self.acknowledge(kind, &object).await?;
                    return Ok(object);
                }
                Err(Refused::Moved) => continue,
                Err(Refused::Store(error)) => return Err(error.into()),
                Err(other) => return Err(Failure::internal(other)),
            }
        }
    }

    /// Deletes an object, or marks it for deletion if something must happen first.
    pub async fn delete(&self, kind: &Kind, namespace: &str, name: &str, how: &Deletion) -> Result<Deleted> {
        let key = key(if kind.namespaced { namespace } else { "" }, name);
        loop {
            let old = self.get(kind, &key.0, name)?;
            check_preconditions(kind, &old.value, how)?;
            if kind.is("namespaces") && ["default", "kube-system", "kube-public", "kube-node-lease"].contains(&name) {
                return Err(Failure::forbidden(kind, name, "this namespace may not be deleted"));
            }
            let marked = mark(kind, &old.value, how);
            let new = kept_by(kind, &marked).is_some().then_some(marked);
            if how.dry_run {
                return Ok(new.map_or(Deleted::Gone(old), Deleted::Pending));
            }
            if let Some(new) = &new
                && same(&old.value, new)
            {
                return Ok(Deleted::Pending(old.value.clone()));
            }
            let pending = new.is_some();
            match self.store.swap(&kind.resource(), &key, Some(old.revision), new) {
                Ok(object) => {
                    self.acknowledge(kind, &object).await?;
                    return Ok(if pending {
                        Deleted::Pending(object.value.clone())
                    } else {
                        Deleted::Gone(object)
                    });
                }
                Err(Refused::Moved) => continue,
                Err(Refused::Store(error)) => return Err(error.into()),
                Err(other) => return Err(Failure::internal(other)),
            }
        }
    }

    /// The new version of an object: what the writer may not change is taken from the old one, the rest is checked.
    fn revise(&self, kind: &Kind, old: &Object, part: Part, mut new: Value) -> Result<Value> {
        let name = json::name(&old.value);
        let before = &old.value;
        if json::name(&new) != name
            || (kind.namespaced && !json::namespace(&new).is_empty() && json::namespace(&new) != json::namespace(before))
        {
            return Err(Failure::bad_request(
                "the name or namespace of the provided object does not match the one in the URL",
            ));
        }
        let revision = json::text(&new, "/metadata/resourceVersion");
        if !revision.is_empty() && revision != old.revision.to_string() {
            return Err(Failure::conflict(kind, name));
        }
        let uid = json::uid(&new);
        if !uid.is_empty() && uid != json::uid(before) {
            let why = format!(
                "Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
                json::uid(before)
            );
            return Err(Failure::conflict_because(kind, name, &why));
        }
        match part {
            Part::Main if kind.has("status") => copy(before, &mut new, "/status"),
            Part::Status => {
                let status = json::at(&new, "/status").clone();
                let managed = json::at(&new, "/metadata/managedFields").clone();
                // Kubernetes lets who writes a pod's status annotate it as well.
                let annotations = kind.is("pods").then(|| json::at(&new, "/metadata/annotations").clone());
                new = before.clone();
                if let Some(annotations) = annotations.filter(|annotations| !annotations.is_null()) {
                    json::set(&mut new, "/metadata/annotations", annotations);
                }
                json::set(&mut new, "/status", status);
                if !managed.is_null() {
                    json::set(&mut new, "/metadata/managedFields", managed);
                }
            }
            Part::Main | Part::Whole => {}
        }
        json::set(&mut new, "/apiVersion", kind.api_version());
        json::set(&mut new, "/kind", kind.kind.as_str());
        let fixed = [
            "namespace",
            "uid",
            "creationTimestamp",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "generation",
            "resourceVersion",
        ];
        for field in fixed {
            copy(before, &mut new, &format!("/metadata/{field}"));
        }
        let mut new = kind.normalize(new)?;
        if kind.is("services") {
            services::release(&mut new, before);
        }
        let mut causes = validate::metadata(kind, &new);
        causes.extend(kind.validate(&new, (part == Part::Main).then_some(before)));
        if !causes.is_empty() && part != Part::Status {
            return Err(Failure::invalid(kind, name, &causes));
        }
        if kind.intent_changed(before, &new) {
            let generation = json::number(before, "/metadata/generation").unwrap_or(0) + 1;
            json::set(&mut new, "/metadata/generation", generation);
        }
        Ok(new)
    }

    async fn allocate(&self, kind: &Kind, new: &mut Value, old: Option<&Value>) -> Result<Option<tokio::sync::MutexGuard<'_, Taken>>> {
        let settled = old.is_some_and(|old| json::at(old, "/spec") == json::at(new, "/spec"));
        if !kind.is("services") || settled {
            return Ok(None);
        }
        let mut taken = self.taken.lock().await;
        taken.catch_up(&self.store);
        let causes = self.addresses.assign(new, old, &taken);
        if !causes.is_empty() {
            return Err(Failure::invalid(kind, json::name(new), &causes));
        }
        Ok(Some(taken))
    }

    /// Waits until a write is durable; a changed definition changes the kinds that are served.
    async fn acknowledge(&self, kind: &Kind, object: &Object) -> Result<()> {
        if kind.is("customresourcedefinitions") {
            self.refresh_kinds();
        }
        Ok(self.store.settled(object.revision).await?)
    }

    fn refresh_kinds(&self) {
        let (definitions, _) = self.store.list("customresourcedefinitions.apiextensions.k8s.io", None);
        self.registry.define(definitions.iter().map(|object| &object.value));
    }

    fn no_namespace(&self, namespace: &str) -> Failure {
        match self.registry.find("", "v1", "namespaces") {
            Ok(kind) => Failure::not_found(&kind, namespace),
            Err(failure) => failure,
        }
    }
}

/// The key of an object in the store.
pub fn key(namespace: &str, name: &str) -> Key {
    (namespace.to_owned(), name.to_owned())
}

/// What keeps an object that is to be deleted: finalizers, a kubelet, the namespace's content.
fn kept_by<'a>(kind: &Kind, value: &'a Value) -> Option<&'a str> {
    if let Some(finalizer) = json::list(value, "/metadata/finalizers").iter().find_map(Value::as_str) {
        return Some(finalizer);
    }
    if kind.is("namespaces") {
        return json::list(value, "/spec/finalizers").first().and_then(Value::as_str);
    }
    let grace = json::number(value, "/metadata/deletionGracePeriodSeconds").unwrap_or(0);
    (kind.is("pods") && grace > 0).then_some("kubelet")
}

/// The object with its deletion asked for.
fn mark(kind: &Kind, old: &Value, how: &Deletion) -> Value {
    let mut new = old.clone();
    let grace = if kind.is("pods") { pod_grace(old, how) } else { 0 };
    let shorter = json::number(old, "/metadata/deletionGracePeriodSeconds").is_none_or(|before| grace < before);
    if shorter {
        let when = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(grace);
        json::set(
            &mut new,
            "/metadata/deletionTimestamp",
            when.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        );
        json::set(&mut new, "/metadata/deletionGracePeriodSeconds", grace);
    }
    if kind.is("namespaces") {
        json::set(&mut new, "/status/phase", "Terminating");
    }
    let finalizer = match how.propagation.as_deref() {
        Some("Orphan") => ORPHAN,
        Some("Foreground") => FOREGROUND,
        _ => return new,
    };
    let finalizers = json::slot(&mut new, "/metadata/finalizers");
    if !finalizers.is_array() {
        *finalizers = json!([]);
    }
    if let Value::Array(list) = finalizers
        && !list.iter().any(|f| f == finalizer)
        && !json::terminating(old)
    {
        list.push(json!(finalizer));
    }
    new
}

/// How long a pod may take to stop: not at all if no kubelet runs it or it has already ended.
fn pod_grace(pod: &Value, how: &Deletion) -> i64 {
    let ended = ["Succeeded", "Failed"].contains(&json::text(pod, "/status/phase"));
    if json::text(pod, "/spec/nodeName").is_empty() || ended {
        return 0;
    }
    let asked = how.grace.or_else(|| json::number(pod, "/spec/terminationGracePeriodSeconds"));
    asked.unwrap_or(30).max(0)
}

fn check_preconditions(kind: &Kind, old: &Value, how: &Deletion) -> Result<()> {
    let name = json::name(old);
    if let Some(uid) = &how.uid
        && uid != json::uid(old)
    {
        let why = format!(
            "Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
            json::uid(old)
        );
        return Err(Failure::conflict_because(kind, name, &why));
    }
    if let Some(revision) = &how.revision
        && revision != json::text(old, "/metadata/resourceVersion")
    {
        let found = json::text(old, "/metadata/resourceVersion");
        let why = format!("Precondition failed: ResourceVersion in precondition: {revision}, ResourceVersion in object meta: {found}");
        return Err(Failure::conflict_because(kind, name, &why));
    }
    Ok(())
}

/// Puts a new object where its URL says, and refuses one that says otherwise.
fn place(kind: &Kind, namespace: &str, value: &mut Value) -> Result<()> {
    if !kind.namespaced {
        json::remove(value, "/metadata/namespace");
        return Ok(());
    }
    let given = json::namespace(value);
    if !given.is_empty() && given != namespace {
        let message =
            format!("the namespace of the provided object does not match the namespace sent on the request ({given} != {namespace})");
        return Err(Failure::bad_request(message));
    }
    json::set(value, "/metadata/namespace", namespace);
    Ok(())
}

fn copy(from: &Value, to: &mut Value, path: &str) {
    match from.pointer(path) {
        Some(value) => json::set(to, path, value.clone()),
        None => {
            json::remove(to, path);
        }
    }
}

/// Whether an update changes nothing but bookkeeping.
fn same(old: &Value, new: &Value) -> bool {
    let content =
        |value: &Value, other: &Value| json::entries(value, "").all(|(key, field)| key == "metadata" || other.get(key) == Some(field));
    let metadata = |value: &Value| {
        let mut metadata = json::at(value, "/metadata").clone();
        json::remove(&mut metadata, "/resourceVersion");
        for entry in json::list_mut(&mut metadata, "/managedFields") {
            json::remove(entry, "/time");
        }
        metadata
    };
    content(old, new) && content(new, old) && metadata(old) == metadata(new)
}

/// The answer to a dry run: the object, stored nowhere.
fn pretend(value: Value) -> Result<Arc<Object>> {
    let json = serde_json::to_vec(&value).map_err(Failure::internal)?.into();
    Ok(Arc::new(Object { value, json, revision: 0 }))
}

fn truncated(prefix: &str) -> &str {
    &prefix[..prefix.len().min(248)]
}

/// Five characters that make a generated name unique, without vowels so that they spell nothing.
pub fn suffix() -> String {
    const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let random = uuid::Uuid::new_v4();
    let bytes = random.as_bytes().iter().take(5);
    bytes.map(|b| char::from(ALPHABET[usize::from(*b) % ALPHABET.len()])).collect()
}
