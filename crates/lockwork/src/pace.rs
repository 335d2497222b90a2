//! Threads that request section after section give way to others of their process: [`Pace`].

use std::cell::Cell;

use lockwork_locks::delegation::pace::Pace;
use lockwork_platform::Native;

thread_local! {
    static PACE: Cell<Pace> = const { Cell::new(Pace::new()) };
}

/// After each request, outside of sections.
#[inline(always)]
pub fn give_way() {
    let mut pace = PACE.get();
    pace.step::<Native>();
    PACE.set(pace);
}
