//! What RCL's and SANL's papers say of delegates: combiners, servers, and SANL between in-place locks and both.
//!
//! Of RCL's server the papers count a core more than of its clients; so do the points here. Where a paper says "high
//! contention" without a delay, that is 100 cycles; "low contention" is 2,000,000.

use super::in_place::COHORT;
use super::{
    Claim, Figure, Test, WITHIN, at_least, at_most, cycles, every, more_misses, not_modelled, point, ratio,
    times_a_section,
};
use crate::validate::Point;
use crate::workload::Distribution::About;
use crate::workload::{Frame, Micro};

const HIGH: u64 = 100;
const LOW: u64 = 2_000_000;

/// Threads that share lines at some delay, for as long as the in-place locks of the same figures.
fn at(machine: &'static str, lock: &'static str, threads: usize, delay: u64, lines: usize) -> Point {
    let window = if delay >= 100_000 { 40_000_000 } else { 20_000_000 };
    // Votes of SANL's threads go by some dozens of sections of each, which take as long as they do before the vote.
    let warm_up = if lock.starts_with("sanl") { 300_000_000 } else { Frame::SHORT.warm_up };
    let frame = Frame { threads, warm_up, window, ..Frame::SHORT };
    point(machine, lock, frame, Micro { lines, ..every(About(delay)) })
}

/// One figure is greater than another by so much.
fn difference(claim: &str, source: &'static str, value: f64, this: Point, that: Point) -> Claim {
    Claim {
        claim: claim.to_owned(),
        source,
        published: format!("{value} cycles more"),
        test: Test::Difference { value, within: WITHIN, slack: 0.0, figure: Figure::Section, this, that },
    }
}

pub(super) fn rcl() -> Vec<Claim> {
    const TABLE: &str = "RCL, figure 7c";
    const TEXT: &str = "RCL, section 4.1";
    const DERIVED: &str = "RCL, figure 7c (derived)";
    let here = |lock, delay| at("opteron-6172", lock, 47, delay, 1);
    let ahead = |claim: &str, other, delay| {
        at_least(claim, TEXT, Figure::Section, 1.0, here(other, delay), here("rcl", delay))
    };
    let times = |claim: &str, source, value, other| {
        ratio(claim, source, Figure::Section, value, here(other, HIGH), here("rcl", HIGH))
    };
    let mut claims = Vec::new();
    for (name, lock, high, low) in
        [("flat combining", "fc", 50_447.0, 15_060.0), ("RCL", "rcl", 16_682.0, 1_494.0)]
    {
        for (contention, delay, value) in [("high", HIGH, high), ("low", LOW, low)] {
            let claim = format!("{name} at {contention} contention: a section, 47 threads, one line");
            claims.push(cycles(claim, TABLE, value, here(lock, delay)));
        }
    }
    claims.push(times("Flat combining against RCL at high contention", DERIVED, 3.02, "fc"));
    claims.push(times("POSIX against RCL at high contention", "RCL, section 1", 4.38, "futex"));
    claims.push(times("MCS against RCL at high contention", DERIVED, 3.81, "mcs-spin"));
    claims.push(times("CAS against RCL at high contention", DERIVED, 40.3, "tas"));
    for (name, other) in [("flat combining", "fc"), ("POSIX", "futex"), ("MCS", "mcs-spin"), ("CAS", "tas")] {
        claims.push(ahead(&format!("RCL is ahead of {name} at high contention"), other, HIGH));
    }
    claims.push(difference(
        "RCL at low contention is slower than Spinlock by only 209 cycles",
        TEXT,
        209.0,
        here("rcl", LOW),
        here("tas", LOW),
    ));
    for delay in [1_000, 10_000, 100_000, LOW] {
        claims.push(ahead(&format!("Flat combining is behind RCL at a delay of {delay}"), "fc", delay));
    }
    claims.push(at_most(
        "RCL at high contention: five lines cost little more than one",
        TEXT,
        Figure::Section,
        1.5,
        at("opteron-6172", "rcl", 47, HIGH, 5),
        here("rcl", HIGH),
    ));
    for (name, lock, high, low) in [
        ("RCL", "rcl", 0.0, 0.0),
        ("flat combining", "fc", 0.3, 2.4),
        ("CAS", "tas", 53.0, 5.2),
        ("POSIX", "futex", 3.8, 4.0),
        ("MCS", "mcs-spin", 4.0, 4.8),
    ] {
        for (contention, delay, value) in [("high", HIGH, high), ("low", LOW, low)] {
            let claim =
                format!("{name} at {contention} contention: misses of five lines, beyond those of one");
            let lines = |lines| at("opteron-6172", lock, 47, delay, lines);
            claims.push(more_misses(claim, TABLE, value, lines(5), lines(1)));
        }
    }
    // Those of Spinlock are said to be many.
    for (name, lock, high, low) in [
        ("RCL", "rcl", 0.0, 0.0),
        ("flat combining", "fc", 0.0, 1.0),
        ("POSIX", "futex", 1.0, 1.0),
        ("MCS", "mcs-spin", 1.0, 1.0),
    ] {
        for (contention, delay, value) in [("high", HIGH, high), ("low", LOW, low)] {
            let claim = format!("{name} at {contention} contention: atomic operations");
            claims.push(times_a_section(claim, TABLE, Figure::Atomics, value, here(lock, delay)));
        }
    }
    claims.push(times_a_section(
        "RCL at high contention: misses of the server".to_owned(),
        "RCL, section 4.2",
        Figure::ServerMisses,
        1.0,
        here("rcl", HIGH),
    ));
    for (claim, source, published, reason) in [
        (
            "Clients that wait by monitor and mwait",
            "RCL, footnote 3",
            "under 30% slower",
            "the machine has no monitor and mwait",
        ),
        (
            "Where RCL begins to win, by share of time in sections under POSIX",
            TEXT,
            "POSIX at 20%, MCS at 70%",
            "a search over delays is not among the tests",
        ),
        (
            "StockLevel with 100 clients: false serialisation and use rate of one and two servers",
            "RCL, figure 13",
            "91% and 81%; under 1% and 5%",
            "Berkeley DB's locks are not modelled",
        ),
        (
            "Memcached SET under POSIX: misses",
            "RCL, section 4.2",
            "32.7",
            "memcached's sections are not modelled",
        ),
    ] {
        claims.push(not_modelled(claim, source, published, reason));
    }
    claims
}

