//! Asks the agent the way a container runtime would, and looks at the files that make the runtime ask. Called by `gather`.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

use crate::unseen::{Seen, Unseen};

/// Our plugin's file.
pub const PLUGIN: &str = "netloom-cni";
/// Our configuration's file.
pub const CONFIGURATION: &str = "10-netloom.conflist";

/// The files of CNI.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CniFiles {
    /// The directory of plugins.
    pub bin_directory: String,
    /// The directory of configurations.
    pub conf_directory: String,
    /// Whether our plugin is there and may be executed.
    pub plugin: bool,
    /// Whether our configuration is there and names the plugin.
    pub configuration: Seen<bool>,
    /// Configurations of others, sorted.
    pub others: Vec<String>,
}

/// Asks STATUS as `netloom-cni` does: an error says why no pod can be attached.
pub async fn status(socket: &Path) -> Seen<()> {
    let request = json!({
        "command": "STATUS", "containerId": "", "netns": "", "ifname": "", "args": "", "path": "",
        "config": { "cniVersion": "1.1.0", "name": "netloom", "type": PLUGIN },
    });
    let ask = async {
        let mut stream = UnixStream::connect(socket).await?;
        stream.write_all(request.to_string().as_bytes()).await?;
        stream.shutdown().await?;
        let mut reply = Vec::new();
        stream.read_to_end(&mut reply).await?;
        Ok::<_, std::io::Error>(reply)
    };
    let reply = ask.await.map_err(|error| Unseen::Error(format!("{}: {error}", socket.display())))?;
    let reply: Value = serde_json::from_slice(&reply).map_err(|error| Unseen::Error(format!("its answer is not JSON: {error}")))?;
    match reply["msg"].as_str() {
        Some(message) => Err(Unseen::Error(message.to_owned())),
        None => Ok(()),
    }
}

/// Looks at the directories of plugins and configurations.
pub fn files(bin: &Path, conf: &Path) -> CniFiles {
    let plugin = std::fs::metadata(bin.join(PLUGIN)).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0);
    let configuration = std::fs::read(conf.join(CONFIGURATION))
        .map_err(Unseen::error)
        .and_then(|bytes| serde_json::from_slice(&bytes).map_err(Unseen::error))
        .map(|list: Value| {
            let plugins = list["plugins"].as_array();
            plugins.is_some_and(|plugins| plugins.iter().any(|plugin| plugin["type"] == PLUGIN))
        });
    let names = std::fs::read_dir(conf).into_iter().flatten();
    let names = names.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut others: Vec<String> = names.filter(|name| name != CONFIGURATION && is_configuration(name)).collect();
    others.sort();
    CniFiles {
        bin_directory: bin.display().to_string(),
        conf_directory: conf.display().to_string(),
        plugin,
        configuration,
        others,
    }
}

/// Whether a container runtime would read the file.
fn is_configuration(name: &str) -> bool {
    let extension = Path::new(name).extension().and_then(|extension| extension.to_str());
    matches!(extension, Some("conf" | "conflist" | "json"))
}
