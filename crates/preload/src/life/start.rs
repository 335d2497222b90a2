//! Start: reading the environment, and choosing who serves a lock.
//!
//! The constructor runs before all others (see `build.rs`), when libc's `environ` is still null: the environment comes
//! from its third argument. Should a lock be used even earlier, the first use initialises.

use core::ffi::{CStr, c_char, c_int};
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use lockwork_config::{self as config, CpuClocks, Monitor, Variable};
use lockwork_locks::describe::Waiting;
use lockwork_locks::inplace::start::{self, Entry};
use lockwork_locks::registry::{self, Choice};
use lockwork_platform::cpu_time::{self, Allowed};
use lockwork_platform::topology::{self, Topology};
use lockwork_platform::{Native, monitor, sys};
use lockwork_policy::Kind;

use crate::abi::layout::RWLOCK_GLIBC;
use crate::abi::real;
use crate::layers::{self, profile};
use crate::life::policy::Chosen;
use crate::life::{fork, policy, report};
use crate::serve::mutex::table::PASSTHROUGH_TAG;
use crate::serve::{mutex, rwlock};

/// Locks are ours, as chosen.
const SERVING: u32 = start::DONE;
/// All locks are glibc's (`passthrough`).
const FORWARDING: u32 = start::DONE + 1;

static STATE: AtomicU32 = AtomicU32::new(0);
/// What serves locks that no rule of a policy matches: a mutex, and a reader-writer lock. glibc's until that is decided: a
/// lock that the initialisation itself uses first, in the program's allocator, is glibc's for good.
static DEFAULT: [AtomicU32; 2] = [AtomicU32::new(PASSTHROUGH_TAG), AtomicU32::new(RWLOCK_GLIBC)];

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
    if start::done::<Native>(&STATE).is_none() {
        initialise();
    }
}

