//! Critical sections: where one begins and ends, and whether a closure can take its place.
//!
//! A section begins at a statement that does nothing but take a lock. Its *region* is every step before which that lock may be held.
//! Its *slice* is the statement and its following siblings up to the last one with a step of the region: the text that becomes the
//! closure. Each release in the slice is an *exit*; the rest of the exit's block is its *tail*, which runs without the lock and leaves
//! the slice, so that it can run at the call site.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt;
use std::ops::Range;

use crate::flow::{Effect, Flow, Id, Step, id, without_void};
use crate::rule::Rule;
use crate::tree::{Function, Gives, Kind, Node, Shape, Unary, Variable, is_assignment, value_of};
use crate::vocabulary::{
    Action, Vocabulary, gives_the_threads_own, is_bound_to_its_caller, leaves_errno, means_the_thread,
    runs_elsewhere, waits_without_end,
};

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
}

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

/// Why a section stays as it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Refusal {
    /// The function may return with the lock held, or the section leaves its block while it is.
    Leaves,
    /// It is taken again while it may be held.
    TakenAgain,
    /// Some of it runs with and without the lock.
    Mixed,
    /// A jump leads into it.
    EnteredElsewhere,
    /// Another lock is taken inside and kept, or one that was taken before is released inside.
    Interleaved,
    /// It waits for a condition in a way that a closure cannot.
    Waits,
    /// It waits for a condition whose name may mean another one before the section.
    NamesCondition,
    /// It gives its lock up in several ways, one of them a wait that is in no loop.
    WaitsOnce,
    /// It waits for a condition, and the program cancels threads.
    Cancels,
    /// Its file has too many different bytes that are no UTF-8.
    Illegible,
    /// The compiler finds an error in the function, or outside of all of them.
    HasErrors,
    /// The mutex itself cannot be a delegate.
    StaysMutex(String),
    /// The lock's result is used, or the call is no statement of its own.
    InsideExpression,
    /// The lock is named by an expression that may have an effect, or that is not understood.
    NamesLock,
    /// The statement that takes it is not in a block.
    NoBlock,
    /// What follows a release in its block goes back into the section.
    TailReturns,
    /// A variable in the lock's name may change inside.
    LockChanges(String),
    /// It calls something that means the calling frame, thread or process.
    BoundToCaller(String),
    /// It asks for the thread that it runs in, or names what each thread has its own of.
    MeansThread(String),
    /// It calls a function that asks for what each thread has of its own, or calls one that does.
    CalleeMeansThread {
        /// What the section calls.
        callee: String,
        /// What is asked for.
        asked: String,
    },
    /// It calls a function that releases its lock, or waits with it.
    CalleeReleases(String),
    /// It takes a mutex that knows the thread which holds it, or calls a function that does.
    Owned {
        /// What the section calls.
        callee: Option<String>,
        /// Where such a mutex is initialised.
        place: String,
    },
    /// It calls a function that takes another lock and keeps it, or releases one that was taken before.
    CalleeKeeps(String),
    /// It calls a function that may never come back, but go on further up, or end its thread.
    CalleeLeaves {
        /// What the section calls.
        callee: String,
        /// By what it does so.
        by: String,
    },
    /// A macro inside takes or releases another lock, and stays one.
    KeepsMacro,
    /// Assembly, a computed goto, or jumps inside a statement expression.
    Opaque,
    /// The lock and its release are in one expansion of a macro.
    OneMacro,
    /// The macro of this name, which takes or releases the lock or waits, does more than that.
    MacroDoesMore(String),
    /// The function of this name, which is registered as one that takes or releases the lock, does more than that.
    WrapperDoesMore(String),
    /// The text at a place in the file is not what the compiler sees there.
    NotAsWritten,
    /// It is in an argument of a macro, which the closure's commas would divide.
    MacroArgument,
    /// The function is in a macro, or begins in one that has more than what stands before its `{`.
    FunctionInMacro,
    /// A macro's body names a local variable that cannot be copied.
    MacroNames(String),
    /// A macro makes text or another name of a variable's name, and the variable cannot be copied.
    MacroSpells(String),
    /// Another command that compiles the file makes another section of it.
    OtherCommand,
    /// It calls this function, in which a thread may be cancelled, and the program cancels threads.
    MayBeCancelled(String),
    /// The same text means this variable and another one.
    MeansTwo(String),
    /// A variable's type has no name at the top of the file.
    UnnamedType(String),
    /// A type, a constant, or a function or a variable of the program that the function declares around it is named in it, or the other
    /// way round.
    InnerName(String),
    /// An array of variable size comes from around it.
    VariableArray(String),
    /// A variable that is declared inside is used outside, and cannot be declared before.
    DeclaredInside(String),
    /// The address of a variable that is declared inside is kept in another one.
    Outlives(String),
    /// A variable has an attribute, and would have to be declared elsewhere.
    Attributes(String),
    /// A variable's attribute calls a function at the end of a scope that the section ends in.
    Cleanup(String),
    /// The text has `#if`s that begin or end in it, or a `#define` that it may need is in the function before it.
    Preprocessor,
    /// Another configuration has a `return` in it.
    ReturnsElsewhere,
    /// Another configuration has a call of POSIX's for a mutex or a condition in it.
    LocksElsewhere,
    /// There are too many combinations of locks that may be held.
    Exploded,
    /// The user wants it so.
    Excepted,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Leaves => f.write_str("leaves its block, or the function, with the lock held"),
            Self::Illegible => f.write_str("its file is no UTF-8, and has many different bytes that are none (convert it by iconv)"),
            Self::TakenAgain => f.write_str("takes a lock that may be held already"),
            Self::Mixed => f.write_str("some of it is reached with and without the lock"),
            Self::EnteredElsewhere => f.write_str("a jump leads into it"),
            Self::Interleaved => {
                f.write_str("another lock is taken inside and released outside, or the other way round")
            }
            Self::Waits => f.write_str(
                "waits for a condition for a time, with another lock held, or for one that it names anew",
            ),
            Self::NamesCondition => f.write_str(
                "waits for a condition that is not the same before the section, where it is named first: its name reads memory (put its \
                 address in a local variable before the section)",
            ),
            Self::WaitsOnce => f.write_str(
                "gives its lock up in several ways, one of them a wait that is in no loop: it would return at once (ask in a loop for what \
                 is waited for)",
            ),
            Self::Cancels => f.write_str(
                "waits for a condition, and the program cancels threads by pthread_cancel, which a delegate's wait does not hear of",
            ),
            Self::HasErrors => f.write_str(
                "the compiler finds an error in its function, in a header or outside of all functions (give it the text and the arguments \
                 that the build has)",
            ),
            Self::StaysMutex(reason) => write!(f, "the mutex stays one: {reason}"),
            Self::InsideExpression => f.write_str("a lock call is part of an expression"),
            Self::NamesLock => f.write_str(
                "the lock's name has in it a call that may do more than compute, or something else that may not be the same at the \
                 release (put its address in a local variable before the section: `pthread_mutex_t *m = …`)",
            ),
            Self::NoBlock => f.write_str("the lock statement is not a statement of a block"),
            Self::TailReturns => {
                f.write_str(
                    "what follows the unlock in its block goes back into the section (end it by a `return` or `goto` of its own, before \
                     the next `case` or label)",
                )
            }
            Self::LockChanges(name) => {
                write!(f, "`{name}`, which the lock's name contains, may change inside")
            }
            Self::BoundToCaller(name) => {
                write!(f, "calls {name}, which means the caller's frame, thread or process")
            }
            Self::MeansThread(name) => {
                write!(
                    f,
                    "`{name}` is another in each thread, and a delegate may run it in any (--any-thread allows that)"
                )
            }
            Self::CalleeMeansThread { callee, asked } => {
                write!(
                    f,
                    "calls {callee}, which asks for `{asked}`: that is another in each thread, and a delegate may run it in any \
                     (--any-thread allows that)"
                )
            }
            Self::CalleeReleases(name) => {
                write!(f, "calls {name}, which gives the lock up that it does not take itself")
            }
            Self::Owned { callee, place } => {
                let who = callee.as_ref().map_or_else(String::new, |callee| format!("calls {callee}, which "));
                write!(
                    f,
                    "{who}takes a mutex that may be recursive or checked ({place}): it belongs to a thread, and a delegate may run \
                     the section in another (--any-thread allows that)"
                )
            }
            Self::CalleeKeeps(name) => {
                write!(
                    f,
                    "calls {name}, which takes another lock and keeps it, or releases one that it has not taken: a delegate may run it \
                     in another thread"
                )
            }
            Self::CalleeLeaves { callee, by } => {
                write!(f, "calls {callee}, which may leave the section by {by}: in a closure that ends what runs it")
            }
            Self::KeepsMacro => {
                f.write_str("a macro in it takes or releases another lock, and may return from the function")
            }
            Self::Opaque => {
                f.write_str("has assembly, a computed goto, or a jump inside a statement expression")
            }
            Self::MacroArgument => f.write_str("is in an argument of a macro"),
            Self::OneMacro => f.write_str("is inside one macro"),
            Self::MacroDoesMore(name) => write!(
                f,
                "the macro {name} takes or releases the lock and does more than that (write what it does more outside of it)"
            ),
            Self::WrapperDoesMore(name) => write!(
                f,
                "{name}, which --macros names, takes or releases the lock and does more than that (do what it does more outside of it)"
            ),
            Self::NotAsWritten => f.write_str(
                "its text is not what the compiler sees: an #include in its function, or a macro that begins or ends in the midst of \
                 it (write that out)",
            ),
            Self::FunctionInMacro => f.write_str("its function begins in a macro that has the `{`, or another declaration, too"),
            Self::MacroSpells(name) => write!(
                f,
                "a macro makes text, or another name, of `{name}`, which cannot be copied because something has its address (give the \
                 macro a copy)"
            ),
            Self::OtherCommand => f.write_str(
                "another command of the compilation database, with other macros, makes something else of it (leave one of the commands, or \
                 write it alike for both)",
            ),
            Self::MayBeCancelled(name) => write!(
                f,
                "calls {name}, in which a thread may be cancelled, and the program calls pthread_cancel: a delegate may run it in another \
                 thread than its own"
            ),
            Self::MacroNames(name) => write!(f, "a macro's body names `{name}`, which cannot be copied"),
            Self::MeansTwo(name) => write!(
                f,
                "the macro's argument `{name}` means two variables there (give one of them another name)"
            ),
            Self::UnnamedType(name) => write!(f, "the type of `{name}` has no name outside of the function"),
            Self::InnerName(name) => {
                write!(
                    f,
                    "`{name}`, which is no local variable, is declared on the other side of the section's bounds"
                )
            }
            Self::VariableArray(name) => write!(f, "`{name}` is an array of variable size"),
            Self::DeclaredInside(name) => write!(f, "declares `{name}`, which is used after it"),
            Self::Outlives(name) => {
                write!(
                    f,
                    "keeps the address of `{name}`, which it declares and which would be gone after it (declare it before the lock)"
                )
            }
            Self::Attributes(name) => {
                write!(
                    f,
                    "declares `{name}` with an attribute, which would be lost (declare it before the lock)"
                )
            }
            Self::Cleanup(name) => {
                write!(
                    f,
                    "declares `{name}`, whose cleanup would run before the lock is released (declare it before the lock)"
                )
            }
            Self::Preprocessor => {
                f.write_str("has a #if that is not whole in it, or follows a #define in its function")
            }
            Self::ReturnsElsewhere => {
                f.write_str("has a `return` in an #if that this configuration does not compile")
            }
            Self::LocksElsewhere => {
                f.write_str("has a lock call in an #if that this configuration does not compile")
            }
            Self::Exploded => f.write_str("too many combinations of locks may be held"),
            Self::Excepted => f.write_str("it, or another one of its lock in this function, is excepted"),
        }
    }
}

