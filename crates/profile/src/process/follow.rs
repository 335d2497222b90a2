//! What the libraries put around an operation of a lock: what precedes it, the operation itself as a closure, and what follows.
//! While nothing is recorded, that is the operation alone.

use super::{known, recording};
use crate::format::{Mode, Region, Thread};
use crate::recorder::{Begun, Call, Target};

/// A call by the code before a return address, with this frame pointer.
#[must_use]
pub fn call(caller: usize, frame: usize) -> Call {
    Call { caller, frame }
}

/// What an attempt to acquire a lock of this kind came to.
pub fn settle(region: &Region, thread: &Thread, target: Target, is_success: bool) {
    if is_success {
        region.acquired(thread);
    } else {
        region.refused(thread, target);
    }
}

/// Follows an attempt to acquire a lock that says itself when it makes its thread wait, and that a thread does not acquire again
/// while it has it, but to read. `target` is asked for when the attempt has failed.
#[inline(always)]
pub fn acquire<R>(
    (address, mode): (usize, Mode),
    call: Call,
    target: impl FnOnce() -> Target,
    attempt: impl FnOnce() -> R,
    is_success: impl FnOnce(&R) -> bool,
) -> R {
    let Some((region, thread)) = recording() else { return attempt() };
    if region.about_to(thread, address, mode, call, false) != Begun::Followed {
        return attempt();
    }
    let result = attempt();
    if is_success(&result) {
        region.acquired(thread);
    } else {
        region.refused(thread, target());
    }
    result
}

/// Follows a release. `server` says what serves the lock, where that matters.
#[inline(always)]
pub fn release<R>(
    address: usize,
    call: Call,
    server: impl FnOnce() -> u32,
    release: impl FnOnce() -> R,
) -> R {
    let Some((region, thread)) = recording() else { return release() };
    match region.before_release(thread, address, server) {
        None => release(),
        Some(releasing) => {
            let result = release();
            region.after_release(thread, &releasing, call);
            result
        }
    }
}

/// A wait on a condition is about to begin, by this call.
pub fn keep_call_of_wait(call: Call) {
    if let Some((_, thread)) = recording() {
        thread.keep_call(call);
    }
}

/// Releases the mutex of a wait on the condition at `cond`, for the call that was kept.
pub fn release_to_wait(cond: usize, address: usize, server: impl FnOnce() -> u32, release: impl FnOnce()) {
    let Some((region, thread)) = recording() else { return release() };
    let releasing = region.before_release(thread, address, server);
    region.cond_wait_begins(thread, cond, thread.kept_call());
    release();
    if let Some(releasing) = releasing {
        region.after_release(thread, &releasing, thread.kept_call());
    }
}

/// Acquires it again.
pub fn acquire_after_wait<R>(
    address: usize,
    target: impl FnOnce() -> Target,
    attempt: impl FnOnce() -> R,
    is_success: impl FnOnce(&R) -> bool,
) -> R {
    // Also where the recorder was switched off during the wait.
    let Some((region, thread)) = known() else { return attempt() };
    region.cond_wait_ends(thread);
    acquire((address, Mode::Mutex), thread.kept_call(), target, attempt, is_success)
}
