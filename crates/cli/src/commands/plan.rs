//! `netloom plan`: manifests in, the Northbound they would give out. Offline: no cluster, no root, no database.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, anyhow, bail};
use netloom_network::{Planner, manifest, text};

use super::manifests;

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
    let mut objects = Vec::new();
    for (file, document) in manifests::read(&flags.filename)? {
        objects.extend(manifest::read(&document).map_err(|why| anyhow!("{}: {why}", file.display()))?);
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
