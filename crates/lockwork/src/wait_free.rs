//! P-Sim: a value on which no thread waits for another one, whatever becomes of the others.
//!
//! Panagiota Fatourou and Nikolaos D. Kallimanis, "A highly-efficient wait-free universal construction", SPAA 2011, algorithm
//! P-Sim. Deviations: states and announcements are reclaimed by epochs (crossbeam), where the paper has two states for each thread
//! and reads them again if they changed meanwhile; any number of threads without registration; operations that panic.
//!
//! # State
//!
//! | part        | meaning                                                                          | written by              |
//! |-------------|----------------------------------------------------------------------------------|-------------------------|
//! | `announced` | a bit a thread, which its owner turns when it has an operation to be applied     | each owner, its bit     |
//! | `operation` | what the owner wants; not changed once it is published                           | the owner               |
//! | `state`     | the value, the bits that are applied to it, and what each last operation returned | whoever replaces it     |
//!
//! # Invariants
//!
//! - I1: a state does not change once it is published. It is freed when every thread that may have seen it has unpinned.
//! - I2: an operation of a thread is applied to the published value once: the state that has its result also has the thread's bit as
//!   it was turned, and no operation is applied to a state in which the bits are equal.
//! - I3: a thread that has turned its bit and then tried twice to replace the state finds its result in the published one. If it
//!   replaced none, two others were published meanwhile, of which the second was begun after the first had been: so after the
//!   bit was turned, which it has seen.
//!
//! # Ordering
//!
//! - E1: `state`'s compare-and-swap (AcqRel) → loads of `state` (Acquire): the value and all operations applied to it.
//! - E2: the turn of a bit (AcqRel) → loads of `announced` (Acquire): the operation that was published before.
//! - I3 needs that a load of `announced` which follows a load of `state` sees every turn that preceded that state's publication in
//!   a thread that went on to load or replace `state`: the turn and both accesses of `state` are SeqCst.

use std::any::Any;
use std::cell::Cell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use std::sync::atomic::{AtomicPtr, AtomicU64};
use std::{mem, ptr};

use crossbeam_epoch::{Atomic, Guard, Owned, Shared, pin};
use lockwork_platform::{Native, Sched};

/// Something to be done to a value, which any thread may do, several times, on copies of it: of all that, one time counts.
pub trait Operation<T>: Clone + Send + Sync + 'static {
    /// What it returns to the thread that asked for it.
    type Output: Clone + Send + Sync + 'static;

    /// Applies it. The outcome depends on the value and the operation alone.
    fn apply(&self, value: &mut T) -> Self::Output;
}

/// A value that threads change without waiting for each other: wait-free, by P-Sim's construction.
///
/// A thread that is stopped in the middle of an operation, for however long, holds up nobody; the others apply its operation
/// with theirs. For that, everybody works on copies of the value of their own, and one copy at a time becomes the value.
///
/// ```
/// use lockwork::{Operation, WaitFree};
///
/// #[derive(Clone)]
/// struct Add(u64);
///
/// impl Operation<u64> for Add {
///     type Output = u64;
///
///     fn apply(&self, value: &mut u64) -> u64 {
///         *value += self.0;
///         *value
///     }
/// }
///
/// let total = WaitFree::new(1);
/// assert_eq!(total.apply(Add(2)), 3);
/// assert_eq!(total.read(|total| *total), 3);
/// ```
///
/// # Bounds
///
/// With `n` threads that have ever used the value at once, an operation copies the value twice at most, applies 2`n` operations at
/// most, and goes through 2`n` results: more only if operations panic, each of which costs as much again. It allocates three
/// times, and so is as wait-free as the allocator. What has been replaced is freed when no thread is in the middle of an
/// operation that began before: a thread that is stopped there keeps memory from being freed, and nothing else.
///
/// A [`Delegated`](crate::Delegated) value behind [`PSim`](crate::delegates::PSim) needs neither copies nor operations that can
/// be applied again, and is not wait-free.
pub struct WaitFree<T, O: Operation<T>> {
    state: Atomic<State<T, O::Output>>,
    groups: [AtomicPtr<Group<O>>; GROUPS],
}

