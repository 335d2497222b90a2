//! Plays for the pool's list of free memory that all threads share.

use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use lockwork_platform::batches::{Batch, Batches};
use lockwork_platform::{AtomicInt, Cells, DataCell};

use super::{Scenario, Subject};
use crate::model::{ModelPlatform, Play};

/// A batch of free memory, and what it is used for between two stays in the list.
#[repr(C)]
struct Memory<P: ModelPlatform> {
    batch: Batch<P>,
    /// Plain data: a checker of orderings sees here whether uses are ordered.
    content: P::Data<usize>,
    /// Whether a thread owns it, for checkers that see no orderings.
    is_owned: AtomicBool,
}

/// A list, some memory, and threads that take it and bring it back.
struct Stock<P: ModelPlatform> {
    list: Batches<P>,
    memory: Vec<Memory<P>>,
    /// Threads that have done their part; the last one counts what is there.
    done: <P as Cells>::Usize,
    threads: usize,
    /// What the last one counted.
    counted: AtomicUsize,
    /// How often a thread found nothing.
    missed: AtomicUsize,
}

impl<P: ModelPlatform> fmt::Debug for Stock<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stock").field("threads", &self.threads).finish_non_exhaustive()
    }
}

impl<P: ModelPlatform + 'static> Stock<P> {
    /// With so many batches, of which so many are in the list and the others are the threads'.
    fn new(threads: usize, batches: usize, listed: usize) -> Arc<Self> {
        use lockwork_platform::AtomicCell as _;
        let one =
            || Memory { batch: Batch::alone(), content: P::Data::new(0), is_owned: AtomicBool::new(true) };
        let stock = Arc::new(Self {
            list: Batches::new(),
            memory: (0..batches).map(|_| one()).collect(),
            done: P::Usize::new(0),
            threads,
            counted: AtomicUsize::new(0),
            missed: AtomicUsize::new(0),
        });
        stock.memory[..listed].iter().for_each(|memory| stock.give(memory));
        stock
    }

    /// A play at whose end all memory is in the list, and threads have missed it no more than so often.
    fn play(self: &Arc<Self>, misses: usize) -> Play {
        let stock = Arc::clone(self);
        Play::new(move || {
            assert_eq!(stock.counted.load(Relaxed), stock.memory.len(), "batches at the end");
            assert!(stock.missed.load(Relaxed) <= misses, "threads that found nothing where something was");
        })
    }

    fn give(&self, memory: &Memory<P>) {
        assert!(memory.is_owned.swap(false, Relaxed), "memory that is given back was taken");
        // SAFETY: owned, and alive as long as the list.
        unsafe { self.list.push(NonNull::from(&memory.batch)) };
    }

    /// Takes memory and uses it.
    fn take(&self) -> Option<&Memory<P>> {
        let batch = self.list.pop()?;
        // SAFETY: a batch of this list is the first field of memory that is alive as long as the list.
        let memory = unsafe { batch.cast::<Memory<P>>().as_ref() };
        assert!(!memory.is_owned.swap(true, Relaxed), "memory is taken by one thread");
        // SAFETY: owned.
        let content = unsafe { memory.content.get() };
        // SAFETY: owned.
        unsafe { memory.content.set(content + 1) };
        Some(memory)
    }

    /// Takes memory and gives it back.
    fn borrow(&self) {
        match self.take() {
            Some(memory) => self.give(memory),
            None => _ = self.missed.fetch_add(1, Relaxed),
        }
    }

    /// Ends a thread's part. The last one takes all that is there.
    fn end(&self) {
        use std::sync::atomic::Ordering::AcqRel;
        if self.done.fetch_add(1, AcqRel) + 1 == self.threads {
            while self.take().is_some() {
                self.counted.fetch_add(1, Relaxed);
            }
        }
    }
}

/// Threads take memory from the list and give it back; nobody misses any, for there is enough.
fn borrowers<P: ModelPlatform + 'static>(threads: usize, batches: usize) -> Play {
    let stock = Stock::<P>::new(threads, batches, batches);
    let mut play = stock.play(0);
    for _ in 0..threads {
        let stock = Arc::clone(&stock);
        play = play.with(move || {
            stock.borrow();
            stock.end();
        });
    }
    play
}

/// One thread gives memory of its own while others take some.
fn giver<P: ModelPlatform + 'static>(takers: usize) -> Play {
    let batches = takers + 1;
    let stock = Stock::<P>::new(takers + 1, batches, takers);
    let giver = Arc::clone(&stock);
    let mut play = stock.play(0).with(move || {
        let own = &giver.memory[batches - 1];
        // SAFETY: the thread's own.
        unsafe { own.content.set(7) };
        giver.give(own);
        giver.end();
    });
    for _ in 0..takers {
        let stock = Arc::clone(&stock);
        play = play.with(move || {
            stock.borrow();
            stock.end();
        });
    }
    play
}

/// The pool's list.
#[must_use]
pub fn pool<P: ModelPlatform + 'static>() -> Subject {
    let scenarios = vec![
        Scenario::new("two-borrow", 2, || borrowers::<P>(2, 2)),
        Scenario::new("two-borrow-of-three", 2, || borrowers::<P>(2, 3)),
        Scenario::new("three-borrow", 3, || borrowers::<P>(3, 3)).within(1),
        Scenario::new("one-gives", 2, || giver::<P>(1)),
        Scenario::new("one-gives-two-take", 3, || giver::<P>(2)).within(1),
    ];
    Subject { name: "batches".to_owned(), scenarios }
}
