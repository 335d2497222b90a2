//! What clients of the monitor do, and what they must not be able to do. Each has a process of its own, and fails by
//! panicking.

mod exec;
mod false_monitor;
mod hoard;
mod probe;

use std::fs;
use std::io::{self, Write as _};
use std::os::fd::RawFd;
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use lockwork::DynMutex;
use lockwork_platform::cpu_time::{self, Allowed};
use lockwork_platform::monitor::{self, Attached, BOARD_BYTES, PROBE};
use lockwork_platform::{Native, Sched, sys, waiters};

type Client = fn(&Path);

/// Those that are tests of a monitor that watches context switches.
pub(crate) const WATCHED: &[(&str, Client)] = &[
    ("a_preempted_thread_is_seen_as_such", a_preempted_thread_is_seen_as_such),
    ("a_sleeping_thread_is_not_preempted", a_sleeping_thread_is_not_preempted),
    ("a_thread_that_ended_is_not_seen", a_thread_that_ended_is_not_seen),
    ("nobody_writes_to_what_is_shared", nobody_writes_to_what_is_shared),
    ("what_an_earlier_watch_left_is_not_told", what_an_earlier_watch_left_is_not_told),
    ("a_waiter_asks", a_waiter_asks),
    ("a_waiter_that_reads_clocks_does_not_ask", a_waiter_that_reads_clocks_does_not_ask),
    ("a_child_asks_for_itself", a_child_asks_for_itself),
    ("ids_are_those_of_the_own_namespace", ids_are_those_of_the_own_namespace),
    ("a_filter_keeps_from_connecting", a_filter_keeps_from_connecting),
    ("a_filter_from_the_start_need_not_keep_from_it", a_filter_from_the_start_need_not_keep_from_it),
    ("asking_twice_gives_the_same_board", asking_twice_gives_the_same_board),
    ("who_executes_a_program_is_not_seen_any_more", exec::who_executes_a_program_is_not_seen_any_more),
    ("nor_if_another_thread_executes_it", exec::nor_if_another_thread_executes_it),
    ("another_program_gets_another_board", exec::another_program_gets_another_board),
    (
        "boards_of_ended_processes_count_while_they_are_kept",
        hoard::boards_of_ended_processes_count_while_they_are_kept,
    ),
    ("a_program_with_more_rights_gets_no_board", exec::a_program_with_more_rights_gets_no_board),
];

/// And of one whose probe is answered.
pub(crate) const ANSWERED: &[(&str, Client)] = &[
    ("who_asks_is_answered", probe::who_asks_is_answered),
    ("nobody_learns_of_other_processes", probe::nobody_learns_of_other_processes),
    ("it_takes_no_system_call", probe::it_takes_no_system_call),
    ("a_child_is_answered_for_itself", probe::a_child_is_answered_for_itself),
    ("no_answer_is_not_the_last_answer", probe::no_answer_is_not_the_last_answer),
    ("a_false_monitor_does_no_harm", false_monitor::a_false_monitor_does_no_harm),
    ("a_signal_handler_may_fork", probe::a_signal_handler_may_fork),
    (
        "ids_in_questions_are_those_of_the_own_namespace",
        probe::ids_in_questions_are_those_of_the_own_namespace,
    ),
    ("nobody_writes_to_what_is_shared_for_answers", nobody_writes_to_what_is_shared),
];

/// Those that take part in one.
pub(crate) const HELPERS: &[(&str, Client)] = &[
    ("asks_the_monitor", probe::asks_the_monitor),
    ("waits_for_a_sleeper", probe::waits_for_a_sleeper),
    ("watches_the_monitor", watches_the_monitor),
    ("wants_to_be_watched", wants_to_be_watched),
    ("naps", exec::naps),
    ("asks_again", exec::asks_again),
    ("has_more_rights", exec::has_more_rights),
];

fn plain(socket: &Path) -> &str {
    socket.to_str().expect("a plain path")
}

fn attach(socket: &Path) {
    // On a machine that is busy the answer may come too late.
    until(|| monitor::attach(plain(socket)) == Attached::Yes);
}

/// The same, and waits until the scheduler is watched.
fn be_watched(socket: &Path) {
    attach(socket);
    until_told(|| monitor::preempted().is_some());
}

