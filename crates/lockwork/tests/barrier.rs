//! The kernel's barrier is registered with the first lock that would fence without it, and not before. The one test of its process.

use lockwork::DynLock;
use lockwork_platform::sys::{Membarrier, membarrier};

#[test]
fn the_first_lock_with_a_light_side_registers_the_barrier() {
    let is_registered = || membarrier(Membarrier::Expedited);
    assert!(!is_registered());
    for spec in ["ttas", "cst-mutex", "gcr(mcs-stp)"] {
        DynLock::new(spec).expect(spec);
        assert!(!is_registered(), "{spec}");
    }
    DynLock::new("biased(ttas)").expect("a lock");
    let is_allowed = membarrier(Membarrier::Register);
    assert_eq!(is_registered(), is_allowed);
}
