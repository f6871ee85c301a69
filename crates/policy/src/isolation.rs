//! Isolated namespaces: pods of other namespaces do not reach theirs directly, or not even through a service. Isolated Networks: pods that
//! are not on them do not reach theirs directly. Judged before services are translated and before every policy, so it is no part of
//! [`crate::evaluate`].

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use crate::cluster::{Cluster, Name};
use crate::problem::{Object, Problem};
use crate::verdict::Party;

/// Annotation with a level.
const ISOLATION: &str = "netloom.io/isolation";
/// Annotation that says `true` or `false`.
const ISOLATED: &str = "opencontrail.kubernetes.isolated";

/// How far a namespace is shut to others, from open to strict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Isolation {
    /// Not at all.
    #[default]
    None,
    /// Pods of other namespaces reach its pods through services only.
    Pods,
    /// Nor through services.
    Services,
}

impl fmt::Display for Isolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::Pods => "pods",
            Self::Services => "services",
        })
    }
}

impl Isolation {
    /// Reads a namespace's annotations: the stricter of the two, and the strictest that could be meant by what cannot be read.
    pub fn read(namespace: &str, annotations: &BTreeMap<String, String>) -> (Self, Vec<Problem>) {
        let mut problems = Vec::new();
        let mut tell = |field: &str, reason, message| {
            problems.push(Problem {
                object: Object::of_cluster("Namespace", namespace),
                reason,
                field: format!("annotation {field}"),
                message,
            });
        };
        let level = annotations.get(ISOLATION).map(|text| match text.as_str() {
            "none" => Self::None,
            "pods" => Self::Pods,
            "services" => Self::Services,
            _ => {
                let message = format!("{text:?} is no isolation, so its pods and services are isolated; use none, pods or services");
                tell(ISOLATION, "InvalidIsolation", message);
                Self::Services
            }
        });
        let isolated = annotations.get(ISOLATED).map(|text| match text.as_str() {
            "false" => Self::None,
            "true" => Self::Pods,
            _ => {
                let message = format!("{text:?} is neither true nor false, so its pods are isolated; use one of these");
                tell(ISOLATED, "InvalidIsolation", message);
                Self::Pods
            }
        });
        if let (Some(level), Some(isolated)) = (level, isolated)
            && level != isolated
        {
            let message = format!(
                "says {level}, but {ISOLATED} says {isolated}; the stricter, {}, holds; remove one of them",
                level.max(isolated)
            );
            tell(ISOLATION, "ConflictingIsolation", message);
        }
        (level.max(isolated).unwrap_or_default(), problems)
    }
}

/// What keeps a pod from others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Shut {
    /// Its namespace, which is isolated.
    Namespace(String),
    /// The Network it is on, which is isolated.
    Network(String),
}

/// What isolation says of a packet that it concerns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "reason", rename_all = "camelCase")]
pub enum Crossing {
    /// Allowed: into an isolated namespace or Network, but through a service.
    ThroughService {
        /// What is isolated.
        #[serde(flatten)]
        into: Shut,
    },
    /// Denied: a pod from without sends to a pod within directly.
    Direct {
        /// What is isolated.
        #[serde(flatten)]
        into: Shut,
    },
    /// Denied: a pod of another namespace sends to a service that is this namespace's, or led it to one of its pods.
    Service {
        /// The isolated namespace.
        namespace: String,
    },
    /// Denied: services of this namespace have no node ports and no addresses outside the cluster.
    Unpublished {
        /// The isolated namespace.
        namespace: String,
    },
}

impl Crossing {
    /// Whether it lets the packet pass.
    pub fn allows(&self) -> bool {
        matches!(self, Self::ThroughService { .. })
    }
}

/// What isolation says, if it is concerned. The service is one that translates; `published` says that it is met at a node's
/// port or an address outside.
pub fn crossing(cluster: &Cluster, from: &Party, to: &Party, service: Option<&Name>, published: bool) -> Option<Crossing> {
    if let Some(service) = service {
        let outside = published || *from == Party::External;
        if outside && cluster.isolation(&service.namespace) == Isolation::Services {
            let namespace = service.namespace.clone();
            return Some(Crossing::Unpublished { namespace });
        }
    }
    let Party::Pod(from) = from else { return None };
    let shut = |namespace: &&String, level| **namespace != from.namespace && cluster.isolation(namespace) >= level;
    if let Some(service) = service {
        let behind = match to {
            Party::Pod(pod) => Some(&pod.namespace),
            Party::Node { .. } | Party::External => None,
        };
        let mut namespaces = std::iter::once(&service.namespace).chain(behind);
        if let Some(namespace) = namespaces.find(|namespace| shut(namespace, Isolation::Services)) {
            let namespace = namespace.clone();
            return Some(Crossing::Service { namespace });
        }
    }
    let Party::Pod(to) = to else { return None };
    let into = if cluster.isolation(&to.namespace) >= Isolation::Pods {
        // Where both are isolated, the namespace's isolation is what counts.
        let namespace = Some(&to.namespace).filter(|namespace| shut(namespace, Isolation::Pods))?;
        Shut::Namespace(namespace.clone())
    } else {
        let network = cluster.isolated_network_of(to)?;
        let is_on_it = cluster.network_of(from).is_ok_and(|own| own == Some(network));
        Shut::Network(Some(network).filter(|_| !is_on_it)?.to_owned())
    };
    Some(match service {
        Some(_) => Crossing::ThroughService { into },
        None => Crossing::Direct { into },
    })
}

/// Services that cannot be reached as they ask to, because their namespace is isolated with its services.
pub fn unpublished(cluster: &Cluster, name: &Name) -> Option<Problem> {
    let service = cluster.services.get(name)?;
    let asks = service.published || !service.external_ips.is_empty() || service.ports.iter().any(|port| port.node_port.is_some());
    (asks && cluster.isolation(&name.namespace) == Isolation::Services).then(|| Problem {
        object: Object::in_namespace("Service", name),
        reason: "ServiceIsolated",
        field: "spec.type".to_owned(),
        message: format!(
            "namespace {} is isolated with its services, so node ports and addresses outside the cluster are not published; use type ClusterIP \
             without externalIPs, or isolate the namespace's pods only ({ISOLATION}: pods)",
            name.namespace
        ),
    })
}
