//! Choosing a lock never allocates: it happens inside lock calls, which may be inside malloc.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::hint::black_box;

use lockwork_policy::{Kind, Policy, Site};

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

/// The system's allocator, counting this thread's calls.
struct Counting;

// SAFETY: every call is forwarded to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller keeps `alloc`'s contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps `dealloc`'s contract.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn choosing_does_not_allocate() {
    let policy = Policy::parse(
        "default = \"ttas\"\n[[rule]]\ninit = \"libfoo.so+0x12\"\nlock = \"tas\"\n\
         [[rule]]\ninit = \"Box::put\"\nlock = \"ticket\"\n[[rule]]\nsymbol = \"ns::mutex\"\nlock = \"futex\"\n\
         [[rule]]\nsymbol = \"libfoo.so+0x41\"\nlock = \"tas\"\n",
    )
    .unwrap();
    let before = ALLOCATIONS.get();
    assert!(before > 0, "parsing allocates, so the count works");
    for symbol in
        ["main", "_ZN3BoxISt6vectorIiSaIiEEE3putES2_", "_ZN3BoxILN2ns4RoleE2EE3putEv", "_ZN2ns5mutexE"]
    {
        let site = Site {
            module: Some("/usr/lib/libfoo.so.1"),
            offset: 0x13,
            symbol: Some(symbol),
            lock_module: Some("/usr/lib/libfoo.so.1"),
            lock_offset: 0x40,
            lock_symbol: Some(symbol),
            kind: Kind::Normal,
        };
        black_box(policy.lock_for(black_box(&site)));
    }
    assert_eq!(ALLOCATIONS.get(), before);
}