/// What a function does with locks.
#[derive(Debug)]
pub(crate) struct Analysis {
    /// Its sections, in the order of the text.
    pub sections: Vec<Section>,
    /// The calls that release a lock, or wait with one, that the function may not hold by itself: their offsets.
    pub given_up: Vec<GivenUp>,
    /// The calls by which it takes locks: their offsets.
    pub takes: Vec<(usize, Action)>,
    /// Those of which it may hold the lock when it returns.
    pub keeps: Vec<(usize, Action)>,
    /// The functions that it calls, and the offsets of the calls.
    pub calls: Vec<(String, usize)>,
    /// What it asks for, first, that each thread has one of its own.
    pub asks: Option<String>,
}

/// Where a function gives up a lock that it may not hold by itself.
#[derive(Clone, Debug)]
pub(crate) struct GivenUp {
    /// The offset of the call.
    pub offset: usize,
    /// What the call does.
    pub action: Action,
    /// The lock, where it is a macro's.
    pub by_macro: Option<String>,
}

/// By which rules sections are refused.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rules {
    /// The rule that is switched off, to see that a test notices.
    pub without: Option<Rule>,
    /// Sections may ask for the thread that they run in.
    pub any_thread: bool,
}

/// The sections of a function whose file has the text `text`, and what it does with the locks of its callers.
#[must_use]
pub(crate) fn analysis(function: &Function, text: &str, vocabulary: &Vocabulary, rules: Rules) -> Analysis {
    let nothing = HashSet::new();
    let flow = Flow::of(function, vocabulary, &nothing);
    let parents = parents(&function.body);
    let finder = Finder { function, text, vocabulary, parents: &parents, flow: &flow, breaks: &[], rules };
    Analysis {
        sections: finder.sections(),
        given_up: finder.given_up(),
        takes: taken(function.body.walk(), vocabulary).collect(),
        keeps: finder.keeps(),
        calls: calls_in(function.body.walk(), vocabulary)
            .map(|(name, node)| (name.to_owned(), node.range.start))
            .collect(),
        asks: function.body.walk().find_map(|node| asked_of_the_thread(function, node)).map(str::to_owned),
    }
}

/// What a function of a header does: what it calls, and what [`Analysis`] says of it otherwise. It has no sections of its own.
pub(crate) fn outline(function: &Function, vocabulary: &Vocabulary, rules: Rules) -> Analysis {
    let nothing = HashSet::new();
    let flow = Flow::of(function, vocabulary, &nothing);
    let parents = parents(&function.body);
    let finder =
        Finder { function, text: "", vocabulary, parents: &parents, flow: &flow, breaks: &[], rules };
    Analysis {
        sections: Vec::new(),
        given_up: finder.given_up(),
        takes: taken(function.body.walk(), vocabulary).collect(),
        keeps: finder.keeps(),
        calls: calls_in(function.body.walk(), vocabulary)
            .map(|(name, node)| (name.to_owned(), node.range.start))
            .collect(),
        asks: function.body.walk().find_map(|node| asked_of_the_thread(function, node)).map(str::to_owned),
    }
}

/// What of a thread's own a node asks for.
fn asked_of_the_thread<'n>(function: &Function, node: &'n Node) -> Option<&'n str> {
    match &node.kind {
        Kind::Declaration(variable)
            if function.locals.get(variable).is_some_and(|local| local.is_of_thread) =>
        {
            Some(&variable.name)
        }
        Kind::Call(name) if means_the_thread(name) => Some(name),
        Kind::ThreadLocal(name) => Some(name),
        _ => None,
    }
}

/// The calls among nodes that take locks.
fn taken<'n>(
    nodes: impl Iterator<Item = &'n Node>,
    vocabulary: &Vocabulary,
) -> impl Iterator<Item = (usize, Action)> {
    // What macros take that are no calls is no mutex.
    nodes.filter(|node| matches!(node.kind, Kind::Call(_))).filter_map(|node| match vocabulary.of(node) {
        Some((action @ (Action::Lock | Action::Try), _)) => Some((node.range.start, action)),
        _ => None,
    })
}

/// The functions that nodes call, other than to take and release locks, and those that they pass to what they call.
fn calls_in<'n>(
    nodes: impl Iterator<Item = &'n Node>,
    vocabulary: &Vocabulary,
) -> impl Iterator<Item = (&'n str, &'n Node)> {
    nodes
        .filter(|node| vocabulary.of(node).is_none())
        .filter_map(|node| match &node.kind {
            Kind::Call(name) => Some((name.as_str(), node)),
            _ => None,
        })
        .flat_map(|(name, node)| {
            let given = node.children.iter().skip(1).filter_map(passed).filter(|_| !runs_elsewhere(name));
            std::iter::once(name).filter(|name| !name.is_empty()).chain(given).map(move |name| (name, node))
        })
}

/// The function, or something else of the file, that is passed as it is.
fn passed(mut argument: &Node) -> Option<&str> {
    loop {
        argument = match (&argument.kind, argument.children.as_slice()) {
            (Kind::Name(name), _) => return Some(name),
            (Kind::Transparent | Kind::Cast(_) | Kind::Unary(Unary::Address), [.., inner]) => inner,
            _ => return None,
        };
    }
}

/// Refuses sections with a macro inside that does something to another lock and stays as it is: it may return, which a closure must
/// not.
fn refuse_macros(sections: &mut [Section]) {
    loop {
        let plans = || sections.iter().filter_map(|section| section.plan.as_ref().ok());
        let covered: BTreeSet<usize> = plans().flat_map(|plan| plan.covered.iter().copied()).collect();
        let stays = |plan: &Plan| !plan.macros.is_subset(&covered);
        let Some(section) = sections.iter_mut().find(|section| section.plan.as_ref().is_ok_and(stays)) else {
            return;
        };
        section.plan = Err(Refusal::KeepsMacro);
    }
}

/// The parent of each node, and its number among the parent's children.
fn parents(root: &Node) -> HashMap<Id, (&Node, usize)> {
    root.walk()
        .flat_map(|node| {
            node.children.iter().enumerate().map(move |(number, child)| (id(child), (node, number)))
        })
        .collect()
}

struct Finder<'a> {
    function: &'a Function,
    text: &'a str,
    vocabulary: &'a Vocabulary,
    parents: &'a HashMap<Id, (&'a Node, usize)>,
    flow: &'a Flow<'a>,
    /// Where sections pause, which take the lock again.
    breaks: &'a [Break<'a>],
    rules: Rules,
}

/// A `#ifdef NAME` or `#ifndef NAME` around nothing but one statement.
#[derive(Clone, Debug)]
struct Guard {
    /// Whole lines, from the first one's beginning to the end of `#endif`.
    range: Range<usize>,
    /// Its first line, without comments.
    condition: String,
}

/// A release and an acquisition of the same lock behind it, in one block.
#[derive(Clone, Debug)]
struct Break<'a> {
    lock: String,
    /// The expressions that release and acquire.
    calls: [&'a Node; 2],
    /// The statements that do so.
    statements: [&'a Node; 2],
    /// What is between.
    between: Vec<&'a Node>,
}

/// A statement, the block that it is in, and its number there.
#[derive(Clone, Copy)]
struct Spot<'a> {
    statement: &'a Node,
    block: &'a Node,
    number: usize,
}

impl<'a> Finder<'a> {
    fn sections(&self) -> Vec<Section> {
        let mut found = Vec::new();
        for (site, step) in self.flow.steps.iter().enumerate() {
            let lock = match &step.effect {
                Effect::Lock(lock) => lock.clone(),
                Effect::Unclear if !self.flow.before[site].is_empty() => String::new(),
                _ => continue,
            };
            if lock.is_empty() && !self.takes(step.node) {
                continue;
            }
            let plan = if lock.is_empty() { Err(self.unclear(step.node)) } else { self.plan(site, &lock) };
            let call = self.lock_calls(step.node).next();
            found.push((
                step.node,
                Section {
                    function: self.function.name.clone(),
                    offset: step.node.range.start,
                    lock: if lock.is_empty() { "?".to_owned() } else { lock },
                    plan,
                    warnings: Vec::new(),
                    call: call.map_or(step.node.range.start, |call| call.range.start),
                    taken_by: call.map_or(String::new(), |call| match &call.kind {
                        Kind::Call(name) => name.clone(),
                        _ => String::new(),
                    }),
                    by: call.and_then(|call| match &call.kind {
                        Kind::Macro(what) => what.by.clone(),
                        _ => None,
                    }),
                    continues: false,
                },
            ));
        }
        self.resume(&mut found);
        let mut found: Vec<Section> = found.into_iter().map(|(_, section)| section).collect();
        if self.applies(Rule::MacrosInside) {
            refuse_macros(&mut found);
        }
        for section in &mut found {
            section.warnings = section.plan.as_ref().map(|plan| self.warnings(plan)).unwrap_or_default();
        }
        found.sort_by_key(|section| section.offset);
        found
    }

    /// Why what a lock call does is not understood: it has a statement of its own, so that it is the lock's name, or it has not.
    fn unclear(&self, node: &Node) -> Refusal {
        match self.vocabulary.of(without_void(node)) {
            Some((Action::Lock | Action::Unlock | Action::Wait, _)) => Refusal::NamesLock,
            _ => Refusal::InsideExpression,
        }
    }

    /// The calls that release a lock, or wait with one, that may not have been taken here.
    fn given_up(&self) -> Vec<GivenUp> {
        let mut found = Vec::new();
        for (number, step) in self.flow.steps.iter().enumerate() {
            if step.effect == Effect::None {
                continue;
            }
            // A `for` is a step for its head.
            let parts = match (&step.node.kind, step.node.children.as_slice()) {
                (Kind::For { .. }, [heads @ .., _]) => heads,
                _ => std::slice::from_ref(step.node),
            };
            for call in parts.iter().flat_map(|part| self.lock_calls(part)) {
                let Some((action @ (Action::Unlock | Action::Wait), of)) = self.vocabulary.of(call) else {
                    continue;
                };
                let is_it = |site: &usize| matches!(&self.flow.steps[*site].effect, Effect::Lock(lock) if Some(lock) == of.expression().as_ref());
                if self.flow.before[number].iter().any(|held| !held.iter().any(is_it)) {
                    let by_macro = match &call.kind {
                        Kind::Macro(_) => of.expression(),
                        _ => None,
                    };
                    found.push(GivenUp { offset: call.range.start, action, by_macro });
                }
            }
        }
        found
    }

    /// The calls that take locks which may be held when the function returns.
    fn keeps(&self) -> Vec<(usize, Action)> {
        // Its last step is the first that was added.
        let at_end: BTreeSet<usize> =
            self.flow.before.first().into_iter().flatten().flatten().copied().collect();
        let is_kept = |(number, step): &(usize, &Step<'_>)| {
            at_end.contains(number)
                // What becomes of it depends on its result.
                || step.effect == Effect::Unclear && !self.flow.before[*number].is_empty()
        };
        let kept = self.flow.steps.iter().enumerate().filter(is_kept);
        // A `for` is a step for its head, of which nothing is known: its body has steps of its own.
        let plain = kept.filter(|(_, step)| !matches!(step.node.kind, Kind::For { .. }));
        plain.flat_map(|(_, step)| taken(step.node.walk(), self.vocabulary)).collect()
    }

    /// Whether a statement takes a lock somewhere inside an expression, other than by trying.
    fn takes(&self, node: &Node) -> bool {
        node.walk().any(|inner| matches!(self.vocabulary.of(inner), Some((Action::Lock | Action::Try, _))))
    }

    fn parent(&self, node: &Node) -> Option<(&'a Node, usize)> {
        self.parents.get(&id(node)).copied()
    }

