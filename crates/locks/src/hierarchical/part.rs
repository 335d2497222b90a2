//! What a lock must be able to do to be a part of a hierarchical lock.

use lockwork_platform::Platform;

use crate::api::RawLock;
use crate::competitive::backoff::Backoff;
use crate::queue::mcs::Mcs;
use crate::queue::ptl::Ptl;
use crate::queue::ticket::{Ticket, TicketWait};
use crate::wait::WaitPolicy;

/// A lock that can be a part of another: its waiters are known as waiters for the whole.
pub trait Part<P: Platform>: RawLock<P> + 'static {
    /// As [`RawLock::lock_fast`], of a part of the lock at `address`, for which a caller that has to wait after all is
    /// registered.
    #[inline(always)]
    fn lock_fast_for(&self, address: usize) -> Option<Self::Token> {
        let _ = address;
        self.try_lock()
    }

    /// Frees a lock that only ghosts hold or wait for, after `fork`.
    fn clear(&self);
}

/// A lock that nodes compete for. It is thread-oblivious, as every [`RawLock`] is: the thread that releases it need not be
/// the one that acquired it.
///
/// # Safety
///
/// The words of its tokens are even.
pub unsafe trait GlobalLock<P: Platform>: Part<P> {}

/// A lock of the threads of one node, with cohort detection.
pub trait LocalLock<P: Platform>: Part<P> {
    /// Hands the lock to a thread that waits for it and will have it, if there is one.
    ///
    /// # Errors
    ///
    /// No thread was found that still waits: the caller keeps the lock, by this token. May be wrong about a thread
    /// that is only just arriving.
    ///
    /// # Safety
    ///
    /// As [`RawLock::unlock`].
    unsafe fn hand_over(&self, token: Self::Token) -> Result<(), Self::Token>;

    /// As [`LocalLock::hand_over`], by a lock of the whole machine that otherwise looks at the threads of one node only: if need be, to a
    /// thread of another.
    ///
    /// # Errors
    ///
    /// As there.
    ///
    /// # Safety
    ///
    /// As there.
    #[inline]
    unsafe fn hand_over_anywhere(&self, token: Self::Token) -> Result<(), Self::Token> {
        // SAFETY: the caller's contract.
        unsafe { self.hand_over(token) }
    }
}

impl<P: Platform> Part<P> for Backoff<P> {
    fn clear(&self) {
        self.reset();
    }
}

// SAFETY: the only word is 0.
unsafe impl<P: Platform> GlobalLock<P> for Backoff<P> {}

impl<P: Platform, W: TicketWait<P>> Part<P> for Ticket<P, W> {
    #[inline(always)]
    fn lock_fast_for(&self, address: usize) -> Option<()> {
        self.try_lock_for(address).then_some(())
    }

    fn clear(&self) {
        self.reset();
    }
}

// SAFETY: the only word is 0.
unsafe impl<P: Platform, W: TicketWait<P>> GlobalLock<P> for Ticket<P, W> {}

impl<P: Platform, const N: usize> Part<P> for Ptl<P, N> {
    fn clear(&self) {
        self.reset();
    }
}

// SAFETY: the only word is 0.
unsafe impl<P: Platform, const N: usize> GlobalLock<P> for Ptl<P, N> {}

impl<P: Platform, W: TicketWait<P>> LocalLock<P> for Ticket<P, W> {
    #[inline]
    unsafe fn hand_over(&self, (): ()) -> Result<(), ()> {
        if !self.is_waited_for() {
            return Err(());
        }
        // SAFETY: the caller's contract. A thread that has drawn a number waits until it is served.
        unsafe { self.unlock(()) };
        Ok(())
    }
}

impl<P: Platform, W: WaitPolicy<P>> Part<P> for Mcs<P, W> {
    fn clear(&self) {
        Mcs::clear(self);
    }
}

// SAFETY: nodes are aligned.
unsafe impl<P: Platform, W: WaitPolicy<P>> GlobalLock<P> for Mcs<P, W> {}

impl<P: Platform, W: WaitPolicy<P>> LocalLock<P> for Mcs<P, W> {
    #[inline]
    unsafe fn hand_over(&self, node: Self::Token) -> Result<(), Self::Token> {
        // SAFETY: the caller's contract.
        unsafe { self.grant_next(node) }
    }
}
