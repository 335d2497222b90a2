//! What it costs to get cache lines: those that another CPU has modified, one's own, and those that only memory has.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Instant;

use super::median;
use super::threads::{on_cpu, pair};

/// Lines of a chain, all of which fit the smallest cache.
const LINES: usize = 64;
/// Words between two lines: prefetchers that take a neighbour along find nothing.
const STRIDE: usize = 32;
/// A chain's words hold the number of the next line here, and above that a count of changes.
const NEXT: u64 = 0xffff_ffff;

/// Lines in a random circle: each says which is next, so that no access begins before the one before it has ended.
struct Chain(Box<[AtomicU64]>);

impl Chain {
    fn new() -> Self {
        let words: Box<[AtomicU64]> = (0..LINES * STRIDE).map(|_| AtomicU64::new(0)).collect();
        for (line, next) in circle(LINES).into_iter().enumerate() {
            words[line * STRIDE].store(next as u64, Ordering::Relaxed);
        }
        Self(words)
    }

    fn word(&self, line: u64) -> &AtomicU64 {
        &self.0[(line & NEXT) as usize * STRIDE]
    }

    /// Reads all lines. Nanoseconds for one.
    fn read(&self) -> f64 {
        // ORDER: Relaxed: each access needs the value of the one before it.
        self.walk(|word| word.load(Ordering::Relaxed))
    }

    /// Changes all lines. Nanoseconds for one.
    fn modify(&self) -> f64 {
        self.walk(|word| word.fetch_add(NEXT + 1, Ordering::Relaxed))
    }

    fn walk(&self, access: impl Fn(&AtomicU64) -> u64) -> f64 {
        let start = Instant::now();
        let mut line = 0;
        for _ in 0..LINES {
            line = access(self.word(line));
        }
        std::hint::black_box(line);
        start.elapsed().as_nanos() as f64 / LINES as f64
    }
}

/// A random circle through all numbers below `count`: where each leads (Sattolo's algorithm).
fn circle(count: usize) -> Vec<usize> {
    let mut random = fastrand::Rng::with_seed(1);
    let mut next: Vec<usize> = (0..count).collect();
    for last in (1..count).rev() {
        next.swap(last, random.usize(..last));
    }
    next
}

/// One round between two CPUs, in nanoseconds an access.
#[derive(Debug, Clone, Copy)]
pub(super) struct Round {
    /// A load of, and a read-modify-write to, a line that the other CPU has modified.
    pub(super) load: f64,
    pub(super) modify: f64,
    /// A read-modify-write to one that was loaded before.
    pub(super) modify_loaded: f64,
    /// A load and a read-modify-write once the line is one's own.
    pub(super) own_load: f64,
    pub(super) own_modify: f64,
}

/// Lets one CPU modify lines that another then reads or modifies. `None` if a thread cannot run there.
pub(super) fn between(owner: usize, visitor: usize, rounds: usize) -> Option<Vec<Round>> {
    let chain = Chain::new();
    // Even: the owner's turn. Each round has two turns of each.
    let turn = AtomicU32::new(0);
    let wait_for = |number: u32| {
        let mut looks = 0_u32;
        while turn.load(Ordering::Acquire) != number {
            looks += 1;
            std::hint::spin_loop();
            // Another process may have the other CPU.
            if looks.is_multiple_of(10_000) {
                std::thread::yield_now();
            }
        }
    };
    let pass = |number: u32| turn.store(number + 1, Ordering::Release);
    let owns = || {
        for number in (0..4 * rounds as u32).step_by(2) {
            wait_for(number);
            chain.modify();
            pass(number);
        }
    };
    let visits = || {
        let mut seen = Vec::with_capacity(rounds);
        for number in (1..4 * rounds as u32).step_by(4) {
            wait_for(number);
            let (load, own_load, modify_loaded) = (chain.read(), chain.read(), chain.modify());
            pass(number);
            wait_for(number + 2);
            let (modify, own_modify) = (chain.modify(), chain.modify());
            pass(number + 2);
            seen.push(Round { load, modify, modify_loaded, own_load, own_modify });
        }
        seen
    };
    pair((owner, owns), (visitor, visits)).map(|((), seen)| seen)
}

/// Nanoseconds to read and to modify a line of one's own: medians of rounds on one CPU.
pub(super) fn own(cpu: usize, rounds: usize) -> Option<(f64, f64)> {
    on_cpu(cpu, || {
        let chain = Chain::new();
        chain.modify();
        let loads: Vec<f64> = (0..rounds).map(|_| chain.read()).collect();
        let changes: Vec<f64> = (0..rounds).map(|_| chain.modify()).collect();
        (median(&loads), median(&changes))
    })
}

/// Zeroed memory on large pages, where the kernel has some.
struct Pages {
    start: *mut usize,
    layout: Layout,
}

// SAFETY: the memory is this value's own.
unsafe impl Send for Pages {}

impl Pages {
    fn new(bytes: usize) -> Option<Self> {
        const LARGE_PAGE: usize = 2 << 20;
        let layout = Layout::from_size_align(bytes.next_multiple_of(LARGE_PAGE), LARGE_PAGE).ok()?;
        // SAFETY: the size is not 0.
        let start = unsafe { alloc_zeroed(layout) };
        if start.is_null() {
            handle_alloc_error(layout);
        }
        // SAFETY: whole pages of ours; this is advice, and changes nothing that they hold.
        unsafe { libc::madvise(start.cast(), layout.size(), libc::MADV_HUGEPAGE) };
        Some(Self { start: start.cast(), layout })
    }

    fn words(&mut self) -> &mut [usize] {
        // SAFETY: ours, zeroed, aligned to more than a word, and borrowed with `self`.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.layout.size() / size_of::<usize>()) }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout.
        unsafe { dealloc(self.start.cast(), self.layout) };
    }
}

/// Nanoseconds to read a line that no cache has, of memory that `home` has touched first: medians of a few thousand
/// accesses each.
pub(super) fn memory(home: usize, reader: usize, bytes: usize, batches: usize) -> Option<Vec<f64>> {
    /// Words of a cache line.
    const LINE: usize = 8;
    const BATCH: usize = 4096;
    let mut pages = on_cpu(home, || {
        let mut pages = Pages::new(bytes)?;
        let words = pages.words();
        for (line, next) in circle(words.len() / LINE).into_iter().enumerate() {
            words[line * LINE] = next * LINE;
        }
        Some(pages)
    })??;
    on_cpu(reader, || {
        let words = pages.words();
        let mut word = 0;
        (0..batches)
            .map(|_| {
                let start = Instant::now();
                for _ in 0..BATCH {
                    word = words[word];
                }
                std::hint::black_box(word);
                start.elapsed().as_nanos() as f64 / BATCH as f64
            })
            .collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_circle_goes_through_all() {
        let next = circle(1000);
        let (mut at, mut steps) = (0, 0);
        loop {
            at = next[at];
            steps += 1;
            if at == 0 {
                break;
            }
        }
        assert_eq!(steps, 1000);
    }

    #[test]
    fn a_chain_stays_a_circle_when_it_is_modified() {
        let chain = Chain::new();
        for _ in 0..3 {
            chain.modify();
        }
        let words: Vec<u64> =
            (0..LINES).map(|line| chain.word(line as u64).load(Ordering::Relaxed)).collect();
        assert!(
            words.iter().all(|word| word >> 32 == 3),
            "each line has been modified each time: {words:x?}"
        );
    }
}
