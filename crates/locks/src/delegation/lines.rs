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
//! | word, without `PARKED` | meaning                                   | who moves it there                      |
//! |------------------------|-------------------------------------------|-----------------------------------------|
//! | `IDLE`                 | no request, or the section has run        | the executor; the owner that takes back |
//! | `REQUESTED`            | a section waits to be run                 | the owner; a server that puts it back   |
//! | `TAKEN`                | a server is about to run it, or does      | the server                              |
//! | `LEFT_OVER`            | in a child: of a thread that is gone      | an executor that has found its request  |
//!
//! `PARKED` is added by the owner while it sleeps or is about to, and taken away by whoever wakes it, or by the owner.
//!
//! # Invariants
//!
//! - L1: the owner writes `section` and `target` while the word is `IDLE`; others read them between `REQUESTED` and `IDLE`, and a
//!   server takes the section away when it begins to run it.
//! - L2: a request is run by the one thread that moved it to `TAKEN`, or by a thread that excludes all other executors.
//! - L3: pages and roots are added and never removed before [`Lines::dispose`].
//! - L4: after the swap to `IDLE` the executor touches nothing of the request; a wake needs the word's address only.
//! - L7: in a child after `fork`, a request of a thread that is gone is not run. No thread that has that number in the child uses
//!   the line: it would change a request that an executor is looking at.
//!
//! # Ordering
//!
//! - L-E1: the store of `REQUESTED` (Release) → the executor's load (Acquire): the request, and what the owner did before. The
//!   owner's and the servers' changes of the word in between are read-modify-writes.
//! - L-E2: the swap to `IDLE` (Release) → the owner's load (Acquire): what the section did.
//! - L-E3: the compare-and-swap that publishes a page or a root (Release) → the loads of others (Acquire): its lines.

use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use lockwork_platform::{AtomicCell, AtomicInt, DataCell, Deadline, FutexCell, Platform, PoolNode};

use super::{Generation, Section};
use crate::wait::{Patience, pauses_before_sleep};

const IDLE: u32 = 0;
const REQUESTED: u32 = 1;
const TAKEN: u32 = 2;
const PARKED: u32 = 4;
const LEFT_OVER: u32 = 8;

/// Lines of a page.
const LINES: usize = 8;
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
    /// What a server is to know of the request besides: the address of the delegate that it is for.
    target: P::Data<usize>,
    section: P::Data<Option<Section>>,
    /// Of the request.
    generation: Generation<P>,
    /// Accessed by the owner only. Natively a thread's number is passed on by a Release and an Acquire.
    pub(super) own: P::Data<Own>,
}

impl<P: Platform> core::fmt::Debug for Line<P> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Line").field("word", &self.word.load(Relaxed)).finish_non_exhaustive()
    }
}

/// What ended a sleep.
struct Woken {
    /// The deadline has not passed.
    in_time: bool,
    /// Another thread took `PARKED` away.
    by_another: bool,
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
            target: P::Data::new(0),
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
    pub(super) unsafe fn request(&self, section: Section, target: usize) {
        // SAFETY: L1.
        unsafe { self.section.set(Some(section)) };
        // SAFETY: L1.
        unsafe { self.target.set(target) };
        self.generation.note();
        self.word.store(REQUESTED, Release); // ORDER: L-E1.
    }

    /// Whether a thread of a parent has left a request here, and its number to the calling thread (L7). For the owner, who has
    /// none.
    #[inline(always)]
    pub(super) fn is_left_over(&self) -> bool {
        P::generation() != 0 && self.word.load(Relaxed) != IDLE
    }

    /// Whether the request is that of a thread that this process does not have (L7).
    #[inline(always)]
    fn is_of_a_ghost(&self, lines: &Lines<P>) -> bool {
        !self.generation.is_this() && lines.is_ghost(self)
    }

