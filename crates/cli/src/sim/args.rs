//! The command line of `lockwork sim`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};
use lockwork_sim::machine::Arbitration;

use super::coverage::CoverageArgs;
use super::workers::PlaceArgs;
use super::workload::{WorkloadArgs, milliseconds};

/// `lockwork sim`
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Workloads:
  micro     the papers' micro-benchmark: a delay, then a section that updates some cache lines
  closures  the same, by its name in `lockwork bench`: for delegates, which are handed the sections
  trylock   the same as micro, with threads that try until they succeed, instead of waiting in the lock
  phases    the same, with two delays by turns, as --phase gives them to every workload
  sections  sections of varying length and size, on several locks, as a profile of a program describes them
  avl       a key-value map behind one lock, as an AVL tree: GCR's micro-benchmark
  hash      the same as a hash table
  rw        readers that compare cache lines which writers update
  queue     producers and consumers: a bounded buffer with two condition variables

Examples:
  lockwork sim                                            some locks on SANL's 40 cores
  lockwork sim --machine e7-8870-v2 --threads 15,120,240 --locks 'ttas,mcs-spin,hmcs-spin,gcr(mcs-stp)'
  lockwork sim --machine x6-2 --threads 40,80 --unpinned --delay exponential:5000 --lines 4 --work uniform:100-1000
  lockwork sim --machine my-server.toml --seeds 9 --json
  lockwork sim --machine a-64 --locks all --out shared/all --on slurm --jobs 100     on a cluster
  lockwork sim --workload avl --locks 'mcs-spin,gcr(mcs-spin)' --unpinned
  lockwork sim --sections profile.toml                    sections as a profile of a program describes them
  lockwork sim --explain --locks mcs-spin --threads 10    where the cycles of a hand-off go
  lockwork sim --locks 'rcl,fc,locked(mcs-spin)' --threads 47 --machine opteron-6172      delegates beside a lock
  lockwork sim machines                                   which machines there are
  lockwork sim validate                                   published figures beside ours
  lockwork sim coverage --quick                           how often each lock is among the best, over many cells

All figures are simulated. The model is good for orderings, crossovers and collapses, not for cycle counts:
the book's chapter on the simulator says what it leaves out. A run in which no section ends is `collapsed`;
a deadlock or a lost update makes it `failed`, with the reason."
)]
pub(crate) struct SimArgs {
    #[command(subcommand)]
    pub(crate) command: Option<SimCommand>,
    #[command(flatten)]
    pub(crate) sweep: SweepArgs,
}

/// What else there is to do.
#[derive(Debug, Subcommand)]
pub(crate) enum SimCommand {
    /// List the machines
    #[command(
        after_help = "Examples:\n  lockwork sim machines\n  lockwork sim machines e7-4850 > my-server.toml"
    )]
    Machines {
        /// Print the file of this machine, to start one's own from
        name: Option<String>,
        /// Print one JSON document in place of the table
        #[arg(long)]
        json: bool,
    },
    /// Compare published results with simulated ones
    #[command(
        after_help = "Examples:\n  lockwork sim validate\n  lockwork sim validate RCL\n  lockwork sim validate GCR --sensitivity\n  lockwork sim validate --out results\n  lockwork sim validate --out shared --on slurm --jobs 100\n  lockwork sim validate --json | jq '.[] | select(.verdict == \"differs\")'"
    )]
    Validate {
        /// Only the claims whose source contains this, such as `RCL` or `figure 6`
        #[arg(value_name = "SOURCE")]
        source: Option<String>,
        /// Runs of each point, with seeds from 1
        #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
        seeds: u32,
        /// Run every point on variants of its machine, too, with the first seed, and say which verdicts hold on all of them
        #[arg(long)]
        sensitivity: bool,
        /// Print one JSON document in place of the table
        #[arg(long)]
        json: bool,
        /// Write both, as validate.json and validate.txt, into this directory, too
        #[arg(long, short, value_name = "DIR", value_hint = ValueHint::DirPath)]
        out: Option<PathBuf>,
        #[command(flatten)]
        place: PlaceArgs,
    },
    /// How often each lock is among the best: machines × workloads × thread counts × pinned or not
    Coverage(CoverageArgs),
}

