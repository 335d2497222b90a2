//! What CST's paper says, of the locks by themselves: its applications and file systems are a kernel's.

use super::{
    Claim, Figure, Quantity, Rule, SOME_SLICES, Test, at_least, at_most, claim, every, near, not_modelled,
    point, ratio,
};
use crate::machine;
use crate::validate::memory::{Memory, Than};
use crate::validate::point::Point;
use crate::workload::Distribution::About;
use crate::workload::{Distribution, Frame, Map, Mix, Structure};

const MACHINE: &str = "e7-8870-v2";

/// The paper's reader-writer locks. Linux's is of a later version. The paper's Cohort lock is that of Calciu and others (PPoPP
/// 2013); ours has the readers of `cst-rwsem`, so that a difference between these two is one of their writers.
const LINUX_RWSEM: &str = "linux-rwsem";
const COHORT_RW: &str = "c-rw-wp";
const CST_RWSEM: &str = "cst-rwsem";

pub(super) fn claims() -> Vec<Claim> {
    [applications(), sleepers(), readers(), update(), latency(), memory()].into_iter().flatten().collect()
}

/// Figures 5 and 6.
fn applications() -> Vec<Claim> {
    const FIVE: &str = "CST, figure 5";
    const SIX: &str = "CST, figure 6";
    const FAULTS: &str = "page faults in a kernel; its lock's readers by themselves are table 1's";
    const MAPPINGS: &str = "mappings and page faults in a kernel; readers with some writers are figure 7a's";
    const OVERWRITE: &str = "a file system; an update under the same lock is figure 7b's";
    const ALLOCATOR: &str = "a file system, and the memory allocator behind it";
    const DIRECTORY: &str = "a file system; its lock's readers by themselves are table 1's";
    let of = not_modelled;
    vec![
        of("Histogram: CST-rwsem and Cohort against Linux's rwsem at 120 threads", FIVE, "1.2x", FAULTS),
        of("Metis: CST-rwsem and Cohort against Linux's rwsem at 120 threads", FIVE, "1.6x", MAPPINGS),
        of("Psearchy: CST-rwsem against Cohort and Linux's rwsem at 120 threads", FIVE, "1.4x", MAPPINGS),
        of(
            "Block overwrite: CST-mutex against Cohort at 120 and 240 threads",
            SIX,
            "1.6x and 2.3x",
            OVERWRITE,
        ),
        of(
            "Block overwrite: CST-mutex against Linux's mutex at 120 and 240 threads",
            SIX,
            "2.6x and 2.5x",
            OVERWRITE,
        ),
        of(
            "File creation: CST-mutex against Cohort and Linux's mutex at 120 threads",
            SIX,
            "1.4x and 1.7x",
            ALLOCATOR,
        ),
        of(
            "File creation: CST-mutex against Cohort and Linux's mutex at 240 threads",
            SIX,
            "1,614.7x and 2.2x",
            ALLOCATOR,
        ),
        of(
            "Block overwrite: idle time under Linux's mutex at 120 and 240 threads",
            SIX,
            "98% and 90%",
            "a file system, and the lock of the kernel's list of sleepers",
        ),
        of(
            "File enumeration: CST-rwsem against Cohort at 120 and 240 threads",
            SIX,
            "3.3x and 3.7x",
            DIRECTORY,
        ),
        of(
            "File enumeration: CST-rwsem against Linux's rwsem at 120 and 240 threads",
            SIX,
            "4.6x and 4.7x",
            DIRECTORY,
        ),
    ]
}

/// Section 3, C4: what the kernel does for threads that sleep and wake.
fn sleepers() -> Vec<Claim> {
    const SOURCE: &str = "CST, section 3";
    vec![
        not_modelled(
            "A global list of sleepers becomes a point of contention in an over-loaded system",
            SOURCE,
            "in words",
            "the kernel's locks, that of a futex's bucket among them, are not simulated: nobody waits for them",
        ),
        not_modelled(
            "What a wake-up costs, in the kernel and from user space",
            SOURCE,
            "2,000 to 8,000 and 5,000 to 50,000 cycles",
            "every wake-up costs the same: neither the interrupt of another processor nor its idle state is simulated; \
             with --sensitivity five times as much is tried",
        ),
    ]
}

