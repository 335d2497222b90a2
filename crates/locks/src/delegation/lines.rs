//! A line for each thread that has requested sections: where it leaves its request, and where it waits.
//!
//! Flat combining, SANL and the servers find requests here. A thread has the line of its
//! [`Sched::thread_id`](lockwork_platform::Sched::thread_id), a small number that goes to another thread when it ends: no thread
//! registers, and there are as many lines as threads have ever been alive at once.
//!
//! # State
//!
//! ```text
//! first → root ─→ 14 pages of 8 lines (those that are used)
//!           └─next→ root → …
//! ```
//!
//! | word        | meaning                              | who moves it there                      |
//! |-------------|--------------------------------------|-----------------------------------------|
//! | `IDLE`      | no request, or the section has run   | the executor; the owner that takes back |
//! | `REQUESTED` | a section waits to be run, or runs   | the owner                               |
//! | `HOLDS`     | the owner waits to execute itself    | the owner                               |
//! | `LEFT_OVER` | in a child: of a thread that is gone | an executor that has found its request  |
//!
//! A request at a server has a `number`, which is odd while its owner wants it back, and is `taken` if a thread that has lost its turn
//! runs it.
//!
//! `asleep` is 1 while the owner sleeps, there, or is about to; it, or whoever wakes it, writes 0. An executor does not touch the line
//! before it answers, and answers by a plain store: a request takes one transfer of the line, the answer another, and while
//! that is on its way the executor goes on.
//!
//! # Invariants
//!
//! - L1: the owner writes `section` and `target` while the word is `IDLE`; others read them between `REQUESTED` and `IDLE`.
//! - L2: a request is run by a thread that excludes all other executors: of the lines, or, for a server, of its requests (V2 of
//!   [`served`](super::served)).
//! - L3: pages and roots are added and never removed before [`Lines::dispose`].
//! - L4: after the word is `IDLE` the executor touches nothing of the request; a wake needs the word's address only.
//! - L7: in a child after `fork`, a request of a thread that is gone is not run. No thread that has that number in the child uses
//!   the line: it would change a request that an executor is looking at.
//! - L8: an owner that sleeps has stored `asleep`, and looked at the word after a heavy barrier; an executor that has answered looks at
//!   `asleep` after a light one, and wakes it.
//!
//! # Ordering
//!
//! - L-E1: the store of `REQUESTED` (Release) → the executor's load (Acquire): the request, and what the owner did before.
//! - L-E2: the store of `IDLE` (Release) → the owner's load (Acquire): what the section did.
//! - L-E3: the compare-and-swap that publishes a page or a root (Release) → the loads of others (Acquire): its lines.

use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use lockwork_platform::{AtomicCell, AtomicInt, DataCell, FutexCell, Platform, PoolNode};

use super::{Generation, Section};
use crate::wait::{Patience, pauses_before_sleep};

const IDLE: u32 = 0;
const REQUESTED: u32 = 1;
const LEFT_OVER: u32 = 2;
const HOLDS: u32 = 3;

/// Lines of a page.
pub(super) const LINES: usize = 8;
/// Sleepers that an executor wakes at once.
const SLEEPERS: usize = 32;
/// Pages of a root.
const PAGES: usize = 14;

/// What a line's owner keeps from one request to the next, for its own use.
pub(super) type Own = [u64; 3];

/// One thread's line at one delegate or server.
#[repr(C, align(64))]
pub(super) struct Line<P: Platform> {
    word: P::Futex,
    /// 1 while the owner sleeps here, or is about to.
    pub(super) asleep: P::Futex,
    /// At a server: twice the number of the request, not 0; one more while the owner wants it back. The owner's. Of a record in a list:
    /// [`Line::link`]. Of SANL: [`Line::requested`].
    number: P::U32,
    /// At a server: the number of a request that a thread has in its hands which has lost its turn. That of an earlier request says
    /// nothing. Written by the thread that has the turn, and by the owner. Of a record in a list: [`Line::age`].
    pub(super) taken: P::U32,
    section: P::Data<Option<Section>>,
    /// Of the request.
    generation: Generation<P>,
    /// Accessed by the owner only, but for what [`Line::request_for`] leaves there for a server. Natively a thread's number is passed
    /// on by a Release and an Acquire.
    pub(super) own: P::Data<Own>,
}

