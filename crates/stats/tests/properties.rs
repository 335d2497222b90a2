//! What holds of every series.

use lockwork_stats::{
    Finding, MIN_PAIRS, Pairs, Tolerance, compare, estimate, holm, quantile, t_test, wilcoxon,
};
use proptest::prelude::*;

fn series() -> impl Strategy<Value = Vec<(u32, f64)>> {
    prop::collection::btree_map(0_u32..30, 0.01_f64..1e6, 0..20)
        .prop_map(|rounds| rounds.into_iter().collect())
}

fn scaled(series: &[(u32, f64)], factor: f64) -> Vec<(u32, f64)> {
    series.iter().map(|(round, value)| (*round, value * factor)).collect()
}

fn close(left: f64, right: f64) -> bool {
    (left - right).abs() <= 1e-9 * left.abs().max(right.abs())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

    /// Only rounds that both sides have count, in whichever order they come.
    #[test]
    fn pairs_are_the_common_rounds(own in series(), baseline in series(), seed: u64) {
        let pairs = Pairs::new(&own, &baseline);
        for &(round, left, right) in &pairs.rounds {
            prop_assert!(own.contains(&(round, left)) && baseline.contains(&(round, right)));
        }
        prop_assert_eq!(own.len() + baseline.len(), 2 * pairs.rounds.len() + pairs.unpaired);
        let backwards: Vec<_> = own.iter().rev().copied().collect();
        prop_assert_eq!(compare(&backwards, &baseline, seed), compare(&own, &baseline, seed));
    }

    /// A host that is slower in some rounds changes nothing, as it is slower for both sides.
    #[test]
    fn drift_that_both_share_is_invisible(own in series(), baseline in series(), drift in prop::collection::vec(0.1_f64..10.0, 30)) {
        let drifted = |series: &[(u32, f64)]| -> Vec<(u32, f64)> {
            series.iter().map(|(round, value)| (*round, value * drift[*round as usize])).collect()
        };
        let (still, moved) = (compare(&own, &baseline, 7), compare(&drifted(&own), &drifted(&baseline), 7));
        prop_assert_eq!(still.finding, moved.finding);
        if let (Some(still), Some(moved)) = (still.ratio, moved.ratio) {
            prop_assert!(close(still.value, moved.value) && close(still.low, moved.low) && close(still.high, moved.high));
        }
    }

    /// Which side is called the baseline does not matter.
    #[test]
    fn the_inverse_has_the_inverse_ratio(own in series(), baseline in series()) {
        let (forward, backward) = (compare(&own, &baseline, 7), compare(&baseline, &own, 7));
        if let (Some(forward), Some(backward)) = (forward.ratio, backward.ratio) {
            prop_assert!(close(forward.value, 1.0 / backward.value));
        }
        prop_assert!(forward.t.map(|t| t.p).zip(backward.t.map(|t| t.p)).is_none_or(|(a, b)| (a - b).abs() < 1e-9));
    }

    /// A series that is some factor of the other, always, differs from it if there are rounds enough.
    #[test]
    fn a_constant_factor_is_found(baseline in series(), factor in 0.2_f64..5.0) {
        let comparison = compare(&scaled(&baseline, factor), &baseline, 3);
        let expected = match baseline.len() {
            count if count < MIN_PAIRS => Finding::NotEnoughRounds,
            _ if factor > 1.0 => Finding::Higher,
            _ => Finding::Lower,
        };
        prop_assert_eq!(comparison.finding, expected);
    }

    /// The interval holds its median and stays within the values.
    #[test]
    fn intervals_hold_their_median(values in prop::collection::vec(-1e6_f64..1e6, 1..40), seed: u64) {
        let estimate = estimate(&values, seed).unwrap();
        let (least, greatest) = (quantile(&values, 0.0).unwrap(), quantile(&values, 1.0).unwrap());
        prop_assert!(least <= estimate.low && estimate.low <= estimate.value);
        prop_assert!(estimate.value <= estimate.high && estimate.high <= greatest);
        prop_assert!(close(estimate.value, quantile(&values, 0.5).unwrap()));
    }

    /// Probabilities are probabilities, and do not change when everything is turned over.
    #[test]
    fn tests_have_two_sides(values in prop::collection::vec(-100_i32..100, 2..60)) {
        let values: Vec<f64> = values.into_iter().map(f64::from).collect();
        let mirrored: Vec<f64> = values.iter().map(|value| -value).collect();
        for test in [t_test, wilcoxon] {
            if let Some(outcome) = test(&values, 0.0) {
                prop_assert!((0.0..=1.0).contains(&outcome.p));
                prop_assert!((outcome.p - test(&mirrored, 0.0).unwrap().p).abs() < 1e-9);
            }
        }
    }

    /// Holm's correction lowers no probability and keeps their order.
    #[test]
    fn holm_keeps_the_order(p in prop::collection::vec(0.0_f64..=1.0, 0..30)) {
        let adjusted = holm(&p);
        for i in 0..p.len() {
            prop_assert!(p[i] <= adjusted[i] && adjusted[i] <= (p[i] * p.len() as f64).min(1.0));
            prop_assert!((0..p.len()).all(|j| p[i] > p[j] || adjusted[i] <= adjusted[j]));
        }
    }

    /// Of two values at most one exceeds the other.
    #[test]
    fn tolerance_has_three_answers(left in 0.0_f64..1e6, right in 0.0_f64..1e6) {
        let rule = Tolerance::FIVE_PERCENT;
        let answers = [rule.exceeds(left, right), rule.exceeds(right, left), rule.alike(left, right)];
        prop_assert_eq!(answers.into_iter().filter(|answer| *answer).count(), 1);
    }
}

