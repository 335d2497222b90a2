//! The simulated hardware keeps to its table, and the simulated operating system to its queues.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use lockwork_platform::{AtomicCell, AtomicInt, Clock, Cpu, Deadline, FutexCell, Placement, TimedOut};
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

/// Cycles from a wake's begin to the sleeper's return, its CPU having been idle for so long, or computing meanwhile.
fn woken_after(asleep: u64, is_busy: bool) -> u64 {
    let mut machine = machine::named("e7-4850").expect("a machine of ours");
    let os = &mut machine.os;
    (os.idle_poll_us, os.wakeup_granularity_us, os.context_switch) = (100, 10, 0);
    (os.wake, os.wake_latency, os.wake_polled, os.wake_latency_polled) = (5_000, 100_000, 1_000, 10_000);
    os.preempt_latency = 30_000;
    let mut run = new_run(&machine, Options::default());
    let word: &'static Word<u32> = run.place(Word::new(0));
    let returned = Rc::new(RefCell::new(0));
    let then = Rc::clone(&returned);
    run.spawn(0, true, move || {
        let _ = word.wait(0, None);
        *then.borrow_mut() = now();
    });
    if is_busy {
        run.spawn(0, true, move || delay(10_000_000));
    }
    let begun = Rc::new(RefCell::new(0));
    let at = Rc::clone(&begun);
    run.spawn(1, true, move || {
        delay(asleep);
        word.store(1, Release);
        *at.borrow_mut() = now();
        // SAFETY: the word is alive.
        unsafe { FutexCell::wake(word, 1) };
    });
    assert_eq!(run.run(LONG).end, End::Finished);
    returned.take() - begun.take()
}

#[test]
fn a_wake_takes_longer_where_the_cpu_has_halted_and_interrupts_one_that_computes() {
    // 100 us are 200,000 cycles; with what system calls take.
    let (polled, halted, busy) =
        (woken_after(100_000, false), woken_after(400_000, false), woken_after(400_000, true));
    assert!((11_000..14_000).contains(&polled), "{polled}");
    assert!((105_000..108_000).contains(&halted), "{halted}");
    assert!((31_000..34_000).contains(&busy), "{busy}");
}

/// Cycles from a wake's begin to the sleeper's return, on the waker's own CPU.
fn woken_by_its_own_cpu(wake_own: u64) -> u64 {
    let mut machine = machine::named("e7-4850").expect("a machine of ours");
    let os = &mut machine.os;
    (os.wakeup_granularity_us, os.context_switch, os.syscall) = (10, 1_000, 0);
    (os.wake, os.wake_latency, os.wake_own, os.preempt_latency) = (50_000, 0, wake_own, 30_000);
    let mut run = new_run(&machine, Options::default());
    let word: &'static Word<u32> = run.place(Word::new(0));
    let (begun, awake) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
    let (begins, awakes) = (Rc::clone(&begun), Rc::clone(&awake));
    run.spawn(0, true, move || {
        let _ = word.wait(0, None);
        awakes.set(now());
    });
    run.spawn(0, true, move || {
        delay(1_000_000);
        word.store(1, Release);
        begins.set(now());
        // SAFETY: the word is alive.
        unsafe { FutexCell::wake(word, 1) };
        delay(1_000_000);
    });
    assert_eq!(run.run(LONG).end, End::Finished);
    awake.get() - begun.get()
}

#[test]
fn a_cpu_that_wakes_a_thread_for_itself_tells_no_other_and_runs_it_at_once() {
    let (as_any_other, own) = (woken_by_its_own_cpu(0), woken_by_its_own_cpu(500));
    assert!((81_000..84_000).contains(&as_any_other), "{as_any_other}");
    assert!((1_500..4_000).contains(&own), "{own}");
}

/// What one does with a word.
#[derive(Clone, Copy, PartialEq)]
enum Access {
    Read,
    Write,
}
use Access::{Read, Write};

/// Cycles of each access to one line, long after the one before it, by these CPUs.
fn cycles_of<const N: usize>(migratory: bool, accesses: [(usize, Access); N]) -> [u64; N] {
    let mut machine = machine::named("e7-4850").expect("a machine of ours");
    machine.memory.migratory = migratory;
    let mut run = new_run(&machine, Options::default());
    let word: &'static Word<u32> = run.place(Word::new(0));
    let seen = Rc::new(RefCell::new([0; N]));
    for cpu in [0, 1] {
        let seen = Rc::clone(&seen);
        run.spawn(cpu, true, move || {
            for (place, (_, access)) in accesses.into_iter().enumerate().filter(|(_, (by, _))| *by == cpu) {
                delay(10_000 * (place as u64 + 1) - now());
                let begin = now();
                match access {
                    Read => _ = word.load(Relaxed),
                    Write => _ = word.fetch_add(1, Relaxed),
                }
                seen.borrow_mut()[place] = now() - begin;
            }
        });
    }
    assert_eq!(run.run(LONG).end, End::Finished);
    *seen.borrow()
}

