//! Custom resources: the kinds a CustomResourceDefinition defines, and the rules of definitions themselves. A definition
//! is established as soon as it is accepted, because the registry is rebuilt before its creation is acknowledged.

mod schema;

use serde_json::{Value, json};

use crate::{
    json,
    kind::{Kind, Source},
    status::Cause,
    validate,
};

/// Keeps a definition until its objects are gone.
pub const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// The behaviour of one version of a custom kind.
#[derive(Debug)]
pub struct Custom {
    /// `openAPIV3Schema`.
    pub schema: Value,
    /// `additionalPrinterColumns`.
    pub columns: Vec<Value>,
    /// `selectableFields`, as field selectors name them.
    pub selectable_fields: Vec<String>,
    /// Paths of the scale subresource: desired replicas, observed replicas, selector.
    pub scale: Option<(String, String, String)>,
}

impl Custom {
    /// Drops unknown fields.
    pub fn pruned(&self, mut value: Value) -> Value {
        schema::prune(&self.schema, &mut value, true);
        value
    }

    /// Drops unknown fields and fills in defaults.
    pub fn normalize(&self, value: Value) -> Value {
        let mut value = self.pruned(value);
        schema::default(&self.schema, &mut value);
        value
    }

    /// Checks an object against the schema.
    pub fn validate(&self, value: &Value) -> Vec<Cause> {
        schema::validate(&self.schema, value)
    }
}

/// The kinds a definition serves, one per version.
pub fn kinds(definition: &Value) -> Vec<Kind> {
    let texts = |path: &str| {
        json::list(definition, path)
            .iter()
            .filter_map(|v| v.as_str().map(str::to_owned))
            .collect()
    };
    let name = |field: &str| json::text(definition, &format!("/spec/names/{field}")).to_owned();
    let served = json::list(definition, "/spec/versions")
        .iter()
        .filter(|version| json::flag(version, "/served"));
    served
        .map(|version| {
            let custom = custom(version);
            let mut subresources = Vec::new();
            if !json::at(version, "/subresources/status").is_null() {
                subresources.push("status".to_owned());
            }
            if custom.scale.is_some() {
                subresources.push("scale".to_owned());
            }
            Kind {
                group: json::text(definition, "/spec/group").to_owned(),
                version: json::text(version, "/name").to_owned(),
                kind: name("kind"),
                list_kind: name("listKind"),
                plural: name("plural"),
                singular: name("singular"),
                short_names: texts("/spec/names/shortNames"),
                categories: texts("/spec/names/categories"),
                namespaced: json::text(definition, "/spec/scope") == "Namespaced",
                subresources,
                source: Source::Custom(custom.into()),
            }
        })
        .collect()
}

fn custom(version: &Value) -> Custom {
    let scale = json::at(version, "/subresources/scale");
    let pointer = |field: &str| json::text(scale, field).replace('.', "/");
    let fields = json::list(version, "/selectableFields").iter();
    Custom {
        schema: json::at(version, "/schema/openAPIV3Schema").clone(),
        columns: json::list(version, "/additionalPrinterColumns").to_vec(),
        selectable_fields: fields
            .map(|f| json::text(f, "/jsonPath").trim_start_matches('.').to_owned())
            .collect(),
        scale: (!scale.is_null()).then(|| {
            (
                pointer("/specReplicasPath"),
                pointer("/statusReplicasPath"),
                pointer("/labelSelectorPath"),
            )
        }),
    }
}

/// Defaults of a definition: names that follow from others, and the conditions of an established one.
pub fn default(definition: &mut Value) {
    let kind = json::text(definition, "/spec/names/kind").to_owned();
    json::default(definition, "/spec/names/singular", kind.to_lowercase());
    json::default(definition, "/spec/names/listKind", format!("{kind}List"));
    json::default(definition, "/spec/conversion/strategy", "None");
    if !json::terminating(definition) {
        let finalizers = json::slot(definition, "/metadata/finalizers");
        if !finalizers.is_array() {
            *finalizers = json!([]);
        }
        if let Value::Array(list) = finalizers
            && !list.iter().any(|f| f == CLEANUP)
        {
            list.push(json!(CLEANUP));
        }
    }
    let names = json::at(definition, "/spec/names").clone();
    json::set(definition, "/status/acceptedNames", names);
    let stored = json::list(definition, "/spec/versions")
        .iter()
        .filter(|v| json::flag(v, "/storage"));
    let stored: Vec<_> = stored.map(|v| json::at(v, "/name").clone()).collect();
    json::default(definition, "/status/storedVersions", stored);
    let created = json::text(definition, "/metadata/creationTimestamp").to_owned();
    let condition = |kind: &str, reason: &str, message: &str| json!({ "type": kind, "status": "True", "reason": reason, "message": message, "lastTransitionTime": created });
    let conditions = json!([
        condition("NamesAccepted", "NoConflicts", "no conflicts found"),
        condition("Established", "InitialNamesAccepted", "the initial names have been accepted"),
    ]);
    json::default(definition, "/status/conditions", conditions);
}

/// What is wrong with a definition.
pub fn validate_definition(new: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut causes = Vec::new();
    let (group, plural) = (json::text(new, "/spec/group"), json::text(new, "/spec/names/plural"));
    for (field, value) in [
        ("spec.group", group),
        ("spec.names.plural", plural),
        ("spec.names.kind", json::text(new, "/spec/names/kind")),
    ] {
        if value.is_empty() {
            causes.push(Cause::required(field, ""));
        }
    }
    if json::name(new) != format!("{plural}.{group}") {
        let why = "must be spec.names.plural+\".\"+spec.group";
        causes.push(Cause::invalid("metadata.name", &json!(json::name(new)), why));
    }
    if !group.is_empty() && !validate::is_subdomain(group) {
        causes.push(Cause::invalid("spec.group", &json!(group), "must be a DNS subdomain"));
    }
    if !["Namespaced", "Cluster"].contains(&json::text(new, "/spec/scope")) {
        let allowed = ["\"Cluster\"".to_owned(), "\"Namespaced\"".to_owned()];
        causes.push(Cause::unsupported("spec.scope", json::at(new, "/spec/scope"), &allowed));
    }
    let versions = json::list(new, "/spec/versions");
    if versions.iter().filter(|v| json::flag(v, "/storage")).count() != 1 {
        causes.push(Cause::invalid(
            "spec.versions",
            json::at(new, "/spec/versions"),
            "must have exactly one version marked as storage version",
        ));
    }
    for (index, version) in versions.iter().enumerate() {
        let schema = json::at(version, "/schema/openAPIV3Schema");
        let field = format!("spec.versions[{index}].schema.openAPIV3Schema");
        if schema.is_null() {
            causes.push(Cause::required(field, "schemas are required"));
        } else if json::text(schema, "/type") != "object" {
            causes.push(Cause::invalid(
                format!("{field}.type"),
                json::at(schema, "/type"),
                "must be object at the root",
            ));
        }
    }
    if json::text(new, "/spec/conversion/strategy") != "None" {
        causes.push(Cause::forbidden(
            "spec.conversion.strategy",
            "conversion webhooks are not supported by the lab's API server",
        ));
    }
    if let Some(old) = old {
        for field in ["/spec/group", "/spec/names/plural", "/spec/names/kind", "/spec/scope"] {
            if json::at(old, field) != json::at(new, field) {
                let name = field[1..].replace('/', ".");
                causes.push(Cause::invalid(name, json::at(new, field), "field is immutable"));
            }
        }
    }
    causes
}
