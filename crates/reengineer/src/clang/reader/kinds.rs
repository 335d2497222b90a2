//! What a node is, by libclang's kinds and, where these do not tell, by the words of the text.

#[allow(clippy::wildcard_imports, reason = "its names all begin with clang_ or CX")]
use clang_sys::*;

use super::Reader;
use super::local::variable;
use crate::clang::cursor::{
    WRITTEN, binary_operator, is_expression, is_of_thread, kind, offset, owned, parent_of, referenced,
    spelling, start_of, unary_operator, value,
};
use crate::clang::types::{is_array, is_of_a_function, kind_of, type_of, type_text};
use crate::source::is_stand_in;
use crate::tree::{Gives, Kind, Unary};

impl Reader<'_> {
    /// What the node of a cursor with these parts is.
    pub(super) fn kind(&self, cursor: CXCursor, below: &[CXCursor]) -> Kind {
        match kind(cursor) {
            CXCursor_CompoundStmt => Kind::Compound,
            CXCursor_IfStmt => Kind::If,
            CXCursor_WhileStmt => Kind::While,
            CXCursor_DoStmt => Kind::Do,
            CXCursor_ForStmt => Kind::For { is_endless: self.is_endless(cursor, below) },
            CXCursor_SwitchStmt => Kind::Switch,
            CXCursor_CaseStmt => Kind::Case { is_default: false },
            CXCursor_DefaultStmt => Kind::Case { is_default: true },
            CXCursor_LabelStmt => Kind::Label(spelling(cursor)),
            CXCursor_GotoStmt => Kind::Goto(below.first().copied().map(spelling).unwrap_or_default()),
            CXCursor_IndirectGotoStmt => Kind::ComputedGoto,
            CXCursor_BreakStmt => Kind::Break,
            CXCursor_ContinueStmt => Kind::Continue,
            CXCursor_ReturnStmt => Kind::Return,
            CXCursor_DeclStmt => Kind::Declarations,
            CXCursor_VarDecl => Kind::Declaration(variable(cursor)),
            CXCursor_CallExpr => Kind::Call(spelling(cursor)),
            CXCursor_DeclRefExpr => name(cursor),
            CXCursor_MemberRefExpr => Kind::Member { name: spelling(cursor), is_arrow: is_arrow(below) },
            CXCursor_ArraySubscriptExpr => Kind::Subscript,
            CXCursor_UnaryOperator => unary(cursor),
            CXCursor_BinaryOperator | CXCursor_CompoundAssignOperator => binary(cursor),
            CXCursor_IntegerLiteral | CXCursor_CharacterLiteral => Kind::Literal(literal(cursor)),
            CXCursor_StringLiteral | CXCursor_FloatingLiteral => Kind::Literal(String::new()),
            CXCursor_CompoundLiteralExpr => Kind::CompoundLiteral,
            CXCursor_InitListExpr => Kind::List,
            CXCursor_ParenExpr | CXCursor_UnexposedExpr => Kind::Transparent,
            CXCursor_CStyleCastExpr => {
                let to = type_of(cursor);
                Kind::Cast(type_text(to))
            }
            CXCursor_TypeRef => type_name(cursor),
            CXCursor_AsmStmt => Kind::Assembly,
            CXCursor_StmtExpr => Kind::StatementExpression,
            CXCursor_ConditionalOperator if below.len() == 3 => Kind::Conditional,
            CXCursor_UnaryExpr if self.is_size(cursor, below) => Kind::Size,
            // Of a type of the language's, whose size is always the same.
            CXCursor_UnaryExpr if below.is_empty() => Kind::Literal(literal(cursor)),
            CXCursor_NullStmt => Kind::Empty,
            _ => Kind::Other,
        }
    }

    /// What a cursor is if it is the name of the function around, other than in an assertion. libclang has no kind for that: it is an
    /// array, which no other expression that it does not expose is, unless something is in front of that.
    pub(super) fn function_name(&self, cursor: CXCursor) -> Option<Kind> {
        let own = kind_of(type_of(cursor));
        if kind(cursor) != CXCursor_UnexposedExpr || own != CXType_ConstantArray {
            return None;
        }
        let word = self.first_token(cursor);
        let is_name = matches!(word.as_str(), "__func__" | "__FUNCTION__" | "__PRETTY_FUNCTION__");
        let (_, at) = offset(start_of(cursor), WRITTEN);
        (is_name && !self.is_asserted(at)).then_some(Kind::FunctionName(word))
    }

    /// Whether a `for` has no condition: nothing between its semicolons.
    fn is_endless(&self, cursor: CXCursor, below: &[CXCursor]) -> bool {
        let mut depth = 0_usize;
        let mut parts = vec![0_usize];
        // The head is all before the body.
        let Some(body) = below.last() else { return false };
        let (body, _) = self.range(*body);
        for (text, at) in self.tokens(cursor) {
            match text.as_str() {
                _ if at >= body.start => break,
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => depth = depth.saturating_sub(1),
                ";" if depth == 1 => parts.push(0),
                _ => {}
            }
            let counts = depth > 0 && text != ";" && !(depth == 1 && text == "(");
            if let Some(last) = parts.last_mut() {
                *last += usize::from(counts);
            }
        }
        parts.get(1).is_some_and(|tokens| *tokens == 0)
    }

    /// Whether something is `sizeof` an expression: not of a type, and no other word for what a type has.
    fn is_size(&self, cursor: CXCursor, below: &[CXCursor]) -> bool {
        matches!(below, [of] if is_expression(*of)) && self.first_token(cursor) == "sizeof"
    }
}

