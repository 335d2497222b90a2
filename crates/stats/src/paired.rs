//! Two series compared round by round.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::bootstrap::{Estimate, Middles, geometric_midpoint};
use crate::hypothesis::{Test, t_test, wilcoxon};

/// With fewer pairs there is no verdict: the ratios of 5 rounds all lie on one side of 1 in 6% of the comparisons of equals.
pub const MIN_PAIRS: usize = 6;

/// The values of the rounds in which both sides have one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Pairs {
    /// (round, own value, the baseline's value), by round.
    pub rounds: Vec<(u32, f64, f64)>,
    /// Rounds in which only one side has a value.
    pub unpaired: usize,
}

impl Pairs {
    /// Pairs two series of (round, value) by round. A value that is not finite counts as missing.
    ///
    /// # Panics
    ///
    /// If a series has two values for one round.
    #[must_use]
    pub fn new(own: &[(u32, f64)], baseline: &[(u32, f64)]) -> Self {
        let (own, baseline) = (by_round(own), by_round(baseline));
        let rounds: Vec<_> =
            own.iter().filter_map(|(round, value)| Some((*round, *value, *baseline.get(round)?))).collect();
        Pairs { unpaired: own.len() + baseline.len() - 2 * rounds.len(), rounds }
    }

    /// Own value less the baseline's, by round.
    #[must_use]
    pub fn differences(&self) -> Vec<f64> {
        self.rounds.iter().map(|(_, own, baseline)| own - baseline).collect()
    }

    /// Own value over the baseline's, by round; `None` if a ratio means nothing: a baseline of 0 or less, a negative value,
    /// or no pair at all.
    #[must_use]
    pub fn ratios(&self) -> Option<Vec<f64>> {
        let meaningful = self.rounds.iter().all(|&(_, own, baseline)| own >= 0.0 && baseline > 0.0);
        (meaningful && !self.rounds.is_empty())
            .then(|| self.rounds.iter().map(|(_, own, baseline)| own / baseline).collect())
    }
}

fn by_round(series: &[(u32, f64)]) -> BTreeMap<u32, f64> {
    let mut rounds = BTreeMap::new();
    for &(round, value) in series.iter().filter(|(_, value)| value.is_finite()) {
        assert!(rounds.insert(round, value).is_none(), "two values for round {round}");
    }
    rounds
}

/// What the paired ratios say of the values. Whether higher is better is the metric's affair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Finding {
    /// Higher than the baseline: the interval of the ratio lies above 1.
    Higher,
    /// Lower than the baseline: the interval of the ratio lies below 1.
    Lower,
    /// The interval of the ratio includes 1.
    NoDifference,
    /// Fewer than [`MIN_PAIRS`] rounds have both values.
    NotEnoughRounds,
    /// The baseline is 0 in some round, or a value is negative.
    NoRatio,
}

/// Two series, compared.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// How many rounds have both values.
    pub pairs: usize,
    /// How many have only one.
    pub unpaired: usize,
    /// The median of the paired ratios; also given where too few rounds allow a verdict.
    pub ratio: Option<Estimate>,
    /// The median of the paired differences, in the unit of the values.
    pub difference: Option<Estimate>,
    /// Paired Student t-test of the logarithms of the ratios.
    pub t: Option<Test>,
    /// Wilcoxon's signed-rank test of the logarithms of the ratios.
    pub wilcoxon: Option<Test>,
    /// The verdict.
    pub finding: Finding,
}

/// Compares two series of (round, value). The same seed gives the same intervals.
///
/// # Panics
///
/// If a series has two values for one round.
#[must_use]
pub fn compare(own: &[(u32, f64)], baseline: &[(u32, f64)], seed: u64) -> Comparison {
    let pairs = Pairs::new(own, baseline);
    let ratios = pairs.ratios();
    let middles = Middles::draw(pairs.rounds.len(), seed);
    let estimate =
        |values: &[f64], halfway| middles.as_ref().and_then(|middles| middles.estimate(values, halfway));
    let ratio = ratios.as_deref().and_then(|ratios| estimate(ratios, geometric_midpoint));
    // The logarithm of 0 is infinite: the t-test has nothing to say of it, while ranks do.
    let logarithms: Option<Vec<f64>> = ratios.map(|ratios| ratios.iter().map(|ratio| ratio.ln()).collect());
    Comparison {
        pairs: pairs.rounds.len(),
        unpaired: pairs.unpaired,
        ratio,
        difference: estimate(&pairs.differences(), f64::midpoint),
        t: logarithms.as_deref().and_then(|logarithms| t_test(logarithms, 0.0)),
        wilcoxon: logarithms.as_deref().and_then(|logarithms| wilcoxon(logarithms, 0.0)),
        finding: finding(pairs.rounds.len(), ratio),
    }
}

fn finding(pairs: usize, ratio: Option<Estimate>) -> Finding {
    match ratio {
        _ if pairs < MIN_PAIRS => Finding::NotEnoughRounds,
        None => Finding::NoRatio,
        Some(ratio) if ratio.includes(1.0) => Finding::NoDifference,
        Some(ratio) if ratio.value > 1.0 => Finding::Higher,
        Some(_) => Finding::Lower,
    }
}
