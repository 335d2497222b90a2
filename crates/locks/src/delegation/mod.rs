//! Delegation: a thread hands its critical section to the lock, and some thread runs it.
//!
//! A section is a function and a pointer ([`Section`]). A [`Delegate`] runs every section that it is given exactly once, one
//! at a time, and [`Delegate::execute`] returns to the requester when its section has run. Combiners have no thread of their
//! own: one of the requesters, the combiner, runs the sections of the others while it has the data in its cache.
//!
//! Servers ([`served`]) have threads of their own for that, and [`sanl`] decides between the two and running in place.
//!
//! # What a section may do
//!
//! It runs in the thread that happens to combine: thread-local state, `errno` and the thread's id are that thread's. It must
//! not unwind (a typed layer above catches a panic and carries it to the requester), and must not request a section of the
//! same delegate, which would wait for itself.

pub mod cc_synch;
pub mod condition;
pub mod dsm_synch;
pub mod fc;
pub mod fc_list;
pub mod ffwd;
pub mod h_synch;
mod lines;
pub mod locked;
pub mod oyama;
pub mod p_sim;
pub mod pace;
pub mod posts;
pub mod rcl;
mod request;
pub mod sanl;
pub mod served;
mod trials;

use core::ptr;
use core::sync::atomic::Ordering::Relaxed;

use lockwork_platform::{AtomicCell, Clock, Platform};

pub use self::served::{Measures, Seat, Server};
use crate::api::{Held, RawLock, Token};
use crate::knobs::Knobs;
use crate::wait::{WAITING_ON_DELEGATE, Wait, endless};

/// A critical section: a function and what it works on.
#[derive(Clone, Copy, Debug)]
pub struct Section {
    run: unsafe fn(*mut ()),
    data: *mut (),
}

// SAFETY: the contract of `Section::new`: the function may be called in any thread.
unsafe impl Send for Section {}

impl Section {
    /// A section that calls `run` with `data`.
    ///
    /// # Safety
    ///
    /// `run(data)` may be called once, in any thread, and does not unwind.
    #[must_use]
    pub unsafe fn new(run: unsafe fn(*mut ()), data: *mut ()) -> Self {
        Self { run, data }
    }

    /// Runs the section.
    ///
    /// # Safety
    ///
    /// It has not been run yet, no other section of the delegate is running, and its requester waits for it.
    #[inline(always)]
    pub unsafe fn run(self) {
        // SAFETY: the contracts of `new` and of this function.
        unsafe { (self.run)(self.data) };
    }
}

/// What [`Delegate::try_acquire`] came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "what is held must be released"]
pub enum Attempt {
    /// The delegate is held, by this word.
    Held(Held),
    /// A section runs, or another thread holds the delegate.
    Busy,
    /// A delegate of this kind cannot be held.
    Never,
}

impl Attempt {
    /// What trying the lock came to that a delegate is held by.
    pub(crate) fn by<P: Platform, T: Token>(token: Option<T>) -> Self {
        token.map_or(Self::Busy, |token| Self::Held(held_here::<P>(Held(token.into_word()))))
    }
}

/// The word of a lock's token is an address or a small number. Above it are the lowest bits of the number of a process.
const PROCESS_SHIFT: u32 = 48;

fn process_bits<P: Platform>() -> usize {
    (P::generation() as usize) << PROCESS_SHIFT
}

/// What a thread keeps that holds a delegate by a lock: the word of that lock's token, and in which process it was acquired.
#[must_use]
pub fn held_here<P: Platform>(Held(word): Held) -> Held {
    Held(word | process_bits::<P>())
}

/// Of what [`held_here`] made: the word of the token, and whether this is a child of the process in which the lock was acquired.
/// The threads that wait for it are gone then, and it must not be handed to one of them.
#[must_use]
pub fn held_of<P: Platform>(Held(word): Held) -> (Held, bool) {
    let process = word >> PROCESS_SHIFT << PROCESS_SHIFT;
    (Held(word ^ process), process != process_bits::<P>())
}

/// Releases such a lock. Threads that wait for it in a child that was forked while it was held are lost, as in [`unlock_inside`].
///
/// # Safety
///
/// `held` is what [`held_here`] made of an acquisition of this lock, and has not been used for a release.
pub(crate) unsafe fn release_held<P: Platform, L: RawLock<P>>(lock: &L, held: Held) {
    let (Held(word), is_in_child) = held_of::<P>(held);
    // SAFETY: the caller's contract: the word of a token of this lock.
    let token = unsafe { L::Token::from_word(word) };
    if is_in_child {
        // SAFETY: the threads that wait are gone.
        unsafe { lock.forget_waiters(Some(token)) };
    }
    // SAFETY: the caller's contract.
    unsafe { lock.unlock(token) };
}

