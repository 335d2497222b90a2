//! How evenly threads got to do operations, as the papers measure it: natively, simulated, and in the workloads.

/// The unfairness factor of the GCR paper (Dice and Kogan, Euro-Par 2019, section 6.1): the share of the operations done
/// by the upper half of the threads. Of an odd number of threads the middle one counts half, so that equal counts
/// give 0.5.
#[must_use]
pub fn unfairness_factor(counts: &[u64]) -> f64 {
    let total: u64 = counts.iter().sum();
    if total == 0 {
        return 0.5;
    }
    let mut sorted = counts.to_vec();
    sorted.sort_unstable_by(|a, b| b.cmp(a));
    let half = sorted.len() / 2;
    let mut upper = sorted[..half].iter().sum::<u64>() as f64;
    if sorted.len() % 2 == 1 {
        upper += sorted[half] as f64 / 2.0;
    }
    upper / total as f64
}

/// Jain, Chiu and Hawe's fairness index (1984): 1 is fair, 1/n is one thread doing everything.
#[must_use]
pub fn jain_index(counts: &[u64]) -> f64 {
    let sum: f64 = counts.iter().map(|&count| count as f64).sum();
    let squares: f64 = counts.iter().map(|&count| (count as f64).powi(2)).sum();
    if squares == 0.0 { 1.0 } else { sum * sum / (counts.len() as f64 * squares) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_shares_are_fair_and_one_thread_is_not() {
        for counts in [&[5, 5, 5, 5][..], &[7, 7, 7], &[3], &[0, 0]] {
            assert_eq!((unfairness_factor(counts), jain_index(counts)), (0.5, 1.0), "{counts:?}");
        }
        assert_eq!((unfairness_factor(&[0, 8, 0, 0]), jain_index(&[0, 8, 0, 0])), (1.0, 0.25));
        assert_eq!(unfairness_factor(&[1, 2, 3, 4]), 0.7);
    }
}
