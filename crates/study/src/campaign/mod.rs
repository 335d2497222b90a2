//! A campaign as data: a TOML file of applications × locks × levels of contention × placements.
//!
//! ```
//! let campaign = lockwork_study::Campaign::parse(
//!     r#"
//!     name = "example"
//!     locks = ["pthread", "mcs-stp"]
//!     rounds = 5
//!     levels.threads = [1, "cpus", "cpus*2"]
//!
//!     [[application]]
//!     name = "compress"
//!     package = "pigz"
//!     command = ["pigz", "-p", "{threads}", "-kf", "{dir}/input"]
//!     work = 1
//!     "#,
//! )
//! .unwrap();
//! assert_eq!(campaign.applications[0].programs(), ["pigz"]);
//! ```

mod level;
mod metric;
mod plan;

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use toml::de::{DeTable, DeValue};

use crate::digest::digest;

pub use level::{Count, Level as CampaignLevel, Levels};
pub use metric::{MetricPattern, More, Take};
pub use plan::{Cell, Plan, Topology};
pub(crate) use plan::{Past, cell_of};

/// Where threads and memory go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Placement {
    /// Every thread is put on a CPU of its own, nearest CPUs first: those of one node before those of the next.
    Pinned,
    /// The operating system decides. Where the level is a count of nodes, within those nodes.
    Unpinned,
    /// As unpinned, with memory spread over the nodes page by page.
    Interleaved,
}

impl Placement {
    /// As files say it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Placement::Pinned => "pinned",
            Placement::Unpinned => "unpinned",
            Placement::Interleaved => "interleaved",
        }
    }
}

/// A whole campaign.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Campaign {
    /// Of files and reports.
    pub name: String,
    /// What it is to find out.
    #[serde(default)]
    pub description: String,
    /// As `lockwork run --lock` knows them, and `pthread`: no library at all.
    pub locks: Vec<String>,
    /// What the others are compared with.
    #[serde(default = "pthread")]
    pub baseline: String,
    /// Repetitions of every configuration.
    #[serde(default = "five")]
    pub rounds: u32,
    /// At most so many, while the relative standard deviation of one is over `deviation`.
    #[serde(default)]
    pub most_rounds: Option<u32>,
    /// The relative standard deviation that is good enough.
    #[serde(default = "five_percent")]
    pub deviation: f64,
    /// The levels of contention of applications that have none of their own.
    #[serde(default)]
    pub levels: Levels,
    /// Where threads and memory go.
    #[serde(default = "unpinned")]
    pub placements: Vec<Placement>,
    /// After so many seconds a run is killed.
    #[serde(default = "two_minutes")]
    pub timeout: f64,
    /// Seconds that all runs may take together; none begins that would not fit.
    #[serde(default)]
    pub budget: Option<f64>,
    /// Of the order within a round.
    #[serde(default)]
    pub seed: u64,
    /// What `--quick` changes.
    #[serde(default)]
    pub quick: Quick,
    /// What runs.
    #[serde(rename = "application")]
    pub applications: Vec<Application>,
}

/// What `--quick` puts in place of the campaign's values.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Quick {
    locks: Option<Vec<String>>,
    rounds: Option<u32>,
    levels: Option<Levels>,
    placements: Option<Vec<Placement>>,
    timeout: Option<f64>,
    budget: Option<f64>,
    /// Only these.
    applications: Option<Vec<String>>,
}