    /// The largest statement that does nothing but the step, and where it is.
    fn spot(&self, mut statement: &'a Node) -> Option<Spot<'a>> {
        while let Some((around, _)) = self.parent(statement) {
            let Some((further, _)) = self.parent(around) else { break };
            let alone = around.kind == Kind::Compound && around.children.len() == 1;
            let is_once = further.kind == Kind::Do
                && further.children.last().is_some_and(
                    |last| matches!(&last.bare().kind, Kind::Literal(text) if value_of(text) == "0"),
                );
            statement = match further.kind {
                Kind::Do if alone && is_once => further,
                Kind::Compound if alone => around,
                _ if around.kind == Kind::Transparent => around,
                _ => break,
            };
        }
        let mut outer = statement;
        loop {
            let (around, number) = self.parent(outer)?;
            match around.kind {
                Kind::Compound => return Some(Spot { statement, block: around, number }),
                Kind::Label(_) | Kind::Case { .. } => outer = around,
                _ => return None,
            }
        }
    }

    /// Where a statement ends, with its semicolon.
    fn end(&self, node: &Node) -> usize {
        let end = node.range.end;
        if self.text.get(..end).is_some_and(|text| text.ends_with(';')) {
            return end;
        }
        let mut rest = self.text.get(end..).unwrap_or_default().trim_start();
        // A comment may come first.
        while let Some((_, behind)) = rest.strip_prefix("/*").and_then(|rest| rest.split_once("*/")) {
            rest = behind.trim_start();
        }
        if rest.starts_with(';') { self.text.len() - rest.len() + 1 } else { end }
    }

    /// Where a block's text ends whose last statement ends at `end`: behind the preprocessor's lines and the comments that follow.
    fn end_of_block(&self, block: &Node, end: usize) -> usize {
        let rest = self.text.get(end..block.range.end).unwrap_or_default();
        match rest.strip_suffix('}') {
            Some(rest) if directives(rest).next().is_some() => end + rest.trim_end().len(),
            _ => end,
        }
    }

    /// What the preprocessor has around nothing but a statement.
    fn guard(&self, statement: &Node) -> Option<Guard> {
        let before = self.text.get(..statement.range.start)?;
        let after = self.text.get(self.end(statement)..)?;
        let begin = before.trim_end().rfind('\n')? + 1;
        let (first, rest) = before[begin..].split_once('\n')?;
        let mut words = without_comment(first)?.split_whitespace();
        let word = words.next().filter(|word| matches!(*word, "#ifdef" | "#ifndef"))?;
        let name = words.next()?;
        let is_alone = words.next().is_none() && rest.trim().is_empty();
        let (line, mut next) = after.split_once('\n')?;
        next = next.trim_start_matches(|next: char| next.is_whitespace());
        let last = next.lines().next()?;
        let ends = without_comment(last)?.trim() == "#endif" && without_comment(line)?.trim().is_empty();
        let end = self.text.len() - next.len() + last.len();
        (is_alone && ends).then(|| Guard { range: begin..end, condition: format!("{word} {name}") })
    }

    /// The text of a release: a section whose lock is guarded has releases that are guarded in the same way.
    fn released_text(&self, statement: &Node, guard: Option<&Guard>) -> Result<Range<usize>, Refusal> {
        let plain = || Ok(statement.range.start..self.end(statement));
        let Some(guard) = guard else { return plain() };
        match self.guard(statement) {
            Some(own) if own.condition == guard.condition => Ok(own.range),
            _ if self.applies(Rule::Directives) => Err(Refusal::Preprocessor),
            _ => plain(),
        }
    }

    /// The calls of lock functions in a node.
    fn lock_calls<'n>(&self, node: &'n Node) -> impl Iterator<Item = &'n Node> + use<'n> {
        let calls: Vec<_> = node.walk().filter(|inner| self.vocabulary.of(inner).is_some()).collect();
        calls.into_iter()
    }

    /// Gives sections that cannot be converted because they release their lock and take it again a plan with pauses.
    fn resume(&self, found: &mut [(&'a Node, Section)]) {
        let breaks: Vec<Break<'a>> = self
            .breaks_of()
            .into_iter()
            .filter(|it| {
                found.iter().any(|(node, section)| id(node) == id(it.calls[1]) && section.plan.is_err())
            })
            .collect();
        let (mut plans, mut reasons) = (Vec::new(), Vec::new());
        // The pauses of other locks stay what they are: another lock that is held over one is not held for the whole of its section.
        for lock in breaks.iter().map(|it| &it.lock).collect::<BTreeSet<_>>() {
            let is_hidden = |it: &&Break<'a>| it.lock == *lock || !self.applies(Rule::Pauses);
            let paused: HashSet<Id> =
                breaks.iter().filter(is_hidden).flat_map(|it| it.calls.map(id)).collect();
            let flow = Flow::of(self.function, self.vocabulary, &paused);
            let finder = Finder { flow: &flow, breaks: &breaks, ..*self };
            let is_of_lock = |section: &Section| section.plan.is_err() && section.lock == *lock;
            for (node, section) in found.iter().filter(|(_, section)| is_of_lock(section)) {
                let is_site = |step: &usize| {
                    id(flow.steps[*step].node) == id(node)
                        && matches!(flow.steps[*step].effect, Effect::Lock(_))
                };
                match (0..flow.steps.len()).find(is_site).map(|site| finder.plan(site, &section.lock)) {
                    Some(Ok(plan)) => plans.push((section.offset, plan)),
                    Some(Err(reason)) => reasons.push((section.offset, reason)),
                    None => {}
                }
            }
        }
        // That the lock is given up in the midst is no reason any more.
        for (_, section) in found.iter_mut() {
            if let (Err(Refusal::Mixed), Some((_, reason))) =
                (&section.plan, reasons.iter().find(|(offset, _)| *offset == section.offset))
            {
                section.plan = Err(reason.clone());
            }
        }
        for (offset, plan) in plans {
            for (_, section) in found.iter_mut().filter(|(_, section)| section.plan.is_err()) {
                if plan.covered.contains(&section.call) {
                    section.continues = section.offset != offset;
                    section.plan = Ok(plan.clone());
                }
            }
        }
    }

    /// Where a lock is released and, later in the same block, taken again.
    fn breaks_of(&self) -> Vec<Break<'a>> {
        let mut found = Vec::new();
        let spots: Vec<(usize, Spot<'a>)> = (0..self.flow.steps.len())
            .filter(|step| matches!(self.flow.steps[*step].effect, Effect::Lock(_) | Effect::Unlock(_)))
            .filter_map(|step| Some((step, self.spot(self.flow.steps[step].node)?)))
            .collect();
        for (first, release) in &spots {
            let Effect::Unlock(lock) = &self.flow.steps[*first].effect else { continue };
            let again = spots
                .iter()
                .filter(|(step, acquire)| {
                    self.flow.steps[*step].effect == Effect::Lock(lock.clone())
                        && id(acquire.block) == id(release.block)
                        && acquire.number > release.number
                })
                .min_by_key(|(_, acquire)| acquire.number);
            let Some((step, acquire)) = again else { continue };
            let between: Vec<&Node> =
                release.block.children[release.number + 1..acquire.number].iter().collect();
            if between.iter().all(|node| self.runs_elsewhere(node, lock)) {
                found.push(Break {
                    lock: lock.clone(),
                    calls: [self.flow.steps[*first].node, self.flow.steps[*step].node],
                    statements: [release.statement, acquire.statement],
                    between,
                });
            }
        }
        found
    }

    /// Whether a statement may run at the call site in the middle of a section: nothing jumps into it or out of it, and it leaves
    /// the lock alone.
    fn runs_elsewhere(&self, node: &'a Node, lock: &str) -> bool {
        let own: HashSet<Id> = node.walk().map(id).collect();
        let binds = |jump: &Node| {
            let mut at = jump;
            while let Some((around, _)) = self.parent(at) {
                if matches!(around.kind, Kind::While | Kind::Do | Kind::For { .. })
                    || around.kind == Kind::Switch && jump.kind == Kind::Break
                {
                    return own.contains(&id(around));
                }
                at = around;
            }
            false
        };
        node.walk().all(|inner| match &inner.kind {
            Kind::Return | Kind::Goto(_) | Kind::ComputedGoto | Kind::Label(_) => false,
            // Its scope goes on behind the acquisition.
            Kind::Declarations => id(inner) != id(node),
            Kind::Break | Kind::Continue => binds(inner),
            Kind::Case { .. } => {
                let mut at = inner;
                while let Some((around, _)) = self.parent(at) {
                    if around.kind == Kind::Switch {
                        break;
                    }
                    at = around;
                }
                self.parent(at).is_some_and(|(around, _)| own.contains(&id(around)))
            }
            Kind::Call(_) => {
                self.vocabulary.of(inner).is_none_or(|(_, of)| of.expression().as_deref() != Some(lock))
            }
            _ => true,
        })
    }

    fn plan(&self, site: usize, lock: &str) -> Result<Plan, Refusal> {
        let flow = self.flow;
        if flow.exploded {
            return Err(Refusal::Exploded);
        }
        if self.function.begins_in_macro && self.applies(Rule::Begins) {
            return Err(Refusal::FunctionInMacro);
        }
        if self.function.is_elsewhere {
            return Err(Refusal::NotAsWritten);
        }
        if flow.taken_again.contains(&site) && self.applies(Rule::TakenAgain) {
            return Err(Refusal::TakenAgain);
        }
        let spot = self.spot(flow.steps[site].node).ok_or(Refusal::NoBlock)?;
        if spot.statement.in_argument && self.applies(Rule::OneMacro) {
            return Err(Refusal::MacroArgument);
        }
        let region: BTreeSet<usize> = (0..flow.steps.len())
            .filter(|step| flow.before[*step].iter().any(|held| held.contains(&site)))
            .collect();
        let siblings = &spot.block.children[spot.number..];
        let has_held = |node: &Node| {
            let inside: HashSet<Id> = node.walk().map(id).collect();
            region.iter().any(|step| inside.contains(&id(flow.steps[*step].node)))
        };
        let last = siblings.iter().rposition(has_held).ok_or(Refusal::Leaves)?;
        let parts: Vec<&Node> =
            std::iter::once(spot.statement).chain(siblings.get(1..=last).unwrap_or_default()).collect();
        let inside: HashSet<Id> = parts.iter().flat_map(|part| part.walk().map(id)).collect();
        let is_inside = |step: usize| inside.contains(&id(flow.steps[step].node));
        if region.iter().any(|step| !is_inside(*step)) && self.applies(Rule::Leaves) {
            return Err(Refusal::Leaves);
        }
        let guard = self.guard(spot.statement);
        let exits = self.exits(site, lock, spot, &region, last, guard.as_ref(), &is_inside)?;
        self.check_states(site, &region, &is_inside)?;
        self.check_edges(site, &exits, &is_inside)?;
        let statement = guard.as_ref().map_or_else(
            || spot.statement.range.start..self.end(spot.statement),
            |guard| guard.range.clone(),
        );
        let last_end = parts.last().map_or(spot.statement.range.end, |part| self.end(part));
        let exits_end = exits.iter().map(|exit| exit.range.end).max().unwrap_or_default();
        let slice = statement.start..last_end.max(exits_end);
        if exits.iter().any(|exit| exit.range.start < statement.end) && self.applies(Rule::OneMacro) {
            return Err(Refusal::OneMacro);
        }
        let pauses = self.pauses(site, lock, &region, &is_inside)?;
        // A loop without an end gives its lock up nowhere else.
        if exits.is_empty() && pauses.is_empty() {
            return Err(Refusal::Leaves);
        }
        let elsewhere: HashSet<Id> = exits
            .iter()
            .flat_map(|exit| exit.nodes.iter().chain(&exit.dropped))
            .chain(pauses.iter().flat_map(|pause| &pause.between))
            .flat_map(|node| node.walk().map(id))
            .collect();
        for statement in std::iter::once(spot.statement)
            .chain(exits.iter().map(|exit| exit.release))
            .chain(pauses.iter().flat_map(|pause| pause.calls.iter().copied()))
        {
            self.check_alone(statement)?;
        }
        self.check_whole(&slice, &parts)?;
        for exit in &exits {
            self.check_whole(&exit.tail, &exit.nodes)?;
            if let Some(dropped) = exit.dropped {
                self.check_whole(&(exit.tail.end..exit.range.end), &[dropped])?;
            }
        }
        for pause in &pauses {
            let nodes: Vec<&Node> = pause.between.iter().chain(&pause.calls).copied().collect();
            self.check_whole(&pause.pause.range, &nodes)?;
            if let Meanwhile::Runs(between) = &pause.pause.meanwhile {
                self.text_of(between.clone())?;
            }
        }
        self.check_text(&slice)?;
        // Without its lock the section is what it was: nothing but the lock and its releases differs.
        let differs = || {
            let own = 2 * (1 + exits.len());
            !pauses.is_empty() || directives(self.text.get(slice.clone()).unwrap_or_default()).count() != own
        };
        if guard.is_some() && differs() && self.applies(Rule::Directives) {
            return Err(Refusal::Preprocessor);
        }
        for moved in exits.iter().map(|exit| &exit.tail).chain(pauses.iter().map(|pause| &pause.pause.range))
        {
            self.check_directives(moved)?;
        }
        let moved: Vec<Range<usize>> = exits
            .iter()
            .map(|exit| exit.range.clone())
            .chain(pauses.iter().map(|pause| pause.pause.range.clone()))
            .collect();
        self.check_inactive(&slice, &moved)?;
        let body: Vec<&Node> = parts[1..].to_vec();
        let held: Vec<&Node> =
            body.iter().flat_map(|part| part.walk()).filter(|node| !elsewhere.contains(&id(node))).collect();
        self.check_calls(&held)?;
        self.check_thread(&held)?;
        self.check_inner_names(&held, &slice, &moved)?;
        let meanwhile: Vec<&Node> =
            pauses.iter().flat_map(|pause| &pause.between).flat_map(|node| node.walk()).collect();
        let changing: Vec<&Node> = held.iter().chain(&meanwhile).copied().collect();
        self.check_lock(flow.steps[site].node, &changing)?;
        self.check_conditions(&pauses, &changing, &held)?;
        let calls = exits
            .iter()
            .map(|exit| exit.release)
            .chain(pauses.iter().flat_map(|pause| pause.calls.iter().copied()));
        let releases: HashSet<Id> = calls.clone().flat_map(|node| node.walk().map(id)).collect();
        let own: Vec<&Node> =
            calls.chain([flow.steps[site].node]).flat_map(|node| self.lock_calls(node)).collect();
        let covered = own.iter().map(|call| call.range.start).collect();
        let by = own
            .iter()
            .filter_map(|call| match &call.kind {
                Kind::Call(name) => Some(name.clone()),
                _ => None,
            })
            .collect();
        let ranges: Vec<Range<usize>> = pauses.iter().map(|pause| pause.pause.range.clone()).collect();
        let tails: Vec<Range<usize>> = exits
            .iter()
            .filter(|exit| !exit.nodes.is_empty())
            .map(|exit| exit.tail.clone())
            .chain(ranges.iter().cloned())
            .collect();
        let here = exits.iter().flat_map(|exit| &exit.nodes).flat_map(|node| node.walk());
        let conditions = pauses.iter().filter_map(|pause| pause.condition).flat_map(Node::walk);
        let at_call: Vec<&Node> =
            here.chain(meanwhile).chain(conditions).chain(flow.steps[site].node.walk()).collect();
        let mut captures = self.captures(&held, &releases, spot.block, &ranges, &tails, &at_call)?;
        // In another configuration, or when it is run again, a closure might pass out what it has not set.
        if pauses.is_empty() && directives(self.text_of(slice.clone())?).next().is_none() {
            for capture in &mut captures {
                capture.is_set = self.is_set_first(capture, &body, &held);
            }
        }
        let carries_errno = held.iter().any(|node| match &node.kind {
            Kind::Call(name) => self.vocabulary.of(node).is_none() && !leaves_errno(name),
            _ => false,
        });
        let called =
            calls_in(held.iter().copied(), self.vocabulary).map(|(name, _)| name.to_owned()).collect();
        let is_macro = |node: &&&Node| matches!(node.kind, Kind::Macro(_)) && !releases.contains(&id(node));
        let macros = held.iter().filter(is_macro).map(|node| node.range.start).collect();
        let takes = taken(held.iter().copied(), self.vocabulary).collect();
        let exits = exits
            .into_iter()
            .map(|exit| Exit { is_last: exit.is_last, range: exit.range, tail: exit.tail })
            .collect();
        let pauses = pauses.into_iter().map(|pause| pause.pause).collect();
        let guard = guard.map(|guard| guard.condition);
        Ok(Plan {
            slice,
            lock: statement,
            guard,
            exits,
            pauses,
            captures,
            covered,
            by,
            calls: called,
            macros,
            takes,
            carries_errno,
        })
    }

    fn text_of(&self, range: Range<usize>) -> Result<&'a str, Refusal> {
        self.text.get(range).ok_or(Refusal::NotAsWritten)
    }

    /// The text of a statement that takes or releases a lock, or waits, falls away: what comes from a macro must be all of it.
    fn check_alone(&self, statement: &Node) -> Result<(), Refusal> {
        if self.crossing(&statement.range, &[statement]).is_none() || !self.applies(Rule::AsWritten) {
            return Ok(());
        }
        let is_of_name = |next: &char| *next == '_' || next.is_ascii_alphanumeric();
        let text = self.text_of(statement.range.clone())?;
        Err(Refusal::MacroDoesMore(text.chars().take_while(is_of_name).collect()))
    }

    /// A text that is moved must be that of these nodes, and nothing else may begin or end in it.
    fn check_whole(&self, range: &Range<usize>, nodes: &[&Node]) -> Result<(), Refusal> {
        self.text_of(range.clone())?;
        // An empty statement may have gone with what is before it, as behind the block of `{ pthread_mutex_unlock(&lock); };`.
        let is_in = |node: &Node| {
            node.kind == Kind::Empty || range.start <= node.range.start && node.range.end <= range.end
        };
        let is_whole = self.crossing(range, nodes).is_none() && nodes.iter().all(|node| is_in(node));
        if is_whole || !self.applies(Rule::AsWritten) { Ok(()) } else { Err(Refusal::NotAsWritten) }
    }

    /// A node, other than these and what is in them, that begins or ends in a range.
    fn crossing(&self, range: &Range<usize>, nodes: &[&Node]) -> Option<&'a Node> {
        let own: HashSet<Id> = nodes.iter().map(|node| id(node)).collect();
        let mut stack = vec![&self.function.body];
        while let Some(node) = stack.pop() {
            if own.contains(&id(node)) {
                continue;
            }
            let Range { start, end } = node.range;
            // These end where what is in them does.
            let ends_itself = !matches!(
                node.kind,
                Kind::If
                    | Kind::While
                    | Kind::For { .. }
                    | Kind::Switch
                    | Kind::Label(_)
                    | Kind::Case { .. }
                    | Kind::Transparent
            );
            let crosses = range.contains(&start) || ends_itself && range.start < end && end <= range.end;
            if crosses && node.kind != Kind::Empty {
                return Some(node);
            }
            stack.extend(&node.children);
        }
        None
    }

