//! SANL: sections run in place under a lock while there is little contention; by a vote of the threads, one of them serves the
//! others.
//!
//! Mingzhe Zhang, Haibo Chen, Luwei Cheng, Francis C. M. Lau and Cho-Li Wang, "Scalable adaptive NUMA-aware lock", IEEE TPDS
//! 28(6), 2017, algorithms 1 to 3. Deviations: the lines of requests follow the threads that exist ([`lines`](super::lines))
//! instead of 256 for each CPU; a thread profiles one section in [`SAMPLE`], and one in
//! two while its profiles speak against its vote, in fixed-point arithmetic; a lock that one thread
//! has used, or two, stays in place (but `sanl-plus` of two threads on two CPUs); a requester that has found nobody serving for some
//! time joins the queue of the lock, so that it is not passed for ever by threads in place; requesters sleep after a while, and a
//! server that ends wakes one; the tolerance of low request density (L_s) is a linear function of the contention, and not fitted.
//!
//! Three delegates: `sanl` has the paper's limits and no NUMA policy; `sanl-numa` has its serving-first policy (remote threads
//! with much contention wait for a server of their node, and one of each node queues to become that); `sanl-plus` is
//! `sanl(where-it-pays=1, in-place=cst-mutex)`: its lock in place does not collapse on several nodes, nor where threads wait for
//! CPUs, while the votes are still counted; and on two CPUs, where it depends on the machine which mode does better, it delegates while
//! that runs more sections, as it finds out by trying: [`trials`](super::trials), docs/decisions/056-delegation-is-tried.md. What else was
//! measured: docs/decisions/034-sanl-plus.md.
//!
//! Properties: FIFO in place; delegated, each round of a server serves everybody. 56 bytes a delegate, 64 with cst-mutex in place, and 64 for each thread.
//!
//! # State
//!
//! | word      | meaning                                                                    |
//! |-----------|----------------------------------------------------------------------------|
//! | `lock`    | held by a thread that runs its section in place, or by one that serves      |
//! | `server`  | 0, or 1 + the node of the thread that serves                               |
//! | `votes`   | threads that vote for delegation                                           |
//! | `members` | threads that have a line                                                   |
//! | `parked`  | requesters that sleep                                                      |
//!
//! # Invariants
//!
//! - I1: sections are run by the holder of `lock`. `server` is written by it only.
//! - I2: a requester waits until its section has run, or it holds the lock: then it takes its request back, if still open.
//! - I3: the votes decide how a thread goes about it, and nothing else: threads may disagree.
//!
//! # Ordering
//!
//! - E1: `lock` orders all sections. Requests and answers: the lines' edges. Sleep against the end of serving: L5 there, with
//!   `server` for what excludes executors.

use core::cell::Cell;
use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering::Relaxed;

use lockwork_platform::{AtomicCell, AtomicInt, Clock, DataCell, Platform};

use super::lines::{Line, Lines, Outcome, Own, Parked, Sleepers, found, found_or_made};
use super::trials::Trials;
use super::{
    Attempt, Delegate, Section, acquire_inside, known_by, lock_inside, release_held, run_inside,
    try_run_inside, unlock_inside,
};
use crate::api::{Held, RawLock};
use crate::describe::{Capabilities, Citation, Descriptor, Family, Kind, Order, Proof, Timed};
use crate::hierarchical::cst::Cst;
use crate::knobs::{self, Knobs};
use crate::queue::mcs::Mcs;
use crate::wait::{Patience, SpinThenPark, Wait};

/// What is known of it.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: "sanl",
    kind: Kind::Delegate,
    capabilities: Capabilities { guard: true, ..Capabilities::COMBINER },
    family: Family::Adaptive,
    order: Order::OfMode,
    order_note: "FIFO in place; delegated, each round serves everybody",
    bytes: 56,
    bytes_per_waiter: 64,
    timed: Timed::GivesUp("while its section has not begun"),
    knobs: knobs::ADAPTIVE,
    proofs: &[Proof { source: file!(), by: &["sanl", "sanl, delegating"] }],
    citation: Citation {
        key: "zhang17",
        text: "Zhang, Chen, Cheng, Lau, Wang: Scalable adaptive NUMA-aware lock. IEEE TPDS 2017",
    },
    summary: "in place under mcs-stp, or served by one of the threads: each votes by how much of its time the lock takes",
    properties: "near mcs-stp while there is little contention; near flat combining while there is much",
    deviations: "lines follow the threads; one section in 16 is profiled; two threads stay in place; sleepers; a starved requester \
                 queues for the lock",
    avoid: "contention that comes and goes within some dozens of sections: votes follow slowly",
    ..Descriptor::MUTEX
};

