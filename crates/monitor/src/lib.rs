//! `lockwork monitor`: a small daemon that watches the scheduler on behalf of waiting threads.
//!
//! A thread that spins for a lock wastes its time, and the CPU that the holder may need, while the holder is off its
//! CPU. The kernel knows when that is so. A program may ask by the CPU clock of one thread after another
//! (`lockwork_platform::cpu_time`), unless a filter of system calls is in its way. For those this daemon asks, which has
//! the privilege to: it loads a program that the kernel runs at every context switch (`program.rs`), and gives each
//! process that asks a board, read-only memory in which its own threads are seen to run, to be preempted or to sleep
//! (`lockwork_platform::monitor` has the format, and is the other side). The program is attached only while clients ask
//! for it, which they do again and again while they have waiters that would know more: being called costs more than
//! what it does. Who holds a lock the kernel need not know: the lock's queue says who is ahead, by thread id.
//!
//! # Threat model
//!
//! Clients are any local processes, hostile ones among them; the kernel and root are trusted. What holds:
//!
//! - *A client has no privilege, and nobody's memory is read.* The program reads the kernel's own memory only, by
//!   pointers that the verifier knows the types of. Nothing that a client writes is ever looked at: it connects, and is
//!   sent two descriptors. A client that connects again wants the scheduler watched. There is no request to parse.
//! - *A client can write nothing.* A board is a frozen map, the other page a memory file sealed against new writable
//!   mappings. `mmap` and `mprotect` refuse `PROT_WRITE` on either. (Where unprivileged BPF programs are allowed, which
//!   no distribution does, a client might write to its own board with one of its own, and mislead itself.)
//! - *A client sees no other process.* Each has a map of its own, which shows the threads of that process, by the ids
//!   that they have in its own PID namespace.
//! - *Nor another program.* A process that executes one loses its board within the kernel, before the program runs; the
//!   program gets a fresh one when it asks. Whoever connects and is a program with other rights when the daemon looks
//!   is turned away.
//! - *A client speaks for itself.* The kernel says who connected (`SO_PEERPIDFD`, or `SO_PEERCRED` with the owner of
//!   the process looked at again), and the board is tied to the task, not to its number. A process in a namespace that
//!   the daemon cannot see into is turned away.
//! - *A client costs little.* It has one board of 20 KiB, however often it asks; a user other than root has at most
//!   [`PER_USER`], all together at most [`BOARDS`], and neither root nor the others can take the last [`PER_USER`] from
//!   each other. That counts boards, not processes: one whose process has ended counts for its user for as long as
//!   anybody keeps it. The daemon never waits for a client. What it has yet to tell the kernel is bounded, however fast
//!   processes come and go: two orders for each board, and one to watch. The most that a client can do is to ask for a
//!   watch all the time, which costs all context switches what the program costs.
//! - *The daemon may do little.* Once the programs are loaded it drops all capabilities but `CAP_BPF`, to make boards,
//!   and `CAP_SYS_RESOURCE`, without which descriptors that clients leave unread would keep it from sending others; it
//!   cannot get more by executing anything (`no_new_privs`).
//! - *The daemon may die.* With it, the kernel detaches the program and marks the word in the shared page (a robust
//!   futex), at once, whatever the cause. Waiters look at that word whenever they look at the board. Were it to be
//!   stopped instead, a watch that is on goes on without it, and none begins.
//!
//! # Lifetimes
//!
//! A board belongs to a process from its request to its end, or to the next `exec`; threads come and go with it. A
//! child of `fork` is another process and asks for itself.

mod alive;
mod assembler;
mod bpf;
mod kernel;
mod numbers;
mod peer;
mod probe;
mod program;
mod rights;
mod server;
mod signals;
mod socket;
mod watch;

use std::fmt;
use std::io;

pub use server::{BOARDS, PER_USER, Server};

/// How clients learn who runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Means {
    /// Who waits calls a probe, and is answered by the kernel. Others do not notice.
    Probe,
    /// All context switches are watched while somebody waits, for kernels that refuse the probe.
    Switches,
}

/// Why the scheduler cannot be watched here.
#[derive(Debug)]
#[non_exhaustive]
pub enum Obstacle {
    /// The kernel does not describe its types.
    NoTypes(String),
    /// It describes them, but they are not as expected.
    OtherTypes(String),
    /// The user may not.
    NoPrivilege,
    /// A filter of system calls forbids it, or the kernel was built without BPF.
    NoBpf(io::Error),
    /// The kernel knows less than is needed, or has something against the program.
    Refused(&'static str, io::Error, String),
    /// The socket cannot be had.
    Socket(String, io::Error),
    /// Another monitor listens there.
    AlreadyRunning(String),
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoTypes(why) => {
                write!(f, "the kernel does not describe its types ({why}); it needs CONFIG_DEBUG_INFO_BTF")
            }
            Self::OtherTypes(what) => write!(f, "this kernel has no `{what}`, which the monitor reads"),
            Self::NoPrivilege => f.write_str("the user may not load BPF programs; run it as root"),
            Self::NoBpf(error) => {
                write!(
                    f,
                    "bpf(2) is not to be had ({error}): a seccomp filter, lockdown, or a kernel without BPF"
                )
            }
            Self::Refused(what, error, log) => {
                write!(f, "the kernel refuses {what} ({error}); Linux 5.12 or later is needed")?;
                match log.lines().rev().find(|line| !line.is_empty() && !line.starts_with("processed ")) {
                    Some(line) => write!(f, "; it says: {line}"),
                    None => Ok(()),
                }
            }
            Self::Socket(path, error) => {
                write!(f, "no socket at `{path}`: {error}; name another by --socket")
            }
            Self::AlreadyRunning(path) => {
                write!(f, "another monitor listens at `{path}`; name another by --socket")
            }
        }
    }
}

impl std::error::Error for Obstacle {}

/// Whether, and how, clients can be told here who runs, found out by doing what the monitor does before it listens.
///
/// # Errors
///
/// Why they cannot.
pub fn check() -> Result<Means, Obstacle> {
    let refused = |error| Obstacle::Refused("a memory file", error, String::new());
    let page = alive::Page::new().map_err(refused)?;
    watch::Watch::start(&page, Means::Probe).map(|watch| watch.means())
}
