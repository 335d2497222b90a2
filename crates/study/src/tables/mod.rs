//! The tables of the thesis, by number.

mod advice;
mod campaign;
mod efficiency;
mod gains;
mod interposition;
mod latency;
mod pairs;
mod ranking;

pub(crate) use advice::{by_application, choices, fitted};
pub use campaign::campaign_tables;
pub(crate) use efficiency::{correlations, scatter};
pub(crate) use gains::{best_over_worst, breakdown, optimum_over_max, sensitive};
pub(crate) use interposition::{closeness, hierarchy, side_by_side, student};
pub(crate) use latency::tail;
pub(crate) use pairs::{Order, changes, changing, pairs_of, scores};
pub(crate) use ranking::{coverage, coverage_statistics, gains_of_best, harm};

pub(crate) use efficiency::{gain_differences, optimum_differences};

use crate::table::{Kind, Table};
use crate::view::View;

/// Notes on the runs that the figures are of: those left out, if any were, and those that other hosts have made.
pub(crate) fn note_runs(table: &mut Table, view: &View<'_>) {
    if view.study.hosts > 1 {
        table.notes.push(format!(
            "{}: one of {} hosts that shared the runs of the campaign. Its means are over what it ran, not over every round of \
             every configuration.",
            view.study.machine, view.study.hosts
        ));
    }
    let bad = &view.study.bad_runs;
    if !bad.is_empty() {
        let list: Vec<String> =
            bad.iter().map(|(application, runs)| format!("{application} ({runs})")).collect();
        table.notes.push(format!(
            "{}: runs without a usable throughput take no part: {}.",
            view.study.machine,
            list.join(", ")
        ));
    }
}

/// A table without rows yet.
pub(crate) fn begin(id: &str, title: String, labels: &[&'static str]) -> Table {
    Table {
        kind: Kind::Table,
        id: id.to_owned(),
        title,
        labels: labels.to_vec(),
        columns: Vec::new(),
        rows: Vec::new(),
        notes: Vec::new(),
    }
}

/// What a figure draws, without rows yet.
pub(crate) fn begin_figure(id: &str, title: String, labels: &[&'static str]) -> Table {
    Table { kind: Kind::Figure, ..begin(id, title, labels) }
}

/// The locks that any of `applications` was measured with, by their places.
pub(crate) fn locks_of(view: &View<'_>, applications: &[usize]) -> Vec<usize> {
    (0..view.study.locks.len())
        .filter(|&lock| applications.iter().any(|&application| view.optimum(application, lock).is_some()))
        .collect()
}