/// Figure 7a: a hash table under one lock, 10% of the operations write. The paper says neither how large the table is
/// nor that there is anything between two operations.
fn readers() -> Vec<Claim> {
    const SOURCE: &str = "CST, figure 7a";
    let table = |lock, threads| {
        let frame =
            if threads <= 120 { Frame { threads, ..Frame::SHORT } } else { Frame { threads, ..SOME_SLICES } };
        let structure = Structure::Table { buckets: 1024 };
        point(MACHINE, lock, frame, Map { structure, delay: About(100), write_share: 0.1, ..Map::GCR })
    };
    use Figure::Throughput;
    vec![
        ratio(
            "CST-rwsem against the Cohort lock (c-rw-wp) at 120 threads",
            SOURCE,
            Throughput,
            4.6,
            table(CST_RWSEM, 120),
            table(COHORT_RW, 120),
        ),
        ratio(
            "CST-rwsem against Linux's rwsem at 120 threads",
            SOURCE,
            Throughput,
            10.0,
            table(CST_RWSEM, 120),
            table(LINUX_RWSEM, 120),
        ),
        at_least(
            "The Cohort lock (c-rw-wp) is better than Linux's rwsem at 120 threads",
            SOURCE,
            Throughput,
            1.0,
            table(COHORT_RW, 120),
            table(LINUX_RWSEM, 120),
        ),
        at_least(
            "Beyond 120 threads the Cohort lock (c-rw-wp) is poorer than Linux's rwsem",
            SOURCE,
            Throughput,
            1.0,
            table(LINUX_RWSEM, 240),
            table(COHORT_RW, 240),
        ),
        at_most(
            "CST-rwsem keeps up at 5x over-subscription",
            SOURCE,
            Throughput,
            1.5,
            table(CST_RWSEM, 120),
            table(CST_RWSEM, 600),
        ),
        ratio(
            "CST-rwsem against Linux's rwsem at 5x over-subscription",
            SOURCE,
            Throughput,
            9.1,
            table(CST_RWSEM, 600),
            table(LINUX_RWSEM, 600),
        ),
        not_modelled(
            "Readers woken node by node (CST-DWake) against all at once (CST-Wake)",
            SOURCE,
            "1.2x",
            "cst-rwsem wakes them node by node, always",
        ),
    ]
}

/// Figure 7b: one cache line, updated under a mutex.
fn update() -> Vec<Claim> {
    const SOURCE: &str = "CST, figure 7b";
    /// As many sleepers at a time as a node of this machine has CPUs.
    const CST_WS: &str = "cst-mutex(wake=15)";
    let update = |lock, threads| point(MACHINE, lock, Frame { threads, ..SOME_SLICES }, every(About(500)));
    use Figure::Throughput;
    vec![
        at_least(
            "The Cohort lock is better than Linux's mutex at 120 threads",
            SOURCE,
            Throughput,
            1.0,
            update("c-bo-mcs-spin", 120),
            update("linux-mutex", 120),
        ),
        at_least(
            "CST-WS is better than Linux's mutex at 120 threads",
            SOURCE,
            Throughput,
            1.0,
            update(CST_WS, 120),
            update("linux-mutex", 120),
        ),
        at_least(
            "The Cohort lock collapses beyond 120 threads",
            SOURCE,
            Throughput,
            10.0,
            update("c-bo-mcs-spin", 120),
            update("c-bo-mcs-spin", 240),
        ),
        at_most(
            "Linux's mutex keeps up beyond 120 threads",
            SOURCE,
            Throughput,
            3.0,
            update("linux-mutex", 120),
            update("linux-mutex", 240),
        ),
        at_most(
            "CST-WS keeps up beyond 120 threads",
            SOURCE,
            Throughput,
            1.5,
            update(CST_WS, 120),
            update(CST_WS, 240),
        ),
        at_least(
            "CST-WS is far better than the Cohort lock at 2x over-subscription",
            SOURCE,
            Throughput,
            10.0,
            update(CST_WS, 240),
            update("c-bo-mcs-spin", 240),
        ),
        at_least(
            "CST-WS is better than CST-WA at 5x over-subscription",
            SOURCE,
            Throughput,
            1.0,
            update(CST_WS, 600),
            update("cst-mutex(wake=65535)", 600),
        ),
        ratio(
            "CST-WS against Linux's mutex at 5x over-subscription (the text says 6x, the figure ends at 5x)",
            SOURCE,
            Throughput,
            1.7,
            update(CST_WS, 600),
            update("linux-mutex", 600),
        ),
    ]
}

