//! `netloom plan`: manifests in, the Northbound they would give out. Offline: no cluster, no root, no database.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, anyhow, bail};
use netloom_kubernetes::{Kind, manifest};
use netloom_network::{Planner, text};

use super::{manifests, stdout};

/// Flags of `netloom plan`.
#[derive(clap::Args)]
#[command(
    after_help = "Workloads are replaced by the pods that they would create. Pods without a node are spread over the given nodes, or placed on \"node1\".\n\nExample:\n  netloom plan -f examples/"
)]
pub struct Plan {
    /// Manifests: files, or folders of .yaml, .yml and .json files; - is standard input
    #[arg(short = 'f', long = "filename", required = true, num_args = 1..)]
    filename: Vec<PathBuf>,
}

/// Prints the plan; fails when a manifest is malformed, and says so when objects have problems.
pub fn run(flags: Plan) -> Result<ExitCode> {
    let documents = manifests::read(&flags.filename)?;
    let mut found = 0;
    for (file, document) in &documents {
        let read = manifest::read(document).map_err(|why| anyhow!("{}: {why}", file.display()))?;
        found += read.len();
    }
    if found == 0 {
        let kinds: Vec<&str> = Kind::ALL.iter().map(|kind| kind.name()).collect();
        bail!("nothing to plan: no workload and none of {} in what was given", kinds.join(", "));
    }
    let mut planner = Planner::default();
    let documents = documents.iter().map(|(_, document)| document);
    for object in manifest::cluster(documents).map_err(|why| anyhow!(why))? {
        planner.apply(object);
    }
    planner.compile();
    stdout::print(&text::northbound(planner.desired()));
    for problem in planner.problems() {
        eprintln!("problem: {problem}");
    }
    Ok(if planner.problems().is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(2)
    })
}
