//! A process whose main thread has ended by `pthread_exit` ends with the last of its threads. Servers are threads, and would keep it
//! for ever.
//!
//! The main thread has a value of a key, whose destructor runs where that thread ends and the process does not. From then on a
//! thread looks whether others are left than servers; if not, it stops these and ends, and with it the process.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;
use std::{fs, ptr, thread};

use lockwork_platform::sys;

use crate::servers;

type Key = u32;

unsafe extern "C" {
    fn pthread_key_create(key: *mut Key, destructor: Option<unsafe extern "C" fn(*mut u8)>) -> i32;
    fn pthread_setspecific(key: Key, value: *const u8) -> i32;
}

/// Threads that serve.
static SERVING: AtomicUsize = AtomicUsize::new(0);
/// Whether the main thread has ended, and whether a thread looks since.
static MAIN_HAS_ENDED: AtomicBool = AtomicBool::new(false);
static IS_LOOKED: AtomicBool = AtomicBool::new(false);
/// `None`: there are no more keys.
static KEY: OnceLock<Option<Key>> = OnceLock::new();

/// Runs in the main thread, unless another one loads this library.
#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn() = notice_the_end;

/// To be called by the main thread: it will be noticed that it has ended.
pub(crate) extern "C" fn notice_the_end() {
    if sys::gettid() != std::process::id() {
        return;
    }
    let made = || {
        let mut key = 0;
        // SAFETY: a key to write, and a destructor of the right type.
        (unsafe { pthread_key_create(&raw mut key, Some(main_ends)) } == 0).then_some(key)
    };
    if let Some(key) = KEY.get_or_init(made) {
        // SAFETY: the key has been made. The value is an address that nobody reads, and not null, so that the destructor runs.
        unsafe { pthread_setspecific(*key, ptr::from_ref(&KEY).cast()) };
    }
}

unsafe extern "C" fn main_ends(_: *mut u8) {
    MAIN_HAS_ENDED.store(true, SeqCst);
    if SERVING.load(SeqCst) > 0 {
        look();
    }
}

/// Counts a thread that serves until the value is dropped.
#[derive(Debug)]
pub(crate) struct Serving(());

impl Serving {
    pub(crate) fn begin() -> Self {
        // ORDER: it or `main_ends` sees what the other has written.
        SERVING.fetch_add(1, SeqCst);
        if MAIN_HAS_ENDED.load(SeqCst) {
            look();
        }
        Self(())
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        SERVING.fetch_sub(1, SeqCst);
    }
}

/// To be called in a child of `fork`: its only thread is the main one, and nobody serves or looks.
pub(crate) fn after_fork() {
    SERVING.store(0, SeqCst);
    MAIN_HAS_ENDED.store(false, SeqCst);
    IS_LOOKED.store(false, SeqCst);
    notice_the_end();
}

/// Threads of this process, the main one among them though it has ended.
fn threads() -> Option<usize> {
    Some(fs::read_dir("/proc/self/task").ok()?.count())
}

/// A thread stops the servers when nobody else is left. Where it cannot know that, the process goes on as long as they do.
fn look() {
    if IS_LOOKED.swap(true, SeqCst) {
        return;
    }
    let look = || {
        let mut pause = Duration::from_millis(1);
        while let Some(threads) = threads() {
            // The main one and this one. A server that has not counted itself yet, or is no more counted, is one of the others.
            if threads <= SERVING.load(SeqCst) + 2 {
                servers::stop();
                break;
            }
            thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(100));
        }
        IS_LOOKED.store(false, SeqCst);
    };
    let _ = thread::Builder::new().name("lockwork-last".into()).spawn(look);
}
