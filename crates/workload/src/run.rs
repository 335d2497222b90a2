//! The benchmark: threads that operate on one map under one lock.

use crate::lock::PosixLock;
use crate::map::Map;
use crate::options::{Extent, Options};
use crate::rng::Rng;
use hdrhistogram::Histogram;
use std::sync::{Barrier, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

/// Latencies above this are recorded as this.
const MAX_LATENCY: Duration = Duration::from_secs(3600);

/// What one thread did.
#[derive(Debug)]
pub(crate) struct ThreadResult {
    /// Operations done.
    pub(crate) operations: u64,
    /// Nanoseconds that each operation took, waiting for the lock included.
    pub(crate) latency: Histogram<u64>,
    /// When the last operation ended.
    end: Instant,
    /// Keys added to the map minus keys removed.
    growth: i64,
}

/// What all threads did.
#[derive(Debug)]
pub(crate) struct RunResult {
    /// One entry a thread.
    pub(crate) threads: Vec<ThreadResult>,
    /// From the common start to the end of the last operation.
    pub(crate) wall: Duration,
}

/// What the threads share.
struct Shared<'a> {
    options: &'a Options,
    map: PosixLock<Map>,
    // The standard library's barrier and cell wait on futexes, never on the lock under test.
    ready: Barrier,
    start: OnceLock<Instant>,
}

/// Runs the benchmark.
///
/// # Errors
/// When a thread cannot be started, or the map is damaged afterwards: the lock did not exclude.
pub(crate) fn run(options: &Options) -> Result<RunResult, String> {
    let map = prefilled(options.hash, options.range);
    let prefill = map.len();
    let shared = Shared {
        options,
        map: if options.rwlock { PosixLock::rwlock(map) } else { PosixLock::mutex(map) },
        ready: Barrier::new(options.threads as usize),
        start: OnceLock::new(),
    };
    let threads = run_threads(&shared)?;
    let start = *shared.start.get().expect("a thread sets the start before it ends");
    let wall = threads.iter().map(|t| t.end.duration_since(start)).max().unwrap_or_default();

    let growth: i64 = threads.iter().map(|t| t.growth).sum();
    check(&shared.map.into_inner(), prefill as i64 + growth)
        .map_err(|damage| format!("the lock let two threads in at once: {damage}"))?;
    Ok(RunResult { threads, wall })
}

/// A map with every other key of the range, added in random order.
fn prefilled(hash: bool, range: u32) -> Map {
    let mut map = Map::with_capacity(hash, range as usize);
    let mut keys: Vec<u64> = (0..u64::from(range)).step_by(2).collect();
    let mut rng = Rng::new(u64::MAX - 1);
    while !keys.is_empty() {
        let key = keys.swap_remove(rng.below(keys.len() as u32) as usize);
        map.insert(key, value_of(key));
    }
    map
}

/// The value that belongs to a key, so that a look-up can tell a wrong one.
fn value_of(key: u64) -> u64 {
    !key
}

fn check(map: &Map, expected_len: i64) -> Result<(), String> {
    map.check()?;
    if map.len() as i64 != expected_len {
        return Err(format!("the map has {} entries, its users count {expected_len}", map.len()));
    }
    Ok(())
}

fn run_threads(shared: &Shared<'_>) -> Result<Vec<ThreadResult>, String> {
    thread::scope(|scope| {
        let mut handles = Vec::new();
        for index in 0..shared.options.threads {
            let builder = thread::Builder::new().name(format!("avl-{index}"));
            match builder.spawn_scoped(scope, move || run_thread(shared, index)) {
                Ok(handle) => handles.push(handle),
                Err(error) => {
                    // The threads already started wait at the barrier and could not be joined.
                    eprintln!("lockwork-avl: cannot start thread {index}: {error}");
                    std::process::exit(1);
                }
            }
        }
        handles.into_iter().map(|handle| handle.join().map_err(|_| "a thread panicked".to_owned())).collect()
    })
}

