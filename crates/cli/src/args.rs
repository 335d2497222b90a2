//! The command line, as data.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueHint};
use lockwork_config::{self as config, Reader, Variable};

use crate::advise::AdviseArgs;
use crate::calibrate::CalibrateArgs;
use crate::profile::ProfileArgs;
use crate::sim::SimArgs;
use crate::sim::predict::PredictArgs;
use crate::study::StudyCommand;
use crate::top::TopArgs;
use crate::transform::TransformArgs;
use crate::tune::TuneArgs;

/// The whole command line.
#[derive(Debug, Parser)]
#[command(
    name = "lockwork",
    version,
    about = "Put any lock algorithm under an unmodified multi-threaded program, and see what it does",
    long_about = "Lockwork puts any lock algorithm under an unmodified multi-threaded Linux program, \
                  compares locks on your own workload, and says what this machine allows.",
    after_help = TOP_EXAMPLES,
    after_long_help = top_help(),
    max_term_width = 100,
    disable_help_subcommand = true,
    arg_required_else_help = true
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

const TOP_EXAMPLES: &str = "\
Examples:
  lockwork list                                    which locks there are
  lockwork info mcs-stp                            what is known of one
  lockwork run --lock 'gcr(mcs-stp)' -- ./server   run a program under it
  lockwork profile -- ./server                     which of its locks hurt
  lockwork tune -- ./bench                         give them better ones, if there are any
  lockwork compare --locks pthread,ttas,mcs-stp --threads 2,8,32 -- ./bench -t {threads}
  lockwork bench pair --locks all                  measure the locks themselves
  lockwork sim --machine e7-8870-v2                simulate them on 120 cores
  lockwork doctor ./server                         what this machine and this program allow

Every command has examples: lockwork COMMAND --help";

/// The examples, and every variable and file that a user may set.
fn top_help() -> String {
    use std::fmt::Write as _;
    let mut text = format!("{TOP_EXAMPLES}\n");
    for (title, reader) in
        [("Environment of programs", Reader::Library), ("Environment of lockwork", Reader::Command)]
    {
        let _ = writeln!(text, "\n{title}:");
        for Variable { name, help, default, .. } in config::read_by(reader) {
            let _ = writeln!(text, "  {name}\n          {} [default: {}]", plain(help), plain(default));
        }
    }
    let _ = writeln!(text, "\nFiles:");
    for config::File { path, help } in config::FILES {
        let _ = writeln!(text, "  {path}\n          {}", plain(help));
    }
    text.trim_end().to_owned()
}

/// A clause of the book's tables, for a terminal.
fn plain(markdown: &str) -> String {
    markdown.replace('`', "")
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a program under another lock
    Run(RunArgs),
    /// Compare locks on a command: medians, intervals, verdicts and a report
    Compare(CompareArgs),
    /// Record which locks a program waits for, at whose hands, and for how long
    Profile(Box<ProfileArgs>),
    /// Say what would help, by the figures of a profile
    Advise(AdviseArgs),
    /// Find the locks that a program should have, by measuring, and write them as a policy
    Tune(Box<TuneArgs>),
    /// Show what a program that is being recorded waits for, right now
    Top(TopArgs),
    /// Measure the locks themselves: uncontended, contended, hand-off, trylock, many locks
    Bench(BenchArgs),
    /// Simulate locks on a machine you do not have: NUMA, more threads than CPUs
    Sim(Box<SimArgs>),
    /// Predict from a profile which locks would suit the program on another machine, by simulation
    Predict(PredictArgs),
    /// Study locks on many applications and machines: campaigns, and the tables and figures of a published study
    #[command(
        subcommand,
        arg_required_else_help = true,
        after_help = "Examples:\n  lockwork study run campaigns/debian.toml --quick\n  lockwork study report --from A64.csv --table 4.8"
    )]
    Study(StudyCommand),
    /// Turn critical sections of a C program into closures that a delegate runs
    Transform(TransformArgs),
    /// Measure this machine for the simulator: cache lines between CPUs, memory, the kernel
    Calibrate(CalibrateArgs),
    /// List the locks
    List(ListArgs),
    /// Tell everything that is known of a lock
    Info(InfoArgs),
    /// Say what this machine, and a program, allow
    Doctor(DoctorArgs),
    /// Watch the scheduler, so that waiting threads know whether the thread they wait for runs
    Monitor(MonitorArgs),
    /// Check a policy file
    #[command(
        subcommand,
        arg_required_else_help = true,
        after_help = "Example:\n  lockwork policy check server.toml"
    )]
    Policy(PolicyCommand),
    /// Print a completion script for a shell
    #[command(after_help = "Example:\n  lockwork completions bash > /etc/bash_completion.d/lockwork")]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write the manual pages
    #[command(
        after_help = "Examples:\n  lockwork man | man -l -\n  lockwork man --out /usr/local/share/man/man1"
    )]
    Man {
        /// Write lockwork.1 and a page for every command into this directory, instead of lockwork.1 to stdout
        #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
        out: Option<PathBuf>,
    },
}

