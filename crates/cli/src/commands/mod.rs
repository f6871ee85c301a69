//! One module per subcommand.

pub mod agent;
pub mod controller;
pub mod doctor;
pub mod lab;
mod manifests;
pub mod plan;
mod process;
pub mod run;
pub mod show;
mod stdout;
mod table;
pub mod uninstall;
pub mod why;
