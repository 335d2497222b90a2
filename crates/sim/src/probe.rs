//! What a simulated machine takes, measured as one would measure a real one.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;

use lockwork_platform::{AtomicCell, AtomicInt};

use crate::machine::{Machine, Transfer};
use crate::platform::Word;
use crate::simulation::{Options, Simulation, delay, now};

/// Cycles to get lines that the CPU `from` has modified to the CPU `to`: to read one, and to change one by an atomic
/// operation; less what that takes with a line of one's own.
///
/// # Panics
///
/// If the machine has no such CPUs, or they are the same.
#[must_use]
pub fn transfer(machine: &Machine, from: usize, to: usize) -> Transfer {
    assert!(from != to && from.max(to) < machine.cpus(), "CPUs {from} and {to} of {}", machine.cpus());
    // SAFETY: the threads alone use the lines, and keep numbers and counted references on their stacks.
    let mut run = unsafe { Simulation::new(machine, Options::default()) };
    let lines: [&'static Word<u32>; 2] = [run.place(Word::new(0)), run.place(Word::new(0))];
    let seen = Rc::new(Cell::new(Transfer { load: 0, store: 0 }));
    let result = Rc::clone(&seen);
    run.spawn(from, true, move || {
        for line in lines {
            line.fetch_add(1, Relaxed);
        }
    });
    run.spawn(to, true, move || {
        delay(100_000);
        let time = |access: &dyn Fn()| {
            let start = now();
            access();
            now() - start
        };
        let read = || {
            lines[0].load(Relaxed);
        };
        let change = || {
            lines[1].fetch_add(1, Relaxed);
        };
        let (load, own_load) = (time(&read), time(&read));
        let (store, own_store) = (time(&change), time(&change));
        result.set(Transfer { load: load - own_load, store: store - own_store });
    });
    run.run(u64::MAX);
    seen.get()
}
