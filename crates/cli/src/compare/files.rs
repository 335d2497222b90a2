//! The files of a comparison. `meta.json` and `runs.csv` hold what was measured; `table.txt`, `results.json` and
//! `report.html` are made from them, and can be made again.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::results::Document;
use super::runs::Run;
use super::{report, table};
use crate::error::Failure;
use crate::program::describe;

pub(crate) const META: &str = "meta.json";
pub(crate) const RUNS: &str = "runs.csv";
const TABLE: &str = "table.txt";
const RESULTS: &str = "results.json";
const REPORT: &str = "report.html";

/// Before the name of a metric in the header of `runs.csv`: a metric may be called like another column.
pub(crate) const METRIC: &str = "metric:";

/// The column of what was served.
pub(crate) const SERVED: &str = "served";

/// Makes sure that the directory of a report can be written to, before hours are spent on runs.
pub(crate) fn prepare(directory: &Path) -> Result<(), Failure> {
    prepare_for(directory, "choose another directory with --out, or --no-report")
}

/// As [`prepare`] for a command that writes only where `--out` says.
pub(crate) fn prepare_asked(directory: &Path) -> Result<(), Failure> {
    prepare_for(directory, "choose another directory with --out, or leave that out")
}

fn prepare_for(directory: &Path, mend: &str) -> Result<(), Failure> {
    let refuse = |error: &io::Error| {
        Failure::usage(format!("cannot write to `{}`: {}; {mend}", directory.display(), describe(error)))
    };
    fs::create_dir_all(directory).map_err(|error| refuse(&error))?;
    let probe = directory.join(".lockwork-probe");
    fs::write(&probe, b"").and_then(|()| fs::remove_file(&probe)).map_err(|error| refuse(&error))
}

/// Writes all files; returns the path of the report.
pub(crate) fn write(document: &Document, directory: &Path) -> Result<PathBuf, Failure> {
    let result = fs::create_dir_all(directory)
        .and_then(|()| csv_of(document))
        .and_then(|csv| fs::write(directory.join(RUNS), csv))
        .and_then(|()| write_json(&document.meta, &directory.join(META)));
    result.map_err(|error| cannot_write(directory, &error))?;
    derive(document, directory)
}

/// Writes the files that are made from the others; returns the path of the report.
pub(crate) fn derive(document: &Document, directory: &Path) -> Result<PathBuf, Failure> {
    let report = directory.join(REPORT);
    let result = fs::write(directory.join(TABLE), table::render(document))
        .and_then(|()| write_json(document, &directory.join(RESULTS)))
        .and_then(|()| fs::write(&report, report::page(document)));
    result.map_err(|error| cannot_write(directory, &error))?;
    Ok(report.canonicalize().unwrap_or(report))
}

fn write_json(value: &impl serde::Serialize, path: &Path) -> io::Result<()> {
    let mut text = serde_json::to_vec_pretty(value)?;
    text.push(b'\n');
    fs::write(path, text)
}

fn cannot_write(directory: &Path, error: &io::Error) -> Failure {
    Failure::with_status(1, format!("cannot write to `{}`: {}", directory.display(), describe(error)))
}

/// One line a run, warm-up included, one column a metric behind the fixed ones; last, for it has commas, what was served.
fn csv_of(document: &Document) -> io::Result<Vec<u8>> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let fixed = [
        "started",
        "round",
        "warmup",
        "lock",
        "threads",
        "outcome",
        "exit_status",
        "signal",
        "wall_s",
        "user_s",
        "system_s",
        "max_rss_kib",
        "competing_cpu_s",
        "reason",
    ];
    let metrics = document.meta.metrics.iter().map(|metric| format!("{METRIC}{}", metric.name));
    let columns = fixed.into_iter().map(str::to_owned).chain(metrics);
    writer.write_record(columns.chain([SERVED.to_owned()]))?;
    for run in &document.runs {
        writer.write_record(record(run))?;
    }
    writer.into_inner().map_err(|error| io::Error::other(error.to_string()))
}

fn record(run: &Run) -> Vec<String> {
    fn text<T: ToString>(value: Option<T>) -> String {
        value.map(|value| value.to_string()).unwrap_or_default()
    }
    let outcome = serde_json::to_value(run.outcome).ok().and_then(|value| value.as_str().map(str::to_owned));
    let mut fields = vec![
        run.started.clone(),
        run.round.to_string(),
        run.warmup.to_string(),
        run.lock.clone(),
        text(run.threads),
        text(outcome),
        text(run.exit_status),
        text(run.signal),
        run.wall_s.to_string(),
        run.user_s.to_string(),
        run.system_s.to_string(),
        run.max_rss_kib.to_string(),
        text(run.competing_cpu_s),
        text(run.reason.as_deref()),
    ];
    fields.extend(run.values.iter().map(text));
    fields.push(text(run.served.as_ref()));
    fields
}
