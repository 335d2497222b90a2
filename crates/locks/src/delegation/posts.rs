//! Sections that nobody waits for: a thread posts one and goes on.
//!
//! A post is left on a stack beside the delegate. If the delegate is idle, the thread that posts runs it at once;
//! otherwise a thread that executes at that moment does, after its own section.
//!
//! # State
//!
//! ```text
//! newest → post → … → oldest → null
//! ```
//!
//! # Invariants
//!
//! - I1: a post belongs to the thread that made it until its compare-and-swap puts it on the stack, and then to the section that
//!   takes the stack.
//! - I2: no post stays while nobody executes: a thread that posts tries to execute afterwards, and if it cannot, because
//!   another thread executes, that one looks at the stack after it has. A barrier on both sides, of which the one after
//!   every section costs nothing.
//!
//! # Ordering
//!
//! - E1: the compare-and-swap that pushes a post (Release) → the swap that takes the stack (Acquire): the post and its link.

use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use lockwork_platform::{AtomicCell, DataCell, Platform, PoolNode};

use super::{Delegate, Section};

/// One post.
#[repr(C)]
pub struct Post<P: Platform> {
    next: P::Ptr<Post<P>>,
    section: P::Data<Option<Section>>,
}

impl<P: Platform> core::fmt::Debug for Post<P> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Post").finish_non_exhaustive()
    }
}

impl<P: Platform> PoolNode<P> for Post<P> {
    fn new() -> Self {
        Self { next: P::Ptr::new(ptr::null_mut()), section: P::Data::new(None) }
    }
}

/// The posts for one delegate. All-zero memory has none.
#[repr(transparent)]
pub struct Posts<P: Platform> {
    newest: P::Ptr<Post<P>>,
}

impl<P: Platform> core::fmt::Debug for Posts<P> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Posts").field("newest", &self.newest.load(Relaxed)).finish()
    }
}

impl<P: Platform> Default for Posts<P> {
    fn default() -> Self {
        Self::none()
    }
}

/// Runs all posts: a section.
unsafe fn run_all<P: Platform>(posts: *mut ()) {
    // SAFETY: those of the thread that executes this, which are alive meanwhile.
    let posts = unsafe { &*posts.cast::<Posts<P>>() };
    posts.run_taken();
}

impl<P: Platform> Posts<P> {
    /// No posts.
    #[must_use]
    pub fn none() -> Self {
        Self { newest: P::Ptr::new(ptr::null_mut()) }
    }

    /// Leaves `section` to be run by `delegate`, once, by whatever thread, now or a little later.
    ///
    /// # Safety
    ///
    /// What it points to stays valid until it has run. These posts belong to `delegate`, which outlives the section.
    pub unsafe fn post<D: Delegate<P> + ?Sized>(&self, section: Section, delegate: &D) {
        let post = P::alloc_node::<Post<P>>();
        {
            // SAFETY: I1.
            let post = unsafe { post.as_ref() };
            // SAFETY: I1.
            unsafe { post.section.set(Some(section)) };
            let mut newest = self.newest.load(Relaxed);
            loop {
                post.next.store(newest, Relaxed); // ORDER: E1, below.
                // ORDER: Release is E1.
                match self.newest.compare_exchange(newest, ptr::from_ref(post).cast_mut(), Release, Relaxed) {
                    Ok(_) => break,
                    Err(now) => newest = now,
                }
            }
        }
        P::heavy_barrier(); // ORDER: I2.
        self.run_if_idle(delegate);
    }

    /// Sees to posts that came meanwhile. After every [`Delegate::execute`] of `delegate`.
    #[inline(always)]
    pub fn settle<D: Delegate<P> + ?Sized>(&self, delegate: &D) {
        P::light_barrier(); // ORDER: I2.
        if !self.newest.load(Relaxed).is_null() {
            self.run_slow(delegate);
        }
    }

    /// By a thread that executed without knowing whether others did.
    #[cold]
    fn run_slow<D: Delegate<P> + ?Sized>(&self, delegate: &D) {
        P::heavy_barrier(); // ORDER: I2: this thread may find another one executing, as one that posts.
        self.run_if_idle(delegate);
    }

    fn run_if_idle<D: Delegate<P> + ?Sized>(&self, delegate: &D) {
        loop {
            // SAFETY: it does not unwind, as no section does, and these posts are alive.
            let all = unsafe { Section::new(run_all::<P>, ptr::from_ref(self).cast_mut().cast()) };
            // SAFETY: as above.
            if !unsafe { delegate.try_execute(all) } {
                return;
            }
            P::light_barrier(); // ORDER: I2: this thread has executed.
            if self.newest.load(Relaxed).is_null() {
                return;
            }
            P::heavy_barrier(); // ORDER: I2: as in `run_slow`.
        }
    }

    /// Runs the posts that are there, the oldest first. Inside a section of the delegate.
    fn run_taken(&self) {
        // ORDER: Acquire is E1.
        let mut stack = self.newest.swap(ptr::null_mut(), Acquire);
        let mut oldest: *mut Post<P> = ptr::null_mut();
        // SAFETY: I1.
        while let Some(post) = unsafe { stack.as_ref() } {
            let above = stack;
            stack = post.next.load(Relaxed); // ORDER: E1, as all that this thread reads of the stack.
            post.next.store(oldest, Relaxed);
            oldest = above;
        }
        while let Some(at) = NonNull::new(oldest) {
            // SAFETY: I1.
            let post = unsafe { at.as_ref() };
            // SAFETY: I1.
            let section = unsafe { post.section.get() };
            oldest = post.next.load(Relaxed);
            // SAFETY: I1: nobody else knows of it.
            unsafe { P::free_node(at) };
            if let Some(section) = section {
                // SAFETY: this is a section of the delegate, and each post is taken once.
                unsafe { section.run() };
            }
        }
    }
}
