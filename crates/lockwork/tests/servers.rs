//! Servers go on whatever their sections do: the liveness properties of RCL's section 3 (Lozi et al.), one by one, for both
//! kinds of servers.
//!
//! Every value of a test is given to the one server of its kind, so that a section that waits holds up the thread that serves
//! the others, unless another one takes over.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::io::{self, Read as _, Write as _};
use std::os::raw::c_int;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Barrier, Condvar, Mutex, PoisonError, RwLock, mpsc};
use std::thread;
use std::time::Duration;
use std::{fs, iter};

use lockwork::delegates::{Delegate, DynDelegate, Ffwd, Rcl};
use lockwork::{Delegated, Native, servers};
use lockwork_platform::Sched as _;

/// Tests use the servers of the process: those that stop them are alone.
static USE: RwLock<()> = RwLock::new(());

/// Says that something is not tested here, and why, past the harness, which keeps what passing tests print to itself.
/// `scripts/test.sh` counts these lines.
fn skipped(what: &str) {
    let _ = writeln!(io::stderr(), "SKIPPED: {what}");
}

/// Ends the process if a test hangs.
fn in_time(test: impl FnOnce()) {
    let (ended, end) = mpsc::channel::<()>();
    let watchdog = thread::spawn(move || {
        if end.recv_timeout(Duration::from_secs(120)) == Err(mpsc::RecvTimeoutError::Timeout) {
            eprintln!("a test of servers hangs");
            std::process::abort();
        }
    });
    test();
    drop(ended);
    watchdog.join().expect("it only waits");
}

fn beside_others(test: fn()) {
    let _use = USE.read().unwrap_or_else(PoisonError::into_inner);
    in_time(test);
}

fn alone(test: fn()) {
    let _use = USE.write().unwrap_or_else(PoisonError::into_inner);
    in_time(test);
}

fn value<D: Delegate<Native>>() -> Delegated<u64, D> {
    Delegated::with_delegate(0)
}

/// A section tries to acquire a mutex of the program that another client holds, until a section of that one has run.
fn a_section_waits_for_a_mutex<D: Delegate<Native>>() {
    let (first, second) = (value::<D>(), value::<D>());
    let mutex = Mutex::new(0);
    let begun = Barrier::new(2);
    let mut held = mutex.lock().expect("no panic");
    thread::scope(|scope| {
        scope.spawn(|| {
            first.run(|value| {
                begun.wait();
                *value = *mutex.lock().expect("no panic");
            });
        });
        begun.wait();
        *held = second.run(|value| *value + 7);
        drop(held);
    });
    assert_eq!(first.run(|value| *value), 7);
}

/// A section reads what a later section of the same server writes.
fn a_section_waits_for_input<D: Delegate<Native>>() {
    let (first, second) = (value::<D>(), value::<D>());
    let (mut input, mut output) = io::pipe().expect("a pipe");
    let begun = Barrier::new(2);
    thread::scope(|scope| {
        scope.spawn(|| {
            first.run(|value| {
                begun.wait();
                let mut byte = [0];
                input.read_exact(&mut byte).expect("a byte");
                *value = byte[0].into();
            });
        });
        begun.wait();
        second.run(|_| output.write_all(&[7]).expect("a reader"));
    });
    assert_eq!(first.run(|value| *value), 7);
}

/// A section waits on a condition variable of the program, which a later section of the same server signals.
fn a_section_waits_for_a_condition<D: Delegate<Native>>() {
    let (first, second) = (value::<D>(), value::<D>());
    let (ready, changed) = (Mutex::new(false), Condvar::new());
    let begun = Barrier::new(2);
    thread::scope(|scope| {
        scope.spawn(|| {
            first.run(|value| {
                begun.wait();
                let is_ready = ready.lock().expect("no panic");
                let _ready = changed.wait_while(is_ready, |ready| !*ready).expect("no panic");
                *value = 7;
            });
        });
        begun.wait();
        second.run(|_| {
            *ready.lock().expect("no panic") = true;
            changed.notify_one();
        });
    });
    assert_eq!(first.run(|value| *value), 7);
}

