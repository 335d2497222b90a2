//! What another process hands to this one: descriptors through a socket, and the memory behind them.

use core::mem;
use core::ptr::{self, NonNull};

use super::{EINTR, Timespec, close, map_pages, number, unmap_pages};
use crate::arch::syscall6;

/// Connects to the stream socket at `path`, of at most 107 bytes, and receives `N` descriptors, which is all there is
/// to receive. Connecting waits for nobody; the answer may take `timeout_us`, which is less than a second.
#[must_use]
pub fn receive_descriptors<const N: usize>(path: &[u8], timeout_us: u32) -> Option<[i32; N]> {
    let socket = connect(path)?;
    let received = if is_readable(socket as usize, timeout_us) { receive(socket as usize) } else { None };
    close(socket);
    received
}

/// Connects to the stream socket at `path`, of at most 107 bytes, unless that takes waiting: the descriptor.
#[must_use]
pub fn connect(path: &[u8]) -> Option<i32> {
    const AF_UNIX: u16 = 1;
    const STREAM_NONBLOCK_CLOEXEC: usize = 1 | 0o4_000 | 0o2_000_000;

    #[repr(C)]
    struct Address {
        family: u16,
        path: [u8; 108],
    }
    let mut address = Address { family: AF_UNIX, path: [0; 108] };
    address.path.get_mut(..path.len()).filter(|to| to.len() < 108)?.copy_from_slice(path);
    // SAFETY: no memory is involved.
    let socket = unsafe { syscall6(number::SOCKET, [AF_UNIX.into(), STREAM_NONBLOCK_CLOEXEC, 0, 0, 0, 0]) };
    let socket = usize::try_from(socket).ok()?;
    let args = [socket, ptr::from_ref(&address) as usize, size_of::<Address>(), 0, 0, 0];
    // SAFETY: the address is readable, and as long as it says.
    let connected = unsafe { syscall6(number::CONNECT, args) } == 0;
    if !connected {
        close(socket as i32);
    }
    connected.then_some(socket as i32)
}

/// Waits until there is something to read, or the end of it, for so long at most.
fn is_readable(descriptor: usize, timeout_us: u32) -> bool {
    const POLLIN: i16 = 1;

    #[repr(C)]
    struct Event {
        descriptor: i32,
        events: i16,
        happened: i16,
    }
    let mut event = Event { descriptor: descriptor as i32, events: POLLIN, happened: 0 };
    let mut time = Timespec { seconds: 0, nanoseconds: i64::from(timeout_us) * 1_000 };
    let args = [&raw mut event as usize, 1, &raw mut time as usize, 0, 0, 0];
    loop {
        // SAFETY: one event and the time, both writable; the kernel leaves in the latter what is left of it.
        let result = unsafe { syscall6(number::PPOLL, args) };
        if result != -(EINTR as isize) {
            return result == 1;
        }
    }
}

/// One message with `N` descriptors and a byte.
fn receive<const N: usize>(socket: usize) -> Option<[i32; N]> {
    const CLOEXEC: usize = 0x4000_0000;
    const SOL_SOCKET: i32 = 1;
    const SCM_RIGHTS: i32 = 1;

    #[repr(C)]
    struct Control<const N: usize> {
        length: usize,
        level: i32,
        kind: i32,
        descriptors: [i32; N],
    }
    #[repr(C)]
    struct Message {
        name: usize,
        name_length: u32,
        parts: *const [usize; 2],
        part_count: usize,
        control: usize,
        control_length: usize,
        flags: i32,
    }
    let control_length = mem::offset_of!(Control<N>, descriptors) + size_of::<[i32; N]>();
    let mut byte = 0_u8;
    let part = [&raw mut byte as usize, 1];
    let mut control = Control { length: 0, level: 0, kind: 0, descriptors: [-1; N] };
    let mut message = Message {
        name: 0,
        name_length: 0,
        parts: &raw const part,
        part_count: 1,
        control: &raw mut control as usize,
        control_length,
        flags: 0,
    };
    let args = [socket, &raw mut message as usize, CLOEXEC, 0, 0, 0];
    // SAFETY: the message says where one byte and the control message may be written, and how long that is.
    let got = unsafe { syscall6(number::RECVMSG, args) };
    // The kernel has filled in as many descriptors as there were, and could hold no more.
    let is_rights = control.level == SOL_SOCKET && control.kind == SCM_RIGHTS;
    if got == 1 && is_rights && control.length == control_length {
        return Some(control.descriptors);
    }
    if got >= 0 && is_rights {
        control.descriptors.into_iter().filter(|descriptor| *descriptor >= 0).for_each(close);
    }
    None
}

