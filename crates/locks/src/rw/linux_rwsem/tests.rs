//! Who is let in, step by step.

use super::*;
use crate::blocking::linux::sleepers::line_up;

type Node = NonNull<Sleeper<Native>>;

const READS: Wish = Wish { reads: true, claims_at: 0, is_chosen: false };
const WRITES: Wish = Wish { reads: false, claims_at: u64::MAX, is_chosen: false };
/// One that has slept for long.
const CLAIMS: Wish = Wish { claims_at: 0, ..WRITES };

fn word(lock: &LinuxRwsem<Native>) -> usize {
    lock.word.load(Relaxed).addr()
}

/// The word with so many readers, this last sleeper, and these flags.
fn expected(readers: usize, last: Option<Node>, flags: usize) -> usize {
    readers * READER + last.map_or(0, |node| node.as_ptr().addr()) + flags
}

fn said(node: Node) -> u32 {
    // SAFETY: not freed in these tests.
    unsafe { node.as_ref() }.word.load(Relaxed)
}

/// A lock that is held for writing, and for which these sleep.
fn written<const N: usize>(wishes: [Wish; N]) -> (LinuxRwsem<Native>, [Node; N]) {
    let lock = LinuxRwsem::unlocked();
    assert!(lock.lock_exclusive(None));
    let nodes = wishes.map(|wish| line_up(&lock.word, wish));
    (lock, nodes)
}

/// The same, held by readers.
fn read<const N: usize>(readers: usize, wishes: [Wish; N]) -> (LinuxRwsem<Native>, [Node; N]) {
    let lock = LinuxRwsem::unlocked();
    for _ in 0..readers {
        assert!(lock.lock_shared(None));
    }
    let nodes = wishes.map(|wish| line_up(&lock.word, wish));
    (lock, nodes)
}

fn end_write(lock: &LinuxRwsem<Native>) {
    // SAFETY: the callers hold it for writing.
    unsafe { lock.unlock_exclusive() };
}

fn end_read(lock: &LinuxRwsem<Native>) {
    // SAFETY: the callers hold it for reading.
    unsafe { lock.unlock_shared() };
}

fn leave(lock: &LinuxRwsem<Native>, node: Node) -> bool {
    // SAFETY: not freed in these tests.
    lock.leave(node, unsafe { node.as_ref() })
}

fn retry(lock: &LinuxRwsem<Native>, node: Node) -> bool {
    // SAFETY: not freed in these tests.
    lock.retry(node, unsafe { node.as_ref() })
}

#[test]
fn zeroed_memory_is_an_unlocked_lock() {
    // SAFETY: null pointers are valid atomic pointers.
    let lock: LinuxRwsem<Native> = unsafe { core::mem::zeroed() };
    assert!(lock.try_lock_exclusive() && !lock.try_lock_shared() && !lock.try_lock_exclusive());
    assert_eq!(word(&lock), LOCKED);
    end_write(&lock);
    assert_eq!(word(&lock), 0);
}

#[test]
fn all_readers_come_in_with_the_first_one() {
    let (lock, nodes) = written([READS, WRITES, READS]);
    end_write(&lock);
    assert_eq!(nodes.map(said), [GRANTED, PARKED, GRANTED]);
    assert_eq!(word(&lock), expected(2, Some(nodes[1]), 0));
    assert!(!lock.try_lock_shared(), "a writer sleeps");
    assert!(lock.lock_shared_again(None), "a reader may be one already");
    (0..3).for_each(|_| end_read(&lock));
    assert_eq!(said(nodes[1]), WAITING);
    assert_eq!(word(&lock), expected(0, Some(nodes[1]), 0));
}

#[test]
fn a_writer_told_in_vain_is_handed_the_lock_once_it_has_slept_for_long() {
    for wish in [WRITES, CLAIMS] {
        let (lock, nodes) = written([wish, READS]);
        end_write(&lock);
        assert_eq!(nodes.map(said), [WAITING, PARKED]);
        assert!(lock.lock_shared(None), "a newcomer is faster");
        assert!(!retry(&lock, nodes[0]));
        assert_eq!(said(nodes[0]), PARKED);
        end_read(&lock);
        let is_handed = wish.claims_at == 0;
        assert_eq!(nodes.map(said), [if is_handed { GRANTED } else { WAITING }, PARKED]);
        let flags = if is_handed { LOCKED } else { 0 };
        assert_eq!(word(&lock), expected(0, Some(nodes[1]), flags));
        assert!(is_handed || retry(&lock, nodes[0]));
        end_write(&lock);
        assert_eq!(word(&lock), expected(1, None, 0));
    }
}

#[test]
fn readers_behind_a_writer_that_leaves_come_in_beside_readers() {
    let (lock, nodes) = read(1, [WRITES, READS, WRITES, READS]);
    assert!(!leave(&lock, nodes[0]));
    assert_eq!(nodes.map(said), [PARKED, GRANTED, PARKED, GRANTED]);
    assert_eq!(word(&lock), expected(3, Some(nodes[2]), 0));
    assert!(leave(&lock, nodes[1]), "chosen");
}

#[test]
fn who_leaves_takes_its_claim_along_and_a_free_lock() {
    let (lock, nodes) = written([CLAIMS, WRITES, READS]);
    assert!(!retry(&lock, nodes[0]));
    assert_eq!(word(&lock), expected(0, Some(nodes[2]), LOCKED | HANDOFF));
    assert!(!leave(&lock, nodes[2]));
    assert!(!leave(&lock, nodes[0]));
    assert_eq!(word(&lock), expected(0, Some(nodes[1]), LOCKED));
    end_write(&lock);
    assert!(leave(&lock, nodes[1]), "told to try");
    assert_eq!(word(&lock), LOCKED);
}

#[test]
fn a_downgrade_lets_readers_in_and_no_writer() {
    let (lock, nodes) = written([READS, WRITES]);
    // SAFETY: the writer.
    unsafe { lock.downgrade() };
    assert_eq!(nodes.map(said), [GRANTED, PARKED]);
    assert_eq!(word(&lock), expected(2, Some(nodes[1]), 0));
    let (lock, nodes) = written([WRITES, READS]);
    // SAFETY: the writer.
    unsafe { lock.downgrade() };
    assert_eq!(nodes.map(said), [PARKED, PARKED]);
    assert_eq!(word(&lock), expected(1, Some(nodes[1]), 0));
}

#[test]
fn readers_come_in_by_batches_and_never_exceed_the_count() {
    let (lock, nodes) = written([READS; MOST_WOKEN + 2]);
    end_write(&lock);
    assert_eq!(word(&lock), expected(MOST_WOKEN, Some(nodes[MOST_WOKEN + 1]), 0));
    assert_eq!(said(nodes[MOST_WOKEN]), PARKED);

    let lock = LinuxRwsem::<Native>::unlocked();
    lock.word.store(ptr::without_provenance_mut(MOST_READERS * READER), Relaxed);
    assert!(!lock.try_lock_shared());
    let late = line_up(&lock.word, READS);
    end_read(&lock);
    assert_eq!(said(late), PARKED);
    assert!(lock.enter(|_| true), "one has left");
    lock.word.unguard(late.as_ptr(), |own| own - (MOST_READERS - 1) * READER);
    end_read(&lock);
    assert_eq!((said(late), word(&lock)), (GRANTED, READER));
}
