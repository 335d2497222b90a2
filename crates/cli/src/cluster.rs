//! The flags with which a command has its work done on a Slurm cluster.

use std::time::Duration;

use clap::{Args, ValueEnum};
use lockwork_study::Cluster;

/// What does the work: this host, or the Slurm cluster that it submits to. The values are told of in the flag's help: with a line
/// for each, `--help` would spread every flag over several lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum On {
    Local,
    Slurm,
}

/// Where work is done.
#[derive(Debug, Args)]
pub(crate) struct ClusterArgs {
    /// Where it runs: on this host, or on the Slurm cluster that this host submits to
    #[arg(long, value_enum, default_value = "local")]
    pub(crate) on: On,
    /// With --on slurm: at most so many tasks at a time
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    jobs: u32,
    /// With --on slurm: an argument of sbatch, such as --sbatch=--partition=big; repeatable
    #[arg(long, value_name = "ARGUMENT")]
    sbatch: Vec<String>,
    /// With --on slurm: seconds between two looks at the queue
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0, hide = true)]
    every: f64,
}

impl ClusterArgs {
    /// The cluster, if it is to do the work; `exclusive` says whether a task has its node for itself.
    pub(crate) fn cluster(&self, exclusive: bool) -> Option<Cluster> {
        (self.on == On::Slurm).then(|| Cluster {
            jobs: self.jobs as usize,
            exclusive,
            arguments: self.sbatch.clone(),
            every: Duration::from_secs_f64(self.every.clamp(0.05, 600.0)),
        })
    }
}
