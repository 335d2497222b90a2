//! What must not be done to a simulated machine is refused, and what goes wrong in a thread does no harm outside.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

use lockwork_platform::{AtomicCell, AtomicInt, Cpu, Pool, PoolNode};
use lockwork_sim::{End, Options, Sim, Simulation, Word, delay, machine};

const LONG: u64 = 1_000_000_000;

/// A run of which nothing is used afterwards but by tests that expect to be refused, and whose threads own nothing that
/// must be dropped.
fn new_run() -> Simulation {
    let machine = machine::named("e7-4850").expect("a machine of ours");
    // SAFETY: as above.
    unsafe { Simulation::new(&machine, Options::default()) }
}

/// The message of the panic that `work` ends with.
fn message(work: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(work)).expect_err("it is refused");
    match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(panic) => (*panic.downcast::<&str>().expect("a message")).to_owned(),
    }
}

/// The message of the panic that a thread's body ends with.
fn message_of_thread(body: impl FnOnce() + 'static) -> String {
    message(|| {
        let mut run = new_run();
        run.spawn(0, true, body);
        run.run(LONG);
    })
}

#[test]
fn a_panic_leaves_the_run_and_the_host_thread_is_as_before() {
    let word_of_dead_run = Rc::new(Cell::new(None));
    let keeps = Rc::clone(&word_of_dead_run);
    let text = message(move || {
        let mut run = new_run();
        let word: &'static Word<u32> = run.place(Word::new(0));
        keeps.set(Some(word));
        run.spawn(0, true, move || {
            word.fetch_add(1, Relaxed);
            delay(1000);
            panic!("as a test does");
        });
        // It is under way when the other panics.
        run.spawn(1, true, move || {
            while word.load(Acquire) < 2 {
                Sim::pause();
            }
        });
        run.run(LONG);
    });
    assert_eq!(text, "as a test does");
    // Without a run nothing is looked at.
    let word = word_of_dead_run.take().expect("the run had begun");
    assert!(message(|| assert_eq!(word.load(Relaxed), 0)).contains("outside a run"));
    let mut run = new_run();
    run.spawn(0, true, || delay(1000));
    assert_eq!(run.run(LONG).end, End::Finished);
}

#[test]
fn a_cell_of_nobody_s_memory_is_refused() {
    static WORD: std::sync::LazyLock<Word<u32>> = std::sync::LazyLock::new(|| Word::new(0));
    assert!(message_of_thread(|| assert_eq!(WORD.load(Relaxed), 0)).contains("not in the memory"));
    assert!(message_of_thread(|| WORD.store(1, Relaxed)).contains("not in the memory"));
    assert!(message_of_thread(|| assert_eq!(WORD.fetch_add(1, Relaxed), 0)).contains("not in the memory"));
    assert!(message(|| assert_eq!(WORD.load(Relaxed), 0)).contains("outside a run"));
}

#[test]
fn a_cell_of_another_run_is_refused() {
    let mut other = new_run();
    let word: &'static Word<u32> = other.place(Word::new(0));
    assert!(message_of_thread(move || word.store(1, Relaxed)).contains("not in the memory"));
    drop(other);
}

#[test]
fn a_run_within_a_run_is_refused() {
    let inner = RefCell::new(new_run());
    let text = message_of_thread(move || {
        inner.borrow_mut().run(LONG);
    });
    assert!(text.contains("cannot run a simulation"), "{text}");
}

#[test]
fn what_a_thread_owns_that_never_began_is_dropped_while_there_is_memory() {
    struct Looks(&'static Cell<u32>, Rc<Cell<u32>>);
    impl Drop for Looks {
        fn drop(&mut self) {
            self.1.set(self.0.get());
        }
    }
    let seen = Rc::new(Cell::new(0));
    let mut run = new_run();
    let looks = Looks(run.place(Cell::new(7)), Rc::clone(&seen));
    run.spawn(0, true, move || drop(looks));
    drop(run);
    assert_eq!(seen.get(), 7);
}

#[test]
fn a_cell_tells_its_value_to_nobody_outside() {
    assert_eq!(format!("{:?}", Word::new(5_u32)), "Word { .. }");
}

#[test]
fn memory_is_aligned_or_refused() {
    #[repr(align(4096))]
    struct Page(u8);
    #[repr(align(8192))]
    struct Pages(u8);
    let mut run = new_run();
    let page = run.place(Page(3));
    assert_eq!((std::ptr::from_ref(page).addr() % 4096, page.0), (0, 3));
    assert!(message(|| assert_eq!(run.place(Pages(3)).0, 3)).contains("aligned"));
}

struct Node(Word<u32>);

impl PoolNode<Sim> for Node {
    fn new() -> Self {
        Self(Word::new(0))
    }
}

#[test]
fn a_node_that_is_used_again_keeps_its_initial_values() {
    let mut run = new_run();
    let place: Rc<Cell<Option<std::ptr::NonNull<Node>>>> = Rc::default();
    let (shown, shares) = (Rc::clone(&place), Rc::clone(&place));
    let seen = Rc::new(Cell::new((0, 1)));
    let result = Rc::clone(&seen);
    // It takes the line away, so that the store to it is on its way for a while.
    run.spawn(39, true, move || {
        delay(10_000);
        let node = shares.get().expect("made by then");
        // SAFETY: it is not freed before cycle 20,000.
        let node = unsafe { node.as_ref() };
        node.0.fetch_add(1, Relaxed);
    });
    run.spawn(0, true, move || {
        let node = Sim::alloc_node::<Node>();
        shown.set(Some(node));
        delay(20_000);
        // SAFETY: the other thread is through with it.
        unsafe { node.as_ref() }.0.store(7, Relaxed);
        // SAFETY: nobody uses it any more.
        unsafe { Sim::free_node(node) };
        let again = Sim::alloc_node::<Node>();
        let same = u32::from(again == node);
        delay(10_000);
        // SAFETY: just made.
        let value = unsafe { again.as_ref() }.0.load(Relaxed);
        result.set((same, value));
    });
    assert_eq!(run.run(LONG).end, End::Finished);
    assert_eq!(seen.get(), (1, 0), "the same memory, with the initial value");
}