impl<P: Platform> core::fmt::Debug for Line<P> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Line").field("word", &self.word.load(Relaxed)).finish_non_exhaustive()
    }
}

/// What ended a wait in which the requester may also become the executor.
#[derive(Debug)]
pub(super) enum Outcome<T> {
    /// The section has run.
    Served,
    /// The requester executes from now on, and runs its section itself.
    Begun(T),
    /// The requester executes from now on; its section has run.
    BegunServed(T),
}

impl<P: Platform> Line<P> {
    fn new() -> Self {
        Self {
            word: P::Futex::new(IDLE),
            asleep: P::Futex::new(0),
            number: P::U32::new(0),
            taken: P::U32::new(0),
            section: P::Data::new(None),
            generation: Generation::this(),
            own: P::Data::new([0; 3]),
        }
    }

    /// Leaves a request.
    ///
    /// # Safety
    ///
    /// The line is the calling thread's, which waits for the request before it leaves another one.
    #[inline(always)]
    pub(super) unsafe fn request(&self, section: Section) {
        // SAFETY: L1.
        unsafe { self.section.set(Some(section)) };
        self.generation.note();
        self.word.store(REQUESTED, Release); // ORDER: L-E1.
    }

    /// Says that the owner waits to execute itself, and that there is nothing to be run for it.
    ///
    /// # Safety
    ///
    /// As [`Line::request`].
    pub(super) unsafe fn hold(&self) {
        self.generation.note();
        self.word.store(HOLDS, Relaxed); // ORDER: L5, before it sleeps; until then nobody asks.
    }

    /// What a list of records keeps here that is not a server's: which record is the next.
    #[inline(always)]
    pub(super) fn link(&self) -> &P::U32 {
        &self.number
    }

    /// Likewise: when the record was last of use.
    #[inline(always)]
    pub(super) fn age(&self) -> &P::U32 {
        &self.taken
    }

    /// What SANL keeps here that has no servers of its own: how many sections the owner has requested, modulo 2^32.
    #[inline(always)]
    pub(super) fn requested(&self) -> &P::U32 {
        &self.number
    }

    /// Leaves a request with a server, for the delegate that is `target` to it.
    ///
    /// # Safety
    ///
    /// As [`Line::request`].
    #[inline(always)]
    pub(super) unsafe fn request_for(&self, section: Section, target: usize) {
        // SAFETY: L1, and the caller does not serve.
        unsafe { self.own.set([target as u64, 0, 0]) };
        if self.taken.load(Relaxed) != 0 {
            self.taken.store(0, Relaxed); // ORDER: a mark of an earlier request, which says nothing.
        }
        let number = (self.number.load(Relaxed) | 1).wrapping_add(1).max(2);
        self.number.store(number, Release); // ORDER: E2 of `served`.
        // SAFETY: the caller's contract.
        unsafe { self.request(section) };
    }

    /// The number of the request, whether or not its owner wants it back.
    #[inline(always)]
    pub(super) fn number(&self) -> u32 {
        self.number.load(Relaxed) & !1
    }

    /// The same, by a thread that neither looks at the line nor owns it.
    pub(super) fn number_of_another(&self) -> u32 {
        self.number.load(Acquire) & !1 // ORDER: E2 of `served`.
    }

    /// By the owner: whether it wants its request back.
    pub(super) fn wants_back(&self, wants: bool) {
        self.number.store(self.number() | u32::from(wants), Relaxed); // ORDER: a barrier, or nobody looks at it.
    }

    /// There is no request any more. By the owner whose request nobody looks at, or by the one thread of a child.
    pub(super) fn forget(&self) {
        self.word.store(IDLE, Relaxed); // ORDER: E2 of `served`, with the next request.
    }

    /// Whether a thread of a parent has left a request here, and its number to the calling thread (L7). For the owner, who has
    /// none.
    #[inline(always)]
    pub(super) fn is_left_over(&self) -> bool {
        P::generation() != 0 && self.word.load(Relaxed) != IDLE
    }

