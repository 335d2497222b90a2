//! The waiters of one broadcast.

use core::ptr;

use lockwork_platform::{DataCell, Platform};

use super::waiter::{Link, Waiter};

/// Claimed waiters of one broadcast, oldest first, linked by `next`.
pub(super) struct Chain<P: Platform> {
    first: Link<P>,
    last: Link<P>,
    /// Whether all of them take the same lock afterwards.
    one_lock: bool,
}

impl<P: Platform> Chain<P> {
    pub(super) fn new() -> Self {
        Self { first: Link::NONE, last: Link::NONE, one_lock: true }
    }

    #[expect(clippy::multiple_unsafe_ops_per_block, reason = "one reason for all: the nodes are claimed")]
    pub(super) fn push(&mut self, waiter: &Waiter<P>) {
        // SAFETY: claimed nodes are the claimer's until it grants them (I4), for this block.
        unsafe {
            waiter.next.set(Link::NONE);
            match self.last.get() {
                Some(last) => {
                    self.one_lock &= last.lock.get() == waiter.lock.get();
                    last.next.set(waiter.link());
                }
                None => self.first = waiter.link(),
            }
        }
        self.last = waiter.link();
    }

    /// Grants the first `width` waiters, having chained the others to them at that distance. Where
    /// they take different locks, one might wait for a lock that another's progress frees: then all are granted now.
    pub(super) fn wake(self, width: usize) {
        // SAFETY: see `push`; nodes are read before they are granted, for this function.
        let node = |link: Link<P>| unsafe { link.get() };
        // SAFETY: as above.
        let follow = |link| node(link).map_or(Link::NONE, |waiter| unsafe { waiter.next.get() });
        let mut ahead = self.first;
        if self.one_lock {
            for _ in 0..width.max(1) {
                ahead = follow(ahead);
            }
            let (mut behind, mut follower) = (self.first, ahead);
            // SAFETY: as above.
            while let (Some(waiter), false) = (unsafe { behind.get() }, follower.0.is_null()) {
                // SAFETY: as above.
                unsafe { waiter.chained.set(follower) };
                (behind, follower) = (follow(behind), follow(follower));
            }
        } else {
            ahead = Link::NONE;
        }
        let mut next = self.first;
        while !next.0.is_null() && !ptr::eq(next.0, ahead.0) {
            let waiter = next;
            next = follow(waiter);
            // SAFETY: claimed and not granted yet.
            if let Some(waiter) = unsafe { waiter.get() } {
                waiter.grant();
            }
        }
    }
}
