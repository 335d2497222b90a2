//! Scenarios explored by loom, and what is said of it.

use std::env;
use std::io::{self, Write as _};
use std::time::Duration;

use crate::engines::loom::{Bounds, explore};
use crate::scenarios::Scenario;

/// Explores a scenario within its bounds; returns the number of executions.
///
/// # Panics
///
/// If an execution fails.
pub fn run(scenario: &Scenario) -> u64 {
    run_within(scenario, Bounds::preemptions(scenario.preemptions))
}

/// As [`run`], within other bounds.
pub(crate) fn run_within(scenario: &Scenario, bounds: Bounds) -> u64 {
    let play = scenario.play.clone();
    explore(bounds, scenario.config, scenario.resident, move || play())
}

/// Says on stderr how far a scenario was explored, if `LOCKWORK_BOUNDS` is set. `scripts/bounds.sh` makes tables of
/// these lines.
pub fn report(name: &str, scenario: &Scenario, executions: u64, time: Duration) {
    if env::var_os("LOCKWORK_BOUNDS").is_some() {
        let Scenario { threads, preemptions, config, .. } = scenario;
        let nodes = config.nodes;
        // A line by itself, in one piece, whatever the harness has just begun to print.
        let line = format!(
            "\nbound: {name}: {threads} threads, {nodes} nodes, {preemptions} switches, {executions} executions, {time:?}\n"
        );
        let _ = io::stderr().write_all(line.as_bytes());
    }
}
