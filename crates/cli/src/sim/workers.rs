//! Many runs, each by itself: on all CPUs of the host, or on a cluster.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use clap::{Args, ValueHint};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use lockwork_study::{Cluster, Points, make_points};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::cluster::ClusterArgs;
use crate::compare::interrupt;
use crate::error::Failure;
use crate::terminal::say;

/// Where the runs are made.
#[derive(Debug, Args)]
pub(crate) struct PlaceArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Only what the work list in this directory asks for: what the jobs of --on slurm start
    #[arg(long, value_name = "DIR", hide = true, value_hint = ValueHint::DirPath)]
    task: Option<PathBuf>,
}

/// Where the runs are made, as far as it can be done.
#[derive(Debug)]
pub(super) enum Place {
    Here,
    /// By the tasks of a cluster, by way of a directory that all nodes share.
    Cluster(Cluster, PathBuf),
    /// By this process, which is such a task of the work list in a directory.
    Task(PathBuf),
}

impl PlaceArgs {
    /// `out` is the directory that the command writes into.
    pub(super) fn at(&self, out: Option<&Path>) -> Result<Place, Failure> {
        match (&self.task, self.cluster.cluster(false), out) {
            (Some(directory), ..) => Ok(Place::Task(directory.clone())),
            (None, None, _) => Ok(Place::Here),
            (None, Some(cluster), Some(out)) => Ok(Place::Cluster(cluster, out.to_owned())),
            (None, Some(_), None) => Err(Failure::usage(
                "--on slurm needs --out with a directory that all nodes of the cluster share",
            )),
        }
    }
}

impl Place {
    /// Whether this process is a task of a cluster, which reports nothing itself.
    pub(super) fn is_task(&self) -> bool {
        matches!(self, Place::Task(_))
    }
}

/// Does `work` for the `wanted` of the `jobs`, or for those that come before Ctrl-C, and gives each result to `keep` as it comes.
/// The list of all jobs must follow from the command line alone: tasks of a cluster make it, too.
pub(super) fn each<J: Sync, R: Send + Serialize + DeserializeOwned>(
    place: &Place,
    jobs: &[J],
    wanted: &[usize],
    label: &str,
    work: impl Fn(&J) -> R + Sync,
    keep: impl FnMut(usize, R) -> Result<(), Failure> + Send,
) -> Result<(), Failure> {
    match place {
        Place::Here => here(jobs, wanted, label, work, keep),
        Place::Cluster(cluster, out) => scatter(cluster, out, jobs.len(), wanted, label, keep),
        Place::Task(directory) => {
            make_points(directory, jobs.len(), &interrupt::requested, |index| work(&jobs[index]))
                .map_err(|error| Failure::with_status(1, error))
        }
    }
}

fn here<J: Sync, R: Send>(
    jobs: &[J],
    wanted: &[usize],
    label: &str,
    work: impl Fn(&J) -> R + Sync,
    keep: impl FnMut(usize, R) -> Result<(), Failure> + Send,
) -> Result<(), Failure> {
    let keep = Mutex::new(keep);
    // Results that cannot be kept are not worth making.
    let is_kept = AtomicBool::new(true);
    let goes_on = || is_kept.load(Ordering::Relaxed);
    let kept = map_while(wanted, label, goes_on, |&index| {
        let result = work(&jobs[index]);
        let kept = (keep.lock().unwrap_or_else(PoisonError::into_inner))(index, result);
        if kept.is_err() {
            is_kept.store(false, Ordering::Relaxed);
        }
        kept
    });
    kept.into_iter().flatten().collect()
}

fn scatter<R: DeserializeOwned>(
    cluster: &Cluster,
    out: &Path,
    count: usize,
    wanted: &[usize],
    label: &str,
    mut keep: impl FnMut(usize, R) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let refuse = |error: std::io::Error| Failure::with_status(1, format!("`{}`: {error}", out.display()));
    std::fs::create_dir_all(out).map_err(refuse)?;
    let out = std::fs::canonicalize(out).map_err(refuse)?;
    let program = std::env::current_exe().map_err(refuse)?;
    let mut command = vec![program.display().to_string()];
    command.extend(std::env::args().skip(1));
    command.extend(["--task".to_owned(), out.display().to_string()]);
    let points = Points { out: &out, name: "sim", command: &command, count, wanted, cluster };
    let bar = progress_bar(wanted.len() as u64, label);
    let mut refusal = None;
    let sink = |index, result| {
        keep(index, result).map_err(|failure| {
            let said = lockwork_study::Error::Campaign(failure.to_string());
            refusal = Some(failure);
            said
        })
    };
    let progress = |made: usize| bar.set_position(made as u64);
    let warn = |what: &str| bar.suspend(|| say!("{what}"));
    let finish = points.scatter(sink, &interrupt::requested, &progress, &warn);
    bar.finish_and_clear();
    match (finish, refusal) {
        (_, Some(failure)) => Err(failure),
        (Err(error), None) => Err(Failure::with_status(1, error)),
        (Ok(_), None) => Ok(()),
    }
}

/// Does `work` for each of the `jobs`, or for those that come before Ctrl-C, on this host; the results are in the order of the jobs.
pub(super) fn map<J: Sync, R: Send>(
    jobs: &[J],
    label: &str,
    work: impl Fn(&J) -> R + Sync,
) -> Vec<Option<R>> {
    map_while(jobs, label, || true, work)
}

/// The same, as long as it `goes_on`.
fn map_while<J: Sync, R: Send>(
    jobs: &[J],
    label: &str,
    goes_on: impl Fn() -> bool + Sync,
    work: impl Fn(&J) -> R + Sync,
) -> Vec<Option<R>> {
    let next = AtomicUsize::new(0);
    let results: Vec<Mutex<Option<R>>> = jobs.iter().map(|_| Mutex::new(None)).collect();
    let progress = progress_bar(jobs.len() as u64, label);
    let host = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..host.min(jobs.len()) {
            scope.spawn(|| {
                while !interrupt::requested() && goes_on() {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(job) = jobs.get(index) else { return };
                    let result = work(job);
                    *results[index].lock().expect("nobody panics with it") = Some(result);
                    progress.inc(1);
                }
            });
        }
    });
    progress.finish_and_clear();
    results.into_iter().map(|result| result.into_inner().expect("nobody panics with it")).collect()
}

fn progress_bar(length: u64, label: &str) -> ProgressBar {
    // Hidden by itself when stderr is no terminal.
    let bar = ProgressBar::with_draw_target(Some(length), ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} runs, about {eta} left: {msg}") {
        bar.set_style(style);
    }
    bar.set_message(label.to_owned());
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_that_cannot_be_kept_ends_the_work() {
        const JOBS: usize = 10_000;
        let jobs: Vec<usize> = (0..JOBS).collect();
        let made = AtomicUsize::new(0);
        let work = |job: &usize| {
            made.fetch_add(1, Ordering::Relaxed);
            std::thread::sleep(std::time::Duration::from_micros(100));
            *job
        };
        let keep = |index, _| {
            if index == 20 { Err(Failure::with_status(1, "the disk is full")) } else { Ok(()) }
        };
        let failure = each(&Place::Here, &jobs, &jobs, "test", work, keep).unwrap_err();
        assert_eq!(failure.to_string(), "the disk is full");
        let made = made.load(Ordering::Relaxed);
        assert!((21..JOBS / 2).contains(&made), "{made} were made");
    }
}