    /// By the owner, a thread that serves from now on, or ceases to: what a signal handler requests meanwhile would wait for this very
    /// thread.
    pub(super) fn serves(&self, serves: bool) {
        // SAFETY: the owner's.
        unsafe { self.own.set([0, u64::from(serves), 0]) };
    }

    /// Whether the owner serves. For the owner.
    #[inline(always)]
    pub(super) fn is_of_server(&self) -> bool {
        // SAFETY: the owner's.
        let own = unsafe { self.own.get() };
        own[1] != 0
    }

    /// Whether the request is that of a thread that this process does not have (L7).
    #[inline(always)]
    fn is_of_a_ghost(&self, lines: &Lines<P>) -> bool {
        !self.generation.is_this() && lines.is_ghost(self)
    }

    /// Whether there is a request. By an executor.
    #[inline(always)]
    pub(super) fn is_requested(&self) -> bool {
        self.word.load(Acquire) == REQUESTED // ORDER: L-E1.
    }

    /// At a server: whether there is a request that its owner does not want back, and that nobody who has lost the turn has in its hands.
    #[inline(always)]
    pub(super) fn is_open(&self) -> bool {
        let number = self.number.load(Acquire); // ORDER: E2 of `served`.
        self.is_requested() && number & 1 == 0 && self.taken.load(Relaxed) != number
    }

    /// Runs the section.
    ///
    /// # Safety
    ///
    /// The request is the caller's to run (L2), and has not been run.
    #[inline(always)]
    pub(super) unsafe fn run(&self) {
        // SAFETY: L1.
        if let Some(section) = unsafe { self.section.get() } {
            // SAFETY: the caller's contract; the requester waits.
            unsafe { section.run() };
        }
    }

    /// The delegate that the request is for.
    ///
    /// # Safety
    ///
    /// There is a request, which no other thread answers meanwhile.
    #[inline(always)]
    pub(super) unsafe fn target(&self) -> usize {
        // SAFETY: L1.
        let own = unsafe { self.own.get() };
        own[0] as usize
    }

    /// Tells the owner that its section has run. Nothing of the request may be touched afterwards (L4). Whether the owner sleeps.
    #[inline(always)]
    pub(super) fn answer(&self) -> bool {
        self.word.store(IDLE, Release); // ORDER: L-E2.
        P::light_barrier(); // ORDER: L8.
        self.asleep.load(Relaxed) != 0
    }

    /// Wakes the owner. It may be awake.
    #[cold]
    pub(super) fn wake(&self) {
        self.asleep.store(0, Relaxed);
        // SAFETY: L3.
        unsafe { FutexCell::wake(&raw const self.asleep, 1) };
    }

    /// Takes the owner's own request back, by an owner that excludes all other executors. `false`: the section has run.
    fn take_back(&self) -> bool {
        // ORDER: an executor that has run it did so before this thread began to exclude others.
        if self.word.load(Relaxed) == IDLE {
            return false;
        }
        self.word.store(IDLE, Relaxed); // ORDER: read by this thread next.
        true
    }

    /// Whether the section has run. For the owner.
    #[inline(always)]
    pub(super) fn is_done(&self) -> bool {
        self.word.load(Acquire) == IDLE // ORDER: L-E2.
    }
}

/// Threads that wait at lines for a section, or for what excludes executors (`is_busy`, `begin`): flat combining's lock, SANL's.
///
/// - L5: while a request is parked and nothing excludes executors, some thread is awake that will begin or wake one: a
///   thread that parks looks at `is_busy` after it has said so (and a barrier); one that ends to execute looks for parked
///   requests after it has (and a barrier). See [`Parked::nominate`].
/// - L6: the word counts the lines that say that their owners are asleep, each from before it does; whoever takes that away counts
///   it off. So threads that have been woken, and wait for a CPU, are not looked for.
#[derive(Debug)]
#[repr(transparent)]
pub(super) struct Parked<P: Platform>(P::U32);

impl<P: Platform> Parked<P> {
    pub(super) fn none() -> Self {
        Self(P::U32::new(0))
    }