/// A program, how it is run, and what is measured of it.
///
/// In commands, `{threads}`, `{nodes}`, `{dir}` (a directory of the application's own, on disk), `{lock}`, `{round}`, `{seed}` (round + 1), `{port}`
/// (of the loopback, free when the run began), `{lockwork}` (this command) and `{NAME}` of `values` are replaced.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Application {
    /// Of reports.
    pub name: String,
    /// Debian's, which `apt-get install` takes.
    #[serde(default)]
    pub package: Option<String>,
    /// Which locks matter, thread counts, traps: what a reader must know before believing a figure.
    #[serde(default)]
    pub taught: String,
    /// Once in a campaign.
    #[serde(default)]
    pub setup: Vec<Vec<String>>,
    /// Before each run.
    #[serde(default)]
    pub prepare: Vec<Vec<String>>,
    /// Runs beside the command and gets the lock in its place; ended by SIGTERM when the command has ended.
    #[serde(default)]
    pub server: Vec<String>,
    /// What is measured, under the lock. Its end ends the run.
    pub command: Vec<String>,
    /// SIGTERM after so many seconds, for a program that runs until it is told to end.
    #[serde(default)]
    pub stop_after: Option<f64>,
    /// What is printed in the first seconds does not count, nor does the energy of that time.
    #[serde(default)]
    pub warm_up: f64,
    /// Operations in a run: the throughput is that over the run's wall-clock time, less `warm-up`. Without it the throughput is a metric.
    #[serde(default)]
    pub work: Option<f64>,
    /// By name: `throughput`, in operations a second, and `p50`, `p99`, `p999`, in seconds, have columns of their own; `counts` are
    /// operations by thread, of which fairness is computed.
    #[serde(default)]
    pub metrics: BTreeMap<String, MetricPattern>,
    /// False for a command that takes `{lock}` and gets no library.
    #[serde(default = "yes")]
    pub interposed: bool,
    /// The simulated machine that figures are of; absent for this host.
    #[serde(default)]
    pub machine: Option<String>,
    /// How it comes to its lock: `interposed` or `linked`.
    #[serde(default)]
    pub variant: Option<String>,
    /// The application that a linked variant is of.
    #[serde(default)]
    pub of: Option<String>,
    /// In place of the campaign's.
    #[serde(default)]
    pub locks: Option<Vec<String>>,
    /// In place of the campaign's.
    #[serde(default)]
    pub levels: Option<Levels>,
    /// In place of the campaign's.
    #[serde(default)]
    pub placements: Option<Vec<Placement>>,
    /// In place of the campaign's, in seconds.
    #[serde(default)]
    pub timeout: Option<f64>,
    /// What is replaced in commands, by name.
    #[serde(default)]
    pub values: BTreeMap<String, String>,
    /// The same in quick campaigns.
    #[serde(default)]
    pub quick_values: BTreeMap<String, String>,
    /// Variables of server and command.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// The locks that it cannot take, and why.
    #[serde(default)]
    pub excluded: BTreeMap<String, String>,
}

fn pthread() -> String {
    "pthread".to_owned()
}
fn five() -> u32 {
    5
}
fn five_percent() -> f64 {
    0.05
}
fn two_minutes() -> f64 {
    120.0
}
fn unpinned() -> Vec<Placement> {
    vec![Placement::Unpinned]
}
fn yes() -> bool {
    true
}

/// Seconds that a limit may be: one below would be over before anything has begun, and none is above 115 days.
const LEAST_TIME: f64 = 0.01;
const MOST_TIME: f64 = 1e7;

/// Refuses seconds that are no time.
fn check_seconds(name: &str, value: Option<f64>, least: f64) -> Result<(), String> {
    match value {
        Some(value) if !(least..=MOST_TIME).contains(&value) => {
            Err(format!("{name} is {value}: seconds, from {least} to {MOST_TIME}"))
        }
        _ => Ok(()),
    }
}

impl Quick {
    fn check(&self, applications: &[Application]) -> Result<(), String> {
        let empty = [
            ("locks", self.locks.as_ref().is_some_and(Vec::is_empty)),
            ("placements", self.placements.as_ref().is_some_and(Vec::is_empty)),
            ("applications", self.applications.as_ref().is_some_and(Vec::is_empty)),
        ];
        if let Some((name, _)) = empty.into_iter().find(|(_, empty)| *empty) {
            return Err(format!("{name} is empty: nothing would run"));
        }
        if self.rounds == Some(0) {
            return Err("rounds is at least 1".to_owned());
        }
        let unknown = |name: &&String| !applications.iter().any(|application| application.name == **name);
        if let Some(name) = self.applications.iter().flatten().find(unknown) {
            return Err(format!("there is no application `{name}`"));
        }
        check_seconds("timeout", self.timeout, LEAST_TIME)?;
        check_seconds("budget", self.budget, LEAST_TIME)?;
        self.levels.as_ref().map_or(Ok(()), Levels::check)
    }
}

impl Campaign {
    /// Reads a campaign.
    ///
    /// # Errors
    ///
    /// A sentence that says what is wrong and where.
    pub fn parse(text: &str) -> Result<Self, String> {
        let table = DeTable::parse(text).map_err(|error| error.to_string())?;
        let campaign: Campaign =
            serde_json::from_value(object(table.get_ref())?).map_err(|error| error.to_string())?;
        campaign.check()?;
        Ok(campaign)
    }

