//! Children of `fork` go on with delegates: sections of threads that they do not have are not run there.

use std::ffi::c_int;
use std::io::{self, Read as _};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use lockwork::delegates::{Attempt, Delegate as _, DynDelegate, Ffwd, Rcl, Section};
use lockwork::{Delegated, Operation, WaitFree, servers};

unsafe extern "C" {
    fn fork() -> c_int;
    fn _exit(status: c_int) -> !;
    fn waitpid(process: c_int, status: *mut c_int, options: c_int) -> c_int;
    fn kill(process: c_int, signal: c_int) -> c_int;
    fn signal(number: c_int, handler: extern "C" fn(c_int)) -> usize;
    fn pthread_self() -> usize;
    fn pthread_kill(thread: usize, signal: c_int) -> c_int;
}

const WNOHANG: c_int = 1;
const SIGKILL: c_int = 9;
const SIGUSR1: c_int = 10;

/// One test at a time: others would use the servers that one stops.
static ALONE: Mutex<()> = Mutex::new(());

/// How a child has ended; `None`: it had to be ended, as it hung.
fn end_of(child: c_int) -> Option<c_int> {
    assert!(child > 0, "fork: {}", io::Error::last_os_error());
    let mut status = 0;
    let begun = Instant::now();
    loop {
        // SAFETY: our own child, and a place for its status.
        if unsafe { waitpid(child, &raw mut status, WNOHANG) } != 0 {
            return Some(status);
        }
        if begun.elapsed() > Duration::from_secs(30) {
            // SAFETY: our own child.
            unsafe { kill(child, SIGKILL) };
            // SAFETY: as above.
            unsafe { waitpid(child, &raw mut status, 0) };
            return None;
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// Ends a child: well, if `is_well`.
fn exit(is_well: bool) -> ! {
    // SAFETY: ends this process.
    unsafe { _exit(c_int::from(!is_well)) }
}

const OTHERS: u64 = 4;
const SPECS: [&str; 11] = [
    "fc",
    "fc-list",
    "sanl",
    "sanl-numa",
    "sanl-plus",
    "p-sim",
    "oyama",
    "cc-synch",
    "dsm-synch",
    "h-synch",
    "locked(mcs-stp)",
];

/// A section forks while other threads have left requests.
#[test]
fn a_child_runs_no_section_of_a_thread_that_is_gone() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    for spec in SPECS {
        let value = Delegated::with_spec(spec, Vec::new()).expect(spec);
        let (is_begun, coming) = (AtomicBool::new(false), AtomicU64::new(0));
        thread::scope(|scope| {
            for number in 1..=OTHERS {
                let (value, is_begun, coming) = (&value, &is_begun, &coming);
                scope.spawn(move || {
                    while !is_begun.load(SeqCst) {
                        thread::yield_now();
                    }
                    coming.fetch_add(1, SeqCst);
                    value.run(|list| list.push(number));
                });
            }
            let child = value.run(|list| {
                is_begun.store(true, SeqCst);
                while coming.load(SeqCst) < OTHERS {
                    thread::yield_now();
                }
                // They leave their requests, and fall asleep.
                thread::sleep(Duration::from_millis(30));
                list.push(0);
                // SAFETY: the child uses the value, starts threads, and ends without running what the parent left to be run.
                unsafe { fork() }
            });
            if child == 0 {
                let more: Vec<_> =
                    (0..OTHERS).map(|_| scope.spawn(|| value.run(|list| list.push(7)))).collect();
                let are_well = more.into_iter().all(|thread| thread.join().is_ok());
                let list = value.run(|list| list.clone());
                exit(
                    are_well
                        && list.len() as u64 == 1 + OTHERS
                        && list[0] == 0
                        && list[1..].iter().all(|&by| by == 7),
                );
            }
            assert_eq!(end_of(child), Some(0), "{spec}");
        });
        let mut list = value.into_inner();
        list.sort_unstable();
        assert!(list.into_iter().eq(0..=OTHERS), "{spec}");
    }
}

/// A thread forks while it holds a delegate and others wait for it: in the child it can end that, and others come.
#[test]
fn a_child_can_release_what_its_parent_held() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    const HELD: [&str; 11] = [
        "fc",
        "locked(mcs-stp)",
        "locked(clh-stp)",
        "locked(ticket)",
        "locked(hmcs-stp)",
        "locked(cst-mutex)",
        "sanl",
        "sanl-numa",
        "sanl-plus",
        "rcl",
        "ffwd",
    ];
    for spec in HELD {
        for tries in [false, true] {
            let delegate = DynDelegate::new(spec).expect(spec);
            delegate.settle();
            let (coming, runs) = (AtomicU64::new(0), AtomicU64::new(0));
            let run = || {
                // SAFETY: called with a counter that outlives the request.
                let section = unsafe { Section::new(count, (&raw const runs).cast_mut().cast()) };
                // SAFETY: this waits for it.
                unsafe { delegate.execute(section) };
            };
            let held = match (tries, delegate.try_acquire()) {
                (true, Attempt::Held(held)) => held,
                (false, Attempt::Held(held)) => {
                    // SAFETY: acquired just now.
                    unsafe { delegate.release(held) };
                    delegate.acquire().expect(spec)
                }
                (_, outcome) => panic!("{spec}: {outcome:?}"),
            };
            thread::scope(|scope| {
                for _ in 0..OTHERS {
                    scope.spawn(|| {
                        coming.fetch_add(1, SeqCst);
                        run();
                    });
                }
                while coming.load(SeqCst) < OTHERS {
                    thread::yield_now();
                }
                // They wait, and fall asleep.
                thread::sleep(Duration::from_millis(30));
                // SAFETY: the child uses the delegate, starts threads, and ends without running what the parent left to be run.
                let child = unsafe { fork() };
                if child == 0 {
                    // SAFETY: its copy is held by the acquisition above.
                    unsafe { delegate.release(held) };
                    let more: Vec<_> = (0..OTHERS).map(|_| scope.spawn(run)).collect();
                    let are_well = more.into_iter().all(|thread| thread.join().is_ok());
                    exit(are_well && runs.load(SeqCst) == OTHERS && !delegate.is_busy());
                }
                let end = end_of(child);
                // SAFETY: acquired above.
                unsafe { delegate.release(held) };
                assert_eq!(end, Some(0), "{spec}, tried: {tries}");
            });
            assert_eq!(runs.load(SeqCst), OTHERS, "{spec}");
        }
    }
}

unsafe fn count(runs: *mut ()) {
    // SAFETY: the requester's, which waits.
    unsafe { &*runs.cast::<AtomicU64>() }.fetch_add(1, SeqCst);
}

/// A thread starts and stops servers while another one forks: the child can do both.
#[test]
fn a_child_can_start_servers() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let values = (Delegated::<u64, Rcl>::with_delegate(0), Delegated::<u64, Ffwd>::with_delegate(0));
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(SeqCst) {
                servers::stop();
                servers::start();
            }
        });
        let ends: Vec<_> = (0..20)
            .map(|_| {
                thread::sleep(Duration::from_millis(1));
                // SAFETY: the child starts and stops servers, and ends without running what the parent left to be run.
                let child = unsafe { fork() };
                if child == 0 {
                    let is_started = servers::start();
                    let sums = [values.0.run(|value| *value + 1), values.1.run(|value| *value + 1)];
                    servers::stop();
                    exit(is_started && sums == [1, 1]);
                }
                end_of(child)
            })
            .take_while(|end| *end == Some(0))
            .collect();
        is_over.store(true, SeqCst);
        assert_eq!(ends.len(), 20, "a child hung, or went wrong");
    });
    servers::start();
}