    /// Whether there is a request. By an executor.
    #[inline(always)]
    fn is_requested(&self) -> bool {
        self.word.load(Acquire) & !PARKED == REQUESTED // ORDER: L-E1.
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

    /// Runs the section, and remembers in a child of `fork` that it has been begun.
    ///
    /// # Safety
    ///
    /// The caller has taken the request, and no section of its delegate runs.
    #[inline(always)]
    pub(super) unsafe fn run_taken(&self) {
        // SAFETY: L1: taken.
        if let Some(section) = unsafe { self.section.get() } {
            // SAFETY: as above.
            unsafe { self.section.set(None) };
            // SAFETY: the caller's contract; the requester waits.
            unsafe { section.run() };
        }
    }

    /// The delegate that the request is for.
    ///
    /// # Safety
    ///
    /// The caller has taken the request.
    #[inline(always)]
    pub(super) unsafe fn target(&self) -> usize {
        // SAFETY: L1.
        unsafe { self.target.get() }
    }

    /// Tells the owner that its section has run. Nothing of the request may be touched afterwards (L4).
    #[inline(always)]
    pub(super) fn finish(&self) {
        if let Some(word) = self.answer() {
            // SAFETY: L4; lines outlive all requests (L3).
            unsafe { FutexCell::wake(word, 1) };
        }
    }

    /// The same for an owner that is awake; the word that it sleeps at, if it does.
    #[inline(always)]
    fn answer(&self) -> Option<*const P::Futex> {
        let word = ptr::from_ref(&self.word);
        // ORDER: L-E2.
        (self.word.swap(IDLE, Release) & PARKED != 0).then_some(word)
    }

    /// Takes a request, so that no other server runs it.
    #[inline(always)]
    pub(super) fn take(&self) -> bool {
        let mut seen = self.word.load(Relaxed);
        // The owner may begin or end to sleep in between, which takes no request away: a server that looked for the last time
        // before it sleeps would leave it.
        while seen & !PARKED == REQUESTED {
            // ORDER: L-E1.
            match self.word.compare_exchange(seen, seen + (TAKEN - REQUESTED), Acquire, Relaxed) {
                Ok(_) => return true,
                Err(other) => seen = other,
            }
        }
        false
    }

    /// Puts a request back that has been taken and not run.
    pub(super) fn put_back(&self) {
        self.word.fetch_sub(TAKEN - REQUESTED, Release); // ORDER: L-E1: what this server read comes before another's run.
    }

    /// In a child after `fork`, by its one thread: there is no request.
    pub(super) fn forget(&self) {
        self.word.store(IDLE, Relaxed); // ORDER: one thread.
    }

    /// In a child that its owner has forked, in a signal handler while it waited: what becomes of the request that a server had
    /// taken, which is gone. `runs` says of the delegate it is for whether a section runs there: it may be this one, of which the
    /// rest is lost, and the owner waits for ever, as for a mutex that a thread of the parent held. Otherwise the request is
    /// open, or has been served.
    ///
    /// # Safety
    ///
    /// There is no other thread.
    pub(super) unsafe fn give_back(&self, runs: impl FnOnce(usize) -> bool) {
        let word = self.word.load(Relaxed); // ORDER: one thread, as all that follows.
        // SAFETY: one thread.
        if word & !PARKED != TAKEN || runs(unsafe { self.target.get() }) {
            return;
        }
        // SAFETY: as above.
        let has_begun = unsafe { self.section.get() }.is_none();
        self.word.store(if has_begun { IDLE } else { word - (TAKEN - REQUESTED) }, Relaxed);
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

    /// Whether nobody has begun to run the request. For the owner.
    fn is_open(&self) -> bool {
        self.word.load(Relaxed) & !PARKED == REQUESTED
    }

    /// Sleeps, unless the section has run or `is_needless` says so after the line says that the owner sleeps.
    fn sleep(&self, is_needless: impl FnOnce() -> bool, deadline: Option<Deadline>) -> Woken {
        // ORDER: the owner reads what the section did by `is_done`.
        let seen = self.word.fetch_or(PARKED, Relaxed) | PARKED;
        let mut in_time = true;
        if seen != IDLE | PARKED && !is_needless() {
            in_time = self.word.wait(seen, deadline).is_ok();
        }
        // ORDER: as above. `IDLE` may have been there before this thread added `PARKED` to it.
        let by_another = self.word.fetch_and(!PARKED, Relaxed) & PARKED == 0;
        Woken { in_time, by_another }
    }

    /// Waits until a server has run the section. After every `interval` nanoseconds asleep with nobody having begun to run it,
    /// `looks_lost` is called; if it says so, the request is taken back. `false`: it was, and the section has not run.
    pub(super) fn wait_for_server(&self, interval: u64, mut looks_lost: impl FnMut() -> bool) -> bool {
        let mut left = pauses_before_sleep::<P>();
        let mut patience = Patience::brief::<P>();
        while !self.is_done() {
            if left > 0 {
                left = left.saturating_sub(patience.pause_within::<P>(left));
                continue;
            }
            let clock = lockwork_platform::Clock::Monotonic;
            let deadline = Deadline::after(clock, P::now(clock), interval);
            if !self.sleep(|| false, Some(deadline)).in_time
                && self.is_open()
                && looks_lost()
                && self.withdraw()
            {
                return false;
            }
        }
        true
    }

    /// Takes a request back, unless a server has taken it. For the owner.
    pub(super) fn withdraw(&self) -> bool {
        let is_ours = self.take();
        if is_ours {
            self.word.store(IDLE, Relaxed); // ORDER: read by this thread next.
        }
        is_ours
    }
}

/// Threads that wait at lines for a section, or for what excludes executors (`is_busy`, `begin`): flat combining's lock, SANL's.
///
/// - L5: while a request is parked and nothing excludes executors, some thread is awake that will begin or wake one: a
///   thread that parks looks at `is_busy` after it has said so (and a barrier); one that ends to execute looks for parked
///   requests after it has (and a barrier). See [`Parked::nominate`].
/// - L6: the word counts the lines that say `PARKED`, each from before it does; whoever takes that away counts it off. So
///   threads that have been woken, and wait for a CPU, are not looked for.
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
        if let Some(word) = line.answer() {
            self.counts_off();
            sleepers.add(word);
        }
        true
    }

