//! The page that says whether the monitor lives, whether it watches, and whether the probe is answered.
//!
//! Its first word is a robust futex that a thread of the daemon holds for life: when the thread ends, even by
//! `SIGKILL`, the kernel clears the id in the word. No clock has to be kept going, and the next load sees the end.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::thread;

use lockwork_platform::monitor::{PAGE_WORDS, PROBE_WORD, WATCH_WORD};
use rustix::fs::{SealFlags, ftruncate};
use rustix::mm::{MapFlags, ProtFlags, mmap};

use crate::files::{create, readable};

const PAGE: usize = 4096;

/// The page.
#[derive(Debug)]
pub(crate) struct Page {
    file: OwnedFd,
    words: &'static [AtomicU32; PAGE_WORDS],
}

/// The page, which says that the monitor lives for as long as the process does.
#[derive(Debug)]
pub(crate) struct Alive(Page);

/// What the kernel walks when a thread ends.
#[repr(C)]
struct RobustList {
    /// The first entry, here the only one, which leads back.
    first: *mut RobustEntry,
    /// From an entry to its futex, in bytes.
    to_futex: isize,
    pending: *mut RobustEntry,
}

#[repr(C)]
struct RobustEntry {
    next: *mut RobustEntry,
}

impl Page {
    pub(crate) fn new() -> io::Result<Self> {
        let file = create("lockwork-monitor")?;
        ftruncate(&file, PAGE as u64)?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a fresh shared mapping disturbs nobody.
        let page = unsafe { mmap(ptr::null_mut(), PAGE, access, MapFlags::SHARED, &file, 0) }?;
        // Nobody maps it shared for writing after us.
        let file = readable(file, SealFlags::FUTURE_WRITE)?;
        // SAFETY: page-aligned, zeroed, and mapped for ever.
        let words: &'static [AtomicU32; PAGE_WORDS] = unsafe { &*page.cast() };
        Ok(Self { file, words })
    }

    /// The clients' descriptor, for reading only.
    pub(crate) fn readable(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Whether calls of the probe are answered.
    pub(crate) fn say_answers(&self, answers: bool) {
        self.words[PROBE_WORD].store(answers.into(), Ordering::Relaxed);
    }
}

impl Alive {
    /// Starts the thread.
    pub(crate) fn new(page: Page) -> io::Result<Self> {
        let word = &page.words[0];
        let (ready, is_ready) = mpsc::channel();
        thread::Builder::new().name("alive".to_owned()).spawn(move || live(word, &ready))?;
        is_ready.recv().map_err(io::Error::other)??;
        Ok(Self(page))
    }

    pub(crate) fn page(&self) -> &Page {
        &self.0
    }

    /// The watch of this number is on, or none (0).
    pub(crate) fn say_watch(&self, number: u32) {
        self.0.words[WATCH_WORD].store(number, Ordering::Relaxed);
    }
}

/// Holds the word until the thread is ended.
fn live(word: &'static AtomicU32, ready: &mpsc::Sender<io::Result<()>>) {
    let entry = Box::leak(Box::new(RobustEntry { next: ptr::null_mut() }));
    let to_futex = (ptr::from_ref(word) as isize).wrapping_sub(ptr::from_ref(entry) as isize);
    let list = Box::leak(Box::new(RobustList { first: entry, to_futex, pending: ptr::null_mut() }));
    entry.next = ptr::from_mut(list).cast();
    // SAFETY: list and entry live for ever, and this thread holds no other robust lock, so it may have a list of its own.
    let result =
        unsafe { libc::syscall(libc::SYS_set_robust_list, ptr::from_mut(list), size_of::<RobustList>()) };
    if result != 0 {
        let _ = ready.send(Err(io::Error::last_os_error()));
        return;
    }
    word.store(rustix::thread::gettid().as_raw_nonzero().get() as u32, Ordering::Release);
    let _ = ready.send(Ok(()));
    loop {
        thread::park();
    }
}
