//! Which threads are let in, step by step.

use core::ptr::NonNull;

use lockwork_platform::Pool;

use super::*;
use crate::blocking::linux::sleepers::append;
use crate::wait::{GRANTED, PARKED};

type Node = NonNull<Sleeper<Native>>;

const READS: Wish = Wish { reads: true, claims_at: 0, is_chosen: false };
const WRITES: Wish = Wish { reads: false, claims_at: u64::MAX, is_chosen: false };
/// One that has slept for long.
const CLAIMS: Wish = Wish { claims_at: 0, ..WRITES };

fn count(lock: &LinuxRwsem<Native>) -> u32 {
    lock.count.load(Relaxed)
}

fn last(lock: &LinuxRwsem<Native>) -> *mut Sleeper<Native> {
    lock.last.load(Relaxed)
}

/// A sleeper in the list.
fn line_up(lock: &LinuxRwsem<Native>, wish: Wish) -> Node {
    let node = Native::alloc_node::<Sleeper<Native>>();
    // SAFETY: ours.
    let sleeper = unsafe { node.as_ref() };
    // SAFETY: ours.
    unsafe { sleeper.wish.set(wish) };
    let end = lock.guard();
    // SAFETY: ours, and the list under the guard.
    unsafe { append(end, node.as_ptr()) };
    if end.is_null() && !wish.reads {
        lock.stay_first(node.as_ptr(), sleeper, 0);
    } else {
        lock.unguard(node.as_ptr(), |count| count);
    }
    node
}

fn said(node: Node) -> u32 {
    // SAFETY: not freed in these tests.
    unsafe { node.as_ref() }.word.load(Relaxed)
}

/// A lock that is held for writing, and for which these sleep.
fn written<const N: usize>(wishes: [Wish; N]) -> (LinuxRwsem<Native>, [Node; N]) {
    let lock = LinuxRwsem::unlocked();
    assert!(lock.lock_exclusive(None));
    let nodes = wishes.map(|wish| line_up(&lock, wish));
    (lock, nodes)
}

/// The same, held by readers.
fn read<const N: usize>(readers: usize, wishes: [Wish; N]) -> (LinuxRwsem<Native>, [Node; N]) {
    let lock = LinuxRwsem::unlocked();
    for _ in 0..readers {
        assert!(lock.lock_shared(None));
    }
    let nodes = wishes.map(|wish| line_up(&lock, wish));
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
    // SAFETY: zeros and null pointers are valid atomics.
    let lock: LinuxRwsem<Native> = unsafe { core::mem::zeroed() };
    assert!(lock.try_lock_exclusive() && !lock.try_lock_shared() && !lock.try_lock_exclusive());
    assert_eq!(count(&lock), LOCKED);
    end_write(&lock);
    assert_eq!(count(&lock), 0);
}

#[test]
fn all_readers_come_in_with_the_first_one() {
    let (lock, nodes) = written([READS, WRITES, READS]);
    end_write(&lock);
    assert_eq!(nodes.map(said), [GRANTED, WAITING, GRANTED]);
    assert_eq!((count(&lock), last(&lock)), ((2 * READER) | WAITERS, nodes[1].as_ptr()));
    assert!(!lock.try_lock_shared(), "a writer sleeps");
    assert!(lock.lock_shared_again(None), "a reader may be one already");
    assert!(!retry(&lock, nodes[1]));
    assert_eq!((said(nodes[1]), count(&lock)), (WATCHING, (3 * READER) | WAITERS | WATCHED));
    (0..3).for_each(|_| end_read(&lock));
    assert!(retry(&lock, nodes[1]));
    assert_eq!(count(&lock), LOCKED);
}

#[test]
fn a_writer_told_in_vain_is_handed_the_lock_once_it_has_slept_for_long() {
    for wish in [WRITES, CLAIMS] {
        let claims = wish.claims_at == 0;
        let (lock, nodes) = written([wish, READS]);
        end_write(&lock);
        assert_eq!(nodes.map(said), [WAITING, PARKED]);
        assert!(lock.try_lock_exclusive(), "a newcomer is faster");
        assert!(!retry(&lock, nodes[0]));
        assert_eq!(said(nodes[0]), PARKED);
        end_write(&lock);
        assert_eq!(nodes.map(said), [if claims { GRANTED } else { WAITING }, PARKED]);
        assert_eq!(count(&lock), if claims { WAITERS | LOCKED } else { WAITERS });
        assert!(claims || retry(&lock, nodes[0]));
        end_write(&lock);
        assert_eq!((count(&lock), last(&lock)), (READER, ptr::null_mut()));
    }
}