/// What a handler's `fork` returned; whether this is the child; whether the thread that is to fork waits.
static CHILD: AtomicU64 = AtomicU64::new(0);
static IS_CHILD: AtomicBool = AtomicBool::new(false);
static WAITS: AtomicBool = AtomicBool::new(false);

extern "C" fn fork_in_handler(_: c_int) {
    if !WAITS.load(SeqCst) {
        return;
    }
    // SAFETY: the child goes on with the section that its thread has requested, and ends.
    match unsafe { fork() } {
        0 => IS_CHILD.store(true, SeqCst),
        child => CHILD.store(child as u64, SeqCst),
    }
}

/// Runs `meanwhile` while a section of another value holds up the server of `value`. `false`: the requester has run the section
/// itself.
fn holding_up(meanwhile: impl FnOnce()) -> bool {
    let other = Delegated::with_spec("ffwd(server=1)", ()).expect("a delegate");
    let (mut end, writer) = io::pipe().expect("a pipe");
    let (tell, told) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(move || {
            let requester = thread::current().id();
            other.run(move |()| {
                let is_held_up = thread::current().id() != requester;
                tell.send(is_held_up).expect("a receiver");
                assert!(!is_held_up || end.read(&mut [0]).expect("the end") == 0);
            });
        });
        let is_held_up = told.recv().expect("a sender");
        if is_held_up {
            meanwhile();
        }
        drop(writer);
        is_held_up
    })
}

