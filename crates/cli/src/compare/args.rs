//! The flags of `lockwork compare`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

/// `lockwork compare`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lockwork compare --locks pthread,ttas,mcs-stp -- ./bench
  lockwork compare --locks 'pthread,ticket,gcr(ticket)' --threads 2,8,32 --runs 7 --timeout 20 \\
      -- db_bench --benchmarks=readrandom --threads={threads} --reads={800000/threads}
  lockwork compare --locks pthread,mcs-stp --threads 8 \\
      --metric '+throughput=([\\d.]+) ops/sec' --metric '-p99=P99: ([\\d.]+)' -- ./bench {threads}
  lockwork compare --locks mcs-stp,ticket --libraries old=/tmp/liblockwork.so,new=target/release/liblockwork.so \\
      -- ./bench
  lockwork compare --delegates 'locked(mcs-stp),cc-synch,rcl' --original './bench ./server.before' \\
      --metric '+rate=([\\d.]+) requests/s' -- ./bench ./server
  lockwork compare --report-from lockwork-report
  lockwork compare --coverage results              how often each lock is among the best, over saved comparisons

Runs are interleaved: every round runs each lock and thread count once, in an order shuffled by
the seed. `pthread` runs without Lockwork; `passthrough` runs with it, but forwards everything
to glibc. In CMD, {threads} is the number of threads, and {800000/threads} or {min(threads,16)}
what one expects; {{ and }} are literal braces. A run that hits the time-out makes its cell
`collapsed`, one that crashes or prints no metric makes it `failed`; neither is averaged away.")]
pub(crate) struct CompareArgs {
    /// The locks, separated by commas; `all` means every lock of `lockwork list` without a wrapper. `cst-mutex` serves
    /// reader-writer locks, too, by rw-futex; `cst-mutex+pthread` and `all+pthread` leave them to glibc, which
    /// measures the mutex alone
    #[arg(
        long,
        short,
        value_name = "A,B,…",
        required_unless_present_any = ["report_from", "coverage", "delegates"],
        default_value = "",
        hide_default_value = true
    )]
    pub(crate) locks: String,
    /// Delegates, separated by commas, for a program of delegates such as `lockwork transform` makes: CMD runs once for
    /// each, which LOCKWORK_DELEGATE names, without the library; `all` means every delegate of `lockwork list`
    #[arg(
        long,
        value_name = "A,B,…",
        default_value = "",
        hide_default_value = true,
        conflicts_with = "libraries"
    )]
    pub(crate) delegates: String,
    /// With --delegates: the command of the program as it was before, in one word, quoted as for a shell; the locks of
    /// --locks run it [default of --locks: pthread]
    #[arg(long, value_name = "CMD", requires = "delegates")]
    pub(crate) original: Option<String>,
    /// Builds of the library, as NAME=PATH: every lock runs with each, in the same rounds, and is compared with itself
    /// under the first of them
    #[arg(long, value_name = "OLD,NEW,…", value_delimiter = ',', conflicts_with = "baseline")]
    pub(crate) libraries: Vec<String>,
    /// Thread counts, separated by commas: the command runs for each, with {threads} replaced
    #[arg(long, short, value_name = "N,…", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) threads: Vec<u32>,
    /// Measured rounds: how often each lock runs at each thread count; a verdict takes 6
    #[arg(long, short = 'n', value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) runs: u32,
    /// Rounds before those, not counted
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(0..=1000))]
    pub(crate) warmup: u32,
    /// Seconds after which a run is killed and counts as collapsed
    #[arg(long, value_name = "SECS", default_value = "60", value_parser = crate::values::seconds)]
    pub(crate) timeout: std::time::Duration,
    /// What to measure: `wall`, or [+|-][NAME=]REGEX for a number in the output (first group, last match; +
    /// means higher is better); repeatable, the first is the primary one
    #[arg(long, short, value_name = "wall|REGEX", allow_hyphen_values = true, default_value = "wall")]
    pub(crate) metric: Vec<String>,
    /// For the primary metric more is better
    #[arg(long)]
    pub(crate) higher_is_better: bool,
    /// The lock others are compared with [default: pthread when it is among the locks, else the first]
    #[arg(long, value_name = "SPEC")]
    pub(crate) baseline: Option<String>,
    /// The seed of the order of runs and of the bootstrap, to repeat a comparison exactly
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// The version of what is measured, such as `git describe --always --dirty` says it: kept in meta.json
    #[arg(long, value_name = "VERSION")]
    pub(crate) commit: Option<String>,
    /// Where report.html, table.txt, meta.json, runs.csv and results.json go
    #[arg(long, short, value_name = "DIR", default_value = "lockwork-report", value_hint = ValueHint::DirPath)]
    pub(crate) out: PathBuf,
    /// Write no files
    #[arg(long, conflicts_with = "out")]
    pub(crate) no_report: bool,
    /// Print one JSON document on stdout in place of the tables
    #[arg(long)]
    pub(crate) json: bool,
    /// Measure nothing: make table.txt, report.html and results.json of the comparisons in and under this directory again,
    /// from meta.json and runs.csv
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, conflicts_with_all = ["locks", "delegates", "command", "out", "no_report", "json"])]
    pub(crate) report_from: Option<PathBuf>,
    /// Measure nothing: say how often each lock is among the best, over these comparisons: files of --json or results.json, or
    /// directories of comparisons; coverage.html and the like go to --out
    #[arg(long, value_name = "FILE|DIR", num_args = 1.., value_hint = ValueHint::AnyPath, conflicts_with_all = ["locks", "delegates", "command", "report_from"])]
    pub(crate) coverage: Vec<PathBuf>,
    /// The command to measure
    #[arg(required_unless_present_any = ["report_from", "coverage"], trailing_var_arg = true, value_name = "CMD", value_hint = ValueHint::CommandWithArguments)]
    pub(crate) command: Vec<String>,
}
