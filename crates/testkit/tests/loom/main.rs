//! Every lock under loom: one test for each lock and scenario. `BOUNDS.md` lists how far each is explored. Then every ordering,
//! weakened: [`mutants`].
//!
//! Scenarios that mutants are shown to are explored in full, once for both, but the [largest](LARGEST). Most others, of locks that only wait in another way, run with
//! fewer involuntary switches than they have if they have three threads or several nodes; `LOCKWORK_DEEPER=n` runs all with theirs and
//! n more (many minutes for 1); `LOCKWORK_BOUNDS=FILE` notes there how many executions there were.

mod mutants;

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Trial};
use lockwork_testkit::exploration::{report, run};
use lockwork_testkit::largest::{LARGEST, are_there, shallower};
use lockwork_testkit::mutation::Witness;
use lockwork_testkit::scenarios::{self, Scenario};
use lockwork_testkit::watchdog::watchdog;

/// Far more than any scenario needs within its own bounds.
const LIMIT: Duration = Duration::from_secs(600);

/// All scenarios.
static WITNESSES: LazyLock<Vec<Witness>> = LazyLock::new(|| {
    let as_deep = |subject| shallower(subject, LARGEST);
    scenarios::for_loom().into_iter().map(as_deep).flat_map(Witness::all_of).collect()
});

fn deeper() -> Option<usize> {
    std::env::var("LOCKWORK_DEEPER").ok().and_then(|text| text.parse().ok())
}

/// A scenario that no mutant is shown to, as deep as it is to be explored.
fn bounded(scenario: Scenario) -> Scenario {
    // On a machine with nodes there are many more steps to switch between.
    let most = match (scenario.threads > 2, scenario.config.nodes > 1) {
        (true, true) => 0,
        (true, false) | (false, true) => 1,
        (false, false) => scenario.preemptions,
    };
    let preemptions = match deeper() {
        Some(more) => scenario.preemptions + more,
        None => scenario.preemptions.min(most),
    };
    scenario.within(preemptions)
}

/// Explores a scenario; returns it as it was explored, and the number of executions.
fn explored(witness: &Witness) -> (Scenario, u64) {
    if deeper().is_none() && mutants::are_shown_to(witness) {
        return (witness.scenario().clone(), witness.explore());
    }
    let scenario = bounded(witness.scenario().clone());
    let executions = run(&scenario);
    (scenario, executions)
}

fn trial(witness: &'static Witness) -> Trial {
    let name = format!("{}::{}", witness.subject(), witness.scenario().name);
    Trial::test(name.clone(), move || {
        let start = Instant::now();
        let limit = LIMIT * (1 + 20 * deeper().unwrap_or(0) as u32);
        let (scenario, executions) = watchdog(limit, || name.clone(), || explored(witness));
        report(&name, &scenario, executions, start.elapsed());
        Ok(())
    })
}

fn main() {
    let arguments = Arguments::from_args();
    // Delegates are the last and take longest: all CPUs have work until the end. Mutants need what the others have explored.
    let mut trials: Vec<Trial> = WITNESSES.iter().rev().map(trial).collect();
    trials.extend(mutants::trials());
    trials.push(Trial::test("the largest are there", || Ok(are_there(LARGEST, &scenarios::for_loom())?)));
    libtest_mimic::run(&arguments, trials).exit();
}
