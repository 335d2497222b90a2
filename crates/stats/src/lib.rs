//! The statistics of every comparison, native or simulated: `compare`, `bench`, `sim` and `study` draw their verdicts
//! from here.
//!
//! Runs come in rounds, and every round runs every lock once. A host drifts (its clock, its neighbours, its caches), but two
//! runs of the same round share the drift, so the ratio of the two is free of it. [`compare`] therefore pairs the runs by
//! round, takes the median of the paired ratios with a bootstrap interval, and calls a difference what has an interval that
//! excludes 1. A round in which one of the two has no value gives no pair.
//!
//! ```
//! use lockwork_stats::{Finding, compare};
//!
//! // (round, value): the host slows down by half in the fourth round.
//! let lock = [(0, 11.0), (1, 11.2), (2, 10.9), (3, 5.6), (4, 5.5), (5, 5.4)];
//! let baseline = [(0, 10.0), (1, 10.1), (2, 9.8), (3, 5.0), (4, 5.1), (5, 4.9)];
//! let comparison = compare(&lock, &baseline, 1);
//! assert_eq!(comparison.finding, Finding::Higher);
//! assert!((1.09..1.12).contains(&comparison.ratio.unwrap().value));
//! ```

mod bootstrap;
pub mod coverage;
mod describe;
pub mod fairness;
mod hypothesis;
mod paired;
pub mod printed;
mod rank;
mod tolerance;

pub use bootstrap::{Estimate, RESAMPLES, estimate};
pub use describe::{correlation, mean, median, quantile, relative_deviation, standard_deviation};
pub use hypothesis::{Test, holm, holm_of_some, t_test, wilcoxon};
pub use paired::{Comparison, Finding, MIN_PAIRS, Pairs, compare};
pub use rank::kendall;
pub use tolerance::{Margin, Tolerance};
