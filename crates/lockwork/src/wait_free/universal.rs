//! P-Sim's construction: threads apply each other's changes to copies of a value, and one copy at a time becomes the value.
//!
//! Panagiota Fatourou and Nikolaos D. Kallimanis, "A highly-efficient wait-free universal construction", SPAA 2011, algorithm
//! P-Sim. Deviations: a state is not changed while somebody may read it, where the paper's threads read states that others
//! overwrite, and read again if they did, which values of any type do not stand; so users of a state are counted, and a thread
//! has as many states as others look at, and two; threads have numbers, `THREADS` times `GROUPS` of them, instead of registering;
//! changes that fail, and those that unwind.
//!
//! # State
//!
//! | part        | meaning                                                                          | written by              |
//! |-------------|----------------------------------------------------------------------------------|-------------------------|
//! | `published` | the address of the slot of the state, and a count of those that use it by this   | those; its replacer     |
//! | `announced` | a bit a thread, which its owner turns when it has a change to be applied         | each owner, its bit     |
//! | `change`    | the slot of what the owner wants                                                 | the owner               |
//! | a slot      | a state or a change, with a count of its users; one of many that a thread owns   | the owner, while unused |
//!
//! A slot is free while `users` is 0. Its owner takes it by moving that to `OWNED`, which stays until another state is published,
//! or another change of the owner announced. Those that acquire the state by `published` are counted there. They take that back
//! when they leave, so that however many come and unwind, the count is that of those who are there. The thread that replaces the
//! state moves their count to `users`, by which they leave from then on.
//!
//! # Invariants
//!
//! - I1: the content of a slot changes only while its owner has it taken and nobody else can find it by `published` or `change`.
//! - I2: a thread uses a slot if it was counted by `published`; or if it added itself to `users` and then saw the slot's state
//!   still published, or, for a change, the state still published to which that is yet to be applied. Otherwise it leaves the
//!   slot without having looked at its content. While a slot is used, it is not free.
//! - I3: a thread that has turned its bit and then tried twice to replace the state finds its change applied. If it replaced
//!   none, two others were published meanwhile. The second of them was begun after the first had been published, and so after
//!   this thread had acquired the state before: it has seen the bit turned.
//! - I4: a change is applied to the published value once: the state that has its outcome also has the thread's bit as it was
//!   turned, and a state in which the bits are equal is not changed by it.
//! - I5: a user of a state keeps it from becoming free. So the state that a thread has replaced, or has tried to replace, does
//!   not come back meanwhile, and its address stands for it.
//!
//! Steps are bounded: a thread that looks for a free slot finds each other thread in one slot at most, as by `published` it gets
//! to that of the present alone; and an exchange of `published` fails because of others that acquire the same state or leave it:
//! each acquires it three times at most, since a change that is complete and a second look that fails need another state, and
//! leaves it twice, since a change that is not complete needs another state, too. Copies that panic undo these bounds.
//!
//! # Ordering
//!
//! - E1: the exchange of `published` (Release) → loads and additions (Acquire): the state, and all that was applied to it.
//! - E2: the turn of a bit (Release) → loads of `announced` (Acquire); the store of `change` (Release) → its loads (Acquire): the
//!   change, and that the one before it has been applied.
//! - E3: the addition to `published` (Release) → that of a thread which replaces a later state (Acquire), by the exchanges
//!   between: the bit that was turned before. I3.
//! - E4: a user's leaving, and the owner's (Release) → the owner's exchange that takes the slot (Acquire): what they read was there.
//!   One that leaves by `published` (Release) → the owner's next addition to `published` (Acquire), by the exchanges between: a
//!   slot that is free was replaced before that. An owner's leaving (Release) → an addition to `users` (Acquire), through the exchange that
//!   takes the slot: the state that was replaced before is not seen published any more. I2.
//! - E5: the exchange that makes a group known (Release) → its loads (Acquire): the group.

use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::mem;
use std::process;
use std::ptr;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::thread;

use lockwork_platform::{AtomicCell, AtomicInt, DataCell, Platform};

