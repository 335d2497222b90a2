//! Running a campaign: on this host, or by Slurm.

pub(crate) mod local;
pub(crate) mod slurm;
