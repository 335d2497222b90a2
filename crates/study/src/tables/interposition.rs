//! Whether interposed locks behave as those that an application calls itself: Tables 3.1 to 3.3 and Figure 3.2. Everything is at
//! max nodes, as in the thesis.

use lockwork_stats::{mean, relative_deviation, t_test};

use super::pairs::{Order, pairs_of};
use super::{begin, begin_figure, note_runs};
use crate::data::{Key, Run, Study, Variant};
use crate::table::{Cell, Column, Row, Table, Unit};
use crate::view::{Level, Metric, View, gain, share};

/// The two variants of a machine's applications.
struct Variants<'a> {
    linked: View<'a>,
    interposed: View<'a>,
}

impl<'a> Variants<'a> {
    fn of(study: &'a Study) -> Self {
        let view = |variant| View::of_variant(study, Metric::Throughput, variant);
        Variants { linked: view(Variant::Linked), interposed: view(Variant::Interposed) }
    }

    fn study(&self) -> &'a Study {
        self.linked.study
    }

    /// The most nodes that both variants of an application ran on.
    fn nodes(&self, application: usize) -> Option<u32> {
        let interposed: Vec<u32> = self.interposed.nodes(application).collect();
        self.linked.nodes(application).rev().find(|nodes| interposed.contains(nodes))
    }

    /// The applications with both variants.
    fn applications(&self) -> Vec<usize> {
        (0..self.study().applications.len())
            .filter(|&application| self.nodes(application).is_some())
            .collect()
    }

    /// Linked and interposed value of each lock that has both, with the lock's place.
    fn values(&self, application: usize) -> Vec<(usize, f64, f64)> {
        let Some(nodes) = self.nodes(application) else { return Vec::new() };
        (0..self.study().locks.len())
            .filter_map(|lock| {
                let linked = self.linked.value(application, nodes, lock)?;
                Some((lock, linked, self.interposed.value(application, nodes, lock)?))
            })
            .collect()
    }

    /// Interposed less linked throughput, run by run: runs of one lock with the same `rep`, or in the order of the file.
    fn differences(&self, application: usize) -> Vec<f64> {
        let Some(nodes) = self.nodes(application) else { return Vec::new() };
        let runs = |variant, lock| -> &[Run] {
            let key = Key { application, variant, nodes, lock };
            self.study().runs.get(&key).map_or(&[], Vec::as_slice)
        };
        let mut differences = Vec::new();
        for lock in 0..self.study().locks.len() {
            let (linked, interposed) = (runs(Variant::Linked, lock), runs(Variant::Interposed, lock));
            for (place, run) in interposed.iter().enumerate() {
                let partner = match run.rep {
                    Some(rep) => linked.iter().find(|other| other.rep == Some(rep)),
                    None => linked.get(place),
                };
                differences.extend(partner.map(|partner| run.throughput - partner.throughput));
            }
        }
        differences
    }
}

/// Table 3.1: how close linked and interposed locks are.
pub(crate) fn closeness(study: &Study) -> Table {
    let variants = Variants::of(study);
    let title = format!("Linked against interposed locks at {} ({})", Level::Max.name(), study.machine);
    let mut table = begin("3.1", title, &["better", "statistic"]);
    let applications = variants.applications();
    table.columns =
        applications.iter().map(|&place| Column::new(&study.applications[place], Unit::Percent)).collect();
    // The gains of one variant over the other where it is better.
    let gains = |application: usize, interposed_better: bool| -> Vec<f64> {
        let values = variants.values(application).into_iter();
        let gains = values.map(|(_, linked, interposed)| match interposed_better {
            true => gain(interposed, linked),
            false => gain(linked, interposed),
        });
        gains.filter(|gain| *gain > 0.0).collect()
    };
    for (name, interposed_better) in [("linked", false), ("interposed", true)] {
        let all: Vec<Vec<f64>> = applications.iter().map(|&place| gains(place, interposed_better)).collect();
        let mut row = |statistic: &str, of: &dyn Fn(usize, &[f64]) -> Option<f64>| {
            let cells = applications.iter().zip(&all).map(|(&place, gains)| Cell::optional(of(place, gains)));
            table
                .rows
                .push(Row { labels: vec![name.to_owned(), statistic.to_owned()], cells: cells.collect() });
        };
        row("share of the locks", &|place, gains| {
            Some(gains.len() as f64 / variants.values(place).len().max(1) as f64)
        });
        row("average gain", &|_, gains| mean(gains));
        row("relative standard deviation", &|_, gains| {
            let ratios: Vec<f64> = gains.iter().map(|gain| 1.0 + gain).collect();
            relative_deviation(&ratios)
        });
    }
    note_runs(&mut table, &variants.interposed);
    table
}

