//! One module per subcommand.

pub mod agent;
pub mod controller;
pub mod lab;
pub mod plan;
mod process;
pub mod show;
mod table;
