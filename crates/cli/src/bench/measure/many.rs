//! Many locks: what the first lock and unlock of each costs in time and memory.
//!
//! The time includes the page faults of the locks' own memory, which a program that makes locks pays too. Memory is
//! what the process has resident afterwards and had not before, files such as its code excepted; the part beyond the
//! locks' own pages is the pool's.

use std::mem::size_of;
use std::time::Instant;

use super::crew::nanos;
use super::locks::{Job, Lock};
use super::{Figures, figure};

/// So much memory is asked for at least: from this size on malloc gives pages that nobody has touched.
const FRESH_BYTES: usize = 1 << 20;

/// The benchmark.
pub(super) struct Many {
    pub(super) counts: Vec<u32>,
}

impl Job for Many {
    fn run<L: Lock>(self, new: &dyn Fn() -> L) -> Result<Figures, String> {
        let mut counts = self.counts;
        counts.sort_unstable();
        counts.dedup();
        let bytes = size_of::<L>();
        // Reading takes memory itself, the first time.
        resident_bytes()?;
        let mut figures = vec![figure("lock", bytes as f64)];
        // Kept until the end, so that no count finds the memory of the one before.
        let mut kept = Vec::new();
        for count in counts {
            let before = resident_bytes()?;
            let mut locks: Vec<L> = Vec::with_capacity((count as usize).max(FRESH_BYTES / bytes));
            let begin = Instant::now();
            for _ in 0..count {
                locks.push(new());
                let lock = &locks[locks.len() - 1];
                let token = lock.lock();
                // SAFETY: the token of this acquisition.
                unsafe { lock.unlock(token) };
            }
            let time = nanos(begin, Instant::now()) as f64 / f64::from(count);
            let resident = resident_bytes()?.saturating_sub(before);
            let own = (count as usize * bytes).next_multiple_of(page_bytes());
            figures.push(figure(&format!("touch_{count}"), time));
            figures.push(figure(&format!("resident_{count}"), resident as f64));
            figures.push(figure(&format!("pool_{count}"), resident.saturating_sub(own) as f64));
            kept.push(locks);
        }
        Ok(figures)
    }
}

fn page_bytes() -> usize {
    rustix::param::page_size()
}

/// The anonymous part of the resident set. Not from `statm`, whose counters lag behind by some pages a thread.
fn resident_bytes() -> Result<usize, String> {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup")
        .map_err(|error| format!("cannot read /proc/self/smaps_rollup: {error}"))?;
    let kib = text
        .lines()
        .find_map(|line| line.strip_prefix("Anonymous:")?.split_whitespace().next()?.parse().ok());
    kib.map(|kib: usize| kib * 1024)
        .ok_or_else(|| "no anonymous memory in /proc/self/smaps_rollup".to_owned())
}
