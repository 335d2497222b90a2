//! `lockwork sim --explain`: where the cycles of one hand-off go, or of one request to a delegate and its answer, and the time of
//! the locks.

use std::process::ExitCode;

use comfy_table::CellAlignment;
use lockwork_sim::workload::{Frame, LockTime};
use lockwork_sim::{Machine, Step};

use super::args::SweepArgs;
use super::sweep::Sweep;
use crate::error::Failure;
use crate::terminal;

/// Shows the first hand-off of every lock after the warm-up, or the first request that another thread runs, and where the time of
/// the locks goes.
pub(super) fn main(args: &SweepArgs) -> Result<ExitCode, Failure> {
    let sweep = Sweep::new(args)?;
    for (machine, threads) in sweep.machines.iter().zip(&sweep.threads) {
        // One thread hands nothing on.
        let threads = threads.iter().copied().filter(|threads| *threads > 1).min().unwrap_or(2);
        for lock in &sweep.locks {
            let frame = Frame { explain: true, ..sweep.frame(machine, threads) };
            let result = sweep.workload.on(threads).run(&frame, machine, lock, sweep.options);
            let title = format!("{lock}, {threads} threads on {}, simulated", machine.name);
            terminal::print(&render(&title, machine, &result.steps))?;
            if let Some(time) = result.lock_time {
                terminal::print(&render_time(&time, result.sections))?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn render(title: &str, machine: &Machine, steps: &[Step]) -> String {
    let Some(first) = steps.first() else {
        return format!("\n{title}: no hand-off within the simulated time");
    };
    let mut table = terminal::table();
    table.set_header(["cycle", "thread", "CPU", "node", "what"]);
    // Those of a hand-off, whose release may end after it; of a request, its thread and the one that runs the section.
    let mut involved = vec![first.thread, steps.last().map_or(first.thread, |last| last.thread)];
    let of_another = |step: &&Step| step.what.starts_with("begins to run") || step.what == "has the lock";
    involved.extend(steps.iter().find(of_another).map(|step| step.thread));
    for step in steps.iter().filter(|step| involved.contains(&step.thread)) {
        table.add_row([
            format!("+{}", step.time - first.time),
            step.thread.to_string(),
            step.cpu.to_string(),
            machine.node_of(machine.core_of(step.cpu)).to_string(),
            step.what.clone(),
        ]);
    }
    for index in 0..4 {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let others = steps.iter().filter(|step| !involved.contains(&step.thread)).count();
    format!("\n{title}\n{}\n{others} steps of other threads in between are left out", table.trim_fmt())
}

/// Where the time of the locks goes.
fn render_time(time: &LockTime, sections: u64) -> String {
    let parts = [
        ("held by a thread that has a CPU", time.held),
        ("held by a thread that has none", time.held_off),
        ("released, and acquired by a thread while that has a CPU", time.awake),
        ("the same, while that waits for a CPU", time.queued),
        ("the same, while that sleeps", time.asleep),
        ("free, and nobody asks for it", time.idle),
    ];
    let all = parts.iter().map(|(_, cycles)| cycles).sum::<u64>().max(1) as f64;
    let mut table = terminal::table();
    table.set_header(["where the time of the lock goes", "share", "cycles a section"]);
    for (what, cycles) in parts {
        let share = format!("{:.1}%", 100.0 * cycles as f64 / all);
        table.add_row([what.to_owned(), share, format!("{:.0}", cycles as f64 / sections.max(1) as f64)]);
    }
    for index in 1..3 {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let [own, awake, queued, asleep] = time.acquisitions;
    format!(
        "{}\nacquired {own} times by the thread that had released it, {awake} by one that had a CPU, {queued} by one that \
         waited for a CPU, {asleep} by one that slept when the release began",
        table.trim_fmt()
    )
}