/// A ratio of a tenth, always, but far from steady: the interval of the ratio decides, whatever the spread of the values.
#[test]
fn the_interval_of_the_ratio_decides() {
    let baseline: Vec<(u32, f64)> =
        [1.0, 40.0, 3.0, 90.0, 12.0, 500.0, 7.0].into_iter().zip(0..).map(|(v, r)| (r, v)).collect();
    let own: Vec<(u32, f64)> =
        baseline.iter().map(|(round, value)| (*round, value * (0.02 + 0.1 * f64::from(round % 3)))).collect();
    assert_eq!(compare(&own, &baseline, 1).finding, Finding::Lower);
}

#[test]
fn missing_runs_drop_the_pair() {
    let baseline: Vec<(u32, f64)> = (0..8).map(|round| (round, 10.0 + f64::from(round))).collect();
    let own: Vec<(u32, f64)> = baseline.iter().skip(3).map(|(round, value)| (*round, value * 2.0)).collect();
    let comparison = compare(&own, &baseline, 1);
    assert_eq!((comparison.pairs, comparison.unpaired, comparison.finding), (5, 3, Finding::NotEnoughRounds));
    assert_eq!(comparison.ratio.unwrap().value, 2.0);
}

#[test]
fn a_baseline_of_nothing_has_no_ratio() {
    let own: Vec<(u32, f64)> = (0..8).map(|round| (round, 1.0)).collect();
    let mut baseline = own.clone();
    baseline[3].1 = 0.0;
    let comparison = compare(&own, &baseline, 1);
    assert_eq!((comparison.finding, comparison.ratio), (Finding::NoRatio, None));
    // The other way round the ratio is 0 in one round, which the ranks can take.
    let comparison = compare(&baseline, &own, 1);
    assert_eq!((comparison.finding, comparison.t), (Finding::NoDifference, None));
    assert!(comparison.wilcoxon.is_some());
}

#[test]
fn alike_is_not_the_same_as_no_difference_found() {
    let rule = Tolerance::FIVE_PERCENT;
    let of = |ratios: &[f64]| estimate(ratios, 1).unwrap();
    assert!(rule.shown_alike(&of(&[1.01, 0.99, 1.02, 1.0, 0.98, 1.01])));
    assert!(!rule.shown_alike(&of(&[1.2, 0.8, 1.0, 1.1, 0.9, 1.0])));
    // A difference may be sure and small.
    assert!(rule.shown_alike(&of(&[1.02, 1.021, 1.02, 1.022, 1.019, 1.02])));
}
