//! Tests of one series against a location, two-sided, and the correction for many tests. A paired test is the test of the
//! pairs' differences.

use serde::Serialize;
use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

/// The outcome of a test.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Test {
    /// Student's t, or the sum of the ranks of the values above the location (R's V).
    pub statistic: f64,
    /// The probability of a statistic at least as extreme where the location is the true one.
    pub p: f64,
}

/// Student's t-test of whether the mean of `values` is `location`. `None` with fewer than two values, or if they do not vary:
/// the test knows nothing of values without spread.
#[must_use]
pub fn t_test(values: &[f64], location: f64) -> Option<Test> {
    let (mean, deviation) = (crate::mean(values)?, crate::standard_deviation(values)?);
    let error = deviation / (values.len() as f64).sqrt();
    // What rounding leaves of equal values is not spread.
    if !error.is_finite() || error <= 10.0 * f64::EPSILON * mean.abs() {
        return None;
    }
    let statistic = (mean - location) / error;
    let student = StudentsT::new(0.0, 1.0, (values.len() - 1) as f64).ok()?;
    Some(Test { statistic, p: (2.0 * student.cdf(-statistic.abs())).min(1.0) })
}

/// Up to this many values the distribution of the rank sum is computed exactly.
const EXACT: usize = 50;

/// Wilcoxon's signed-rank test of whether `values` lie symmetrically about `location`. Values at the location are left out,
/// and equal distances share the mean of their ranks. The probability is exact up to 50 values, ties included; beyond it is
/// the normal approximation with the corrections for ties and continuity. `None` if no value differs from the location.
#[must_use]
pub fn wilcoxon(values: &[f64], location: f64) -> Option<Test> {
    let mut distances: Vec<f64> =
        values.iter().map(|value| value - location).filter(|distance| *distance != 0.0).collect();
    if distances.is_empty() || distances.iter().any(|distance| distance.is_nan()) {
        return None;
    }
    distances.sort_unstable_by(|a, b| a.abs().total_cmp(&b.abs()));
    let ties: Vec<&[f64]> = distances.chunk_by(|a, b| a.abs() == b.abs()).collect();
    // Twice the ranks are whole numbers: the mean of the ranks first..=last is half their sum.
    let mut doubled = Vec::with_capacity(distances.len());
    for tie in &ties {
        let first = doubled.len() + 1;
        doubled.resize(doubled.len() + tie.len(), 2 * first + tie.len() - 1);
    }
    let positive = distances.iter().zip(&doubled).filter(|(distance, _)| **distance > 0.0);
    let sum: usize = positive.map(|(_, rank)| rank).sum();
    let p = if distances.len() <= EXACT {
        exact(&doubled, sum)
    } else {
        let tied: f64 = ties.iter().map(|tie| (tie.len() as f64).powi(3) - tie.len() as f64).sum();
        approximate(distances.len() as f64, sum as f64 / 2.0, tied)
    };
    Some(Test { statistic: sum as f64 / 2.0, p })
}

/// The share of the ways to give signs to the ranks whose sum is at least as far from the middle.
fn exact(doubled: &[usize], sum: usize) -> f64 {
    let total: usize = doubled.iter().sum();
    // ways[s]: the share of the sign patterns, over the ranks seen so far, with the sum s.
    let mut ways = vec![0.0; total + 1];
    ways[0] = 1.0;
    let mut reached = 0;
    for &rank in doubled {
        reached += rank;
        for s in (0..=reached).rev() {
            let with = if s >= rank { ways[s - rank] } else { 0.0 };
            ways[s] = f64::midpoint(ways[s], with);
        }
    }
    let tail = sum.min(total - sum);
    let p = ways[..=tail].iter().sum::<f64>() * 2.0;
    p.min(1.0)
}

fn approximate(count: f64, sum: f64, tied: f64) -> f64 {
    let middle = count * (count + 1.0) / 4.0;
    let variance = count * (count + 1.0) * (2.0 * count + 1.0) / 24.0 - tied / 48.0;
    let distance = ((sum - middle).abs() - 0.5).max(0.0);
    (2.0 * Normal::standard().cdf(-distance / variance.sqrt())).min(1.0)
}

/// Holm's correction (1979): the probabilities of tests that stand in one table, adjusted so that the chance of even one false
/// claim among them stays under the level that the adjusted ones are compared with. In the order of `p`.
#[must_use]
pub fn holm(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|&a, &b| p[a].total_cmp(&p[b]));
    let mut adjusted = vec![0.0; p.len()];
    let mut highest = 0.0_f64;
    for (before, &index) in order.iter().enumerate() {
        highest = highest.max(((p.len() - before) as f64 * p[index]).min(1.0));
        adjusted[index] = highest;
    }
    adjusted
}

/// [`holm`] of a table of which some comparisons have no test.
#[must_use]
pub fn holm_of_some(p: &[Option<f64>]) -> Vec<Option<f64>> {
    let mut corrected = holm(&p.iter().copied().flatten().collect::<Vec<f64>>()).into_iter();
    p.iter().map(|p| p.and_then(|_| corrected.next())).collect()
}
