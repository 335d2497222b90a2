//! What is known of a lock, as data: the one form for mutexes, reader-writer locks and delegation locks.
//!
//! Every lock's file has a [`Descriptor`] and imports nothing but this module for it; the registry lists the descriptors and
//! is the only place that imports the locks. What a program or a test decides by is a typed field. Prose is for readers:
//! no code looks into it.

use core::fmt;

use crate::knobs::Knob;

/// What a lock does for its callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One holder at a time: [`RawLock`](crate::RawLock).
    Mutex,
    /// Many readers, or one writer: [`RawRwLock`](crate::RawRwLock).
    RwLock(RwFacts),
    /// Critical sections are handed over as closures, and another thread may run them.
    Delegate,
}

/// What is known of a reader-writer lock besides. Every one can be tried, timed and downgraded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RwFacts {
    /// Which threads pass which.
    pub favour: Favour,
    /// How a thread can read again while a writer waits for it, as POSIX promises.
    pub recursion: &'static str,
}

impl RwFacts {
    /// Whether new readers wait behind waiting writers, which `PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP` asks for.
    #[must_use]
    pub fn bars_readers(&self) -> bool {
        self.favour != Favour::Readers
    }
}

/// Which side passes the other while both readers and writers wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Favour {
    /// Readers pass waiting writers, who may starve.
    Readers,
    /// Readers wait behind waiting writers, and may starve.
    Writers,
    /// Readers wait behind waiting writers of the holder's node that are awake, while its turn lasts. Then they get in, before
    /// writers of other nodes.
    WritersOfNode,
    /// Neither starves.
    Neutral,
}

impl fmt::Display for Favour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Readers => "readers",
            Self::Writers => "writers",
            Self::WritersOfNode => "writers of a node",
            Self::Neutral => "neutral",
        })
    }
}

/// What a caller may do with a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Acquired by one call and released by another, perhaps in another function or thread.
    pub guard: bool,
    /// Runs a critical section that is a closure.
    pub closure: bool,
    /// Can serve the locks of a program that nobody recompiled.
    pub interposable: bool,
    /// Needs a thread of its own that runs the critical sections.
    pub server: bool,
}

impl Capabilities {
    /// What every mutex and reader-writer lock can do.
    pub const LOCK: Self = Self { guard: true, closure: true, interposable: true, server: false };

    /// What a delegate can do whose requesters run each other's sections.
    pub const COMBINER: Self = Self { guard: false, closure: true, interposable: false, server: false };

    /// What a delegate can do whose sections a thread of its own runs.
    pub const SERVER: Self = Self { server: true, ..Self::COMBINER };
}

/// How waiters compete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Everybody polls or changes one word.
    Competitive,
    /// Waiters queue, each on a word of its own.
    Queue,
    /// Waiters sleep in the kernel.
    Blocking,
    /// Waiters of one NUMA node are served together.
    Hierarchical,
    /// Some waiters are put aside while there are too many.
    LoadControl,
    /// A wrapper that restricts how many threads compete.
    Restriction,
    /// A wrapper that spares the first thread, or readers, the atomic operations.
    Biased,
    /// One of the threads that request sections runs those of the others.
    Combining,
    /// The requester runs its section itself.
    InPlace,
    /// Threads of its own run the sections.
    Server,
    /// How waiters compete, or where sections run, changes as the contention asks.
    Adaptive,
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Competitive => "competitive",
            Self::Queue => "queue",
            Self::Blocking => "blocking",
            Self::Hierarchical => "hierarchical",
            Self::LoadControl => "load control",
            Self::Restriction => "restriction",
            Self::Biased => "biased",
            Self::Combining => "combining",
            Self::InPlace => "in place",
            Self::Server => "server",
            Self::Adaptive => "adaptive",
        })
    }
}

/// The order in which waiters get the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// No order: whoever is faster.
    None,
    /// The order of arrival.
    Fifo,
    /// Waiters of a node that arrive together are served together, such batches in the order of arrival.
    FifoByBatch,
    /// The order of arrival among the waiters of a node, and among nodes, which take turns.
    FifoByNode,
    /// The order of arrival among the waiters of a node; nodes compete without an order.
    FifoWithinNode,
    /// The order of arrival among waiters that run; those that do not run are passed over.
    FifoAmongRunning,
    /// Waiters are passed over, but every one is served in the end.
    LongTerm,
    /// Every other thread overtakes a waiter no more than a fixed number of times.
    BoundedBypass,
    /// No order until a sleeper was woken in vain, or for too long; that one is handed the lock.
    BargingUntilHandoff,
    /// Readers and writers take turns.
    PhaseFair,
    /// Writers among themselves as the threads of that mutex.
    WritersAs(&'static str),
    /// It changes with what the lock finds.
    OfMode,
    /// That of the lock inside a wrapper.
    OfInner,
}

