//! One request of the plugin: parsed, checked, typed. The bytes come from whoever can open the socket, so
//! [`parse_request`] is total: any input gives a request or an error with the specification's code, never a panic.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;
use serde_json::Value;

use super::error::CniError;
use crate::published::mapping::{self, Mapping};
use netloom_contract::cni::{Code, Version};
use netloom_contract::name::PodPort;

/// A request larger than this is refused before it is parsed.
pub const MAX_REQUEST: usize = 1 << 20;

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Attach a pod.
    Add,
    /// Detach a pod.
    Del,
    /// Verify an attachment.
    Check,
    /// Remove attachments nobody knows any more.
    Gc,
    /// Tell whether pods can be attached.
    Status,
}

/// The identity of one interface of one sandbox: the unit everything in the agent is recorded under.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize)]
pub struct Sandbox {
    /// The container runtime's id of the sandbox.
    #[serde(rename = "containerID")]
    pub container: String,
    /// The interface's name in the pod.
    pub ifname: String,
}

/// The pod a sandbox belongs to, from `CNI_ARGS`, and which of its interfaces is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID; old runtimes do not pass one.
    pub uid: Option<String>,
    /// The interface's name in the pod.
    pub ifname: String,
}

impl Pod {
    /// The name of the interface's logical port.
    pub fn port(&self) -> String {
        PodPort::of_interface(&self.namespace, &self.name, &self.ifname).to_string()
    }
}

/// A parsed request.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// What is asked.
    pub command: Command,
    /// The version to answer in.
    pub version: Version,
    /// Whose interface; empty for GC and STATUS.
    pub sandbox: Sandbox,
    /// Path of the pod's network namespace; DEL may come without one.
    pub netns: Option<PathBuf>,
    /// The key-value pairs of `CNI_ARGS`.
    pub args: BTreeMap<String, String>,
    /// The name of the network configuration.
    pub network: String,
    /// MTU set in the network configuration.
    pub mtu: Option<u32>,
    /// ADD: the ports the pod publishes on its node.
    pub host_ports: Vec<Mapping>,
    /// The result of the ADD this CHECK is about.
    pub previous: Option<Value>,
    /// GC: the attachments that are still in use.
    pub valid: Option<Vec<Sandbox>>,
}

impl Request {
    /// The pod this request is about.
    pub fn pod(&self) -> Result<Pod, CniError> {
        let required = |key: &str| {
            self.args.get(key).filter(|value| !value.is_empty()).cloned().ok_or_else(|| {
                CniError::new(Code::InvalidEnvironment, format!("{key} is missing from CNI_ARGS"))
                    .details("the runtime must say which pod the sandbox belongs to; netloom attaches Kubernetes pods only")
            })
        };
        Ok(Pod {
            namespace: required("K8S_POD_NAMESPACE")?,
            name: required("K8S_POD_NAME")?,
            uid: self.args.get("K8S_POD_UID").filter(|uid| !uid.is_empty()).cloned(),
            ifname: self.sandbox.ifname.clone(),
        })
    }

    /// The pod's namespace path, where one is needed.
    pub fn netns(&self) -> Result<&PathBuf, CniError> {
        self.netns
            .as_ref()
            .ok_or_else(|| CniError::new(Code::InvalidEnvironment, "CNI_NETNS is missing"))
    }
}

/// The request as it is on the wire.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wire {
    command: String,
    #[serde(default)]
    container_id: String,
    #[serde(default)]
    netns: String,
    #[serde(default)]
    ifname: String,
    #[serde(default)]
    args: String,
    config: WireConfig,
}

/// The keys of the network configuration that concern the agent.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireConfig {
    cni_version: String,
    #[serde(default)]
    name: String,
    mtu: Option<u32>,
    #[serde(default)]
    runtime_config: Value,
    prev_result: Option<Value>,
    #[serde(rename = "cni.dev/valid-attachments")]
    valid_attachments: Option<Vec<Sandbox>>,
    #[serde(rename = "cni.dev/attachments")]
    attachments: Option<Vec<Sandbox>>,
}

