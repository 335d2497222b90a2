//! What a comparison was of: everything about it that is neither a run nor made from runs. This is the file `meta.json`,
//! from which, with `runs.csv`, all other files can be made again.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::plan::{Plan, at_library};
use super::runs::Measured;
use crate::host::Host;

/// The layout of the files.
pub(crate) const SCHEMA: u32 = 2;

/// A metric, as the files describe it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct MetricInfo {
    pub(crate) name: String,
    /// Printed after values; may be empty.
    pub(crate) unit: String,
    pub(crate) higher_is_better: bool,
}

/// A build of the library that was compared with others.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct LibraryInfo {
    /// What follows the `@` in the names of the locks that it served.
    pub(crate) label: String,
    pub(crate) path: String,
}

/// What was compared, where, when and how often.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Meta {
    /// Of this layout.
    pub(crate) schema: u32,
    /// The version of the command.
    pub(crate) lockwork: String,
    /// The version of what was measured, as `--commit` gives it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) commit: Option<String>,
    /// When it began; UTC, RFC 3339.
    pub(crate) date: String,
    pub(crate) host: Host,
    /// The machine that the figures are of, where it is a simulated one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) simulated: Option<String>,
    /// Of its one table, where that has all metrics: a benchmark of ours, or a simulation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) title: Option<String>,
    /// As given, before {threads} is replaced.
    pub(crate) command: Vec<String>,
    /// The command for locks, as given, where the other one is of delegates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) original: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) library: Option<String>,
    /// The builds that were compared; empty unless there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) libraries: Vec<LibraryInfo>,
    pub(crate) seed: u64,
    /// Measured rounds: the most runs that a cell can have.
    pub(crate) rounds: u32,
    pub(crate) warmup_rounds: u32,
    pub(crate) timeout_s: f64,
    pub(crate) interrupted: bool,
    /// Ended after the first round, in which no run gave all metrics.
    pub(crate) hopeless: bool,
    /// What the others are compared with; a label where builds of the library are compared.
    pub(crate) baseline: String,
    pub(crate) locks: Vec<String>,
    /// Those of the locks that are delegates.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) delegates: Vec<String>,
    pub(crate) threads: Vec<Option<u32>>,
    pub(crate) metrics: Vec<MetricInfo>,
}

impl Meta {
    /// Of a plan that was carried out.
    pub(crate) fn new(plan: &Plan, measured: &Measured, date: String) -> Self {
        let metrics = plan
            .metrics
            .iter()
            .map(|metric| MetricInfo {
                name: metric.name.clone(),
                unit: metric.unit.to_owned(),
                higher_is_better: metric.higher_is_better,
            })
            .collect();
        let compared = plan.libraries.len() > 1;
        let libraries = plan
            .libraries
            .iter()
            .filter(|_| compared)
            .map(|(label, library)| LibraryInfo { label: label.clone(), path: from_here(library.path()) });
        let single = plan.libraries.first().filter(|_| !compared);
        Meta {
            schema: SCHEMA,
            lockwork: env!("CARGO_PKG_VERSION").to_owned(),
            commit: plan.commit.clone(),
            date,
            host: Host::read(),
            simulated: plan.simulated.clone(),
            title: plan.title.clone(),
            command: plan.command.clone(),
            original: plan.original().map(<[String]>::to_vec),
            library: single.map(|(_, library)| from_here(library.path())),
            baseline: match plan.libraries.first() {
                Some((label, _)) if compared => label.clone(),
                _ => plan.locks[plan.baseline].name.clone(),
            },
            libraries: libraries.collect(),
            seed: plan.seed,
            rounds: plan.runs,
            warmup_rounds: plan.warmup,
            timeout_s: plan.timeout.as_secs_f64(),
            interrupted: measured.interrupted,
            hopeless: measured.hopeless,
            locks: plan.locks.iter().map(|lock| lock.name.clone()).collect(),
            delegates: plan.delegates.clone(),
            threads: plan.threads.clone(),
            metrics,
        }
    }

    /// What a lock (an index into `locks`) is compared with: the same lock of the first library where libraries are
    /// compared, else the one baseline.
    pub(crate) fn baseline_of(&self, lock: usize) -> usize {
        let place = |name: &str| self.locks.iter().position(|other| other == name);
        if self.libraries.is_empty() {
            return place(&self.baseline).unwrap_or_default();
        }
        match self.locks[lock].rsplit_once('@') {
            Some((name, _)) => place(&at_library(name, &self.baseline)).unwrap_or(lock),
            None => lock,
        }
    }

    /// The lock that charts draw as the baseline, if it is one for all.
    pub(crate) fn common_baseline(&self) -> Option<usize> {
        self.libraries.is_empty().then(|| self.baseline_of(0))
    }
}

/// A path as it is called from the current directory, so that what is committed does not depend on where that lies.
fn from_here(path: &Path) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    path.strip_prefix(&here).unwrap_or(path).display().to_string()
}