    /// Whether a rule is to be kept: all are, but one that a test switches off.
    fn applies(&self, rule: Rule) -> bool {
        self.rules.without != Some(rule)
    }

    /// Where the section at `site` gives its lock up and goes on later.
    fn pauses(
        &self,
        site: usize,
        lock: &str,
        region: &BTreeSet<usize>,
        is_inside: &dyn Fn(usize) -> bool,
    ) -> Result<Vec<Paused<'a>>, Refusal> {
        let flow = self.flow;
        let mut waits = Vec::new();
        let taken = self.lock_calls(flow.steps[site].node).next().and_then(|call| self.vocabulary.of(call));
        let known: HashSet<String> = taken
            .into_iter()
            .flat_map(|(_, of)| of.walk())
            .filter(|part| matches!(part.kind, Kind::Member { .. } | Kind::Subscript | Kind::Name(_)))
            .filter_map(Node::expression)
            .collect();
        let mut found = Vec::new();
        for step in region {
            let node = flow.steps[*step].node;
            if let Effect::Wait(of) = &flow.steps[*step].effect {
                let is_alone = flow.before[*step].iter().all(|held| held.as_slice() == [site]);
                if (of != lock || !is_alone) && self.applies(Rule::Waits) {
                    return Err(Refusal::Waits);
                }
                let call = self.lock_calls(node).next().ok_or(Refusal::Waits)?;
                if !matches!(&call.kind, Kind::Call(name) if waits_without_end(name)) {
                    return Err(Refusal::Waits);
                }
                let condition = call.children.get(1).ok_or(Refusal::Waits)?;
                let name = condition.expression().ok_or(Refusal::Waits)?;
                if !self.is_fixed(condition, &known) && self.applies(Rule::Fixed) {
                    return Err(Refusal::NamesCondition);
                }
                waits.push(*step);
                let statement = self.spot(node).map_or(node, |spot| spot.statement);
                let range = statement.range.start..self.end(statement);
                found.push(Paused {
                    pause: Pause { range, meanwhile: Meanwhile::Waits(name) },
                    condition: Some(condition),
                    between: Vec::new(),
                    calls: vec![statement],
                });
            }
            let again = self.breaks.iter().find(|it| id(it.calls[0]) == id(node) && it.lock == lock);
            if let Some(again) = again {
                // What is taken inside would stay taken from one run of the closure to the next, in whatever thread that is.
                let keeps = |held: &Vec<usize>| held.iter().any(|other| *other != site && is_inside(*other));
                if flow.before[*step].iter().any(keeps) && self.applies(Rule::Pauses) {
                    return Err(Refusal::Interleaved);
                }
                let [release, acquire] = again.statements;
                let range = release.range.start..self.end(acquire);
                let between = self.end(release)..acquire.range.start;
                found.push(Paused {
                    pause: Pause { range, meanwhile: Meanwhile::Runs(between) },
                    condition: None,
                    between: again.between.clone(),
                    calls: vec![release, acquire],
                });
            }
        }
        // Which condition the call site stands ready for is known once a closure has returned. A wait that is not the first one
        // returns once without a signal, as it may: what is in a loop asks again.
        let is_once = |wait: &usize| !self.comes_back(*wait, region);
        if found.len() > 1 && waits.iter().any(is_once) && self.applies(Rule::Loops) {
            return Err(Refusal::WaitsOnce);
        }
        for pause in &found {
            let mut at = pause.calls[0];
            while let Some((around, _)) = self.parent(at) {
                if around.kind == Kind::StatementExpression {
                    return Err(Refusal::Opaque);
                }
                at = around;
            }
        }
        found.sort_by_key(|pause| pause.pause.range.start);
        Ok(found)
    }

    /// Whether a step of a section can be reached from itself within it.
    fn comes_back(&self, step: usize, region: &BTreeSet<usize>) -> bool {
        let mut seen = BTreeSet::new();
        let mut work = vec![step];
        while let Some(at) = work.pop() {
            for next in self.flow.steps[at].next.iter().copied().filter(|next| region.contains(next)) {
                if next == step {
                    return true;
                }
                if seen.insert(next) {
                    work.push(next);
                }
            }
        }
        false
    }

    /// Whether an expression is the same before a section as in it, where that leaves the local variables alone which it names: nothing
    /// of it is read from memory that another thread may write, or that may not be there; what the lock's name reads, `known`, counts as
    /// constant, as it does for the release.
    fn is_fixed(&self, node: &Node, known: &HashSet<String>) -> bool {
        let node = node.bare();
        if node.expression().is_some_and(|name| known.contains(&name)) {
            return true;
        }
        match (&node.kind, node.children.as_slice()) {
            (Kind::Local(variable), _) => {
                let Some(local) = self.function.locals.get(variable) else { return false };
                // Sections inside that are closures already have its address, and were looked at before.
                let contexts = contexts(&self.function.body.walk().collect::<Vec<_>>());
                let has_address = |node: &Node| {
                    node.kind == Kind::Unary(Unary::Address)
                        && !contexts.contains(&id(node))
                        && node.children.first().is_some_and(|of| is_part(of, variable))
                };
                local.shape == Shape::Array
                    || local.shape == Shape::Value
                        && !local.is_static
                        && !self.function.body.walk().any(has_address)
            }
            (Kind::Literal(text), []) => !text.is_empty(),
            (Kind::Unary(Unary::Address), [of]) => self.is_fixed_place(of, known),
            (Kind::Unary(Unary::Pure(_)), [of]) => self.is_fixed(of, known),
            (Kind::Binary(sign), [one, other]) => {
                let is_nonzero = |node: &Node| matches!(&node.bare().kind, Kind::Literal(text) if !text.is_empty() && value_of(text) != "0");
                let is_plain = matches!(sign.as_str(), "+" | "-" | "*" | "&" | "|" | "^" | "<<" | ">>");
                (is_plain || matches!(sign.as_str(), "/" | "%") && is_nonzero(other))
                    && self.is_fixed(one, known)
                    && self.is_fixed(other, known)
            }
            (Kind::Cast(_), [.., of]) => self.is_fixed(of, known),
            _ => false,
        }
    }

    /// The same of where an object is.
    fn is_fixed_place(&self, node: &Node, known: &HashSet<String>) -> bool {
        let node = node.bare();
        match (&node.kind, node.children.as_slice()) {
            (Kind::Local(_) | Kind::Name(_), _) => true,
            (Kind::Member { is_arrow: false, .. }, [of]) => self.is_fixed_place(of, known),
            (Kind::Member { is_arrow: true, .. } | Kind::Unary(Unary::Dereference), [of]) => {
                self.is_fixed(of, known)
            }
            (Kind::Subscript, [of, number]) => {
                let is_array = match &of.bare().kind {
                    Kind::Name(name) => self.function.arrays.contains(name),
                    Kind::Member { name, .. } => self.function.arrays.contains(&format!(".{name}")),
                    _ => false,
                };
                (if is_array { self.is_fixed_place(of, known) } else { self.is_fixed(of, known) })
                    && self.is_fixed(number, known)
            }
            _ => false,
        }
    }

    /// A condition is named at the call site: its name must mean the same there.
    fn check_conditions(
        &self,
        pauses: &[Paused<'a>],
        changing: &[&Node],
        held: &[&Node],
    ) -> Result<(), Refusal> {
        let contexts = contexts(changing);
        let writes = |other: &&Node, variable| !contexts.contains(&id(other)) && writes(other, variable);
        for node in pauses.iter().filter_map(|pause| pause.condition).flat_map(|condition| condition.walk()) {
            let Kind::Local(variable) = &node.kind else { continue };
            let is_inside = held.iter().any(|other| other.kind == Kind::Declaration(variable.clone()));
            if is_inside || changing.iter().any(|other| writes(other, variable)) {
                return Err(Refusal::Waits);
            }
        }
        Ok(())
    }

    /// The releases of the section at `site`.
    #[allow(clippy::too_many_arguments, reason = "they are what a plan knows by then")]
    fn exits(
        &self,
        site: usize,
        lock: &str,
        spot: Spot<'a>,
        region: &BTreeSet<usize>,
        last: usize,
        guard: Option<&Guard>,
        is_inside: &dyn Fn(usize) -> bool,
    ) -> Result<Vec<Release<'a>>, Refusal> {
        let flow = self.flow;
        let mut found = Vec::new();
        for step in region {
            match &flow.steps[*step].effect {
                Effect::Unlock(of) if of == lock => {}
                Effect::Unclear if self.applies(Rule::Clear) => {
                    return Err(self.unclear(flow.steps[*step].node));
                }
                _ => continue,
            }
            debug_assert!(flow.before[*step].iter().any(|held| held.contains(&site)));
            let Some(exit) = self.spot(flow.steps[*step].node) else {
                if guard.is_some() && self.applies(Rule::Directives) {
                    return Err(Refusal::Preprocessor);
                }
                // The only statement of an `if` or a loop.
                let node = flow.steps[*step].node;
                let end = self.end(node);
                let range = node.range.start..end;
                found.push(Release {
                    release: node,
                    nodes: Vec::new(),
                    dropped: None,
                    range,
                    tail: end..end,
                    is_last: false,
                });
                continue;
            };
            let Range { start, end: tail_start } = self.released_text(exit.statement, guard)?;
            let behind = &exit.block.children[exit.number + 1..];
            let before_label = tail_before_label(behind);
            let is_own_block = id(exit.block) == id(spot.block);
            if is_own_block && (before_label.is_none() || exit.number == spot.number + last) {
                if exit.number != spot.number + last && self.applies(Rule::Mixed) {
                    return Err(Refusal::Mixed);
                }
                found.push(Release {
                    release: exit.statement,
                    nodes: Vec::new(),
                    dropped: None,
                    range: start..tail_start,
                    tail: tail_start..tail_start,
                    is_last: true,
                });
                continue;
            }
            let mut nodes: Vec<&Node> = behind.iter().take(before_label.unwrap_or(behind.len())).collect();
            let end = nodes.last().map_or(tail_start, |node| match before_label {
                Some(_) => self.end(node),
                None => self.end_of_block(exit.block, self.end(node)),
            });
            // A `break` that ends the section with the loop or switch around it goes on where the call site does.
            let dropped = nodes.pop_if(|node| self.breaks_out(node, is_inside));
            let tail_end = dropped.map_or(end, |node| node.range.start);
            found.push(Release {
                release: exit.statement,
                tail: tail_start..tail_end,
                nodes,
                dropped,
                range: start..end,
                is_last: false,
            });
        }
        found.sort_by_key(|exit| exit.range.start);
        Ok(found)
    }

    /// Whether a node is a `break` of a loop or switch of the section that leaves the section.
    fn breaks_out(&self, node: &Node, is_inside: &dyn Fn(usize) -> bool) -> bool {
        let leaves =
            |step: &Step<'_>| id(step.node) == id(node) && step.next.iter().all(|next| !is_inside(*next));
        node.kind == Kind::Break
            && self.binds_inside(node, &[], is_inside)
            && self.flow.steps.iter().any(leaves)
    }

    /// Locks inside must nest, and each step must be reached with the lock or without it.
    fn check_states(
        &self,
        site: usize,
        region: &BTreeSet<usize>,
        is_inside: &dyn Fn(usize) -> bool,
    ) -> Result<(), Refusal> {
        let flow = self.flow;
        for step in region {
            if flow.before[*step].iter().any(|held| !held.contains(&site)) && self.applies(Rule::Mixed) {
                return Err(Refusal::Mixed);
            }
        }
        if !self.applies(Rule::Nested) {
            return Ok(());
        }
        let around: BTreeSet<&Vec<usize>> = flow.before[site].iter().collect();
        for (number, step) in flow.steps.iter().enumerate() {
            let held_before = |held: &Vec<usize>| {
                held.iter().copied().filter(|other| !is_inside(*other)).collect::<Vec<_>>()
            };
            if region.contains(&number) {
                if flow.before[number].iter().any(|held| !around.contains(&held_before(held))) {
                    return Err(Refusal::Interleaved);
                }
                let releases = matches!(&step.effect, Effect::Unlock(_));
                let keeps = |held: &Vec<usize>| held.iter().any(|other| *other != site && is_inside(*other));
                let leaves = step.next.iter().any(|next| !region.contains(next));
                if releases && leaves && flow.before[number].iter().any(keeps) {
                    return Err(Refusal::Interleaved);
                }
            }
            if flow.released_unheld.contains(&number) && region.contains(&number) {
                return Err(Refusal::Interleaved);
            }
        }
        Ok(())
    }

    /// Jumps into the section, and tails that go back into it.
    fn check_edges(
        &self,
        site: usize,
        exits: &[Release<'a>],
        is_inside: &dyn Fn(usize) -> bool,
    ) -> Result<(), Refusal> {
        let flow = self.flow;
        let (no_entries, no_returns) =
            (self.applies(Rule::EnteredElsewhere), self.applies(Rule::TailReturns));
        for (number, step) in flow.steps.iter().enumerate() {
            let enters = |next: &usize| is_inside(*next) && *next != site;
            if number != site
                && !is_inside(number)
                && !flow.before[number].is_empty()
                && step.next.iter().any(enters)
                && no_entries
            {
                return Err(Refusal::EnteredElsewhere);
            }
        }
        for exit in exits {
            let moved = || exit.nodes.iter().chain(&exit.dropped);
            let tail: HashSet<Id> = moved().flat_map(|node| node.walk().map(id)).collect();
            let release: HashSet<Id> = exit.release.walk().map(id).collect();
            for step in &flow.steps {
                let here = id(step.node);
                let is_exit = release.contains(&here);
                for next in &step.next {
                    let there = id(flow.steps[*next].node);
                    if (is_exit || tail.contains(&here))
                        && is_inside(*next)
                        && !tail.contains(&there)
                        && !release.contains(&there)
                        && no_returns
                    {
                        return Err(Refusal::TailReturns);
                    }
                    if !is_exit && !tail.contains(&here) && tail.contains(&there) && no_entries {
                        return Err(Refusal::EnteredElsewhere);
                    }
                }
            }
            for node in exit.nodes.iter().flat_map(|node| node.walk()) {
                if matches!(node.kind, Kind::Break | Kind::Continue)
                    && self.binds_inside(node, &exit.nodes, is_inside)
                    && no_returns
                {
                    return Err(Refusal::TailReturns);
                }
            }
        }
        Ok(())
    }

    /// Whether a `break` or `continue` in a tail belongs to a loop or a switch of the section.
    fn binds_inside(&self, node: &Node, tail: &[&Node], is_inside: &dyn Fn(usize) -> bool) -> bool {
        let own: HashSet<Id> = tail.iter().flat_map(|node| node.walk().map(id)).collect();
        let mut at = node;
        while let Some((around, _)) = self.parent(at) {
            let is_loop = matches!(around.kind, Kind::While | Kind::Do | Kind::For { .. });
            let is_switch = around.kind == Kind::Switch && node.kind == Kind::Break;
            if is_loop || is_switch {
                // Some step of the loop is in the section if the loop is, and if it is not in the tail itself.
                let inner: HashSet<Id> = around.walk().map(id).collect();
                let steps: Vec<usize> = (0..self.flow.steps.len())
                    .filter(|step| inner.contains(&id(self.flow.steps[*step].node)))
                    .collect();
                return !own.contains(&id(around)) && steps.iter().all(|step| is_inside(*step));
            }
            at = around;
        }
        false
    }

    /// What the preprocessor makes of the text.
    fn check_text(&self, slice: &Range<usize>) -> Result<(), Refusal> {
        self.check_directives(slice)?;
        let before = self.text_of(self.function.range.start..slice.start)?;
        let defines = directives(before).any(|word| word.starts_with("define") || word.starts_with("undef"));
        if defines && self.applies(Rule::Defined) { Err(Refusal::Preprocessor) } else { Ok(()) }
    }

    /// A text that is moved must have its `#if`s and `#define`s whole.
    fn check_directives(&self, range: &Range<usize>) -> Result<(), Refusal> {
        if !self.applies(Rule::Directives) {
            return Ok(());
        }
        let mut depth = 0_usize;
        let mut defined = BTreeSet::new();
        for word in directives(self.text_of(range.clone())?) {
            let name = || {
                word.split(|next: char| next.is_whitespace() || next == '(')
                    .nth(1)
                    .unwrap_or_default()
                    .to_owned()
            };
            if word.starts_with("if") {
                depth += 1;
            } else if word.starts_with("endif") {
                depth = depth.checked_sub(1).ok_or(Refusal::Preprocessor)?;
            } else if word.starts_with("include") || depth == 0 && word.starts_with("el") {
                return Err(Refusal::Preprocessor);
            } else if word.starts_with("define") {
                defined.insert(name());
            } else if word.starts_with("undef") && !defined.remove(&name()) {
                return Err(Refusal::Preprocessor);
            }
        }
        if depth > 0 || !defined.is_empty() { Err(Refusal::Preprocessor) } else { Ok(()) }
    }

    /// What another configuration compiles may not return: the closure would, and its caller would not.
    fn check_inactive(&self, slice: &Range<usize>, moved: &[Range<usize>]) -> Result<(), Refusal> {
        if !self.applies(Rule::Directives) {
            return Ok(());
        }
        let starts: BTreeSet<usize> = self.function.body.walk().map(|node| node.range.start).collect();
        let mut begin = None;
        let mut at = slice.start;
        for line in self.text_of(slice.clone())?.split_inclusive('\n') {
            if line.trim_start().starts_with('#') {
                let branch = begin.unwrap_or(at)..at;
                let is_moved = moved.iter().any(|it| it.start <= branch.start && branch.end <= it.end);
                if starts.range(branch.clone()).next().is_none() {
                    let text = self.text_of(branch)?;
                    if !is_moved && has_word(text, |word| word == "return") {
                        return Err(Refusal::ReturnsElsewhere);
                    }
                    let is_call =
                        |word: &str| word.starts_with("pthread_mutex_") || word.starts_with("pthread_cond_");
                    if has_word(text, is_call) {
                        return Err(Refusal::LocksElsewhere);
                    }
                }
                begin = Some(at + line.len());
            }
            at += line.len();
        }
        Ok(())
    }

    /// What a function declares for itself, and is no variable, has no meaning in another function.
    fn check_inner_names(
        &self,
        held: &[&Node],
        slice: &Range<usize>,
        moved: &[Range<usize>],
    ) -> Result<(), Refusal> {
        let is_held: HashSet<Id> = held.iter().map(|node| id(node)).collect();
        let goes = |at: &usize| slice.contains(at) && !moved.iter().any(|range| range.contains(at));
        let differs = self.function.body.walk().find_map(|node| match &node.kind {
            Kind::InnerName(inner) if goes(&inner.declared) != is_held.contains(&id(node)) => Some(inner),
            _ => None,
        });
        match differs {
            Some(inner) if self.applies(Rule::NamedTypes) => Err(Refusal::InnerName(inner.name.clone())),
            _ => Ok(()),
        }
    }

    fn check_calls(&self, held: &[&Node]) -> Result<(), Refusal> {
        for node in held {
            match &node.kind {
                _ if !self.applies(Rule::Opaque) && !matches!(node.kind, Kind::Call(_)) => {}
                Kind::Call(name) if is_bound_to_its_caller(name) && self.applies(Rule::BoundToCaller) => {
                    return Err(Refusal::BoundToCaller(name.clone()));
                }
                Kind::Assembly | Kind::ComputedGoto => return Err(Refusal::Opaque),
                Kind::Return => return Err(Refusal::Opaque),
                Kind::StatementExpression
                    if node
                        .walk()
                        .any(|inner| matches!(inner.kind, Kind::Return | Kind::Goto(_) | Kind::Label(_))) =>
                {
                    return Err(Refusal::Opaque);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// What a node of the section asks for, or keeps, of the thread's own.
    fn asked_in_it<'n>(&self, node: &'n Node, held: &[&Node]) -> Option<&'n str> {
        let asked = asked_of_the_thread(self.function, node);
        let Kind::Call(name) = &node.kind else { return asked };
        let is_kept = || gives_the_threads_own(name) && self.way(node, true, &contexts(held)) == Way::Kept;
        asked.or_else(|| is_kept().then_some(name.as_str()))
    }

    /// A delegate may run a section in any thread.
    fn check_thread(&self, held: &[&Node]) -> Result<(), Refusal> {
        match held.iter().find_map(|node| self.asked_in_it(node, held)) {
            Some(name) if !self.rules.any_thread && self.applies(Rule::AnyThread) => {
                Err(Refusal::MeansThread(name.to_owned()))
            }
            _ => Ok(()),
        }
    }

    /// The lock's name must mean the same lock at the release.
    fn check_lock(&self, statement: &Node, held: &[&Node]) -> Result<(), Refusal> {
        let mut read = Vec::new();
        self.read_for(statement, &mut read);
        let contexts = contexts(held);
        let own = || held.iter().filter(|other| !contexts.contains(&id(other)));
        let written: BTreeSet<String> = own().filter_map(|node| written_place(node)).collect();
        for node in read {
            if let Kind::Local(variable) = &node.kind
                && own().any(|other| writes(other, variable))
                && self.applies(Rule::LockChanges)
            {
                return Err(Refusal::LockChanges(variable.name.clone()));
            }
            if let Some(place) = places_read(node).into_iter().find(|place| written.contains(place))
                && self.applies(Rule::LockIsRead)
            {
                return Err(Refusal::LockChanges(place.trim_start_matches(['*', '.']).to_owned()));
            }
        }
        Ok(())
    }

    /// What an expression's value depends on: variables, members, what pointers point to, and calls. The address of a variable, or of a
    /// part of it, does not depend on what it has.
    fn read_for<'n>(&self, node: &'n Node, read: &mut Vec<&'n Node>) {
        match &node.kind {
            Kind::Local(_) | Kind::Name(_) | Kind::ThreadLocal(_) => read.push(node),
            Kind::Unary(Unary::Address) => {
                node.children.iter().for_each(|of| self.read_for_place(of, read));
            }
            Kind::Member { .. } | Kind::Subscript | Kind::Unary(Unary::Dereference) => {
                if !self.is_array(node) {
                    read.push(node);
                }
                self.read_for_place(node, read);
            }
            _ => {
                if node.computes.is_some() {
                    read.push(node);
                }
                node.children.iter().for_each(|child| self.read_for(child, read));
            }
        }
    }

    /// The same for where an object is.
    fn read_for_place<'n>(&self, node: &'n Node, read: &mut Vec<&'n Node>) {
        let node = node.bare();
        match (&node.kind, node.children.as_slice()) {
            (Kind::Local(_) | Kind::Name(_) | Kind::ThreadLocal(_), _) => {}
            (Kind::Member { is_arrow: false, .. }, [of]) => self.read_for_place(of, read),
            (Kind::Member { .. } | Kind::Unary(Unary::Dereference), [of]) => self.read_for(of, read),
            (Kind::Subscript, [of, number]) => {
                match self.is_array(of) {
                    true => self.read_for_place(of, read),
                    false => self.read_for(of, read),
                }
                self.read_for(number, read);
            }
            (Kind::Member { .. } | Kind::Subscript | Kind::Unary(Unary::Dereference), _) => {}
            _ => self.read_for(node, read),
        }
    }

    /// Whether an expression is an array, whose value is where it is.
    fn is_array(&self, of: &Node) -> bool {
        match &of.bare().kind {
            Kind::Local(variable) => {
                self.function.locals.get(variable).is_some_and(|local| local.shape == Shape::Array)
            }
            Kind::Name(name) => self.function.arrays.contains(name),
            Kind::Member { name, .. } => self.function.arrays.contains(&format!(".{name}")),
            _ => false,
        }
    }

    /// The variables that the closure shares with the function around it.
    fn captures(
        &self,
        held: &[&'a Node],
        releases: &HashSet<Id>,
        block: &'a Node,
        pauses: &[Range<usize>],
        tails: &[Range<usize>],
        at_call: &[&Node],
    ) -> Result<Vec<Capture>, Refusal> {
        let declared: BTreeMap<Variable, &Node> = held
            .iter()
            .filter_map(|node| match &node.kind {
                Kind::Declaration(variable) => Some((variable.clone(), *node)),
                _ => None,
            })
            .collect();
        let sized = |variable: &&Variable| {
            self.function.locals.get(variable).is_some_and(|local| local.shape == Shape::VariableArray)
        };
        if let Some(variable) = declared.keys().find(sized).filter(|_| !pauses.is_empty()) {
            return Err(Refusal::VariableArray(variable.name.clone()));
        }
        let held_ids: HashSet<Id> = held.iter().map(|node| id(node)).collect();
        let used_outside: BTreeSet<&Variable> = self
            .function
            .body
            .walk()
            .filter(|node| !held_ids.contains(&id(node)))
            .filter_map(|node| match &node.kind {
                Kind::Local(variable) => Some(variable),
                _ => None,
            })
            .collect();
        let survives: BTreeSet<&Variable> = declared
            .iter()
            .filter(|(_, node)| self.spans(node, pauses))
            .map(|(variable, _)| variable)
            .collect();
        let contexts = contexts(held);
        self.check_literals(held, block, tails, &contexts)?;
        // What is static stays alive, so that its declaration goes with the section: nothing outside may need that.
        let is_missed = |variable: &&Variable| self.is_static(variable) && used_outside.contains(*variable);
        if let Some(variable) = declared.keys().find(is_missed).filter(|_| self.applies(Rule::Hoisted)) {
            return Err(Refusal::DeclaredInside(variable.name.clone()));
        }
        let mut hoists: BTreeMap<&Variable, Hoisted> = BTreeMap::new();
        for (variable, declaration) in declared.iter().filter(|(variable, _)| !self.is_static(variable)) {
            let ends_there = self.outlasts(declaration, block, tails);
            let cleans = self.function.locals.get(variable).is_some_and(|local| local.has_cleanup);
            if cleans && ends_there && self.applies(Rule::Cleanup) {
                return Err(Refusal::Cleanup(variable.name.clone()));
            }
            let hoisted = || self.hoisted(variable, declaration, block, at_call);
            if used_outside.contains(variable) || survives.contains(variable) {
                hoists.insert(variable, hoisted()?);
                continue;
            }
            let is_use = |node: &&&Node| matches!(&node.kind, Kind::Local(used) if used == variable);
            let uses = || held.iter().filter(is_use);
            let way = uses().map(|node| self.way(node, false, &contexts)).max().unwrap_or(Way::Stays);
            if !ends_there || way == Way::Stays || !self.applies(Rule::Outlives) {
                continue;
            }
            match hoisted() {
                Ok(hoisted) if way == Way::Kept => drop(hoists.insert(variable, hoisted)),
                Err(_) if way == Way::Kept => return Err(Refusal::Outlives(variable.name.clone())),
                // What is called may keep it; that it does is not known, so that nothing is refused for it.
                Ok(hoisted)
                    if self.is_only(variable)
                        && uses().all(|node| !node.from_macro)
                        && self.capture(variable, Some(hoisted.clone())).is_ok() =>
                {
                    hoists.insert(variable, hoisted);
                }
                _ => {}
            }
        }
        let is_inner =
            |variable: &Variable| declared.contains_key(variable) && !hoists.contains_key(variable);
        let mut found: BTreeMap<Variable, Capture> = BTreeMap::new();
        // What stands in a macro's place for its argument may mean one variable here and another one there.
        let mut meant: HashMap<usize, &Variable> = HashMap::new();
        for node in held.iter().filter(|node| !node.from_macro) {
            if let Kind::Local(variable) = &node.kind
                && meant.insert(node.range.start, variable).is_some_and(|other| other != variable)
                && self.applies(Rule::OneMeaning)
            {
                return Err(Refusal::MeansTwo(variable.name.clone()));
            }
        }
        let mut in_arguments = BTreeSet::new();
        for node in held {
            let Kind::Local(variable) = &node.kind else { continue };
            if releases.contains(&id(node)) {
                continue;
            }
            if is_inner(variable) {
                continue;
            }
            let hoisted = hoists.get(variable).cloned();
            let capture = match found.entry(variable.clone()) {
                std::collections::btree_map::Entry::Occupied(entry) => entry.into_mut(),
                std::collections::btree_map::Entry::Vacant(entry) => {
                    entry.insert(self.capture(variable, hoisted)?)
                }
            };
            if node.from_macro {
                capture.by_value = true;
                continue;
            }
            // The name is put another in the place of, so that it must be there: as it is, and nothing else at the same place.
            let at = node.range.start;
            if self.text.get(at..at + variable.name.len()) != Some(variable.name.as_str()) {
                return Err(Refusal::NotAsWritten);
            }
            capture.uses.insert(at);
            in_arguments.extend(node.in_argument.then(|| variable.clone()));
        }
        // Declared inside, used outside only.
        for (variable, hoisted) in hoists {
            if !found.contains_key(variable) {
                found.insert(variable.clone(), self.capture(variable, Some(hoisted))?);
            }
        }
        // A macro may take the name for something else as well, or for text.
        for variable in &in_arguments {
            let Some(capture) = found.get_mut(variable) else { continue };
            capture.by_value |= self.can_be_copied(capture);
            let is_word = |next: char| next.is_alphanumeric() || next == '_';
            let has_it = |text: &String| {
                let mut words = text.split(|next| !is_word(next));
                words.any(|word| word == variable.name || word.split('_').any(|part| part == variable.name))
            };
            let is_spelt = |(range, text): &(Range<usize>, String)| {
                capture.uses.iter().any(|at| range.contains(at)) && has_it(text)
            };
            if !capture.by_value && self.function.made.iter().any(is_spelt) && self.applies(Rule::Spelt) {
                return Err(Refusal::MacroSpells(variable.name.clone()));
            }
        }
        let mut names = BTreeSet::new();
        for capture in found.values() {
            let name = &capture.variable.name;
            let is_register =
                self.function.locals.get(&capture.variable).is_some_and(|local| local.is_register);
            if capture.by_value || is_register {
                self.check_copied(capture)?;
            }
            // The text of two variables of one name cannot be told apart where one of them is hoisted.
            if !names.insert(name) {
                return Err(Refusal::DeclaredInside(name.clone()));
            }
        }
        let is_register =
            |variable: &Variable| self.function.locals.get(variable).is_some_and(|local| local.is_register);
        let settled = |capture: Capture| Capture {
            by_value: capture.by_value || is_register(&capture.variable),
            is_register: is_register(&capture.variable),
            ..capture
        };
        Ok(found.into_values().map(settled).collect())
    }

    /// A compound literal has no name by which it could be declared elsewhere.
    fn check_literals(
        &self,
        held: &[&'a Node],
        block: &Node,
        tails: &[Range<usize>],
        contexts: &HashSet<Id>,
    ) -> Result<(), Refusal> {
        for literal in held.iter().filter(|node| node.kind == Kind::CompoundLiteral) {
            let ends_there = self.outlasts(literal, block, tails);
            let is_kept = || self.way(literal, false, contexts) == Way::Kept;
            if ends_there && self.applies(Rule::Outlives) && is_kept() {
                return Err(Refusal::Outlives("a compound literal".to_owned()));
            }
        }
        Ok(())
    }

    /// Whether what is declared somewhere has its block go on where the section is left, or gives its lock up: at the call site.
    fn outlasts(&self, declaration: &Node, block: &Node, tails: &[Range<usize>]) -> bool {
        let mut at = declaration;
        while let Some((around, _)) = self.parent(at) {
            if matches!(around.kind, Kind::Compound | Kind::For { .. }) {
                let has =
                    |tail: &Range<usize>| around.range.start <= tail.start && tail.end <= around.range.end;
                return id(around) == id(block) || tails.iter().any(has);
            }
            at = around;
        }
        true
    }

    /// The block, or what else has statements, that a variable is declared in.
    fn block_of(&self, declaration: &Node) -> Option<&'a Node> {
        let (statement, _) = self.parent(declaration)?;
        self.parent(statement).map(|(around, _)| around)
    }

    fn is_static(&self, variable: &Variable) -> bool {
        self.function.locals.get(variable).is_some_and(|local| local.is_static)
    }

    /// What a use of a variable does with its address, or that of a part of it; or what is done with an address.
    fn way(&self, node: &Node, is_address: bool, contexts: &HashSet<Id>) -> Way {
        let (mut is_address, mut way, mut is_cast) = (is_address, Way::Stays, false);
        let mut at = node;
        while let Some((around, number)) = self.parent(at) {
            // A section inside has become a closure, which has the address.
            if contexts.contains(&id(around)) {
                return Way::Passed;
            }
            let is_kept = if is_address { Way::Kept } else { way };
            match (&around.kind, around.gives) {
                // An atomic access of some sort.
                (Kind::Transparent, _) if around.children.len() > 1 => return is_kept,
                (Kind::Transparent, Gives::Decayed) => is_address = true,
                (Kind::Transparent, Gives::Same) => {}
                (Kind::Transparent, Gives::Address) if is_address => {}
                (Kind::Cast(_), _) => is_cast = true,
                (Kind::Unary(Unary::Address), _) => is_address = true,
                (Kind::Unary(Unary::Dereference), _) => is_address = false,
                // Of a structure that a call has returned.
                (Kind::Member { is_arrow: false, .. }, _) if is_address => {}
                (Kind::Member { .. }, _) => is_address = false,
                (Kind::Subscript, _) if is_address || number == 0 => is_address = false,
                (Kind::Binary(sign), gives) if matches!(sign.as_str(), "+" | "-" | ",") => {
                    if gives == Gives::Value && !is_cast {
                        return way;
                    }
                }
                (Kind::Binary(sign), _) if sign == "=" => return if number > 0 { is_kept } else { way },
                (Kind::Binary(sign), _) => {
                    let compares =
                        matches!(sign.as_str(), "==" | "!=" | "<" | ">" | "<=" | ">=" | "&&" | "||");
                    return if is_cast && !compares { is_kept } else { way };
                }
                (Kind::Call(_), gives) => {
                    if !is_address || number == 0 {
                        return way;
                    }
                    way = Way::Passed;
                    if gives != Gives::Address {
                        return way;
                    }
                }
                (
                    Kind::Other
                    | Kind::Conditional
                    | Kind::Size
                    | Kind::List
                    | Kind::CompoundLiteral
                    | Kind::Declaration(_)
                    | Kind::Return,
                    _,
                ) => return is_kept,
                (Kind::StatementExpression, _) => {}
                (Kind::Compound, _) => {
                    let gives_it = |(further, _): (&Node, _)| further.kind == Kind::StatementExpression;
                    if number + 1 < around.children.len() || !self.parent(around).is_some_and(gives_it) {
                        return way;
                    }
                }
                _ => return way,
            }
            at = around;
        }
        way
    }

    /// Whether a use of a variable needs that it has an address.
    fn needs_address(&self, node: &Node) -> bool {
        let mut is_address = false;
        let mut at = node;
        while let Some((around, number)) = self.parent(at) {
            match (&around.kind, around.gives) {
                (Kind::Transparent, Gives::Decayed) => is_address = true,
                (Kind::Transparent, Gives::Same) | (Kind::Member { is_arrow: false, .. }, _) => {}
                (Kind::Unary(Unary::Address), _) => return true,
                (Kind::Unary(Unary::Dereference), _) if is_address => is_address = false,
                (Kind::Subscript, _) if is_address && number == 0 => is_address = false,
                _ => return is_address,
            }
            at = around;
        }
        is_address
    }

    /// Whether a variable's block has a pause, so that its value must outlive one run of the closure.
    fn spans(&self, declaration: &Node, pauses: &[Range<usize>]) -> bool {
        let Kind::Declaration(variable) = &declaration.kind else { return false };
        let has_pause = |around: &Node| {
            pauses.iter().any(|it| around.range.start <= it.start && it.end <= around.range.end)
        };
        !self.is_static(variable)
            && self.applies(Rule::Survives)
            && self.block_of(declaration).is_none_or(has_pause)
    }

    /// Whether the function has nothing else of a variable's name.
    fn is_only(&self, variable: &Variable) -> bool {
        let is_other = |node: &Node| names_another(node, variable);
        self.function.locals.keys().all(|other| other == variable || other.name != variable.name)
            && !self.function.body.walk().any(is_other)
    }

    fn capture(&self, variable: &Variable, hoisted: Option<Hoisted>) -> Result<Capture, Refusal> {
        let name = || variable.name.clone();
        let local = self.function.locals.get(variable).ok_or_else(|| Refusal::UnnamedType(name()))?;
        match local.shape {
            Shape::Unnamed if self.applies(Rule::NamedTypes) => return Err(Refusal::UnnamedType(name())),
            Shape::VariableArray if self.applies(Rule::VariableArrays) => {
                return Err(Refusal::VariableArray(name()));
            }
            _ => {}
        }
        // What cannot be written is declared before it has its value, and written once.
        let plain = local.plain_type.as_ref().filter(|_| hoisted.is_some());
        Ok(Capture {
            variable: variable.clone(),
            type_name: plain.unwrap_or(&local.type_name).clone(),
            uses: BTreeSet::new(),
            by_value: false,
            is_register: local.is_register,
            is_const: local.is_const && plain.is_none(),
            is_set: false,
            hoisted,
        })
    }

    /// A copy stands for the variable if nobody has its address.
    fn check_copied(&self, capture: &Capture) -> Result<(), Refusal> {
        if self.can_be_copied(capture) || !self.applies(Rule::Copied) {
            return Ok(());
        }
        Err(Refusal::MacroNames(capture.variable.name.clone()))
    }

    fn can_be_copied(&self, capture: &Capture) -> bool {
        let variable = &capture.variable;
        let has_address = self.function.body.walk().any(|node| {
            matches!(&node.kind, Kind::Local(used) if used == variable) && self.needs_address(node)
        });
        // Other threads may change a static variable meanwhile.
        let is_fixed = self
            .function
            .locals
            .get(variable)
            .is_none_or(|local| local.shape == Shape::Array || local.is_static && !local.is_const);
        !has_address && !is_fixed && capture.hoisted.is_none()
    }

    /// Whether one of the section's first statements, each of which is run once, gives a variable a value, and nothing has its address. Its
    /// address need not leave the function then, so that a compiler that knows what the variable has still knows it.
    fn is_set_first(&self, capture: &Capture, body: &[&Node], held: &[&Node]) -> bool {
        let variable = &capture.variable;
        let is_it = |node: &Node| matches!(&node.kind, Kind::Local(used) if used == variable);
        let names = |node: &Node| node.walk().any(is_it);
        let sets = |node: &Node| match (&node.kind, node.children.as_slice()) {
            (Kind::Binary(sign), [to, value]) => sign == "=" && is_it(to.bare()) && !names(value),
            _ => false,
        };
        let is_step = |node: &Node| {
            let is_simple = matches!(node.kind, Kind::Binary(_) | Kind::Unary(_) | Kind::Call(_));
            let has_statements = |inner: &Node| inner.kind == Kind::StatementExpression;
            is_simple && !node.walk().any(has_statements) && self.lock_calls(node).next().is_none()
        };
        let local = self.function.locals.get(variable);
        let is_plain = local.is_some_and(|local| local.is_plain && !local.is_static && !local.is_register);
        let first = body.iter().find(|node| !is_step(node) || names(node));
        if !is_plain
            || capture.by_value
            || capture.hoisted.is_some()
            || !first.is_some_and(|node| !node.from_macro && is_step(node) && sets(node))
        {
            return false;
        }
        let all: Vec<&Node> = self.function.body.walk().collect();
        let uses: Vec<&Node> = all.iter().copied().filter(|node| is_it(node)).collect();
        // Closures that there are already have it while they run.
        let contexts = contexts(&all);
        let has_address = |node: &&Node| !contexts.contains(&id(node)) && self.needs_address(node);
        // Where nothing reads it, the compiler would warn of a variable that is only set.
        let in_section: HashSet<Id> = held.iter().map(|node| id(node)).collect();
        let is_target = |node: &Node| {
            let around = self.parent(node);
            around.is_some_and(|(around, number)| number == 0 && around.kind == Kind::Binary("=".to_owned()))
        };
        let is_read = |node: &&Node| !in_section.contains(&id(node)) && !is_target(node);
        !uses.iter().any(has_address) && uses.iter().any(is_read)
    }

    /// Whether no more of a declaration comes from a macro than `bool`, which is one.
    fn is_bool(&self, variable: &Variable, statement: &Node) -> bool {
        let before = self.text.get(statement.range.start..variable.declared).unwrap_or_default();
        let words: Vec<&str> = before.split_whitespace().collect();
        matches!(words.as_slice(), ["bool"] | ["const", "bool"] | ["bool", "const"])
    }

    /// A declaration of one variable, which can become an assignment. Nothing of `at_call`, which runs at the call site, may have
    /// another meaning for it.
    fn hoisted(
        &self,
        variable: &Variable,
        declaration: &Node,
        block: &Node,
        at_call: &[&Node],
    ) -> Result<Hoisted, Refusal> {
        let refused = || Refusal::DeclaredInside(variable.name.clone());
        let (statement, _) = self.parent(declaration).ok_or_else(refused)?;
        let (around, number) = self.parent(statement).ok_or_else(refused)?;
        let local = self.function.locals.get(variable).ok_or_else(refused)?;
        let hides = |node: &&Node| names_another(node, variable);
        let is_plain = statement.kind == Kind::Declarations
            && statement.children.len() == 1
            && (!declaration.from_macro || self.is_bool(variable, statement))
            && (id(around) == id(block) || self.is_only(variable))
            && !at_call.iter().any(hides)
            && matches!(local.shape, Shape::Value | Shape::Array)
            && (!local.is_const || local.plain_type.is_some())
            && !(local.shape == Shape::Array && local.has_constants)
            && !local.is_static;
        if !is_plain && self.applies(Rule::Hoisted) {
            return Err(refused());
        }
        if local.has_attributes && self.applies(Rule::Attributes) {
            return Err(Refusal::Attributes(variable.name.clone()));
        }
        let range = statement.range.start..self.end(statement);
        let text = self.text_of(variable.declared..range.end)?;
        let value = find_in_code(text, '=').map(|at| variable.declared + at + 1);
        let is_list = declaration.children.last().is_some_and(|last| last.bare().kind == Kind::List);
        let assigned = match (local.shape == Shape::Array, local.has_constants, is_list) {
            (true, _, false) => Assigned::CopiedString,
            (true, _, true) | (_, true, true) => Assigned::CopiedBraced,
            (false, true, false) => Assigned::Copied,
            (false, false, true) => Assigned::Braced,
            (false, false, false) => Assigned::Plainly,
        };
        let next = around.children.get(number + 1);
        Ok(Hoisted {
            statement: range,
            value,
            assigned,
            alignment: local.alignment.clone(),
            is_inner: id(around) != id(block),
            goes_before_another: next.is_some_and(|next| next.kind == Kind::Declarations),
        })
    }

    fn warnings(&self, plan: &Plan) -> Vec<String> {
        // What runs at the call site is in the function's own thread, and in the function.
        let moved =
            || plan.exits.iter().map(|exit| &exit.range).chain(plan.pauses.iter().map(|pause| &pause.range));
        let runs_inside = |node: &&Node| {
            let at = node.range.start;
            plan.slice.contains(&at) && !moved().any(|range| range.contains(&at))
        };
        let mut found = BTreeSet::new();
        for node in self.function.body.walk().filter(runs_inside) {
            match &node.kind {
                Kind::Call(name) if means_the_thread(name) => {
                    found.insert(format!("{name} answers for the server's thread"))
                }
                Kind::ThreadLocal(name) => found.insert(format!("`{name}` is the server's")),
                Kind::FunctionName(name) => found.insert(format!("`{name}` is the closure's name")),
                _ => false,
            };
        }
        found.into_iter().collect()
    }
}

/// What becomes of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    /// It is used at once.
    Stays,
    /// Something that is called gets it.
    Passed,
    /// Something has it afterwards.
    Kept,
}

