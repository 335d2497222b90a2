//! The checkers themselves: locks that are wrong, each in one way, must be found out.

use std::marker::PhantomData;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering::{self, AcqRel, Acquire, Relaxed, Release};
use std::time::Duration;

use lockwork_locks::RawLock;
use lockwork_locks::queue::mcs::Mcs;
use lockwork_locks::wait::{SpinThenPark, Wait};
use lockwork_platform::{AtomicCell, DataCell, FutexCell, Platform, PoolNode};
use lockwork_testkit::crash::{report_crashes, running};
use lockwork_testkit::engines::{loom, shuttle};
use lockwork_testkit::erased::undropped;
use lockwork_testkit::model::{Config, ModelPlatform, Play};
use lockwork_testkit::mutation::failure;
use lockwork_testkit::scenarios::{Stage, locks};
use lockwork_testkit::watchdog::{threads, watchdog};

/// What is wrong with a lock.
trait Flaw: Send + Sync + 'static {
    /// Locks without looking.
    const OPEN: bool = false;
    /// Publishes nothing at its release.
    const RELAXED: bool = false;
    /// Wakes nobody.
    const SILENT: bool = false;
    /// Keeps its node.
    const LEAKY: bool = false;
    /// Looks at its node, and at itself, after giving them up.
    const LATE: bool = false;
}

macro_rules! flaws {
    ($($name:ident: $($flaw:ident)?;)*) => {
        $(struct $name; impl Flaw for $name { $(const $flaw: bool = true;)? })*
    };
}

flaws! { Sound: ; Open: OPEN; Unordered: RELAXED; Silent: SILENT; Leaky: LEAKY; Late: LATE; }

struct Node<P: Platform>(P::U32);

impl<P: Platform> PoolNode<P> for Node<P> {
    fn new() -> Self {
        Self(P::U32::new(0))
    }
}

/// A futex lock that takes a node for each holder, right but for its flaw.
struct Flawed<P: Platform, F> {
    word: P::Futex,
    flaw: PhantomData<F>,
}

// SAFETY: none: it is wrong on purpose, and meets model checkers only.
unsafe impl<P: Platform, F: Flaw> RawLock<P> for Flawed<P, F> {
    type Token = NonNull<Node<P>>;

    fn new() -> Self {
        Self { word: P::Futex::new(0), flaw: PhantomData }
    }

    fn lock(&self) -> Self::Token {
        while !F::OPEN && self.word.swap(1, Acquire) != 0 {
            let _ = self.word.wait(1, None);
        }
        P::alloc_node()
    }

    fn try_lock(&self) -> Option<Self::Token> {
        self.word.compare_exchange(0, 1, Acquire, Relaxed).ok().map(|_| P::alloc_node())
    }

    fn lock_slow(&self, _wait: &Wait) -> Option<Self::Token> {
        self.try_lock()
    }

    unsafe fn unlock(&self, token: Self::Token) {
        if !F::LEAKY {
            // SAFETY: the holder's.
            unsafe { P::free_node(token) };
        }
        if F::LATE {
            // SAFETY: none: the node was given up.
            unsafe { token.as_ref() }.0.load(Relaxed);
        }
        // A swap: loom would let a sleeper compare with a value older than a plain store.
        self.word.swap(0, if F::RELAXED { Relaxed } else { Release });
        if !F::SILENT {
            // SAFETY: alive, for the plays here.
            unsafe { FutexCell::wake(&raw const self.word, 1) };
        }
    }

    fn is_locked(&self) -> bool {
        self.word.load(Relaxed) != 0
    }

    unsafe fn forget_waiters(&self, _holder: Option<Self::Token>) {}
}

fn under_loom(play: impl Fn() -> Play + Send + Sync + 'static) -> Option<String> {
    failure(|| _ = loom::explore(loom::Bounds::preemptions(2), Config::default(), 0, play))
}

fn under_shuttle(play: impl Fn() -> Play + Clone + Send + Sync + 'static) -> Option<String> {
    failure(|| shuttle::explore(shuttle::Schedules::Random(300), Config::default(), 0, play))
}

fn exclusion<P: ModelPlatform, F: Flaw>() -> Play {
    locks::exclusion::<P>(undropped(Flawed::<P, F>::new()), 2, 2)
}

type L = loom::LoomPlatform;
type S = shuttle::ShuttlePlatform;

fn assert_found(outcome: Option<String>, words: &str) {
    let message = outcome.expect("the flaw is found");
    assert!(message.contains(words), "found, but as: {message}");
}

