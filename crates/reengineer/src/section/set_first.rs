//! Which variables a section gives a value before anything else is done with them: the closure passes that value out, and need not have
//! the variable's address.

use std::collections::HashSet;

use super::View;
use super::address::contexts;
use super::body::Body;
use super::plan::Capture;
use crate::flow::{Id, id};
use crate::tree::{Kind, Node, Variable};

impl Body<'_> {
    /// Whether one of the section's first statements, each of which is run once, gives a variable a value, and nothing has its address. Its
    /// address need not leave the function then, so that a compiler that knows what the variable has still knows it.
    pub(super) fn is_set_first(&self, capture: &Capture) -> bool {
        let view = self.cut.extent.view;
        let variable = &capture.variable;
        let local = view.local(variable);
        let is_plain = local.is_some_and(|local| local.is_plain && !local.is_static && !local.is_register);
        let names = |node: &Node| node.walk().any(|inner| is_use(inner, variable));
        let first = self.statements.iter().find(|node| !is_step(view, node) || names(node));
        let is_set =
            first.is_some_and(|node| !node.from_macro && is_step(view, node) && sets(node, variable));
        if !is_plain || capture.by_value || capture.hoisted.is_some() || !is_set {
            return false;
        }
        let all: Vec<&Node> = view.function.body.walk().collect();
        let uses: Vec<&Node> = all.iter().copied().filter(|node| is_use(node, variable)).collect();
        // Closures that there are already have it while they run.
        let contexts = contexts(&all);
        let has_address = |node: &&Node| !contexts.contains(&id(node)) && view.needs_address(node);
        // Where nothing reads it, the compiler would warn of a variable that is only set.
        let in_section: HashSet<Id> = self.held.iter().map(|node| id(node)).collect();
        let is_target = |node: &Node| {
            let around = view.parent(node);
            around.is_some_and(|(around, number)| number == 0 && around.kind == Kind::Binary("=".to_owned()))
        };
        let is_read = |node: &&Node| !in_section.contains(&id(node)) && !is_target(node);
        !uses.iter().any(has_address) && uses.iter().any(is_read)
    }
}

/// Whether a node is a use of a variable.
fn is_use(node: &Node, variable: &Variable) -> bool {
    matches!(&node.kind, Kind::Local(used) if used == variable)
}

/// Whether a statement assigns to a variable what does not name it.
fn sets(node: &Node, variable: &Variable) -> bool {
    match (&node.kind, node.children.as_slice()) {
        (Kind::Binary(sign), [to, value]) => {
            sign == "=" && is_use(to.bare(), variable) && !value.walk().any(|inner| is_use(inner, variable))
        }
        _ => false,
    }
}

/// Whether a statement is an expression that has no statements in it and leaves locks alone.
fn is_step(view: &View<'_>, node: &Node) -> bool {
    let is_simple = matches!(node.kind, Kind::Binary(_) | Kind::Unary(_) | Kind::Call(_));
    let has_statements = |inner: &Node| inner.kind == Kind::StatementExpression;
    is_simple && !node.walk().any(has_statements) && view.lock_calls(node).next().is_none()
}