/// A pause while it is looked at.
struct Paused<'a> {
    pause: Pause,
    condition: Option<&'a Node>,
    /// The statements between the release and the acquisition.
    between: Vec<&'a Node>,
    /// The statements that release, acquire or wait.
    calls: Vec<&'a Node>,
}

/// A release while it is looked at.
struct Release<'a> {
    release: &'a Node,
    /// The tail's statements.
    nodes: Vec<&'a Node>,
    /// A `break` behind them, which the call site does without.
    dropped: Option<&'a Node>,
    range: Range<usize>,
    tail: Range<usize>,
    is_last: bool,
}

/// How many of the statements behind a release are run before a label or a `case` that nothing falls into: what is behind that is
/// reached otherwise.
fn tail_before_label(behind: &[Node]) -> Option<usize> {
    let label = behind.iter().position(|node| matches!(node.kind, Kind::Label(_) | Kind::Case { .. }))?;
    // What is declared there would be declared elsewhere.
    let declares = behind[..label].iter().any(|node| node.kind == Kind::Declarations);
    (!declares && behind[..label].last().is_some_and(ends_flow)).then_some(label)
}

/// Whether nothing that follows a statement is reached from it.
fn ends_flow(node: &Node) -> bool {
    match (&node.kind, node.children.as_slice()) {
        (Kind::Return | Kind::Break | Kind::Continue | Kind::Goto(_), _) => true,
        (Kind::Compound, [.., last]) => ends_flow(last),
        (Kind::If, [_, one, other]) => ends_flow(one) && ends_flow(other),
        _ => without_void(node).never_returns,
    }
}

