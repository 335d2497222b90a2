//! The published claims, one after the other.
//!
//! The papers' AVL tree is stood in for by sections of some shared lines and some work. The locks spin as they were published: without
//! the yields that Lockwork adds after a while.

use super::{Claim, Figure, Point, Test};
use crate::workload::Distribution::{About, Fixed};
use crate::workload::{Distribution, Frame, Micro};

/// How near a published figure must be met.
const WITHIN: f64 = 1.5;

/// Long enough for threads that share CPUs to be preempted some times; what happens before the first of that is not counted.
const SOME_SLICES: Frame = Frame { warm_up: 20_000_000, window: 80_000_000, pinned: false, ..Frame::SHORT };

/// All claims.
#[must_use]
pub fn claims() -> Vec<Claim> {
    [rcl(), sanl(), thesis(), gcr(), cst()].into_iter().flatten().collect()
}

fn point(machine: &'static str, lock: &'static str, frame: Frame, micro: Micro) -> Point {
    Point { machine, lock, frame, micro }
}

/// Sections of one line, so much time apart.
fn every(delay: Distribution) -> Micro {
    Micro { delay, ..Micro::SHORT }
}

fn at_least(
    claim: &str,
    source: &'static str,
    figure: Figure,
    factor: f64,
    more: Point,
    less: Point,
) -> Claim {
    let published = format!("at least {factor}x");
    Claim { claim: claim.to_owned(), source, published, test: Test::AtLeast { factor, figure, more, less } }
}

fn at_most(
    claim: &str,
    source: &'static str,
    figure: Figure,
    factor: f64,
    this: Point,
    that: Point,
) -> Claim {
    let published = format!("at most {factor}x");
    Claim { claim: claim.to_owned(), source, published, test: Test::AtMost { factor, figure, this, that } }
}

fn cycles(claim: String, source: &'static str, value: f64, point: Point) -> Claim {
    let published = format!("{value} cycles");
    Claim {
        claim,
        source,
        published,
        test: Test::Figure { point, figure: Figure::Section, value, within: WITHIN },
    }
}

fn not_modelled(claim: &str, source: &'static str, published: &str, reason: &'static str) -> Claim {
    let published = published.to_owned();
    Claim { claim: claim.to_owned(), source, published, test: Test::NotModelled(reason) }
}

const DELEGATION: &str = "delegation locks are not here yet";

fn rcl() -> Vec<Claim> {
    const SOURCE: &str = "RCL, figure 7c";
    let contended = |lock, delay: u64| {
        let window = if delay > 100_000 { 40_000_000 } else { 20_000_000 };
        point("opteron-6172", lock, Frame { threads: 47, window, ..Frame::SHORT }, every(About(delay)))
    };
    let locks = [
        ("CAS", "tas", 672_889, 1_288),
        ("POSIX", "futex", 73_024, 1_826),
        ("MCS", "mcs-spin", 63_553, 1_457),
    ];
    let mut claims = Vec::new();
    for (name, lock, high, low) in locks {
        for (contention, delay, value) in [("high", 100, high), ("low", 2_000_000, low)] {
            let claim = format!("{name} at {contention} contention: a section, 47 threads, one line");
            claims.push(cycles(claim, SOURCE, f64::from(value), contended(lock, delay)));
        }
    }
    for (name, high, low) in [("flat combining", "50447", "15060"), ("RCL", "16682", "1494")] {
        claims.push(not_modelled(
            &format!("{name} at high contention"),
            SOURCE,
            &format!("{high} cycles"),
            DELEGATION,
        ));
        claims.push(not_modelled(
            &format!("{name} at low contention"),
            SOURCE,
            &format!("{low} cycles"),
            DELEGATION,
        ));
    }
    claims
}

/// C-TKT-MCS without a pass limit, as SANL ran it.
const COHORT: &str = "c-tkt-mcs-spin(may-pass-local=65535)";

