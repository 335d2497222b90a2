//! Which lock serves which of the program's locks, when `LOCKWORK_POLICY` names a file.
//!
//! The file is read and understood once, at start ([`load`]); what it means for one lock ([`choose`]) is found when that
//! lock is initialised or first used, without allocating and without waiting for anybody.
//!
//! # What a rule sees
//!
//! - The code location is the call of `pthread_mutex_init` and the like, or of the first operation on a lock that was
//!   initialised statically. A rule names it by the offset of the call instruction or of the one behind it, in the
//!   file's own addresses, as `nm`, `objdump`, `addr2line` and backtraces show them (see `call` and `modules`), or by
//!   the function it is in. Where the compiler made a tail call of it, it is the place that called that function.
//! - Symbols come from the file's `.symtab`; of a stripped file, exported functions and variables are known only.
//! - A static lock can be named by its own address in the file, too, as `nm` would show it. It is the same in each run, whichever
//!   thread takes the lock first.
//! - What is called from generated code, and what lies on the heap or a stack, has no place or symbol.
//!
//! # What a rule decides
//!
//! - A mutex gets the lock that the rule names, or is glibc's (`passthrough`). Robust, priority-aware and process-shared
//!   ones are glibc's whatever the rules say.
//! - A reader-writer lock gets the reader-writer lock that the rule names, the futex lock where it names a mutex alone,
//!   or is glibc's.
//! - Conditions and spin locks have one algorithm each: any mutex but `passthrough` means it.
//! - glibc's condition cannot work with a mutex that is ours: a condition is glibc's if a rule says so, not the default, and the
//!   mutex of its first wait is glibc's, too. Then waiting on it with a mutex of ours is an error (`EINVAL`).
//! - A spin lock is one word, which has no room for a decision: it follows rules that name a kind alone, and the default.

mod arena;
mod cache;
mod call;
mod file;
pub(crate) mod modules;
mod place;
mod symbols;

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ffi::CStr;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use lockwork_platform::published::Published;
use lockwork_platform::{Native, sys};
use lockwork_policy::{Choice, Kind, Policy, PolicyError};
use syscalls::Errno;

use crate::life::start::{self, Tags};
use crate::serve::mutex::table::PASSTHROUGH_TAG;
use file::File;

/// The largest policy file, in bytes.
const LARGEST: usize = 1 << 20;

/// A policy, and how often its rules decided.
struct Loaded {
    file: &'static str,
    policy: Policy,
    /// What serves the locks of each rule.
    tags: Vec<Tags>,
    /// How many locks each rule decided; one more for the default.
    decided: Vec<AtomicU64>,
}

static LOADED: Published<Native, Loaded> = Published::nothing();
/// Whether spin locks are glibc's.
static SPIN_FORWARDED: AtomicBool = AtomicBool::new(false);

fn loaded() -> Option<&'static Loaded> {
    LOADED.get()
}

/// What serves a lock, and which rule of the policy was the reason.
#[derive(Clone, Copy)]
pub(crate) struct Chosen {
    pub(crate) tags: Tags,
    /// Index of the rule, or their number for the default.
    rule: u16,
}

impl Chosen {
    /// For the lock that was chosen where there is no policy.
    pub(crate) fn without_policy(tags: Tags) -> Self {
        Self { tags, rule: 0 }
    }

    /// Whether glibc serves it, if it is no reader-writer lock.
    pub(crate) fn is_glibcs(self) -> bool {
        self.tags.mutex == PASSTHROUGH_TAG
    }

    /// Whether a condition is to be glibc's, which works with mutexes of glibc's alone: where a rule says so, or no mutex can be
    /// ours. A policy's default does not: a program may wait on one condition with several mutexes, one after the other.
    pub(crate) fn leaves_condition(self) -> bool {
        let is_rule = |loaded: &Loaded| usize::from(self.rule) < loaded.tags.len();
        self.is_glibcs() && loaded().is_none_or(is_rule)
    }