/// The preprocessor's lines in a text, without `#`.
fn directives(text: &str) -> impl Iterator<Item = String> {
    text.lines().filter_map(|line| Some(line.trim_start().strip_prefix('#')?.trim_start().to_owned()))
}

/// A line without the comment at its end; `None` if something else follows that, or it does not end there.
fn without_comment(line: &str) -> Option<&str> {
    match (line.find("//"), line.find("/*")) {
        _ if line.ends_with('\\') => None,
        (None, None) => Some(line),
        (Some(at), None) => Some(&line[..at]),
        (None, Some(at)) => {
            let (_, behind) = line[at + 2..].split_once("*/")?;
            behind.trim().is_empty().then_some(&line[..at])
        }
        (Some(_), Some(_)) => None,
    }
}

/// Where a text has a sign, other than in a comment.
fn find_in_code(text: &str, sign: char) -> Option<usize> {
    let mut at = 0;
    loop {
        let rest = text.get(at..)?;
        let end = if rest.starts_with("/*") {
            rest.find("*/").map(|end| end + 2)?
        } else if rest.starts_with("//") {
            rest.find('\n')?
        } else if rest.starts_with(sign) {
            return Some(at);
        } else {
            rest.chars().next()?.len_utf8()
        };
        at += end;
    }
}

