//! Installs the CNI plugin and the configuration that makes container runtimes call it, once pods can be attached:
//! a node is Ready only from then on. Files appear whole (written aside, then renamed) and are put back when somebody
//! removes or changes them. Files of other plugins are named in a warning and never touched.

use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use netloom_contract::cni::SOCKET;
use netloom_retry::{Converge, Every};
use nix::sys::inotify::AddWatchFlags;
use tracing::{info, warn};

use crate::directory::DirectoryWatch;
use crate::node::Node;
use crate::readiness::Serving;

/// The plugin's name in its directory and in configurations.
const PLUGIN: &str = "netloom-cni";
/// The configuration's file name.
const CONFIGURATION: &str = "10-netloom.conflist";

/// Where the files come from and go to.
#[derive(Clone, Debug)]
pub struct Files {
    /// The plugin to install.
    pub plugin: PathBuf,
    /// The directory in which runtimes look for plugins.
    pub binaries: PathBuf,
    /// The directory in which runtimes look for configurations.
    pub configurations: PathBuf,
    /// The version of CNI the configuration is written in: the newest that the node's runtimes read.
    pub version: String,
    /// The agent's socket.
    pub socket: PathBuf,
}

/// Keeps the files in place.
pub struct Install {
    serving: Serving,
    files: Files,
    watches: Option<(DirectoryWatch, DirectoryWatch)>,
    /// Whether they were installed: what is there then stays, also while the agent cannot serve.
    installed: bool,
    before: Option<String>,
}

impl Install {
    /// Installs as soon as the agent can serve.
    pub fn new(node: Arc<Node>, files: Files) -> Self {
        Self {
            serving: Serving::new(node),
            files,
            watches: None,
            installed: false,
            before: None,
        }
    }
}

impl Converge for Install {
    const NAME: &'static str = "CNI files";
    type Inputs = Every;

    fn inputs(&self) -> Every {
        Every
    }

