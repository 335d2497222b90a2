//! The matrix as a table for terminals and files.

use comfy_table::{CellAlignment, Table};

use super::{FAIR, Matrix, Row};

/// The locks' standings, the best first, with what the columns mean.
pub(crate) fn render(matrix: &Matrix, mut table: Table) -> String {
    let rows = matrix.rows();
    let is_known = |value: fn(&Row) -> bool| rows.iter().any(value);
    let (fair, tails) = (is_known(|row| row.fair.is_some()), is_known(|row| row.p99_over_best.is_some()));
    let mut header = vec!["lock", "cells", "within 5%", "within 20%", "geo. mean", "worst"];
    if fair {
        header.extend(["fair, 5%", "fair", "Jain"]);
    }
    if tails {
        header.push("P99");
    }
    let numbers = 1..header.len();
    header.push("worst cell");
    table.set_header(header);
    for row in &rows {
        let standing = &row.standing;
        let mut cells = vec![
            row.lock.clone(),
            standing.cells.to_string(),
            percent(Some(standing.within_5)),
            percent(Some(standing.within_20)),
            ratio(standing.geometric_mean),
            ratio(standing.worst),
        ];
        if fair {
            cells.extend([percent(row.fair_within_5), percent(row.fair)]);
            cells.push(
                row.jain.map_or_else(String::new, |(middle, lowest)| format!("{middle:.2} ≥ {lowest:.2}")),
            );
        }
        if tails {
            cells.push(row.p99_over_best.map_or_else(String::new, |times| format!("{times:.1}×")));
        }
        cells.push(row.worst_in.clone());
        table.add_row(cells);
    }
    for index in numbers {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let mut text = format!("{}\n{}\n{}", matrix.title, table.trim_fmt(), meaning(fair, tails));
    for note in &matrix.notes {
        text.push('\n');
        text.push_str(note);
    }
    text
}

/// What the columns mean.
pub(super) fn meaning(fair: bool, tails: bool) -> String {
    let mut text = "within 5%, 20%: share of the cells in which no lock is better by more than that; geo. mean and worst: of the \
                    throughput over the best lock's."
        .to_owned();
    if fair {
        text.push_str(&format!(
            "\nfair: share of the cells with a Jain's index of {FAIR} or more, or no section longer than a tenth of the window, \
             and no thread that waits all the time; fair, 5%: fair, and within 5% of the best fair lock; Jain: median ≥ lowest."
        ));
    }
    if tails {
        text.push_str("\nP99: of the time of a section, over the shortest of the cell; geometric mean.");
    }
    text
}

pub(super) fn percent(share: Option<f64>) -> String {
    share.map_or_else(String::new, |share| format!("{:.0}%", 100.0 * share))
}

pub(super) fn ratio(ratio: f64) -> String {
    if ratio >= 0.095 || ratio == 0.0 { format!("{ratio:.2}") } else { format!("{ratio:.3}") }
}
