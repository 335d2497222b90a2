//! The table on the terminal, and a sentence for each lock that hurts.

use std::fmt::Write as _;

use comfy_table::CellAlignment;

use lockwork_profile_reader::Lock;

use super::view::{Row, View, share};
use crate::terminal;

/// A lock hurts if threads waited for it for more than this part of the time that they were busy.
pub(crate) const HURTS: f64 = 0.01;
/// Rows of the table.
const MOST: usize = 20;

/// A duration with three digits and a unit.
pub(crate) fn duration(ns: f64) -> String {
    let (value, unit) = match ns {
        ns if ns < 1e3 => (ns, "ns"),
        ns if ns < 1e6 => (ns / 1e3, "µs"),
        ns if ns < 1e9 => (ns / 1e6, "ms"),
        ns => (ns / 1e9, "s"),
    };
    if value >= 99.95 || (unit == "ns" && value >= 9.95) {
        format!("{value:.0} {unit}")
    } else {
        format!("{value:.1} {unit}")
    }
}

/// A part of a whole.
pub(crate) fn percent(share: f64) -> String {
    match share * 100.0 {
        0.0 => "0".to_owned(),
        percent if percent < 0.1 => "<0.1%".to_owned(),
        percent => format!("{percent:.1}%"),
    }
}

/// A count, short.
pub(crate) fn count(number: u64) -> String {
    match number {
        0..10_000 => number.to_string(),
        10_000..10_000_000 => format!("{:.0}k", number as f64 / 1e3),
        _ => format!("{:.0}M", number as f64 / 1e6),
    }
}

/// A name that fits.
fn short(name: &str, most: usize) -> String {
    if name.chars().count() <= most {
        name.to_owned()
    } else {
        format!("{}…", name.chars().take(most - 1).collect::<String>())
    }
}

/// The whole text.
pub(crate) fn render(view: &View) -> String {
    let mut text = overview(view);
    if view.locks.is_empty() {
        return text;
    }
    sentences(view, &mut text);
    text.push_str(&dropped(view));
    text
}

