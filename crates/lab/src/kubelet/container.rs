//! From a container in a pod's spec to a process: its command, its environment, its place.
//!
//! Any image name is accepted: programs come from the node's own root. A container without a command answers on its declared ports.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;

use anyhow::{Context as _, bail};
use k8s_openapi::api::core::v1::{Container, EnvVarSource, Pod};

use super::files;
use crate::pods::{self, PodRecord};
use crate::protocol::ContainerSpec;
use crate::root::{LOGS, NETLOOM};

/// Identifier of a container's run: `uid/container/attempt`.
pub fn id(uid: &str, container: &str, attempt: i32) -> String {
    format!("{uid}/{container}/{attempt}")
}

/// The parts of an identifier.
pub fn parse_id(id: &str) -> Option<(&str, &str, i32)> {
    let (uid, rest) = id.split_once('/')?;
    let (container, attempt) = rest.split_once('/')?;
    Some((uid, container, attempt.parse().ok()?))
}

/// Directory of a pod's logs.
pub fn log_directory(uid: &str) -> PathBuf {
    PathBuf::from(LOGS).join("pods").join(uid)
}

/// Log file of a container's run.
pub fn log(uid: &str, container: &str, attempt: i32) -> PathBuf {
    log_directory(uid).join(format!("{container}.{attempt}.log"))
}

/// The process for one run of a container.
pub fn spec(pod: &Pod, record: &PodRecord, node: &Node, container: &Container, attempt: i32) -> anyhow::Result<ContainerSpec> {
    let env = environment(pod, record, node, container)?;
    let (command, announces) = match (&container.command, &container.args) {
        (Some(command), args) if !command.is_empty() => {
            let words = command.iter().chain(args.iter().flatten());
            (words.map(|word| expand(word, &env)).collect(), false)
        }
        // The arguments of an image's own program mean nothing here, unless they start with a program themselves.
        (_, Some(args))
            if args.first().is_some_and(|first| {
                first.starts_with('/') || ["sh", "bash", "sleep", "nc", "socat", "iperf3", "curl"].contains(&first.as_str())
            }) =>
        {
            (args.iter().map(|word| expand(word, &env)).collect(), false)
        }
        _ => (answering(pod, record, node, container), true),
    };
    Ok(ContainerSpec {
        id: id(&record.uid, &container.name, attempt),
        command,
        env,
        network: record.network.clone(),
        files: Some(pods::files(&record.uid)),
        hostname: files::hostname(pod, record, node),
        directory: container
            .working_dir
            .clone()
            .filter(|directory| !directory.is_empty())
            .unwrap_or_else(|| "/".into())
            .into(),
        log: log(&record.uid, &container.name, attempt),
        announces,
    })
}

/// What a container sees of its node.
#[derive(Debug, Clone)]
pub struct Node {
    /// Name of the node.
    pub name: String,
    /// Its addresses, first family first.
    pub addresses: Vec<IpAddr>,
}

fn answering(pod: &Pod, record: &PodRecord, node: &Node, container: &Container) -> Vec<String> {
    let mut command: Vec<String> = [
        NETLOOM,
        "lab",
        "container",
        "--name",
        &record.name,
        "--namespace",
        &record.namespace,
        "--node",
        &node.name,
    ]
    .map(String::from)
    .to_vec();
    // All containers share the pod's ports; one that another container declares as well is answered by the first of them.
    let first = |number: i32| {
        let all = pod.spec.iter().flat_map(|spec| &spec.containers);
        all.filter(|other| other.ports.iter().flatten().any(|port| port.container_port == number))
            .map(|other| &other.name)
            .next()
            == Some(&container.name)
    };
    for port in container.ports.iter().flatten().filter(|port| first(port.container_port)) {
        command.extend([
            "--port".into(),
            format!("{}/{}", port.container_port, port.protocol.as_deref().unwrap_or("TCP")),
        ]);
    }
    command
}

