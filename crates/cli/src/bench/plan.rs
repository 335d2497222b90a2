//! What `bench` is to run, checked before anything is started, in the form that `compare` runs.

use std::time::Duration;

use lockwork_locks::registry;
use lockwork_locks::registry::{Choice, DelegateSpec};

use super::args::BenchArgs;
use super::measure::{LOCK_VARIABLE, closures};
use super::options::{Benchmark, Delay, WARM_UP_PART};
use crate::compare::plan::{OwnBenchmark, Plan, any_seed, split_locks};
use crate::error::Failure;
use crate::specs::NO_PRELOAD;
use crate::specs::no_mutex;

/// A plan for every benchmark, in the order of their definition.
pub(super) fn plans(args: &BenchArgs) -> Result<Vec<(Benchmark, Plan)>, Failure> {
    let closures_only = args.benchmarks.iter().all(|benchmark| *benchmark == Benchmark::Closures);
    let closures_only = closures_only && !args.benchmarks.is_empty();
    let locks =
        if closures_only { Vec::new() } else { locks(args.locks.as_deref().unwrap_or(DEFAULT_LOCKS))? };
    if args.timeout <= args.time {
        return Err(Failure::usage(format!(
            "--timeout ({} s) must be longer than --time ({} s); raise it",
            args.timeout.as_secs_f64(),
            args.time.as_secs_f64()
        )));
    }
    let seed = args.seed.unwrap_or_else(any_seed);
    let all = [
        Benchmark::Pair,
        Benchmark::Contend,
        Benchmark::Handoff,
        Benchmark::Trylock,
        Benchmark::Many,
        Benchmark::Closures,
    ];
    all.into_iter()
        .filter(|benchmark| match args.benchmarks.as_slice() {
            // Of delegates, and named for them.
            [] => *benchmark != Benchmark::Closures,
            named => named.contains(benchmark),
        })
        .map(|benchmark| {
            let locks = match benchmark {
                Benchmark::Closures => delegates(args.locks.as_deref())?,
                _ => locks.clone(),
            };
            Ok((benchmark, plan(args, benchmark, locks, seed)?))
        })
        .collect()
}

/// What is measured where nothing is named.
const DEFAULT_LOCKS: &str = "ttas,ticket,mcs-stp,gcr(mcs-stp)";

/// Beside the delegates: the locks under which closures run in place.
const DEFAULT_LOCKED: [&str; 2] = ["locked(cst-mutex)", "locked(mcs-stp)"];

/// The delegates and peers in canonical spelling, `std` first.
fn delegates(text: Option<&str>) -> Result<Vec<String>, Failure> {
    let every = || registry::delegates().map(|delegate| delegate.name.to_owned());
    let mut names = vec![closures::STD.to_owned()];
    match text {
        None => {
            names.extend(closures::PEERS.map(str::to_owned));
            names.extend(every());
            names.extend(DEFAULT_LOCKED.map(str::to_owned));
        }
        Some(text) => {
            for part in split_locks(text, "fc,cc-synch")? {
                match part {
                    "all" => names.extend(every()),
                    peer if closures::PEERS.contains(&peer) => names.push(peer.to_owned()),
                    spec => match DelegateSpec::parse(spec) {
                        Ok(spec) => names.push(spec.to_string()),
                        Err(error) => return Err(Failure::usage(format!("`{spec}`: {error}"))),
                    },
                }
            }
        }
    }
    let mut unique: Vec<String> = Vec::new();
    for name in names {
        if !unique.contains(&name) {
            unique.push(name);
        }
    }
    Ok(unique)
}

fn plan(args: &BenchArgs, benchmark: Benchmark, locks: Vec<String>, seed: u64) -> Result<Plan, Failure> {
    let program = std::env::current_exe()
        .map_err(|error| Failure::with_status(1, format!("cannot find its own program: {error}")))?;
    let counts: Vec<String> = args.counts.iter().map(u32::to_string).collect();
    let words = [
        "lockwork",
        "bench",
        "--measure",
        benchmark.name(),
        "--threads",
        if benchmark.takes_threads() { "{threads}" } else { "2" },
        "--time",
        &args.time.as_secs_f64().to_string(),
        "--delay",
        &args.delay.to_string(),
        "--object",
        args.object.name(),
        "--lines",
        &args.lines.to_string(),
        "--instances",
        &args.instances.to_string(),
        "--counts",
        &counts.join(","),
    ];
    let request = OwnBenchmark {
        name: benchmark.name().to_owned(),
        locks,
        threads: threads(args, benchmark)?,
        metrics: benchmark.metrics(&args.counts),
        runs: args.runs,
        warmup: args.warmup,
        // So that any time-out longer than the time does, whatever warm-up a benchmark has.
        timeout: args.timeout + args.time / WARM_UP_PART,
        seed,
        command: command_line(),
        program,
        words: words.map(str::to_owned).to_vec(),
        commit: args.commit.clone(),
    };
    Plan::of_benchmark(request, LOCK_VARIABLE)
}

