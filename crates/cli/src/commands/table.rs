//! Tables for people, in the form kubectl has made familiar: no frame, two spaces between columns.

use comfy_table::{ContentArrangement, Table, presets};

use super::stdout;

/// Prints rows under a header.
pub fn print(header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) {
    stdout::print(&render(header, rows));
}

/// Rows under a header, as lines.
pub fn render(header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_header(header.iter().copied());
    table.add_rows(rows);
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}
