//! What GCR's paper says: its AVL tree behind one lock.

use super::{Claim, Figure, SOME_SLICES, at_least, at_most, point};
use crate::workload::{Frame, Map};

pub(super) fn claims() -> Vec<Claim> {
    const SIX: &str = "GCR, figure 6";
    const SEVEN: &str = "GCR, figure 7";
    const NINE: &str = "GCR, figure 9";
    const ELEVEN: &str = "GCR, figure 11";
    let tree = |lock, threads| point("x6-2", lock, Frame { threads, ..SOME_SLICES }, Map::GCR);
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
