//! Which locks are among the best, and which do harm: Tables 4.8 to 4.11.

use lockwork_stats::{mean, standard_deviation};

use super::{begin, locks_of, note_runs};
use crate::table::{Cell, Column, Row, Table, Unit};
use crate::view::{HARMFUL, Level, View, best, gain};

/// The coverage of every lock at a level.
fn coverages(view: &View<'_>, level: Level) -> Vec<f64> {
    let applications = view.sensitive();
    (0..view.study.locks.len()).filter_map(|lock| view.coverage(&applications, level, lock)).collect()
}

/// Table 4.8: statistics on the coverage of locks, by machine.
pub(crate) fn coverage_statistics(views: &[View<'_>]) -> Table {
    let title = format!("Coverage of locks on lock-sensitive applications, by {}", views[0].metric.name());
    let mut table = begin("4.8", title, &["nodes", "coverage"]);
    table.columns = views.iter().map(|view| Column::new(&view.study.machine, Unit::Percent)).collect();
    type Statistic = fn(&[f64]) -> Option<f64>;
    let statistics: [(&str, Statistic); 4] = [
        ("min", |shares| shares.iter().copied().reduce(f64::min)),
        ("max", |shares| shares.iter().copied().reduce(f64::max)),
        ("average", mean),
        ("standard deviation", standard_deviation),
    ];
    for level in Level::ALL {
        let coverages: Vec<Vec<f64>> = views.iter().map(|view| coverages(view, level)).collect();
        for (name, statistic) in statistics {
            let cells = coverages.iter().map(|shares| Cell::optional(statistic(shares))).collect();
            table.rows.push(Row { labels: vec![level.name().to_owned(), name.to_owned()], cells });
        }
    }
    table.notes.push(
        "The coverage of a lock is the share of the lock-sensitive applications measured with it for which the best lock is not \
         better than it by more than 5%. The deviation is in points, as in the thesis, which calls it relative."
            .to_owned(),
    );
    for view in views {
        note_runs(&mut table, view);
    }
    table
}

/// Table 4.9: the coverage of each lock.
pub(crate) fn coverage(view: &View<'_>) -> Table {
    let title = format!(
        "Share of the lock-sensitive applications for which a lock is the best or within 5% of it, by {} ({})",
        view.metric.name(),
        view.study.machine
    );
    let mut table = begin("4.9", title, &["lock"]);
    table.columns = Level::ALL.iter().map(|level| Column::new(level.name(), Unit::Percent)).collect();
    let applications = view.sensitive();
    for lock in locks_of(view, &applications) {
        let cells = Level::ALL.map(|level| Cell::optional(view.coverage(&applications, level, lock)));
        table.rows.push(Row { labels: vec![view.study.locks[lock].clone()], cells: cells.to_vec() });
    }
    note_runs(&mut table, view);
    table
}

/// Table 4.10: the share of the lock-sensitive applications that each lock harms, by machine.
pub(crate) fn harm(views: &[View<'_>]) -> Table {
    let title = format!(
        "Share of the lock-sensitive applications for which a lock is harmful: the best lock's gain in {} over it is more than 15%",
        views[0].metric.name()
    );
    let mut table = begin("4.10", title, &["lock"]);
    let mut names: Vec<&String> = views.iter().flat_map(|view| &view.study.locks).collect();
    names.sort_unstable();
    names.dedup();
    let sensitive: Vec<Vec<usize>> = views.iter().map(View::sensitive).collect();
    for view in views {
        for level in [Level::Max, Level::Opt] {
            table.columns.push(Column::new(level.name(), Unit::Percent).in_group(&view.study.machine));
        }
    }
    for name in names {
        let cells = views.iter().zip(&sensitive).flat_map(|(view, applications)| {
            let lock = view.study.locks.iter().position(|lock| lock == name);
            [Level::Max, Level::Opt]
                .map(|level| Cell::optional(lock.and_then(|lock| view.harm(applications, level, lock))))
        });
        let cells: Vec<Cell> = cells.collect();
        if cells.iter().any(|cell| cell.value().is_some()) {
            table.rows.push(Row { labels: vec![name.clone()], cells });
        }
    }
    for view in views {
        note_runs(&mut table, view);
    }
    table
}

/// Table 4.11: for each lock-sensitive application the gain of the best lock over each of the others.
pub(crate) fn gains_of_best(view: &View<'_>, level: Level) -> Table {
    let title = format!(
        "Gain in {} of the best lock over each of the others at {} ({})",
        view.metric.name(),
        level.name(),
        view.study.machine
    );
    let mut table = begin("4.11", title, &["application"]);
    let applications = view.sensitive();
    let locks = locks_of(view, &applications);
    table.columns =
        locks.iter().map(|&lock| Column::new(&view.study.locks[lock], Unit::PercentCut)).collect();
    for application in applications {
        let values = view.row(application, level);
        let best = best(&values);
        let cells = locks.iter().map(|&lock| {
            let lost = values[lock].zip(best).map(|(value, best)| gain(best, value));
            Cell::optional(lost).notable_if(lost.is_some_and(|lost| lost > HARMFUL))
        });
        table
            .rows
            .push(Row { labels: vec![view.study.applications[application].clone()], cells: cells.collect() });
    }
    table.notes.push("Notable: the lock is harmful, the gain over it is more than 15%. Percentages are cut, not rounded, as in the thesis.".to_owned());
    note_runs(&mut table, view);
    table
}
