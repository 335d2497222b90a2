//! Tail latency beside execution time: Figure 4.5.

use super::{begin_figure, note_runs};
use crate::data::Study;
use crate::table::{Cell, Column, Row, Table, Unit};
use crate::view::{Level, Metric, View};

/// Figure 4.5: for each lock-sensitive application with latencies, the 99th percentile and the execution time of every lock over
/// those of `baseline`, each lock at its opt nodes for throughput.
pub(crate) fn tail(study: &Study, level: Level, baseline: &str) -> Table {
    let (throughput, latency) = (View::new(study, Metric::Throughput), View::new(study, Metric::TailLatency));
    let title = format!(
        "99th percentile of the response time and execution time over those of {baseline} at {} ({})",
        level.name(),
        study.machine
    );
    let mut table = begin_figure("4.5", title, &["application", "lock"]);
    table.columns =
        vec![Column::new("99th percentile", Unit::Number), Column::new("execution time", Unit::Number)];
    let Some(baseline) = study.locks.iter().position(|lock| lock == baseline) else {
        table.notes.push(format!("{}: nothing was measured with {baseline}.", study.machine));
        return table;
    };
    // The latency at the nodes that the level means for throughput.
    let latency_at = |application, lock| {
        let nodes = match level {
            Level::One => *throughput.all_nodes().first()?,
            Level::Max => throughput.nodes(application).next_back()?,
            Level::Opt => throughput.optimum(application, lock)?.0,
        };
        latency.value(application, nodes, lock)
    };
    for application in throughput.sensitive() {
        let Some(base) = latency_at(application, baseline).zip(throughput.at(application, level, baseline))
        else {
            continue;
        };
        let mut rows: Vec<(f64, f64, usize)> = (0..study.locks.len())
            .filter_map(|lock| {
                let (tail, speed) =
                    (latency_at(application, lock)?, throughput.at(application, level, lock)?);
                Some((base.0 / tail, base.1 / speed, lock))
            })
            .collect();
        rows.sort_by(|a, b| a.0.total_cmp(&b.0));
        table.rows.extend(rows.into_iter().map(|(tail, time, lock)| Row {
            labels: vec![study.applications[application].clone(), study.locks[lock].clone()],
            cells: vec![Cell::number(tail), Cell::number(time)],
        }));
    }
    table.notes.push("Lower is better. Locks are in the order of their tail latency.".to_owned());
    note_runs(&mut table, &throughput);
    table
}
