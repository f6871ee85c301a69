//! `ovsdb-rows SCHEMA [TABLE...]` prints Rust types for the rows of the tables (all, if none are named).

use std::process::ExitCode;

use netloom_ovsdb::{Schema, generate::generate};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some((file, tables)) = arguments.split_first() else {
        eprintln!("usage: ovsdb-rows SCHEMA [TABLE...]");
        return ExitCode::from(2);
    };
    match rows(file, &tables.iter().map(String::as_str).collect::<Vec<_>>()) {
        Ok(source) => {
            print!("{source}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("ovsdb-rows: {file}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn rows(file: &str, tables: &[&str]) -> Result<String, Box<dyn std::error::Error>> {
    Ok(generate(&Schema::parse(&std::fs::read_to_string(file)?)?, tables)?)
}
