//! Axes: from values to pixels, and the round numbers along the way.

/// A linear axis from 0, or a logarithmic one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scale {
    logarithmic: bool,
    low: f64,
    high: f64,
    start: f64,
    end: f64,
}

/// From this ratio of the largest to the smallest value on an axis is logarithmic.
pub(crate) const LOGARITHMIC_FROM: f64 = 20.0;

impl Scale {
    /// An axis for `values` between the pixels `start` and `end`; logarithmic when they are all positive and
    /// far apart.
    pub(crate) fn fitting(values: &[f64], start: f64, end: f64) -> Self {
        let (low, high) = extremes(values);
        if low > 0.0 && high / low > LOGARITHMIC_FROM {
            return Scale::logarithmic(values, start, end);
        }
        let high = if high > 0.0 { high } else { 1.0 };
        let low = low.min(0.0);
        let step = linear_step(high - low);
        let (low, high) = ((low / step).floor() * step, (high / step * 1.02).ceil() * step);
        Scale { logarithmic: false, low, high, start, end }
    }

    /// A logarithmic axis for positive `values`.
    pub(crate) fn logarithmic(values: &[f64], start: f64, end: f64) -> Self {
        let (low, high) = extremes(values);
        let low = if low > 0.0 { low } else { 1.0 };
        let high = high.max(low * 1.01);
        // A little room at both ends, so that no mark sits on the frame.
        let room = (high / low).powf(0.06).max(1.04);
        Scale { logarithmic: true, low: low / room, high: high * room, start, end }
    }

    /// Whether the axis is logarithmic.
    pub(crate) fn is_logarithmic(&self) -> bool {
        self.logarithmic
    }

    /// Where `value` lies, in pixels; values beyond the ends lie on them.
    pub(crate) fn at(&self, value: f64) -> f64 {
        let share = if self.logarithmic {
            (value.max(self.low) / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        self.start + share.clamp(0.0, 1.0) * (self.end - self.start)
    }

    /// Round numbers within the axis, with their labels.
    pub(crate) fn ticks(&self) -> Vec<(f64, String)> {
        let ticks = if self.logarithmic { self.logarithmic_ticks() } else { self.linear_ticks() };
        ticks.into_iter().map(|tick| (tick, label(tick))).collect()
    }

    fn linear_ticks(&self) -> Vec<f64> {
        let step = linear_step(self.high - self.low);
        let count = ((self.high - self.low) / step).round() as i32;
        (0..=count).map(|index| self.low + f64::from(index) * step).collect()
    }

    fn logarithmic_ticks(&self) -> Vec<f64> {
        let decades = (self.high / self.low).log10();
        let multiples: &[f64] = match decades {
            d if d > 4.0 => &[1.0],
            d if d > 2.2 => &[1.0, 3.0],
            d if d > 0.95 => &[1.0, 2.0, 5.0],
            d if d > 0.3 => &[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0],
            _ => &[1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.7, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 9.5],
        };
        let first = self.low.log10().floor() as i32;
        let last = self.high.log10().ceil() as i32;
        // Beyond eight decades not every one gets a tick.
        let stride = ((last - first) / 8 + 1).max(1);
        (first..=last)
            .filter(|exponent| exponent.rem_euclid(stride) == 0)
            .flat_map(|exponent| multiples.iter().map(move |multiple| multiple * 10f64.powi(exponent)))
            .filter(|tick| (self.low..=self.high).contains(tick))
            .collect()
    }
}

fn extremes(values: &[f64]) -> (f64, f64) {
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if low.is_finite() && high.is_finite() { (low, high) } else { (0.0, 1.0) }
}

/// 1, 2 or 5 times a power of ten, for about five steps.
fn linear_step(range: f64) -> f64 {
    let raw = range / 5.0;
    let power = 10f64.powf(raw.log10().floor());
    let step = [1.0, 2.0, 5.0].into_iter().find(|multiple| multiple * power >= raw * 0.999);
    step.unwrap_or(10.0) * power
}

/// `2.5`, `40k`, `1.2M`
fn label(tick: f64) -> String {
    let magnitude = tick.abs();
    let (scaled, suffix) = match magnitude {
        m if m >= 1e12 || (m > 0.0 && m < 1e-4) => return format!("{tick:.0e}"),
        m if m >= 1e9 => (tick / 1e9, "G"),
        m if m >= 1e6 => (tick / 1e6, "M"),
        m if m >= 1e4 => (tick / 1e3, "k"),
        _ => (tick, ""),
    };
    // Rounding away what binary fractions add: 0.30000000000000004.
    let text = format!("{scaled:.6}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    format!("{}{suffix}", if text == "-0" { "0" } else { text })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(scale: &Scale) -> Vec<String> {
        scale.ticks().into_iter().map(|(_, label)| label).collect()
    }

    #[test]
    fn near_values_start_at_zero() {
        let scale = Scale::fitting(&[1.1, 2.3, 4.1], 100.0, 0.0);
        assert!(!scale.is_logarithmic());
        assert_eq!(labels(&scale), ["0", "1", "2", "3", "4", "5"]);
        assert_eq!(scale.at(0.0), 100.0);
        assert!(scale.at(4.1) > 0.0);
    }

    #[test]
    fn far_values_are_logarithmic() {
        let scale = Scale::fitting(&[0.1, 30.0], 0.0, 100.0);
        assert!(scale.is_logarithmic());
        assert!(labels(&scale).contains(&"1".to_owned()));
        assert!(scale.at(0.1) > 0.0 && scale.at(30.0) < 100.0);
        assert_eq!(scale.at(0.0), 0.0);
    }

    #[test]
    fn every_axis_has_ticks() {
        for values in [&[][..], &[0.0], &[1.0], &[5e8, 6e8], &[1e-9, 1e9], &[0.98, 1.01], &[-3.0, 2.0]] {
            for scale in [Scale::fitting(values, 0.0, 1.0), Scale::logarithmic(values, 0.0, 1.0)] {
                let ticks = scale.ticks();
                assert!(!ticks.is_empty() && ticks.len() < 20, "{values:?}: {ticks:?}");
                assert!(ticks.iter().all(|(tick, _)| scale.at(*tick).is_finite()));
            }
        }
    }

    #[test]
    fn labels_are_short() {
        for (tick, text) in
            [(0.1 + 0.2, "0.3"), (40_000.0, "40k"), (1.2e6, "1.2M"), (2e-5, "2e-5"), (0.0, "0")]
        {
            assert_eq!(label(tick), text);
        }
    }
}
