//! Many locks: what the first lock and unlock of each costs in time and memory.
//!
//! The time includes the page faults of the locks' own memory, which a program that makes locks pays too. Memory is
//! what the process has resident afterwards and had not before, files such as its code excepted; the part beyond the
//! locks' own pages is the pool's.

use std::alloc::{Layout, alloc, handle_alloc_error};
use std::ptr::NonNull;
use std::time::Instant;

use super::crew::nanos;
use super::locks::{Job, Kind};
use super::{Figures, figure};

/// So much memory is asked for at least: from this size on malloc gives pages that nobody has touched.
const FRESH_BYTES: usize = 1 << 20;

/// The benchmark.
pub(super) struct Many {
    pub(super) counts: Vec<u32>,
}

impl Job for Many {
    fn run(&self, kind: &dyn Kind) -> Result<Figures, String> {
        let mut counts = self.counts.clone();
        counts.sort_unstable();
        counts.dedup();
        let one = kind.layout();
        let bytes = one.size();
        // Reading takes memory itself, the first time.
        resident_bytes()?;
        let mut figures = vec![figure("lock", bytes as f64)];
        for count in counts {
            let before = resident_bytes()?;
            let memory = memory_for(one, (count as usize).max(FRESH_BYTES / bytes));
            let begin = Instant::now();
            // SAFETY: at least so many fit.
            unsafe { kind.fill(memory, count as usize) };
            let time = nanos(begin, Instant::now()) as f64 / f64::from(count);
            let resident = resident_bytes()?.saturating_sub(before);
            let own = (count as usize * bytes).next_multiple_of(page_bytes());
            figures.push(figure(&format!("touch_{count}"), time));
            figures.push(figure(&format!("resident_{count}"), resident as f64));
            figures.push(figure(&format!("pool_{count}"), resident.saturating_sub(own) as f64));
        }
        Ok(figures)
    }
}

/// Memory for so many locks, which is kept until the process ends, so that no count finds the memory of the one before.
fn memory_for(one: Layout, count: usize) -> NonNull<u8> {
    let layout = Layout::from_size_align(one.size() * count, one.align()).expect("counts are limited");
    // SAFETY: the layout has a size.
    let memory = unsafe { alloc(layout) };
    NonNull::new(memory).unwrap_or_else(|| handle_alloc_error(layout))
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
