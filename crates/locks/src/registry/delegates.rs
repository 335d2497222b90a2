//! Specs of delegates.

use core::fmt;

use lockwork_platform::Platform;

use super::parse::Parser;
use super::spec::{Wanted, given};
use super::{DEFAULT_DELEGATE, Entry, LockId, Spec, SpecError, Visitor, visit};
use crate::adaptive::auto::Auto;
use crate::blocking::futex::FutexLock;
use crate::delegation::sanl::{BY_NODE, PUBLISHED, SOBER, Sanl};
use crate::delegation::{Delegate, locked};
use crate::describe::Descriptor;
use crate::hierarchical::cst::Cst;
use crate::knobs::{IN_PLACE, Knobs};
use crate::queue::mcs::Mcs;
use crate::wait::{Spin, SpinThenPark};

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

    /// Calls the visitor with the type of a delegate of the table.
    ///
    /// # Panics
    ///
    /// If it is `locked(…)`, which is [`UnderLock`](super::erased::UnderLock) over the lock of that spec.
    pub fn dispatch<P: Platform, V: Visitor<P>>(&self, visitor: V) -> V::Output {
        let (_, knobs) = self.of_the_table();
        self.dispatch_bare(Configured { knobs, visitor })
    }

    /// As [`DelegateSpec::dispatch`], of delegates whose knobs are still to be set ([`Delegate::configure`]).
    ///
    /// # Panics
    ///
    /// As there.
    pub fn dispatch_bare<P: Platform, V: Visitor<P>>(&self, visitor: V) -> V::Output {
        let (id, knobs) = self.of_the_table();
        match (id, knobs.in_place) {
            (LockId::Sanl, Some(lock)) => in_place::<P, _, PUBLISHED>(lock, visitor),
            (LockId::SanlNuma, Some(lock)) => in_place::<P, _, BY_NODE>(lock, visitor),
            (LockId::SanlPlus, Some(lock)) => in_place::<P, _, SOBER>(lock, visitor),
            _ => id.dispatch(visitor),
        }
    }

    fn of_the_table(&self) -> (LockId, Knobs) {
        match *self {
            Self::Of(id, knobs) => (id, knobs),
            Self::Locked(_) => panic!("the lock of {self} is dispatched, not the delegate"),
        }
    }
}

/// SANL with the lock of that number in [`IN_PLACE`] in place.
fn in_place<P: Platform, V: Visitor<P>, const KIND: u8>(lock: u32, visitor: V) -> V::Output {
    match lock {
        1 => visit::delegate::<P, V, Sanl<P, KIND, Mcs<P, SpinThenPark>>>(visitor),
        2 => visit::delegate::<P, V, Sanl<P, KIND, Mcs<P, Spin>>>(visitor),
        3 => visit::delegate::<P, V, Sanl<P, KIND, FutexLock<P>>>(visitor),
        4 => visit::delegate::<P, V, Sanl<P, KIND, Cst<P>>>(visitor),
        5 => visit::delegate::<P, V, Sanl<P, KIND, Auto<P>>>(visitor),
        _ => unreachable!("the knob `in-place` has the values of {IN_PLACE:?}"),
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

    use lockwork_platform::Native;

    use super::super::{Choice, delegates, lookup};
    use super::*;
    use crate::api::RawLock;

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
            "sanl(where-it-pays=1, in-place=cst-mutex)",
            "sanl-plus(in-place=auto)",
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
        assert_eq!(
            shown("sanl(in-place=ticket)"),
            "14: `in-place` cannot be `ticket`: write one of `mcs-stp`, `mcs-spin`, `futex`, `cst-mutex`, `auto`"
        );
        assert_eq!(shown("sanl(served=3)"), "5: `sanl` has no knob `served`: did you mean `serve`?");
    }

    /// The name of a delegate's type.
    struct TypeName;

    impl Visitor<Native> for TypeName {
        type Output = &'static str;

        fn delegate<D: Delegate<Native> + 'static>(self, _: impl Fn() -> D) -> &'static str {
            core::any::type_name::<D>()
        }
    }

    /// The name of a mutex's type.
    struct LockName;

    impl Visitor<Native> for LockName {
        type Output = &'static str;

        fn mutex<L: RawLock<Native> + 'static>(self, _: impl Fn() -> L) -> &'static str {
            core::any::type_name::<L>()
        }
    }

    /// What a delegate takes, in bytes.
    struct Size;

    impl Visitor<Native> for Size {
        type Output = usize;

        fn delegate<D: Delegate<Native> + 'static>(self, _: impl Fn() -> D) -> usize {
            size_of::<D>()
        }
    }

    #[test]
    fn a_delegate_takes_what_its_description_says() {
        for entry in delegates() {
            let bytes = DelegateSpec::Of(entry.id, Knobs::NONE).dispatch(Size);
            assert_eq!(bytes, entry.descriptor.bytes, "{}", entry.name);
        }
    }

    #[test]
    fn the_lock_in_place_is_the_named_one() {
        for name in IN_PLACE {
            let text = std::format!("sanl(in-place={name})");
            let spec = DelegateSpec::parse(&text).map(|spec| spec.dispatch(TypeName));
            let lock = lookup(name).map(|lock| lock.id.dispatch(LockName));
            let (Ok(delegate), Some(lock)) = (spec, lock) else { panic!("{name} is no lock") };
            // The name of a type leaves out a parameter that has its default.
            let is_the_default = delegate == core::any::type_name::<Sanl<Native>>() && *name == "mcs-stp";
            assert!(delegate.contains(lock) || is_the_default, "{name}: {delegate}");
        }
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