/// `lockwork run`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lockwork run -- ./server                        under the default lock
  lockwork run --lock mcs-stp -v -- ./server      and say at exit which locks were served
  lockwork run --lock 'gcr(ticket, active=2)' -- make -j8 test
  lockwork run --policy server.toml -- ./server   a lock for each lock of the program

The program replaces lockwork: its exit status, signals and streams are its own. When nothing can be
started the exit status is 2, or as a shell's: 127 for a program not found, 126 for one not executable.")]
pub(crate) struct RunArgs {
    /// The lock, as `lockwork list` spells it; wrappers as calls: gcr(mcs-stp, active=4); a reader-writer lock
    /// behind a mutex: mcs-stp+cst-rwsem, or alone, which leaves mutexes to glibc; mcs-stp+pthread leaves
    /// reader-writer locks to glibc
    #[arg(long, short, value_name = "SPEC")]
    pub(crate) lock: Option<String>,
    /// A policy file that chooses a lock for each lock of the program; --lock then replaces its default
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) policy: Option<PathBuf>,
    /// Leave the program's own children alone
    #[arg(long)]
    pub(crate) no_follow: bool,
    /// Let spinning locks spin for ever, as published; otherwise they begin to yield after about 100 us.
    /// For `compare`, set LOCKWORK_STRICT_SPIN=1
    #[arg(long)]
    pub(crate) strict_spin: bool,
    /// How long spin-then-park waiters spin before they sleep, in ns [default: the round trip of a context switch,
    /// measured once a machine]. For `compare`, set LOCKWORK_SPIN_NS
    #[arg(long, value_name = "NS", value_parser = clap::value_parser!(u64).range(100..=1_000_000))]
    pub(crate) spin_ns: Option<u64>,
    /// Have threads that hold mutexes ask the kernel for a little more time when their time slice ends (Linux 7.0; see
    /// `lockwork doctor`). For `compare`, set LOCKWORK_TIME_SLICE=1
    #[arg(long)]
    pub(crate) time_slice: bool,
    /// Say on stderr when the program ends which locks were served and which were forwarded to glibc
    #[arg(long, short)]
    pub(crate) verbose: bool,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD", value_hint = ValueHint::CommandWithArguments)]
    pub(crate) command: Vec<OsString>,
}

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

Runs are interleaved: every round runs each lock and thread count once, in an order shuffled by the seed.
`pthread` runs without Lockwork; `passthrough` runs with it, but forwards everything to glibc.
In CMD, {threads} is the number of threads, and {800000/threads} or {min(threads,16)} what one expects;
{{ and }} are literal braces. A run that hits the time-out makes its cell `collapsed`, one that crashes or
prints no metric makes it `failed`; neither is averaged away.")]
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
    #[arg(long, value_name = "SECS", default_value = "60", value_parser = seconds)]
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

/// A time-out in seconds.
pub(crate) fn seconds(text: &str) -> Result<std::time::Duration, String> {
    let value: f64 =
        text.parse().map_err(|_| "a number of seconds is expected, such as 60 or 2.5".to_owned())?;
    if !(0.01..=1e7).contains(&value) {
        return Err("between 0.01 and 10,000,000 seconds are possible".to_owned());
    }
    Ok(std::time::Duration::from_secs_f64(value))
}

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

Every run has a process of its own, without the preloaded library, and takes --time (`many`: as long as its
work takes). Rounds are interleaved over locks and thread counts; `pthread` is always among the locks and what
they are compared with. A run that is not over after --timeout makes its cell `collapsed`.")]
pub(crate) struct BenchArgs {
    /// Which benchmarks [default: all]
    #[arg(value_name = "NAME", value_enum, hide_possible_values = true)]
    pub(crate) benchmarks: Vec<crate::bench::Benchmark>,
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
    /// Seconds that a run measures
    #[arg(long, value_name = "SECS", default_value = "0.3", value_parser = seconds)]
    pub(crate) time: std::time::Duration,
    /// Seconds after which a run is killed and counts as collapsed; more than --time
    #[arg(long, value_name = "SECS", default_value = "30", value_parser = seconds)]
    pub(crate) timeout: std::time::Duration,
    /// What a thread of contend, closures and trylock does between two operations: pauses (100) or a time (500ns, 2us)
    #[arg(long, value_name = "PAUSES|TIME", default_value = "0")]
    pub(crate) delay: crate::bench::Delay,
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

/// `lockwork list`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lockwork list
  lockwork list --nodes 2                         memory as on a machine with two NUMA nodes
  lockwork list --json | jq -r '.[].name'")]
pub(crate) struct ListArgs {
    /// Measure what a lock takes of memory on a machine with so many NUMA nodes
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u8).range(1..=64))]
    pub(crate) nodes: u8,
    /// Print an array of objects
    #[arg(long)]
    pub(crate) json: bool,
}

