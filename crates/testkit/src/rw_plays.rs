//! Plays with reader-writer locks for both model checkers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use lockwork_locks::wait::WAITING_ON_RWLOCK;
use lockwork_platform::{DataCell, Deadline};

use crate::engines::loom::LoomPlatform;
use crate::engines::shuttle::ShuttlePlatform;
use crate::erased::AnyRwLock;
use crate::model::{ModelPlatform, Play};
use crate::rw::RwSubject;
use crate::scenarios::{expired, in_time};

/// A play with a reader-writer lock.
#[derive(Clone, Copy, Debug)]
pub enum RwPlay {
    /// The parts of each thread, a letter each; threads separated by spaces. Three threads or more share a lock that has been used.
    Parts(&'static str),
    /// The same with a lock that has been used, however many there are.
    Used(&'static str),
    /// So many threads read and write, and the last writer destroys the lock.
    Destroy(usize),
    /// As well, and forks.
    DestroyAndFork(usize),
    /// While a thread reads, one attempts to write, and none of another's attempts to read fails.
    AttemptsBesideReader,
    /// A writer forks, while others wait or give up.
    Fork,
    /// A reader forks, perhaps of a lock that has been read before.
    ForkReading {
        /// Whether it has.
        has_read: bool,
    },
    /// A reader forks, while another comes and goes and a writer waits.
    ForkReadingBeside,
    /// A thread forks while readers come and go, and writers leave or give up.
    ForkBesideReaders,
    /// A thread forks that has tried to read, until a deadline if there is one.
    ForkHavingTried(Option<Deadline>),
}

impl RwPlay {
    /// An execution of it for loom. Not generic, as its neighbour: so plays and locks are compiled with the kit, optimised, and not with
    /// every test.
    #[must_use]
    pub fn for_loom(self, subject: RwSubject) -> Play {
        self.with::<LoomPlatform>(subject)
    }

    /// An execution of it for shuttle.
    #[must_use]
    pub fn for_shuttle(self, subject: RwSubject) -> Play {
        self.with::<ShuttlePlatform>(subject)
    }

    fn with<P: ModelPlatform>(self, subject: RwSubject) -> Play {
        match self {
            Self::Parts(parts) => play::<P>(subject, parts),
            Self::Used(parts) => play_with(Shelf::<P>::used(subject), parts),
            Self::Destroy(threads) => destroy::<P>(subject, threads),
            Self::DestroyAndFork(threads) => destroy_and_fork::<P>(subject, threads),
            Self::AttemptsBesideReader => attempts_beside_reader::<P>(subject),
            Self::Fork => fork::<P>(subject),
            Self::ForkReading { has_read } => fork_reading::<P>(subject, has_read),
            Self::ForkReadingBeside => fork_reading_beside::<P>(subject),
            Self::ForkBesideReaders => fork_beside_readers::<P>(subject),
            Self::ForkHavingTried(deadline) => fork_having_tried::<P>(subject, deadline),
        }
    }
}

/// A lock and what it protects.
struct Shelf<P: ModelPlatform> {
    /// Never dropped: a drop would need an order after all threads.
    lock: AnyRwLock<P>,
    /// Plain data: a checker of orderings sees here whether sections are ordered.
    count: P::Data<usize>,
    /// Readers inside, and 100 for each writer, for checkers that see no orderings.
    inside: AtomicUsize,
    /// Sections done.
    done: AtomicUsize,
}

impl<P: ModelPlatform> Shelf<P> {
    fn new(subject: RwSubject) -> Arc<Self> {
        let shelf = Arc::new(Self {
            lock: subject.make_on(),
            count: P::Data::new(0),
            inside: AtomicUsize::new(0),
            done: AtomicUsize::new(0),
        });
        P::adopt(&*shelf.lock);
        shelf
    }

    /// With a lock that has been used before: what it makes at its first use is there.
    fn used(subject: RwSubject) -> Arc<Self> {
        let shelf = Self::new(subject);
        assert!(shelf.lock.try_lock_exclusive());
        // This one makes it only when a thread cannot have it at once.
        if subject.to_string() == "auto-rw" {
            assert!(!shelf.lock.try_lock_exclusive());
        }
        // SAFETY: the writer.
        unsafe { shelf.lock.unlock_exclusive() };
        shelf
    }

    fn read(&self, deadline: Option<Deadline>) -> bool {
        let acquired = self.lock.lock_shared(deadline);
        assert!(acquired || deadline.is_some());
        if acquired {
            self.read_locked();
        }
        acquired
    }

    /// A reader's section, and its end.
    fn read_locked(&self) {
        assert!(self.inside.fetch_add(1, Relaxed) < 100, "a reader beside a writer");
        // SAFETY: a reader may read; the checker reports a write at the same time.
        let before = unsafe { self.count.get() };
        P::switch();
        // SAFETY: as above.
        assert_eq!(before, unsafe { self.count.get() }, "written beside a reader");
        self.inside.fetch_sub(1, Relaxed);
        self.done.fetch_add(1, Relaxed);
        // SAFETY: the caller is a reader.
        unsafe { self.lock.unlock_shared() };
    }

    fn write(&self, deadline: Option<Deadline>) -> usize {
        let acquired = self.lock.lock_exclusive(deadline);
        assert!(acquired || deadline.is_some());
        if acquired { self.write_locked() } else { 0 }
    }

    /// Lets others run until somebody waits for the lock, for a while.
    fn until_waited_for(&self) {
        for _ in 0..6 {
            if P::waiters_of(self.lock.address() | WAITING_ON_RWLOCK) != 0 {
                return;
            }
            P::pause();
        }
    }

    /// Writes, and then reads what it wrote.
    fn downgrade(&self) {
        assert!(self.lock.lock_exclusive(None));
        let count = self.write_section();
        // SAFETY: the caller is the writer.
        unsafe { self.lock.downgrade() };
        // SAFETY: now a reader.
        assert_eq!(count, unsafe { self.count.get() }, "a writer came before the downgrade");
        self.read_locked();
    }

    /// The writer's section, and its end. The section's number among those of writers.
    fn write_locked(&self) -> usize {
        let count = self.write_section();
        // SAFETY: the caller is the writer.
        unsafe { self.lock.unlock_exclusive() };
        count
    }

    fn write_section(&self) -> usize {
        assert_eq!(self.inside.fetch_add(100, Relaxed), 0, "a writer beside somebody");
        // SAFETY: the writer may write; the checker reports others.
        let count = unsafe { self.count.get() } + 1;
        P::switch();
        // SAFETY: as above.
        unsafe { self.count.set(count) };
        self.inside.fetch_sub(100, Relaxed);
        self.done.fetch_add(1, Relaxed);
        count
    }

    fn play(self: &Arc<Self>, least: usize, most: usize) -> Play {
        let shelf = Arc::clone(self);
        Play::new(move || {
            let done = shelf.done.load(Relaxed);
            assert!((least..=most).contains(&done), "{done} sections, expected {least} to {most}");
        })
    }
}

/// One part: `r`ead, `w`rite; `R`ead and `W`rite with a deadline that has passed; `t`imed read and `T`imed write, whose
/// deadline passes when somebody sets the time; `c`lock: sets the time; `e`ra: sets it to much later; `a`gain: reads,
/// twice at once; `d`owngrade: writes, and reads before it leaves; `h`old: reads, and stays until somebody waits;
/// `j`oin: reads when somebody waits; joins `A`t once: reads as if it were a reader already; `l`ate: the same, some
/// time after somebody has begun to wait; `n`ested: reads, stays until somebody waits, and reads again beside; `x`:
/// writes, if that needs no waiting.
fn perform<P: ModelPlatform>(shelf: &Shelf<P>, part: u8) {
    match part {
        b'r' => _ = shelf.read(None),
        b'w' => _ = shelf.write(None),
        b'R' => _ = shelf.read(Some(expired())),
        b'W' => _ = shelf.write(Some(expired())),
        b't' => _ = shelf.read(Some(in_time())),
        b'T' => _ = shelf.write(Some(in_time())),
        b'c' => P::set_time(1),
        b'e' => P::set_time(1 << 30),
        b'a' => {
            assert!(shelf.lock.lock_shared(None));
            assert!(shelf.lock.lock_shared_again(None));
            shelf.read_locked();
            shelf.read_locked();
        }
        b'A' => {
            assert!(shelf.lock.lock_shared_again(None));
            shelf.read_locked();
        }
        b'x' => {
            if shelf.lock.try_lock_exclusive() {
                shelf.write_locked();
            }
        }
        b'd' => shelf.downgrade(),
        b'l' => {
            shelf.until_waited_for();
            P::pause();
            assert!(shelf.lock.lock_shared_again(None));
            shelf.read_locked();
        }
        b'h' => {
            assert!(shelf.lock.lock_shared(None));
            shelf.until_waited_for();
            shelf.read_locked();
        }
        b'n' => {
            assert!(shelf.lock.lock_shared(None));
            shelf.until_waited_for();
            assert!(shelf.lock.lock_shared_again(None));
            P::pause();
            shelf.read_locked();
            shelf.read_locked();
        }
        b'j' => {
            shelf.until_waited_for();
            shelf.read(None);
        }
        _ => unreachable!("a part of the table above"),
    }
}

/// A play in short: the parts of each thread, threads separated by spaces.
///
/// The lock is as new; three threads or more share one that has been used.
fn play<P: ModelPlatform>(subject: RwSubject, parts: &'static str) -> Play {
    let is_used = parts.split(' ').count() > 2;
    play_with(if is_used { Shelf::<P>::used(subject) } else { Shelf::new(subject) }, parts)
}

fn play_with<P: ModelPlatform>(shelf: Arc<Shelf<P>>, parts: &'static str) -> Play {
    let sections = |sure: bool| -> usize {
        let of = |part| match part {
            'r' | 'w' | 'h' | 'j' | 'A' | 'l' => 1,
            'a' | 'd' | 'n' => 2,
            'R' | 'W' | 't' | 'T' | 'x' if !sure => 1,
            _ => 0,
        };
        parts.chars().map(of).sum()
    };
    parts.split(' ').fold(shelf.play(sections(true), sections(false)), |play, parts| {
        let shelf = Arc::clone(&shelf);
        play.with(move || parts.bytes().for_each(|part| perform(&shelf, part)))
    })
}

/// Every thread reads and then writes; the last writer destroys the lock afterwards, as programs do that count references
/// under the lock: no other release may touch the lock any more.
fn destroy<P: ModelPlatform>(subject: RwSubject, threads: usize) -> Play {
    let shelf = Shelf::<P>::used(subject);
    (0..threads).fold(shelf.play(2 * threads - 1, 2 * threads - 1), |play, number| {
        let shelf = Arc::clone(&shelf);
        play.with(move || {
            if number > 0 {
                shelf.read(None);
            }
            if shelf.write(None) == threads {
                P::retire(&*shelf.lock);
            }
        })
    })
}

/// As [`destroy`], and the thread that has destroyed the lock forks while others come to the end of their releases: no
/// thread is registered for the lock, which the child would look for in memory that has been freed.
fn destroy_and_fork<P: ModelPlatform>(subject: RwSubject, threads: usize) -> Play {
    let shelf = Shelf::<P>::used(subject);
    (0..threads).fold(Play::new(|| {}), |play, _| {
        let shelf = Arc::clone(&shelf);
        play.with(move || {
            if shelf.write(None) == threads {
                P::retire(&*shelf.lock);
                let waited_for = P::fork();
                assert!(waited_for.is_empty(), "somebody is registered for a lock that is gone");
            }
        })
    })
}

/// While a thread reads, from the beginning to the end, no attempt to write succeeds, and so none makes an attempt to
/// read fail.
fn attempts_beside_reader<P: ModelPlatform>(subject: RwSubject) -> Play {
    let shelf = Shelf::<P>::used(subject);
    // A bias comes with readers.
    shelf.read(None);
    assert!(shelf.lock.lock_shared(None));
    let (reader, writer) = (Arc::clone(&shelf), Arc::clone(&shelf));
    shelf
        .play(3, 3)
        .with(move || {
            for _ in 0..2 {
                assert!(reader.lock.try_lock_shared(), "only readers are there");
                reader.read_locked();
            }
        })
        .with(move || assert!(!writer.lock.try_lock_exclusive(), "beside a reader"))
}

/// While a writer holds the lock and others wait or give up, its thread forks: in the child it is alone.
fn fork<P: ModelPlatform>(subject: RwSubject) -> Play {
    let shelf = Shelf::<P>::new(subject);
    let (parent, reader, writer) = (Arc::clone(&shelf), Arc::clone(&shelf), Arc::clone(&shelf));
    shelf
        .play(3, 5)
        .with(move || {
            assert!(parent.lock.lock_exclusive(None));
            P::fork();
            // SAFETY: no other thread exists.
            unsafe { parent.lock.forget_waiters() };
            parent.write_locked();
            parent.read(None);
            parent.write(None);
        })
        .with(move || _ = reader.read(None))
        .with(move || _ = writer.write(None))
}

/// While a reader holds the lock and others wait, come, go or give up, its thread forks: in the child it is alone. Another
/// holder would hold the lock there for ever, so there is none.
///
/// If `has_read`, somebody has read before: a biased lock's readers are visible.
fn fork_reading<P: ModelPlatform>(subject: RwSubject, has_read: bool) -> Play {
    let shelf = Shelf::<P>::new(subject);
    if has_read {
        shelf.read(None);
        shelf.done.store(0, Relaxed);
    }
    let (parent, first, second) = (Arc::clone(&shelf), Arc::clone(&shelf), Arc::clone(&shelf));
    shelf
        .play(3, 5)
        .with(move || {
            assert!(parent.lock.lock_shared(None));
            P::fork();
            // SAFETY: no other thread exists.
            unsafe { parent.lock.forget_waiters() };
            assert!(!parent.lock.try_lock_exclusive(), "the reader was forgotten");
            parent.read_locked();
            parent.write(None);
            parent.read(None);
        })
        .with(move || _ = first.write(None))
        .with(move || _ = second.write(Some(expired())))
}

/// While a reader holds the lock, another comes and goes, and a writer waits for them, its thread forks. In the child the
/// other reader may be inside for ever; but the forker must be, too.
fn fork_reading_beside<P: ModelPlatform>(subject: RwSubject) -> Play {
    let shelf = Shelf::<P>::new(subject);
    let (parent, reader, writer) = (Arc::clone(&shelf), Arc::clone(&shelf), Arc::clone(&shelf));
    shelf
        .play(2, 4)
        .with(move || {
            assert!(parent.lock.lock_shared(None));
            parent.until_waited_for();
            P::fork();
            // SAFETY: no other thread exists.
            unsafe { parent.lock.forget_waiters() };
            assert!(!parent.lock.try_lock_exclusive(), "the reader was forgotten");
            parent.read_locked();
            parent.read(None);
        })
        .with(move || _ = reader.read(None))
        .with(move || _ = writer.write(None))
}

/// A writer leaves once another one, which gives up, and a reader wait for it. Then a thread forks, and its child forgets those only
/// that the registry knows of. Where nobody writes or tries to, the child can read: readers, and those in the middle of a reader's
/// release, are in nobody's way.
fn fork_beside_readers<P: ModelPlatform>(subject: RwSubject) -> Play {
    let shelf = Shelf::<P>::used(subject);
    let writing = Arc::new(AtomicUsize::new(2));
    let address = shelf.lock.address() | WAITING_ON_RWLOCK;
    let until = |holds: &dyn Fn() -> bool| (0..12).take_while(|_| !holds()).for_each(|_| P::pause());
    let parts = || (Arc::clone(&shelf), Arc::clone(&writing));
    let ((parent, writers), (first, first_writes), (second, second_writes), (reader, _)) =
        (parts(), parts(), parts(), parts());
    Play::new(|| {})
        .with(move || {
            until(&|| P::waiters_of(address) == 2);
            P::pause();
            P::set_time(1);
            until(&|| writers.load(Relaxed) == 0);
            let waited_for = P::fork();
            if waited_for.contains(&address) {
                // SAFETY: no other thread exists.
                unsafe { parent.lock.forget_waiters() };
            }
            if writers.load(Relaxed) == 0 {
                assert!(parent.lock.try_lock_shared(), "nobody writes");
            }
        })
        .with(move || {
            assert!(first.lock.lock_exclusive(None));
            until(&|| P::waiters_of(address) == 2);
            first.write_locked();
            first_writes.fetch_sub(1, Relaxed);
        })
        .with(move || {
            second.write(Some(in_time()));
            second_writes.fetch_sub(1, Relaxed);
        })
        .with(move || _ = reader.read(None))
}

/// A thread tries to read, beside a writer, and forks when it has left, or has not come in: in the child nobody reads.
fn fork_having_tried<P: ModelPlatform>(subject: RwSubject, deadline: Option<Deadline>) -> Play {
    let shelf = Shelf::<P>::new(subject);
    let (parent, writer) = (Arc::clone(&shelf), Arc::clone(&shelf));
    shelf
        .play(0, 4)
        .with(move || {
            let has_come_in = match deadline {
                None => parent.lock.try_lock_shared(),
                deadline => parent.lock.lock_shared(deadline),
            };
            if has_come_in {
                parent.read_locked();
            }
            P::fork();
            // SAFETY: no other thread exists.
            unsafe { parent.lock.forget_waiters() };
            // The writer may be inside for ever.
            if parent.lock.try_lock_shared() {
                parent.read_locked();
                assert!(parent.lock.try_lock_exclusive(), "nobody reads");
                parent.write_locked();
            }
        })
        .with(move || _ = writer.write(None))
}