/// Something to be done to a value, by any thread, several times, on copies of it: of all that, one time counts.
pub trait Change<T>: Send + Sync + 'static {
    /// What it comes to for the thread that asked for it.
    type Output: Clone + Send + Sync + 'static;

    /// Applies it.
    ///
    /// # Errors
    ///
    /// If it is to count as not applied; the value may then be anything.
    fn apply(&self, value: &mut T) -> Outcome<Self::Output>;
}

/// What a change came to: its output, or why it failed.
pub type Outcome<R> = Result<R, String>;

/// A value, for so many groups of so many threads.
pub struct Universal<
    P: Platform,
    T: 'static,
    C: Change<T>,
    const THREADS: usize = 64,
    const GROUPS: usize = 64,
> {
    published: P::Usize,
    groups: [P::Ptr<Group<P, T, C, THREADS>>; GROUPS],
    owned: PhantomData<(T, C)>,
}

struct Group<P: Platform, T: 'static, C: Change<T>, const THREADS: usize> {
    announced: P::Usize,
    places: [Place<P, T, C>; THREADS],
}

/// What belongs to one thread at a time, which alone writes it.
struct Place<P: Platform, T: 'static, C: Change<T>> {
    change: P::Ptr<Slot<P, C>>,
    /// 1 from before a change is announced until its outcome is known: longer, if the thread has unwound or is lost.
    is_open: P::U32,
    changes: P::Ptr<Slot<P, C>>,
    states: P::Ptr<Slot<P, State<T, C::Output>>>,
}

#[derive(Clone)]
struct State<T, R> {
    value: T,
    /// The bits of each group that are applied.
    applied: Vec<usize>,
    /// By the numbers of threads.
    outcomes: Vec<Option<Outcome<R>>>,
}

/// A place for something that a thread makes and others use. It stays until the end.
#[repr(align(64))]
struct Slot<P: Platform, X> {
    users: P::Usize,
    /// Where a checker of orderings sees what is done with the content.
    access: P::Data<()>,
    content: UnsafeCell<Option<X>>,
    /// Another one of the same owner.
    next: *mut Slot<P, X>,
}

/// Added to the users of a slot by its owner. More than there can be users.
const OWNED: usize = 1 << 32;
/// The bits of `published` that count. The address is above them.
const COUNT_BITS: u32 = 16;
const COUNT: usize = (1 << COUNT_BITS) - 1;
/// No more than this are counted, some thousands before the count would run into the address.
const MOST: usize = COUNT - 0xfff;

fn slot_at<'a, P: Platform, X>(word: usize) -> &'a Slot<P, X> {
    // SAFETY: made by `word_of`, of a slot that stays as long as the value, which the caller has borrowed.
    unsafe { &*ptr::with_exposed_provenance(word >> COUNT_BITS) }
}

/// The word of a slot that nobody has acquired.
fn word_of<P: Platform, X>(slot: &Slot<P, X>) -> usize {
    let address = ptr::from_ref(slot).expose_provenance();
    // Not with tags of memory in the upper bits (MTE, HWASan).
    assert_eq!(address >> (usize::BITS - COUNT_BITS), 0, "Linux gives programs lower addresses");
    address << COUNT_BITS
}

/// Makes of `published` what `next` makes of it, and returns what it was; unless it is not the word of `slot` any more, which the
/// calling thread uses.
fn exchange<P: Platform, X>(
    published: &P::Usize,
    slot: &Slot<P, X>,
    next: impl Fn(usize) -> usize,
) -> Option<usize> {
    let mut seen = published.load(Relaxed); // ORDER: I5, and the exchange.
    while ptr::eq(slot_at(seen), slot) {
        // ORDER: E1, and E4 of a user that leaves.
        match published.compare_exchange(seen, next(seen), Release, Relaxed) {
            Ok(_) => return Some(seen),
            Err(now) => seen = now,
        }
    }
    None
}

