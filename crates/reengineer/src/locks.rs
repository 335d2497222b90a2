//! Which mutexes and conditions of a program are one, and which of them can be delegates.
//!
//! A declaration (a variable, a field, a parameter, a function's result, a typedef) whose type is a mutex, or a pointer to or an
//! array of mutexes, is a *thing*. Things between which a mutex's address flows are one *class*: all of them change their type, or
//! none does. A class can change if every use of it is known. This is Steensgaard's unification (POPL 1996), over mutexes only.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

use crate::classes::Classes;
use crate::rule::Rule;
use crate::source::Writable;
use crate::vocabulary::Action;
use crate::ways::{self, Layout};

/// A byte of a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub file: PathBuf,
    pub offset: usize,
}

impl fmt::Display for Place {
    /// As the name of a thing: what is spelt there.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at {}:{}", self.file.display(), self.offset)
    }
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
    /// A macro's body has it, with an argument that delegates have not: it becomes a call that has it, for both.
    pub is_shared: bool,
    /// Text to put elsewhere in it for a delegate: an argument that falls away.
    pub argument: Option<(Place, usize, &'static str)>,
}

impl Call {
    /// Why another name cannot be written where its function is named; `None` if it can. `at`: what people call its place.
    pub(crate) fn is_fixed(&self, writable: &Writable, at: &str) -> Option<String> {
        match &self.token {
            Some(token) => writable.refuses(&token.file),
            None => Some(format!("{} comes from a macro of a macro ({at})", self.name)),
        }
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
    /// The type of a thing is named there by another name, a typedef's or a macro's that stands for it alone. A delegate's type can
    /// be named in its place.
    Named {
        thing: Thing,
        by: Thing,
        at: Place,
        /// POSIX's name of the type.
        stands_for: &'static str,
        /// Where a macro has it.
        body: Option<Place>,
    },
    /// The type of a thing is a typedef's, or is made of one, in a way that only the typedef can change.
    Through {
        thing: Thing,
        by: Thing,
        at: Place,
    },
    /// A size is asked for there by another name of a mutex's type.
    Sized {
        by: Thing,
        at: Place,
        /// A macro's body or argument has it, so that the same text may be a size elsewhere, too.
        of_macro: bool,
    },
    /// A size is asked for there by POSIX's own name of a type.
    Size(Place),
    /// Memory for a thing is allocated there, and no size is asked for in the call.
    Unsized {
        thing: Thing,
        at: Place,
    },
    /// This thing is a typedef.
    Typedef(Thing),
    /// A thing is initialised there.
    Initialiser {
        thing: Thing,
        at: Place,
    },
    /// An address flows from the one to the other.
    Same(Thing, Origin),
    /// A pointer to a structure goes this way without the structure's name, as by a `void *`: others may be there in its place.
    Veiled {
        structure: Thing,
        way: Thing,
    },
    /// What a structure has, and its name where its definition is not seen.
    Layout {
        structure: Thing,
        unseen: Thing,
        layout: Layout,
    },
    /// A value goes between things that hide what structure it points to. The rule that says so.
    SameWay {
        one: Thing,
        other: Thing,
        by: Rule,
    },
    /// A value goes to or comes from a function by this thing.
    PassedBy {
        function: String,
        way: Thing,
    },
    /// A use that is not understood.
    Escapes {
        origin: Origin,
        at: Place,
        how: &'static str,
    },
    Call(Call),
    /// A thing is initialised there as a mutex that knows the thread which holds it; or by attributes that may say so.
    Owned {
        origin: Origin,
        at: Place,
        by_attributes: bool,
    },
    /// Attributes are told that mutexes know the threads which hold them.
    OwnedKind,
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
    classes: Classes,
    /// Why a class stays as it is, by its root.
    kept: BTreeMap<usize, String>,
    calls: Vec<Call>,
    /// Where the types of things are named, and which type of POSIX's by another name.
    types: Vec<(Thing, Place, Option<&'static str>)>,
    initialisers: Vec<(Thing, Place)>,
    /// Things that know the threads which hold them, and where one is initialised so.
    owned: Vec<(Thing, String)>,
}

/// The names of mutexes' types that change for all that is declared by them or for nothing: something is declared by them, or asks
/// for their size, where no other name can be written.
fn whole(facts: &[Fact]) -> BTreeSet<Thing> {
    let written: BTreeSet<&Place> = facts
        .iter()
        .filter_map(|fact| match fact {
            Fact::Named { at, .. } => Some(at),
            _ => None,
        })
        .collect();
    let mut found: BTreeSet<Thing> = facts
        .iter()
        .filter_map(|fact| match fact {
            Fact::Through { by, .. } => Some(by.clone()),
            Fact::Sized { by, at, of_macro } if *of_macro || !written.contains(at) => Some(by.clone()),
            // The body of a macro that more than the type's name comes from.
            Fact::Type { at, .. } => Some(at.to_string()),
            _ => None,
        })
        .collect();
    // Names of names are as these.
    let names = typedefs(facts);
    loop {
        let before = found.len();
        for fact in facts {
            if let Fact::Named { thing, by, .. } = fact
                && names.contains(thing)
                && (found.contains(thing) || found.contains(by))
            {
                found.extend([thing.clone(), by.clone()]);
            }
        }
        if found.len() == before {
            return found;
        }
    }
}

/// Whether memory whose size is not written where it is allocated may have the size of a type of POSIX's: by its own name a size is
/// asked for elsewhere, or by no name at all, so that it is a plain number.
fn keeps_a_size(facts: &[Fact]) -> bool {
    let allocated: BTreeSet<&Place> = facts
        .iter()
        .filter_map(|fact| match fact {
            Fact::Type { at, .. } => Some(at),
            _ => None,
        })
        .collect();
    let is_elsewhere = |fact: &Fact| matches!(fact, Fact::Size(at) if !allocated.contains(at));
    facts.iter().any(is_elsewhere) || !facts.iter().any(|fact| matches!(fact, Fact::Sized { .. }))
}

/// The functions that have bodies.
fn defined(facts: &[Fact]) -> BTreeSet<&String> {
    facts
        .iter()
        .filter_map(|fact| match fact {
            Fact::Defined(function) => Some(function),
            _ => None,
        })
        .collect()
}

fn typedefs(facts: &[Fact]) -> BTreeSet<&Thing> {
    facts
        .iter()
        .filter_map(|fact| match fact {
            Fact::Typedef(typedef) => Some(typedef),
            _ => None,
        })
        .collect()
}

/// Facts while they are joined into classes.
struct Joining<'a> {
    locks: Locks,
    /// Why things stay. Unknown origins of all kinds keep a class as it is; which, is known when all are joined.
    reasons: Vec<(Thing, String)>,
    writable: &'a Writable,
    /// A place for people.
    describe: &'a dyn Fn(&Place) -> String,
    /// The names of mutexes' types that change for all that is declared by them or for nothing.
    whole: BTreeSet<Thing>,
    typedefs: BTreeSet<&'a Thing>,
    /// The functions that have bodies.
    defined: BTreeSet<&'a String>,
    keeps_a_size: bool,
    has_owned_kinds: bool,
}

impl Joining<'_> {
    fn keep(&mut self, thing: &Thing, reason: String) {
        self.reasons.push((thing.clone(), reason));
    }

