//! `lockwork sim validate`: published results beside simulated ones.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use comfy_table::Table;
use lockwork_sim::Machine;
use lockwork_sim::validate::{Claim, Measured, Point, Row, Verdict, claims};

use super::workers::{self, PlaceArgs};
use crate::compare::{files, interrupt};
use crate::error::Failure;
use crate::program::describe;
use crate::terminal;

/// Which runs are made of each point.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted {
    /// On the machine as it is, with seeds from 1.
    pub(super) seeds: u32,
    /// Whether it runs on each variant of its machine, too, with the first of them.
    pub(super) variants: bool,
}

/// One run.
struct Job<'a> {
    point: &'a Point,
    /// A variant of the point's machine, with its name.
    variant: Option<(&'static str, Machine)>,
    seed: u64,
}

impl Job<'_> {
    fn run(&self) -> Measured {
        match &self.variant {
            Some((_, machine)) => self.point.run_on(machine, self.seed),
            None => self.point.run(self.seed),
        }
    }
}

/// What a point came to, by seed.
type Runs<'a> = HashMap<&'a Point, Vec<Measured>>;

/// Simulates what the claims are about, and prints them. The exit status does not depend on the verdicts.
pub(super) fn main(
    source: Option<&str>,
    wanted: Wanted,
    json: bool,
    out: Option<&Path>,
    place: &PlaceArgs,
) -> Result<ExitCode, Failure> {
    out.map(files::prepare_asked).transpose()?;
    interrupt::listen()?;
    let asked = |claim: &Claim| {
        source.is_none_or(|source| claim.source.to_lowercase().contains(&source.to_lowercase()))
    };
    let claims: Vec<Claim> = claims().into_iter().filter(asked).collect();
    if claims.is_empty() {
        let source = source.unwrap_or_default();
        return Err(Failure::usage(format!(
            "no claim is from `{source}`: name a part of a source, such as RCL, SANL, Guiroux, GCR or CST"
        )));
    }
    let jobs = jobs_of(&claims, wanted);
    let mut results: Vec<Option<Measured>> = vec![None; jobs.len()];
    let keep = |index: usize, measured| {
        results[index] = Some(measured);
        Ok(())
    };
    let place = place.at(out)?;
    let all: Vec<usize> = (0..jobs.len()).collect();
    workers::each(&place, &jobs, &all, "published results", Job::run, keep)?;
    if place.is_task() {
        return Ok(ExitCode::SUCCESS);
    }
    let mut runs: Runs<'_> = HashMap::new();
    let mut variants: Vec<(&'static str, Runs<'_>)> = Vec::new();
    for (job, result) in jobs.iter().zip(results) {
        let runs = match &job.variant {
            None => &mut runs,
            Some((name, _)) => {
                let place = variants.iter().position(|(other, _)| other == name).unwrap_or_else(|| {
                    variants.push((name, HashMap::new()));
                    variants.len() - 1
                });
                &mut variants[place].1
            }
        };
        runs.entry(job.point).or_default().extend(result);
    }
    let judge = |claim: &Claim| {
        let on_variants = wanted.variants.then(|| claim.judge_on_variants(&runs, &variants)).flatten();
        Row { on_variants, ..claim.judge(&runs) }
    };
    let rows: Vec<Row> = claims.iter().map(judge).collect();
    if let Some(directory) = out {
        write(directory, &rows, wanted)?;
    }
    if json {
        terminal::print_json(&rows)?;
    } else {
        terminal::print(&render(&rows, wanted, terminal::wrapping_table()))?;
    }
    Ok(if interrupt::requested() { ExitCode::from(interrupt::EXIT_STATUS) } else { ExitCode::SUCCESS })
}

/// The runs of all points of some claims, each once.
fn jobs_of(claims: &[Claim], wanted: Wanted) -> Vec<Job<'_>> {
    let mut points: Vec<&Point> = Vec::new();
    for point in claims.iter().flat_map(Claim::points) {
        if !points.contains(&point) {
            points.push(point);
        }
    }
    let mut jobs = Vec::new();
    for point in points {
        jobs.extend((1..=u64::from(wanted.seeds)).map(|seed| Job { point, variant: None, seed }));
        if wanted.variants {
            let variants = point.machine().variants();
            jobs.extend(variants.into_iter().map(|variant| Job { point, variant: Some(variant), seed: 1 }));
        }
    }
    jobs
}

/// Writes both forms into a directory.
fn write(directory: &Path, rows: &[Row], wanted: Wanted) -> Result<(), Failure> {
    let table = render(rows, wanted, terminal::table_for_files());
    let result = serde_json::to_string_pretty(rows)
        .map_err(io::Error::from)
        .and_then(|json| fs::write(directory.join("validate.json"), json + "\n"))
        .and_then(|()| fs::write(directory.join("validate.txt"), table + "\n"));
    result.map_err(|error| {
        Failure::with_status(1, format!("cannot write to `{}`: {}", directory.display(), describe(&error)))
    })
}

fn render(rows: &[Row], wanted: Wanted, mut table: Table) -> String {
    let mut header =
        vec!["claim", "source", "published", "agrees (our rule)", "simulated", "band", "verdict"];
    if wanted.variants {
        header.extend(["on variants", "holds"]);
    }
    table.set_header(header);
    for row in rows {
        let mut cells = vec![
            row.claim.clone(),
            row.source.clone(),
            row.published.clone(),
            row.rule.clone(),
            row.ours.clone(),
            row.band.clone(),
            row.verdict.text().to_owned(),
        ];
        if wanted.variants {
            let (band, holds) = row.on_variants.as_ref().map_or_else(Default::default, |on_variants| {
                let holds = match on_variants.differs_with.as_slice() {
                    [] => "yes".to_owned(),
                    others => format!("no: {}", others.join(", ")),
                };
                (on_variants.band.clone(), holds)
            });
            cells.extend([band, holds]);
        }
        table.add_row(cells);
    }
    let count = |verdict| rows.iter().filter(|row| row.verdict == verdict).count();
    let mut text = format!(
        "{}\n{} agree, {} differ, {} are not modelled; medians of {} seeds and the band over them, all simulated",
        table.trim_fmt(),
        count(Verdict::Agrees),
        count(Verdict::Differs),
        count(Verdict::NotModelled),
        wanted.seeds,
    );
    if wanted.variants {
        let on_variants: Vec<_> = rows.iter().filter_map(|row| row.on_variants.as_ref()).collect();
        let holds = on_variants.iter().filter(|on_variants| on_variants.differs_with.is_empty()).count();
        text.push_str(&format!(
            "; {holds} of {} simulated verdicts hold on all variants of their machines, one seed each",
            on_variants.len()
        ));
    }
    text
}
