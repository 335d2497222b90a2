//! How locks were acquired, for the report (`LOCKWORK_COUNT`).
//!
//! The counters are shared by all threads: counting makes an acquisition dearer, and is not for measuring.

use core::fmt::{self, Write};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use lockwork_platform::{Native, Sched as _};

use super::{Access, Event, How, Layer};

/// The layer.
pub(super) struct Counts;

/// What is counted: a kind of access, and a way to acquire.
const KINDS: [(Access, How, &str); 10] = [
    (Access::Mutex, How::Lock, "mutexes locked"),
    (Access::Mutex, How::Try, "mutexes tried"),
    (Access::Mutex, How::Timed, "mutexes timed"),
    (Access::Mutex, How::AfterWait, "mutexes after waits"),
    (Access::Read, How::Lock, "read locks"),
    (Access::Read, How::Try, "read locks tried"),
    (Access::Read, How::Timed, "read locks timed"),
    (Access::Write, How::Lock, "write locks"),
    (Access::Write, How::Try, "write locks tried"),
    (Access::Write, How::Timed, "write locks timed"),
];

static ACQUIRED: [AtomicU64; KINDS.len()] = [const { AtomicU64::new(0) }; KINDS.len()];
static REFUSED: [AtomicU64; KINDS.len()] = [const { AtomicU64::new(0) }; KINDS.len()];
static RELEASED: AtomicU64 = AtomicU64::new(0);

fn count(counters: &[AtomicU64; KINDS.len()], event: Event) {
    let kind = KINDS.iter().position(|&(access, how, _)| (access, how) == (event.access, event.how));
    if let Some(kind) = kind {
        counters[kind].fetch_add(1, Relaxed);
    }
}

impl Layer for Counts {
    fn acquired(&self, event: Event) {
        count(&ACQUIRED, event);
    }

    fn refused(&self, event: Event) {
        count(&REFUSED, event);
    }

    fn released(&self, _: Access) {
        RELEASED.fetch_add(1, Relaxed);
    }
}

/// Writes `acquired 12 mutexes locked, 3 mutexes tried (1 refused); released 15; on 2 CPUs`: how many locks take the
/// process to have.
pub(crate) fn write(line: &mut impl Write) -> fmt::Result {
    line.write_str("acquired")?;
    let mut separator = " ";
    for (index, (_, _, name)) in KINDS.iter().enumerate() {
        let [acquired, refused] = [&ACQUIRED, &REFUSED].map(|counters| counters[index].load(Relaxed));
        if acquired + refused == 0 {
            continue;
        }
        write!(line, "{separator}{acquired} {name}")?;
        if refused != 0 {
            write!(line, " ({refused} refused)")?;
        }
        separator = ", ";
    }
    if separator == " " {
        line.write_str(" nothing")?;
    }
    write!(line, "; released {}; on {} CPUs", RELEASED.load(Relaxed), Native::parallelism())
}
