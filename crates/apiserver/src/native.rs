//! The built-in kinds, as data. Adding a kind means adding a row here, and a function only where the kind has rules of its
//! own. Types, descriptions and unknown-field pruning come from the generated Kubernetes types.

use k8s_openapi::{
    api::{
        apps::v1::{DaemonSet, Deployment, ReplicaSet},
        certificates::v1::CertificateSigningRequest,
        coordination::v1::Lease,
        core::v1::{ConfigMap, Endpoints, Event, Namespace, Node, Pod, Secret, Service, ServiceAccount},
        discovery::v1::EndpointSlice,
        networking::v1::{Ingress, IngressClass, NetworkPolicy},
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{
    crd, defaults,
    kind::Kind,
    openapi,
    status::{Cause, Failure, Result},
    table::{Column, native as table},
    validate,
};

/// One built-in kind.
#[derive(Debug)]
pub struct Native {
    /// API group, "" for core.
    pub group: &'static str,
    /// API version.
    pub version: &'static str,
    /// Kind name.
    pub kind: &'static str,
    /// Resource name.
    pub plural: &'static str,
    /// Short names.
    pub short_names: &'static [&'static str],
    /// Categories.
    pub categories: &'static [&'static str],
    /// Scope.
    pub namespaced: bool,
    /// Subresources.
    pub subresources: &'static [&'static str],
    /// Fields for field selectors.
    pub fields: &'static [&'static str],
    /// Whether `metadata.generation` counts changes of `spec`.
    pub generation: bool,
    /// The generated type.
    pub model: Model,
    /// Fills in defaults.
    pub default: fn(&mut Value),
    /// Finds what is wrong.
    pub validate: fn(&Value, Option<&Value>) -> Vec<Cause>,
    /// Columns for people, after the name and before the age.
    pub columns: &'static [Column],
    /// The cells of those columns.
    pub row: fn(&Value) -> Vec<Value>,
}

/// What is used of the generated type of a kind.
#[derive(Debug)]
pub struct Model {
    convert: fn(&Value) -> serde_json::Result<Value>,
    /// Its schema, with references resolved by the generator.
    pub schema: fn(&mut SchemaGenerator) -> Schema,
}

const fn model<T: DeserializeOwned + Serialize + JsonSchema>() -> Model {
    fn convert<T: DeserializeOwned + Serialize>(value: &Value) -> serde_json::Result<Value> {
        serde_json::to_value(T::deserialize(value)?)
    }
    fn schema<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
        generator.subschema_for::<T>()
    }
    Model {
        convert: convert::<T>,
        schema: schema::<T>,
    }
}

impl Native {
    /// Passes the object through its generated type: wrong types are refused, unknown fields dropped.
    pub fn convert(&self, value: &Value, kind: &Kind) -> Result<Value> {
        (self.model.convert)(value).map_err(|error| {
            let why = openapi::first_mismatch(self, value).unwrap_or_else(|| error.to_string());
            let (version, kind) = (&kind.version, &kind.kind);
            Failure::bad_request(format!("{kind} in version \"{version}\" cannot be handled as a {kind}: {why}"))
        })
    }
}

const BASE: Native = Native {
    group: "",
    version: "v1",
    kind: "",
    plural: "",
    short_names: &[],
    categories: &[],
    namespaced: true,
    subresources: &[],
    fields: &[],
    generation: false,
    model: model::<ConfigMap>(),
    default: |_| {},
    validate: |_, _| Vec::new(),
    columns: &[],
    row: |_| Vec::new(),
};