/// What the monitor sends: the page that says whether it lives, the board, and the probe.
fn receive(socket: &Path) -> [RawFd; 3] {
    sys::receive_descriptors(plain(socket).as_bytes(), 900_000).expect("an answer")
}

/// The kernel's id of a board.
fn board_id(board: RawFd) -> String {
    let text = fs::read_to_string(format!("/proc/self/fdinfo/{board}")).expect("what the board is");
    text.lines().find_map(|line| line.strip_prefix("map_id:")).expect("an id").trim().to_owned()
}

/// Lets the calling thread run on this CPU only.
fn pin(cpu: usize) {
    let mut set = rustix::thread::CpuSet::new();
    set.set(cpu);
    rustix::thread::sched_setaffinity(None, &set).expect("a CPU of our own");
}

/// A CPU that this process may use.
fn some_cpu() -> usize {
    let set = rustix::thread::sched_getaffinity(None).expect("CPUs");
    (0..1024).find(|cpu| set.is_set(*cpu)).expect("a CPU")
}

/// Waits until `condition`; the process's alarm ends it if that never comes.
fn until(condition: impl Fn() -> bool) {
    while !condition() {
        thread::sleep(std::time::Duration::from_millis(1));
    }
}

/// A thread that wants its CPU all the time; told to end by the flag.
fn spinner(cpu: usize, stop: &'static AtomicBool) -> (u32, thread::JoinHandle<()>) {
    let (send, receive) = mpsc::channel();
    let handle = thread::spawn(move || {
        pin(cpu);
        send.send(Native::tid()).expect("a receiver that waits for it");
        while !stop.load(Ordering::Relaxed) {
            std::hint::spin_loop();
        }
    });
    (receive.recv().expect("its id"), handle)
}

fn a_preempted_thread_is_seen_as_such(socket: &Path) {
    static STOP: AtomicBool = AtomicBool::new(false);
    be_watched(socket);
    let cpu = some_cpu();
    pin(cpu);
    let (holder, handle) = spinner(cpu, &STOP);
    // Two threads on one CPU: while this one looks, the other is off it, although it could run.
    until_told(|| Native::running(holder) == Some(false) && monitor::preempted() == Some(1));
    until_told(|| Native::running(Native::tid()) == Some(true));
    STOP.store(true, Ordering::Relaxed);
    handle.join().expect("the other thread");
    until_told(|| monitor::preempted() == Some(0));
}

fn a_sleeping_thread_is_not_preempted(socket: &Path) {
    be_watched(socket);
    let (send, receive) = mpsc::channel();
    let (release, wait) = mpsc::channel::<()>();
    let handle = thread::spawn(move || {
        // It is seen from its first context switch on.
        until_told(|| Native::running(Native::tid()) == Some(true));
        send.send(Native::tid()).expect("a receiver that waits for it");
        let _ = wait.recv();
    });
    let sleeper = receive.recv().expect("its id");
    until_told(|| Native::running(sleeper) == Some(false) && monitor::preempted() == Some(0));
    drop(release);
    handle.join().expect("the other thread");
}

fn a_thread_that_ended_is_not_seen(socket: &Path) {
    be_watched(socket);
    let tid = AtomicU32::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            until_told(|| Native::running(Native::tid()) == Some(true));
            tid.store(Native::tid(), Ordering::Relaxed);
        });
    });
    until_told(|| Native::running(tid.load(Ordering::Relaxed)).is_none());
}

