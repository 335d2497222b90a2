//! A work list on a Slurm cluster: job arrays as long as there is work, and the units of jobs that are gone put back.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::local::Finish;
use super::queue::{Queue, Unit};
use crate::digest::digest;
use crate::error::Error;

/// How a work list uses a cluster.
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
pub(super) const TRIES: u32 = 3;

/// After so many submissions in a row that did nothing, the work stops: the nodes cannot do it.
const FRUITLESS: u32 = 5;

/// After so many looks in a row that the controller did not answer, the user is told, and after so many the work stops. At five
/// seconds between two looks that is ten minutes: a controller that is started anew answers again before.
const UNANSWERED: u32 = 3;
const GIVE_UP: u32 = 120;

/// What is to be done, and what becomes of the results.
pub(super) trait Ledger {
    /// What a unit is made of.
    type Key: Serialize + DeserializeOwned;

    /// Takes what was handed in out of `done`, and says how many results that were.
    fn collect(&mut self, queue: &Queue) -> Result<usize, Error>;
    /// Whether the result of a key is there.
    fn has(&self, key: &Self::Key) -> bool;
    /// A key is given up: [`TRIES`] jobs vanished with it, this one last.
    fn give_up(&mut self, key: &Self::Key, job: &str) -> Result<(), Error>;
    /// The next units; none when all is done. Called when the list is empty.
    fn refill(&mut self) -> Result<Vec<Vec<Self::Key>>, Error>;
    /// Tells the user how far it is.
    fn tell(&self) -> Result<(), Error>;
    /// Whether no further unit may begin.
    fn is_out_of_budget(&self) -> bool;
    /// Whether the user wants to stop.
    fn is_interrupted(&self) -> bool;
    /// Tells the user something that is no progress.
    fn warn(&self, what: &str);
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

/// A word for the shell.
pub(super) fn quote(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// A cluster at work on a list.
pub(super) struct Slurm<'a> {
    cluster: &'a Cluster,
    pub(super) queue: Queue,
    job_name: String,
    /// What a task executes, for the shell.
    task: String,
    fruitless: u32,
    /// Looks in a row that the controller did not answer.
    unanswered: u32,
}

impl<'a> Slurm<'a> {
    pub(super) fn new(cluster: &'a Cluster, queue: Queue, name: &str, task: String) -> Self {
        let job_name =
            format!("lockwork-{name}-{:08x}", digest(queue.root.as_os_str().as_bytes()) & 0xffff_ffff);
        Slurm { cluster, queue, job_name, task, fruitless: 0, unanswered: 0 }
    }

    fn words(&self, more: &[&str]) -> Vec<String> {
        let exclusive = self.cluster.exclusive.then(|| "--exclusive".to_owned());
        more.iter()
            .map(|word| (*word).to_owned())
            .chain(exclusive)
            .chain(self.cluster.arguments.clone())
            .collect()
    }

    /// Runs a command on one node and gives what it printed.
    pub(super) fn on_a_node(&self, command: Vec<String>) -> Result<String, Error> {
        let mut words = self.words(&["--nodes=1", "--ntasks=1", "--quiet"]);
        words.extend(command);
        ask("srun", &words).map_err(Error::Campaign)
    }

    /// The tasks that wait or run.
    fn tasks(&self) -> Result<BTreeSet<String>, String> {
        let words = ["--noheader", "--array", "--format=%i", "--states=PD,R,CF,S", "--name"];
        let words: Vec<String> =
            words.iter().map(|word| (*word).to_owned()).chain([self.job_name.clone()]).collect();
        let said = ask("squeue", &words)?;
        Ok(said.lines().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect())
    }

    /// The same, or nothing if the controller does not answer just now, which is said if it lasts.
    fn tasks_if_told<L: Ledger>(&mut self, ledger: &L) -> Result<Option<BTreeSet<String>>, Error> {
        let why = match self.tasks() {
            Ok(tasks) => {
                self.unanswered = 0;
                return Ok(Some(tasks));
            }
            Err(why) => why,
        };
        self.unanswered += 1;
        match self.unanswered {
            UNANSWERED => ledger.warn(&format!("{why}; nothing is submitted until it answers")),
            GIVE_UP => {
                return Err(Error::Campaign(format!("{why}; it has not answered {GIVE_UP} times in a row")));
            }
            _ => {}
        }
        Ok(None)
    }

    /// Puts back the units of jobs that are gone. Called when everything handed in before the queue was asked is collected.
    fn recover<L: Ledger>(&self, ledger: &mut L, tasks: &BTreeSet<String>) -> Result<(), Error> {
        for name in self.queue.names("taken")? {
            let Some((unit_name, job)) = name.split_once('@') else { continue };
            if tasks.contains(job) {
                continue;
            }
            let Some(mut unit) = self.queue.read::<Unit<L::Key>>("taken", &name) else { continue };
            // The job may have ended in order between the two looks.
            ledger.collect(&self.queue)?;
            unit.keys.retain(|key| !ledger.has(key));
            unit.tries += 1;
            if unit.tries >= TRIES {
                for key in &unit.keys {
                    ledger.give_up(key, job)?;
                }
            } else if !unit.keys.is_empty() {
                self.queue.write("todo", unit_name, &unit)?;
            }
            self.queue.remove("taken", &name);
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
            &format!("--wrap=exec {}", self.task),
        ]);
        ask("sbatch", &words).map_err(Error::Campaign)?;
        Ok(())
    }

    /// Works until all is done, the user stops it or the budget is used up.
    pub(super) fn drive<L: Ledger>(&mut self, ledger: &mut L) -> Result<Finish, Error> {
        loop {
            // First the tasks that there are, then what was handed in: a task that is gone has handed in all that it will.
            let tasks = self.tasks_if_told(ledger)?;
            if ledger.collect(&self.queue)? > 0 {
                self.fruitless = 0;
            }
            if let Some(tasks) = &tasks {
                self.recover(ledger, tasks)?;
            }
            let (mut todo, taken) = (self.queue.names("todo")?.len(), self.queue.names("taken")?.len());
            let out_of_budget = ledger.is_out_of_budget();
            if out_of_budget {
                for name in self.queue.names("todo")? {
                    self.queue.remove("todo", &name);
                }
                todo = 0;
            }
            ledger.tell()?;
            if todo + taken == 0 {
                let units = ledger.refill()?;
                if units.is_empty() {
                    return Ok(Finish::Complete);
                }
                if out_of_budget {
                    return Ok(Finish::OutOfBudget);
                }
                for (place, keys) in units.into_iter().enumerate() {
                    self.queue.write("todo", &format!("{place:08}"), &Unit { keys, tries: 0 })?;
                }
                continue;
            }
            if ledger.is_interrupted() {
                // The jobs go on; the same command collects what they hand in.
                return Ok(Finish::Interrupted);
            }
            if let Some(tasks) = &tasks {
                self.submit(tasks.len(), todo)?;
            }
            std::thread::sleep(self.cluster.every);
        }
    }
}

/// A path for the shell.
pub(super) fn quote_path(path: &Path) -> String {
    quote(&path.display().to_string())
}
