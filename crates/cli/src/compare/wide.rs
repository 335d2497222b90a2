//! The table of a benchmark of our own or of a simulation: a row for each lock and thread count, a column for each figure.

use std::fmt::Write;

use comfy_table::{Cell as TableCell, CellAlignment};

use super::results::Document;
use super::{format, table};
use crate::terminal;

/// The table under its title and what has to be said of it.
pub(super) fn render(title: &str, document: &Document) -> String {
    let mut text = String::new();
    let primary = &document.meta.metrics[0];
    // Writing to a String cannot fail.
    let over = if document.meta.simulated.is_some() { "seeds" } else { "rounds" };
    let _ = writeln!(
        text,
        "{title}: medians of {} {over}; interval and ratio of {}, {}",
        document.meta.rounds,
        primary.name,
        format::direction(primary)
    );
    let mut rows = terminal::table();
    let with_threads = document.meta.threads != [None];
    let mut header: Vec<String> = Vec::new();
    header.extend(with_threads.then(|| "threads".to_owned()));
    header.push("lock".to_owned());
    header.push(label(&primary.name, &primary.unit));
    header.extend(["95% interval".to_owned(), format!("× {}", document.meta.baseline), "verdict".to_owned()]);
    header.extend(document.meta.metrics[1..].iter().map(|metric| label(&metric.name, &metric.unit)));
    let columns = header.len();
    rows.set_header(header);
    for cell in document.cells(primary) {
        let mut row: Vec<String> = Vec::new();
        row.extend(cell.threads.map(|count| count.to_string()));
        row.push(cell.lock.clone());
        let dash = || "—".to_owned();
        row.push(cell.median.as_ref().map_or_else(dash, |median| format::value(median.value)));
        row.push(cell.median.as_ref().map_or_else(dash, format::interval));
        row.push(cell.ratio.as_ref().map_or_else(dash, |ratio| format::ratio(ratio.value)));
        row.push(cell.note.clone());
        for metric in &document.meta.metrics[1..] {
            let same = document.cells(metric).find(|other| {
                (other.lock_index, other.threads_index) == (cell.lock_index, cell.threads_index)
            });
            let median = same.and_then(|other| other.median.as_ref());
            row.push(median.map_or_else(dash, |median| format::value(median.value)));
        }
        rows.add_row(row.into_iter().map(TableCell::new));
    }
    let lock = usize::from(with_threads);
    for index in (0..columns).filter(|&index| index != lock && index != lock + 4) {
        if let Some(column) = rows.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let _ = writeln!(text, "{}", rows.trim_fmt());
    for line in table::reasons(document) {
        let _ = writeln!(text, "{line}");
    }
    for caveat in format::caveats(document) {
        let _ = writeln!(text, "Note: {caveat}");
    }
    text
}

/// `p99, ns`
fn label(name: &str, unit: &str) -> String {
    if unit.is_empty() { name.to_owned() } else { format!("{name}, {unit}") }
}
