//! Locks chosen at run time.

use std::fmt;

use lockwork_locks::RawLock;
use lockwork_locks::registry::Visitor;
use lockwork_locks::registry::erased::{ErasedLock, Held};
use lockwork_locks::registry::{self, Spec};
use lockwork_platform::{Deadline, Native};

use crate::lock::Lock;
use crate::mutex::Mutex;

/// A lock spec that names no lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecError {
    message: String,
    offset: usize,
}

impl SpecError {
    pub(crate) fn new(message: String, offset: usize) -> Self {
        Self { message, offset }
    }

    /// Byte offset in the spec at which the problem is.
    #[must_use]
    pub fn offset(&self) -> usize {
        self.offset
    }
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for SpecError {}

impl From<registry::SpecError<'_>> for SpecError {
    fn from(error: registry::SpecError<'_>) -> Self {
        Self { message: error.to_string(), offset: error.offset() }
    }
}

/// Builds the lock of a spec.
struct Build;

impl Visitor<Native> for Build {
    type Output = Box<dyn ErasedLock<Native>>;

    fn mutex<L: RawLock<Native> + 'static>(self, new: impl Fn() -> L) -> Self::Output {
        Box::new(new())
    }
}

/// A lock that is chosen at run time, by a lock spec such as `ticket` or `gcr(mcs-stp, active=4)`.
///
/// It costs an indirect call more than a lock whose type is known.
pub struct DynLock {
    spec: Spec,
    #[cfg(feature = "profile")]
    name: &'static str,
    lock: Box<dyn ErasedLock<Native>>,
}

impl DynLock {
    /// An unlocked lock of the kind that `spec` describes.
    ///
    /// # Errors
    ///
    /// [`SpecError`], which says what is wrong with the spec and what to write instead.
    pub fn new(spec: &str) -> Result<Self, SpecError> {
        let spec = Spec::mutex(spec).map_err(SpecError::from)?;
        spec.prepare();
        Ok(Self {
            spec,
            #[cfg(feature = "profile")]
            name: kept(spec.to_string()),
            lock: spec.dispatch(Build),
        })
    }
}

/// Shows the spec.
impl fmt::Display for DynLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.spec.fmt(f)
    }
}

impl fmt::Debug for DynLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DynLock").field(&format_args!("{}", self.spec)).finish()
    }
}

// SAFETY: the boxed lock's guarantees, which is what all calls go to.
unsafe impl Lock for DynLock {
    type Token = usize;

    fn lock(&self) -> usize {
        self.lock.lock().0
    }

    fn try_lock(&self) -> Option<usize> {
        self.lock.try_lock().map(|held| held.0)
    }

    fn try_lock_until(&self, deadline: Deadline) -> Option<usize> {
        self.lock.try_lock_until(deadline).map(|held| held.0)
    }

    unsafe fn unlock(&self, token: usize) {
        // SAFETY: the caller's contract.
        unsafe { self.lock.unlock(Held(token)) };
    }

    fn is_locked(&self) -> bool {
        self.lock.is_locked()
    }

    #[cfg(feature = "profile")]
    fn name(&self) -> &str {
        self.name
    }
}

/// The name of a kind of lock, which is kept: the recorder knows names by their addresses.
#[cfg(feature = "profile")]
fn kept(name: String) -> &'static str {
    static NAMES: std::sync::Mutex<Vec<&'static str>> = std::sync::Mutex::new(Vec::new());
    let mut names = NAMES.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some(name) = names.iter().find(|there| **there == name) {
        return name;
    }
    let name = String::leak(name);
    names.push(name);
    name
}

/// A [`Mutex`] whose lock is chosen at run time.
pub type DynMutex<T> = Mutex<T, DynLock>;

impl<T> DynMutex<T> {
    /// An unlocked mutex with the lock that `spec` describes.
    ///
    /// ```
    /// use lockwork::DynMutex;
    ///
    /// let count = DynMutex::with_spec("gcr(mcs-stp, active=2)", 0)?;
    /// *count.lock() += 1;
    /// assert_eq!(count.lock_ref().to_string(), "gcr(mcs-stp, active=2)");
    ///
    /// let error = DynMutex::with_spec("tiket", 0).unwrap_err();
    /// assert_eq!(error.to_string(), "unknown lock `tiket`: did you mean `ticket`?");
    /// # Ok::<(), lockwork::SpecError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`SpecError`], which says what is wrong with the spec and what to write instead.
    pub fn with_spec(spec: &str, value: T) -> Result<Self, SpecError> {
        Ok(Self::from_lock(DynLock::new(spec)?, value))
    }
}
