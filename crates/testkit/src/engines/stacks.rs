//! Stacks of modelled threads, used again from execution to execution.
//!
//! loom starts every modelled thread of every execution on a stack that comes fresh from the kernel and goes back to
//! it: three system calls, page faults, and interrupts to the process's other CPUs, more than half of the time of the
//! models with most executions. loom has no setting for it, so the functions it asks are defined here. They do what
//! those of the C library do, but for a thread that is [`keeping`] stacks: there a recycled stack
//! keeps its guard page, and all of loom's stacks have one.

use std::cell::RefCell;
use std::ffi::{c_int, c_long, c_void};

/// A mapping that was asked for as a stack.
#[derive(Clone, Copy, Debug)]
struct Stack {
    address: usize,
    bytes: usize,
    /// Bytes at its low end that nobody may access, to keep overflows out.
    guard: usize,
}

/// The stacks of one thread of the checker.
#[derive(Debug, Default)]
struct Kept {
    lent: Vec<Stack>,
    free: Vec<Stack>,
}

impl Kept {
    /// Lends a stack that was given back.
    fn lend(&mut self, bytes: usize) -> Option<usize> {
        let index = self.free.iter().position(|stack| stack.bytes == bytes)?;
        let stack = self.free.swap_remove(index);
        self.lent.push(stack);
        Some(stack.address)
    }

    /// Takes a stack back; whether it is one.
    fn give_back(&mut self, address: usize, bytes: usize) -> bool {
        let is_it = |stack: &Stack| (stack.address, stack.bytes) == (address, bytes);
        let stack = self.lent.iter().position(is_it).map(|index| self.lent.swap_remove(index));
        self.free.extend(stack);
        stack.is_some()
    }

    /// The guard of the lent stack that begins at `address`.
    fn guard(&mut self, address: usize) -> Option<&mut usize> {
        self.lent.iter_mut().find(|stack| stack.address == address).map(|stack| &mut stack.guard)
    }
}

thread_local! {
    static KEPT: RefCell<Option<Kept>> = const { RefCell::new(None) };
}

/// Runs `f`; stacks that end meanwhile are kept for those that begin.
pub fn keeping<R>(f: impl FnOnce() -> R) -> R {
    struct Unmap;
    impl Drop for Unmap {
        fn drop(&mut self) {
            for stack in KEPT.take().map(|kept| kept.free).unwrap_or_default() {
                // SAFETY: whoever had this stack gave it back.
                unsafe { unmap(stack.address as *mut c_void, stack.bytes) };
            }
        }
    }
    KEPT.set(Some(Kept::default()));
    let _unmap = Unmap;
    f()
}

/// Applies `f` to the thread's stacks, if it keeps any and does not look at them right now: growing a list may call `mmap`.
fn with_kept<R>(f: impl FnOnce(&mut Kept) -> R) -> Option<R> {
    KEPT.try_with(|kept| kept.try_borrow_mut().ok().and_then(|mut kept| kept.as_mut().map(f))).ok()?
}

/// # Safety
///
/// As the system call.
unsafe fn unmap(address: *mut c_void, bytes: usize) -> c_int {
    // SAFETY: the caller's.
    unsafe { libc::syscall(libc::SYS_munmap, address, bytes) as c_int }
}

/// `mmap(2)`.
///
/// # Safety
///
/// As the system call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmap(
    address: *mut c_void,
    bytes: usize,
    protection: c_int,
    flags: c_int,
    file: c_int,
    offset: c_long,
) -> *mut c_void {
    let is_stack =
        address.is_null() && flags & libc::MAP_STACK != 0 && protection == libc::PROT_READ | libc::PROT_WRITE;
    if let Some(stack) = is_stack.then(|| with_kept(|kept| kept.lend(bytes)).flatten()).flatten() {
        return stack as *mut c_void;
    }
    // SAFETY: the caller's.
    let mapped = unsafe { libc::syscall(libc::SYS_mmap, address, bytes, protection, flags, file, offset) }
        as *mut c_void;
    if is_stack && mapped != libc::MAP_FAILED {
        with_kept(|kept| kept.lent.push(Stack { address: mapped as usize, bytes, guard: 0 }));
    }
    mapped
}

/// `munmap(2)`.
///
/// # Safety
///
/// As the system call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn munmap(address: *mut c_void, bytes: usize) -> c_int {
    if with_kept(|kept| kept.give_back(address as usize, bytes)) == Some(true) {
        return 0;
    }
    // SAFETY: the caller's.
    unsafe { unmap(address, bytes) }
}

/// `mprotect(2)`.
///
/// # Safety
///
/// As the system call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mprotect(address: *mut c_void, bytes: usize, protection: c_int) -> c_int {
    let guard = |kept: &mut Kept| kept.guard(address as usize).map(|guard| *guard == bytes);
    if protection == libc::PROT_NONE && with_kept(guard).flatten() == Some(true) {
        return 0;
    }
    // SAFETY: the caller's.
    let result = unsafe { libc::syscall(libc::SYS_mprotect, address, bytes, protection) as c_int };
    let guarded = if protection == libc::PROT_NONE && result == 0 { bytes } else { 0 };
    with_kept(|kept| kept.guard(address as usize).map(|guard| *guard = guarded));
    result
}
