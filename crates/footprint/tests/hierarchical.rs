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
        // CST's has its words on lines by who writes them: docs/decisions/046-lines-by-who-writes-them.md
        let (one_node, all_nodes) = if lock.name.starts_with("cst-") { (400, 1_360) } else { (200, 800) };
        assert!(footprint.one_node <= one_node, "{}: {footprint:?}", lock.name);
        assert!(footprint.all_nodes <= all_nodes, "{}: {footprint:?}", lock.name);
    }
}
