//! Says where a test program crashed: the harness prints the test's name only when the test has ended.

use std::ffi::c_void;
use std::fmt::{self, Write};
use std::ptr;
use std::str;
use std::sync::Mutex;

use libc::{
    O_CLOEXEC, O_RDONLY, SA_ONSTACK, SA_RESTART, SA_SIGINFO, SIGBUS, SIGILL, SIGSEGV, c_int, sigaction,
    siginfo_t, ucontext_t,
};

use crate::stderr::Stderr;

const SIGNALS: [c_int; 3] = [SIGBUS, SIGILL, SIGSEGV];

/// The tests that run.
static RUNNING: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// From now on a crash of this process says on stderr which signal it was, at which instruction, with which registers, and in
/// which of the tests that [`running`] was told of. Then it goes on as it would have.
pub fn report_crashes() {
    for signal in SIGNALS {
        // SAFETY: zeroes are a valid `sigaction`.
        let mut action: sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = report as *const () as usize;
        action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
        // SAFETY: a valid action, whose handler has the signature that its flags ask for.
        let rc = unsafe { sigaction(signal, &raw const action, ptr::null_mut()) };
        assert_eq!(rc, 0, "a handler for signal {signal}");
    }
}

/// Runs a test of this name.
pub fn running<R>(name: &str, test: impl FnOnce() -> R) -> R {
    /// Takes the name off the list, also after a panic.
    struct Ended<'a>(&'a str);
    impl Drop for Ended<'_> {
        fn drop(&mut self) {
            let mut running = RUNNING.lock().expect("no test panics there");
            let place = running.iter().position(|name| name == self.0).expect("put there below");
            running.swap_remove(place);
        }
    }
    RUNNING.lock().expect("no test panics there").push(name.to_owned());
    let _ended = Ended(name);
    test()
}

extern "C" fn report(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel's argument of a handler with SA_SIGINFO.
    let info = unsafe { &*info };
    // SAFETY: as above.
    let context = unsafe { &*context.cast::<ucontext_t>() };
    let _ = tell(signal, info, context);
    // Done with: the instruction runs once more, and what happens then is what would have happened without us.
    // SAFETY: the default action of a signal.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
}

fn tell(signal: c_int, info: &siginfo_t, context: &ucontext_t) -> fmt::Result {
    // SAFETY: one of the signals that come with an address.
    let address = unsafe { info.si_addr() };
    writeln!(Stderr, "\ncrash: signal {signal}, code {}, address {address:p}", info.si_code)?;
    let (pc, registers) = state(context);
    writeln!(
        Stderr,
        "crash: at {pc:#x}, where `report_crashes` is at {:#x}",
        report_crashes as *const () as usize
    )?;
    for (number, register) in registers.iter().enumerate() {
        write!(Stderr, "{}{number}={register:#x}", if number % 6 == 0 { "\ncrash: " } else { " " })?;
    }
    writeln!(Stderr)?;
    // Whose the instruction is, and what is, or is not, at the address.
    tell_mapping("the instruction", pc as usize)?;
    tell_mapping("the address", address as usize)?;
    match RUNNING.try_lock() {
        Ok(running) => running.iter().try_for_each(|name| writeln!(Stderr, "crash: while {name} ran")),
        Err(_) => writeln!(Stderr, "crash: between two tests"),
    }
}

/// Says which line of `/proc/self/maps` holds an address.
fn tell_mapping(what: &str, address: usize) -> fmt::Result {
    // SAFETY: a path that ends with 0.
    let file = unsafe { libc::open(c"/proc/self/maps".as_ptr(), O_RDONLY | O_CLOEXEC) };
    let mut line = Line { text: [0; _], length: 0 };
    let mut chunk = [0; 256];
    let mut holds = false;
    loop {
        // SAFETY: a valid place; of a file that could not be opened nothing is read.
        let read = unsafe { libc::read(file, chunk.as_mut_ptr().cast(), chunk.len()) };
        let Ok(read @ 1..) = usize::try_from(read) else { break };
        for &byte in &chunk[..read] {
            if byte != b'\n' {
                line.push(byte);
                continue;
            }
            if line.holds(address) {
                holds = true;
                writeln!(Stderr, "crash: {what} is in {}", line.text())?;
            }
            line.length = 0;
        }
    }
    // SAFETY: ours, or none.
    unsafe { libc::close(file) };
    if holds { Ok(()) } else { writeln!(Stderr, "crash: {what} is in nothing that is mapped") }
}

/// The beginning of a line of `/proc/self/maps`: the end of a long path is left out.
struct Line {
    text: [u8; 192],
    length: usize,
}

impl Line {
    fn push(&mut self, byte: u8) {
        if let Some(place) = self.text.get_mut(self.length) {
            *place = byte;
            self.length += 1;
        }
    }

    fn text(&self) -> &str {
        // A path that is no text, or cut in the middle of a character.
        str::from_utf8(&self.text[..self.length]).unwrap_or("a mapping whose path is not UTF-8")
    }

    /// Whether the address is in the range that the line begins with.
    fn holds(&self, address: usize) -> bool {
        let hex = |bytes: &[u8]| usize::from_str_radix(str::from_utf8(bytes).ok()?, 16).ok();
        let mut ends = self.text[..self.length].split(|byte| matches!(byte, b'-' | b' ')).map(hex);
        let (Some(Some(from)), Some(Some(to))) = (ends.next(), ends.next()) else { return false };
        (from..to).contains(&address)
    }
}

/// The instruction's address, and the registers in the kernel's order.
#[cfg(target_arch = "x86_64")]
fn state(context: &ucontext_t) -> (u64, &[i64]) {
    let registers = &context.uc_mcontext.gregs;
    (registers[libc::REG_RIP as usize].cast_unsigned(), registers)
}

/// The instruction's address, and the registers: `x0` to `x30`.
#[cfg(target_arch = "aarch64")]
fn state(context: &ucontext_t) -> (u64, &[u64]) {
    (context.uc_mcontext.pc, &context.uc_mcontext.regs)
}
