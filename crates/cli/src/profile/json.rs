//! The profile as JSON.

use lockwork_profile_reader::{Durations, Lock};
use serde_json::{Value, json};

use super::view::{Row, View};

fn durations(durations: &Durations) -> Value {
    json!({
        "total": durations.total_ns,
        "p50": durations.quantile(0.5),
        "p99": durations.quantile(0.99),
        "max": if durations.max_ns == 0 { durations.quantile(1.0) } else { durations.max_ns },
    })
}

/// Waits, and their parts, whose quantiles are known to a factor of two.
fn wait(lock: &Lock) -> Value {
    let mut wait = durations(&lock.wait);
    for (name, part) in [("spinning", &lock.spinning), ("queued", &lock.queued), ("parked", &lock.parked)] {
        wait[name] = json!({
            "total": part.total_ns,
            "count": part.count(),
            "p50": part.quantile(0.5),
            "p99": part.quantile(0.99),
        });
    }
    wait
}

/// A stack: functions, the innermost first.
pub(crate) fn stack(view: &View, number: u32) -> Value {
    let frames = view.stack(number);
    let text = |frame: &super::symbols::Frame| match &frame.line {
        Some(line) => format!("{} ({line})", frame.function),
        None => frame.function.clone(),
    };
    frames.iter().map(text).collect::<Vec<String>>().into()
}

fn lock(view: &View, row: &Row) -> Value {
    let lock = &row.sum;
    let blame: Vec<Value> = view
        .edges(row)
        .iter()
        .map(|edge| {
            json!({
                "waiter": stack(view, edge.waiter),
                "holder": stack(view, edge.acquired),
                "release": stack(view, edge.released),
                "ns": edge.ns,
                "count": edge.count,
            })
        })
        .collect();
    json!({
        "name": row.name,
        "site": row.site,
        "rule": row.rule,
        "kind": row.kind(),
        "served_by": lock.served_by,
        "locks": row.members.len(),
        "acquisitions": row.acquisitions(),
        "acquisitions_error": row.acquisitions_error().round(),
        "contended": lock.contended,
        "wait_ns": wait(lock),
        "hold_ns": durations(&lock.hold),
        "hold_error_ns": row.hold_error_ns().round(),
        "think_ns": durations(&lock.think),
        "waiters": { "mean": view.mean_waiters(row), "max": lock.waiting_max },
        "owner_switches": lock.owner_switches,
        "node_crossings": lock.node_crossings,
        "read_share": row.read_share(),
        "read_wait_ns": lock.wait_reads_ns,
        "tries_failed": lock.tries_failed,
        "timed_out": lock.timed_out,
        "unfinished": lock.unfinished,
        "blame": blame,
    })
}

/// The whole profile.
pub(crate) fn document(view: &View) -> Value {
    let profile = &view.profile;
    let conditions: Vec<Value> = view
        .conditions
        .iter()
        .map(|row| {
            json!({
                "name": row.name,
                "site": row.site,
                "waits": row.sum.contended,
                "wait_ns": durations(&row.sum.wait),
                "waiters": { "mean": view.mean_waiters(row), "max": row.sum.waiting_max },
            })
        })
        .collect();
    let dropped = &profile.dropped;
    json!({
        "program": profile.name,
        "pid": profile.pid,
        "wall_ns": profile.wall_ns,
        "threads": profile.threads,
        "threads_ns": profile.threads_ns,
        "cpu_ns": profile.cpu_ns,
        "section_share": view.of_threads(view.sections_ns()),
        "section_share_error": view.of_threads(view.sections_error_ns()),
        "wait_share": view.of_threads(view.waits_ns()),
        "busy_wait_share": view.of_busy(view.waits_ns()),
        "locks": view.locks.iter().map(|row| lock(view, row)).collect::<Vec<Value>>(),
        "conditions": conditions,
        "dropped": {
            "acquisitions": dropped.acquisitions,
            "stacks": dropped.stacks,
            "blame_ns": dropped.blame_ns,
            "threads": dropped.threads,
            "held": dropped.held,
            "locks": dropped.locks,
            "events": dropped.events,
        },
        "sampling": {
            "wait_period_ns": profile.wait_period_ns,
            "max_acquisition_period": profile.max_period,
            "sampled_waits": profile.sampled_waits,
        },
    })
}
