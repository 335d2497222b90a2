//! Which declarations of a section are made before it: of what is used outside, of what must outlive a pause, and of what something may
//! have the address of afterwards.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::Range;

use super::address::Way;
use super::captures::Captures;
use super::plan::{Assigned, Hoisted};
use super::text::find_in_code;
use super::{Refusal, View};
use crate::flow::{Id, id};
use crate::rule::Rule;
use crate::tree::{Kind, Node, Shape, Variable};

impl<'a> Captures<'a> {
    /// A compound literal has no name by which it could be declared elsewhere.
    pub(super) fn check_literals(&self) -> Result<(), Refusal> {
        let is_kept = |literal: &Node| {
            self.outlasts(literal) && self.view.way(literal, false, &self.body.contexts) == Way::Kept
        };
        let mut literals = self.body.held.iter().filter(|node| node.kind == Kind::CompoundLiteral);
        if self.view.applies(Rule::Outlives) && literals.any(|literal| is_kept(literal)) {
            return Err(Refusal::Outlives("a compound literal".to_owned()));
        }
        Ok(())
    }

    /// The variables that are declared before the section, and how.
    pub(super) fn hoists(&self) -> Result<BTreeMap<&'a Variable, Hoisted>, Refusal> {
        let view = self.view;
        let used_outside = self.used_outside();
        // What is static stays alive, so that its declaration goes with the section: nothing outside may need that.
        let is_missed = |variable: &&&Variable| view.is_static(variable) && used_outside.contains(**variable);
        if let Some(variable) = self.declared.keys().find(is_missed).filter(|_| view.applies(Rule::Hoisted)) {
            return Err(Refusal::DeclaredInside(variable.name.clone()));
        }
        let mut hoists = BTreeMap::new();
        for (variable, declaration) in self.declared.iter().filter(|(variable, _)| !view.is_static(variable))
        {
            let ends_there = self.outlasts(declaration);
            let cleans = view.local(variable).is_some_and(|local| local.has_cleanup);
            if cleans && ends_there && view.applies(Rule::Cleanup) {
                return Err(Refusal::Cleanup(variable.name.clone()));
            }
            if used_outside.contains(*variable) || self.spans(declaration) {
                hoists.insert(*variable, self.hoisted(variable, declaration)?);
            } else if ends_there
                && view.applies(Rule::Outlives)
                && let Some(hoisted) = self.kept(variable, declaration)?
            {
                hoists.insert(*variable, hoisted);
            }
        }
        Ok(hoists)
    }

    /// The variables that are used outside of the section.
    fn used_outside(&self) -> BTreeSet<&'a Variable> {
        let held: HashSet<Id> = self.body.held.iter().map(|node| id(node)).collect();
        let outside = self.view.function.body.walk().filter(|node| !held.contains(&id(node)));
        let variable = |node: &'a Node| match &node.kind {
            Kind::Local(variable) => Some(variable),
            _ => None,
        };
        outside.filter_map(variable).collect()
    }

    /// How a variable is declared before the section if something may have its address when its scope would end in the closure.
    fn kept(&self, variable: &Variable, declaration: &Node) -> Result<Option<Hoisted>, Refusal> {
        let ways = self.uses(variable).map(|node| self.view.way(node, false, &self.body.contexts));
        let way = ways.max().unwrap_or(Way::Stays);
        if way == Way::Stays {
            return Ok(None);
        }
        match self.hoisted(variable, declaration) {
            Ok(hoisted) if way == Way::Kept => Ok(Some(hoisted)),
            Err(_) if way == Way::Kept => Err(Refusal::Outlives(variable.name.clone())),
            // What is called may keep it; that it does is not known, so that nothing is refused for it.
            Ok(hoisted)
                if self.view.is_only(variable)
                    && self.uses(variable).all(|node| !node.from_macro)
                    && self.capture(variable, Some(hoisted.clone())).is_ok() =>
            {
                Ok(Some(hoisted))
            }
            _ => Ok(None),
        }
    }

    /// Whether what is declared somewhere has its block go on where the section is left, or gives its lock up: at the call site.
    fn outlasts(&self, declaration: &Node) -> bool {
        let mut around = self.view.around(declaration).map(|(around, _)| around);
        let scope = around.find(|around| matches!(around.kind, Kind::Compound | Kind::For { .. }));
        scope
            .is_none_or(|scope| id(scope) == id(self.block) || self.tails.iter().any(|tail| has(scope, tail)))
    }

    /// Whether a variable's block has a pause, so that its value must outlive one run of the closure.
    fn spans(&self, declaration: &Node) -> bool {
        // The block, or what else has statements, is around the statement that declares it.
        let block = self.view.around(declaration).map(|(around, _)| around).nth(1);
        let has_pause = |around: &Node| self.pauses.iter().any(|pause| has(around, pause));
        self.view.applies(Rule::Survives) && block.is_none_or(has_pause)
    }

    /// A declaration of one variable, which can become an assignment. Nothing that runs at the call site may have another meaning for
    /// it.
    fn hoisted(&self, variable: &Variable, declaration: &Node) -> Result<Hoisted, Refusal> {
        let view = self.view;
        let refused = || Refusal::DeclaredInside(variable.name.clone());
        let (statement, _) = view.parent(declaration).ok_or_else(refused)?;
        let (around, number) = view.parent(statement).ok_or_else(refused)?;
        let local = view.local(variable).ok_or_else(refused)?;
        let hides = |node: &&Node| names_another(node, variable);
        let is_own_block = id(around) == id(self.block);
        let is_plain = statement.kind == Kind::Declarations
            && statement.children.len() == 1
            && (!declaration.from_macro || view.is_bool(variable, statement))
            && (is_own_block || view.is_only(variable))
            && !self.at_call.iter().any(hides)
            && matches!(local.shape, Shape::Value | Shape::Array)
            && (!local.is_const || local.plain_type.is_some())
            && !(local.shape == Shape::Array && local.has_constants)
            && !local.is_static;
        if !is_plain && view.applies(Rule::Hoisted) {
            return Err(refused());
        }
        if local.has_attributes && view.applies(Rule::Attributes) {
            return Err(Refusal::Attributes(variable.name.clone()));
        }
        let range = statement.range.start..view.end(statement);
        let text = view.text_of(variable.declared..range.end)?;
        let is_list = declaration.children.last().is_some_and(|last| last.bare().kind == Kind::List);
        let next = around.children.get(number + 1);
        Ok(Hoisted {
            statement: range,
            value: find_in_code(text, '=').map(|at| variable.declared + at + 1),
            assigned: assigned(local.shape, local.has_constants, is_list),
            alignment: local.alignment.clone(),
            is_inner: !is_own_block,
            goes_before_another: next.is_some_and(|next| next.kind == Kind::Declarations),
        })
    }
}