/// A lock that runs critical sections on behalf of the threads that request them. All-zero memory is an idle delegate.
///
/// # Safety
///
/// Implementations run each section once and one at a time, before `execute` returns to its requester; everything in a section
/// happens before everything in the sections that run after it, and before its requester goes on.
pub unsafe trait Delegate<P: Platform>: Send + Sync {
    /// An idle delegate.
    fn new() -> Self
    where
        Self: Sized;

    /// Runs `section`, in this thread or another, and returns when it has run.
    ///
    /// # Safety
    ///
    /// What `section` points to stays valid until this returns.
    unsafe fn execute(&self, section: Section);

    /// Runs `section` in this thread, if no section runs and none waits to be run. `false`: it has not been run, and at
    /// some instant during the call another thread was executing, in [`Delegate::execute`] or here.
    ///
    /// # Safety
    ///
    /// As for [`Delegate::execute`].
    unsafe fn try_execute(&self, section: Section) -> bool;

    /// [`Delegate::execute`] by a thread that runs a section of another delegate. It may be the only thread that can run
    /// sections for others, so that it must not leave this one to somebody who waits for that.
    ///
    /// # Safety
    ///
    /// As for [`Delegate::execute`].
    unsafe fn execute_nested(&self, section: Section) {
        // SAFETY: the caller's contract.
        unsafe { self.execute(section) };
    }

    /// Excludes all sections until [`Delegate::release`], if the delegate can be held like a lock.
    #[must_use = "the word is needed to release"]
    fn acquire(&self) -> Option<Held> {
        None
    }

    /// [`Delegate::acquire`] without waiting: no section runs, and nobody else holds the delegate.
    fn try_acquire(&self) -> Attempt {
        Attempt::Never
    }

    /// Ends what [`Delegate::acquire`] or [`Delegate::try_acquire`] began.
    ///
    /// # Safety
    ///
    /// `held` came from an acquisition of this delegate, and has not been used for a release.
    unsafe fn release(&self, held: Held) {
        let _ = held;
    }

    /// Whether a section runs or waits to be run, at some instant during the call.
    fn is_busy(&self) -> bool;

    /// Where its server belongs, if it is one that needs a server.
    fn seat(&self) -> Option<Seat<'_, P>> {
        None
    }

    /// Takes the knobs that were given for the delegate, before its first use.
    fn configure(&self, knobs: &Knobs) {
        let _ = knobs;
    }

    /// Gives back the memory that the delegate keeps outside of itself; it then is as new.
    ///
    /// # Safety
    ///
    /// Nobody uses the delegate.
    unsafe fn dispose(&self) {}
}

/// Sections that a combiner runs before it hands the role over, so that no requester serves the others for ever. The
/// bound `h` of Fatourou and Kallimanis, PPoPP 2012, who choose a multiple of the number of threads.
pub const COMBINED: u32 = 128;

/// For how long a combiner runs sections before it hands the role over, were they fewer: the requester that it is waits that
/// long.
const STINT_NS: u64 = 100_000;

/// What a combiner has run since it became one: so many sections, or for so long, and no more.
#[derive(Debug)]
pub(crate) struct Stint {
    left: u32,
    run: u32,
    /// In which process it began.
    generation: u32,
    /// When the fourth section had been run.
    begun: u64,
}

impl Stint {
    /// Sections from one look at the clock to the next, at most: it costs as much as a short section.
    const INTERVAL: u32 = 16;

    /// Of a combiner that runs `most` sections.
    #[inline(always)]
    pub(crate) fn of<P: Platform>(most: u32) -> Self {
        Self { left: most, run: 0, generation: P::generation(), begun: 0 }
    }

    /// Whether a section of it has forked, and this is the child: requests may be of threads that are gone.
    #[inline(always)]
    pub(crate) fn has_forked<P: Platform>(&self) -> bool {
        self.generation != P::generation()
    }

    /// Whether the combiner may run another section, which is then counted.
    #[inline(always)]
    pub(crate) fn goes_on<P: Platform>(&mut self) -> bool {
        if self.left == 0 || self.has_forked::<P>() {
            return false;
        }
        if self.run & 3 == 0 && self.run != 0 && !self.has_time::<P>() {
            self.left = 0;
            return false;
        }
        self.left -= 1;
        self.run += 1;
        true
    }

    #[inline(never)]
    fn has_time<P: Platform>(&mut self) -> bool {
        match self.run {
            4 => self.begun = P::now(Clock::Monotonic),
            run if run == 8 || run.is_multiple_of(Self::INTERVAL) => {
                return P::now(Clock::Monotonic).saturating_sub(self.begun) < STINT_NS;
            }
            _ => {}
        }
        true
    }
}

/// In which process a request was left, so that a child of `fork` does not run sections of threads that it has not: what those
/// point to is on stacks that may have gone to other threads. The first process writes and reads nothing here.
#[derive(Debug)]
pub(crate) struct Generation<P: Platform>(P::U32);