#[test]
fn a_sound_lock_passes() {
    assert_eq!(under_loom(exclusion::<L, Sound>), None);
    assert_eq!(under_shuttle(exclusion::<S, Sound>), None);
}

#[test]
fn an_open_lock_is_found() {
    assert_found(under_loom(exclusion::<L, Open>), "Causality violation");
    assert_found(under_shuttle(exclusion::<S, Open>), "two threads in a critical section");
}

#[test]
fn a_missing_order_is_found() {
    assert_found(under_loom(exclusion::<L, Unordered>), "Causality violation");
}

#[test]
fn a_lost_wake_up_is_found() {
    assert_found(under_loom(exclusion::<L, Silent>), "stuck");
    assert_found(under_shuttle(exclusion::<S, Silent>), "deadlock");
}

#[test]
fn a_leaked_node_is_found() {
    assert_found(under_loom(exclusion::<L, Leaky>), "not returned");
    assert_found(under_shuttle(exclusion::<S, Leaky>), "not returned");
}

#[test]
fn an_access_to_a_freed_node_is_found() {
    assert_found(under_loom(exclusion::<L, Late>), "after its end");
    assert_found(under_shuttle(exclusion::<S, Late>), "after its end");
}

/// A release that touches the lock after another thread can have destroyed it.
#[test]
fn an_access_to_a_destroyed_lock_is_found() {
    fn play<P: ModelPlatform>() -> Play {
        let stage = Stage::<P>::new(undropped(Mcs::<P, SpinThenPark>::new()));
        let mut play = stage.play(2, 2);
        for _ in 0..2 {
            let stage = Arc::clone(&stage);
            play = play.with(move || {
                if stage.locked() == 2 {
                    P::retire(&*stage.lock);
                } else {
                    stage.lock.is_locked();
                }
            });
        }
        play
    }
    assert!(under_loom(play::<L>).is_some());
    assert_found(under_shuttle(play::<S>), "after its end");
}

/// A child that does not forget the waiters of its lock waits for a ghost.
#[test]
fn a_forgotten_purge_is_found() {
    /// MCS without `forget_waiters`.
    struct Haunted<P: Platform>(Mcs<P, SpinThenPark>);

    // SAFETY: MCS's, but for `forget_waiters`: wrong on purpose.
    unsafe impl<P: Platform> RawLock<P> for Haunted<P> {
        type Token = <Mcs<P, SpinThenPark> as RawLock<P>>::Token;

        fn new() -> Self {
            Self(Mcs::new())
        }
        fn lock(&self) -> Self::Token {
            self.0.lock()
        }
        fn try_lock(&self) -> Option<Self::Token> {
            self.0.try_lock()
        }
        fn lock_slow(&self, wait: &Wait) -> Option<Self::Token> {
            self.0.lock_slow(wait)
        }
        unsafe fn unlock(&self, token: Self::Token) {
            // SAFETY: the caller's contract.
            unsafe { self.0.unlock(token) };
        }
        fn is_locked(&self) -> bool {
            self.0.is_locked()
        }
        unsafe fn forget_waiters(&self, _holder: Option<Self::Token>) {}
    }

    assert!(under_shuttle(|| locks::forked::<S>(undropped(Haunted::<S>::new()), 3)).is_some());
}

/// A message needs the release of its sender and the acquire of its reader.
#[test]
fn a_message_through_a_word_needs_both_its_halves() {
    fn play<P: ModelPlatform>(publish: Ordering, read: Ordering) -> Play {
        let shared = Arc::new((P::Data::new(0_u32), P::U32::new(0)));
        let sender = Arc::clone(&shared);
        Play::new(|| {})
            .with(move || {
                // SAFETY: published below, not read before.
                unsafe { sender.0.set(1) };
                sender.1.swap(1, publish);
            })
            .with(move || {
                if shared.1.load(read) == 1 {
                    // SAFETY: published, if the orderings are right.
                    assert_eq!(unsafe { shared.0.get() }, 1);
                }
            })
    }
    assert_eq!(under_loom(|| play::<L>(AcqRel, Acquire)), None);
    assert_found(under_loom(|| play::<L>(Acquire, Acquire)), "Causality violation");
    assert_found(under_loom(|| play::<L>(AcqRel, Relaxed)), "Causality violation");
}