/// With the serving-first NUMA policy.
pub const NUMA: Descriptor = Descriptor {
    name: "sanl-numa",
    order_note: "FIFO in place; delegated, by node, and each node gets a server in turn",
    proofs: &[],
    summary: "sanl, where threads far from the server wait for one of their node while there is much contention",
    avoid: "machines with one node, on which it is sanl",
    ..DESCRIPTOR
};

/// With a lock in place that does not collapse, and delegation only where it pays.
pub const PLUS: Descriptor = Descriptor {
    name: "sanl-plus",
    proofs: &[],
    order_note: "as cst-mutex in place; delegated, each round serves everybody",
    bytes: 64,
    summary: "sanl, in place under cst-mutex; on two CPUs it tries which of its modes runs more sections",
    deviations: "lines follow the threads; one section in 16 is profiled; two threads stay in place, but on two CPUs; sleepers; a \
                 starved requester queues for the lock",
    properties: "near cst-mutex while there is little contention; near flat combining while there is much",
    ..DESCRIPTOR
};

/// As published, without a NUMA policy.
pub const PUBLISHED: u8 = 0;
/// With the serving-first NUMA policy.
pub const BY_NODE: u8 = 1;
/// Delegates only where it pays.
pub const SOBER: u8 = 2;

/// A thread profiles one section in this many.
const SAMPLE: u64 = 16;
/// Profiles that must speak for a change of a thread's vote.
const BOUNDARY: u64 = 4;
/// Rounds that a server makes at most (T_s).
const SERVE: u32 = 100;
/// Times that a requester finds nobody serving, and the lock taken, before it queues for the lock.
const ATTEMPTS: u32 = 64;
/// The share of a thread's time with the lock, in percent, from which on remote threads wait for a server of their node (θ_f).
const RESTRICTED: u64 = 56;

/// CPUs with which the modes are tried: with more, delegation pays where threads vote for it; with one, no line moves.
const UNDECIDED: usize = 2;

/// Whether threads vote. For models, which have no time, and for measurements of one mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// They do.
    Voted,
    /// All sections are delegated.
    Delegated,
    /// Those of threads with odd numbers are delegated, the others run in place.
    Mixed,
}

/// The SANL delegate, with the lock `L` in place.
#[repr(C)]
#[derive(Debug)]
pub struct Sanl<P: Platform, const KIND: u8 = PUBLISHED, L = Mcs<P, SpinThenPark>> {
    lock: L,
    /// Written by a holder of the lock that begins or ends to serve.
    server: P::U32,
    parked: Parked<P>,
    votes: P::U32,
    members: P::U32,
    /// One bit for each node that has a thread in the lock's queue to become the server of that node.
    nominated: P::U32,
    /// Knobs; 0 = the default.
    serve: P::U32,
    /// The knob plus one.
    wait: P::U32,
    /// Three knobs, packed: [`Limits`].
    limits: P::U32,
    /// Where they are made; null before a thread votes for delegation.
    trials: P::Ptr<Trials<P>>,
    lines: Lines<P>,
}

const CONTENTION: u32 = 17;
const ALL_DELEGATE: u32 = 101;
const ODD_DELEGATE: u32 = 102;

/// The knobs that decide whether to delegate, in one word, in which 0 is what the kind of delegate has.
#[derive(Clone, Copy)]
struct Limits(u32);

impl Limits {
    fn of(knobs: &Knobs) -> Self {
        let given = |knob: Option<u32>| knob.map_or(0, |value| value + 1);
        Self(knobs.contention.unwrap_or(0) | given(knobs.where_it_pays) << 8)
    }

    /// In percent; above 100, a [`Mode`]; 0 = the default.
    fn contention(self) -> u32 {
        self.0 & 0xff
    }

    /// Whether it matters to a delegate of this kind if delegation pays.
    fn matters(self, kind: u8) -> bool {
        (self.0 >> 8).checked_sub(1).map_or(kind == SOBER, |value| value == 1)
    }
}

/// `sanl-plus`.
pub type SanlPlus<P> = Sanl<P, SOBER, Cst<P>>;

/// What a thread knows of its own use of a lock: the packed form is in its line.
#[derive(Clone, Copy, Default)]
struct Profile {
    /// When the last profiled section began, in ns.
    begin: u64,
    /// How long it took, from the request to the end.
    spent: u64,
    /// The share of the thread's time that it spends with the lock, of 1,024.
    share: u64,
    /// Sections since the last profile.
    count: u64,
    /// Profiles that speak for another vote, less those that do not.
    against: u64,
    /// Whether the thread votes for delegation.
    vote: bool,
    /// Whether the thread is counted.
    member: bool,
}

