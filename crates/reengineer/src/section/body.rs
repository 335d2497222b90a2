//! What runs with the lock: that it can run in another function and another thread, and the plan that is made of it.

use std::collections::HashSet;
use std::ops::Range;

use super::address::{Way, contexts};
use super::asks::{asked_of_the_thread, calls_in, taken};
use super::captures::Captures;
use super::cut::Cut;
use super::exits::Release;
use super::plan::{Capture, Exit, Plan};
use super::text::directives;
use super::{Refusal, View};
use crate::flow::{Id, id};
use crate::rule::Rule;
use crate::tree::{Kind, Node};
use crate::vocabulary::{gives_the_threads_own, is_bound_to_its_caller, leaves_errno};

/// The nodes of a section without those that run at the call site.
pub(super) struct Body<'a> {
    pub(super) cut: &'a Cut<'a>,
    /// The statements behind the one that takes the lock.
    pub(super) statements: &'a [&'a Node],
    /// The nodes that run with the lock, and the releases themselves.
    pub(super) held: Vec<&'a Node>,
    /// Those of them that are contexts of closures inside.
    pub(super) contexts: HashSet<Id>,
}

impl<'a> Body<'a> {
    /// What runs with the lock of a section whose text is cut so.
    pub(super) fn of(cut: &'a Cut<'a>) -> Self {
        let elsewhere: HashSet<Id> = cut
            .exits
            .iter()
            .flat_map(|exit| exit.moved())
            .chain(cut.meanwhile())
            .flat_map(|node| node.walk().map(id))
            .collect();
        let statements = &cut.extent.parts[1..];
        let all = statements.iter().flat_map(|part| part.walk());
        let held: Vec<&Node> = all.filter(|node| !elsewhere.contains(&id(node))).collect();
        let contexts = contexts(&held);
        Self { cut, statements, held, contexts }
    }

    fn view(&self) -> &'a View<'a> {
        self.cut.extent.view
    }

    /// The section must do the same in another function, which may be run by another thread.
    pub(super) fn check(&self) -> Result<(), Refusal> {
        self.check_calls()?;
        self.check_thread()?;
        self.check_inner_names()?;
        let meanwhile = self.cut.meanwhile().flat_map(|node| node.walk());
        let changing: Vec<&Node> = self.held.iter().copied().chain(meanwhile).collect();
        let extent = self.cut.extent;
        self.view().check_lock(extent.node(extent.site), &changing)?;
        self.view().check_conditions(&self.cut.pauses, &changing, &self.held)
    }

    /// Nothing means the frame or the process of the caller, and control stays in the closure.
    fn check_calls(&self) -> Result<(), Refusal> {
        let view = self.view();
        for node in &self.held {
            match &node.kind {
                _ if !view.applies(Rule::Opaque) && !matches!(node.kind, Kind::Call(_)) => {}
                Kind::Call(name) if is_bound_to_its_caller(name) && view.applies(Rule::BoundToCaller) => {
                    return Err(Refusal::BoundToCaller(name.clone()));
                }
                Kind::Assembly | Kind::ComputedGoto | Kind::Return => return Err(Refusal::Opaque),
                Kind::StatementExpression if node.walk().any(jumps) => return Err(Refusal::Opaque),
                _ => {}
            }
        }
        Ok(())
    }

    /// A delegate may run a section in any thread.
    fn check_thread(&self) -> Result<(), Refusal> {
        match self.held.iter().find_map(|node| self.asked_by(node)) {
            Some(name) if !self.view().rules.any_thread && self.view().applies(Rule::AnyThread) => {
                Err(Refusal::MeansThread(name.to_owned()))
            }
            _ => Ok(()),
        }
    }

