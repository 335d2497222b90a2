//! P-Sim's way to ask and to answer: a requester turns a bit of its own with one addition, and one store answers all requests
//! that the combiner has found turned.
//!
//! Panagiota Fatourou and Nikolaos D. Kallimanis, "A highly-efficient wait-free universal construction", SPAA 2011, algorithm
//! P-Sim. The paper's threads all run all announced operations, each on a copy of the state of its own, and one of them
//! succeeds to publish its copy: that is wait-free, and it needs operations that can be run several times, on copies. Sections
//! here are closures that change what they like, and run once. So the deviation that matters: one thread runs the announced
//! sections on the state itself, with the others kept out by a word, and what is left of the paper is how requests are
//! announced (`Act`), how they are recognised as new (`applied`), that one write answers all of them, and that a requester
//! serves two rounds at most. It is not wait-free: a section that blocks holds up the others. The Rust library has the paper's
//! construction, for values that can be cloned, as `WaitFree`. Besides: a thread that finds the delegate idle runs its section
//! without announcing it; threads are in groups of 32, as many as there are; requesters sleep when they have waited for a context
//! switch's time.
//!
//! Properties: no order among requesters, but each round serves all that have announced; 16 bytes a delegate, and 960 for each 32
//! threads. Uncontended, one compare-and-swap. Contended, one addition for a request; the combiner finds by one load which of
//! 32 threads want something, where [`fc`](super::fc) reads a line of each.
//!
//! # State
//!
//! | word        | meaning                                                            | written by            |
//! |-------------|--------------------------------------------------------------------|-----------------------|
//! | `busy`      | 1 while a thread combines                                          | the combiner          |
//! | `announced` | one bit a thread, which its owner turns to announce a request      | each owner, its bit   |
//! | `applied`   | the bits of `announced` whose requests have run                    | the combiner          |
//! | `signal`    | a number, which changes when those who sleep are to look again     | one who has combined  |
//!
//! A request is open while the two bits of its thread differ.
//!
//! # Invariants
//!
//! - I1: sections are run by the thread that moved `busy` to 1, before it moves it back; it alone writes `applied`.
//! - I2: the owner writes its section while its bits are equal, and turns its bit of `announced` afterwards; the combiner reads
//!   sections while the bits differ. So a section is run once: the store that makes the bits equal comes after it.
//! - I3: groups are added and never removed before [`PSim::dispose`](Delegate::dispose).
//! - I4: while a request is open whose owner sleeps, a thread combines, or is about to wake the owner. A thread that goes to
//!   sleep says so in `parked` and looks at `applied` and `busy` after that; one that has combined has written both before it
//!   looks at `parked`. A barrier on both sides, of which the combiner's costs nothing.
//!
//! # Ordering
//!
//! - E1: the store of 0 to `busy` (Release) → the compare-and-swap to 1 (Acquire): all sections run so far, and `applied`.
//! - E2: the addition to `announced` (Release) → the combiner's load (Acquire): the sections, and what their requesters did
//!   before.
//! - E3: the store of `applied` (Release) → the requester's load (Acquire): what its section did.
//! - E4: the compare-and-swap that publishes a group (Release, in [`lines`](super::lines)) → the combiner's loads (Acquire).

use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use lockwork_platform::{AtomicCell, AtomicInt, DataCell, FutexCell, Platform, PoolNode};

use super::lines::found_or_made;
use super::{Delegate, Section, known_by};
use crate::api::Apart;
use crate::describe::{Capabilities, Citation, Descriptor, Family, Kind, Order, Proof, Timed};
use crate::wait::{Patience, Wait, pauses_before_sleep};

/// What is known of it.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: "p-sim",
    kind: Kind::Delegate,
    capabilities: Capabilities::COMBINER,
    family: Family::Combining,
    order: Order::LongTerm,
    order_note: "every round serves all that have announced",
    bytes: 16,
    bytes_per_waiter: 30,
    timed: Timed::GivesUp("while its section has not begun"),
    proofs: &[Proof { source: file!(), by: &["p-sim", "p-sim, one a group"] }],
    citation: Citation {
        key: "fatourou11",
        text: "Fatourou, Kallimanis: A highly-efficient wait-free universal construction. SPAA 2011",
    },
    summary: "requesters turn a bit each; one store answers all whose bits the combiner has found turned",
    properties: "one addition for a request, one store for 32 answers; the combiner reads nothing of threads that want nothing",
    deviations: "sections run once, in one thread, instead of in all on copies of the state: so it is not wait-free (the Rust library's `WaitFree` is); sleepers",
    avoid: "many requesters at once: they compete for the word of their group, which cc-synch's queue avoids",
    ..Descriptor::MUTEX
};

/// Rounds that a combiner makes at most: in the paper a thread tries to publish twice, and has then been served.
const ROUNDS: u32 = 2;

