//! How results look: one table per subject, numbers aligned, ratios beside them.

use std::time::Duration;

use comfy_table::{CellAlignment, Table, presets};

/// A table that prints itself when complete.
pub struct Report {
    title: String,
    table: Table,
}

impl Report {
    /// A table with a title and columns.
    pub fn new(title: &str, columns: &[&str]) -> Self {
        let mut table = Table::new();
        table.load_style(presets::ASCII_MARKDOWN).set_header(columns.iter().copied());
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        Self {
            title: title.to_owned(),
            table,
        }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: &[String]) {
        self.table.add_row(cells);
    }

    /// Prints it.
    pub fn print(self) {
        println!("\n### {}\n\n{}", self.title, self.table);
    }
}

/// A duration in the unit people would use.
pub fn time(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    match seconds {
        s if s >= 1.0 => format!("{s:.2} s"),
        s if s >= 0.001 => format!("{:.1} ms", s * 1e3),
        s => format!("{:.1} µs", s * 1e6),
    }
}

/// `a` as a multiple of `b`.
pub fn ratio(a: Duration, b: Duration) -> String {
    format!("{:.2}×", a.as_secs_f64() / b.as_secs_f64().max(1e-12))
}

/// The value below which a share of the sorted durations lies.
pub fn percentile(sorted: &[Duration], share: f64) -> Duration {
    let last = sorted.len().saturating_sub(1);
    sorted.get(((last as f64) * share).round() as usize).copied().unwrap_or_default()
}
