//! The orderings that no model proves, and why: the one list of them.

use std::sync::atomic::Ordering::{self, AcqRel, Acquire, Relaxed, Release};

/// Why an ordering is not proven by a model. There are three kinds of reasons.
#[derive(Clone, Copy, Debug)]
pub enum Reason {
    /// What shows the need for it takes more threads than can be explored.
    Threads(&'static str),
    /// The model has no such reordering: it is stronger there than the hardware.
    Model(&'static str),
    /// It is proven elsewhere: by other tests, or by an argument.
    Elsewhere(&'static str),
}

/// An ordering that no model proves.
#[derive(Clone, Copy, Debug)]
pub struct Exception {
    /// The end of the path of the source file.
    pub source: &'static str,
    /// On the line of the site; empty: all of the file, of which there is no model.
    pub snippet: &'static str,
    /// The weaker orderings that all models pass; none: no model passes the line.
    pub weaker: &'static [Ordering],
    /// Why.
    pub reason: Reason,
}

impl Exception {
    /// A file of which there is no model.
    const fn file(source: &'static str, reason: Reason) -> Self {
        Self { source, snippet: "", weaker: &[], reason }
    }
}

use Reason::{Elsewhere, Model, Threads};

/// The list.
pub const EXCEPTIONS: &[Exception] = &[
    Exception::file(
        "state/claim.rs",
        Elsewhere(
            "the plays of scenarios/states.rs run it as it is; weakening each ordering under them takes hours",
        ),
    ),
    Exception::file(
        "hierarchical/directory.rs",
        Elsewhere(
            "the plays of cohort locks and of scenarios/states.rs run it as it is; weakening each ordering under them takes hours",
        ),
    ),
    Exception {
        source: "queue/alock.rs",
        snippet: "self.wait_for(self.next.fetch_add(1, Acquire)); // ORDER: E4.",
        weaker: &[Relaxed],
        reason: Threads(
            "one that lines up, one that gives the array back, and a holder in between that installs another",
        ),
    },
    Exception {
        source: "queue/alock.rs",
        snippet: "if self.next.compare_exchange(next, next, Release, Relaxed).is_err() {",
        weaker: &[Relaxed],
        reason: Threads("as above"),
    },
    Exception {
        source: "queue/alock.rs",
        snippet: "self.slots.store(slots, Release);",
        weaker: &[],
        reason: Threads("as above: one that lines up while the array is being given back"),
    },
    Exception {
        source: "queue/alock.rs",
        snippet: "self.serving.store(next, Release); // ORDER: E1.",
        weaker: &[Relaxed],
        reason: Threads("as above: the exchange before it releases, to whoever lines up behind it"),
    },
    Exception {
        source: "delegation/served.rs",
        snippet: "P::heavy_barrier(); // ORDER: I3.",
        weaker: &[AcqRel],
        reason: Model(
            "a requester whose server sleeps looks after it by its deadline, and takes its request back: a wake-up that is lost costs \
             milliseconds, which no play counts",
        ),
    },
    Exception {
        source: "delegation/served.rs",
        snippet: "P::light_barrier(); // ORDER: I3.",
        weaker: &[AcqRel],
        reason: Model("as above: the other side of the same race"),
    },
    Exception {
        source: "delegation/lines.rs",
        snippet: "next = root.next.load(Acquire); // ORDER: L-E3.",
        weaker: &[Relaxed],
        reason: Threads("a page behind the first one: more threads than the models have"),
    },
    Exception {
        source: "delegation/lines.rs",
        snippet: "self.word.fetch_sub(TAKEN - REQUESTED, Release);",
        weaker: &[],
        reason: Threads(
            "a server that finds the delegate held puts the request back, and another server takes it, or its owner after some time",
        ),
    },
    Exception {
        source: "delegation/posts.rs",
        snippet: "P::heavy_barrier(); // ORDER: I2: this thread may find another one executing, as one that posts.",
        weaker: &[AcqRel],
        reason: Threads(
            "a thread that posts, one that executed when it did and finds the post, and a third that executes by then",
        ),
    },
    Exception {
        source: "delegation/posts.rs",
        snippet: "P::heavy_barrier(); // ORDER: I2: as in `run_slow`.",
        weaker: &[AcqRel],
        reason: Threads("as above, with a second post"),
    },
    Exception {
        source: "restrict/restriction.rs",
        snippet: "P::heavy_barrier(); // ORDER: E2, against a release.",
        weaker: &[AcqRel],
        reason: Threads(
            "a give-up against a release matters with one passive thread asleep and one admitted out of turn: more threads than \
                 the models have; the barrier of a thread that goes to sleep, of the same name, is caught",
        ),
    },
    Exception {
        source: "restrict/restriction.rs",
        snippet: "P::heavy_barrier(); // ORDER: E2, against one that goes to sleep.",
        weaker: &[AcqRel],
        reason: Threads(
            "the last passive thread of the preferred node gives up while one of another node goes to sleep and a third has the lock, \
             on a machine of two nodes",
        ),
    },
    Exception {
        source: "queue/alock.rs",
        snippet: "|| self.next.compare_exchange(next, next.wrapping_add(1), Acquire, Relaxed).is_err()",
        weaker: &[Relaxed],
        reason: Threads(
            "a number that is drawn 2^32 numbers after it was looked at, and so has to be waited for",
        ),
    },
    Exception {
        source: "cst/line.rs",
        snippet: "while let Err(seen) = self.word.compare_exchange(PARKED, what, Release, Relaxed) {",
        weaker: &[],
        reason: Threads(
            "it is for a waiter that was made to line up again twice, each time for others that were awake, and sleeps a third \
             time: plays of two threads do not come to it, and three come and go too often for loom",
        ),
    },
    Exception {
        source: "pf_q/shared.rs",
        snippet: "poll_steadily::<P>(None, || turn.load(Acquire) == GRANTED)",
        weaker: &[],
        reason: Threads(
            "a writer's deadline passes while the last of several readers leaves, so that its surrender fails",
        ),
    },
    Exception {
        source: "locks/src/biased.rs",
        snippet: "if self.held.load(Acquire) != 0 {",
        weaker: &[Relaxed],
        reason: Model(
            "a model's light barrier is a fence, which acquires as well; the native one is the compiler's only",
        ),
    },
    Exception {
        source: "locks/src/biased.rs",
        snippet: "match self.owner.compare_exchange(REVOKING, RETREATED, Release, Relaxed)",
        weaker: &[Relaxed],
        reason: Model(
            "a model's light barrier is a fence, which releases as well; the native one is the compiler's only",
        ),
    },
    Exception {
        source: "queue/mcs.rs",
        snippet: "let Some(next) = (unsafe { node.next.load(Acquire).as_ref() }) else { break };",
        weaker: &[Relaxed],
        reason: Model(
            "only hints are written to the node, and models do not see that it has to be initialised before",
        ),
    },
    Exception {
        source: "cond/waiter.rs",
        snippet: "if cell.compare_exchange(state, KICKED, AcqRel, Relaxed).is_ok()",
        weaker: &[Acquire, Release],
        reason: Elsewhere(
            "by argument: a thread that kicks reads and writes nothing else of the waiter's, which waits for the kick's end (E2 of \
             waiters/cancel.rs, whose orderings are weakened)",
        ),
    },
    Exception {
        source: "cond/waiter.rs",
        snippet: "match self.word.compare_exchange(seen, claimed, AcqRel, Relaxed)",
        weaker: &[Acquire, Release],
        reason: Elsewhere(
            "by argument: claims are made under the guard, which orders what claimers share; the waiter waits for the grant",
        ),
    },
    Exception {
        source: "cond/waiter.rs",
        snippet: "if self.word.swap(GRANTED, AcqRel) == CLAIMED_PARKED",
        weaker: &[Release],
        reason: Elsewhere("by argument: the move to CLAIMED_PARKED publishes nothing"),
    },
    Exception {
        source: "cond/waiter.rs",
        snippet: "if self.word.compare_exchange(state, next, AcqRel, Relaxed).is_ok() && next == LEAVING",
        weaker: &[Acquire, Release],
        reason: Elsewhere(
            "by argument: a leaver takes the guard before it touches what others do; the other moves publish nothing",
        ),
    },
    Exception {
        source: "rw/futex/slow.rs",
        snippet: "self.state.fetch_and(!(WRITERS_WAITING | READERS_WAITING), Acquire)",
        weaker: &[Relaxed],
        reason: Model(
            "loom runs loads and stores in the order of the source: a load of `turn` by the writer whose bit is cleared must not \
         return what is written to it afterwards",
        ),
    },
    Exception {
        source: "rw/futex/slow.rs",
        snippet: "let seen = self.state.fetch_and(!WATCHED, Acquire);",
        weaker: &[Relaxed],
        reason: Model(
            "loom runs loads and stores in the order of the source: the same of a writer that sleeps on `turn` because another watches",
        ),
    },
    Exception {
        source: "rw/by_node/shared.rs",
        snippet: "self.owner.store(owner, Release); // ORDER: → `is_of`",
        weaker: &[Relaxed],
        reason: Threads("a state that goes to another lock and back while a third thread looks at it"),
    },
    Exception {
        source: "rw/by_node/shared.rs",
        snippet: "self.owner.load(Acquire) == owner // ORDER: a look",
        weaker: &[Relaxed],
        reason: Threads("as above"),
    },
    Exception {
        source: "rw/by_node/shared.rs",
        snippet: "while word.load(Acquire) & BARRED != 0 && is_resting",
        weaker: &[Relaxed],
        reason: Threads(
            "for a child of `fork`, which only shuttle plays, in one order of accesses: a reader that leaves too late looks at what \
         a writer before wrote",
        ),
    },
    Exception {
        source: "rw/bravo.rs",
        snippet: "slot.store(if is_on { name } else { 0 }, Release);",
        weaker: &[Relaxed],
        reason: Threads(
            "a reader that joins in a slot holds a reader that the lock inside counts, and \
         has seen the writers' sections by that, unless a third thread with the same slot has left in its stead",
        ),
    },
    Exception {
        source: "rw/bravo.rs",
        snippet: "let _ = slot.load(Acquire);",
        weaker: &[Relaxed],
        reason: Threads(
            "two readers that share a slot, one of whom leaves in the other's stead, and a \
         writer that waits for the lock inside",
        ),
    },
    Exception {
        source: "rw/pf_t.rs",
        snippet: "let drawn = self.tickets.load(Acquire);",
        weaker: &[Relaxed],
        reason: Model(
            "it keeps a load behind it that could otherwise be 2^31 turns old; no play has as many",
        ),
    },
    Exception::file(
        "platform/src/barrier.rs",
        Elsewhere(
            "the system call that is a barrier in all threads has no model; loom's platform has fences in its stead, and \
                   those are weakened where the locks ask for them; litmus tests in the simulator (crates/sim/tests/litmus.rs)",
        ),
    ),
    Exception::file(
        "platform/src/cells.rs",
        Elsewhere("the machine's own instructions, for which a model has others"),
    ),
    Exception::file(
        "platform/src/slice.rs",
        Elsewhere(
            "a thread and its own signal handler: the compiler's order only; crates/testkit/tests/slices.rs",
        ),
    ),
    Exception::file(
        "sched/cpu_time.rs",
        Elsewhere(
            "store, fence, load on both sides (Dekker): the same shape as the barriers of `biased`, which are weakened; \
                   crates/testkit/tests/filters.rs on the machine",
        ),
    ),
    Exception::file(
        "sched/monitor.rs",
        Elsewhere(
            "by argument: a length and a mapping, each published once and never changed; crates/monitor/tests",
        ),
    ),
    Exception::file(
        "sched/monitor/probe.rs",
        Elsewhere("by argument: one flag that publishes one mapping; crates/monitor/tests/clients/probe.rs"),
    ),
    Exception::file(
        "platform/src/states.rs",
        Elsewhere(
            "by argument: chunks are published by one pointer each and never taken back; a stack that is emptied by a \
                   swap; `locks_that_are_dropped_without_having_been_destroyed_cost_nothing` and its kin on the machine",
        ),
    ),
    Exception::file(
        "platform/src/waiters.rs",
        Elsewhere(
            "one load, of another thread's mark: its part of the store, fence, load on both sides of sched/cpu_time.rs",
        ),
    ),
    Exception::file(
        "preload/src/serve/cancel.rs",
        Elsewhere(
            "store, fence, load on both sides (Dekker), all of it sequentially consistent; posix suite, cancellation",
        ),
    ),
    Exception::file(
        "preload/src/serve/mutex/table.rs",
        Elsewhere(
            "by argument: an entry is written before its tag is given to a mutex, by the thread that starts the library",
        ),
    ),
    Exception::file(
        "preload/src/serve/rwlock/table.rs",
        Elsewhere(
            "by argument: an entry is written before its number is given to a lock, by the thread that starts the library",
        ),
    ),
    Exception::file(
        "preload/src/serve/spin.rs",
        Elsewhere("a test-and-set word, as `tas`, whose orderings are weakened"),
    ),
];
