//! An observer of waits: what a profiler is told by threads that start to wait, and that end.
//!
//! There is one in a process, or none. It is told on contended paths only.

use core::sync::atomic::{AtomicPtr, Ordering};

use crate::tls::ThreadBlock;

/// What wants to know.
#[derive(Debug)]
pub struct Observer {
    /// The calling thread is about to wait for this address (see [`Waiters::set_waiting_on`](crate::Waiters::set_waiting_on)),
    /// and is not in a queue yet.
    pub wait_begins: fn(usize),
    /// The calling thread waits no more: it has what it waited for, or has given up, and is in no queue.
    pub wait_ends: fn(),
    /// The calling thread, which may be waiting for something else than a lock, is about to sleep in the kernel.
    pub sleeps: fn(),
    /// It does so no more.
    pub wakes: fn(),
    /// The calling thread, likewise, is about to yield its CPU.
    pub yields: fn(),
    /// The calling thread ends. It may still use locks.
    pub thread_ends: fn(),
}

static OBSERVER: AtomicPtr<Observer> = AtomicPtr::new(core::ptr::null_mut());

/// Has this one told from here on.
pub fn install(observer: &'static Observer) {
    // An observer is constant: there is nothing to publish but its address.
    OBSERVER.store(core::ptr::from_ref(observer).cast_mut(), Ordering::Relaxed);
}

fn observer() -> Option<&'static Observer> {
    // SAFETY: null, or installed, and then there for ever.
    unsafe { OBSERVER.load(Ordering::Relaxed).as_ref() }
}

/// Tells the observer.
#[inline(always)]
pub(crate) fn wait_begins(address: usize) {
    if let Some(observer) = observer() {
        (observer.wait_begins)(address);
    }
}

/// Tells the observer.
#[inline(always)]
pub(crate) fn wait_ends() {
    if let Some(observer) = observer() {
        (observer.wait_ends)();
    }
}

/// Runs what sleeps in the kernel, and tells the observer.
#[inline(always)]
pub(crate) fn sleeping<R>(sleep: impl FnOnce() -> R) -> R {
    let Some(observer) = observer() else { return sleep() };
    (observer.sleeps)();
    let result = sleep();
    (observer.wakes)();
    result
}

/// Tells the observer.
pub(crate) fn yields() {
    if let Some(observer) = observer() {
        (observer.yields)();
    }
}

/// Tells the observer.
pub(crate) fn thread_ends() {
    if let Some(observer) = observer() {
        (observer.thread_ends)();
    }
}

/// What the observer keeps of the calling thread; null at first.
#[inline(always)]
#[must_use]
pub fn place() -> *const () {
    ThreadBlock::current().observer.get()
}

/// Sets that.
pub fn set_place(place: *const ()) {
    ThreadBlock::current().observer.set(place);
}

/// Whether the observer will be told of the calling thread's end.
#[must_use]
pub fn will_hear_of_end() -> bool {
    ThreadBlock::current().may_keep()
}