impl View<'_> {
    /// Whether no more of a declaration comes from a macro than `bool`, which is one.
    fn is_bool(&self, variable: &Variable, statement: &Node) -> bool {
        let before = self.text.get(statement.range.start..variable.declared).unwrap_or_default();
        let words: Vec<&str> = before.split_whitespace().collect();
        matches!(words.as_slice(), ["bool"] | ["const", "bool"] | ["bool", "const"])
    }

    /// Whether the function has nothing else of a variable's name.
    fn is_only(&self, variable: &Variable) -> bool {
        let is_other = |node: &Node| names_another(node, variable);
        self.function.locals.keys().all(|other| other == variable || other.name != variable.name)
            && !self.function.body.walk().any(is_other)
    }
}

/// Whether a text lies in that of a node.
fn has(around: &Node, range: &Range<usize>) -> bool {
    around.range.start <= range.start && range.end <= around.range.end
}

/// How the value of a declaration is assigned, of this shape, with members that are `const` or without, and in braces or not.
fn assigned(shape: Shape, has_constants: bool, is_list: bool) -> Assigned {
    match (shape == Shape::Array, has_constants, is_list) {
        (true, _, false) => Assigned::CopiedString,
        (true, _, true) | (_, true, true) => Assigned::CopiedBraced,
        (false, true, false) => Assigned::Copied,
        (false, false, true) => Assigned::Braced,
        (false, false, false) => Assigned::Plainly,
    }
}

/// Whether a node is another use of a variable's name.
fn names_another(node: &Node, variable: &Variable) -> bool {
    match &node.kind {
        Kind::Name(name) | Kind::ThreadLocal(name) => *name == variable.name,
        Kind::Local(other) | Kind::Declaration(other) | Kind::InnerName(other) => {
            other.name == variable.name && other != variable
        }
        _ => false,
    }
}
