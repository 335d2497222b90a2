//! Start: reading the environment, and choosing who serves a lock.
//!
//! The constructor runs before all others (see `build.rs`), when libc's `environ` is still null: the environment comes
//! from its third argument. Should a lock be used even earlier, the first use initialises.

use core::ffi::{CStr, c_char, c_int};
use core::fmt::Write;
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use lockwork_locks::catalogue;
use lockwork_locks::spec::Choice;
use lockwork_locks::wait::{Aware, WaitPolicy};
use lockwork_platform::cpu_time::{self, Allowed};
use lockwork_platform::topology::{self, Topology};
use lockwork_platform::{Native, monitor, sys};
use lockwork_policy::Kind;

use crate::policy::Chosen;
use crate::report::{self, Verbosity};
use crate::{fork, policy, real, rwtable, slices, table};

/// How locks wait whose waiters want to know who runs.
const AWARE: &str = <Aware as WaitPolicy<Native>>::NAME;

/// Nobody has initialised yet.
const FRESH: u32 = 0;
/// Somebody is initialising.
const BUSY: u32 = 1;
/// Locks are ours, as chosen.
const SERVING: u32 = 2;
/// All locks are glibc's (`passthrough`).
const FORWARDING: u32 = 3;

static STATE: AtomicU32 = AtomicU32::new(FRESH);
/// What serves locks that no rule of a policy matches.
static DEFAULT: [AtomicU32; 2] = [AtomicU32::new(0), AtomicU32::new(0)];

/// What serves the locks of a choice.
#[derive(Clone, Copy)]
pub(crate) struct Tags {
    /// The tag of mutexes, which decides for conditions and spin locks, too.
    pub(crate) mutex: u32,
    /// The server of reader-writer locks.
    pub(crate) rwlock: u32,
}
/// The constructor's environment.
static ENVIRONMENT: AtomicPtr<*mut c_char> = AtomicPtr::new(ptr::null_mut());

#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: unsafe extern "C" fn(c_int, *mut *mut c_char, *mut *mut c_char) = constructor;

unsafe extern "C" fn constructor(_count: c_int, _arguments: *mut *mut c_char, environment: *mut *mut c_char) {
    ENVIRONMENT.store(environment, Ordering::Relaxed);
    ensure();
}

/// Initialises, unless that has been done.
#[inline]
pub(crate) fn ensure() {
    if STATE.load(Ordering::Acquire) < SERVING {
        initialise();
    }
}

/// Whether all locks are glibc's.
#[inline(always)]
pub(crate) fn forwards_everything() -> bool {
    match STATE.load(Ordering::Acquire) {
        SERVING => false,
        FORWARDING => true,
        _ => {
            initialise();
            STATE.load(Ordering::Acquire) == FORWARDING
        }
    }
}

/// The choice for the lock at `address`, which the code before the return address `caller` initialises or uses for the
/// first time.
pub(crate) fn choose(address: usize, caller: usize, kind: Kind) -> Chosen {
    ensure();
    let [mutex, rwlock] = [&DEFAULT[0], &DEFAULT[1]].map(|tag| tag.load(Ordering::Relaxed));
    let default = Tags { mutex, rwlock };
    policy::choose(address, caller, kind, default).unwrap_or(Chosen::without_policy(default))
}

#[cold]
fn initialise() {
    if STATE.compare_exchange(FRESH, BUSY, Ordering::Acquire, Ordering::Acquire).is_err() {
        while STATE.load(Ordering::Acquire) < SERVING {
            sys::sched_yield();
        }
        return;
    }
    Native::prepare();
    let environment = Environment::of_process();
    if let Some(description) = environment.get(b"LOCKWORK_TOPOLOGY") {
        match Topology::synthetic(description) {
            Ok(topology) => topology::set(topology),
            Err(error) => refuse(format_args!("LOCKWORK_TOPOLOGY=`{description}`: {error}")),
        }
    }
    if let Some(text) = environment.get(b"LOCKWORK_SPIN_NS") {
        match text.parse() {
            Ok(ns) => Native::set_spin_ns(ns),
            Err(_) => refuse(format_args!(
                "LOCKWORK_SPIN_NS=`{text}` is no number of nanoseconds: write for example 5000"
            )),
        }
    }
    Native::set_locks_are_copied();
    Native::set_strict_spin(environment.is_set(b"LOCKWORK_STRICT_SPIN"));
    if environment.is_set(b"LOCKWORK_TIME_SLICE") {
        slices::switch_on();
    }
    let choice = environment.get(b"LOCKWORK_LOCK").map(parse);
    let default = match environment.get_c(b"LOCKWORK_POLICY").filter(|file| !file.is_empty()) {
        // A lock named beside a policy takes the place of the policy's own default.
        Some(file) => policy::load(file, choice),
        None => choice.unwrap_or_else(|| parse(catalogue::DEFAULT)),
    };
    if environment.is_set(b"LOCKWORK_NO_FOLLOW") {
        environment.forget_preload();
    }
    report::set_verbosity(match environment.get(b"LOCKWORK_VERBOSE") {
        None | Some("0") => Verbosity::Silent,
        // The program's first thread, so that its id is that of the process.
        Some(value) if value.parse() == Ok(sys::gettid()) => Verbosity::Always,
        Some(_) => Verbosity::IfUsed,
    });
    fork::install();
    let forwards = default == Choice::Passthrough && !policy::is_loaded();
    let Tags { mutex, rwlock } = add(default);
    DEFAULT[0].store(mutex, Ordering::Relaxed);
    DEFAULT[1].store(rwlock, Ordering::Relaxed);
    if forwards {
        table::forward_undecided();
    }
    STATE.store(if forwards { FORWARDING } else { SERVING }, Ordering::Release);
    // Last: a look-up may allocate, and the allocator may use locks, which are served from here on.
    real::prepare();
}

