//! Where the address of a mutex comes from, and by what name in the program a declaration goes.

#[allow(clippy::wildcard_imports, reason = "its names all begin with clang_ or CX")]
use clang_sys::*;

use super::initialisers::value_of;
use super::{Walker, is_object, sort};
use crate::clang::cursor::{
    WRITTEN, arguments, bare, children, has, has_no_linkage, is_assignment, is_of_system, is_same, kind,
    location_of, name_of, parent_of, referenced, spelling,
};
use crate::clang::types::type_of;
use crate::locks::{Fact, Origin, Thing};

/// Functions that give memory.
pub(super) const ALLOCATORS: [&str; 6] =
    ["malloc", "calloc", "realloc", "reallocarray", "aligned_alloc", "memalign"];

impl Walker<'_> {
    /// The thing that a declaration is.
    pub(super) fn thing(&self, cursor: CXCursor) -> Thing {
        let parent = parent_of(cursor);
        if kind(cursor) == CXCursor_ParmDecl && kind(parent) == CXCursor_FunctionDecl {
            let is_it = |other: &CXCursor| is_same(*other, cursor);
            if let Some(number) = arguments(parent).iter().position(is_it) {
                return format!("{}#{number}", name_of(parent));
            }
        }
        let is_local = has_no_linkage(cursor);
        let name = name_of(cursor);
        if is_local && !matches!(kind(cursor), CXCursor_FieldDecl | CXCursor_TypedefDecl) || name.is_empty() {
            let place = self.paths.place(location_of(cursor), WRITTEN);
            return place.map_or(name, |place| format!("local {}:{}", place.file.display(), place.offset));
        }
        name
    }

    /// What an expression of a mutex's type has.
    pub(super) fn origin(&mut self, cursor: CXCursor) -> Origin {
        let below = children(cursor);
        match (kind(cursor), below.as_slice()) {
            (CXCursor_DeclRefExpr | CXCursor_MemberRefExpr, _) => {
                let of = referenced(cursor);
                let is_known = matches!(kind(of), CXCursor_VarDecl | CXCursor_FieldDecl | CXCursor_ParmDecl);
                if !is_known || is_of_system(of) || sort(type_of(of)).is_none() {
                    return Origin::Unknown;
                }
                Origin::Of(self.thing(of))
            }
            (CXCursor_CallExpr, _) => {
                let function = referenced(cursor);
                if kind(function) != CXCursor_FunctionDecl || is_of_system(function) {
                    return Origin::Unknown;
                }
                Origin::Of(format!("{}#r", name_of(function)))
            }
            (CXCursor_ParenExpr | CXCursor_UnexposedExpr, [inner])
            | (CXCursor_CStyleCastExpr, [.., inner]) => self.origin_of_inner(*inner),
            (CXCursor_UnaryOperator | CXCursor_ArraySubscriptExpr | CXCursor_BinaryOperator, _) => {
                let ours: Vec<_> =
                    below.iter().copied().filter(|child| sort(type_of(*child)).is_some()).collect();
                match ours.as_slice() {
                    [one] => self.origin(*one),
                    // An assignment has what is assigned to; the flow of what is assigned is a fact of its own.
                    [first, _] if is_assignment(cursor) => self.origin(*first),
                    _ => Origin::Unknown,
                }
            }
            (CXCursor_ConditionalOperator, [_, one, other]) => self.origin_of_both(*one, *other),
            (CXCursor_InitListExpr, _) => Origin::Fresh,
            _ => Origin::Unknown,
        }
    }

    /// What an expression has that becomes one of a mutex's type.
    pub(super) fn origin_of_inner(&mut self, inner: CXCursor) -> Origin {
        if sort(type_of(inner)).is_some() { self.origin(inner) } else { fresh(inner) }
    }

    /// What an expression has that is one of two.
    fn origin_of_both(&mut self, one: CXCursor, other: CXCursor) -> Origin {
        match (self.origin(one), self.origin(other)) {
            (Origin::Of(one), other) => {
                self.facts.push(Fact::Same(one.clone(), other));
                Origin::Of(one)
            }
            (Origin::Fresh, other) => other,
            (Origin::Unknown, other) => {
                if let Origin::Of(other) = other {
                    self.facts.push(Fact::Same(other, Origin::Unknown));
                }
                Origin::Unknown
            }
        }
    }

    /// What an expression has flows to a thing.
    pub(super) fn same(&mut self, thing: &str, cursor: CXCursor) {
        if kind(bare(cursor)) == CXCursor_InitListExpr && !is_object(type_of(cursor)) {
            // What an array begins with.
            let values = children(bare(cursor)).into_iter().map(value_of);
            for child in values.filter(|child| sort(type_of(*child)).is_some()) {
                self.same(thing, child);
            }
            return;
        }
        if is_object(type_of(cursor)) && kind(bare(cursor)) != CXCursor_InitListExpr {
            self.escapes(cursor, "it is copied");
            self.keep(thing.to_owned(), cursor, "it is copied");
        }
        let origin = self.origin(cursor);
        if origin == Origin::Fresh {
            self.sizes(thing, cursor);
            if has(cursor, &|inner| kind(inner) == CXCursor_CallExpr) && !has(cursor, &is_size) {
                let at = self.place(cursor);
                self.facts.push(Fact::Unsized { thing: thing.to_owned(), at });
            }
        }
        self.facts.push(Fact::Same(thing.to_owned(), origin));
    }
}

/// Whether an expression of another type is null or a call that gives memory.
pub(super) fn fresh(cursor: CXCursor) -> Origin {
    let mut inner = bare(cursor);
    while kind(inner) == CXCursor_CStyleCastExpr {
        match children(inner).last() {
            Some(child) => inner = bare(*child),
            None => break,
        }
    }
    match kind(inner) {
        CXCursor_IntegerLiteral => Origin::Fresh,
        CXCursor_CallExpr if ALLOCATORS.contains(&spelling(inner).as_str()) => Origin::Fresh,
        _ => Origin::Unknown,
    }
}

/// Whether an expression is a `sizeof`.
pub(super) fn is_size(cursor: CXCursor) -> bool {
    kind(cursor) == CXCursor_UnaryExpr
}
