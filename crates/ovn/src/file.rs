//! The files of databases, before they are served: created, converted to a newer schema, unlocked.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use tracing::info;

use crate::program::output;

/// Creates a database, with a first transaction if there is one. The file is not there until it is complete.
pub async fn create(file: &Path, schema: &Path, first: Option<&str>) -> Result<()> {
    let new = PathBuf::from(format!("{}.new", file.display()));
    remove(&new)?;
    tool(["create".to_owned(), text(&new), text(schema)]).await?;
    if let Some(first) = first {
        tool(["transact".to_owned(), text(&new), first.to_owned()]).await?;
    }
    rename(&new, file)?;
    info!(file = %file.display(), "created the database");
    Ok(())
}

/// Brings a standalone database to a newer schema. An older one is left alone: what is in the newer one's columns would be lost.
pub async fn convert(file: &Path, schema: &Path) -> Result<()> {
    let has = tool(["db-version".to_owned(), text(file)]).await?;
    let wants = schema_version(schema).await?;
    if is_older(&has, &wants)? {
        let backup = PathBuf::from(format!("{}.backup{has}", file.display()));
        std::fs::copy(file, &backup).with_context(|| format!("copy {} to {}", file.display(), backup.display()))?;
        tool(["convert".to_owned(), text(file), text(schema)]).await?;
        info!(file = %file.display(), from = has, to = wants, backup = %backup.display(), "converted the database");
    }
    Ok(())
}

/// The version of a schema.
pub async fn schema_version(schema: &Path) -> Result<String> {
    tool(["schema-version".to_owned(), text(schema)]).await
}

/// Whether one version of a schema is older than another.
pub fn is_older(has: &str, wants: &str) -> Result<bool> {
    let numbers = |version: &str| -> Result<Vec<u32>> {
        let numbers: Result<_, _> = version.split('.').map(str::parse).collect();
        numbers.with_context(|| format!("read the schema version `{version}`"))
    };
    Ok(numbers(has)? < numbers(wants)?)
}

/// A server that was killed leaves its lock file behind; who holds the lock is known to the kernel, so the file means nothing.
pub fn remove_stale_lock(file: &Path) -> Result<()> {
    let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    remove(&file.with_file_name(format!(".{name}.~lock~")))
}

/// Deletes a file if it is there.
pub fn remove(path: &Path) -> Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error).with_context(|| format!("remove {}", path.display())),
        _ => Ok(()),
    }
}

/// Writes a file.
pub fn write(path: &Path, content: &str) -> Result<()> {
    std::fs::write(path, content).with_context(|| format!("write {}", path.display()))
}

/// Moves a file.
pub fn rename(from: &Path, to: &Path) -> Result<()> {
    std::fs::rename(from, to).with_context(|| format!("move {} to {}", from.display(), to.display()))
}

/// Makes a directory unless it is there.
pub fn make_directory(path: &Path) -> Result<()> {
    std::fs::create_dir_all(path).with_context(|| format!("make directory {}", path.display()))
}

/// Runs `ovsdb-tool` to its end and gives what it printed.
pub async fn tool(arguments: impl IntoIterator<Item = String>) -> Result<String> {
    output("ovsdb-tool", arguments).await
}

/// A path as an argument.
pub fn text(path: &Path) -> String {
    path.display().to_string()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_number() {
        assert!(is_older("7.9.0", "7.10.0").unwrap());
        assert!(!is_older("7.10.0", "7.10.0").unwrap());
        assert!(!is_older("8.0.0", "7.10.0").unwrap());
        assert!(is_older("", "7.10.0").is_err());
    }
}