/// Every built-in kind.
pub static NATIVE: &[Native] = &[
    Native {
        group: "certificates.k8s.io",
        kind: "CertificateSigningRequest",
        plural: "certificatesigningrequests",
        short_names: &["csr"],
        namespaced: false,
        subresources: &["status", "approval"],
        fields: &["spec.signerName"],
        model: model::<CertificateSigningRequest>(),
        ..BASE
    },
    Native {
        kind: "ConfigMap",
        plural: "configmaps",
        short_names: &["cm"],
        columns: table::CONFIG_MAP,
        row: table::config_map,
        ..BASE
    },
    Native {
        kind: "Endpoints",
        plural: "endpoints",
        short_names: &["ep"],
        model: model::<Endpoints>(),
        columns: table::ENDPOINTS,
        row: table::endpoints,
        ..BASE
    },
    Native {
        kind: "Event",
        plural: "events",
        short_names: &["ev"],
        fields: &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        ],
        model: model::<Event>(),
        columns: table::EVENT,
        row: table::event,
        ..BASE
    },
    Native {
        kind: "Namespace",
        plural: "namespaces",
        short_names: &["ns"],
        namespaced: false,
        subresources: &["status", "finalize"],
        fields: &["status.phase"],
        model: model::<Namespace>(),
        default: defaults::namespace,
        columns: table::NAMESPACE,
        row: table::namespace,
        ..BASE
    },
    Native {
        kind: "Node",
        plural: "nodes",
        short_names: &["no"],
        namespaced: false,
        subresources: &["status"],
        fields: &["spec.unschedulable"],
        model: model::<Node>(),
        columns: table::NODE,
        row: table::node,
        ..BASE
    },
    Native {
        kind: "Pod",
        plural: "pods",
        short_names: &["po"],
        categories: &["all"],
        subresources: &["status", "binding", "exec", "log"],
        fields: &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        ],
        generation: true,
        model: model::<Pod>(),
        default: defaults::pod,
        validate: validate::pod,
        columns: table::POD,
        row: table::pod,
        ..BASE
    },
    Native {
        kind: "Secret",
        plural: "secrets",
        fields: &["type"],
        model: model::<Secret>(),
        default: defaults::secret,
        columns: table::SECRET,
        row: table::secret,
        ..BASE
    },
    Native {
        kind: "Service",
        plural: "services",
        short_names: &["svc"],
        categories: &["all"],
        subresources: &["status"],
        fields: &["spec.clusterIP", "spec.type"],
        model: model::<Service>(),
        default: defaults::service,
        validate: validate::service,
        columns: table::SERVICE,
        row: table::service,
        ..BASE
    },
    Native {
        kind: "ServiceAccount",
        plural: "serviceaccounts",
        short_names: &["sa"],
        model: model::<ServiceAccount>(),
        columns: table::SERVICE_ACCOUNT,
        row: table::service_account,
        ..BASE
    },
    Native {
        group: "apiextensions.k8s.io",
        kind: "CustomResourceDefinition",
        plural: "customresourcedefinitions",
        short_names: &["crd", "crds"],
        categories: &["api-extensions"],
        namespaced: false,
        subresources: &["status"],
        generation: true,
        model: model::<CustomResourceDefinition>(),
        default: crd::default,
        validate: crd::validate_definition,
        columns: table::CUSTOM_RESOURCE_DEFINITION,
        row: table::custom_resource_definition,
        ..BASE
    },
    Native {
        group: "apps",
        kind: "DaemonSet",
        plural: "daemonsets",
        short_names: &["ds"],
        categories: &["all"],
        subresources: &["status"],
        generation: true,
        model: model::<DaemonSet>(),
        default: defaults::daemon_set,
        validate: validate::workload,
        columns: table::DAEMON_SET,
        row: table::daemon_set,
        ..BASE
    },
    Native {
        group: "apps",
        kind: "Deployment",
        plural: "deployments",
        short_names: &["deploy"],
        categories: &["all"],
        subresources: &["status", "scale"],
        generation: true,
        model: model::<Deployment>(),
        default: defaults::deployment,
        validate: validate::workload,
        columns: table::DEPLOYMENT,
        row: table::deployment,
        ..BASE
    },
    Native {
        group: "apps",
        kind: "ReplicaSet",
        plural: "replicasets",
        short_names: &["rs"],
        categories: &["all"],
        subresources: &["status", "scale"],
        fields: &["status.replicas"],
        generation: true,
        model: model::<ReplicaSet>(),
        default: defaults::replica_set,
        validate: validate::workload,
        columns: table::REPLICA_SET,
        row: table::replica_set,
        ..BASE
    },
    Native {
        group: "coordination.k8s.io",
        kind: "Lease",
        plural: "leases",
        model: model::<Lease>(),
        columns: table::LEASE,
        row: table::lease,
        ..BASE
    },
    Native {
        group: "discovery.k8s.io",
        kind: "EndpointSlice",
        plural: "endpointslices",
        generation: true,
        model: model::<EndpointSlice>(),
        validate: validate::endpoint_slice,
        columns: table::ENDPOINT_SLICE,
        row: table::endpoint_slice,
        ..BASE
    },
    Native {
        group: "networking.k8s.io",
        kind: "Ingress",
        plural: "ingresses",
        short_names: &["ing"],
        subresources: &["status"],
        generation: true,
        model: model::<Ingress>(),
        validate: validate::ingress,
        columns: table::INGRESS,
        row: table::ingress,
        ..BASE
    },
    Native {
        group: "networking.k8s.io",
        kind: "IngressClass",
        plural: "ingressclasses",
        namespaced: false,
        generation: true,
        model: model::<IngressClass>(),
        columns: table::INGRESS_CLASS,
        row: table::ingress_class,
        ..BASE
    },
    Native {
        group: "networking.k8s.io",
        kind: "NetworkPolicy",
        plural: "networkpolicies",
        short_names: &["netpol"],
        generation: true,
        model: model::<NetworkPolicy>(),
        default: defaults::network_policy,
        validate: validate::network_policy,
        columns: table::NETWORK_POLICY,
        row: table::network_policy,
        ..BASE
    },
];
