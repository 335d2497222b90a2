//! A margin under which a difference does not matter, which is another question than whether there is one.

use serde::Serialize;

use crate::bootstrap::Estimate;

/// Whether two sides differ by more than a tolerance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Margin {
    /// The whole interval of the ratio lies within the tolerance.
    Alike,
    /// All of it lies beyond the tolerance, on one side.
    Differs,
    /// It reaches across the tolerance's end.
    Undecided,
}

/// How much two values may differ, relative to the higher one, and still count as equal.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tolerance(f64);

impl Tolerance {
    /// The study's rule (Guiroux, PhD thesis, Grenoble 2018, section 4.1.4): lock A is better than lock B if B's performance is
    /// below 95% of A's.
    pub const FIVE_PERCENT: Tolerance = Tolerance(0.05);

    /// A tolerance of another size: 0.05 is 5%.
    ///
    /// # Panics
    ///
    /// If `share` is not between 0 and 1.
    #[must_use]
    pub fn new(share: f64) -> Self {
        assert!((0.0..1.0).contains(&share), "a tolerance of {share}");
        Tolerance(share)
    }

    /// The size: 0.05 is 5%.
    #[must_use]
    pub fn share(self) -> f64 {
        self.0
    }

    /// Whether `value` is higher than `other` by more than the tolerance: 5% means that `other` is below 95% of `value`.
    #[must_use]
    pub fn exceeds(self, value: f64, other: f64) -> bool {
        other < value * (1.0 - self.0)
    }

    /// Whether `value` is more than the tolerance above `other`: 5% means above 105% of `other`, which is a little less than what
    /// [`exceeds`](Self::exceeds) asks for.
    #[must_use]
    pub fn gains(self, value: f64, other: f64) -> bool {
        value > other * (1.0 + self.0)
    }

    /// Whether neither value exceeds the other.
    #[must_use]
    pub fn alike(self, value: f64, other: f64) -> bool {
        !self.exceeds(value, other) && !self.exceeds(other, value)
    }

    /// What a ratio's interval says by this rule.
    #[must_use]
    pub fn rule(self, ratio: &Estimate) -> Margin {
        let (low, high) = (ratio.low.min(ratio.high), ratio.low.max(ratio.high));
        if self.shown_alike(ratio) {
            Margin::Alike
        } else if self.exceeds(low, 1.0) || self.exceeds(1.0, high) {
            Margin::Differs
        } else {
            Margin::Undecided
        }
    }

    /// Whether a ratio's whole interval lies within the tolerance: the two sides are shown to perform alike, where an interval
    /// that includes 1 and reaches further only shows nothing.
    #[must_use]
    pub fn shown_alike(self, ratio: &Estimate) -> bool {
        self.alike(ratio.low, 1.0) && self.alike(ratio.high, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_alike_differs_or_says_nothing() {
        let of = |low: f64, high: f64| {
            Tolerance::FIVE_PERCENT.rule(&Estimate { value: f64::midpoint(low, high), low, high })
        };
        assert_eq!(of(0.96, 1.04), Margin::Alike);
        assert_eq!(of(1.06, 1.5), Margin::Differs);
        assert_eq!(of(0.5, 0.94), Margin::Differs);
        assert_eq!(of(1.02, 1.06), Margin::Undecided);
        assert_eq!(of(0.9, 1.1), Margin::Undecided);
    }
}