pub(super) fn sanl() -> Vec<Claim> {
    const TEXT: &str = "SANL, section 4.2";
    const INTEL: &str = "e7-4850";
    const AMD: &str = "opteron-6274";
    let intel = |lock, delay| at(INTEL, lock, 39, delay, 1);
    let amd = |lock, delay| at(AMD, lock, 63, delay, 1);
    let mut claims = Vec::new();
    let mut times = |claim: &str, source, value, other: Point, this: Point| {
        claims.push(ratio(claim, source, Figure::Section, value, other.clone(), this.clone()));
        let order = format!("{claim}: the order");
        claims.push(at_least(&order, source, Figure::Section, 1.0, other, this));
    };
    const INTRODUCTION: &str = "SANL, section 1 (machine not said)";
    times(
        "Intel: RCL against SANL-NUMA, high",
        INTRODUCTION,
        3.7,
        intel("rcl", HIGH),
        intel("sanl-numa", HIGH),
    );
    times(
        "Intel: POSIX against SANL-NUMA, high",
        INTRODUCTION,
        17.0,
        intel("futex", HIGH),
        intel("sanl-numa", HIGH),
    );
    times("Intel: C-TKT-MCS against SANL, high", TEXT, 3.2, intel(COHORT, HIGH), intel("sanl", HIGH));
    times("Intel: MCS against SANL, high", TEXT, 2.0, intel("mcs-spin", HIGH), intel("sanl", HIGH));
    times(
        "Intel: C-TKT-MCS against SANL-NUMA, high",
        TEXT,
        7.2,
        intel(COHORT, HIGH),
        intel("sanl-numa", HIGH),
    );
    times("Intel: MCS against SANL-NUMA, high", TEXT, 4.6, intel("mcs-spin", HIGH), intel("sanl-numa", HIGH));
    times("AMD: POSIX against SANL, high", TEXT, 14.0, amd("futex", HIGH), amd("sanl", HIGH));
    times("AMD: C-TKT-MCS against SANL, high", TEXT, 2.4, amd(COHORT, HIGH), amd("sanl", HIGH));
    times("AMD: MCS against SANL, high", TEXT, 3.8, amd("mcs-spin", HIGH), amd("sanl", HIGH));
    times("AMD: flat combining against SANL, high", TEXT, 5.9, amd("fc", HIGH), amd("sanl", HIGH));
    times("AMD: RCL against SANL, high", TEXT, 2.3, amd("rcl", HIGH), amd("sanl", HIGH));
    times(
        "AMD: flat combining against RCL, high",
        "SANL, section 4.2 (derived)",
        2.57,
        amd("fc", HIGH),
        amd("rcl", HIGH),
    );
    for (name, other) in [("POSIX", "futex"), ("flat combining", "fc")] {
        let claim = format!("Intel: H-Synch is behind {name} under high contention");
        claims.push(at_least(&claim, TEXT, Figure::Section, 1.0, intel("h-synch", HIGH), intel(other, HIGH)));
    }
    for (name, lock, value) in [("SANL", "sanl", 1573.0), ("RCL", "rcl", 3642.0)] {
        let claim = format!("Intel: {name} under low contention: a section, one line");
        claims.push(cycles(claim, TEXT, value, intel(lock, LOW)));
    }
    let claim = "AMD: SANL under low contention: a section, one line".to_owned();
    claims.push(cycles(claim, TEXT, 2520.0, amd("sanl", LOW)));
    const FEW: &str = "SANL, figure 18";
    for (name, lock, value) in [("SANL", "sanl", 593.0), ("MCS", "mcs-spin", 350.0)] {
        let claim = format!("AMD: {name} with few threads (taken to be one), a delay of 1,000: a section");
        claims.push(cycles(claim, FEW, value, at(AMD, lock, 1, 1_000, 1)));
    }
    let claim = "AMD: SANL with four threads against RCL, a delay of 1,000";
    let four = |lock| at(AMD, lock, 4, 1_000, 1);
    claims.push(ratio(claim, FEW, Figure::Section, 1.37, four("sanl"), four("rcl")));
    for (name, other, factor) in [
        ("MCS", "mcs-spin", 3.5),
        ("POSIX", "futex", 3.5),
        ("RCL", "rcl", 1.3),
        ("flat combining", "fc", 1.3),
    ] {
        let claim = format!("AMD: {name} against SANL with 63 threads, a delay of 1,000: at least {factor}x");
        claims.push(at_least(&claim, FEW, Figure::Section, factor, amd(other, 1_000), amd("sanl", 1_000)));
    }
    // What "poor" and "hurts" are at least, which is ours.
    const HURTS: f64 = 1.1;
    const LIMITS: &str = "SANL, figure 9";
    for (limit, lock) in [("1", "sanl(serve=1)"), ("10", "sanl(serve=10)")] {
        let claim = format!("AMD: a serving limit of {limit} is worse than one of 100, a delay of 1,000");
        claims.push(at_least(
            &claim,
            LIMITS,
            Figure::Section,
            HURTS,
            amd(lock, 1_000),
            amd("sanl(serve=100)", 1_000),
        ));
    }
    let claim = "AMD: a serving limit of 1,000 is no better than 100 by much, a delay of 1,000";
    claims.push(at_most(
        claim,
        LIMITS,
        Figure::Section,
        1.2,
        amd("sanl(serve=100)", 1_000),
        amd("sanl(serve=1000)", 1_000),
    ));
    const CLIENTS: &str = "SANL, figure 10";
    let claim = "AMD: a small client limit (100) hurts against 10,000, a delay of 1,000";
    claims.push(at_least(
        claim,
        CLIENTS,
        Figure::Section,
        HURTS,
        amd("sanl(wait=100)", 1_000),
        amd("sanl(wait=10000)", 1_000),
    ));
    let claim = "AMD: a client limit of 100,000 is as good as one of 10,000, a delay of 1,000";
    claims.push(at_most(
        claim,
        CLIENTS,
        Figure::Section,
        1.2,
        amd("sanl(wait=100000)", 1_000),
        amd("sanl(wait=10000)", 1_000),
    ));
    let claim = "AMD: SANL comes close to flat combining at a delay of 50,000";
    claims.push(ratio(
        claim,
        "SANL, figures 13 and 19",
        Figure::Section,
        1.0,
        amd("sanl", 50_000),
        amd("fc", 50_000),
    ));
    let claim = "Intel: five lines, SANL against MCS under high contention: the order";
    let five = |lock| at(INTEL, lock, 39, HIGH, 5);
    claims.push(at_least(claim, "SANL, figure 12", Figure::Section, 1.0, five("mcs-spin"), five("sanl")));
    for (contention, delay) in [("high", HIGH), ("low", LOW)] {
        let claim =
            format!("Intel: RCL at {contention} contention: misses of five lines, beyond those of one");
        let lines = |lines| at(INTEL, "rcl", 39, delay, lines);
        claims.push(more_misses(claim, "SANL, figures 15 to 17", 0.0, lines(5), lines(1)));
    }
    claims.push(at_most(
        "Intel: SANL's sections of five lines miss less at high contention than at low",
        "SANL, figures 15 to 17",
        Figure::Misses,
        1.0,
        at(INTEL, "sanl", 39, HIGH, 5),
        at(INTEL, "sanl", 39, LOW, 5),
    ));
    for (claim, source, published, reason) in [
        (
            "Cost of profiling and of voting",
            TEXT,
            "about 100 and 217 cycles",
            "not taken apart from the section",
        ),
        (
            "Cost of the contention counter",
            "SANL, section 3.1",
            "0.13% high, 6.25% low",
            "there is none here: votes are counted",
        ),
        (
            "A pair of the id manager's calls, 64 threads",
            TEXT,
            "3,518.51 cycles high, 102 low",
            "there is none here: lines follow thread numbers",
        ),
        (
            "Distance-first against serving-first",
            "SANL, figure 8",
            "equal at 100 to 3,000, then behind",
            "distance-first is not here",
        ),
        (
            "One nomination, and the wait for it",
            "SANL, section 4.1",
            "under 1 ms; a few µs",
            "nominations are not counted",
        ),
        (
            "The thresholds of both machines",
            "SANL, table 5",
            "Intel 17% and 56%, AMD 6% and 40%",
            "not fitted: 17% and 56% are used everywhere",
        ),
        (
            "Memory of the request array",
            TEXT,
            "1.25 MiB Intel, 2 MiB AMD",
            "lines are made as threads come: 64 bytes for each thread here",
        ),
    ] {
        claims.push(not_modelled(claim, source, published, reason));
    }
    claims
}
