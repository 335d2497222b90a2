//! The flags of `lockwork bench`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

/// `lockwork bench`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lockwork bench
  lockwork bench pair --locks all
  lockwork bench contend --locks 'ticket,mcs-stp,gcr(mcs-stp)' --threads 2,8,32 --delay 500ns --lines 4
  lockwork bench contend handoff --locks mcs-spin,mcs-stp --runs 9 --json | jq '.benchmarks[].summary'
  lockwork bench many --locks mcs-stp,clh-stp --counts 1,1000,500000
  lockwork bench closures --threads 1,2,8,32 --delay 100ns --lines 5
  lockwork bench closures --object map --locks 'fc,rcl,locked(cst-mutex)' --threads 8

Benchmarks:
  pair     nanoseconds of an uncontended lock and unlock, in a process with a second, idle thread
  contend  threads that lock, touch --lines shared cache lines, each found through the one before, unlock, and
           pause for --delay: throughput, latency of the acquisition, unfairness factor (share of the operations
           done by the upper half of the threads), Jain's index
  handoff  time from an unlock to the acquisition by a thread that waited for it; needs two threads
  trylock  a storm of trylocks: attempts per second and the share that succeeds
  many     time of the first lock and unlock, and resident memory, for each of --counts locks
  closures sections handed to delegates, beside std::sync::Mutex (`std`, what they are compared with), parking_lot and lamlock:
           throughput, latency of the requester, and the time that a cache line takes between two threads; only
           when it is named

Every run has a process of its own, without the preloaded library, and takes --time (`many`: as
long as its work takes). Rounds are interleaved over locks and thread counts; `pthread` is
always among the locks and what they are compared with. A run that is not over after --timeout
makes its cell `collapsed`.")]
pub(crate) struct BenchArgs {
    /// Which benchmarks [default: all]
    #[arg(value_name = "NAME", value_enum, hide_possible_values = true)]
    pub(crate) benchmarks: Vec<super::options::Benchmark>,
    /// The locks, separated by commas; `all` means every lock of `lockwork list` without a wrapper. For closures: delegates,
    /// std, parking_lot, lamlock [default: ttas,ticket,mcs-stp,gcr(mcs-stp); for closures all]
    #[arg(long, short, value_name = "A,B,…")]
    pub(crate) locks: Option<String>,
    /// Thread counts of contend, closures, handoff and trylock, separated by commas [default: as many as CPUs, at least 2]
    #[arg(long, short, value_name = "N,…", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) threads: Vec<u32>,
    /// Measured rounds: how often each lock runs at each thread count; a verdict takes 6
    #[arg(long, short = 'n', value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) runs: u32,
    /// Rounds before those, not counted
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(0..=1000))]
    pub(crate) warmup: u32,
    /// Seconds that a run measures; of contend and closures after a tenth of that, in which all threads come
    #[arg(long, value_name = "SECS", default_value = "0.3", value_parser = crate::values::seconds)]
    pub(crate) time: std::time::Duration,
    /// Seconds after which a run is killed and counts as collapsed; more than --time
    #[arg(long, value_name = "SECS", default_value = "30", value_parser = crate::values::seconds)]
    pub(crate) timeout: std::time::Duration,
    /// What a thread of contend, closures and trylock does between two operations: pauses (100) or a time (500ns, 2us)
    #[arg(long, value_name = "PAUSES|TIME", default_value = "0")]
    pub(crate) delay: super::options::Delay,
    /// What a section of closures works on: --lines cache lines, a counter, a hash map, a priority queue (heap) or a FIFO queue
    #[arg(long, value_name = "OBJECT", value_enum, default_value_t = super::options::Object::Lines)]
    pub(crate) object: super::options::Object,
    /// Shared cache lines that a section of contend or closures writes
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub(crate) lines: u32,
    /// Locks or delegates in use at once in contend and closures, chosen at random for every operation
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub(crate) instances: u32,
    /// How many locks `many` makes, separated by commas
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "1,1000,500000", value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    pub(crate) counts: Vec<u32>,
    /// The seed of the order of runs and of the bootstrap
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// The version of what is measured, such as `git describe --always --dirty` says it: kept in meta.json
    #[arg(long, value_name = "VERSION")]
    pub(crate) commit: Option<String>,
    /// Where a directory for each benchmark goes, with report.html, table.txt, meta.json, runs.csv and results.json
    #[arg(long, short, value_name = "DIR", default_value = "lockwork-bench", value_hint = ValueHint::DirPath)]
    pub(crate) out: PathBuf,
    /// Write no files
    #[arg(long, conflicts_with = "out")]
    pub(crate) no_report: bool,
    /// Print one JSON document on stdout in place of the tables
    #[arg(long)]
    pub(crate) json: bool,
    /// Be the process of one run: the lock is named by the environment, figures go to stdout
    #[arg(long, hide = true)]
    pub(crate) measure: bool,
}
