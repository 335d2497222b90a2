//! Whether names mean the same throughout a section: the lock's at each release, and a condition's at the call site, where it is named
//! before the section runs.

use std::collections::{BTreeSet, HashSet};

use super::address::{contexts, is_part, writes};
use super::pauses::Paused;
use super::{Refusal, View};
use crate::flow::{id, without_void};
use crate::rule::Rule;
use crate::tree::{Kind, Node, Shape, Unary, is_assignment, value_of};
use crate::vocabulary::Action;

/// What is the same before a section as in it, as far as that leaves the local variables alone that it names.
pub(super) struct Fixed<'a> {
    view: &'a View<'a>,
    /// What the lock's name reads: it counts as constant, as it does for the release.
    known: HashSet<String>,
}

impl<'a> Fixed<'a> {
    /// That of a section whose lock this step takes.
    pub(super) fn by(view: &'a View<'a>, takes: &Node) -> Self {
        let lock = view.lock_calls(takes).next().and_then(|call| view.vocabulary.of(call));
        let known = lock
            .into_iter()
            .flat_map(|(_, of)| of.walk())
            .filter(|part| matches!(part.kind, Kind::Member { .. } | Kind::Subscript | Kind::Name(_)))
            .filter_map(Node::expression)
            .collect();
        Self { view, known }
    }

    /// Whether nothing of an expression is read from memory that another thread may write, or that may not be there.
    pub(super) fn has(&self, node: &Node) -> bool {
        let node = node.bare();
        if node.expression().is_some_and(|name| self.known.contains(&name)) {
            return true;
        }
        match (&node.kind, node.children.as_slice()) {
            (Kind::Local(variable), _) => {
                let Some(local) = self.view.local(variable) else { return false };
                let all: Vec<&Node> = self.view.function.body.walk().collect();
                // Sections inside that are closures already have its address, and were looked at before.
                let contexts = contexts(&all);
                let has_address = |node: &&Node| {
                    node.kind == Kind::Unary(Unary::Address)
                        && !contexts.contains(&id(node))
                        && node.children.first().is_some_and(|of| is_part(of, variable))
                };
                local.shape == Shape::Array
                    || local.shape == Shape::Value && !local.is_static && !all.iter().any(has_address)
            }
            (Kind::Literal(text), []) => !text.is_empty(),
            (Kind::Unary(Unary::Address), [of]) => self.has_place(of),
            (Kind::Unary(Unary::Pure(_)), [of]) => self.has(of),
            (Kind::Binary(sign), [one, other]) => {
                let is_nonzero = |node: &Node| matches!(&node.bare().kind, Kind::Literal(text) if !text.is_empty() && value_of(text) != "0");
                let is_plain = matches!(sign.as_str(), "+" | "-" | "*" | "&" | "|" | "^" | "<<" | ">>");
                (is_plain || matches!(sign.as_str(), "/" | "%") && is_nonzero(other))
                    && self.has(one)
                    && self.has(other)
            }
            (Kind::Cast(_), [.., of]) => self.has(of),
            _ => false,
        }
    }

    /// The same of where an object is.
    fn has_place(&self, node: &Node) -> bool {
        let node = node.bare();
        match (&node.kind, node.children.as_slice()) {
            (Kind::Local(_) | Kind::Name(_), _) => true,
            (Kind::Member { is_arrow: false, .. }, [of]) => self.has_place(of),
            (Kind::Member { is_arrow: true, .. } | Kind::Unary(Unary::Dereference), [of]) => self.has(of),
            (Kind::Subscript, [of, number]) => {
                (if self.view.is_array(of) { self.has_place(of) } else { self.has(of) }) && self.has(number)
            }
            _ => false,
        }
    }
}

