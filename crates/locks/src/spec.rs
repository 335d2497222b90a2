//! Lock specs: the one grammar for naming a lock, used by every command, the environment variable
//! and the policy file.
//!
//! ```text
//! spec := lock | ("gcr(" | "gcr-numa(") lock { "," knob "=" number } ")" | "biased(" lock ")"
//! lock := "cohort(" name "," name ")" | name [ "(" knob "=" number { "," knob "=" number } ")" ]
//!
//! choice := "passthrough" | spec [ "+" rw ] | [ ( "pthread" | "passthrough" ) "+" ] rw
//! rw     := name | "bravo(" name ")"        (names of reader-writer locks)
//! ```
//!
//! A choice says what to put under a program: mutexes, and reader-writer locks. A spec alone leaves the latter to the
//! default one of ours, a reader-writer lock alone leaves mutexes to glibc.
//!
//! White space is free between words; names may use underscores for hyphens; numbers may be hexadecimal (`0x4000`).

mod choice;
mod error;

use core::fmt;

pub use choice::Choice;
pub use error::{SpecError, nearest};

use crate::biased;
use crate::catalogue::{self, Algorithm, LOCKS, LockId, LockInfo, WRAPPERS};
use crate::hierarchical::combinations::COMBINATIONS;
use crate::knobs::{BaseKnobs, Knob};
use crate::restrict::gcr::{self, KNOBS, Knobs, NUMA_KNOBS};
use crate::rw::catalogue as rw;
use error::Problem;

/// A lock that can be built: a base lock, wrapped or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockSpec {
    /// The lock itself.
    pub base: LockId,
    /// What is set of the lock itself.
    pub knobs: BaseKnobs,
    /// What is around it.
    pub wrapper: Option<Wrapper>,
}

/// A wrapper of a base lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrapper {
    /// Concurrency restriction.
    Gcr(Knobs),
    /// Concurrency restriction by NUMA node.
    GcrNuma(Knobs),
    /// A bias for the first thread.
    Biased,
}

impl Wrapper {
    /// What is known of it.
    #[must_use]
    pub fn algorithm(&self) -> &'static Algorithm {
        match self {
            Self::Gcr(_) => &gcr::ALGORITHM,
            Self::GcrNuma(_) => &gcr::NUMA,
            Self::Biased => &biased::ALGORITHM,
        }
    }
}

impl LockSpec {
    /// Parses a spec.
    ///
    /// # Errors
    ///
    /// [`SpecError`], which says what is wrong, where, and what to write instead.
    pub fn parse(text: &str) -> Result<Self, SpecError<'_>> {
        Parser { text, position: 0 }.whole()
    }
}

impl fmt::Display for LockSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(wrapper) = &self.wrapper else { return self.fmt_base(f) };
        write!(f, "{}(", wrapper.algorithm().name)?;
        self.fmt_base(f)?;
        if let Wrapper::Gcr(knobs) | Wrapper::GcrNuma(knobs) = wrapper {
            for (name, value) in given(NUMA_KNOBS, knobs) {
                write!(f, ", {name}={value}")?;
            }
        }
        f.write_str(")")
    }
}

impl LockSpec {
    /// The lock without its wrapper.
    fn fmt_base(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lock = self.base.info();
        f.write_str(lock.name)?;
        let mut before = "(";
        for (name, value) in given(lock.algorithm.knobs(), &self.knobs) {
            write!(f, "{before}{name}={value}")?;
            before = ", ";
        }
        if before == "(" { Ok(()) } else { f.write_str(")") }
    }
}

/// The knobs that were given, with their values.
fn given<K>(table: &'static [Knob<K>], knobs: &K) -> impl Iterator<Item = (&'static str, u32)> {
    table.iter().filter_map(|knob| Some((knob.name, (knob.get)(knobs)?)))
}

/// Whose knobs are read.
struct Owner<K: 'static> {
    name: &'static str,
    /// What is expected where a knob must be.
    example: &'static str,
    table: &'static [Knob<K>],
}

const GCR: Owner<Knobs> = Owner { name: "gcr", example: "a knob such as `active=4`", table: KNOBS };
const GCR_NUMA: Owner<Knobs> = Owner { name: "gcr-numa", table: NUMA_KNOBS, ..GCR };

struct Parser<'a> {
    text: &'a str,
    position: usize,
}

