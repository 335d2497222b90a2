//! What to put under a program's mutexes and reader-writer locks.

use core::fmt;

use super::error::Problem;
use super::{LockSpec, SpecError, first_char};
use crate::catalogue;
use crate::rw::bravo;
use crate::rw::catalogue::{self as rw, RwLockId, RwSpec};

/// What to put under a program's locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// glibc's own locks, through this library (`passthrough`).
    Passthrough,
    /// One of ours for mutexes, and the default one for reader-writer locks.
    Lock(LockSpec),
    /// glibc's own mutexes, and one of our reader-writer locks.
    Rw(RwSpec),
    /// A mutex and a reader-writer lock of ours.
    Both(LockSpec, RwSpec),
}

impl Choice {
    /// Parses a choice.
    ///
    /// # Errors
    ///
    /// [`SpecError`], which says what is wrong, where, and what to write instead.
    pub fn parse(text: &str) -> Result<Self, SpecError<'_>> {
        let Some((mutex, rwlock)) = text.split_once('+') else {
            return match text.trim() {
                "passthrough" => Ok(Self::Passthrough),
                _ if is_rw(text) => rw_spec(text).map(Self::Rw),
                _ => LockSpec::parse(text).map(Self::Lock),
            };
        };
        let mutex = match mutex.trim() {
            "pthread" | "passthrough" => None,
            _ => Some(LockSpec::parse(mutex)?),
        };
        let start = text.len() - rwlock.len();
        let rwlock = rw_spec(rwlock).map_err(|error| error.behind(start))?;
        Ok(mutex.map_or(Self::Rw(rwlock), |mutex| Self::Both(mutex, rwlock)))
    }

    /// What serves mutexes; `None` is glibc's own.
    #[must_use]
    pub fn mutex(&self) -> Option<LockSpec> {
        match *self {
            Self::Lock(spec) | Self::Both(spec, _) => Some(spec),
            Self::Passthrough | Self::Rw(_) => None,
        }
    }

    /// What serves reader-writer locks; `None` is glibc's own.
    #[must_use]
    pub fn rwlock(&self) -> Option<RwSpec> {
        match *self {
            Self::Passthrough => None,
            Self::Lock(_) => Some(RwSpec::DEFAULT),
            Self::Rw(spec) | Self::Both(_, spec) => Some(spec),
        }
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Passthrough => f.write_str("passthrough"),
            Self::Lock(spec) => spec.fmt(f),
            Self::Rw(spec) => spec.fmt(f),
            Self::Both(mutex, rwlock) => write!(f, "{mutex}+{rwlock}"),
        }
    }
}

/// The first word of a spec, and what follows it.
fn first_word(text: &str) -> (&str, &str) {
    let text = text.trim_start();
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    text.split_at(text.find(|c| !is_word(c)).unwrap_or(text.len()))
}

/// Whether a text begins with the name of a reader-writer lock.
fn is_rw(text: &str) -> bool {
    let name = first_word(text).0;
    rw::lookup(name).is_some() || name == bravo::ALGORITHM.name
}

/// Parses a reader-writer lock.
fn rw_spec(text: &str) -> Result<RwSpec, SpecError<'_>> {
    let error = |at: &str, problem| SpecError { offset: at.as_ptr().addr() - text.as_ptr().addr(), problem };
    let end = |rest: &str| -> Result<(), SpecError<'_>> {
        let at = text.len() - rest.len();
        let rest = &text[at..];
        let found = first_char(rest.trim_start());
        if found.is_empty() {
            return Ok(());
        }
        Err(error(rest.trim_start(), Problem::Expected("the end of the spec", found)))
    };
    let (name, rest) = first_word(text);
    if name != bravo::ALGORITHM.name {
        let spec = rw_name(name, rest).map_err(|problem| error(name, problem))?;
        end(rest)?;
        return Ok(RwSpec::plain(spec));
    }
    let rest = rest.trim_start();
    let inside = rest.strip_prefix('(').ok_or_else(|| error(name, Problem::WrapperAlone(name)))?;
    let (inner, rest) = first_word(inside);
    if inner == bravo::ALGORITHM.name {
        return Err(error(inner, Problem::Nested(inner)));
    }
    let base = rw_name(inner, rest).map_err(|problem| error(inner, problem))?;
    let spec = RwSpec::biased(base).ok_or_else(|| error(inner, Problem::NoRoomForBravo(inner)))?;
    let rest = rest.trim_start();
    let after =
        rest.strip_prefix(')').ok_or_else(|| error(rest, Problem::Expected("`)`", first_char(rest))))?;
    end(after)?;
    Ok(spec)
}

