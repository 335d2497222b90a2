//! Functions that serve a foreign object as a reader-writer lock.

use core::marker::PhantomData;
use core::ptr;

use lockwork_platform::{Deadline, Native};

use super::RwPlace;
use crate::api::RawRwLock;
use crate::registry::{Spec, Visitor};

/// The operations of one lock over objects of type `T`. All of them demand that the object is served by this lock, together
/// with what the operation of the same name of [`RawRwLock`] asks for.
#[derive(Debug)]
#[allow(missing_docs, reason = "named after the operations of RawRwLock")]
pub struct Operations<T> {
    pub lock_shared: unsafe fn(&T, Option<Deadline>) -> bool,
    pub lock_shared_again: unsafe fn(&T, Option<Deadline>) -> bool,
    pub try_lock_shared: unsafe fn(&T) -> bool,
    pub unlock_shared: unsafe fn(&T),
    pub lock_exclusive: unsafe fn(&T, Option<Deadline>) -> bool,
    pub try_lock_exclusive: unsafe fn(&T) -> bool,
    pub unlock_exclusive: unsafe fn(&T),
    pub forget_waiters: unsafe fn(&T),
    pub dispose: unsafe fn(&T),
}

impl<T> Clone for Operations<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Operations<T> {}

/// The operations of the lock that a spec describes.
///
/// # Panics
///
/// If there is no room for it: the parser of specs refuses a bias around a lock that is too large.
#[must_use]
pub fn operations<T: RwPlace>(spec: &Spec) -> Operations<T> {
    spec.dispatch(Build(PhantomData))
}

/// The lock `L` in an object.
///
/// # Safety
///
/// The object is served by `L` from its first use on.
#[inline(always)]
pub unsafe fn inner<T: RwPlace, L>(place: &T) -> &L {
    let lock = ptr::from_ref(place).wrapping_byte_add(T::LOCK).cast::<L>();
    // SAFETY: the bytes are there and the lock's own (`RwPlace`), of one type (I1); all-zero memory is an unlocked lock,
    // which is made of atomic cells. `Build` has seen that it fits.
    unsafe { &*lock }
}

/// Builds the operations of a lock.
struct Build<T>(PhantomData<T>);

impl<T: RwPlace> Visitor<Native> for Build<T> {
    type Output = Operations<T>;

    fn rwlock<L: RawRwLock<Native> + 'static>(self, _: impl Fn() -> L) -> Operations<T> {
        assert!(size_of::<L>() <= T::ROOM && align_of::<L>() <= align_of::<usize>(), "no room for the lock");
        Operations {
            lock_shared: lock_shared::<T, L>,
            lock_shared_again: lock_shared_again::<T, L>,
            try_lock_shared: try_lock_shared::<T, L>,
            unlock_shared: unlock_shared::<T, L>,
            lock_exclusive: lock_exclusive::<T, L>,
            try_lock_exclusive: try_lock_exclusive::<T, L>,
            unlock_exclusive: unlock_exclusive::<T, L>,
            forget_waiters: forget_waiters::<T, L>,
            dispose: dispose::<T, L>,
        }
    }
}

/// Functions over an object that `L` serves, as the caller of each promises.
macro_rules! operations {
    ($($name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?, $body:expr;)*) => {$(
        unsafe fn $name<T: RwPlace, L: RawRwLock<Native>>(place: &T, $($argument: $type),*) $(-> $result)? {
            // SAFETY: the caller's contract.
            let lock = unsafe { inner::<T, L>(place) };
            let operation: fn(&L, $($type),*) $(-> $result)? = $body;
            operation(lock, $($argument),*)
        }
    )*};
}

operations! {
    lock_shared(deadline: Option<Deadline>) -> bool, L::lock_shared;
    lock_shared_again(deadline: Option<Deadline>) -> bool, L::lock_shared_again;
    try_lock_shared() -> bool, L::try_lock_shared;
    // SAFETY: the caller's contract: a reader.
    unlock_shared(), |lock| unsafe { lock.unlock_shared() };
    lock_exclusive(deadline: Option<Deadline>) -> bool, L::lock_exclusive;
    try_lock_exclusive() -> bool, L::try_lock_exclusive;
    // SAFETY: the caller's contract: the writer.
    unlock_exclusive(), |lock| unsafe { lock.unlock_exclusive() };
    // SAFETY: the caller's contract: nobody else runs.
    forget_waiters(), |lock| unsafe { lock.forget_waiters() };
    // SAFETY: the caller's contract: nobody uses the lock.
    dispose(), |lock| unsafe { lock.dispose() };
}
