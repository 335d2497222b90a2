//! When a thread takes its next sample.

use core::sync::atomic::Ordering::Relaxed;

use crate::format::Thread;

/// Samples that a thread takes before it doubles their distance.
const BEFORE_DOUBLING: u32 = 64;
/// The greatest distance of samples.
const MAX_PERIOD: u32 = 1 << 15;

impl Thread {
    /// A random number. xorshift64*: S. Vigna, "An experimental exploration of Marsaglia's xorshift generators", 2016.
    fn random(&self) -> u64 {
        let mut x = self.random.load(Relaxed);
        x ^= x >> 12;
        x ^= x << 25;
        x ^= x >> 27;
        self.random.store(x, Relaxed);
        x.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number from an exponential distribution.
    fn exponential(&self, mean: f64) -> f64 {
        // In (0, 1].
        let uniform = ((self.random() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
        -libm::log(uniform) * mean
    }

    /// Draws the distance to the next sampled acquisition, geometric with the thread's period as its mean.
    pub(crate) fn draw_acquisition(&self) {
        let period = self.period.load(Relaxed).max(1);
        let distance = if period == 1 {
            1
        } else {
            let mean = -1.0 / libm::log1p(-1.0 / f64::from(period));
            1 + (self.exponential(mean) as u32).min(period * 32)
        };
        self.countdown.store(distance, Relaxed);
    }

    /// The weight of the sample that is taken now; draws the next.
    pub(crate) fn take_acquisition(&self, max_period: u32) -> u16 {
        let weight = self.period.load(Relaxed).max(1);
        let taken = self.taken.load(Relaxed) + 1;
        if taken == BEFORE_DOUBLING && weight < max_period.min(MAX_PERIOD) {
            self.period.store(weight * 2, Relaxed);
            self.taken.store(0, Relaxed);
        } else {
            self.taken.store(taken.min(BEFORE_DOUBLING - 1), Relaxed);
        }
        self.draw_acquisition();
        weight.min(MAX_PERIOD) as u16
    }

    /// Whether the next sampled point lies within the first [`REACH`] of the wait that begins. That is so of one wait in
    /// [`ONE_IN`], whatever waits there were before: distances between points are exponential.
    pub(crate) fn is_near(&self, period_ns: u64) -> bool {
        self.wait_left_ns.load(Relaxed) <= reach(period_ns)
    }

    /// Whether a wait of this length has a sampled point in it, and then what it stands for: the inverse of the probability
    /// that it has one. With `only_near`, what counts is whether it has one in its first [`REACH`].
    pub(crate) fn take_wait(&self, ns: u64, period_ns: u64, only_near: bool) -> Option<f64> {
        let left = self.wait_left_ns.load(Relaxed);
        if ns < left {
            self.wait_left_ns.store(left - ns, Relaxed);
            return None;
        }
        let period = period_ns.max(1) as f64;
        self.wait_left_ns.store(self.exponential(period) as u64 + 1, Relaxed);
        let within = if only_near { ns.min(reach(period_ns)) } else { ns };
        if left > within.max(1) {
            return None;
        }
        Some(1.0 / -libm::expm1(-(within.max(1) as f64) / period))
    }
}

/// See [`Thread::is_near`].
pub(crate) const ONE_IN: u32 = 16;

/// That part of the mean distance of sampled points, within which the next one is with a probability of one in [`ONE_IN`].
const REACH: f64 = 0.064_538_521;

fn reach(period_ns: u64) -> u64 {
    (period_ns as f64 * REACH) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread() -> Thread {
        // SAFETY: zero is a valid thread.
        let thread: Thread = unsafe { core::mem::zeroed() };
        thread.random.store(42, Relaxed);
        thread.draw_acquisition();
        thread
    }

    #[test]
    fn weights_of_acquisitions_add_up_to_their_number() {
        let thread = thread();
        let number = 3_000_000_u64;
        let (mut sum, mut variance) = (0_u64, 0_u64);
        for _ in 0..number {
            let left = thread.countdown.load(Relaxed) - 1;
            thread.countdown.store(left, Relaxed);
            if left == 0 {
                let weight = u64::from(thread.take_acquisition(1024));
                sum += weight;
                variance += weight * (weight - 1);
            }
        }
        let error = (sum as f64 - number as f64).abs();
        assert!(
            error < 4.0 * (variance as f64).sqrt(),
            "{sum} of {number}, deviation {}",
            (variance as f64).sqrt()
        );
    }

    /// The weights of a number of waits of this length, which are samples as the recorder takes them.
    fn sum_of_weights(length: u64, only_near: bool) {
        let thread = thread();
        let number = 200_000;
        let mut sum = 0.0;
        let mut squares = 0.0;
        for _ in 0..number {
            if let Some(weight) = thread.take_wait(length, 50_000, only_near) {
                sum += weight;
                squares += weight * (weight - 1.0);
            }
        }
        let error = (sum - f64::from(number)).abs();
        assert!(error <= 4.0 * squares.sqrt() + 1e-6, "{length} ns: {sum} of {number}");
    }

    #[test]
    fn weights_of_waits_add_up_to_their_time() {
        for length in [100_u64, 5_000, 50_000, 5_000_000] {
            sum_of_weights(length, false);
            sum_of_weights(length, true);
        }
    }

    #[test]
    fn a_sampled_point_is_near_as_often_as_is_said() {
        let thread = thread();
        let number = 200_000;
        let mut near = 0_u32;
        for _ in 0..number {
            near += u32::from(thread.is_near(50_000));
            let _ = thread.take_wait(700, 50_000, true);
        }
        // Waits that follow each other see the same point: near ones come in runs of up to five.
        let expected = f64::from(number) / f64::from(ONE_IN);
        assert!((f64::from(near) - expected).abs() < 4.0 * (5.0 * expected).sqrt(), "{near}");
    }
}
