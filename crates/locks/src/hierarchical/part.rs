//! What a lock must be able to do to be a part of a hierarchical lock.

use lockwork_platform::{Deadline, Platform};

use crate::api::RawLock;
use crate::competitive::backoff::Backoff;
use crate::queue::mcs::Mcs;
use crate::queue::node_lock::NodeLock;
use crate::queue::ptl::Ptl;
use crate::queue::ticket::{Patrons, Ticket};
use crate::wait::WaitPolicy;

/// A lock that can be a part of another: its waiters are known as waiters for the whole.
pub trait Part<P: Platform>: RawLock<P> + 'static {
    /// Acquires, known as a waiter for `address`; gives up at the deadline if there is one.
    fn acquire_for(&self, address: usize, deadline: Option<Deadline>) -> Option<Self::Token>;

    /// Acquires if the lock is free. A caller that has to wait after all is known as a waiter for `address`.
    fn attempt_for(&self, address: usize) -> Option<Self::Token>;

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
    /// Nobody was found who still waits: the caller keeps the lock, by this token. May be wrong about a thread
    /// that is only just arriving.
    ///
    /// # Safety
    ///
    /// As [`RawLock::unlock`].
    unsafe fn hand_over(&self, token: Self::Token) -> Result<(), Self::Token>;
}

impl<P: Platform> Part<P> for Backoff<P> {
    fn acquire_for(&self, address: usize, deadline: Option<Deadline>) -> Option<()> {
        self.lock_for(address, deadline).then_some(())
    }

    #[inline(always)]
    fn attempt_for(&self, _address: usize) -> Option<()> {
        self.try_lock()
    }

    fn clear(&self) {
        self.reset();
    }
}

// SAFETY: the only word is 0.
unsafe impl<P: Platform> GlobalLock<P> for Backoff<P> {}

impl<P: Platform, W: Patrons<P>> Part<P> for Ticket<P, W> {
    fn acquire_for(&self, address: usize, deadline: Option<Deadline>) -> Option<()> {
        self.lock_for(address, deadline).then_some(())
    }

    #[inline(always)]
    fn attempt_for(&self, address: usize) -> Option<()> {
        self.try_lock_for(address).then_some(())
    }

    fn clear(&self) {
        self.reset();
    }
}

// SAFETY: the only word is 0.
unsafe impl<P: Platform, W: Patrons<P>> GlobalLock<P> for Ticket<P, W> {}

impl<P: Platform, const N: usize> Part<P> for Ptl<P, N> {
    fn acquire_for(&self, address: usize, deadline: Option<Deadline>) -> Option<()> {
        self.lock_for(address, deadline).then_some(())
    }

    #[inline(always)]
    fn attempt_for(&self, _address: usize) -> Option<()> {
        self.try_lock()
    }

    fn clear(&self) {
        self.reset();
    }
}

// SAFETY: the only word is 0.
unsafe impl<P: Platform, const N: usize> GlobalLock<P> for Ptl<P, N> {}

impl<P: Platform, W: Patrons<P>> LocalLock<P> for Ticket<P, W> {
    #[inline]
    unsafe fn hand_over(&self, (): ()) -> Result<(), ()> {
        if !self.is_waited_for() {
            return Err(());
        }
        // SAFETY: the caller's contract. Who has drawn a number waits until it is served.
        unsafe { self.unlock(()) };
        Ok(())
    }
}

impl<P: Platform, W: WaitPolicy<P>> Part<P> for Mcs<P, W> {
    fn acquire_for(&self, address: usize, deadline: Option<Deadline>) -> Option<Self::Token> {
        NodeLock::acquire_for(self, address, deadline)
    }

    #[inline(always)]
    fn attempt_for(&self, _address: usize) -> Option<Self::Token> {
        self.try_lock()
    }

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
