//! Knobs, as `info` shows them.

use lockwork_locks::knobs::{self, Knobs};
use serde::Serialize;

use crate::terminal;

/// A knob of a lock, a wrapper or a delegate.
#[derive(Debug, Serialize)]
pub(crate) struct Knob {
    pub(crate) name: &'static str,
    low: u32,
    high: u32,
    /// What its values are called, from the smallest on; empty where they are numbers.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    names: &'static [&'static str],
    pub(crate) default: &'static str,
    /// As the spec sets it.
    pub(crate) value: Option<Value>,
    pub(crate) meaning: &'static str,
}

/// A number, or a name.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum Value {
    Number(u32),
    Name(&'static str),
}

impl Knob {
    /// Of a table, with the values that a spec gives.
    pub(crate) fn rows(table: &'static [knobs::Knob], given: &Knobs) -> Vec<Self> {
        let row = |knob: &'static knobs::Knob| Self {
            name: knob.name,
            low: knob.low,
            high: knob.high,
            names: knob.names,
            default: knob.default,
            value: knob.given(given).map(|value| match value {
                knobs::Value::Number(number) => Value::Number(number),
                knobs::Value::Name(name) => Value::Name(name),
            }),
            meaning: knob.meaning,
        };
        table.iter().map(row).collect()
    }

    /// Its values, in words.
    pub(crate) fn range(&self) -> String {
        if self.names.is_empty() { format!("{} – {}", self.low, self.high) } else { self.names.join(", ") }
    }

    /// The value given; empty if none is.
    pub(crate) fn given(&self) -> String {
        match self.value {
            Some(Value::Number(number)) => number.to_string(),
            Some(Value::Name(name)) => name.to_owned(),
            None => String::new(),
        }
    }
}

/// A row for each.
pub(crate) fn table(knobs: &[Knob]) -> comfy_table::Table {
    let mut table = terminal::wrapping_table();
    let any_given = knobs.iter().any(|knob| knob.value.is_some());
    let mut header = vec!["knob", "default", "range", "meaning"];
    if any_given {
        header.insert(1, "here");
    }
    table.set_header(header);
    for knob in knobs {
        let mut row =
            vec![knob.name.to_owned(), knob.default.to_owned(), knob.range(), knob.meaning.to_owned()];
        if any_given {
            row.insert(1, knob.given());
        }
        table.add_row(row);
    }
    table
}
