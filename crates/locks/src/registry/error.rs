//! What is wrong with a spec, and what to write instead.

use core::fmt;

use super::{delegates, mutex_wrappers, mutexes, rwlocks};
use crate::describe::Descriptor;
use crate::hierarchical::combinations::COMBINATIONS;
use crate::knobs::Knob;

/// Why a spec was refused.
#[derive(Clone, Copy, Debug)]
pub struct SpecError<'a> {
    /// Byte offset in the spec.
    pub(super) offset: usize,
    pub(super) problem: Problem<'a>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Problem<'a> {
    Empty,
    UnknownLock(&'a str),
    UnknownRwLock(&'a str),
    UnknownDelegate(&'a str),
    NoDelegate(&'a str),
    RunsClosures(&'a str),
    NoMutex(&'a str),
    NoRwLock(&'a str),
    NeedsPolicy(&'a str),
    NotAWrapper(&'a str),
    WrapperAlone(&'static Descriptor),
    Nested(&'a str),
    TooLarge { name: &'a str, wrapper: &'static Descriptor },
    NoDetection(&'a str),
    NoCombination(&'a str, &'a str),
    Expected(&'static str, &'a str),
    UnknownKnob { lock: &'static str, name: &'a str, near: Option<&'static str> },
    RepeatedKnob(&'a str),
    BadNumber(&'a str, &'static str),
    NoSuchValue { knob: &'static Knob, text: &'a str },
    OutOfRange { knob: &'static str, low: u32, high: u32 },
    JoinAboveActive { join: u32, active: u32 },
}

impl SpecError<'_> {
    /// Byte offset in the spec at which the problem is.
    #[must_use]
    pub fn offset(&self) -> usize {
        self.offset
    }
}

impl fmt::Display for SpecError<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.problem {
            Problem::Empty => f.write_str("the lock spec is empty: name a lock, for example `mcs-stp`"),
            Problem::UnknownLock(name) => {
                write!(f, "unknown lock `{name}`")?;
                let names = mutexes()
                    .map(|lock| lock.name)
                    .chain(mutex_wrappers().map(|wrapper| wrapper.descriptor().name))
                    .chain(rwlocks().map(|lock| lock.name))
                    .chain(["passthrough"]);
                suggest(f, nearest(name, names))
            }
            Problem::UnknownRwLock(name) => {
                write!(f, "unknown reader-writer lock `{name}`")?;
                suggest(f, nearest(name, rwlocks().map(|lock| lock.name)))
            }
            Problem::UnknownDelegate(name) => {
                write!(f, "unknown delegate `{name}`")?;
                suggest(f, nearest(name, delegates().map(|lock| lock.name).chain(["locked"])))
            }
            Problem::NoDelegate(name) => {
                write!(f, "`{name}` is a lock: closures run under it as `locked({name})`")
            }
            Problem::RunsClosures(name) => {
                write!(
                    f,
                    "`{name}` runs closures, and cannot be locked and unlocked: programs call it, by `lockwork::Delegated` in \
                     Rust, `lockwork_delegate_t` in C, `lockwork::delegated` in C++"
                )
            }
            Problem::NoMutex(name) => {
                write!(
                    f,
                    "`{name}` is a reader-writer lock: write it alone or behind a mutex, as in `mcs-stp+{name}`"
                )
            }
            Problem::NoRwLock(name) => {
                write!(
                    f,
                    "`{name}` is no reader-writer lock: write a mutex before the `+`, as in `{name}+cst-rwsem`"
                )
            }
            Problem::NeedsPolicy(name) => {
                write!(
                    f,
                    "`{name}` needs a waiting policy: `{name}-spin`, `{name}-stp` (spin, then park), `{name}-park` or `{name}-yield`"
                )
            }
            Problem::NotAWrapper(name) => {
                write!(f, "`{name}` takes no arguments: write `{name}`, or `gcr({name})`")
            }
            Problem::WrapperAlone(wrapper) => {
                let name = wrapper.name;
                write!(f, "`{name}` wraps a lock: name it, for example `{name}({})`", inner_example(wrapper))
            }
            Problem::Nested(name) => {
                write!(f, "`{name}` cannot be wrapped: a wrapper takes a plain lock such as `mcs-stp`")
            }
            Problem::TooLarge { name, wrapper } => {
                write!(
                    f,
                    "`{name}` leaves no room for the bias: `{}` takes a lock of at most {} bytes such as `{}`",
                    wrapper.name,
                    wrapper.largest_inner,
                    inner_example(wrapper)
                )
            }
            Problem::NoDetection(name) => {
                write!(
                    f,
                    "`{name}` cannot be the lock of a node: it cannot hand itself to a thread that certainly waits \
                     (cohort detection); `ticket`, `mcs-spin` and `mcs-stp` can"
                )
            }
            Problem::NoCombination(global, local) => {
                write!(f, "there is no cohort lock of `{global}` over `{local}`; there are")?;
                let mut before = " ";
                for (global, local, _) in COMBINATIONS {
                    write!(f, "{before}cohort({global},{local})")?;
                    before = ", ";
                }
                Ok(())
            }
            Problem::Expected(what, "") => write!(f, "the spec ends where {what} is expected"),
            Problem::Expected(what, found) => write!(f, "expected {what}, found `{found}`"),
            Problem::UnknownKnob { lock, name, near } => {
                write!(f, "`{lock}` has no knob `{name}`")?;
                match near {
                    Some(near) => write!(f, ": did you mean `{near}`?"),
                    None => write!(f, ": `lockwork info {lock}` shows its knobs"),
                }
            }
            Problem::RepeatedKnob(name) => write!(f, "knob `{name}` is given twice: keep one"),
            Problem::BadNumber(text, knob) => {
                write!(f, "`{text}` is not a number: write for example `{knob}=4`")
            }
            Problem::NoSuchValue { knob, text } => {
                write!(f, "`{}` cannot be `{text}`: write one of ", knob.name)?;
                write_list(f, knob.names)
            }
            Problem::OutOfRange { knob, low, high } => write!(f, "`{knob}` must be between {low} and {high}"),
            Problem::JoinAboveActive { join, active } => {
                write!(
                    f,
                    "`join` ({join}) must not exceed `active` ({active}): lower `join` or raise `active`"
                )
            }
        }
    }
}

fn write_list(f: &mut fmt::Formatter<'_>, names: &[&str]) -> fmt::Result {
    let mut before = "";
    for name in names {
        write!(f, "{before}`{name}`")?;
        before = ", ";
    }
    Ok(())
}

/// A lock that a wrapper takes.
fn inner_example(wrapper: &Descriptor) -> &'static str {
    if wrapper.is_mutex() { "mcs-stp" } else { "cst-rwsem" }
}

/// What to write instead of an unknown name.
fn suggest(f: &mut fmt::Formatter<'_>, near: Option<&str>) -> fmt::Result {
    match near {
        Some(near) => write!(f, ": did you mean `{near}`?"),
        None => f.write_str(": `lockwork list` shows the locks there are"),
    }
}

impl core::error::Error for SpecError<'_> {}

/// The candidate nearest to `word`, if one is near enough to be meant.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .into_iter()
        .map(|candidate| (edit_distance(word, candidate), candidate))
        .min_by_key(|&(distance, _)| distance)
        .filter(|&(distance, candidate)| distance <= 1 + candidate.len().min(word.len()) / 4)
        .map(|(_, candidate)| candidate)
}

/// Levenshtein's distance in bytes; words longer than 31 bytes are far from everything.
fn edit_distance(left: &str, right: &str) -> usize {
    const LONGEST: usize = 31;
    if left.len() > LONGEST || right.len() > LONGEST {
        return usize::MAX;
    }
    let mut row: [usize; LONGEST + 1] = core::array::from_fn(|column| column);
    for (above, from) in left.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = above + 1;
        for (column, to) in right.bytes().enumerate() {
            let replaced = diagonal + usize::from(!from.eq_ignore_ascii_case(&to));
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[right.len()]
}
