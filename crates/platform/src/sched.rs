//! Which threads run, how many want to, and on how much of a CPU this process has a claim.

pub mod cpu_time;
pub(crate) mod load;
pub mod monitor;
mod preemptions;

use core::mem;
use core::sync::atomic::{AtomicUsize, Ordering};

use crate::cpu::ROUND_TRIP_NS;
use crate::tls::ThreadBlock;
use crate::{Native, sys, waiters};

/// Which threads run, and how many want to.
pub trait Sched: Sized {
    /// How many threads can run at once, at least 1: the CPUs that this process is allowed to use, or has the quota of.
    fn parallelism() -> usize;

    /// How many threads of this process can run right now, the caller included. A figure that may be some milliseconds old;
    /// 0 where it is not known.
    fn runnable() -> usize {
        1
    }

    /// Whether this process is short of CPUs: more of its threads can run than there are CPUs for, or others take them.
    fn is_overloaded() -> bool {
        Self::runnable() > Self::parallelism()
    }

    /// Whether there are signs that the threads outnumber the CPUs, so that one who spins may take the CPU of the one it
    /// waits for. `before` is what the caller keeps from one look to the next of the same wait, 0 at first: a wait that was
    /// interrupted for long is such a sign.
    fn crowded(before: &mut u64) -> bool {
        let _ = before;
        Self::is_overloaded()
    }

    /// What the calling thread is known by in [`Sched::running`]; not 0.
    fn scheduling_id() -> u32 {
        Self::thread_id()
    }

    /// As [`Sched::scheduling_id`], for a thread of which it is known.
    #[inline(always)]
    fn known_scheduling_id() -> u32 {
        Self::scheduling_id()
    }

    /// Whether the thread with this [`Sched::scheduling_id`] is on a CPU, or `None` where nobody watches the
    /// scheduler, or not that thread. A hint: it was so a moment ago.
    fn running(thread: u32) -> Option<bool> {
        let _ = thread;
        None
    }

    /// Whether [`Sched::has_run`] can tell anything.
    fn tells_who_ran() -> bool {
        false
    }

    /// Whether a thread with this [`Sched::scheduling_id`] has been on a CPU since the caller last looked, or, when
    /// it is the first look at that thread, or more is not known, is. `None` where that cannot be told. Takes a microsecond
    /// or two.
    fn has_run(thread: u32, last: &mut LastSeen) -> Option<bool> {
        let _ = (thread, last);
        None
    }

    /// Asks for a watch of the scheduler where it is watched on demand and nothing else tells which threads run: the caller
    /// is about to sleep for another thread.
    fn want_watch() {}

    /// A number from 1 that no other living thread has; 0 where the thread has none, as when it is ending.
    fn thread_id() -> u32;

    /// A word of thread-local scratch space, initially 0: GCR paces its scans with it.
    fn thread_word() -> u64;

    /// Sets the word of [`Sched::thread_word`].
    fn set_thread_word(word: u64);
}

/// What a waiter keeps from one [`Sched::has_run`] to the next; at first the default.
#[derive(Debug, Default)]
pub struct LastSeen {
    /// Which thread was looked at; 0 = none yet.
    thread: u32,
    /// Its CPU time, in ns.
    ns: u64,
}

impl LastSeen {
    /// Notes that `thread` is looked at. Whether it is the first look at that one.
    pub fn turn_to(&mut self, thread: u32) -> bool {
        mem::replace(&mut self.thread, thread) != thread
    }
}

/// CPUs this process may use; 0 = not asked yet.
static PARALLELISM: AtomicUsize = AtomicUsize::new(0);

impl Sched for Native {
    fn parallelism() -> usize {
        let allowed = match PARALLELISM.load(Ordering::Relaxed) {
            0 => {
                let cpus = sys::allowed_cpus();
                PARALLELISM.store(cpus, Ordering::Relaxed);
                cpus
            }
            cpus => cpus,
        };
        allowed.min(load::quota())
    }

    fn runnable() -> usize {
        load::runnable()
    }

    fn is_overloaded() -> bool {
        load::is_overloaded(Self::parallelism())
    }

    fn crowded(before: &mut u64) -> bool {
        load::crowded(before, Self::parallelism(), ROUND_TRIP_NS.load(Ordering::Relaxed))
    }

    #[inline(always)]
    fn scheduling_id() -> u32 {
        Self::tid()
    }

    #[inline(always)]
    fn known_scheduling_id() -> u32 {
        ThreadBlock::current().known_tid()
    }

    #[inline]
    fn running(thread: u32) -> Option<bool> {
        monitor::running(thread)
    }

    fn tells_who_ran() -> bool {
        cpu_time::is_allowed() || monitor::answers()
    }

    fn has_run(thread: u32, last: &mut LastSeen) -> Option<bool> {
        cpu_time::has_run(thread, last).or_else(|| monitor::ask(thread))
    }

    fn want_watch() {
        // A watch costs every context switch of the machine; a look at a clock, or a question, costs its waiter only.
        if !Self::tells_who_ran() {
            monitor::want();
        }
    }

    #[inline(always)]
    fn thread_id() -> u32 {
        waiters::current().map_or(0, waiters::Slot::number)
    }

    fn thread_word() -> u64 {
        ThreadBlock::current().word.get()
    }

    #[inline(always)]
    fn set_thread_word(word: u64) {
        ThreadBlock::current().word.set(word);
    }
}
