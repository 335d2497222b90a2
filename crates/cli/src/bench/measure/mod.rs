//! The process of one run: measures one lock and prints its figures, a line `name: value` for each.
//!
//! Threads work for a fixed time and look at a stop flag after every operation; one that never comes back from its
//! lock is the parent's concern, whose time-out kills this process.

pub(super) mod closures;
mod contend;
mod crew;
mod done;
mod glibc;
mod handoff;
mod locks;
mod many;
mod objects;
mod pair;
mod trylock;

use std::fmt::Write;
use std::process::ExitCode;

use hdrhistogram::Histogram;

use super::options::Benchmark;
use crate::bench::args::BenchArgs;
use crate::error::Failure;
use crate::monitor;
use crate::terminal;
use locks::{Padded, Subject};

/// The environment variable that names the lock.
pub(super) const LOCK_VARIABLE: &str = lockwork_config::BENCH_LOCK.name;

/// Locks whose waiters want to know which threads run, by a part of the name.
const AWARE: [&str; 2] = ["-aware", "flexguard"];

/// What a run found, by name.
type Figures = Vec<(String, f64)>;

/// Measures.
pub(super) fn main(args: &BenchArgs) -> Result<ExitCode, Failure> {
    let name = std::env::var(LOCK_VARIABLE)
        .map_err(|_| Failure::usage("--measure is for `lockwork bench` itself: leave it out"))?;
    let threads = args.threads.first().copied().unwrap_or(2);
    let benchmark = args.benchmarks.first().copied().unwrap_or(Benchmark::Pair);
    if benchmark == Benchmark::Closures {
        let closures = closures::Closures {
            threads,
            time: args.time,
            delay: args.delay,
            object: args.object,
            lines: args.lines as usize,
            instances: args.instances as usize,
        };
        return print(closures.run(&name)?);
    }
    let subject = Subject::parse(&name)?;
    if AWARE.iter().any(|aware| name.contains(aware)) {
        monitor::tell_who_runs();
    }
    let figures = match benchmark {
        Benchmark::Pair => subject.run(&pair::Pair { time: args.time }),
        Benchmark::Contend => subject.run(&contend::Contend {
            threads,
            time: args.time,
            delay: args.delay,
            lines: args.lines as usize,
            instances: args.instances as usize,
        }),
        Benchmark::Handoff => subject.run(&handoff::Handoff { threads, time: args.time }),
        Benchmark::Trylock => subject.run(&trylock::Trylock { threads, time: args.time, delay: args.delay }),
        Benchmark::Many => subject.run(&many::Many { counts: args.counts.clone() }),
        Benchmark::Closures => unreachable!("measured above"),
    };
    print(figures.map_err(|message| Failure::with_status(1, message))?)
}

fn print(figures: Figures) -> Result<ExitCode, Failure> {
    let mut text = String::new();
    for (name, value) in figures {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{name}: {value}");
    }
    terminal::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn figure(name: &str, value: f64) -> (String, f64) {
    (name.to_owned(), value)
}

/// Nanoseconds, up to an hour.
fn histogram() -> Histogram<u64> {
    const HOUR: u64 = 3_600_000_000_000;
    Histogram::new_with_bounds(1, HOUR, 3).expect("the bounds are valid")
}

/// All threads' latencies in one.
fn merged<'a>(parts: impl IntoIterator<Item = &'a Histogram<u64>>) -> Histogram<u64> {
    let mut all = histogram();
    for part in parts {
        all.add(part).expect("the bounds are the same");
    }
    all
}

/// What to say when the guarded counters do not agree with those of the threads.
fn not_exclusive(guarded: u64, counted: u64) -> String {
    format!("the lock let two threads in at once: {guarded} operations under it, {counted} by its users")
}