impl Profile {
    /// Of a packed one.
    #[inline(always)]
    fn is_member(own: Own) -> bool {
        own[2] >> 33 & 1 != 0
    }

    fn of(own: Own) -> Self {
        let packed = own[2];
        let field = |from: u32, bits: u32| packed >> from & ((1 << bits) - 1);
        Self {
            begin: own[0],
            spent: own[1],
            share: field(0, 16),
            count: field(16, 8),
            against: field(24, 8),
            vote: field(32, 1) != 0,
            member: Self::is_member(own),
        }
    }

    fn packed(self) -> Own {
        let flags = u64::from(self.vote) << 32 | u64::from(self.member) << 33;
        [self.begin, self.spent, self.share | self.count << 16 | self.against << 24 | flags]
    }
}

impl<P: Platform, const KIND: u8, L: RawLock<P>> Sanl<P, KIND, L> {
    /// A delegate in a fixed mode, whose requesters try to serve at once.
    #[must_use]
    pub fn in_mode(mode: Mode) -> Self {
        let delegate = <Self as Delegate<P>>::new();
        let contention = match mode {
            Mode::Voted => 0,
            Mode::Delegated => ALL_DELEGATE,
            Mode::Mixed => ODD_DELEGATE,
        };
        // ORDER: nobody uses it yet.
        delegate.limits.store(contention, Relaxed);
        delegate.wait.store(1, Relaxed);
        delegate
    }

    /// Whether one thread has used the delegate, and there is nothing to profile.
    #[inline(always)]
    fn is_alone(&self, contention: u32) -> bool {
        contention < ALL_DELEGATE && self.members.load(Relaxed) == 1
    }

    /// Brings the profile up to date before a section, and says whether to delegate it.
    #[inline(always)]
    fn begin(&self, line: &Line<P>, profile: &mut Profile, limits: Limits) -> bool {
        if !profile.member {
            profile.member = true;
            self.members.fetch_add(1, Relaxed); // ORDER: an estimate, as all that the vote goes by.
            if self.is_alone(limits.contention()) {
                return false;
            }
        }
        profile.count = (profile.count + 1) % SAMPLE;
        if profile.count <= 1 {
            self.measure(profile);
        }
        match limits.contention() {
            ALL_DELEGATE => true,
            ODD_DELEGATE => P::thread_id() % 2 == 1,
            _ => self.is_voted(line, limits),
        }
    }

    /// Whether most threads vote for delegation, and it is not tried without. Of three at least, where nothing is tried: of two, a server
    /// has one requester, with whom it exchanges as many lines as two holders of a lock do.
    #[inline(always)]
    fn is_voted(&self, line: &Line<P>, limits: Limits) -> bool {
        let members = self.members.load(Relaxed);
        if !self.is_majority_of(members) {
            return false;
        }
        if limits.matters(KIND) { self.is_tried(line, members) } else { members > 2 }
    }

    #[inline(never)]
    fn is_tried(&self, line: &Line<P>, members: u32) -> bool {
        let Some(trials) = self.trials() else { return members > 2 };
        let requested = line.requested();
        requested.store(requested.load(Relaxed).wrapping_add(1), Relaxed); // ORDER: the owner's; a hint for others.
        trials.delegates()
    }

    #[inline(always)]
    fn is_majority_of(&self, members: u32) -> bool {
        self.votes.load(Relaxed).saturating_mul(2) > members
    }

    #[inline(always)]
    fn trials(&self) -> Option<&Trials<P>> {
        found::<P, _>(&self.trials)
    }

    /// The first of two sections in a row is timed; at the second its share of the time in between is known.
    #[inline(never)]
    fn measure(&self, profile: &mut Profile) {
        let now = P::now(Clock::Monotonic);
        self.take_stock(now);
        if profile.count == 0 {
            profile.begin = now;
            profile.spent = 0;
            return;
        }
        let between = now.saturating_sub(profile.begin);
        if between > 0 && profile.spent > 0 {
            let share = (profile.spent.saturating_mul(1024) / between).min(1024);
            profile.share = u64::midpoint(profile.share, share);
            self.vote(profile);
        }
    }

