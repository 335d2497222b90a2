//! Sizes of structures in constants: what is computed of the size that a structure has with its mutexes may not do with another.

#[allow(clippy::wildcard_imports, reason = "its names all begin with clang_ or CX")]
use clang_sys::*;

use super::origins::is_size;
use super::{Walker, is_object, sort};
use crate::clang::cursor::{binary_operator, children, is_expression, is_of_system, kind, referenced, value};
use crate::clang::types::{canonical_type, element, is_array, is_number, pointee_of, size_of, type_of};

const HOW: &str = "a constant is computed of its structure's size, or of its own";

impl Walker<'_> {
    /// The constants of a declaration: bounds of arrays, widths of members, assertions, the values of enumerations. An array may become
    /// larger with the structure; whatever else is computed of the structure's size keeps its mutexes.
    pub(super) fn constants(&mut self, cursor: CXCursor, below: &[CXCursor]) {
        let own = kind(cursor);
        let is_bound = matches!(own, CXCursor_VarDecl | CXCursor_ParmDecl | CXCursor_TypedefDecl);
        // SAFETY: a cursor of a living unit.
        let is_width = own == CXCursor_FieldDecl && unsafe { clang_Cursor_isBitField(cursor) } != 0;
        let may_grow = (is_bound || own == CXCursor_FieldDecl || is_size(cursor)) && !is_width;
        let is_constant =
            matches!(own, CXCursor_StaticAssert | CXCursor_EnumConstantDecl | CXCursor_CaseStmt);
        if !may_grow && !is_width && !is_constant {
            return;
        }
        // A variable's value has its type, which no bound has: of a number there is no bound.
        let has_bounds = !is_bound || has_elements(cursor);
        let values = below.iter().copied().filter(|child| is_expression(*child) && has_bounds);
        // Behind the value of a `case` is its statement.
        let count = if own == CXCursor_CaseStmt { 1 } else { usize::MAX };
        for value in values.take(count).filter(|value| !is_bound || is_number(type_of(*value))) {
            self.constant(value, may_grow);
        }
    }

    /// Looks for sizes in a constant, which may be larger with the structure or may not.
    fn constant(&mut self, cursor: CXCursor, may_grow: bool) {
        let below = children(cursor);
        if is_size(cursor) {
            if !may_grow {
                self.sized(cursor, &below);
            }
            return;
        }
        let grows: [bool; 2] = match kind(cursor) {
            CXCursor_ParenExpr | CXCursor_UnexposedExpr | CXCursor_CStyleCastExpr => [may_grow; 2],
            CXCursor_BinaryOperator => match binary_operator(cursor) {
                CXBinaryOperator_Add | CXBinaryOperator_Mul => [may_grow; 2],
                CXBinaryOperator_Sub | CXBinaryOperator_Shl => [may_grow, false],
                _ => [false; 2],
            },
            _ => [false; 2],
        };
        for (number, child) in below.into_iter().filter(|child| is_expression(*child)).enumerate() {
            self.constant(child, grows[number.min(1)]);
        }
    }

    /// What has a size that is asked for keeps its mutexes.
    fn sized(&mut self, cursor: CXCursor, below: &[CXCursor]) {
        for child in below {
            let of = type_of(*child);
            if is_expression(*child) && is_object(element(of)) {
                self.escapes(*child, HOW);
            } else if is_expression(*child) {
                self.copied(of, cursor, HOW);
            } else if kind(*child) == CXCursor_TypeRef {
                let named = referenced(*child);
                let of = type_of(named);
                // Of a pointer to the structure, the size is another.
                let is_whole = value(cursor).is_none_or(|value| value >= size_of(of));
                let is_typedef = kind(named) == CXCursor_TypedefDecl;
                if is_whole && is_typedef && sort(of).is_some() && !is_of_system(named) {
                    self.keep(self.thing(named), cursor, HOW);
                } else if is_whole {
                    self.copied(of, cursor, HOW);
                }
            }
        }
    }
}

/// Whether a declaration is of an array, or of what is made of one.
fn has_elements(cursor: CXCursor) -> bool {
    let mut of = canonical_type(type_of(cursor));
    while of.kind == CXType_Pointer {
        of = canonical_type(pointee_of(of));
    }
    is_array(of)
}
