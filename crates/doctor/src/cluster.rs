//! What the doctor knows of a cluster, and how it is gathered: all looks at once, each with its deadline. Read rights
//! are enough; where they are missing the fact says so.

pub mod databases;
pub mod kubernetes;
mod objects;

use std::collections::BTreeMap;

use anyhow::Result;
use netloom_certificate::in_directory;

#[cfg(test)]
pub use objects::Condition;
pub use objects::{DaemonSetSeen, Definition, Network, NodeSeen, PodSeen, Workload};

use crate::ClusterOptions;
use crate::unseen::{Seen, Unseen, in_time};
use databases::Member;

/// All that was seen of a cluster.
#[derive(Clone, Debug)]
pub struct ClusterFacts {
    /// Where Netloom is expected.
    pub namespace: String,
    /// The API server's version, as `v1.35.0`.
    pub version: Seen<String>,
    /// Seconds our clock is ahead of the API server's.
    pub clock: Seen<i64>,
    /// Definitions of our kinds.
    pub definitions: Seen<Vec<Definition>>,
    /// The ClusterNetwork `default`.
    pub network: Seen<Option<Network>>,
    /// Ranges of ServiceCIDR objects.
    pub service_cidrs: Seen<Vec<String>>,
    /// Nodes.
    pub nodes: Seen<Vec<NodeSeen>>,
    /// Seconds since 1970, at the API server, when each node last renewed its lease by its own clock.
    pub renewals: Seen<BTreeMap<String, i64>>,
    /// Pods of the DaemonSet of agents.
    pub agents: Seen<Vec<PodSeen>>,
    /// Workloads in our namespace.
    pub workloads: Seen<Vec<Workload>>,
    /// DaemonSets of all namespaces.
    pub daemon_sets: Seen<Vec<DaemonSetSeen>>,
    /// Pending pods that were told a problem of their network, as `namespace/name`.
    pub refused_pods: Seen<Vec<String>>,
    /// From when until when the certificates in our secrets are valid; none of those we may not read.
    pub secrets: BTreeMap<String, (i64, i64)>,
    /// Servers of the databases, if they were asked for.
    pub databases: Option<Seen<Vec<Member>>>,
    /// Seconds since 1970, here.
    pub now: i64,
}

/// Looks at everything.
pub async fn gather(options: &ClusterOptions) -> Result<ClusterFacts> {
    let client = netloom_controller::kubernetes(options.kubeconfig.as_deref()).await?;
    let (client, namespace) = (&client, options.namespace.as_str());
    let tls = options.tls.as_deref().map(in_directory);
    let version = in_time(kubernetes::version(client)).await;
    // Without an API server there is nothing else to see, and no use in waiting for each look to time out.
    if let Err(unseen) = version {
        return Ok(ClusterFacts::unreachable(namespace, unseen));
    }
    let databases = async {
        let service = options.databases.as_deref()?;
        let southbound = match tls {
            Some(_) => databases::SOUTHBOUND_MEMBERS,
            None => databases::SOUTHBOUND,
        };
        let both = [databases::NORTHBOUND, southbound].map(|database| {
            let tls = tls.as_ref();
            async move {
                let remotes = in_time(databases::remotes(client, service, database, tls.is_some())).await?;
                Ok(databases::members(database, &remotes, tls).await)
            }
        });
        let found: Seen<Vec<Vec<Member>>> = futures::future::join_all(both).await.into_iter().collect();
        Some(found.map(|members| members.concat()))
    };
    let (clock, definitions, network, service_cidrs, nodes, renewals, agents, workloads, daemon_sets, refused_pods, secrets, databases) = tokio::join!(
        in_time(kubernetes::skew(client)),
        in_time(objects::definitions(client)),
        in_time(objects::network(client)),
        in_time(objects::service_cidrs(client)),
        in_time(objects::nodes(client)),
        in_time(objects::renewals(client)),
        in_time(objects::agents(client, namespace)),
        in_time(objects::workloads(client, namespace)),
        in_time(objects::daemon_sets(client)),
        in_time(objects::refused_pods(client)),
        in_time(objects::secrets(client, namespace)),
        databases,
    );
    Ok(ClusterFacts {
        namespace: namespace.to_owned(),
        version,
        clock,
        definitions,
        network,
        service_cidrs,
        nodes,
        renewals,
        agents,
        workloads,
        daemon_sets,
        refused_pods,
        secrets: secrets.unwrap_or_default(),
        databases,
        now: jiff::Timestamp::now().as_second(),
    })
}

impl ClusterFacts {
    /// Nothing was seen, for this one reason.
    pub fn unreachable(namespace: &str, why: Unseen) -> Self {
        Self {
            namespace: namespace.to_owned(),
            version: Err(why.clone()),
            clock: Err(why.clone()),
            definitions: Err(why.clone()),
            network: Err(why.clone()),
            service_cidrs: Err(why.clone()),
            nodes: Err(why.clone()),
            renewals: Err(why.clone()),
            agents: Err(why.clone()),
            workloads: Err(why.clone()),
            daemon_sets: Err(why.clone()),
            refused_pods: Err(why),
            secrets: BTreeMap::new(),
            databases: None,
            now: 0,
        }
    }
}
