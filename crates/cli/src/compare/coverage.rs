//! `lockwork compare --coverage FILE…`: how often each lock is among the best, over comparisons that have been made.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use serde::Deserialize;
use serde_json::Value;

use super::CompareArgs;
use super::meta::MetricInfo;
use super::{again, files, format};
use crate::coverage::{Cell, Entry, FAIR, Matrix, render, write};
use crate::error::Failure;
use crate::program::describe;
use crate::terminal;
use crate::terminal::say;

/// What of a comparison's document is needed.
#[derive(Debug, Deserialize)]
struct Saved {
    command: Vec<String>,
    #[serde(default)]
    title: Option<String>,
    locks: Vec<String>,
    threads: Vec<Option<u32>>,
    metrics: Vec<MetricInfo>,
    summary: Vec<SavedCell>,
}

#[derive(Debug, Deserialize)]
struct SavedCell {
    metric: String,
    lock: String,
    threads: Option<u32>,
    runs: usize,
    median: Option<Middle>,
    note: String,
}

#[derive(Debug, Deserialize)]
struct Middle {
    value: f64,
}

/// Prints and writes the matrix of the comparisons that `--coverage` names.
pub(super) fn main(args: &CompareArgs) -> Result<ExitCode, Failure> {
    if !args.no_report {
        files::prepare(&args.out)?;
    }
    let mut comparisons = Vec::new();
    for path in &args.coverage {
        read(path, &mut comparisons)?;
    }
    let matrix = matrix(&comparisons);
    if matrix.cells.is_empty() {
        return Err(Failure::usage(
            "no cell of these comparisons has figures of two locks: there is nothing to rank",
        ));
    }
    let report = (!args.no_report).then(|| write(&matrix, &args.out)).transpose();
    if args.json {
        terminal::print_json(&matrix.json())?;
    } else {
        terminal::print(&render(&matrix, terminal::table()))?;
    }
    if let Some(report) = report? {
        say!("report: {}", report.display());
    }
    Ok(ExitCode::SUCCESS)
}

/// The comparisons of a file of JSON, or in and under a directory; each with its name.
fn read(path: &Path, into: &mut Vec<(String, Saved)>) -> Result<(), Failure> {
    let refuse = |why: String| {
        Failure::usage(format!(
            "`{}`: {why}; name a file of `lockwork compare --json`, a results.json, or a directory of comparisons",
            path.display()
        ))
    };
    if path.is_dir() {
        for (directory, document) in again::documents(path)? {
            let document = serde_json::to_value(&document).map_err(|error| refuse(error.to_string()))?;
            into.push((name_of(&directory), saved(document).map_err(refuse)?));
        }
        return Ok(());
    }
    let text = fs::read(path).map_err(|error| refuse(describe(&error)))?;
    let document: Value = serde_json::from_slice(&text).map_err(|error| refuse(error.to_string()))?;
    // `sim` prints an array, `bench` an object of benchmarks.
    let documents = match document {
        Value::Array(documents) => documents,
        Value::Object(mut object) => match object.remove("benchmarks") {
            Some(Value::Array(documents)) => documents,
            _ => vec![Value::Object(object)],
        },
        _ => return Err(refuse("it is no comparison".to_owned())),
    };
    let is_results = path.file_name().is_some_and(|name| name == "results.json");
    let name = name_of(path.parent().filter(|_| is_results).unwrap_or(path));
    for document in documents {
        let saved = saved(document).map_err(refuse)?;
        into.push((saved.title.clone().unwrap_or_else(|| name.clone()), saved));
    }
    Ok(())
}

fn saved(document: Value) -> Result<Saved, String> {
    serde_json::from_value(document).map_err(|error| format!("it is no comparison: {error}"))
}

/// The last part of a path, a file's without its ending, and the part before where comparisons are kept by workload.
fn name_of(path: &Path) -> String {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let name = if path.is_dir() { path.file_name() } else { path.file_stem() };
    name.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

fn matrix(comparisons: &[(String, Saved)]) -> Matrix {
    let mut locks: Vec<String> = Vec::new();
    for lock in comparisons.iter().flat_map(|(_, saved)| &saved.locks) {
        if !locks.contains(lock) {
            locks.push(lock.clone());
        }
    }
    let mut cells = Vec::new();
    for (name, saved) in comparisons {
        let Some(metric) = saved.metrics.first() else { continue };
        for &threads in &saved.threads {
            cells.push(Cell {
                group: name.clone(),
                workload: metric.name.clone(),
                threads,
                placement: None,
                command: format::command(&saved.command),
                entries: locks.iter().map(|lock| entry(saved, metric, lock, threads)).collect(),
            });
        }
    }
    let measured = |metric: fn(&str) -> bool| {
        comparisons.iter().any(|(_, saved)| saved.metrics.iter().any(|info| metric(&info.name)))
    };
    let mut notes = Vec::new();
    if !measured(is_jain) {
        notes.push(
            "Whether threads got their share was not measured: a metric named `jain` would say it."
                .to_owned(),
        );
    }
    if !measured(is_p99) {
        notes.push("Tails were not measured: a metric with `p99` in its name would say it.".to_owned());
    }
    let title = format!("{} comparisons, by the medians of their first metrics", comparisons.len());
    Matrix { title, notes, locks, cells }.compared()
}

fn is_jain(name: &str) -> bool {
    name.eq_ignore_ascii_case("jain")
}

/// P99, not P99.9.
fn is_p99(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name.split_once("p99").is_some_and(|(_, rest)| !rest.starts_with(['.', '9']))
}

/// A lock in a cell; nothing where it did not run. A time-out or a failure is a lock that has done nothing.
fn entry(saved: &Saved, metric: &MetricInfo, lock: &str, threads: Option<u32>) -> Option<Entry> {
    let of = |is: &dyn Fn(&str) -> bool| {
        saved.summary.iter().find(|cell| is(&cell.metric) && cell.lock == lock && cell.threads == threads)
    };
    let figure = |is: fn(&str) -> bool| Some(of(&is)?.median.as_ref()?.value);
    let cell = of(&|name| name == metric.name)?;
    let Some(median) = &cell.median else {
        return (cell.runs > 0).then(|| Entry { trouble: Some(cell.note.clone()), ..Entry::default() });
    };
    let value = if metric.higher_is_better { median.value } else { 1.0 / median.value };
    let jain = figure(is_jain);
    Some(Entry { value, jain, p99: figure(is_p99), fair: jain.map(|jain| jain >= FAIR), trouble: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_p99_is_not_a_p99_9() {
        for name in ["p99", "P99 us", "readrandom p99"] {
            assert!(is_p99(name), "{name}");
        }
        for name in ["p99.9", "P999", "p50", "wall"] {
            assert!(!is_p99(name), "{name}");
        }
    }
}
