//! The verdict on a cell.

use lockwork_stats::Finding;
use serde::Serialize;

/// How a lock did against the baseline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Verdict {
    /// The cell is the baseline.
    Baseline,
    Faster,
    Slower,
    NoDifference,
    /// At least one run hit the time-out.
    Collapsed,
    /// At least one run crashed or printed no metric.
    Failed,
    /// The baseline has no value to compare with.
    NoBaseline,
    /// The baseline is 0 in some round, or a value is negative: there is nothing to divide.
    NoRatio,
    /// Too few rounds have a value of both.
    NotEnoughRounds,
    /// Stopped before its first run.
    NotRun,
}

impl Verdict {
    /// The verdict on the values is that on the lock.
    pub(crate) fn of(finding: Finding, higher_is_better: bool) -> Self {
        match finding {
            Finding::Higher if higher_is_better => Verdict::Faster,
            Finding::Higher => Verdict::Slower,
            Finding::Lower if higher_is_better => Verdict::Slower,
            Finding::Lower => Verdict::Faster,
            Finding::NoDifference => Verdict::NoDifference,
            Finding::NotEnoughRounds => Verdict::NotEnoughRounds,
            Finding::NoRatio => Verdict::NoRatio,
        }
    }

    /// As the tables say it.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Verdict::Baseline => "baseline",
            Verdict::Faster => "faster",
            Verdict::Slower => "slower",
            Verdict::NoDifference => "no difference",
            Verdict::Collapsed => "collapsed",
            Verdict::Failed => "failed",
            Verdict::NoBaseline => "no baseline",
            Verdict::NoRatio => "no ratio",
            Verdict::NotEnoughRounds => "not enough rounds",
            Verdict::NotRun => "not run",
        }
    }
}
