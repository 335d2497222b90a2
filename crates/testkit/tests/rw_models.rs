//! The reader-writer lock under model checkers: loom with two and three threads, every ordering edge weakened and
//! caught; shuttle with up to six.

use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use lockwork_locks::RawRwLock;
use lockwork_locks::rw::RwFutex;
use lockwork_platform::{DataCell, Deadline};
use lockwork_testkit::engines::loom::LoomPlatform;
use lockwork_testkit::engines::shuttle::{self, Schedules, ShuttlePlatform};
use lockwork_testkit::model::{Config, ModelPlatform, Play};
use lockwork_testkit::mutation::{Verdict, judge, mutants, run};
use lockwork_testkit::scenarios::{Scenario, Subject, expired, in_time};
use lockwork_testkit::watchdog::watchdog;

/// Far more than any scenario needs.
const LIMIT: Duration = Duration::from_secs(300);

/// A lock and what it protects.
struct Shelf<P: ModelPlatform, const W: bool> {
    /// Never dropped: a drop would need an order after all threads.
    lock: ManuallyDrop<RwFutex<P, W>>,
    /// Plain data: a checker of orderings sees here whether sections are ordered.
    count: P::Data<usize>,
    /// Readers inside, and 100 for each writer, for checkers that see no orderings.
    inside: AtomicUsize,
    /// Sections done.
    done: AtomicUsize,
}

impl<P: ModelPlatform, const W: bool> Shelf<P, W> {
    fn new() -> Arc<Self> {
        let shelf = Arc::new(Self {
            lock: ManuallyDrop::new(RwFutex::new()),
            count: P::Data::new(0),
            inside: AtomicUsize::new(0),
            done: AtomicUsize::new(0),
        });
        P::adopt(&*shelf.lock);
        shelf
    }

    fn read(&self, deadline: Option<Deadline>) -> bool {
        let acquired = self.lock.lock_shared(deadline);
        assert!(acquired || deadline.is_some());
        if acquired {
            self.read_locked();
        }
        acquired
    }

    /// A reader's section, and its end.
    fn read_locked(&self) {
        assert!(self.inside.fetch_add(1, Relaxed) < 100, "a reader beside a writer");
        // SAFETY: a reader may read; the checker reports a write at the same time.
        let before = unsafe { self.count.get() };
        P::switch();
        // SAFETY: as above.
        assert_eq!(before, unsafe { self.count.get() }, "written beside a reader");
        self.inside.fetch_sub(1, Relaxed);
        self.done.fetch_add(1, Relaxed);
        // SAFETY: the caller is a reader.
        unsafe { self.lock.unlock_shared() };
    }

    fn write(&self, deadline: Option<Deadline>) -> usize {
        let acquired = self.lock.lock_exclusive(deadline);
        assert!(acquired || deadline.is_some());
        if acquired { self.write_locked() } else { 0 }
    }

    /// The writer's section, and its end. The section's number among those of writers.
    fn write_locked(&self) -> usize {
        assert_eq!(self.inside.fetch_add(100, Relaxed), 0, "a writer beside somebody");
        // SAFETY: the writer may write; the checker reports others.
        let count = unsafe { self.count.get() } + 1;
        P::switch();
        // SAFETY: as above.
        unsafe { self.count.set(count) };
        self.inside.fetch_sub(100, Relaxed);
        self.done.fetch_add(1, Relaxed);
        // SAFETY: the caller is the writer.
        unsafe { self.lock.unlock_exclusive() };
        count
    }

    fn play(self: &Arc<Self>, least: usize, most: usize) -> Play {
        let shelf = Arc::clone(self);
        Play::new(move || {
            let done = shelf.done.load(Relaxed);
            assert!((least..=most).contains(&done), "{done} sections, expected {least} to {most}");
        })
    }
}

