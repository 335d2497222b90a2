//! Specs of delegates.

use core::fmt;

use lockwork_platform::Platform;

use super::parse::Parser;
use super::spec::{Wanted, given};
use super::{DEFAULT_DELEGATE, Entry, LockId, Spec, SpecError, Visitor};
use crate::delegation::{Delegate, locked};
use crate::describe::Descriptor;
use crate::knobs::Knobs;

/// A delegate that can be built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DelegateSpec {
    /// One of the table, with its knobs.
    Of(LockId, Knobs),
    /// The requester runs its section under a lock.
    Locked(Spec),
}

impl DelegateSpec {
    /// What is used where no delegate is named.
    pub const DEFAULT: Self = Self::Of(DEFAULT_DELEGATE, Knobs::NONE);

    /// Parses the spec of a delegate.
    ///
    /// # Errors
    ///
    /// [`SpecError`], which says what is wrong, where, and what to write instead.
    pub fn parse(text: &str) -> Result<Self, SpecError<'_>> {
        if let Some(inner) = Parser::new(text).locked()? {
            return inner.whole(Wanted::Mutex).map(Self::Locked);
        }
        let Spec { base, knobs, .. } = Parser::new(text).whole(Wanted::Delegate)?;
        Ok(Self::Of(base, knobs))
    }

    /// The row of the table, if it is one of those.
    #[must_use]
    pub fn entry(&self) -> Option<&'static Entry> {
        match self {
            Self::Of(id, _) => Some(id.info()),
            Self::Locked(_) => None,
        }
    }

    /// What is known of the delegate.
    #[must_use]
    pub fn descriptor(&self) -> &'static Descriptor {
        self.entry().map_or(&locked::DESCRIPTOR, |entry| entry.descriptor)
    }

    /// Calls the visitor with the type of the delegate; with that of the lock inside if it is `locked(…)`.
    pub fn dispatch<P: Platform, V: Visitor<P>>(&self, visitor: V) -> V::Output {
        match *self {
            Self::Of(id, knobs) => id.dispatch(Configured { knobs, visitor }),
            Self::Locked(spec) => spec.dispatch(visitor),
        }
    }
}

/// Gives a delegate its knobs.
struct Configured<V> {
    knobs: Knobs,
    visitor: V,
}

impl<P: Platform, V: Visitor<P>> Visitor<P> for Configured<V> {
    type Output = V::Output;

    fn delegate<D: Delegate<P> + 'static>(self, new: impl Fn() -> D) -> V::Output {
        let Self { knobs, visitor } = self;
        visitor.delegate(|| {
            let delegate = new();
            delegate.configure(&knobs);
            delegate
        })
    }
}

impl fmt::Display for DelegateSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (id, knobs) = match self {
            Self::Locked(spec) => return write!(f, "locked({spec})"),
            Self::Of(id, knobs) => (id, knobs),
        };
        let entry = id.info();
        f.write_str(entry.name)?;
        let mut before = "(";
        for (name, value) in given(entry.descriptor.knobs, knobs) {
            write!(f, "{before}{name}={value}")?;
            before = ", ";
        }
        if before == "(" { Ok(()) } else { f.write_str(")") }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::string::{String, ToString};

    use super::super::{Choice, delegates};
    use super::*;

    fn shown(text: &str) -> String {
        match DelegateSpec::parse(text) {
            Ok(spec) => spec.to_string(),
            Err(error) => std::format!("{}: {error}", error.offset()),
        }
    }

    #[test]
    fn a_spec_is_shown_as_it_is_written() {
        for entry in delegates() {
            assert_eq!(shown(entry.name), entry.name);
        }
        for text in [
            "rcl(servers=2)",
            "sanl(serve=50, wait=0)",
            "locked(gcr(mcs-stp, active=4))",
            "locked(cst-mutex)",
        ] {
            assert_eq!(shown(text), text);
        }
        assert_eq!(shown(" locked( mcs_stp ) "), "locked(mcs-stp)");
    }

    #[test]
    fn what_is_wrong_is_said_where_it_is() {
        assert_eq!(shown("cc-sync"), "0: unknown delegate `cc-sync`: did you mean `cc-synch`?");
        assert_eq!(shown("mcs-stp"), "0: `mcs-stp` is a lock: closures run under it as `locked(mcs-stp)`");
        assert_eq!(shown(""), "0: the spec ends where the name of a delegate is expected");
        assert_eq!(shown("locked(msc-stp)"), "7: unknown lock `msc-stp`: did you mean `mcs-stp`?");
        assert_eq!(shown("locked(mcs-stp"), "14: the spec ends where `)` is expected");
        assert_eq!(shown("rcl(servers=0)"), "12: `servers` must be between 1 and 64");
        assert_eq!(shown("sanl(served=3)"), "5: `sanl` has no knob `served`: did you mean `serve`?");
    }

    #[test]
    fn a_program_that_nobody_recompiled_cannot_have_one() {
        for text in ["cc-synch", "rcl(servers=2)", "gcr(fc)", "ticket+sanl", "locked(mcs-stp)"] {
            let error = Choice::parse(text).expect_err("it runs closures").to_string();
            assert!(
                error.contains("lockwork::Delegated") && error.contains("lockwork_delegate_t"),
                "{text}: {error}"
            );
        }
    }
}
