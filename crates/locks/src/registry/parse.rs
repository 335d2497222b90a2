//! The one parser of lock specs, used by every command, the environment variable and the policy file.
//!
//! ```text
//! mutex  := lock | wrapper "(" lock { "," knob "=" number } ")"
//! lock   := "cohort(" name "," name ")" | name [ "(" knob "=" number { "," knob "=" number } ")" ]
//! rwlock := lock | wrapper "(" lock ")"                    (names of reader-writer locks and their wrappers)
//!
//! delegate := "locked(" mutex ")" | name [ "(" knob "=" number { "," knob "=" number } ")" ]      (names of delegates)
//!
//! choice := "passthrough" | mutex [ "+" ( rwlock | glibc ) ] | [ glibc "+" ] rwlock
//! glibc  := "pthread" | "passthrough"
//! ```
//!
//! A choice says what to put under a program: mutexes, and reader-writer locks. A mutex alone leaves the latter to the
//! default one of ours, a reader-writer lock alone leaves mutexes to glibc. `auto` names a lock of each kind, and alone both. Where a delegate
//! is wanted it is `sanl-plus`.
//!
//! `number` is a name where the knob's values have names, as in `sanl(in-place=futex)`.
//!
//! White space is free between words; names may use underscores for hyphens; numbers may be hexadecimal (`0x4000`).

use super::error::{Problem, nearest};
use super::spec::{Spec, Wanted, Wrapper};
use super::{Entry, LOCKS, LockId, SIBLINGS, SpecError, WRAPPERS, WrapperId, lookup};
use crate::describe::Kind;
use crate::hierarchical::combinations::COMBINATIONS;
use crate::knobs::{Knob, Knobs};

/// Whose knobs are read.
struct Owner {
    name: &'static str,
    /// What is expected where a knob must be.
    example: &'static str,
    table: &'static [Knob],
}

/// A text, and how far it has been read.
pub(super) struct Parser<'a> {
    text: &'a str,
    position: usize,
}

