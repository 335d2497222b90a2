//! What GCR's paper says: its AVL tree behind one lock.
//!
//! The paper gives few figures in its text and draws the others: what it draws is here in words, with thresholds of ours.

use super::{
    Claim, Figure, Quantity, Rule, SOME_SLICES, Whose, at_least, at_most, claim, more_than, near, point,
    ratio,
};
use crate::validate::point::Point;
use crate::workload::{Frame, Map};

const SIX: &str = "GCR, figure 6";
const TEXT: &str = "GCR, section 6.1";
const SEVEN: &str = "GCR, figure 7";
const EIGHT: &str = "GCR, figure 8";
const NINE: &str = "GCR, figure 9";
const NINE_LARGE: &str = "GCR, figure 9 (X5-4)";
const ELEVEN: &str = "GCR, figure 11";

/// For what takes longer than [`SOME_SLICES`] to show. GCR admits a passive thread every twenty million cycles or so: which thread
/// does how much takes some dozens of these. And a lock that collapses is four times slower, or six, once all its threads have
/// been preempted in turn. Throughput of the others is the same with either window, to within three hundredths.
const LONG: Frame = Frame { window: 1_000_000_000, ..SOME_SLICES };

/// The paper's machine.
const X6_2: &str = "x6-2";
/// Its larger one, of which it says that most conclusions hold there, too.
const X5_4: &str = "x5-4";

fn tree(lock: &'static str, threads: usize) -> Point {
    point(X6_2, lock, Frame { threads, ..SOME_SLICES }, Map::GCR)
}

fn long(lock: &'static str, threads: usize) -> Point {
    point(X6_2, lock, Frame { threads, ..LONG }, Map::GCR)
}

pub(super) fn claims() -> Vec<Claim> {
    [some_locks(), instances(), many_locks(), larger_machine()].into_iter().flatten().collect()
}

/// What a lock has less of throughput than another, in percent.
fn loss(words: impl Into<String>, published: &str, rule: Rule, this: Point, that: Point) -> Claim {
    claim(words, TEXT, published, Quantity::loss(Figure::Throughput, [this, that]), rule)
}

