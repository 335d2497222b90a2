//! Lock specs: what the names of locks, wrappers and knobs describe.

use core::fmt;

use super::parse::Parser;
use super::{DEFAULT_RWLOCK, LockId, SpecError, WrapperId};
use crate::describe::{Descriptor, RwFacts};
use crate::knobs::{Knob, Knobs, Value};

/// A lock that can be built: one of the table, wrapped or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spec {
    /// The lock itself.
    pub base: LockId,
    /// What is set of the lock itself.
    pub knobs: Knobs,
    /// What is around it. The wrapper takes this lock: [`WrapperId::takes`].
    pub wrapper: Option<Wrapper>,
}

/// A wrapper around a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wrapper {
    /// Which.
    pub id: WrapperId,
    /// What is set of it.
    pub knobs: Knobs,
}

/// What a spec must name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    Mutex,
    RwLock,
    Delegate,
}

impl Spec {
    /// What serves reader-writer locks where only a mutex is named.
    pub const DEFAULT_RWLOCK: Self = Self::plain(DEFAULT_RWLOCK);

    /// A lock by itself.
    #[must_use]
    pub const fn plain(base: LockId) -> Self {
        Self { base, knobs: Knobs::NONE, wrapper: None }
    }

    /// A lock in a wrapper, if the wrapper takes it.
    #[must_use]
    pub fn wrapped(id: WrapperId, base: LockId) -> Option<Self> {
        let wrapper = Some(Wrapper { id, knobs: Knobs::NONE });
        id.takes(base.info()).then_some(Self { wrapper, ..Self::plain(base) })
    }

    /// Parses the spec of a mutex.
    ///
    /// # Errors
    ///
    /// [`SpecError`], which says what is wrong, where, and what to write instead.
    pub fn mutex(text: &str) -> Result<Self, SpecError<'_>> {
        Parser::new(text).whole(Wanted::Mutex)
    }

    /// Parses the spec of a reader-writer lock.
    ///
    /// # Errors
    ///
    /// As [`Spec::mutex`].
    pub fn rwlock(text: &str) -> Result<Self, SpecError<'_>> {
        Parser::new(text).whole(Wanted::RwLock)
    }

    /// What is known of the lock, without its wrapper.
    #[must_use]
    pub fn descriptor(&self) -> &'static Descriptor {
        self.base.info().descriptor
    }

    /// Whether readers may be visible in the table of [`bravo`](crate::rw::bravo).
    #[must_use]
    pub fn has_visible_readers(&self) -> bool {
        self.base == LockId::AutoRw || self.wrapper.is_some_and(|wrapper| wrapper.id == WrapperId::Bravo)
    }

    /// Whether the frequent side of a store-load race ([`Cells::light_barrier`](lockwork_platform::Cells::light_barrier)) is in
    /// acquisitions that meet nobody: they fence until the rare side, or whoever makes the lock, has registered the kernel's barrier.
    #[must_use]
    pub fn has_light_side(&self) -> bool {
        self.has_visible_readers() || self.wrapper.is_some_and(|wrapper| wrapper.id == WrapperId::Biased)
    }

    /// Registers the kernel's barrier, if acquisitions of such a lock fence without it. Before one is made.
    pub fn prepare(&self) {
        if self.has_light_side() {
            lockwork_platform::barrier::prepare_once();
        }
    }

    /// What is known of it as a reader-writer lock, if it is one, without its wrapper.
    #[must_use]
    pub fn rw(&self) -> Option<RwFacts> {
        self.descriptor().rw()
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(wrapper) = &self.wrapper else { return self.fmt_base(f) };
        let descriptor = wrapper.id.descriptor();
        write!(f, "{}(", descriptor.name)?;
        self.fmt_base(f)?;
        for (name, value) in given(descriptor.knobs, &wrapper.knobs) {
            write!(f, ", {name}={value}")?;
        }
        f.write_str(")")
    }
}

impl Spec {
    /// The lock without its wrapper.
    fn fmt_base(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lock = self.base.info();
        f.write_str(lock.name)?;
        let mut before = "(";
        for (name, value) in given(lock.descriptor.knobs, &self.knobs) {
            write!(f, "{before}{name}={value}")?;
            before = ", ";
        }
        if before == "(" { Ok(()) } else { f.write_str(")") }
    }
}

/// The knobs that were given, with their values.
pub(super) fn given(table: &'static [Knob], knobs: &Knobs) -> impl Iterator<Item = (&'static str, Value)> {
    table.iter().filter_map(|knob| Some((knob.name, knob.given(knobs)?)))
}
