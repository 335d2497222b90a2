//! The orderings that no model proves, and why: the one list of them.

use std::sync::atomic::Ordering::{self, AcqRel, Acquire, Relaxed, Release};

/// Why an ordering is not proven by a model.
#[derive(Clone, Copy, Debug)]
pub enum Reason {
    /// What shows the need for it takes more threads, or more steps of a few, than can be explored.
    Threads(&'static str),
    /// The model has no such reordering: it is stronger there than the hardware.
    Model(&'static str),
    /// It is proven elsewhere: by the same step of another site, whose orderings are weakened, or by other tests.
    Elsewhere(&'static str),
}

impl Reason {
    /// What it says.
    #[must_use]
    pub const fn text(&self) -> &'static str {
        match self {
            Self::Threads(text) | Self::Model(text) | Self::Elsewhere(text) => text,
        }
    }
}

/// An ordering that no model proves.
#[derive(Clone, Copy, Debug)]
pub struct Exception {
    /// The end of the path of the source file.
    pub source: &'static str,
    /// On the line of the site.
    pub snippet: &'static str,
    /// The weaker orderings that all models pass; none: no model passes the line.
    pub weaker: &'static [Ordering],
    /// Why.
    pub reason: Reason,
}

impl Exception {
    /// A line that no model passes.
    const fn unmodelled(source: &'static str, snippet: &'static str, reason: Reason) -> Self {
        Self { source, snippet, weaker: &[], reason }
    }
}

use Reason::{Elsewhere, Model, Threads};

/// Snippets that stand on more lines of their source than one, and on how many: each of these lines has been looked at.
pub const REPEATED: &[(&str, &str, usize)] = &[
    ("state/claim.rs", "self.0.fetch_and(!CLOSING, Release);", 2),
    ("platform/src/barrier.rs", "fence(SeqCst);", 3),
    ("platform/src/cells.rs", "Self::fence(Ordering::SeqCst);", 2),
    ("platform/src/slice.rs", "compiler_fence(Ordering::SeqCst);", 2),
    ("sched/cpu_time.rs", "fence(SeqCst);", 2),
    ("preload/src/serve/cancel.rs", "fence(SeqCst);", 2),
    ("delegation/served/service.rs", "let unanswered = self.unanswered.load(Acquire); // ORDER: E3.", 2),
];

/// Of the numbers of requests at a server.
const TAKEN_BACK: &str = "an owner that takes its request back runs the section and makes another request while the thread that looked at \
     the first one looks again";

/// Of what a servicing thread says of itself.
const LEFT: &str = "a thread that looks at a request and leaves it, since its delegate is held; the holder; and one that takes over, or an \
     owner that takes its request back";
const FENCE_BEFORE: &str = "the light barrier before is a fence in a model, which releases as well; the native one is the compiler's only";
const TOGETHER: &str = "two requests that are answered together, and a thread that takes over, or an owner that takes its request back";

/// Of the counts of a part's users.
const JOINED: &str = "the first user of a part, another that joins it there, and a third thread that takes the state back meanwhile, with a \
     lock of its own";
/// Of alock's array.
const GIVEN_BACK: &str =
    "one that lines up, one that gives the array back, and a holder in between that installs another";
/// Of a state's owner.
const BACK_AGAIN: &str = "a state that goes to another lock and back while a third thread looks at it";
const CLOCKS: &str = "store, fence, load on both sides (Dekker): the same shape as the barriers of `biased`, which are weakened; \
     crates/testkit/tests/filters.rs on the machine";
const MONITORED: &str = "a length and a mapping, each published once and never changed, as by `Published`; crates/monitor/tests on the machine";
const PROBED: &str =
    "one flag that publishes one mapping, once; crates/monitor/tests/clients/probe.rs on the machine";
const AS_GLIBC: &str = "glibc's mutex, which sleeps in glibc: the steps of `futex` without a waiter, whose orderings are weakened; \
     crates/testkit/tests/wrappers.rs on the machine";
const TEST_AND_SET: &str = "a test-and-set word, as `tas`, whose orderings are weakened";

/// What delegates do in a child of `fork`.
const IN_A_CHILD: Reason = Model(
    "only in a child of `fork`, which shuttle plays with every combiner, and shuttle runs accesses in the order of the source; it is the \
     same step as that of a thread that has combined, with the same ordering",
);

/// The list.
pub const EXCEPTIONS: &[Exception] = &[
    Exception {
        source: "state/claim.rs",
        snippet: "let seen = self.0.load(Acquire); // ORDER: E2, E3, E5.",
        weaker: &[Relaxed],
        reason: Threads(
            "a thread that waits until another of its lock has opened the state, and a third that had it before",
        ),
    },
    Exception {
        source: "state/claim.rs",
        snippet: "self.0.load(Acquire) ^ owner.0 < OPENING",
        weaker: &[Relaxed],
        reason: Threads(BACK_AGAIN),
    },
    Exception {
        source: "state/claim.rs",
        snippet: "P::fence(Release); // ORDER: E4.",
        weaker: &[Relaxed],
        reason: Threads(
            "a thread whose attempt fails in a state that a second one is about to take back, for a lock that a third has used: the \
             plays of attempts have two",
        ),
    },
    Exception {
        source: "state/claim.rs",
        snippet: "let taken = self.0.compare_exchange(seen | CLOSING, CLOSING, AcqRel, Relaxed).is_ok();",
        weaker: &[Release],
        reason: Threads(
            "a user that comes and goes between the two exchanges of a thread that takes the state back for a third",
        ),
    },
    Exception {
        source: "state/claim.rs",
        snippet: "self.0.fetch_and(!CLOSING, Release); // ORDER: E3.",
        weaker: &[Relaxed],
        reason: Threads("one that takes back in vain, one that came meanwhile, and one that comes after it"),
    },
    Exception {
        source: "state/claim.rs",
        snippet: "self.0.fetch_and(!OPENING, Release); // ORDER: E2.",
        weaker: &[Relaxed],
        reason: Threads(
            "a thread that finds the state by a word that it read before the state went to another lock and came back; the others \
             have what it was prepared with by the lock's word",
        ),
    },
    Exception {
        source: "state/claim.rs",
        snippet: "let before = self.0.fetch_sub(owner.0 + OPENING + 1, AcqRel); // ORDER: E1.",
        weaker: &[Acquire, Release],
        reason: Threads(
            "two that publish a state for a lock, and one that looks at the state of the slower one",
        ),
    },
    Exception {
        source: "state/claim.rs",
        snippet: "let before = self.0.fetch_sub(owner.0 + 1, AcqRel); // ORDER: E1.",
        weaker: &[Acquire, Release],
        reason: Threads("one that destroys its lock, one that looks at the state, and one that takes it"),
    },
    Exception::unmodelled(
        "state/claim.rs",
        "self.0.load(Relaxed) == 0 && self.0.compare_exchange(0, CLOSING, Acquire, Relaxed).is_ok()",
        Elsewhere("the pool of the models takes states by `take_back` only, which makes the same exchange"),
    ),
    Exception::unmodelled(
        "state/claim.rs",
        "self.0.fetch_and(!CLOSING, Release);",
        Threads(
            "a thread that looks at a state between its being taken and its being given to a lock, by others",
        ),
    ),
    Exception {
        source: "hierarchical/directory.rs",
        snippet: "seen > 0 && self.0.compare_exchange(seen, seen + 1, Acquire, Relaxed).is_ok()",
        weaker: &[Relaxed],
        reason: Threads(JOINED),
    },
    Exception {
        source: "hierarchical/directory.rs",
        snippet: "self.0.fetch_add(1, AcqRel) > 0",
        weaker: &[Acquire, Release],
        reason: Threads(JOINED),
    },
    Exception {
        source: "hierarchical/directory.rs",
        snippet: "if self.0.fetch_sub(threads, AcqRel) == threads {",
        weaker: &[Acquire, Release],
        reason: Threads(
            "two users of a part, the last of which leaves the state for both, and a third thread that takes that back, with a lock of \
             its own",
        ),
    },
    Exception {
        source: "hierarchical/directory.rs",
        snippet: "let there = match cell.compare_exchange(ptr::null_mut(), fresh.as_ptr(), Release, Acquire) {",
        weaker: &[Relaxed],
        reason: Elsewhere(
            "the plays of states have each part made by one thread; `Published::first` is the same exchange, and its orderings are \
             weakened",
        ),
    },
    Exception {
        source: "queue/alock.rs",
        snippet: "self.wait_for(self.next.fetch_add(1, Acquire)); // ORDER: E4.",
        weaker: &[Relaxed],
        reason: Threads(GIVEN_BACK),
    },
    Exception {
        source: "queue/alock.rs",
        snippet: "if self.next.compare_exchange(next, next, Release, Relaxed).is_err() {",
        weaker: &[Relaxed],
        reason: Threads(GIVEN_BACK),
    },
    Exception {
        source: "queue/alock.rs",
        snippet: "self.slots.store(slots, Release);",
        weaker: &[],
        reason: Threads(GIVEN_BACK),
    },
    Exception::unmodelled(
        "queue/alock.rs",
        "None => self.serving.store(next, Release),",
        Elsewhere(
            "a release that gets no memory for the array does what one with one waiter does, whose ordering is weakened",
        ),
    ),
    Exception {
        source: "wait_free/universal.rs",
        snippet: "self.users.fetch_add(others.wrapping_sub(OWNED), Release); // ORDER: E4.",
        weaker: &[Relaxed],
        reason: Threads(
            "a helper that has read where a change is, the owner's third change, which takes the same slot, and the helper again before \
             that is applied: three involuntary switches",
        ),
    },
    Exception {
        source: "wait_free/universal.rs",
        snippet: "let seen = self.published.fetch_add(1, AcqRel);",
        weaker: &[Acquire],
        reason: Threads(
            "a helper whose bit is in another group than that of the thread whose turn it misses, twice in a row: in one word it sees \
             the turns before its own",
        ),
    },
    Exception {
        source: "wait_free/universal.rs",
        snippet: "group = place.load(Acquire); // ORDER: E5.",
        weaker: &[Relaxed],
        reason: Threads(
            "a group that another of its threads has made: the plays' second group has one thread",
        ),
    },
    Exception {
        source: "wait_free/universal.rs",
        snippet: "group = match place.compare_exchange(ptr::null_mut(), fresh, Release, Acquire) {",
        weaker: &[Relaxed],
        reason: Threads(
            "two threads of a group that make it at once: the plays' second group has one thread",
        ),
    },
    Exception::unmodelled(
        "delegation/cc_synch.rs",
        "let behind = NonNull::new(request.next.load(Acquire));",
        IN_A_CHILD,
    ),
    Exception::unmodelled("delegation/request.rs", "let last = tail.load(Acquire);", IN_A_CHILD),
    Exception::unmodelled(
        "delegation/request.rs",
        "&& tail.compare_exchange(last, ptr::null_mut(), Release, Relaxed).is_ok()",
        IN_A_CHILD,
    ),
    Exception {
        source: "delegation/lines.rs",
        snippet: "next = root.next.load(Acquire); // ORDER: L-E3.",
        weaker: &[Relaxed],
        reason: Threads("the first page has lines for 112 threads; the next thread makes another page"),
    },
    Exception {
        source: "delegation/lines.rs",
        snippet: "self.number.store(number, Release); // ORDER: E2 of `served`.",
        weaker: &[Relaxed],
        reason: Threads(TAKEN_BACK),
    },
    Exception {
        source: "delegation/lines.rs",
        snippet: "let number = self.number.load(Acquire); // ORDER: E2 of `served`.",
        weaker: &[Relaxed],
        reason: Threads(TAKEN_BACK),
    },
    Exception {
        source: "delegation/served/service.rs",
        snippet: "let at = self.at.load(Acquire); // ORDER: E3.",
        weaker: &[Relaxed],
        reason: Threads(LEFT),
    },
    Exception {
        source: "delegation/served/service.rs",
        snippet: "self.at.store(place(line, RUNS), Release); // ORDER: E3.",
        weaker: &[Relaxed],
        reason: Model(FENCE_BEFORE),
    },
    Exception {
        source: "delegation/served/service.rs",
        snippet: "self.at.store(place(line, HAS_RUN), Release); // ORDER: E3.",
        weaker: &[Relaxed],
        reason: Model(FENCE_BEFORE),
    },
    Exception {
        source: "delegation/served/service.rs",
        snippet: "self.unanswered.store(0, Release); // ORDER: E3.",
        weaker: &[Relaxed],
        reason: Threads(TOGETHER),
    },
    Exception {
        source: "delegation/served/service.rs",
        snippet: "let unanswered = self.unanswered.load(Acquire); // ORDER: E3.",
        weaker: &[Relaxed],
        reason: Threads(TOGETHER),
    },
    Exception {
        source: "delegation/lines.rs",
        snippet: "self.number.load(Acquire) & !1 // ORDER: E2 of `served`.",
        weaker: &[Relaxed],
        reason: Threads(
            "an owner that is answered and requests again while a thread that takes over reads its number",
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
        reason: Threads(
            "a thread that posts for the second time, one that executed when it did and finds the post, and a third that executes by \
             then",
        ),
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
        snippet: "counts.left.store(left, Release); // I4. ORDER: E4.",
        weaker: &[Relaxed],
        reason: Model(FENCE_BEFORE),
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
        reason: Model(
            "a number that is drawn 2^32 numbers after it was looked at, and so has to be waited for: no play has as many",
        ),
    },
    Exception {
        source: "cst/queue.rs",
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
        reason: Threads(BACK_AGAIN),
    },
    Exception {
        source: "rw/by_node/shared.rs",
        snippet: "self.owner.load(Acquire) == owner // ORDER: a look",
        weaker: &[Relaxed],
        reason: Threads(BACK_AGAIN),
    },
    Exception {
        source: "rw/by_node/shared.rs",
        snippet: "while word.load(Acquire) & BARRED != 0 && is_resting",
        weaker: &[Relaxed],
        reason: Model(
            "for a child of `fork`, which only shuttle plays, and shuttle runs accesses in the order of the source: a reader that \
             leaves too late looks at what a writer before wrote",
        ),
    },
    Exception {
        source: "rw/by_node/alone.rs",
        snippet: "compare_exchange(seen, word(free + holder), Acquire, Relaxed)",
        weaker: &[Relaxed],
        reason: Model(
            "only the thread in the word acquires there, and released there, too: it is needed where a later thread has its number, \
             and no two threads of a model have the same",
        ),
    },
    Exception {
        source: "rw/by_node/alone.rs",
        snippet: "let seen = self.shared.word().load(Acquire);",
        weaker: &[Relaxed],
        reason: Model(
            "a state's owner is looked at next, with Acquire; only that this word itself has been initialised is by the load, and the \
             model has no memory that is not",
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
    Exception::unmodelled(
        "rw/bravo.rs",
        "P::fence(Release);",
        Model(
            "only in a child of `fork` that makes a lock anew, and no model that reorders accesses plays a `fork`; the word that tells \
             the others is the caller's, and what they do after they have read it depends on it",
        ),
    ),
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
    Exception::unmodelled(
        "platform/src/barrier.rs",
        "fence(SeqCst);",
        Elsewhere(
            "the system call that is a barrier in all threads has no model; loom's platform has fences in its stead, and \
                   those are weakened where the locks ask for them; litmus tests in the simulator (crates/sim/tests/litmus.rs)",
        ),
    ),
    Exception::unmodelled(
        "platform/src/cells.rs",
        "Self::fence(Ordering::SeqCst);",
        Elsewhere(
            "the machine's own instructions, for which a model has fences, and those are weakened where the locks ask for them",
        ),
    ),
    Exception::unmodelled(
        "platform/src/slice.rs",
        "compiler_fence(Ordering::SeqCst);",
        Elsewhere(
            "a thread and its own signal handler: the compiler's order only; crates/testkit/tests/slices.rs",
        ),
    ),
    Exception::unmodelled("sched/cpu_time.rs", "fence(SeqCst);", Elsewhere(CLOCKS)),
    Exception::unmodelled("sched/cpu_time.rs", "slot.reads_clock.store(0, Release);", Elsewhere(CLOCKS)),
    Exception::unmodelled("sched/monitor.rs", "LENGTH.store(path.len(), Release);", Elsewhere(MONITORED)),
    Exception::unmodelled("sched/monitor.rs", "let length = LENGTH.load(Acquire);", Elsewhere(MONITORED)),
    Exception::unmodelled("sched/monitor.rs", "let mapped = MAPPED.load(Acquire);", Elsewhere(MONITORED)),
    Exception::unmodelled(
        "sched/monitor.rs",
        "if MAPPED.compare_exchange(ptr::null_mut(), pages.as_ptr(), Release, Relaxed).is_err() {",
        Elsewhere(MONITORED),
    ),
    Exception::unmodelled(
        "sched/monitor/probe.rs",
        "IS_MAPPED.store(is_mapped, Release);",
        Elsewhere(PROBED),
    ),
    Exception::unmodelled("sched/monitor/probe.rs", "!IS_MAPPED.load(Acquire)", Elsewhere(PROBED)),
    Exception::unmodelled(
        "platform/src/waiters.rs",
        "slot.reads_clock.load(Ordering::Acquire) != 0",
        Elsewhere(
            "one load, of another thread's mark: its part of the store, fence, load on both sides of sched/cpu_time.rs",
        ),
    ),
    Exception::unmodelled(
        "preload/src/serve/cancel.rs",
        "fence(SeqCst);",
        Elsewhere(
            "store, fence, load on both sides (Dekker): the same shape as the barriers of `biased`, which are weakened; the POSIX \
             suite's programs of cancellation",
        ),
    ),
    Exception::unmodelled(
        "preload/src/abi/layout.rs",
        "if lock.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {",
        Elsewhere(AS_GLIBC),
    ),
    Exception::unmodelled(
        "preload/src/abi/layout.rs",
        "if lock.swap(0, Ordering::Release) > 1 {",
        Elsewhere(AS_GLIBC),
    ),
    Exception::unmodelled(
        "preload/src/serve/spin.rs",
        "lock.compare_exchange(FREE, LOCKED, Acquire, Relaxed)",
        Elsewhere(TEST_AND_SET),
    ),
    Exception::unmodelled("preload/src/serve/spin.rs", "store(FREE, Release);", Elsewhere(TEST_AND_SET)),
];
