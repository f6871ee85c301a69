//! Tables for people, in the form kubectl has made familiar: no frame, two spaces between columns.

use comfy_table::{ContentArrangement, Table, presets};

/// Prints rows under a header.
pub fn print(header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_header(header.iter().copied());
    table.add_rows(rows);
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    for line in table.lines() {
        println!("{}", line.trim_end());
    }
}
