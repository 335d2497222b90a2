//! A margin under which a difference does not matter, which is another question than whether there is one.

use crate::bootstrap::Estimate;

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

    /// Whether neither value exceeds the other.
    #[must_use]
    pub fn alike(self, value: f64, other: f64) -> bool {
        !self.exceeds(value, other) && !self.exceeds(other, value)
    }

    /// Whether a ratio's whole interval lies within the tolerance: the two sides are shown to perform alike, where an interval
    /// that includes 1 and reaches further only shows nothing.
    #[must_use]
    pub fn shown_alike(self, ratio: &Estimate) -> bool {
        self.alike(ratio.low, 1.0) && self.alike(ratio.high, 1.0)
    }
}
