//! What calls do to mutexes and conditions: POSIX's functions, the program's wrappers, and functions that mutexes are passed to.

#[allow(clippy::wildcard_imports, reason = "its names all begin with clang_ or CX")]
use clang_sys::*;

use super::origins::fresh;
use super::{Walker, is_object, sort};
use crate::clang::cursor::{
    WRITTEN, arguments, bare, children, end_of, has, has_no_linkage, is_of_system, is_same, kind, name_of,
    referenced, spelling, value,
};
use crate::clang::types::{pointee, result, type_of};
use crate::locks::{Call, Fact, Origin, Place, Use};
use crate::vocabulary::Action;

/// POSIX's functions: what each does.
fn posix(name: &str) -> Option<Use> {
    Some(match name {
        "pthread_mutex_init" | "pthread_cond_init" => Use::Init,
        "pthread_mutex_destroy" | "pthread_cond_destroy" => Use::Destroy,
        "pthread_mutex_lock" => Use::Lock,
        "pthread_mutex_unlock" => Use::Unlock,
        "pthread_mutex_trylock" => Use::Try,
        "pthread_cond_wait" => Use::Wait,
        "pthread_cond_timedwait" => Use::TimedWait,
        "pthread_cond_signal" => Use::Signal,
        "pthread_cond_broadcast" => Use::Broadcast,
        _ if name.starts_with("pthread_mutex_") || name.starts_with("pthread_cond_") => Use::Foreign,
        _ => return None,
    })
}

/// Functions by which attributes say that a mutex knows the thread which holds it.
const OWNING: [&str; 4] = [
    "pthread_mutexattr_settype",
    "pthread_mutexattr_setrobust",
    "pthread_mutexattr_setrobust_np",
    "pthread_mutexattr_setprotocol",
];

/// Whether what such a function is told is `PTHREAD_MUTEX_NORMAL` or `PTHREAD_MUTEX_ADAPTIVE_NP`, or the same of the others.
fn leaves_it_plain(kind: CXCursor) -> bool {
    matches!(value(kind), Some(0 | 3))
}

/// Functions that copy or move what their first arguments, so many, point to.
const COPIERS: [(&str, usize); 5] =
    [("realloc", 1), ("reallocarray", 1), ("memcpy", 2), ("memmove", 2), ("__builtin_memcpy", 2)];

