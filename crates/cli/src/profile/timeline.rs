//! Formats that are made of single waits or of figures: a trace for Perfetto, and OpenMetrics.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde_json::{Value, json};

use super::view::View;

/// Chrome's trace format, which Perfetto opens: a slice for each sampled wait, and an arrow from the release that ended it.
pub(crate) fn perfetto(view: &View) -> Value {
    let profile = &view.profile;
    let time = |ns: u64| ns.saturating_sub(profile.started_ns) as f64 / 1e3;
    let process = profile.pid;
    let mut events = vec![
        json!({ "ph": "M", "name": "process_name", "pid": process, "tid": process, "args": { "name": profile.name } }),
    ];
    let threads: BTreeSet<u32> =
        profile.events.iter().flat_map(|event| [event.thread, event.holder]).collect();
    for thread in threads.into_iter().filter(|thread| *thread != 0) {
        let name = format!("thread {thread}");
        events.push(json!({ "ph": "M", "name": "thread_name", "pid": process, "tid": thread, "args": { "name": name } }));
    }
    for (id, event) in profile.events.iter().enumerate() {
        let name = view.row_of(event.lock).map_or_else(|| "unknown".to_owned(), |row| row.name.clone());
        let waiter = view.function(event.stack);
        events.push(json!({
            "ph": "X", "cat": "wait", "name": name, "pid": process, "tid": event.thread,
            "ts": time(event.since), "dur": event.until.saturating_sub(event.since) as f64 / 1e3,
            "args": { "in": waiter, "weight": event.weight, "released_by": event.holder },
        }));
        if event.holder != 0 {
            let at = time(event.released_at);
            // An arrow begins in a slice.
            events.push(json!({
                "ph": "X", "cat": "release", "name": format!("releases {name}"), "pid": process, "tid": event.holder,
                "ts": at, "dur": 0.1,
            }));
            events.push(json!({
                "ph": "s", "cat": "handoff", "name": "hand-off", "id": id, "pid": process, "tid": event.holder, "ts": at,
            }));
            events.push(json!({
                "ph": "f", "bp": "e", "cat": "handoff", "name": "hand-off", "id": id, "pid": process,
                "tid": event.thread, "ts": time(event.until) - 0.001,
            }));
        }
    }
    json!({ "displayTimeUnit": "ns", "traceEvents": events })
}

fn label(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// The text format of OpenMetrics.
pub(crate) fn openmetrics(view: &View) -> String {
    let mut text = String::new();
    let mut family = |name: &str,
                      kind: &str,
                      unit: &str,
                      help: &str,
                      value: &dyn Fn(&super::view::Row) -> f64| {
        let _ = writeln!(text, "# TYPE {name} {kind}");
        if !unit.is_empty() {
            let _ = writeln!(text, "# UNIT {name} {unit}");
        }
        let _ = writeln!(text, "# HELP {name} {help}");
        let suffix = if kind == "counter" { "_total" } else { "" };
        for (number, row) in view.locks.iter().enumerate() {
            let _ = writeln!(
                text,
                "{name}{suffix}{{lock=\"{}\",site=\"{}\",kind=\"{}\",served_by=\"{}\",row=\"{number}\"}} {}",
                label(&row.name),
                label(&row.site),
                row.kind(),
                label(&row.sum.served_by),
                value(row)
            );
        }
    };
    family("lockwork_acquisitions", "counter", "", "Acquisitions, estimated.", &|row| {
        row.acquisitions() as f64
    });
    family("lockwork_contended", "counter", "", "Acquisitions that had to wait.", &|row| {
        row.sum.contended as f64
    });
    let seconds = |ns: u64| ns as f64 / 1e9;
    family("lockwork_wait_seconds", "counter", "seconds", "Time waited.", &|row| {
        seconds(row.sum.wait.total_ns)
    });
    family("lockwork_hold_seconds", "counter", "seconds", "Time held, estimated.", &|row| {
        seconds(row.sum.hold.total_ns)
    });
    family("lockwork_wait_p99_seconds", "gauge", "seconds", "99% of waits are not longer.", &|row| {
        seconds(row.sum.wait.quantile(0.99))
    });
    family("lockwork_waiters", "gauge", "", "Threads that waited, on average.", &|row| {
        view.mean_waiters(row)
    });
    family(
        "lockwork_owner_switches",
        "counter",
        "",
        "Acquisitions by another thread than the last.",
        &|row| row.sum.owner_switches as f64,
    );
    text.push_str("# EOF\n");
    text
}
