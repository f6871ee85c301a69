//! The report for people (a table with its groups) and for machines (JSON). Called by `run` alone.

use std::fmt::Write as _;

use netloom_doctor::{Finding, State};
use serde::Serialize;

use crate::commands::table;

#[derive(Serialize)]
struct Report<'a> {
    findings: Vec<&'a Finding>,
    summary: Summary,
}

#[derive(Serialize)]
struct Summary {
    ok: usize,
    warning: usize,
    failed: usize,
}

impl Summary {
    fn of(findings: &[Finding]) -> Self {
        let count = |state| findings.iter().filter(|finding| finding.state == state).count();
        Self {
            ok: count(State::Ok),
            warning: count(State::Warning),
            failed: count(State::Failed),
        }
    }
}

/// The shown findings, and the counts of all.
pub fn json<'a>(shown: impl Iterator<Item = &'a Finding>, all: &[Finding]) -> serde_json::Result<String> {
    serde_json::to_string_pretty(&Report {
        findings: shown.collect(),
        summary: Summary::of(all),
    })
}

/// The shown findings under the name of their group, and one line that counts all.
pub fn table<'a>(shown: impl Iterator<Item = &'a Finding>, all: &[Finding]) -> String {
    let mut rows: Vec<Vec<String>> = Vec::new();
    let mut group = "";
    for finding in shown {
        if finding.group != group {
            group = finding.group;
            rows.push(vec![group.to_uppercase()]);
        }
        rows.push(vec![
            format!("  {}", finding.check),
            finding.state.to_string(),
            finding.found.clone(),
            finding.what_to_do.clone(),
        ]);
    }
    let mut text = String::new();
    if !rows.is_empty() {
        text += &table::render(&["CHECK", "STATE", "FOUND", "WHAT TO DO"], rows);
        text.push('\n');
    }
    let Summary { ok, warning, failed } = Summary::of(all);
    let verdict = match (failed, warning) {
        (0, 0) => "all is well",
        (0, _) => "it works; read the warnings",
        _ => "fix what failed, in the order shown: later failures are often consequences of earlier ones",
    };
    let _ = writeln!(
        text,
        "{failed} failed, {warning} warning{}, {ok} ok: {verdict}",
        if warning == 1 { "" } else { "s" }
    );
    text
}