/// Threads of a group: a bit of a word each.
const THREADS: usize = 64;
/// Groups, at most.
const GROUPS: usize = 64;

struct Group<O> {
    announced: AtomicU64,
    operations: [Atomic<O>; THREADS],
}

/// What an operation came to: its output, or what it panicked with.
type Outcome<R> = Result<R, String>;

#[derive(Clone)]
struct State<T, R> {
    value: T,
    /// The bits of each group that are applied.
    applied: Vec<u64>,
    /// By the numbers of threads.
    outcomes: Vec<Option<Outcome<R>>>,
}

thread_local! {
    /// Whether this thread applies operations.
    static APPLIES: Cell<bool> = const { Cell::new(false) };
}

impl<T: Clone + Send + Sync + 'static, O: Operation<T>> WaitFree<T, O> {
    /// A value.
    pub fn new(value: T) -> Self {
        let state = State { value, applied: Vec::new(), outcomes: Vec::new() };
        Self { state: Atomic::new(state), groups: [const { AtomicPtr::new(ptr::null_mut()) }; GROUPS] }
    }

    /// Applies `operation` to the value, and returns what that returned.
    ///
    /// # Panics
    ///
    /// If the operation does, with the text of its panic: the value is then as if it had not been applied. If it is
    /// called inside of an operation. If more than 4,096 threads are alive, or the thread is about to end.
    pub fn apply(&self, operation: O) -> O::Output {
        assert!(
            !APPLIES.get(),
            "an operation asks for another one, which may be applied any number of times"
        );
        let thread =
            (Native::thread_id() as usize).checked_sub(1).filter(|thread| *thread < GROUPS * THREADS);
        let thread = thread.expect("a thread that is not about to end, of 4,096 at most");
        let (group, place) = (self.group(thread / THREADS), thread % THREADS);
        let guard = pin();

        // What was announced before is applied: it stays for those that have seen it, and know no better.
        let before = group.operations[place].swap(Owned::new(operation), SeqCst, &guard);
        if !before.is_null() {
            // SAFETY: no thread that pins from here on finds it.
            unsafe { guard.defer_destroy(before) };
        }
        let bit = 1 << place;
        let turned = !group.announced.fetch_xor(bit, SeqCst) & bit; // ORDER: E2, I3.

        for _ in 0..2 {
            let state = self.state.load(SeqCst, &guard); // ORDER: E1, I3.
            // SAFETY: I1: never null, and pinned.
            if applied(unsafe { state.deref() }, thread) == turned || self.replace(state, &guard) {
                break;
            }
        }
        let state = self.state.load(SeqCst, &guard); // ORDER: E1.
        // SAFETY: I1.
        let state = unsafe { state.deref() };
        debug_assert_eq!(applied(state, thread), turned, "I3");
        match state.outcomes.get(thread).cloned().flatten() {
            Some(Ok(output)) => output,
            Some(Err(text)) => panic!("{text}"),
            None => unreachable!("I3: two attempts have applied it"),
        }
    }

    /// Shows the value as it is at some instant during the call. What others do meanwhile happens to another copy.
    pub fn read<R>(&self, read: impl FnOnce(&T) -> R) -> R {
        let guard = pin();
        // SAFETY: I1: never null, and pinned. ORDER: E1.
        read(unsafe { &self.state.load(Acquire, &guard).deref().value })
    }

    /// The value, for a caller that owns it.
    pub fn into_inner(mut self) -> T {
        // SAFETY: never null, and nobody else has it.
        let state = unsafe { mem::take(&mut self.state).into_owned() };
        state.into_box().value
    }

    /// Replaces `state` by one to which everything is applied that has been announced. `false`: somebody else replaced it.
    fn replace(&self, state: Shared<'_, State<T, O::Output>>, guard: &Guard) -> bool {
        // SAFETY: I1, and `guard` pins.
        let next = self.after(unsafe { state.deref() }, guard);
        // ORDER: E1, I3.
        let is_replaced = self.state.compare_exchange(state, Owned::new(next), SeqCst, SeqCst, guard).is_ok();
        if is_replaced {
            // SAFETY: no thread that pins from here on finds it.
            unsafe { guard.defer_destroy(state) };
        }
        is_replaced
    }

    /// What `state` becomes by all that has been announced.
    fn after(&self, state: &State<T, O::Output>, guard: &Guard) -> State<T, O::Output> {
        let groups: Vec<&Group<O>> = self.known().collect();
        let announced: Vec<u64> = groups.iter().map(|group| group.announced.load(SeqCst)).collect(); // ORDER: E2, I3.
        let mut outcomes = state.outcomes.clone();
        outcomes.resize(outcomes.len().max(groups.len() * THREADS), None);

        let is_new = |thread: &usize| {
            let bit = announced[thread / THREADS] & 1 << (thread % THREADS);
            bit != applied(state, *thread)
        };
        let open: Vec<usize> = (0..groups.len() * THREADS).filter(is_new).collect();
        let mut panicked: Vec<usize> = Vec::new();
        let value = loop {
            // Again from the start after a panic, which may have left anything behind.
            let mut value = state.value.clone();
            let failed = open.iter().filter(|thread| !panicked.contains(thread)).find_map(|&thread| {
                // ORDER: E2.
                let operation = groups[thread / THREADS].operations[thread % THREADS].load(Acquire, guard);
                // SAFETY: announced before its bit was turned, and pinned.
                let outcome = attempt(unsafe { operation.deref() }, &mut value);
                let failed = outcome.is_err();
                outcomes[thread] = Some(outcome);
                failed.then_some(thread)
            });
            match failed {
                Some(thread) => panicked.push(thread),
                None => break value,
            }
        };
        State { value, applied: announced, outcomes }
    }

    /// The groups that have threads.
    fn known(&self) -> impl Iterator<Item = &Group<O>> {
        // SAFETY: null, or published below, and freed with `self`.
        self.groups.iter().map_while(|group| unsafe { group.load(Acquire).as_ref() })
    }

    /// The group of this number, and those before it.
    fn group(&self, number: usize) -> &Group<O> {
        for place in self.groups.iter().take(number + 1).filter(|place| place.load(Acquire).is_null()) {
            let fresh = Box::into_raw(Box::new(Group {
                announced: AtomicU64::new(0),
                operations: [const { Atomic::null() }; THREADS],
            }));
            if place.compare_exchange(ptr::null_mut(), fresh, SeqCst, Acquire).is_err() {
                // SAFETY: made above, and nobody knows of it.
                drop(unsafe { Box::from_raw(fresh) });
            }
        }
        // SAFETY: made above, or by another thread.
        unsafe { &*self.groups[number].load(Acquire) }
    }
}

