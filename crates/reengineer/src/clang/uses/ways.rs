//! Where pointers to structures go without the names of these: the facts by which [`crate::ways`] joins structures.

#[allow(clippy::wildcard_imports, reason = "its names all begin with clang_ or CX")]
use clang_sys::*;

use super::origins::ALLOCATORS;
use super::{Walker, sort};
use crate::clang::cursor::{
    arguments, bare, children, definition_of, is_expression, is_of_system, kind, name_of, referenced,
    spelling,
};
use crate::clang::types::{
    are_same, canonical_type, declaration_of, is_blank, is_function, is_number, is_variadic, kind_of,
    parameters, pointee, record_below, result, result_of, type_of, type_text,
};
use crate::locks::{Fact, Thing};
use crate::rule::Rule;
use crate::ways::ELSEWHERE;

/// Functions that pass on nothing that they get a pointer to.
const BORROWERS: [&str; 7] = ["free", "memset", "memcmp", "bzero", "fwrite", "fread", "__builtin_memset"];

/// The way of what the program's functions get by variable arguments: which function has a `va_list` of which is not followed.
const ARGUMENTS: &str = "variable arguments";

impl Walker<'_> {
    /// What goes the one way goes the other.
    fn same_way(&mut self, one: &str, other: &str, by: Rule) {
        self.facts.push(Fact::SameWay { one: one.to_owned(), other: other.to_owned(), by });
    }

    /// A pointer to a structure that becomes one to something else, or the other way round: what it points to may be any other
    /// structure that goes this way.
    pub(super) fn veiled(&mut self, cursor: CXCursor, below: &[CXCursor]) {
        if !matches!(kind(cursor), CXCursor_UnexposedExpr | CXCursor_CStyleCastExpr) {
            return;
        }
        let parts: Vec<CXCursor> = below.iter().copied().filter(|part| is_expression(*part)).collect();
        let [inner] = parts.as_slice() else {
            // An atomic operation, or a `?:` without its middle: what one of its parts has the others may have.
            self.way(cursor);
            return;
        };
        let (to, from) = (type_of(cursor), type_of(*inner));
        if sort(to).is_some() || sort(from).is_some() {
            return;
        }
        if is_variable_argument(cursor, *inner) {
            if let Some(record) = record_below(to) {
                self.veil(record, ARGUMENTS);
            }
            return;
        }
        if self.veiled_function(to, *inner) {
            return;
        }
        match (record_below(to), record_below(from)) {
            (Some(to), Some(from)) => self.alike(to, from),
            (Some(record), None) => {
                if let Some(way) = self.way(*inner) {
                    self.veil(record, &way);
                }
            }
            // Unless what is around has said where it goes, it may go anywhere.
            (None, Some(record))
                if !matches!(kind_of(to), CXType_Void | CXType_Bool)
                    && !self.followed.contains(&self.conversion(cursor)) =>
            {
                self.veil(record, ELSEWHERE);
            }
            _ => {}
        }
    }

    /// A function that is called as one with other parameters may get and give anything. Whether one becomes another.
    fn veiled_function(&mut self, to: CXType, value: CXCursor) -> bool {
        let function = |of| pointee(of).filter(|of| is_function(*of));
        let (before, after) = (function(type_of(value)), function(to));
        let is_veiled = match (before, after) {
            (Some(before), Some(after)) => !are_same(before, after),
            (Some(_), None) => !matches!(kind_of(to), CXType_Void | CXType_Bool),
            // Null is none, and the name of a function is one.
            (None, Some(_)) => self.way(value).is_some(),
            (None, None) => false,
        };
        if is_veiled {
            for record in before.into_iter().chain(after).flat_map(passed).filter_map(record_below) {
                self.veil(record, ELSEWHERE);
            }
        }
        before.is_some() && after.is_some()
    }

    /// The way of what is converted there.
    fn conversion(&self, cursor: CXCursor) -> Thing {
        // Which of the expressions that begin there, whatever it was found by.
        let which = cursor.data[1].addr();
        let at = self.place(cursor);
        format!("conversion {}:{}:{which}", at.file.display(), at.offset)
    }

    /// The name of a structure's type as a way.
    pub(super) fn structure(&self, record: CXType) -> Thing {
        let declaration = declaration_of(record);
        self.structure_of(declaration)
    }

    /// The same by a declaration: structures of several files that have one name are as many structures.
    pub(super) fn structure_of(&self, declaration: CXCursor) -> Thing {
        let definition = definition_of(declaration);
        let name = name_of(declaration);
        if matches!(kind(definition), CXCursor_StructDecl | CXCursor_UnionDecl) {
            let at = self.place(definition);
            return format!("structure {name} {}:{}", at.file.display(), at.offset);
        }
        format!("structure {name}")
    }

    /// A structure goes some way without its name.
    fn veil(&mut self, record: CXType, way: &str) {
        self.facts.push(Fact::Veiled { structure: self.structure(record), way: way.to_owned() });
    }

    /// What an expression, whose type is not a structure's, has its value of; `None`: nothing that was anything before.
    pub(super) fn way(&mut self, cursor: CXCursor) -> Option<Thing> {
        let below = children(cursor);
        match kind(cursor) {
            CXCursor_UnexposedExpr | CXCursor_CStyleCastExpr | CXCursor_ParenExpr => {
                self.way_through(cursor, &below)
            }
            CXCursor_DeclRefExpr | CXCursor_MemberRefExpr => {
                let of = referenced(cursor);
                match kind(of) {
                    CXCursor_FunctionDecl | CXCursor_EnumConstantDecl => None,
                    CXCursor_VarDecl | CXCursor_ParmDecl | CXCursor_FieldDecl if !is_of_system(of) => {
                        // Numbers are not followed.
                        if is_number(type_of(of)) { Some(ELSEWHERE.to_owned()) } else { Some(self.thing(of)) }
                    }
                    _ => Some(ELSEWHERE.to_owned()),
                }
            }
            CXCursor_CallExpr => self.way_of_call(cursor),
            CXCursor_IntegerLiteral | CXCursor_CharacterLiteral | CXCursor_StringLiteral => None,
            CXCursor_UnaryOperator => below.first().and_then(|of| self.way(*of)),
            CXCursor_ArraySubscriptExpr
            | CXCursor_BinaryOperator
            | CXCursor_CompoundAssignOperator
            | CXCursor_ConditionalOperator => self.way_of_all(cursor, below, Rule::Veiled),
            // It has the value of its last statement.
            CXCursor_StmtExpr => {
                let at = self.place(cursor);
                let way = format!("value {}:{}", at.file.display(), at.offset);
                if let Some(of) = last_value(cursor).and_then(|value| self.way(value)) {
                    self.same_way(&way, &of, Rule::Values);
                }
                Some(way)
            }
            // What is not understood has whatever its parts have.
            _ => {
                for part in below.into_iter().filter(|part| is_expression(*part)) {
                    if let Some(of) = self.way(part) {
                        self.same_way(&of, ELSEWHERE, Rule::Values);
                    }
                }
                Some(ELSEWHERE.to_owned())
            }
        }
    }

    /// The way of an expression that is another one, perhaps of another type, or is made of several.
    fn way_through(&mut self, cursor: CXCursor, below: &[CXCursor]) -> Option<Thing> {
        let parts: Vec<CXCursor> = below.iter().copied().filter(|part| is_expression(*part)).collect();
        let [inner] = parts.as_slice() else {
            return self.way_of_all(cursor, parts, Rule::Values);
        };
        if is_variable_argument(cursor, *inner) {
            return Some(ARGUMENTS.to_owned());
        }
        let from = type_of(*inner);
        if let (Some(record), None) = (record_below(from), record_below(type_of(cursor))) {
            let conversion = self.conversion(cursor);
            self.veil(record, &conversion);
            self.followed.insert(conversion.clone());
            return Some(conversion);
        }
        self.way(*inner)
    }

    /// The ways of an expression's parts are one.
    fn way_of_all(&mut self, cursor: CXCursor, parts: Vec<CXCursor>, by: Rule) -> Option<Thing> {
        let ways: Vec<Thing> = parts
            .into_iter()
            .filter(|part| !is_number(type_of(*part)))
            .filter_map(|part| self.way(part))
            .collect();
        for other in ways.iter().skip(1) {
            self.same_way(&ways[0], other, by);
        }
        // What is made of numbers alone is not followed.
        let is_of_numbers = is_number(type_of(cursor));
        ways.into_iter().next().or_else(|| is_of_numbers.then(|| ELSEWHERE.to_owned()))
    }

    /// The way of what a call returns.
    fn way_of_call(&mut self, cursor: CXCursor) -> Option<Thing> {
        let (name, function) = (spelling(cursor), referenced(cursor));
        let is_named = kind(function) == CXCursor_FunctionDecl;
        if is_named && matches!(name.as_str(), "realloc" | "reallocarray") {
            return arguments(cursor).first().and_then(|moved| self.way(*moved));
        }
        if is_named && ALLOCATORS.contains(&name.as_str()) {
            return None;
        }
        if !is_named || is_of_system(function) || is_number(result(function)) {
            return Some(ELSEWHERE.to_owned());
        }
        let way = format!("{}#r", name_of(function));
        self.facts.push(Fact::PassedBy { function: name_of(function), way: way.clone() });
        Some(way)
    }

    /// A value goes to a thing, or elsewhere, if its type hides what it is.
    pub(super) fn goes(&mut self, to: &str, value: CXCursor) {
        if is_blank(type_of(value))
            && let Some(way) = self.way(value)
        {
            self.same_way(to, &way, Rule::Veiled);
        }
    }

    /// The values that a call passes on.
    pub(super) fn passes(&mut self, cursor: CXCursor, function: CXCursor, all: &[CXCursor]) {
        let name = spelling(cursor);
        let is_named = kind(function) == CXCursor_FunctionDecl;
        let is_program = is_named && !is_of_system(function);
        // What a thread is given is what its function gets.
        let begun = all.get(2).map(|begun| {
            let mut inner = bare(*begun);
            if kind(inner) == CXCursor_UnaryOperator {
                inner = children(inner).first().copied().map_or(inner, bare);
            }
            referenced(inner)
        });
        if let (true, [_, _, _, given]) = (name == "pthread_create" && !is_program, all)
            && let Some(begun) = begun.filter(|begun| kind(*begun) == CXCursor_FunctionDecl)
        {
            let way = format!("{}#0", name_of(begun));
            self.goes(&way, *given);
            self.facts.push(Fact::PassedBy { function: name_of(begun), way });
            self.begun.push(all[2]);
            return;
        }
        let is_of_list = name.starts_with("__builtin_va_");
        if is_named && !is_program && (is_of_list || BORROWERS.contains(&name.as_str())) {
            for argument in all {
                self.way(*argument);
            }
            return;
        }
        let count = arguments(function).len();
        for (number, argument) in all.iter().enumerate() {
            let is_variable = named_arguments(cursor).is_some_and(|named| number >= named);
            if is_variable && is_program {
                let way = format!("{}#…", name_of(function));
                self.same_way(&way, ARGUMENTS, Rule::Arguments);
                self.gives(&way, *argument);
                self.facts.push(Fact::PassedBy { function: name_of(function), way });
            } else if is_variable {
                self.gives(ELSEWHERE, *argument);
            } else if is_program && number < count && is_blank(type_of(*argument)) {
                let way = format!("{}#{number}", name_of(function));
                self.goes(&way, *argument);
                self.facts.push(Fact::PassedBy { function: name_of(function), way });
            } else {
                self.goes(ELSEWHERE, *argument);
            }
        }
    }

    /// A value goes where its type is not known.
    fn gives(&mut self, way: &str, value: CXCursor) {
        match record_below(type_of(value)) {
            Some(record) if sort(record).is_none() => self.veil(record, way),
            _ => self.goes(way, value),
        }
    }

    /// What a function that is called by its address gets and gives may be anything.
    pub(super) fn called_elsewhere(&mut self, function: CXCursor) {
        for number in 0..arguments(function).len() {
            let way = format!("{}#{number}", name_of(function));
            self.same_way(&way, ELSEWHERE, Rule::Veiled);
        }
        self.same_way(&format!("{}#r", name_of(function)), ELSEWHERE, Rule::Veiled);
        let of = type_of(function);
        if is_variadic(of) || passed(of).into_iter().any(is_argument_list) {
            self.same_way(ARGUMENTS, ELSEWHERE, Rule::Arguments);
        }
    }

    /// A pointer to the one structure becomes one to the other.
    fn alike(&mut self, one: CXType, other: CXType) {
        if are_same(one, other) {
            return;
        }
        let (of_one, of_other) = (self.structure(one), self.structure(other));
        self.same_way(&of_one, &of_other, Rule::Veiled);
        for record in [one, other] {
            if is_of_system(declaration_of(record)) {
                self.veil(record, ELSEWHERE);
            }
        }
    }
}

/// How many arguments have types, if a call's function gets others, too.
fn named_arguments(call: CXCursor) -> Option<usize> {
    let callee = pointee(type_of(*children(call).first()?))?;
    (callee.kind == CXType_FunctionProto && is_variadic(callee)).then(|| parameters(callee).len())
}

/// Whether a type is that of a `va_list`, or of what it is passed as.
fn is_argument_list(of: CXType) -> bool {
    type_text(canonical_type(of)).contains("__va_list")
}

/// Whether an expression is a `va_arg` of a list.
fn is_variable_argument(cursor: CXCursor, list: CXCursor) -> bool {
    kind(cursor) == CXCursor_UnexposedExpr
        && is_argument_list(type_of(list))
        && !is_argument_list(type_of(cursor))
}

/// The expression that a statement expression has its value of.
fn last_value(cursor: CXCursor) -> Option<CXCursor> {
    let mut last = children(cursor).last().copied()?;
    // A block, or a statement with a label or with attributes.
    while !is_expression(last) {
        last = children(last).last().copied()?;
    }
    Some(last)
}

/// The types of what a function gets and gives.
fn passed(of: CXType) -> Vec<CXType> {
    let mut passed = parameters(of);
    passed.push(result_of(of));
    passed
}
