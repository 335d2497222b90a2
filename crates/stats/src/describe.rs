//! One series, described: its middle, its spread, its correlation with another.

/// The median of `values`: of an even number of them, halfway between the two in the middle; `None` without values.
#[must_use]
pub fn median(values: &[f64]) -> Option<f64> {
    quantile(values, 0.5)
}

/// The value below which the share `share` of `values` lies, interpolated between neighbours (R's type 7, which is the
/// default of R and of NumPy); `None` without values.
///
/// # Panics
///
/// If `share` is not between 0 and 1.
#[must_use]
pub fn quantile(values: &[f64], share: f64) -> Option<f64> {
    assert!((0.0..=1.0).contains(&share), "a share of {share} is not between 0 and 1");
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let place = sorted.len().checked_sub(1)? as f64 * share;
    let (below, above) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    // Equal neighbours may both be infinite, whose difference is not a number.
    Some(if below == above { below } else { below + (above - below) * place.fract() })
}

/// The arithmetic mean; `None` without values.
#[must_use]
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The standard deviation of a sample (divided by n − 1); `None` with fewer than two values.
#[must_use]
pub fn standard_deviation(values: &[f64]) -> Option<f64> {
    let mean = mean(values)?;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (values.len() > 1).then(|| (squares / (values.len() - 1) as f64).sqrt())
}

/// The relative standard deviation: the standard deviation over the mean; `None` with fewer than two values or a mean of 0.
#[must_use]
pub fn relative_deviation(values: &[f64]) -> Option<f64> {
    let (deviation, mean) = (standard_deviation(values)?, mean(values)?);
    (mean != 0.0).then(|| deviation / mean.abs())
}

/// Pearson's correlation coefficient of the pairs; `None` with fewer than two pairs, or if one side does not vary.
#[must_use]
pub fn correlation(pairs: &[(f64, f64)]) -> Option<f64> {
    let (left, right): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
    let (deviations, means) =
        ((standard_deviation(&left)?, standard_deviation(&right)?), (mean(&left)?, mean(&right)?));
    let products: f64 = pairs.iter().map(|(x, y)| (x - means.0) * (y - means.1)).sum();
    let coefficient = products / (pairs.len() - 1) as f64 / (deviations.0 * deviations.1);
    coefficient.is_finite().then(|| coefficient.clamp(-1.0, 1.0))
}