/// The thread's bit among those that are applied.
fn applied<T, R>(state: &State<T, R>, thread: usize) -> u64 {
    state.applied.get(thread / THREADS).copied().unwrap_or(0) & (1 << (thread % THREADS))
}

/// Applies an operation, or says what it panicked with.
fn attempt<T, O: Operation<T>>(operation: &O, value: &mut T) -> Outcome<O::Output> {
    let before = APPLIES.replace(true);
    let outcome = catch_unwind(AssertUnwindSafe(|| operation.apply(value)));
    APPLIES.set(before);
    outcome.map_err(|panic| text_of(&*panic))
}

fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref().cloned()).unwrap_or_else(|| "an operation panicked".to_owned())
}

impl<T, O: Operation<T>> Drop for WaitFree<T, O> {
    fn drop(&mut self) {
        let state = mem::take(&mut self.state);
        if !state.load(Relaxed, &pin()).is_null() {
            // SAFETY: nobody else has it.
            drop(unsafe { state.into_owned() });
        }
        for group in &mut self.groups {
            let group = mem::replace(group.get_mut(), ptr::null_mut());
            if group.is_null() {
                continue;
            }
            // SAFETY: made by `Box::into_raw`, and nobody else has it.
            let group = unsafe { Box::from_raw(group) };
            for operation in group.operations {
                // SAFETY: as above.
                drop(unsafe { operation.try_into_owned() });
            }
        }
    }
}

impl<T, O: Operation<T>> fmt::Debug for WaitFree<T, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WaitFree").finish_non_exhaustive()
    }
}
