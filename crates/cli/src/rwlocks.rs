//! What `lockwork list` and `lockwork info` say of reader-writer locks.

use std::fmt::Write;

use comfy_table::{Attribute, Cell, CellAlignment, ColumnConstraint};
use lockwork_locks::rw::catalogue::{RW_LOCKS, RwAlgorithm, RwSpec};
use serde::Serialize;

use crate::list::{first_clause, short_citation};
use crate::terminal;

/// A lock as `--json` describes it; its name is a spec that `run` and `compare` take.
#[derive(Debug, Serialize)]
pub(crate) struct Entry {
    name: String,
    kind: &'static str,
    algorithm: &'static str,
    /// Whom it favours.
    favour: String,
    waiting: Vec<&'static str>,
    fairness: &'static str,
    bytes: usize,
    bytes_per_waiter: usize,
    try_lock: bool,
    timed: &'static str,
    downgrade: bool,
    recursion: &'static str,
    citation: &'static str,
    citation_key: &'static str,
    summary: &'static str,
}

impl Entry {
    /// Of a lock by this name.
    fn new(name: String, algorithm: &'static RwAlgorithm) -> Self {
        Self {
            name,
            kind: "rwlock",
            algorithm: algorithm.name,
            favour: algorithm.favour.to_string(),
            waiting: vec![algorithm.waiting],
            fairness: algorithm.fairness,
            bytes: algorithm.bytes,
            bytes_per_waiter: algorithm.bytes_per_waiter,
            // Every one has these.
            try_lock: true,
            downgrade: true,
            timed: algorithm.timed,
            recursion: algorithm.recursion,
            citation: algorithm.citation.text,
            citation_key: algorithm.citation.key,
            summary: algorithm.summary,
        }
    }

    /// All locks.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        RW_LOCKS.iter().map(|lock| Self::new(lock.name.to_owned(), lock.algorithm))
    }
}

/// What is told of a lock.
#[derive(Debug, Serialize)]
pub(crate) struct Info {
    #[serde(flatten)]
    entry: Entry,
    properties: &'static str,
    deviations: &'static str,
    avoid: &'static str,
}

impl Info {
    /// Of what a spec names.
    pub(crate) fn of(spec: &RwSpec) -> Self {
        let algorithm = spec.algorithm();
        Self {
            entry: Entry::new(spec.to_string(), algorithm),
            properties: algorithm.properties,
            deviations: algorithm.deviations,
            avoid: algorithm.avoid,
        }
    }

    /// As text, by a function that lays out a field.
    pub(crate) fn text(&self, paragraph: impl Fn(&str, &str) -> String) -> String {
        let Entry { name, summary, favour, waiting, fairness, timed, recursion, citation, .. } = &self.entry;
        let memory = format!(
            "{} bytes a lock, {} more for each waiting writer",
            self.entry.bytes, self.entry.bytes_per_waiter
        );
        let mut text = format!("{name}: {summary}\n\n");
        for (name, value) in [
            ("kind", "reader-writer lock"),
            ("favours", favour),
            ("waiting", &waiting.join(", ")),
            ("fairness", fairness),
            ("memory", &memory),
            ("timed", timed),
            ("recursion", recursion),
            ("properties", self.properties),
            ("avoid", self.avoid),
            ("deviations", self.deviations),
            ("citation", citation),
        ] {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{}", paragraph(name, value));
        }
        text
    }
}

/// The section of the list.
pub(crate) fn table() -> String {
    let mut table = terminal::wrapping_table();
    table.set_header(["rwlock", "favours", "waiting", "fairness", "bytes", "+ writer", "timed", "citation"]);
    for lock in RW_LOCKS {
        let algorithm = lock.algorithm;
        table.add_row(vec![
            Cell::new(lock.name).add_attribute(Attribute::Bold),
            Cell::new(algorithm.favour),
            Cell::new(algorithm.waiting),
            Cell::new(first_clause(algorithm.fairness)),
            Cell::new(algorithm.bytes),
            Cell::new(algorithm.bytes_per_waiter),
            Cell::new(first_clause(algorithm.timed)),
            Cell::new(short_citation(algorithm.citation.text)),
        ]);
    }
    if let Some(names) = table.column_mut(0) {
        names.set_constraint(ColumnConstraint::ContentWidth);
    }
    for index in [4, 5] {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.trim_fmt()
}
