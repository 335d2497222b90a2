//! Critical sections: where one begins and ends, and whether a closure can take its place.
//!
//! A section begins at a statement that does nothing but take a lock. Its *region* is every step before which that lock may be held.
//! Its *slice* is the statement and its following siblings up to the last one with a step of the region: the text that becomes the
//! closure. Each release in the slice is an *exit*; the rest of the exit's block is its *tail*, which runs without the lock and leaves
//! the slice, so that it can run at the call site. At a *pause* the section gives its lock up and goes on later.
//!
//! [`find`] looks for the statements and plans the closure of each: [`extent`] knows the region, [`cut`] the places where the text is
//! cut (by [`exits`] and [`pauses`]) and whether that text can be moved, [`body`] what runs with the lock, and [`captures`] which
//! variables it shares with the function around it.

use crate::flow::Flow;
use crate::rule::Rule;
use crate::tree::Function;
use crate::vocabulary::Vocabulary;

mod address;
mod asks;
mod body;
mod breaks;
mod captures;
mod cut;
mod exits;
mod extent;
mod find;
mod guard;
mod hoist;
mod names;
mod pauses;
mod plan;
mod refusal;
mod set_first;
mod summary;
mod text;
mod view;

pub(crate) use plan::{Assigned, Capture, Exit, Hoisted, Meanwhile, Plan};
pub use refusal::Refusal;
pub(crate) use summary::{GivenUp, Summary};

use find::Finder;
use view::View;

/// A place where a lock is taken.
#[derive(Clone, Debug)]
pub struct Section {
    /// The function that it is in.
    pub function: String,
    /// The offset of the lock statement in the file, in bytes.
    pub offset: usize,
    /// The lock, as an expression.
    pub lock: String,
    /// How to convert it, or why not.
    pub(crate) plan: Result<Plan, Refusal>,
    /// What changes its meaning in another thread.
    pub warnings: Vec<String>,
    /// The offset of the call that takes the lock, in bytes; of a macro, the expansion's.
    pub(crate) call: usize,
    /// It is where an earlier section takes its lock again, and part of that one.
    pub(crate) continues: bool,
    /// The function that takes the lock.
    pub(crate) taken_by: String,
    /// The call that runs it, if its lock is no mutex of POSIX's.
    pub(crate) by: Option<String>,
}

impl Section {
    /// Whether it is where an earlier section takes its lock again, and part of that one.
    #[must_use]
    pub fn goes_on(&self) -> bool {
        self.continues
    }

    /// Whether a delegate is taken, and no mutex, as far as the function's name tells.
    pub(crate) fn is_of_delegate(&self) -> bool {
        !self.taken_by.starts_with("pthread_")
    }

    /// The section stays as it is, for this reason.
    pub(crate) fn refuse(&mut self, refusal: Refusal) {
        self.plan = Err(refusal);
        self.warnings.clear();
    }
}

/// By which rules sections are refused.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rules {
    /// The rule that is switched off, to see that a test notices.
    pub without: Option<Rule>,
    /// Sections may ask for the thread that they run in.
    pub any_thread: bool,
}

impl Rules {
    /// Whether a rule is to be kept: all are, but one that a test switches off.
    pub(crate) fn applies(self, rule: Rule) -> bool {
        self.without != Some(rule)
    }
}

/// What a function does with locks.
#[derive(Debug)]
pub(crate) struct Analysis {
    /// Its sections, in the order of the text.
    pub sections: Vec<Section>,
    /// What its callers have to know of it.
    pub summary: Summary,
}

/// The sections of a function whose file has the text `text`, and what it does with the locks of its callers.
#[must_use]
pub(crate) fn analysis(function: &Function, text: &str, vocabulary: &Vocabulary, rules: Rules) -> Analysis {
    let view = View::of(function, text, vocabulary, rules);
    let flow = Flow::of(function, vocabulary, &Default::default());
    let finder = Finder { view: &view, flow: &flow, breaks: &[] };
    Analysis { sections: finder.sections(), summary: Summary::of(&view, &flow) }
}

/// What a function of a header does with the locks of its callers. It has no sections of its own.
pub(crate) fn summary(function: &Function, vocabulary: &Vocabulary, rules: Rules) -> Summary {
    let flow = Flow::of(function, vocabulary, &Default::default());
    Summary::of(&View::of(function, "", vocabulary, rules), &flow)
}
