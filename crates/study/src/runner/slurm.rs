//! A campaign on a Slurm cluster.
//!
//! The campaign's directory is on a file system that all nodes share. `queue/todo` is the work list: a file for each unit, which is
//! one round of one cell, so that the runs that are compared with one another are made on one node. The coordinator (`lockwork study
//! run --on slurm`) submits job arrays; each task (`lockwork study work`) takes the first unit of the list by renaming it into
//! `queue/taken`, which only one task can, writes a file into `queue/done` for every run, and takes the next until the list is empty.
//! The coordinator moves runs from `queue/done` into the database, and puts back the units of jobs that are gone.
//!
//! Nothing is lost whoever is killed, whenever: a run is in `done` or in the database or still in a unit, and is
//! added once, however often it is handed in. A coordinator that starts anew goes on from the files.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::local::{self, Finish, Pace, Settings, bench, hold, open, tell};
use crate::campaign::{Campaign, Past, Plan, Topology};
use crate::error::Error;
use crate::measure::Host;
use crate::store::{Outcome, Record, RunKey, Store, Surroundings, Usage};

/// How a campaign uses a cluster.
#[derive(Debug, Clone)]
pub struct Cluster {
    /// At most so many tasks at a time.
    pub jobs: usize,
    /// Whether a task has its node for itself; simulations need not.
    pub exclusive: bool,
    /// Further arguments of `sbatch` and `srun`: partition, constraint, account, time.
    pub arguments: Vec<String>,
    /// Between two looks.
    pub every: Duration,
}

/// After so many jobs that vanished with it, a unit is given up.
const TRIES: u32 = 3;

/// After so many submissions in a row that did nothing, the campaign stops: the nodes cannot run it.
const FRUITLESS: u32 = 5;

/// A unit of the work list.
#[derive(Debug, Serialize, Deserialize)]
struct Unit {
    keys: Vec<RunKey>,
    /// How many jobs have taken it and vanished.
    tries: u32,
}

/// What a node says of itself.
#[derive(Debug, Serialize, Deserialize)]
struct Description {
    nodes: Vec<Vec<u32>>,
    absent: Vec<(String, String, String)>,
}

/// The files of the queue.
#[derive(Debug, Clone)]
struct Queue {
    out: PathBuf,
}

fn failed(path: &Path, error: &io::Error) -> Error {
    Error::Campaign(format!("{}: {error}", path.display()))
}

impl Queue {
    fn directory(&self, name: &str) -> PathBuf {
        self.out.join("queue").join(name)
    }

    fn campaign(&self) -> PathBuf {
        self.out.join("queue/campaign.json")
    }

    fn make(&self) -> Result<(), Error> {
        for name in ["todo", "taken", "done", "log"] {
            let path = self.directory(name);
            fs::create_dir_all(&path).map_err(|error| failed(&path, &error))?;
        }
        Ok(())
    }

    /// The names in a directory, in the order of the alphabet, which is that of the rounds.
    fn names(&self, name: &str) -> Result<Vec<String>, Error> {
        let path = self.directory(name);
        let entries = fs::read_dir(&path).map_err(|error| failed(&path, &error))?;
        let mut names: Vec<String> = entries
            .flatten()
            .filter_map(|entry| entry.file_name().into_string().ok())
            // What is being written begins with a dot.
            .filter(|name| !name.starts_with('.'))
            .collect();
        names.sort_unstable();
        Ok(names)
    }

    /// Writes a file so that it is there whole or not at all.
    fn write(&self, directory: &str, name: &str, value: &impl Serialize) -> Result<(), Error> {
        let directory = self.directory(directory);
        let (draft, path) = (directory.join(format!(".{name}.{}", std::process::id())), directory.join(name));
        let text = serde_json::to_string(value).expect("plain data");
        fs::write(&draft, text)
            .and_then(|()| fs::File::open(&draft)?.sync_all())
            .and_then(|()| fs::rename(&draft, &path))
            .map_err(|error| failed(&path, &error))
    }

    fn read<T: for<'de> Deserialize<'de>>(&self, directory: &str, name: &str) -> Option<T> {
        serde_json::from_str(&fs::read_to_string(self.directory(directory).join(name)).ok()?).ok()
    }

    /// Takes the first unit of the list for a job.
    fn take(&self, job: &str) -> Result<Option<(String, Unit)>, Error> {
        for name in self.names("todo")? {
            let taken = format!("{name}@{job}");
            // Fails if another task was quicker.
            if fs::rename(self.directory("todo").join(&name), self.directory("taken").join(&taken)).is_ok()
                && let Some(unit) = self.read("taken", &taken)
            {
                return Ok(Some((taken, unit)));
            }
        }
        Ok(None)
    }

