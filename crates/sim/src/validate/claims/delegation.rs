//! What RCL's and SANL's papers say of delegates: combiners, servers, and SANL between in-place locks and both.
//!
//! Of RCL's server the papers count a core more than of its clients; so do the points here. Where a paper says "high
//! contention" without a delay, that is 100 cycles; "low contention" is 2,000,000. Flat combining is that with a list of records.

use super::in_place::COHORT;
use super::{
    Claim, Figure, Quantity, Rule, at_least, at_most, claim, cycles, every, more_misses, more_than, near,
    not_modelled, point, ratio, times_a_section,
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

/// A lock in RCL's figure 7c, at high and at low contention.
struct Published {
    name: &'static str,
    lock: &'static str,
    /// Cycles of a section with one shared line.
    section: [f64; 2],
    /// Misses of a section with five shared lines, beyond those with one.
    more_misses: [f64; 2],
    /// Atomic operations of a section; those of Spinlock are said to be many.
    atomics: Option<[f64; 2]>,
}

const FIGURE_7C: [Published; 5] = [
    Published {
        name: "CAS",
        lock: "tas",
        section: [672_889.0, 1_288.0],
        more_misses: [53.0, 5.2],
        atomics: None,
    },
    Published {
        name: "POSIX",
        lock: "futex",
        section: [73_024.0, 1_826.0],
        more_misses: [3.8, 4.0],
        atomics: Some([1.0, 1.0]),
    },
    Published {
        name: "MCS",
        lock: "mcs-spin",
        section: [63_553.0, 1_457.0],
        more_misses: [4.0, 4.8],
        atomics: Some([1.0, 1.0]),
    },
    Published {
        name: "flat combining",
        lock: "fc-list",
        section: [50_447.0, 15_060.0],
        more_misses: [0.3, 2.4],
        atomics: Some([0.0, 1.0]),
    },
    Published {
        name: "RCL",
        lock: "rcl",
        section: [16_682.0, 1_494.0],
        more_misses: [0.0, 0.0],
        atomics: Some([0.0, 0.0]),
    },
];

pub(super) fn rcl() -> Vec<Claim> {
    const TABLE: &str = "RCL, figure 7c";
    const TEXT: &str = "RCL, section 4.1";
    const DERIVED: &str = "RCL, figure 7c (derived)";
    let lines = |lock, delay, lines| at("opteron-6172", lock, 47, delay, lines);
    let here = |lock, delay| lines(lock, delay, 1);
    let mut claims = Vec::new();
    for (contention, delay, place) in [("high", HIGH, 0), ("low", LOW, 1)] {
        for Published { name, lock, section, more_misses: misses, atomics } in &FIGURE_7C {
            let of = |what: &str| format!("{name} at {contention} contention: {what}");
            let words = of("a section, 47 threads, one line");
            claims.push(cycles(words, TABLE, section[place], here(lock, delay)));
            let words = of("misses of five lines, beyond those of one");
            let (five, one) = (lines(lock, delay, 5), here(lock, delay));
            claims.push(more_misses(words, TABLE, misses[place], five, one));
            if let Some(atomics) = atomics {
                let words = of("atomic operations");
                let point = here(lock, delay);
                claims.push(times_a_section(words, TABLE, Figure::Atomics, atomics[place], point));
            }
        }
    }
    for (words, source, value, other, delay) in [
        ("Flat combining against RCL at high contention", DERIVED, 3.02, "fc-list", HIGH),
        ("Flat combining against RCL at low contention", DERIVED, 10.1, "fc-list", LOW),
        ("POSIX against RCL at high contention", "RCL, section 1", 4.38, "futex", HIGH),
        ("MCS against RCL at high contention", DERIVED, 3.81, "mcs-spin", HIGH),
        ("CAS against RCL at high contention", DERIVED, 40.3, "tas", HIGH),
    ] {
        claims.push(ratio(words, source, Figure::Section, value, here(other, delay), here("rcl", delay)));
    }
    claims.push(claim(
        "RCL at low contention is slower than Spinlock by only 209 cycles",
        TEXT,
        "209 cycles more",
        Quantity::difference(Figure::Section, [here("rcl", LOW), here("tas", LOW)]),
        near(209.0),
    ));
    for delay in [1_000, 10_000, 100_000] {
        let words = format!("Flat combining is behind RCL at a delay of {delay}");
        claims.push(at_least(words, TEXT, Figure::Section, 1.0, here("fc-list", delay), here("rcl", delay)));
    }
    let added = [lines("rcl", HIGH, 5), here("rcl", HIGH), lines("rcl", LOW, 5), here("rcl", LOW)];
    claims.push(claim(
        "RCL: what five lines add to a section at high contention, against low contention",
        TEXT,
        "roughly 47x",
        Quantity::differences(Figure::Section, added),
        near(47.0),
    ));
    claims.push(times_a_section(
        "RCL at high contention: misses of the server",
        "RCL, section 4.2",
        Figure::ServerMisses,
        1.0,
        here("rcl", HIGH),
    ));
    for (words, source, published, reason) in [
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
        claims.push(not_modelled(words, source, published, reason));
    }
    claims
}

pub(super) fn sanl() -> Vec<Claim> {
    const TEXT: &str = "SANL, section 4.2";
    const INTEL: &str = "e7-4850";
    const AMD: &str = "opteron-6274";
    let intel = |lock, delay| at(INTEL, lock, 39, delay, 1);
    let amd = |lock, delay| at(AMD, lock, 63, delay, 1);
    const INTRODUCTION: &str = "SANL, section 1 (machine not said)";
    const DERIVED: &str = "SANL, section 4.2 (derived)";
    let mut claims = Vec::new();
    for (name, source, value, other, this) in [
        ("RCL against SANL-NUMA", INTRODUCTION, 3.7, "rcl", "sanl-numa"),
        ("POSIX against SANL-NUMA", INTRODUCTION, 17.0, "futex", "sanl-numa"),
        ("C-TKT-MCS against SANL", TEXT, 3.2, COHORT, "sanl"),
        ("MCS against SANL", TEXT, 2.0, "mcs-spin", "sanl"),
        ("C-TKT-MCS against SANL-NUMA", TEXT, 7.2, COHORT, "sanl-numa"),
        ("MCS against SANL-NUMA", TEXT, 4.6, "mcs-spin", "sanl-numa"),
    ] {
        let words = format!("Intel: {name}, high");
        claims.push(ratio(words, source, Figure::Section, value, intel(other, HIGH), intel(this, HIGH)));
    }
    for (name, other) in [("spin lock", "tas"), ("ticket lock", "ticket"), ("POSIX", "futex")] {
        claims.push(claim(
            format!("Intel: the {name} against SANL, high"),
            TEXT,
            "one or two orders",
            Quantity::ratio(Figure::Section, [intel(other, HIGH), intel("sanl", HIGH)]),
            Rule::Between(10.0, 100.0),
        ));
    }
    for (name, source, value, other, this) in [
        ("POSIX against SANL", TEXT, 14.0, "futex", "sanl"),
        ("C-TKT-MCS against SANL", TEXT, 2.4, COHORT, "sanl"),
        ("MCS against SANL", TEXT, 3.8, "mcs-spin", "sanl"),
        ("flat combining against SANL", TEXT, 5.9, "fc-list", "sanl"),
        ("RCL against SANL", TEXT, 2.3, "rcl", "sanl"),
        ("flat combining against RCL", DERIVED, 2.57, "fc-list", "rcl"),
    ] {
        let words = format!("AMD: {name}, high");
        claims.push(ratio(words, source, Figure::Section, value, amd(other, HIGH), amd(this, HIGH)));
    }
    for (name, other) in [("POSIX", "futex"), ("flat combining", "fc-list")] {
        let words = format!("Intel: H-Synch is behind {name} under high contention");
        claims.push(at_least(words, TEXT, Figure::Section, 1.0, intel("h-synch", HIGH), intel(other, HIGH)));
    }
    for (words, value, point) in [
        ("Intel: SANL under low contention: a section, one line", 1573.0, intel("sanl", LOW)),
        ("Intel: RCL under low contention: a section, one line", 3642.0, intel("rcl", LOW)),
        ("AMD: SANL under low contention: a section, one line", 2520.0, amd("sanl", LOW)),
    ] {
        claims.push(cycles(words, TEXT, value, point));
    }
    const FEW: &str = "SANL, figure 18";
    for (name, lock, value) in [("SANL", "sanl", 593.0), ("MCS", "mcs-spin", 350.0)] {
        let words = format!("AMD: {name} with few threads (taken to be one), a delay of 1,000: a section");
        claims.push(cycles(words, FEW, value, at(AMD, lock, 1, 1_000, 1)));
    }
    let words = "AMD: SANL with four threads against RCL, a delay of 1,000";
    let four = |lock| at(AMD, lock, 4, 1_000, 1);
    claims.push(ratio(words, FEW, Figure::Section, 1.37, four("sanl"), four("rcl")));
    for (name, other, value) in [
        ("MCS", "mcs-spin", 3.5),
        ("POSIX", "futex", 3.5),
        ("RCL", "rcl", 1.3),
        ("flat combining", "fc-list", 1.3),
    ] {
        let words = format!("AMD: {name} against SANL with 63 threads, a delay of 1,000");
        claims.push(more_than(words, FEW, Figure::Section, value, amd(other, 1_000), amd("sanl", 1_000)));
    }
    claims.extend(limits());
    let words = "AMD: SANL comes close to flat combining at a delay of 50,000";
    claims.push(claim(
        words,
        "SANL, figures 13 and 19",
        "in words: 1x",
        Quantity::ratio(Figure::Section, [amd("sanl", 50_000), amd("fc-list", 50_000)]),
        near(1.0),
    ));
    let words = "Intel: SANL is ahead of MCS with five lines under high contention";
    let five = |lock| at(INTEL, lock, 39, HIGH, 5);
    claims.push(at_least(words, "SANL, figure 12", Figure::Section, 1.0, five("mcs-spin"), five("sanl")));
    for (contention, delay) in [("high", HIGH), ("low", LOW)] {
        let words =
            format!("Intel: RCL at {contention} contention: misses of five lines, beyond those of one");
        let lines = |lines| at(INTEL, "rcl", 39, delay, lines);
        claims.push(more_misses(words, "SANL, figures 15 to 17", 0.0, lines(5), lines(1)));
    }
    claims.push(at_most(
        "Intel: SANL's sections of five lines miss less at high contention than at low",
        "SANL, figures 15 to 17",
        Figure::Misses,
        1.0,
        at(INTEL, "sanl", 39, HIGH, 5),
        at(INTEL, "sanl", 39, LOW, 5),
    ));
    claims.extend(not_here());
    claims
}

/// Figures 9 and 10, of which the paper prints no numbers.
fn limits() -> Vec<Claim> {
    // What "poor" and "hurts" are at least, and what a small difference is at most.
    const HURTS: f64 = 1.1;
    const ALIKE: f64 = 1.2;
    const SERVING: &str = "SANL, figure 9";
    const CLIENTS: &str = "SANL, figure 10";
    let with = |lock| at("opteron-6274", lock, 63, 1_000, 1);
    let section = Figure::Section;
    let (served, waited) = (with("sanl(serve=100)"), with("sanl(wait=10000)"));
    let mut claims = Vec::new();
    for (limit, lock) in [("1", "sanl(serve=1)"), ("10", "sanl(serve=10)")] {
        let words = format!("AMD: a serving limit of {limit} is worse than one of 100, a delay of 1,000");
        claims.push(at_least(words, SERVING, section, HURTS, with(lock), served.clone()));
    }
    let words = "AMD: a serving limit of 1,000 is no better than 100 by much, a delay of 1,000";
    claims.push(at_most(words, SERVING, section, ALIKE, served, with("sanl(serve=1000)")));
    let words = "AMD: a small client limit (100) hurts against 10,000, a delay of 1,000";
    claims.push(at_least(words, CLIENTS, section, HURTS, with("sanl(wait=100)"), waited.clone()));
    let words = "AMD: a client limit of 100,000 is as good as one of 10,000, a delay of 1,000";
    claims.push(at_most(words, CLIENTS, section, ALIKE, with("sanl(wait=100000)"), waited));
    claims
}

fn not_here() -> Vec<Claim> {
    const TEXT: &str = "SANL, section 4.2";
    [
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
    ]
    .map(|(words, source, published, reason)| not_modelled(words, source, published, reason))
    .into()
}
