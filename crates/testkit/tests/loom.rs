//! Every lock under loom: one test for each lock and scenario. `BOUNDS.md` lists how far each is explored.
//!
//! `LOCKWORK_DEEPER=n` allows n more involuntary switches (minutes for 1); `LOCKWORK_BOUNDS=1` prints how
//! many executions there were.

use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Trial};
use lockwork_testkit::mutation::run_deeper;
use lockwork_testkit::scenarios::{self, Subject};
use lockwork_testkit::watchdog::watchdog;

/// Far more than any scenario needs within its own bounds.
const LIMIT: Duration = Duration::from_secs(300);

/// What wrappers are explored around: a lock that spins, one that sleeps, one that queues.
const AROUND: [&str; 3] = ["(tas)", "(futex)", "(mcs-stp)"];

fn deeper() -> usize {
    std::env::var("LOCKWORK_DEEPER").ok().and_then(|text| text.parse().ok()).unwrap_or(0)
}

fn trials(subject: Subject) -> impl Iterator<Item = Trial> {
    subject.scenarios.into_iter().map(move |scenario| {
        let name = format!("{}::{}", subject.name, scenario.name);
        Trial::test(name.clone(), move || {
            let start = Instant::now();
            let executions = watchdog(
                LIMIT * (1 + 20 * deeper() as u32),
                || name.clone(),
                || run_deeper(&scenario, deeper()),
            );
            if std::env::var_os("LOCKWORK_BOUNDS").is_some() {
                eprintln!(
                    "{name}: {} threads, {} switches, {executions} executions, {:?}",
                    scenario.threads,
                    scenario.preemptions + deeper(),
                    start.elapsed()
                );
            }
            Ok(())
        })
    })
}

fn main() {
    let arguments = Arguments::from_args();
    // A wrapper is the same around every lock.
    let is_wrapped = |name: &str| name.starts_with("gcr(") || name.starts_with("biased(");
    let is_wanted = |subject: &Subject| {
        !is_wrapped(&subject.name) || AROUND.iter().any(|inner| subject.name.ends_with(inner))
    };
    let subjects = scenarios::for_loom().into_iter().filter(is_wanted);
    let trials = subjects.flat_map(trials).collect();
    libtest_mimic::run(&arguments, trials).exit();
}
