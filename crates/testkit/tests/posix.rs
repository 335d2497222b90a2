//! The POSIX suite under every lock: C and C++ programs that use the whole locking API print what each call
//! returned and what they saw; every line must be the one they print under plain glibc, and the library must say that the
//! lock, and no other, served the program.
//!
//! One test a lock: a mutex runs all programs, a reader-writer lock those that use one. In front of its name stands the scale: how many
//! of the iterations are done, by how many threads at most (fewer where waiters spin, see `common::effort`). `LOCKWORK_SO` names the library, else `target/release/liblockwork.so` is used. A failing
//! program can be run by hand, one case at a time: see `posix/suite.h`.

mod common;

use common::compare::{Deviation, differences};
use common::served::{Served, expect};
use libtest_mimic::{Arguments, Trial};
use lockwork_locks::registry;
use lockwork_locks::registry::Choice;
use std::fmt::Write as _;
use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// Everything that may differ from glibc.
const DEVIATIONS: &[Deviation] = &[
    Deviation {
        step: "destroy_with_waiter: destroy",
        glibc: "never returns",
        ours: "EBUSY",
        passthrough: false,
        reason: "glibc waits for ever for a waiter that nobody wakes; POSIX leaves it undefined",
    },
    Deviation {
        step: "cxx_static_destroyed_with_waiter: process",
        glibc: "never ends",
        ours: "ends",
        passthrough: false,
        reason: "the same in the destructor of a static std::condition_variable",
    },
    Deviation {
        step: "deepbind_own_symbols_deep: with it",
        glibc: "library",
        ours: "program",
        passthrough: true,
        reason: "RTLD_DEEPBIND is cleared, or the library would lock the program's mutexes by glibc's functions",
    },
    Deviation {
        step: "cancel_asynchronous_type: cancelled with the mutex held, every time",
        glibc: "yes",
        ours: "no",
        passthrough: false,
        reason: "waiting is not among the functions that POSIX allows with asynchronous cancellation",
    },
];

/// What may differ under a reader-writer lock that keeps readers behind waiting writers, whatever the attribute. Its programs,
/// [`KINDS_OF_RWLOCKS`], say so in their exit status.
const BARRING: &[Deviation] = &[
    kept_waiting(
        "rwlock_reader_kind_writer_waits: tryrdlock by other while a writer waits",
        "EBUSY (expected OK)",
    ),
    kept_waiting(
        "rwlock_reader_kind_writer_waits: timedrdlock by other while a writer waits",
        "ETIMEDOUT (expected OK)",
    ),
    kept_waiting(
        "rwlock_writer_kind_writer_waits: tryrdlock by other while a writer waits",
        "EBUSY (expected OK)",
    ),
    kept_waiting(
        "rwlock_writer_kind_writer_waits: timedrdlock by other while a writer waits",
        "ETIMEDOUT (expected OK)",
    ),
];

const fn kept_waiting(step: &'static str, ours: &'static str) -> Deviation {
    Deviation {
        step,
        glibc: "OK",
        ours,
        passthrough: false,
        reason: "POSIX promises a thread only that it can read again, not that it passes a writer that waits for others",
    }
}

/// Whether a choice names a reader-writer lock that keeps readers behind waiting writers.
fn bars_readers(lock: &str) -> bool {
    Choice::parse(lock).is_ok_and(|choice| {
        choice.rwlock().is_some_and(|spec| spec.rw().is_some_and(|facts| facts.bars_readers()))
    })
}

/// Programs whose mutexes are all glibc's: they have none, or only kinds that are forwarded.
const WITHOUT_MUTEXES: &[&str] = &["mutex_forwarded", "rwlock_basic", "rwlock_stress"];

/// Programs with reader-writer locks of a kind that is served, C++'s `shared_mutex` and old versions of the symbols among them.
const WITH_RWLOCKS: &[&str] = &[
    "at_exit",
    "cancel",
    "cxx_cond",
    "cxx_mutex",
    "dl",
    "early",
    "early_cxx",
    "fork",
    "fork_busy",
    "no_malloc",
    "places",
    "rwlock_basic",
    "rwlock_stress",
    "signals",
    "spin",
    "symver",
];

/// Programs with reader-writer locks of `PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP`, too.
const KINDS_OF_RWLOCKS: &[&str] = &["rwlock_basic", "rwlock_stress"];

