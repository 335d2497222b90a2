//! Energy beside throughput: Tables 4.13 to 4.15 and Figures 4.2 to 4.4.

use lockwork_stats::{Tolerance, correlation};

use super::{begin, begin_figure, note_runs};
use crate::data::Study;
use crate::table::{Cell, Column, Row, Table, Unit};
use crate::view::{Level, Metric, View, best, gain};

/// A gain is higher or lower than another from this difference, in points (Table 4.13).
const MARGIN: f64 = 0.05;

/// The two views of a machine.
struct Both<'a> {
    throughput: View<'a>,
    efficiency: View<'a>,
}

impl<'a> Both<'a> {
    fn of(study: &'a Study) -> Self {
        Both {
            throughput: View::new(study, Metric::Throughput),
            efficiency: View::new(study, Metric::Efficiency),
        }
    }

    /// The nodes that max nodes are: of both views the same, though not every count of nodes may have an efficiency.
    fn max_nodes(&self, application: usize) -> Option<u32> {
        self.throughput.nodes(application).next_back()
    }

    /// The throughputs and the efficiencies of all locks at a count of nodes.
    fn rows(&self, application: usize, nodes: u32) -> [Vec<Option<f64>>; 2] {
        let locks = 0..self.throughput.study.locks.len();
        [&self.throughput, &self.efficiency]
            .map(|view| locks.clone().map(|lock| view.value(application, nodes, lock)).collect())
    }

    /// The pairs of lock-sensitive application and lock that have both values at max nodes.
    fn pairs(&self) -> Vec<(usize, usize)> {
        let mut pairs = Vec::new();
        for application in self.throughput.sensitive() {
            let Some(max) = self.max_nodes(application) else { continue };
            for lock in 0..self.throughput.study.locks.len() {
                let both =
                    [&self.throughput, &self.efficiency].map(|view| view.value(application, max, lock));
                if both.iter().all(Option::is_some) {
                    pairs.push((application, lock));
                }
            }
        }
        pairs
    }
}

/// Shares of the pairs of lock-sensitive application and lock, by machine: one row for each of `kinds`.
fn shares(
    id: &str,
    title: &str,
    studies: &[Study],
    kinds: [&'static str; 3],
    kind_of: impl Fn(&Both<'_>, usize, usize) -> Option<usize>,
) -> Table {
    let mut table = begin(id, title.to_owned(), &["pairs of application and lock"]);
    table.columns = studies.iter().map(|study| Column::new(&study.machine, Unit::Percent)).collect();
    let counts: Vec<[u32; 3]> = studies
        .iter()
        .map(|study| {
            let both = Both::of(study);
            let mut counts = [0; 3];
            for (application, lock) in both.pairs() {
                if let Some(kind) = kind_of(&both, application, lock) {
                    counts[kind] += 1;
                }
            }
            note_runs(&mut table, &both.throughput);
            counts
        })
        .collect();
    for (kind, name) in kinds.into_iter().enumerate() {
        let cells = counts.iter().map(|counts| {
            let all: u32 = counts.iter().sum();
            Cell::optional((all > 0).then(|| f64::from(counts[kind]) / f64::from(all)))
        });
        table.rows.push(Row { labels: vec![name.to_owned()], cells: cells.collect() });
    }
    table
}

/// Table 4.13: how the gain of opt nodes over max nodes in energy efficiency differs from that in throughput.
pub(crate) fn gain_differences(studies: &[Study]) -> Table {
    let mut table = shares(
        "4.13",
        "Gain in energy efficiency of opt nodes over max nodes, less the gain in throughput",
        studies,
        ["at least +5%", "at most -5%", "between -5% and +5%"],
        |both, application, lock| {
            let gain_of = |view: &View<'_>| {
                let max = view.value(application, both.max_nodes(application)?, lock)?;
                Some(gain(view.optimum(application, lock)?.1, max))
            };
            let difference = gain_of(&both.efficiency)? - gain_of(&both.throughput)?;
            Some(if difference >= MARGIN {
                0
            } else if difference <= -MARGIN {
                1
            } else {
                2
            })
        },
    );
    table
        .notes
        .push("The difference is in points: a gain of 12% is 5 points more than one of 7%.".to_owned());
    table
}

/// Table 4.14: whether energy efficiency has its opt nodes lower or higher than throughput.
pub(crate) fn optimum_differences(studies: &[Study]) -> Table {
    let mut table = shares(
        "4.14",
        "Opt nodes for energy efficiency, compared with opt nodes for throughput",
        studies,
        ["lower opt nodes", "same opt nodes", "higher opt nodes"],
        |both, application, lock| {
            let (fast, throughput) = both.throughput.optimum(application, lock)?;
            let (thrifty, efficiency) = both.efficiency.optimum(application, lock)?;
            let alike = |view: &View<'_>, nodes, best| {
                view.value(application, nodes, lock)
                    .is_some_and(|value| !Tolerance::FIVE_PERCENT.exceeds(best, value))
            };
            let same = fast == thrifty
                || alike(&both.throughput, thrifty, throughput)
                || alike(&both.efficiency, fast, efficiency);
            Some(match same {
                true => 1,
                false if thrifty < fast => 0,
                false => 2,
            })
        },
    );
    table
        .notes
        .push("The same also where one of the two loses less than 5% at the other's opt nodes.".to_owned());
    table
}

