//! One's own files: all of one issue become visible in one step, as in a volume of a Secret.
//!
//! ```text
//! tls.crt ─► current/tls.crt        current ─► issue-1      (then, by one rename) current ─► issue-2
//! ```

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{OpenOptionsExt as _, symlink};
use std::path::Path;

use anyhow::{Context as _, Result};

use crate::Files;

const CURRENT: &str = "current";

/// Writes the files, unless they are there already.
pub fn write(directory: &Path, files: &Files) -> Result<()> {
    let same = |(name, text): (&String, &String)| fs::read_to_string(directory.join(name)).is_ok_and(|found| found == *text);
    if files.iter().all(same) {
        return Ok(());
    }
    write_issue(directory, files).with_context(|| format!("write the certificates to {}", directory.display()))
}

fn write_issue(directory: &Path, files: &Files) -> Result<()> {
    fs::create_dir_all(directory)?;
    let old = fs::read_link(directory.join(CURRENT)).ok();
    let issue = if old.as_deref() == Some(Path::new("issue-1")) {
        "issue-2"
    } else {
        "issue-1"
    };
    // Left by a process that was killed half way.
    let _ = fs::remove_dir_all(directory.join(issue));
    fs::create_dir(directory.join(issue))?;
    for (name, text) in files {
        let path = directory.join(issue).join(name);
        let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
    }
    link(directory, CURRENT, issue)?;
    for name in files.keys() {
        link(directory, name, &format!("{CURRENT}/{name}"))?;
    }
    if let Some(old) = old.filter(|old| old != Path::new(issue)) {
        let _ = fs::remove_dir_all(directory.join(old));
    }
    Ok(())
}

/// Makes or replaces a link in one step.
fn link(directory: &Path, name: &str, target: &str) -> Result<()> {
    if fs::read_link(directory.join(name)).is_ok_and(|found| found == Path::new(target)) {
        return Ok(());
    }
    let new = directory.join(format!(".{name}.new"));
    let _ = fs::remove_file(&new);
    symlink(target, &new)?;
    fs::rename(&new, directory.join(name))?;
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_new_issue_replaces_the_old_one_and_leaves_nothing_behind() {
        let directory = tempfile::tempdir().unwrap();
        for round in ["one", "two", "three", "three"] {
            let files = Files::from([("tls.crt".to_owned(), round.to_owned()), ("tls.key".to_owned(), round.to_owned())]);
            write(directory.path(), &files).unwrap();
            assert_eq!(fs::read_to_string(directory.path().join("tls.key")).unwrap(), round);
            assert_eq!(
                fs::read_dir(directory.path()).unwrap().count(),
                4,
                "two links, current and one issue"
            );
        }
    }
}
