//! How much locks and nodes matter: Tables 4.4 to 4.7.

use std::collections::BTreeMap;

use super::{begin, locks_of, note_runs};
use crate::table::{Cell, Column, Row, Table, Unit};
use crate::view::{Level, SENSITIVE, View, best, gain, worst};

/// Table 4.4: for each application the gain of the best over the worst lock, and the relative standard deviation of the locks.
pub(crate) fn best_over_worst(view: &View<'_>) -> Table {
    let title = format!(
        "Gain in {} of the best over the worst lock, and relative standard deviation of the locks ({})",
        view.metric.name(),
        view.study.machine
    );
    let mut table = begin("4.4", title, &["application"]);
    for level in Level::ALL {
        table.columns.push(Column::new("gain", Unit::Percent).in_group(level.name()));
        table.columns.push(Column::new("deviation", Unit::Percent).in_group(level.name()));
    }
    for application in view.tested() {
        let mut cells = Vec::new();
        for level in Level::ALL {
            let values = view.row(application, level);
            let several = values.iter().flatten().count() > 1;
            let spread = best(&values).zip(worst(&values)).filter(|_| several);
            let deviation = view.deviation(application, level);
            let notable = level == Level::Max && deviation.is_some_and(|deviation| deviation > SENSITIVE);
            cells.push(Cell::optional(spread.map(|(best, worst)| gain(best, worst))));
            cells.push(Cell::optional(deviation).notable_if(notable));
        }
        table.rows.push(Row { labels: vec![view.study.applications[application].clone()], cells });
    }
    table.notes.push(
        "Notable: a deviation over 10% at max nodes, which makes an application lock-sensitive.".to_owned(),
    );
    note_runs(&mut table, view);
    table
}

/// Table 4.5: how many applications are lock-sensitive, by machine.
pub(crate) fn sensitive(views: &[View<'_>]) -> Table {
    let title = format!("Tested and lock-sensitive applications, by {}", views[0].metric.name());
    let mut table = begin("4.5", title, &["machine"]);
    table.columns = vec![
        Column::new("tested applications", Unit::Count),
        Column::new("lock-sensitive applications", Unit::Count),
        Column::new("ratio", Unit::Percent),
    ];
    for view in views {
        let (tested, sensitive) = (view.tested().len() as f64, view.sensitive().len() as f64);
        let ratio = (tested > 0.0).then(|| sensitive / tested);
        let cells = vec![Cell::number(tested), Cell::number(sensitive), Cell::optional(ratio)];
        table.rows.push(Row { labels: vec![view.study.machine.clone()], cells });
        note_runs(&mut table, view);
    }
    table
}

/// Table 4.6: for each lock-sensitive application and lock the gain of opt nodes over max nodes.
pub(crate) fn optimum_over_max(view: &View<'_>) -> Table {
    let title = format!(
        "Gain in {} of opt nodes over max nodes, and the nodes of opt nodes ({})",
        view.metric.name(),
        view.study.machine
    );
    let mut table = begin("4.6", title, &["application"]);
    let applications = view.sensitive();
    let locks = locks_of(view, &applications);
    table.columns = locks
        .iter()
        .map(|&lock| Column::new(&view.study.locks[lock], Unit::Percent).with_marks("nodes"))
        .collect();
    for application in applications {
        let cells = locks.iter().map(|&lock| {
            let (Some((nodes, value)), Some(max)) =
                (view.optimum(application, lock), view.at(application, Level::Max, lock))
            else {
                return Cell::Missing;
            };
            Cell::Number { value: gain(value, max), mark: Some(nodes.to_string()), notable: false }
        });
        table
            .rows
            .push(Row { labels: vec![view.study.applications[application].clone()], cells: cells.collect() });
    }
    note_runs(&mut table, view);
    table
}

/// Table 4.7: the shares of the pairs of lock-sensitive application and lock by their opt nodes.
pub(crate) fn breakdown(views: &[View<'_>]) -> Table {
    let title = format!(
        "Pairs of lock-sensitive application and lock by the nodes of their best {}",
        views[0].metric.name()
    );
    let mut table = begin("4.7", title, &["nodes"]);
    let counts: Vec<BTreeMap<u32, u32>> = views.iter().map(optima).collect();
    let mut nodes: Vec<u32> = views.iter().flat_map(View::all_nodes).collect();
    nodes.sort_unstable();
    nodes.dedup();
    table.columns = views.iter().map(|view| Column::new(&view.study.machine, Unit::Percent)).collect();
    for node in nodes {
        let cells = views.iter().zip(&counts).map(|(view, counts)| {
            let all: u32 = counts.values().sum();
            if all == 0 || !view.all_nodes().contains(&node) {
                return Cell::Missing;
            }
            Cell::number(f64::from(counts.get(&node).copied().unwrap_or(0)) / f64::from(all))
        });
        table.rows.push(Row { labels: vec![node.to_string()], cells: cells.collect() });
    }
    table.notes.push("Of equally good counts of nodes the lowest counts.".to_owned());
    for view in views {
        note_runs(&mut table, view);
    }
    table
}

/// How many pairs of lock-sensitive application and lock have their optimum at a count of nodes.
fn optima(view: &View<'_>) -> BTreeMap<u32, u32> {
    let mut counts = BTreeMap::new();
    for application in view.sensitive() {
        for lock in 0..view.study.locks.len() {
            if let Some((nodes, _)) = view.optimum(application, lock) {
                *counts.entry(nodes).or_insert(0) += 1;
            }
        }
    }
    counts
}