/// Maps files, none of them in huge pages, for reading, at places within `bytes` of memory, which both are multiples of a
/// page: of each file where it is to begin and how much of its first bytes to map, which includes the rest of the last page. `None` if one
/// cannot be.
#[must_use]
pub fn map_shared(bytes: usize, files: &[(i32, usize, usize)]) -> Option<NonNull<u8>> {
    const READ: usize = 1;
    const SHARED_FIXED: usize = 1 | 16;
    let pages = map_pages(bytes)?;
    for &(file, place, length) in files {
        debug_assert!(place + length <= bytes);
        let at = pages.as_ptr() as usize + place;
        // SAFETY: takes the place of a part of our own fresh mapping.
        let result = unsafe { syscall6(number::MMAP, [at, length, READ, SHARED_FIXED, file as usize, 0]) };
        if result != at as isize {
            // SAFETY: ours, and nobody has seen it.
            unsafe { unmap_pages(pages, bytes) };
            return None;
        }
    }
    Some(pages)
}

/// Maps the beginning of a file, a page at most, for reading and executing at `place`, instead of what is mapped there.
/// Whether it could.
///
/// # Safety
///
/// A page of the caller's own is mapped there. A thread that executes there finds the same instructions.
#[must_use]
pub unsafe fn map_code(file: i32, place: NonNull<u8>) -> bool {
    const READ_AND_EXECUTE: usize = 1 | 4;
    const PRIVATE_FIXED: usize = 2 | 16;
    let at = place.as_ptr() as usize;
    // SAFETY: the caller's contract.
    let result =
        unsafe { syscall6(number::MMAP, [at, 1, READ_AND_EXECUTE, PRIVATE_FIXED, file as usize, 0]) };
    result == at as isize
}

/// Reads from a file at a place; how many bytes.
pub fn read_at(file: i32, to: &mut [u8], place: usize) -> usize {
    let args = [file as usize, to.as_mut_ptr() as usize, to.len(), place, 0, 0];
    // SAFETY: as many bytes as that may be written there.
    usize::try_from(unsafe { syscall6(number::PREAD, args) }).unwrap_or(0)
}

/// Maps nothing but zeroes for reading in place of what is mapped.
///
/// # Safety
///
/// It is the caller's own, and whoever reads there expects any values.
pub unsafe fn map_zeroes(place: NonNull<u8>, bytes: usize) {
    const READ: usize = 1;
    const PRIVATE_FIXED_ANONYMOUS: usize = 2 | 16 | 32;
    let args = [place.as_ptr() as usize, bytes, READ, PRIVATE_FIXED_ANONYMOUS, usize::MAX, 0];
    // SAFETY: the caller's contract. Without memory for it, there may be nothing instead.
    unsafe { syscall6(number::MMAP, args) };
}

/// Seals of memory files: nobody, its maker included, takes anything off its end, or changes what is in it.
pub mod seals {
    /// `F_SEAL_SHRINK`
    pub const SHRINK: usize = 2;
    /// `F_SEAL_WRITE`
    pub const WRITE: usize = 8;

    /// Those that a file has; none if it cannot have any.
    #[must_use]
    pub fn of(file: i32) -> usize {
        const GET_SEALS: usize = 1034;
        let args = [file as usize, GET_SEALS, 0, 0, 0, 0];
        // SAFETY: no memory is involved.
        usize::try_from(unsafe { super::syscall6(super::number::FCNTL, args) }).unwrap_or(0)
    }
}

/// Where a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileSystem {
    /// In memory.
    Memory,
    /// In no directory: objects of the kernel's.
    Anonymous,
    /// Anywhere else. A process that maps such a file may find that it takes more memory than was said, or may wait for another
    /// process.
    Other,
}

/// Where this file is.
#[must_use]
pub fn file_system(file: i32) -> FileSystem {
    const TMPFS: usize = 0x0102_1994;
    const ANON_INODES: usize = 0x0904_1934;
    // `struct statfs`, which begins with the kind of the file system.
    let mut status = [0_usize; 15];
    // SAFETY: as much memory as the kernel writes.
    let result =
        unsafe { syscall6(number::FSTATFS, [file as usize, status.as_mut_ptr() as usize, 0, 0, 0, 0]) };
    match status[0] {
        TMPFS if result == 0 => FileSystem::Memory,
        ANON_INODES if result == 0 => FileSystem::Anonymous,
        _ => FileSystem::Other,
    }
}
