//! A bias for readers on the simulated machine: a reader changes its slot of the table, and nothing else.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;

use lockwork_locks::api::RawRwLock;
use lockwork_locks::rw::bravo::Bravo;
use lockwork_locks::rw::ttas::RwTtas;
use lockwork_platform::{AtomicCell, VisibleReaders};
use lockwork_sim::{
    End, Options, ProcessId, Sim, Simulation, Step, Transfers, begin_trace, delay, end_trace, machine,
};

const LONG: u64 = 1_000_000_000;

fn new_run() -> Simulation {
    let machine = machine::named("e7-4850").expect("a machine of ours");
    // SAFETY: nothing of a run is used afterwards, and its threads own nothing that must be dropped.
    unsafe { Simulation::new(&machine, Options::default()) }
}

fn read<L: RawRwLock<Sim>>(lock: &L) {
    assert!(lock.lock_shared(None));
    delay(100);
    // SAFETY: acquired above.
    unsafe { lock.unlock_shared() };
}

/// The lines that are moved while two threads on different nodes read so often. The first reader is before the others,
/// and turns the bias on.
fn transfers_of<L: RawRwLock<Sim> + 'static>(reads: u32) -> Transfers {
    let mut run = new_run();
    let lock: &'static L = run.place_named("the lock", L::new());
    run.spawn(0, true, move || read(lock));
    for cpu in [1, 11] {
        run.spawn(cpu, true, move || {
            delay(10_000);
            for _ in 0..reads {
                read(lock);
                delay(100);
            }
        });
    }
    let outcome = run.run(LONG);
    assert_eq!(outcome.end, End::Finished);
    outcome.transfers
}

#[test]
fn biased_readers_of_different_nodes_move_no_lines() {
    assert_eq!(transfers_of::<Bravo<Sim, RwTtas<Sim>>>(50), transfers_of::<Bravo<Sim, RwTtas<Sim>>>(500));
    let (few, many) = (transfers_of::<RwTtas<Sim>>(50), transfers_of::<RwTtas<Sim>>(500));
    assert!(many.remote > few.remote + 400, "without a bias they fight for the lock: {few:?}, {many:?}");
}

#[test]
fn a_biased_reader_changes_its_slot_alone() {
    let mut run = new_run();
    let lock: &'static Bravo<Sim, RwTtas<Sim>> = run.place_named("the lock", Bravo::new());
    let steps: Rc<RefCell<Vec<Step>>> = Rc::default();
    let shown = Rc::clone(&steps);
    run.spawn(0, true, move || {
        read(lock);
        begin_trace();
        read(lock);
        *shown.borrow_mut() = end_trace();
    });
    assert_eq!(run.run(LONG).end, End::Finished);
    let steps = steps.take();
    let changed: Vec<&str> =
        steps.iter().map(|step| &*step.what).filter(|what| what.contains("changes")).collect();
    assert_eq!(changed.len(), 2, "it comes, and it goes: {steps:?}");
    assert_eq!(changed[0], changed[1], "the same line");
    assert!(!changed[0].contains("the lock"), "{changed:?}");
    assert!(!steps.iter().any(|step| step.what.contains("store")), "but for stores to it: {steps:?}");
}

#[test]
fn threads_have_slots_of_their_own_and_processes_have_tables() {
    let mut run = new_run();
    let other = run.add_process();
    let lock: &'static Cell<u32> = run.place(Cell::new(0));
    let slots: Rc<[Cell<usize>; 3]> = Rc::default();
    let seen: Rc<[Cell<usize>; 3]> = Rc::default();
    let processes = [ProcessId::FIRST, other, ProcessId::FIRST];
    for (index, process) in processes.into_iter().enumerate() {
        let (slots, seen) = (Rc::clone(&slots), Rc::clone(&seen));
        run.spawn_in(process, index, true, move || {
            delay(100_000 * (index as u64 + 1));
            slots[index].set(Sim::reader_slot(std::ptr::from_ref(lock) as usize));
            seen[index].set(Sim::visible_reader(slots[0].get(), |slot| {
                let before = slot.load(Relaxed);
                slot.store(7, Relaxed);
                before
            }));
        });
    }
    assert_eq!(run.run(LONG).end, End::Finished);
    assert_eq!(seen.each_ref().map(Cell::get), [0, 0, 7]);
    let [first, second, third] = slots.each_ref().map(Cell::get);
    assert!(first != second && second != third && first != third);
    assert!([first, second, third].iter().all(|slot| *slot < Sim::VISIBLE_READERS));
}

#[test]
fn a_writer_waits_for_visible_readers() {
    let mut run = new_run();
    let lock: &'static Bravo<Sim, RwTtas<Sim>> = run.place_named("the lock", Bravo::new());
    let readers: Rc<Cell<u32>> = Rc::default();
    let writes: Rc<Cell<u32>> = Rc::default();
    for cpu in [0, 1, 11, 21] {
        let readers = Rc::clone(&readers);
        run.spawn(cpu, true, move || {
            for _ in 0..200 {
                assert!(lock.lock_shared(None));
                readers.set(readers.get() + 1);
                delay(1000);
                readers.set(readers.get() - 1);
                // SAFETY: acquired above.
                unsafe { lock.unlock_shared() };
                delay(500);
            }
        });
    }
    let (seen, done) = (Rc::clone(&readers), Rc::clone(&writes));
    run.spawn(31, true, move || {
        for _ in 0..5 {
            delay(20_000);
            assert!(lock.lock_exclusive(None));
            assert_eq!(seen.get(), 0, "no reader is inside");
            delay(2000);
            assert_eq!(seen.get(), 0, "and none comes in");
            done.set(done.get() + 1);
            // SAFETY: acquired above.
            unsafe { lock.unlock_exclusive() };
        }
    });
    assert_eq!(run.run(LONG).end, End::Finished);
    assert_eq!(writes.get(), 5);
}