/// Threads that contend for one lock that guards one line, with a delay between sections; the first lock is the baseline.
pub(crate) fn contention(
    locks: Vec<String>,
    threads: &[u32],
    delay: Delay,
    time: Duration,
    runs: u32,
) -> Result<Plan, Failure> {
    let program = std::env::current_exe()
        .map_err(|error| Failure::with_status(1, format!("cannot find its own program: {error}")))?;
    let (time_s, delay) = (time.as_secs_f64().to_string(), delay.to_string());
    let words = [
        "lockwork",
        "bench",
        "--measure",
        "contend",
        "--threads",
        "{threads}",
        "--time",
        &time_s,
        "--delay",
        &delay,
        "--lines",
        "1",
    ];
    let request = OwnBenchmark {
        name: Benchmark::Contend.name().to_owned(),
        locks,
        threads: threads.iter().copied().map(Some).collect(),
        metrics: Benchmark::Contend.metrics(&[]),
        runs,
        warmup: 0,
        timeout: time * 20 + Duration::from_secs(10),
        seed: 1,
        command: command_line(),
        program,
        words: words.map(str::to_owned).to_vec(),
        commit: None,
    };
    Plan::of_benchmark(request, LOCK_VARIABLE)
}

/// The command as the user gave it.
pub(crate) fn command_line() -> Vec<String> {
    let given = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    std::iter::once("lockwork".to_owned()).chain(given).collect()
}

/// The thread counts of a benchmark; a hand-off needs two threads.
fn threads(args: &BenchArgs, benchmark: Benchmark) -> Result<Vec<Option<u32>>, Failure> {
    if !benchmark.takes_threads() {
        return Ok(vec![None]);
    }
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let default = [u32::try_from(cpus).unwrap_or(u32::MAX).clamp(2, 10_000)];
    let asked = if args.threads.is_empty() { &default } else { args.threads.as_slice() };
    let fewest = if benchmark == Benchmark::Handoff { 2 } else { 1 };
    let mut threads = Vec::new();
    for &count in asked {
        if count >= fewest && !threads.contains(&Some(count)) {
            threads.push(Some(count));
        }
    }
    if threads.is_empty() {
        return Err(Failure::usage("a hand-off needs two threads: add 2 or more to --threads"));
    }
    Ok(threads)
}

/// The locks in canonical spelling, `pthread` first.
fn locks(text: &str) -> Result<Vec<String>, Failure> {
    let mut names = vec![NO_PRELOAD.to_owned()];
    for part in split_locks(text, "ttas,mcs-stp")? {
        match part {
            NO_PRELOAD => {}
            "all" => names.extend(registry::mutexes().map(|lock| lock.name.to_owned())),
            part => match crate::specs::parse(part)? {
                Choice::Passthrough => {
                    return Err(Failure::usage(
                        "`passthrough` is glibc's lock behind the preloaded library, which `bench` does not use; \
                         write `pthread`",
                    ));
                }
                Choice::Lock(spec) => names.push(spec.to_string()),
                Choice::Rw(_) | Choice::Both(..) | Choice::MutexOnly(_) => return Err(no_mutex(part)),
            },
        }
    }
    let mut unique = Vec::new();
    for name in names {
        if !unique.contains(&name) {
            unique.push(name);
        }
    }
    Ok(unique)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn std_is_the_first_of_what_runs_closures() {
        assert_eq!(delegates(Some("fc,lamlock,fc")).unwrap(), ["std", "fc", "lamlock"]);
        assert_eq!(delegates(None).unwrap().len(), registry::delegates().count() + 5);
        for bad in ["", "mcs-stp", "pthread", "fcc"] {
            assert!(delegates(Some(bad)).is_err(), "{bad}");
        }
    }

    #[test]
    fn pthread_is_the_first_lock_whatever_is_asked_for() {
        assert_eq!(locks("ttas,pthread,ttas").unwrap(), ["pthread", "ttas"]);
        assert_eq!(locks("all").unwrap().len(), registry::mutexes().count() + 1);
        for bad in ["", "ttas,,tas", "passthrough", "ttass"] {
            assert!(locks(bad).is_err(), "{bad}");
        }
    }
}
