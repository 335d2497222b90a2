//! Clients of a monitor whose probe is answered.

use std::os::unix::process::parent_id;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc;
use std::{io, process, ptr, thread};

use lockwork::DynMutex;
use lockwork_platform::monitor;
use lockwork_platform::{LastSeen, Native, Sched, waiters};

use super::{attach, ended_well, fork, forked, look, pin, some_cpu, spinner, until, until_attached};

/// What the monitor says of a thread.
fn says(thread: u32) -> Option<bool> {
    Native::has_run(thread, &mut LastSeen::default())
}

/// Attaches, and waits until the board is written to.
pub(super) fn be_answered(socket: &Path) {
    attach(socket);
    until(|| says(Native::tid()) == Some(true));
    assert!(Native::tells_who_ran());
}

pub(super) fn who_asks_is_answered(socket: &Path) {
    static STOP: AtomicBool = AtomicBool::new(false);
    be_answered(socket);
    let cpu = some_cpu();
    let (spinning, spinner) = spinner(cpu, &STOP);
    let (send, receive) = mpsc::channel();
    let (release, wait) = mpsc::channel::<()>();
    let sleeper = thread::spawn(move || {
        send.send(Native::tid()).expect("a receiver that waits for it");
        let _ = wait.recv();
    });
    let sleeping = receive.recv().expect("its id");
    until(|| says(sleeping) == Some(false));
    // As long as this thread is kept to the CPU of the other, that cannot run while it asks.
    thread::spawn(move || {
        pin(cpu);
        for _ in 0..1_000 {
            assert_eq!((says(spinning), says(Native::tid())), (Some(false), Some(true)));
        }
    })
    .join()
    .expect("answers");
    // On another one, if there is any, it finds it running.
    if thread::available_parallelism().is_ok_and(|cpus| cpus.get() > 1) {
        until(|| says(spinning) == Some(true));
    }
    STOP.store(true, Ordering::Relaxed);
    drop(release);
    [spinner, sleeper].into_iter().for_each(|handle| handle.join().expect("the other threads"));
    until(|| says(spinning).is_none() && says(sleeping).is_none());
}

pub(super) fn nobody_learns_of_other_processes(socket: &Path) {
    be_answered(socket);
    let mut child = Command::new("sleep").arg("30").spawn().expect("a process");
    for other in [parent_id(), child.id(), 1, 0, u32::MAX, 1 << 22] {
        assert_eq!(says(other), None, "{other}");
    }
    child.kill().expect("our own process");
    child.wait().expect("its end");
    assert_eq!(says(process::id()), Some(true));
}

pub(super) fn it_takes_no_system_call(socket: &Path) {
    be_answered(socket);
    assert!(ended_well(fork(|| {
        until_attached();
        until(|| says(Native::tid()) == Some(true));
        let (thread, last) = (Native::tid(), &mut LastSeen::default());
        // SAFETY: from here on the kernel ends this process for all system calls but four.
        assert_eq!(unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_STRICT) }, 0);
        let answers = (0..1_000).all(|_| Native::has_run(thread, last) == Some(true));
        // SAFETY: one of the four, which ends this process, of one thread.
        unsafe { libc::syscall(libc::SYS_exit, i32::from(!answers)) };
    })));
}

pub(super) fn a_child_is_answered_for_itself(socket: &Path) {
    be_answered(socket);
    let parent = Native::tid();
    assert!(forked(|| {
        assert_eq!(says(Native::tid()), None, "the parent's board");
        until_attached();
        until(|| says(Native::tid()) == Some(true));
        assert_eq!(says(parent), None);
    }));
    assert_eq!(says(parent), Some(true));
}

/// As a child, whose end says whether it is told something of the thread.
extern "C" fn asks_about(thread: *mut libc::c_void) -> libc::c_int {
    says(thread as usize as u32).is_some().into()
}

/// A child that shares this process's memory, as of `vfork`, is another process, which has no board.
pub(super) fn no_answer_is_not_the_last_answer(socket: &Path) {
    be_answered(socket);
    let me = Native::tid();
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    let mut stack = vec![0_u128; 1 << 14];
    for _ in 0..100 {
        assert_eq!(says(me), Some(true));
        // SAFETY: the child has a stack, asks, and ends; this process has one thread, which waits for that.
        let child = unsafe {
            libc::clone(asks_about, stack.as_mut_ptr_range().end.cast(), flags, me as usize as *mut _)
        };
        assert!(child > 0);
        assert_eq!(gone(), Some(true), "it is told something");
    }
}

