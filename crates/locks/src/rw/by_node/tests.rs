//! How a node gets its word, step by step.

use lockwork_platform::{AtomicCell, Native};

use super::shared::{BARRED, NEW, READER, Shared};
use super::variants::CRwNp;
use super::*;
use crate::api::RawLock;
use crate::hierarchical::combinations::CTktTkt;

/// The lock, and what it shares.
fn made(lock: &CRwNp<Native>) -> &Shared<Native, CTktTkt<Native>> {
    lock.shared.peek_or_make()
}

#[test]
fn a_reader_that_is_about_to_make_its_nodes_word_is_in_no_writers_way() {
    let lock = CRwNp::<Native>::unlocked();
    let shared = made(&lock);
    let word = shared.make_word(0).expect("memory");
    assert!(lock.try_lock_exclusive(), "nobody holds the lock");
    assert_eq!(word.load(Relaxed), NEW | BARRED);
    assert!(!shared.enter_first(0), "a writer holds the lock");
    // SAFETY: the writer.
    unsafe { lock.unlock_exclusive() };
    assert_eq!(word.load(Relaxed), 0);
    assert!(!lock.is_locked());
}

#[test]
fn a_word_is_made_while_a_writer_is_on_its_way() {
    let lock = CRwNp::<Native>::unlocked();
    let shared = made(&lock);
    let token = shared.writers.try_lock().expect("a free lock");
    assert!(shared.enter_first(1));
    assert_eq!(shared.word_of(1).map(|word| word.load(Relaxed)), Some(0), "live");
    assert_eq!(shared.readers(), READER);
    // SAFETY: acquired above.
    unsafe { shared.writers.unlock(token) };
    assert!(!lock.try_lock_exclusive(), "a reader");
    // SAFETY: a reader.
    unsafe { lock.unlock_shared() };
    assert!(lock.try_lock_exclusive());
}

/// A writer that lifts bars one after the other leaves alone what has become live in between.
#[test]
fn a_word_that_becomes_live_while_bars_are_lifted_keeps_its_readers() {
    let lock = CRwNp::<Native>::unlocked();
    let shared = made(&lock);
    assert!(lock.try_lock_exclusive());
    let word = shared.make_word(2).expect("memory");
    assert!(shared.word_of(2).is_none(), "new");
    // As a reader that has found the first node open.
    word.store(READER, Relaxed);
    // SAFETY: the writer.
    unsafe { lock.unlock_exclusive() };
    assert_eq!(word.load(Relaxed), READER);
    assert!(!lock.try_lock_exclusive(), "a reader");
}
