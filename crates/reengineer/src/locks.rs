//! Which mutexes and conditions of a program are one, and which of them can be delegates.
//!
//! A declaration (a variable, a field, a parameter, a function's result, a typedef) whose type is a mutex, or a pointer to or an
//! array of mutexes, is a *thing*. Things between which a mutex's address flows are one *class*: all of them change their type, or
//! none does. A class can change if every use of it is known. This is Steensgaard's unification (POPL 1996), over mutexes only.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::vocabulary::Action;

/// A byte of a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub file: PathBuf,
    pub offset: usize,
}

/// A declaration by its name in the program, as [`crate::clang`] makes them.
pub(crate) type Thing = String;

/// What an expression of a mutex's type stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// What this declaration has.
    Of(Thing),
    /// Null, or memory that was just allocated.
    Fresh,
    /// Something that is not understood.
    Unknown,
}

/// What a call of POSIX's does to a mutex or a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    Init,
    Destroy,
    Lock,
    Unlock,
    /// Takes it if it is free.
    Try,
    /// A condition's wait.
    Wait,
    /// A condition's wait for a time.
    TimedWait,
    Signal,
    Broadcast,
    /// Delegates have no counterpart.
    Foreign,
}

/// A call that does something to a mutex or a condition.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub name: String,
    pub does: Use,
    pub of: Origin,
    /// The condition of a wait.
    pub condition: Option<Origin>,
    /// Where it is, of a macro the expansion.
    pub at: Place,
    /// Where its function is named, if that is in a file's text.
    pub token: Option<Place>,
    /// A function of the program's own does it, which keeps its name.
    pub is_wrapper: bool,
    /// Text to put elsewhere in it for a delegate: an argument that falls away.
    pub argument: Option<(Place, usize, &'static str)>,
}

impl Call {
    /// Whether its function is named in a text below a directory, so that another name can be written there.
    pub(crate) fn is_written_below(&self, root: &Path) -> bool {
        self.token.as_ref().is_some_and(|token| token.file.starts_with(root))
    }
}

/// What one file says of the program's mutexes.
#[derive(Clone, Debug)]
pub(crate) enum Fact {
    /// The type of a thing is named there.
    Type {
        thing: Thing,
        at: Place,
    },
    /// A thing is initialised there.
    Initialiser {
        thing: Thing,
        at: Place,
    },
    /// An address flows from the one to the other.
    Same(Thing, Origin),
    /// A use that is not understood.
    Escapes {
        origin: Origin,
        at: Place,
        how: &'static str,
    },
    Call(Call),
    /// A function has a body.
    Defined(String),
    /// A function is passed mutexes by this parameter.
    Parameter {
        function: String,
        thing: Thing,
        at: Place,
    },
}

/// What becomes of the program's mutexes and conditions.
#[derive(Debug, Default)]
pub(crate) struct Locks {
    numbers: BTreeMap<Thing, usize>,
    /// The number of a thing that is of the same class; itself for one of them.
    same: Vec<usize>,
    /// Why a class stays as it is, by its root.
    kept: BTreeMap<usize, String>,
    calls: Vec<Call>,
    types: Vec<(Thing, Place)>,
    initialisers: Vec<(Thing, Place)>,
}