/// Parses one request.
pub fn parse_request(bytes: &[u8]) -> Result<Request, CniError> {
    if bytes.len() > MAX_REQUEST {
        return Err(CniError::new(
            Code::Decode,
            format!("the request is larger than {MAX_REQUEST} bytes"),
        ));
    }
    let document: Value =
        serde_json::from_slice(bytes).map_err(|error| CniError::new(Code::Decode, format!("the request is not JSON: {error}")))?;
    let wire: Wire = serde_json::from_value(document)
        .map_err(|error| CniError::new(Code::InvalidConfig, format!("the request is not usable: {error}")))?;

    let version = Version::parse(&wire.config.cni_version).ok_or_else(|| {
        CniError::new(
            Code::IncompatibleVersion,
            format!("cniVersion {:?} is not supported", wire.config.cni_version),
        )
    })?;
    let command = match wire.command.as_str() {
        "ADD" => Command::Add,
        "DEL" => Command::Del,
        "CHECK" => Command::Check,
        "GC" => Command::Gc,
        "STATUS" => Command::Status,
        other => return Err(CniError::new(Code::InvalidEnvironment, format!("command {other:?} is unknown"))),
    };
    let sandbox = Sandbox {
        container: wire.container_id,
        ifname: wire.ifname,
    };
    if matches!(command, Command::Add | Command::Del | Command::Check) {
        check_sandbox(&sandbox)?;
    }
    if wire.config.mtu.is_some_and(|mtu| !(576..=65535).contains(&mtu)) {
        return Err(CniError::new(Code::InvalidConfig, "`mtu` must be between 576 and 65535"));
    }
    // Whatever is wrong with them, what was attached can be detached.
    let host_ports = match command {
        Command::Add => parse_host_ports(&wire.config.runtime_config)?,
        _ => Vec::new(),
    };
    Ok(Request {
        command,
        version,
        sandbox,
        netns: (!wire.netns.is_empty()).then(|| PathBuf::from(wire.netns)),
        args: parse_args(&wire.args)?,
        network: wire.config.name,
        mtu: wire.config.mtu,
        host_ports,
        previous: wire.config.prev_result,
        valid: wire.config.valid_attachments.or(wire.config.attachments),
    })
}

/// The names end up in OVS rows and in a device name: what they may hold is fixed by the specification.
fn check_sandbox(sandbox: &Sandbox) -> Result<(), CniError> {
    let id = &sandbox.container;
    let valid_id = id.starts_with(|first: char| first.is_ascii_alphanumeric())
        && id.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-'));
    if !valid_id {
        return Err(CniError::new(Code::InvalidEnvironment, format!("container id {id:?} is not valid")));
    }
    let name = &sandbox.ifname;
    let valid_name = (1..=15).contains(&name.len())
        && !matches!(name.as_str(), "." | ".." | "lo")
        && !name.contains(|c: char| c == '/' || c == ':' || c.is_whitespace() || c.is_control());
    if !valid_name {
        return Err(CniError::new(
            Code::InvalidEnvironment,
            format!("interface name {name:?} is not valid"),
        ));
    }
    Ok(())
}

/// The runtime passes `portMappings` to plugins whose configuration declares that capability.
fn parse_host_ports(runtime_config: &Value) -> Result<Vec<Mapping>, CniError> {
    let mappings = runtime_config.get("portMappings").unwrap_or(&Value::Null);
    mapping::parse(mappings).map_err(|wrong| {
        CniError::new(Code::InvalidConfig, format!("the host ports of the pod are not usable: {wrong}")).details(
            "they come from `hostPort`, `hostIP` and `protocol` of the pod's containers, in `runtimeConfig` of the network configuration",
        )
    })
}