    fn remove(&self, directory: &str, name: &str) {
        // Gone already if somebody else has removed it: all the better.
        let _ = fs::remove_file(self.directory(directory).join(name));
    }
}

/// The name of a run's file.
fn file_of(key: &RunKey) -> String {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    format!("{:016x}.json", hasher.finish())
}

/// This task, as `squeue` calls it.
fn job() -> String {
    let variable = |name: &str| std::env::var(name).ok();
    match (variable("SLURM_ARRAY_JOB_ID"), variable("SLURM_ARRAY_TASK_ID")) {
        (Some(job), Some(task)) => format!("{job}_{task}"),
        _ => variable("SLURM_JOB_ID").unwrap_or_else(|| format!("pid{}", std::process::id())),
    }
}

/// The campaign that a coordinator has left in a directory for its tasks.
///
/// # Errors
///
/// If there is none.
pub fn campaign_of_queue(out: &Path) -> Result<Campaign, Error> {
    let path = Queue { out: out.to_owned() }.campaign();
    let text = fs::read_to_string(&path).map_err(|error| failed(&path, &error))?;
    serde_json::from_str(&text).map_err(|error| Error::Campaign(format!("{}: {error}", path.display())))
}

/// What the coordinator must know of a node, as one line.
///
/// # Errors
///
/// If there is no campaign.
///
/// # Panics
///
/// Never: a description is plain data.
pub fn describe(out: &Path) -> Result<String, Error> {
    let campaign = campaign_of_queue(out)?;
    let description = Description { nodes: Host::read().topology.nodes, absent: local::absences(&campaign) };
    Ok(serde_json::to_string(&description).expect("plain data"))
}

/// A task: units of the work list, until it is empty.
///
/// # Errors
///
/// If a run cannot be handed in; the job's end tells the coordinator.
pub fn work(campaign: &Campaign, settings: &Settings<'_>, scratch: &str) -> Result<(), Error> {
    let queue = Queue { out: settings.out.clone() };
    let mut bench = bench(campaign, settings)?;
    bench.scratch = bench.scratch.join(scratch);
    let job = job();
    while let Some((name, unit)) = queue.take(&job)? {
        for key in &unit.keys {
            if queue.directory("done").join(file_of(key)).exists() {
                continue;
            }
            let Some(application) = campaign.application(&key.application) else { continue };
            let record = if (settings.interrupted)() { None } else { bench.run(application, key) };
            let Some(mut record) = record else { return Ok(()) };
            record.surroundings.job = Some(job.clone());
            queue.write("done", &file_of(key), &record)?;
        }
        queue.remove("taken", &name);
    }
    Ok(())
}

/// Runs a program of Slurm's and gives what it printed.
fn ask(program: &str, arguments: &[String]) -> Result<String, String> {
    let output = Command::new(program).args(arguments).stdin(std::process::Stdio::null()).output();
    let output = output.map_err(|error| format!("{program}: {error}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => {
            let said = String::from_utf8_lossy(&output.stderr);
            Err(format!("{program}: {}", said.lines().last().unwrap_or("failed").trim()))
        }
    }
}

/// What coordinates.
struct Coordinator<'a> {
    settings: &'a Settings<'a>,
    cluster: &'a Cluster,
    queue: Queue,
    store: Store,
    past: BTreeMap<RunKey, Past>,
    pace: Pace,
    job_name: String,
    fruitless: u32,
}

