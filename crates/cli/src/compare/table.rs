//! The tables on the terminal.

use std::fmt::Write;

use comfy_table::{Attribute, Cell as TableCell, CellAlignment, Color, Table};

use super::meta::MetricInfo;
use super::results::Document;
use super::runs::Run;
use super::summary::Cell;
use super::verdict::Verdict;
use super::{format, wide};
use crate::terminal;

/// Everything that a reader without other sources needs: where and how it was measured, tables, notes.
pub(crate) fn render(document: &Document) -> String {
    format!("{}{}", heading(document), body(document))
}

/// Where, when and how it was measured, and what was served by which lock.
pub(crate) fn heading(document: &Document) -> String {
    let mut text = String::new();
    let meta = &document.meta;
    // Writing to a String cannot fail.
    if meta.simulated.is_none() {
        let _ = writeln!(text, "{}", meta.host.line());
    }
    let commit = meta.commit.as_ref().map(|commit| format!(", commit {commit}")).unwrap_or_default();
    let _ = if meta.simulated.is_some() {
        writeln!(text, "{}{commit}, {} seeds", meta.date, meta.rounds)
    } else {
        writeln!(
            text,
            "{}{commit}, {} rounds after {} of warm-up, time-out {} s, seed {}",
            meta.date, meta.rounds, meta.warmup_rounds, meta.timeout_s, meta.seed
        )
    };
    let _ = writeln!(text, "$ {}", format::command(&meta.command));
    if let Some(original) = &meta.original {
        let _ = writeln!(text, "$ {}  (under locks, before conversion)", format::command(original));
    }
    for library in &meta.libraries {
        let _ = writeln!(text, "@{} is {}", library.label, library.path);
    }
    for (lock, what) in format::served(document) {
        let _ = writeln!(text, "{lock}: {what}");
    }
    text
}

/// The tables and what has to be said of them.
pub(crate) fn body(document: &Document) -> String {
    let mut text = "\n".to_owned();
    if let Some(title) = &document.meta.title {
        text.push_str(&wide::render(title, document));
        return text;
    }
    for (index, metric) in document.meta.metrics.iter().enumerate() {
        if index > 0 {
            text.push('\n');
        }
        let _ = writeln!(
            text,
            "{}: median{}, {}",
            metric.name,
            format::in_unit(metric),
            format::direction(metric)
        );
        let _ = writeln!(text, "{}", table(document, metric).trim_fmt());
    }
    for line in reasons(document) {
        let _ = writeln!(text, "{line}");
    }
    for caveat in format::caveats(document) {
        let _ = writeln!(text, "Note: {caveat}");
    }
    text
}

fn table(document: &Document, metric: &MetricInfo) -> Table {
    let mut table = terminal::table();
    let with_threads = document.meta.threads != [None];
    let mut header = vec!["lock", "median", "95% interval", "ratio", "95% interval", "verdict", "runs"];
    let ratio = format!("× {} (paired)", document.meta.baseline);
    header[3] = &ratio;
    if with_threads {
        header.insert(0, "threads");
    }
    table.set_header(header);
    let mut previous = None;
    for cell in document.cells(metric) {
        let mut row = row(cell);
        if with_threads {
            // The count is said once for its group.
            let count = cell.threads.map(|count| count.to_string()).unwrap_or_default();
            let shown = if previous == Some(cell.threads_index) { String::new() } else { count };
            row.insert(0, TableCell::new(shown).add_attribute(Attribute::Bold));
        }
        previous = Some(cell.threads_index);
        table.add_row(row);
    }
    let numeric = if with_threads { [0, 2, 3, 4, 5, 7] } else { [1, 2, 3, 4, 6, 6] };
    for index in numeric {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

fn row(cell: &Cell) -> Vec<TableCell> {
    let dash = || "—".to_owned();
    let median = cell.median.as_ref();
    let ratio = cell.ratio.as_ref();
    let verdict = TableCell::new(&cell.note);
    let verdict = match cell.verdict {
        Verdict::Faster => verdict.fg(Color::Green),
        Verdict::Slower => verdict.fg(Color::Yellow),
        Verdict::Collapsed | Verdict::Failed => verdict.fg(Color::Red).add_attribute(Attribute::Bold),
        _ => verdict.add_attribute(Attribute::Dim),
    };
    vec![
        TableCell::new(&cell.lock),
        TableCell::new(median.map_or_else(dash, |m| format::value(m.value))),
        TableCell::new(median.map_or_else(dash, format::interval)),
        TableCell::new(ratio.map_or_else(dash, |r| format::ratio(r.value))),
        TableCell::new(ratio.map_or_else(dash, format::ratio_interval)),
        verdict,
        TableCell::new(format::runs(cell)),
    ]
}

/// Why runs gave no value: each reason once, with the cells that had it.
pub(crate) fn reasons(document: &Document) -> Vec<String> {
    /// What may be different in runs that ended for the same reason: the states of their threads.
    fn kind(reason: &str) -> &str {
        reason.split(": thread ").next().unwrap_or(reason)
    }
    let mut reasons: Vec<(&str, Vec<&Run>)> = Vec::new();
    for run in document.bad_runs() {
        let reason = run.reason.as_deref().unwrap_or("no reason is known");
        match reasons.iter_mut().find(|(known, _)| kind(known) == kind(reason)) {
            Some((_, runs)) => runs.push(run),
            None => reasons.push((reason, vec![run])),
        }
    }
    reasons.into_iter().map(|(reason, runs)| format!("{}: {reason}", whose(document, &runs))).collect()
}

/// `ticket at 8 and 32 threads, mcs-spin at 8 threads (6 runs)`
fn whose(document: &Document, runs: &[&Run]) -> String {
    let mut parts = Vec::new();
    for (lock, name) in document.meta.locks.iter().enumerate() {
        let counts: Vec<String> = (0..document.meta.threads.len())
            .filter(|&threads| runs.iter().any(|run| run.is_of(lock, threads)))
            .filter_map(|threads| document.meta.threads[threads].map(|count| count.to_string()))
            .collect();
        if !counts.is_empty() {
            parts.push(format!("{name} at {} threads", counts.join(", ")));
        } else if runs.iter().any(|run| run.lock_index == lock) {
            parts.push(name.clone());
        }
    }
    let plural = if runs.len() == 1 { "" } else { "s" };
    format!("{} ({} run{plural})", parts.join("; "), runs.len())
}