/// The requests of some threads.
#[repr(C)]
struct Group<P: Platform, const THREADS: usize> {
    announced: Apart<P::U32>,
    applied: Apart<P::U32>,
    signal: P::Futex,
    /// The threads with higher numbers.
    next: P::Ptr<Group<P, THREADS>>,
    requests: Apart<[P::Data<Announced>; THREADS]>,
}

/// A request.
#[derive(Clone, Copy)]
struct Announced {
    section: Option<Section>,
    /// Of the process in which it was left.
    generation: u32,
}

impl<P: Platform, const THREADS: usize> PoolNode<P> for Group<P, THREADS> {
    fn new() -> Self {
        Self {
            announced: Apart(P::U32::new(0)),
            applied: Apart(P::U32::new(0)),
            signal: P::Futex::new(0),
            next: P::Ptr::new(ptr::null_mut()),
            requests: Apart(core::array::from_fn(|_| {
                P::Data::new(Announced { section: None, generation: 0 })
            })),
        }
    }
}

impl<P: Platform, const THREADS: usize> Group<P, THREADS> {
    /// Runs the open requests of the threads from the number `base` on, and answers them. Whether there were any.
    ///
    /// # Safety
    ///
    /// The caller combines (I1).
    #[inline(always)]
    unsafe fn apply(&self, base: u32) -> bool {
        let announced = self.announced.0.load(Acquire); // ORDER: E2.
        let mut open = announced ^ self.applied.0.load(Relaxed); // ORDER: I1, E1.
        if open == 0 {
            return false;
        }
        while open != 0 {
            let index = open.trailing_zeros();
            // SAFETY: I2.
            let Announced { section, generation } = unsafe { self.requests.0[index as usize].get() };
            // In a child of `fork`, the requester may be gone. Its bits become equal, for the next thread of its number.
            let is_there = generation == P::generation() || P::lives_since(base + index, generation);
            if let Some(section) = section.filter(|_| is_there) {
                // SAFETY: I1, I2; its requester waits.
                unsafe { section.run() };
            }
            open &= open - 1;
        }
        self.applied.0.store(announced, Release); // ORDER: E3.
        true
    }

    /// Whether the thread with this bit has no request; in a child, nor has one before it that had its number.
    fn is_closed(&self, index: usize) -> bool {
        if P::generation() == 0 {
            return true;
        }
        let differ = self.announced.0.load(Relaxed) ^ self.applied.0.load(Relaxed); // ORDER: a combiner makes them equal once.
        differ & (1 << index) == 0
    }

    /// Leaves a request of the thread with this bit. Returns what the bit is when it is answered.
    ///
    /// # Safety
    ///
    /// The bit is the calling thread's, which waits for the answer.
    unsafe fn announce(&self, index: usize, section: Section) -> u32 {
        // SAFETY: I2.
        unsafe {
            self.requests.0[index].set(Announced { section: Some(section), generation: P::generation() })
        };
        let bit: u32 = 1 << index;
        // ORDER: the thread's own bit.
        let turned = !self.announced.0.load(Relaxed) & bit;
        // Adds the bit where it was 0, and else takes it away: that turns one bit, and carries into none.
        let turn = if turned == 0 { bit.wrapping_neg() } else { bit };
        self.announced.0.fetch_add(turn, Release); // ORDER: E2.
        turned
    }
}

/// The P-Sim delegate, with so many threads a group: 32 at most.
#[repr(C)]
pub struct PSim<P: Platform, const THREADS: usize = 32> {
    /// Written by those who find it 0, and by the combiner.
    busy: P::U32,
    /// Threads that sleep, or are about to. Read by one that has combined.
    parked: P::U32,
    first: P::Ptr<Group<P, THREADS>>,
}

impl<P: Platform, const THREADS: usize> core::fmt::Debug for PSim<P, THREADS> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let (busy, parked) = (self.busy.load(Relaxed), self.parked.load(Relaxed));
        f.debug_struct("PSim").field("busy", &busy).field("parked", &parked).finish_non_exhaustive()
    }
}

impl<P: Platform, const THREADS: usize> PSim<P, THREADS> {
    #[inline(always)]
    fn begin(&self) -> bool {
        // ORDER: E1.
        self.busy.compare_exchange(0, 1, Acquire, Relaxed).is_ok()
    }

    /// The calling thread's group, and its place there; `None` where it has no number, as one that is ending, or where a request
    /// of that number is open: one of a thread that is gone.
    fn place(&self) -> Option<(&Group<P, THREADS>, usize)> {
        let mut index = (P::thread_id() as usize).checked_sub(1)?;
        let mut group = found_or_made::<P, Group<P, THREADS>>(&self.first);
        while index >= THREADS {
            index -= THREADS;
            group = found_or_made::<P, Group<P, THREADS>>(&group.next);
        }
        group.is_closed(index).then_some((group, index))
    }

