//! What a call does besides computing its result: whether it comes back, and whether anything else changes by it.

#[allow(clippy::wildcard_imports, reason = "its names all begin with clang_ or CX")]
use clang_sys::*;

use super::Reader;
use super::kinds::{is_arrow, unary};
use crate::clang::cursor::{
    attributes_of, bare, binary_operator, children, definition_of, first_declaration, has_no_linkage,
    is_of_system, is_static, kind, referenced, spelling, value,
};
use crate::clang::types::{
    canonical_type, is_const_type, is_type_without_return, is_volatile_type, pointee_of, type_of,
};
use crate::tree::{Kind, Reads, Unary};
use crate::vocabulary::ends_the_thread;

/// How many calls within each other are looked into for an effect.
pub(super) const CALLS_WITHOUT_EFFECT: usize = 4;

impl Reader<'_> {
    /// Whether a cursor is a call that does not return: a declaration of the function says so, or its type, or the program's file of
    /// words; or it is one of the system's functions that are known for it. The program may have another one of such a name.
    pub(super) fn never_returns(&self, cursor: CXCursor, below: &[CXCursor]) -> bool {
        if kind(cursor) != CXCursor_CallExpr {
            return false;
        }
        let function = referenced(cursor);
        if kind(function) != CXCursor_FunctionDecl {
            let callee = below.first().map(|callee| canonical_type(type_of(*callee)));
            return callee.is_some_and(|callee| is_type_without_return(pointee_of(callee)));
        }
        let name = spelling(cursor);
        self.vocabulary.never_returns(&name)
            || is_of_system(function) && ends_the_thread(&name)
            || is_type_without_return(type_of(function))
            || self.is_declared_without_return(function)
    }

    /// Whether a declaration of a function has `_Noreturn`, or an attribute that means the same.
    fn is_declared_without_return(&self, function: CXCursor) -> bool {
        [function, first_declaration(function), definition_of(function)]
            .into_iter()
            .filter(|of| kind(*of) == CXCursor_FunctionDecl)
            .flat_map(attributes_of)
            .any(|of| matches!(self.first_token(of).as_str(), "_Noreturn" | "noreturn" | "__noreturn__"))
    }

    /// What a call reads if it has no effect but its result, and depends on nothing but its arguments, what these point to, and constants:
    /// its attributes say so, or its body does, and those of what it calls, `depth` of them within each other.
    pub(super) fn computes(&self, call: CXCursor, depth: usize) -> Option<Reads> {
        let function = referenced(call);
        if kind(function) != CXCursor_FunctionDecl || depth == 0 {
            return None;
        }
        let mut reads = Reads::default();
        if children(function).into_iter().any(|child| kind(child) == CXCursor_ConstAttr) {
            return Some(reads);
        }
        let definition = definition_of(function);
        // Another one may take its place.
        let is_weak = |of| {
            let says_so =
                |of| matches!(self.first_token(of).as_str(), "weak" | "__weak__" | "ifunc" | "alias");
            attributes_of(of).any(says_so)
        };
        if kind(definition) != CXCursor_FunctionDecl || is_weak(function) || is_weak(definition) {
            return None;
        }
        let is_body = |child: &CXCursor| kind(*child) == CXCursor_CompoundStmt;
        let body = children(definition).into_iter().find(is_body)?;
        self.leaves_all(body, depth, &mut reads).then_some(reads)
    }

    /// Whether nothing in a part of a function changes anything but the function's own variables, nor reads other variables than those,
    /// and constants.
    fn leaves_all(&self, cursor: CXCursor, depth: usize, reads: &mut Reads) -> bool {
        let below = children(cursor);
        if is_volatile_type(canonical_type(type_of(cursor))) {
            return false;
        }
        note_read(cursor, &below, reads);
        let writes_own = || below.first().is_some_and(|to| is_own_variable(*to));
        let is_harmless = match kind(cursor) {
            CXCursor_CallExpr => {
                let Some(of_callee) = self.computes(cursor, depth - 1) else { return false };
                reads.members.extend(of_callee.members);
                if of_callee.pointees {
                    below.iter().skip(1).for_each(|given| note_read_by(Some(given), reads));
                }
                return below.iter().skip(1).all(|of| self.leaves_all(*of, depth, reads));
            }
            // A size, of which nothing is evaluated.
            CXCursor_UnaryExpr => return value(cursor).is_some(),
            CXCursor_DeclRefExpr => is_own_variable(cursor) || is_constant(cursor),
            CXCursor_VarDecl => !is_static(cursor),
            CXCursor_CompoundAssignOperator => writes_own(),
            CXCursor_BinaryOperator => binary_operator(cursor) != CXBinaryOperator_Assign || writes_own(),
            CXCursor_UnaryOperator => match unary(cursor) {
                Kind::Unary(Unary::Step) => writes_own(),
                Kind::Unary(_) => true,
                _ => false,
            },
            other => is_without_effect(other),
        };
        is_harmless && below.into_iter().all(|child| self.leaves_all(child, depth, reads))
    }
}