/// The node of a name.
fn name(cursor: CXCursor) -> Kind {
    let of = referenced(cursor);
    let is_of_function = kind(parent_of(of)) == CXCursor_FunctionDecl;
    match kind(of) {
        CXCursor_VarDecl | CXCursor_ParmDecl if is_of_function => Kind::Local(variable(of)),
        _ if is_of_a_function(of) => Kind::InnerName(variable(of)),
        CXCursor_VarDecl if is_of_thread(of) => Kind::ThreadLocal(spelling(cursor)),
        _ => Kind::Name(spelling(cursor)),
    }
}

/// The node of a type's name.
fn type_name(cursor: CXCursor) -> Kind {
    let of = referenced(cursor);
    if is_of_a_function(of) { Kind::InnerName(variable(of)) } else { Kind::Other }
}

/// Whether a member with these parts is one of what a pointer points to.
pub(super) fn is_arrow(below: &[CXCursor]) -> bool {
    below.first().is_some_and(|of| kind_of(type_of(*of)) == CXType_Pointer)
}

/// An operator with one operand.
pub(super) fn unary(cursor: CXCursor) -> Kind {
    Kind::Unary(match unary_operator(cursor) {
        CXUnaryOperator_AddrOf => Unary::Address,
        CXUnaryOperator_Deref => Unary::Dereference,
        CXUnaryOperator_Plus => Unary::Pure("+"),
        CXUnaryOperator_Minus => Unary::Pure("-"),
        CXUnaryOperator_Not => Unary::Pure("~"),
        CXUnaryOperator_LNot => Unary::Pure("!"),
        CXUnaryOperator_PostInc
        | CXUnaryOperator_PostDec
        | CXUnaryOperator_PreInc
        | CXUnaryOperator_PreDec => Unary::Step,
        _ => return Kind::Other,
    })
}

/// An operator with two operands.
fn binary(cursor: CXCursor) -> Kind {
    // SAFETY: a kind that libclang named.
    Kind::Binary(owned(unsafe { clang_getBinaryOperatorKindSpelling(binary_operator(cursor)) }))
}

/// The value of an integer as a literal of the same type; empty if it is not known, or if no literal has the type.
fn literal(cursor: CXCursor) -> String {
    let suffix = match kind_of(type_of(cursor)) {
        CXType_Int => "",
        CXType_UInt => "u",
        CXType_Long => "l",
        CXType_ULong => "ul",
        CXType_LongLong => "ll",
        CXType_ULongLong => "ull",
        _ => return String::new(),
    };
    // It may stand for a byte whose value is another.
    let is_strange = |number: i64| {
        kind(cursor) == CXCursor_CharacterLiteral && number.to_ne_bytes().into_iter().any(is_stand_in)
    };
    match value(cursor) {
        Some(number) if is_strange(number) => String::new(),
        Some(number) if number < 0 && suffix.starts_with('u') => {
            format!("{}{suffix}", number.cast_unsigned())
        }
        Some(number) => format!("{number}{suffix}"),
        None => String::new(),
    }
}

/// What an expression may do with the address of a part of it.
pub(super) fn gives(cursor: CXCursor, below: &[CXCursor]) -> Gives {
    let own = type_of(cursor);
    match (kind(cursor), below) {
        (CXCursor_ParenExpr, _) => Gives::Same,
        (CXCursor_UnexposedExpr, [child]) if is_array(type_of(*child)) && !is_array(own) => Gives::Decayed,
        _ if matches!(kind_of(own), CXType_Pointer | CXType_Record) || is_array(own) => Gives::Address,
        _ => Gives::Value,
    }
}
