//! A child of `fork`, which has one thread of its parent's.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use lockwork_platform::waiters;

/// No child takes nearly that long, and no test's own limit is shorter: a child would outlive a test that is ended.
const LIMIT: Duration = Duration::from_secs(60);

/// Runs `child` in a child process, which must not allocate; whether it returned true in time. One that hangs is ended. As under the interposer the fork
/// waits for threads that are taking a state back: those of other tests may be.
pub fn in_a_child(child: impl FnOnce() -> bool) -> bool {
    waiters::before_fork();
    // SAFETY: the child uses locks and system calls only, then ends without running destructors.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        waiters::after_fork_in_child();
        let code = i32::from(!child());
        // SAFETY: ends the child.
        unsafe { libc::_exit(code) };
    }
    let error = io::Error::last_os_error();
    waiters::after_fork();
    assert!(pid > 0, "fork: {error}");
    let start = Instant::now();
    let mut status = 0;
    loop {
        // SAFETY: `status` is a valid place for the result.
        match unsafe { libc::waitpid(pid, &raw mut status, libc::WNOHANG) } {
            0 if start.elapsed() < LIMIT => thread::sleep(Duration::from_millis(1)),
            0 => {
                // SAFETY: our own child, not yet waited for.
                unsafe { libc::kill(pid, libc::SIGKILL) };
                // SAFETY: as above.
                unsafe { libc::waitpid(pid, &raw mut status, 0) };
                return false;
            }
            _ => return status == 0,
        }
    }
}
