//! `netloom plan`: manifests in, the Northbound they would give out. Offline: no cluster, no root, no database.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, anyhow, bail};
use netloom_network::{Object, Planner, manifest, text};
use serde_json::Value;

/// Flags of `netloom plan`.
#[derive(clap::Args)]
#[command(
    after_help = "Workloads stand for the pods they would create; pods without a node are spread over the nodes given, or over \"node1\".\n\nExample:\n  netloom plan -f examples/"
)]
pub struct Plan {
    /// Manifests: files, or folders of .yaml, .yml and .json files; - is standard input
    #[arg(short = 'f', long = "filename", required = true, num_args = 1..)]
    filename: Vec<PathBuf>,
}

/// Prints the plan; fails when a manifest is malformed, and says so when objects have problems.
pub fn run(flags: Plan) -> Result<ExitCode> {
    let mut objects = Vec::new();
    for path in &flags.filename {
        for file in files(path)? {
            objects.extend(read(&file)?);
        }
    }
    if objects.is_empty() {
        bail!("nothing to plan: no pod, node, workload, service, ExternalPool or ClusterNetwork in what was given");
    }
    let mut planner = Planner::default();
    for object in manifest::place(objects) {
        planner.apply(object);
    }
    planner.compile();
    print!("{}", text::northbound(planner.desired()));
    for problem in planner.problems() {
        eprintln!("problem: {problem}");
    }
    Ok(if planner.problems().is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(2)
    })
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

fn read(path: &Path) -> Result<Vec<Object>> {
    let text = if path == Path::new("-") {
        std::io::read_to_string(std::io::stdin())
    } else {
        std::fs::read_to_string(path)
    };
    let text = text.with_context(|| format!("read {}", path.display()))?;
    let documents: Vec<Value> = serde_saphyr::from_multiple(&text).with_context(|| format!("parse {}", path.display()))?;
    let mut objects = Vec::new();
    for document in documents.iter().filter(|document| !document.is_null()) {
        objects.extend(manifest::read(document).map_err(|why| anyhow!("{}: {why}", path.display()))?);
    }
    Ok(objects)
}
