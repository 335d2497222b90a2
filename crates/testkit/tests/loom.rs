//! Every lock under loom: one test for each lock and scenario. `BOUNDS.md` lists how far each is explored.
//!
//! Most models of three threads run with fewer involuntary switches than they have; `LOCKWORK_DEEPER=n` runs all with
//! theirs and n more (many minutes for 1); `LOCKWORK_BOUNDS=1` prints how many executions there were.

use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Trial};
use lockwork_testkit::exploration::{report, run};
use lockwork_testkit::scenarios::{self, Scenario, Subject};
use lockwork_testkit::watchdog::watchdog;

/// Far more than any scenario needs within its own bounds.
const LIMIT: Duration = Duration::from_secs(300);

/// Locks whose releases take abandoned nodes out of the queue before their turn: an owner comes back while they do.
const SKIPPING: [&str; 2] = ["malth-spin", "cna-spin"];

/// Locks whose models of three threads run at full depth each time: one of each kind.
const IN_FULL: [&str; 6] = ["ttas", "clh-stp", "mcs-stp", "k42-spin", "futex", "c-tkt-mcs-stp"];

fn deeper() -> Option<usize> {
    std::env::var("LOCKWORK_DEEPER").ok().and_then(|text| text.parse().ok())
}

/// The scenario as deep as it is to be explored.
fn bounded(scenario: Scenario, subject: &str) -> Scenario {
    let preemptions = match deeper() {
        Some(more) => scenario.preemptions + more,
        // On a machine with nodes there are many more steps to switch between.
        None if SKIPPING.contains(&subject) && scenario.name == "come-back-between" => scenario.preemptions,
        None if scenario.threads > 2 && !IN_FULL.contains(&subject) => {
            scenario.preemptions.min(if scenario.config.nodes > 1 { 0 } else { 1 })
        }
        None => scenario.preemptions,
    };
    scenario.within(preemptions)
}

fn trials(subject: Subject) -> impl Iterator<Item = Trial> {
    let lock = subject.name;
    subject.scenarios.into_iter().map(move |scenario| {
        let scenario = bounded(scenario, &lock);
        let name = format!("{lock}::{}", scenario.name);
        Trial::test(name.clone(), move || {
            let start = Instant::now();
            let executions =
                watchdog(LIMIT * (1 + 20 * deeper().unwrap_or(0) as u32), || name.clone(), || run(&scenario));
            report(&name, &scenario, executions, start.elapsed());
            Ok(())
        })
    })
}

fn main() {
    let arguments = Arguments::from_args();
    let mut trials: Vec<Trial> = scenarios::for_loom().into_iter().flat_map(trials).collect();
    // Delegates are the last and take longest: all CPUs have work until the end.
    trials.reverse();
    libtest_mimic::run(&arguments, trials).exit();
}