/// Figures 6 and 7.
fn some_locks() -> Vec<Claim> {
    use Figure::{HandOff, Throughput};
    let of = at_least;
    let mut claims = vec![
        of(
            "MCS collapses with more threads than CPUs",
            SIX,
            Throughput,
            10.0,
            tree("mcs-spin", 40),
            long("mcs-spin", 80),
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
        loss(
            "What GCR costs MCS with a single thread",
            "2%",
            // Half a percentage point is as good as two for a lock that nobody waits for.
            Rule::Near { value: 2.0, within: super::WITHIN, slack: 2.0 },
            tree("gcr(mcs-spin)", 1),
            tree("mcs-spin", 1),
        ),
    ];
    for threads in [10, 20, 40] {
        claims.push(loss(
            format!("What GCR costs MCS with {threads} threads, of 40 CPUs"),
            "at most 12%",
            Rule::AtMost(12.0, Whose::Theirs),
            tree("gcr(mcs-spin)", threads),
            tree("mcs-spin", threads),
        ));
    }
    claims.extend([
        of(
            "GCR-NUMA(MCS) is better than GCR(MCS)",
            SIX,
            Throughput,
            1.0,
            tree("gcr-numa(mcs-spin)", 40),
            tree("gcr(mcs-spin)", 40),
        ),
        ratio(
            "GCR-NUMA(MCS) with 80 threads is close to its peak, which is at 10",
            TEXT,
            Throughput,
            1.0,
            tree("gcr-numa(mcs-spin)", 80),
            tree("gcr-numa(mcs-spin)", 10),
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
        ratio(
            "The hand-off under GCR(MCS) is constant: 80 threads against 10",
            SEVEN,
            HandOff,
            1.0,
            tree("gcr(mcs-spin)", 80),
            tree("gcr(mcs-spin)", 10),
        ),
        of(
            "The hand-off under MCS grows with more threads than CPUs",
            SEVEN,
            HandOff,
            10.0,
            long("mcs-spin", 80),
            tree("mcs-spin", 40),
        ),
    ]);
    claims
}

/// Figure 8: so many processes, each with a thread for every CPU of the machine. Throughput is that of all together.
fn instances() -> Vec<Claim> {
    use Figure::Throughput;
    let run = |lock, processes| point(X6_2, lock, Frame { threads: 40, processes, ..SOME_SLICES }, Map::GCR);
    let mut claims = Vec::new();
    for (name, lock) in [("GCR(MCS)", "gcr(mcs-spin)"), ("GCR-NUMA(MCS)", "gcr-numa(mcs-spin)")] {
        claims.push(claim(
            format!("{name} scales linearly with instances: four against one"),
            EIGHT,
            "linearly: 4x",
            Quantity::ratio(Throughput, [run(lock, 4), run(lock, 1)]),
            near(4.0),
        ));
    }
    for (name, lock) in [("MCS-STP", "gcr(mcs-stp)"), ("TTAS", "gcr(ttas)"), ("POSIX", "gcr(futex)")] {
        let words = format!("GCR({name}) scales well up to four instances: four against one");
        claims.push(at_least(words, EIGHT, Throughput, 2.0, run(lock, 4), run(lock, 1)));
    }
    for (name, lock, with_gcr) in [
        ("MCS", "mcs-spin", "gcr(mcs-spin)"),
        ("Malthusian MCS", "malth-spin", "gcr(mcs-spin)"),
        ("MCS-STP", "mcs-stp", "gcr(mcs-stp)"),
        ("TTAS", "ttas", "gcr(ttas)"),
    ] {
        let words = format!("With four instances {name} does much worse without GCR than with it");
        claims.push(at_least(words, EIGHT, Throughput, 2.0, run(with_gcr, 4), run(lock, 4)));
    }
    claims.push(at_most(
        "With four instances POSIX fares relatively well: GCR(POSIX) is not much better",
        EIGHT,
        Throughput,
        2.0,
        run("gcr(futex)", 4),
        run("futex", 4),
    ));
    let words = "A single instance under POSIX is worse than one under MCS";
    claims.push(at_least(words, EIGHT, Throughput, 1.0, run("mcs-spin", 1), run("futex", 1)));
    let words = "With four instances Malthusian MCS-STP is better than GCR(MCS-STP)";
    claims.push(at_least(words, EIGHT, Throughput, 1.0, run("malth-stp", 4), run("gcr(mcs-stp)", 4)));
    let words = "With four instances GCR-NUMA(MCS-STP) is better than Malthusian MCS-STP";
    claims.push(at_least(words, EIGHT, Throughput, 1.0, run("gcr-numa(mcs-stp)", 4), run("malth-stp", 4)));
    claims
}

/// Figures 9 and 11: of 24 locks, those that the text speaks of.
fn many_locks() -> Vec<Claim> {
    use Figure::{Throughput, Unfairness};
    let mut claims = Vec::new();
    // "Often" more than the one, and "for some of the locks" more than the other: of these the spinning queue locks.
    for (name, lock, with_gcr, with_numa) in [
        ("MCS", "mcs-spin", "gcr(mcs-spin)", "gcr-numa(mcs-spin)"),
        ("CLH", "clh-spin", "gcr(clh-spin)", "gcr-numa(clh-spin)"),
        ("Ticket", "ticket", "gcr(ticket)", "gcr-numa(ticket)"),
    ] {
        for (wrapper, value, wrapped) in [("GCR", 4_000.0, with_gcr), ("GCR-NUMA", 6_000.0, with_numa)] {
            let words = format!("Over-subscribed, {wrapper}({name}) against {name}");
            claims.push(more_than(words, NINE, Throughput, value, tree(wrapped, 80), long(lock, 80)));
        }
    }
    for (name, lock, with_gcr) in
        [("MCS-STP", "mcs-stp", "gcr(mcs-stp)"), ("CLH-STP", "clh-stp", "gcr(clh-stp)")]
    {
        claims.push(claim(
            format!("Over-subscribed, GCR({name}) against {name}"),
            NINE,
            "up to 6x",
            Quantity::ratio(Throughput, [tree(with_gcr, 80), tree(lock, 80)]),
            Rule::AtMost(6.0, Whose::Theirs),
        ));
    }
    claims.push(at_least(
        "Cohort locks gain nothing from GCR before the machine is full",
        NINE,
        Throughput,
        1.0,
        tree("c-bo-mcs-spin", 20),
        tree("gcr(c-bo-mcs-spin)", 20),
    ));
    claims.push(at_least(
        "TTAS is unfair, and GCR(TTAS) is less so",
        ELEVEN,
        Unfairness,
        1.0,
        tree("ttas", 20),
        long("gcr(ttas)", 20),
    ));
    claims.push(at_least(
        "GCR-NUMA(TTAS) is fairer than GCR(TTAS)",
        ELEVEN,
        Unfairness,
        1.0,
        long("gcr(ttas)", 20),
        long("gcr-numa(ttas)", 20),
    ));
    claims
}

/// Figure 9, of which the paper prints no numbers for this machine.
fn larger_machine() -> Vec<Claim> {
    use Figure::Throughput;
    let tree = |lock, threads| point(X5_4, lock, Frame { threads, ..SOME_SLICES }, Map::GCR);
    let mut claims = Vec::new();
    for (name, lock, wrapped) in [
        ("MCS", "mcs-spin", "gcr(mcs-spin)"),
        ("MCS-STP", "mcs-stp", "gcr(mcs-stp)"),
        ("TTAS", "ttas", "gcr(ttas)"),
        ("POSIX", "futex", "gcr(futex)"),
        ("C-BO-MCS", "c-bo-mcs-spin", "gcr(c-bo-mcs-spin)"),
    ] {
        let words = format!("X5-4, over-subscribed (288 threads): {name} gains from GCR, as all locks do");
        claims.push(at_least(words, NINE_LARGE, Throughput, 1.0, tree(wrapped, 288), tree(lock, 288)));
    }
    for (name, lock, wrapped) in [
        ("MCS", "mcs-spin", "gcr-numa(mcs-spin)"),
        ("TTAS", "ttas", "gcr-numa(ttas)"),
        ("POSIX", "futex", "gcr-numa(futex)"),
    ] {
        let words = format!("X5-4, above half of its CPUs (108 threads): {name} gains from GCR-NUMA");
        claims.push(at_least(words, NINE_LARGE, Throughput, 1.0, tree(wrapped, 108), tree(lock, 108)));
    }
    let words = "X5-4, before it is full (72 threads): a Cohort lock gains nothing from GCR";
    let (alone, wrapped) = (tree("c-bo-mcs-spin", 72), tree("gcr(c-bo-mcs-spin)", 72));
    claims.push(at_least(words, NINE_LARGE, Throughput, 1.0, alone, wrapped));
    claims
}