    /// Notes for the report that a lock follows this choice.
    pub(crate) fn count(self) {
        if let Some(decided) = loaded().and_then(|loaded| loaded.decided.get(usize::from(self.rule))) {
            decided.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Decides for the lock at `address`, which the code before the return address `caller` initialises or uses for the
/// first time; `None` if there is no policy. `default` serves what no rule matches.
pub(crate) fn choose(address: usize, caller: usize, kind: Kind, default: Tags) -> Option<Chosen> {
    let loaded = loaded()?;
    let rule = place::rule(&loaded.policy, address, caller, kind).unwrap_or(loaded.tags.len() as u16);
    Some(Chosen { tags: loaded.tags.get(usize::from(rule)).copied().unwrap_or(default), rule })
}

/// Whether there is a policy.
pub(crate) fn is_loaded() -> bool {
    loaded().is_some()
}

/// Whether spin locks are glibc's by the policy.
pub(crate) fn forwards_spin_locks() -> bool {
    SPIN_FORWARDED.load(Ordering::Relaxed)
}

/// What a rule decided.
pub(crate) struct Decided {
    /// The policy's file.
    pub(crate) file: &'static str,
    /// The rule's line in it; `None` for the default.
    pub(crate) line: Option<usize>,
    pub(crate) lock: Choice,
    /// How many locks got it by this rule.
    pub(crate) count: u64,
}

/// What each rule of the policy decided so far, and at last the default.
pub(crate) fn decisions() -> impl Iterator<Item = Decided> {
    loaded().into_iter().flat_map(|Loaded { file, policy, decided, .. }| {
        let rules = policy.rules.iter().map(|rule| (Some(rule.line), rule.lock));
        let all = rules.chain([(None, policy.default)]).zip(decided);
        all.map(move |((line, lock), count)| Decided {
            file,
            line,
            lock,
            count: count.load(Ordering::Relaxed),
        })
    })
}

/// Reads the policy file and gives every rule's lock a tag. Returns the policy's default, or `default` where that is given.
/// Refuses to start the program when anything is wrong.
pub(crate) fn load(path: &'static CStr, default: Option<Choice>) -> Choice {
    arena::with_heap(|| {
        let file = path.to_str().unwrap_or("LOCKWORK_POLICY");
        let mut policy = parse(file, &read(file, path));
        policy.default = default.unwrap_or(policy.default);
        let default = policy.default;
        let places = policy.needs_function()
            || policy.needs_location()
            || policy.needs_lock_symbol()
            || policy.needs_lock_location();
        if places && !modules::prepare() {
            sys::refuse(format_args!(
                "`{file}`: rules with `init` or `symbol` need glibc 2.35 or later; `kind` works with all"
            ));
        }
        let tags: Vec<Tags> = policy.rules.iter().map(|rule| start::add(rule.lock)).collect();
        let decided = (0..=tags.len()).map(|_| AtomicU64::new(0)).collect();
        let spin =
            place::by_kind(&policy, Kind::Spin).map_or(default, |rule| policy.rules[usize::from(rule)].lock);
        SPIN_FORWARDED.store(spin.mutex().is_none(), Ordering::Relaxed);
        let loaded = Box::leak(Box::new(Loaded { file, policy, tags, decided }));
        // SAFETY: initialised, and leaked. There is one policy: nothing has been published before.
        let _ = unsafe { LOADED.first(loaded.into()) };
        default
    })
}

fn read(file: &str, path: &CStr) -> Vec<u8> {
    let mut text = alloc::vec![0; LARGEST + 1];
    let read = File::open(path).and_then(|opened| Ok(opened.read(&mut text)?.len()));
    match read {
        Ok(length) if length <= LARGEST => text.truncate(length),
        Ok(_) => sys::refuse(format_args!("policy `{file}` is larger than 1 MiB, which no policy needs")),
        Err(error) => {
            let why = match error {
                Errno::ENOENT => "no such file or directory",
                Errno::EACCES => "permission denied",
                Errno::EISDIR => "it is a directory",
                _ => "an input or output error",
            };
            sys::refuse(format_args!("policy `{file}` cannot be read: {why}; check the path"))
        }
    }
    text
}

fn parse(file: &str, text: &[u8]) -> Policy {
    let refuse = |error: &PolicyError| -> ! {
        let PolicyError { line, column, message } = error;
        sys::refuse(format_args!("{file}:{line}:{column}: {message}"))
    };
    let text = match core::str::from_utf8(text) {
        Ok(text) => text,
        Err(error) => {
            let before = &text[..error.valid_up_to()];
            let line = before.iter().filter(|&&byte| byte == b'\n').count() + 1;
            let last = before.rsplit(|&byte| byte == b'\n').next().unwrap_or_default();
            let column = core::str::from_utf8(last).map_or(0, |last| last.chars().count()) + 1;
            refuse(&PolicyError { line, column, message: "the file is not UTF-8; save it as UTF-8".into() })
        }
    };
    let policy = Policy::parse(text).unwrap_or_else(|error| refuse(&error));
    if let Some(rule) = policy.rules.get(usize::from(u16::MAX)) {
        refuse(&PolicyError {
            line: rule.line,
            column: 1,
            message: "more than 65,535 rules; leave some out".into(),
        });
    }
    policy
}