fn parse_args(text: &str) -> Result<BTreeMap<String, String>, CniError> {
    text.split(';')
        .filter(|pair| !pair.is_empty())
        .map(|pair| match pair.split_once('=') {
            Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
            _ => Err(CniError::new(
                Code::InvalidEnvironment,
                format!("CNI_ARGS entry {pair:?} is not KEY=VALUE"),
            )),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    fn request(change: impl FnOnce(&mut Value)) -> Result<Request, CniError> {
        let mut document = json!({
            "command": "ADD", "containerId": "abc", "netns": "/run/netns/a", "ifname": "eth0",
            "args": "IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=web-0;K8S_POD_UID=u1",
            "path": "/opt/cni/bin", "config": { "cniVersion": "1.0.0", "name": "netloom" },
        });
        change(&mut document);
        parse_request(document.to_string().as_bytes())
    }

    #[test]
    fn a_pod_is_identified() {
        let pod = request(|_| {}).unwrap().pod().unwrap();
        assert_eq!((pod.port().as_str(), pod.uid.as_deref()), ("default/web-0", Some("u1")));
        let second = request(|r| r["ifname"] = json!("net1")).unwrap().pod().unwrap();
        assert_eq!(second.port(), "default/web-0/net1");
    }

    #[test]
    fn a_missing_pod_name_says_so() {
        let error = request(|r| r["args"] = json!("K8S_POD_NAMESPACE=default"))
            .unwrap()
            .pod()
            .unwrap_err();
        assert_eq!(error.code, Code::InvalidEnvironment);
        assert!(error.message.contains("K8S_POD_NAME "), "{error}");
    }

    #[test]
    fn malformed_requests_have_the_right_codes() {
        let code = |change: fn(&mut Value)| request(change).unwrap_err().code;
        assert_eq!(code(|r| r["config"]["cniVersion"] = json!("9")), Code::IncompatibleVersion);
        assert_eq!(code(|r| r["command"] = json!("FLY")), Code::InvalidEnvironment);
        assert_eq!(code(|r| r["containerId"] = json!("../x")), Code::InvalidEnvironment);
        assert_eq!(code(|r| r["ifname"] = json!("lo")), Code::InvalidEnvironment);
        assert_eq!(code(|r| r["args"] = json!("novalue")), Code::InvalidEnvironment);
        assert_eq!(code(|r| r["config"] = json!(3)), Code::InvalidConfig);
        assert_eq!(code(|r| r["config"]["mtu"] = json!(10)), Code::InvalidConfig);
        assert_eq!(parse_request(b"{").unwrap_err().code, Code::Decode);
        assert_eq!(parse_request(&vec![b' '; MAX_REQUEST + 1]).unwrap_err().code, Code::Decode);
    }

    #[test]
    fn host_ports_are_read_and_mistakes_do_not_keep_a_pod_attached() {
        let with = |command: &str, mappings: Value| {
            request(|r| {
                r["command"] = json!(command);
                r["config"]["runtimeConfig"] = json!({ "portMappings": mappings });
            })
        };
        let good = json!([{ "hostPort": 8080, "containerPort": 80, "protocol": "tcp" }]);
        assert_eq!(with("ADD", good).unwrap().host_ports[0].host_port, 8080);
        assert_eq!(request(|_| {}).unwrap().host_ports, []);
        let bad = json!([{ "hostPort": 0, "containerPort": 80 }]);
        let error = with("ADD", bad.clone()).unwrap_err();
        assert_eq!(error.code, Code::InvalidConfig);
        assert!(error.message.contains("`portMappings[0]`: `hostPort`"), "{error}");
        assert_eq!(with("DEL", bad).unwrap().host_ports, []);
    }

    #[test]
    fn gc_lists_what_is_in_use() {
        let request = request(|r| {
            r["command"] = json!("GC");
            r["config"]["cniVersion"] = json!("1.1.0");
            r["config"]["cni.dev/valid-attachments"] = json!([{ "containerID": "abc", "ifname": "eth0" }]);
        });
        assert_eq!(request.unwrap().valid.unwrap()[0].container, "abc");
    }
}
