//! What structures and unions have in them, and where: their mutexes, and pointers that may be to other structures.

use std::hash::{DefaultHasher, Hash, Hasher};

#[allow(clippy::wildcard_imports, reason = "its names all begin with clang_ or CX")]
use clang_sys::*;

use super::{Walker, is_object, sort};
use crate::clang::cursor::{children, is_anonymous_record, is_definition, is_of_system, kind, name_of};
use crate::clang::types::{
    declaration_of, element, is_array, is_blank, is_number, kind_of, pointee, record_below, size_of, type_of,
};
use crate::locks::{Fact, Thing};
use crate::ways::{ELSEWHERE, Layout, Pointer, Within};

/// How many elements of an array of pointers have ways of their own places.
const ELEMENTS: i64 = 16;

/// Where the members of a structure within others are.
#[derive(Clone, Copy)]
struct Base {
    /// The bit that it begins at.
    begin: i64,
    /// How far the last of an array of such structures is behind the first, in bits.
    spread: i64,
    /// It is in a union, or is one.
    in_union: bool,
}

impl Walker<'_> {
    /// What a structure or a union has, which is declared there.
    pub(super) fn describe(&mut self, declaration: CXCursor) {
        let structure = self.structure_of(declaration);
        let is_definition = is_definition(declaration);
        if !is_definition || !self.described.insert(structure.clone()) {
            return;
        }
        let mut layout = Layout::default();
        let base = Base { begin: 0, spread: 0, in_union: false };
        self.members(declaration, base, &mut DefaultHasher::new(), &mut layout);
        if layout != Layout::default() {
            let unseen = format!("structure {}", name_of(declaration));
            self.facts.push(Fact::Layout { structure, unseen, layout });
        }
    }

    /// Adds the members of a structure. `before`: what is in front of it.
    fn members(&self, declaration: CXCursor, base: Base, before: &mut DefaultHasher, layout: &mut Layout) {
        if is_of_system(declaration) {
            return;
        }
        let is_union = kind(declaration) == CXCursor_UnionDecl;
        let base = Base { in_union: base.in_union || is_union, ..base };
        let in_front = before.clone();
        for part in children(declaration) {
            if is_union {
                before.clone_from(&in_front);
            }
            if kind(part) == CXCursor_FieldDecl {
                self.member(part, base, before, layout);
                continue;
            }
            // What has no name is a field in some versions of libclang, and has fields of what is around it.
            if is_anonymous_record(part) {
                self.members(part, base, before, layout);
            }
        }
    }

    /// Adds a member.
    fn member(&self, field: CXCursor, base: Base, before: &mut DefaultHasher, layout: &mut Layout) {
        let of = type_of(field);
        // SAFETY: a field of a living unit, as all here.
        let at = unsafe { clang_Cursor_getOffsetOfField(field) };
        let size = size_of(of).saturating_mul(8).max(8);
        if at < 0 {
            return;
        }
        let begin = base.begin.saturating_add(at);
        let inner = element(of);
        let one = size_of(inner).saturating_mul(8).max(8);
        if let Some(number) = sort(of) {
            let is_pointer = !is_object(inner);
            let end = begin.saturating_add(size).saturating_add(base.spread);
            let is_array = base.spread > 0 || is_array(of);
            layout.locks.push((Within { number, is_pointer, begin, end, is_array }, self.thing(field)));
            ("lock", number, begin, size).hash(before);
        } else if inner.kind == CXType_Record {
            let spread = base.spread.saturating_add(size.saturating_sub(one).max(0));
            let declaration = declaration_of(inner);
            self.members(declaration, Base { begin, spread, ..base }, before, layout);
            if size > one || kind(declaration) == CXCursor_UnionDecl {
                ("structures", begin, size).hash(before);
            }
        } else {
            let elements = (size / one).clamp(1, ELEMENTS);
            let sort = if pointee(inner).is_some() { "pointer" } else { "number" };
            for begin in (0..elements).map(|number| begin.saturating_add(number * one)) {
                if let Some(way) = self.way_of_member(field, base, one) {
                    layout.pointers.push(Pointer { begin, before: before.finish(), way });
                }
                (sort, begin, one).hash(before);
            }
            ("all", size).hash(before);
        }
    }

    /// The way of what a member has that is no structure; `None`: nothing that could be a pointer to one.
    fn way_of_member(&self, field: CXCursor, base: Base, size: i64) -> Option<Thing> {
        let of = type_of(field);
        if let Some(record) = record_below(of) {
            return Some(self.structure(record));
        }
        if is_blank(of) {
            return Some(self.thing(field));
        }
        // A number is not followed. In a union it may be a pointer.
        let is_float = matches!(kind_of(element(of)), CXType_Float | CXType_Double | CXType_LongDouble);
        (base.in_union && size == 64 && is_number(element(of)) && !is_float).then(|| ELSEWHERE.to_owned())
    }
}
