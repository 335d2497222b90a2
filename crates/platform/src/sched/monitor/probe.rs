//! The probe: a function that returns at once, at whose first instruction the kernel has a breakpoint (`uprobes`) as long
//! as the monitor lives, and calls the monitor's program on behalf of the caller.
//!
//! It is code that comes from whoever listens at the socket, so nobody executes it before it has been seen to be what it
//! should, in a file that nobody can change any more. Once mapped it stays, and another monitor's takes its place in one
//! step: a signal may come when the kernel has answered, and its handler in turn may fork, or take long.

use core::mem;
use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicPtr};

use super::{ANSWERS, Board, ENTRIES, HEADER, PROBE_WORD, STATE_BITS, board, mapped, says};
use crate::sys::{FileSystem, seals};
use crate::{Native, sys};

/// The function. Kernels need not carry out its first instruction elsewhere: they know what it does.
#[cfg(target_arch = "x86_64")]
pub const PROBE: [u8; 2] = [0x90, 0xc3]; // nop; ret
/// The function.
#[cfg(target_arch = "aarch64")]
pub const PROBE: [u8; 4] = [0xc0, 0x03, 0x5f, 0xd6]; // ret

/// A whole page, of whatever size.
const PAGE: usize = 65_536;
/// Numbers that tell answers apart.
const NUMBERS: u32 = 1 << 24;

/// It takes a thread's id, and where to put the answer, with a number above that.
type Probe = extern "C" fn(u32, u32);

/// Where the probe is mapped; null before anybody has tried.
static MAPPED: AtomicPtr<u8> = AtomicPtr::new(ptr::null_mut());
/// What the last monitor sent is there. It is not if that was something else, or may not be executed, as some security
/// modules have it.
static IS_MAPPED: AtomicBool = AtomicBool::new(false);

/// Maps what a monitor has sent, if it is the probe.
pub(super) fn map(file: i32) {
    let is_mapped = is_probe(file) && place().is_some_and(|place| map_at(file, place));
    IS_MAPPED.store(is_mapped, Release);
}

fn map_at(file: i32, place: NonNull<u8>) -> bool {
    // SAFETY: our own page, and whoever executes there executes the same.
    let is_mapped = unsafe { sys::map_code(file, place) };
    if !is_mapped {
        // What is there may be mapped by other code, and threads may execute it. They look at both, in whatever order.
        IS_MAPPED.store(false, Relaxed);
        MAPPED.store(ptr::null_mut(), Relaxed);
    }
    is_mapped
}

/// Whether that is a file with the probe, and will be.
fn is_probe(file: i32) -> bool {
    const SEALS: usize = seals::WRITE | seals::SHRINK;
    let mut code = [0; PROBE.len()];
    sys::file_system(file) == FileSystem::Memory
        && seals::of(file) & SEALS == SEALS
        && sys::read_at(file, &mut code, 0) == code.len()
        && code == PROBE
}

/// A page for the probe, which is kept for ever.
fn place() -> Option<NonNull<u8>> {
    if let Some(place) = NonNull::new(MAPPED.load(Relaxed)) {
        return Some(place);
    }
    let page = sys::map_pages(PAGE)?;
    match MAPPED.compare_exchange(ptr::null_mut(), page.as_ptr(), Relaxed, Relaxed) {
        Ok(_) => Some(page),
        Err(others) => {
            // SAFETY: ours, and nobody has seen it.
            unsafe { sys::unmap_pages(page, PAGE) };
            NonNull::new(others)
        }
    }
}

/// Whether there is a monitor that answers calls of the probe.
pub(crate) fn answers() -> bool {
    answering().is_some()
}

/// The board and the probe, while there is one.
fn answering() -> Option<(&'static Board, Probe)> {
    let (mapped, page) = mapped()?;
    if page[PROBE_WORD].load(Relaxed) == 0 || !IS_MAPPED.load(Acquire) {
        return None;
    }
    // Gone, if another monitor's could not be put in its place just now.
    let code = NonNull::new(MAPPED.load(Relaxed))?;
    // SAFETY: the probe is mapped there, and changes nothing but the board.
    let probe = unsafe { mem::transmute::<NonNull<u8>, Probe>(code) };
    Some((board(mapped), probe))
}

/// Whether a thread of this process is on a CPU, as the kernel says now; `None` if there is no monitor that answers, or
/// no such thread. Takes a microsecond or so, and longer while another thread changes what is mapped.
pub(crate) fn ask(tid: u32) -> Option<bool> {
    let (board, probe) = answering().filter(|_| tid != 0)?;
    let place = Native::tid() % ANSWERS as u32;
    let entry = &board[HEADER + ENTRIES + place as usize];
    // Nobody may answer, be it that the breakpoint is gone: then what is there is of another number.
    let number = ((entry.load(Relaxed) >> (32 + STATE_BITS)) as u32 + 1) % NUMBERS;
    probe(tid, number * ANSWERS as u32 + place);
    says(entry, tid, number)
}
