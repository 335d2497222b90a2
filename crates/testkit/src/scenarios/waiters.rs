//! Plays with the registry of waiters: releases that `fork` waits for, and requests to end a wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use lockwork_platform::waiters::{Cancel, Owner, Steps};
use lockwork_platform::{AtomicCell, DataCell, FutexCell, PoolNode};

use super::{Scenario, Subject};
use crate::model::{ModelPlatform, Play};

/// Two words that a release changes one after the other.
struct Halves<P: ModelPlatform> {
    steps: Steps<P>,
    marks: [P::U32; 2],
    halves: [P::Data<u32>; 2],
    done: AtomicUsize,
}

impl<P: ModelPlatform> Halves<P> {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            steps: Steps::new(),
            marks: [0, 0].map(P::U32::new),
            halves: [0, 0].map(P::Data::new),
            done: AtomicUsize::new(0),
        })
    }

    /// Changes both words, in steps that `fork` waits for.
    fn release(&self, thread: usize) {
        self.steps.begin(&self.marks[thread], waits::<P>);
        self.change();
        self.steps.end(&self.marks[thread]);
        self.done.fetch_add(1, Relaxed);
    }

    /// The same, by a thread without patience, which changes nothing while a fork is on its way.
    fn release_or_leave(&self, thread: usize) {
        self.steps.begin(&self.marks[thread], || false);
        if !self.steps.is_forking() {
            self.change();
        }
        self.steps.end(&self.marks[thread]);
        self.done.fetch_add(1, Relaxed);
    }

    fn change(&self) {
        for half in &self.halves {
            // SAFETY: one thread writes; one that forks reads when nobody does.
            let before = unsafe { half.get() };
            // SAFETY: as above.
            unsafe { half.set(before + 1) };
            P::switch();
        }
    }

    /// What a child of `fork` finds.
    fn fork(&self, thread: usize) {
        let others = || Steps::<P>::is_marked(&self.marks[1 - thread]);
        self.steps.before_fork(others, waits::<P>);
        // SAFETY: nobody writes.
        let [first, second] = self.halves.each_ref().map(|half| unsafe { half.get() });
        assert_eq!(first, second, "half of a release");
        self.steps.after_fork();
        self.done.fetch_add(1, Relaxed);
    }
}

/// Waits for a moment. Patience has no end here.
fn waits<P: ModelPlatform>() -> bool {
    P::pause();
    true
}

/// One thread releases while another forks, each as often as said.
pub fn steps<P: ModelPlatform>(releases: usize, forks: usize) -> Play {
    let halves = Halves::<P>::new();
    let (releaser, forker) = (Arc::clone(&halves), Arc::clone(&halves));
    Play::new(move || assert_eq!(halves.done.load(Relaxed), releases + forks))
        .with(move || (0..releases).for_each(|_| releaser.release(0)))
        .with(move || (0..forks).for_each(|_| forker.fork(1)))
}

/// As [`steps`], by a releaser without patience.
pub fn steps_without_patience<P: ModelPlatform>(releases: usize, forks: usize) -> Play {
    let halves = Halves::<P>::new();
    let (releaser, forker) = (Arc::clone(&halves), Arc::clone(&halves));
    Play::new(move || assert_eq!(halves.done.load(Relaxed), releases + forks))
        .with(move || (0..releases).for_each(|_| releaser.release_or_leave(0)))
        .with(move || (0..forks).for_each(|_| forker.fork(1)))
}

/// What a waiter sleeps on, in a node of the pool.
struct Node<P: ModelPlatform>(P::Futex);

impl<P: ModelPlatform> PoolNode<P> for Node<P> {
    fn new() -> Self {
        Self(P::Futex::new(0))
    }
}

