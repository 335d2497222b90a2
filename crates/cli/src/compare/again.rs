//! `lockwork compare --report-from DIR`: the files that are made from `meta.json` and `runs.csv`, made again.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;
use std::sync::Arc;

use serde_json::Value;

use super::files::{self, META, METRIC, RUNS, SERVED};
use super::meta::{Meta, SCHEMA};
use super::results::Document;
use super::runs::{Outcome, Run, Values};
use crate::error::Failure;
use crate::program::describe;
use crate::terminal;

/// Makes the files of every comparison in or under the directory again, and prints where.
pub(crate) fn main(directory: &Path) -> Result<ExitCode, Failure> {
    for (directory, document) in documents(directory)? {
        let report = files::derive(&document, &directory)?;
        terminal::print(&report.display().to_string())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Every comparison in or under a directory, with its own directory.
pub(super) fn documents(directory: &Path) -> Result<Vec<(PathBuf, Document)>, Failure> {
    let mut found = Vec::new();
    find(directory, &mut HashSet::new(), &mut found)?;
    if found.is_empty() {
        return Err(Failure::usage(format!(
            "no {META} in or under `{}`: name the --out directory of a comparison, or one above it",
            directory.display()
        )));
    }
    let mut documents = Vec::new();
    for directory in found {
        if let Some(document) = read(&directory)? {
            documents.push((directory, document));
        }
    }
    Ok(documents)
}

/// The directories that hold a comparison, in the order of their names, each once: links may lead round in a circle.
fn find(directory: &Path, seen: &mut HashSet<PathBuf>, found: &mut Vec<PathBuf>) -> Result<(), Failure> {
    if directory.canonicalize().is_ok_and(|directory| !seen.insert(directory)) {
        return Ok(());
    }
    if directory.join(META).is_file() && directory.join(RUNS).is_file() {
        found.push(directory.to_owned());
    }
    let refuse =
        |error| Failure::usage(format!("`{}` cannot be read: {}", directory.display(), describe(&error)));
    let entries: Result<Vec<_>, _> = fs::read_dir(directory).map_err(refuse)?.collect();
    let mut inner: Vec<PathBuf> =
        entries.map_err(refuse)?.iter().map(fs::DirEntry::path).filter(|path| path.is_dir()).collect();
    inner.sort();
    inner.iter().try_for_each(|directory| find(directory, seen, found))
}

/// The comparison of a directory; `None` if its `meta.json` has no number of a layout, as files of other programs.
fn read(directory: &Path) -> Result<Option<Document>, Failure> {
    let path = directory.join(META);
    let refuse = |path: &Path, why: String| Failure::usage(format!("`{}`: {why}", path.display()));
    let text = fs::read(&path).map_err(|error| refuse(&path, describe(&error)))?;
    let meta: Value = serde_json::from_slice(&text).map_err(|error| refuse(&path, error.to_string()))?;
    match meta.get("schema") {
        None => return Ok(None),
        Some(schema) if *schema == SCHEMA => {}
        Some(schema) => {
            return Err(refuse(&path, format!("its layout is {schema}, and this command reads {SCHEMA}")));
        }
    }
    let meta: Meta = serde_json::from_value(meta).map_err(|error| refuse(&path, error.to_string()))?;
    let path = directory.join(RUNS);
    let text = fs::read(&path).map_err(|error| refuse(&path, describe(&error)))?;
    let (runs, asked) = runs(&meta, &text).map_err(|why| refuse(&path, why))?;
    Ok(Some(Document::of(meta, runs, asked)))
}

/// The runs of a file, and whether it has what was served, which older ones have not; the error says what of which line is wrong.
fn runs(meta: &Meta, text: &[u8]) -> Result<(Vec<Run>, bool), String> {
    let mut reader = csv::Reader::from_reader(text);
    let header = reader.headers().map_err(|error| error.to_string())?.clone();
    let columns: HashMap<&str, usize> =
        header.iter().enumerate().map(|(place, name)| (name, place)).collect();
    let names: Arc<[String]> = meta.metrics.iter().map(|metric| metric.name.clone()).collect();
    let mut runs = Vec::new();
    for (index, record) in reader.records().enumerate() {
        let record = record.map_err(|error| error.to_string())?;
        let line = Line { columns: &columns, record: &record };
        runs.push(run(meta, &names, &line).map_err(|why| format!("line {}: {why}", index + 2))?);
    }
    Ok((runs, columns.contains_key(SERVED)))
}

/// A line of the file.
struct Line<'a> {
    columns: &'a HashMap<&'a str, usize>,
    record: &'a csv::StringRecord,
}

impl Line<'_> {
    /// The text of a column; empty if there is none.
    fn text(&self, column: &str) -> &str {
        self.columns.get(column).and_then(|&place| self.record.get(place)).unwrap_or_default()
    }

    /// What a column says, if anything.
    fn maybe<T: FromStr>(&self, column: &str) -> Result<Option<T>, String> {
        let text = self.text(column);
        if text.is_empty() {
            return Ok(None);
        }
        text.parse().map(Some).map_err(|_| format!("`{text}` is no value of `{column}`"))
    }

    /// What a column says, which must say something.
    fn value<T: FromStr>(&self, column: &str) -> Result<T, String> {
        self.maybe(column)?.ok_or_else(|| format!("`{column}` is missing"))
    }
}

fn run(meta: &Meta, names: &Arc<[String]>, line: &Line<'_>) -> Result<Run, String> {
    let lock = line.text("lock");
    let threads: Option<u32> = line.maybe("threads")?;
    let outcome = Value::from(line.text("outcome"));
    let outcome: Outcome =
        serde_json::from_value(outcome).map_err(|error| format!("its outcome: {error}"))?;
    let mut values = Values::missing(Arc::clone(names));
    for (place, name) in names.iter().enumerate() {
        values.set(place, line.maybe(&format!("{METRIC}{name}"))?);
    }
    let reason = line.text("reason");
    Ok(Run {
        lock: lock.to_owned(),
        lock_index: place(&meta.locks, |name| name == lock)
            .ok_or_else(|| format!("no lock `{lock}` was compared"))?,
        threads,
        threads_index: place(&meta.threads, |count| *count == threads)
            .ok_or_else(|| format!("the comparison had no {threads:?} threads"))?,
        round: line.value("round")?,
        warmup: line.value("warmup")?,
        started: line.text("started").to_owned(),
        outcome,
        exit_status: line.maybe("exit_status")?,
        signal: line.maybe("signal")?,
        reason: (!reason.is_empty()).then(|| reason.to_owned()),
        wall_s: line.value("wall_s")?,
        user_s: line.value("user_s")?,
        system_s: line.value("system_s")?,
        max_rss_kib: line.value("max_rss_kib")?,
        competing_cpu_s: line.maybe("competing_cpu_s")?,
        served: line.text(SERVED).parse().ok(),
        values,
    })
}

fn place<T>(list: &[T], is: impl Fn(&T) -> bool) -> Option<usize> {
    list.iter().position(is)
}
