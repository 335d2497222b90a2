//! Twice as many pinned threads as CPUs on a machine of eight nodes: no lock that is made for it falls far behind a mutex that takes
//! no turns. `scripts/simulated.sh` has all machines and workloads.

use lockwork_locks::registry::Spec;
use lockwork_sim::workload::{Distribution, Frame, Micro, Protection, Workload};
use lockwork_sim::{Options, machine};

/// Sections under the lock, of those under `futex`.
fn beside_futex(name: &str, micro: &Micro) -> f64 {
    let machine = machine::named("a-64").expect("a machine of ours");
    // Four time slices, after one.
    let slice = 8_400_000;
    let frame = Frame { threads: 2 * machine.cpus(), warm_up: slice, window: 4 * slice, ..Frame::default() };
    let sections = |name: &str| {
        let lock = Protection::Lock(Spec::mutex(name).unwrap_or_else(|error| panic!("{name}: {error}")));
        let result = micro.run(&frame, &machine, &lock, Options::default());
        assert_eq!((&result.deadlock, &result.damage), (&None, &None), "{name}");
        result.sections as f64
    };
    sections(name) / sections("futex")
}

/// The leaders of all nodes but one spin for their turn, and must not be asleep when it comes.
#[test]
fn turns_of_nodes_end_before_the_leaders_of_others_sleep() {
    let micro = Micro { delay: Distribution::About(5_000), lines: 3, ..Micro::SHORT };
    let ratio = beside_futex("cst-mutex", &micro);
    assert!(ratio >= 0.95, "{ratio:.2} of futex");
}
