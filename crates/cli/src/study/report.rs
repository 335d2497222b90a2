//! `lockwork study report`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueEnum, ValueHint};
use lockwork_study::{Cover, Energy, Level, Metric, Observations, Report, Store, Study, campaign_tables};

use super::campaign_of;

use crate::error::Failure;
use crate::terminal;

/// `lockwork study report`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lockwork study report --from lockwork-study/debian --table verdicts     what a campaign found
  lockwork study report --from A64.csv.gz --table 4.8                     coverage of the locks, for the terminal
  lockwork study report --from A64.csv.gz --table 4.11 --format csv       gains of the best lock over the others
  lockwork study report --from A64.csv.gz --from I48.csv.gz --table 4.10  two machines in one table
  lockwork study report --from A64.csv.gz --format html > study.html      all of it as a page
  lockwork study report --from A64.csv.gz --figure 4.1 --format svg > scores.svg
  lockwork study report --from lockwork-study/sim --observations          what the thesis states, and what these runs say

Columns of a file: bench, node, strategy, throughput; and where measured rep, p99, energy,
seconds, variant (interposed or linked). Files may be packed by gzip. Tables and figures have
the numbers that they have in H. Guiroux's thesis (Grenoble 2018): tables 3.1 to 3.3 and 4.4 to
4.16, figures 3.2 and 4.1 to 4.5. Table `guidelines` compares ways to choose a lock, table
`tree` is a decision tree fitted to the data. A campaign also has `runs` (those that failed, and
why), `verdicts` (each lock against the baseline, paired by round) and `cost` (CPU, memory,
switches, faults, power). In CSV percentages have two decimals, and an empty field was not
measured.")]
pub(crate) struct ReportArgs {
    /// Runs: a CSV file for each machine, which is called as the file, or a campaign, by its TOML file, its directory or its
    /// runs.sqlite
    #[arg(long, value_name = "FILE", required = true, value_hint = ValueHint::FilePath)]
    from: Vec<PathBuf>,
    /// One table [default: all tables, and in HTML all figures, that the data allows]
    #[arg(long, value_name = "NUMBER", conflicts_with = "figure")]
    table: Option<String>,
    /// One figure
    #[arg(long, value_name = "NUMBER")]
    figure: Option<String>,
    /// What the thesis states in chapter 4, beside what these runs say, with verdicts; or what this file states
    #[arg(long, value_name = "FILE", num_args = 0..=1, conflicts_with_all = ["table", "figure"], value_hint = ValueHint::FilePath)]
    observations: Option<Option<PathBuf>>,
    /// How to print it
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
    /// What tables of throughput are of
    #[arg(long, value_enum, default_value = "throughput")]
    metric: MetricArg,
    /// What the column `energy` holds: joules of the run (its time is in the column `seconds`, or 1 / throughput), watts,
    /// or operations a joule
    #[arg(long, value_enum, default_value = "joules")]
    energy: EnergyArg,
    /// The nodes that tables 4.11 and `tree` (else max) and figures 4.1 and 4.5 (else opt) are of
    #[arg(long, value_enum)]
    nodes: Option<NodesArg>,
    /// The lock that figure 4.5 compares with, and that the tree asks about
    #[arg(long, value_name = "LOCK", default_value = "pthread")]
    baseline: String,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Format {
    Text,
    Csv,
    /// One page that needs nothing else, with the figures
    Html,
    /// The figures alone
    Svg,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum MetricArg {
    Throughput,
    Energy,
    Latency,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum EnergyArg {
    Joules,
    Watts,
    Tpp,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum NodesArg {
    One,
    Max,
    Opt,
}

/// Prints what was asked for.
pub(super) fn report(args: &ReportArgs) -> Result<ExitCode, Failure> {
    let energy = match args.energy {
        EnergyArg::Joules => Energy::Joules,
        EnergyArg::Watts => Energy::Watts,
        EnergyArg::Tpp => Energy::Efficiency,
    };
    let (mut studies, mut campaign, mut cover) = (Vec::new(), Vec::new(), None);
    for path in &args.from {
        match campaign_of(path) {
            Some(database) => {
                let store = Store::read(&database).map_err(Failure::usage)?;
                let runs = store.runs().map_err(Failure::usage)?;
                let absent = store.absent().map_err(Failure::usage)?;
                studies.extend(Study::of_records(&runs));
                cover = Some(Cover::of(&store, &runs).map_err(Failure::usage)?);
                campaign.extend(campaign_tables(&runs, &absent, &args.baseline));
            }
            None => studies.push(Study::read(path, energy).map_err(Failure::usage)?),
        }
    }
    let observations = args.observations.as_ref().map(|file| observations(file.as_deref())).transpose()?;
    let report = Report {
        studies: &studies,
        metric: match args.metric {
            MetricArg::Throughput => Metric::Throughput,
            MetricArg::Energy => Metric::Efficiency,
            MetricArg::Latency => Metric::TailLatency,
        },
        level: args.nodes.map(|nodes| match nodes {
            NodesArg::One => Level::One,
            NodesArg::Max => Level::Max,
            NodesArg::Opt => Level::Opt,
        }),
        baseline: &args.baseline,
        cover: cover.as_ref().filter(|_| args.from.len() == 1),
        campaign: &campaign,
        observations: observations.as_ref(),
    };
    let text = print(&report, args).map_err(Failure::usage)?;
    terminal::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// The observations of a file, or the thesis's.
fn observations(file: Option<&Path>) -> Result<Observations, Failure> {
    let Some(file) = file else { return Ok(Observations::thesis()) };
    let refuse = |why: String| Failure::usage(format!("`{}`: {why}", file.display()));
    let text = std::fs::read_to_string(file).map_err(|error| refuse(error.to_string()))?;
    Observations::parse(&text).map_err(refuse)
}

fn print(report: &Report<'_>, args: &ReportArgs) -> Result<String, lockwork_study::Error> {
    // Everything that the data allows, unless one number is asked for. Tables and figures share numbers.
    let (tables, figures) = match (args.table.as_deref(), args.figure.as_deref()) {
        _ if args.observations.is_some() => (vec!["observations"], vec![]),
        (Some(table), _) => (vec![table], vec![]),
        (None, Some(figure)) => (vec![], vec![figure]),
        (None, None) => (report.tables(), report.figures()),
    };
    if let Format::Html = args.format {
        return report.html(&tables, &figures);
    }
    if let Format::Svg = args.format {
        let drawings: Vec<Vec<String>> = figures.iter().map(|id| report.svg(id)).collect::<Result<_, _>>()?;
        return Ok(drawings.concat().join("\n"));
    }
    let mut rows = Vec::new();
    for id in tables {
        rows.extend(report.table(id)?);
    }
    // The rows of a figure are long lists: only on demand.
    if args.figure.is_some() {
        for id in figures {
            rows.extend(report.figure(id)?);
        }
    }
    match args.format {
        Format::Csv => Report::csv(&rows),
        _ => Ok(Report::text(&rows)),
    }
}