impl Locks {
    /// The classes by what all files say. Only what is below `root` can be written.
    pub(crate) fn of(facts: &[Fact], root: &Path, describe: &dyn Fn(&Place) -> String) -> Self {
        let mut locks = Self::default();
        let defined: BTreeSet<&String> = facts
            .iter()
            .filter_map(|fact| match fact {
                Fact::Defined(function) => Some(function),
                _ => None,
            })
            .collect();
        // Unknown origins of all kinds keep a class as it is; which, is known when all are joined.
        let mut reasons: Vec<(Thing, String)> = Vec::new();
        for fact in facts {
            match fact {
                Fact::Type { thing, at } | Fact::Initialiser { thing, at } => {
                    // Declarations that share the text of their type change together.
                    locks.join(thing, &format!("at {}:{}", at.file.display(), at.offset));
                    if !at.file.starts_with(root) {
                        reasons.push((thing.clone(), format!("{} is not the program's", at.file.display())));
                    }
                    if matches!(fact, Fact::Type { .. }) {
                        locks.types.push((thing.clone(), at.clone()));
                    } else {
                        locks.initialisers.push((thing.clone(), at.clone()));
                    }
                }
                Fact::Same(thing, Origin::Of(other)) => locks.join(thing, other),
                Fact::Same(thing, Origin::Unknown) => {
                    reasons.push((thing.clone(), "its address comes from what is not understood".to_owned()));
                }
                Fact::Same(..) | Fact::Escapes { origin: Origin::Fresh | Origin::Unknown, .. } => {}
                Fact::Escapes { origin: Origin::Of(thing), at, how } => {
                    reasons.push((thing.clone(), format!("{how} ({})", describe(at))));
                }
                Fact::Call(call) => locks.calls.push(call.clone()),
                Fact::Defined(_) => {}
                Fact::Parameter { function, thing, at } => {
                    if !defined.contains(function) {
                        let reason = format!("it goes to a function of another program ({})", describe(at));
                        reasons.push((thing.clone(), reason));
                    }
                }
            }
        }
        for call in &locks.calls.clone() {
            let Origin::Of(thing) = &call.of else { continue };
            locks.number(thing);
            let is_written = call.does != Use::Wait && !call.is_wrapper;
            let nowhere = is_written && !call.is_written_below(root);
            if call.does == Use::Foreign {
                let reason = format!("delegates have no {} ({})", call.name, describe(&call.at));
                reasons.push((thing.clone(), reason));
            } else if nowhere {
                let reason = format!("{} comes from a macro of a macro ({})", call.name, describe(&call.at));
                reasons.push((thing.clone(), reason));
            }
        }
        for (thing, reason) in reasons {
            locks.keep(&thing, reason);
        }
        locks
    }

    fn number(&mut self, thing: &str) -> usize {
        if let Some(number) = self.numbers.get(thing) {
            return *number;
        }
        let number = self.same.len();
        self.same.push(number);
        self.numbers.insert(thing.to_owned(), number);
        number
    }

    fn root(&self, mut number: usize) -> usize {
        while self.same[number] != number {
            number = self.same[number];
        }
        number
    }

    fn join(&mut self, one: &str, other: &str) {
        let one = self.number(one);
        let other = self.number(other);
        let (one, other) = (self.root(one), self.root(other));
        self.same[one.max(other)] = one.min(other);
    }

    /// The class of a thing.
    pub(crate) fn class(&self, thing: &str) -> Option<usize> {
        self.numbers.get(thing).map(|number| self.root(*number))
    }

    fn class_of(&self, origin: &Origin) -> Option<usize> {
        match origin {
            Origin::Of(thing) => self.class(thing),
            Origin::Fresh | Origin::Unknown => None,
        }
    }

    fn keep(&mut self, thing: &str, reason: String) {
        let class = self.number(thing);
        self.keep_class(self.root(class), reason);
    }

    /// Notes why a class stays as it is. The first reason counts.
    pub(crate) fn keep_class(&mut self, class: usize, reason: String) {
        self.kept.entry(class).or_insert(reason);
    }

    /// Why a class stays as it is.
    pub(crate) fn kept(&self, class: usize) -> Option<&str> {
        self.kept.get(&class).map(String::as_str)
    }

    /// All classes.
    pub(crate) fn classes(&self) -> BTreeSet<usize> {
        self.numbers.values().map(|number| self.root(*number)).collect()
    }

    /// Lets every class change, whatever is not understood of it: for a test that must notice.
    pub(crate) fn keep_none(&mut self) {
        self.kept.clear();
    }

