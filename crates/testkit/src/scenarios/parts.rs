//! Plays with what a hierarchical lock asks of its parts.

use std::fmt;
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use lockwork_locks::hierarchical::cst::Cst;
use lockwork_locks::hierarchical::part::LocalLock;
use lockwork_platform::DataCell;

use super::{Scenario, Subject};
use crate::model::{ModelPlatform, Play};

/// A lock, and what it protects.
struct Shared<P: ModelPlatform, L> {
    lock: ManuallyDrop<L>,
    /// Plain data: the checker sees here whether sections are ordered.
    sections: P::Data<usize>,
    done: AtomicUsize,
}

impl<P: ModelPlatform, L> fmt::Debug for Shared<P, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("done", &self.done).finish_non_exhaustive()
    }
}

impl<P: ModelPlatform, L: LocalLock<P>> Shared<P, L> {
    fn new() -> Arc<Self> {
        let shared = Arc::new(Self {
            lock: ManuallyDrop::new(L::new()),
            sections: P::Data::new(0),
            done: AtomicUsize::new(0),
        });
        P::adopt(&*shared.lock);
        shared
    }

    /// A play at whose end there have been so many sections.
    fn play(self: &Arc<Self>, sections: usize) -> Play {
        let shared = Arc::clone(self);
        Play::new(move || assert_eq!(shared.done.load(Relaxed), sections, "sections"))
    }

    /// A section of the holder, who is the caller, in which others get somewhere.
    fn section(&self) {
        // SAFETY: the caller holds the lock; the checker reports it if that does not exclude others.
        let before = unsafe { self.sections.get() };
        (0..3).for_each(|_| P::yield_now());
        // SAFETY: as above.
        unsafe { self.sections.set(before + 1) };
        self.done.fetch_add(1, Relaxed);
    }

    fn run(&self) {
        let token = self.lock.lock();
        self.section();
        // SAFETY: acquired above.
        unsafe { self.lock.unlock(token) };
    }

    /// A section after which the lock is handed to a waiter, if there is one: of the same node, or of any.
    fn run_and_hand_over(&self, to: To) {
        let token = self.lock.lock();
        self.section();
        let handed_over = P::in_steps(|| match to {
            // SAFETY: acquired above.
            To::Node => unsafe { self.lock.hand_over(token) },
            // SAFETY: as above.
            To::Anybody => unsafe { self.lock.hand_over_anywhere(token) },
        });
        if let Err(token) = handed_over {
            // SAFETY: not handed over.
            unsafe { self.lock.unlock(token) };
        }
    }
}

/// Whom a holder hands the lock to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum To {
    Node,
    Anybody,
}

/// A holder hands the lock over; all the others release it, or hand it over, too, where it may go to anybody.
fn handed_over<P: ModelPlatform, L: LocalLock<P>>(others: usize, to: To) -> Play {
    let shared = Shared::<P, L>::new();
    let holder = Arc::clone(&shared);
    let play = shared.play(1 + others).with(move || holder.run_and_hand_over(to));
    (0..others).fold(play, |play, number| {
        let other = Arc::clone(&shared);
        let hands_over = to == To::Anybody && number == 0;
        play.with(move || if hands_over { other.run_and_hand_over(to) } else { other.run() })
    })
}

/// The CST-mutex as a part.
#[must_use]
pub fn parts<P: ModelPlatform>() -> Vec<Subject> {
    /// Pool nodes of the lock's state, which stays.
    const KEPT: usize = 4;
    let asleep = |scenario: Scenario| scenario.overloaded().without_polling();
    let play =
        |name, others, to| Scenario::new(name, 1 + others, move || handed_over::<P, Cst<P>>(others, to));
    let on_two_nodes = |mut scenario: Scenario| {
        scenario.config.nodes = 2;
        scenario
    };
    let scenarios = vec![
        play("handed-over", 1, To::Node).within(2),
        asleep(play("handed-over-to-a-sleeper", 1, To::Node).within(2)),
        on_two_nodes(play("handed-over-to-another-node", 1, To::Anybody).within(2)),
        asleep(on_two_nodes(play("handed-over-to-a-sleeper-of-another-node", 1, To::Anybody).within(2))),
        asleep(on_two_nodes(play("handed-over-by-turns", 2, To::Anybody).within(1))),
    ];
    vec![Subject {
        name: "cst-mutex, as a part".to_owned(),
        scenarios: scenarios.into_iter().map(|scenario| scenario.keeping(KEPT)).collect(),
    }]
}
