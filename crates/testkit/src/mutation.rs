//! Mutation tests of orderings: every `Acquire` and `Release` of a source is weakened on its own, and
//! some scenario must fail.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;
use std::sync::atomic::Ordering;

use crate::engines::loom::{Bounds, explore};
use crate::model::sites::{Site, record, weakened};
use crate::scenarios::{Scenario, Subject};

/// Explores a scenario within its bounds; returns the number of executions.
///
/// # Panics
///
/// If an execution fails.
pub fn run(scenario: &Scenario) -> u64 {
    run_deeper(scenario, 0)
}

/// As [`run`], with `more` involuntary switches than the scenario asks for.
///
/// # Panics
///
/// If an execution fails.
pub fn run_deeper(scenario: &Scenario, more: usize) -> u64 {
    let play = scenario.play.clone();
    let bounds = Bounds::preemptions(scenario.preemptions + more);
    explore(bounds, scenario.config, scenario.resident, move || play())
}

/// What became of a mutant.
#[derive(Clone, Debug)]
pub enum Verdict {
    /// A scenario failed, with this message.
    Caught {
        /// Subject and scenario.
        by: String,
        /// First line of the panic.
        message: String,
    },
    /// No scenario failed.
    Survived,
}

/// One weakened ordering.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mutant {
    /// Where.
    pub site: Site,
    /// Index into [`Site::weaker`].
    choice: usize,
}

impl Mutant {
    /// What the site uses instead.
    #[must_use]
    pub fn weaker(&self) -> Ordering {
        self.site.weaker()[self.choice]
    }
}

impl fmt::Debug for Mutant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} -> {:?}", self.site, self.weaker())
    }
}

/// All mutants of source files whose path contains `file`, each with the subjects and scenarios that pass its site.
#[must_use]
pub fn mutants<'a>(
    subjects: &'a [Subject],
    file: &str,
) -> BTreeMap<Mutant, Vec<(&'a Subject, &'a Scenario)>> {
    let mut found: BTreeMap<Mutant, Vec<_>> = BTreeMap::new();
    for subject in subjects {
        for scenario in &subject.scenarios {
            let sites = record(|| _ = run(scenario));
            for site in sites.into_iter().filter(|site| site.file.contains(file)) {
                for choice in 0..site.weaker().len() {
                    found.entry(Mutant { site, choice }).or_default().push((subject, scenario));
                }
            }
        }
    }
    found
}

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Runs `f`; the message if it panics. Prints nothing.
pub fn failure(f: impl FnOnce()) -> Option<String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let loud = take_hook();
        set_hook(Box::new(move |info| {
            if !QUIET.get() {
                loud(info);
            }
        }));
    });
    QUIET.set(true);
    let result = catch_unwind(AssertUnwindSafe(f));
    QUIET.set(false);
    let cause = result.err()?;
    let text = cause.downcast_ref::<String>().cloned();
    Some(text.or_else(|| cause.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default())
}

/// Tries to catch a mutant. A run that only exceeds loom's bounds does not count.
pub fn judge(mutant: Mutant, witnesses: &[(&Subject, &Scenario)]) -> Verdict {
    for (subject, scenario) in witnesses {
        let outcome = failure(|| weakened(mutant.site, mutant.weaker(), || _ = run(scenario)));
        if let Some(message) = outcome.filter(|message| !message.contains("maximum number of branches")) {
            let message = message.trim().lines().next().unwrap_or_default().to_owned();
            return Verdict::Caught { by: format!("{} {}", subject.name, scenario.name), message };
        }
    }
    Verdict::Survived
}
