//! Plays for the condition variable.

use std::fmt;
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use lockwork_locks::RawLock;
use lockwork_locks::blocking::futex::FutexLock;
use lockwork_locks::cond::{Cond, Interruption, Outcome, kick};
use lockwork_locks::queue::mcs::Mcs;
use lockwork_locks::wait::SpinThenPark;
use lockwork_platform::{Cancel, DataCell, Deadline};

use super::{Scenario, Subject, in_time};
use crate::model::{ModelPlatform, Play};

/// A counter of tokens under a lock, and a condition on it.
struct Counter<P: ModelPlatform, L> {
    lock: ManuallyDrop<L>,
    cond: Cond<P>,
    tokens: P::Data<usize>,
    /// Threads that have done their part.
    done: AtomicUsize,
}

impl<P: ModelPlatform, L> fmt::Debug for Counter<P, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Counter").field("done", &self.done).finish_non_exhaustive()
    }
}

impl<P: ModelPlatform, L: RawLock<P> + 'static> Counter<P, L> {
    fn new() -> Arc<Self> {
        let counter = Arc::new(Self {
            lock: ManuallyDrop::new(L::new()),
            cond: Cond::new(),
            tokens: P::Data::new(0),
            done: AtomicUsize::new(0),
        });
        P::adopt(&*counter.lock);
        P::adopt(&counter.cond);
        counter
    }

    /// A play at whose end `parts` threads have done their part.
    fn play(self: &Arc<Self>, parts: usize) -> Play {
        let counter = Arc::clone(self);
        Play::new(move || assert_eq!(counter.done.load(Relaxed), parts, "threads that did their part"))
    }

    fn done(&self) {
        self.done.fetch_add(1, Relaxed);
    }

    /// Under the lock.
    fn tokens(&self) -> usize {
        // SAFETY: the caller holds the lock; the checker reports it if that does not exclude others.
        unsafe { self.tokens.get() }
    }

    /// Under the lock.
    fn set_tokens(&self, tokens: usize) {
        // SAFETY: the caller holds the lock, as for `tokens`.
        unsafe { self.tokens.set(tokens) };
    }

    fn unlock(&self, token: L::Token) {
        // SAFETY: tokens in these plays come from this lock and are used once.
        unsafe { self.lock.unlock(token) };
    }

    /// Waits once. Under the lock, which the new token stands for afterwards.
    fn wait(
        &self,
        held: L::Token,
        deadline: Option<Deadline>,
        interruption: &impl Interruption<P>,
    ) -> (Outcome, L::Token) {
        let identity = std::ptr::from_ref(&*self.lock) as usize;
        self.cond.wait(identity, deadline, interruption, || self.unlock(held), || self.lock.lock())
    }

    /// Takes `n` tokens as soon as they are there.
    fn take(&self, n: usize) {
        let mut held = self.lock.lock();
        while self.tokens() < n {
            let (outcome, again) = self.wait(held, None, &());
            assert_eq!(outcome, Outcome::Signalled, "no deadline, no interruption");
            held = again;
        }
        self.set_tokens(self.tokens() - n);
        self.unlock(held);
        self.done();
    }

    /// Adds a token and signals, under the lock or after it.
    fn put(&self, signal_under_lock: bool) {
        let held = self.lock.lock();
        self.set_tokens(self.tokens() + 1);
        if signal_under_lock {
            self.cond.signal();
        }
        self.unlock(held);
        if !signal_under_lock {
            self.cond.signal();
        }
        self.done();
    }

    /// Waits once if there is no token. If a signal was spent on it, passes that on.
    fn hesitate(&self, deadline: Option<Deadline>, interruption: &impl Interruption<P>) -> Outcome {
        let mut held = self.lock.lock();
        let mut outcome = Outcome::Signalled;
        if self.tokens() == 0 {
            P::hurry(20);
            (outcome, held) = self.wait(held, deadline, interruption);
            P::hurry(0);
        }
        self.unlock(held);
        if outcome == Outcome::Signalled {
            self.cond.signal();
        }
        self.done();
        outcome
    }

    /// Sets the tokens to `n` and wakes everybody.
    fn open(&self, n: usize) {
        let held = self.lock.lock();
        self.set_tokens(n);
        self.cond.broadcast();
        self.unlock(held);
        self.done();
    }

    /// Waits until somebody has opened.
    fn pass(&self) {
        let mut held = self.lock.lock();
        while self.tokens() == 0 {
            let (outcome, again) = self.wait(held, None, &());
            assert_eq!(outcome, Outcome::Signalled, "no deadline, no interruption");
            held = again;
        }
        self.unlock(held);
        self.done();
    }
}

/// A signal that comes while a thread begins to wait is not lost.
pub fn signal<P: ModelPlatform, L: RawLock<P> + 'static>(under_lock: bool) -> Play {
    let counter = Counter::<P, L>::new();
    let (taker, putter) = (Arc::clone(&counter), Arc::clone(&counter));
    counter.play(2).with(move || taker.take(1)).with(move || putter.put(under_lock))
}