    /// Runs the request of `line`, if there is one. Returns whether there was. If its owner sleeps it is one of `sleepers`.
    ///
    /// # Safety
    ///
    /// The caller excludes all other executors (L2).
    #[inline(always)]
    pub(super) unsafe fn serve(&self, line: &Line<P>, lines: &Lines<P>, sleepers: &mut Sleepers<P>) -> bool {
        if !line.is_requested() {
            return false;
        }
        if line.is_of_a_ghost(lines) {
            self.leave_over(line);
            return false;
        }
        // SAFETY: the caller's contract.
        unsafe { line.run() };
        if line.answer() && self.wakes(line) {
            sleepers.add(&raw const line.asleep);
        }
        true
    }

    /// Takes away that the owner of a line is asleep, and counts it off. `false`: somebody else did.
    #[cold]
    fn wakes(&self, line: &Line<P>) -> bool {
        // ORDER: a thread that sleeps looks at the word when it is awake.
        let is_asleep = line.asleep.swap(0, Relaxed) != 0;
        if is_asleep {
            self.0.fetch_sub(1, Relaxed); // ORDER: a hint that is too high does no harm.
        }
        is_asleep
    }

    /// Marks the line of a ghost (L7), which nobody else changes.
    #[cold]
    fn leave_over(&self, line: &Line<P>) {
        line.word.store(LEFT_OVER, Relaxed);
        self.wakes(line);
    }

    /// Waits for the request of `line`, or to execute: tries to `begin` after `patience` pauses, and again whenever it is woken
    /// for that.
    pub(super) fn wait<T>(
        &self,
        line: &Line<P>,
        lines: &Lines<P>,
        mut patience: u32,
        is_busy: impl Fn() -> bool,
        begin: impl Fn() -> Option<T>,
    ) -> Outcome<T> {
        let mut left = pauses_before_sleep::<P>();
        let mut has_more = true;
        let mut pauses = Patience::new::<P>();
        loop {
            if line.is_done() {
                return Outcome::Served;
            }
            if patience == 0 && !is_busy() {
                if let Some(begun) = begin() {
                    return if line.take_back() {
                        Outcome::Begun(begun)
                    } else {
                        Outcome::BegunServed(begun)
                    };
                }
                pauses.pause::<P>();
                continue;
            }
            if left > 0 || patience > 0 {
                let paused = pauses.pause_within::<P>(if patience > 0 { patience } else { left });
                left = left.saturating_sub(paused);
                patience = patience.saturating_sub(paused);
                continue;
            }
            if core::mem::take(&mut has_more) {
                left = lines.pauses_in_crowd();
                continue;
            }
            self.0.fetch_add(1, Relaxed);
            line.asleep.store(1, Relaxed);
            P::heavy_barrier(); // ORDER: L5, L8.
            if !line.is_done() && is_busy() {
                let _ = line.asleep.wait(1, None);
            }
            self.wakes(line);
        }
    }

    /// By a thread that has ended to execute: wakes a requester that sleeps, to be the next.
    #[inline(always)]
    pub(super) fn nominate(&self, lines: &Lines<P>) {
        P::light_barrier(); // ORDER: L5.
        if self.0.load(Relaxed) != 0 {
            self.wake_one(lines);
        }
    }

    #[cold]
    fn wake_one(&self, lines: &Lines<P>) {
        let mut is_woken = false;
        lines.each(|line| {
            // ORDER: the request stays where it is; L5's barriers order the rest.
            let word = line.word.load(Relaxed);
            let waits = word == REQUESTED || word == HOLDS;
            let is_parked = !is_woken && line.asleep.load(Relaxed) != 0 && waits;
            if is_parked && line.is_of_a_ghost(lines) {
                // An executor may find it at the same time.
                if line.word.compare_exchange(word, LEFT_OVER, Relaxed, Relaxed).is_ok() {
                    self.wakes(line);
                }
                return;
            }
            if is_parked && self.wakes(line) {
                // SAFETY: L3.
                unsafe { FutexCell::wake(&raw const line.asleep, 1) };
                is_woken = true;
            }
        });
    }
}

/// Owners of lines that sleep although their sections have run. The executor wakes them when it is none any more: a thread that
/// wakes may take the CPU of the one that woke it, and would next wait for what that one holds.
pub(super) struct Sleepers<P: Platform> {
    words: [*const P::Futex; SLEEPERS],
    count: usize,
}