impl Walker<'_> {
    /// A function that is named and not called may be called with any mutex.
    pub(super) fn function_passed(&mut self, cursor: CXCursor) {
        let of = referenced(cursor);
        if kind(of) != CXCursor_FunctionDecl {
            return;
        }
        let is_begun = |begun: &CXCursor| has(*begun, &|it| is_same(it, cursor));
        if !self.begun.iter().any(is_begun) {
            self.called_elsewhere(of);
        }
        let how = "it comes by a function's address";
        for parameter in arguments(of).into_iter().filter(|it| sort(type_of(*it)).is_some()) {
            self.keep(self.thing(parameter), cursor, how);
        }
        if sort(result(of)).is_some() {
            self.keep(format!("{}#r", name_of(of)), cursor, how);
        }
    }

    /// Notes what a call does to the mutexes of its arguments.
    pub(super) fn call(&mut self, cursor: CXCursor, below: &[CXCursor]) {
        let name = spelling(cursor);
        let function = referenced(cursor);
        let all = arguments(cursor);
        let is_function = kind(function) == CXCursor_FunctionDecl;
        self.copied_by(&name, cursor, &all);
        self.passes(cursor, function, &all);
        if OWNING.contains(&name.as_str()) && !all.get(1).is_some_and(|kind| leaves_it_plain(*kind)) {
            self.facts.push(Fact::OwnedKind);
        }
        // What is called is looked at only where it is no plain name.
        if let Some(callee) = below.first().filter(|_| !is_function) {
            self.visit(*callee, false);
        }
        if is_function && let Some(does) = posix(&name) {
            self.posix_call(cursor, &name, does, &all);
            for argument in all {
                self.visit(argument, true);
            }
            return;
        }
        let is_program = is_function && !is_of_system(function);
        if is_program && let Some((action, number)) = self.vocabulary.wrapper(&name) {
            self.wrapper_call(cursor, &name, action, all.get(number).copied());
        }
        let parameters = arguments(function);
        for (number, argument) in all.iter().enumerate() {
            let is_ours = sort(type_of(*argument)).is_some();
            let parameter = parameters.get(number).filter(|it| is_program && sort(type_of(**it)).is_some());
            if is_ours && parameter.is_some() {
                let thing = format!("{}#{number}", name_of(function));
                self.same(&thing, *argument);
                let at = self.place(cursor);
                self.facts.push(Fact::Parameter { function: name_of(function), thing, at });
                self.visit(*argument, true);
            } else {
                let is_freed = name == "free";
                self.visit(if is_freed { bare(*argument) } else { *argument }, is_freed);
            }
        }
    }

    /// What a call copies or moves takes its mutexes with it.
    fn copied_by(&mut self, name: &str, cursor: CXCursor, all: &[CXCursor]) {
        let copied = COPIERS.iter().find(|(copier, _)| *copier == name).map_or(0, |(_, count)| *count);
        for argument in all.iter().take(copied).map(|argument| bare(*argument)) {
            let Some(to) = pointee(type_of(argument)) else { continue };
            self.copied(to, cursor, "it is copied or moved with its structure");
            if is_object(to) && copied == 1 {
                self.escapes(argument, "it is moved");
            }
        }
    }

    /// A call that does something to what `of` has, of which nothing else is to be known.
    fn plain_call(&mut self, cursor: CXCursor, name: &str, does: Use, of: Origin) -> Call {
        Call {
            name: name.to_owned(),
            does,
            of,
            condition: None,
            at: self.place(cursor),
            token: None,
            is_wrapper: false,
            is_shared: false,
            argument: None,
        }
    }

    /// A call of one of the program's wrappers.
    fn wrapper_call(&mut self, cursor: CXCursor, name: &str, action: Action, of: Option<CXCursor>) {
        let does = match action {
            Action::Lock => Use::Lock,
            Action::Unlock => Use::Unlock,
            Action::Try | Action::Wait => Use::Foreign,
        };
        let of = match of {
            Some(of) if sort(type_of(of)).is_some() => self.origin(of),
            _ => Origin::Unknown,
        };
        let call = Call { is_wrapper: true, ..self.plain_call(cursor, name, does, of) };
        self.facts.push(Fact::Call(call));
    }

    /// A call of one of POSIX's functions, which `does` something.
    fn posix_call(&mut self, cursor: CXCursor, name: &str, does: Use, all: &[CXCursor]) {
        let waits = matches!(does, Use::Wait | Use::TimedWait);
        let (of, condition) = if waits { (all.get(1), all.first()) } else { (all.first(), None) };
        let Some(of) = of.copied() else { return };
        let of = self.origin(of);
        if name == "pthread_cond_clockwait"
            && let Some(mutex) = all.get(1)
        {
            // The mutex's use as well as the condition's.
            let of = self.origin(*mutex);
            let call = self.plain_call(cursor, name, does, of);
            self.facts.push(Fact::Call(call));
        }
        let condition = condition.map(|condition| self.origin(*condition));
        let token = self.token(cursor, name);
        // The body of a macro keeps its arguments.
        let is_in_macro = token.as_ref().is_some_and(|token| *token != self.place(cursor));
        let is_shared = is_in_macro && name == "pthread_cond_init";
        let (does, argument) = match all.get(1) {
            Some(attributes) if does == Use::Init => {
                self.initialised_by(cursor, &of, all[0], *attributes, is_shared)
            }
            _ => (does, None),
        };
        let plain = self.plain_call(cursor, name, does, of);
        self.facts.push(Fact::Call(Call { condition, token, is_shared, argument, ..plain }));
    }

    /// What a call that initialises does for a delegate, and the text to put elsewhere in it: delegates take no attributes.
    fn initialised_by(
        &mut self,
        cursor: CXCursor,
        of: &Origin,
        first: CXCursor,
        attributes: CXCursor,
        is_shared: bool,
    ) -> (Use, Option<(Place, usize, &'static str)>) {
        let is_condition = spelling(cursor) == "pthread_cond_init";
        let is_plain = fresh(attributes) == Origin::Fresh;
        if !is_plain && (is_condition || !self.are_harmless(attributes)) {
            if !is_condition {
                let at = self.place(cursor);
                self.facts.push(Fact::Owned { origin: of.clone(), at, by_attributes: true });
            }
            return (Use::Foreign, None);
        }
        if is_plain && (!is_condition || is_shared) {
            return (Use::Init, None);
        }
        match self.replaced(cursor, first, attributes, is_condition) {
            Some(argument) => (Use::Init, Some(argument)),
            None => (Use::Foreign, None),
        }
    }

    /// The text of a call's last argument and what comes in its place: nothing, its comma with it, or null.
    fn replaced(
        &mut self,
        call: CXCursor,
        first: CXCursor,
        last: CXCursor,
        is_dropped: bool,
    ) -> Option<(Place, usize, &'static str)> {
        let end = |walker: &Self, cursor| walker.paths.place(end_of(cursor), WRITTEN);
        // In a macro the text is another.
        let at = self.place(call);
        if self.token(call, &spelling(call)).as_ref() != Some(&at) {
            return None;
        }
        let first_end = end(self, first)?.offset;
        let last_start = self.place(last).offset;
        let close = end(self, call)?.offset.checked_sub(1)?;
        let start = if is_dropped { first_end } else { last_start };
        let text = (self.text)(&at.file)?;
        let is_whole =
            text.get(start..close)?.contains(',') == is_dropped && text.get(close..)?.starts_with(')');
        let length = close.checked_sub(start)?;
        let place = Place { file: at.file, offset: start };
        is_whole.then_some((place, length, if is_dropped { "" } else { "0" }))
    }

    /// Whether attributes are a local variable that only ever is given a plain type.
    fn are_harmless(&self, attributes: CXCursor) -> bool {
        let (Some(variable), Some(function)) = (named_by_address(attributes), self.function) else {
            return false;
        };
        let is_it = |cursor: CXCursor| is_same(referenced(cursor), variable);
        let (mut uses, mut harmless) = (0, 0);
        let mut work = children(function);
        while let Some(cursor) = work.pop() {
            if kind(cursor) == CXCursor_DeclRefExpr && is_it(cursor) {
                uses += 1;
            }
            if kind(cursor) == CXCursor_CallExpr {
                harmless += usize::from(is_harmless(cursor, variable));
            }
            work.extend(children(cursor));
        }
        has_no_linkage(variable) && uses == harmless
    }
}

/// The variable that an expression is the address of.
fn named_by_address(cursor: CXCursor) -> Option<CXCursor> {
    let address = bare(cursor);
    let name = children(address).first().copied().map(bare)?;
    (kind(address) == CXCursor_UnaryOperator && kind(name) == CXCursor_DeclRefExpr).then(|| referenced(name))
}

/// Whether a call does to attributes in a variable what leaves mutexes plain, or has a mutex initialised by them.
fn is_harmless(call: CXCursor, variable: CXCursor) -> bool {
    let all = arguments(call);
    let takes = |number: usize| {
        let of = all.get(number).copied().and_then(named_by_address);
        of.is_some_and(|of| is_same(of, variable))
    };
    match spelling(call).as_str() {
        "pthread_mutexattr_init" | "pthread_mutexattr_destroy" => takes(0),
        "pthread_mutex_init" => takes(1),
        "pthread_mutexattr_settype" => takes(0) && all.get(1).is_some_and(|kind| leaves_it_plain(*kind)),
        _ => false,
    }
}
