//! A campaign on this host: run by run, each recorded before the next begins.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::campaign::{Application, Campaign, Past, Plan};
use crate::error::Error;
use crate::measure::{Bench, Host, POWER, Rapl, is_program};
use crate::store::{Outcome, Record, RunKey, Store};

/// What the caller brings to a campaign.
pub struct Settings<'a> {
    /// The directory of the campaign: `runs.sqlite`, `campaign.toml`, `scratch`.
    pub out: PathBuf,
    /// The command itself, for `{lockwork}`.
    pub lockwork: PathBuf,
    /// The version of what is measured.
    pub commit: String,
    /// Where the energy counters are.
    pub powercap: PathBuf,
    /// The host's name, where it is not the system's: several Slurm nodes may share a host.
    pub host: Option<String>,
    /// Puts a lock under a command; `pthread` is none.
    pub dress: &'a dyn Fn(&str, &mut Command) -> Result<(), String>,
    /// Whether the user wants to stop.
    pub interrupted: &'a dyn Fn() -> bool,
    /// Told of every run.
    pub progress: &'a dyn Fn(&Progress<'_>),
    /// Told what the user should know beside that.
    pub warn: &'a dyn Fn(&str),
}

impl std::fmt::Debug for Settings<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Settings")
            .field("out", &self.out)
            .field("commit", &self.commit)
            .finish_non_exhaustive()
    }
}

/// How far a campaign is.
#[derive(Debug)]
pub struct Progress<'a> {
    /// Runs that were made.
    pub made: usize,
    /// Runs that there will be, as far as one can know: more if figures vary.
    pub all: usize,
    /// Seconds for what is left, at the pace of what was made.
    pub left: Option<f64>,
    /// The run that begins; `None` at the end.
    pub next: Option<&'a RunKey>,
    /// The run that has ended.
    pub last: Option<&'a Record>,
}

/// How a campaign ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finish {
    /// Every run was made.
    Complete,
    /// The user stopped it.
    Interrupted,
    /// The next run would not have fitted into the budget.
    OutOfBudget,
}

/// The database of a campaign's directory.
#[must_use]
pub fn database(out: &Path) -> PathBuf {
    out.join("runs.sqlite")
}

/// Keeps a second `study run` away from a directory until it is dropped.
#[derive(Debug)]
pub struct Hold {
    out: PathBuf,
    _file: File,
}

impl Hold {
    /// Takes a directory, and makes it where there is none.
    ///
    /// # Errors
    ///
    /// If another process has it, or it cannot be made.
    pub fn take(out: &Path) -> Result<Self, Error> {
        let path = out.join("lock");
        let say = |reason: String| Error::Campaign(format!("{}: {reason}", path.display()));
        fs::create_dir_all(out).map_err(|error| say(error.to_string()))?;
        let file = File::create(&path).map_err(|error| say(error.to_string()))?;
        match rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Hold { out: out.to_owned(), _file: file }),
            Err(rustix::io::Errno::WOULDBLOCK) => Err(say("another lockwork is at work here".to_owned())),
            Err(error) => Err(say(error.to_string())),
        }
    }

    /// Forgets the runs of an application, or those that failed, of the campaign in the directory; says how many.
    ///
    /// # Errors
    ///
    /// If the database cannot be written.
    pub fn forget(&self, application: Option<&str>) -> Result<usize, Error> {
        Store::open(&database(&self.out))?.forget(application)
    }

    /// Sees that it is this directory that is held.
    pub(crate) fn check(&self, out: &Path) -> Result<(), Error> {
        match self.out == out {
            true => Ok(()),
            false => Err(Error::Campaign(format!("{} is held, not {}", self.out.display(), out.display()))),
        }
    }
}

/// Opens the campaign's database and sees that the runs in it are of this campaign.
pub(crate) fn open(campaign: &Campaign, text: &str, out: &Path) -> Result<Store, Error> {
    let store = Store::open(&database(out))?;
    for application in &campaign.applications {
        let key = format!("application {}", application.name);
        match store.value(&key)? {
            Some(then) if !application.has_fingerprint(&then) => {
                return Err(Error::Campaign(format!(
                    "application `{0}` was changed since its runs in {1} were made: forget them by --forget {0}, or take \
                     another directory by --out",
                    application.name,
                    out.display()
                )));
            }
            // Also where it was another version's: of the same application.
            _ => store.keep(&key, &application.fingerprint())?,
        }
    }
    store.keep("name", &campaign.name)?;
    store.keep("baseline", &campaign.baseline)?;
    store.keep("description", &campaign.description)?;
    store.keep("toml", text)?;
    Ok(store)
}

