//! Functions as owned trees, read of libclang's: [`kinds`] says what each node is, [`local`] what is to be known of variables, and
//! [`effects`] what calls do.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ops::Range;
use std::ptr;

#[allow(clippy::wildcard_imports, reason = "its names all begin with clang_ or CX")]
use clang_sys::*;

use super::cursor::{
    EXPANDED, SPELT, WRITTEN, children, end_of, is_in_system_header, is_same, is_same_file, kind,
    location_of, offset, parent_of, spelling, start_of,
};
use super::types::{kind_of, type_of};
use crate::tree::{Function, Gives, Kind, Local, Node, Variable};
use crate::vocabulary::{Expansion, Vocabulary};

mod effects;
mod kinds;
mod local;
mod tokens;

use effects::CALLS_WITHOUT_EFFECT;
use kinds::gives;

pub(super) struct Reader<'a> {
    unit: CXTranslationUnit,
    /// The file's own text.
    text: &'a str,
    vocabulary: &'a Vocabulary,
    /// How far the function that is read has been read.
    read: Cell<Progress>,
    /// The names of the file's variables, and those of members with a dot in front, that are arrays wherever the function has them.
    arrays: RefCell<HashMap<String, bool>>,
    /// What is read is in the arguments of a call that does something to a lock.
    names_lock: Cell<bool>,
    /// The strings and names that the function's macros have, and the text of the macro.
    made: RefCell<Vec<(Range<usize>, String)>>,
}

/// How far a function has been read.
#[derive(Clone, Copy)]
struct Progress {
    /// The file that it is in.
    file: CXFile,
    /// Where what was read last begins there.
    at: usize,
    /// Something of it is in another file.
    is_elsewhere: bool,
}

impl Default for Progress {
    fn default() -> Self {
        Self { file: ptr::null_mut(), at: 0, is_elsewhere: false }
    }
}

impl<'a> Reader<'a> {
    /// That of a unit; of functions of the file with the text `text`.
    pub(super) fn new(unit: CXTranslationUnit, text: &'a str, vocabulary: &'a Vocabulary) -> Self {
        Self {
            unit,
            text,
            vocabulary,
            read: Cell::default(),
            arrays: RefCell::default(),
            names_lock: Cell::default(),
            made: RefCell::default(),
        }
    }

    /// The function that a cursor at the top of the file defines: in the file itself, or in one of the program's headers.
    pub(super) fn function(&self, cursor: CXCursor, in_file: bool) -> Option<Function> {
        if kind(cursor) != CXCursor_FunctionDecl {
            return None;
        }
        let location = location_of(cursor);
        // A name that a macro has, or is given, is in no file by itself: the place where the macro is used is.
        let (file, at) = offset(location, WRITTEN);
        let is_of_file = !file.is_null() && is_same_file(file, self.main_file());
        if is_of_file != in_file || is_in_system_header(location) {
            return None;
        }
        let below = children(cursor);
        let is_body = |child: &&CXCursor| kind(**child) == CXCursor_CompoundStmt;
        let body = *below.iter().find(is_body)?;
        let mut locals = HashMap::new();
        self.read.set(Progress { file, at, is_elsewhere: false });
        let is_parameter = |child: &&CXCursor| kind(**child) == CXCursor_ParmDecl;
        for parameter in below.iter().filter(is_parameter) {
            self.note_local(*parameter, &mut locals);
        }
        let (range, from_macro) = self.range(cursor);
        let body = self.node(body, &mut locals);
        let begins_in_macro = body.from_macro || in_file && from_macro && begins_with_another(cursor);
        let arrays = self.arrays.take().into_iter().filter(|(_, is_array)| *is_array).map(|(name, _)| name);
        Some(Function {
            name: spelling(cursor),
            range,
            body,
            locals,
            is_elsewhere: self.read.get().is_elsewhere,
            begins_in_macro,
            arrays: arrays.collect(),
            made: self.made.take(),
        })
    }

    /// The file that the unit is of.
    fn main_file(&self) -> CXFile {
        // SAFETY: the unit is alive.
        let name = unsafe { clang_getTranslationUnitSpelling(self.unit) };
        // SAFETY: a string of libclang, which is freed behind its only use.
        let path = unsafe { clang_getCString(name) };
        // SAFETY: as above, of the unit, which is alive.
        let file = unsafe { clang_getFile(self.unit, path) };
        // SAFETY: got above.
        unsafe { clang_disposeString(name) };
        file
    }

    /// The text that a cursor comes from, and whether it begins in the body of a macro.
    fn range(&self, cursor: CXCursor) -> (Range<usize>, bool) {
        let start = start_of(cursor);
        let (file, first) = offset(start, WRITTEN);
        let from_macro = (file, first) != offset(start, SPELT);
        let read = self.read.get();
        if !file.is_null() && !read.file.is_null() && !is_same_file(file, read.file) {
            self.read.set(Progress { is_elsewhere: true, ..read });
            return (read.at..read.at, from_macro);
        }
        let (_, last) = offset(end_of(cursor), WRITTEN);
        self.read.set(Progress { at: first, ..read });
        (first..last.max(first), from_macro)
    }

