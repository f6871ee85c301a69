//! The `netloom` command: one binary for people (`lab`, `show`, `plan`, `why`, `doctor`) and for the parts it runs (`controller`, `agent`, `run`).
//!
//! Each subcommand is a module under `commands`: it maps flags to the `Options` of a library crate and prints.

mod commands;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Virtual networks for Kubernetes, built on OVN.
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
    /// Show the state of the network: nodes, networks, ports, services, problems
    Show(commands::show::Show),
    /// Show what manifests would become, without a cluster
    Plan(commands::plan::Plan),
    /// Say whether network policies allow a connection, and why
    Why(commands::why::Why),
    /// Check a cluster or a node, and say what to do about each finding
    Doctor(commands::doctor::Doctor),
    /// Remove Netloom from all nodes, before it is deleted from the cluster
    Uninstall(commands::uninstall::Uninstall),
    /// Run the controller: watches Kubernetes, writes the OVN Northbound database
    Controller(commands::controller::Controller),
    /// Run the agent of a node: serves CNI, plugs pods into Open vSwitch
    Agent(commands::agent::Agent),
    /// Run a daemon of OVN or Open vSwitch, configured for this node
    Run(commands::run::Run),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Lab(lab) => commands::lab::run(lab),
        Command::Show(show) => commands::show::run(show),
        Command::Plan(plan) => commands::plan::run(plan),
        Command::Why(why) => commands::why::run(why),
        Command::Doctor(doctor) => commands::doctor::run(doctor),
        Command::Uninstall(uninstall) => commands::uninstall::run(uninstall),
        Command::Controller(controller) => commands::controller::run(controller),
        Command::Agent(agent) => commands::agent::run(agent),
        Command::Run(part) => commands::run::run(part),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
