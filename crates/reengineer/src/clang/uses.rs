//! What a file does with mutexes and conditions: the facts by which [`crate::locks`] joins them into classes.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

#[allow(clippy::wildcard_imports, reason = "its names all begin with clang_ or CX")]
use clang_sys::*;

use super::{Locate, Paths, attributes_of, children, kind, owned, spelling, start_of};
use crate::locks::{Call, Fact, Origin, Place, Thing, Use};
use crate::vocabulary::{Action, Vocabulary};
use crate::ways::ELSEWHERE;

mod constants;
mod ways;

/// The types whose things are followed.
const TYPES: [&str; 2] = ["pthread_mutex_t", "pthread_cond_t"];
const INITIALISERS: [&str; 2] = ["PTHREAD_MUTEX_INITIALIZER", "PTHREAD_COND_INITIALIZER"];

/// POSIX's functions: what each does.
fn posix(name: &str) -> Option<Use> {
    Some(match name {
        "pthread_mutex_init" | "pthread_cond_init" => Use::Init,
        "pthread_mutex_destroy" | "pthread_cond_destroy" => Use::Destroy,
        "pthread_mutex_lock" => Use::Lock,
        "pthread_mutex_unlock" => Use::Unlock,
        "pthread_mutex_trylock" => Use::Try,
        "pthread_cond_wait" => Use::Wait,
        "pthread_cond_timedwait" => Use::TimedWait,
        "pthread_cond_signal" => Use::Signal,
        "pthread_cond_broadcast" => Use::Broadcast,
        _ if name.starts_with("pthread_mutex_") || name.starts_with("pthread_cond_") => Use::Foreign,
        _ => return None,
    })
}

/// Functions by which attributes say that a mutex knows the thread which holds it.
const OWNING: [&str; 4] = [
    "pthread_mutexattr_settype",
    "pthread_mutexattr_setrobust",
    "pthread_mutexattr_setrobust_np",
    "pthread_mutexattr_setprotocol",
];

/// Whether what such a function is told is `PTHREAD_MUTEX_NORMAL` or `PTHREAD_MUTEX_ADAPTIVE_NP`, or the same of the others.
fn belongs_to_nobody(kind: CXCursor) -> bool {
    matches!(super::value(kind), Some(0 | 3))
}

/// Functions that give memory.
const ALLOCATORS: [&str; 6] = ["malloc", "calloc", "realloc", "reallocarray", "aligned_alloc", "memalign"];

/// Functions that copy or move what their first arguments, so many, point to.
const COPIERS: [(&str, usize); 5] =
    [("realloc", 1), ("reallocarray", 1), ("memcpy", 2), ("memmove", 2), ("__builtin_memcpy", 2)];

/// The facts of a file. `text` has the file's own text and those of the program's headers.
pub(super) fn facts(
    root: CXCursor,
    paths: &Paths<'_>,
    vocabulary: &Vocabulary,
    text: &mut dyn FnMut(&Path) -> Option<String>,
) -> Vec<Fact> {
    // SAFETY: the root of a living unit.
    let unit = unsafe { clang_Cursor_getTranslationUnit(root) };
    let (facts, initialised) = (Vec::new(), BTreeSet::new());
    let mut walker = Walker {
        unit,
        paths,
        vocabulary,
        text,
        facts,
        initialised,
        function: None,
        followed: BTreeSet::new(),
        described: BTreeSet::new(),
        begun: Vec::new(),
    };
    for cursor in children(root) {
        // SAFETY: a cursor of a living unit, as all in this file.
        let location = unsafe { clang_getCursorLocation(cursor) };
        // SAFETY: a location of a living unit.
        if unsafe { clang_Location_isInSystemHeader(location) } == 0 {
            walker.visit(cursor, true);
        }
    }
    walker.facts
}

fn type_of(cursor: CXCursor) -> CXType {
    // SAFETY: see `facts`.
    unsafe { clang_getCursorType(cursor) }
}

/// Which of [`TYPES`] a type is, points to or is an array of.
fn sort(of: CXType) -> Option<usize> {
    // SAFETY: a type of a living unit, as below.
    let mut at = unsafe { clang_getCanonicalType(of) };
    loop {
        at = match at.kind {
            // SAFETY: as above.
            CXType_Pointer => unsafe { clang_getPointeeType(at) },
            CXType_ConstantArray | CXType_IncompleteArray | CXType_VariableArray => {
                // SAFETY: as above.
                unsafe { clang_getArrayElementType(at) }
            }
            _ => break,
        };
    }
    if at.kind != CXType_Record {
        return None;
    }
    // SAFETY: as above.
    let declared = spelling(unsafe { clang_getTypeDeclaration(at) });
    let is_name = |text: &str| text.chars().all(|it| it.is_alphanumeric() || it == '_') && !text.is_empty();
    let name = if is_name(&declared) {
        declared
    } else {
        // What has no name of its own is spelt by that of its typedef.
        // SAFETY: as above.
        owned(unsafe { clang_getTypeSpelling(at) }).trim_start_matches("const ").to_owned()
    };
    TYPES.iter().position(|known| name == *known)
}

/// Whether a type is one of [`TYPES`] itself.
fn is_object(of: CXType) -> bool {
    // SAFETY: a type of a living unit.
    let canonical = unsafe { clang_getCanonicalType(of) };
    canonical.kind == CXType_Record && sort(of).is_some()
}

/// A function that asks libclang about a type.
type Qualified = unsafe fn(CXType) -> u32;

/// Whether a typedef is another name of one of [`TYPES`], and nothing more.
fn is_plain(typedef: CXCursor) -> bool {
    let own = type_of(typedef);
    // SAFETY: a type of a living unit, as below.
    let canonical = unsafe { clang_getCanonicalType(own) };
    let asked = [clang_isConstQualifiedType as Qualified, clang_isVolatileQualifiedType];
    // SAFETY: as above.
    let is_qualified = asked.into_iter().any(|is| unsafe { is(canonical) } != 0);
    is_object(own) && !is_qualified
}

fn is_expression(cursor: CXCursor) -> bool {
    // SAFETY: it takes a number.
    unsafe { clang_isExpression(kind(cursor)) != 0 }
}

fn referenced(cursor: CXCursor) -> CXCursor {
    // SAFETY: see `facts`.
    unsafe { clang_getCursorReferenced(cursor) }
}