/// A signal handler forks while its thread waits for a server that is held up: in the child the thread runs its section itself.
#[test]
fn a_thread_that_forks_while_it_waits_for_a_server_goes_on_in_the_child() {
    const CHILDREN: u64 = 5;
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: a handler that forks, and uses atomics.
    unsafe { signal(SIGUSR1, fork_in_handler) };
    let mut children = 0;
    for round in 0..200 {
        let value = Delegated::with_spec("ffwd(server=1)", 0).expect("a delegate");
        CHILD.store(0, SeqCst);
        let requester = AtomicU64::new(0);
        let wait = || {
            // SAFETY: takes nothing.
            requester.store(unsafe { pthread_self() } as u64, SeqCst);
            WAITS.store(true, SeqCst);
            let before = value.run(|value| {
                *value += 1;
                *value - 1
            });
            WAITS.store(false, SeqCst);
            if IS_CHILD.load(SeqCst) {
                exit(before == 0 && value.run(|value| *value) == 1);
            }
        };
        holding_up(|| {
            thread::scope(|scope| {
                let waiting = scope.spawn(wait);
                while requester.load(SeqCst) == 0 {
                    thread::yield_now();
                }
                // It takes its request back some 10 ms later.
                thread::sleep(Duration::from_micros(300 * (round % 10)));
                // SAFETY: a thread that has not been joined, and a signal that is handled.
                assert_eq!(unsafe { pthread_kill(requester.load(SeqCst) as usize, SIGUSR1) }, 0);
                waiting.join().expect("no panic");
            });
        });
        match CHILD.load(SeqCst) {
            0 => {}
            child => {
                assert_eq!(end_of(child as c_int), Some(0), "round {round}");
                children += 1;
            }
        }
        if children == CHILDREN {
            return;
        }
    }
    panic!("{children} handlers found their thread waiting");
}

static IS_HALF_WRITTEN: AtomicBool = AtomicBool::new(false);
static STANDS_STILL: AtomicBool = AtomicBool::new(false);
static HALVES: AtomicU64 = AtomicU64::new(0);

/// A value that knows whether it has been written to the end.
struct Whole(bool);

impl Clone for Whole {
    fn clone(&self) -> Self {
        Self(self.0)
    }

    fn clone_from(&mut self, _: &Self) {
        self.0 = false;
        IS_HALF_WRITTEN.store(true, SeqCst);
        while STANDS_STILL.load(SeqCst) {
            thread::yield_now();
        }
        self.0 = true;
    }
}

impl Drop for Whole {
    fn drop(&mut self) {
        HALVES.fetch_add(u64::from(!self.0), SeqCst);
    }
}

struct Nothing;

impl Operation<Whole> for Nothing {
    type Output = ();

    fn apply(&self, _: &mut Whole) {}
}

/// A thread of the parent was writing a copy of a wait-free value: a child goes on without it, and does not drop that copy.
#[test]
fn a_child_drops_no_copy_that_is_half_written() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let value = Box::into_raw(Box::new(WaitFree::new(Whole(true))));
    // SAFETY: freed below, and in the child.
    let here = unsafe { &*value };
    STANDS_STILL.store(true, SeqCst);
    let child = thread::scope(|scope| {
        // Its first copies are not written over others.
        scope.spawn(|| (0..4).for_each(|_| here.apply(Nothing)));
        let begun = Instant::now();
        while !IS_HALF_WRITTEN.load(SeqCst) && begun.elapsed() < Duration::from_secs(30) {
            thread::yield_now();
        }
        // SAFETY: the child does what a thread may do that has no others.
        let child = unsafe { fork() };
        if child == 0 {
            STANDS_STILL.store(false, SeqCst);
            (0..4).for_each(|_| here.apply(Nothing));
            // SAFETY: made above; the threads that used it are not in this process.
            drop(unsafe { Box::from_raw(value) });
            exit(HALVES.load(SeqCst) == 0);
        }
        STANDS_STILL.store(false, SeqCst);
        child
    });
    assert_eq!(end_of(child), Some(0));
    assert!(IS_HALF_WRITTEN.load(SeqCst));
    // SAFETY: made above, and the thread has ended.
    drop(unsafe { Box::from_raw(value) });
}