/// Throughput and efficiency of every configuration of an application, each over the best lock's at the same nodes, with the
/// place of the lock.
fn normalised(both: &Both<'_>, application: usize, level: Option<Level>) -> Vec<(usize, f64, f64)> {
    let locks = both.throughput.study.locks.len();
    // By the nodes of the throughput: a count of nodes whose runs lack an energy has no row of efficiencies.
    let rows: Vec<[Vec<Option<f64>>; 2]> = match level {
        None => both.throughput.nodes(application).map(|nodes| both.rows(application, nodes)).collect(),
        Some(Level::Opt) => {
            vec![[&both.throughput, &both.efficiency].map(|view| view.row(application, Level::Opt))]
        }
        Some(level) => {
            let nodes = match level {
                Level::One => both.throughput.all_nodes().first().copied(),
                _ => both.max_nodes(application),
            };
            nodes.map(|nodes| both.rows(application, nodes)).into_iter().collect()
        }
    };
    let mut points = Vec::new();
    for [throughputs, efficiencies] in rows {
        let (Some(fastest), Some(thriftiest)) = (best(&throughputs), best(&efficiencies)) else { continue };
        for lock in 0..locks {
            if let (Some(throughput), Some(efficiency)) = (throughputs[lock], efficiencies[lock]) {
                points.push((lock, throughput / fastest, efficiency / thriftiest));
            }
        }
    }
    points
}

/// Table 4.15: Pearson's correlation of throughput and energy efficiency, by lock-sensitive application.
pub(crate) fn correlations(studies: &[Study]) -> Table {
    let mut table = begin("4.15", "Pearson's correlation of throughput and TPP".to_owned(), &["application"]);
    table.columns = studies.iter().map(|study| Column::new(&study.machine, Unit::Number)).collect();
    let both: Vec<Both<'_>> = studies.iter().map(Both::of).collect();
    let points_of = |both: &Both<'_>, application: usize| -> Vec<(f64, f64)> {
        normalised(both, application, None).into_iter().map(|(_, x, y)| (x, y)).collect()
    };
    let mut names: Vec<&String> = Vec::new();
    for both in &both {
        let study = both.throughput.study;
        names.extend(
            both.throughput.sensitive().into_iter().map(|application| &study.applications[application]),
        );
        note_runs(&mut table, &both.throughput);
    }
    names.sort_unstable();
    names.dedup();
    for name in names {
        let cells = both.iter().map(|both| {
            let sensitive = both.throughput.sensitive();
            let place = both.throughput.study.applications.iter().position(|application| application == name);
            let place = place.filter(|place| sensitive.contains(place));
            Cell::optional(place.and_then(|application| correlation(&points_of(both, application))))
        });
        table.rows.push(Row { labels: vec![name.clone()], cells: cells.collect() });
    }
    let all: Vec<(f64, f64)> = both
        .iter()
        .flat_map(|both| {
            both.throughput.sensitive().into_iter().flat_map(move |place| points_of(both, place))
        })
        .collect();
    if let Some(coefficient) = correlation(&all) {
        table.notes.push(format!(
            "Over all {} configurations of all machines: {coefficient:.2}. Every value is over the best lock's at the same nodes.",
            all.len()
        ));
    }
    table
}

