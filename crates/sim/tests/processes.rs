//! Processes on one machine: they share CPUs and caches, and nothing else.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use lockwork_locks::registry::Spec;
use lockwork_platform::{AtomicCell, Clock, Cpu, Deadline, FutexCell, SharedWords, TimedOut, Waiters};
use lockwork_sim::workload::{Distribution, Frame, Micro, Protection, Queue, RunResult, Workload};
use lockwork_sim::{End, Machine, Options, Outcome, ProcessId, Sim, Simulation, Word, delay, machine};

const LONG: u64 = 1_000_000_000;

fn host() -> Machine {
    machine::named("e7-4850").expect("a machine of ours")
}

#[test]
fn futexes_are_a_process_s_own() {
    let run = |sleeper_of: fn(&mut Simulation) -> ProcessId| {
        let mut run = new_run(&host(), Options::default());
        let word: &'static Word<u32> = run.place(Word::new(0));
        let process = sleeper_of(&mut run);
        run.spawn_in(process, 0, true, move || {
            let _ = word.wait(0, None);
        });
        run.spawn(1, true, move || {
            delay(1_000_000);
            // SAFETY: the word is alive.
            unsafe { FutexCell::wake(word, 1) };
        });
        run.run(LONG).end
    };
    assert_eq!(run(|_| ProcessId::FIRST), End::Finished);
    let End::Deadlock(threads) = run(Simulation::add_process) else { panic!("nobody can wake the sleeper") };
    assert!(threads.contains("thread 0 of process 1 on CPU 0 sleeps"), "{threads}");
}

/// Two threads on one CPU, of one process or of two.
fn side_by_side(machine: &Machine, apart: bool) -> Outcome {
    let mut run = new_run(machine, Options::default());
    let other = if apart { run.add_process() } else { ProcessId::FIRST };
    for process in [ProcessId::FIRST, other] {
        run.spawn_in(process, 0, true, || {
            for _ in 0..100 {
                delay(1_000_000);
            }
        });
    }
    run.run(LONG)
}

#[test]
fn another_address_space_costs_something() {
    let (together, apart) = (side_by_side(&host(), false), side_by_side(&host(), true));
    assert_eq!((together.end, apart.end), (End::Finished, End::Finished));
    assert_eq!(together.counts.process_switches, 0);
    assert!(apart.counts.process_switches >= 10, "{:?}", apart.counts);
    assert_eq!(apart.counts.process_switches + 1, apart.counts.context_switches, "all but the first");
    assert_eq!(apart.counts.context_switches, together.counts.context_switches);
    let dear = host().os.process_switch * apart.counts.process_switches;
    assert_eq!(apart.cycles - together.cycles, dear);
}

/// A thread that computes for 100 M cycles on a CPU that others want, too: when it comes to its end.
fn elapsed(background: usize) -> (u64, Outcome) {
    let mut run = new_run(&host(), Options { background, ..Options::default() });
    let done = Rc::new(Cell::new(0));
    let end = Rc::clone(&done);
    run.spawn(0, true, move || {
        for _ in 0..100 {
            delay(1_000_000);
        }
        end.set(lockwork_sim::now());
    });
    let outcome = run.run(2 * LONG);
    (done.get(), outcome)
}

#[test]
fn a_background_that_only_computes_takes_cpus_away() {
    let [alone, beside_one, beside_three] = [0, 1, 2 * 40 + 1].map(elapsed);
    for (_, outcome) in [&alone, &beside_one, &beside_three] {
        assert_eq!(outcome.end, End::Finished, "nobody waits for the background");
    }
    assert!(beside_one.1.counts.process_switches > 5, "{:?}", beside_one.1.counts);
    let factor = |elapsed: u64| elapsed as f64 / alone.0 as f64;
    assert!((1.6..2.4).contains(&factor(beside_one.0)), "{}", factor(beside_one.0));
    assert!((3.0..5.0).contains(&factor(beside_three.0)), "{}", factor(beside_three.0));
}

/// Why a run ends whose only thread sleeps, or polls, until a word changes that nobody changes, beside threads that
/// compute.
fn end_beside_a_background(background: usize, body: impl FnOnce(&'static Word<u32>) + 'static) -> Outcome {
    let mut run = new_run(&host(), Options { background, ..Options::default() });
    let word: &'static Word<u32> = run.place(Word::new(0));
    run.spawn(3, true, move || body(word));
    run.run(LONG)
}

#[test]
fn a_background_is_no_hope_for_those_who_wait_for_each_other() {
    let sleeps = |word: &'static Word<u32>| {
        let _ = word.wait(0, None);
    };
    for background in [0, 1, 40] {
        let outcome = end_beside_a_background(background, sleeps);
        let End::Deadlock(threads) = &outcome.end else { panic!("nobody wakes the sleeper: {outcome:?}") };
        assert!(threads.contains("on CPU 3 sleeps on the word"), "{threads}");
        assert_eq!(threads.matches("of process 1").count(), background, "{threads}");
        assert!(outcome.cycles < LONG, "{outcome:?}");
    }
    // On a CPU of its own.
    let outcome = end_beside_a_background(3, |word| {
        while word.load(Acquire) == 0 {
            Sim::pause();
        }
    });
    let End::Deadlock(threads) = &outcome.end else { panic!("nobody changes the word: {outcome:?}") };
    assert!(threads.contains("polls") && threads.matches("of process 1 on CPU").count() == 3, "{threads}");
}

