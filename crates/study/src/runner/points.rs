//! Points on a Slurm cluster: work that is known beforehand, each point by its place in a list, independent of the others.
//!
//! The coordinator and its tasks are the same command line and make the same list; what is left of the list goes into the
//! work list of a directory that all nodes share.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::cluster::{Cluster, Ledger, Slurm, quote};
use super::local::{Finish, Hold};
use super::queue::{Queue, failed, job};
use crate::error::Error;

/// Points that a cluster works off.
#[derive(Debug)]
pub struct Points<'a> {
    /// The directory that all nodes share; `queue` in it is the work list.
    pub out: &'a Path,
    /// What these points are: their job is called so.
    pub name: &'a str,
    /// The command of a task, which begins with the program.
    pub command: &'a [String],
    /// How many points the list has.
    pub count: usize,
    /// The points that are to be made.
    pub wanted: &'a [usize],
    /// Where.
    pub cluster: &'a Cluster,
}

/// What the work list of a directory is of.
#[derive(Debug, PartialEq, Serialize, serde::Deserialize)]
struct Origin {
    command: Vec<String>,
    count: usize,
}

const ORIGIN: &str = "points.json";

/// At most so many points are a unit: that is what a task takes at a time, and what a node that dies sets back.
const LARGEST_UNIT: usize = 16;

fn queue_of(out: &Path) -> Queue {
    Queue { root: out.join("queue") }
}

fn file_of(point: usize) -> String {
    format!("{point:08}.json")
}

struct Coordinator<'a, R, S> {
    points: &'a Points<'a>,
    results: Vec<bool>,
    lost: Vec<String>,
    sink: S,
    interrupted: &'a dyn Fn() -> bool,
    progress: &'a dyn Fn(usize),
    warn: &'a dyn Fn(&str),
    result: std::marker::PhantomData<R>,
}

impl<R, S> Ledger for Coordinator<'_, R, S>
where
    R: DeserializeOwned,
    S: FnMut(usize, R) -> Result<(), Error>,
{
    type Key = usize;

    /// Results stay in `done`, where a coordinator that starts anew finds them.
    fn collect(&mut self, queue: &Queue) -> Result<usize, Error> {
        let mut collected = 0;
        for name in queue.names("done")? {
            let point = name.trim_end_matches(".json").parse::<usize>().ok();
            let Some(point) = point.filter(|point| self.results.get(*point) == Some(&false)) else {
                continue;
            };
            let Some(result) = queue.read::<R>("done", &name) else { continue };
            (self.sink)(point, result)?;
            self.results[point] = true;
            collected += 1;
        }
        Ok(collected)
    }

    fn has(&self, point: &usize) -> bool {
        self.results.get(*point).copied().unwrap_or(true)
    }

    fn give_up(&mut self, point: &usize, job: &str) -> Result<(), Error> {
        self.results[*point] = true;
        self.lost.push(job.to_owned());
        Ok(())
    }

    fn refill(&mut self) -> Result<Vec<Vec<usize>>, Error> {
        let left: Vec<usize> =
            self.points.wanted.iter().copied().filter(|point| !self.results[*point]).collect();
        // Eight units for each task, so that they end together.
        let unit = (left.len() / (8 * self.points.cluster.jobs)).clamp(1, LARGEST_UNIT);
        Ok(left.chunks(unit).map(<[usize]>::to_vec).collect())
    }

    fn tell(&self) -> Result<(), Error> {
        let made = self.points.wanted.iter().filter(|point| self.results[**point]).count();
        (self.progress)(made);
        Ok(())
    }

    fn is_out_of_budget(&self) -> bool {
        false
    }

    fn is_interrupted(&self) -> bool {
        (self.interrupted)()
    }

    fn warn(&self, what: &str) {
        (self.warn)(what);
    }
}

impl Points<'_> {
    /// Has the points made and gives each result to `sink` as it comes; `progress` is told how many there are, and `warn`
    /// what the user should know meanwhile.
    ///
    /// # Errors
    ///
    /// If Slurm refuses, the nodes cannot do the work, or `sink` refuses.
    pub fn scatter<R: DeserializeOwned>(
        &self,
        sink: impl FnMut(usize, R) -> Result<(), Error>,
        interrupted: &dyn Fn() -> bool,
        progress: &dyn Fn(usize),
        warn: &dyn Fn(&str),
    ) -> Result<Finish, Error> {
        let _hold = Hold::take(self.out)?;
        let out = fs::canonicalize(self.out).map_err(|error| failed(self.out, &error))?;
        let queue = queue_of(&out);
        queue.make()?;
        self.claim(&queue)?;
        let words: Vec<String> = self.command.iter().map(|word| quote(word)).collect();
        let mut slurm = Slurm::new(self.cluster, queue, self.name, words.join(" "));
        // What is not wanted counts as there.
        let mut results = vec![true; self.count];
        self.wanted.iter().for_each(|point| results[*point] = false);
        let mut coordinator = Coordinator {
            points: self,
            results,
            lost: Vec::new(),
            sink,
            interrupted,
            progress,
            warn,
            result: std::marker::PhantomData,
        };
        let finish = slurm.drive(&mut coordinator)?;
        if !coordinator.lost.is_empty() {
            return Err(Error::Campaign(format!(
                "{} points are lost, as the jobs that had them vanished again and again, the last was {}: see {}; the same command \
                 tries them again",
                coordinator.lost.len(),
                coordinator.lost.last().map_or("", String::as_str),
                slurm.queue.directory("log").display()
            )));
        }
        if finish == Finish::Complete {
            fs::remove_dir_all(&slurm.queue.root).map_err(|error| failed(&slurm.queue.root, &error))?;
        }
        Ok(finish)
    }

    /// Sees that the work list is of this list of points, whose places its files go by.
    fn claim(&self, queue: &Queue) -> Result<(), Error> {
        let own = Origin { command: self.command.to_vec(), count: self.count };
        match queue.read::<Origin>(".", ORIGIN) {
            Some(other) if other != own => Err(Error::Campaign(format!(
                "{} has the work list of another command, `{}`: end that, remove the list, or take another directory by --out",
                queue.root.display(),
                other.command.join(" ")
            ))),
            Some(_) => Ok(()),
            None => queue.write(".", ORIGIN, &own),
        }
    }
}

/// A task: makes points of the work list in `out`, until it is empty.
///
/// # Errors
///
/// If there is no such list, it is of other points, or a result cannot be handed in.
pub fn make_points<R: Serialize>(
    out: &Path,
    count: usize,
    interrupted: &dyn Fn() -> bool,
    make: impl Fn(usize) -> R,
) -> Result<(), Error> {
    let queue = queue_of(out);
    let origin: Origin = queue.read(".", ORIGIN).ok_or_else(|| {
        Error::Campaign(format!("{}: no work list", PathBuf::from(&queue.root).join(ORIGIN).display()))
    })?;
    if origin.count != count {
        return Err(Error::Campaign(format!(
            "the work list has {} points, and this command makes {count}: are these two versions of lockwork?",
            origin.count
        )));
    }
    let job = job();
    while let Some((name, unit)) = queue.take::<usize>(&job)? {
        for point in unit.keys {
            if queue.has_done(&file_of(point)) {
                continue;
            }
            if interrupted() {
                return Ok(());
            }
            queue.write("done", &file_of(point), &make(point))?;
        }
        queue.remove("taken", &name);
    }
    Ok(())
}