/// What one program did under a lock: nothing to say, or the report of its failure. With a directory, its processes record their
/// locks there.
fn failure_of(program: &str, lock: &str, recordings: Option<&Path>) -> Option<String> {
    let mut command = common::command(program);
    common::put_under(&mut command, lock);
    if let Some(directory) = recordings {
        command.env("LOCKWORK_PROFILE", directory.join("p"));
    }
    let output = command.output().expect("timeout (coreutils)");
    let ours = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    let bars = bars_readers(lock);
    let barring = if bars { BARRING } else { &[] };
    let allowed: Vec<_> =
        DEVIATIONS.iter().filter(|one| lock != "passthrough" || one.passthrough).chain(barring).collect();
    let found = differences(&common::reference(program), &ours, &allowed);
    let unserved = wrongly_served(program, lock, &stderr);
    let succeeded = output.status.success()
        || bars && KINDS_OF_RWLOCKS.contains(&program) && output.status.code() == Some(1);
    if succeeded && found.is_empty() && unserved.is_empty() {
        return None;
    }
    let mut report = format!("{program} under {lock} ({}):\n", output.status);
    for complaint in unserved {
        let _ = writeln!(report, "  {complaint}");
    }
    for difference in &found {
        let _ = write!(report, "{difference}");
    }
    for line in stderr.lines().filter(|line| !line.starts_with("lockwork:")).take(60) {
        let _ = writeln!(report, "  stderr: {line}");
    }
    Some(report)
}

/// What is wrong with what the library says it served.
fn wrongly_served(program: &str, lock: &str, stderr: &str) -> Vec<String> {
    let choice = Choice::parse(lock).expect("a lock of the suite");
    let mutex = choice.mutex().filter(|_| !WITHOUT_MUTEXES.contains(&program));
    let rwlock = choice.rwlock().filter(|_| WITH_RWLOCKS.contains(&program));
    let served = Served::read(stderr);
    let mut wrong = Vec::new();
    if served.lines == 0 {
        wrong.push("the library was not loaded: no line of it on stderr".to_owned());
    }
    // A lock that lets readers pass does not do for the kind that must not; the default one takes its place.
    let beside: &[&str] = if KINDS_OF_RWLOCKS.contains(&program) { &["rw-futex"] } else { &[] };
    let mutexes = expect("mutexes", &served.mutexes, mutex.map(|spec| spec.to_string()).as_deref(), &[]);
    let rwlocks = expect("rwlocks", &served.rwlocks, rwlock.map(|spec| spec.to_string()).as_deref(), beside);
    wrong.extend([mutexes, rwlocks].into_iter().filter_map(Result::err));
    wrong
}

/// Runs all programs under a lock.
fn check(lock: &str) {
    check_with(lock, &common::programs(), None);
}

/// The same with the recorder on.
fn check_recorded(lock: &str) {
    let directory = tempfile::tempdir().expect("a directory");
    let ended = AtomicBool::new(false);
    let recordings = thread::scope(|scope| {
        // Of processes there are thousands, each with a file of tens of megabytes.
        let cleaner = scope.spawn(|| {
            let mut count = 0;
            while !ended.load(Ordering::Relaxed) {
                for entry in std::fs::read_dir(directory.path()).expect("the directory").flatten() {
                    count += usize::from(std::fs::remove_file(entry.path()).is_ok());
                }
                thread::sleep(Duration::from_millis(20));
            }
            count
        });
        let result = catch_unwind(AssertUnwindSafe(|| {
            check_with(lock, &common::programs(), Some(directory.path()));
        }));
        ended.store(true, Ordering::Relaxed);
        let count = cleaner.join().expect("the cleaner");
        result.map(|()| count).unwrap_or_else(|panic| resume_unwind(panic))
    });
    assert!(recordings > 100, "{recordings} processes recorded");
}

/// Runs the programs that use reader-writer locks under one.
fn check_rw(lock: &str) {
    let programs = common::programs();
    let uses = |program: &String| WITH_RWLOCKS.contains(&program.as_str());
    check_with(lock, &programs.into_iter().filter(uses).collect::<Vec<_>>(), None);
}