impl Coordinator<'_> {
    fn words(&self, more: &[&str]) -> Vec<String> {
        let exclusive = self.cluster.exclusive.then(|| "--exclusive".to_owned());
        more.iter()
            .map(|word| (*word).to_owned())
            .chain(exclusive)
            .chain(self.cluster.arguments.clone())
            .collect()
    }

    /// Asks one node what it is.
    fn describe(&self) -> Result<Description, Error> {
        let mut words = self.words(&["--nodes=1", "--ntasks=1", "--quiet"]);
        let lockwork = self.settings.lockwork.display().to_string();
        let out = self.queue.out.display().to_string();
        words.extend([lockwork, "study".into(), "work".into(), "--describe".into(), out]);
        let said = ask("srun", &words).map_err(Error::Campaign)?;
        let line = said.lines().last().unwrap_or_default();
        serde_json::from_str(line)
            .map_err(|error| Error::Campaign(format!("srun: a node said `{line}` of itself: {error}")))
    }

    /// The tasks of this campaign that wait or run; `None` if the controller does not answer just now.
    fn tasks(&self) -> Option<BTreeSet<String>> {
        let words = ["--noheader", "--array", "--format=%i", "--states=PD,R,CF,S", "--name"];
        let words: Vec<String> =
            words.iter().map(|word| (*word).to_owned()).chain([self.job_name.clone()]).collect();
        let said = ask("squeue", &words).ok()?;
        Some(said.lines().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect())
    }

    /// Moves handed-in runs into the database.
    fn collect(&mut self) -> Result<usize, Error> {
        let mut collected = 0;
        for name in self.queue.names("done")? {
            let Some(record) = self.queue.read::<Record>("done", &name) else { continue };
            self.add(&record)?;
            self.queue.remove("done", &name);
            collected += 1;
        }
        Ok(collected)
    }

    fn add(&mut self, record: &Record) -> Result<(), Error> {
        self.store.add(record)?;
        self.pace.add(record);
        let past = Past { outcome: record.outcome, throughput: record.throughput };
        self.past.entry(record.key.clone()).or_insert(past);
        Ok(())
    }

    /// Puts back the units of jobs that are gone. Called when everything handed in before the queue was asked is collected.
    fn recover(&mut self, tasks: &BTreeSet<String>) -> Result<(), Error> {
        for name in self.queue.names("taken")? {
            let Some((unit_name, job)) = name.split_once('@') else { continue };
            if tasks.contains(job) {
                continue;
            }
            let Some(mut unit) = self.queue.read::<Unit>("taken", &name) else { continue };
            // The job may have ended in order between the two looks.
            self.collect()?;
            unit.keys.retain(|key| !self.past.contains_key(key));
            unit.tries += 1;
            if unit.tries >= TRIES {
                for key in &unit.keys {
                    let record = self.vanished(key, job);
                    self.add(&record)?;
                }
            } else if !unit.keys.is_empty() {
                self.queue.write("todo", unit_name, &unit)?;
            }
            self.queue.remove("taken", &name);
        }
        Ok(())
    }

    fn vanished(&self, key: &RunKey, job: &str) -> Record {
        Record {
            key: key.clone(),
            bench: key.application.clone(),
            outcome: Outcome::Vanished,
            reason: Some(format!("{TRIES} jobs vanished with it, the last was {job}")),
            machine: None,
            variant: "interposed".to_owned(),
            started: format!("{:.0}", jiff::Timestamp::now()),
            seconds: 0.0,
            throughput: None,
            p50: None,
            p99: None,
            p999: None,
            energy: None,
            energy_dram: None,
            energy_seconds: None,
            usage: Usage::default(),
            jain: None,
            upper_half: None,
            metrics: BTreeMap::new(),
            surroundings: Surroundings { job: Some(job.to_owned()), ..Surroundings::default() },
        }
    }

    /// Writes units for runs: those of a cell in a round are one.
    fn enqueue(&self, keys: Vec<RunKey>) -> Result<(), Error> {
        let same = |a: &RunKey, b: &RunKey| {
            (&a.application, a.nodes, a.threads, a.placement, a.round)
                == (&b.application, b.nodes, b.threads, b.placement, b.round)
        };
        for (place, keys) in keys.chunk_by(same).enumerate() {
            let name = format!("{:04}-{place:06}", keys[0].round);
            self.queue.write("todo", &name, &Unit { keys: keys.to_vec(), tries: 0 })?;
        }
        Ok(())
    }

    /// Submits as many tasks as there is work for, beside those that wait or run.
    fn submit(&mut self, running: usize, waiting_units: usize) -> Result<(), Error> {
        let wanted = self.cluster.jobs.min(waiting_units).saturating_sub(running);
        if wanted == 0 {
            return Ok(());
        }
        self.fruitless += 1;
        if self.fruitless > FRUITLESS {
            return Err(Error::Campaign(format!(
                "{FRUITLESS} job arrays in a row have handed in nothing: see {}",
                self.queue.directory("log").display()
            )));
        }
        let scratch = if self.cluster.exclusive { "$SLURMD_NODENAME" } else { "$SLURM_JOB_ID" };
        let quote = |path: &Path| format!("'{}'", path.display().to_string().replace('\'', "'\\''"));
        let (lockwork, out) = (quote(&self.settings.lockwork), quote(&self.queue.out));
        let wrapped = format!(
            "exec {lockwork} study work --scratch \"{scratch}\" --commit {} {out}",
            quote(Path::new(&self.settings.commit))
        );
        let log = self.queue.directory("log").join("%A_%a.txt").display().to_string();
        // Without requeueing: a job that runs again has the same name as the one that was lost.
        let words = self.words(&[
            "--parsable",
            "--no-requeue",
            "--nodes=1",
            "--ntasks=1",
            &format!("--job-name={}", self.job_name),
            &format!("--array=0-{}", wanted - 1),
            &format!("--output={log}"),
            &format!("--wrap={wrapped}"),
        ]);
        ask("sbatch", &words).map_err(Error::Campaign)?;
        Ok(())
    }
}

