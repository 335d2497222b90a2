//! What a thread is registered as waiting for.

use lockwork_platform::{Clock, Native, Waiters};

use super::*;

/// As when a signal handler waits on a condition while its thread waits for a lock.
#[test]
fn a_wait_on_a_condition_puts_back_what_was_registered() {
    const LOCK: usize = 64;
    const LATE: Deadline = Deadline { clock: Clock::Monotonic, ns: 0 };
    let cond = Cond::<Native>::new();
    let now = || {
        let now = Native::set_waiting_on(LOCK);
        Native::set_waiting_on(now);
        now
    };
    Native::set_waiting_on(LOCK);
    let wait = |deadline, signalled: bool| {
        let unlock = || {
            assert_eq!(now(), cond.address());
            if signalled {
                cond.signal();
            }
        };
        cond.wait(1, deadline, &(), unlock, now)
    };
    assert_eq!(wait(Some(LATE), false), (Outcome::TimedOut, LOCK));
    assert_eq!(wait(None, true), (Outcome::Signalled, LOCK));
    Native::set_waiting_on(0);
}
