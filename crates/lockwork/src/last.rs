//! A process whose main thread has ended by `pthread_exit` ends with the last of its threads. Servers are threads, and would keep it
//! for ever.
//!
//! The main thread has a value of a key, whose destructor runs where that thread ends and the process does not. From then on a
//! thread looks whether others are left than servers; if not, it stops these and ends, and with it the process.

use std::ffi::{CString, c_char};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;
use std::{fs, io, process, ptr, thread};

use lockwork_platform::sys;

use crate::{servers, threads};

type Key = u32;

unsafe extern "C" {
    fn pthread_key_create(key: *mut Key, destructor: Option<unsafe extern "C" fn(*mut u8)>) -> i32;
    fn pthread_key_delete(key: Key) -> i32;
    fn pthread_setspecific(key: Key, value: *const u8) -> i32;
    fn pthread_self() -> usize;
    fn pthread_setname_np(thread: usize, name: *const c_char) -> i32;
}

/// What the threads of ours are called is this and their number, whatever copy of this library they are of. A thread that a section has
/// started inherits the name from the server, but not the number: it is one of the program's.
const OURS: &str = "lockwork-";

fn name_of(thread: u32) -> String {
    // Fifteen bytes at most, as the kernel has it.
    format!("{OURS}{thread:06x}")
}

/// Gives the calling thread, which is one of ours, its name.
fn name_self() {
    // Without an inner zero, so that it is one.
    if let Ok(name) = CString::new(name_of(sys::gettid())) {
        // SAFETY: takes nothing.
        let this = unsafe { pthread_self() };
        // SAFETY: this thread, and a terminated string.
        unsafe { pthread_setname_np(this, name.as_ptr()) };
    }
}

/// What the kernel says of a thread that has ended.
const ENOENT: i32 = 2;
const ESRCH: i32 = 3;

/// Threads that serve.
static SERVING: AtomicUsize = AtomicUsize::new(0);
/// Whether the main thread has ended, and whether a thread looks since.
static MAIN_HAS_ENDED: AtomicBool = AtomicBool::new(false);
static IS_LOOKED: AtomicBool = AtomicBool::new(false);
/// The key, plus one; 0: there is none. No `Once`: a thread that is about to make one may be gone in a child of `fork`.
static KEY: AtomicU32 = AtomicU32::new(0);

/// Runs in the main thread, unless another one loads this library.
#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn() = notice_the_end;

/// Where this library is unloaded the main thread must not call it at its end.
#[used]
#[unsafe(link_section = ".fini_array")]
static DESTRUCTOR: extern "C" fn() = delete_key;

/// The key, made if there is none; `None` if there are no more.
fn key() -> Option<Key> {
    if let Some(key) = KEY.load(SeqCst).checked_sub(1) {
        return Some(key);
    }
    let mut key = 0;
    // SAFETY: a key to write, and a destructor of the right type.
    if unsafe { pthread_key_create(&raw mut key, Some(main_ends)) } != 0 {
        return None;
    }
    match KEY.compare_exchange(0, key + 1, SeqCst, SeqCst) {
        Ok(_) => Some(key),
        Err(others) => {
            // SAFETY: made above, and nobody knows it.
            unsafe { pthread_key_delete(key) };
            Some(others - 1)
        }
    }
}

extern "C" fn delete_key() {
    if let Some(key) = KEY.swap(0, SeqCst).checked_sub(1) {
        // SAFETY: made by `key`, and no more known.
        unsafe { pthread_key_delete(key) };
    }
}

/// If the main thread calls it: it will be noticed that it has ended.
pub(crate) extern "C" fn notice_the_end() {
    if sys::gettid() != process::id() {
        return;
    }
    if let Some(key) = key() {
        // SAFETY: the key has been made. The value is an address that nobody reads, and not null, so that the destructor runs.
        unsafe { pthread_setspecific(key, ptr::from_ref(&KEY).cast()) };
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
        name_self();
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

/// Whether this process has another thread than the main one, which has ended, and those of ours.
fn has_others() -> io::Result<bool> {
    let main = process::id();
    for task in fs::read_dir("/proc/self/task")? {
        let task = task?;
        let thread = task.file_name().to_str().and_then(|number| number.parse().ok()).unwrap_or(0);
        if thread == main {
            continue;
        }
        match fs::read_to_string(task.path().join("comm")) {
            Ok(name) if name.trim_end() == name_of(thread) => {}
            Ok(_) => return Ok(true),
            // It has ended since.
            Err(error) if matches!(error.raw_os_error(), Some(ENOENT | ESRCH)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(false)
}

/// Has a thread look that stops the servers when nobody else is left.
fn look() {
    if IS_LOOKED.swap(true, SeqCst) {
        return;
    }
    if !threads::start(stop_when_alone) {
        IS_LOOKED.store(false, SeqCst);
    }
}

/// Looks until no server is left. Where it cannot know who else there is, the process goes on as long as they do.
fn stop_when_alone() {
    name_self();
    let mut pause = Duration::from_millis(1);
    let mut alone = 0;
    loop {
        match has_others() {
            // Of a thread that has started another one and ended while the list was read, the second look sees the other one.
            Ok(false) => alone += 1,
            Ok(true) => alone = 0,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return,
            // There are no more files to be had, for the time being.
            Err(_) => alone = 0,
        }
        if alone >= 2 {
            servers::stop();
        }
        if SERVING.load(SeqCst) == 0 {
            IS_LOOKED.store(false, SeqCst);
            // ORDER: one that has begun to serve since has found somebody looking, or this finds that it serves.
            if SERVING.load(SeqCst) == 0 || IS_LOOKED.swap(true, SeqCst) {
                return;
            }
        }
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(100));
    }
}