/// A section spins for what a later section of the same server writes.
fn a_section_spins<D: Delegate<Native>>() {
    let (first, second) = (value::<D>(), value::<D>());
    let is_set = AtomicBool::new(false);
    let begun = Barrier::new(2);
    thread::scope(|scope| {
        scope.spawn(|| {
            first.run(|value| {
                begun.wait();
                while !is_set.load(Relaxed) {
                    std::hint::spin_loop();
                }
                *value = 7;
            });
        });
        begun.wait();
        second.run(|_| is_set.store(true, Relaxed));
    });
    assert_eq!(first.run(|value| *value), 7);
}

/// As many sections as the server has had threads block, and more; each time another value is served.
fn all_servicing_threads_block<D: Delegate<Native>>() {
    const BLOCKED: u64 = 12;
    let values: Vec<Delegated<u64, D>> = (0..BLOCKED).map(|_| value()).collect();
    let other = value::<D>();
    let end = Barrier::new(BLOCKED as usize + 1);
    thread::scope(|scope| {
        let (begin, begun) = mpsc::channel();
        for (number, value) in (1..).zip(&values) {
            let (begin, end) = (begin.clone(), &end);
            scope.spawn(move || {
                value.run(|value| {
                    begin.send(()).expect("a receiver");
                    end.wait();
                    *value = number;
                });
            });
            begun.recv().expect("a section begins, behind all that block");
            assert_eq!(other.run(|value| std::mem::replace(value, number)), number - 1);
        }
        end.wait();
    });
    for (number, value) in (1..).zip(&values) {
        assert_eq!(value.run(|value| *value), number);
    }
}

/// Sections inside sections, of values of the same server, in chains that cross; some of them block.
fn nested_sections_wait_for_each_other<D: Delegate<Native>>() {
    let values: [Delegated<u64, D>; 3] = std::array::from_fn(|_| value());
    let (begun, end) = (Barrier::new(2), Barrier::new(2));
    thread::scope(|scope| {
        // The innermost is taken, and stays so until a section of the same server has run.
        scope.spawn(|| {
            values[2].run(|value| {
                begun.wait();
                end.wait();
                *value += 1;
            });
        });
        begun.wait();
        for _ in 0..4 {
            scope.spawn(|| {
                values[0].run(|outer| {
                    *outer += 1;
                    values[1].run(|middle| {
                        *middle += 1;
                        values[2].run(|inner| *inner += 1);
                    });
                });
            });
        }
        scope.spawn(|| {
            value::<D>().run(|_| end.wait());
        });
    });
    assert_eq!(values.each_ref().map(|value| value.run(|value| *value)), [4, 4, 5]);
}

/// More clients at once than a page of lines, or a root of pages, has.
fn more_clients_than_lines<D: Delegate<Native>>() {
    const CLIENTS: u64 = 300;
    let (log, all) = (Delegated::<Vec<u64>, D>::with_delegate(Vec::new()), Barrier::new(CLIENTS as usize));
    thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (log, all) = (&log, &all);
            scope.spawn(move || {
                all.wait();
                for section in 0..3 {
                    log.run(|log| log.push(client * 3 + section));
                }
                all.wait();
            });
        }
    });
    let mut log = log.into_inner();
    log.sort_unstable();
    assert!(log.into_iter().eq(0..CLIENTS * 3));
}

macro_rules! under_both {
    ($($test:ident)*) => { $(
        mod $test {
            use super::*;

            #[test]
            fn rcl() {
                beside_others(super::$test::<Rcl>);
            }

            #[test]
            fn ffwd() {
                beside_others(super::$test::<Ffwd>);
            }
        }
    )* };
}

under_both! {
    a_section_waits_for_a_mutex a_section_waits_for_input a_section_waits_for_a_condition a_section_spins
    all_servicing_threads_block nested_sections_wait_for_each_other more_clients_than_lines
}

/// The threads of this process that serve.
fn servicing() -> Vec<c_int> {
    let of = |task: io::Result<fs::DirEntry>| {
        let task = task.ok()?;
        let name = fs::read_to_string(task.path().join("comm")).ok()?;
        let thread: c_int = task.file_name().to_str()?.parse().ok()?;
        (name.trim() == format!("lockwork-{thread:06x}")).then_some(thread)
    };
    fs::read_dir("/proc/self/task").expect("the threads").filter_map(of).collect()
}

