//! The pool that the states of locks come from: chunks of states of one type, which stay of that type for ever, so that a thread
//! that comes late to a state finds one, if perhaps another lock's.
//!
//! Nothing is on a list. A thread that needs a state looks at those there are, from where the last look ended, and takes
//! the first that has no owner, or that no thread uses: its lock is idle, or was freed without having been destroyed. States
//! that locks have given back are remembered for the next one, a few of them. The pool grows without looking while it is
//! small, so that the locks of most programs keep what they have; and when a look finds nothing.
//!
//! # Invariants
//!
//! - I1: a chunk is initialised before it is published, and stays published; so is the type of a pool.
//! - I2: a state is taken by an exchange on its claim, by one thread: all that the pool knows are hints.
//!
//! # Ordering
//!
//! - E1: that of [`Published`]: the initialisation of a chunk, and of all that were published before.
//! - E2: that of [`Told`], of `hand` and `returned`: E1, of the thread that knew the chunk.

use core::any::TypeId;
use core::hash::{Hash, Hasher};
use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize};

use crate::nodes::{self, MOST_BLOCK};
use crate::published::{Published, Told};
use crate::{NODE_BYTES, Native, PooledState, waiters};

/// Bytes of states that a pool has before anything is taken back.
const AT_LEAST: usize = 256 * 1024;
/// Types of states that there can be.
const POOLS: usize = 128;
/// States that locks gave back and that are found at once.
const RETURNED: usize = 8;

/// A chunk of states.
#[repr(C, align(64))]
struct Chunk {
    next: AtomicPtr<Chunk>,
    states: NonNull<u8>,
    count: u32,
    /// Where the next look begins.
    hand: AtomicU32,
}

const _: () = assert!(size_of::<Chunk>() == NODE_BYTES);

/// Takes a state without an owner, or one that no thread uses.
///
/// In a child of `fork` a state that another thread was about to take back would stay closed. So only a thread takes one back
/// that those who fork wait for: all that need a state are in a release ([`Waiters::in_steps`](crate::Waiters::in_steps)), but
/// for threads that are ending, and those that ran out of patience with a fork.
fn take_from<T: PooledState<Native>>(state: &T) -> bool {
    state.take_free() || waiters::is_waited_for_by_forks() && state.take_back()
}

/// The states of one type.
struct Pool {
    /// 0 = of none yet.
    kind: AtomicU64,
    chunks: Published<Native, Chunk>,
    /// Where the next look begins; null = at the first.
    hand: Told<Native, Chunk>,
    /// Of the chunks.
    number: AtomicUsize,
    /// States that were given back.
    returned: [Told<Native, u8>; RETURNED],
}

static TABLE: [Pool; POOLS] = [const {
    Pool {
        kind: AtomicU64::new(0),
        chunks: Published::nothing(),
        hand: Told::nothing(),
        number: AtomicUsize::new(0),
        returned: [const { Told::nothing() }; RETURNED],
    }
}; POOLS];

/// Keeps the last 64 bits that are hashed, which are as good as any of a [`TypeId`].
struct Last(u64);

impl Hasher for Last {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, value: u64) {
        self.0 ^= value;
    }
}

fn kind_of<T: 'static>() -> u64 {
    let mut last = Last(0);
    TypeId::of::<T>().hash(&mut last);
    last.finish().max(1)
}

/// The pool of `T`.
fn pool_of<T: 'static>() -> &'static Pool {
    let kind = kind_of::<T>();
    let found = (0..POOLS).map(|step| &TABLE[(kind as usize).wrapping_add(step) % POOLS]).find(|pool| {
        // ORDER: Relaxed: chunks are published by themselves (E1).
        match pool.kind.load(Relaxed) {
            0 => match pool.kind.compare_exchange(0, kind, Relaxed, Relaxed) {
                Ok(_) => true,
                Err(there) => there == kind,
            },
            there => there == kind,
        }
    });
    match found {
        Some(pool) => pool,
        None => unreachable!("there are fewer types of states than pools"),
    }
}

/// How many states of `T` are in a chunk.
const fn per_chunk<T>() -> usize {
    let fit = MOST_BLOCK / size_of::<T>();
    if fit == 0 { 1 } else { fit }
}