    /// A thing whose type is named in a file that cannot be written stays.
    fn keep_unless_writable(&mut self, thing: &Thing, at: &Place) {
        if let Some(reason) = self.writable.refuses(&at.file) {
            self.keep(thing, reason);
        }
    }

    /// A thing whose type is another name of a mutex's stays unless the program declares that name.
    fn keep_unless_typedef(&mut self, thing: &Thing, by: &Thing, at: &Place) {
        if !self.typedefs.contains(by) {
            let reason = format!("its typedef is not the program's ({})", (self.describe)(at));
            self.keep(thing, reason);
        }
    }

    /// Takes in one fact, other than one of structures that may become one another.
    fn note(&mut self, fact: &Fact) {
        let describe = self.describe;
        match fact {
            Fact::Type { .. }
            | Fact::Named { .. }
            | Fact::Initialiser { .. }
            | Fact::Through { .. }
            | Fact::Typedef(_) => self.note_name(fact),
            Fact::Unsized { thing, at } if self.keeps_a_size => {
                let reason = format!(
                    "the size of its memory is not written where that is allocated ({})",
                    describe(at)
                );
                self.keep(thing, reason);
            }
            Fact::Same(thing, Origin::Of(other)) => self.locks.join(thing, other),
            Fact::Same(thing, Origin::Unknown) => {
                self.keep(thing, "its address comes from what is not understood".to_owned());
            }
            Fact::Escapes { origin: Origin::Of(thing), at, how } => {
                self.keep(thing, format!("{how} ({})", describe(at)));
            }
            Fact::Call(call) => self.locks.calls.push(call.clone()),
            Fact::Owned { origin: Origin::Of(thing), at, by_attributes } => {
                if !by_attributes || self.has_owned_kinds {
                    self.locks.owned.push((thing.clone(), describe(at)));
                }
            }
            Fact::Parameter { function, thing, at } if !self.defined.contains(function) => {
                let reason = format!("it goes to a function of another program ({})", describe(at));
                self.keep(thing, reason);
            }
            Fact::Sized { .. } | Fact::Size(_) | Fact::Unsized { .. } => {}
            Fact::Veiled { .. } | Fact::Layout { .. } | Fact::SameWay { .. } | Fact::PassedBy { .. } => {}
            Fact::Same(..) | Fact::Escapes { .. } | Fact::Owned { .. } => {}
            Fact::OwnedKind | Fact::Defined(_) | Fact::Parameter { .. } => {}
        }
    }

