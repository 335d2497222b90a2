//! What a campaign itself has to say, beside the thesis's tables: which runs were made and which failed, the paired verdicts and
//! what they come to, what the locks cost.

use std::collections::BTreeMap;

use lockwork_stats::{Comparison, Finding, compare, holm_of_some, mean, relative_deviation};

use super::begin;
use crate::campaign::Placement;
use crate::store::{Outcome, Record};
use crate::table::{Cell, Column, Row, Table, Unit};

/// One configuration, but for the lock.
type Cells<'a> = BTreeMap<(&'a str, &'a str, u32, u32, Placement), BTreeMap<&'a str, Vec<&'a Record>>>;

/// The tables `runs`, `summary`, `verdicts` and `cost` of a campaign.
#[must_use]
pub fn campaign_tables(
    records: &[Record],
    absent: &[(String, String, String)],
    baseline: &str,
) -> Vec<Table> {
    let mut cells: Cells<'_> = BTreeMap::new();
    for run in records {
        let machine = run.machine.as_deref().unwrap_or_default();
        let (key, application) = (&run.key, run.key.application.as_str());
        let cell = (machine, application, key.nodes, key.threads, key.placement);
        cells.entry(cell).or_default().entry(key.lock.as_str()).or_default().push(run);
    }
    let compared = compared(&cells, baseline);
    vec![
        runs(&cells, records, absent),
        summary(&compared, baseline),
        verdicts(&compared, baseline),
        cost(&cells),
    ]
}

/// A configuration under a lock, beside the same under the baseline.
struct Compared {
    labels: Vec<String>,
    comparison: Comparison,
    deviation: Option<f64>,
}

impl Compared {
    fn lock(&self) -> &str {
        self.labels.last().map_or("", String::as_str)
    }
}

fn compared(cells: &Cells<'_>, baseline: &str) -> Vec<Compared> {
    let series = |runs: &[&Record]| -> Vec<(u32, f64)> {
        runs.iter().filter_map(|run| Some((run.key.round, run.throughput?))).collect()
    };
    let mut compared: Vec<Compared> = Vec::new();
    for (place, locks) in cells {
        let Some(base) = locks.get(baseline) else { continue };
        let base = series(base);
        for (lock, runs) in locks.iter().filter(|(lock, _)| **lock != baseline) {
            let own = series(runs);
            let values: Vec<f64> = own.iter().map(|(_, value)| *value).collect();
            let seed = compared.len() as u64;
            compared.push(Compared {
                labels: labels(place, lock),
                comparison: compare(&own, &base, seed),
                deviation: relative_deviation(&values),
            });
        }
    }
    compared
}

/// What the verdicts come to, by lock.
fn summary(compared: &[Compared], baseline: &str) -> Table {
    let mut table = begin("summary", format!("Configurations beside {baseline}, by lock"), &["lock"]);
    table.columns = vec![
        Column::new("compared", Unit::Count),
        Column::new("faster", Unit::Count),
        Column::new("slower", Unit::Count),
        Column::new("no verdict", Unit::Count),
        Column::new("geometric mean", Unit::Number),
        Column::new("least ratio", Unit::Number),
        Column::new("most", Unit::Number),
    ];
    let mut locks: BTreeMap<&str, Vec<&Comparison>> = BTreeMap::new();
    for one in compared {
        locks.entry(one.lock()).or_default().push(&one.comparison);
    }
    for (lock, comparisons) in locks {
        let count =
            |finding| Cell::number(comparisons.iter().filter(|one| one.finding == finding).count() as f64);
        let ratios: Vec<f64> = comparisons.iter().filter_map(|one| Some(one.ratio.as_ref()?.value)).collect();
        let logarithms: Vec<f64> = ratios.iter().map(|ratio| ratio.ln()).collect();
        let decided = [Finding::Higher, Finding::Lower];
        let open = comparisons.iter().filter(|one| !decided.contains(&one.finding)).count();
        table.rows.push(Row {
            labels: vec![lock.to_owned()],
            cells: vec![
                Cell::number(comparisons.len() as f64),
                count(Finding::Higher),
                count(Finding::Lower),
                Cell::number(open as f64),
                Cell::optional(mean(&logarithms).map(f64::exp)),
                Cell::optional(ratios.iter().copied().reduce(f64::min)),
                Cell::optional(ratios.iter().copied().reduce(f64::max)),
            ],
        });
    }
    table.notes.push(
        "Faster and slower are configurations whose interval excludes 1. Ratios are medians of paired ratios of throughput."
            .to_owned(),
    );
    table
}