/// Maps what was sent for reading, and tries all ways to write to it.
fn nobody_writes_to_what_is_shared(socket: &Path) {
    const UPDATE: libc::c_long = 2;
    let [alive, board, probe] = receive(socket);
    for (descriptor, bytes) in [(alive, 4096), (board, BOARD_BYTES), (probe, PROBE.len())] {
        assert!(map(descriptor, bytes, libc::PROT_READ | libc::PROT_WRITE).is_err());
        let page = map(descriptor, bytes, libc::PROT_READ).expect("a mapping for reading");
        // SAFETY: our own mapping.
        let changed = unsafe { libc::mprotect(page, bytes, libc::PROT_READ | libc::PROT_WRITE) };
        assert_eq!(changed, -1);
        let byte = [1_u8];
        // SAFETY: a byte that can be read.
        assert!(unsafe { libc::pwrite(descriptor, byte.as_ptr().cast(), 1, 0) } < 1);
        // SAFETY: no memory is involved.
        assert_eq!(unsafe { libc::ftruncate(descriptor, 0) }, -1);
    }
    // Nor does anybody but root keep anything with the files.
    assert!(forked(|| {
        const NOBODY: u32 = 65_534;
        // SAFETY: no memory is involved.
        assert_eq!(unsafe { libc::setresuid(NOBODY, NOBODY, NOBODY) }, 0);
        for descriptor in [alive, probe] {
            let name = c"user.lockwork";
            // SAFETY: a name, and as many bytes as are said.
            let set = unsafe { libc::fsetxattr(descriptor, name.as_ptr(), name.as_ptr().cast(), 4, 0) };
            assert_eq!(set, -1);
            // SAFETY: no memory is involved.
            assert_eq!(unsafe { libc::fcntl(descriptor, libc::F_GETFL) } & libc::O_ACCMODE, libc::O_RDONLY);
        }
    }));
    let (key, value) = (8_u32, u64::MAX);
    let attributes = [board as u64, &raw const key as u64, &raw const value as u64, 0];
    // SAFETY: an attempt to set an element, whose key and value are as long as the map's.
    let updated =
        unsafe { libc::syscall(libc::SYS_bpf, UPDATE, attributes.as_ptr(), size_of_val(&attributes)) };
    assert_eq!(updated, -1);
}

fn map(descriptor: RawFd, bytes: usize, access: i32) -> io::Result<*mut libc::c_void> {
    // SAFETY: a fresh mapping disturbs nobody.
    let page = unsafe { libc::mmap(ptr::null_mut(), bytes, access, libc::MAP_SHARED, descriptor, 0) };
    if page == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(page) }
}

/// Runs `child` in a child of `fork`, prepared as the interposer does it; its id.
fn fork(child: impl FnOnce()) -> libc::pid_t {
    // SAFETY: this process has one thread.
    match unsafe { libc::fork() } {
        0 => {
            // SAFETY: no memory is involved; the default action of SIGALRM ends the process.
            unsafe { libc::alarm(30) };
            waiters::purge_ghosts(|_| {});
            child();
            // SAFETY: ends the process.
            unsafe { libc::_exit(0) }
        }
        pid => pid,
    }
}

/// Whether a child ends well.
fn ended_well(pid: libc::pid_t) -> bool {
    let mut status = 0;
    // SAFETY: our child, and a writable status.
    unsafe { libc::waitpid(pid, &raw mut status, 0) };
    libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0
}

/// As [`fork`]; whether it ended well.
fn forked(child: impl FnOnce()) -> bool {
    ended_well(fork(child))
}

/// Asks as a waiter does that is not told anything.
fn look() {
    Native::want_watch();
}

/// Asks until `condition`, which takes being watched.
fn until_told(condition: impl Fn() -> bool) {
    until(|| {
        look();
        condition()
    });
}

/// Looks so until there is a monitor that is quick enough.
fn until_attached() {
    until(|| {
        look();
        monitor::is_attached()
    });
}

fn what_an_earlier_watch_left_is_not_told(socket: &Path) {
    static STOP: AtomicBool = AtomicBool::new(false);
    be_watched(socket);
    let (send, receive) = mpsc::channel();
    let (release, wait) = mpsc::channel::<()>();
    let sleeping = thread::spawn(move || {
        send.send(Native::tid()).expect("a receiver that waits for it");
        let _ = wait.recv();
    });
    let sleeper = receive.recv().expect("its id");
    until_told(|| Native::running(sleeper) == Some(false));
    // Of two threads that share a CPU, one is preempted when the watch ends, as nobody asks any more.
    let cpu = some_cpu();
    let spinning = [spinner(cpu, &STOP).1, spinner(cpu, &STOP).1];
    until_told(|| monitor::preempted() == Some(1));
    until(|| monitor::preempted().is_none());
    STOP.store(true, Ordering::Relaxed);
    spinning.into_iter().for_each(|handle| handle.join().expect("a thread that spins"));
    assert_eq!(Native::running(sleeper), None);
    until_told(|| Native::running(Native::tid()) == Some(true));
    assert_eq!(Native::running(sleeper), None, "it has not been on a CPU since");
    until_told(|| monitor::preempted() == Some(0));
    drop(release);
    sleeping.join().expect("a thread that sleeps");
}

