//! Log-linear histograms of durations: 16 buckets for each power of two, so that a bucket is at most 6.25% wide.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

const SUB_BITS: u32 = 4;
const SUB: u64 = 1 << SUB_BITS;
/// Durations from here on (about 73 minutes) share the last bucket.
const TOP_BITS: u32 = 42;
/// Number of buckets.
pub const BUCKETS: usize = ((TOP_BITS - SUB_BITS + 1) as usize) << SUB_BITS;

/// The bucket of a duration.
#[must_use]
pub fn bucket(ns: u64) -> usize {
    if ns < SUB {
        return ns as usize;
    }
    let exponent = 63 - ns.leading_zeros();
    if exponent >= TOP_BITS {
        return BUCKETS - 1;
    }
    let shift = exponent - SUB_BITS;
    (((shift + 1) as u64) * SUB + ((ns >> shift) - SUB)) as usize
}

/// The least duration of a bucket.
#[must_use]
pub fn lower_bound(bucket: usize) -> u64 {
    let (group, sub) = (bucket as u64 / SUB, bucket as u64 % SUB);
    if group == 0 { sub } else { (SUB + sub) << (group - 1) }
}

/// A histogram in a mapped file.
#[repr(C)]
#[derive(Debug)]
pub struct Histogram {
    counts: [AtomicU64; BUCKETS],
}

impl Histogram {
    /// Adds a duration that stands for `weight`.
    pub fn add(&self, ns: u64, weight: u64) {
        self.counts[bucket(ns)].fetch_add(weight, Relaxed);
    }

    /// The weight in each bucket.
    pub fn weights(&self) -> impl Iterator<Item = u64> {
        self.counts.iter().map(|count| count.load(Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_duration_lies_in_its_bucket() {
        for ns in
            (0..70).chain((4..42).flat_map(|bit| [(1 << bit) - 1, 1 << bit, (1 << bit) + (1 << (bit - 1))]))
        {
            let bucket = bucket(ns);
            assert!(lower_bound(bucket) <= ns, "{ns}");
            assert!(bucket + 1 == BUCKETS || ns < lower_bound(bucket + 1), "{ns}");
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }
}