fn run_thread(shared: &Shared<'_>, index: u32) -> ThreadResult {
    let options = shared.options;
    let mut rng = Rng::new(u64::from(index));
    let max = MAX_LATENCY.as_nanos() as u64;
    let latency = Histogram::new_with_bounds(1, max, 3).expect("the bounds are valid");
    let (share, deadline) = match options.extent() {
        Extent::Operations(total) => (share_of(total, options.threads, index), None),
        Extent::Time(time) => (u64::MAX, Some(time)),
    };

    shared.ready.wait();
    let start = *shared.start.get_or_init(Instant::now);
    let mut result = ThreadResult { operations: 0, latency, end: start, growth: 0 };
    while result.operations < share && deadline.is_none_or(|time| result.end.duration_since(start) < time) {
        let begin = Instant::now();
        result.growth += operate(shared, &mut rng);
        result.end = Instant::now();
        let nanos = result.end.duration_since(begin).as_nanos() as u64;
        result.latency.saturating_record(nanos.max(1));
        result.operations += 1;
        for _ in 0..options.external_work {
            std::hint::black_box(rng.next());
        }
    }
    result
}

/// One operation on the map; returns by how many entries the map grew.
fn operate(shared: &Shared<'_>, rng: &mut Rng) -> i64 {
    let key = u64::from(rng.below(shared.options.range));
    let kind = rng.below(200);
    let lookups = 2 * shared.options.lookup_percent;
    if kind < lookups {
        let found = shared.map.read(|map| map.get(key));
        assert!(found.is_none_or(|value| value == value_of(key)), "the lock let two threads in at once");
        0
    } else if (kind - lookups).is_multiple_of(2) {
        shared.map.write(|map| i64::from(map.insert(key, value_of(key)).is_none()))
    } else {
        shared.map.write(|map| -i64::from(map.remove(key).is_some()))
    }
}

/// The part of `total` operations that thread `index` of `threads` does.
fn share_of(total: u64, threads: u32, index: u32) -> u64 {
    let threads = u64::from(threads);
    total / threads + u64::from(u64::from(index) < total % threads)
}

#[cfg(test)]
mod tests {
    use super::{check, prefilled, run, share_of};
    use crate::options::Options;
    use clap::Parser;

    fn options(args: &str) -> Options {
        Options::parse_from(["lockwork-avl"].into_iter().chain(args.split_whitespace()))
    }

    #[test]
    fn shares_add_up_to_the_total() {
        for (total, threads) in [(10, 3), (2, 5), (1_000_000, 32)] {
            let shares: Vec<u64> = (0..threads).map(|index| share_of(total, threads, index)).collect();
            assert_eq!(shares.iter().sum::<u64>(), total);
            assert!(shares.iter().max().unwrap() - shares.iter().min().unwrap() <= 1, "{shares:?}");
        }
    }

    #[test]
    fn half_of_the_range_is_there_at_the_start() {
        let map = prefilled(false, 4096);
        assert_eq!(map.len(), 2048);
        check(&map, 2048).unwrap();
        assert!(check(&map, 2047).is_err());
    }

    #[test]
    fn a_run_does_all_operations_once() {
        let result = run(&options("--threads 3 --ops 10000 --external-work 0")).unwrap();
        let done: Vec<u64> = result.threads.iter().map(|t| t.operations).collect();
        assert_eq!(done, [3334, 3333, 3333]);
        assert!(result.threads.iter().all(|t| t.latency.len() == t.operations));
        assert!(!result.wall.is_zero());
    }

    #[test]
    fn look_ups_alone_leave_the_map_as_it_was() {
        let result = run(&options("--threads 2 --ops 5000 --lookup-percent 100")).unwrap();
        assert!(result.threads.iter().all(|t| t.growth == 0));
    }

    #[test]
    fn a_hash_table_and_a_reader_writer_lock_do_the_same_work() {
        let growth = |args: &str| {
            let result = run(&options(&format!("--threads 1 --ops 20000 --external-work 0 {args}"))).unwrap();
            result.threads.iter().map(|t| t.growth).sum::<i64>()
        };
        let tree = growth("");
        assert_eq!([growth("--hash"), growth("--rwlock"), growth("--hash --rwlock")], [tree; 3]);
        run(&options("--threads 4 --ops 20000 --external-work 0 --hash --rwlock --lookup-percent 50"))
            .unwrap();
    }

    #[test]
    fn a_timed_run_lasts_as_long_as_asked() {
        let result = run(&options("--threads 2 --seconds 0.05")).unwrap();
        assert!(result.wall.as_millis() >= 50);
    }
}