#[test]
fn a_deadline_is_hope() {
    let late = LONG / 2;
    let outcome = end_beside_a_background(40, move |word| {
        let ns = host().ns(late);
        assert_eq!(word.wait(0, Some(Deadline { clock: Clock::Monotonic, ns })), Err(TimedOut));
    });
    assert_eq!(outcome.end, End::Finished);
    assert!((late..late + LONG / 10).contains(&outcome.cycles), "{outcome:?}");
}

#[test]
fn a_workload_beside_a_background_comes_to_its_deadlock() {
    let delay = Distribution::About(300);
    let queue = Queue { producers: 4, capacity: 1, produce: delay, consume: delay };
    let lock = Protection::Lock(Spec::mutex("mcs-stp").expect("a lock of ours"));
    let options = Options { background: 5, ..Options::default() };
    let frame = Frame { threads: 4, window: LONG, ..Frame::SHORT };
    let deadlock = queue.run(&frame, &host(), &lock, options).deadlock.expect("nobody consumes");
    assert_eq!(deadlock.matches("sleeps on the word at").count(), 4, "{deadlock}");
    assert_eq!(deadlock.matches("runs").count(), 5, "{deadlock}");
}

#[test]
fn waiters_of_other_processes_are_not_counted() {
    let mut run = new_run(&host(), Options::default());
    let other = run.add_process();
    let word: &'static Word<u32> = run.place(Word::new(0));
    let address = std::ptr::from_ref(word) as usize;
    for (cpu, process) in [ProcessId::FIRST, ProcessId::FIRST, other].into_iter().enumerate() {
        run.spawn_in(process, cpu, true, move || {
            Sim::set_waiting_on(address);
            while word.load(Acquire) == 0 {
                Sim::pause();
            }
        });
    }
    let seen: Rc<[Cell<usize>; 2]> = Rc::default();
    for (index, process) in [ProcessId::FIRST, other].into_iter().enumerate() {
        let seen = Rc::clone(&seen);
        run.spawn_in(process, 5 + index, true, move || {
            delay(100_000);
            seen[index].set(Sim::waiters_of(address));
            delay(100_000);
            word.store(1, Release);
            word.load(Relaxed);
        });
    }
    assert_eq!(run.run(LONG).end, End::Finished);
    assert_eq!(seen.each_ref().map(Cell::get), [2, 1]);
}

#[test]
fn words_that_locks_share_are_a_process_s_own() {
    let mut run = new_run(&host(), Options::default());
    let other = run.add_process();
    let seen: Rc<[Cell<usize>; 3]> = Rc::default();
    let processes = [ProcessId::FIRST, other, ProcessId::FIRST];
    for (index, process) in processes.into_iter().enumerate() {
        let seen = Rc::clone(&seen);
        run.spawn_in(process, index, true, move || {
            delay(100_000 * (index as u64 + 1));
            seen[index].set(Sim::shared_word(64, 3, |word| {
                let before = word.load(Relaxed);
                word.store(7, Relaxed);
                before
            }));
        });
    }
    assert_eq!(run.run(LONG).end, End::Finished);
    assert_eq!(seen.each_ref().map(Cell::get), [0, 0, 7]);
}

/// Threads of some processes, 20 of each, in the micro-benchmark.
fn contend(processes: usize, protection: &Protection) -> RunResult {
    let micro = Micro { delay: Distribution::About(500), ..Micro::SHORT };
    let frame = Frame { threads: 20, processes, warm_up: 100_000, window: 2_000_000, ..Frame::SHORT };
    micro.run(&frame, &host(), protection, Options::default())
}

#[test]
fn processes_on_cpus_of_their_own_do_not_notice_each_other() {
    for name in ["mcs-spin", "ticket", "futex"] {
        let lock = Protection::Lock(Spec::mutex(name).expect("a lock of ours"));
        let (alone, both) = (contend(1, &lock), contend(2, &lock));
        assert_eq!((&both.damage, &both.deadlock), (&None, &None), "{name}");
        assert_eq!(both.by_thread.len(), 40);
        assert_eq!(both.by_thread[..20], alone.by_thread, "{name}: each has a lock and data of its own");
        let each = both.by_process(2);
        assert_eq!(each.iter().sum::<u64>(), both.sections);
        assert!(each.iter().all(|sections| *sections > 100), "{each:?}");
    }
}

#[test]
fn processes_on_the_same_cpus_share_them() {
    let lock = Protection::Lock(Spec::mutex("mcs-stp").expect("a lock of ours"));
    let mut crowded = host();
    (crowded.os.slice_us, crowded.os.wakeup_granularity_us) = (50, 10);
    let micro = Micro { delay: Distribution::About(5000), ..Micro::SHORT };
    let run = |processes| {
        let frame = Frame { threads: 40, processes, warm_up: 100_000, window: 4_000_000, ..Frame::SHORT };
        micro.run(&frame, &crowded, &lock, Options::default())
    };
    let (alone, three) = (run(1), run(3));
    assert_eq!((&three.damage, &three.deadlock), (&None, &None));
    assert_eq!(alone.counts.process_switches, 0);
    assert!(three.counts.process_switches > 100, "{:?}", three.counts);
    let each = three.by_process(3);
    assert!(each.iter().all(|sections| *sections > 0 && *sections < alone.sections), "{each:?}");
}

#[test]
fn lost_updates_of_any_process_are_seen() {
    assert!(contend(2, &Protection::None).damage.is_some());
}

/// A run of which nothing is used afterwards, and whose threads own nothing that must be dropped.
fn new_run(machine: &Machine, options: Options) -> Simulation {
    // SAFETY: as above.
    unsafe { Simulation::new(machine, options) }
}