impl<P: Platform> Sleepers<P> {
    pub(super) const fn none() -> Self {
        Self { words: [ptr::null(); SLEEPERS], count: 0 }
    }

    #[cold]
    fn add(&mut self, word: *const P::Futex) {
        if self.count == SLEEPERS {
            self.wake();
        }
        self.words[self.count] = word;
        self.count += 1;
    }

    /// Wakes them. The lines must be there.
    #[inline(always)]
    pub(super) fn wake(&mut self) {
        if self.count != 0 {
            self.wake_all();
        }
    }

    #[cold]
    fn wake_all(&mut self) {
        for word in &self.words[..self.count] {
            // SAFETY: L4; lines outlive all requests (L3), and the executor's own call is one.
            unsafe { FutexCell::wake(*word, 1) };
        }
        self.count = 0;
    }
}

/// Some lines.
#[repr(C)]
struct Page<P: Platform> {
    lines: [Line<P>; LINES],
}

/// Some pages.
#[repr(C)]
struct Root<P: Platform> {
    pages: [P::Ptr<Page<P>>; PAGES],
    next: P::Ptr<Root<P>>,
}

impl<P: Platform> PoolNode<P> for Page<P> {
    fn new() -> Self {
        Self { lines: core::array::from_fn(|_| Line::new()) }
    }
}

impl<P: Platform> PoolNode<P> for Root<P> {
    fn new() -> Self {
        Self {
            pages: core::array::from_fn(|_| P::Ptr::new(ptr::null_mut())),
            next: P::Ptr::new(ptr::null_mut()),
        }
    }
}

/// What `link` points to, if there is something.
#[inline(always)]
pub(super) fn found<P: Platform, T>(link: &P::Ptr<T>) -> Option<&T> {
    // SAFETY: L3: published, and not removed.
    unsafe { link.load(Acquire).as_ref() } // ORDER: L-E3.
}

/// What `link` points to, made if there is nothing yet.
#[inline(always)]
pub(super) fn found_or_made<P: Platform, T: PoolNode<P>>(link: &P::Ptr<T>) -> &T {
    match found::<P, T>(link) {
        Some(there) => there,
        None => make::<P, T>(link),
    }
}

#[cold]
fn make<P: Platform, T: PoolNode<P>>(link: &P::Ptr<T>) -> &T {
    let fresh = P::alloc_node::<T>();
    // ORDER: L-E3, both ways.
    let there = match link.compare_exchange(ptr::null_mut(), fresh.as_ptr(), Release, Acquire) {
        Ok(_) => fresh.as_ptr(),
        Err(there) => {
            // SAFETY: nobody knows of it.
            unsafe { P::free_node(fresh) };
            there
        }
    };
    // SAFETY: L3.
    unsafe { &*there }
}

/// The lines of all threads at one delegate or server. All-zero memory has none.
#[repr(transparent)]
pub(super) struct Lines<P: Platform> {
    first: P::Ptr<Root<P>>,
}

impl<P: Platform> core::fmt::Debug for Lines<P> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Lines").field("first", &self.first.load(Relaxed)).finish()
    }
}

impl<P: Platform> Lines<P> {
    pub(super) fn none() -> Self {
        Self { first: P::Ptr::new(ptr::null_mut()) }
    }

    /// The calling thread's line; `None` where the thread has no number, as one that is ending.
    #[inline(always)]
    pub(super) fn own(&self) -> Option<&Line<P>> {
        self.of(P::thread_id())
    }

    /// The same, if the thread may leave a request there (L7).
    #[inline(always)]
    pub(super) fn own_usable(&self) -> Option<&Line<P>> {
        self.own().filter(|line| !line.is_left_over())
    }

    /// The line of the thread with this number; `None` for 0.
    #[inline(always)]
    pub(super) fn of(&self, number: u32) -> Option<&Line<P>> {
        let mut index = (number as usize).checked_sub(1)?;
        let mut root = found_or_made::<P, Root<P>>(&self.first);
        while index >= PAGES * LINES {
            index -= PAGES * LINES;
            root = found_or_made::<P, Root<P>>(&root.next);
        }
        Some(&found_or_made::<P, Page<P>>(&root.pages[index / LINES]).lines[index % LINES])
    }