impl Order {
    /// Whether threads that arrive one after another are served in that order, whatever node they are on.
    #[must_use]
    pub const fn is_fifo(self) -> bool {
        matches!(self, Self::Fifo)
    }
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::WritersAs(mutex) => return write!(f, "writers as in {mutex}"),
            Self::None => "none",
            Self::Fifo => "FIFO",
            Self::FifoByBatch => "batches in FIFO order",
            Self::FifoByNode => "FIFO by node",
            Self::FifoWithinNode => "FIFO within a node",
            Self::FifoAmongRunning => "FIFO among those that run",
            Self::LongTerm => "long-term",
            Self::BoundedBypass => "bounded bypass",
            Self::BargingUntilHandoff => "barging until a hand-off",
            Self::PhaseFair => "phase-fair",
            Self::OfMode => "that of its mode",
            Self::OfInner => "as the lock inside",
        };
        f.pad(text)
    }
}

/// What an acquisition with a deadline does while it waits. The text, if any, says where or what else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timed {
    /// Tries again and again, awake.
    Polls(&'static str),
    /// Waits as any other thread; at the deadline it leaves a mark at its place, which others pass over.
    GivesUp(&'static str),
    /// Waits as any other thread; at the deadline it takes its place with it.
    Leaves(&'static str),
    /// Sleeps, awake neither before nor after.
    Sleeps,
    /// Is awake for a time, then sleeps.
    SpinsThenSleeps,
    /// What it does changes with what the lock finds.
    OfMode(&'static str),
    /// What the lock inside a wrapper does.
    OfInner(&'static str),
}

impl fmt::Display for Timed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (text, separator, rest) = match *self {
            Self::Polls(rest) => ("polls", ", ", rest),
            Self::GivesUp(rest) => ("gives up", " ", rest),
            Self::Leaves(rest) => ("leaves", " ", rest),
            Self::Sleeps => ("sleeps until the deadline", "", ""),
            Self::SpinsThenSleeps => ("spins and then sleeps until the deadline", "", ""),
            Self::OfMode(rest) => ("as its mode", ": ", rest),
            Self::OfInner(rest) => ("as the lock inside", "; ", rest),
        };
        f.write_str(text)?;
        if rest.is_empty() { Ok(()) } else { write!(f, "{separator}{rest}") }
    }
}

/// How waiters wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// Polling.
    Spin,
    /// Polling for about the time of a context-switch round trip, then asleep.
    SpinThenPark,
    /// Asleep at once.
    Park,
    /// Offering the CPU to other threads before every look.
    Yield,
    /// Polling while the thread that is to grant the lock runs, and else asleep.
    Aware,
}

impl Waiting {
    /// The word for it in the names of locks.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Spin => "spin",
            Self::SpinThenPark => "stp",
            Self::Park => "park",
            Self::Yield => "yield",
            Self::Aware => "aware",
        }
    }

    /// Whether waiters stay awake for as long as it takes.
    #[must_use]
    pub const fn never_sleeps(self) -> bool {
        matches!(self, Self::Spin | Self::Yield)
    }
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

/// What a lock keeps in the pool once threads have contended for it, until it is destroyed or taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeps {
    /// Nothing: all of it is in its own words.
    Nothing,
    /// One block.
    Block,
    /// A block that all threads share, and one for each part of the machine whose threads have waited.
    Parts,
}

/// Where an algorithm comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Citation {
    /// Key in `REFERENCES.bib`.
    pub key: &'static str,
    /// Authors, title, venue, year.
    pub text: &'static str,
}

/// A source file whose orderings the models of a lock prove: the test kit weakens each of them, and a model must fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proof {
    /// The file: `file!()` for the lock's own, else the end of a path.
    pub source: &'static str,
    /// The subjects of the test kit that prove it, by their names. None: those named as the lock's entries that spin or spin
    /// and then park, whatever else their names say.
    pub by: &'static [&'static str],
}

impl Proof {
    /// By the lock's entries that spin, and those that spin and then park.
    #[must_use]
    pub const fn of(source: &'static str) -> Self {
        Self { source, by: &[] }
    }
}

