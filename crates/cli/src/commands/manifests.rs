//! Manifests from files, folders and standard input, for the subcommands that work without a cluster.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

/// The documents of all paths, in order, each with the file it is from.
pub fn read(paths: &[PathBuf]) -> Result<Vec<(PathBuf, Value)>> {
    let mut found = Vec::new();
    for path in paths {
        for file in files(path)? {
            let documents = documents(&file)?.into_iter().filter(|document| !document.is_null());
            found.extend(documents.map(|document| (file.clone(), document)));
        }
    }
    Ok(found)
}

fn files(path: &Path) -> Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let entries = std::fs::read_dir(path).with_context(|| format!("read folder {}", path.display()))?;
    let mut files: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| is_manifest(path))
        .collect();
    files.sort();
    if files.is_empty() {
        bail!("{} has no .yaml, .yml or .json file", path.display());
    }
    Ok(files)
}

fn is_manifest(path: &Path) -> bool {
    path.extension()
        .is_some_and(|extension| matches!(extension.to_str(), Some("yaml" | "yml" | "json")))
}

fn documents(path: &Path) -> Result<Vec<Value>> {
    let text = if path == Path::new("-") {
        std::io::read_to_string(std::io::stdin())
    } else {
        std::fs::read_to_string(path)
    };
    let text = text.with_context(|| format!("read {}", path.display()))?;
    serde_saphyr::from_multiple(&text).with_context(|| format!("parse {}", path.display()))
}