/// Of an aware lock, behind a holder that takes its time.
fn a_waiter_asks(socket: &Path) {
    attach(socket);
    let lock = DynMutex::with_spec("flexguard", ()).expect("a lock");
    let held = lock.lock();
    thread::scope(|scope| {
        scope.spawn(|| drop(lock.lock()));
        until(|| monitor::preempted().is_some());
        drop(held);
    });
}

/// Of that lock, behind a holder that sleeps, so that the waiter goes to sleep for what it sees.
fn a_waiter_that_reads_clocks_does_not_ask(socket: &Path) {
    attach(socket);
    if cpu_time::allow() != Allowed::Yes {
        let _ = writeln!(io::stderr(), "SKIPPED: the CPU clocks of threads cannot be read here");
        return;
    }
    // If the answer came too late, it has connected again, which counts as asking.
    until(|| monitor::preempted().is_none());
    let lock = DynMutex::with_spec("flexguard", ()).expect("a lock");
    let held = lock.lock();
    thread::scope(|scope| {
        scope.spawn(|| drop(lock.lock()));
        // Ten times as long as it takes until the scheduler is watched if somebody asks.
        for _ in 0..50 {
            thread::sleep(Duration::from_millis(10));
            assert_eq!(monitor::preempted(), None, "somebody has asked");
        }
        drop(held);
    });
}

fn a_child_asks_for_itself(socket: &Path) {
    attach(socket);
    assert!(forked(|| {
        assert!(!monitor::is_attached(), "the parent's board");
        until_told(|| Native::running(Native::tid()) == Some(true));
    }));
    assert!(monitor::is_attached());
}

fn ids_are_those_of_the_own_namespace(socket: &Path) {
    // SAFETY: no memory is involved; this process has one thread.
    if unsafe { libc::unshare(libc::CLONE_NEWPID) } != 0 {
        panic!("a namespace: {}", io::Error::last_os_error());
    }
    assert!(forked(|| {
        assert_eq!(Native::tid(), 1);
        be_watched(socket);
        until_told(|| Native::running(1) == Some(true));
    }));
}

/// A filter of system calls that allows all of them.
fn add_filter() {
    const ALLOW: u32 = 0x7fff_0000;
    let allow = [libc::sock_filter { code: 6, jt: 0, jf: 0, k: ALLOW }];
    let program = libc::sock_fprog { len: 1, filter: allow.as_ptr().cast_mut() };
    // SAFETY: a filter of the length given.
    let set = unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) };
    assert_eq!(set, 0);
}

fn a_filter_keeps_from_connecting(socket: &Path) {
    add_filter();
    assert_eq!(monitor::attach(plain(socket)), Attached::Filtered);
}

fn a_filter_from_the_start_need_not_keep_from_it(socket: &Path) {
    add_filter();
    until(|| monitor::attach_as_told(plain(socket)) == Attached::Yes);
    assert!(forked(until_attached));
    assert!(forked(|| {
        add_filter();
        look();
        assert_eq!(monitor::attach(plain(socket)), Attached::Filtered);
    }));
}

fn asking_twice_gives_the_same_board(socket: &Path) {
    let mut ids = Vec::new();
    for _ in 0..600 {
        // More often than one user may have boards.
        let descriptors = receive(socket);
        ids.push(board_id(descriptors[1]));
        descriptors.into_iter().for_each(sys::close);
    }
    ids.dedup();
    assert_eq!(ids.len(), 1, "{ids:?}");
}

fn watches_the_monitor(socket: &Path) {
    attach(socket);
    println!("attached");
    until(|| !monitor::is_attached());
    println!("alone");
    until_attached();
    println!("attached");
}

fn wants_to_be_watched(socket: &Path) {
    attach(socket);
    until(|| {
        look();
        false
    });
}
