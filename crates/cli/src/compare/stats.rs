//! Medians, bootstrap intervals and verdicts.
//!
//! The interval of a median, or of a ratio of two medians, is the percentile bootstrap's: the runs are
//! resampled with replacement [`RESAMPLES`] times and the middle 95% of the results is the interval.

use serde::Serialize;

/// How often the runs are resampled for one interval.
pub(crate) const RESAMPLES: usize = 10_000;

/// With fewer good runs than this on either side no verdict is given.
pub(crate) const MIN_RUNS: usize = 3;

/// From this many good runs on each side two sets that do not overlap are rarer than 5% by chance
/// (2 of the 70 ways to deal 8 runs to two sides; with 3 runs a side it is 2 of 20).
pub(crate) const SOUND_RUNS: usize = 4;

/// An estimate and its 95% interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Estimate {
    /// The median, or the ratio of medians.
    pub(crate) value: f64,
    /// The interval's lower end.
    pub(crate) low: f64,
    /// The interval's upper end.
    pub(crate) high: f64,
}

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
    TooFewRuns,
    /// Stopped before its first run.
    NotRun,
}

impl Verdict {
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
            Verdict::TooFewRuns => "too few runs",
            Verdict::NotRun => "not run",
        }
    }
}

/// The median of `values`, which must not be empty.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    median_in_place(&mut sorted)
}

fn median_in_place(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 { values[middle] } else { f64::midpoint(values[middle - 1], values[middle]) }
}

/// The median with its interval; `None` without values.
pub(crate) fn estimate(values: &[f64], seed: u64) -> Option<Estimate> {
    bootstrap(median(non_empty(values)?), seed, |random, scratch| resampled_median(values, random, scratch))
}

/// The ratio of the medians of `values` to `baseline` with its interval; `None` when either is empty or the
/// baseline's median is 0.
pub(crate) fn ratio(values: &[f64], baseline: &[f64], seed: u64) -> Option<Estimate> {
    let value = median(non_empty(values)?) / median(non_empty(baseline)?);
    bootstrap(value, seed, |random, scratch| {
        let numerator = resampled_median(values, random, scratch);
        numerator / resampled_median(baseline, random, scratch)
    })
}

fn non_empty(values: &[f64]) -> Option<&[f64]> {
    (!values.is_empty()).then_some(values)
}

fn bootstrap(
    value: f64,
    seed: u64,
    mut draw: impl FnMut(&mut fastrand::Rng, &mut Vec<f64>) -> f64,
) -> Option<Estimate> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut scratch = Vec::new();
    let mut draws: Vec<f64> = (0..RESAMPLES).map(|_| draw(&mut random, &mut scratch)).collect();
    draws.sort_unstable_by(f64::total_cmp);
    let at = |share: f64| draws[((draws.len() - 1) as f64 * share).round() as usize];
    let (low, high) = (at(0.025), at(0.975));
    (value.is_finite() && low.is_finite() && high.is_finite()).then_some(Estimate { value, low, high })
}

fn resampled_median(values: &[f64], random: &mut fastrand::Rng, scratch: &mut Vec<f64>) -> f64 {
    scratch.clear();
    scratch.extend((0..values.len()).map(|_| values[random.usize(..values.len())]));
    median_in_place(scratch)
}

/// What can be said of two medians of the same metric. The intervals must not overlap, nor the ratio's
/// include 1, before a difference is claimed.
pub(crate) fn judge(
    own: Estimate,
    baseline: Estimate,
    ratio: Estimate,
    fewest_runs: usize,
    higher_is_better: bool,
) -> Verdict {
    let overlap = own.low <= baseline.high && baseline.low <= own.high;
    if fewest_runs < MIN_RUNS {
        Verdict::TooFewRuns
    } else if overlap || (ratio.low <= 1.0 && 1.0 <= ratio.high) {
        Verdict::NoDifference
    } else if (ratio.value > 1.0) == higher_is_better {
        Verdict::Faster
    } else {
        Verdict::Slower
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(own: &[f64], baseline: &[f64], higher_is_better: bool) -> Verdict {
        judge(
            estimate(own, 1).unwrap(),
            estimate(baseline, 1).unwrap(),
            ratio(own, baseline, 1).unwrap(),
            own.len().min(baseline.len()),
            higher_is_better,
        )
    }

    #[test]
    fn medians() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(estimate(&[], 1).is_none());
        assert!(ratio(&[1.0], &[0.0], 1).is_none());
    }

    #[test]
    fn five_runs_span_their_extremes() {
        let five = estimate(&[1.0, 2.0, 3.0, 4.0, 5.0], 7).unwrap();
        assert_eq!((five.low, five.value, five.high), (1.0, 3.0, 5.0));
    }

    /// The interval of the median of 1..=99 by the binomial distribution is the 40th to 60th order statistic;
    /// the bootstrap must come close to it.
    #[test]
    fn many_runs_narrow_it() {
        let values: Vec<f64> = (1..=99).map(f64::from).collect();
        let estimate = estimate(&values, 42).unwrap();
        assert_eq!(estimate.value, 50.0);
        assert!((38.0..=43.0).contains(&estimate.low), "{estimate:?}");
        assert!((57.0..=62.0).contains(&estimate.high), "{estimate:?}");
    }

    #[test]
    fn the_seed_decides() {
        let values = [1.0, 1.3, 1.1, 1.7, 1.2, 1.25, 1.9, 1.05];
        assert_eq!(estimate(&values, 3), estimate(&values, 3));
    }

    #[test]
    fn verdicts() {
        let slow = [2.0, 2.1, 2.05, 2.2, 2.0];
        let fast = [1.0, 1.1, 1.05, 1.2, 1.0];
        let wide = [0.9, 2.5, 1.6, 2.1, 1.4];
        assert_eq!(verdict(&fast, &slow, false), Verdict::Faster);
        assert_eq!(verdict(&slow, &fast, false), Verdict::Slower);
        assert_eq!(verdict(&slow, &fast, true), Verdict::Faster);
        assert_eq!(verdict(&wide, &slow, false), Verdict::NoDifference);
        assert_eq!(verdict(&slow, &slow, false), Verdict::NoDifference);
        assert_eq!(verdict(&fast[..2], &slow, false), Verdict::TooFewRuns);
    }

    /// Two samples of one distribution must rarely be told apart.
    #[test]
    fn equal_distributions_are_rarely_told_apart() {
        let mut random = fastrand::Rng::with_seed(11);
        let mut sample = || -> Vec<f64> { (0..5).map(|_| 1.0 + random.f64()).collect() };
        let claims =
            (0..40).filter(|_| verdict(&sample(), &sample(), false) != Verdict::NoDifference).count();
        assert!(claims <= 4, "{claims} of 40 comparisons of equals claimed a difference");
    }
}
