//! The `netloom` command: one binary for people (`lab`, `show`, `plan`) and for the parts it runs (`controller`, `agent`).
//!
//! Each subcommand is a module under `commands`: it maps flags to the `Options` of a library crate and prints.

mod commands;

use clap::{Parser, Subcommand};

/// Virtual networks for Kubernetes, woven on OVN.
#[derive(Parser)]
#[command(name = "netloom", version, propagate_version = true, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a whole multi-node cluster network on this machine
    Lab(commands::lab::Lab),
}

fn main() -> std::process::ExitCode {
    let result = match Cli::parse().command {
        Command::Lab(lab) => commands::lab::run(lab),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            std::process::ExitCode::FAILURE
        }
    }
}
