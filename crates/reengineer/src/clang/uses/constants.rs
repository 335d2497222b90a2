//! Sizes of structures in constants: what is computed of the size that a structure has with its mutexes may not do with another.

#[allow(clippy::wildcard_imports, reason = "its names all begin with clang_ or CX")]
use clang_sys::*;

use super::{Walker, element, is_expression, is_object, is_size, referenced, sort, type_of};
use crate::locks::{Fact, Origin};

const HOW: &str = "a constant is computed of its structure's size, or of its own";

impl Walker<'_> {
    /// The constants of a declaration: bounds of arrays, widths of members, assertions, the values of enumerations. An array may become
    /// larger with the structure; whatever else is computed of the structure's size keeps its mutexes.
    pub(super) fn constants(&mut self, cursor: CXCursor, below: &[CXCursor]) {
        let own = super::kind(cursor);
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
        for value in values.take(count).filter(|value| !is_bound || is_number(*value)) {
            self.constant(value, may_grow);
        }
    }

    fn constant(&mut self, cursor: CXCursor, may_grow: bool) {
        let below = super::children(cursor);
        if is_size(cursor) {
            if !may_grow {
                self.sized(cursor, &below);
            }
            return;
        }
        let grows: [bool; 2] = match super::kind(cursor) {
            CXCursor_ParenExpr | CXCursor_UnexposedExpr | CXCursor_CStyleCastExpr => [may_grow; 2],
            CXCursor_BinaryOperator => {
                // SAFETY: a cursor of a living unit.
                match unsafe { clang_getCursorBinaryOperatorKind(cursor) } {
                    CXBinaryOperator_Add | CXBinaryOperator_Mul => [may_grow; 2],
                    CXBinaryOperator_Sub | CXBinaryOperator_Shl => [may_grow, false],
                    _ => [false; 2],
                }
            }
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
            } else if super::kind(*child) == CXCursor_TypeRef {
                let named = referenced(*child);
                let of = type_of(named);
                // Of a pointer to the structure, the size is another.
                let is_whole = super::super::value(cursor).is_none_or(|value| {
                    // SAFETY: a type of a living unit.
                    value >= unsafe { clang_Type_getSizeOf(of) }
                });
                let is_typedef = super::kind(named) == CXCursor_TypedefDecl;
                if is_whole && is_typedef && sort(of).is_some() && !Self::is_of_system(named) {
                    let origin = Origin::Of(self.thing(named));
                    let at = self.place(cursor);
                    self.facts.push(Fact::Escapes { origin, at, how: HOW });
                } else if is_whole {
                    self.copied(of, cursor, HOW);
                }
            }
        }
    }
}

/// Whether a declaration is of an array, or of what is made of one.
fn has_elements(cursor: CXCursor) -> bool {
    // SAFETY: a type of a living unit, as below.
    let mut of = unsafe { clang_getCanonicalType(type_of(cursor)) };
    while of.kind == CXType_Pointer {
        // SAFETY: as above.
        let inner = unsafe { clang_getPointeeType(of) };
        // SAFETY: as above.
        of = unsafe { clang_getCanonicalType(inner) };
    }
    matches!(of.kind, CXType_ConstantArray | CXType_IncompleteArray | CXType_VariableArray)
}

fn is_number(cursor: CXCursor) -> bool {
    // SAFETY: a type of a living unit.
    let of = unsafe { clang_getCanonicalType(type_of(cursor)) };
    super::is_number(of)
}