/// The lock of this name; `rest` is what follows it.
fn rw_name<'a>(name: &'a str, rest: &'a str) -> Result<RwLockId, Problem<'a>> {
    match rw::lookup(name) {
        Some(lock) => Ok(lock.id),
        None if name.is_empty() => {
            Err(Problem::Expected("the name of a reader-writer lock", first_char(rest)))
        }
        None if catalogue::lookup(name).is_some() => Err(Problem::NoRwLock(name)),
        None => Err(Problem::UnknownRwLock(name)),
    }
}

impl RwSpec {
    /// Parses a reader-writer lock's spec.
    ///
    /// # Errors
    ///
    /// As [`Choice::parse`].
    pub fn parse(text: &str) -> Result<Self, SpecError<'_>> {
        rw_spec(text)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::string::ToString;

    use super::*;

    fn shown(text: &str) -> std::string::String {
        match Choice::parse(text) {
            Ok(choice) => choice.to_string(),
            Err(error) => std::format!("{}: {error}", error.offset()),
        }
    }

    #[test]
    fn a_choice_is_shown_as_it_is_written() {
        for text in ["passthrough", "mcs-stp", "rw-ttas", "gcr(mcs-stp, active=4)+rw-futex", "ticket+rw-ttas"]
        {
            assert_eq!(shown(text), text);
        }
        assert_eq!(shown(" pthread + rw_ttas "), "rw-ttas");
        assert_eq!(shown("passthrough+rw-ttas"), "rw-ttas");
    }

    #[test]
    fn parts_serve_what_they_are_for() {
        let of = |text| {
            let choice = Choice::parse(text).expect("a choice");
            (choice.mutex().map(|spec| spec.to_string()), choice.rwlock().map(|spec| spec.to_string()))
        };
        let some = |name: &str| Some(name.to_string());
        assert_eq!(of("passthrough"), (None, None));
        assert_eq!(of("ticket"), (some("ticket"), some("rw-futex")));
        assert_eq!(of("rw-ttas"), (None, some("rw-ttas")));
        assert_eq!(of("ticket+rw-ttas"), (some("ticket"), some("rw-ttas")));
    }

    #[test]
    fn what_is_wrong_is_said_where_it_is() {
        assert_eq!(
            shown("mcs-stp+rw-tas"),
            "8: unknown reader-writer lock `rw-tas`: did you mean `rw-ttas`?"
        );
        assert_eq!(
            shown("mcs-stp + "),
            "10: the spec ends where the name of a reader-writer lock is expected"
        );
        assert_eq!(
            shown("mcs-stp+ticket"),
            "8: `ticket` is no reader-writer lock: write a mutex before the `+`, as in `ticket+cst-rwsem`"
        );
        assert_eq!(
            shown("gcr(rw-ttas)"),
            "4: `rw-ttas` is a reader-writer lock: write it alone or behind a mutex, as in `mcs-stp+rw-ttas`"
        );
        assert_eq!(shown("bravo(cst-rwsem"), "15: the spec ends where `)` is expected");
        assert!(shown("bravo").starts_with("0: `bravo` wraps a lock"));
        assert_eq!(shown("mcs-stp+bravo(rw-ttas) y"), "23: expected the end of the spec, found `y`");
        assert_eq!(shown("rw-ttas x"), "8: expected the end of the spec, found `x`");
        assert_eq!(shown("rw-tas"), "0: unknown lock `rw-tas`: did you mean `rw-ttas`?");
    }
}
