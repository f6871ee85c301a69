//! One module per subcommand.

pub mod agent;
pub mod controller;
pub mod doctor;
pub mod lab;
pub mod plan;
mod process;
pub mod run;
pub mod show;
mod table;
pub mod uninstall;
