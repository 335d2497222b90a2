//! What stands above a campaign's tables: what it is, where and when it ran, and what its applications are about.

use std::collections::{BTreeMap, BTreeSet};

use crate::campaign::Campaign;
use crate::error::Error;
use crate::store::{Outcome, Record, Store};

/// The cover of a campaign's report.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cover {
    /// The campaign's name.
    pub name: String,
    /// What it says of itself.
    pub description: String,
    /// Host, kernel, date and so on: what, and its value.
    pub facts: Vec<(&'static str, String)>,
    /// The applications that ran, and what each has taught.
    pub applications: Vec<(String, String)>,
}

impl Cover {
    /// The cover for `runs`, which are those in `store`.
    ///
    /// # Errors
    ///
    /// If the database cannot be read.
    pub fn of(store: &Store, runs: &[Record]) -> Result<Self, Error> {
        let value = |key: &str| Ok::<_, Error>(store.value(key)?.unwrap_or_default());
        let campaign = Campaign::parse(&value("toml")?).ok();
        let ran: BTreeSet<&str> = runs.iter().map(|run| run.key.application.as_str()).collect();
        let applications = campaign.iter().flat_map(|campaign| &campaign.applications);
        Ok(Cover {
            name: value("name")?,
            description: value("description")?,
            facts: facts(runs),
            applications: applications
                .filter(|application| {
                    ran.contains(application.name.as_str()) && !application.taught.is_empty()
                })
                .map(|application| (application.name.clone(), application.taught.clone()))
                .collect(),
        })
    }
}

fn facts(runs: &[Record]) -> Vec<(&'static str, String)> {
    let setting = |key: &'static str| {
        move |run: &Record| run.surroundings.settings.get(key).cloned().unwrap_or_default()
    };
    let dates: BTreeSet<&str> = runs.iter().filter_map(|run| run.started.get(..10)).collect();
    let dates = match (dates.first(), dates.last()) {
        (Some(first), Some(last)) if first != last => format!("{first} to {last}"),
        (first, _) => first.copied().unwrap_or_default().to_owned(),
    };
    let rounds: BTreeSet<u32> = runs.iter().map(|run| run.key.round).collect();
    let runs_and_rounds = format!("{} in {} rounds", runs.len(), rounds.len());
    let all = [
        ("Simulated machine", all_of(runs, |run| run.machine.clone().unwrap_or_default())),
        ("Host", all_of(runs, |run| run.surroundings.host.clone())),
        ("Processor", all_of(runs, setting("processor"))),
        ("CPUs", all_of(runs, setting("cpus"))),
        ("Kernel", all_of(runs, |run| run.surroundings.kernel.clone())),
        ("Commit", all_of(runs, |run| run.surroundings.commit.clone())),
        ("Date", dates),
        ("Runs", runs_and_rounds),
        ("Served", served(runs)),
    ];
    all.into_iter().filter(|(_, value)| !value.is_empty()).collect()
}

/// Which kinds of locks the library served, and of which applications: a figure is of all that was served.
fn served(runs: &[Record]) -> String {
    let mut of_application: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for run in runs.iter().filter(|run| run.key.lock != "pthread" && run.outcome == Outcome::Ok) {
        let said = run.served.as_deref().unwrap_or_default();
        let kinds = ["mutexes", "rwlocks"].into_iter().filter(|kind| said.contains(&format!("{kind} by ")));
        of_application.entry(&run.key.application).or_default().extend(kinds);
    }
    let mut kinds: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for (application, served) in of_application.into_iter().filter(|(_, served)| !served.is_empty()) {
        let served: Vec<_> = served.into_iter().collect();
        kinds.entry(served.join(" and ")).or_default().insert(application);
    }
    let text = |(kinds, applications): (String, BTreeSet<&str>)| {
        format!("{kinds} of {}", applications.into_iter().collect::<Vec<_>>().join(", "))
    };
    kinds.into_iter().map(text).collect::<Vec<_>>().join("; ")
}

/// All values that runs have, each once.
fn all_of(runs: &[Record], of: impl Fn(&Record) -> String) -> String {
    let values: BTreeSet<String> = runs.iter().map(of).filter(|value| !value.is_empty()).collect();
    values.into_iter().collect::<Vec<_>>().join(", ")
}