#[test]
fn the_first_writer_behind_readers_watches_the_count() {
    for wish in [WRITES, CLAIMS] {
        let claims = wish.claims_at == 0;
        let (lock, nodes) = read(2, [wish, WRITES]);
        assert_eq!(nodes.map(said), [WATCHING, PARKED]);
        assert_eq!(count(&lock), (2 * READER) | WAITERS | WATCHED);
        assert!(!retry(&lock, nodes[0]));
        assert_eq!(nodes.map(said), [WATCHING, PARKED]);
        (0..2).for_each(|_| end_read(&lock));
        let claim = if claims { HANDOFF } else { 0 };
        assert_eq!(count(&lock), WAITERS | WATCHED | claim, "free");
        assert_eq!(lock.try_lock_exclusive(), !claims, "a newcomer");
        assert!(
            !claims || !lock.try_lock_shared() && !lock.enter(is_shared),
            "a thread that may be a reader"
        );
        if !claims {
            assert!(!retry(&lock, nodes[0]));
            assert_eq!(said(nodes[0]), PARKED);
            end_write(&lock);
        }
        assert!(retry(&lock, nodes[0]));
        assert_eq!(count(&lock), LOCKED | WAITERS);
    }
}

#[test]
fn readers_behind_a_writer_that_leaves_come_in_beside_readers() {
    let (lock, nodes) = read(1, [WRITES, READS, WRITES, READS]);
    assert!(!leave(&lock, nodes[0]));
    assert_eq!(nodes.map(said), [WATCHING, GRANTED, WAITING, GRANTED]);
    assert_eq!((count(&lock), last(&lock)), ((3 * READER) | WAITERS, nodes[2].as_ptr()));
    assert!(leave(&lock, nodes[1]), "chosen");
    assert!(!retry(&lock, nodes[2]));
    assert!(!leave(&lock, nodes[2]));
    assert_eq!((count(&lock), last(&lock)), (3 * READER, ptr::null_mut()));
}

#[test]
fn who_leaves_takes_its_claim_along_and_a_free_lock() {
    let (lock, nodes) = written([CLAIMS, WRITES, READS]);
    assert!(!retry(&lock, nodes[0]));
    assert_eq!(count(&lock), WAITERS | LOCKED | HANDOFF);
    assert!(!leave(&lock, nodes[2]));
    assert!(!leave(&lock, nodes[0]));
    assert_eq!((count(&lock), last(&lock)), (WAITERS | LOCKED, nodes[1].as_ptr()));
    end_write(&lock);
    assert!(leave(&lock, nodes[1]), "told to try");
    assert_eq!(count(&lock), LOCKED);
}

#[test]
fn readers_that_come_in_vain_are_forgotten_by_the_writer() {
    let (lock, nodes) = written([READS]);
    lock.count.fetch_add(3 * READER, Relaxed);
    end_write(&lock);
    assert_eq!((said(nodes[0]), count(&lock)), (GRANTED, READER));
    end_read(&lock);
    assert!(lock.try_lock_exclusive());
    lock.count.fetch_add(READER, Relaxed);
    // SAFETY: the writer.
    unsafe { lock.downgrade() };
    assert_eq!(count(&lock), READER);
}

#[test]
fn a_downgrade_lets_readers_in_and_no_writer() {
    let (lock, nodes) = written([READS, WRITES]);
    // SAFETY: the writer.
    unsafe { lock.downgrade() };
    assert_eq!(nodes.map(said), [GRANTED, WAITING]);
    assert_eq!(count(&lock), (2 * READER) | WAITERS);
    let (lock, nodes) = written([WRITES, READS]);
    // SAFETY: the writer.
    unsafe { lock.downgrade() };
    assert_eq!(nodes.map(said), [WAITING, PARKED]);
    assert_eq!(count(&lock), READER | WAITERS);
}

#[test]
fn there_is_a_largest_number_of_readers() {
    let lock = LinuxRwsem::<Native>::unlocked();
    lock.count.store(FULL - READER, Relaxed);
    assert!(lock.lock_shared(None));
    for refused in [lock.lock_shared(None), lock.lock_shared_again(None), lock.try_lock_shared()] {
        assert!(!refused);
    }
    assert_eq!(count(&lock), FULL);
    end_read(&lock);
    assert!(lock.lock_shared_again(None));
}

#[test]
fn who_may_be_a_reader_does_not_pass_a_claim_on_a_free_lock() {
    let (lock, nodes) = written([CLAIMS]);
    end_write(&lock);
    assert!(lock.try_lock_shared());
    assert!(!retry(&lock, nodes[0]));
    assert_eq!(count(&lock), READER | WAITERS | WATCHED | HANDOFF);
    assert!(lock.lock_shared_again(None), "beside a reader");
    assert!(!retry(&lock, nodes[0]));
    assert_eq!(said(nodes[0]), WATCHING);
    end_read(&lock);
    end_read(&lock);
    assert!(!lock.enter(is_shared));
    assert!(retry(&lock, nodes[0]));
}