/// Table 3.2: the share of the pairs of locks that compare the same, linked and interposed.
pub(crate) fn hierarchy(study: &Study) -> Table {
    let variants = Variants::of(study);
    let title = format!(
        "Share of the pairs of locks that are in the same order linked and interposed, at {} ({})",
        Level::Max.name(),
        study.machine
    );
    let mut table = begin("3.2", title, &["application"]);
    table.columns = vec![Column::new("same order", Unit::Percent)];
    for application in variants.applications() {
        let values = variants.values(application);
        let same =
            share(pairs_of(&values), |(one, other)| Order::of(one.1, other.1) == Order::of(one.2, other.2));
        table.rows.push(Row {
            labels: vec![study.applications[application].clone()],
            cells: vec![Cell::optional(same)],
        });
    }
    table.notes.push("The order is better, alike (within 5%) or worse.".to_owned());
    note_runs(&mut table, &variants.interposed);
    table
}

/// Table 3.3: whether interposition costs the same under every lock, by Student's paired t-test.
pub(crate) fn student(study: &Study) -> Table {
    let variants = Variants::of(study);
    let title = format!(
        "Paired t-tests of interposed less linked throughput at {} ({})",
        Level::Max.name(),
        study.machine
    );
    let mut table = begin("3.3", title, &["application"]);
    table.columns = vec![
        Column::new("C_n", Unit::Percent),
        Column::new("p-value", Unit::Number),
        Column::new("p-value of no difference", Unit::Number),
    ];
    for application in variants.applications() {
        let values = variants.values(application);
        let by_lock: Vec<f64> = values.iter().map(|(_, linked, interposed)| interposed - linked).collect();
        let best = values.iter().map(|(_, linked, interposed)| linked.max(*interposed)).reduce(f64::max);
        let constant = mean(&by_lock);
        let differences = variants.differences(application);
        let p = |location: f64| t_test(&differences, location).map(|test| test.p);
        let cells = vec![
            Cell::optional(constant.zip(best).map(|(constant, best)| constant / best)),
            Cell::optional(constant.and_then(p)),
            Cell::optional(p(0.0)),
        ];
        table.rows.push(Row { labels: vec![study.applications[application].clone()], cells });
    }
    table.notes.push(
        "C is the mean over the locks of the difference of their means, C_n the same over the best lock's throughput. The test is \
         whether the differences of the runs, paired by lock and repetition, have the mean C; where every lock has as many runs \
         they have it by construction, and only the last column says anything."
            .to_owned(),
    );
    note_runs(&mut table, &variants.interposed);
    table
}

/// Figure 3.2: throughput of each lock, linked and interposed, over the best of the application.
pub(crate) fn side_by_side(study: &Study) -> Table {
    let variants = Variants::of(study);
    let title = format!(
        "Throughput of linked and interposed locks over the best of the application, at {} ({})",
        Level::Max.name(),
        study.machine
    );
    let mut table = begin_figure("3.2", title, &["application", "lock"]);
    table.columns = vec![Column::new("linked", Unit::Number), Column::new("interposed", Unit::Number)];
    for application in variants.applications() {
        let values = variants.values(application);
        let best = values.iter().map(|(_, linked, interposed)| linked.max(*interposed)).fold(0.0, f64::max);
        table.rows.extend(values.into_iter().map(|(lock, linked, interposed)| Row {
            labels: vec![study.applications[application].clone(), study.locks[lock].clone()],
            cells: vec![Cell::number(linked / best), Cell::number(interposed / best)],
        }));
    }
    note_runs(&mut table, &variants.interposed);
    table
}
