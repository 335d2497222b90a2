//! Every lock, GCR around each of them, and the condition variable under shuttle: one test for each subject and
//! scenario. A failing schedule is printed, to be replayed; `LOCKWORK_SEED` chooses other schedules,
//! `LOCKWORK_SCHEDULES` how many.

use std::time::Duration;

use libtest_mimic::{Arguments, Trial};
use lockwork_testkit::engines::shuttle::{Schedules, explore};
use lockwork_testkit::scenarios::{self, Scenario, Subject};
use lockwork_testkit::watchdog::watchdog;

/// Far more than any scenario needs.
const LIMIT: Duration = Duration::from_secs(600);

/// Schedules of each kind.
fn schedules() -> usize {
    std::env::var("LOCKWORK_SCHEDULES").ok().and_then(|text| text.parse().ok()).unwrap_or(150)
}

fn run(scenario: &Scenario) {
    let n = schedules();
    for kind in [Schedules::Random(n), Schedules::Pct(n / 4)] {
        let play = scenario.play.clone();
        explore(kind, scenario.config, scenario.resident, move || play());
    }
}

fn trials(subject: Subject) -> impl Iterator<Item = Trial> {
    subject.scenarios.into_iter().map(move |scenario| {
        let name = format!("{}::{}", subject.name, scenario.name);
        Trial::test(name.clone(), move || {
            watchdog(LIMIT, || name.clone(), || run(&scenario));
            Ok(())
        })
    })
}

fn main() {
    let arguments = Arguments::from_args();
    let subjects = scenarios::for_shuttle();
    libtest_mimic::run(&arguments, subjects.into_iter().flat_map(trials).collect()).exit();
}