/// Whether all locks are glibc's.
#[inline(always)]
pub(crate) fn forwards_everything() -> bool {
    match start::done::<Native>(&STATE) {
        Some(result) => result == FORWARDING,
        None => {
            initialise();
            start::done::<Native>(&STATE) == Some(FORWARDING)
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
    if start::enter::<Native>(&STATE, sys::gettid(), profile::thread_exists) == Entry::Initialise {
        start::finish::<Native>(&STATE, initialised());
        profile::enter();
        // Last: a look-up may allocate, and the allocator may use locks, which are served from here on.
        real::prepare();
    }
}

/// Initialises; returns the outcome. It may run again: a child of `fork` repeats what its parent had begun.
fn initialised() -> u32 {
    Native::prepare();
    let environment = Environment::of_process();
    if let Some(description) = environment.get(&config::TOPOLOGY) {
        match Topology::of_variable(description) {
            Ok(topology) => topology::set(topology),
            Err(error) => sys::refuse(format_args!("{error}")),
        }
    }
    match config::spin_ns(environment.get(&config::SPIN_NS)) {
        Ok(ns) => ns.into_iter().for_each(Native::set_spin_ns),
        Err(error) => sys::refuse(format_args!("{error}")),
    }
    Native::set_locks_are_copied();
    Native::set_strict_spin(environment.is_on(&config::STRICT_SPIN));
    if environment.is_on(&config::TIME_SLICE) {
        layers::switch_on(layers::Name::Slices);
    }
    if environment.is_on(&config::COUNT) {
        layers::switch_on(layers::Name::Counts);
    }
    if layers::any() {
        rwlock::table::put_layers_around_futex();
    }
    let choice = environment.get(&config::LOCK).map(parse);
    let default = match environment.get_c(&config::POLICY) {
        // A lock named beside a policy takes the place of the policy's own default.
        Some(file) => policy::load(file, choice),
        None => choice.unwrap_or_else(|| parse(registry::DEFAULT)),
    };
    if environment.is_on(&config::NO_FOLLOW) {
        environment.forget_preload();
    }
    // The program's first thread, so that its id is that of the process.
    report::set(config::verbose(environment.get(&config::VERBOSE), sys::gettid()));
    fork::install();
    let forwards = default == Choice::Passthrough && !policy::is_loaded();
    let Tags { mutex, rwlock } = add(default);
    DEFAULT[0].store(mutex, Ordering::Relaxed);
    DEFAULT[1].store(rwlock, Ordering::Relaxed);
    if forwards {
        mutex::table::forward_undecided();
    }
    if let Some(path) = environment.get_c(&config::PROFILE) {
        profile::start(path, environment.is_on(&config::PROFILE_OFF));
    }
    if forwards { FORWARDING } else { SERVING }
}

/// Gives a choice its tags.
pub(crate) fn add(choice: Choice) -> Tags {
    let is_aware = choice.mutex().is_some_and(|spec| spec.base.info().waiting == Waiting::Aware);
    if is_aware && !allow_cpu_clocks() {
        attach_to_monitor();
    }
    let mutex = mutex::table::add(choice.mutex().map_or(Choice::Passthrough, Choice::Lock));
    let rwlock = rwlock::table::add(choice.rwlock());
    match (mutex, rwlock) {
        (Some(mutex), Some(rwlock)) => Tags { mutex, rwlock },
        _ => sys::refuse(format_args!("a policy may name at most 62 different locks")),
    }
}

/// Has waiters read the CPU clocks of the threads they wait for, unless a variable says otherwise or a filter might object.
/// `filters` sees to it that it ends in time. Whether they do.
fn allow_cpu_clocks() -> bool {
    let environment = Environment::of_process();
    let allowed = match config::cpu_clocks(environment.get(&config::CPU_CLOCKS)) {
        Ok(CpuClocks::IfUnfiltered) => cpu_time::allow(),
        Ok(CpuClocks::Never) => return false,
        Ok(CpuClocks::EvenFiltered) => cpu_time::allow_as_told(),
        Err(error) => sys::refuse(format_args!("{error}")),
    };
    allowed == Allowed::Yes
}

/// Has a monitor watch this process, if there is one and no variable says otherwise.
fn attach_to_monitor() {
    match config::monitor(Environment::of_process().get(&config::MONITOR)) {
        Monitor::Usual => _ = monitor::attach(monitor::SOCKET),
        Monitor::No => {}
        Monitor::At(path) => _ = monitor::attach_as_told(path),
    }
}

fn parse(spec: &str) -> Choice {
    Choice::parse(spec)
        .unwrap_or_else(|error| sys::refuse(format_args!("{}=`{spec}`: {error}", config::LOCK.name)))
}

unsafe extern "C" {
    static environ: *mut *mut c_char;
    fn getauxval(kind: u64) -> usize;
}

/// Whether the program has rights that its caller has not (setuid, file capabilities): then the caller's environment has no
/// say. The loader does not preload this library there, but a program may be linked with it.
fn is_secure() -> bool {
    const AT_SECURE: u64 = 23;
    // SAFETY: looks at what the kernel gave the process.
    unsafe { getauxval(AT_SECURE) != 0 }
}

/// The process environment.
struct Environment(*mut *mut c_char);

impl Environment {
    fn of_process() -> Self {
        if is_secure() {
            return Self(ptr::null_mut());
        }
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

    /// The value of a variable as it is, if it is not empty.
    fn get_c(&self, variable: &Variable) -> Option<&'static CStr> {
        // SAFETY: terminated; the initial environment stays where it is for the life of the process.
        let value = self.find(variable.name.as_bytes()).map(|value| unsafe { CStr::from_ptr(value) });
        value.filter(|value| !value.is_empty())
    }

    /// The value of a variable, if it is not empty.
    fn get(&self, variable: &Variable) -> Option<&'static str> {
        let value = self.get_c(variable)?.to_str();
        Some(value.unwrap_or_else(|_| sys::refuse(format_args!("{} is not UTF-8", variable.name))))
    }

    /// Whether a switch is on.
    fn is_on(&self, variable: &Variable) -> bool {
        config::switch(self.get(variable))
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