/// Figures 4.2 (all nodes), 4.3 (one node) and 4.4 (max nodes): throughput and energy efficiency of each configuration.
pub(crate) fn scatter(id: &str, study: &Study, level: Option<Level>) -> Table {
    let both = Both::of(study);
    let at = level.map_or("all counts of nodes", Level::name);
    let title = format!(
        "Throughput and energy efficiency (TPP), each over the best lock's, at {at} ({})",
        study.machine
    );
    let mut table = begin_figure(id, title, &["application", "lock"]);
    table.columns = vec![Column::new("throughput", Unit::Number), Column::new("TPP", Unit::Number)];
    for application in both.throughput.sensitive() {
        for (lock, throughput, efficiency) in normalised(&both, application, level) {
            table.rows.push(Row {
                labels: vec![study.applications[application].clone(), study.locks[lock].clone()],
                cells: vec![Cell::number(throughput), Cell::number(efficiency)],
            });
        }
    }
    note_runs(&mut table, &both.throughput);
    table
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::data::Energy;

    /// Two locks on 1, 2 and 4 nodes. Energy is known on 2 and 4 nodes of `gap`, and on 1 and 2 nodes of `end`; where it is, the
    /// efficiency goes with the throughput.
    fn study() -> Study {
        let mut csv = "bench,node,strategy,throughput,energy\n".to_owned();
        for (application, known) in [("gap", [2, 4]), ("end", [1, 2])] {
            for (nodes, throughputs) in [(1, [100.0, 50.0]), (2, [40.0, 90.0]), (4, [60.0, 20.0])] {
                for (lock, throughput) in ["a", "b"].into_iter().zip(throughputs) {
                    let efficiency =
                        if known.contains(&nodes) { (throughput * 2.0).to_string() } else { String::new() };
                    csv += &format!("{application},{nodes},{lock},{throughput},{efficiency}\n");
                }
            }
        }
        Study::from_reader(csv.as_bytes(), Path::new("m.csv"), Energy::Efficiency).unwrap()
    }

    fn labels(table: &Table) -> Vec<String> {
        table.rows.iter().map(|row| row.labels.join(" ")).collect()
    }

    #[test]
    fn figures_of_the_same_nodes_are_paired_where_energy_is_unknown_on_others() {
        let studies = [study()];
        let table = correlations(&studies);
        for row in &table.rows {
            let value = row.cells[0].value().unwrap();
            assert!((value - 1.0).abs() < 1e-9, "{:?}: {value}", row.labels);
        }
        let all = scatter("4.2", &studies[0], None);
        assert_eq!(all.rows.len(), 8, "{:?}", labels(&all));
        for row in &all.rows {
            assert_eq!(row.cells[0].value(), row.cells[1].value(), "{:?}", row.labels);
        }
    }

    #[test]
    fn max_nodes_are_the_same_nodes_for_both() {
        let studies = [study()];
        // On four nodes `end` has no energy, on one node `gap` has none.
        assert_eq!(labels(&scatter("4.4", &studies[0], Some(Level::Max))), ["gap a", "gap b"]);
        assert_eq!(labels(&scatter("4.3", &studies[0], Some(Level::One))), ["end a", "end b"]);
        assert_eq!(Both::of(&studies[0]).pairs(), [(1, 0), (1, 1)]);
        // a: 100 / 60 in throughput and 120 / 120 in efficiency; b: 90 / 20 and 180 / 40.
        let shares: Vec<_> =
            gain_differences(&studies).rows.iter().map(|row| row.cells[0].value().unwrap()).collect();
        assert_eq!(shares, [0.0, 0.5, 0.5]);
    }
}