/// One part: `r`ead, `w`rite; `R`ead and `W`rite with a deadline that has passed; `t`imed read and
/// `T`imed write, whose deadline passes when somebody sets the time; `c`lock: sets the time; `a`gain: reads, twice at once.
fn perform<P: ModelPlatform, const W: bool>(shelf: &Shelf<P, W>, part: u8) {
    match part {
        b'r' => _ = shelf.read(None),
        b'w' => _ = shelf.write(None),
        b'R' => _ = shelf.read(Some(expired())),
        b'W' => _ = shelf.write(Some(expired())),
        b't' => _ = shelf.read(Some(in_time())),
        b'T' => _ = shelf.write(Some(in_time())),
        b'c' => P::set_time(1),
        b'a' => {
            assert!(shelf.lock.lock_shared(None));
            shelf.read(None);
            shelf.read_locked();
        }
        _ => unreachable!("a part of the table above"),
    }
}

/// A play in short: the parts of each thread, threads separated by spaces.
fn play<P: ModelPlatform, const W: bool>(parts: &'static str) -> Play {
    let shelf = Shelf::<P, W>::new();
    let sections = |sure: bool| -> usize {
        let of = |part| match part {
            'r' | 'w' => 1,
            'a' => 2,
            'R' | 'W' | 't' | 'T' if !sure => 1,
            _ => 0,
        };
        parts.chars().map(of).sum()
    };
    parts.split(' ').fold(shelf.play(sections(true), sections(false)), |play, parts| {
        let shelf = Arc::clone(&shelf);
        play.with(move || parts.bytes().for_each(|part| perform(&shelf, part)))
    })
}

/// Every thread reads and then writes; whose write is the last destroys the lock after it, as programs do that count
/// references under the lock: no other release may touch the lock any more.
fn destroy<P: ModelPlatform, const W: bool>(threads: usize) -> Play {
    let shelf = Shelf::<P, W>::new();
    (0..threads).fold(shelf.play(2 * threads - 1, 2 * threads - 1), |play, number| {
        let shelf = Arc::clone(&shelf);
        play.with(move || {
            if number > 0 {
                shelf.read(None);
            }
            if shelf.write(None) == threads {
                P::retire(&*shelf.lock);
            }
        })
    })
}

/// While a writer holds the lock and others wait or give up, its thread forks: in the child it is alone.
fn fork<P: ModelPlatform, const W: bool>() -> Play {
    let shelf = Shelf::<P, W>::new();
    let (parent, reader, writer) = (Arc::clone(&shelf), Arc::clone(&shelf), Arc::clone(&shelf));
    shelf
        .play(3, 5)
        .with(move || {
            assert!(parent.lock.lock_exclusive(None));
            P::fork();
            // SAFETY: no other thread exists.
            unsafe { parent.lock.state().forget_waiters() };
            parent.write_locked();
            parent.read(None);
            parent.write(None);
        })
        .with(move || _ = reader.read(None))
        .with(move || _ = writer.write(None))
}

/// Plays of two threads.
const PAIRS: &[&str] = &[
    "w w", "ww w", "r w", "rw w", "wr w", "r rw", "w W", "rw W", "w R", "wr R", "wc T", "wc t", "rc T",
    "a w", "aw w",
];

/// Plays of three threads.
const TRIOS: &[&str] = &["r r w", "w r W", "w R w", "w r R", "w T c", "w t c", "wc t w", "wc T r"];

/// Plays of three threads with tens of thousands of executions each.
const LARGE_TRIOS: &[&str] = &["r w w", "w w w", "r w W", "w w W", "wc T w", "rc T w"];

/// Plays for random schedules.
const CROWDS: &[&str] = &[
    "rwr wrw rrw",
    "wW rR wr RW",
    "w w w w w",
    "r r w w",
    "rw rw wr wr rr",
    "rT wT rT c w",
    "rt wt rw c w",
    "wT wT wt wt c r",
    "rwTt rwTt c wr",
];

/// A play as a scenario for loom.
fn scenario<const W: bool>(spin_budget: u32, parts: &'static str) -> Scenario {
    Scenario {
        config: Config { spin_budget, ..Config::default() },
        ..Scenario::new(parts, parts.split(' ').count(), move || play::<LoomPlatform, W>(parts))
    }
}