    async fn changed(&mut self) {
        let touched = async {
            match &mut self.watches {
                Some((binaries, configurations)) => tokio::select! {
                    () = binaries.changed(|name| name == PLUGIN) => {}
                    () = configurations.changed(|name| !is_temporary(name.to_str())) => {}
                },
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.serving.changed() => {}
            () = touched => {}
        }
    }

    async fn apply(&mut self) -> anyhow::Result<()> {
        if !self.serving.now() && !self.installed {
            return Ok(());
        }
        if self.watches.is_none() {
            self.watches = Some((watch(&self.files.binaries)?, watch(&self.files.configurations)?));
        }
        let files = self.files.clone();
        let (written, before) = tokio::task::spawn_blocking(move || install(&files)).await??;
        self.installed = true;
        if written {
            info!(configuration = %self.files.configurations.join(CONFIGURATION).display(), "CNI plugin installed");
        }
        if before != self.before {
            if let Some(other) = &before {
                warn!(
                    other,
                    "another network configuration comes first by its name: runtimes use that one; move it away to use netloom"
                );
            }
            self.before = before;
        }
        Ok(())
    }
}

/// Removes the files again; those that are not there are fine.
pub fn remove(files: &Files) -> anyhow::Result<()> {
    // The configuration first: without it nobody calls the plugin.
    for path in [files.configurations.join(CONFIGURATION), files.binaries.join(PLUGIN)] {
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("remove {}", path.display()));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Writes what differs, the plugin before the configuration that names it. Tells whether anything was written, and
/// which configuration of somebody else runtimes prefer.
fn install(files: &Files) -> anyhow::Result<(bool, Option<String>)> {
    let plugin = std::fs::read(&files.plugin).with_context(|| format!("read the CNI plugin {}", files.plugin.display()))?;
    let mut written = put(&files.binaries.join(PLUGIN), &plugin, 0o755)?;
    written |= put(&files.configurations.join(CONFIGURATION), configuration(files).as_bytes(), 0o644)?;
    let entries = std::fs::read_dir(&files.configurations).with_context(|| format!("list {}", files.configurations.display()))?;
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    Ok((written, preferred(names)))
}

fn configuration(files: &Files) -> String {
    let mut plugin = serde_json::json!({ "type": PLUGIN, "capabilities": { "portMappings": true } });
    if files.socket != Path::new(SOCKET) {
        plugin["socket"] = files.socket.display().to_string().into();
    }
    let list = serde_json::json!({ "cniVersion": files.version, "name": "netloom", "plugins": [plugin] });
    format!("{list:#}\n")
}

/// The configuration of somebody else that comes before ours.
fn preferred(names: impl Iterator<Item = String>) -> Option<String> {
    let is_configuration = |name: &String| [".conf", ".conflist", ".json"].iter().any(|end| name.ends_with(end));
    names
        .filter(|name| is_configuration(name) && name.as_str() < CONFIGURATION && !is_temporary(Some(name)))
        .min()
}

/// Ours while it is being written: runtimes ignore what does not end as a configuration does.
fn temporary(name: &str) -> String {
    format!(".{name}.netloom-new")
}

fn is_temporary(name: Option<&str>) -> bool {
    name.is_some_and(|name| name.ends_with(".netloom-new"))
}

/// Makes a file have this content, at once; tells whether it had not.
fn put(path: &Path, content: &[u8], mode: u32) -> anyhow::Result<bool> {
    let has_mode = |metadata: std::fs::Metadata| metadata.permissions().mode() & 0o777 == mode;
    if std::fs::read(path).is_ok_and(|present| present == content) && std::fs::metadata(path).is_ok_and(has_mode) {
        return Ok(false);
    }
    let name = path.file_name().and_then(|name| name.to_str()).context("a file needs a name")?;
    let aside = path.with_file_name(temporary(name));
    let write = || {
        std::fs::write(&aside, content)?;
        std::fs::set_permissions(&aside, std::fs::Permissions::from_mode(mode))?;
        std::fs::File::open(&aside)?.sync_all()?;
        std::fs::rename(&aside, path)
    };
    write().with_context(|| format!("write {}", path.display()))?;
    Ok(true)
}

fn watch(directory: &Path) -> anyhow::Result<DirectoryWatch> {
    let open = || {
        std::fs::create_dir_all(directory)?;
        // Not what is being written: only what is whole counts, and our own writing must not wake us for ever.
        DirectoryWatch::new(
            directory,
            AddWatchFlags::IN_DELETE | AddWatchFlags::IN_MOVED_FROM | AddWatchFlags::IN_MOVED_TO | AddWatchFlags::IN_CLOSE_WRITE,
        )
    };
    open().with_context(|| format!("watch {}", directory.display()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn files(directory: &Path) -> Files {
        std::fs::write(directory.join("plugin"), "#!").unwrap();
        for part in ["bin", "net.d"] {
            std::fs::create_dir_all(directory.join(part)).unwrap();
        }
        Files {
            plugin: directory.join("plugin"),
            binaries: directory.join("bin"),
            configurations: directory.join("net.d"),
            version: "1.0.0".to_owned(),
            socket: SOCKET.into(),
        }
    }

    #[test]
    fn files_are_written_once_and_removed() {
        let directory = tempfile::tempdir().unwrap();
        let files = files(directory.path());
        assert_eq!(install(&files).unwrap(), (true, None));
        assert_eq!(install(&files).unwrap(), (false, None));
        let mode = std::fs::metadata(files.binaries.join(PLUGIN)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o755);
        let text = std::fs::read_to_string(files.configurations.join(CONFIGURATION)).unwrap();
        let list: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            list["plugins"],
            serde_json::json!([{ "type": "netloom-cni", "capabilities": { "portMappings": true } }])
        );
        assert_eq!(std::fs::read_dir(&files.binaries).unwrap().count(), 1, "nothing is left aside");
        remove(&files).unwrap();
        remove(&files).unwrap();
        assert_eq!(std::fs::read_dir(&files.configurations).unwrap().count(), 0);
    }

    #[test]
    fn a_configuration_that_comes_first_is_named() {
        let of = |names: &[&str]| preferred(names.iter().map(|name| (*name).to_owned()));
        assert_eq!(of(&["10-netloom.conflist", "20-other.conflist", "00-readme.txt"]), None);
        assert_eq!(
            of(&["10-netloom.conflist", "10-calico.conflist"]).as_deref(),
            Some("10-calico.conflist")
        );
    }
}
