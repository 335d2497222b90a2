//! glibc's mutex as one lock more, to measure beside those of the registry.

use std::cell::UnsafeCell;
use std::time::Duration;

use lockwork_locks::RawLock;
use lockwork_locks::wait::Wait;
use lockwork_platform::{Clock, Native};

unsafe extern "C" {
    /// glibc 2.30; not in `libc`.
    fn pthread_mutex_clocklock(
        mutex: *mut libc::pthread_mutex_t,
        clock: libc::clockid_t,
        deadline: *const libc::timespec,
    ) -> libc::c_int;
}

/// glibc's default mutex. It may be moved until it is first locked.
pub(super) struct Pthread(UnsafeCell<libc::pthread_mutex_t>);

// SAFETY: a mutex is made for being called from several threads.
unsafe impl Send for Pthread {}
// SAFETY: as above.
unsafe impl Sync for Pthread {}

// SAFETY: POSIX gives the same guarantees; a default mutex has no failures for callers that lock and unlock in turn. In
// glibc, all-zero memory is one.
unsafe impl RawLock<Native> for Pthread {
    type Token = ();

    fn new() -> Self {
        Self(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER))
    }

    #[inline(always)]
    fn lock(&self) {
        // SAFETY: initialised statically.
        unsafe { libc::pthread_mutex_lock(self.0.get()) };
    }

    fn try_lock(&self) -> Option<()> {
        // SAFETY: initialised statically.
        (unsafe { libc::pthread_mutex_trylock(self.0.get()) } == 0).then_some(())
    }

    fn lock_slow(&self, wait: &Wait) -> Option<()> {
        let Some(deadline) = wait.deadline else {
            let () = self.lock();
            return Some(());
        };
        let clock = match deadline.clock {
            Clock::Realtime => libc::CLOCK_REALTIME,
            Clock::Monotonic => libc::CLOCK_MONOTONIC,
        };
        let time = Duration::from_nanos(deadline.ns);
        let time = libc::timespec {
            tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: time.subsec_nanos().into(),
        };
        // SAFETY: initialised statically, and a valid time.
        (unsafe { pthread_mutex_clocklock(self.0.get(), clock, &raw const time) } == 0).then_some(())
    }

    #[inline(always)]
    unsafe fn unlock(&self, (): ()) {
        // SAFETY: initialised statically, and the caller holds it.
        unsafe { libc::pthread_mutex_unlock(self.0.get()) };
    }

    fn is_locked(&self) -> bool {
        match self.try_lock() {
            Some(()) => {
                // SAFETY: acquired in the line above.
                unsafe { self.unlock(()) };
                false
            }
            None => true,
        }
    }

    /// There is nothing to forget: the mutex has no list of waiters. At worst its release makes a needless system call.
    unsafe fn forget_waiters(&self, _: Option<()>) {}
}
