//! What SANL's and Guiroux's papers say of locks that stay where they are: their micro-benchmark, and threads that outnumber
//! CPUs. What RCL's says of them is beside what it says of delegates.

use super::{
    Claim, Figure, Quantity, SOME_SLICES, at_least, at_most, claim, cycles, every, near, point, ratio,
};
use crate::workload::Distribution::{About, Fixed};
use crate::workload::{Frame, Micro};

/// C-TKT-MCS without a pass limit, as SANL ran it.
pub(super) const COHORT: &str = "c-tkt-mcs-spin(may-pass-local=65535)";

pub(super) fn sanl() -> Vec<Claim> {
    const SOURCE: &str = "SANL, figure 6 and section 4.1";
    let mut claims = Vec::new();
    for (machine, name, threads) in [("e7-4850", "Intel", 39), ("opteron-6274", "AMD", 63)] {
        let at = |lock, delay: u64| {
            let window = if delay >= 100_000 { 40_000_000 } else { 20_000_000 };
            point(machine, lock, Frame { threads, window, ..Frame::SHORT }, every(About(delay)))
        };
        for (other, lock) in [("spin", "tas"), ("ticket", "ticket"), ("POSIX", "futex")] {
            let words = format!("{name}: under high contention MCS is better than the {other} lock");
            claims.push(at_least(words, SOURCE, Figure::Section, 1.0, at(lock, 100), at("mcs-spin", 100)));
        }
        let words = format!("{name}: C-TKT-MCS is better than K42 under high contention");
        claims.push(at_least(words, SOURCE, Figure::Section, 1.0, at("k42-spin", 100), at(COHORT, 100)));
        let words = format!("{name}: C-TKT-MCS is better than MCS under medium contention (10,000 cycles)");
        claims.push(at_least(
            words,
            SOURCE,
            Figure::Section,
            1.0,
            at("mcs-spin", 10_000),
            at(COHORT, 10_000),
        ));
    }
    let low = |machine, lock, threads| {
        point(machine, lock, Frame { threads, window: 40_000_000, ..Frame::SHORT }, every(About(2_000_000)))
    };
    claims.push(ratio(
        "Intel: C-TKT-MCS against MCS under low contention",
        SOURCE,
        Figure::Section,
        1.25,
        low("e7-4850", COHORT, 39),
        low("e7-4850", "mcs-spin", 39),
    ));
    const DERIVED: &str = "SANL, section 4.2 (derived: NUMA-SANL against either)";
    let high = |machine, lock, threads| {
        point(machine, lock, Frame { threads, window: 20_000_000, ..Frame::SHORT }, every(About(100)))
    };
    claims.push(ratio(
        "Intel: C-TKT-MCS against MCS under high contention",
        DERIVED,
        Figure::Section,
        1.57,
        high("e7-4850", COHORT, 39),
        high("e7-4850", "mcs-spin", 39),
    ));
    claims.push(ratio(
        "AMD: MCS against C-TKT-MCS under high contention",
        DERIVED,
        Figure::Section,
        1.58,
        high("opteron-6274", "mcs-spin", 63),
        high("opteron-6274", COHORT, 63),
    ));
    let source = "SANL, section 4.2";
    let words = "Intel: MCS under low contention: a section, one line";
    claims.push(cycles(words, source, 803.0, low("e7-4850", "mcs-spin", 39)));
    let words = "AMD: MCS under low contention: a section, one line";
    claims.push(cycles(words, source, 2368.0, low("opteron-6274", "mcs-spin", 63)));
    claims
}

pub(super) fn thesis() -> Vec<Claim> {
    const SCHEDULING: &str = "Guiroux, section 4.5.1 (scheduling)";
    const UNCONTENDED: &str = "Guiroux, section 4.5.1 (uncontended acquisitions)";
    let alone = |lock| point("a-64", lock, Frame { window: 2_000_000, ..Frame::SHORT }, every(Fixed(1000)));
    let crowded = |lock, threads| point("a-64", lock, Frame { threads, ..SOME_SLICES }, every(About(2000)));
    let mut claims = vec![
        cycles("An uncontended Spinlock", UNCONTENDED, 40.0, alone("tas")),
        cycles("An uncontended HMCS", UNCONTENDED, 190.0, alone("hmcs-spin")),
    ];
    const TRYLOCK: &str = "Guiroux, section 4.5.1 (trylocks)";
    let tries = |lock| {
        let frame = Frame { window: 2_000_000, ..Frame::SHORT };
        point("a-64", lock, frame, Micro { tries: true, ..every(Fixed(1000)) })
    };
    for (name, lock, value) in [
        ("HMCS", "hmcs-spin", 220.0),
        ("C-BO-MCS", "c-bo-mcs-spin", 170.0),
        ("MCS", "mcs-spin", 80.0),
        ("Spinlock", "tas", 60.0),
    ] {
        claims.push(cycles(format!("An uncontended trylock of {name}"), TRYLOCK, value, tries(lock)));
    }
    const HAND_OFF: &str = "Guiroux, section 4.5.1 (lock handover)";
    for (name, lock, value) in [("MCS", "mcs-spin", 460.0), ("Spinlock", "tas", 46_000.0)] {
        let frame = Frame { threads: 64, ..Frame::SHORT };
        let point = point("a-64", lock, frame, every(About(100)));
        claims.push(claim(
            format!("{name}: the hand-over of the lock, a thread pinned on each core"),
            HAND_OFF,
            format!("{value} cycles"),
            Quantity::figure(Figure::HandOff, point),
            near(value),
        ));
    }
    for (name, lock) in
        [("MCS", "mcs-spin"), ("Ticket", "ticket"), ("CLH", "clh-spin"), ("HMCS", "hmcs-spin")]
    {
        let words = format!("{name} collapses with two threads a core: holders and waiters are preempted");
        claims.push(at_least(
            words,
            SCHEDULING,
            Figure::Throughput,
            10.0,
            crowded(lock, 64),
            crowded(lock, 128),
        ));
    }
    let words = "Pthread does not collapse with two threads a core";
    claims.push(at_most(
        words,
        SCHEDULING,
        Figure::Throughput,
        2.0,
        crowded("futex", 64),
        crowded("futex", 128),
    ));
    claims
}