fn environment(pod: &Pod, record: &PodRecord, node: &Node, container: &Container) -> anyhow::Result<BTreeMap<String, String>> {
    let mut env: BTreeMap<String, String> = [
        ("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
        ("HOME", "/root"),
        ("LANG", "C.UTF-8"),
    ]
    .map(|(name, value)| (name.into(), value.into()))
    .into();
    env.insert("HOSTNAME".into(), files::hostname(pod, record, node));
    for variable in container.env.iter().flatten() {
        let value = match (&variable.value, &variable.value_from) {
            (Some(value), _) => expand(value, &env),
            (None, Some(source)) => resolve(pod, record, node, source)
                .with_context(|| format!("environment variable {} of container {}", variable.name, container.name))?,
            (None, None) => String::new(),
        };
        env.insert(variable.name.clone(), value);
    }
    Ok(env)
}

fn resolve(pod: &Pod, record: &PodRecord, node: &Node, source: &EnvVarSource) -> anyhow::Result<String> {
    let Some(field) = &source.field_ref else {
        bail!("only values and fieldRef are supported in a lab")
    };
    let joined = |addresses: &[IpAddr]| addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    let first = |addresses: &[IpAddr]| addresses.first().map(ToString::to_string).unwrap_or_default();
    let keyed = |map: &Option<BTreeMap<String, String>>, prefix: &str| {
        let key = field.field_path.strip_prefix(prefix)?.strip_suffix("']")?;
        Some(map.as_ref().and_then(|map| map.get(key)).cloned().unwrap_or_default())
    };
    Ok(match field.field_path.as_str() {
        "metadata.name" => record.name.clone(),
        "metadata.namespace" => record.namespace.clone(),
        "metadata.uid" => record.uid.clone(),
        "spec.nodeName" => node.name.clone(),
        "spec.serviceAccountName" => pod
            .spec
            .as_ref()
            .and_then(|spec| spec.service_account_name.clone())
            .unwrap_or_else(|| "default".into()),
        "status.podIP" => first(&record.addresses),
        "status.podIPs" => joined(&record.addresses),
        "status.hostIP" => first(&node.addresses),
        "status.hostIPs" => joined(&node.addresses),
        other => keyed(&pod.metadata.labels, "metadata.labels['")
            .or_else(|| keyed(&pod.metadata.annotations, "metadata.annotations['"))
            .with_context(|| format!("unknown field {other:?}"))?,
    })
}

/// Replaces `$(NAME)` by variables defined before, as Kubernetes does; unknown ones stay.
fn expand(text: &str, env: &BTreeMap<String, String>) -> String {
    let mut result = String::new();
    let mut rest = text;
    while let Some(start) = rest.find("$(") {
        result.push_str(&rest[..start]);
        let value = rest[start + 2..]
            .find(')')
            .and_then(|length| Some((length, env.get(&rest[start + 2..start + 2 + length])?)));
        match value {
            Some((length, value)) => {
                result.push_str(value);
                rest = &rest[start + 3 + length..];
            }
            None => {
                result.push_str("$(");
                rest = &rest[start + 2..];
            }
        }
    }
    result + rest
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    fn place() -> (PodRecord, Node) {
        let record = PodRecord {
            namespace: "default".into(),
            name: "web-0".into(),
            uid: "u".into(),
            sandbox: "s".into(),
            network: Some("/run/netns/s".into()),
            addresses: vec!["10.0.0.5".parse().unwrap()],
            port_mappings: Vec::new(),
        };
        (
            record,
            Node {
                name: "node1".into(),
                addresses: vec!["172.30.0.11".parse().unwrap()],
            },
        )
    }

    fn command_of(container: serde_json::Value) -> ContainerSpec {
        let pod: Pod =
            serde_json::from_value(json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}})).unwrap();
        let (record, node) = place();
        spec(&pod, &record, &node, &pod.spec.as_ref().unwrap().containers[0], 0).unwrap()
    }

    #[test]
    fn a_container_without_a_command_answers_on_its_ports() {
        let spec =
            command_of(json!({"name": "c", "image": "nginx", "ports": [{"containerPort": 80}, {"containerPort": 53, "protocol": "UDP"}]}));
        assert_eq!(
            spec.command.join(" "),
            "/usr/bin/netloom lab container --name web-0 --namespace default --node node1 --port 80/TCP --port 53/UDP"
        );
        assert_eq!(spec.id, "u/c/0");
        assert_eq!(parse_id(&spec.id), Some(("u", "c", 0)));
    }

    #[test]
    fn variables_and_fields() {
        let spec = command_of(json!({
            "name": "c", "command": ["sh", "-c", "echo $(IP) $(X) $HOME"],
            "env": [
                {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
                {"name": "APP", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['app']"}}},
                {"name": "BOTH", "value": "$(IP)-$(APP)"},
            ],
        }));
        assert_eq!(spec.command[2], "echo 10.0.0.5 $(X) $HOME");
        assert_eq!(spec.env["BOTH"], "10.0.0.5-web");
    }
}