    /// The tree below a cursor.
    fn node(&self, cursor: CXCursor, locals: &mut HashMap<Variable, Local>) -> Node {
        let (range, from_macro) = self.range(cursor);
        let below = children(cursor);
        let sort = kind(cursor);
        if sort == CXCursor_VarDecl {
            self.note_local(cursor, locals);
        }
        // A function that is declared in another one has the parameters that a header has given it, which are not in this text.
        let function_name = self.function_name(cursor);
        let is_closed = sort == CXCursor_FunctionDecl || function_name.is_some();
        let read = if is_closed { &[][..] } else { &below[..] };
        let is_of_lock = sort == CXCursor_CallExpr && self.vocabulary.has(&spelling(cursor));
        let names_lock = self.names_lock.replace(self.names_lock.get() || is_of_lock);
        let children: Vec<Node> = read.iter().map(|child| self.node(*child, locals)).collect();
        self.names_lock.set(names_lock);
        if from_macro
            && let Some(expansion) = self.vocabulary.expansion(self.text, range.start)
            && range.end <= expansion.range.end
        {
            return lock_macro(expansion, &children);
        }
        let kind = function_name.unwrap_or_else(|| self.kind(cursor, &below));
        self.note_array(cursor, &kind);
        if from_macro {
            self.note_made(cursor, &range);
        }
        let gives = gives(cursor, &below);
        let in_argument = !from_macro && is_in_argument(cursor);
        let never_returns = self.never_returns(cursor, &below);
        let is_asked = names_lock && matches!(kind, Kind::Call(_));
        let computes = is_asked.then(|| self.computes(cursor, CALLS_WITHOUT_EFFECT)).flatten();
        let node = Node { kind, range, from_macro, in_argument, gives, never_returns, computes, children };
        match self.vocabulary.checked(&node) {
            Some(call) => {
                let call = call.clone();
                let (kind, gives) = (Kind::Transparent, Gives::Value);
                Node { kind, gives, children: vec![call], ..node }
            }
            None => node,
        }
    }

    /// Notes whether what a cursor names is an array.
    fn note_array(&self, cursor: CXCursor, kind: &Kind) {
        let name = match kind {
            Kind::Name(name) => name.clone(),
            Kind::Member { name, .. } => format!(".{name}"),
            _ => return,
        };
        let is_array = matches!(kind_of(type_of(cursor)), CXType_ConstantArray | CXType_IncompleteArray);
        *self.arrays.borrow_mut().entry(name).or_insert(true) &= is_array;
    }

    /// Notes a string that a macro has, or a name that it makes.
    fn note_made(&self, cursor: CXCursor, range: &Range<usize>) {
        let is_nowhere = |location| offset(location, SPELT).0.is_null();
        let is_made = match kind(cursor) {
            CXCursor_StringLiteral => true,
            // A member's name is where its cursor is.
            CXCursor_MemberRefExpr if is_nowhere(location_of(cursor)) => true,
            // What begins with a word that is in no file has been made of others.
            _ => is_nowhere(start_of(cursor)),
        };
        if is_made && !self.is_asserted(range.start) {
            self.made.borrow_mut().push((range.clone(), spelling(cursor)));
        }
    }

    /// Whether what begins at a place in the text is an assertion: what it says of itself when it fails may be worded otherwise.
    fn is_asserted(&self, at: usize) -> bool {
        let word = self.text.get(at..).and_then(|text| text.strip_prefix("assert"));
        word.is_some_and(|rest| rest.trim_start().starts_with('('))
    }
}

/// Whether another declaration begins where that of a function does: in one macro.
fn begins_with_another(function: CXCursor) -> bool {
    let first = offset(start_of(function), WRITTEN);
    let is_other = |other: &CXCursor| !is_same(*other, function);
    let begins_there = |other: &CXCursor| offset(start_of(*other), WRITTEN) == first;
    children(parent_of(function)).iter().any(|other| is_other(other) && begins_there(other))
}

/// The use of a macro that does something to a lock, of which only the lock and the variables that it names count.
fn lock_macro(expansion: Expansion, children: &[Node]) -> Node {
    let mut named: Vec<Node> = children
        .iter()
        .flat_map(Node::walk)
        .filter(|node| matches!(node.kind, Kind::Local(_)))
        .map(|node| Node { children: Vec::new(), ..node.clone() })
        .collect();
    // A macro may name its argument several times.
    named.sort_by_key(|node| (node.range.start, node.from_macro));
    named.dedup_by(|one, other| one.range.start == other.range.start && one.kind == other.kind);
    let Expansion { what, lock, range } = expansion;
    let node = |kind, children| Node {
        kind,
        range: range.clone(),
        from_macro: true,
        in_argument: false,
        gives: Gives::Value,
        never_returns: false,
        computes: None,
        children,
    };
    node(Kind::Macro(what), vec![node(Kind::Text(lock), named)])
}

/// Whether what is written in the file is an argument of a macro.
fn is_in_argument(cursor: CXCursor) -> bool {
    let start = start_of(cursor);
    offset(start, WRITTEN) != offset(start, EXPANDED)
}
