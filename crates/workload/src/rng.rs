//! The pseudo-random numbers that choose keys, and that make up the external work.

/// Marsaglia's xorshift64* generator: a few instructions that depend on each other.
#[derive(Debug, Clone)]
pub(crate) struct Rng(u64);

impl Rng {
    /// A generator whose numbers differ from those of every other `stream`.
    pub(crate) fn new(stream: u64) -> Self {
        // Neighbouring streams get unrelated states (splitmix64's constants); 0 is the one bad state.
        let mut state = stream.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        Self((state ^ (state >> 27)).max(1))
    }

    /// The next 64 bits.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `bound`.
    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        (((self.next() >> 32) * u64::from(bound)) >> 32) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::Rng;

    #[test]
    fn numbers_below_a_bound_cover_it() {
        let mut rng = Rng::new(7);
        let mut seen = [0u32; 10];
        for _ in 0..10_000 {
            seen[rng.below(10) as usize] += 1;
        }
        assert!(seen.iter().all(|&count| (800..1200).contains(&count)), "{seen:?}");
    }

    #[test]
    fn streams_differ() {
        let firsts: std::collections::HashSet<u64> = (0..1000).map(|s| Rng::new(s).next()).collect();
        assert_eq!(firsts.len(), 1000);
    }
}