    /// Takes in by what name the type of a thing is named, or where a thing is initialised.
    fn note_name(&mut self, fact: &Fact) {
        match fact {
            Fact::Named { thing, by, at, body, .. } if self.whole.contains(by) => {
                self.locks.join(thing, by);
                match body {
                    Some(body) => {
                        self.keep_unless_writable(thing, body);
                        self.locks.types.push((thing.clone(), body.clone(), None));
                    }
                    None => self.keep_unless_typedef(thing, by, at),
                }
            }
            Fact::Type { thing, at } | Fact::Named { thing, at, .. } | Fact::Initialiser { thing, at } => {
                // Declarations that share the text of their type change together.
                self.locks.join(thing, &at.to_string());
                self.keep_unless_writable(thing, at);
                let stands_for = match fact {
                    Fact::Named { stands_for, .. } => Some(*stands_for),
                    _ => None,
                };
                match fact {
                    Fact::Initialiser { .. } => self.locks.initialisers.push((thing.clone(), at.clone())),
                    _ => self.locks.types.push((thing.clone(), at.clone(), stands_for)),
                }
            }
            Fact::Through { thing, by, at } => {
                self.locks.join(thing, by);
                self.keep_unless_typedef(thing, by, at);
            }
            // What is declared by it has been given the delegate's type, or has not.
            Fact::Typedef(typedef) if !self.whole.contains(typedef) => {
                self.keep(typedef, "it is a name of a mutex's type".to_owned());
            }
            _ => {}
        }
    }

    /// Takes in what calls do: delegates have not all that mutexes have, and a call has to be named otherwise for them.
    fn note_calls(&mut self) {
        for call in &self.locks.calls.clone() {
            let Origin::Of(thing) = &call.of else { continue };
            self.locks.classes.number(thing);
            let is_written = call.does != Use::Wait && !call.is_wrapper;
            let place = || (self.describe)(&call.at);
            if call.does == Use::Foreign {
                self.keep(thing, format!("delegates have no {} ({})", call.name, place()));
            } else if is_written && let Some(reason) = call.is_fixed(self.writable, &place()) {
                self.keep(thing, reason);
            }
        }
    }
}

