//! A campaign on a Slurm cluster.
//!
//! The campaign's directory is on a file system that all nodes share; `queue` in it is the work list. A unit is one round of one cell,
//! so that the runs that are compared with one another are made on one node. `lockwork study run --on slurm` coordinates, its tasks
//! are `lockwork study work`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::cluster::{Cluster, Ledger, Slurm, TRIES, quote_path};
use super::local::{self, Finish, Hold, Pace, Settings, bench, open, tell};
use super::queue::{Queue, failed, job};
use crate::campaign::{Campaign, Past, Plan, Topology};
use crate::digest::digest;
use crate::error::Error;
use crate::measure::Host;
use crate::store::{Outcome, Record, RunKey, Store, Surroundings, Usage};

/// What a node says of itself.
#[derive(Debug, Serialize, Deserialize)]
struct Description {
    nodes: Vec<Vec<u32>>,
    absent: Vec<(String, String, String)>,
}

fn queue_of(out: &Path) -> Queue {
    Queue { root: out.join("queue") }
}

fn campaign_file(queue: &Queue) -> PathBuf {
    queue.root.join("campaign.json")
}

/// The name of a run's file.
fn file_of(key: &RunKey) -> String {
    let text = serde_json::to_string(key).expect("plain data");
    format!("{:016x}.json", digest(text.as_bytes()))
}

/// The campaign that a coordinator has left in a directory for its tasks.
///
/// # Errors
///
/// If there is none.
pub fn campaign_of_queue(out: &Path) -> Result<Campaign, Error> {
    let path = campaign_file(&queue_of(out));
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
    let queue = queue_of(&settings.out);
    let mut bench = bench(campaign, settings)?;
    bench.scratch = bench.scratch.join(scratch);
    let job = job();
    while let Some((name, unit)) = queue.take::<RunKey>(&job)? {
        for key in &unit.keys {
            if queue.has_done(&file_of(key)) {
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

/// What coordinates.
struct Coordinator<'a> {
    campaign: &'a Campaign,
    settings: &'a Settings<'a>,
    plan: Plan<'a>,
    store: Store,
    past: BTreeMap<RunKey, Past>,
    pace: Pace,
    begun: Instant,
}

impl Coordinator<'_> {
    fn add(&mut self, record: &Record) -> Result<(), Error> {
        self.store.add(record)?;
        self.pace.add(record);
        let past = Past { outcome: record.outcome, throughput: record.throughput };
        self.past.entry(record.key.clone()).or_insert(past);
        Ok(())
    }

    /// The runs to be made next: all rounds that every cell gets at once, then further ones as figures demand.
    fn next(&self) -> Vec<RunKey> {
        let keys = self.plan.left(&self.past);
        if keys.is_empty() { self.plan.next_round(&self.past) } else { keys }
    }
}

impl Ledger for Coordinator<'_> {
    type Key = RunKey;

    /// Moves handed-in runs into the database.
    fn collect(&mut self, queue: &Queue) -> Result<usize, Error> {
        let mut collected = 0;
        for name in queue.names("done")? {
            let Some(record) = queue.read::<Record>("done", &name) else { continue };
            self.add(&record)?;
            queue.remove("done", &name);
            collected += 1;
        }
        Ok(collected)
    }

    fn has(&self, key: &RunKey) -> bool {
        self.past.contains_key(key)
    }

    fn give_up(&mut self, key: &RunKey, job: &str) -> Result<(), Error> {
        self.add(&vanished(key, job))
    }

    /// The runs of a cell in a round are one unit.
    fn refill(&mut self) -> Result<Vec<Vec<RunKey>>, Error> {
        let same = |a: &RunKey, b: &RunKey| {
            (&a.application, a.nodes, a.threads, a.placement, a.round)
                == (&b.application, b.nodes, b.threads, b.placement, b.round)
        };
        Ok(self.next().chunk_by(same).map(<[RunKey]>::to_vec).collect())
    }

    fn tell(&self) -> Result<(), Error> {
        let next = self.next();
        tell(self.settings, &self.store, &self.plan, &self.past, &self.pace, next.first(), None)
    }

    fn is_out_of_budget(&self) -> bool {
        self.campaign.budget.is_some_and(|budget| self.begun.elapsed().as_secs_f64() > budget)
    }

    fn is_interrupted(&self) -> bool {
        (self.settings.interrupted)()
    }

    fn warn(&self, what: &str) {
        (self.settings.warn)(what);
    }
}

pub(super) fn vanished(key: &RunKey, job: &str) -> Record {
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
        served: None,
    }
}

/// Runs what is missing of a campaign on a cluster, from the directory that is held.
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
    hold: &Hold,
    cluster: &Cluster,
) -> Result<Finish, Error> {
    hold.check(&settings.out)?;
    let out = fs::canonicalize(&settings.out).map_err(|error| failed(&settings.out, &error))?;
    let queue = queue_of(&out);
    queue.make()?;
    let mut store = open(campaign, text, &settings.out)?;
    let path = campaign_file(&queue);
    fs::write(&path, serde_json::to_string(campaign).expect("plain data"))
        .map_err(|error| failed(&path, &error))?;
    let scratch = if cluster.exclusive { "$SLURMD_NODENAME" } else { "$SLURM_JOB_ID" };
    let task = format!(
        "{} study work --scratch \"{scratch}\" --commit {} {}",
        quote_path(&settings.lockwork),
        quote_path(Path::new(&settings.commit)),
        quote_path(&out)
    );
    let mut slurm = Slurm::new(cluster, queue, &campaign.name, task);
    let description = ask_a_node(&slurm, settings, &out)?;
    store.keep_absent(&description.absent)?;
    let host = Topology { nodes: description.nodes };
    let runs_there =
        |name: &str| !description.absent.iter().any(|(absent, lock, _)| absent == name && lock.is_empty());
    let plan =
        Plan::new(campaign, &host, |application| runs_there(&application.name)).map_err(Error::Campaign)?;
    let mut coordinator = Coordinator {
        campaign,
        settings,
        plan,
        past: store.past()?,
        pace: Pace::new(&store.runs()?),
        store,
        begun: Instant::now(),
    };
    slurm.drive(&mut coordinator)
}

/// Asks one node what it is.
fn ask_a_node(slurm: &Slurm<'_>, settings: &Settings<'_>, out: &Path) -> Result<Description, Error> {
    let (lockwork, out) = (settings.lockwork.display().to_string(), out.display().to_string());
    let said = slurm.on_a_node(vec![lockwork, "study".into(), "work".into(), "--describe".into(), out])?;
    let line = said.lines().last().unwrap_or_default();
    serde_json::from_str(line)
        .map_err(|error| Error::Campaign(format!("srun: a node said `{line}` of itself: {error}")))
}