/// What is known of an algorithm, whatever its waiting policy.
///
/// Most fields of [`Descriptor::MUTEX`] and [`Descriptor::RWLOCK`] are what is usual: a lock's own descriptor ends with
/// `..Descriptor::MUTEX`.
#[derive(Clone, Copy, Debug)]
pub struct Descriptor {
    /// Name without the waiting policy.
    pub name: &'static str,
    /// What it does for its callers.
    pub kind: Kind,
    /// What a caller may do with it.
    pub capabilities: Capabilities,
    /// How waiters compete.
    pub family: Family,
    /// The order in which waiters get the lock.
    pub order: Order,
    /// What there is to say of the order besides.
    pub order_note: &'static str,
    /// Bytes of the lock itself, at rest.
    pub bytes: usize,
    /// Bytes of pool memory for each waiter; of a reader-writer lock, for each waiting writer.
    pub bytes_per_waiter: usize,
    /// Whether the holder keeps such a node too.
    pub holder_node: bool,
    /// What it keeps in the pool.
    pub keeps: Keeps,
    /// What a timed acquisition does.
    pub timed: Timed,
    /// The largest lock, in bytes, that fits inside, if it is a wrapper.
    pub largest_inner: usize,
    /// The knobs that a spec may set.
    pub knobs: &'static [Knob],
    /// What the models of the lock prove.
    pub proofs: &'static [Proof],
    /// The publication.
    pub citation: Citation,
    /// One line: how it works.
    pub summary: &'static str,
    /// What to expect of it.
    pub properties: &'static str,
    /// Where this implementation departs from the publication.
    pub deviations: &'static str,
    /// When to choose something else.
    pub avoid: &'static str,
}

impl Descriptor {
    /// What is usual for a mutex.
    pub const MUTEX: Self = Self {
        name: "",
        kind: Kind::Mutex,
        capabilities: Capabilities::LOCK,
        family: Family::Competitive,
        order: Order::None,
        order_note: "",
        bytes: 0,
        bytes_per_waiter: 0,
        holder_node: false,
        keeps: Keeps::Nothing,
        timed: Timed::Polls(""),
        largest_inner: 0,
        knobs: &[],
        proofs: &[],
        citation: Citation { key: "", text: "" },
        summary: "",
        properties: "",
        deviations: "",
        avoid: "",
    };

    /// What is usual for a reader-writer lock that favours so.
    #[must_use]
    pub const fn rwlock(favour: Favour, recursion: &'static str) -> Self {
        Self { kind: Kind::RwLock(RwFacts { favour, recursion }), ..Self::MUTEX }
    }

    /// Whether sections are handed to it as closures.
    #[must_use]
    pub const fn is_delegate(&self) -> bool {
        matches!(self.kind, Kind::Delegate)
    }

    /// Whether it is a mutex, or a wrapper of mutexes.
    #[must_use]
    pub const fn is_mutex(&self) -> bool {
        matches!(self.kind, Kind::Mutex)
    }

    /// What is known of it as a reader-writer lock, if it is one.
    #[must_use]
    pub const fn rw(&self) -> Option<RwFacts> {
        match self.kind {
            Kind::RwLock(facts) => Some(facts),
            Kind::Mutex | Kind::Delegate => None,
        }
    }

    /// What a timed acquisition does where waiters wait so, in words.
    #[must_use]
    pub const fn timed_by(&self, waiting: Waiting) -> TimedBy {
        TimedBy { timed: self.timed, waiting }
    }

    /// The order in which waiters get the lock, in words.
    #[must_use]
    pub const fn fairness(&self) -> Fairness {
        Fairness { order: self.order, note: self.order_note }
    }
}

/// A [`Timed`] and the way to wait.
#[derive(Clone, Copy, Debug)]
pub struct TimedBy {
    timed: Timed,
    waiting: Waiting,
}

impl fmt::Display for TimedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.timed.fmt(f)?;
        f.write_str(match (self.timed, self.waiting) {
            (Timed::GivesUp(_) | Timed::Leaves(_), Waiting::Spin) => "; spins until then, and never yields",
            (Timed::Polls(_), _) => "; is awake until then",
            _ => "",
        })
    }
}

/// An [`Order`] and what there is to say of it.
#[derive(Clone, Copy, Debug)]
pub struct Fairness {
    order: Order,
    note: &'static str,
}

impl fmt::Display for Fairness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.order.fmt(f)?;
        if self.note.is_empty() { Ok(()) } else { write!(f, ": {}", self.note) }
    }
}