    /// Calls `f` with every group.
    #[inline(always)]
    fn each(&self, mut f: impl FnMut(&Group<P, THREADS>)) {
        let mut next = self.first.load(Acquire); // ORDER: E4.
        // SAFETY: I3.
        while let Some(group) = unsafe { next.as_ref() } {
            f(group);
            next = group.next.load(Acquire); // ORDER: E4.
        }
    }

    /// Runs what others have announced, and ends to combine.
    #[inline(always)]
    fn combine(&self) {
        // ORDER: one that requests and is not seen here wakes by itself (I4).
        if !self.first.load(Relaxed).is_null() {
            self.look_over();
        }
        self.busy.store(0, Release); // ORDER: E1.
        P::light_barrier(); // ORDER: I4.
        if self.parked.load(Relaxed) != 0 {
            self.wake();
        }
    }

    fn look_over(&self) {
        for _ in 0..ROUNDS {
            let mut is_done = true;
            let mut base = 1;
            self.each(|group| {
                // SAFETY: I1.
                is_done &= !unsafe { group.apply(base) };
                base += THREADS as u32;
            });
            if is_done {
                return;
            }
        }
    }

    /// Has those who sleep look again.
    #[cold]
    fn wake(&self) {
        self.each(|group| {
            group.signal.fetch_add(1, Relaxed); // ORDER: I4.
            // SAFETY: I3.
            unsafe { FutexCell::wake(&raw const group.signal, u32::MAX) };
        });
    }

    #[cold]
    unsafe fn request(&self, section: Section) {
        let Some((group, index)) = self.place() else {
            // SAFETY: the caller's contract.
            return unsafe { self.run_alone(section) };
        };
        // SAFETY: the calling thread's place, and it waits below.
        let turned = unsafe { group.announce(index, section) };
        let is_served = || group.applied.0.load(Acquire) & (1 << index) == turned; // ORDER: E3.
        let begins = Wait::run::<P, _>(known_by(self), None, |_| self.wait(&group.signal, is_served));
        if begins {
            // Its own section is among those that it finds, unless it has run.
            self.combine();
        }
    }

    /// Waits until the section has run (`false`), or until this thread is the combiner (`true`).
    fn wait(&self, signal: &P::Futex, is_served: impl Fn() -> bool) -> bool {
        let mut left = pauses_before_sleep::<P>();
        let mut pauses = Patience::new::<P>();
        loop {
            if is_served() {
                return false;
            }
            if self.busy.load(Relaxed) == 0 {
                if self.begin() {
                    return true;
                }
                pauses.pause::<P>();
                continue;
            }
            if left > 0 {
                left = left.saturating_sub(pauses.pause_within::<P>(left));
                continue;
            }
            let seen = signal.load(Relaxed); // ORDER: before the barrier: a signal after this one ends the sleep.
            self.parked.fetch_add(1, Relaxed); // ORDER: I4.
            P::heavy_barrier(); // ORDER: I4.
            if !is_served() && self.busy.load(Relaxed) != 0 {
                let _ = signal.wait(seen, None);
            }
            self.parked.fetch_sub(1, Relaxed); // ORDER: a count that is too high costs a wake-up of nobody.
        }
    }

    /// By a thread that has no place.
    unsafe fn run_alone(&self, section: Section) {
        let mut patience = Patience::new::<P>();
        while !self.begin() {
            patience.pause::<P>();
        }
        // SAFETY: I1.
        unsafe { section.run() };
        self.combine();
    }
}

// SAFETY: I1, I2: one thread at a time runs sections, each once; E1 orders them, E2 and E3 order their requesters.
unsafe impl<P: Platform, const THREADS: usize> Delegate<P> for PSim<P, THREADS> {
    fn new() -> Self {
        const { assert!(THREADS > 0 && THREADS <= 32) };
        Self { busy: P::U32::new(0), parked: P::U32::new(0), first: P::Ptr::new(ptr::null_mut()) }
    }

    unsafe fn execute(&self, section: Section) {
        // SAFETY: the caller's contract.
        if !unsafe { self.try_execute(section) } {
            // SAFETY: as above.
            unsafe { self.request(section) };
        }
    }

    unsafe fn try_execute(&self, section: Section) -> bool {
        if self.busy.load(Relaxed) != 0 || !self.begin() {
            return false;
        }
        // SAFETY: I1: this thread combines, and nobody has run the section.
        unsafe { section.run() };
        self.combine();
        true
    }

    fn is_busy(&self) -> bool {
        self.busy.load(Relaxed) != 0
    }

    unsafe fn dispose(&self) {
        // ORDER: the caller's exclusion.
        let mut next = NonNull::new(self.first.swap(ptr::null_mut(), Relaxed));
        while let Some(at) = next {
            // SAFETY: I3, and freed below only.
            next = NonNull::new(unsafe { at.as_ref() }.next.load(Relaxed));
            // SAFETY: the caller's contract.
            unsafe { P::free_node(at) };
        }
    }
}