/// `lockwork info`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lockwork info mcs-stp
  lockwork info 'gcr(ticket)'
  lockwork info gcr --json")]
pub(crate) struct InfoArgs {
    /// The lock's name, or a whole spec
    #[arg(value_name = "LOCK")]
    pub(crate) lock: String,
    /// Print an object
    #[arg(long)]
    pub(crate) json: bool,
}

/// `lockwork doctor`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lockwork doctor
  lockwork doctor memcached
  lockwork doctor --json ./server | jq '.checks[] | select(.status != \"ok\")'

The exit status is 1 when a check fails, else 0.")]
pub(crate) struct DoctorArgs {
    /// Print an object
    #[arg(long)]
    pub(crate) json: bool,
    /// A program to look at: whether `lockwork run` can serve it
    #[arg(value_name = "PROGRAM", value_hint = ValueHint::CommandName)]
    pub(crate) program: Option<OsString>,
}

/// `lockwork monitor`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sudo lockwork monitor                           until ^C or SIGTERM
  sudo lockwork monitor --watch                   as on kernels without uprobes
  lockwork run --lock mcs-aware -- ./server       finds it by itself
  LOCKWORK_MONITOR=0 lockwork run --lock mcs-aware -- ./server    does not look for it
  LOCKWORK_CPU_CLOCKS=0 lockwork run --lock mcs-aware -- ./server    goes by it in any case

It is a program of its own: cargo build --release -p lockwork-monitor puts it beside this one.
It needs root, a kernel that describes its types (BTF), and Linux 5.13; `lockwork doctor` says
whether it can run. Programs need no privilege: those under a lock that waits by `aware` (see
`lockwork list`) connect when they start. Their waiters then ask the kernel which of their own
threads are on a CPU, by an instruction at which it calls a BPF program (uprobes): about a
microsecond for the waiter, nothing for others. On kernels that refuse that, all context switches
are watched while somebody waits, which costs each a tenth of a microsecond or two. The monitor
is of use to programs under a filter of system calls, as in containers; others read the CPU clock
of the thread they wait for, and do not connect. Without a monitor, or when it ends, waiters go
by the load.")]
pub(crate) struct MonitorArgs {
    /// Where to listen; programs are told another place by LOCKWORK_MONITOR
    #[arg(long, value_name = "PATH", default_value = lockwork_platform::monitor::SOCKET, value_hint = ValueHint::FilePath)]
    pub(crate) socket: PathBuf,
    /// Watch context switches, even if the kernel can answer single questions
    #[arg(long)]
    pub(crate) watch: bool,
    /// Only say whether it could run here; the exit status is 1 if not
    #[arg(long)]
    pub(crate) check: bool,
}

/// `lockwork policy`
#[derive(Debug, Subcommand)]
pub(crate) enum PolicyCommand {
    /// Check a policy file and print it as it was understood
    #[command(after_help = "\
Examples:
  lockwork policy check server.toml

A policy:
  default = \"gcr(mcs-stp)\"

  [[rule]]                              # the first rule that matches decides
  init = \"librocksdb.so.7+0x1a2b3c\"     # code that initialised, or first took, the lock
  lock = \"mcs-stp\"

  [[rule]]
  init = \"rocksdb::LRUCache::Insert\"    # the same, by function
  lock = \"ticket\"

  [[rule]]
  symbol = \"global_mutex\"               # a static lock, by name
  lock = \"ttas\"

  [[rule]]
  kind = \"rwlock\"
  lock = \"cst-rwsem\"                    # a reader-writer lock

  [[rule]]
  kind = \"recursive\"                    # normal adaptive recursive errorcheck mutex rwlock spin cond
  lock = \"passthrough\"")]
    Check {
        /// Print an object
        #[arg(long)]
        json: bool,
        /// The policy file
        #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
        file: PathBuf,
    },
}