/// A sweep over locks, machines and thread counts.
#[derive(Debug, Args)]
pub(crate) struct SweepArgs {
    /// The locks, separated by commas, the baseline first; `all` means every lock without a wrapper
    #[arg(
        long,
        short,
        value_name = "A,B,…",
        default_value = "futex,ttas,ticket,mcs-spin,mcs-stp,hmcs-spin,gcr(mcs-stp)"
    )]
    pub(crate) locks: String,
    /// The machine: a name of `lockwork sim machines`, or a file; repeatable
    #[arg(long, short, value_name = "NAME|FILE", default_value = "e7-4850")]
    pub(crate) machine: Vec<String>,
    /// Thread counts, separated by commas [default: 1, a node, all CPUs, twice as many]
    #[arg(long, short, value_name = "N,…", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) threads: Vec<u32>,
    /// Let the operating system move threads between CPUs; otherwise each stays on its own, node by node
    #[arg(long)]
    pub(crate) unpinned: bool,
    /// Simulated milliseconds that are measured, after a tenth of that as warm-up; at least eight time slices, after two,
    /// where threads outnumber CPUs
    #[arg(long, value_name = "MS", default_value_t = 10.0, value_parser = milliseconds)]
    pub(crate) time: f64,
    /// A run that would take more simulated cycles than this is refused
    #[arg(long, value_name = "CYCLES", default_value_t = 10_000_000_000)]
    pub(crate) max_cycles: u64,
    /// The first seed
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    pub(crate) first_seed: u32,
    /// Runs of each point, with seeds from --first-seed: the figures are medians, with the interval over seeds; a verdict takes 6
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) seeds: u32,
    /// Which of the CPUs that wait for a cache line gets it next: the first, the nearest or any, in place of what the machine's
    /// file says
    #[arg(long, value_name = "ORDER", value_parser = arbitration)]
    pub(crate) arbitration: Option<Arbitration>,
    /// Processes that run the workload at the same time, each with so many threads, and with locks and data of its own
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) processes: u32,
    /// Threads of another process that compute all the time, one on each CPU from the first on, where they stay: a machine
    /// that the program does not have for itself
    #[arg(long, value_name = "THREADS", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=10_000))]
    pub(crate) background: u32,
    /// Let spinning locks spin for ever, as published; otherwise they begin to yield after a while, as Lockwork's do
    #[arg(long)]
    pub(crate) strict_spin: bool,
    /// Simulate every turn of a polling loop: slower, for the same result
    #[arg(long)]
    pub(crate) no_spin_sleep: bool,
    /// Run every point on variants of the machine, too, and say which verdicts hold on all of them
    #[arg(long)]
    pub(crate) sensitivity: bool,
    /// Show where the cycles of one hand-off go, in place of a sweep
    #[arg(long, conflicts_with_all = ["sensitivity", "json"])]
    pub(crate) explain: bool,
    /// The version of what is measured, such as `git describe --always --dirty` says it: kept in meta.json
    #[arg(long, value_name = "VERSION")]
    pub(crate) commit: Option<String>,
    /// Where a directory for each machine goes, with report.html, table.txt, meta.json, runs.csv and results.json
    #[arg(long, short, value_name = "DIR", default_value = "lockwork-sim", value_hint = ValueHint::DirPath)]
    pub(crate) out: PathBuf,
    /// Write no files
    #[arg(long, conflicts_with = "out")]
    pub(crate) no_report: bool,
    /// Print one JSON document on stdout in place of the tables
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
    #[command(flatten)]
    pub(crate) workload: WorkloadArgs,
}

fn arbitration(text: &str) -> Result<Arbitration, String> {
    match text {
        "fifo" => Ok(Arbitration::Fifo),
        "nearest" => Ok(Arbitration::Nearest),
        "random" => Ok(Arbitration::Random),
        _ => Err("fifo, nearest or random".to_owned()),
    }
}