/// As many signals as waiters.
pub fn signals<P: ModelPlatform, L: RawLock<P> + 'static>(waiters: usize) -> Play {
    let counter = Counter::<P, L>::new();
    let mut play = counter.play(2 * waiters);
    for number in 0..waiters {
        let (taker, putter) = (Arc::clone(&counter), Arc::clone(&counter));
        play = play.with(move || taker.take(1)).with(move || putter.put(number % 2 == 0));
    }
    play
}

/// One thread gives two tokens and two signals to two waiters.
pub fn two_signals<P: ModelPlatform, L: RawLock<P> + 'static>() -> Play {
    let counter = Counter::<P, L>::new();
    let putter = Arc::clone(&counter);
    let mut play = counter.play(4).with(move || {
        putter.put(true);
        putter.put(false);
    });
    for _ in 0..2 {
        let taker = Arc::clone(&counter);
        play = play.with(move || taker.take(1));
    }
    play
}

/// A deadline that passes when a signal comes: the signal goes to the other waiter, or is passed on.
pub fn signal_or_deadline<P: ModelPlatform, L: RawLock<P> + 'static>(second_waiter: bool) -> Play {
    let counter = Counter::<P, L>::new();
    let (hasty, putter, patient) = (Arc::clone(&counter), Arc::clone(&counter), Arc::clone(&counter));
    let play = counter
        .play(if second_waiter { 3 } else { 2 })
        .with(move || {
            let outcome = hasty.hesitate(Some(in_time()), &());
            assert_ne!(outcome, Outcome::Interrupted);
        })
        .with(move || {
            P::set_time(1);
            putter.put(false);
        });
    if second_waiter { play.with(move || patient.take(1)) } else { play }
}

/// A broadcast reaches every waiter, also those it does not wake itself, and whether or not one of them leaves.
pub fn broadcast<P: ModelPlatform, L: RawLock<P> + 'static>(waiters: usize, one_leaves: bool) -> Play {
    let counter = Counter::<P, L>::new();
    let opener = Arc::clone(&counter);
    let mut play = counter.play(waiters + 1).with(move || {
        if one_leaves {
            P::set_time(1);
        }
        opener.open(1);
    });
    for number in 0..waiters {
        let waiter = Arc::clone(&counter);
        play = play.with(move || {
            if one_leaves && number == 0 {
                waiter.hesitate(Some(in_time()), &());
            } else {
                waiter.pass();
            }
        });
    }
    play
}

/// A wait that is interrupted ends, and spends no signal.
pub fn interruption<P: ModelPlatform, L: RawLock<P> + 'static>(with_signal: bool) -> Play {
    let counter = Counter::<P, L>::new();
    let request = Arc::new(Cancel::<P>::new());
    let (victim, canceller) = (Arc::clone(&counter), Arc::clone(&request));
    // SAFETY: published, and not taken back before the kick has ended.
    let interrupt = move || canceller.request(|| true, |word| unsafe { kick::<P>(word) });
    let (putter, patient) = (Arc::clone(&counter), Arc::clone(&counter));
    let play = counter.play(if with_signal { 3 } else { 1 }).with(move || {
        let outcome = victim.hesitate(None, &*request);
        assert!(with_signal || outcome == Outcome::Interrupted, "there was no signal");
    });
    if with_signal {
        play.with(move || {
            interrupt();
            putter.put(false);
        })
        .with(move || patient.take(1))
    } else {
        play.with(interrupt)
    }
}

/// A condition is destroyed as soon as its waiters have been signalled, while they still wake up.
pub fn destroy<P: ModelPlatform, L: RawLock<P> + 'static>(waiters: usize) -> Play {
    let counter = Counter::<P, L>::new();
    let owner = Arc::clone(&counter);
    let mut play = counter.play(waiters + 1).with(move || {
        // Everybody has said that it will wait, and done so with the lock released.
        let mut held = owner.lock.lock();
        while owner.tokens() != waiters {
            owner.unlock(held);
            P::pause();
            held = owner.lock.lock();
        }
        owner.cond.broadcast();
        owner.unlock(held);
        assert!(owner.cond.destroy(), "everybody has been signalled");
        P::retire(&owner.cond);
        owner.done();
    });
    for _ in 0..waiters {
        let waiter = Arc::clone(&counter);
        play = play.with(move || {
            let held = waiter.lock.lock();
            waiter.set_tokens(waiter.tokens() + 1);
            let (outcome, held) = waiter.wait(held, None, &());
            assert_eq!(outcome, Outcome::Signalled);
            waiter.unlock(held);
            waiter.done();
        });
    }
    play
}

/// A waiter whose deadline passes is still leaving when the condition is destroyed: the destroyer waits for it, or
/// finds that somebody waits.
pub fn destroy_or_deadline<P: ModelPlatform, L: RawLock<P> + 'static>() -> Play {
    let counter = Counter::<P, L>::new();
    let (owner, hasty) = (Arc::clone(&counter), Arc::clone(&counter));
    counter
        .play(2)
        .with(move || {
            P::set_time(1);
            owner.open(1);
            if owner.cond.destroy() {
                P::retire(&owner.cond);
            }
        })
        .with(move || {
            let mut held = hasty.lock.lock();
            if hasty.tokens() == 0 {
                P::hurry(20);
                (_, held) = hasty.wait(held, Some(in_time()), &());
                P::hurry(0);
            }
            hasty.unlock(held);
            hasty.done();
        })
}