/// Machine, application, nodes, threads, placement.
type Place<'a> = (&'a str, &'a str, u32, u32, Placement);

fn labels((machine, application, nodes, threads, placement): &Place<'_>, lock: &str) -> Vec<String> {
    let level = if nodes == threads { threads.to_string() } else { format!("{threads} on {nodes} nodes") };
    let application =
        if machine.is_empty() { (*application).to_owned() } else { format!("{application} ({machine})") };
    vec![application, level, placement.name().to_owned(), lock.to_owned()]
}

const LABELS: [&str; 4] = ["application", "threads", "placement", "lock"];

fn runs(cells: &Cells<'_>, records: &[Record], absent: &[(String, String, String)]) -> Table {
    let mut table = begin("runs", "Configurations with failed runs".to_owned(), &LABELS);
    table.columns = Outcome::ALL.iter().map(|outcome| Column::new(outcome.name(), Unit::Count)).collect();
    for (place, locks) in cells {
        for (lock, runs) in locks.iter().filter(|(_, runs)| runs.iter().any(|run| run.outcome != Outcome::Ok))
        {
            let count = |outcome| runs.iter().filter(|run| run.outcome == outcome).count() as f64;
            let cells = Outcome::ALL.iter().map(|outcome| {
                let number = count(*outcome);
                Cell::number(number).notable_if(*outcome != Outcome::Ok && number > 0.0)
            });
            table.rows.push(Row { labels: labels(place, lock), cells: cells.collect() });
            let mut reasons: Vec<&str> = runs.iter().filter_map(|run| run.reason.as_deref()).collect();
            reasons.sort_unstable();
            reasons.dedup();
            table.notes.extend(reasons.first().map(|reason| format!("{} under {lock}: {reason}.", place.1)));
        }
    }
    table.notes.dedup();
    let failed = records.iter().filter(|run| run.outcome != Outcome::Ok).count();
    let summary = format!(
        "{} runs were made, {failed} of them have no figure; those take no part in a mean, nor in a comparison.",
        records.len()
    );
    table.notes.insert(0, summary);
    let on_hosts = records.iter().filter(|run| run.machine.is_none());
    let mut hosts: Vec<&str> = on_hosts.map(|run| run.surroundings.host.as_str()).collect();
    hosts.retain(|host| !host.is_empty());
    hosts.sort_unstable();
    hosts.dedup();
    if hosts.len() > 1 {
        table.notes.push(format!(
            "The runs are of {} hosts: {}. Those of one round of a configuration are of one host, means over rounds of several.",
            hosts.len(),
            hosts.join(", ")
        ));
    }
    for (application, lock, why) in absent {
        let what = if lock.is_empty() { application.clone() } else { format!("{application} under {lock}") };
        table.notes.push(format!("Not run: {what}: {why}."));
    }
    table
}

