//! What to put under a program's mutexes and reader-writer locks.

use core::fmt;

use super::parse::Parser;
use super::spec::Wanted;
use super::{Spec, SpecError};

/// What to put under a program's locks.
#[allow(clippy::large_enum_variant, reason = "a process makes one")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// glibc's own locks, through this library (`passthrough`).
    Passthrough,
    /// One of ours for mutexes, and what goes with it for reader-writer locks: the default one, or its sibling.
    Lock(Spec),
    /// One of ours for mutexes, and glibc's own reader-writer locks (`mcs-stp+pthread`).
    MutexOnly(Spec),
    /// glibc's own mutexes, and one of our reader-writer locks.
    Rw(Spec),
    /// A mutex and a reader-writer lock of ours.
    Both(Spec, Spec),
}

impl Choice {
    /// Parses a choice.
    ///
    /// # Errors
    ///
    /// [`SpecError`], which says what is wrong, where, and what to write instead.
    pub fn parse(text: &str) -> Result<Self, SpecError<'_>> {
        let is_glibc = |name: &str| matches!(name.trim(), "pthread" | "passthrough");
        let Some(plus) = text.find('+') else {
            return match text.trim() {
                "passthrough" => Ok(Self::Passthrough),
                _ if Parser::new(text).is_at_rwlock() => Spec::rwlock(text).map(Self::Rw),
                _ => Spec::mutex(text).map(Self::Lock),
            };
        };
        let (mutex, rwlock) = (&text[..plus], &text[plus + 1..]);
        let mutex = if is_glibc(mutex) { None } else { Some(Spec::mutex(mutex)?) };
        let parse = || Parser::behind(text, plus + 1).whole(Wanted::RwLock);
        let rwlock = if is_glibc(rwlock) { None } else { Some(parse()?) };
        Ok(match (mutex, rwlock) {
            (None, None) => Self::Passthrough,
            (None, Some(rwlock)) => Self::Rw(rwlock),
            (Some(mutex), None) => Self::MutexOnly(mutex),
            (Some(mutex), Some(rwlock)) => Self::Both(mutex, rwlock),
        })
    }

    /// What serves mutexes; `None` is glibc's own.
    #[must_use]
    pub fn mutex(&self) -> Option<Spec> {
        match *self {
            Self::Lock(spec) | Self::MutexOnly(spec) | Self::Both(spec, _) => Some(spec),
            Self::Passthrough | Self::Rw(_) => None,
        }
    }

    /// What serves reader-writer locks; `None` is glibc's own.
    #[must_use]
    pub fn rwlock(&self) -> Option<Spec> {
        match *self {
            Self::Passthrough | Self::MutexOnly(_) => None,
            Self::Lock(spec) => Some(Spec::plain(spec.base.rwlock_beside())),
            Self::Rw(spec) | Self::Both(_, spec) => Some(spec),
        }
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Passthrough => f.write_str("passthrough"),
            Self::Lock(spec) => spec.fmt(f),
            Self::MutexOnly(spec) => write!(f, "{spec}+pthread"),
            Self::Rw(spec) => spec.fmt(f),
            Self::Both(mutex, rwlock) => write!(f, "{mutex}+{rwlock}"),
        }
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
        for text in [
            "passthrough",
            "mcs-stp",
            "rw-ttas",
            "gcr(mcs-stp, active=4)+rw-futex",
            "ticket+rw-ttas",
            "gcr(mcs-stp, active=4)+pthread",
            "auto",
            "cst-mutex+auto-rw",
        ] {
            assert_eq!(shown(text), text);
        }
        assert_eq!(shown("ticket + passthrough"), "ticket+pthread");
        assert_eq!(shown("pthread+pthread"), "passthrough");
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
        assert_eq!(of("ticket+pthread"), (some("ticket"), None));
        assert_eq!(of("auto"), (some("auto"), some("auto-rw")));
        assert_eq!(of("cst-mutex+auto"), (some("cst-mutex"), some("auto-rw")));
        assert_eq!(of("pthread+auto"), (None, some("auto-rw")));
        assert_eq!(of("auto+rw-futex"), (some("auto"), some("rw-futex")));
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
