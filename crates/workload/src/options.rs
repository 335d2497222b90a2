//! The command line.

use clap::Parser;
use std::time::Duration;

/// Operations a run does when neither `--ops` nor `--seconds` is given.
const DEFAULT_OPS: u64 = 1_000_000;

const EXAMPLES: &str = "\
Examples:
  The same work shared by 8 threads, then under another lock:
    lockwork-avl --threads 8 --ops 2000000
    lockwork run --lock 'gcr(mcs-stp)' -- lockwork-avl --threads 8 --ops 2000000

  Fairness over two seconds, for a program to read:
    lockwork-avl --threads 8 --seconds 2 --json

  Many locks and thread counts at once:
    lockwork compare --locks pthread,ticket,'gcr(ticket)' --threads 2,8,32 \\
        --metric 'ops/sec: ([0-9.]+)' --higher-is-better -- lockwork-avl --threads {threads}

  Reader-writer locks, with one write in ten operations:
    lockwork run --lock cst-rwsem -- lockwork-avl --hash --rwlock --lookup-percent 90 --threads 32";

/// Measures a key-value map behind one POSIX lock.
///
/// The microbenchmark of the GCR paper (Dice and Kogan, Euro-Par 2019, section 6.1): threads look up,
/// insert and remove random keys of one AVL tree under one mutex, with some work of their own in between.
/// With --hash the map is a hash table, with --rwlock its lock a reader-writer lock that look-ups share.
/// Run it under `lockwork run` to try a lock on it. Exits with 1 when the lock let two threads in.
#[derive(Debug, Clone, Parser)]
#[command(name = "lockwork-avl", version, after_help = EXAMPLES)]
pub(crate) struct Options {
    /// Threads that share the map
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) threads: u32,

    /// Operations in all, shared evenly by the threads [default: 1000000]
    #[arg(long, value_name = "TOTAL", conflicts_with = "seconds", value_parser = clap::value_parser!(u64).range(1..))]
    ops: Option<u64>,

    /// Run for this long instead of for a number of operations
    #[arg(long, value_name = "S", value_parser = parse_seconds)]
    seconds: Option<Duration>,

    /// Number of different keys; half of them are in the map at the start
    #[arg(long, value_name = "KEYS", default_value_t = 4096, value_parser = clap::value_parser!(u32).range(2..=1 << 24))]
    pub(crate) range: u32,

    /// Share of look-ups; the rest is insertions and removals, half and half
    #[arg(long, value_name = "PERCENT", default_value_t = 80, value_parser = clap::value_parser!(u32).range(0..=100))]
    pub(crate) lookup_percent: u32,

    /// Pseudo-random numbers that a thread computes between two operations
    #[arg(long, value_name = "NUMBERS", default_value_t = 500)]
    pub(crate) external_work: u32,

    /// Keep the keys in a hash table in place of the tree: shorter critical sections
    #[arg(long)]
    pub(crate) hash: bool,

    /// Use a reader-writer lock in place of the mutex; look-ups take it as readers
    #[arg(long)]
    pub(crate) rwlock: bool,

    /// Print the result as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// What ends a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Extent {
    /// This many operations by all threads together.
    Operations(u64),
    /// The end of an operation after this time.
    Time(Duration),
}

impl Options {
    /// What ends the run.
    pub(crate) fn extent(&self) -> Extent {
        match self.seconds {
            Some(time) => Extent::Time(time),
            None => Extent::Operations(self.ops.unwrap_or(DEFAULT_OPS)),
        }
    }
}

fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 =
        text.parse().map_err(|_| "expected a number of seconds such as 2 or 0.5".to_owned())?;
    match Duration::try_from_secs_f64(seconds) {
        Ok(time) if !time.is_zero() && time < Duration::from_secs(86_400) => Ok(time),
        _ => Err("expected more than 0 and less than 86400 seconds".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::{Extent, Options};
    use clap::{CommandFactory, Parser};
    use std::time::Duration;

    #[test]
    fn the_command_line_is_consistent() {
        Options::command().debug_assert();
    }

    #[test]
    fn a_run_ends_by_operations_unless_seconds_are_given() {
        let extent = |args: &[&str]| Options::try_parse_from([&["avl"], args].concat()).map(|o| o.extent());
        assert_eq!(extent(&[]).unwrap(), Extent::Operations(1_000_000));
        assert_eq!(extent(&["--ops", "5"]).unwrap(), Extent::Operations(5));
        assert_eq!(extent(&["--seconds", "0.5"]).unwrap(), Extent::Time(Duration::from_millis(500)));
        for bad in ["0", "-1", "nan", "inf", "1e9", "soon"] {
            assert!(extent(&["--seconds", bad]).is_err(), "{bad}");
        }
        assert!(extent(&["--ops", "5", "--seconds", "1"]).is_err());
    }
}
