//! What a single lock needs of the machine beyond what all need: one trait for each such lock.

use core::sync::atomic::AtomicUsize;

use crate::sched::load;
use crate::tls::ThreadBlock;
use crate::{Cells, Clock, Cpu, Native, Sched, sys};

/// TWA's waiting array: words that all locks of a process share.
pub trait SharedWords: Cells {
    /// Uses one of the words that all locks of the process share: the one that belongs to the lock at `address` and to
    /// `number`. Different ones may get the same word.
    fn shared_word<R>(address: usize, number: u32, use_it: impl FnOnce(&Self::Usize) -> R) -> R;
}

/// BRAVO's table of visible readers, which all locks of a process share, and the cheap clock that its inhibition goes by.
pub trait VisibleReaders: Cells + Cpu {
    /// Slots of the table; 0 = there is none, and biased locks do without.
    const VISIBLE_READERS: usize = 0;

    /// Which of them the calling thread uses for the lock at `address`. Different ones may be given the same.
    fn reader_slot(address: usize) -> usize {
        let _ = address;
        0
    }

    /// Uses a slot of the table.
    ///
    /// # Panics
    ///
    /// If there is no such slot.
    fn visible_reader<R>(index: usize, use_it: impl FnOnce(&Self::Usize) -> R) -> R {
        let _ = use_it;
        panic!("no slot {index}")
    }

    /// Whether the calling thread is to look at something that changes seldom: in one of some dozens of calls.
    #[inline]
    fn now_and_then() -> bool {
        true
    }

    /// The time on the monotonic clock some milliseconds ago, at most: when the kernel last had reason to note it. Cheaper
    /// than [`Cpu::now`].
    #[inline]
    fn now_roughly() -> u64 {
        Self::now(Clock::Monotonic)
    }
}

/// LC's load control.
pub trait LoadControl: Sched {
    /// Whether more threads can run than there are CPUs for. If so, the caller is about to sleep because of that, and
    /// the figure of [`Sched::runnable`] is one less: no more threads are told so than are too many.
    fn claim_surplus() -> bool {
        Self::runnable() > Self::parallelism()
    }
}

/// Calls of [`VisibleReaders::now_and_then`] of a thread for one that says so.
const CALLS: u8 = 64;

/// See [`SharedWords::shared_word`].
static SHARED_WORDS: [AtomicUsize; 4096] = [const { AtomicUsize::new(0) }; 4096];

/// See [`VisibleReaders::visible_reader`].
static VISIBLE: [AtomicUsize; 4096] = [const { AtomicUsize::new(0) }; 4096];

impl SharedWords for Native {
    #[inline(always)]
    fn shared_word<R>(address: usize, number: u32, use_it: impl FnOnce(&AtomicUsize) -> R) -> R {
        // Neighbouring numbers come to lie some cache lines apart.
        use_it(&SHARED_WORDS[(address ^ (number as usize).wrapping_mul(127)) % SHARED_WORDS.len()])
    }
}

impl VisibleReaders for Native {
    const VISIBLE_READERS: usize = VISIBLE.len();

    #[inline]
    fn reader_slot(address: usize) -> usize {
        let mixed = (address >> 3) ^ (Self::thread_id() as usize).wrapping_mul(0x9E37_79B9);
        // The upper half: the lower bits of a product are those of its factors.
        (mixed.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) % VISIBLE.len()
    }

    #[inline]
    fn visible_reader<R>(index: usize, use_it: impl FnOnce(&AtomicUsize) -> R) -> R {
        use_it(&VISIBLE[index])
    }

    #[inline]
    fn now_and_then() -> bool {
        let calls = &ThreadBlock::current().calls;
        let count = calls.get();
        calls.set(count.wrapping_add(1));
        count.is_multiple_of(CALLS)
    }

    fn now_roughly() -> u64 {
        sys::now_roughly()
    }
}

impl LoadControl for Native {
    fn claim_surplus() -> bool {
        load::claim(Self::parallelism())
    }
}