/// A child after `fork` forgets the waiters of a condition and can use it.
pub fn forked<P: ModelPlatform, L: RawLock<P> + 'static>(waiters: usize) -> Play {
    let counter = Counter::<P, L>::new();
    let owner = Arc::clone(&counter);
    let mut play = Play::new(|| {}).with(move || {
        // Time for the others to get somewhere.
        (0..4).for_each(|_| P::yield_now());
        let held = owner.lock.lock();
        let ghosts = P::fork();
        let here = |memory: usize| ghosts.iter().any(|address| address & !1 == memory);
        if here(std::ptr::from_ref(&*owner.lock) as usize) {
            // SAFETY: only this thread is left.
            unsafe { owner.lock.forget_waiters(Some(held)) };
        }
        if here(std::ptr::from_ref(&owner.cond) as usize) {
            // SAFETY: as above.
            unsafe { owner.cond.forget_waiters() };
        }
        owner.set_tokens(0);
        owner.cond.signal();
        let (outcome, held) = {
            P::set_time(1);
            owner.wait(held, Some(in_time()), &())
        };
        assert_eq!(outcome, Outcome::TimedOut, "nobody else is here");
        owner.cond.broadcast();
        owner.unlock(held);
        assert!(owner.cond.destroy(), "nobody waits");
    });
    for number in 0..waiters {
        let waiter = Arc::clone(&counter);
        play = play.with(move || {
            if number == 0 {
                waiter.put(true);
            }
            waiter.take(2);
        });
    }
    play
}

/// A thread forks while another destroys a condition on which nobody waits, and which nothing in the registry names: the child
/// can destroy its copy.
pub fn forked_beside_destroy<P: ModelPlatform, L: RawLock<P> + 'static>() -> Play {
    let counter = Counter::<P, L>::new();
    let (owner, forker) = (Arc::clone(&counter), Arc::clone(&counter));
    Play::new(|| {}).with(move || assert!(owner.cond.destroy(), "nobody waits")).with(move || {
        P::fork();
        assert!(forker.cond.destroy(), "nobody waits");
    })
}

/// The condition variable with a lock of one kind.
fn conditions_with<P: ModelPlatform, L: RawLock<P> + 'static>(name: &str, large: bool) -> Subject {
    let scenarios = if large {
        vec![
            Scenario::new("signals", 6, || signals::<P, L>(3)),
            Scenario::new("signal-or-deadline", 3, || signal_or_deadline::<P, L>(true)),
            Scenario::new("broadcast", 6, || broadcast::<P, L>(5, false)).on_cpus(2),
            Scenario::new("broadcast-one-leaves", 5, || broadcast::<P, L>(4, true)).on_cpus(1),
            Scenario::new("interruption", 3, || interruption::<P, L>(true)),
            Scenario::new("destroy", 4, || destroy::<P, L>(3)).on_cpus(1),
            Scenario::new("destroy-or-deadline", 2, destroy_or_deadline::<P, L>),
            Scenario::new("fork", 4, || forked::<P, L>(3)).keeping(8),
            Scenario::new("fork-beside-destroy", 2, forked_beside_destroy::<P, L>),
        ]
    } else {
        vec![
            Scenario::new("signal-under-lock", 2, || signal::<P, L>(true)),
            Scenario::new("signal-after-lock", 2, || signal::<P, L>(false)),
            Scenario::new("two-signals", 3, two_signals::<P, L>),
            Scenario::new("signal-or-deadline", 2, || signal_or_deadline::<P, L>(false)),
            Scenario::new("signal-or-deadline-of-three", 3, || signal_or_deadline::<P, L>(true)).within(1),
            Scenario::new("broadcast", 3, || broadcast::<P, L>(2, false)).on_cpus(1),
            Scenario::new("broadcast-one-leaves", 3, || broadcast::<P, L>(2, true)).on_cpus(1),
            Scenario::new("interruption", 2, || interruption::<P, L>(false)).within(2),
            Scenario::new("interruption-and-signal", 3, || interruption::<P, L>(true)).within(1),
            Scenario::new("destroy", 2, || destroy::<P, L>(1)).within(2),
            Scenario::new("destroy-or-deadline", 2, destroy_or_deadline::<P, L>).within(2),
        ]
    };
    Subject { name: format!("cond({name})"), scenarios }
}

/// The condition variable, with a lock that keeps nothing for its holder and with one that keeps a node.
#[must_use]
pub fn conditions<P: ModelPlatform>(large: bool) -> Vec<Subject> {
    vec![
        conditions_with::<P, FutexLock<P>>("futex", large),
        conditions_with::<P, Mcs<P, SpinThenPark>>("mcs-stp", large),
    ]
}