/// A slot of the calling thread's, which nobody else uses.
struct Taken<'a, P: Platform, X>(&'a Slot<P, X>);

impl<'a, P: Platform, X: 'static> Taken<'a, P, X> {
    /// Takes one of `slots`, those of the place of the calling thread.
    fn one_of(slots: &'a P::Ptr<Slot<P, X>>) -> Self {
        let first = slots.load(Relaxed); // ORDER: the thread's own.
        let mut at = first;
        // SAFETY: slots stay.
        while let Some(slot) = unsafe { at.as_ref() } {
            // ORDER: both are E4.
            if slot.users.load(Relaxed) == 0
                && slot.users.compare_exchange(0, OWNED, Acquire, Relaxed).is_ok()
            {
                return Self(slot);
            }
            at = slot.next;
        }
        let fresh = Box::into_raw(Box::new(Slot::new(None, first)));
        slots.store(fresh, Relaxed); // ORDER: as above.
        // SAFETY: as above.
        Self(unsafe { &*fresh })
    }

    fn content(&mut self) -> &mut Option<X> {
        // SAFETY: I1.
        unsafe { self.0.access.set(()) };
        // SAFETY: I1; `self` is borrowed meanwhile.
        unsafe { &mut *self.0.content.get() }
    }

    /// The slot, which is taken until [`Slot::give_up`].
    fn keep(self) -> &'a Slot<P, X> {
        let slot = self.0;
        mem::forget(self);
        slot
    }
}

impl<P: Platform, X> Drop for Taken<'_, P, X> {
    fn drop(&mut self) {
        if thread::panicking() {
            // Its content may be half written: nothing is to be made of it.
            // SAFETY: I1.
            unsafe { *self.0.content.get() = None };
        }
        self.0.give_up(0);
    }
}

/// A slot whose content the calling thread reads (I2).
struct Used<'a, P: Platform, X> {
    slot: &'a Slot<P, X>,
    /// Where the thread is counted, unless that is `users`.
    published: Option<&'a P::Usize>,
}

impl<P: Platform, X> Used<'_, P, X> {
    fn content(&self) -> &X {
        // SAFETY: I2.
        unsafe { self.slot.access.get() };
        // SAFETY: I2.
        let content = unsafe { &*self.slot.content.get() };
        content.as_ref().expect("written before it can be found")
    }
}

impl<P: Platform, X> Drop for Used<'_, P, X> {
    fn drop(&mut self) {
        let take_back = |published| exchange(published, self.slot, |seen| seen - 1);
        if self.published.and_then(take_back).is_none() {
            self.slot.users.fetch_sub(1, Release); // ORDER: E4.
        }
    }
}

impl<P: Platform, X> Slot<P, X> {
    /// A slot that is taken.
    fn new(content: Option<X>, next: *mut Self) -> Self {
        Self {
            users: P::Usize::new(OWNED),
            access: P::Data::new(()),
            content: UnsafeCell::new(content),
            next,
        }
    }

    /// Ends what [`Taken::one_of`] began. So many others that use it have not been counted here.
    fn give_up(&self, others: usize) {
        self.users.fetch_add(others.wrapping_sub(OWNED), Release); // ORDER: E4.
    }

    /// Counts the calling thread among the users: it may look at the content if it sees afterwards what I2 asks for.
    fn enter(&self) -> Used<'_, P, X> {
        self.users.fetch_add(1, Acquire); // ORDER: E4.
        Used { slot: self, published: None }
    }
}

impl<P: Platform, T: 'static, C: Change<T>, const THREADS: usize> Group<P, T, C, THREADS> {
    fn new() -> Self {
        let place = |_| Place {
            change: P::Ptr::new(ptr::null_mut()),
            is_open: P::U32::new(0),
            changes: P::Ptr::new(ptr::null_mut()),
            states: P::Ptr::new(ptr::null_mut()),
        };
        Self { announced: P::Usize::new(0), places: std::array::from_fn(place) }
    }
}

