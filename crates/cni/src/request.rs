//! What the runtime said: the `CNI_*` environment and the network configuration on stdin, checked against the
//! specification and folded into the one document the agent understands. Only `main` calls this. The checks here are
//! the ones that need no knowledge of the node; a request that passes them is well-formed, not necessarily possible.

use netloom_contract::cni::{Code, SOCKET, Version};
use serde_json::{Value, json};

use crate::failure::Failure;

/// A checked request.
#[derive(Debug)]
pub struct Request {
    /// `CNI_COMMAND`.
    pub command: String,
    /// Path of the agent's socket.
    pub socket: String,
    /// The document sent to the agent.
    pub body: Value,
}

impl Request {
    /// Builds the request for `command` from stdin and from variables looked up through `env`.
    pub fn gather(command: &str, stdin: &[u8], env: impl Fn(&str) -> Option<String>) -> Result<Self, Failure> {
        let since = first_version(command)?;
        let variable = |name: &str| env(name).unwrap_or_default();
        let (container, netns, ifname) = (variable("CNI_CONTAINERID"), variable("CNI_NETNS"), variable("CNI_IFNAME"));
        if matches!(command, "ADD" | "DEL" | "CHECK") {
            check_container(&container)?;
            check_ifname(&ifname)?;
        }
        if matches!(command, "ADD" | "CHECK") && netns.is_empty() {
            return Err(invalid_environment(
                "CNI_NETNS is missing: it must be the path of the pod's network namespace",
            ));
        }

        let config: Value = serde_json::from_slice(stdin)
            .map_err(|error| Failure::new(Code::Decode, format!("the network configuration on stdin is not JSON: {error}")))?;
        check_config(command, since, &config)?;
        let socket = match config.get("socket") {
            None => SOCKET.to_owned(),
            Some(Value::String(path)) if path.starts_with('/') => path.clone(),
            Some(other) => {
                return Err(invalid_config(format!("`socket` must be an absolute path, not {other}")));
            }
        };
        let body = json!({
            "command": command, "containerId": container, "netns": netns, "ifname": ifname,
            "args": variable("CNI_ARGS"), "path": variable("CNI_PATH"), "config": config,
        });
        Ok(Self {
            command: command.to_owned(),
            socket,
            body,
        })
    }
}

/// The version to answer in: the one asked for where it is known, otherwise our newest.
pub fn version_of(stdin: &[u8]) -> Version {
    let config: Value = serde_json::from_slice(stdin).unwrap_or_default();
    config["cniVersion"].as_str().and_then(Version::parse).unwrap_or(Version::NEWEST)
}

/// The version of the specification that introduced `command`.
fn first_version(command: &str) -> Result<Version, Failure> {
    match command {
        "ADD" | "DEL" => Ok(Version::V0_3_1),
        "CHECK" => Ok(Version::V0_4_0),
        "GC" | "STATUS" => Ok(Version::V1_1_0),
        "" => Err(invalid_environment(
            "CNI_COMMAND is missing: this program is run by a container runtime, not by hand",
        )),
        other => Err(invalid_environment(format!(
            "CNI_COMMAND {other:?} is unknown: expected ADD, DEL, CHECK, GC, STATUS or VERSION"
        ))),
    }
}

fn check_container(id: &str) -> Result<(), Failure> {
    let valid = id.starts_with(|first: char| first.is_ascii_alphanumeric())
        && id.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-'));
    if valid {
        return Ok(());
    }
    Err(invalid_environment(format!(
        "CNI_CONTAINERID {id:?} is not valid: it must start with a letter or digit and hold only letters, digits, `_`, `.`, `-`"
    )))
}

fn check_ifname(name: &str) -> Result<(), Failure> {
    let valid = (1..=15).contains(&name.len())
        && name != "."
        && name != ".."
        && !name.contains(|c: char| c == '/' || c == ':' || c.is_whitespace() || c.is_control());
    if valid {
        return Ok(());
    }
    Err(invalid_environment(format!(
        "CNI_IFNAME {name:?} is not an interface name (1 to 15 characters, no `/`, `:` or spaces)"
    )))
}

fn check_config(command: &str, since: Version, config: &Value) -> Result<(), Failure> {
    if !config.is_object() {
        return Err(invalid_config("the network configuration must be a JSON object"));
    }
    let Some(version) = config["cniVersion"].as_str() else {
        return Err(invalid_config("`cniVersion` is missing from the network configuration"));
    };
    match Version::parse(version) {
        None => {
            let supported = Version::ALL.map(Version::as_str).join(", ");
            let failure = Failure::new(Code::IncompatibleVersion, format!("cniVersion {version:?} is not supported"));
            Err(failure.details(format!("supported: {supported}")))
        }
        Some(known) if known < since => Err(Failure::new(
            Code::IncompatibleVersion,
            format!(
                "{command} needs cniVersion {} or newer, the configuration says {version}",
                since.as_str()
            ),
        )),
        _ if config["name"].as_str().is_none_or(str::is_empty) => Err(invalid_config("`name` is missing from the network configuration")),
        _ => Ok(()),
    }
}

fn invalid_environment(message: impl Into<String>) -> Failure {
    Failure::new(Code::InvalidEnvironment, message)
}

fn invalid_config(message: impl Into<String>) -> Failure {
    Failure::new(Code::InvalidConfig, message)
}
