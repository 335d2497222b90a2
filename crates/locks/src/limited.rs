//! A limit in time for tests that hang where a lock is wrong.

extern crate std;

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// Far more than any test needs.
const LIMIT: Duration = Duration::from_secs(120);

/// Runs a test, and fails if it does not end in time; its threads are left behind then.
pub(crate) fn limited(test: fn()) {
    let (end, ended) = channel();
    let thread = thread::spawn(move || {
        test();
        let _ = end.send(());
    });
    match ended.recv_timeout(LIMIT) {
        Err(RecvTimeoutError::Timeout) => panic!("no end after {LIMIT:?}"),
        // What it panicked with, it has said itself.
        Ok(()) | Err(RecvTimeoutError::Disconnected) => thread.join().expect("the test"),
    }
}