fn verdicts(compared: &[Compared], baseline: &str) -> Table {
    let title = format!("Throughput over {baseline}'s, in pairs of the same round");
    let mut table = begin("verdicts", title, &LABELS);
    table.columns = vec![
        Column::new("pairs", Unit::Count),
        Column::new("ratio", Unit::Number),
        Column::new("from", Unit::Number),
        Column::new("to", Unit::Number),
        Column::new("Student's p, Holm", Unit::Number),
        Column::new("Wilcoxon's p, Holm", Unit::Number),
        Column::new("deviation", Unit::Percent),
    ];
    let adjusted = |of: fn(&Comparison) -> Option<f64>| -> Vec<Option<f64>> {
        holm_of_some(&compared.iter().map(|one| of(&one.comparison)).collect::<Vec<_>>())
    };
    let student = adjusted(|comparison| comparison.t.map(|test| test.p));
    let wilcoxon = adjusted(|comparison| comparison.wilcoxon.map(|test| test.p));
    let mut undecided = 0;
    for (place, Compared { labels, comparison, deviation }) in compared.iter().enumerate() {
        let decided = comparison.finding != Finding::NotEnoughRounds;
        undecided += usize::from(!decided);
        // An interval of fewer pairs than a verdict needs promises too much.
        let end = |value: fn(&lockwork_stats::Estimate) -> f64| {
            Cell::optional(comparison.ratio.as_ref().filter(|_| decided).map(value))
        };
        let differs = matches!(comparison.finding, Finding::Higher | Finding::Lower);
        table.rows.push(Row {
            labels: labels.clone(),
            cells: vec![
                Cell::number(comparison.pairs as f64),
                Cell::optional(comparison.ratio.map(|ratio| ratio.value)).notable_if(differs),
                end(|ratio| ratio.low),
                end(|ratio| ratio.high),
                Cell::optional(student[place]),
                Cell::optional(wilcoxon[place]),
                Cell::optional(*deviation),
            ],
        });
    }
    table.notes.push(
        "A ratio is marked where its 95% interval (bootstrap of the median of the paired ratios) excludes 1. \
         Probabilities are adjusted for all comparisons of this table by Holm's method."
            .to_owned(),
    );
    if undecided > 0 {
        table.notes.push(format!(
            "{undecided} comparisons have fewer than {} pairs: no interval, no verdict.",
            lockwork_stats::MIN_PAIRS
        ));
    }
    table
}

fn cost(cells: &Cells<'_>) -> Table {
    let mut table = begin("cost", "What runs cost: means of the runs with a figure".to_owned(), &LABELS);
    type Figure = fn(&Record) -> Option<f64>;
    let columns: [(&str, Figure); 9] = [
        ("CPUs busy", |run| Some((run.usage.user + run.usage.system) / run.seconds.max(1e-9))),
        ("memory, MiB", |run| Some(run.usage.max_rss as f64 / 1024.0)),
        ("waits a second", |run| Some(run.usage.voluntary as f64 / run.seconds.max(1e-9))),
        ("preemptions a second", |run| Some(run.usage.involuntary as f64 / run.seconds.max(1e-9))),
        ("page faults", |run| Some((run.usage.minor_faults + run.usage.major_faults) as f64)),
        ("package, W", |run| Some(run.energy? / run.energy_seconds?)),
        ("memory, W", |run| Some(run.energy_dram? / run.energy_seconds?)),
        ("Jain", |run| run.jain),
        ("others' CPUs", |run| Some(run.surroundings.competing? / run.seconds.max(1e-9))),
    ];
    table.columns = columns.iter().map(|(name, _)| Column::new(*name, Unit::Number)).collect();
    for (place, locks) in cells {
        for (lock, runs) in locks {
            let good: Vec<&&Record> = runs.iter().filter(|run| run.outcome == Outcome::Ok).collect();
            if good.is_empty() {
                continue;
            }
            let cells = columns.iter().map(|(_, of)| {
                let values: Vec<f64> = good.iter().filter_map(|run| of(run)).collect();
                Cell::optional(mean(&values))
            });
            table.rows.push(Row { labels: labels(place, lock), cells: cells.collect() });
        }
    }
    table
        .notes
        .push("An empty field was not measured: this machine or this program does not tell.".to_owned());
    table
}
