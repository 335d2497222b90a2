//! Holders of mutexes ask the kernel for time-slice extensions (`LOCKWORK_TIME_SLICE`).

use lockwork_platform::slice;

use super::{Access, Event, Layer};

/// The layer. Reader-writer locks are left out: many are held for long, and an extension is meant for short sections.
pub(super) struct Slices;

impl Layer for Slices {
    fn acquired(&self, event: Event) {
        if event.access == Access::Mutex {
            slice::acquired();
        }
    }

    fn released(&self, access: Access) {
        if access == Access::Mutex {
            slice::released();
        }
    }
}