/// Runs programs under a lock; two at a time unless the lock spins.
fn check_with(lock: &str, programs: &[String], recordings: Option<&Path>) {
    let workers = if common::effort(lock).spin { 1 } else { 2 };
    let next = AtomicUsize::new(0);
    let reports = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(program) = programs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Some(report) = failure_of(program, lock, recordings) {
                        reports.lock().expect("no worker panicked").push(report);
                    }
                }
            });
        }
    });
    let reports = reports.into_inner().expect("no worker panicked");
    assert!(
        reports.is_empty(),
        "{} of {} programs differ from glibc under {lock}\n\n{}",
        reports.len(),
        programs.len(),
        reports.join("\n")
    );
}

/// What the suite runs under besides every lock of the registry.
const OTHERS: [&str; 11] = [
    "passthrough",
    "gcr(ticket)",
    "gcr(ttas)",
    "gcr(clh-stp)",
    "gcr(mcs-spin)",
    "gcr(mcs-stp)",
    "gcr(k42-stp)",
    "gcr(futex)",
    "gcr-numa(mcs-stp)",
    "biased(mcs-stp)",
    "biased(futex)",
];

/// What it runs under once more with the recorder on: glibc's own locks, the default, and a queue lock beside which readers are
/// counted by node.
const RECORDED: [&str; 3] = ["passthrough", "auto", "mcs-stp+cst-rwsem"];

/// And besides every reader-writer lock; the first with a mutex of ours beside it.
const RW_OTHERS: [&str; 3] = ["mcs-stp+rw-ttas", "bravo(rw-futex)", "bravo(cst-rwsem)"];

fn lists_name_programs() {
    let programs = common::programs();
    for listed in [WITHOUT_MUTEXES, WITH_RWLOCKS, KINDS_OF_RWLOCKS].concat() {
        assert!(programs.iter().any(|program| program == listed), "there is no program {listed}");
    }
}

fn every_deviation_names_a_line_that_glibc_prints() {
    let all: String = common::programs().iter().map(|program| common::reference(program)).collect();
    for deviation in DEVIATIONS.iter().chain(BARRING) {
        let line = format!("{}: {}", deviation.step, deviation.glibc);
        assert!(all.lines().any(|printed| printed == line), "nobody prints: {line}");
        assert!(!deviation.reason.is_empty());
    }
}

/// The comparison notices a preloaded library with a single wrong function.
fn a_broken_library_is_noticed() {
    let mut command = common::command("mutex_kinds");
    let output = command
        .env("LD_PRELOAD", common::suite().join("bin/libbroken.so"))
        .output()
        .expect("timeout (coreutils)");
    let found = differences(&common::reference("mutex_kinds"), &String::from_utf8_lossy(&output.stdout), &[]);
    assert!(!output.status.success());
    assert!(found.iter().any(|difference| difference.case == "mutex_static_default"), "{found:?}");
}

fn main() {
    let mut arguments = Arguments::from_args();
    // Most of a program's time passes in sleeps and time-outs.
    arguments
        .test_threads
        .get_or_insert_with(|| 1 + 4 * thread::available_parallelism().map_or(1, NonZero::get));
    let trial = |name: &str, test: Box<dyn Fn() + Send>| {
        Trial::test(name, move || {
            test();
            Ok(())
        })
    };
    let under = |lock: String, check: fn(&str)| {
        let kind = common::effort(&lock).to_string();
        let name = format!("under {lock}");
        trial(&name, Box::new(move || check(&lock))).with_kind(kind)
    };
    let locks = registry::mutexes().map(|lock| lock.name).chain(OTHERS);
    let mut trials: Vec<Trial> = locks.map(|lock| under(lock.to_owned(), check)).collect();
    let rwlocks = registry::rwlocks().map(|lock| lock.name).chain(RW_OTHERS);
    trials.extend(rwlocks.map(|lock| under(lock.to_owned(), check_rw)));
    trials.extend(RECORDED.map(|lock| {
        let kind = format!("recorder on, {}", common::effort(lock));
        trial(&format!("recorded under {lock}"), Box::new(move || check_recorded(lock))).with_kind(kind)
    }));
    trials.push(trial("deviations are real", Box::new(every_deviation_names_a_line_that_glibc_prints)));
    trials.push(trial("programs are listed by their names", Box::new(lists_name_programs)));
    trials.push(trial("a broken library is noticed", Box::new(a_broken_library_is_noticed)));
    libtest_mimic::run(&arguments, trials).exit();
}
