//! Memory for queue nodes and lock state: what a lock sees of it.

use core::mem::ManuallyDrop;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, Ordering};

use crate::{NODE_BYTES, Native, nodes, states, sys};

/// Memory for queue nodes and lock state. No lock path allocates from the heap.
///
/// # Safety
///
/// Algorithms rely on [`Pool::alloc_node`] handing out memory nobody else uses.
pub unsafe trait Pool: Sized {
    /// Whether a lock may have been copied, bit by bit, while both copies stay in use: a program may do that to its
    /// mutexes. Otherwise a lock that is found at another address has been moved.
    fn locks_are_copied() -> bool {
        false
    }

    /// Takes a node from the pool, initialised by [`PoolNode::new`]. Nodes of at most [`NODE_BYTES`] come from
    /// a list of the thread, larger ones (lock state) from a shared list.
    fn alloc_node<T: PoolNode<Self>>() -> NonNull<T>;

    /// As [`Pool::alloc_node`], if that takes no call, so that a function that does no more needs no stack. The thread's
    /// [`Sched::scheduling_id`](crate::Sched::scheduling_id) is known then. The node has at most [`NODE_BYTES`].
    #[inline(always)]
    fn take_spare_node<T: PoolNode<Self>>() -> Option<NonNull<T>> {
        Some(Self::alloc_node())
    }

    /// As [`Pool::alloc_node`], without waiting for memory: `None` if there is none.
    fn try_alloc_node<T: PoolNode<Self>>() -> Option<NonNull<T>> {
        Some(Self::alloc_node())
    }

    /// Returns a node to the pool of the calling thread, which need not be the one that took it.
    ///
    /// # Safety
    ///
    /// `node` came from [`Pool::alloc_node`] with the same `T`, and no thread accesses it any more except by a
    /// spurious [`FutexCell::wake`](crate::FutexCell::wake).
    unsafe fn free_node<T: PoolNode<Self>>(node: NonNull<T>);

    /// Takes a state that nobody uses, made if there is none: [`PooledState::take_back`] has returned `true` for it. `None` if there
    /// is no memory.
    ///
    /// Where threads may come late to a state that has gone to another lock, memory that has once been a `T` stays one.
    fn take_state<T: PooledState<Self>>() -> Option<NonNull<T>> {
        let state = Self::alloc_node::<T>();
        // SAFETY: fresh, and nobody else's.
        let taken = unsafe { state.as_ref() }.take_back();
        assert!(taken, "a new state has no owner");
        Some(state)
    }

    /// What `take` returns once it finds memory. The calling thread waits meanwhile, and keeps nothing that others may be waiting
    /// for. Only a process can be out of memory.
    fn until_there_is_memory<T>(mut take: impl FnMut() -> Option<T>) -> T {
        take().expect("platforms other than the native one always have memory")
    }

    /// Returns a state from [`Pool::take_state`], which can be taken again.
    ///
    /// # Safety
    ///
    /// It has no owner and no users.
    unsafe fn give_state<T: PooledState<Self>>(state: NonNull<T>) {
        // SAFETY: the caller's contract.
        let kept = unsafe { state.as_ref() };
        // SAFETY: as above.
        unsafe { kept.clear() };
        // SAFETY: as above.
        unsafe { Self::free_node(state) };
    }
}

/// What a lock keeps as long as threads wait for it. The platform may take it back whenever nobody uses it.
pub trait PooledState<P>: PoolNode<P> {
    /// Takes the state from its lock, if it has one. `false`: it is in use.
    fn take_back(&self) -> bool;

    /// Takes the state if it has no owner. If the thread vanishes in the middle of it, as in a child of `fork`, the state is
    /// lost.
    fn take_free(&self) -> bool;

    /// Keeps out the threads that use the state without being counted; `None` if one is there. Called by `take_back`, and where a
    /// lock that ends gives its state back.
    fn close(&self) -> Option<usize> {
        Some(0)
    }