/// Why an application does not run on this host.
fn why_not(application: &Application) -> Option<String> {
    let missing: Vec<&str> =
        application.programs().into_iter().filter(|program| !is_program(program)).collect();
    let list = missing.join(", ");
    match &application.package {
        _ if missing.is_empty() => None,
        Some(package) => Some(format!("not installed: apt-get install {package} ({list})")),
        None => Some(format!("not installed: {list}")),
    }
}

/// What does not run: applications that are not installed, locks that an application cannot take.
pub(crate) fn absences(campaign: &Campaign) -> Vec<(String, String, String)> {
    let mut absent = Vec::new();
    for application in &campaign.applications {
        absent.extend(why_not(application).map(|why| (application.name.clone(), String::new(), why)));
        let locks = application.locks.as_ref().unwrap_or(&campaign.locks);
        let excluded = application.excluded.iter().filter(|(lock, _)| locks.contains(lock));
        absent.extend(excluded.map(|(lock, why)| (application.name.clone(), lock.clone(), why.clone())));
    }
    absent
}

/// The plan of a campaign, without what does not run.
pub(crate) fn plan<'a>(
    campaign: &'a Campaign,
    host: &Host,
    absent: &[(String, String, String)],
) -> Result<Plan<'a>, Error> {
    let runs = |application: &Application| {
        !absent.iter().any(|(name, lock, _)| name == &application.name && lock.is_empty())
    };
    Plan::new(campaign, &host.topology, runs).map_err(Error::Campaign)
}

/// How long runs take: the mean of those of the same application, else of all.
pub(crate) struct Pace {
    by_application: BTreeMap<String, (f64, u32)>,
    begun: std::time::Instant,
}

impl Pace {
    pub(crate) fn new(runs: &[Record]) -> Self {
        let mut pace = Pace { by_application: BTreeMap::new(), begun: std::time::Instant::now() };
        runs.iter().for_each(|run| pace.add(run));
        pace
    }

    pub(crate) fn add(&mut self, run: &Record) {
        let entry = self.by_application.entry(run.key.application.clone()).or_default();
        *entry = (entry.0 + run.seconds, entry.1 + 1);
    }

    pub(crate) fn of(&self, application: &str) -> Option<f64> {
        let mean = |(sum, count): (f64, u32)| sum / f64::from(count);
        self.by_application.get(application).copied().map(mean).or_else(|| {
            let all = self.by_application.values().copied().reduce(|a, b| (a.0 + b.0, a.1 + b.1))?;
            Some(mean(all))
        })
    }

    fn spent(&self) -> f64 {
        self.by_application.values().map(|(sum, _)| sum).sum()
    }

    pub(crate) fn of_all(&self, keys: &[RunKey]) -> Option<f64> {
        keys.iter().map(|key| self.of(&key.application)).sum()
    }
}

/// Runs what is missing of a campaign on this host, in the directory that is held.
///
/// # Errors
///
/// If the campaign cannot run here, or a run cannot be recorded: then nothing else is run, since it would be lost, too.
///
/// # Panics
///
/// Never: the plan names applications of the campaign.
pub fn run(campaign: &Campaign, text: &str, settings: &Settings<'_>, hold: &Hold) -> Result<Finish, Error> {
    hold.check(&settings.out)?;
    let mut store = open(campaign, text, &settings.out)?;
    let bench = bench(campaign, settings)?;
    let absent = absences(campaign);
    store.keep_absent(&absent)?;
    let plan = plan(campaign, &bench.host, &absent)?;
    let runs = store.runs()?;
    let mut pace = Pace::new(&runs);
    let mut past = store.past()?;
    let mut last: Option<Record> = None;
    loop {
        let round = plan.next_round(&past);
        if round.is_empty() {
            tell(settings, &store, &plan, &past, &pace, None, last.as_ref())?;
            return Ok(Finish::Complete);
        }
        for key in round {
            // A failure may have been the second of its configuration.
            if !plan.still_wanted(&key, &past) {
                continue;
            }
            tell(settings, &store, &plan, &past, &pace, Some(&key), last.take().as_ref())?;
            let spent = pace.spent().max(pace.begun.elapsed().as_secs_f64());
            if campaign.budget.is_some_and(|budget| spent + pace.of(&key.application).unwrap_or(0.0) > budget)
            {
                return Ok(Finish::OutOfBudget);
            }
            let application = campaign.application(&key.application).expect("the plan is of the campaign");
            let record = if (settings.interrupted)() { None } else { bench.run(application, &key) };
            let Some(record) = record else { return Ok(Finish::Interrupted) };
            store.add(&record)?;
            pace.add(&record);
            past.insert(key, Past { outcome: record.outcome, throughput: record.throughput });
            last = Some(record);
        }
    }
}