/// What a watchdog prints of a test that hangs.
#[test]
fn every_thread_is_described() {
    let all = threads();
    assert!(all.lines().any(|line| line.contains(" R ")), "one thread runs, this one: {all}");
}

/// The words of a watchdog are seen though the harness keeps what a test says, and the test never ends.
#[test]
fn a_watchdog_is_heard() {
    let program = std::env::current_exe().expect("this program");
    let hung = Command::new(program)
        .args(["--exact", "it_hangs", "--ignored"])
        .env_remove("RUST_TEST_NOCAPTURE")
        .output()
        .expect("this program once more");
    assert_eq!(hung.status.signal(), Some(libc::SIGABRT));
    let said = String::from_utf8_lossy(&hung.stderr);
    assert!(said.contains("watchdog: not done after 50ms: a test of two\n  "), "{said}");
}

#[test]
#[ignore = "hangs: for `a_watchdog_is_heard`"]
fn it_hangs() {
    watchdog(
        Duration::from_millis(50),
        || "a test of two".to_owned(),
        || {
            std::thread::sleep(Duration::from_secs(60));
        },
    );
}

/// What a crash says of itself, whose test has not been named yet when it ends the program.
#[test]
fn a_crash_is_described() {
    let program = std::env::current_exe().expect("this program");
    let crashed = Command::new(&program)
        .args(["--exact", "it_crashes", "--ignored", "--nocapture"])
        .output()
        .expect("this program once more");
    assert_eq!(crashed.status.signal(), Some(libc::SIGSEGV));
    let said = String::from_utf8_lossy(&crashed.stderr);
    assert!(said.contains("crash: signal 11, code 1, address 0x11\n"), "{said}");
    assert!(said.contains("crash: while a test of two ran\n"), "{said}");
    assert!(said.contains("crash: the address is in nothing that is mapped\n"), "{said}");
    let name = program.file_name().expect("its name").to_string_lossy();
    let is_ours = |line: &str| {
        line.starts_with("crash: the instruction is in ") && line.contains(" r-xp ") && line.contains(&*name)
    };
    assert!(said.lines().any(is_ours), "{said}");
}

#[test]
#[ignore = "crashes: for `a_crash_is_described`"]
fn it_crashes() {
    report_crashes();
    running("a test of two", || {
        // SAFETY: none: nothing is there.
        unsafe { std::ptr::without_provenance::<u8>(0x11).read_volatile() }
    });
}

/// Stacks of modelled threads, which are kept from one execution to the next.
mod stacks {
    use std::ffi::c_void;
    use std::sync::Mutex;
    use std::{fs, ptr};

    use lockwork_testkit::engines::stacks::keeping;

    const PAGE: usize = 4096;
    const BYTES: usize = 77 * PAGE;

    /// Of two tests at once, one could get the very place that the other has just left.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

    fn begin() -> *mut c_void {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_STACK;
        // SAFETY: a new mapping.
        let stack =
            unsafe { libc::mmap(ptr::null_mut(), BYTES, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
        assert_ne!(stack, libc::MAP_FAILED);
        // SAFETY: the mapping's first page, which nobody uses.
        assert_eq!(unsafe { libc::mprotect(stack, PAGE, libc::PROT_NONE) }, 0);
        stack
    }

    fn end(stack: *mut c_void) {
        // SAFETY: made by `begin`, and not used any more.
        assert_eq!(unsafe { libc::munmap(stack, BYTES) }, 0);
    }

    /// Whether the stack's guard page is there.
    fn is_guarded(stack: *mut c_void) -> bool {
        let guard = format!("{:x}-{:x} ---p", stack as usize, stack as usize + PAGE);
        fs::read_to_string("/proc/self/maps").expect("/proc").lines().any(|line| line.starts_with(&guard))
    }

    #[test]
    fn one_that_was_given_back_is_used_again_and_unmapped_in_the_end() {
        let _alone = ONE_AT_A_TIME.lock();
        let stacks = keeping(|| {
            let (a, b) = (begin(), begin());
            assert_ne!(a, b);
            end(a);
            assert_eq!(begin(), a);
            end(b);
            end(a);
            assert!(is_guarded(a) && is_guarded(b));
            [a, b]
        });
        assert!(!stacks.into_iter().any(is_guarded));
    }

    #[test]
    fn elsewhere_one_ends_at_once() {
        let _alone = ONE_AT_A_TIME.lock();
        let alone = begin();
        assert!(is_guarded(alone));
        end(alone);
        assert!(!is_guarded(alone));
    }
}
