//! `lockwork monitor`: a small daemon that tells waiting threads which threads run.
//!
//! A thread that spins for a lock wastes its time, and the CPU that the holder may need, while the holder is off its
//! CPU. The kernel knows when that is so. A program can read the CPU clocks of its threads
//! (`lockwork_platform::cpu_time`), unless a filter of system calls forbids it. This daemon serves filtered programs; it
//! has the privilege to load programs into the kernel. Each process that asks gets a *board*: read-only memory that shows
//! whether its own threads run, are preempted or sleep (`lockwork_platform::monitor` has the format and the client's
//! side). There are two [`Means`] of filling it:
//!
//! - *The probe* (`probe.rs`): a waiter calls a function of the monitor's, at which the kernel runs a program
//!   (`program/answer.rs`) that looks at one thread. Only the waiter that asks pays.
//! - *Watching*, where the kernel refuses the probe: a program that runs at every context switch (`program.rs`). It is
//!   attached only while clients repeat their request, because the call itself costs more than what the program does.
//!
//! The kernel need not know which thread holds a lock: the lock's queue names the thread ahead by its id.
//!
//! # Threat model
//!
//! Clients are any local processes, hostile ones among them; the kernel and root are trusted. What holds:
//!
//! - *A client has no privilege, and no process's memory is read.* The programs read the kernel's own memory only. The
//!   daemon looks at nothing that a client writes: it connects, and is sent three descriptors. A client that connects again
//!   wants the scheduler watched. There is no request to parse. The probe takes two numbers, and any two will do.
//! - *A client can write nothing.* A board is a frozen map, the page and the probe are sealed memory files, opened for
//!   reading, whose attributes only root can change. `mmap` and `mprotect` refuse `PROT_WRITE`, but for private copies,
//!   whose changes only the process itself sees. (Where unprivileged BPF programs are allowed, which no
//!   distribution does, a client might write to its own board with one of its own, and mislead itself.)
//! - *A client sees no other process.* Each has a map of its own, which shows the threads of that process, by the ids
//!   that they have in its own PID namespace. A question about another process gets the answer for a thread that does not exist.
//! - *Nor another program.* A process that executes one loses its board within the kernel, before the program runs; the
//!   program gets a fresh one when it asks. A client whose rights have changed between connecting and the daemon's look
//!   is turned away.
//! - *A client speaks for itself.* The kernel names the process that connected (`SO_PEERPIDFD`, or `SO_PEERCRED` with the owner of
//!   the process looked at again), and the board is tied to the task, not to its number. A process in a namespace that
//!   the daemon cannot see into is turned away.
//! - *A client costs little.* It has one board of 20 KiB, however often it asks; a user other than root has at most
//!   [`PER_USER`], all together at most [`BOARDS`], and neither root nor the others can take the last [`PER_USER`] from
//!   each other. That counts boards, not processes: one whose process has ended counts for its user for as long as anybody
//!   keeps it. The daemon never waits for a client. What it has yet to tell the kernel is bounded, however fast processes
//!   come and go: two orders for each board, and one to watch. The most that a client can do to others is to ask for a
//!   watch all the time, which costs every context switch what the program costs; the probe costs others nothing, and a
//!   client that calls it all the time wastes its own time. But a client that maps it some ten thousand times holds up
//!   all `fork`s for some tens of milliseconds when the monitor ends, while the kernel takes the breakpoints out.
//! - *A client need not trust the process that listens.* It executes nothing but a function that it knows, in a sealed
//!   file, and maps only what cannot be taken from it. A wrong answer wastes its time; and a listener that sends a file of a
//!   file system in user space can keep it waiting.
//! - *The daemon may do little.* Once the programs are loaded it drops all capabilities but `CAP_BPF`, to make boards,
//!   and `CAP_SYS_RESOURCE`, without which descriptors that clients leave unread would keep it from sending others; it
//!   cannot get more by executing anything (`no_new_privs`).
//! - *The daemon may die.* The kernel marks the word in the shared page (a robust futex) and then detaches the programs, at
//!   once, whatever the cause. Waiters look at that word whenever they look at the board. While it is stopped (`SIGSTOP`),
//!   questions are answered, a watch that is on goes on, and none begins.
//!
//! # Lifetimes
//!
//! A board belongs to a process from its request to its end, or to the next `exec`; threads come and go with it. A
//! child of `fork` is another process and asks for itself.

mod alive;
mod assembler;
mod bpf;
mod files;
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

/// How clients learn which threads run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Means {
    /// A waiter calls a probe, and the kernel answers. Others do not notice.
    Probe,
    /// All context switches are watched while somebody waits, for kernels that refuse the probe.
    Switches,
}

/// What a monitor does for its clients.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Telling {
    /// How clients learn which threads run.
    pub means: Means,
    /// Why the probe cannot be had, if it was asked for.
    pub refusal: Option<String>,
}

impl Telling {
    /// Begins to answer, if that was asked for and is possible.
    fn begin(watch: &watch::Watch, probe: &probe::Probe, wish: Means) -> (Option<probe::Answers>, Self) {
        let answers = (wish == Means::Probe).then(|| watch.answer(probe)).transpose();
        let (answers, refusal) = match answers {
            Ok(answers) => (answers, None),
            Err(refusal) => (None, Some(refusal)),
        };
        let means = if answers.is_some() { Means::Probe } else { Means::Switches };
        (answers, Self { means, refusal })
    }
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
                write!(f, "the kernel refuses {what} ({error}); Linux 5.13 or later is needed")?;
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

/// Whether, and how, clients can be told here which threads run: does what the monitor does before it listens.
///
/// # Errors
///
/// Why they cannot.
pub fn check() -> Result<Telling, Obstacle> {
    let refused = |error| Obstacle::Refused("a memory file", error, String::new());
    let probe = probe::Probe::new().map_err(refused)?;
    let (_, telling) = Telling::begin(&watch::Watch::start()?, &probe, Means::Probe);
    Ok(telling)
}