/// Plays as scenarios for loom, without spinning.
fn subject<const W: bool>(plays: &[&[&'static str]]) -> Subject {
    // A thread that reads again deadlocks where writers are preferred.
    let possible = plays.iter().copied().flatten().copied().filter(|parts| !(W && parts.contains('a')));
    let name = if W { "prefer-writers" } else { "prefer-readers" };
    Subject { name: name.to_owned(), scenarios: possible.map(|parts| scenario::<W>(0, parts)).collect() }
}

/// All scenarios for loom.
fn everything<const W: bool>() -> Subject {
    let mut subject = subject::<W>(&[PAIRS, TRIOS, LARGE_TRIOS]);
    subject.scenarios.extend(["w w", "r w", "wr w", "wc T", "wc t"].map(|parts| scenario::<W>(1, parts)));
    subject.scenarios.extend([(2, "destroy"), (3, "destroy-of-three")].map(|(threads, name)| Scenario {
        config: Config { spin_budget: 0, ..Config::default() },
        ..Scenario::new(name, threads, move || destroy::<LoomPlatform, W>(threads))
    }));
    subject
}

fn explore_loom(subject: &Subject) {
    for scenario in &subject.scenarios {
        let name = || format!("{} `{}`", subject.name, scenario.name);
        let start = Instant::now();
        let executions = watchdog(LIMIT, name, || run(scenario));
        println!(
            "{}, spin {}: {executions} executions, {:?}",
            name(),
            scenario.config.spin_budget,
            start.elapsed()
        );
    }
}

#[test]
fn loom_prefer_readers() {
    explore_loom(&everything::<false>());
}

#[test]
fn loom_prefer_writers() {
    explore_loom(&everything::<true>());
}

/// Weaker orderings that loom cannot catch, because it runs loads and stores in the order of the source:
/// part of the line, and why it is needed.
const UNDECIDABLE: &[(&str, &str)] = &[(
    "self.state.fetch_and(!(WRITERS_WAITING | READERS_WAITING), Acquire)",
    "a load of `turn` by the writer whose bit is cleared must not return what is written to it afterwards",
)];

#[test]
fn loom_catches_every_weakened_ordering() {
    let source = include_str!("../../locks/src/rw/futex.rs");
    let subjects = [subject::<false>(&[PAIRS, TRIOS]), subject::<true>(&[PAIRS, TRIOS])];
    let mut missed = Vec::new();
    for (mutant, mut witnesses) in mutants(&subjects, "rw/futex.rs") {
        witnesses.sort_by_key(|(_, scenario)| scenario.threads);
        let line = source.lines().nth(mutant.site.line as usize - 1).unwrap_or_default();
        let undecidable = UNDECIDABLE.iter().any(|(part, _)| line.contains(part));
        let verdict = judge(mutant, &witnesses);
        println!("{mutant:?}: {verdict:?}");
        if matches!(verdict, Verdict::Survived) != undecidable {
            missed.push(mutant);
        }
    }
    assert!(missed.is_empty(), "not caught, or caught against expectation: {missed:#?}");
}

fn explore_shuttle<const W: bool>() {
    for parts in CROWDS {
        for schedules in [Schedules::Random(1_500), Schedules::Pct(500)] {
            shuttle::explore(schedules, Config::default(), 0, || play::<ShuttlePlatform, W>(parts));
        }
    }
    for threads in [3, 5] {
        shuttle::explore(Schedules::Pct(500), Config::default(), 0, move || {
            destroy::<ShuttlePlatform, W>(threads)
        });
    }
    shuttle::explore(Schedules::Random(3_000), Config::default(), 0, fork::<ShuttlePlatform, W>);
}

#[test]
fn shuttle_prefer_readers() {
    explore_shuttle::<false>();
}

#[test]
fn shuttle_prefer_writers() {
    explore_shuttle::<true>();
}