    /// Whether the request of `line`, of an older generation, is that of a thread that is gone.
    #[cold]
    fn is_ghost(&self, line: &Line<P>) -> bool {
        let mut number = 0;
        self.each_numbered(|its, at| {
            if ptr::eq(at, line) {
                number = its;
            }
        });
        !P::lives_since(number, line.generation.get())
    }

    /// Calls `f` with every line and the number of its thread.
    pub(super) fn each_numbered(&self, mut f: impl FnMut(u32, &Line<P>)) {
        self.each_numbered_page(|first, lines| {
            (first..).zip(lines).for_each(|(number, line)| f(number, line))
        });
    }

    /// Whether any thread has ever had a line.
    #[inline(always)]
    pub(super) fn is_used(&self) -> bool {
        !self.first.load(Relaxed).is_null()
    }

    /// Calls `f` with every line, page by page.
    #[inline(always)]
    pub(super) fn each(&self, mut f: impl FnMut(&Line<P>)) {
        self.each_page(|lines| lines.iter().for_each(&mut f));
    }

    /// Calls `f` with the lines of every page.
    #[inline]
    pub(super) fn each_page(&self, mut f: impl FnMut(&[Line<P>; LINES])) {
        self.each_numbered_page(|_, lines| f(lines));
    }

    /// Calls `f` with the lines of every page, and the number of the first one's thread.
    #[inline(always)]
    fn each_numbered_page(&self, mut f: impl FnMut(u32, &[Line<P>; LINES])) {
        self.pages(|first, page| {
            P::look_ahead(page.lines.iter().map(ptr::from_ref));
            f(first, &page.lines);
        });
    }

    /// Lines that there are: at most so many threads have requested something at once.
    fn count(&self) -> usize {
        let mut pages = 0;
        self.pages(|_, _| pages += 1);
        pages * LINES
    }

    /// For how many pauses more a requester stays awake, where all threads have a CPU: for as long as it takes to wake those that may
    /// wait with it, one after the other. Otherwise sleep is infectious, as in [`Wait::among`](crate::wait::Wait): an executor that has
    /// to wake somebody with each answer takes so long for all that those whose answer comes last fall asleep, and so do all the others.
    #[cold]
    pub(super) fn pauses_in_crowd(&self) -> u32 {
        if P::runnable() > P::parallelism() {
            return 0;
        }
        let others = self.count().min(P::parallelism());
        pauses_before_sleep::<P>().saturating_mul(others.try_into().unwrap_or(u32::MAX))
    }

    /// Calls `f` with every page, and the number of its first line's thread.
    #[inline(always)]
    fn pages(&self, mut f: impl FnMut(u32, &Page<P>)) {
        let mut first = 1;
        let mut next = self.first.load(Acquire); // ORDER: L-E3.
        // SAFETY: L3.
        while let Some(root) = unsafe { next.as_ref() } {
            for page in &root.pages {
                // SAFETY: L3. ORDER: L-E3.
                if let Some(page) = unsafe { page.load(Acquire).as_ref() } {
                    f(first, page);
                }
                first += LINES as u32;
            }
            next = root.next.load(Acquire); // ORDER: L-E3.
        }
    }

    /// Gives the memory back.
    ///
    /// # Safety
    ///
    /// Nobody uses the lines, now or until they are new.
    pub(super) unsafe fn dispose(&self) {
        // ORDER: the caller's exclusion.
        let mut next = NonNull::new(self.first.swap(ptr::null_mut(), Relaxed));
        while let Some(at) = next {
            // SAFETY: L3, and freed below only.
            let root = unsafe { at.as_ref() };
            for page in root.pages.iter().filter_map(|page| NonNull::new(page.load(Relaxed))) {
                // SAFETY: the caller's contract.
                unsafe { P::free_node(page) };
            }
            next = NonNull::new(root.next.load(Relaxed));
            // SAFETY: as above.
            unsafe { P::free_node(at) };
        }
    }
}
