//! Against values that others published or that other programs computed.

use lockwork_stats::{correlation, holm, mean, median, quantile, relative_deviation, standard_deviation};
use lockwork_stats::{t_test, wilcoxon};

fn near(value: f64, expected: f64) {
    assert!((value - expected).abs() <= 1e-8 * expected.abs().max(1.0), "{value} is not {expected}");
}

fn differences(left: &[f64], right: &[f64]) -> Vec<f64> {
    left.iter().zip(right).map(|(left, right)| left - right).collect()
}

/// R's documentation of t.test, data set sleep (Student 1908): t = -4.0621, df = 9, p-value = 0.002833. The further digits are
/// SciPy's (`scipy.stats.ttest_rel`).
#[test]
fn student_s_sleep_data() {
    let first = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0];
    let second = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4];
    let test = t_test(&differences(&first, &second), 0.0).unwrap();
    near(test.statistic, -4.062127683382037);
    near(test.p, 0.002832890197384273);
    // Its confidence interval's upper end, -0.7001142, is the location with p = 0.05.
    near(t_test(&differences(&first, &second), -0.7001142367230175).unwrap().p, 0.05);
}

/// R's documentation of wilcox.test, depression scale factors (Hollander and Wolfe 1973, page 29): V = 40, and 0.01953 on one
/// side.
#[test]
fn hollander_and_wolfe_s_depression_data() {
    let before = [1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30];
    let after = [0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 314.0 / 100.0, 1.29];
    let test = wilcoxon(&differences(&before, &after), 0.0).unwrap();
    assert_eq!((test.statistic, test.p), (40.0, 0.0390625));
    near(t_test(&differences(&before, &after), 0.0).unwrap().p, 0.016176627434908088);
}

/// Ties and a zero: all 512 ways to give signs to the ranks, counted by another program.
#[test]
fn ties_are_counted_exactly() {
    let test = wilcoxon(&[1.0, 1.0, 2.0, -2.0, 3.0, 3.0, 4.0, 0.0, 5.0, -1.0], 0.0).unwrap();
    assert_eq!((test.statistic, test.p), (38.5, 0.0703125));
}

/// SciPy's `wilcoxon`, exact for 20 values and approximate, with its correction for continuity, for 80.
#[test]
fn more_values_as_in_scipy() {
    let twenty = [
        -0.16, 1.404, 1.597, 0.517, 0.614, -0.29, -0.714, -0.7, -0.798, 1.129, 0.144, 0.328, -0.44, -0.888,
        -1.002, -0.642, 0.799, 0.218, -0.257, -0.039,
    ];
    near(wilcoxon(&twenty, 0.0).unwrap().p, 0.9854354858398438);
    near(t_test(&twenty, 0.0).unwrap().p, 0.8156765570179226);
    let eighty: Vec<f64> = (1..=80).map(|i| f64::from(i * 37 % 101 - 40) / 10.0).collect();
    near(wilcoxon(&eighty, 0.0).unwrap().p, 0.0040569982788668316);
    near(t_test(&eighty, 0.0).unwrap().p, 0.002011504076261692);
}

/// R's documentation of p.adjust names the method; the figures are worked by hand from Holm 1979: 5·0.01, 4·0.02, 3·0.03, then
/// 2·0.04, which may not fall below what came before.
#[test]
fn holm_s_steps() {
    let adjusted = holm(&[0.03, 0.01, 0.04, 0.02, 0.05]);
    for (value, expected) in adjusted.iter().zip([0.09, 0.05, 0.09, 0.08, 0.09]) {
        near(*value, expected);
    }
    assert!(holm(&[]).is_empty());
    assert_eq!(holm(&[0.4, 0.9]), [0.8, 0.9]);
}

/// NumPy's `quantile`, which interpolates as R's `quantile` does; Anscombe's first quartet (The American Statistician 27, 1973):
/// a correlation of 0.816, a mean of 7.50, a deviation of 2.03.
#[test]
fn descriptions() {
    let values = [40.0, 15.0, 50.0, 20.0, 35.0];
    for (share, expected) in [(0.05, 16.0), (0.3, 23.0), (0.4, 29.0), (0.5, 35.0), (0.99, 49.6)] {
        near(quantile(&values, share).unwrap(), expected);
    }
    assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
    let x = [10.0, 8.0, 13.0, 9.0, 11.0, 14.0, 6.0, 4.0, 12.0, 7.0, 5.0];
    let y = [8.04, 6.95, 7.58, 8.81, 8.33, 9.96, 7.24, 4.26, 10.84, 4.82, 5.68];
    let pairs: Vec<(f64, f64)> = x.into_iter().zip(y).collect();
    assert!((correlation(&pairs).unwrap() - 0.81642).abs() < 1e-5);
    assert!((mean(&y).unwrap() - 7.5009).abs() < 1e-4);
    assert!((standard_deviation(&y).unwrap() - 2.0316).abs() < 1e-4);
    assert!((relative_deviation(&y).unwrap() - 0.27085).abs() < 1e-5);
}

#[test]
fn nothing_is_said_of_nothing() {
    assert_eq!(
        (median(&[]), mean(&[]), standard_deviation(&[1.0]), correlation(&[])),
        (None, None, None, None)
    );
    assert_eq!((t_test(&[2.0, 2.0, 2.0], 0.0), wilcoxon(&[3.0, 3.0], 3.0)), (None, None));
    assert_eq!(correlation(&[(1.0, 2.0), (1.0, 3.0)]), None);
}