impl<P: Platform, T: Clone + Send + Sync + 'static, C: Change<T>, const THREADS: usize, const GROUPS: usize>
    Universal<P, T, C, THREADS, GROUPS>
{
    /// A value.
    pub fn new(value: T) -> Self {
        const { assert!(usize::BITS == 64 && THREADS <= 64 && THREADS * GROUPS < 1 << (COUNT_BITS - 2)) };
        let state = State { value, applied: Vec::new(), outcomes: Vec::new() };
        let slot = Box::into_raw(Box::new(Slot::new(Some(state), ptr::null_mut())));
        // SAFETY: made above, and freed with the value.
        let published = P::Usize::new(word_of(unsafe { &*slot }));
        let groups = std::array::from_fn(|_| P::Ptr::new(ptr::null_mut()));
        let this = Self { published, groups, owned: PhantomData };
        // It becomes one of the first thread's when it is replaced.
        this.group(0).places[0].states.store(slot, Relaxed); // ORDER: nobody else knows of it yet.
        this
    }

    /// Applies a change to the value, for the thread with this number, from 0.
    ///
    /// # Errors
    ///
    /// If the change fails: the value is then as if it had not been applied.
    ///
    /// # Panics
    ///
    /// If the number is that of no thread of any group. If a copy of the value, or of what a change came to, or the end of one
    /// panics: the change is applied later, or never if it was not announced yet. If the end of an earlier change of the thread
    /// does: this one is applied.
    ///
    /// # Safety
    ///
    /// Until it returns or unwinds, nobody applies another change for this number: no other thread, nor what the changes, the
    /// values and the outcomes do when they are applied, copied or dropped.
    pub unsafe fn apply(&self, thread: usize, change: C) -> Outcome<C::Output> {
        let group = self.group(thread / THREADS);
        let (place, bit) = (&group.places[thread % THREADS], 1_usize << (thread % THREADS));
        let bit_now = || group.announced.load(Relaxed) & bit; // ORDER: the thread's own bit.
        // ORDER: the thread's own.
        if place.is_open.load(Relaxed) != 0 {
            // The thread unwound, or one with its number is lost in a parent process. What it wanted is done before what comes
            // next.
            self.settle(place, thread, bit_now(), |_| ());
        }
        let mut slot = Taken::one_of(&place.changes);
        // What was there may do anything when it is dropped: that is when this call is through.
        let _earlier = slot.content().replace(change);
        place.is_open.store(1, Relaxed); // ORDER: the thread's own.
        let last = place.change.load(Relaxed); // ORDER: as above.
        place.change.store(ptr::from_ref(slot.keep()).cast_mut(), Release); // ORDER: E2.
        // SAFETY: null, or a slot, which stays.
        if let Some(last) = unsafe { last.as_ref() } {
            last.give_up(0); // What it has is applied.
        }
        // Adds the bit where it was 0, and else takes it away: that turns one bit, and carries into none.
        let before = bit_now();
        let turn = if before == 0 { bit } else { bit.wrapping_neg() };
        group.announced.fetch_add(turn, Release); // ORDER: E2.
        let outcome = |state: &State<T, C::Output>| state.outcomes[thread].clone();
        self.settle(place, thread, before ^ bit, outcome).expect("an outcome of what is applied")
    }

    /// Shows the value as it is at some instant during the call. What others do meanwhile happens to another copy.
    pub fn read<R>(&self, read: impl FnOnce(&T) -> R) -> R {
        // A thread that is counted by `published` has others try again: so only if the state has changed twice.
        let state = self.look().or_else(|| self.look()).unwrap_or_else(|| self.acquire());
        read(&state.content().value)
    }

    /// The value, for a caller that owns it.
    pub fn into_inner(self) -> T {
        let slot = slot_at::<P, State<T, C::Output>>(self.published.load(Relaxed)); // ORDER: nobody else has it.
        // SAFETY: published, and the caller owns the whole.
        let state = unsafe { &mut *slot.content.get() }.take();
        state.expect("the state that is published").value
    }

    /// The published state.
    fn acquire(&self) -> Used<'_, P, State<T, C::Output>> {
        let seen = self.published.fetch_add(1, AcqRel); // ORDER: Acquire is E1, E3 and E4, Release is E3.
        if seen & COUNT >= MOST {
            process::abort(); // More threads than there can be: none could take back what the count did to the address.
        }
        Used { slot: slot_at(seen), published: Some(&self.published) }
    }

    /// The published state, unless it is replaced meanwhile.
    fn look(&self) -> Option<Used<'_, P, State<T, C::Output>>> {
        let slot = slot_at(self.published.load(Acquire)); // ORDER: E1: that there is such a slot.
        let state = slot.enter();
        // ORDER: E1.
        ptr::eq(slot_at(self.published.load(Acquire)), slot).then_some(state)
    }

    /// Whether `state`, which the calling thread uses, is still published.
    fn is_published(&self, state: &Slot<P, State<T, C::Output>>) -> bool {
        ptr::eq(slot_at(self.published.load(Relaxed)), state) // ORDER: the caller's.
    }

    /// Sees to it that the change of a thread is applied, which has turned its bit to `turned`, and returns what `outcome` takes
    /// from a state in which it is.
    fn settle<R>(
        &self,
        place: &Place<P, T, C>,
        thread: usize,
        turned: usize,
        outcome: impl Fn(&State<T, C::Output>) -> R,
    ) -> R {
        let is_applied =
            |state: &State<T, C::Output>| bits(state, thread / THREADS) & 1 << (thread % THREADS) == turned;
        let attempt = || {
            let state = self.acquire();
            if is_applied(state.content()) {
                return Some(outcome(state.content()));
            }
            let mut next = Taken::one_of(&place.states);
            let content = self.fill(next.content(), &state)?;
            let came_to = outcome(content);
            self.replace(state.slot, next).then_some(came_to)
        };
        let came_to = attempt().or_else(attempt).unwrap_or_else(|| {
            let state = self.acquire();
            assert!(is_applied(state.content()), "I3: others have applied it");
            outcome(state.content())
        });
        place.is_open.store(0, Relaxed); // ORDER: the thread's own.
        came_to
    }

    /// Writes what `state` becomes by all that has been announced. `None`: it has been replaced meanwhile.
    fn fill<'a>(
        &self,
        next: &'a mut Option<State<T, C::Output>>,
        state: &Used<'_, P, State<T, C::Output>>,
    ) -> Option<&'a State<T, C::Output>> {
        let before = state.content();
        let next = match next {
            Some(next) => {
                next.outcomes.clone_from(&before.outcomes);
                next.value.clone_from(&before.value);
                next
            }
            None => next.insert(before.clone()),
        };
        next.applied.clear();
        next.applied.extend(self.known().map(|group| group.announced.load(Acquire))); // ORDER: E2.
        next.outcomes.resize(next.applied.len() * THREADS, None);
        let mut failed: Vec<usize> = Vec::new();
        'from_the_start: loop {
            for (number, group) in self.known().enumerate().take(next.applied.len()) {
                let mut open = next.applied[number] ^ bits(before, number);
                while open != 0 {
                    let index = open.trailing_zeros() as usize;
                    open &= open - 1;
                    let thread = number * THREADS + index;
                    if failed.contains(&thread) {
                        continue;
                    }
                    let change = self.change_of(&group.places[index], state.slot)?;
                    let outcome = change.content().apply(&mut next.value);
                    let is_failed = outcome.is_err();
                    next.outcomes[thread] = Some(outcome);
                    if is_failed {
                        // It may have left anything behind: nothing is to be made of that.
                        failed.push(thread);
                        next.value = before.value.clone();
                        continue 'from_the_start;
                    }
                }
            }
            return Some(next);
        }
    }

    /// The change that is yet to be applied to `state`, of a thread whose bit says so. `None`: it has been applied.
    fn change_of(
        &self,
        place: &Place<P, T, C>,
        state: &Slot<P, State<T, C::Output>>,
    ) -> Option<Used<'_, P, C>> {
        let slot = place.change.load(Acquire); // ORDER: E2.
        // SAFETY: null, or a slot, which stays.
        let slot = unsafe { slot.as_ref() }.expect("announced before its bit was turned");
        let change = slot.enter();
        self.is_published(state).then_some(change)
    }

    /// Publishes `next` in place of `state`, which the calling thread uses, unless another one has been.
    fn replace(&self, state: &Slot<P, State<T, C::Output>>, next: Taken<'_, P, State<T, C::Output>>) -> bool {
        let word = word_of(next.0);
        let Some(seen) = exchange(&self.published, state, |_| word) else { return false };
        next.keep();
        state.give_up(seen & COUNT);
        true
    }

    /// The groups that have threads.
    fn known(&self) -> impl Iterator<Item = &Group<P, T, C, THREADS>> {
        // ORDER: E5. SAFETY: null, or made below, and freed with `self`.
        self.groups.iter().map_while(|group| unsafe { group.load(Acquire).as_ref() })
    }

    /// The group of this number, and those before it.
    fn group(&self, number: usize) -> &Group<P, T, C, THREADS> {
        let mut group = ptr::null_mut();
        for place in &self.groups[..=number] {
            group = place.load(Acquire); // ORDER: E5.
            if group.is_null() {
                let fresh = Box::into_raw(Box::new(Group::new()));
                group = match place.compare_exchange(ptr::null_mut(), fresh, Release, Acquire) {
                    Ok(_) => fresh, // ORDER: all of this exchange is E5.
                    Err(there) => {
                        // SAFETY: made above, and nobody knows of it.
                        drop(unsafe { Box::from_raw(fresh) });
                        there
                    }
                };
            }
        }
        // SAFETY: not null, and freed with `self`.
        unsafe { &*group }
    }
}