    /// Ends what [`PooledState::close`] began, which returned this.
    fn open(&self, closed: usize) {
        let _ = closed;
    }

    /// Gives back what the state points to.
    ///
    /// # Safety
    ///
    /// Nobody uses the state, or will.
    unsafe fn clear(&self) {}
}

/// A queue node that lives in the platform's pool: never on a stack and never in thread-local
/// storage, because a thread may exit while it holds a lock, and another may release it.
pub trait PoolNode<P>: Sized + Send + Sync + 'static {
    /// A node in its initial state.
    fn new() -> Self;
}

/// Whether locks may have been copied.
pub(crate) static LOCKS_ARE_COPIED: AtomicBool = AtomicBool::new(false);

/// Gives new memory its value, what is larger than a node, and made of words, by [`sys::copy_by_words`].
///
/// # Safety
///
/// The memory is large enough and aligned for a `T`, and nobody else uses it.
#[inline]
unsafe fn fill<T>(memory: NonNull<T>, value: T) {
    if size_of::<T>() <= NODE_BYTES || align_of::<T>() < align_of::<usize>() {
        // SAFETY: the caller's contract.
        unsafe { memory.write(value) };
    } else {
        // SAFETY: the caller's contract; the value is not used again.
        unsafe { sys::copy_by_words(&ManuallyDrop::new(value), memory.cast()) };
    }
}

// SAFETY: the pool of nodes gives every node to one owner.
unsafe impl Pool for Native {
    fn locks_are_copied() -> bool {
        LOCKS_ARE_COPIED.load(Ordering::Relaxed)
    }

    #[inline]
    fn alloc_node<T: PoolNode<Self>>() -> NonNull<T> {
        const { assert!(align_of::<T>() <= NODE_BYTES) };
        let node =
            if size_of::<T>() <= NODE_BYTES { nodes::take() } else { nodes::take_block(size_of::<T>()) }
                .cast::<T>();
        // SAFETY: the pool of nodes handed us memory of sufficient size and alignment that nobody else uses.
        unsafe { fill(node, T::new()) };
        node
    }

    #[inline(always)]
    fn take_spare_node<T: PoolNode<Self>>() -> Option<NonNull<T>> {
        const { assert!(align_of::<T>() <= NODE_BYTES && size_of::<T>() <= NODE_BYTES) };
        let node = nodes::take_spare()?.cast::<T>();
        // SAFETY: as above.
        unsafe { fill(node, T::new()) };
        Some(node)
    }

    fn try_alloc_node<T: PoolNode<Self>>() -> Option<NonNull<T>> {
        const { assert!(align_of::<T>() <= NODE_BYTES) };
        let node = if size_of::<T>() <= NODE_BYTES {
            nodes::try_take()
        } else {
            nodes::try_take_block(size_of::<T>())
        }?
        .cast::<T>();
        // SAFETY: the pool of nodes handed us memory of sufficient size and alignment that nobody else uses.
        unsafe { fill(node, T::new()) };
        Some(node)
    }

    #[inline]
    unsafe fn free_node<T: PoolNode<Self>>(node: NonNull<T>) {
        if size_of::<T>() <= NODE_BYTES {
            // SAFETY: the caller gives the node up, and nodes need no drop.
            unsafe { nodes::give(node.cast()) };
        } else {
            // SAFETY: as above, and the size is the one it was taken with.
            unsafe { nodes::give_block(node.cast(), size_of::<T>()) };
        }
    }

    fn take_state<T: PooledState<Self>>() -> Option<NonNull<T>> {
        states::take()
    }

    fn until_there_is_memory<T>(take: impl FnMut() -> Option<T>) -> T {
        nodes::until_there_is_memory(take)
    }

    unsafe fn give_state<T: PooledState<Self>>(state: NonNull<T>) {
        // It stays of its type, with what it points to: a thread may come late to it.
        states::give(state);
    }
}
