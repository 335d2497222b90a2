//! How far two orders of the same things agree.

use crate::Estimate;

/// Where one value is to another: above (1), below (-1), or tied (0) because their intervals overlap. What has no value is
/// below all that have one, and tied with others that have none.
fn order(a: Option<Estimate>, b: Option<Estimate>) -> i32 {
    match (a, b) {
        (Some(a), Some(b)) if a.low > b.high => 1,
        (Some(a), Some(b)) if b.low > a.high => -1,
        (Some(_), None) => 1,
        (None, Some(_)) => -1,
        _ => 0,
    }
}

/// Kendall's τ-b of the pairs (Kendall, "The Treatment of Ties in Ranking Problems", Biometrika 33(3), 1945): 1 where both sides
/// have one order, -1 where one is the reverse of the other. Values whose intervals overlap are tied. `None` where all of one
/// side are tied, or there are fewer than two.
#[must_use]
pub fn kendall(pairs: &[(Option<Estimate>, Option<Estimate>)]) -> Option<f64> {
    let (mut agreement, mut left, mut right) = (0, 0, 0);
    for (index, a) in pairs.iter().enumerate() {
        for b in &pairs[index + 1..] {
            let (x, y) = (order(a.0, b.0), order(a.1, b.1));
            agreement += x * y;
            left += x.abs();
            right += y.abs();
        }
    }
    let untied = f64::from(left) * f64::from(right);
    (untied > 0.0).then(|| (f64::from(agreement) / untied.sqrt()).clamp(-1.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(value: f64) -> Option<Estimate> {
        Some(Estimate { value, low: value - 0.4, high: value + 0.4 })
    }

    fn tau(left: &[f64], right: &[f64]) -> Option<f64> {
        let pairs: Vec<_> = left.iter().zip(right).map(|(x, y)| (at(*x), at(*y))).collect();
        kendall(&pairs)
    }

    #[test]
    fn orders_computed_by_hand() {
        let five = [1.0, 2.0, 3.0, 4.0, 5.0];
        assert_eq!(tau(&five, &five), Some(1.0));
        assert_eq!(tau(&five, &[5.0, 4.0, 3.0, 2.0, 1.0]), Some(-1.0));
        // One pair of ten is the other way round: (9 - 1) / 10.
        assert_eq!(tau(&five, &[2.0, 1.0, 3.0, 4.0, 5.0]), Some(0.8));
        // One pair of three is tied on the right: 2 / √(3 · 2).
        assert!(
            tau(&[1.0, 2.0, 3.0], &[1.0, 1.5, 3.0])
                .is_some_and(|tau| (tau - 2.0 / 6.0_f64.sqrt()).abs() < 1e-12)
        );
        assert_eq!(tau(&[1.0, 2.0], &[1.0, 1.0]), None, "all are tied");
        assert_eq!(tau(&[1.0], &[1.0]), None);
    }

    #[test]
    fn what_has_no_value_is_last() {
        assert_eq!(kendall(&[(None, at(1.0)), (at(5.0), at(2.0))]), Some(1.0));
        assert_eq!(kendall(&[(None, at(2.0)), (at(5.0), at(1.0))]), Some(-1.0));
        assert_eq!(kendall(&[(None, at(2.0)), (None, at(1.0))]), None);
    }
}
