//! Whether another thread of this process runs, by what every thread of the process may read: its CPU clock.
//!
//! A thread that reads such a clock twice sees that the thread was on a CPU in between, or that it was not, which takes no
//! privilege and is as fresh as a look at the scheduler itself. It is a system call, of half a microsecond to one: something
//! for the waiter. Others pay little: the kernel locks the run queue of the CPU that the thread is on, for a moment.
//! Sources: `clock_gettime(2)`, and the kernel's `include/linux/posix-timers_types.h` for what the ids of such clocks are
//! made of.
//!
//! The danger is a filter of system calls (`seccomp(2)`) that knows the clocks it allows, and ends the process that
//! asks for another, as web browsers have for themselves. So nobody reads clocks before [`allow`] has been called, and
//! whoever is about to add a filter calls [`forbid`] first, which returns when nobody reads one any more.
//!
//! # Ordering
//!
//! - E1: a reader marks its slot and then looks whether it may; `forbid` forbids and then looks at the marks; between the
//!   two, on both sides, is a fence. So either the reader sees that it may not, or `forbid` sees the mark.
//! - E2: a reader's call → its clearing the mark (Release) → `forbid`'s look at it (Acquire).

use core::mem;
use core::sync::atomic::Ordering::{Relaxed, Release, SeqCst};
use core::sync::atomic::{AtomicBool, fence};

use crate::{LastSeen, sys, waiters};

/// Whether clocks are read.
static ALLOWED: AtomicBool = AtomicBool::new(false);

/// What became of [`allow`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allowed {
    /// Waiters read the clocks of those they wait for.
    Yes,
    /// A filter of system calls is in force, which might end the process for that.
    Filtered,
    /// They cannot be read, or do not move on between one look and the next, as where something else than Linux answers.
    Coarse,
}

/// Lets waiters of this process read the CPU clocks of its threads, unless a filter of system calls is in force. Whoever
/// adds such a filter afterwards has to [`forbid`] it before. Holds for children of `fork`, too.
pub fn allow() -> Allowed {
    if sys::filters() == Some(0) { allow_as_told() } else { Allowed::Filtered }
}

/// As [`allow`], when somebody has said that filters that are in force now, as in a container, do not object.
pub fn allow_as_told() -> Allowed {
    /// Looks that must each find the caller's own clock ahead of the last.
    const LOOKS: u32 = 10;
    let me = sys::gettid();
    let moves_on = || Some(sys::cpu_time(me).ok()? < sys::cpu_time(me).ok()?);
    if !(0..LOOKS).all(|_| moves_on() == Some(true)) {
        return Allowed::Coarse;
    }
    ALLOWED.store(true, Relaxed);
    Allowed::Yes
}

/// No thread of this process reads another's clock any more, unless [`allow`] is called again. Waits for those that are
/// about to, in which they may have been preempted, for a second at most.
#[cold]
#[inline(never)]
pub fn forbid() {
    /// A look at the marks each millisecond.
    const LOOKS: u32 = 1_000;
    ALLOWED.store(false, Relaxed);
    fence(SeqCst); // ORDER: E1.
    for _ in 0..LOOKS {
        if !waiters::others_read_clocks() {
            return;
        }
        sys::sleep_ns(1_000_000);
    }
}

/// Whether waiters read clocks.
#[must_use]
pub fn is_allowed() -> bool {
    ALLOWED.load(Relaxed)
}

/// See [`Sched::has_run`](crate::Sched::has_run).
pub(crate) fn has_run(thread: u32, last: &mut LastSeen) -> Option<bool> {
    if thread == 0 || !is_allowed() {
        return None;
    }
    let slot = waiters::current()?;
    slot.reads_clock.store(1, Relaxed);
    fence(SeqCst); // ORDER: E1.
    let seen = if is_allowed() { look(thread, last) } else { None };
    slot.reads_clock.store(0, Release); // ORDER: E2.
    seen
}

fn look(thread: u32, last: &mut LastSeen) -> Option<bool> {
    if last.turn_to(thread) {
        last.ns = read(thread)?;
    }
    let ns = read(thread)?;
    Some(mem::replace(&mut last.ns, ns) != ns)
}

/// The thread's CPU time; `None` if it has ended. A filter that nobody has seen coming may refuse: once is enough then.
fn read(thread: u32) -> Option<u64> {
    sys::cpu_time(thread)
        .inspect_err(|&error| {
            if error != sys::EINVAL && error != sys::ESRCH {
                ALLOWED.store(false, Relaxed);
            }
        })
        .ok()
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::io::{self, Write as _};
    use std::sync::mpsc;
    use std::time::{Duration, Instant};
    use std::{thread, writeln};

    use super::*;
    use crate::{Native, Sched};

    /// Looks at a thread that does `something` until a look says `what`, for some seconds at most; whether one did. Then
    /// lets the thread end.
    fn is_seen(what: bool, something: impl FnOnce(mpsc::Receiver<()>) + Send + 'static) -> bool {
        let (tell, told) = mpsc::channel();
        let (end, ended) = mpsc::channel();
        let other = thread::spawn(move || {
            tell.send(Native::tid()).expect("a listener");
            something(ended);
        });
        let other_id = told.recv().expect("a thread");
        let mut last = LastSeen::default();
        let start = Instant::now();
        let mut seen = false;
        while !seen && start.elapsed() < Duration::from_secs(10) {
            seen = Native::has_run(other_id, &mut last) == Some(what);
        }
        drop(end);
        other.join().expect("a thread that ends");
        seen
    }

    // One test, since what is allowed is so for the process.
    #[test]
    fn a_clock_tells_who_runs_while_that_is_allowed() {
        let me = Native::tid();
        let mut last = LastSeen::default();
        assert_eq!(Native::has_run(me, &mut last), None, "nobody has allowed it");
        if allow() != Allowed::Yes {
            // The harness keeps what `eprintln` prints to itself.
            let _ = writeln!(io::stderr(), "SKIPPED: the CPU clocks of threads cannot be read here");
            return;
        }
        assert_eq!(Native::has_run(me, &mut last), Some(true), "the thread that looks runs");
        assert_eq!(Native::has_run(me, &mut last), Some(true), "and has done so since");
        assert!(is_seen(true, |ended| while ended.try_recv() == Err(mpsc::TryRecvError::Empty) {}));
        assert!(is_seen(false, |ended| _ = ended.recv()));
        assert_eq!(Native::has_run(0, &mut last), None, "nobody");
        let gone = thread::spawn(Native::tid).join().expect("a thread that ends");
        let start = Instant::now();
        // The kernel may take a moment longer to forget a thread than we to join it.
        while Native::has_run(gone, &mut last).is_some() && start.elapsed() < Duration::from_secs(10) {}
        assert_eq!(Native::has_run(gone, &mut last), None, "a thread that has ended");
        forbid();
        assert_eq!(Native::has_run(me, &mut last), None);
    }
}