    /// The short version of the campaign.
    #[must_use]
    pub fn quick(mut self) -> Self {
        let quick = std::mem::take(&mut self.quick);
        self.name.push_str("-quick");
        self.locks = quick.locks.unwrap_or(self.locks);
        self.rounds = quick.rounds.unwrap_or(self.rounds);
        self.most_rounds = None;
        self.placements = quick.placements.unwrap_or_else(|| self.placements[..1].to_vec());
        self.timeout = quick.timeout.unwrap_or(self.timeout);
        self.budget = quick.budget.or(self.budget);
        if let Some(levels) = quick.levels {
            self.levels = levels;
        }
        if let Some(names) = quick.applications {
            self.applications.retain(|application| names.contains(&application.name));
        }
        for application in &mut self.applications {
            application.timeout =
                application.timeout.map(|timeout| quick.timeout.map_or(timeout, |quick| timeout.min(quick)));
            let values = std::mem::take(&mut application.quick_values);
            application.values.extend(values);
        }
        self
    }

    fn check(&self) -> Result<(), String> {
        let fine = |text: &str| {
            !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.+".contains(c))
        };
        if !fine(&self.name) {
            return Err(format!("`{}` cannot be a file's name: letters, digits, - _ . +", self.name));
        }
        if self.locks.is_empty() || self.applications.is_empty() || self.placements.is_empty() {
            return Err("a campaign has a lock, an application and a placement at least".to_owned());
        }
        if self.rounds == 0 || self.most_rounds.is_some_and(|most| most < self.rounds) {
            return Err("rounds is at least 1, and most-rounds at least that".to_owned());
        }
        check_seconds("timeout", Some(self.timeout), LEAST_TIME)?;
        check_seconds("budget", self.budget, LEAST_TIME)?;
        self.levels.check()?;
        self.quick.check(&self.applications).map_err(|why| format!("quick: {why}"))?;
        for (place, application) in self.applications.iter().enumerate() {
            let of = |why: String| Err(format!("application `{}`: {why}", application.name));
            if !fine(&application.name) {
                return of("its name has other characters than letters, digits, - _ . +".to_owned());
            }
            if self.applications[..place].iter().any(|other| other.name == application.name) {
                return of("there are two of this name".to_owned());
            }
            if application.command.is_empty() {
                return of("it has no command".to_owned());
            }
            if application.work.is_none() && !application.metrics.contains_key("throughput") {
                return of("it needs metrics.throughput, or work, the operations of a run".to_owned());
            }
            if !matches!(application.variant.as_deref(), None | Some("interposed" | "linked")) {
                return of("variant is interposed or linked".to_owned());
            }
            let seconds = [
                ("timeout", application.timeout, LEAST_TIME),
                ("stop-after", application.stop_after, LEAST_TIME),
                ("warm-up", Some(application.warm_up), 0.0),
            ];
            for (name, value, least) in seconds {
                check_seconds(name, value, least).or_else(of)?;
            }
            if let Some(levels) = &application.levels {
                levels.check().or_else(of)?;
            }
            for (name, metric) in &application.metrics {
                metric.check().or_else(|why| of(format!("metric {name}: {why}")))?;
            }
        }
        Ok(())
    }

    /// The application of a name.
    #[must_use]
    pub fn application(&self, name: &str) -> Option<&Application> {
        self.applications.iter().find(|application| application.name == name)
    }

    /// The time after which a run of an application is killed.
    #[must_use]
    pub fn timeout(&self, application: &Application) -> Duration {
        Duration::from_secs_f64(application.timeout.unwrap_or(self.timeout))
    }
}

impl Application {
    /// The programs that must be there: those that commands begin with, less files with a slash and placeholders.
    #[must_use]
    pub fn programs(&self) -> Vec<&str> {
        let commands = self.setup.iter().chain(&self.prepare).chain([&self.server, &self.command]);
        let mut programs: Vec<&str> = commands
            .filter_map(|command| command.first())
            .map(String::as_str)
            .filter(|program| !program.starts_with('{'))
            .collect();
        programs.sort_unstable();
        programs.dedup();
        programs
    }

    /// What makes a run another: commands, metrics, values. Words for readers and the lists of locks and levels do not.
    ///
    /// # Panics
    ///
    /// Never: an application is plain data.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        format!("{:016x}", digest(self.identity().as_bytes()))
    }

    /// Whether a fingerprint is of this application: this version's, or one by the standard library's hash, as older
    /// databases have it. That hash may change with Rust; as long as it does not, what was measured before counts.
    #[must_use]
    pub(crate) fn has_fingerprint(&self, fingerprint: &str) -> bool {
        let before = || {
            let mut hasher = DefaultHasher::new();
            self.identity().hash(&mut hasher);
            format!("{:016x}", hasher.finish())
        };
        fingerprint == self.fingerprint() || fingerprint == before()
    }

    fn identity(&self) -> String {
        let same = Application {
            taught: String::new(),
            package: None,
            locks: None,
            levels: None,
            placements: None,
            timeout: None,
            excluded: BTreeMap::new(),
            quick_values: BTreeMap::new(),
            ..self.clone()
        };
        serde_json::to_string(&same).expect("an application is plain data")
    }
}

