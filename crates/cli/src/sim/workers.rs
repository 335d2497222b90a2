//! Many runs on all CPUs of the host: each run by itself, in parallel with others, the results in the order of the
//! requests.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::compare::interrupt;

/// Does `work` for each of the `jobs`, or for those that come before Ctrl-C.
pub(super) fn map<J: Sync, R: Send>(
    jobs: &[J],
    label: &str,
    work: impl Fn(&J) -> R + Sync,
) -> Vec<Option<R>> {
    let next = AtomicUsize::new(0);
    let results: Vec<Mutex<Option<R>>> = jobs.iter().map(|_| Mutex::new(None)).collect();
    let progress = progress_bar(jobs.len() as u64, label);
    let host = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..host.min(jobs.len()) {
            scope.spawn(|| {
                while !interrupt::requested() {
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
