//! What is to be known of a function's variables: their types, where they live, and the attributes of their declarations.

use std::collections::HashMap;

#[allow(clippy::wildcard_imports, reason = "its names all begin with clang_ or CX")]
use clang_sys::*;

use super::Reader;
use crate::clang::cursor::{
    SPELT, WRITTEN, attributes_of, is_of_thread, is_static, kind, location_of, offset, spelling, start_of,
    storage_of,
};
use crate::clang::types::{
    canonical_type, has_constants, has_inner_name, has_no_name, is_const_type, is_variably_made,
    is_volatile_type, type_of, type_text, unqualified,
};
use crate::tree::{Local, Shape, Variable};

/// The variable, or what else has a name, that a declaration is of.
pub(super) fn variable(declaration: CXCursor) -> Variable {
    let (_, declared) = offset(location_of(declaration), WRITTEN);
    Variable { name: spelling(declaration), declared }
}

impl Reader<'_> {
    /// Notes what is to be known of a variable.
    pub(super) fn note_local(&self, cursor: CXCursor, locals: &mut HashMap<Variable, Local>) {
        let own = type_of(cursor);
        let canonical = canonical_type(own);
        let is_parameter = kind(cursor) == CXCursor_ParmDecl;
        let shape = shape(own, is_parameter);
        // A parameter that is written as an array is a pointer, and goes by that.
        let is_array = is_parameter && own.kind != canonical.kind;
        // Its plain type also stands for the type of something, which may be local and is a word that ISO C does not know, and for a
        // typedef of the function's own.
        let is_of_something = type_text(own).contains("typeof");
        let named = if is_array || is_of_something || has_inner_name(own) { canonical } else { own };
        let is_const = is_const_type(canonical);
        let is_volatile = is_volatile_type(canonical);
        let spelt = type_text(named);
        // The structure that a parameter of this type points to has no name that all compilers know.
        let is_arguments = is_parameter && spelt.contains("__va_list_tag");
        let attributes: Vec<String> = attributes_of(cursor).map(|child| self.attribute(child)).collect();
        // Of `_Alignas(N)` libclang knows the word only.
        let is_alignment = |text: &&String| text.contains("aligned") && text.contains('(');
        let local = Local {
            type_name: if is_arguments { "&**(__builtin_va_list *)0".to_owned() } else { spelt },
            shape,
            is_plain: shape == Shape::Value
                && !is_volatile
                && !matches!(canonical.kind, CXType_Record | CXType_Atomic),
            is_of_thread: is_of_thread(cursor),
            has_constants: has_constants(own),
            alignment: attributes.iter().filter(is_alignment).cloned().collect(),
            has_attributes: attributes.iter().any(|text| !is_alignment(&text) && !text.contains("unused")),
            has_cleanup: attributes.iter().any(|text| text.contains("cleanup")),
            is_static: is_static(cursor),
            is_register: storage_of(cursor) == CX_SC_Register,
            is_const,
            plain_type: (is_const && !is_volatile).then(|| type_text(unqualified(named))),
        };
        locals.insert(variable(cursor), local);
    }

    /// The text of an attribute: a name, and what is behind it in parentheses. What comes from a macro goes on, for libclang, to where the
    /// macro is used; and what it has in parentheses may be the macro's parameter, so that only numbers count there.
    fn attribute(&self, cursor: CXCursor) -> String {
        let start = start_of(cursor);
        let from_macro = offset(start, WRITTEN) != offset(start, SPELT);
        let mut words: Vec<String> = Vec::new();
        let mut depth = 0_usize;
        for (word, _) in self.tokens(cursor) {
            let last = words.last().map_or("", String::as_str);
            let goes_on =
                depth > 0 || words.is_empty() || word == "::" || last == "::" || word == "(" && last != ")";
            if !goes_on {
                break;
            }
            match word.as_str() {
                "(" => depth += 1,
                ")" => depth = depth.saturating_sub(1),
                _ => {}
            }
            words.push(word);
        }
        let is_plain =
            |word: &String| word.chars().all(|next| next.is_ascii_digit() || next == '(' || next == ')');
        if from_macro && !words.iter().skip(1).all(is_plain) {
            words.truncate(1);
        }
        words.join(" ")
    }
}

/// What matters of the type of a variable, which may be a parameter.
fn shape(own: CXType, is_parameter: bool) -> Shape {
    match canonical_type(own).kind {
        _ if has_no_name(own) => Shape::Unnamed,
        _ if is_variably_made(own) => Shape::VariableArray,
        CXType_ConstantArray | CXType_IncompleteArray if !is_parameter => Shape::Array,
        _ => Shape::Value,
    }
}
