//! The band over what a machine's file can only guess: which verdicts hold on all variants of the machine.

use std::collections::BTreeMap;

use lockwork_sim::Machine;
use serde::Serialize;

use super::sweep::Sweep;
use crate::compare::format;
use crate::compare::results::Document;
use crate::compare::summary::Cell;
use crate::compare::verdict::Verdict;
use crate::error::Failure;
use crate::terminal;

/// What became of a verdict.
#[derive(Debug, Serialize)]
pub(super) struct Band {
    machine: String,
    threads: Option<u32>,
    lock: String,
    /// Ratios of throughput to the baseline's: the machine as it is, the least, the most.
    ratio: Option<[f64; 3]>,
    /// The machine's as it is.
    verdict: Verdict,
    /// Whether all variants agree.
    holds: bool,
    /// Those that do not, with their verdicts.
    differs_with: Vec<String>,
}

/// Simulates the variants, and prints which verdicts of the sweep hold on all of them.
pub(super) fn main(sweep: &Sweep, documents: &[Document], json: bool) -> Result<(), Failure> {
    let bands = bands(sweep, documents);
    if json {
        let parts = BTreeMap::from([
            ("sweeps", serde_json::to_value(documents)),
            ("sensitivity", serde_json::to_value(&bands)),
        ]);
        let parts: BTreeMap<_, _> =
            parts.into_iter().map(|(name, part)| (name, part.unwrap_or_default())).collect();
        return terminal::print_json(&parts);
    }
    terminal::print(&render(&bands))
}

/// Of each cell what became of its verdict on the variants.
pub(super) fn bands(sweep: &Sweep, documents: &[Document]) -> Vec<Band> {
    let mut bands = Vec::new();
    for (index, document) in documents.iter().enumerate() {
        let machine = &sweep.machines[index];
        let others: Vec<(&str, Document)> = machine
            .variants()
            .into_iter()
            .map(|(name, variant)| (name, sweep.run_on(&variant, &sweep.threads[index])))
            .collect();
        bands.extend(document.cells(&document.meta.metrics[0]).map(|cell| band(machine, cell, &others)));
    }
    bands
}

/// As a table.
pub(super) fn render(bands: &[Band]) -> String {
    let mut table = terminal::wrapping_table();
    table.set_header(["machine", "threads", "lock", "× baseline", "least to most", "verdict", "holds"]);
    for band in bands {
        let number =
            |place: usize| band.ratio.map_or_else(|| "—".to_owned(), |ratio| format::ratio(ratio[place]));
        table.add_row([
            band.machine.clone(),
            band.threads.map_or_else(String::new, |threads| threads.to_string()),
            band.lock.clone(),
            number(0),
            format!("{} to {}", number(1), number(2)),
            band.verdict.text().to_owned(),
            if band.holds { "yes".to_owned() } else { format!("no: {}", band.differs_with.join(", ")) },
        ]);
    }
    format!("\nThe same on variants of each machine\n{}", table.trim_fmt())
}

fn band(machine: &Machine, cell: &Cell, others: &[(&str, Document)]) -> Band {
    let same = |document: &Document| {
        let mut cells = document.summary.iter();
        let is_it = |other: &&Cell| {
            (&other.metric, other.lock_index, other.threads_index)
                == (&cell.metric, cell.lock_index, cell.threads_index)
        };
        cells.find(is_it).cloned()
    };
    let variants: Vec<(&str, Cell)> =
        others.iter().filter_map(|(name, document)| Some((*name, same(document)?))).collect();
    let ratios =
        variants.iter().map(|(_, cell)| cell).chain([cell]).filter_map(|cell| Some(cell.ratio?.value));
    let (least, most) =
        ratios.fold((f64::INFINITY, 0.0_f64), |(least, most), ratio| (least.min(ratio), most.max(ratio)));
    let differs: Vec<String> = variants
        .iter()
        .filter(|(_, other)| other.verdict != cell.verdict)
        .map(|(name, other)| format!("{name} ({})", other.verdict.text()))
        .collect();
    Band {
        machine: machine.name.clone(),
        threads: cell.threads,
        lock: cell.lock.clone(),
        ratio: cell.ratio.map(|ratio| [ratio.value, least, most]),
        verdict: cell.verdict,
        holds: differs.is_empty(),
        differs_with: differs,
    }
}