impl View<'_> {
    /// Why what a lock call does is not understood: it has a statement of its own, so that it is the lock's name, or it has not.
    pub(super) fn unclear(&self, node: &Node) -> Refusal {
        match self.vocabulary.of(without_void(node)) {
            Some((Action::Lock | Action::Unlock | Action::Wait, _)) => Refusal::NamesLock,
            _ => Refusal::InsideExpression,
        }
    }

    /// The lock's name must mean the same lock at the release.
    pub(super) fn check_lock(&self, statement: &Node, held: &[&Node]) -> Result<(), Refusal> {
        let mut read = Vec::new();
        self.read_for(statement, &mut read);
        let contexts = contexts(held);
        let own = || held.iter().filter(|other| !contexts.contains(&id(other)));
        let written: BTreeSet<String> = own().filter_map(|node| written_place(node)).collect();
        for node in read {
            if let Kind::Local(variable) = &node.kind
                && own().any(|other| writes(other, variable))
                && self.applies(Rule::LockChanges)
            {
                return Err(Refusal::LockChanges(variable.name.clone()));
            }
            if let Some(place) = places_read(node).into_iter().find(|place| written.contains(place))
                && self.applies(Rule::LockIsRead)
            {
                return Err(Refusal::LockChanges(place.trim_start_matches(['*', '.']).to_owned()));
            }
        }
        Ok(())
    }

    /// What an expression's value depends on: variables, members, what pointers point to, and calls. The address of a variable, or of a
    /// part of it, does not depend on what it has.
    fn read_for<'n>(&self, node: &'n Node, read: &mut Vec<&'n Node>) {
        match &node.kind {
            Kind::Local(_) | Kind::Name(_) | Kind::ThreadLocal(_) => read.push(node),
            Kind::Unary(Unary::Address) => {
                node.children.iter().for_each(|of| self.read_for_place(of, read));
            }
            Kind::Member { .. } | Kind::Subscript | Kind::Unary(Unary::Dereference) => {
                if !self.is_array(node) {
                    read.push(node);
                }
                self.read_for_place(node, read);
            }
            _ => {
                if node.computes.is_some() {
                    read.push(node);
                }
                node.children.iter().for_each(|child| self.read_for(child, read));
            }
        }
    }

    /// The same for where an object is.
    fn read_for_place<'n>(&self, node: &'n Node, read: &mut Vec<&'n Node>) {
        let node = node.bare();
        match (&node.kind, node.children.as_slice()) {
            (Kind::Local(_) | Kind::Name(_) | Kind::ThreadLocal(_), _) => {}
            (Kind::Member { is_arrow: false, .. }, [of]) => self.read_for_place(of, read),
            (Kind::Member { .. } | Kind::Unary(Unary::Dereference), [of]) => self.read_for(of, read),
            (Kind::Subscript, [of, number]) => {
                match self.is_array(of) {
                    true => self.read_for_place(of, read),
                    false => self.read_for(of, read),
                }
                self.read_for(number, read);
            }
            (Kind::Member { .. } | Kind::Subscript | Kind::Unary(Unary::Dereference), _) => {}
            _ => self.read_for(node, read),
        }
    }

    /// A condition is named at the call site: its name must mean the same there, whatever runs with the lock or while it is given up.
    pub(super) fn check_conditions(
        &self,
        pauses: &[Paused<'_>],
        changing: &[&Node],
        held: &[&Node],
    ) -> Result<(), Refusal> {
        let contexts = contexts(changing);
        let writes = |other: &&Node, variable| !contexts.contains(&id(other)) && writes(other, variable);
        for node in pauses.iter().filter_map(|pause| pause.condition).flat_map(|condition| condition.walk()) {
            let Kind::Local(variable) = &node.kind else { continue };
            let is_inside = held.iter().any(|other| other.kind == Kind::Declaration(variable.clone()));
            if is_inside || changing.iter().any(|other| writes(other, variable)) {
                return Err(Refusal::Waits);
            }
        }
        Ok(())
    }
}

/// The memory that a node writes. What a member's address is passed on for is not known.
fn written_place(node: &Node) -> Option<String> {
    match (&node.kind, node.children.first()) {
        (Kind::Binary(operator), Some(to)) if is_assignment(operator) => to.place(),
        (Kind::Unary(Unary::Step), Some(of)) => of.place(),
        (Kind::Unary(Unary::Address), Some(of)) if matches!(of.bare().kind, Kind::Member { .. }) => {
            of.place()
        }
        _ => None,
    }
}

/// The memory that something in a lock's name is read from, which is no local variable.
fn places_read(node: &Node) -> Vec<String> {
    match (&node.computes, &node.kind) {
        (Some(reads), _) => {
            // A structure that has the members may be written as a whole.
            let reads_given = reads.pointees || !reads.members.is_empty();
            let given = node.children.iter().skip(1).filter(|_| reads_given);
            given.filter_map(Node::pointee).chain(reads.members.iter().cloned()).collect()
        }
        (None, Kind::Local(_)) => Vec::new(),
        _ => node.places(),
    }
}
