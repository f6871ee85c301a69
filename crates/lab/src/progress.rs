//! What a person sees while a lab comes up: one moving line per machine on a terminal, plain lines elsewhere, nothing in tests.

use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

/// Shows steps by subject (a machine, or the cluster).
pub struct Progress {
    kind: Kind,
}

enum Kind {
    Quiet,
    Plain,
    Terminal {
        all: MultiProgress,
        lines: Mutex<BTreeMap<String, ProgressBar>>,
    },
}

impl Progress {
    /// Says nothing.
    pub fn quiet() -> Self {
        Progress { kind: Kind::Quiet }
    }

    /// Moving lines if standard error is a terminal, else plain ones.
    pub fn for_people() -> Self {
        let kind = if std::io::stderr().is_terminal() {
            Kind::Terminal {
                all: MultiProgress::new(),
                lines: Mutex::default(),
            }
        } else {
            Kind::Plain
        };
        Progress { kind }
    }

    /// `subject` is now doing `what`.
    pub fn step(&self, subject: &str, what: &str) {
        match &self.kind {
            Kind::Quiet => {}
            Kind::Plain => eprintln!("{subject}: {what}"),
            Kind::Terminal { .. } => {
                if let Some(line) = self.line(subject) {
                    line.set_message(what.to_string());
                }
            }
        }
    }

    /// `subject` has finished.
    pub fn done(&self, subject: &str, what: &str) {
        match &self.kind {
            Kind::Quiet => {}
            Kind::Plain => eprintln!("{subject}: {what}"),
            Kind::Terminal { .. } => {
                if let Some(line) = self.line(subject) {
                    line.set_style(style("  ✔ {prefix:10} {msg}"));
                    line.finish_with_message(what.to_string());
                }
            }
        }
    }

    /// `subject` has failed.
    pub fn failed(&self, subject: &str, what: &str) {
        match &self.kind {
            Kind::Quiet => {}
            Kind::Plain => eprintln!("{subject}: failed: {what}"),
            Kind::Terminal { all, lines } => {
                if let Some(line) = self.line(subject) {
                    line.set_style(style("  ✘ {prefix:10} {msg}"));
                    line.finish_with_message(what.to_string());
                }
                for line in lines.lock().unwrap_or_else(PoisonError::into_inner).values() {
                    line.abandon();
                }
                all.set_move_cursor(false);
            }
        }
    }

    fn line(&self, subject: &str) -> Option<ProgressBar> {
        let Kind::Terminal { all, lines } = &self.kind else { return None };
        let mut lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
        let line = lines.entry(subject.to_string()).or_insert_with(|| {
            let line = all.add(
                ProgressBar::new_spinner()
                    .with_prefix(subject.to_string())
                    .with_style(style("  {spinner} {prefix:10} {msg}")),
            );
            line.enable_steady_tick(Duration::from_millis(100));
            line
        });
        Some(line.clone())
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner())
}