/// Whether what is of this kind has no effect of its own, whatever its parts have.
fn is_without_effect(kind: CXCursorKind) -> bool {
    matches!(
        kind,
        CXCursor_CompoundStmt
            | CXCursor_DeclStmt
            | CXCursor_ReturnStmt
            | CXCursor_IfStmt
            | CXCursor_WhileStmt
            | CXCursor_DoStmt
            | CXCursor_ForStmt
            | CXCursor_SwitchStmt
            | CXCursor_CaseStmt
            | CXCursor_DefaultStmt
            | CXCursor_BreakStmt
            | CXCursor_ContinueStmt
            | CXCursor_NullStmt
            | CXCursor_IntegerLiteral
            | CXCursor_CharacterLiteral
            | CXCursor_StringLiteral
            | CXCursor_ParenExpr
            | CXCursor_UnexposedExpr
            | CXCursor_ArraySubscriptExpr
            | CXCursor_MemberRefExpr
            | CXCursor_ConditionalOperator
            | CXCursor_CStyleCastExpr
            | CXCursor_TypeRef
    )
}

/// Notes what a part of a function reads by a pointer.
fn note_read(cursor: CXCursor, below: &[CXCursor], reads: &mut Reads) {
    match kind(cursor) {
        CXCursor_MemberRefExpr if is_arrow(below) => {
            reads.members.insert(format!(".{}", spelling(cursor)));
        }
        CXCursor_ArraySubscriptExpr => note_read_by(below.first(), reads),
        CXCursor_UnaryOperator if unary(cursor) == Kind::Unary(Unary::Dereference) => {
            note_read_by(below.first(), reads);
        }
        _ => {}
    }
}

/// Notes that what a pointer points to is read.
fn note_read_by(pointer: Option<&CXCursor>, reads: &mut Reads) {
    match pointer.copied().map(bare) {
        Some(member) if kind(member) == CXCursor_MemberRefExpr => {
            reads.members.insert(format!("*.{}", spelling(member)));
        }
        _ => reads.pointees = true,
    }
}

/// Whether an expression is a variable that the function around has of its own: no part of one, which may be elsewhere.
fn is_own_variable(cursor: CXCursor) -> bool {
    let cursor = bare(cursor);
    let of = referenced(cursor);
    kind(cursor) == CXCursor_DeclRefExpr
        && matches!(kind(of), CXCursor_VarDecl | CXCursor_ParmDecl)
        && has_no_linkage(of)
        && !is_static(of)
}

/// Whether a name stands for what never changes.
fn is_constant(cursor: CXCursor) -> bool {
    let of = referenced(cursor);
    // What an array's elements are, its canonical type is.
    let is_const = || is_const_type(canonical_type(type_of(of)));
    kind(of) == CXCursor_EnumConstantDecl || kind(of) == CXCursor_VarDecl && is_const()
}
