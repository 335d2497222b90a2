//! What `LOCKWORK_VERBOSE` makes the library say when the process ends.

use core::ffi::CStr;
use core::fmt::{self, Write};
use core::sync::atomic::{AtomicBool, Ordering};

use lockwork_platform::sys;

use crate::counters::{self, Kind};
use crate::table::{self, TAGS};

/// The standard error stream.
pub(crate) struct Stderr;

impl Write for Stderr {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        sys::write_stderr(text.as_bytes());
        Ok(())
    }
}

/// A line that is written at once, so that lines of several processes do not mix.
struct Line {
    text: [u8; 1024],
    length: usize,
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = &mut self.text[self.length..];
        let taken = text.len().min(room.len());
        room[..taken].copy_from_slice(&text.as_bytes()[..taken]);
        self.length += taken;
        Ok(())
    }
}

static VERBOSE: AtomicBool = AtomicBool::new(false);

/// Whether to report.
pub(crate) fn set_verbose(verbose: bool) {
    VERBOSE.store(verbose, Ordering::Relaxed);
}

/// Ends the process: glibc lacks a function that every glibc has.
pub(crate) fn missing(name: &CStr) -> ! {
    panic!("the C library has no `{}`: run the program without lockwork", name.to_str().unwrap_or("?"))
}

#[used]
#[unsafe(link_section = ".fini_array")]
static DESTRUCTOR: unsafe extern "C" fn() = destructor;

unsafe extern "C" fn destructor() {
    if VERBOSE.load(Ordering::Relaxed) {
        let mut line = Line { text: [0; 1024], length: 0 };
        let _ = describe(&mut line);
        sys::write_stderr(&line.text[..line.length]);
    }
}

fn describe(line: &mut Line) -> fmt::Result {
    let mut buffer = [0_u8; 64];
    let name = sys::read_file(c"/proc/self/comm", &mut buffer).and_then(|name| core::str::from_utf8(name).ok());
    write!(line, "lockwork: {}: served", name.unwrap_or("?").trim_end())?;
    let mut separator = " ";
    for tag in 1..TAGS as u32 - 1 {
        let mutexes = counters::mutexes(tag);
        if mutexes != 0 {
            write!(line, "{separator}{mutexes} mutexes by {}", table::choice(tag))?;
            separator = ", ";
        }
    }
    for (kind, noun) in [(Kind::Cond, "conditions"), (Kind::RwLock, "rwlocks"), (Kind::SpinLock, "spin locks")] {
        let count = counters::others(kind);
        if count != 0 {
            write!(line, "{separator}{count} {noun}")?;
            separator = ", ";
        }
    }
    if separator == " " {
        line.write_str(" nothing")?;
    }
    let forwarded = counters::others(Kind::ForwardedMutex) + counters::mutexes(table::PASSTHROUGH_TAG);
    writeln!(
        line,
        "; forwarded to glibc {forwarded} mutexes, {} conditions, {} rwlocks",
        counters::others(Kind::ForwardedCond),
        counters::others(Kind::ForwardedRwLock)
    )
}
