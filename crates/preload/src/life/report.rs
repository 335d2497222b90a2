//! What `LOCKWORK_VERBOSE` makes the library say on the standard error stream when the process ends.
//!
//! - Unset, empty or `0`: nothing.
//! - The process's own id: the report, even if no lock was used. `lockwork run -v` sets this before it becomes the program,
//!   so that the program always reports.
//! - Anything else, as `1`, and in children of such a program: the report, if any lock was served or forwarded.
//!
//! The report is one line, one more with `LOCKWORK_COUNT`, which says how locks were acquired and how many CPUs they take the process
//! to have, and with a policy one more for each rule, in the file's order, and one for the default:
//!
//! ```text
//! lockwork: db_bench[4242]: served 3 mutexes by mcs-stp, 12 mutexes by ticket, 2 conditions by cond-fifo, 1 rwlocks by rw-futex; forwarded to glibc 1 mutexes, 0 conditions, 0 rwlocks, 0 spin locks
//! lockwork: db_bench[4242]: policy.toml:4: ticket for 12 locks
//! lockwork: db_bench[4242]: policy.toml:8: passthrough for 0 locks
//! lockwork: db_bench[4242]: policy.toml: default: mcs-stp for 6 locks
//! ```
//!
//! A tool can rely on the form of the first line: items `COUNT NOUN by LOCK` with `, ` between them, or `nothing`, up to
//! the `;`. The nouns are `mutexes`, `conditions`, `rwlocks` and `spin locks`, whatever the count. A lock is spelled as in a
//! spec, where commas occur in brackets only.
//!
//! A process that is killed, or ends by `_exit` as some shells do, says nothing.
//!
//! A lock counts each time it is initialised, or when it is first used if it never was; conditions that were not
//! initialised when they are first waited on. Where all locks are glibc's (`passthrough` without a policy), initialised
//! ones are counted only, and the line begins `served nothing; forwarded to glibc all locks, of which it initialised`.

use core::ffi::CStr;
use core::fmt::{self, Write};
use core::sync::atomic::{AtomicU8, Ordering};

use lockwork_config::Report as When;
use lockwork_locks::cond;
use lockwork_platform::sys;
use syscalls::{Sysno, syscall};

use crate::abi::layout::RWLOCK_FUTEX;
use crate::layers::{self, profile};
use crate::life::counters::{self, Kind};
use crate::life::{output, policy, start};
use crate::serve::mutex::table;
use crate::serve::rwlock::table::{self as rwtable, SERVERS};
use crate::serve::spin;

/// A line that is written at once, so that lines of several processes do not mix. What does not fit is lost.
struct Line {
    text: [u8; 1024],
    length: usize,
}

impl Line {
    /// Writes a line; the text need not end with a line break.
    fn print(write: impl FnOnce(&mut Self) -> fmt::Result) {
        let mut line = Line { text: [0; 1024], length: 0 };
        let _ = write(&mut line);
        let length = line.length.min(line.text.len() - 1);
        line.text[length] = b'\n';
        output::write(&line.text[..=length]);
    }
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

static WHEN: AtomicU8 = AtomicU8::new(When::Never as u8);

/// Sets when to report.
pub(crate) fn set(when: When) {
    if when != When::Never {
        output::keep();
    }
    WHEN.store(when as u8, Ordering::Relaxed);
}

/// Ends the process: glibc lacks a function that every glibc has.
pub(crate) fn missing(name: &CStr) -> ! {
    panic!("the C library has no `{}`: run the program without lockwork", name.to_str().unwrap_or("?"))
}

#[used]
#[unsafe(link_section = ".fini_array")]
static DESTRUCTOR: unsafe extern "C" fn() = destructor;

unsafe extern "C" fn destructor() {
    profile::end();
    let when = WHEN.load(Ordering::Relaxed);
    if when == When::Always as u8 || when == When::IfUsed as u8 && counters::any() {
        report();
    }
}

/// What the lines begin with: the process.
struct Process<'a> {
    name: &'a str,
    id: usize,
}

impl fmt::Display for Process<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "lockwork: {}[{}]", self.name, self.id)
    }
}

fn report() {
    let mut buffer = [0_u8; 64];
    let name =
        sys::read_file(c"/proc/self/comm", &mut buffer).and_then(|name| core::str::from_utf8(name).ok());
    // SAFETY: no memory is involved.
    let id = unsafe { syscall!(Sysno::getpid) }.unwrap_or(0);
    let process = Process { name: name.unwrap_or("?").trim_end(), id };
    Line::print(|line| {
        write!(line, "{process}: ")?;
        served(line)?;
        forwarded(line)
    });
    if layers::is_on(layers::Name::Counts) {
        Line::print(|line| {
            write!(line, "{process}: ")?;
            layers::counts::write(line)
        });
    }
    for decided in policy::decisions() {
        Line::print(|line| {
            write!(line, "{process}: {}:", decided.file)?;
            match decided.line {
                Some(number) => write!(line, "{number}: ")?,
                None => line.write_str(" default: ")?,
            }
            write!(line, "{} for {} locks", decided.lock, decided.count)
        });
    }
}

/// `served 3 mutexes by mcs-stp, 2 conditions by cond-fifo, 1 rwlocks by rw-futex`: what was served, each by which lock.
fn served(line: &mut Line) -> fmt::Result {
    line.write_str("served")?;
    let mut separator = " ";
    let mut item = |count: u64, what: fmt::Arguments<'_>| {
        if count != 0 {
            write!(line, "{separator}{count} {what}")?;
            separator = ", ";
        }
        Ok(())
    };
    for tag in 1..table::PASSTHROUGH_TAG {
        item(counters::mutexes(tag), format_args!("mutexes by {}", table::choice(tag)))?;
    }
    item(counters::others(Kind::Cond), format_args!("conditions by {}", cond::NAME))?;
    for server in RWLOCK_FUTEX..SERVERS as u32 {
        item(counters::rwlocks(server), format_args!("rwlocks by {}", rwtable::spec(server)))?;
    }
    item(counters::others(Kind::SpinLock), format_args!("spin locks by {}", spin::NAME))?;
    if separator == " " {
        line.write_str(" nothing")?;
    }
    Ok(())
}

fn forwarded(line: &mut Line) -> fmt::Result {
    line.write_str("; forwarded to glibc ")?;
    if start::forwards_everything() {
        line.write_str("all locks, of which it initialised ")?;
    }
    let mutexes = counters::others(Kind::ForwardedMutex) + counters::mutexes(table::PASSTHROUGH_TAG);
    write!(
        line,
        "{mutexes} mutexes, {} conditions, {} rwlocks, {} spin locks",
        counters::others(Kind::ForwardedCond),
        counters::others(Kind::ForwardedRwLock),
        counters::others(Kind::ForwardedSpinLock),
    )
}
