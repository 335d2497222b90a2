//! Hierarchical back-off: the word says on which NUMA node the lock is held; waiters of that node look often, those of
//! other nodes seldom, so that the lock tends to stay on its node.
//!
//! Zoran Radović and Erik Hagersten, "Hierarchical backoff locks for nonuniform communication architectures", HPCA 2003:
//! the lock HBO, with the starvation detection of `HBO_GT_SD` as far as it concerns the waiter itself. Deviations: waiters
//! read before they try; the delays are bounded by the cost of a context-switch round trip (remote) and an eighth of that
//! (local). No global throttling (GT), and an angry waiter does not stop other nodes: both have a waiter publish a word by
//! which threads of a node are kept from even trying, for as long as the waiter lives to take it back; a waiter that was
//! left behind by `fork`, or killed with its deadline, would keep them for ever.
//!
//! Properties: no fairness, and remote waiters are overtaken until they get angry, which is after `ANGRY` looks in
//! vain; then they look as often as local ones; 4 bytes a lock, nothing a waiter. Waiting: spin. Timed acquisition
//! polls, and may overshoot its deadline by one delay. On one node the lock is a variant of `backoff`.
//!
//! State, invariants and ordering: see [`word`](super::word). The holder's mark is its node + 1.

use lockwork_platform::{Deadline, Native, Platform};

use super::backoff::Delay;
use super::poll;
use super::word::{Contest, UNLOCKED, Word, WordLock};
use crate::describe::{Citation, Descriptor, Family, Order, Proof, Timed};

/// What is known of HBO.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: "hbo",
    family: Family::Competitive,
    order: Order::None,
    order_note: "waiters of the holder's node go first",
    bytes: 4,
    timed: Timed::Polls(""),
    proofs: &[Proof::of(file!()), Proof::of("competitive/word.rs")],
    citation: Citation {
        key: "radovic03",
        text: "Radović, Hagersten: Hierarchical backoff locks for nonuniform communication architectures. HPCA 2003",
    },
    summary: "the word says on which NUMA node the lock is held; waiters of other nodes back off longer",
    properties: "Keeps the lock on a node while there are waiters, in 4 bytes. A remote waiter is overtaken for a while.",
    deviations: "Reads before it tries; no global throttling; starvation detection speeds the starving waiter up, but \
                 stops no others.",
    avoid: "Wherever latency or fairness matters. With one NUMA node it is no better than backoff.",
    ..Descriptor::MUTEX
};

/// The hierarchical back-off lock.
pub type Hbo<P> = WordLock<P, ByNode>;

const _: () = assert!(size_of::<Hbo<Native>>() == DESCRIPTOR.bytes);

/// Remote looks in vain after which a waiter looks as often as local ones.
const ANGRY: u32 = 16;

/// Looking often where the lock is held on this thread's node, and seldom otherwise.
#[derive(Debug)]
pub struct ByNode;

impl<P: Platform> Contest<P> for ByNode {
    const DESCRIPTOR: &'static Descriptor = &DESCRIPTOR;

    #[inline(always)]
    fn mark() -> u32 {
        P::domain() as u32 + 1
    }

    fn wait(word: &Word<P>, deadline: Option<Deadline>) -> bool {
        let mine = <Self as Contest<P>>::mark();
        let far = P::spin_budget();
        let mut delay = Delay::new::<P>(far / 8);
        let (mut was_near, mut vain) = (true, 0);
        let relax = |_| {
            let holder = word.mark();
            let near = holder == mine || holder == UNLOCKED || vain >= ANGRY;
            if near != was_near {
                delay.restart(if near { far / 8 } else { far });
                was_near = near;
            }
            vain += u32::from(!near);
            delay.pause::<P>()
        };
        poll::<P>(deadline, || word.test_and_set(mine), relax)
    }
}
