//! How a section becomes a closure: what [`crate::rewrite`] has to know to write it.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::tree::Variable;
use crate::vocabulary::Action;

/// How to convert a section.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// The text that the call takes the place of.
    pub slice: Range<usize>,
    /// The text of the statement that takes the lock.
    pub lock: Range<usize>,
    /// The preprocessor's line that says when the lock is compiled, and each release with it: `#ifndef NAME`.
    pub guard: Option<String>,
    /// The releases, in the order of the text.
    pub exits: Vec<Exit>,
    /// Where the section gives its lock up and goes on later, in the order of the text.
    pub pauses: Vec<Pause>,
    /// The variables that the section shares with the function around it.
    pub captures: Vec<Capture>,
    /// The offsets of all calls that take, release or wait with its lock, in bytes.
    pub covered: BTreeSet<usize>,
    /// The functions by which it takes and releases its lock, and waits.
    pub by: BTreeSet<String>,
    /// The functions that it calls with the lock held.
    pub calls: BTreeSet<String>,
    /// The offsets of macros inside that do something to other locks.
    pub macros: BTreeSet<usize>,
    /// The offsets of calls inside that take other locks.
    pub takes: Vec<(usize, Action)>,
    /// It may set `errno`, which is the caller's.
    pub carries_errno: bool,
}

impl Plan {
    /// Whether what is made by this plan does for the same text what the other's would, where that has not more of it: an `assert`
    /// falls away, and all that it names is still there.
    pub(crate) fn serves(&self, other: &Self) -> bool {
        let parts = |plan: &Self| {
            format!(
                "{:?} {:?} {:?} {:?} {:?} {:?} {:?}",
                plan.slice, plan.lock, plan.guard, plan.exits, plan.pauses, plan.covered, plan.by
            )
        };
        let has = |of: &Capture| {
            self.captures.iter().any(|own| {
                let is_it = own.variable == of.variable
                    && own.type_name == of.type_name
                    && (own.is_register, own.is_const) == (of.is_register, of.is_const)
                    && (of.is_set || !own.is_set);
                let is_named = own.by_value || !of.by_value && of.uses.is_subset(&own.uses);
                is_it && is_named && format!("{:?}", own.hoisted) == format!("{:?}", of.hoisted)
            })
        };
        parts(self) == parts(other)
            && other.captures.iter().all(has)
            && (self.carries_errno || !other.carries_errno)
    }
}

/// A place where a section gives its lock up and goes on later: the closure returns, and is run again from there.
#[derive(Clone, Debug)]
pub(crate) struct Pause {
    /// The text of the release, what is between, and the acquisition; or of the wait.
    pub range: Range<usize>,
    /// What happens meanwhile.
    pub meanwhile: Meanwhile,
}

/// What happens while a section has given its lock up.
#[derive(Clone, Debug)]
pub(crate) enum Meanwhile {
    /// This text runs at the call site.
    Runs(Range<usize>),
    /// The condition with this name is waited for.
    Waits(String),
}

/// A release.
#[derive(Clone, Debug)]
pub(crate) struct Exit {
    /// The text of the statement that releases the lock, and of what follows it in its block.
    pub range: Range<usize>,
    /// The part of that text to run at the call site.
    pub tail: Range<usize>,
    /// Whether nothing of the slice follows it.
    pub is_last: bool,
}

/// A variable that the closure shares with the function around it.
#[derive(Clone, Debug)]
pub(crate) struct Capture {
    /// Which.
    pub variable: Variable,
    /// Its type.
    pub type_name: String,
    /// Where the closure names it, so that the text can be put in place of the name.
    pub uses: BTreeSet<usize>,
    /// A macro names it: the closure has a variable of the same name instead.
    pub by_value: bool,
    /// It has no address.
    pub is_register: bool,
    /// It cannot be written.
    pub is_const: bool,
    /// The section gives it a value before anything else is done with it: the closure only passes one out.
    pub is_set: bool,
    /// It is declared in the slice and used outside of the closure.
    pub hoisted: Option<Hoisted>,
}

/// A declaration of the slice that has to be made before the closure runs.
#[derive(Clone, Debug)]
pub(crate) struct Hoisted {
    /// The text of the declaration.
    pub statement: Range<usize>,
    /// Where its value begins.
    pub value: Option<usize>,
    /// How the value becomes the variable's.
    pub assigned: Assigned,
    /// How the variable is aligned, as its declaration says it.
    pub alignment: Vec<String>,
    /// Its block is within the slice, so that nothing behind the slice uses it.
    pub is_inner: bool,
    /// Another declaration follows it, which C90 does not allow behind a statement.
    pub goes_before_another: bool,
}

/// How a value that a declaration gives becomes that of a variable which is declared elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Assigned {
    /// By an assignment.
    Plainly,
    /// By an assignment of a compound literal: the value is in braces.
    Braced,
    /// Byte by byte, because a member is `const`.
    Copied,
    /// Byte by byte from a compound literal: it is an array, or the value is in braces and a member is `const`.
    CopiedBraced,
    /// The same of a string, which is in no braces.
    CopiedString,
}