    /// The paper's algorithm 1.
    fn vote(&self, profile: &mut Profile) {
        let percent = match self.limits().contention() {
            0 => CONTENTION,
            percent => percent,
        };
        let wants = profile.share * 100 >= u64::from(percent) * 1024 && self.may_pay();
        if wants == profile.vote {
            profile.against = profile.against.saturating_sub(1);
            return;
        }
        // A profile that speaks for a change is looked into at once.
        profile.count = SAMPLE - 1;
        profile.against += 1;
        if profile.against > BOUNDARY {
            profile.against = 0;
            profile.vote = wants;
            if wants {
                self.prepare_trials();
                self.votes.fetch_add(1, Relaxed);
            } else {
                self.votes.fetch_sub(1, Relaxed);
            }
        }
    }

    /// Whether delegation can be worth its while, whatever the contention.
    fn may_pay(&self) -> bool {
        !self.limits().matters(KIND) || P::parallelism() >= UNDECIDED
    }

    /// Before a vote for delegation: makes what it is tried by, where it is.
    fn prepare_trials(&self) {
        if self.limits().matters(KIND) && P::parallelism() == UNDECIDED {
            found_or_made::<P, _>(&self.trials);
        }
    }

    /// Goes on with the trials, if there are any and most threads vote for delegation.
    fn take_stock(&self, now: u64) {
        let sections = || {
            let mut sum: u32 = 0;
            self.lines.each(|line| sum = sum.wrapping_add(line.requested().load(Relaxed)));
            sum
        };
        if let Some(trials) = self.trials().filter(|_| self.is_majority_of(self.members.load(Relaxed))) {
            trials.take_stock(now, sections);
        }
    }

    #[inline(always)]
    fn limits(&self) -> Limits {
        Limits(self.limits.load(Relaxed))
    }

    #[inline(always)]
    unsafe fn run_in_place(&self, section: Section) {
        // SAFETY: I1, and the caller's contract.
        unsafe { run_inside::<P, _>(&self.lock, section) };
    }

    /// The paper's algorithm 3.
    #[cold]
    unsafe fn delegate(&self, section: Section, line: &Line<P>, share: u64) {
        let generation = P::generation();
        if let Some(token) = self.lock.try_lock() {
            // SAFETY: I1.
            unsafe { section.run() };
            return self.serve(token, share, generation);
        }
        if line.is_left_over() {
            // SAFETY: the caller's contract.
            return unsafe { self.run_in_place(section) };
        }
        let outcome = Wait::run::<P, _>(known_by(self), None, |_| {
            if let Some(token) = self.nominated(share) {
                return Outcome::Begun(token);
            }
            // SAFETY: the calling thread's, which waits.
            unsafe { line.request(section) };
            self.wait(line)
        });
        match outcome {
            Outcome::Served => {}
            Outcome::Begun(token) => {
                // SAFETY: I1, I2: nobody has run it, and nobody will.
                unsafe { section.run() };
                self.serve(token, share, generation);
            }
            Outcome::BegunServed(token) => self.serve(token, share, generation),
        }
    }

    fn wait(&self, line: &Line<P>) -> Outcome<L::Token> {
        let patience = match self.wait.load(Relaxed) {
            0 => 10_000,
            given => given - 1,
        };
        let attempts = Cell::new(0);
        let is_served = || self.server.load(Relaxed) != 0;
        let begin = || {
            attempts.set(attempts.get() + 1);
            self.lock.try_lock().or_else(|| (attempts.get() > ATTEMPTS).then(|| lock_inside(&self.lock)))
        };
        self.parked.wait(line, &self.lines, patience, is_served, begin)
    }

    /// Under much contention, a thread of another node than the server's waits before it leaves a request: until the server is of
    /// its node, or gone, or the wait was long. Then one thread of the node queues for the lock, which this returns.
    fn nominated(&self, share: u64) -> Option<L::Token> {
        if KIND != BY_NODE || P::domains() < 2 || share * 100 < RESTRICTED * 1024 {
            return None;
        }
        let node = P::domain() as u32 % 31;
        let mut left = match self.wait.load(Relaxed) {
            0 => 10_000,
            given => given - 1,
        };
        let mut patience = Patience::new::<P>();
        loop {
            let server = self.server.load(Relaxed);
            if server == 0 || server == node + 1 {
                return None;
            }
            if left == 0 {
                break;
            }
            left = left.saturating_sub(patience.pause_within::<P>(left));
        }
        let bit = 1 << node;
        if self.nominated.fetch_or(bit, Relaxed) & bit != 0 {
            return None;
        }
        let token = lock_inside(&self.lock);
        self.nominated.fetch_and(!bit, Relaxed);
        Some(token)
    }

