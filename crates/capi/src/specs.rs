//! From a spec to what serves an object: each spec that a process uses is looked up once and kept for good.
//!
//! Without a lock, so that a child of `fork` does not find it held by a thread that does not exist there.

use std::ffi::{CStr, c_char};
use std::fmt::Display;
use std::iter;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

use lockwork_platform::Native;
use lockwork_platform::published::Published;

use crate::{error, fork};

/// What serves objects: a list. Threads that ask for a new spec at once may each add it; one is as good as the other.
pub(crate) struct Served<S: 'static, O: 'static>(Published<Native, Server<S, O>>);

/// What serves the objects of one spec.
#[derive(Debug)]
pub(crate) struct Server<S, O> {
    pub(crate) spec: S,
    pub(crate) operations: O,
    /// What profiles call it.
    pub(crate) name: Box<str>,
    /// The one that was added before, or null. Written before this one is published.
    before: AtomicPtr<Server<S, O>>,
}

impl<S: PartialEq + Display, O> Served<S, O> {
    pub(crate) const fn none() -> Self {
        Self(Published::nothing())
    }

    /// What serves objects of this spec.
    pub(crate) fn by(&self, spec: S, operations: impl FnOnce(&S) -> O) -> &'static Server<S, O> {
        fork::install();
        // SAFETY: null, or published, and so kept for good.
        let before = |server: &&'static Server<S, O>| unsafe { server.before.load(Relaxed).as_ref() };
        if let Some(server) = iter::successors(self.0.get(), before).find(|server| server.spec == spec) {
            return server;
        }
        let operations = operations(&spec);
        let name = if cfg!(feature = "profile") { spec.to_string() } else { String::new() };
        let before_it = AtomicPtr::new(ptr::null_mut());
        let fresh = Box::new(Server { spec, operations, name: name.into(), before: before_it });
        let fresh = NonNull::from(Box::leak(fresh));
        // SAFETY: initialised, and never freed.
        let server = unsafe { fresh.as_ref() };
        // SAFETY: as above.
        unsafe { self.0.push(fresh, |before| server.before.store(before, Relaxed)) }
    }
}

/// The spec in a C string, or `None` where it is null or empty: the default. `Err` after the reason has been kept.
///
/// # Safety
///
/// `spec` is null or a C string.
pub(crate) unsafe fn parse<'a, S, E: Display>(
    spec: *const c_char,
    parse: impl FnOnce(&'a str) -> Result<S, E>,
) -> Result<Option<S>, ()> {
    if spec.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller's contract.
    let Ok(text) = unsafe { CStr::from_ptr(spec) }.to_str() else {
        error::set("the spec is not UTF-8");
        return Err(());
    };
    if text.is_empty() {
        return Ok(None);
    }
    parse(text).map(Some).map_err(|reason| error::set(&format!("`{text}`: {reason}")))
}