/// Gives a choice its tags.
pub(crate) fn add(choice: Choice) -> Tags {
    let is_aware = choice.mutex().is_some_and(|spec| spec.base.info().waiting == AWARE);
    if is_aware && !allow_cpu_clocks() {
        attach_to_monitor();
    }
    let mutex = table::add(choice.mutex().map_or(Choice::Passthrough, Choice::Lock));
    let rwlock = rwtable::add(choice.rwlock());
    match (mutex, rwlock) {
        (Some(mutex), Some(rwlock)) => Tags { mutex, rwlock },
        _ => refuse(format_args!("a policy may name at most 62 different locks")),
    }
}

/// Has waiters read the CPU clocks of those they wait for, unless somebody says otherwise or that might be dangerous.
/// `filters` sees to it that it ends in time. Whether they do.
fn allow_cpu_clocks() -> bool {
    let allowed = match Environment::of_process().get(b"LOCKWORK_CPU_CLOCKS") {
        None => cpu_time::allow(),
        Some("0") => return false,
        Some(_) => cpu_time::allow_as_told(),
    };
    allowed == Allowed::Yes
}

/// Has a monitor watch this process, if there is one and nobody says otherwise.
fn attach_to_monitor() {
    match Environment::of_process().get_c(b"LOCKWORK_MONITOR").map(CStr::to_str) {
        None => _ = monitor::attach(monitor::SOCKET),
        Some(Err(_) | Ok("0")) => {}
        Some(Ok(path)) => _ = monitor::attach_as_told(path),
    }
}

fn parse(spec: &str) -> Choice {
    Choice::parse(spec).unwrap_or_else(|error| refuse(format_args!("LOCKWORK_LOCK=`{spec}`: {error}")))
}

/// Says why the program is not started, and does not start it.
pub(crate) fn refuse(reason: core::fmt::Arguments<'_>) -> ! {
    let _ = writeln!(report::Stderr, "lockwork: {reason}");
    // SAFETY: ends the process; nothing has run yet that would need an orderly exit.
    unsafe { _exit(2) }
}

unsafe extern "C" {
    fn _exit(status: c_int) -> !;
    static environ: *mut *mut c_char;
}

/// The process environment.
struct Environment(*mut *mut c_char);

impl Environment {
    fn of_process() -> Self {
        let given = ENVIRONMENT.load(Ordering::Relaxed);
        // SAFETY: libc's variable, null before libc has set it.
        Self(if given.is_null() { unsafe { environ } } else { given })
    }

    /// All `NAME=value` strings.
    fn all(&self) -> impl Iterator<Item = *mut c_char> {
        let mut next = self.0;
        core::iter::from_fn(move || {
            if next.is_null() {
                return None;
            }
            // SAFETY: the array ends with a null pointer, and we stop there.
            let entry = unsafe { *next };
            if entry.is_null() {
                return None;
            }
            next = next.wrapping_add(1);
            Some(entry)
        })
    }

    /// Where the value of a variable begins.
    fn find(&self, name: &[u8]) -> Option<*mut c_char> {
        self.all().find_map(|entry| {
            // SAFETY: entries are terminated strings.
            let text = unsafe { CStr::from_ptr(entry) }.to_bytes();
            let is_it = text.starts_with(name) && text.get(name.len()) == Some(&b'=');
            is_it.then(|| entry.wrapping_add(name.len() + 1))
        })
    }

    fn get_c(&self, name: &[u8]) -> Option<&'static CStr> {
        // SAFETY: terminated; the initial environment stays where it is for the life of the process.
        self.find(name).map(|value| unsafe { CStr::from_ptr(value) })
    }

    /// Whether a switch is on.
    fn is_set(&self, name: &[u8]) -> bool {
        self.get(name).is_some_and(|value| value != "0")
    }

    /// The value of a variable, if it is not empty.
    fn get(&self, name: &[u8]) -> Option<&'static str> {
        self.get_c(name)?.to_str().ok().filter(|value| !value.is_empty())
    }

    /// Takes this library out of `LD_PRELOAD`, so that children run without it.
    fn forget_preload(&self) {
        let Some(value) = self.find(b"LD_PRELOAD") else { return };
        // SAFETY: a terminated string.
        let length = unsafe { CStr::from_ptr(value) }.count_bytes();
        // SAFETY: the initial environment is writable, and nobody else runs yet.
        let text = unsafe { core::slice::from_raw_parts_mut(value.cast::<u8>(), length) };
        let is_separator = |byte: u8| byte == b':' || byte == b' ';
        let mut kept = 0;
        let mut start = 0;
        while start < length {
            let end =
                text[start..].iter().position(|&byte| is_separator(byte)).map_or(length, |at| start + at);
            if !text[start..end].ends_with(b"liblockwork.so") {
                let next = (end + 1).min(length);
                text.copy_within(start..next, kept);
                kept += next - start;
            }
            start = end + 1;
        }
        // A separator at the end is as good as none.
        text[kept..].fill(b':');
    }
}