pub(crate) fn bench<'a>(campaign: &'a Campaign, settings: &Settings<'a>) -> Result<Bench<'a>, Error> {
    let out = fs::canonicalize(&settings.out)
        .map_err(|error| Error::Campaign(format!("{}: {error}", settings.out.display())))?;
    Ok(Bench {
        campaign,
        host: Host::read().named(settings.host.clone()),
        rapl: Rapl::find(&settings.powercap, POWER.as_ref()),
        lockwork: settings.lockwork.clone(),
        commit: settings.commit.clone(),
        dress: settings.dress,
        interrupted: settings.interrupted,
        scratch: out.join("scratch"),
    })
}

/// Tells the user and those who watch.
pub(crate) fn tell(
    settings: &Settings<'_>,
    store: &Store,
    plan: &Plan<'_>,
    past: &BTreeMap<RunKey, Past>,
    pace: &Pace,
    next: Option<&RunKey>,
    last: Option<&Record>,
) -> Result<(), Error> {
    let left = plan.left(past);
    let extra = next.is_some_and(|next| !left.contains(next));
    let all = past.len() + left.len() + usize::from(extra);
    let seconds = if next.is_none() && left.is_empty() { Some(0.0) } else { pace.of_all(&left) };
    store.keep("planned", &all.to_string())?;
    // Only at the end there is nothing left: a further round may follow.
    let known = seconds.filter(|seconds| *seconds > 0.0 || next.is_none());
    store.keep("left", &known.map_or_else(String::new, |seconds| seconds.to_string()))?;
    (settings.progress)(&Progress { made: past.len(), all, left: seconds, next, last });
    Ok(())
}

/// What does not run: application, lock (empty: all), reason.
pub type Absence = (String, String, String);

/// The plan of a campaign on this host, and what does not run: application, lock (empty: all), reason.
///
/// # Errors
///
/// If levels mean nothing on this host.
pub fn preview(campaign: &Campaign) -> Result<(Plan<'_>, Vec<Absence>), Error> {
    let absent = absences(campaign);
    Ok((plan(campaign, &Host::read(), &absent)?, absent))
}

/// How far a campaign is, as anyone can see it who can read its directory.
#[derive(Debug)]
pub struct Status {
    /// The campaign's name.
    pub name: String,
    /// The runs that were made.
    pub runs: Vec<Record>,
    /// How many there will be, as far as one can know.
    pub planned: usize,
    /// Seconds for what is left.
    pub left: Option<f64>,
}

impl Status {
    /// Whether nothing is left to run.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.left == Some(0.0)
    }
}

/// How far the campaign of a database is.
///
/// # Errors
///
/// If the database cannot be read.
pub fn status(database: &Path) -> Result<Status, Error> {
    let store = Store::read(database)?;
    let runs = store.runs()?;
    let number = |key| Ok(store.value(key)?.and_then(|text| text.parse::<f64>().ok()));
    Ok(Status {
        name: store.value("name")?.unwrap_or_default(),
        planned: number("planned")?.map_or(runs.len(), |planned| planned as usize).max(runs.len()),
        left: number("left")?,
        runs,
    })
}

/// How a run is called in messages.
#[must_use]
pub fn title(key: &RunKey) -> String {
    format!(
        "{} × {} threads × {}, {}, round {}",
        key.application,
        key.threads,
        key.lock,
        key.placement.name(),
        key.round + 1
    )
}

/// How many runs of each outcome there are.
#[must_use]
pub fn outcomes(runs: &[Record]) -> BTreeMap<Outcome, usize> {
    let mut outcomes = BTreeMap::new();
    for run in runs {
        *outcomes.entry(run.outcome).or_insert(0) += 1;
    }
    outcomes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::campaign::Placement;

    #[test]
    fn a_campaign_of_which_runs_were_forgotten_is_not_complete() {
        let directory = tempfile::tempdir().unwrap();
        let out = directory.path();
        let key = RunKey {
            application: "x".to_owned(),
            nodes: 1,
            threads: 1,
            placement: Placement::Unpinned,
            lock: "a".to_owned(),
            round: 0,
        };
        let hold = Hold::take(out).unwrap();
        let store = Store::open(&database(out)).unwrap();
        store.add(&super::super::slurm::vanished(&key, "1")).unwrap();
        store.keep("planned", "1").unwrap();
        store.keep("left", "0").unwrap();
        assert!(status(&database(out)).unwrap().is_complete());
        assert_eq!(hold.forget(Some("y")).unwrap(), 0);
        assert!(status(&database(out)).unwrap().is_complete(), "nothing was forgotten");
        assert_eq!(hold.forget(None).unwrap(), 1);
        let status = status(&database(out)).unwrap();
        assert_eq!(
            (status.is_complete(), status.runs.len(), status.planned, status.left),
            (false, 0, 1, None)
        );
        assert!(Hold::take(out).is_err(), "held until it is dropped");
        assert!(hold.check(&out.join("other")).is_err());
        drop(hold);
        assert!(Hold::take(out).is_ok());
    }
}
