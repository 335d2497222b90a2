//! `lockwork sim validate`: published results beside simulated ones.

use std::collections::HashMap;
use std::process::ExitCode;

use lockwork_sim::validate::{Claim, Measured, Point, Row, Verdict, claims};

use super::workers;
use crate::compare::interrupt;
use crate::error::Failure;
use crate::terminal;

/// Simulates what the claims are about, and prints them. The exit status does not depend on the verdicts.
pub(super) fn main(source: Option<&str>, seeds: u32, json: bool) -> Result<ExitCode, Failure> {
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
    let results = workers::map(&jobs, "published results", |(point, seed)| point.run(*seed));
    let mut runs: HashMap<&Point, Vec<Measured>> = HashMap::new();
    for ((point, _), result) in jobs.iter().zip(results) {
        runs.entry(point).or_default().extend(result);
    }
    let rows: Vec<Row> = claims.iter().map(|claim| claim.judge(&runs)).collect();
    if json {
        terminal::print_json(&rows)?;
    } else {
        terminal::print(&render(&rows, seeds))?;
    }
    Ok(if interrupt::requested() { ExitCode::from(interrupt::EXIT_STATUS) } else { ExitCode::SUCCESS })
}

fn render(rows: &[Row], seeds: u32) -> String {
    let mut table = terminal::wrapping_table();
    table.set_header(["claim", "source", "published", "simulated", "band", "verdict"]);
    for row in rows {
        let cells = [&row.claim, &row.source, &row.published, &row.ours, &row.band];
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
