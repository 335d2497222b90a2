//! Hierarchical locks keep state for the nodes that use them.

use lockwork_footprint::Footprint;
use lockwork_locks::describe::Family;
use lockwork_locks::registry::{Spec, mutexes};

#[test]
fn states_of_hierarchical_locks_are_small_and_made_when_needed() {
    for lock in mutexes().filter(|lock| lock.descriptor.family == Family::Hierarchical) {
        let footprint = Footprint::measure(Spec::plain(lock.id), 8);
        println!("{}: {footprint:?}", lock.name);
        assert_eq!(footprint.unused, lock.descriptor.bytes, "{}", lock.name);
        assert!(footprint.one_node < 200, "{}: {footprint:?}", lock.name);
        assert!(footprint.all_nodes < 800, "{}: {footprint:?}", lock.name);
    }
}