/// A thread sleeps until a request comes, and recycles what it slept on; others ask it to end.
pub fn requests<P: ModelPlatform>(requesters: usize) -> Play {
    let cancel = Arc::new(Cancel::<P>::new());
    let owner = Arc::clone(&cancel);
    let sleeper = move || {
        let node = P::alloc_node::<Node<P>>();
        // SAFETY: ours until it is freed below.
        let word = unsafe { &node.as_ref().0 };
        owner.publish(word);
        while !owner.is_pending() {
            let _ = word.wait(0, None);
        }
        owner.publish(std::ptr::null());
        // SAFETY: taken back: nobody kicks it any more.
        unsafe { P::free_node(node) };
    };
    (0..requesters).fold(Play::new(|| {}).with(sleeper), |play, _| {
        let cancel = Arc::clone(&cancel);
        play.with(move || {
            cancel.request(
                || true,
                |word| {
                    // SAFETY: not recycled before this kick has ended.
                    unsafe { &*word }.swap(1, Relaxed);
                    // SAFETY: as above.
                    unsafe { FutexCell::wake(word, 1) };
                },
            );
        })
    })
}

/// A slot, and what its owner writes there: plain data, so that the checker sees whether one owner comes after the other.
struct Slot<P: ModelPlatform> {
    owner: Owner<P>,
    content: P::Data<usize>,
}

impl<P: ModelPlatform> Slot<P> {
    fn new() -> Arc<Self> {
        Arc::new(Self { owner: Owner::new(), content: P::Data::new(0) })
    }

    fn take(&self, thread: usize) {
        while !self.owner.take(thread) {
            P::pause();
        }
        // SAFETY: the owner's.
        let content = unsafe { self.content.get() };
        // SAFETY: as above.
        unsafe { self.content.set(content + 1) };
    }
}

/// Threads own a slot one after the other, each so often.
pub fn owners<P: ModelPlatform>(threads: usize, times: usize) -> Play {
    let slot = Slot::<P>::new();
    (1..=threads).fold(Play::new(|| {}), |play, thread| {
        let slot = Arc::clone(&slot);
        play.with(move || {
            for _ in 0..times {
                slot.take(thread);
                P::switch();
                slot.owner.free(|| ());
            }
        })
    })
}

/// A slot goes over to another thread while a request comes that is for its first owner: the second one is not kicked.
pub fn late_request<P: ModelPlatform>() -> Play {
    let slot = Slot::<P>::new();
    let cancel = Arc::new(Cancel::<P>::new());
    let (owned, own) = (Arc::clone(&slot), Arc::clone(&cancel));
    let owners = move || {
        for thread in 1..=2 {
            owned.take(thread);
            let node = P::alloc_node::<Node<P>>();
            // SAFETY: ours until it is freed below.
            let word = unsafe { &node.as_ref().0 };
            own.publish(word);
            P::switch();
            own.publish(std::ptr::null());
            assert!(thread == 1 || word.load(Relaxed) == 0, "the request was for the first owner");
            // SAFETY: taken back: nobody kicks it any more.
            unsafe { P::free_node(node) };
            owned.owner.free(|| own.publish(std::ptr::null()));
        }
    };
    // SAFETY: the node of a wait that has not ended before this kick has.
    let kick = |word: *const P::Futex| _ = unsafe { &*word }.swap(1, Relaxed);
    Play::new(|| {}).with(owners).with(move || cancel.request(|| slot.owner.is(1), kick))
}

/// The registry's protocols.
#[must_use]
pub fn registry<P: ModelPlatform>(large: bool) -> Vec<Subject> {
    let scenarios = if large {
        vec![
            Scenario::new("steps", 2, || steps::<P>(5, 5)),
            Scenario::new("steps-without-patience", 2, || steps_without_patience::<P>(5, 5)),
            Scenario::new("requests", 4, || requests::<P>(3)),
            Scenario::new("owners", 4, || owners::<P>(4, 3)),
            Scenario::new("late-request", 2, late_request::<P>),
        ]
    } else {
        vec![
            Scenario::new("steps", 2, || steps::<P>(1, 1)),
            Scenario::new("steps-again", 2, || steps::<P>(2, 1)),
            Scenario::new("steps-without-patience", 2, || steps_without_patience::<P>(1, 1)),
            Scenario::new("steps-without-patience-again", 2, || steps_without_patience::<P>(1, 2)),
            Scenario::new("requests", 2, || requests::<P>(1)),
            Scenario::new("requests-of-two", 3, || requests::<P>(2)).within(2),
            Scenario::new("owners", 2, || owners::<P>(2, 1)),
            Scenario::new("late-request", 2, late_request::<P>),
        ]
    };
    vec![Subject { name: String::from("waiters"), scenarios }]
}