/// What `/proc` calls the state of a thread: `R`, `S`, …
fn state_of(thread: c_int) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/self/task/{thread}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

unsafe extern "C" {
    fn signal(number: c_int, handler: extern "C" fn(c_int)) -> usize;
    fn tgkill(process: c_int, thread: c_int, signal: c_int) -> c_int;
}

const SIGUSR1: c_int = 10;

/// Servicing threads that are stopped, and whether those that are stop.
static STOPPED: AtomicU64 = AtomicU64::new(0);
static STOP: AtomicBool = AtomicBool::new(false);

/// Keeps the thread from going on, wherever it is, as a scheduler does that gives its CPU to others.
extern "C" fn stand_still(_: c_int) {
    STOPPED.fetch_add(1, SeqCst);
    while STOP.load(SeqCst) {
        thread::sleep(Duration::from_millis(1));
    }
    STOPPED.fetch_sub(1, SeqCst);
}

/// Servicing threads lose their CPU for as long as somebody else's sections take: those are run by another thread, or by their
/// requesters.
fn servers_are_preempted<D: Delegate<Native>>() {
    // SAFETY: a handler that makes system calls and uses atomics.
    unsafe { signal(SIGUSR1, stand_still) };
    let value = value::<D>();
    value.run(|value| *value += 1);
    STOP.store(true, SeqCst);
    let threads = servicing();
    assert!(!threads.is_empty(), "a server has a thread");
    for thread in &threads {
        // SAFETY: sends a signal that is handled; a thread that has ended is an error.
        unsafe { tgkill(std::process::id() as c_int, *thread, SIGUSR1) };
    }
    // One that has been relieved and is about to end handles no signals any more.
    let remain = || threads.iter().filter(|thread| state_of(**thread).is_some()).count() as u64;
    while STOPPED.load(SeqCst) < remain() {
        thread::yield_now();
    }
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..50).for_each(|_| value.run(|value| *value += 1)));
        }
    });
    STOP.store(false, SeqCst);
    while STOPPED.load(SeqCst) > 0 {
        thread::yield_now();
    }
    assert_eq!(value.run(|value| *value), 201);
}

#[test]
fn servers_are_preempted_rcl() {
    alone(servers_are_preempted::<Rcl>);
}

#[test]
fn servers_are_preempted_ffwd() {
    alone(servers_are_preempted::<Ffwd>);
}

/// Servers stop and start while they are used: each section runs once.
#[test]
fn servers_start_and_stop_at_run_time() {
    alone(|| {
        let (first, second) = (value::<Rcl>(), value::<Ffwd>());
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            let workers: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| {
                        for _ in 0..2_000 {
                            first.run(|value| *value += 1);
                            second.run(|value| *value += 1);
                        }
                    })
                })
                .collect();
            let (is_over, stopper) = (&is_over, || {
                while !is_over.load(Relaxed) {
                    servers::stop();
                    thread::sleep(Duration::from_millis(1));
                    assert!(servers::start());
                    thread::sleep(Duration::from_millis(1));
                }
            });
            let stopper = scope.spawn(stopper);
            for worker in workers {
                worker.join().expect("no panic");
            }
            is_over.store(true, Relaxed);
            stopper.join().expect("no panic");
        });
        assert_eq!((first.into_inner(), second.into_inner()), (8_000, 8_000));
    });
}

/// Waits until one thread of each server is left (other tests may have had some made before), and sleeps. The watchdog ends a test
/// in which that never comes about.
fn all_servers_fall_asleep() {
    let most = servers::measures().len();
    let mut rounds = 0;
    while rounds < 10 {
        let states: Vec<_> = servicing().into_iter().map(state_of).collect();
        let is_quiet = states.len() <= most && states.iter().all(|state| *state == Some('S'));
        rounds = if is_quiet { rounds + 1 } else { 0 };
        thread::sleep(Duration::from_millis(2));
    }
}