/// The heading and the table.
pub(crate) fn overview(view: &View) -> String {
    let mut text = heading(view);
    if view.locks.is_empty() {
        text.push_str("It used no locks that could be seen.\n");
        return text;
    }
    let mut table = terminal::table();
    let header = [
        "lock",
        "kind",
        "acquired",
        "contended",
        "waited",
        "wait p50",
        "p99",
        "held p50",
        "p99",
        "waiters",
        "read",
    ];
    table.set_header(header);
    for (index, column) in table.column_iter_mut().enumerate() {
        if index > 1 {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    for row in view.locks.iter().take(MOST) {
        table.add_row(cells(view, row));
    }
    let _ = writeln!(text, "{table}");
    if view.locks.len() > MOST {
        let _ = writeln!(text, "and {} more (--format json has all)", view.locks.len() - MOST);
    }
    text
}

fn sentences(view: &View, text: &mut String) {
    text.push_str("`waited` is the part of the time that threads were busy: on a CPU, or waiting for locks. A lock that hurts is one with more than 1%.\n");
    let hurting: Vec<&Row> = hurting(view).collect();
    if hurting.is_empty() {
        text.push_str("\nNo lock hurts.\n");
    }
    for row in hurting {
        let _ = writeln!(text, "\n{}", sentence(view, row));
    }
    for activity in view.profile.now.iter().filter(|activity| activity.waits_for.is_some()).take(MOST) {
        if let Some(wait) = activity.waits_for.filter(|wait| wait.mode != lockwork_profile_reader::Mode::Cond)
        {
            let name =
                view.row_of(wait.lock).map_or_else(|| format!("{:#x}", wait.address), |row| row.name.clone());
            let _ = writeln!(
                text,
                "\nThread {} still waits for {name}, in {}, since {}.",
                activity.thread,
                view.function(wait.stack),
                duration(wait.ns as f64)
            );
        }
    }
}

/// Locks that threads waited for, for more than a part of their time.
pub(crate) fn hurting(view: &View) -> impl Iterator<Item = &Row> {
    view.locks.iter().filter(|row| view.of_busy(row.sum.wait.total_ns) > HURTS)
}

fn heading(view: &View) -> String {
    let profile = &view.profile;
    format!(
        "{}[{}]: {} threads, {} of wall time, {} of threads' time: {} waiting for locks, {} ± {} holding them\n",
        profile.name,
        profile.pid,
        profile.threads,
        duration(profile.wall_ns as f64),
        duration(profile.threads_ns as f64),
        percent(view.of_threads(view.waits_ns())),
        percent(view.of_threads(view.sections_ns())),
        percent(view.of_threads(view.sections_error_ns())),
    )
}

fn cells(view: &View, row: &Row) -> Vec<String> {
    let lock = &row.sum;
    let name = match row.members.len() {
        1 => short(&row.name, 44),
        many => format!("{} ×{many}", short(&row.name, 38)),
    };
    let quantile = |durations: &lockwork_profile_reader::Durations, part: f64| match durations.count() {
        0 => "-".to_owned(),
        _ => duration(durations.quantile(part) as f64),
    };
    vec![
        name,
        row.kind().to_owned(),
        count(row.acquisitions()),
        percent(row.contended_share()),
        percent(view.of_busy(lock.wait.total_ns)),
        quantile(&lock.wait, 0.5),
        quantile(&lock.wait, 0.99),
        quantile(&lock.hold, 0.5),
        quantile(&lock.hold, 0.99),
        format!("{:.1}/{}", view.mean_waiters(row), lock.waiting_max),
        if row.kind() == "rwlock" { percent(row.read_share()) } else { "-".to_owned() },
    ]
}

/// What a waiter did, where that is not the same throughout.
fn parts(lock: &Lock) -> String {
    let parts = [
        (&lock.parked, "asleep"),
        (&lock.queued, "awake behind others"),
        (&lock.spinning, "awake as the next"),
    ];
    let said: Vec<String> = parts
        .into_iter()
        .map(|(part, how)| (share(part.total_ns, lock.wait.total_ns), how))
        .filter(|(part, _)| *part >= 0.005)
        .map(|(part, how)| format!("{} {how}", percent(part)))
        .collect();
    if said.len() < 2 { String::new() } else { format!(" ({})", said.join(", ")) }
}

/// The graph of waiters and holders, in a sentence.
pub(crate) fn sentence(view: &View, row: &Row) -> String {
    let lock = &row.sum;
    let mut text = format!(
        "{} ({}): threads waited for it for {} of their busy time, {} in all{}; {} of {} acquisitions had to wait, {} on average.",
        row.name,
        row.site,
        percent(view.of_busy(lock.wait.total_ns)),
        duration(lock.wait.total_ns as f64),
        parts(lock),
        percent(row.contended_share()),
        count(row.acquisitions()),
        duration(lock.wait.mean_ns()),
    );
    let edges = view.edges(row);
    if let Some(edge) = edges.first() {
        let waited: u64 = edges.iter().map(|edge| edge.ns).sum();
        let holder = match (edge.acquired, edge.released) {
            (0, 0) => "a holder that was not seen".to_owned(),
            (0, released) => format!("what {} released", view.function(released)),
            (acquired, _) => format!("{}, which held it", view.function(acquired)),
        };
        let _ = write!(
            text,
            " {} of that was {} waiting for {holder}.",
            percent(share(edge.ns, waited)),
            view.function(edge.waiter)
        );
    }
    text
}

fn dropped(view: &View) -> String {
    let dropped = &view.profile.dropped;
    let mut text = String::new();
    for (number, what) in [
        (dropped.acquisitions, "acquisitions of locks that found no room"),
        (dropped.stacks, "stacks"),
        (dropped.blame_ns, "ns of blame"),
        (dropped.threads, "threads"),
        (dropped.held, "acquisitions by threads that held too many locks"),
    ] {
        if number != 0 {
            let _ =
                write!(text, "{}{number} {what}", if text.is_empty() { "\nNot recorded: " } else { ", " });
        }
    }
    if !text.is_empty() {
        text.push_str(".\n");
    }
    text
}