fn name_of(cursor: CXCursor) -> String {
    // SAFETY: see `facts`.
    owned(unsafe { clang_getCursorUSR(cursor) })
}

fn arguments(cursor: CXCursor) -> Vec<CXCursor> {
    // SAFETY: see `facts`.
    let count = unsafe { clang_Cursor_getNumArguments(cursor) };
    // SAFETY: fewer than there are.
    (0..u32::try_from(count).unwrap_or(0)).map(|at| unsafe { clang_Cursor_getArgument(cursor, at) }).collect()
}

/// Whether something in an expression, itself included, is so.
fn has(cursor: CXCursor, is_it: &dyn Fn(CXCursor) -> bool) -> bool {
    is_it(cursor) || children(cursor).into_iter().any(|child| has(child, is_it))
}

/// Whether an expression is a `sizeof`.
fn is_size(cursor: CXCursor) -> bool {
    kind(cursor) == CXCursor_UnaryExpr
}

/// What is inside of parentheses and of conversions that are not spelt.
fn bare(mut cursor: CXCursor) -> CXCursor {
    while matches!(kind(cursor), CXCursor_ParenExpr | CXCursor_UnexposedExpr) {
        match children(cursor).as_slice() {
            [inner] => cursor = *inner,
            _ => break,
        }
    }
    cursor
}

/// The value of an element of an initialiser with its designators, `[2] = …` or `.a.b = …`; of others, itself.
fn value_of(cursor: CXCursor) -> CXCursor {
    let below = children(cursor);
    let is_designated = kind(cursor) == CXCursor_UnexposedExpr && below.len() > 1;
    below.last().copied().filter(|_| is_designated).unwrap_or(cursor)
}

struct Walker<'a> {
    unit: CXTranslationUnit,
    paths: &'a Paths<'a>,
    vocabulary: &'a Vocabulary,
    text: &'a mut dyn FnMut(&Path) -> Option<String>,
    facts: Vec<Fact>,
    /// Where the program's macros are used to initialise things that are known.
    initialised: BTreeSet<Place>,
    /// The function around.
    function: Option<CXCursor>,
    /// Conversions of structures to what hides them of which it is known where the value goes.
    followed: BTreeSet<Thing>,
    /// Structures that a fact says the layout of.
    described: BTreeSet<Thing>,
    /// Functions as calls name them that begin a thread.
    begun: Vec<CXCursor>,
}

