//! What a file does with mutexes and conditions: the facts by which [`crate::locks`] joins them into classes.
//!
//! The walker visits every declaration, statement and expression. [`names`] says how their types are named, [`origins`] where an address
//! comes from, [`initialisers`] and [`calls`] what is done to them, and [`structures`], [`layouts`], [`ways`] and [`constants`] what
//! becomes of the structures that have them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

#[allow(clippy::wildcard_imports, reason = "its names all begin with clang_ or CX")]
use clang_sys::*;

use super::cursor::{
    Paths, SPELT, WRITTEN, attributes_of, children, is_assignment, is_definition, is_expression,
    is_in_system_header, kind, location_of, name_of, spelling, start_of, unary_operator,
};
use super::types::{
    canonical_type, declaration_of, element_of, is_blank, pointee_of, result, type_of, type_text,
};
use crate::locks::{Fact, Origin, Place, Thing};
use crate::vocabulary::Vocabulary;
use crate::ways::ELSEWHERE;

mod calls;
mod constants;
mod initialisers;
mod layouts;
mod names;
mod origins;
mod structures;
mod ways;

/// The types whose things are followed.
const TYPES: [&str; 2] = ["pthread_mutex_t", "pthread_cond_t"];

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
        if !is_in_system_header(location_of(cursor)) {
            walker.visit(cursor, true);
        }
    }
    walker.facts
}

/// Which of [`TYPES`] a type is, points to or is an array of.
fn sort(of: CXType) -> Option<usize> {
    let mut at = canonical_type(of);
    loop {
        at = match at.kind {
            CXType_Pointer => pointee_of(at),
            CXType_ConstantArray | CXType_IncompleteArray | CXType_VariableArray => element_of(at),
            _ => break,
        };
    }
    if at.kind != CXType_Record {
        return None;
    }
    let declared = spelling(declaration_of(at));
    let is_name = |text: &str| text.chars().all(|it| it.is_alphanumeric() || it == '_') && !text.is_empty();
    let name = if is_name(&declared) {
        declared
    } else {
        // What has no name of its own is spelt by that of its typedef.
        type_text(at).trim_start_matches("const ").to_owned()
    };
    TYPES.iter().position(|known| name == *known)
}

/// Whether a type is one of [`TYPES`] itself.
fn is_object(of: CXType) -> bool {
    let canonical = canonical_type(of);
    canonical.kind == CXType_Record && sort(of).is_some()
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
        self.paths.place(start_of(cursor), WRITTEN).unwrap_or_else(nowhere)
    }

    /// Where `name` is spelt that a cursor begins with: in the text, or in the body of a macro.
    fn token(&mut self, cursor: CXCursor, name: &str) -> Option<Place> {
        let start = start_of(cursor);
        [SPELT, WRITTEN].into_iter().find_map(|locate| {
            let place = self.paths.place(start, locate)?;
            let text = (self.text)(&place.file)?;
            let rest = text.get(place.offset..)?.strip_prefix(name)?;
            let ends = !rest.starts_with(|next: char| next.is_ascii_alphanumeric() || next == '_');
            ends.then_some(place)
        })
    }

    /// A thing stays as it is, for something that is done there.
    fn keep(&mut self, thing: Thing, cursor: CXCursor, how: &'static str) {
        let at = self.place(cursor);
        self.facts.push(Fact::Escapes { origin: Origin::Of(thing), at, how });
    }

    /// The same of what an expression has.
    fn escapes(&mut self, cursor: CXCursor, how: &'static str) {
        let origin = self.origin(cursor);
        let at = self.place(cursor);
        self.facts.push(Fact::Escapes { origin, at, how });
    }

    /// Visits an expression, a statement or a declaration. `accepted`: what is around understands a mutex here.
    fn visit(&mut self, cursor: CXCursor, accepted: bool) {
        let is_ours = sort(type_of(cursor)).is_some();
        if is_expression(cursor) && is_ours && !accepted {
            self.escapes(cursor, "its address goes elsewhere");
        }
        let below = children(cursor);
        self.veiled(cursor, &below);
        if structures::is_copy(cursor) {
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
            CXCursor_StmtExpr if is_ours => return self.statement_expression(&below),
            _ if is_assignment(cursor) => self.assigned(is_ours, &below),
            _ => {}
        }
        // What is not followed through an expression must not be taken for what stays there.
        let is_followed = !is_expression(cursor) || !is_ours || self.origin(cursor) != Origin::Unknown;
        let understood = is_followed && self.understands(cursor, is_ours, below.len());
        for child in below {
            self.visit(child, understood);
        }
    }

    /// Visits the statements of an expression that has a mutex: it has the value of the last, whose way is not followed.
    fn statement_expression(&mut self, below: &[CXCursor]) {
        for statements in below {
            let all = children(*statements);
            for (number, statement) in all.iter().enumerate() {
                if number + 1 == all.len() {
                    self.visit_value(*statement);
                } else {
                    self.visit(*statement, true);
                }
            }
        }
    }

    /// Visits the statement that a statement expression has its value of, which goes where it is not followed.
    fn visit_value(&mut self, cursor: CXCursor) {
        if is_expression(cursor) {
            return self.visit(cursor, false);
        }
        // A label's, or one with attributes.
        for child in children(cursor) {
            self.visit_value(child);
        }
    }

    /// Whether something with so many parts may have mutexes in it without their going anywhere.
    fn understands(&self, cursor: CXCursor, is_ours: bool, parts: usize) -> bool {
        let own = kind(cursor);
        if !is_expression(cursor) {
            return own != CXCursor_ReturnStmt
                || self.function.is_some_and(|function| sort(result(function)).is_some());
        }
        let compares = own == CXCursor_BinaryOperator && !is_assignment(cursor) || own == CXCursor_UnaryExpr;
        let is_test = own == CXCursor_UnaryOperator && unary_operator(cursor) == CXUnaryOperator_LNot;
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

    /// Notes that a function is defined and what it returns, and visits its parts.
    fn function(&mut self, cursor: CXCursor, below: &[CXCursor]) {
        let name = name_of(cursor);
        let is_defined = is_definition(cursor);
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

    /// Notes how a declaration names its type, and what it gives what it declares.
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
                    self.keep(thing.clone(), cursor, "a cleanup gets it");
                }
            }
            if own == CXCursor_TypedefDecl {
                self.facts.push(Fact::Typedef(thing.clone()));
            }
            self.types(&thing, cursor);
        }
    }

    /// Notes where a value goes that is returned.
    fn returned(&mut self, below: &[CXCursor]) {
        let (Some(function), Some(value)) = (self.function, below.first()) else { return };
        let thing = format!("{}#r", name_of(function));
        if sort(result(function)).is_some() {
            self.same(&thing, *value);
        } else {
            self.goes(&thing, *value);
        }
    }

    /// Notes what an assignment gives what is assigned to.
    fn assigned(&mut self, is_ours: bool, below: &[CXCursor]) {
        let [to, from] = below else { return };
        if !is_ours {
            if is_blank(type_of(*to)) {
                let way = self.way(*to).unwrap_or_else(|| ELSEWHERE.to_owned());
                self.goes(&way, *from);
            }
            return;
        }
        match self.origin(*to) {
            Origin::Of(thing) => self.same(&thing, *from),
            _ => self.escapes(*from, "its address goes elsewhere"),
        }
    }
}
