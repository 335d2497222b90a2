//! The study of locks × applications × machines, after Hugo Guiroux, "Understanding the performance of mutual exclusion
//! algorithms on modern multicore machines" (PhD thesis, Grenoble 2018), chapters 3 and 4.
//!
//! A [`Campaign`] says what runs; [`run`] runs it and keeps a row for each run in a [`Store`]; [`Study`] is the runs of one
//! machine, from a store or from a CSV file; [`Report`] makes the thesis's tables and figures of one or
//! several machines, as text, CSV, HTML or SVG. Every table carries the number that it has in the thesis. Definitions, all of
//! section 4.1.4 and 4.2.1:
//!
//! - the value of a configuration (application, nodes, lock) is the mean of its runs;
//! - *one node*, *max nodes*: the fewest and the most nodes that an application ran on; *opt nodes*: for each lock the count of
//!   nodes with its best value;
//! - lock A is *better* than lock B if B's value is below 95% of A's; a lock *covers* an application if the best lock is not
//!   better than it;
//! - an application is *lock-sensitive* if the relative standard deviation of the locks' values at max nodes is over 10%;
//! - a lock is *harmful* to an application if the best lock gains more than 15% over it.

mod campaign;
mod client;
mod cover;
mod data;
mod digest;
mod error;
mod export;
mod guidelines;
mod measure;
mod observations;
mod render;
mod report;
mod runner;
mod store;
mod table;
mod tables;
mod tree;
mod view;

pub use campaign::{
    Application, Campaign, CampaignLevel, Cell as PlanCell, Count, Levels, MetricPattern, More, Placement,
    Plan, Quick, Take, Topology,
};
pub use client::{Answered, Load, Protocol};
pub use cover::Cover;
pub use data::{Energy, Study, Variant};
pub use digest::digest;
pub use error::Error;
pub use export::export;
pub use guidelines::{Guidelines, Rule};
pub use measure::{POWER, POWERCAP, Rapl, process};
pub use observations::Observations;
pub use report::Report;
pub use runner::cluster::Cluster;
pub use runner::local::{
    Absence, Finish, Hold, Progress, Settings, Status, database, outcomes, preview, run, status, title,
};
pub use runner::points::{Points, make_points};
pub use runner::slurm::{campaign_of_queue, describe, run_on_slurm, work};
pub use store::{Outcome, Record, RunKey, Store, Surroundings, Usage};
pub use table::{Cell, Column, Kind, Row, Table, Unit};
pub use tables::campaign_tables;
pub use view::{Level, Metric, View};