    /// Marks the line of a ghost (L7), which nobody else changes.
    #[cold]
    fn leave_over(&self, line: &Line<P>) {
        if line.word.swap(LEFT_OVER, Relaxed) & PARKED != 0 {
            self.counts_off();
        }
    }

    #[cold]
    fn counts_off(&self) {
        self.0.fetch_sub(1, Relaxed); // ORDER: a hint that is too high does no harm.
    }

    /// Waits for the request of `line`, or to execute: tries to `begin` after `patience` pauses, and again whenever it is woken
    /// for that.
    pub(super) fn wait<T>(
        &self,
        line: &Line<P>,
        mut patience: u32,
        is_busy: impl Fn() -> bool,
        begin: impl Fn() -> Option<T>,
    ) -> Outcome<T> {
        let mut left = pauses_before_sleep::<P>();
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
            self.0.fetch_add(1, Relaxed); // ORDER: the barrier of `is_needless`.
            let is_needless = || {
                P::heavy_barrier(); // ORDER: L5.
                !is_busy()
            };
            if !line.sleep(is_needless, None).by_another {
                self.counts_off();
            }
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
            let parked = REQUESTED | PARKED;
            // ORDER: the request stays where it is; L5's barriers order the rest.
            let is_parked = !is_woken && line.word.load(Relaxed) == parked;
            if is_parked && line.is_of_a_ghost(lines) {
                // An executor may find it at the same time.
                if line.word.compare_exchange(parked, LEFT_OVER, Relaxed, Relaxed).is_ok() {
                    self.counts_off();
                }
                return;
            }
            // ORDER: as above.
            if is_parked && line.word.compare_exchange(parked, REQUESTED, Relaxed, Relaxed).is_ok() {
                self.counts_off();
                let address = ptr::from_ref(&line.word);
                // SAFETY: L3.
                unsafe { FutexCell::wake(address, 1) };
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

/// What `link` points to, made if there is nothing yet.
#[inline(always)]
pub(super) fn found_or_made<P: Platform, T: PoolNode<P>>(link: &P::Ptr<T>) -> &T {
    // SAFETY: L3: published, and not removed.
    match unsafe { link.load(Acquire).as_ref() } {
        Some(there) => there, // ORDER: L-E3.
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
        let mut first = 1;
        let mut next = self.first.load(Acquire); // ORDER: L-E3.
        // SAFETY: L3.
        while let Some(root) = unsafe { next.as_ref() } {
            for page in &root.pages {
                // SAFETY: L3. ORDER: L-E3.
                if let Some(page) = unsafe { page.load(Acquire).as_ref() } {
                    P::look_ahead(page.lines.iter().map(ptr::from_ref));
                    f(first, &page.lines);
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
