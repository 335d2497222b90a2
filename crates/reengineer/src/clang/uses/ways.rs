//! Where pointers to structures go without the names of these: the facts by which [`crate::ways`] joins structures.

use std::hash::{DefaultHasher, Hash, Hasher};

#[allow(clippy::wildcard_imports, reason = "its names all begin with clang_ or CX")]
use clang_sys::*;

use super::{
    ALLOCATORS, Walker, arguments, bare, children, element, is_array, is_blank, is_expression, is_function,
    is_number, is_object, kind, kind_of, name_of, owned, pointee, record_below, referenced, result, sort,
    spelling, type_of,
};
use crate::locks::{Fact, Thing};
use crate::rule::Rule;
use crate::ways::{ELSEWHERE, Layout, Pointer, Within};

/// Functions that give what they get a pointer to to nobody.
const BORROWERS: [&str; 7] = ["free", "memset", "memcmp", "bzero", "fwrite", "fread", "__builtin_memset"];

/// The way of what the program's functions get by variable arguments: which function has a `va_list` of which is not followed.
const ARGUMENTS: &str = "variable arguments";

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
            // SAFETY: types of a living unit.
            (Some(before), Some(after)) => unsafe { clang_equalTypes(before, after) == 0 },
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

    fn conversion(&self, cursor: CXCursor) -> Thing {
        // Which of the expressions that begin there, whatever it was found by.
        let which = cursor.data[1].addr();
        let at = self.place(cursor);
        format!("conversion {}:{}:{which}", at.file.display(), at.offset)
    }

    /// The name of a structure's type as a way.
    fn structure(&self, record: CXType) -> Thing {
        // SAFETY: a type of a living unit.
        let declaration = unsafe { clang_getTypeDeclaration(record) };
        self.structure_of(declaration)
    }

    /// The same by a declaration: structures of several files that have one name are as many structures.
    fn structure_of(&self, declaration: CXCursor) -> Thing {
        // SAFETY: a cursor of a living unit.
        let definition = unsafe { clang_getCursorDefinition(declaration) };
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
                    CXCursor_VarDecl | CXCursor_ParmDecl | CXCursor_FieldDecl if !Self::is_of_system(of) => {
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

    fn way_of_call(&mut self, cursor: CXCursor) -> Option<Thing> {
        let (name, function) = (spelling(cursor), referenced(cursor));
        let is_named = kind(function) == CXCursor_FunctionDecl;
        if is_named && matches!(name.as_str(), "realloc" | "reallocarray") {
            return arguments(cursor).first().and_then(|moved| self.way(*moved));
        }
        if is_named && ALLOCATORS.contains(&name.as_str()) {
            return None;
        }
        if !is_named || Self::is_of_system(function) || is_number(result(function)) {
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
        let is_program = is_named && !Self::is_of_system(function);
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
            let is_variable = is_variadic(cursor).is_some_and(|named| number >= named);
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
        // SAFETY: a type of a living unit.
        if unsafe { clang_isFunctionTypeVariadic(of) } != 0 || passed(of).into_iter().any(is_argument_list) {
            self.same_way(ARGUMENTS, ELSEWHERE, Rule::Arguments);
        }
    }

    /// A pointer to the one structure becomes one to the other.
    fn alike(&mut self, one: CXType, other: CXType) {
        // SAFETY: types of a living unit.
        if unsafe { clang_equalTypes(one, other) } != 0 {
            return;
        }
        let (of_one, of_other) = (self.structure(one), self.structure(other));
        self.same_way(&of_one, &of_other, Rule::Veiled);
        for record in [one, other] {
            // SAFETY: as above.
            if Self::is_of_system(unsafe { clang_getTypeDeclaration(record) }) {
                self.veil(record, ELSEWHERE);
            }
        }
    }

    /// What a structure or a union has, which is declared there.
    pub(super) fn describe(&mut self, declaration: CXCursor) {
        let structure = self.structure_of(declaration);
        // SAFETY: a cursor of a living unit.
        let is_definition = unsafe { clang_isCursorDefinition(declaration) } != 0;
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
        if Self::is_of_system(declaration) {
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
            // SAFETY: a cursor of a living unit.
            if unsafe { clang_Cursor_isAnonymousRecordDecl(part) } != 0 {
                self.members(part, base, before, layout);
            }
        }
    }

    fn member(&self, field: CXCursor, base: Base, before: &mut DefaultHasher, layout: &mut Layout) {
        let of = type_of(field);
        // SAFETY: a field of a living unit, as all here.
        let at = unsafe { clang_Cursor_getOffsetOfField(field) };
        // SAFETY: as above.
        let size = unsafe { clang_Type_getSizeOf(of) }.saturating_mul(8).max(8);
        if at < 0 {
            return;
        }
        let begin = base.begin.saturating_add(at);
        let inner = element(of);
        // SAFETY: as above.
        let one = unsafe { clang_Type_getSizeOf(inner) }.saturating_mul(8).max(8);
        if let Some(number) = sort(of) {
            let is_pointer = !is_object(inner);
            let end = begin.saturating_add(size).saturating_add(base.spread);
            let is_array = base.spread > 0 || is_array(of);
            layout.locks.push((Within { number, is_pointer, begin, end, is_array }, self.thing(field)));
            ("lock", number, begin, size).hash(before);
        } else if inner.kind == CXType_Record {
            let spread = base.spread.saturating_add(size.saturating_sub(one).max(0));
            // SAFETY: as above.
            let declaration = unsafe { clang_getTypeDeclaration(inner) };
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

/// How many arguments have types, if a call's function gets others, too.
fn is_variadic(call: CXCursor) -> Option<usize> {
    let callee = pointee(type_of(*children(call).first()?))?;
    // SAFETY: a type of a living unit, as below.
    let is_variadic = unsafe { clang_isFunctionTypeVariadic(callee) } != 0;
    // SAFETY: as above.
    let count = usize::try_from(unsafe { clang_getNumArgTypes(callee) }).ok()?;
    (callee.kind == CXType_FunctionProto && is_variadic).then_some(count)
}

/// Whether a type is that of a `va_list`, or of what it is passed as.
fn is_argument_list(of: CXType) -> bool {
    // SAFETY: a type of a living unit, as below.
    let canonical = unsafe { clang_getCanonicalType(of) };
    // SAFETY: as above.
    owned(unsafe { clang_getTypeSpelling(canonical) }).contains("__va_list")
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
    // SAFETY: a type of a living unit, as below.
    let count = u32::try_from(unsafe { clang_getNumArgTypes(of) }).unwrap_or(0);
    // SAFETY: as above, and fewer than there are.
    let parameters = (0..count).map(|at| unsafe { clang_getArgType(of, at) });
    // SAFETY: as above.
    parameters.chain([unsafe { clang_getResultType(of) }]).collect()
}
