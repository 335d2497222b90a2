//! Structures that have mutexes in them: copies, casts from one to another, and unions.

#[allow(clippy::wildcard_imports, reason = "its names all begin with clang_ or CX")]
use clang_sys::*;

use super::{TYPES, Walker, is_object, sort};
use crate::clang::cursor::{bare, children, is_anonymous_record, is_expression, is_of_system, kind, name_of};
use crate::clang::types::{are_same, canonical_type, declaration_of, element, kind_of, pointee, type_of};
use crate::locks::{Fact, Origin};

impl Walker<'_> {
    /// Mutexes of a structure, or of an array of structures, that is copied or moved stay: a delegate must be where it was made.
    pub(super) fn copied(&mut self, of: CXType, cursor: CXCursor, how: &'static str) {
        let record = element(of);
        if record.kind != CXType_Record || sort(record).is_some() {
            return;
        }
        let declaration = declaration_of(record);
        if is_of_system(declaration) {
            return;
        }
        for child in children(declaration) {
            match kind(child) {
                CXCursor_FieldDecl if is_object(element(type_of(child))) => {
                    self.keep(self.thing(child), cursor, how);
                }
                CXCursor_FieldDecl => self.copied(type_of(child), cursor, how),
                // Those without a name are no fields of their own. Others are declared there for pointers, perhaps to what is around.
                _ if is_anonymous_record(child) => self.copied(type_of(child), cursor, how),
                _ => {}
            }
        }
    }

    /// Mutexes of a union may be in one place, and would have to be of one sort. What is in it, at any depth, stays.
    pub(super) fn below_union(&mut self, record: CXCursor) {
        for child in children(record) {
            match kind(child) {
                // Those without a name are no fields of their own.
                CXCursor_StructDecl | CXCursor_UnionDecl => self.below_union(child),
                CXCursor_FieldDecl if sort(type_of(child)).is_some() => {
                    self.keep(self.thing(child), child, "it is in a union");
                }
                CXCursor_FieldDecl => {
                    let of = element(type_of(child));
                    if of.kind == CXType_Record {
                        self.below_union(declaration_of(of));
                    }
                }
                _ => {}
            }
        }
    }

    /// A cast to a mutex's type names that type; one between structures makes them alike.
    pub(super) fn cast(&mut self, cursor: CXCursor, is_ours: bool, below: &[CXCursor]) {
        let Some(inner) = below.last() else { return };
        let at = self.place(cursor);
        let thing = format!("cast {}:{}", at.file.display(), at.offset);
        if is_ours {
            self.types(&thing, cursor);
            let origin = self.origin_of_inner(*inner);
            if origin == Origin::Unknown {
                self.mix(type_of(bare(*inner)), &thing, sort(type_of(cursor)).unwrap_or_default());
            }
            self.facts.push(Fact::Same(thing, origin));
            return;
        }
        let (to, from) = (pointee(type_of(cursor)), pointee(type_of(bare(*inner))));
        if let (Some(to), Some(from)) = (to, from)
            && !are_same(to, from)
        {
            // Conditions have another size, too, so that fields behind them would move in one of the structures only.
            for (number, name) in TYPES.iter().enumerate() {
                let thing = format!("{thing} {name}");
                self.mix(to, &thing, number);
                self.mix(from, &thing, number);
            }
        }
    }

    /// The mutexes, or what else of [`TYPES`] `number` says, of a structure, or of what a pointer to one points to, are of the class of a
    /// thing. So are those of all structures that it is cast to elsewhere, by way of structures that have none.
    fn mix(&mut self, of: CXType, thing: &str, number: usize) {
        let canonical = pointee(of).unwrap_or_else(|| canonical_type(of));
        if canonical.kind != CXType_Record {
            return;
        }
        let declaration = declaration_of(canonical);
        let structure = format!("{} {}", TYPES[number], name_of(declaration));
        self.facts.push(Fact::Same(structure.clone(), Origin::Of(thing.to_owned())));
        for field in children(declaration) {
            if kind(field) == CXCursor_FieldDecl && sort(type_of(field)) == Some(number) {
                let field = self.thing(field);
                self.facts.push(Fact::Same(field, Origin::Of(structure.clone())));
            }
        }
    }
}

/// Whether an expression is the value of a structure that was elsewhere. What only initialises one is new.
pub(super) fn is_copy(cursor: CXCursor) -> bool {
    if kind_of(type_of(cursor)) != CXType_Record || !is_expression(cursor) {
        return false;
    }
    // The conversion, which is not spelt, of something that has a place to its value. What a function returns is copied there.
    let new =
        [CXCursor_InitListExpr, CXCursor_CompoundLiteralExpr, CXCursor_CallExpr, CXCursor_UnexposedExpr];
    kind(cursor) == CXCursor_UnexposedExpr && !new.contains(&kind(bare(cursor)))
}