    /// The class of the lock that the call at a place takes, releases or waits with.
    pub(crate) fn at(&self, file: &Path, offset: usize, action: Action) -> Option<usize> {
        let wanted = |does: Use| match action {
            Action::Lock => does == Use::Lock,
            Action::Unlock => does == Use::Unlock,
            Action::Wait => matches!(does, Use::Wait | Use::TimedWait),
            Action::Try => matches!(does, Use::Try | Use::Foreign),
        };
        let call = self
            .calls
            .iter()
            .find(|call| call.at.offset == offset && call.at.file == file && wanted(call.does))?;
        self.class_of(&call.of)
    }

    /// The calls that lock, release or wait for mutexes of a class.
    pub(crate) fn calls_of(&self, class: usize) -> impl Iterator<Item = &Call> {
        let holds = |does| matches!(does, Use::Lock | Use::Unlock | Use::Try | Use::Wait | Use::TimedWait);
        self.calls.iter().filter(move |call| holds(call.does) && self.class_of(&call.of) == Some(class))
    }

    /// A condition goes with the mutexes that it is waited for with: all are delegates' or none is.
    pub(crate) fn settle_conditions(&mut self) {
        loop {
            let before = self.kept.len();
            for call in self.calls.clone() {
                let Some(condition) = &call.condition else { continue };
                let mutex = self.class_of(&call.of);
                let condition = self.class_of(condition);
                let (Some(mutex), Some(condition)) = (mutex, condition) else {
                    let reason = "it is waited for with what is not understood";
                    mutex.into_iter().chain(condition).for_each(|it| self.keep_class(it, reason.to_owned()));
                    continue;
                };
                if let Some(reason) = self.kept(mutex) {
                    let reason = format!("its mutex stays one: {reason}");
                    self.keep_class(condition, reason);
                }
                if let Some(reason) = self.kept(condition) {
                    let reason = if reason.starts_with("its mutex stays one") {
                        "its condition is another mutex's, too, which stays one".to_owned()
                    } else {
                        format!("its condition cannot be a delegate's: {reason}")
                    };
                    self.keep_class(mutex, reason);
                }
            }
            if self.kept.len() == before {
                return;
            }
        }
    }

    /// What changes in the text where. Waits at `covered` are parts of closures.
    pub(crate) fn renamed(&self, covered: &BTreeSet<(&Path, usize)>) -> BTreeMap<Place, Renaming> {
        let becomes_delegate =
            |origin: &Origin| self.class_of(origin).is_some_and(|class| self.kept(class).is_none());
        let mut found: BTreeMap<Place, Renaming> = BTreeMap::new();
        for (thing, at) in self.types.iter().chain(&self.initialisers) {
            if becomes_delegate(&Origin::Of(thing.clone())) {
                found.insert(at.clone(), Renaming::Delegate);
            }
        }
        let mut others: BTreeSet<&Place> = BTreeSet::new();
        let is_closure = |call: &Call| {
            call.does == Use::Wait && covered.contains(&(call.at.file.as_path(), call.at.offset))
        };
        for call in self.calls.iter().filter(|call| !is_closure(call) && !call.is_wrapper) {
            let Some(token) = &call.token else { continue };
            if !becomes_delegate(&call.of) {
                others.insert(token);
                continue;
            }
            found.insert(token.clone(), Renaming::Delegate);
            if let Some((place, length, text)) = &call.argument {
                found.insert(place.clone(), Renaming::Argument(*length, text));
            }
        }
        // The body of a macro serves mutexes of both sorts.
        for token in others {
            if let Some(renaming) = found.get_mut(token) {
                *renaming = Renaming::Either;
            }
        }
        found
    }
}

/// What becomes of a place in the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Renaming {
    /// The name there becomes that of delegates.
    Delegate,
    /// The name there becomes one for mutexes and delegates.
    Either,
    /// So many bytes become this text.
    Argument(usize, &'static str),
}
