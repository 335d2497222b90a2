//! Where a process can be asked, from outside and while it runs, to begin to record.
//!
//! A process that was started without the recorder has no file and nothing of the recorder on any path. It has a [`Board`], a
//! static of the library that serves its locks. A command finds that in the process's memory by its first words, writes to it
//! where the file shall be, and then changes one byte: that in which [`Board::gate`] differs from what asks. What the gate's
//! word is for is the library's affair; the next lock operation finds it changed, whichever thread that is, makes the file and
//! begins to record (`process`).
//!
//! One byte, because another process can write no more at once: the kernel copies, and does not say in which steps.

use core::ptr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, AtomicU64};

use crate::format::{Region, VERSION};

/// The first words of a board.
pub const MAGIC: [u64; 2] = [u64::from_le_bytes(*b"lockwork"), u64::from_le_bytes(*b"'s board")];
/// Boards begin at multiples of this.
pub const ALIGNMENT: usize = 64;
/// Bytes of the path.
pub const PATH: usize = 1024;

/// Nobody asked, or that has been undone.
pub const IDLE: u32 = 0;
/// A thread makes the file.
pub const MAKING: u32 = 1;
/// The process records.
pub const RECORDS: u32 = 2;
/// The file could not be made: with this goes the error's number.
pub const FAILED: u32 = 1 << 31;

/// What a process can be asked by. All of it is read and written from outside, too.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Board {
    /// [`MAGIC`].
    pub magic: [AtomicU64; 2],
    /// [`VERSION`] of the file.
    pub version: AtomicU32,
    /// [`IDLE`] and so on.
    pub state: AtomicU32,
    /// The size of [`Region`].
    pub bytes: AtomicU64,
    /// What a lock operation looks at anyway.
    pub gate: AtomicPtr<()>,
    /// What it is until somebody asks, and again when that came to nothing.
    pub closed: AtomicPtr<()>,
    /// What it is when somebody has asked: different in one byte.
    pub asking: AtomicPtr<()>,
    /// What it is when the process records.
    pub open: AtomicPtr<()>,
    /// What the names of files shall begin with, terminated, where a command has asked; the name of the file when there is one.
    pub path: [AtomicU8; PATH],
}

impl Board {
    /// A board of a process that nobody has asked.
    #[must_use]
    pub const fn new(closed: *mut (), asking: *mut (), open: *mut ()) -> Self {
        Self {
            magic: [AtomicU64::new(MAGIC[0]), AtomicU64::new(MAGIC[1])],
            version: AtomicU32::new(VERSION),
            state: AtomicU32::new(IDLE),
            bytes: AtomicU64::new(size_of::<Region>() as u64),
            gate: AtomicPtr::new(closed),
            closed: AtomicPtr::new(closed),
            asking: AtomicPtr::new(asking),
            open: AtomicPtr::new(open),
            path: [const { AtomicU8::new(0) }; PATH],
        }
    }

    /// A board whose gate first of all sends somebody to look whether the process is to record by itself.
    #[must_use]
    pub const fn undecided(closed: *mut (), asking: *mut (), open: *mut (), undecided: *mut ()) -> Self {
        let mut board = Self::new(closed, asking, open);
        board.gate = AtomicPtr::new(undecided);
        board
    }

    /// It has been decided. Unless somebody has asked, which a process does itself that is to record, there is nothing to do.
    pub fn decided(&self, undecided: *mut ()) {
        let _ = self.gate.compare_exchange(undecided, self.closed.load(Relaxed), Relaxed, Relaxed);
    }

    /// Whether somebody has asked.
    pub(crate) fn is_asked(&self) -> bool {
        ptr::eq(self.gate.load(Relaxed), self.asking.load(Relaxed))
    }

    /// Claims to answer. One thread does.
    pub(crate) fn claim(&self) -> bool {
        // ORDER: what the asking process wrote before it changed the gate, it wrote by system calls, which order that.
        self.state.compare_exchange(IDLE, MAKING, Acquire, Relaxed).is_ok()
    }

    /// Whether a thread answers, or has done so.
    pub(crate) fn is_claimed(&self) -> bool {
        self.state.load(Relaxed) != IDLE
    }

    /// Answers: with nothing where the process records, else with an error's number.
    pub(crate) fn answer(&self, outcome: Result<(), u32>) {
        let gate = if outcome.is_ok() { &self.open } else { &self.closed };
        self.gate.store(gate.load(Relaxed), Relaxed);
        // ORDER: the process that asked finds the file by this word.
        self.state.store(outcome.map_or_else(|error| FAILED | error, |()| RECORDS), Release);
    }

    /// Asks, from within the process.
    pub(crate) fn ask(&self) {
        self.gate.store(self.asking.load(Relaxed), Relaxed);
    }

    /// The process records without that anybody has asked from outside.
    pub(crate) fn open(&self) {
        self.gate.store(self.open.load(Relaxed), Relaxed);
        self.state.store(IDLE, Relaxed);
    }

    /// As if nobody had asked: in a child of `fork`.
    pub(crate) fn reset(&self) {
        self.path[0].store(0, Relaxed);
        self.gate.store(self.closed.load(Relaxed), Relaxed);
        self.state.store(IDLE, Relaxed);
    }
}