/// Whether a text that is not compiled has a word, other than in a comment.
fn has_word(text: &str, is_it: impl Fn(&str) -> bool) -> bool {
    let mut code = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("/*") {
        code.push_str(&rest[..at]);
        code.push(' ');
        rest = rest[at..].split_once("*/").map_or("", |(_, behind)| behind);
    }
    code.push_str(rest);
    code.lines()
        .map(|line| line.split_once("//").map_or(line, |(line, _)| line))
        .flat_map(|line| line.split(|next: char| next != '_' && !next.is_alphanumeric()))
        .any(is_it)
}

/// Whether a node is another use of a variable's name.
fn names_another(node: &Node, variable: &Variable) -> bool {
    match &node.kind {
        Kind::Name(name) | Kind::ThreadLocal(name) => *name == variable.name,
        Kind::Local(other) | Kind::Declaration(other) | Kind::InnerName(other) => {
            other.name == variable.name && other != variable
        }
        _ => false,
    }
}

/// Whether an expression is a variable, or a part of its memory.
fn is_part(node: &Node, variable: &Variable) -> bool {
    is_part_of(node, &|node| matches!(&node.kind, Kind::Local(name) if name == variable))
}

/// Whether an expression is what is asked for, or a part of its memory.
fn is_part_of(node: &Node, is_it: &dyn Fn(&Node) -> bool) -> bool {
    let node = node.bare();
    match (&node.kind, node.children.first()) {
        (Kind::Member { is_arrow: false, .. } | Kind::Subscript, Some(of)) => is_part_of(of, is_it),
        _ => is_it(node),
    }
}

