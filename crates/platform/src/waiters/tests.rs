//! What a thread that forks waits for.

extern crate std;

use std::boxed::Box;
use std::cell::RefCell;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use super::*;
use crate::Cells;

#[test]
fn a_fork_waits_for_a_release_that_takes_long() {
    static IS_DONE: AtomicBool = AtomicBool::new(false);
    let (begun, is_begun) = mpsc::channel();
    let releaser = thread::spawn(move || {
        Native::in_steps(|| {
            begun.send(()).expect("the test listens");
            // As long as it may take until a thread of a crowd runs again.
            thread::sleep(Duration::from_millis(400));
            IS_DONE.store(true, Ordering::Relaxed);
        });
    });
    is_begun.recv().expect("the thread began");
    before_fork();
    assert!(IS_DONE.load(Ordering::Relaxed), "half of a release");
    after_fork();
    releaser.join().expect("no panic");
}

std::thread_local! {
    /// What interrupts the thread at its next light barrier.
    static HANDLER: RefCell<Option<Box<dyn FnOnce()>>> = const { RefCell::new(None) };
}

/// The machine at hand, with a signal that comes at a light barrier.
struct Interrupted;

// SAFETY: as of `Native`.
unsafe impl Cells for Interrupted {
    type U32 = <Native as Cells>::U32;
    type Usize = <Native as Cells>::Usize;
    type Ptr<T: 'static> = <Native as Cells>::Ptr<T>;
    type Futex = <Native as Cells>::Futex;
    type Data<T: Copy + Send + 'static> = <Native as Cells>::Data<T>;

    fn fence(order: Ordering) {
        Native::fence(order);
    }

    fn light_barrier() {
        if let Some(handler) = HANDLER.take() {
            handler();
        }
    }

    fn heavy_barrier() {
        Native::heavy_barrier();
    }
}

#[test]
fn a_handler_that_interrupts_the_beginning_of_a_release_waits_for_a_fork_that_has_not_seen_it() {
    let steps = Arc::new(Steps::<Interrupted>::new());
    let mark = Arc::new(AtomicU32::new(0));
    steps.before_fork(|| Steps::<Interrupted>::is_marked(&mark), || false);
    let (its_steps, its_mark) = (Arc::clone(&steps), Arc::clone(&mark));
    HANDLER.set(Some(Box::new(move || {
        its_steps.begin(&its_mark, || {
            assert!(!Steps::<Interrupted>::is_marked(&its_mark), "another fork would wait");
            its_steps.after_fork();
            true
        });
        assert!(!its_steps.is_forking(), "a release in the middle of a fork");
        its_steps.end(&its_mark);
    })));
    steps.begin(&mark, || unreachable!("the fork is over"));
    assert_eq!(mark.load(Ordering::Relaxed), 1);
    steps.begin(&mark, || unreachable!("nobody forks"));
    steps.end(&mark);
    assert_eq!(mark.load(Ordering::Relaxed), 1);
    steps.end(&mark);
    assert!(!Steps::<Interrupted>::is_marked(&mark));
}

#[test]
fn a_handler_without_patience_leaves_the_release_that_it_interrupts_to_wait() {
    let steps = Arc::new(Steps::<Interrupted>::new());
    let mark = Arc::new(AtomicU32::new(0));
    steps.before_fork(|| false, || false);
    let (its_steps, its_mark) = (Arc::clone(&steps), Arc::clone(&mark));
    HANDLER.set(Some(Box::new(move || {
        its_steps.begin(&its_mark, || false);
        assert!(its_steps.is_forking());
        its_steps.end(&its_mark);
    })));
    let mut has_waited = false;
    steps.begin(&mark, || {
        has_waited = true;
        steps.after_fork();
        true
    });
    assert!(has_waited);
    steps.end(&mark);
    assert_eq!(mark.load(Ordering::Relaxed), 0);
}