/// Table 1: empty sections, as fast as they go.
fn latency() -> Vec<Claim> {
    const SOURCE: &str = "CST, table 1";
    const DERIVED: &str = "CST, table 1 (derived)";
    let empty = Mix { delay: Distribution::NONE, write_share: 0.0, lines: 0, ..Mix::TENTH };
    // A writer that is beside so many readers enters only some times in a window that is long enough for these.
    let frame = |threads, mix: &Mix| match mix.writers {
        None => Frame { threads, ..Frame::SHORT },
        Some(_) => Frame { threads, window: 100_000_000, ..Frame::SHORT },
    };
    let at = |lock, threads, mix: &Mix| point(MACHINE, lock, frame(threads, mix), mix.clone());
    let writing = Mix { write_share: 1.0, ..empty.clone() };
    let beside = Mix { writers: Some(1), ..empty.clone() };
    let reader = |lock| at(lock, 1, &empty);
    let readers = |lock| at(lock, 120, &empty);
    let writer = |lock| at(lock, 1, &writing);
    let writer_beside = |lock| at(lock, 120, &beside);
    let locks = [("Linux", LINUX_RWSEM), ("Cohort", COHORT_RW), ("CST", CST_RWSEM)];
    let ghz = machine::named(MACHINE).map_or(0.0, |machine| machine.ghz);
    type Case<'a> = (&'a str, &'a dyn Fn(&'static str) -> Point, Figure, [f64; 3]);
    let cases: [Case<'_>; 4] = [
        ("One reader", &reader, Figure::Section, [30.4, 36.4, 37.6]),
        ("120 readers", &readers, Figure::Section, [20_062.2, 1_973.2, 1_925.3]),
        ("One writer", &writer, Figure::Section, [31.3, 140.3, 75.0]),
        ("A writer beside 119 readers", &writer_beside, Figure::FirstSection, [28_545.2, 11_314.4, 4_252.2]),
    ];
    let mut claims = Vec::new();
    for (case, at, figure, times) in cases {
        for ((name, lock), ns) in locks.into_iter().zip(times) {
            let cycles = ns * ghz;
            claims.push(claim(
                format!("{case}: {name} ({lock})"),
                SOURCE,
                format!("{ns} ns: {cycles:.0} cycles"),
                Quantity::figure(figure, at(lock)),
                near(cycles),
            ));
        }
    }
    for (words, figure, value, this, that) in [
        ("One reader: Cohort against Linux", Figure::Section, 1.2, reader(COHORT_RW), reader(LINUX_RWSEM)),
        ("One reader: CST against Linux", Figure::Section, 1.24, reader(CST_RWSEM), reader(LINUX_RWSEM)),
        ("120 readers: Linux against CST", Figure::Section, 10.42, readers(LINUX_RWSEM), readers(CST_RWSEM)),
        ("120 readers: Cohort against CST", Figure::Section, 1.02, readers(COHORT_RW), readers(CST_RWSEM)),
        ("One writer: Cohort against Linux", Figure::Section, 4.48, writer(COHORT_RW), writer(LINUX_RWSEM)),
        ("One writer: CST against Linux", Figure::Section, 2.4, writer(CST_RWSEM), writer(LINUX_RWSEM)),
        (
            "A writer beside 119 readers: Linux against CST",
            Figure::FirstSection,
            6.71,
            writer_beside(LINUX_RWSEM),
            writer_beside(CST_RWSEM),
        ),
        (
            "A writer beside 119 readers: Cohort against CST",
            Figure::FirstSection,
            2.66,
            writer_beside(COHORT_RW),
            writer_beside(CST_RWSEM),
        ),
    ] {
        claims.push(ratio(words, DERIVED, figure, value, this, that));
    }
    claims
}

/// Section 3, C2, and section 7.1: what applications save stands for what a lock does.
fn memory() -> Vec<Claim> {
    const SOURCE: &str = "CST, sections 3 and 7.1";
    /// A Cohort lock for eight nodes, as the paper has it.
    const COHORT: usize = 1600;
    const OURS: &str = "c-bo-mcs-spin";
    let of = |words: &str, published: &str, everywhere, than, rule| {
        let memory = Memory { lock: "cst-mutex", everywhere, than };
        let (claim, published) = (words.to_owned(), published.to_owned());
        Claim { claim, source: SOURCE, published, test: Test::Memory(memory, rule) }
    };
    let one = || near(10.0);
    let all = || Rule::Between(1.5, 9.1);
    vec![
        of(
            "Used on one node of eight, CST-mutex takes less memory than the paper's Cohort lock",
            "10x",
            false,
            Than::Bytes(COHORT),
            one(),
        ),
        of(
            "Used on all eight nodes, CST-mutex takes less memory than the paper's Cohort lock",
            "1.5x to 9.1x",
            true,
            Than::Bytes(COHORT),
            all(),
        ),
        of(
            "Used on one node of eight, CST-mutex takes less memory than our Cohort lock with all its nodes",
            "10x",
            false,
            Than::Lock(OURS),
            one(),
        ),
        of(
            "Used on all eight nodes, CST-mutex takes less memory than our Cohort lock",
            "1.5x to 9.1x",
            true,
            Than::Lock(OURS),
            all(),
        ),
    ]
}