/// Runs what is missing of a campaign on a cluster.
///
/// # Errors
///
/// If Slurm refuses, the nodes cannot run it, or a run cannot be recorded.
///
/// # Panics
///
/// Never: a campaign is plain data.
pub fn run_on_slurm(
    campaign: &Campaign,
    text: &str,
    settings: &Settings<'_>,
    cluster: &Cluster,
) -> Result<Finish, Error> {
    let _hold = hold(&settings.out)?;
    let out = fs::canonicalize(&settings.out).map_err(|error| failed(&settings.out, &error))?;
    let queue = Queue { out };
    queue.make()?;
    let mut store = open(campaign, text, &settings.out)?;
    let path = queue.campaign();
    fs::write(&path, serde_json::to_string(campaign).expect("plain data"))
        .map_err(|error| failed(&path, &error))?;
    let runs = store.runs()?;
    let job_name = format!("lockwork-{}-{}", campaign.name, &file_of_path(&queue.out));
    let mut coordinator = Coordinator {
        settings,
        cluster,
        past: store.past()?,
        pace: Pace::new(&runs),
        queue,
        job_name,
        fruitless: 0,
        store: Store::open(&local::database(&settings.out))?,
    };
    let description = coordinator.describe()?;
    store.keep_absent(&description.absent)?;
    let host = Topology { nodes: description.nodes };
    let runs_there =
        |name: &str| !description.absent.iter().any(|(absent, lock, _)| absent == name && lock.is_empty());
    let plan =
        Plan::new(campaign, &host, |application| runs_there(&application.name)).map_err(Error::Campaign)?;
    coordinate(&mut coordinator, &plan, campaign)
}

/// A name for a directory.
fn file_of_path(path: &Path) -> String {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    path.hash(&mut hasher);
    format!("{:08x}", hasher.finish() & 0xffff_ffff)
}

fn coordinate(
    coordinator: &mut Coordinator<'_>,
    plan: &Plan<'_>,
    campaign: &Campaign,
) -> Result<Finish, Error> {
    let begun = Instant::now();
    loop {
        // First who is there, then what was handed in: a task that is gone has handed in all that it will.
        let tasks = coordinator.tasks();
        if coordinator.collect()? > 0 {
            coordinator.fruitless = 0;
        }
        if let Some(tasks) = &tasks {
            coordinator.recover(tasks)?;
        }
        let (mut todo, taken) =
            (coordinator.queue.names("todo")?.len(), coordinator.queue.names("taken")?.len());
        let out_of_budget = campaign.budget.is_some_and(|budget| begun.elapsed().as_secs_f64() > budget);
        if out_of_budget {
            for name in coordinator.queue.names("todo")? {
                coordinator.queue.remove("todo", &name);
            }
            todo = 0;
        }
        if todo + taken == 0 {
            // All rounds that every cell gets at once, then further ones as figures demand.
            let mut keys = plan.left(&coordinator.past);
            if keys.is_empty() {
                keys = plan.next_round(&coordinator.past);
            }
            let Coordinator { settings, store, past, pace, .. } = &*coordinator;
            if keys.is_empty() {
                tell(settings, store, plan, past, pace, None, None)?;
                return Ok(Finish::Complete);
            }
            tell(settings, store, plan, past, pace, keys.first(), None)?;
            if out_of_budget {
                return Ok(Finish::OutOfBudget);
            }
            coordinator.enqueue(keys)?;
            continue;
        }
        let Coordinator { settings, store, past, pace, .. } = &*coordinator;
        tell(settings, store, plan, past, pace, plan.left(past).first(), None)?;
        if (settings.interrupted)() {
            // The jobs go on; the same command collects what they hand in.
            return Ok(Finish::Interrupted);
        }
        if let Some(tasks) = &tasks {
            coordinator.submit(tasks.len(), todo)?;
        }
        std::thread::sleep(coordinator.cluster.every);
    }
}
