//! `lockwork sim --explain`: where the cycles of one hand-off go.

use std::process::ExitCode;

use comfy_table::CellAlignment;
use lockwork_sim::workload::Frame;
use lockwork_sim::{Machine, Step};

use super::args::SweepArgs;
use super::sweep::Sweep;
use crate::error::Failure;
use crate::terminal;

/// Simulates until the warm-up is over, and shows the next hand-off of every lock.
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
    let involved = [first.thread, steps.last().map_or(first.thread, |last| last.thread)];
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