/// Takes a state that nobody uses, or makes some. `None` if there is no memory.
pub(crate) fn take<T: PooledState<Native>>() -> Option<NonNull<T>> {
    const { assert!(size_of::<T>() <= MOST_BLOCK && align_of::<T>() <= NODE_BYTES) };
    let pool = pool_of::<T>();
    let bytes = per_chunk::<T>() * size_of::<T>();
    if let Some(state) = pool.take_returned() {
        return Some(state);
    }
    let number = pool.number.load(Relaxed);
    let found = if number * bytes >= AT_LEAST { pool.look(number) } else { None };
    // In the end there may be no memory, or another thread may have made some states meanwhile.
    found.or_else(|| pool.grow()).or_else(|| pool.look(number + 1))
}

/// Remembers a state without an owner.
pub(crate) fn give<T: PooledState<Native>>(state: NonNull<T>) {
    let pool = pool_of::<T>();
    let free = pool.returned.iter().find(|cell| cell.is_nothing()).unwrap_or(&pool.returned[0]);
    // Whatever was there is found by a look.
    free.tell(state.as_ptr().cast());
}

impl Pool {
    fn take_returned<T: PooledState<Native>>(&self) -> Option<NonNull<T>> {
        self.returned.iter().find_map(|cell| {
            let state = cell.take()?.cast::<T>();
            // SAFETY: I1.
            take_from(unsafe { state.as_ref() }).then_some(state)
        })
    }

    /// Looks through so many chunks for a state that nobody uses.
    fn look<T: PooledState<Native>>(&self, chunks: usize) -> Option<NonNull<T>> {
        let mut chunk = self.hand.pointer();
        for _ in 0..chunks {
            if chunk.is_null() {
                chunk = self.chunks.pointer(); // ORDER: E1.
            }
            // SAFETY: I1.
            let here = unsafe { chunk.as_ref() }?;
            if let Some(state) = here.take() {
                self.hand.tell(chunk);
                return Some(state);
            }
            chunk = here.next.load(Relaxed); // ORDER: E1, of this one.
        }
        self.hand.tell(chunk);
        None
    }

    /// Makes a chunk of states, and takes one of them. `None` if there is no memory.
    fn grow<T: PooledState<Native>>(&self) -> Option<NonNull<T>> {
        let count = per_chunk::<T>();
        // The reserve is for queue nodes, without which nobody can wait, and for a first chunk: where there is one, its states
        // come back.
        let take = if self.number.load(Relaxed) == 0 {
            nodes::try_take_block
        } else {
            nodes::try_take_block_of_plenty
        };
        let chunk = take(NODE_BYTES)?.cast::<Chunk>();
        let Some(states) = take(count * size_of::<T>()).map(NonNull::cast::<T>) else {
            // SAFETY: taken above, of this size.
            unsafe { nodes::give_block(chunk.cast(), NODE_BYTES) };
            return None;
        };
        for index in 0..count {
            // SAFETY: within the block, which is ours.
            let state = unsafe { states.add(index) };
            // SAFETY: as above.
            unsafe { state.write(T::new()) };
        }
        // SAFETY: new, and nobody else's.
        let taken = unsafe { states.as_ref() }.take_back();
        debug_assert!(taken, "a new state has no owner");
        self.number.fetch_add(1, Relaxed);
        let header = Chunk {
            next: AtomicPtr::new(ptr::null_mut()),
            states: states.cast(),
            count: count as u32,
            hand: AtomicU32::new(1),
        };
        // SAFETY: ours until it is published.
        unsafe { chunk.write(header) };
        // SAFETY: as above.
        let link = |next| unsafe { chunk.as_ref() }.next.store(next, Relaxed);
        // SAFETY: initialised, and I1. ORDER: E1.
        unsafe { self.chunks.push(chunk, link) };
        Some(states)
    }
}

impl Chunk {
    /// Takes a state that nobody uses.
    fn take<T: PooledState<Native>>(&self) -> Option<NonNull<T>> {
        let start = self.hand.load(Relaxed);
        (0..self.count).find_map(|step| {
            let index = (start.wrapping_add(step)) % self.count;
            // SAFETY: I1: within the chunk's block.
            let state = unsafe { self.states.cast::<T>().add(index as usize) };
            // SAFETY: I1.
            take_from(unsafe { state.as_ref() }).then(|| {
                self.hand.store(index + 1, Relaxed);
                state
            })
        })
    }
}

/// How many bytes of states of type `T` there are.
#[must_use]
pub fn bytes_of<T: 'static>() -> usize {
    pool_of::<T>().number.load(Relaxed) * per_chunk::<T>() * size_of::<T>()
}