    /// The paper's algorithm 2: runs what others request, and releases the lock, which was acquired in the process of this
    /// `generation`.
    fn serve(&self, token: L::Token, share: u64, generation: u32) {
        let rounds = match self.serve.load(Relaxed) {
            0 => SERVE,
            given => given,
        };
        // L_s: the more of its time the thread spends here, the longer it pays to stay.
        let patient = (share / 256) as u32;
        let mut low: u32 = 0;
        let mut sleepers = Sleepers::none();
        let node = if KIND == BY_NODE { P::domain() as u32 % 31 } else { 0 };
        self.server.store(1 + node, Relaxed); // ORDER: a hint; and L5, at its end.
        for _ in 0..rounds {
            let mut served = false;
            // SAFETY: I1.
            self.lines.each(|line| served |= unsafe { self.parked.serve(line, &self.lines, &mut sleepers) });
            low = if served { low.saturating_sub(1) } else { low + 1 };
            if low > patient {
                break;
            }
            if !served {
                P::pause_n(1);
            }
        }
        self.server.store(0, Relaxed); // ORDER: L5.
        // SAFETY: the caller's.
        unsafe { unlock_inside(&self.lock, token, generation) };
        self.parked.nominate(&self.lines);
        sleepers.wake();
    }
}

// SAFETY: I1, I2: the holder of the lock runs sections, each once; the lock and the lines' edges order them and their requesters.
unsafe impl<P: Platform, const KIND: u8, L: RawLock<P>> Delegate<P> for Sanl<P, KIND, L> {
    fn new() -> Self {
        let zero = || P::U32::new(0);
        Self {
            lock: L::new(),
            server: zero(),
            parked: Parked::none(),
            votes: zero(),
            members: zero(),
            nominated: zero(),
            serve: zero(),
            wait: zero(),
            limits: zero(),
            trials: P::Ptr::new(ptr::null_mut()),
            lines: Lines::none(),
        }
    }

    fn configure(&self, knobs: &Knobs) {
        // ORDER: before the first use.
        self.serve.store(knobs.serve.unwrap_or(0), Relaxed);
        self.wait.store(knobs.wait.map_or(0, |wait| wait + 1), Relaxed);
        self.limits.store(Limits::of(knobs).0, Relaxed);
    }

    unsafe fn execute(&self, section: Section) {
        let Some(line) = self.lines.own() else {
            // SAFETY: the caller's contract.
            return unsafe { self.run_in_place(section) };
        };
        // SAFETY: the calling thread's.
        let own = unsafe { line.own.get() };
        let limits = self.limits();
        if Profile::is_member(own) && self.is_alone(limits.contention()) {
            // SAFETY: the caller's contract.
            return unsafe { self.run_in_place(section) };
        }
        let mut profile = Profile::of(own);
        if self.begin(line, &mut profile, limits) {
            // SAFETY: the caller's contract.
            unsafe { self.delegate(section, line, profile.share) };
        } else {
            // SAFETY: as above.
            unsafe { self.run_in_place(section) };
        }
        if profile.count == 0 && profile.begin != 0 {
            profile.spent = P::now(Clock::Monotonic).saturating_sub(profile.begin).max(1);
        }
        // SAFETY: the calling thread's.
        unsafe { line.own.set(profile.packed()) };
    }

    unsafe fn try_execute(&self, section: Section) -> bool {
        // SAFETY: the caller's contract.
        unsafe { try_run_inside::<P, _>(&self.lock, section) }
    }

    fn acquire(&self) -> Option<Held> {
        Some(acquire_inside::<P, _>(&self.lock))
    }

    fn try_acquire(&self) -> Attempt {
        Attempt::by::<P, _>(self.lock.try_lock())
    }

    unsafe fn release(&self, held: Held) {
        // SAFETY: the caller's contract.
        unsafe { release_held::<P, _>(&self.lock, held) };
    }

    fn is_busy(&self) -> bool {
        self.lock.is_locked()
    }

    unsafe fn dispose(&self) {
        // SAFETY: the caller's contract.
        unsafe { self.lines.dispose() };
        // SAFETY: the caller's contract.
        unsafe { self.lock.dispose() };
        // ORDER: the caller's exclusion.
        if let Some(trials) = NonNull::new(self.trials.swap(ptr::null_mut(), Relaxed)) {
            // SAFETY: made here, and nobody uses it.
            unsafe { P::free_node(trials) };
        }
        // The lines remember who is counted.
        self.votes.store(0, Relaxed);
        self.members.store(0, Relaxed);
    }
}
