//! What `lockwork list` and `lockwork info` say of delegates.

use std::fmt::Write;

use comfy_table::{Attribute, Cell, CellAlignment, ColumnConstraint};
use lockwork_locks::delegation::locked;
use lockwork_locks::describe::Descriptor;
use lockwork_locks::knobs::Knobs;
use lockwork_locks::registry::{DelegateSpec, Spec, delegates};
use serde::Serialize;

use crate::knobs::Knob;
use crate::prose::{first_clause, short_citation};
use crate::{knobs, terminal};

/// A delegate as `--json` describes it; its name is a spec that the libraries take.
#[derive(Debug, Serialize)]
pub(crate) struct Entry {
    name: String,
    kind: &'static str,
    algorithm: &'static str,
    family: String,
    fairness: String,
    /// `None` for `locked(LOCK)`, which takes what the lock takes.
    bytes: Option<usize>,
    bytes_per_waiter: Option<usize>,
    /// Whether it can be acquired and released like a lock.
    guard: bool,
    /// Whether threads of its own run the sections.
    server: bool,
    timed: String,
    citation: &'static str,
    citation_key: &'static str,
    summary: &'static str,
}

impl Entry {
    fn of(name: String, lock: &Descriptor, takes: Option<(usize, usize)>) -> Self {
        Self {
            name,
            kind: "delegate",
            algorithm: lock.name,
            family: lock.family.to_string(),
            fairness: lock.fairness().to_string(),
            bytes: takes.map(|(bytes, _)| bytes),
            bytes_per_waiter: takes.map(|(_, waiter)| waiter),
            guard: lock.capabilities.guard,
            server: lock.capabilities.server,
            timed: lock.timed.to_string(),
            citation: lock.citation.text,
            citation_key: lock.citation.key,
            summary: lock.summary,
        }
    }

    /// All delegates of the table; `locked(…)` is one for every mutex.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        delegates().map(|lock| {
            let descriptor = lock.descriptor;
            Self::of(lock.name.to_owned(), descriptor, Some((descriptor.bytes, descriptor.bytes_per_waiter)))
        })
    }
}

/// What is told of a delegate.
#[derive(Debug, Serialize)]
pub(crate) struct Info {
    #[serde(flatten)]
    entry: Entry,
    properties: &'static str,
    deviations: &'static str,
    avoid: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    knobs: Vec<Knob>,
}

impl Info {
    /// Of what a name or a spec means, if it means a delegate.
    pub(crate) fn of(text: &str) -> Option<Self> {
        if text == locked::DESCRIPTOR.name {
            return Some(Self::new("locked(LOCK)".to_owned(), &locked::DESCRIPTOR, None));
        }
        let spec = DelegateSpec::parse(text).ok()?;
        Some(Self::new(spec.to_string(), spec.descriptor(), Some(&spec)))
    }

    fn new(name: String, lock: &'static Descriptor, spec: Option<&DelegateSpec>) -> Self {
        let (given, takes) = match spec {
            Some(DelegateSpec::Of(_, knobs)) => (*knobs, Some((lock.bytes, lock.bytes_per_waiter))),
            Some(DelegateSpec::Locked(inner)) => (Knobs::NONE, Some(taken_by(inner))),
            None => (Knobs::NONE, None),
        };
        Self {
            entry: Entry::of(name, lock, takes),
            properties: lock.properties,
            deviations: lock.deviations,
            avoid: lock.avoid,
            knobs: Knob::rows(lock.knobs, &given),
        }
    }

    /// As text, by a function that lays out a field.
    pub(crate) fn text(&self, paragraph: impl Fn(&str, &str) -> String) -> String {
        let entry = &self.entry;
        let memory = match (entry.bytes, entry.bytes_per_waiter) {
            (Some(bytes), Some(waiter)) => format!("{bytes} bytes a delegate, {waiter} more for each thread"),
            _ => "what the lock inside takes".to_owned(),
        };
        let yes = |flag: bool| if flag { "yes" } else { "no" };
        let mut text = format!("{}: {}\n\n", entry.name, entry.summary);
        for (name, value) in [
            ("kind", "delegate: runs closures, for programs that call it"),
            ("family", &entry.family),
            ("fairness", &entry.fairness),
            ("memory", &memory),
            ("held", yes(entry.guard)),
            ("server", yes(entry.server)),
            ("timed", &entry.timed),
            ("properties", self.properties),
            ("avoid", self.avoid),
            ("deviations", self.deviations),
            ("citation", entry.citation),
        ] {
            if !value.is_empty() {
                // Writing to a String cannot fail.
                let _ = writeln!(text, "{}", paragraph(name, value));
            }
        }
        if !self.knobs.is_empty() {
            let _ = writeln!(text, "\n{}", knobs::table(&self.knobs).trim_fmt());
        }
        text
    }
}

/// Bytes of a lock, and of each thread that waits for it.
fn taken_by(lock: &Spec) -> (usize, usize) {
    let (base, around) =
        (lock.base.info().descriptor, lock.wrapper.as_ref().map(|wrapper| wrapper.id.descriptor()));
    let waiter = around.map_or(0, |wrapper| wrapper.bytes_per_waiter).max(base.bytes_per_waiter);
    (base.bytes + around.map_or(0, |wrapper| wrapper.bytes), waiter)
}

/// The section of the list.
pub(crate) fn table() -> String {
    let mut table = terminal::wrapping_table();
    table.set_header(["delegate", "family", "fairness", "bytes", "+ thread", "held", "citation"]);
    let mut row = |name: &str, lock: &Descriptor, bytes: &str, thread: &str| {
        table.add_row(vec![
            Cell::new(name).add_attribute(Attribute::Bold),
            Cell::new(lock.family),
            Cell::new(first_clause(&lock.fairness().to_string())),
            Cell::new(bytes),
            Cell::new(thread),
            Cell::new(if lock.capabilities.guard { "yes" } else { "no" }),
            Cell::new(short_citation(lock.citation.text)),
        ]);
    };
    for lock in delegates() {
        let Descriptor { bytes, bytes_per_waiter, .. } = lock.descriptor;
        row(lock.name, lock.descriptor, &bytes.to_string(), &bytes_per_waiter.to_string());
    }
    row("locked(LOCK)", &locked::DESCRIPTOR, "as LOCK", "as LOCK");
    if let Some(names) = table.column_mut(0) {
        names.set_constraint(ColumnConstraint::ContentWidth);
    }
    for index in [3, 4] {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.trim_fmt()
}