/// Requesters wait for a section of their value that takes long: no thread after the other is had for them, and none is left awake.
fn long_sections_leave_no_thread_awake<D: Delegate<Native>>() {
    let value = &value::<D>();
    value.run(|value| *value += 1);
    all_servers_fall_asleep();
    let (begun, (end, ended)) = (&Barrier::new(2), mpsc::channel::<()>());
    let mut more = BTreeSet::new();
    thread::scope(|scope| {
        scope.spawn(move || {
            value.run(move |value| {
                begun.wait();
                assert!(ended.recv().is_err(), "nothing is sent");
                *value += 1;
            });
        });
        begun.wait();
        let before = servicing();
        scope.spawn(|| value.run(|value| *value += 1));
        // The requester looks at its server some sixty times, and would have had one thread each other time.
        for _ in 0..150 {
            more.extend(servicing().into_iter().filter(|thread| !before.contains(thread)));
            thread::sleep(Duration::from_millis(2));
        }
        drop(end);
    });
    // One may have been on its way when the first section began.
    assert!(more.len() <= 1, "{more:?}");
    all_servers_fall_asleep();
    assert_eq!(value.run(|value| *value), 3);
}

#[test]
fn long_sections_leave_no_thread_awake_rcl() {
    alone(long_sections_leave_no_thread_awake::<Rcl>);
}

#[test]
fn long_sections_leave_no_thread_awake_ffwd() {
    alone(long_sections_leave_no_thread_awake::<Ffwd>);
}

/// Servers that have nothing to do sleep; those that were relieved end.
#[test]
fn idle_servers_sleep() {
    alone(|| {
        let values = (value::<Rcl>(), value::<Ffwd>());
        values.0.run(|value| *value = 1);
        values.1.run(|value| *value = 1);
        all_servers_fall_asleep();
        assert_eq!((values.0.run(|value| *value), values.1.run(|value| *value)), (1, 1));
    });
}

/// The number of the thread that runs a section of the value.
fn executor(value: &Delegated<u64, DynDelegate>) -> u64 {
    // One that sleeps, or is late, may leave a section to its requester.
    let here = Native::thread_id();
    loop {
        let there = value.run(|_| Native::thread_id());
        if there != here {
            return there.into();
        }
    }
}

fn named(spec: &str) -> Delegated<u64, DynDelegate> {
    Delegated::with_spec(spec, 0).unwrap_or_else(|error| panic!("{spec}: {error}"))
}

/// Values go to the servers that their specs name; without a name, to all servers by turns.
#[test]
fn values_are_given_to_servers_by_name_and_by_turns() {
    if Native::parallelism() < 2 {
        skipped("several servers: this process has one CPU");
        return;
    }
    alone(|| {
        let by_name = ["ffwd(server=1)", "ffwd(server=2)", "ffwd(server=1)", "ffwd(server=2)"].map(named);
        let by_name = by_name.each_ref().map(executor);
        assert_eq!((by_name[0], by_name[1]), (by_name[2], by_name[3]));
        assert_ne!(by_name[0], by_name[1]);
        let by_turns = ["ffwd(servers=2)"; 4].map(named);
        let by_turns = by_turns.each_ref().map(executor);
        assert_eq!((by_turns[0], by_turns[1]), (by_turns[2], by_turns[3]));
        assert_ne!(by_turns[0], by_turns[1]);
    });
}

/// The scheduling policy and the real-time priority of the calling thread.
fn policy() -> (u32, u32) {
    let stat = fs::read_to_string("/proc/thread-self/stat").expect("/proc");
    let fields: Vec<&str> = stat.rsplit_once(") ").expect("a name").1.split(' ').collect();
    let field = |number: usize| fields[number - 3].parse().expect("a number");
    (field(41), field(40))
}

const FIFO: u32 = 1;