/// The bits of a group that are applied.
fn bits<T, R>(state: &State<T, R>, group: usize) -> usize {
    state.applied.get(group).copied().unwrap_or(0)
}

/// Frees slots, of which `whole` is one that is taken and written.
///
/// # Safety
///
/// Nobody has them but the caller.
unsafe fn free_all<P: Platform, X: 'static>(slots: &P::Ptr<Slot<P, X>>, whole: *const Slot<P, X>) {
    let mut next = slots.swap(ptr::null_mut(), Relaxed); // ORDER: the caller's exclusion.
    while !next.is_null() {
        // SAFETY: made by `Box::into_raw`, and the caller's contract.
        let mut slot = unsafe { Box::from_raw(next) };
        // ORDER: as above.
        if slot.users.load(Relaxed) >= OWNED / 2 && !ptr::eq(&raw const *slot, whole) {
            // The owner is lost in a parent process, maybe while it wrote.
            mem::forget(slot.content.get_mut().take());
        }
        next = slot.next;
    }
}

impl<P: Platform, T: 'static, C: Change<T>, const THREADS: usize, const GROUPS: usize> Drop
    for Universal<P, T, C, THREADS, GROUPS>
{
    fn drop(&mut self) {
        let state = slot_at::<P, State<T, C::Output>>(self.published.load(Relaxed)); // ORDER: nobody else has it.
        let state = ptr::from_ref(state);
        for group in &self.groups {
            let group = group.swap(ptr::null_mut(), Relaxed); // ORDER: nobody else has it.
            if group.is_null() {
                continue;
            }
            // SAFETY: made by `Box::into_raw`, and nobody else has it.
            let group = unsafe { Box::from_raw(group) };
            for place in &group.places {
                // SAFETY: as above.
                unsafe { free_all::<P, _>(&place.changes, place.change.load(Relaxed)) }; // ORDER: as above.
                // SAFETY: as above.
                unsafe { free_all::<P, _>(&place.states, state) };
            }
        }
    }
}

impl<P: Platform, T, C: Change<T>, const THREADS: usize, const GROUPS: usize> fmt::Debug
    for Universal<P, T, C, THREADS, GROUPS>
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Universal").finish_non_exhaustive()
    }
}