impl Locks {
    /// The classes by what all files say. Only `writable` files can be written. `keeps`: the rules that apply.
    pub(crate) fn of(
        facts: &[Fact],
        writable: &Writable,
        keeps: &dyn Fn(Rule) -> bool,
        describe: &dyn Fn(&Place) -> String,
    ) -> Self {
        let mut joining = Joining {
            locks: Self::default(),
            reasons: Vec::new(),
            writable,
            describe,
            whole: if keeps(Rule::Whole) { whole(facts) } else { BTreeSet::new() },
            typedefs: typedefs(facts),
            defined: defined(facts),
            keeps_a_size: keeps_a_size(facts),
            has_owned_kinds: facts.iter().any(|fact| matches!(fact, Fact::OwnedKind)),
        };
        for fact in facts {
            joining.note(fact);
        }
        if keeps(Rule::Veiled) {
            for (one, other) in ways::alike(facts, keeps) {
                joining.locks.join(&one, &other);
            }
        }
        joining.note_calls();
        let Joining { mut locks, reasons, .. } = joining;
        for (thing, reason) in reasons {
            locks.keep(&thing, reason);
        }
        locks
    }

    fn join(&mut self, one: &str, other: &str) {
        self.classes.join(one, other);
    }

    /// The class of a thing.
    pub(crate) fn class(&self, thing: &str) -> Option<usize> {
        self.classes.class(thing)
    }

    fn class_of(&self, origin: &Origin) -> Option<usize> {
        match origin {
            Origin::Of(thing) => self.class(thing),
            Origin::Fresh | Origin::Unknown => None,
        }
    }

    fn keep(&mut self, thing: &str, reason: String) {
        let class = self.classes.number(thing);
        self.keep_class(class, reason);
    }

    /// Notes why a class stays as it is. The first reason counts.
    pub(crate) fn keep_class(&mut self, class: usize, reason: String) {
        self.kept.entry(class).or_insert(reason);
    }

    /// Why a class stays as it is.
    pub(crate) fn kept(&self, class: usize) -> Option<&str> {
        self.kept.get(&class).map(String::as_str)
    }

    /// The classes of mutexes that know the threads which hold them, and where one is initialised so.
    pub(crate) fn owned(&self) -> BTreeMap<usize, &str> {
        let all = self.owned.iter().rev();
        all.filter_map(|(thing, place)| Some((self.class(thing)?, place.as_str()))).collect()
    }

    /// All classes.
    pub(crate) fn classes(&self) -> BTreeSet<usize> {
        self.classes.all()
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

    /// Where a mutex of a class is initialised by a call, if no call destroys one of the class.
    pub(crate) fn is_never_destroyed(&self, class: usize) -> Option<&Place> {
        let first =
            |does| self.calls.iter().find(|call| call.does == does && self.class_of(&call.of) == Some(class));
        let at = &first(Use::Init)?.at;
        first(Use::Destroy).is_none().then_some(at)
    }

    /// Whether anything is seen to be done to what a class has.
    pub(crate) fn is_used(&self, class: usize) -> bool {
        let is_it = |origin: &Origin| self.class_of(origin) == Some(class);
        self.calls.iter().any(|call| is_it(&call.of) || call.condition.as_ref().is_some_and(is_it))
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

    /// What changes in the text where.
    pub(crate) fn renamed(&self) -> BTreeMap<Place, Renaming> {
        let becomes_delegate =
            |origin: &Origin| self.class_of(origin).is_some_and(|class| self.kept(class).is_none());
        let mut found: BTreeMap<Place, Renaming> = BTreeMap::new();
        let initialisers = self.initialisers.iter().map(|(thing, at)| (thing, at, &None));
        let types = self.types.iter().map(|(thing, at, stands_for)| (thing, at, stands_for));
        for (thing, at, stands_for) in types.chain(initialisers) {
            if becomes_delegate(&Origin::Of(thing.clone())) {
                let renaming = stands_for.map_or(Renaming::Delegate, Renaming::StandsFor);
                found.insert(at.clone(), renaming);
            }
        }
        let mut others: BTreeSet<&Place> = BTreeSet::new();
        for call in self.calls.iter().filter(|call| !call.is_wrapper) {
            let Some(token) = &call.token else { continue };
            if !becomes_delegate(&call.of) {
                others.insert(token);
                continue;
            }
            let renaming = if call.is_shared { Renaming::Either } else { Renaming::Delegate };
            found.insert(token.clone(), renaming);
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
    /// The name there, which stands for this one of POSIX's, becomes that of delegates.
    StandsFor(&'static str),
    /// The name there becomes one for mutexes and delegates.
    Either,
    /// So many bytes become this text.
    Argument(usize, &'static str),
}