/// Waits for a child, whatever its end is signalled by, if there is one; whether it ended well.
fn gone() -> Option<bool> {
    let mut status = 0;
    // SAFETY: a writable status.
    let pid = unsafe { libc::waitpid(-1, &raw mut status, libc::__WALL) };
    (pid > 0).then_some(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0)
}

/// Set in children of the handler.
static IS_CHILD: AtomicBool = AtomicBool::new(false);
/// How many there are.
static CHILDREN: AtomicU32 = AtomicU32::new(0);

extern "C" fn forks(_signal: libc::c_int) {
    // SAFETY: this process has one thread, which does nothing but ask.
    match unsafe { libc::fork() } {
        0 => {
            waiters::purge_ghosts(|_| {});
            IS_CHILD.store(true, Ordering::Relaxed);
        }
        _ => _ = CHILDREN.fetch_add(1, Ordering::Relaxed),
    }
}

/// The signal comes when the kernel has answered, in the middle of the probe. The child goes on there.
pub(super) fn a_signal_handler_may_fork(socket: &Path) {
    const SIGNALS: u32 = 200;
    const EACH_MS: libc::timeval = libc::timeval { tv_sec: 0, tv_usec: 1_000 };
    be_answered(socket);
    let me = Native::tid();
    let handler = forks as extern "C" fn(libc::c_int) as libc::sighandler_t;
    // SAFETY: a handler of that kind.
    unsafe { libc::signal(libc::SIGPROF, handler) };
    let timer = libc::itimerval { it_interval: EACH_MS, it_value: EACH_MS };
    // SAFETY: a time.
    unsafe { libc::setitimer(libc::ITIMER_PROF, &raw const timer, ptr::null_mut()) };
    while CHILDREN.load(Ordering::Relaxed) < SIGNALS {
        let told = says(me);
        if IS_CHILD.load(Ordering::Relaxed) {
            // SAFETY: ends the child. What it asked in the parent's place, it may or may not have been told.
            unsafe { libc::_exit(0) };
        }
        assert_eq!(told, Some(true));
    }
    // SAFETY: no memory is involved.
    unsafe { libc::signal(libc::SIGPROF, libc::SIG_IGN) };
    let ends: Vec<bool> = std::iter::from_fn(gone).collect();
    assert!(ends.len() as u32 >= SIGNALS && ends.iter().all(|well| *well), "{ends:?}");
}

pub(super) fn ids_in_questions_are_those_of_the_own_namespace(socket: &Path) {
    let outside = Native::tid();
    // SAFETY: no memory is involved; this process has one thread.
    if unsafe { libc::unshare(libc::CLONE_NEWPID) } != 0 {
        panic!("a namespace: {}", io::Error::last_os_error());
    }
    assert!(forked(|| {
        assert_eq!(Native::tid(), 1);
        be_answered(socket);
        assert_eq!((says(1), says(outside)), (Some(true), None));
    }));
}

/// Of an aware lock, behind a holder that sleeps: the test looks at whether the monitor watches meanwhile.
pub(super) fn waits_for_a_sleeper(socket: &Path) {
    be_answered(socket);
    println!("answered");
    let lock = DynMutex::with_spec("flexguard", ()).expect("a lock");
    let held = lock.lock();
    thread::scope(|scope| {
        scope.spawn(|| drop(lock.lock()));
        for _ in 0..50 {
            thread::sleep(std::time::Duration::from_millis(10));
            look();
            assert_eq!(monitor::preempted(), None, "context switches are watched");
        }
        drop(held);
    });
}

/// While the monitor lives.
pub(super) fn asks_the_monitor(socket: &Path) {
    be_answered(socket);
    println!("attached");
    until(|| says(Native::tid()).is_none());
    assert!(!Native::tells_who_ran());
    println!("alone");
    until_attached();
    until(|| says(Native::tid()) == Some(true));
    println!("attached");
}