/// Servers have the priority that is asked for, if the process may have it; else the spec is refused, and the reason names the
/// mend.
#[test]
fn priorities_are_given_or_refused() {
    alone(|| {
        let refused = |spec| {
            let error =
                Delegated::with_spec(spec, 0).map(|_| ()).expect_err("without permission").to_string();
            assert!(error.contains("`rcl(priority=7)` asks for a real-time priority"), "{error}");
            assert!(error.contains("ulimit -r 7"), "{error}");
        };
        match Delegated::with_spec("rcl(priority=7)", 0) {
            Ok(value) => {
                let here = policy();
                let there =
                    iter::repeat_with(|| value.run(|_: &mut u64| policy())).find(|there| *there != here);
                assert_eq!(there, Some((FIFO, 7)));
                assert_ne!(named("rcl").run(|_| policy()), (FIFO, 7));
            }
            Err(_) => refused("rcl(priority=7)"),
        }
        thread::spawn(move || {
            give_up_capabilities();
            refused("rcl(priority=7)");
        })
        .join()
        .expect("it is refused");
    });
}

/// The calling thread has no right any more to do what root may.
fn give_up_capabilities() {
    #[repr(C)]
    struct Header(u32, c_int);
    unsafe extern "C" {
        fn capset(header: *const Header, data: *const [u32; 6]) -> c_int;
        fn setrlimit(resource: c_int, limit: *const [u64; 2]) -> c_int;
    }
    const VERSION_3: u32 = 0x2008_0522;
    const RTPRIO: c_int = 14;
    // SAFETY: numbers of the kernel's interface, about this thread.
    assert_eq!(unsafe { capset(&Header(VERSION_3, 0), &[0; 6]) }, 0);
    // SAFETY: as above, about this process, which asks for no other priority.
    assert_eq!(unsafe { setrlimit(RTPRIO, &[0; 2]) }, 0);
}

/// Servers that there are not, too few CPUs.
#[test]
fn servers_that_cannot_be_had_are_refused() {
    if Native::parallelism() >= 64 {
        skipped("too many servers: this process has 64 CPUs");
        return;
    }
    for (spec, reason) in [
        ("rcl(servers=64)", "asks for 64 servers"),
        ("ffwd(servers=64)", "asks for 64 servers"),
        ("rcl(server=64)", "asks for server 64"),
    ] {
        let error = Delegated::with_spec(spec, 0).map(|_| ()).expect_err(spec).to_string();
        assert!(error.contains(reason) && error.contains("each server wants one"), "{error}");
    }
}

thread_local! {
    static RUN_HERE: Cell<u64> = const { Cell::new(0) };
}

/// What the servers count: every request that they ran, scans that found any, and scans that found some for several values.
#[test]
fn measures_tell_of_use_and_of_false_serialisation() {
    alone(|| {
        let total =
            |measure: fn(&servers::Measures) -> usize| servers::measures().iter().map(measure).sum::<usize>();
        let (first, second) = (value::<Rcl>(), value::<Rcl>());
        let before = (total(|measures| measures.served), total(|measures| measures.mixed));
        let by_servers = AtomicU64::new(0);
        let all = Barrier::new(4);
        thread::scope(|scope| {
            for client in 0..4 {
                let (value, all, by_servers) =
                    (if client % 2 == 0 { &first } else { &second }, &all, &by_servers);
                scope.spawn(move || {
                    RUN_HERE.set(u64::MAX);
                    for _ in 0..500 {
                        all.wait();
                        value.run(|value| {
                            *value += 1;
                            by_servers.fetch_add(u64::from(RUN_HERE.get() != u64::MAX), Relaxed);
                        });
                    }
                });
            }
        });
        let served = total(|measures| measures.served) - before.0;
        let mixed = total(|measures| measures.mixed) - before.1;
        // Two threads that count at once, as when one has been relieved, may lose one.
        let by_servers = by_servers.into_inner() as usize;
        assert!(served <= by_servers && served + by_servers / 10 >= by_servers, "{served} of {by_servers}");
        assert!(mixed <= total(|measures| measures.scans), "{mixed}");
        for measures in servers::measures() {
            assert!((0.0..=1.0).contains(&measures.false_serialisation()), "{measures:?}");
            assert!(measures.use_rate(1) >= measures.use_rate(4), "{measures:?}");
        }
        assert_eq!((first.into_inner(), second.into_inner()), (1_000, 1_000));
    });
}
