//! What a function does with the addresses of its variables: what still has one afterwards, and which nodes write a variable.

use std::collections::HashSet;

use super::View;
use crate::flow::{Id, id};
use crate::tree::{Gives, Kind, Node, Unary, Variable, is_assignment};

/// What becomes of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Way {
    /// It is used at once.
    Stays,
    /// Something that is called gets it.
    Passed,
    /// Something has it afterwards.
    Kept,
}

impl View<'_> {
    /// What a use of a variable does with its address, or that of a part of it; or what is done with an address.
    pub(super) fn way(&self, node: &Node, is_address: bool, contexts: &HashSet<Id>) -> Way {
        let (mut is_address, mut way, mut is_cast) = (is_address, Way::Stays, false);
        for (around, number) in self.around(node) {
            // A section inside has become a closure, which has the address.
            if contexts.contains(&id(around)) {
                return Way::Passed;
            }
            let is_kept = if is_address { Way::Kept } else { way };
            match (&around.kind, around.gives) {
                // An atomic access of some sort.
                (Kind::Transparent, _) if around.children.len() > 1 => return is_kept,
                (Kind::Transparent, Gives::Decayed) => is_address = true,
                (Kind::Transparent, Gives::Same) => {}
                (Kind::Transparent, Gives::Address) if is_address => {}
                (Kind::Cast(_), _) => is_cast = true,
                (Kind::Unary(Unary::Address), _) => is_address = true,
                (Kind::Unary(Unary::Dereference), _) => is_address = false,
                // Of a structure that a call has returned.
                (Kind::Member { is_arrow: false, .. }, _) if is_address => {}
                (Kind::Member { .. }, _) => is_address = false,
                (Kind::Subscript, _) if is_address || number == 0 => is_address = false,
                (Kind::Binary(sign), gives) if matches!(sign.as_str(), "+" | "-" | ",") => {
                    if gives == Gives::Value && !is_cast {
                        return way;
                    }
                }
                (Kind::Binary(sign), _) if sign == "=" => return if number > 0 { is_kept } else { way },
                (Kind::Binary(sign), _) => {
                    let compares =
                        matches!(sign.as_str(), "==" | "!=" | "<" | ">" | "<=" | ">=" | "&&" | "||");
                    return if is_cast && !compares { is_kept } else { way };
                }
                (Kind::Call(_), gives) => {
                    if !is_address || number == 0 {
                        return way;
                    }
                    way = Way::Passed;
                    if gives != Gives::Address {
                        return way;
                    }
                }
                (
                    Kind::Other
                    | Kind::Conditional
                    | Kind::Size
                    | Kind::List
                    | Kind::CompoundLiteral
                    | Kind::Declaration(_)
                    | Kind::Return,
                    _,
                ) => return is_kept,
                (Kind::StatementExpression, _) => {}
                (Kind::Compound, _) => {
                    let gives_it = |(further, _): (&Node, _)| further.kind == Kind::StatementExpression;
                    if number + 1 < around.children.len() || !self.parent(around).is_some_and(gives_it) {
                        return way;
                    }
                }
                _ => return way,
            }
        }
        way
    }

    /// Whether a use of a variable needs that it has an address.
    pub(super) fn needs_address(&self, node: &Node) -> bool {
        let mut is_address = false;
        for (around, number) in self.around(node) {
            match (&around.kind, around.gives) {
                (Kind::Transparent, Gives::Decayed) => is_address = true,
                (Kind::Transparent, Gives::Same) | (Kind::Member { is_arrow: false, .. }, _) => {}
                (Kind::Unary(Unary::Address), _) => return true,
                (Kind::Unary(Unary::Dereference), _) if is_address => is_address = false,
                (Kind::Subscript, _) if is_address && number == 0 => is_address = false,
                _ => return is_address,
            }
        }
        is_address
    }
}

/// Whether an expression is a variable, or a part of its memory.
pub(super) fn is_part(node: &Node, variable: &Variable) -> bool {
    is_part_of(node, &|node| matches!(&node.kind, Kind::Local(name) if name == variable))
}

/// Whether an expression is what is asked for, or a part of its memory.
fn is_part_of(node: &Node, is_it: &dyn Fn(&Node) -> bool) -> bool {
    let node = node.bare();
    match (&node.kind, node.children.first()) {
        (Kind::Member { is_arrow: false, .. } | Kind::Subscript, Some(of)) => is_part_of(of, is_it),
        _ => is_it(node),
    }
}

/// The contexts of sections inside that have become closures: they have the addresses of what those name. What they write was looked at
/// before.
pub(super) fn contexts(nodes: &[&Node]) -> HashSet<Id> {
    let is_context = |node: &&&Node| matches!(&node.kind, Kind::Declaration(variable) if variable.name.starts_with("lockwork_"));
    nodes.iter().filter(is_context).flat_map(|node| node.walk().map(id)).collect()
}

/// Whether a node writes a local variable, or passes its address on.
pub(super) fn writes(node: &Node, variable: &Variable) -> bool {
    writes_part(node, &|node| matches!(&node.kind, Kind::Local(name) if name == variable))
}

/// The same of what is asked for.
fn writes_part(node: &Node, is_it: &dyn Fn(&Node) -> bool) -> bool {
    let is_part = |inner: &Node| is_part_of(inner, is_it);
    match (&node.kind, node.children.first()) {
        (Kind::Binary(operator), Some(first)) => is_assignment(operator) && is_part(first),
        (Kind::Unary(Unary::Address | Unary::Step), Some(first)) => is_part(first),
        _ => false,
    }
}