impl<'a> Parser<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, position: 0 }
    }

    /// The part of a text behind `position`.
    pub(super) fn behind(text: &'a str, position: usize) -> Self {
        Self { text, position }
    }

    /// A spec up to the end of the text.
    pub(super) fn whole(mut self, wanted: Wanted) -> Result<Spec, SpecError<'a>> {
        let start = self.skip_space();
        let name = self.word();
        let spec = match wrapper_named(name, wanted) {
            Some(wrapper) => self.wrapped(start, wrapper, wanted)?,
            None if name.is_empty() && self.rest().is_empty() && wanted == Wanted::Mutex => {
                return Err(self.error(start, Problem::Empty));
            }
            None => {
                let (base, knobs) = self.base(start, name, wanted)?;
                Spec { base, knobs, wrapper: None }
            }
        };
        let end = self.skip_space();
        match self.rest() {
            "" => Ok(spec),
            rest => Err(self.error(end, Problem::Expected("the end of the spec", first_char(rest)))),
        }
    }

    /// If the text is `locked(…)`, what is between the parentheses, with what stands before it.
    pub(super) fn locked(mut self) -> Result<Option<Self>, SpecError<'a>> {
        if self.word() != "locked" {
            return Ok(None);
        }
        self.expect('(', "`(` and the lock, as in `locked(mcs-stp)`")?;
        let text = self.text.trim_end();
        match text.strip_suffix(')') {
            Some(inner) if inner.len() >= self.position => Ok(Some(Self::behind(inner, self.position))),
            _ => Err(Self::behind(text, text.len()).error(text.len(), Problem::Expected("`)`", ""))),
        }
    }

    /// Whether the next word names a reader-writer lock or a wrapper of such.
    pub(super) fn is_at_rwlock(&mut self) -> bool {
        let name = self.word();
        wrapper_named(name, Wanted::RwLock).is_some() || find(name, Wanted::RwLock).is_some()
    }

    /// What is in a wrapper, whose name has been read.
    fn wrapped(&mut self, start: usize, id: WrapperId, wanted: Wanted) -> Result<Spec, SpecError<'a>> {
        let wrapper = id.descriptor();
        if self.peek() != Some('(') {
            return Err(self.error(start, Problem::WrapperAlone(wrapper)));
        }
        self.expect('(', "`(`")?;
        let at = self.skip_space();
        let name = self.word();
        if wrapper_named(name, wanted).is_some() || name == "passthrough" {
            return Err(self.error(at, Problem::Nested(name)));
        }
        if name.is_empty() {
            return Err(self.error(at, Problem::WrapperAlone(wrapper)));
        }
        let (base, knobs) = self.base(at, name, wanted)?;
        if !id.takes(base.info()) {
            return Err(self.error(at, Problem::TooLarge { name, wrapper }));
        }
        let mut own = Knobs::NONE;
        if wrapper.knobs.is_empty() {
            self.expect(')', "`)`")?;
        } else if self.peek() == Some(',') {
            self.expect(',', "`,`")?;
            let example = "a knob such as `active=4`";
            self.knobs(&Owner { name: wrapper.name, example, table: wrapper.knobs }, &mut own)?;
        } else {
            self.expect(')', "`,` or `)`")?;
        }
        if let (Some(join), Some(active)) = (own.join, own.active)
            && join > active
        {
            return Err(self.error(start, Problem::JoinAboveActive { join, active }));
        }
        Ok(Spec { base, knobs, wrapper: Some(Wrapper { id, knobs: own }) })
    }

    /// Knobs up to the closing parenthesis, separated by commas.
    fn knobs(&mut self, owner: &Owner, knobs: &mut Knobs) -> Result<(), SpecError<'a>> {
        let mut given = 0;
        loop {
            self.knob(owner, knobs, &mut given)?;
            if self.peek() != Some(',') {
                return self.expect(')', "`,` or `)`");
            }
            self.expect(',', "`,`")?;
        }
    }

    fn knob(&mut self, owner: &Owner, knobs: &mut Knobs, given: &mut u32) -> Result<(), SpecError<'a>> {
        let at = self.skip_space();
        let name = self.word();
        if name.is_empty() {
            return Err(self.error(at, Problem::Expected(owner.example, first_char(self.rest()))));
        }
        let Some(index) = owner.table.iter().position(|knob| knob.name == name) else {
            let near = nearest(name, owner.table.iter().map(|knob| knob.name));
            return Err(self.error(at, Problem::UnknownKnob { lock: owner.name, name, near }));
        };
        let knob = &owner.table[index];
        if *given & 1 << index != 0 {
            return Err(self.error(at, Problem::RepeatedKnob(name)));
        }
        *given |= 1 << index;
        self.expect('=', "`=`")?;
        let at = self.skip_space();
        let text = self.word();
        let value =
            if knob.names.is_empty() { self.number(at, text, knob) } else { self.name(at, text, knob) }?;
        (knob.set)(knobs, value);
        Ok(())
    }

    /// The value of a knob whose values are numbers.
    fn number(&self, at: usize, text: &'a str, knob: &'static Knob) -> Result<u32, SpecError<'a>> {
        let number = match text.strip_prefix("0x") {
            Some(hex) => u32::from_str_radix(hex, 16),
            None => text.parse(),
        };
        let value = number.map_err(|_| self.error(at, Problem::BadNumber(text, knob.name)))?;
        if !(knob.low..=knob.high).contains(&value) {
            let problem = Problem::OutOfRange { knob: knob.name, low: knob.low, high: knob.high };
            return Err(self.error(at, problem));
        }
        Ok(value)
    }

    /// The value of a knob whose values are locks.
    fn name(&self, at: usize, text: &'a str, knob: &'static Knob) -> Result<u32, SpecError<'a>> {
        let name = lookup(text).map_or(text, |lock| lock.name);
        let index = knob.names.iter().zip(knob.low..).find(|(known, _)| **known == name);
        index.map(|(_, value)| value).ok_or_else(|| self.error(at, Problem::NoSuchValue { knob, text }))
    }

    /// A lock and its knobs; `name` has been read.
    fn base(&mut self, at: usize, name: &'a str, wanted: Wanted) -> Result<(LockId, Knobs), SpecError<'a>> {
        let is_cohort = name == "cohort" && wanted == Wanted::Mutex;
        let found = if is_cohort {
            Some(self.cohort()?)
        } else {
            find(name, wanted).or_else(|| sibling(name, wanted))
        };
        let Some(lock) = found else {
            return Err(self.error(at, self.no_such_lock(name, wanted)));
        };
        let mut knobs = Knobs::NONE;
        if self.peek() == Some('(') && wanted != Wanted::RwLock {
            let table = lock.descriptor.knobs;
            if table.is_empty() {
                return Err(self.error(at, Problem::NotAWrapper(name)));
            }
            self.expect('(', "`(`")?;
            let owner = Owner { name: lock.name, example: "a knob such as `may-pass-local=16`", table };
            self.knobs(&owner, &mut knobs)?;
        }
        Ok((lock.id, knobs))
    }

    /// What is wrong with a name that names no lock of the kind that is wanted.
    fn no_such_lock(&self, name: &'a str, wanted: Wanted) -> Problem<'a> {
        let other = lookup(name);
        let is_of_another_kind = other.is_some();
        if wanted != Wanted::Delegate
            && (name == "locked" || other.is_some_and(|other| other.descriptor.is_delegate()))
        {
            return Problem::RunsClosures(name);
        }
        match wanted {
            Wanted::Mutex if name.is_empty() => {
                Problem::Expected("the name of a lock", first_char(self.rest()))
            }
            Wanted::Mutex if LOCKS.iter().any(|lock| is_of(lock, wanted) && lock.descriptor.name == name) => {
                Problem::NeedsPolicy(name)
            }
            Wanted::Mutex if is_of_another_kind => Problem::NoMutex(name),
            Wanted::Mutex => Problem::UnknownLock(name),
            Wanted::RwLock if name.is_empty() => {
                Problem::Expected("the name of a reader-writer lock", first_char(self.rest()))
            }
            Wanted::RwLock if is_of_another_kind => Problem::NoRwLock(name),
            Wanted::RwLock => Problem::UnknownRwLock(name),
            Wanted::Delegate if name.is_empty() => {
                Problem::Expected("the name of a delegate", first_char(self.rest()))
            }
            Wanted::Delegate if other.is_some_and(|other| other.descriptor.is_mutex()) => {
                Problem::NoDelegate(name)
            }
            Wanted::Delegate => Problem::UnknownDelegate(name),
        }
    }

    /// A combination of a global lock and one for each node, by their names; `cohort` has been read.
    fn cohort(&mut self) -> Result<&'static Entry, SpecError<'a>> {
        self.expect('(', "`(`")?;
        let at = self.skip_space();
        let global = self.word();
        self.expect(',', "`,` and the lock of a node")?;
        let at_local = self.skip_space();
        let local = self.word();
        self.expect(')', "`)`")?;
        let is = |word: &str, name: &str| lookup(word).is_some_and(|lock| lock.name == name);
        if !COMBINATIONS.iter().any(|(_, name, _)| is(local, name)) {
            return Err(self.error(at_local, Problem::NoDetection(local)));
        }
        let named = COMBINATIONS.iter().find(|(first, second, _)| is(global, first) && is(local, second));
        named
            .and_then(|(_, _, name)| lookup(name))
            .ok_or_else(|| self.error(at, Problem::NoCombination(global, local)))
    }

    fn rest(&self) -> &'a str {
        &self.text[self.position..]
    }

    fn skip_space(&mut self) -> usize {
        let rest = self.rest();
        self.position += rest.len() - rest.trim_start().len();
        self.position
    }

    fn peek(&mut self) -> Option<char> {
        self.skip_space();
        self.rest().chars().next()
    }

    fn word(&mut self) -> &'a str {
        self.skip_space();
        let rest = self.rest();
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        self.position += end;
        &rest[..end]
    }

    fn expect(&mut self, wanted: char, what: &'static str) -> Result<(), SpecError<'a>> {
        if self.peek() == Some(wanted) {
            self.position += wanted.len_utf8();
            return Ok(());
        }
        Err(self.error(self.position, Problem::Expected(what, first_char(self.rest()))))
    }

    fn error(&self, offset: usize, problem: Problem<'a>) -> SpecError<'a> {
        SpecError { offset, problem }
    }
}

fn is_of(lock: &Entry, wanted: Wanted) -> bool {
    match wanted {
        Wanted::Mutex => lock.descriptor.is_mutex(),
        Wanted::RwLock => matches!(lock.descriptor.kind, Kind::RwLock(_)),
        Wanted::Delegate => lock.descriptor.is_delegate(),
    }
}

/// The lock of this name, if it is of that kind.
fn find(name: &str, wanted: Wanted) -> Option<&'static Entry> {
    lookup(name).filter(|lock| is_of(lock, wanted))
}

/// The lock of that kind that goes by the name of a mutex.
fn sibling(name: &str, wanted: Wanted) -> Option<&'static Entry> {
    let mutex = lookup(name)?.id;
    let siblings = SIBLINGS.iter().filter(|(of, _)| *of == mutex).map(|(_, sibling)| sibling.info());
    siblings.into_iter().find(|lock| is_of(lock, wanted))
}

/// The wrapper of this name, if it is one of locks of that kind.
fn wrapper_named(name: &str, wanted: Wanted) -> Option<WrapperId> {
    let is_wanted = |id: &WrapperId| match wanted {
        Wanted::Mutex => id.descriptor().is_mutex(),
        Wanted::RwLock => !id.descriptor().is_mutex(),
        Wanted::Delegate => false,
    };
    WRAPPERS.iter().find(|(_, wrapper)| wrapper.name == name).map(|(id, _)| *id).filter(is_wanted)
}

fn first_char(text: &str) -> &str {
    text.chars().next().map_or("", |c| &text[..c.len_utf8()])
}
