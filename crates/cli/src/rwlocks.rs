//! What `lockwork list` and `lockwork info` say of reader-writer locks.

use std::fmt::Write;

use comfy_table::{Attribute, Cell, CellAlignment, ColumnConstraint};
use lockwork_locks::rw::bravo;
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
    /// The wrapper around the lock, if any.
    wrapper: Option<&'static str>,
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
    /// Of what a spec names.
    fn of(spec: &RwSpec) -> Self {
        let algorithm = spec.algorithm();
        let plain = Self {
            name: spec.to_string(),
            kind: "rwlock",
            algorithm: algorithm.name,
            wrapper: None,
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
        };
        if !spec.bravo {
            return plain;
        }
        let RwAlgorithm { name, fairness, bytes, timed, recursion, citation, summary, .. } = bravo::ALGORITHM;
        Self {
            wrapper: Some(name),
            fairness,
            bytes: bytes + plain.bytes,
            timed,
            recursion,
            citation: citation.text,
            citation_key: citation.key,
            summary,
            ..plain
        }
    }

    /// All locks.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        let plain = RW_LOCKS.iter().map(|lock| RwSpec::plain(lock.id));
        let biased = RW_LOCKS.iter().filter_map(|lock| RwSpec::biased(lock.id));
        plain.chain(biased).map(|spec| Self::of(&spec))
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
        let algorithm = if spec.bravo { &bravo::ALGORITHM } else { spec.algorithm() };
        Self {
            entry: Entry::of(spec),
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

/// A line of it.
fn row(name: &str, favour: &str, waiting: &str, bytes: &str, writer: &str, lock: &RwAlgorithm) -> Vec<Cell> {
    vec![
        Cell::new(name).add_attribute(Attribute::Bold),
        Cell::new(favour),
        Cell::new(waiting),
        Cell::new(first_clause(lock.fairness)),
        Cell::new(bytes),
        Cell::new(writer),
        Cell::new(first_clause(lock.timed)),
        Cell::new(short_citation(lock.citation.text)),
    ]
}

/// The section of the list.
pub(crate) fn table() -> String {
    let mut table = terminal::wrapping_table();
    table.set_header(["rwlock", "favours", "waiting", "fairness", "bytes", "+ writer", "timed", "citation"]);
    for lock in RW_LOCKS {
        let algorithm = lock.algorithm;
        let (favour, bytes) = (algorithm.favour.to_string(), algorithm.bytes.to_string());
        let writer = algorithm.bytes_per_waiter.to_string();
        table.add_row(row(lock.name, &favour, algorithm.waiting, &bytes, &writer, algorithm));
    }
    let (name, bytes) = (format!("{}(LOCK)", bravo::ALGORITHM.name), format!("+{}", bravo::ALGORITHM.bytes));
    table.add_row(row(&name, "as LOCK", "as LOCK", &bytes, "+0", &bravo::ALGORITHM));
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
