//! How often a contender is among the best: over cells, in each of which several contenders were measured.
//!
//! The measure is the study's (Guiroux, PhD thesis, Grenoble 2018, section 4.2.2): the coverage of a lock is the share of the
//! cells in which it is the best or within 5% of the best. Beside it stand the share within 20%, the geometric mean of the
//! ratios to the best and the worst of them, which the study does not have: a lock that covers many cells may still lose
//! everything in the others.

use serde::Serialize;

use crate::tolerance::Tolerance;

/// The least that a cell counts in a geometric mean: one in which a contender did nothing at all would make the mean 0, whatever
/// it did in all others.
pub const LEAST_RATIO: f64 = 0.001;

/// A contender's value in a cell, and the best value there; higher is better.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AgainstBest {
    /// The contender's.
    pub value: f64,
    /// The best of all contenders.
    pub best: f64,
}

impl AgainstBest {
    /// The value over the best; 1 where nobody did anything.
    #[must_use]
    pub fn ratio(self) -> f64 {
        if self.best > 0.0 { self.value / self.best } else { 1.0 }
    }

    /// Whether the best is not better by more than a tolerance.
    #[must_use]
    pub fn is_covered(self, tolerance: Tolerance) -> bool {
        !tolerance.exceeds(self.best, self.value)
    }
}

/// The highest of the values of a cell.
#[must_use]
pub fn best(values: impl IntoIterator<Item = Option<f64>>) -> Option<f64> {
    values.into_iter().flatten().reduce(f64::max)
}

/// The share of the cells that are covered within a tolerance; `None` of no cell.
#[must_use]
pub fn share_covered(cells: impl IntoIterator<Item = AgainstBest>, tolerance: Tolerance) -> Option<f64> {
    let (mut all, mut covered) = (0_u32, 0_u32);
    for cell in cells {
        all += 1;
        covered += u32::from(cell.is_covered(tolerance));
    }
    (all > 0).then(|| f64::from(covered) / f64::from(all))
}

/// A contender's standing over cells.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Standing {
    /// In how many cells it was measured.
    pub cells: usize,
    /// The share of these in which it is within 5% of the best: the study's coverage.
    pub within_5: f64,
    /// The share in which it is within 20%.
    pub within_20: f64,
    /// The geometric mean of its ratios to the best, none of which counts less than [`LEAST_RATIO`].
    pub geometric_mean: f64,
    /// The lowest ratio.
    pub worst: f64,
    /// Where that is, by the place of the cell.
    pub worst_cell: usize,
}

impl Standing {
    /// Over cells, each with its place; `None` of no cell.
    #[must_use]
    pub fn of(cells: &[(usize, AgainstBest)]) -> Option<Self> {
        let twenty_percent = Tolerance::new(0.2);
        let pairs = || cells.iter().map(|(_, pair)| *pair);
        let (worst_cell, worst) = cells
            .iter()
            .map(|(place, pair)| (*place, pair.ratio()))
            .reduce(|worst, next| if next.1 < worst.1 { next } else { worst })?;
        let logarithms: f64 = pairs().map(|pair| pair.ratio().max(LEAST_RATIO).ln()).sum();
        Some(Standing {
            cells: cells.len(),
            within_5: share_covered(pairs(), Tolerance::FIVE_PERCENT)?,
            within_20: share_covered(pairs(), twenty_percent)?,
            geometric_mean: (logarithms / cells.len() as f64).exp(),
            worst,
            worst_cell,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(values: &[(f64, f64)]) -> Vec<(usize, AgainstBest)> {
        values.iter().map(|&(value, best)| AgainstBest { value, best }).enumerate().collect()
    }

    #[test]
    fn a_standing_counts_cells_within_the_tolerances() {
        let standing =
            Standing::of(&cells(&[(100.0, 100.0), (95.0, 100.0), (94.9, 100.0), (20.0, 80.0)])).unwrap();
        assert_eq!((standing.cells, standing.within_5, standing.within_20), (4, 0.5, 0.75));
        assert_eq!((standing.worst, standing.worst_cell), (0.25, 3));
        assert!((standing.geometric_mean - (0.95_f64 * 0.949 * 0.25).powf(0.25)).abs() < 1e-12);
        assert_eq!(Standing::of(&[]), None);
    }

    #[test]
    fn a_collapse_is_the_worst_cell_and_does_not_erase_the_others() {
        let standing = Standing::of(&cells(&[(1.0, 1.0), (0.0, 7.0)])).unwrap();
        assert_eq!((standing.worst, standing.within_20), (0.0, 0.5));
        assert!((standing.geometric_mean - LEAST_RATIO.sqrt()).abs() < 1e-12);
        assert_eq!(Standing::of(&cells(&[(0.0, 0.0)])).unwrap().within_5, 1.0, "nobody did better");
    }

    #[test]
    fn the_best_is_of_those_that_were_measured() {
        assert_eq!(best([None, Some(2.0), Some(5.0), None]), Some(5.0));
        assert_eq!(best([None]), None);
    }
}