    /// What a node of the section asks for, or keeps, of the thread's own.
    fn asked_by(&self, node: &'a Node) -> Option<&'a str> {
        let asked = asked_of_the_thread(self.view().function, node);
        let Kind::Call(name) = &node.kind else { return asked };
        let is_kept =
            || gives_the_threads_own(name) && self.view().way(node, true, &self.contexts) == Way::Kept;
        asked.or_else(|| is_kept().then_some(name.as_str()))
    }

    /// What a function declares for itself, and is no variable, has no meaning in another function.
    fn check_inner_names(&self) -> Result<(), Refusal> {
        let is_held: HashSet<Id> = self.held.iter().map(|node| id(node)).collect();
        let (slice, moved) = (&self.cut.slice, self.cut.moved());
        let goes = |at: &usize| slice.contains(at) && !moved.iter().any(|range| range.contains(at));
        let differs = self.view().function.body.walk().find_map(|node| match &node.kind {
            Kind::InnerName(inner) if goes(&inner.declared) != is_held.contains(&id(node)) => Some(inner),
            _ => None,
        });
        match differs {
            Some(inner) if self.view().applies(Rule::NamedTypes) => {
                Err(Refusal::InnerName(inner.name.clone()))
            }
            _ => Ok(()),
        }
    }

    /// The texts at the call site that run behind the closure, or between two runs of it.
    pub(super) fn tails(&self) -> Vec<Range<usize>> {
        let exits = self.cut.exits.iter().filter(|exit| !exit.nodes.is_empty());
        exits.map(|exit| exit.tail.clone()).chain(self.pauses()).collect()
    }

    /// The texts of the pauses.
    pub(super) fn pauses(&self) -> impl Iterator<Item = Range<usize>> {
        self.cut.pauses.iter().map(|pause| pause.pause.range.clone())
    }

    /// The nodes that run at the call site.
    pub(super) fn at_call(&self) -> Vec<&'a Node> {
        let (cut, extent) = (self.cut, self.cut.extent);
        let tails = cut.exits.iter().flat_map(|exit| exit.nodes.iter().copied());
        let conditions = cut.pauses.iter().filter_map(|pause| pause.condition);
        let all = tails.chain(cut.meanwhile()).chain(conditions).chain([extent.node(extent.site)]);
        all.flat_map(Node::walk).collect()
    }

    /// How the section becomes a closure.
    pub(super) fn plan(&self) -> Result<Plan, Refusal> {
        let (view, cut, extent) = (self.view(), self.cut, self.cut.extent);
        let releases: HashSet<Id> = cut.calls().flat_map(|node| node.walk().map(id)).collect();
        let own = cut.calls().chain([extent.node(extent.site)]).flat_map(|node| view.lock_calls(node));
        let own: Vec<&Node> = own.collect();
        let captures = Captures::of(self, &releases).all()?;
        let captures = self.with_set_first(captures)?;
        let held = || self.held.iter().copied();
        let is_macro = |node: &&Node| matches!(node.kind, Kind::Macro(_)) && !releases.contains(&id(node));
        let exit = |exit: &Release<'_>| Exit {
            range: exit.range.clone(),
            tail: exit.tail.clone(),
            is_last: exit.is_last,
        };
        Ok(Plan {
            slice: cut.slice.clone(),
            lock: cut.lock.clone(),
            guard: cut.guard.as_ref().map(|guard| guard.condition.clone()),
            exits: cut.exits.iter().map(exit).collect(),
            pauses: cut.pauses.iter().map(|pause| pause.pause.clone()).collect(),
            captures,
            covered: own.iter().map(|call| call.range.start).collect(),
            by: own.iter().filter_map(|call| call.called()).map(str::to_owned).collect(),
            calls: calls_in(held(), view.vocabulary).map(|(name, _)| name.to_owned()).collect(),
            macros: held().filter(is_macro).map(|node| node.range.start).collect(),
            takes: taken(held(), view.vocabulary).collect(),
            carries_errno: held().any(|node| self.may_set_errno(node)),
        })
    }

    /// Captures with a note of those that the section sets before anything else is done with them. In another configuration, or when it
    /// is run again, a closure might pass out what it has not set.
    fn with_set_first(&self, mut captures: Vec<Capture>) -> Result<Vec<Capture>, Refusal> {
        let text = self.view().text_of(self.cut.slice.clone())?;
        if self.cut.pauses.is_empty() && directives(text).next().is_none() {
            for capture in &mut captures {
                capture.is_set = self.is_set_first(capture);
            }
        }
        Ok(captures)
    }

    /// Whether a node is a call that may set `errno`, other than one that does something to a lock.
    fn may_set_errno(&self, node: &Node) -> bool {
        let is_lock_call = self.view().vocabulary.of(node).is_some();
        node.called().is_some_and(|name| !is_lock_call && !leaves_errno(name))
    }
}

/// Whether a node is, or may be reached by, a jump.
fn jumps(node: &Node) -> bool {
    matches!(node.kind, Kind::Return | Kind::Goto(_) | Kind::Label(_))
}
