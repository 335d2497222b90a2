//! `lockwork sim validate`: published results beside simulated ones.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use comfy_table::Table;
use lockwork_sim::validate::{Claim, Measured, Point, Row, Verdict, claims};

use super::workers::{self, PlaceArgs};
use crate::compare::{files, interrupt};
use crate::error::Failure;
use crate::program::describe;
use crate::terminal;

/// Simulates what the claims are about, and prints them. The exit status does not depend on the verdicts.
pub(super) fn main(
    source: Option<&str>,
    seeds: u32,
    json: bool,
    out: Option<&Path>,
    place: &PlaceArgs,
) -> Result<ExitCode, Failure> {
    out.map(files::prepare_asked).transpose()?;
    interrupt::listen()?;
    let wanted = |claim: &Claim| {
        source.is_none_or(|source| claim.source.to_lowercase().contains(&source.to_lowercase()))
    };
    let claims: Vec<Claim> = claims().into_iter().filter(wanted).collect();
    if claims.is_empty() {
        let source = source.unwrap_or_default();
        return Err(Failure::usage(format!(
            "no claim is from `{source}`: name a part of a source, such as RCL, SANL, Guiroux, GCR or CST"
        )));
    }
    let mut points: Vec<&Point> = Vec::new();
    for point in claims.iter().flat_map(|claim| claim.points()) {
        if !points.contains(&point) {
            points.push(point);
        }
    }
    let jobs: Vec<(&Point, u64)> =
        points.iter().flat_map(|point| (1..=u64::from(seeds)).map(move |seed| (*point, seed))).collect();
    let mut results: Vec<Option<Measured>> = vec![None; jobs.len()];
    let keep = |index: usize, measured| {
        results[index] = Some(measured);
        Ok(())
    };
    let place = place.at(out)?;
    let all: Vec<usize> = (0..jobs.len()).collect();
    workers::each(&place, &jobs, &all, "published results", |(point, seed)| point.run(*seed), keep)?;
    if place.is_task() {
        return Ok(ExitCode::SUCCESS);
    }
    let mut runs: HashMap<&Point, Vec<Measured>> = HashMap::new();
    for ((point, _), result) in jobs.iter().zip(results) {
        runs.entry(point).or_default().extend(result);
    }
    let rows: Vec<Row> = claims.iter().map(|claim| claim.judge(&runs)).collect();
    if let Some(directory) = out {
        write(directory, &rows, seeds)?;
    }
    if json {
        terminal::print_json(&rows)?;
    } else {
        terminal::print(&render(&rows, seeds, terminal::wrapping_table()))?;
    }
    Ok(if interrupt::requested() { ExitCode::from(interrupt::EXIT_STATUS) } else { ExitCode::SUCCESS })
}

/// Writes both forms into a directory.
fn write(directory: &Path, rows: &[Row], seeds: u32) -> Result<(), Failure> {
    let table = render(rows, seeds, terminal::table_for_files());
    let result = serde_json::to_string_pretty(rows)
        .map_err(io::Error::from)
        .and_then(|json| fs::write(directory.join("validate.json"), json + "\n"))
        .and_then(|()| fs::write(directory.join("validate.txt"), table + "\n"));
    result.map_err(|error| {
        Failure::with_status(1, format!("cannot write to `{}`: {}", directory.display(), describe(&error)))
    })
}

fn render(rows: &[Row], seeds: u32, mut table: Table) -> String {
    table.set_header(["claim", "source", "published", "agrees (our rule)", "simulated", "band", "verdict"]);
    for row in rows {
        let cells = [&row.claim, &row.source, &row.published, &row.rule, &row.ours, &row.band];
        table.add_row(cells.into_iter().map(String::as_str).chain([row.verdict.text()]));
    }
    let count = |verdict| rows.iter().filter(|row| row.verdict == verdict).count();
    format!(
        "{}\n{} agree, {} differ, {} are not modelled; medians of {seeds} seeds and the band over them, all simulated",
        table.trim_fmt(),
        count(Verdict::Agrees),
        count(Verdict::Differs),
        count(Verdict::NotModelled)
    )
}
