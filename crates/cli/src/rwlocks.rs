//! What `lockwork list` and `lockwork info` say of reader-writer locks.

use std::fmt::Write;

use comfy_table::{Attribute, Cell, CellAlignment, ColumnConstraint};
use lockwork_locks::describe::Descriptor;
use lockwork_locks::registry::{Spec, WrapperId, rwlocks};
use lockwork_locks::rw::bravo;
use serde::Serialize;

use crate::prose::{first_clause, short_citation};
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
    fairness: String,
    bytes: usize,
    bytes_per_waiter: usize,
    try_lock: bool,
    timed: String,
    downgrade: bool,
    recursion: &'static str,
    citation: &'static str,
    citation_key: &'static str,
    summary: &'static str,
}

impl Entry {
    /// Of what a spec names.
    fn of(spec: &Spec) -> Self {
        let lock = spec.base.info();
        let descriptor = lock.descriptor;
        let facts = descriptor.rw().expect("a reader-writer lock");
        let plain = Self {
            name: spec.to_string(),
            kind: "rwlock",
            algorithm: descriptor.name,
            wrapper: None,
            favour: facts.favour.to_string(),
            waiting: vec![lock.waiting.word()],
            fairness: descriptor.fairness().to_string(),
            bytes: descriptor.bytes,
            bytes_per_waiter: descriptor.bytes_per_waiter,
            // Every one has these.
            try_lock: true,
            downgrade: true,
            timed: descriptor.timed.to_string(),
            recursion: facts.recursion,
            citation: descriptor.citation.text,
            citation_key: descriptor.citation.key,
            summary: descriptor.summary,
        };
        if spec.wrapper.is_none() {
            return plain;
        }
        let Descriptor { name, bytes, timed, citation, summary, .. } = bravo::DESCRIPTOR;
        Self {
            wrapper: Some(name),
            fairness: bravo::DESCRIPTOR.fairness().to_string(),
            bytes: bytes + plain.bytes,
            timed: timed.to_string(),
            recursion: bravo::DESCRIPTOR.rw().map_or("", |facts| facts.recursion),
            citation: citation.text,
            citation_key: citation.key,
            summary,
            ..plain
        }
    }

    /// All locks.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        let plain = rwlocks().map(|lock| Spec::plain(lock.id));
        let biased = rwlocks().filter_map(|lock| Spec::wrapped(WrapperId::Bravo, lock.id));
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
    pub(crate) fn of(spec: &Spec) -> Self {
        let lock = if spec.wrapper.is_some() { &bravo::DESCRIPTOR } else { spec.descriptor() };
        Self {
            entry: Entry::of(spec),
            properties: lock.properties,
            deviations: lock.deviations,
            avoid: lock.avoid,
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
fn row(name: &str, favour: &str, waiting: &str, bytes: &str, writer: &str, lock: &Descriptor) -> Vec<Cell> {
    vec![
        Cell::new(name).add_attribute(Attribute::Bold),
        Cell::new(favour),
        Cell::new(waiting),
        Cell::new(first_clause(&lock.fairness().to_string())),
        Cell::new(bytes),
        Cell::new(writer),
        Cell::new(first_clause(&lock.timed.to_string())),
        Cell::new(short_citation(lock.citation.text)),
    ]
}

/// The section of the list.
pub(crate) fn table() -> String {
    let mut table = terminal::wrapping_table();
    table.set_header(["rwlock", "favours", "waiting", "fairness", "bytes", "+ writer", "timed", "citation"]);
    for lock in rwlocks() {
        let descriptor = lock.descriptor;
        let facts = descriptor.rw().expect("a reader-writer lock");
        let (favour, bytes) = (facts.favour.to_string(), descriptor.bytes.to_string());
        let writer = descriptor.bytes_per_waiter.to_string();
        table.add_row(row(lock.name, &favour, lock.waiting.word(), &bytes, &writer, descriptor));
    }
    let (name, bytes) =
        (format!("{}(LOCK)", bravo::DESCRIPTOR.name), format!("+{}", bravo::DESCRIPTOR.bytes));
    table.add_row(row(&name, "as LOCK", "as LOCK", &bytes, "+0", &bravo::DESCRIPTOR));
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