/// The same value for serde: the reader of TOML is built without it.
fn json(value: &DeValue<'_>) -> Result<serde_json::Value, String> {
    Ok(match value {
        DeValue::String(text) => text.as_ref().into(),
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
            .map_err(|_| format!("{} is too large a number", number.as_str()))?
            .into(),
        DeValue::Float(number) => number.as_str().parse::<f64>().unwrap_or(f64::NAN).into(),
        DeValue::Boolean(truth) => (*truth).into(),
        DeValue::Datetime(date) => date.to_string().into(),
        DeValue::Array(values) => {
            values.iter().map(|value| json(value.get_ref())).collect::<Result<_, _>>()?
        }
        DeValue::Table(table) => object(table)?,
    })
}

/// The same of a table.
pub(crate) fn object(table: &DeTable<'_>) -> Result<serde_json::Value, String> {
    let entries = table.iter().map(|(key, value)| Ok((key.get_ref().to_string(), json(value.get_ref())?)));
    Ok(serde_json::Value::Object(entries.collect::<Result<_, String>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAMPAIGN: &str = "name = 'c'\nlocks = ['a']\nTOP\n[quick]\nQUICK\n
        [[application]]\nname = 'x'\ncommand = ['x']\nwork = 1\nOWN\n";

    fn parse(top: &str, quick: &str, own: &str) -> Result<Campaign, String> {
        Campaign::parse(&CAMPAIGN.replace("TOP", top).replace("QUICK", quick).replace("OWN", own))
    }

    #[test]
    fn seconds_that_are_no_time_are_refused() {
        for (top, quick, own) in [
            ("timeout = -1", "", ""),
            ("timeout = 1e300", "", ""),
            ("timeout = 0", "", ""),
            ("budget = -5.0", "", ""),
            ("", "timeout = -1", ""),
            ("", "budget = 1e300", ""),
            ("", "", "timeout = -0.5"),
            ("", "", "stop-after = -1"),
            ("", "", "warm-up = -1"),
            ("", "", "warm-up = 1e25"),
        ] {
            let why = parse(top, quick, own).unwrap_err();
            assert!(why.contains("seconds, from"), "{top}{quick}{own}: {why}");
        }
        let fine = parse("timeout = 0.5", "timeout = 1.5", "stop-after = 3\nwarm-up = 0").unwrap();
        assert_eq!(fine.quick().timeout, 1.5);
    }

    #[test]
    fn a_short_version_in_which_nothing_would_run_is_refused() {
        for (quick, said) in [
            ("rounds = 0", "quick: rounds is at least 1"),
            ("locks = []", "quick: locks is empty"),
            ("placements = []", "quick: placements is empty"),
            ("applications = []", "quick: applications is empty"),
            ("applications = ['x', 'y']", "quick: there is no application `y`"),
        ] {
            let why = parse("", quick, "").unwrap_err();
            assert!(why.starts_with(said), "{quick}: {why}");
        }
    }

    #[test]
    fn levels_of_a_machine_that_differ_in_threads_alone_are_refused() {
        let levels = "levels.machine = [{ nodes = 1, threads = 8 }, { nodes = 1, threads = 16 }]";
        for (top, quick, own) in [(levels, "", ""), ("", levels, ""), ("", "", levels)] {
            let why = parse(top, quick, own).unwrap_err();
            assert!(why.contains("two levels of 1 nodes, with 8 and 16 threads"), "{why}");
        }
        assert!(parse("", "", &levels.replace("nodes = 1, threads = 16", "nodes = 2, threads = 16")).is_ok());
        assert!(parse("", "", &levels.replace("16", "8")).is_ok(), "the same twice is one");
    }

    #[test]
    fn fingerprints_stay_as_they_are_and_older_ones_count() {
        let application = parse("", "", "").unwrap().applications.remove(0);
        let mut hasher = DefaultHasher::new();
        application.identity().hash(&mut hasher);
        assert!(application.has_fingerprint(&format!("{:016x}", hasher.finish())));
        assert!(application.has_fingerprint(&application.fingerprint()));
        let other = Application { work: Some(2.0), ..application.clone() };
        assert!(!application.has_fingerprint(&other.fingerprint()));
        // As this version writes it into databases.
        assert_eq!(application.fingerprint(), "451b3be53d1d926e");
    }
}