impl<P: Platform> Generation<P> {
    /// This process.
    #[inline(always)]
    pub(crate) fn this() -> Self {
        Self(P::U32::new(P::generation()))
    }

    /// A request is about to be left. By its requester.
    #[inline(always)]
    pub(crate) fn note(&self) {
        let now = P::generation();
        if now != 0 {
            self.0.store(now, Relaxed); // ORDER: the request's.
        }
    }

    /// Whether it was left in this process.
    #[inline(always)]
    pub(crate) fn is_this(&self) -> bool {
        let now = P::generation();
        now == 0 || self.0.load(Relaxed) == now // ORDER: as above.
    }

    pub(crate) fn get(&self) -> u32 {
        self.0.load(Relaxed)
    }
}

/// [`Delegate::acquire`] by a lock that a delegate is made of.
pub(crate) fn acquire_inside<P: Platform, L: RawLock<P>>(lock: &L) -> Held {
    held_here::<P>(Held(lock_inside(lock).into_word()))
}

/// Acquires a lock that a delegate is made of: nobody takes the waiting thread for a waiter of a lock of the program.
#[inline(always)]
pub(crate) fn lock_inside<P: Platform, L: RawLock<P>>(lock: &L) -> L::Token {
    match lock.lock_fast() {
        Some(token) => token,
        None => lock_inside_slow(lock),
    }
}

/// Releases such a lock, which was acquired in the process of this `generation`. If the section has forked, and this is the
/// child, those that wait for the lock are gone: it would be handed to one of them. Threads that the section has started since
/// are lost, too, if they wait for it.
///
/// # Safety
///
/// `token` came from an acquisition by this thread, and has not been used for a release.
#[inline(always)]
pub(crate) unsafe fn unlock_inside<P: Platform, L: RawLock<P>>(lock: &L, token: L::Token, generation: u32) {
    if P::generation() != generation {
        // SAFETY: the threads that wait are gone.
        unsafe { lock.forget_waiters(Some(token)) };
    }
    // SAFETY: the caller's contract.
    unsafe { lock.unlock(token) };
}

/// Runs sections, by `run`, with a lock held that a delegate is made of, and releases it, also where one of them has forked.
///
/// # Safety
///
/// As for [`unlock_inside`].
#[inline(always)]
pub(crate) unsafe fn run_holding<P: Platform, L: RawLock<P>>(lock: &L, token: L::Token, run: impl FnOnce()) {
    let generation = P::generation();
    run();
    // SAFETY: the caller's contract.
    unsafe { unlock_inside(lock, token, generation) };
}

/// Runs `section` in this thread, under a lock that a delegate is made of.
///
/// # Safety
///
/// As for [`Delegate::execute`], of a delegate whose sections all run under this lock.
#[inline(always)]
pub(crate) unsafe fn run_inside<P: Platform, L: RawLock<P>>(lock: &L, section: Section) {
    let token = lock_inside(lock);
    // SAFETY: with the lock held no other section runs, and the caller waits for this one.
    let run = || unsafe { section.run() };
    // SAFETY: acquired above.
    unsafe { run_holding(lock, token, run) };
}

/// As [`run_inside`], if the lock is free. `false`: it is not.
///
/// # Safety
///
/// As there.
#[inline(always)]
pub(crate) unsafe fn try_run_inside<P: Platform, L: RawLock<P>>(lock: &L, section: Section) -> bool {
    let Some(token) = lock.try_lock() else { return false };
    // SAFETY: as in `run_inside`.
    let run = || unsafe { section.run() };
    // SAFETY: acquired above.
    unsafe { run_holding(lock, token, run) };
    true
}

#[cold]
fn lock_inside_slow<P: Platform, L: RawLock<P>>(lock: &L) -> L::Token {
    endless(Wait::run::<P, _>(known_by(lock), None, |wait| lock.lock_slow(wait)))
}

/// What the waiters of a delegate, or of a lock inside of one, are known by.
#[inline(always)]
fn known_by<T>(this: &T) -> usize {
    ptr::from_ref(this).addr() | WAITING_ON_DELEGATE
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::thread::sleep;
    use std::time::Duration;

    use lockwork_platform::Native;

    use super::*;

    /// Sections that a combiner runs in a stint, each of which takes so long.
    fn sections(most: u32, each: Duration) -> u32 {
        let mut stint = Stint::of::<Native>(most);
        let mut sections = 0;
        while stint.goes_on::<Native>() {
            sections += 1;
            sleep(each);
        }
        assert!(!stint.goes_on::<Native>(), "it is over for good");
        sections
    }

    #[test]
    fn a_stint_ends_by_number() {
        assert_eq!(sections(0, Duration::ZERO), 0);
        assert_eq!(sections(1, Duration::ZERO), 1);
        assert_eq!(sections(7, Duration::ZERO), 7);
    }

    #[test]
    fn a_stint_ends_by_time() {
        assert_eq!(sections(COMBINED, Duration::from_millis(1)), 8);
    }
}