#[test]
fn a_read_of_a_modified_line_brings_the_right_to_write_it_where_lines_are_migratory() {
    let is_transfer = |cycles: [u64; 3]| cycles.map(|cycles| cycles >= 100);
    let then_writes = [(0, Write), (1, Read), (1, Write)];
    assert_eq!(is_transfer(cycles_of(false, then_writes)), [true, true, true]);
    assert_eq!(is_transfer(cycles_of(true, then_writes)), [true, true, false]);
    let reads_again = [(0, Write), (1, Read), (0, Read)];
    assert_eq!(is_transfer(cycles_of(false, reads_again)), [true, true, false]);
    assert_eq!(is_transfer(cycles_of(true, reads_again)), [true, true, true], "the reader has the only copy");
    // One that was not modified since is shared.
    let [.., read, again, write] = cycles_of(true, [(0, Write), (1, Read), (0, Read), (1, Read), (1, Write)]);
    assert!(read >= 100 && again < 10 && write >= 100, "{read}, {again}, {write}");
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

/// On which cores threads are that are not pinned, after they have computed for a time.
fn cores_of_unpinned(threads: usize, ends: impl Fn(usize) -> bool + Clone + 'static) -> Vec<usize> {
    let machine = machine::named("x6-2").expect("a machine of ours");
    let cores = Rc::new(RefCell::new(Vec::new()));
    let mut run = new_run(&machine, Options::default());
    for _ in 0..threads {
        let (cores, ends, machine) = (Rc::clone(&cores), ends.clone(), machine.clone());
        run.spawn(0, false, move || {
            let core = || machine.core_of(Sim::cpu());
            if ends(machine.node_of(core())) {
                return;
            }
            for _ in 0..1000 {
                delay(1_000_000);
            }
            cores.borrow_mut().push(core());
        });
    }
    assert_eq!(run.run(10 * LONG).end, End::Finished);
    let mut cores = cores.borrow().clone();
    cores.sort_unstable();
    cores
}

#[test]
fn new_threads_go_where_there_is_least_to_do() {
    let machine = machine::named("x6-2").expect("a machine of ours");
    let cores = cores_of_unpinned(2, |_| false);
    assert_ne!(machine.node_of(cores[0]), machine.node_of(cores[1]), "{cores:?}");
    let cores = cores_of_unpinned(machine.cores(), |_| false);
    assert_eq!(cores, (0..machine.cores()).collect::<Vec<_>>(), "one on each core");
}

#[test]
fn idle_cores_take_threads_from_crowded_ones() {
    let machine = machine::named("x6-2").expect("a machine of ours");
    let cores = cores_of_unpinned(machine.cpus(), |node| node == 0);
    assert_eq!(
        cores,
        (0..machine.cores()).collect::<Vec<_>>(),
        "one on each core, though the other node had two on each"
    );
}

#[test]
fn a_sleeper_takes_its_cpu_from_a_thread_that_has_run_for_longer() {
    const SLEEPS_NS: u64 = 20_000_000;
    let machine = machine::named("e7-4850").expect("a machine of ours");
    let mut run = new_run(&machine, Options::default());
    let word: &'static Word<u32> = run.place(Word::new(0));
    let late = Rc::new(RefCell::new(Vec::new()));
    let seen = Rc::clone(&late);
    run.spawn(0, true, move || {
        for _ in 0..10 {
            let deadline = Deadline::after(Clock::Monotonic, Sim::now(Clock::Monotonic), SLEEPS_NS);
            assert_eq!(word.wait(0, Some(deadline)), Err(TimedOut));
            seen.borrow_mut().push(Sim::now(Clock::Monotonic) - deadline.ns);
        }
    });
    for _ in 0..2 {
        run.spawn(0, true, || (0..500).for_each(|_| delay(1_000_000)));
    }
    assert_eq!(run.run(10 * LONG).end, End::Finished);
    // At once, though the other two take turns of four milliseconds; it may have to wait for an operation of theirs.
    assert!(late.borrow().iter().all(|ns| *ns < 1_000_000), "{late:?}");
}