fn sanl() -> Vec<Claim> {
    const SOURCE: &str = "SANL, figure 6 and section 4.1";
    let mut claims = Vec::new();
    for (machine, name, threads) in [("e7-4850", "Intel", 39), ("opteron-6274", "AMD", 63)] {
        let at = |lock, delay: u64| {
            let window = if delay >= 100_000 { 40_000_000 } else { 20_000_000 };
            point(machine, lock, Frame { threads, window, ..Frame::SHORT }, every(About(delay)))
        };
        for (other, lock) in [("spin", "tas"), ("ticket", "ticket"), ("POSIX", "futex")] {
            let claim = format!("{name}: under high contention MCS is better than the {other} lock");
            claims.push(at_least(&claim, SOURCE, Figure::Section, 1.0, at(lock, 100), at("mcs-spin", 100)));
        }
        let claim = format!("{name}: C-TKT-MCS is better than K42 under high contention");
        claims.push(at_least(&claim, SOURCE, Figure::Section, 1.0, at("k42-spin", 100), at(COHORT, 100)));
        let claim = format!("{name}: C-TKT-MCS is better than MCS under medium contention (10,000 cycles)");
        claims.push(at_least(
            &claim,
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
    claims.push(at_least(
        "Intel: MCS is 1.25 times faster than C-TKT-MCS under low contention",
        SOURCE,
        Figure::Section,
        1.1,
        low("e7-4850", COHORT, 39),
        low("e7-4850", "mcs-spin", 39),
    ));
    let source = "SANL, section 4.2";
    let claim = "Intel: MCS under low contention: a section, one line".to_owned();
    claims.push(cycles(claim, source, 803.0, low("e7-4850", "mcs-spin", 39)));
    let claim = "AMD: MCS under low contention: a section, one line".to_owned();
    claims.push(cycles(claim, source, 2368.0, low("opteron-6274", "mcs-spin", 63)));
    claims.push(not_modelled(
        "SANL against MCS under high contention",
        source,
        "4.6x on Intel, 3.8x on AMD",
        DELEGATION,
    ));
    claims
}

fn thesis() -> Vec<Claim> {
    const SCHEDULING: &str = "Guiroux, section 4.5.1 (scheduling)";
    const UNCONTENDED: &str = "Guiroux, section 4.5.1 (uncontended acquisitions)";
    let alone = |lock| point("a-64", lock, Frame { window: 2_000_000, ..Frame::SHORT }, every(Fixed(1000)));
    let crowded = |lock, threads| point("a-64", lock, Frame { threads, ..SOME_SLICES }, every(About(2000)));
    let mut claims = vec![
        cycles("An uncontended Spinlock".to_owned(), UNCONTENDED, 40.0, alone("tas")),
        cycles("An uncontended HMCS".to_owned(), UNCONTENDED, 190.0, alone("hmcs-spin")),
    ];
    for (name, lock) in
        [("MCS", "mcs-spin"), ("Ticket", "ticket"), ("CLH", "clh-spin"), ("HMCS", "hmcs-spin")]
    {
        let claim = format!("{name} collapses with two threads a core: holders and waiters are preempted");
        claims.push(at_least(
            &claim,
            SCHEDULING,
            Figure::Throughput,
            10.0,
            crowded(lock, 64),
            crowded(lock, 128),
        ));
    }
    let claim = "Pthread does not collapse with two threads a core";
    claims.push(at_most(
        claim,
        SCHEDULING,
        Figure::Throughput,
        2.0,
        crowded("futex", 64),
        crowded("futex", 128),
    ));
    claims
}

fn gcr() -> Vec<Claim> {
    const SIX: &str = "GCR, figure 6";
    const SEVEN: &str = "GCR, figure 7";
    const NINE: &str = "GCR, figure 9";
    const ELEVEN: &str = "GCR, figure 11";
    // Much of the tree's time is spent in the section, and some lines of it are shared.
    let tree = |lock, threads| {
        let micro = Micro { lines: 4, work: Fixed(300), ..every(About(1000)) };
        point("x6-2", lock, Frame { threads, ..SOME_SLICES }, micro)
    };
    let of =
        |claim: &str, source, figure, factor, more, less| at_least(claim, source, figure, factor, more, less);
    use Figure::{HandOff, Throughput, Unfairness};
    vec![
        of(
            "MCS collapses with more threads than CPUs",
            SIX,
            Throughput,
            10.0,
            tree("mcs-spin", 40),
            tree("mcs-spin", 80),
        ),
        at_most(
            "MCS is stable up to the machine's CPUs",
            SIX,
            Throughput,
            1.5,
            tree("mcs-spin", 20),
            tree("mcs-spin", 40),
        ),
        of(
            "Malthusian MCS collapses as MCS does",
            SIX,
            Throughput,
            10.0,
            tree("malth-spin", 40),
            tree("malth-spin", 80),
        ),
        at_most(
            "GCR(MCS) does not collapse",
            SIX,
            Throughput,
            1.5,
            tree("gcr(mcs-spin)", 40),
            tree("gcr(mcs-spin)", 80),
        ),
        at_most(
            "GCR costs MCS at most 12% without over-subscription",
            SIX,
            Throughput,
            1.14,
            tree("mcs-spin", 20),
            tree("gcr(mcs-spin)", 20),
        ),
        of(
            "GCR-NUMA(MCS) is better than GCR(MCS)",
            SIX,
            Throughput,
            1.0,
            tree("gcr-numa(mcs-spin)", 40),
            tree("gcr(mcs-spin)", 40),
        ),
        of(
            "MCS-STP is poor at few threads already: GCR(MCS-STP) is better",
            SIX,
            Throughput,
            1.0,
            tree("gcr(mcs-stp)", 20),
            tree("mcs-stp", 20),
        ),
        of(
            "TTAS drops at low thread counts: 20 threads do less than 2",
            SIX,
            Throughput,
            1.0,
            tree("ttas", 2),
            tree("ttas", 20),
        ),
        of("GCR mends that of TTAS", SIX, Throughput, 1.0, tree("gcr(ttas)", 40), tree("ttas", 40)),
        of(
            "POSIX drops at low thread counts: 20 threads do less than 2",
            SIX,
            Throughput,
            1.0,
            tree("futex", 2),
            tree("futex", 20),
        ),
        of("GCR mends that of POSIX", SIX, Throughput, 1.0, tree("gcr(futex)", 40), tree("futex", 40)),
        at_most(
            "POSIX keeps up with more threads than CPUs",
            SIX,
            Throughput,
            2.0,
            tree("futex", 40),
            tree("futex", 80),
        ),
        at_most(
            "The hand-off under GCR(MCS) is the same at all thread counts",
            SEVEN,
            HandOff,
            1.5,
            tree("gcr(mcs-spin)", 80),
            tree("gcr(mcs-spin)", 10),
        ),
        of(
            "The hand-off under MCS grows with more threads than CPUs",
            SEVEN,
            HandOff,
            10.0,
            tree("mcs-spin", 80),
            tree("mcs-spin", 40),
        ),
        of(
            "Over-subscribed, GCR(Ticket) is orders faster than Ticket",
            NINE,
            Throughput,
            100.0,
            tree("gcr(ticket)", 80),
            tree("ticket", 80),
        ),
        of(
            "Over-subscribed, GCR(CLH) is orders faster than CLH",
            NINE,
            Throughput,
            100.0,
            tree("gcr(clh-spin)", 80),
            tree("clh-spin", 80),
        ),
        at_most(
            "Over-subscribed, MCS-STP gains up to 6x from GCR",
            NINE,
            Throughput,
            6.0,
            tree("gcr(mcs-stp)", 80),
            tree("mcs-stp", 80),
        ),
        of(
            "Cohort locks gain nothing from GCR before the machine is full",
            NINE,
            Throughput,
            1.0,
            tree("c-bo-mcs-spin", 20),
            tree("gcr(c-bo-mcs-spin)", 20),
        ),
        of(
            "TTAS is unfair, and GCR(TTAS) is less so",
            ELEVEN,
            Unfairness,
            1.0,
            tree("ttas", 20),
            tree("gcr(ttas)", 20),
        ),
    ]
}

fn cst() -> Vec<Claim> {
    const SOURCE: &str = "CST, figure 7b";
    let update =
        |lock, threads| point("e7-8870-v2", lock, Frame { threads, ..SOME_SLICES }, every(About(500)));
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
            update("cst-mutex", 120),
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
            update("cst-mutex", 120),
            update("cst-mutex", 240),
        ),
        at_least(
            "CST-WS is far better than the Cohort lock at 2x over-subscription",
            SOURCE,
            Throughput,
            10.0,
            update("cst-mutex", 240),
            update("c-bo-mcs-spin", 240),
        ),
        at_least(
            "CST-WS is better than CST-WA at 5x over-subscription",
            SOURCE,
            Throughput,
            1.0,
            update("cst-mutex", 600),
            update("cst-mutex(wake=65535)", 600),
        ),
        at_least(
            "CST-WS against Linux's mutex at 5x over-subscription (the text says 6x, the figure ends at 5x)",
            SOURCE,
            Throughput,
            1.7,
            update("cst-mutex", 600),
            update("linux-mutex", 600),
        ),
        not_modelled(
            "CST takes less memory than a Cohort lock made for all nodes",
            "CST, section 7.1",
            "1.5x to 10x",
            "the simulator counts no memory",
        ),
    ]
}