impl<'a> Parser<'a> {
    fn whole(mut self) -> Result<LockSpec, SpecError<'a>> {
        let start = self.skip_space();
        let name = self.word();
        if name.is_empty() {
            let problem = match self.rest() {
                "" => Problem::Empty,
                rest => Problem::Expected("the name of a lock", first_char(rest)),
            };
            return Err(self.error(start, problem));
        }
        let spec = if let Some(wrapper) = wrapper_named(name) {
            self.wrapped(start, wrapper.name)?
        } else {
            let (base, knobs) = self.base(start, name)?;
            LockSpec { base, knobs, wrapper: None }
        };
        let end = self.skip_space();
        match self.rest() {
            "" => Ok(spec),
            rest => Err(self.error(end, Problem::Expected("the end of the spec", first_char(rest)))),
        }
    }

    fn wrapped(&mut self, start: usize, wrapper: &'static str) -> Result<LockSpec, SpecError<'a>> {
        if self.peek() != Some('(') {
            return Err(self.error(start, Problem::WrapperAlone(wrapper)));
        }
        self.expect('(', "`(`")?;
        let at = self.skip_space();
        let name = self.word();
        if wrapper_named(name).is_some() || name == "passthrough" {
            return Err(self.error(at, Problem::Nested(name)));
        }
        if name.is_empty() {
            return Err(self.error(at, Problem::WrapperAlone(wrapper)));
        }
        let (base, base_knobs) = self.base(at, name)?;
        if wrapper == biased::ALGORITHM.name {
            if base.info().algorithm.bytes > biased::LARGEST_INNER {
                return Err(self.error(at, Problem::TooLarge(name)));
            }
            self.expect(')', "`)`")?;
            return Ok(LockSpec { base, knobs: base_knobs, wrapper: Some(Wrapper::Biased) });
        }
        let by_node = wrapper == gcr::NUMA.name;
        let mut knobs = Knobs::default();
        if self.peek() == Some(',') {
            self.expect(',', "`,`")?;
            self.knobs(if by_node { &GCR_NUMA } else { &GCR }, &mut knobs)?;
        } else {
            self.expect(')', "`,` or `)`")?;
        }
        if let (Some(join), Some(active)) = (knobs.join, knobs.active)
            && join > active
        {
            return Err(self.error(start, Problem::JoinAboveActive { join, active }));
        }
        let wrapper = if by_node { Wrapper::GcrNuma(knobs) } else { Wrapper::Gcr(knobs) };
        Ok(LockSpec { base, knobs: base_knobs, wrapper: Some(wrapper) })
    }

    /// Knobs up to the closing parenthesis, separated by commas.
    fn knobs<K>(&mut self, owner: &Owner<K>, knobs: &mut K) -> Result<(), SpecError<'a>> {
        let mut given = 0;
        loop {
            self.knob(owner, knobs, &mut given)?;
            if self.peek() != Some(',') {
                return self.expect(')', "`,` or `)`");
            }
            self.expect(',', "`,`")?;
        }
    }

    fn knob<K>(&mut self, owner: &Owner<K>, knobs: &mut K, given: &mut u32) -> Result<(), SpecError<'a>> {
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
        let number = match text.strip_prefix("0x") {
            Some(hex) => u32::from_str_radix(hex, 16),
            None => text.parse(),
        };
        let value = number.map_err(|_| self.error(at, Problem::BadNumber(text, knob.name)))?;
        if !(knob.low..=knob.high).contains(&value) {
            return Err(
                self.error(at, Problem::OutOfRange { knob: knob.name, low: knob.low, high: knob.high })
            );
        }
        (knob.set)(knobs, value);
        Ok(())
    }

    /// A lock and its knobs; `name` has been read.
    fn base(&mut self, at: usize, name: &'a str) -> Result<(LockId, BaseKnobs), SpecError<'a>> {
        let found = if name == "cohort" { Some(self.cohort()?) } else { catalogue::lookup(name) };
        let Some(lock) = found else {
            let is_family = LOCKS.iter().any(|lock| lock.algorithm.name == name);
            let problem = if is_family {
                Problem::NeedsPolicy(name)
            } else if rw::lookup(name).is_some() {
                Problem::NoMutex(name)
            } else {
                Problem::UnknownLock(name)
            };
            return Err(self.error(at, problem));
        };
        let mut knobs = BaseKnobs::NONE;
        if self.peek() == Some('(') {
            let table = lock.algorithm.knobs();
            if table.is_empty() {
                return Err(self.error(at, Problem::NotAWrapper(name)));
            }
            self.expect('(', "`(`")?;
            let owner = Owner { name: lock.name, example: "a knob such as `may-pass-local=16`", table };
            self.knobs(&owner, &mut knobs)?;
        }
        Ok((lock.id, knobs))
    }

    /// A combination of a global lock and one for each node, by their names; `cohort` has been read.
    fn cohort(&mut self) -> Result<&'static LockInfo, SpecError<'a>> {
        self.expect('(', "`(`")?;
        let at = self.skip_space();
        let global = self.word();
        self.expect(',', "`,` and the lock of a node")?;
        let at_local = self.skip_space();
        let local = self.word();
        self.expect(')', "`)`")?;
        let is = |word: &str, name: &str| catalogue::lookup(word).is_some_and(|lock| lock.name == name);
        if !COMBINATIONS.iter().any(|(_, name, _)| is(local, name)) {
            return Err(self.error(at_local, Problem::NoDetection(local)));
        }
        let named = COMBINATIONS.iter().find(|(first, second, _)| is(global, first) && is(local, second));
        named
            .and_then(|(_, _, name)| catalogue::lookup(name))
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

fn wrapper_named(name: &str) -> Option<&'static Algorithm> {
    WRAPPERS.iter().find(|wrapper| wrapper.name == name).copied()
}

fn first_char(text: &str) -> &str {
    text.chars().next().map_or("", |c| &text[..c.len_utf8()])
}
