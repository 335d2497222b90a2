//! The simulated hardware keeps to its table, and the simulated operating system to its queues.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use lockwork_platform::{AtomicCell, AtomicInt, Clock, Deadline, FutexCell, Platform, TimedOut};
use lockwork_sim::machine::{Distance, library};
use lockwork_sim::{End, Machine, Options, Sim, Simulation, Word, delay, machine, now, probe};

const LONG: u64 = 1_000_000_000;

#[test]
fn a_transfer_takes_what_the_table_says() {
    for machine in library() {
        let first = 0;
        let mut seen = Vec::new();
        for cpu in (0..machine.cpus()).step_by(machine.threads_per_core) {
            let distance = machine.distance(first, machine.core_of(cpu));
            if distance == Distance::Same || seen.contains(&distance) {
                continue;
            }
            seen.push(distance);
            let measured = probe::transfer(&machine, first, cpu);
            assert_eq!(measured, machine.transfer(distance), "{} {distance:?}", machine.name);
        }
        assert!(seen.len() >= 2, "{}", machine.name);
    }
}

fn run_threads(
    cpus: &[usize],
    pinned: bool,
    body: impl Fn(usize) + Clone + 'static,
) -> lockwork_sim::Outcome {
    let machine = machine::named("e7-4850").expect("a machine of ours");
    let mut run = new_run(&machine, Options::default());
    for (thread, cpu) in cpus.iter().enumerate() {
        let body = body.clone();
        run.spawn(*cpu, pinned, move || body(thread));
    }
    run.run(LONG)
}

#[test]
fn threads_of_a_cpu_take_turns() {
    let ends = Rc::new(RefCell::new(Vec::new()));
    let list = Rc::clone(&ends);
    let outcome = run_threads(&[0, 0, 0], true, move |thread| {
        for _ in 0..100 {
            delay(1_000_000);
        }
        list.borrow_mut().push((thread, now()));
    });
    assert_eq!(outcome.end, End::Finished);
    // 50 ms of work each, in slices of 4 ms.
    assert!(outcome.counts.preemptions >= 30, "{:?}", outcome.counts);
    let ends = ends.borrow();
    let (first, last) = (ends.iter().map(|end| end.1).min(), ends.iter().map(|end| end.1).max());
    assert!(first > Some(250_000_000) && last > Some(300_000_000), "{ends:?}");
}

#[test]
fn threads_that_are_not_pinned_spread() {
    let outcome = run_threads(&[0, 0, 0, 0], false, |_| delay(100_000_000));
    assert_eq!(outcome.end, End::Finished);
    assert!(outcome.cycles < 150_000_000, "{}", outcome.cycles);
}

#[test]
fn a_sleeper_is_woken_and_a_deadline_is_kept() {
    let machine = machine::named("e7-4850").expect("a machine of ours");
    let mut run = new_run(&machine, Options::default());
    let word: &'static Word<u32> = run.place(Word::new(0));
    let seen = Rc::new(RefCell::new(Vec::new()));
    let (late, woken) = (Rc::clone(&seen), Rc::clone(&seen));
    run.spawn(0, true, move || {
        let deadline = Deadline::after(Clock::Monotonic, Sim::now(Clock::Monotonic), 100_000);
        let result = word.wait(0, Some(deadline));
        late.borrow_mut().push((result, Sim::now(Clock::Monotonic) / 10_000));
        assert_eq!(word.wait(7, None), Ok(()), "the value is another");
    });
    run.spawn(1, true, move || {
        delay(1_000_000);
        let result = word.wait(0, None);
        woken.borrow_mut().push((result, Sim::now(Clock::Monotonic) / 10_000));
    });
    run.spawn(2, true, move || {
        delay(2_000_000);
        word.store(1, Release);
        // SAFETY: the word is alive.
        unsafe { FutexCell::wake(word, 1) };
    });
    assert_eq!(run.run(LONG).end, End::Finished);
    assert_eq!(*seen.borrow(), [(Err(TimedOut), 10), (Ok(()), 100)]);
}

#[test]
fn a_deadlock_is_reported_with_the_state_of_every_thread() {
    let machine = machine::named("e7-4850").expect("a machine of ours");
    let mut run = new_run(&machine, Options::default());
    let word: &'static Word<u32> = run.place(Word::new(0));
    run.spawn(0, true, move || {
        let _ = word.wait(0, None);
    });
    run.spawn(1, true, move || {
        while word.load(Acquire) == 0 {
            Sim::pause();
        }
    });
    run.spawn(2, true, || ());
    let End::Deadlock(threads) = run.run(LONG).end else { panic!("nothing can happen any more") };
    assert!(threads.contains("thread 0 on CPU 0 sleeps on the word at"), "{threads}");
    assert!(threads.contains("thread 1 on CPU 1 polls line"), "{threads}");
    assert!(!threads.contains("thread 2"), "{threads}");
}

#[test]
fn a_livelock_ends_with_the_time() {
    let machine = machine::named("e7-4850").expect("a machine of ours");
    let mut run = new_run(&machine, Options::default());
    let word: &'static Word<u32> = run.place(Word::new(0));
    run.spawn(0, true, move || {
        loop {
            word.fetch_add(1, Relaxed);
        }
    });
    assert_eq!(run.run(100_000).end, End::Time);
}

/// A run of which nothing is used afterwards, and whose threads own nothing that must be dropped.
fn new_run(machine: &Machine, options: Options) -> Simulation {
    // SAFETY: as above.
    unsafe { Simulation::new(machine, options) }
}