impl Walker<'_> {
    /// Where a cursor begins in the text: of a macro, its expansion.
    fn place(&self, cursor: CXCursor) -> Place {
        let nowhere = || Place { file: PathBuf::new(), offset: 0 };
        self.paths.place(start_of(cursor), clang_getFileLocation as Locate).unwrap_or_else(nowhere)
    }

    /// Where `name` is spelt that a cursor begins with: in the text, or in the body of a macro.
    fn token(&mut self, cursor: CXCursor, name: &str) -> Option<Place> {
        let start = start_of(cursor);
        [clang_getSpellingLocation as Locate, clang_getFileLocation as Locate].into_iter().find_map(
            |locate| {
                let place = self.paths.place(start, locate)?;
                let text = (self.text)(&place.file)?;
                let rest = text.get(place.offset..)?.strip_prefix(name)?;
                let ends = !rest.starts_with(|next: char| next.is_ascii_alphanumeric() || next == '_');
                ends.then_some(place)
            },
        )
    }

    fn escapes(&mut self, cursor: CXCursor, how: &'static str) {
        let origin = self.origin(cursor);
        let at = self.place(cursor);
        self.facts.push(Fact::Escapes { origin, at, how });
    }

    fn same(&mut self, thing: &str, cursor: CXCursor) {
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
            let at = self.place(cursor);
            self.facts.push(Fact::Escapes { origin: Origin::Of(thing.to_owned()), at, how: "it is copied" });
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

    /// A type whose size is asked for where memory is allocated is that of the thing that the memory is for.
    fn sizes(&mut self, thing: &str, cursor: CXCursor) {
        for child in children(cursor) {
            if kind(child) == CXCursor_TypeRef {
                self.type_name(thing, child);
            }
            self.sizes(thing, child);
        }
    }

    /// The thing that a declaration is.
    fn thing(&self, cursor: CXCursor) -> Thing {
        // SAFETY: see `facts`.
        let parent = unsafe { clang_getCursorSemanticParent(cursor) };
        if kind(cursor) == CXCursor_ParmDecl && kind(parent) == CXCursor_FunctionDecl {
            // SAFETY: both are cursors of a living unit.
            let is_it = |other: &CXCursor| unsafe { clang_equalCursors(*other, cursor) } != 0;
            if let Some(number) = arguments(parent).iter().position(is_it) {
                return format!("{}#{number}", name_of(parent));
            }
        }
        // SAFETY: see `facts`.
        let is_local = unsafe { clang_getCursorLinkage(cursor) } == CXLinkage_NoLinkage;
        let name = name_of(cursor);
        if is_local && kind(cursor) != CXCursor_FieldDecl && kind(cursor) != CXCursor_TypedefDecl
            || name.is_empty()
        {
            // SAFETY: see `facts`.
            let location = unsafe { clang_getCursorLocation(cursor) };
            let place = self.paths.place(location, clang_getFileLocation as Locate);
            return place.map_or(name, |place| format!("local {}:{}", place.file.display(), place.offset));
        }
        name
    }

    /// Whether a declaration is a header's of the system, or the compiler's own.
    fn is_of_system(cursor: CXCursor) -> bool {
        // SAFETY: see `facts`.
        let location = unsafe { clang_getCursorLocation(cursor) };
        let is_built_in = super::offset(location, clang_getFileLocation as Locate).0.is_null();
        // SAFETY: a location of a living unit.
        is_built_in || unsafe { clang_Location_isInSystemHeader(location) != 0 }
    }

    /// What an expression of a mutex's type has.
    fn origin(&mut self, cursor: CXCursor) -> Origin {
        let below = children(cursor);
        match kind(cursor) {
            CXCursor_DeclRefExpr | CXCursor_MemberRefExpr => {
                let of = referenced(cursor);
                let is_known = matches!(kind(of), CXCursor_VarDecl | CXCursor_FieldDecl | CXCursor_ParmDecl);
                if !is_known || Self::is_of_system(of) || sort(type_of(of)).is_none() {
                    return Origin::Unknown;
                }
                Origin::Of(self.thing(of))
            }
            CXCursor_CallExpr => {
                let function = referenced(cursor);
                if kind(function) != CXCursor_FunctionDecl || Self::is_of_system(function) {
                    return Origin::Unknown;
                }
                Origin::Of(format!("{}#r", name_of(function)))
            }
            CXCursor_ParenExpr | CXCursor_UnexposedExpr => match below.as_slice() {
                [inner] if sort(type_of(*inner)).is_some() => self.origin(*inner),
                [inner] => Self::fresh(*inner),
                _ => Origin::Unknown,
            },
            CXCursor_CStyleCastExpr => match below.last() {
                Some(inner) if sort(type_of(*inner)).is_some() => self.origin(*inner),
                Some(inner) => Self::fresh(*inner),
                None => Origin::Unknown,
            },
            CXCursor_UnaryOperator | CXCursor_ArraySubscriptExpr | CXCursor_BinaryOperator => {
                let ours: Vec<_> =
                    below.into_iter().filter(|child| sort(type_of(*child)).is_some()).collect();
                match ours.as_slice() {
                    [one] => self.origin(*one),
                    // An assignment has what is assigned to; the flow of what is assigned is a fact of its own.
                    [first, _] if Self::is_assignment(cursor) => self.origin(*first),
                    _ => Origin::Unknown,
                }
            }
            CXCursor_ConditionalOperator => match below.as_slice() {
                [_, one, other] => match (self.origin(*one), self.origin(*other)) {
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
                },
                _ => Origin::Unknown,
            },
            CXCursor_InitListExpr => Origin::Fresh,
            _ => Origin::Unknown,
        }
    }

    /// Whether an expression of another type is null or a call that gives memory.
    fn fresh(cursor: CXCursor) -> Origin {
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

    fn is_assignment(cursor: CXCursor) -> bool {
        // SAFETY: see `facts`.
        kind(cursor) == CXCursor_BinaryOperator
            && unsafe { clang_getCursorBinaryOperatorKind(cursor) } == CXBinaryOperator_Assign
    }

    /// The type names of a declaration or a cast are those of the thing.
    fn types(&mut self, thing: &str, cursor: CXCursor) {
        let names: Vec<_> =
            children(cursor).into_iter().filter(|child| kind(*child) == CXCursor_TypeRef).collect();
        if names.is_empty() {
            let at = self.place(cursor);
            let origin = Origin::Of(thing.to_owned());
            self.facts.push(Fact::Escapes { origin, at, how: "its type is not named where it is declared" });
        }
        for name in names {
            self.type_name(thing, name);
        }
    }

    fn type_name(&mut self, thing: &str, name: CXCursor) {
        let of = referenced(name);
        let Some(sort) = sort(type_of(of)) else { return };
        let (thing, stands_for) = (thing.to_owned(), TYPES[sort]);
        let spelt = spelling(of);
        let place = self.token(name, &spelt);
        let fact = match (TYPES.contains(&spelt.as_str()), place) {
            (true, Some(at)) => match self.alias(name, &at) {
                Some(alias) => {
                    Fact::Named { thing, by: at.to_string(), at: alias, stands_for, body: Some(at) }
                }
                None => Fact::Type { thing, at },
            },
            (true, None) => Fact::Escapes {
                origin: Origin::Of(thing),
                at: self.place(name),
                how: "its type comes from a macro of a macro",
            },
            (false, Some(at)) if is_plain(of) => {
                Fact::Named { thing, by: self.thing(of), at, stands_for, body: None }
            }
            (false, _) => Fact::Through { thing, by: self.thing(of), at: self.place(name) },
        };
        self.facts.push(fact);
    }

    /// Where a macro is named that stands for nothing but the type whose name is spelt at `at`, in its body.
    fn alias(&mut self, name: CXCursor, at: &Place) -> Option<Place> {
        let used = self.place(name);
        if used == *at {
            return None;
        }
        let text = (self.text)(&at.file)?;
        let line = text.get(..at.offset)?.rfind('\n').map_or(0, |end| end + 1);
        let head =
            text[line..at.offset].trim_start().strip_prefix('#')?.trim_start().strip_prefix("define")?;
        let macro_name = word(head.trim_start());
        let is_bare = head.trim() == macro_name && head.ends_with([' ', '\t']);
        let rest = &text[at.offset + word(&text[at.offset..]).len()..];
        let is_all = rest.lines().next().unwrap_or_default().trim().is_empty();
        let there = (self.text)(&used.file)?;
        let is_named = word(there.get(used.offset..)?) == macro_name;
        (is_bare && is_all && is_named && !macro_name.is_empty()).then_some(used)
    }

    /// A size that is asked for by a name of a mutex's type.
    fn size(&mut self, cursor: CXCursor) {
        for child in children(cursor).into_iter().filter(|child| kind(*child) == CXCursor_TypeRef) {
            let of = referenced(child);
            if sort(type_of(of)).is_none() {
                continue;
            }
            let spelt = spelling(of);
            let Some(at) = self.token(child, &spelt) else { continue };
            let is_base = TYPES.contains(&spelt.as_str());
            let (by, at) = match self.alias(child, &at).filter(|_| is_base) {
                Some(alias) => (at.to_string(), alias),
                None if is_base => {
                    self.facts.push(Fact::Size(at));
                    continue;
                }
                None => (self.thing(of), at),
            };
            let expanded = self.paths.place(start_of(child), clang_getExpansionLocation as Locate);
            let of_macro = expanded.as_ref() != Some(&at);
            self.facts.push(Fact::Sized { by, at, of_macro });
        }
    }

    /// Visits an expression, a statement or a declaration. `accepted`: what is around understands a mutex here.
    fn visit(&mut self, cursor: CXCursor, accepted: bool) {
        let is_ours = sort(type_of(cursor)).is_some();
        if is_expression(cursor) && is_ours && !accepted {
            self.escapes(cursor, "its address goes elsewhere");
        }
        let below = children(cursor);
        self.veiled(cursor, &below);
        if is_copy(cursor) {
            self.copied(type_of(cursor), cursor, "it is copied with its structure");
        }
        self.constants(cursor, &below);
        match kind(cursor) {
            CXCursor_FunctionDecl => return self.function(cursor, &below),
            CXCursor_VarDecl | CXCursor_FieldDecl | CXCursor_ParmDecl | CXCursor_TypedefDecl => {
                self.declaration(cursor, is_ours, &below);
            }
            CXCursor_CallExpr => return self.call(cursor, &below),
            CXCursor_DeclRefExpr => self.function_passed(cursor),
            CXCursor_ReturnStmt => self.returned(&below),
            CXCursor_CStyleCastExpr => self.cast(cursor, is_ours, &below),
            CXCursor_InitListExpr => self.list(cursor, &below),
            CXCursor_UnaryExpr => self.size(cursor),
            CXCursor_StructDecl => self.describe(cursor),
            CXCursor_UnionDecl => {
                self.describe(cursor);
                self.below_union(cursor);
            }
            // Its value is that of its last statement, whose way is not followed.
            CXCursor_StmtExpr if is_ours => {
                for statements in below {
                    let all = children(statements);
                    for (number, statement) in all.iter().enumerate() {
                        if number + 1 == all.len() {
                            self.visit_value(*statement)
                        } else {
                            self.visit(*statement, true)
                        }
                    }
                }
                return;
            }
            _ if Self::is_assignment(cursor) && is_ours => self.assigned(&below),
            _ if Self::is_assignment(cursor) => {
                if let [to, from] = below.as_slice()
                    && is_blank(type_of(*to))
                {
                    let way = self.way(*to).unwrap_or_else(|| ELSEWHERE.to_owned());
                    self.goes(&way, *from);
                }
            }
            _ => {}
        }
        // What is not followed through an expression must not be taken for what stays there.
        let is_followed = !is_expression(cursor) || !is_ours || self.origin(cursor) != Origin::Unknown;
        let understood = is_followed && self.understands(cursor, is_ours, below.len());
        for child in below {
            self.visit(child, understood);
        }
    }

    /// Visits the statement that a statement expression has its value of, which goes where nobody follows.
    fn visit_value(&mut self, cursor: CXCursor) {
        if is_expression(cursor) {
            return self.visit(cursor, false);
        }
        // A label's, or one with attributes.
        for child in children(cursor) {
            self.visit_value(child);
        }
    }

    /// Mutexes of a structure, or of an array of structures, that is copied or moved stay: a delegate must be where it was made.
    fn copied(&mut self, of: CXType, cursor: CXCursor, how: &'static str) {
        let record = element(of);
        if record.kind != CXType_Record || sort(record).is_some() {
            return;
        }
        // SAFETY: a type of a living unit.
        let declaration = unsafe { clang_getTypeDeclaration(record) };
        if Self::is_of_system(declaration) {
            return;
        }
        for child in children(declaration) {
            match kind(child) {
                CXCursor_FieldDecl if is_object(element(type_of(child))) => {
                    let origin = Origin::Of(self.thing(child));
                    let at = self.place(cursor);
                    self.facts.push(Fact::Escapes { origin, at, how });
                }
                CXCursor_FieldDecl => self.copied(type_of(child), cursor, how),
                // Those without a name are no fields of their own. Others are declared there for pointers, perhaps to what is around.
                // SAFETY: see `facts`.
                _ if unsafe { clang_Cursor_isAnonymousRecordDecl(child) } != 0 => {
                    self.copied(type_of(child), cursor, how)
                }
                _ => {}
            }
        }
    }

    /// Mutexes of a union may be in one place, and would have to be of one sort. What is in it, at any depth, stays.
    fn below_union(&mut self, record: CXCursor) {
        for child in children(record) {
            match kind(child) {
                // Those without a name are no fields of their own.
                CXCursor_StructDecl | CXCursor_UnionDecl => self.below_union(child),
                CXCursor_FieldDecl if sort(type_of(child)).is_some() => {
                    let origin = Origin::Of(self.thing(child));
                    let at = self.place(child);
                    self.facts.push(Fact::Escapes { origin, at, how: "it is in a union" });
                }
                CXCursor_FieldDecl => {
                    let of = element(type_of(child));
                    if of.kind == CXType_Record {
                        // SAFETY: a type of a living unit.
                        self.below_union(unsafe { clang_getTypeDeclaration(of) });
                    }
                }
                _ => {}
            }
        }
    }

    /// Whether something with so many parts may have mutexes in it without their going anywhere.
    fn understands(&self, cursor: CXCursor, is_ours: bool, parts: usize) -> bool {
        let own = kind(cursor);
        if !is_expression(cursor) {
            return own != CXCursor_ReturnStmt
                || self.function.is_some_and(|function| sort(result(function)).is_some());
        }
        let compares =
            own == CXCursor_BinaryOperator && !Self::is_assignment(cursor) || own == CXCursor_UnaryExpr;
        let is_test = own == CXCursor_UnaryOperator
            // SAFETY: see `facts`.
            && unsafe { clang_getCursorUnaryOperatorKind(cursor) } == CXUnaryOperator_LNot;
        // SAFETY: a type of a living unit.
        let to_nothing = own == CXCursor_CStyleCastExpr && type_of(cursor).kind == CXType_Void;
        let passes_on = is_ours
            && matches!(
                own,
                CXCursor_ParenExpr
                    | CXCursor_UnexposedExpr
                    | CXCursor_UnaryOperator
                    | CXCursor_ArraySubscriptExpr
                    | CXCursor_BinaryOperator
                    | CXCursor_ConditionalOperator
                    | CXCursor_CStyleCastExpr
                    | CXCursor_InitListExpr
            );
        // Of more parts is an atomic exchange.
        let is_condition = own == CXCursor_UnexposedExpr && type_of(cursor).kind == CXType_Bool && parts == 1;
        compares || is_test || to_nothing || passes_on || is_condition || own == CXCursor_InitListExpr
    }

    fn function(&mut self, cursor: CXCursor, below: &[CXCursor]) {
        let name = name_of(cursor);
        // SAFETY: see `facts`.
        let is_defined = unsafe { clang_isCursorDefinition(cursor) } != 0;
        if is_defined {
            self.facts.push(Fact::Defined(name.clone()));
        }
        if sort(result(cursor)).is_some() {
            self.types(&format!("{name}#r"), cursor);
        }
        let around = self.function.replace(cursor);
        for child in below {
            self.visit(*child, true);
        }
        self.function = around;
    }

    fn declaration(&mut self, cursor: CXCursor, is_ours: bool, below: &[CXCursor]) {
        let own = kind(cursor);
        if own == CXCursor_VarDecl {
            let init = below.last().copied().filter(|last| is_expression(*last));
            // A declaration's last child may be the bound of an array: an initialiser has the variable's type.
            if is_ours && let Some(init) = init.filter(|init| sort(type_of(*init)).is_some()) {
                let thing = self.thing(cursor);
                self.initialised(&thing, init);
                self.same(&thing, init);
            } else if let Some(init) = init.filter(|init| is_blank(type_of(*init))) {
                let thing = self.thing(cursor);
                self.goes(&thing, init);
            }
        }
        if is_ours {
            let thing = self.thing(cursor);
            for attribute in attributes_of(cursor) {
                if ["cleanup", "__cleanup__"].iter().any(|name| self.token(attribute, name).is_some()) {
                    let at = self.place(cursor);
                    let (origin, how) = (Origin::Of(thing.clone()), "a cleanup gets it");
                    self.facts.push(Fact::Escapes { origin, at, how });
                }
            }
            if own == CXCursor_TypedefDecl {
                self.facts.push(Fact::Typedef(thing.clone()));
            }
            self.types(&thing, cursor);
        }
    }

    /// An initialiser of a mutex, or of an array of them.
    fn initialised(&mut self, thing: &str, init: CXCursor) {
        let init = value_of(init);
        if kind(init) != CXCursor_InitListExpr {
            return;
        }
        if !is_object(type_of(init)) {
            for child in children(init) {
                self.initialised(thing, child);
            }
            return;
        }
        let at = self.place(init);
        let text = (self.text)(&at.file).unwrap_or_default();
        let rest = text.get(at.offset..).unwrap_or_default();
        let fact = if INITIALISERS.iter().any(|name| rest.starts_with(*name)) {
            Fact::Initialiser { thing: thing.to_owned(), at }
        } else if rest.starts_with('{') && is_zero(rest) {
            return;
        } else if let Some(body) = self.initialiser(init) {
            self.initialised.insert(at);
            Fact::Initialiser { thing: thing.to_owned(), at: body }
        } else if !rest.starts_with('{') && !rest.starts_with("PTHREAD_") {
            let origin = Origin::Of(thing.to_owned());
            self.facts.push(Fact::Owned { origin, at: at.clone(), by_attributes: false });
            let how = "its initialiser comes from a macro that is not understood (write PTHREAD_MUTEX_INITIALIZER there)";
            Fact::Escapes { origin: Origin::Of(thing.to_owned()), at, how }
        } else {
            if !rest.starts_with("PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP") {
                let origin = Origin::Of(thing.to_owned());
                self.facts.push(Fact::Owned { origin, at: at.clone(), by_attributes: false });
            }
            Fact::Escapes {
                origin: Origin::Of(thing.to_owned()),
                at,
                how: "its initialiser is not PTHREAD_MUTEX_INITIALIZER",
            }
        };
        self.facts.push(fact);
    }

    /// Where one of the program's macros has POSIX's initialiser, which this one comes from.
    fn initialiser(&mut self, init: CXCursor) -> Option<Place> {
        let name = INITIALISERS[sort(type_of(init))?];
        // It is spelt in the body of POSIX's macro, and no other of its kind.
        let spelt = self.paths.place(start_of(init), clang_getSpellingLocation as Locate)?;
        let text = (self.text)(&spelt.file)?;
        let (_, defined) = text.get(..spelt.offset)?.rsplit_once("define")?;
        if word(defined.trim_start()) != name {
            return None;
        }
        let used = self.place(init);
        let mut macro_name = word((self.text)(&used.file)?.get(used.offset..)?).to_owned();
        // Macros may stand for others; a chain of them has an end.
        for _ in 0..8 {
            let (at, body) = self.only_definition(&macro_name)?;
            let is_whole =
                |place: &usize| word(&body[*place..]) == name && !body[..*place].ends_with(is_of_word);
            let named: Vec<usize> =
                body.match_indices(name).map(|(place, _)| place).filter(is_whole).collect();
            match named.as_slice() {
                [place] => return Some(Place { offset: at.offset + place, file: at.file }),
                [] => only_macro(&body)?.clone_into(&mut macro_name),
                _ => return None,
            }
        }
        None
    }

    /// The text of a macro's body, and where that is, if the program's files that are read here define it once.
    fn only_definition(&mut self, name: &str) -> Option<(Place, String)> {
        let mut found = None;
        for file in self.files() {
            let Some(text) = (self.text)(&file) else { continue };
            for (at, _) in text.match_indices("define") {
                let behind = &text[at + "define".len()..];
                let head = behind.trim_start_matches([' ', '\t']);
                let is_directive = text[..at].trim_end_matches([' ', '\t']).ends_with('#');
                if !is_directive || head.len() == behind.len() || word(head) != name {
                    continue;
                }
                let mut offset = text.len() - head.len() + name.len();
                if text[offset..].starts_with('(') {
                    offset += text[offset..].find(')')? + 1;
                }
                let body = &text[offset..];
                let end =
                    body.match_indices('\n').map(|(end, _)| end).find(|end| !body[..*end].ends_with('\\'));
                let body = body[..end.unwrap_or(body.len())].to_owned();
                if found.replace((Place { file: file.clone(), offset }, body)).is_some() {
                    return None;
                }
            }
        }
        found
    }

    /// The program's files that are read here.
    fn files(&self) -> BTreeSet<PathBuf> {
        let mut found: Vec<CXFile> = Vec::new();
        // SAFETY: the vector outlives the call, and the visitor takes it for one.
        unsafe { clang_getInclusions(self.unit, note_file, (&raw mut found).cast()) };
        let is_of_program = |file: &CXFile| {
            // SAFETY: a file of a living unit.
            let begin = unsafe { clang_getLocationForOffset(self.unit, *file, 0) };
            // SAFETY: a location of a living unit.
            unsafe { clang_Location_isInSystemHeader(begin) == 0 }
        };
        found.into_iter().filter(is_of_program).map(|file| self.paths.of(file)).collect()
    }

    /// Initialisers of a structure's fields.
    fn list(&mut self, cursor: CXCursor, below: &[CXCursor]) {
        // SAFETY: a type of a living unit.
        let canonical = unsafe { clang_getCanonicalType(type_of(cursor)) };
        if is_object(canonical) {
            let at = self.place(cursor);
            // What a macro of the program's initialises here is not known.
            if !self.initialised.contains(&at)
                && let Some(body) = self.initialiser(cursor)
            {
                let (origin, how) =
                    (Origin::Of(body.to_string()), "its initialiser's macro is used for another one, too");
                self.facts.push(Fact::Escapes { origin, at, how });
            }
            return;
        }
        if canonical.kind != CXType_Record {
            return;
        }
        // SAFETY: as above.
        let fields: Vec<_> = children(unsafe { clang_getTypeDeclaration(canonical) })
            .into_iter()
            .filter(|child| kind(*child) == CXCursor_FieldDecl)
            .collect();
        let mut designated = None;
        let mut at = 0;
        for child in below {
            if kind(*child) == CXCursor_MemberRef {
                designated = Some(referenced(*child));
                continue;
            }
            // A designator is a child of what it designates in some versions of libclang. The last one names the field.
            let inside = children(*child).into_iter().rfind(|inner| kind(*inner) == CXCursor_MemberRef);
            let field = designated.take().or(inside.map(referenced)).or(fields.get(at).copied());
            at += 1;
            let value = if inside.is_some() { children(*child).last().copied() } else { Some(*child) };
            let (Some(field), Some(value)) = (field, value) else { continue };
            if sort(type_of(value)).is_some() && sort(type_of(field)).is_some() {
                let thing = self.thing(field);
                self.initialised(&thing, value);
                self.same(&thing, value);
            } else if is_blank(type_of(field)) {
                let thing = self.thing(field);
                self.goes(&thing, value);
            } else if sort(type_of(value)).is_some() {
                self.escapes(value, "it initialises a field that is not clear");
            }
        }
    }

    fn returned(&mut self, below: &[CXCursor]) {
        let (Some(function), Some(value)) = (self.function, below.first()) else { return };
        let thing = format!("{}#r", name_of(function));
        if sort(result(function)).is_some() {
            self.same(&thing, *value);
        } else {
            self.goes(&thing, *value);
        }
    }

    fn assigned(&mut self, below: &[CXCursor]) {
        let [to, from] = below else { return };
        match self.origin(*to) {
            Origin::Of(thing) => self.same(&thing, *from),
            _ => self.escapes(*from, "its address goes elsewhere"),
        }
    }

    /// A cast to a mutex's type names that type; one between structures makes them alike.
    fn cast(&mut self, cursor: CXCursor, is_ours: bool, below: &[CXCursor]) {
        let Some(inner) = below.last() else { return };
        if is_ours {
            let at = self.place(cursor);
            let thing = format!("cast {}:{}", at.file.display(), at.offset);
            self.types(&thing, cursor);
            let origin =
                if sort(type_of(*inner)).is_some() { self.origin(*inner) } else { Self::fresh(*inner) };
            if origin == Origin::Unknown {
                self.mix(type_of(bare(*inner)), &thing, sort(type_of(cursor)).unwrap_or_default());
            }
            self.facts.push(Fact::Same(thing, origin));
            return;
        }
        let (to, from) = (pointee(type_of(cursor)), pointee(type_of(bare(*inner))));
        let differ = match (to, from) {
            // SAFETY: types of a living unit.
            (Some(to), Some(from)) => unsafe { clang_equalTypes(to, from) == 0 },
            _ => false,
        };
        if differ && let (Some(to), Some(from)) = (to, from) {
            let at = self.place(cursor);
            let thing = format!("cast {}:{}", at.file.display(), at.offset);
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
        // SAFETY: a type of a living unit.
        let canonical = pointee(of).unwrap_or(unsafe { clang_getCanonicalType(of) });
        if canonical.kind != CXType_Record {
            return;
        }
        // SAFETY: as above.
        let declaration = unsafe { clang_getTypeDeclaration(canonical) };
        let structure = format!("{} {}", TYPES[number], name_of(declaration));
        self.facts.push(Fact::Same(structure.clone(), Origin::Of(thing.to_owned())));
        for field in children(declaration) {
            if kind(field) == CXCursor_FieldDecl && sort(type_of(field)) == Some(number) {
                let field = self.thing(field);
                self.facts.push(Fact::Same(field, Origin::Of(structure.clone())));
            }
        }
    }

    /// A function that is named and not called may be called with any mutex.
    fn function_passed(&mut self, cursor: CXCursor) {
        let of = referenced(cursor);
        if kind(of) != CXCursor_FunctionDecl {
            return;
        }
        // SAFETY: cursors of a living unit.
        let is_begun = |begun: &CXCursor| has(*begun, &|it| unsafe { clang_equalCursors(it, cursor) } != 0);
        if !self.begun.iter().any(is_begun) {
            self.called_elsewhere(of);
        }
        let at = self.place(cursor);
        for parameter in arguments(of).into_iter().filter(|it| sort(type_of(*it)).is_some()) {
            let origin = Origin::Of(self.thing(parameter));
            self.facts.push(Fact::Escapes {
                origin,
                at: at.clone(),
                how: "it comes by a function's address",
            });
        }
        if sort(result(of)).is_some() {
            let origin = Origin::Of(format!("{}#r", name_of(of)));
            self.facts.push(Fact::Escapes { origin, at, how: "it comes by a function's address" });
        }
    }

    fn call(&mut self, cursor: CXCursor, below: &[CXCursor]) {
        let name = spelling(cursor);
        let function = referenced(cursor);
        let all = arguments(cursor);
        let is_function = kind(function) == CXCursor_FunctionDecl;
        let copied = COPIERS.iter().find(|(copier, _)| *copier == name).map_or(0, |(_, count)| *count);
        for argument in all.iter().take(copied).map(|argument| bare(*argument)) {
            let Some(to) = pointee(type_of(argument)) else { continue };
            self.copied(to, cursor, "it is copied or moved with its structure");
            if is_object(to) && copied == 1 {
                self.escapes(argument, "it is moved");
            }
        }
        self.passes(cursor, function, &all);
        if OWNING.contains(&name.as_str()) && !all.get(1).is_some_and(|kind| belongs_to_nobody(*kind)) {
            self.facts.push(Fact::OwnedKind);
        }
        // What is called is looked at only where it is no plain name.
        if let Some(callee) = below.first().filter(|_| !is_function) {
            self.visit(*callee, false);
        }
        if is_function && let Some(does) = posix(&name) {
            self.posix_call(cursor, &name, does, &all);
            for argument in all {
                self.visit(argument, true);
            }
            return;
        }
        let is_program = is_function && !Self::is_of_system(function);
        if is_program && let Some((action, number)) = self.vocabulary.wrapper(&name) {
            self.wrapper_call(cursor, &name, action, all.get(number).copied());
        }
        let parameters = arguments(function);
        for (number, argument) in all.iter().enumerate() {
            let is_ours = sort(type_of(*argument)).is_some();
            let parameter = parameters.get(number).filter(|it| is_program && sort(type_of(**it)).is_some());
            if let (true, Some(_)) = (is_ours, parameter) {
                let thing = format!("{}#{number}", name_of(function));
                self.same(&thing, *argument);
                let at = self.place(cursor);
                self.facts.push(Fact::Parameter { function: name_of(function), thing, at });
                self.visit(*argument, true);
            } else {
                let is_freed = matches!(name.as_str(), "free");
                let inner = if is_freed { bare(*argument) } else { *argument };
                self.visit(inner, is_freed);
            }
        }
    }

    fn wrapper_call(&mut self, cursor: CXCursor, name: &str, action: Action, of: Option<CXCursor>) {
        let does = match action {
            Action::Lock => Use::Lock,
            Action::Unlock => Use::Unlock,
            Action::Try | Action::Wait => Use::Foreign,
        };
        let of = match of {
            Some(of) if sort(type_of(of)).is_some() => self.origin(of),
            _ => Origin::Unknown,
        };
        let at = self.place(cursor);
        let call = Call {
            name: name.to_owned(),
            does,
            of,
            condition: None,
            at,
            token: None,
            is_wrapper: true,
            is_shared: false,
            argument: None,
        };
        self.facts.push(Fact::Call(call));
    }

    fn posix_call(&mut self, cursor: CXCursor, name: &str, mut does: Use, all: &[CXCursor]) {
        let waits = matches!(does, Use::Wait | Use::TimedWait);
        let (of, condition) = if waits { (all.get(1), all.first()) } else { (all.first(), None) };
        let Some(of) = of.copied() else { return };
        let of = self.origin(of);
        if name == "pthread_cond_clockwait"
            && let Some(mutex) = all.get(1)
        {
            // The mutex's use as well as the condition's.
            let of = self.origin(*mutex);
            let at = self.place(cursor);
            let call = Call {
                name: name.to_owned(),
                does,
                of,
                condition: None,
                at,
                token: None,
                is_wrapper: false,
                is_shared: false,
                argument: None,
            };
            self.facts.push(Fact::Call(call));
        }
        let condition = condition.map(|condition| self.origin(*condition));
        let mut argument = None;
        let token = self.token(cursor, name);
        let at = self.place(cursor);
        // The body of a macro keeps its arguments.
        let is_shared = token.as_ref().is_some_and(|token| *token != at) && name == "pthread_cond_init";
        if does == Use::Init
            && let Some(attributes) = all.get(1)
        {
            let is_condition = name == "pthread_cond_init";
            let is_plain = Self::fresh(*attributes) == Origin::Fresh;
            if !is_plain && (is_condition || !self.are_harmless(*attributes)) {
                if !is_condition {
                    let (origin, at) = (of.clone(), at.clone());
                    self.facts.push(Fact::Owned { origin, at, by_attributes: true });
                }
                does = Use::Foreign;
            } else if is_condition && !is_shared || !is_plain {
                argument = self.replaced(cursor, all[0], *attributes, is_condition);
                does = if argument.is_some() { does } else { Use::Foreign };
            }
        }
        let name = name.to_owned();
        let call = Call { name, does, of, condition, at, token, is_wrapper: false, is_shared, argument };
        self.facts.push(Fact::Call(call));
    }

    /// The text of a call's last argument and what comes in its place: nothing, its comma with it, or null.
    fn replaced(
        &mut self,
        call: CXCursor,
        first: CXCursor,
        last: CXCursor,
        is_dropped: bool,
    ) -> Option<(Place, usize, &'static str)> {
        let end = |walker: &Self, cursor| {
            // SAFETY: see `facts`.
            let extent = unsafe { clang_getCursorExtent(cursor) };
            // SAFETY: an extent of a living unit.
            walker.paths.place(unsafe { clang_getRangeEnd(extent) }, clang_getFileLocation as Locate)
        };
        // In a macro the text is another.
        let at = self.place(call);
        if self.token(call, &spelling(call)).as_ref() != Some(&at) {
            return None;
        }
        let first_end = end(self, first)?.offset;
        let last_start = self.place(last).offset;
        let close = end(self, call)?.offset.checked_sub(1)?;
        let start = if is_dropped { first_end } else { last_start };
        let text = (self.text)(&at.file)?;
        let is_whole =
            text.get(start..close)?.contains(',') == is_dropped && text.get(close..)?.starts_with(')');
        let length = close.checked_sub(start)?;
        is_whole.then_some((
            Place { file: at.file, offset: start },
            length,
            if is_dropped { "" } else { "0" },
        ))
    }

    /// Whether attributes are a local variable that only ever is given a plain type.
    fn are_harmless(&self, attributes: CXCursor) -> bool {
        let named = |cursor: CXCursor| {
            let address = bare(cursor);
            let name = children(address).first().copied().map(bare)?;
            (kind(address) == CXCursor_UnaryOperator && kind(name) == CXCursor_DeclRefExpr)
                .then(|| referenced(name))
        };
        let (Some(variable), Some(function)) = (named(attributes), self.function) else { return false };
        // SAFETY: cursors of a living unit, as below.
        let is_it = |cursor: CXCursor| unsafe { clang_equalCursors(referenced(cursor), variable) } != 0;
        // SAFETY: as above.
        let is_local = unsafe { clang_getCursorLinkage(variable) } == CXLinkage_NoLinkage;
        let (mut uses, mut harmless) = (0, 0);
        let mut work = children(function);
        while let Some(cursor) = work.pop() {
            if kind(cursor) == CXCursor_DeclRefExpr && is_it(cursor) {
                uses += 1;
            }
            if kind(cursor) == CXCursor_CallExpr {
                let all = arguments(cursor);
                let takes = |number: usize| {
                    let of = all.get(number).copied().and_then(named);
                    // SAFETY: as above.
                    of.is_some_and(|of| unsafe { clang_equalCursors(of, variable) } != 0)
                };
                harmless += usize::from(match spelling(cursor).as_str() {
                    "pthread_mutexattr_init" | "pthread_mutexattr_destroy" => takes(0),
                    "pthread_mutex_init" => takes(1),
                    // Normal (which is the default) and adaptive.
                    "pthread_mutexattr_settype" => {
                        takes(0)
                            && all.get(1).is_some_and(|value| matches!(super::value(*value), Some(0 | 3)))
                    }
                    _ => false,
                });
            }
            work.extend(children(cursor));
        }
        is_local && uses == harmless
    }
}

extern "C" fn note_file(file: CXFile, _: *mut CXSourceLocation, _: u32, to: CXClientData) {
    // SAFETY: `files` passes a vector.
    unsafe { &mut *to.cast::<Vec<CXFile>>() }.push(file);
}

fn is_of_word(next: char) -> bool {
    next.is_ascii_alphanumeric() || next == '_'
}

/// The word that a text begins with.
fn word(text: &str) -> &str {
    text.find(|next| !is_of_word(next)).map_or(text, |end| &text[..end])
}

/// The name of the macro that a macro's body consists of, with arguments or without.
fn only_macro(body: &str) -> Option<&str> {
    let name = word(body.trim());
    let behind = body.trim()[name.len()..].trim();
    let mut depth = 0_usize;
    for (at, next) in behind.char_indices() {
        match next {
            '(' => depth += 1,
            ')' => depth = depth.checked_sub(1)?,
            '"' | '\'' => return None,
            _ => {}
        }
        if depth == 0 && at + 1 < behind.len() {
            return None;
        }
    }
    (!name.is_empty() && depth == 0 && (behind.is_empty() || behind.ends_with(')'))).then_some(name)
}

/// Whether an expression is the value of a structure that was elsewhere. What only initialises one is new.
fn is_copy(cursor: CXCursor) -> bool {
    // SAFETY: a type of a living unit.
    let canonical = unsafe { clang_getCanonicalType(type_of(cursor)) };
    if canonical.kind != CXType_Record || !is_expression(cursor) {
        return false;
    }
    // The conversion, which is not spelt, of something that has a place to its value. What a function returns is copied there.
    let new =
        [CXCursor_InitListExpr, CXCursor_CompoundLiteralExpr, CXCursor_CallExpr, CXCursor_UnexposedExpr];
    kind(cursor) == CXCursor_UnexposedExpr && !new.contains(&kind(bare(cursor)))
}

/// The type of what a function returns.
fn result(function: CXCursor) -> CXType {
    // SAFETY: see `facts`.
    unsafe { clang_getCursorResultType(function) }
}

/// A type, or of an array what it is made of, without other names.
fn element(of: CXType) -> CXType {
    // SAFETY: a type of a living unit, as below.
    let mut at = unsafe { clang_getCanonicalType(of) };
    while matches!(at.kind, CXType_ConstantArray | CXType_IncompleteArray | CXType_VariableArray) {
        // SAFETY: as above.
        let inner = unsafe { clang_getArrayElementType(at) };
        // SAFETY: as above.
        at = unsafe { clang_getCanonicalType(inner) };
    }
    at
}

/// The structure that a pointer points to, or a pointer to such pointers, or an array of them.
fn record_below(of: CXType) -> Option<CXType> {
    let mut at = element(of);
    let mut is_pointer = false;
    while let Some(inner) = pointee(at) {
        at = element(inner);
        is_pointer = true;
    }
    (is_pointer && at.kind == CXType_Record).then_some(at)
}

/// Whether a type is a pointer, or one to pointers or an array of them, which does not say what structure there is.
fn is_blank(of: CXType) -> bool {
    let mut at = element(of);
    let mut is_pointer = false;
    while let Some(inner) = pointee(at) {
        at = element(inner);
        is_pointer = true;
    }
    is_pointer && at.kind != CXType_Record && !is_function(at)
}

fn is_array(of: CXType) -> bool {
    matches!(kind_of(of), CXType_ConstantArray | CXType_IncompleteArray | CXType_VariableArray)
}

fn is_function(of: CXType) -> bool {
    matches!(of.kind, CXType_FunctionProto | CXType_FunctionNoProto)
}

/// Whether a type is neither a pointer nor an array or a structure, which may have such in them.
fn is_number(of: CXType) -> bool {
    let kind = kind_of(of);
    let is_made = matches!(
        kind,
        CXType_Pointer | CXType_Record | CXType_ConstantArray | CXType_IncompleteArray | CXType_VariableArray
    );
    !is_made && !is_function(of)
}

/// What sort of type it is, whatever its name.
fn kind_of(of: CXType) -> CXTypeKind {
    // SAFETY: a type of a living unit.
    unsafe { clang_getCanonicalType(of) }.kind
}

/// What a pointer points to.
fn pointee(of: CXType) -> Option<CXType> {
    // SAFETY: a type of a living unit, as below.
    let canonical = unsafe { clang_getCanonicalType(of) };
    if canonical.kind != CXType_Pointer {
        return None;
    }
    // SAFETY: as above.
    let inner = unsafe { clang_getPointeeType(canonical) };
    // SAFETY: as above.
    let inner = unsafe { clang_getUnqualifiedType(inner) };
    // SAFETY: as above.
    Some(unsafe { clang_getCanonicalType(inner) })
}

/// Whether a text begins with braces that have nothing in them but zeros.
fn is_zero(text: &str) -> bool {
    let mut depth = 0_usize;
    for next in text.chars() {
        match next {
            '{' => depth += 1,
            '}' if depth == 1 => return true,
            '}' => depth -= 1,
            '0' | ',' | ' ' | '\n' | '\t' => {}
            _ => return false,
        }
    }
    false
}
