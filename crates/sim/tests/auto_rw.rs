//! `auto-rw` on simulated machines: its bias comes where nobody writes, goes where somebody does, and comes back in time; nobody
//! starves.

use std::cell::Cell;
use std::rc::Rc;

use lockwork_locks::api::RawRwLock;
use lockwork_locks::rw::auto::Auto;
use lockwork_platform::{Clock, Cpu};
use lockwork_sim::{End, Options, Sim, Simulation, delay, machine};

const LONG: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;
/// CPUs of the four nodes of `e7-4850`.
const CPUS: [usize; 8] = [0, 1, 10, 11, 20, 21, 30, 31];

fn new_run() -> Simulation {
    let machine = machine::named("e7-4850").expect("a machine of ours");
    // SAFETY: nothing of a run is used afterwards, and its threads own nothing that must be dropped.
    unsafe { Simulation::new(&machine, Options::default()) }
}

fn place(run: &mut Simulation) -> &'static Auto<Sim> {
    let lock = run.make(Auto::new);
    run.place_named("the lock", lock)
}

fn now() -> u64 {
    Sim::now(Clock::Monotonic)
}

fn read(lock: &Auto<Sim>) {
    assert!(lock.lock_shared(None));
    delay(100);
    // SAFETY: acquired above.
    unsafe { lock.unlock_shared() };
}

fn write(lock: &Auto<Sim>) {
    assert!(lock.lock_exclusive(None));
    delay(100);
    // SAFETY: acquired above.
    unsafe { lock.unlock_exclusive() };
}

/// Sections in each of these spans of time, in ns, where one section in ten writes until `quiet`, and none after that.
fn sections(quiet: u64, spans: &[(u64, u64)]) -> Vec<u64> {
    let mut run = new_run();
    let lock = place(&mut run);
    let counts: Rc<Vec<Cell<u64>>> = Rc::new(spans.iter().map(|_| Cell::new(0)).collect());
    let end = spans.iter().map(|(_, end)| *end).max().unwrap_or(0);
    for cpu in CPUS {
        let (counts, spans) = (Rc::clone(&counts), spans.to_vec());
        run.spawn(cpu, true, move || {
            for turn in 0_u64.. {
                let time = now();
                if time >= end {
                    break;
                }
                if time < quiet && turn % 10 == 0 {
                    write(lock)
                } else {
                    read(lock)
                }
                for ((from, to), count) in spans.iter().zip(counts.iter()) {
                    count.set(count.get() + u64::from((*from..*to).contains(&time)));
                }
                delay(300);
            }
        });
    }
    assert_eq!(run.run(LONG).end, End::Finished);
    counts.iter().map(Cell::get).collect()
}

#[test]
fn ten_milliseconds_after_the_last_write_readers_are_as_fast_as_if_there_had_been_none() {
    let after = (13 * MS, 14 * MS);
    let always = sections(0, &[after])[0];
    let (written, quiet) = (sections(3 * MS, &[(2 * MS, 3 * MS), after]), 9 * always / 10);
    assert!(written[1] >= quiet, "{written:?} where readers alone have {always}");
    assert!(
        written[0] < always / 4,
        "{written:?}: without a bias readers are not that fast, with one in ten a writer less so"
    );
}

#[test]
fn writes_come_back_as_fast_as_they_were() {
    let spans = [(2 * MS, 3 * MS), (14 * MS, 15 * MS)];
    // Nobody writes between 3 and 4 ms, so that the bias comes on.
    let mut run = new_run();
    let lock = place(&mut run);
    let counts: Rc<[Cell<u64>; 2]> = Rc::default();
    for cpu in CPUS {
        let counts = Rc::clone(&counts);
        run.spawn(cpu, true, move || {
            for turn in 0_u64.. {
                let time = now();
                if time >= spans[1].1 {
                    break;
                }
                let is_quiet = (3 * MS..4 * MS).contains(&time);
                if !is_quiet && turn % 10 == 0 {
                    write(lock)
                } else {
                    read(lock)
                }
                for ((from, to), count) in spans.iter().zip(counts.iter()) {
                    count.set(count.get() + u64::from((*from..*to).contains(&time)));
                }
                delay(300);
            }
        });
    }
    assert_eq!(run.run(LONG).end, End::Finished);
    let [before, after] = counts.each_ref().map(Cell::get);
    assert!(after >= 9 * before / 10, "{after} sections where there were {before}");
}

#[test]
fn nobody_starves_among_writers_or_readers_of_all_nodes() {
    for writers in [1, 4, 7] {
        let mut run = new_run();
        let lock = place(&mut run);
        let sections: Rc<[Cell<u64>; 8]> = Rc::default();
        for (index, cpu) in CPUS.into_iter().enumerate() {
            let sections = Rc::clone(&sections);
            run.spawn(cpu, true, move || {
                while now() < 4 * MS {
                    if index < writers {
                        write(lock)
                    } else {
                        read(lock)
                    }
                    sections[index].set(sections[index].get() + 1);
                    delay(50);
                }
            });
        }
        assert_eq!(run.run(LONG).end, End::Finished);
        let sections = sections.each_ref().map(Cell::get);
        assert!(sections.iter().all(|sections| *sections > 20), "{writers} writers: {sections:?}");
    }
}
