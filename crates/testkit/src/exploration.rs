//! Scenarios explored by loom, and what is said of it.

use std::env;
use std::fs::OpenOptions;
use std::io::Write as _;
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

/// Appends how far a scenario was explored to the file that `LOCKWORK_BOUNDS` names, if it is set. `scripts/bounds.sh` makes
/// tables of these lines.
///
/// # Panics
///
/// If the file cannot be written.
pub fn report(name: &str, scenario: &Scenario, executions: u64, time: Duration) {
    if let Some(path) = env::var_os("LOCKWORK_BOUNDS") {
        let Scenario { threads, preemptions, config, .. } = scenario;
        let nodes = config.nodes;
        // One write at the end of the file, which is whole there whatever other tests write. What a test prints is not: the
        // harness prints its own lines in pieces.
        let line = format!(
            "bound: {name}: {threads} threads, {nodes} nodes, {preemptions} switches, {executions} executions, {time:?}\n"
        );
        OpenOptions::new()
            .create(true)
            .append(true)
            .open(&path)
            .and_then(|mut file| file.write_all(line.as_bytes()))
            .unwrap_or_else(|error| panic!("LOCKWORK_BOUNDS: {}: {error}", path.display()));
    }
}
