//! Locks compared two by two: Figure 4.1 and Table 4.12.

use lockwork_stats::Tolerance;

use super::{begin, begin_figure, locks_of, note_runs};
use crate::table::{Cell, Column, Row, Table, Unit};
use crate::view::{Level, View, share};

/// How two values compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    Better,
    Alike,
    Worse,
}

impl Order {
    /// By the thesis's margin of 5%.
    pub(crate) fn of(value: f64, other: f64) -> Self {
        if Tolerance::FIVE_PERCENT.exceeds(value, other) {
            Order::Better
        } else if Tolerance::FIVE_PERCENT.exceeds(other, value) {
            Order::Worse
        } else {
            Order::Alike
        }
    }

    /// The same, but that better is a gain of more than 5% over the other: 1.05 times its value, where [`Order::of`] asks for 1.053
    /// times.
    fn by_gain(value: f64, other: f64) -> Self {
        if Tolerance::FIVE_PERCENT.exceeds(other, value) {
            Order::Worse
        } else if Tolerance::FIVE_PERCENT.gains(value, other) {
            Order::Better
        } else {
            Order::Alike
        }
    }
}

/// Whether the order of a lock against another is not the same in all of `values`, (own, other's), whichever way a margin of 5% is
/// read. A lock that is better by 5% in one reading and not in the other has the order of either of its neighbours.
fn changes_order(values: &[(f64, f64)]) -> bool {
    let differs = |order: fn(f64, f64) -> Order| {
        let mut orders = values.iter().map(|&(value, other)| order(value, other));
        let first = orders.next();
        orders.any(|order| Some(order) != first)
    };
    differs(Order::of) && differs(Order::by_gain)
}

/// The pairs of `items`, each once.
pub(crate) fn pairs_of<T: Copy>(items: &[T]) -> impl Iterator<Item = (T, T)> {
    items
        .iter()
        .enumerate()
        .flat_map(|(place, &one)| items[place + 1..].iter().map(move |&other| (one, other)))
}

/// Figure 4.1: of each pair of locks, the share of the lock-sensitive applications for which the row's is better than the
/// column's.
pub(crate) fn scores(view: &View<'_>, level: Level) -> Table {
    let title = format!(
        "Share of the lock-sensitive applications for which the lock of the row is better than the lock of the column, by {} at {} ({})",
        view.metric.name(),
        level.name(),
        view.study.machine
    );
    let mut table = begin_figure("4.1", title, &["lock"]);
    let applications = view.sensitive();
    let locks = locks_of(view, &applications);
    let values: Vec<Vec<Option<f64>>> =
        applications.iter().map(|&application| view.row(application, level)).collect();
    table.columns = locks.iter().map(|&lock| Column::new(&view.study.locks[lock], Unit::Percent)).collect();
    for &row in &locks {
        let cells = locks.iter().map(|&column| {
            if row == column {
                return Cell::Missing;
            }
            let both = values.iter().filter_map(|values| values[row].zip(values[column]));
            Cell::optional(share(both, |(value, other)| Order::of(value, other) == Order::Better))
        });
        table.rows.push(Row { labels: vec![view.study.locks[row].clone()], cells: cells.collect() });
    }
    table.notes.push("Better: the other lock's value is below 95% of its own. Applications measured with both locks count.".to_owned());
    note_runs(&mut table, view);
    table
}

/// Table 4.12: for each lock-sensitive application, the share of the comparisons of two locks that change with the nodes. The
/// steps are from one power of two to the next.
pub(crate) fn changes(view: &View<'_>) -> Table {
    let title = format!(
        "Share of the pairs of locks whose order by {} changes with the nodes ({})",
        view.metric.name(),
        view.study.machine
    );
    let mut table = begin("4.12", title, &["application"]);
    let powers: Vec<u32> = view.all_nodes().into_iter().filter(|nodes| nodes.is_power_of_two()).collect();
    let mut steps: Vec<Vec<u32>> = powers.windows(2).map(<[u32]>::to_vec).collect();
    if powers.len() > 2 {
        steps.push(powers);
    }
    let name = |step: &[u32]| step.iter().map(u32::to_string).collect::<Vec<_>>().join("/");
    table.columns = steps.iter().map(|step| Column::new(name(step), Unit::Percent)).collect();
    for application in view.sensitive() {
        let cells = steps.iter().map(|step| Cell::optional(changing(view, application, step))).collect();
        table.rows.push(Row { labels: vec![view.study.applications[application].clone()], cells });
    }
    table.notes.push(
        "Each lock is compared with each other one: better, alike (within 5%) or worse. A change counts if both readings of 5% \
         show it: the other's value below 95% of its own, and its own above 105% of the other's. The last column counts \
         comparisons that change at any step. An application that did not run on all the nodes of a column has no cell there."
            .to_owned(),
    );
    note_runs(&mut table, view);
    table
}

/// The share of the comparisons of a lock with another, both measured on all of `nodes`, whose order is not the same on all of
/// them.
pub(crate) fn changing(view: &View<'_>, application: usize, nodes: &[u32]) -> Option<f64> {
    // By lock: its values on the nodes.
    let values: Vec<Vec<f64>> = (0..view.study.locks.len())
        .filter_map(|lock| nodes.iter().map(|&nodes| view.value(application, nodes, lock)).collect())
        .collect();
    let places: Vec<usize> = (0..values.len()).collect();
    let both = |(one, other): (usize, usize)| [(one, other), (other, one)];
    share(pairs_of(&places).flat_map(both), |(one, other)| {
        let pairs: Vec<(f64, f64)> = values[one].iter().copied().zip(values[other].iter().copied()).collect();
        changes_order(&pairs)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_changes_only_where_both_readings_of_the_margin_say_so() {
        for (values, changes) in [
            (&[(1.0, 1.0), (1.06, 1.0)][..], true),
            (&[(1.0, 1.0), (1.051, 1.0)], false),
            (&[(1.051, 1.0), (1.06, 1.0)], false),
            (&[(1.06, 1.0), (1.049, 1.0)], true),
            (&[(0.951, 1.0), (0.949, 1.0)], true),
            (&[(0.94, 1.0), (1.051, 1.0)], true),
            (&[(1.0, 1.0), (1.051, 1.0), (1.06, 1.0)], true),
            (&[(1.0, 2.0)], false),
        ] {
            assert_eq!(changes_order(values), changes, "{values:?}");
        }
    }
}
