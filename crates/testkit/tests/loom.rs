//! Every lock under loom: one test for each lock and scenario. `BOUNDS.md` lists how far each is explored.

use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Trial};
use lockwork_testkit::engines::loom::LoomPlatform;
use lockwork_testkit::mutation::run;
use lockwork_testkit::scenarios::{self, Subject};
use lockwork_testkit::watchdog::watchdog;

/// Far more than any scenario needs.
const LIMIT: Duration = Duration::from_secs(300);

const GCR_AROUND: [&str; 3] = ["gcr(tas)", "gcr(futex)", "gcr(mcs-stp)"];

fn trials(subject: Subject) -> impl Iterator<Item = Trial> {
    subject.scenarios.into_iter().map(move |scenario| {
        let name = format!("{}::{}", subject.name, scenario.name);
        Trial::test(name.clone(), move || {
            let start = Instant::now();
            let executions = watchdog(LIMIT, || name.clone(), || run(&scenario));
            if std::env::var_os("LOCKWORK_BOUNDS").is_some() {
                eprintln!("{name}: {executions} executions, {:?}", start.elapsed());
            }
            Ok(())
        })
    })
}

fn main() {
    let arguments = Arguments::from_args();
    let mut subjects = scenarios::base_locks::<LoomPlatform>(false);
    subjects.extend(scenarios::conditions::<LoomPlatform>(false));
    let restricted = scenarios::restricted_locks::<LoomPlatform>(false);
    // GCR is the same around every lock: one that spins, one that sleeps, one that queues.
    subjects.extend(restricted.into_iter().filter(|subject| GCR_AROUND.contains(&&*subject.name)));
    let trials = subjects.into_iter().flat_map(trials).collect();
    libtest_mimic::run(&arguments, trials).exit();
}
