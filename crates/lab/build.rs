//! Embeds the manifests of `deploy/chart/crds`, so that a lab needs no files beside its binary.

use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

fn main() -> Result<(), Box<dyn Error>> {
    let manifests = Path::new(&std::env::var("CARGO_MANIFEST_DIR")?).join("../../deploy/chart/crds");
    println!("cargo::rerun-if-changed={}", manifests.display());
    let mut files: Vec<PathBuf> = match std::fs::read_dir(&manifests) {
        Ok(entries) => entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>()?,
        Err(_) => Vec::new(),
    };
    files.retain(|file| file.extension().is_some_and(|extension| extension == "yaml"));
    files.sort();
    let mut list = String::from("&[\n");
    for file in files {
        println!("cargo::rerun-if-changed={}", file.display());
        writeln!(list, "    include_str!({:?}),", file.canonicalize()?)?;
    }
    list.push_str("]\n");
    std::fs::write(Path::new(&std::env::var("OUT_DIR")?).join("manifests.rs"), list)?;
    Ok(())
}