/// The contexts of sections inside that have become closures: they have the addresses of what those name. What they write was looked at
/// before.
fn contexts(nodes: &[&Node]) -> HashSet<Id> {
    let is_context = |node: &&&Node| matches!(&node.kind, Kind::Declaration(variable) if variable.name.starts_with("lockwork_"));
    nodes.iter().filter(is_context).flat_map(|node| node.walk().map(id)).collect()
}

/// The memory that a node writes. What a member's address is passed on for is not known.
fn written_place(node: &Node) -> Option<String> {
    match (&node.kind, node.children.first()) {
        (Kind::Binary(operator), Some(to)) if is_assignment(operator) => to.place(),
        (Kind::Unary(Unary::Step), Some(of)) => of.place(),
        (Kind::Unary(Unary::Address), Some(of)) if matches!(of.bare().kind, Kind::Member { .. }) => {
            of.place()
        }
        _ => None,
    }
}

/// The memory that something in a lock's name is read from, which is no local variable.
fn places_read(node: &Node) -> Vec<String> {
    match (&node.computes, &node.kind) {
        (Some(reads), _) => {
            // A structure that has the members may be written as a whole.
            let reads_given = reads.pointees || !reads.members.is_empty();
            let given = node.children.iter().skip(1).filter(|_| reads_given);
            given.filter_map(Node::pointee).chain(reads.members.iter().cloned()).collect()
        }
        (None, Kind::Local(_)) => Vec::new(),
        _ => node.places(),
    }
}

/// Whether a node writes a local variable, or passes its address on.
fn writes(node: &Node, variable: &Variable) -> bool {
    writes_part(node, &|node| matches!(&node.kind, Kind::Local(name) if name == variable))
}

/// The same of what is asked for.
fn writes_part(node: &Node, is_it: &dyn Fn(&Node) -> bool) -> bool {
    let is_part = |inner: &Node| is_part_of(inner, is_it);
    match (&node.kind, node.children.first()) {
        (Kind::Binary(operator), Some(first)) => is_assignment(operator) && is_part(first),
        (Kind::Unary(Unary::Address | Unary::Step), Some(first)) => is_part(first),
        _ => false,
    }
}
