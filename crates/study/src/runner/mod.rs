//! Running a campaign: on this host, or by Slurm; and points of other work by Slurm.

pub(crate) mod cluster;
pub(crate) mod local;
pub(crate) mod points;
mod queue;
pub(crate) mod slurm;
