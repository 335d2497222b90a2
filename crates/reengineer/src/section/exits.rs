//! The releases of a section: what of the text behind each runs at the call site, and that control leaves the section by these alone.

use std::collections::HashSet;
use std::ops::Range;

use super::Refusal;
use super::extent::Extent;
use super::guard::Guard;
use crate::flow::{Effect, Id, Step, id, without_void};
use crate::rule::Rule;
use crate::tree::{Kind, Node};

/// A release while it is looked at.
pub(super) struct Release<'a> {
    pub(super) release: &'a Node,
    /// The tail's statements.
    pub(super) nodes: Vec<&'a Node>,
    /// A `break` behind them, which the call site does without.
    pub(super) dropped: Option<&'a Node>,
    /// The text of the release and of what follows it in its block.
    pub(super) range: Range<usize>,
    /// The part of that text to run at the call site.
    pub(super) tail: Range<usize>,
    /// Whether nothing of the slice follows it.
    pub(super) is_last: bool,
}

impl<'a> Release<'a> {
    /// One without a tail.
    fn alone(release: &'a Node, range: Range<usize>, is_last: bool) -> Self {
        let tail = range.end..range.end;
        Self { release, nodes: Vec::new(), dropped: None, range, tail, is_last }
    }

    /// What is moved out of the section with it.
    pub(super) fn moved(&self) -> impl Iterator<Item = &'a Node> {
        self.nodes.iter().chain(&self.dropped).copied()
    }
}

impl<'a> Extent<'a> {
    /// The releases, in the order of the text.
    pub(super) fn exits(&self, guard: Option<&Guard>) -> Result<Vec<Release<'a>>, Refusal> {
        let mut found = Vec::new();
        for step in &self.region {
            match &self.flow.steps[*step].effect {
                Effect::Unlock(of) if of == self.lock => found.push(self.exit(self.node(*step), guard)?),
                Effect::Unclear if self.view.applies(Rule::Clear) => {
                    return Err(self.view.unclear(self.node(*step)));
                }
                _ => {}
            }
        }
        found.sort_by_key(|exit| exit.range.start);
        Ok(found)
    }

    /// The exit that a release is.
    fn exit(&self, node: &'a Node, guard: Option<&Guard>) -> Result<Release<'a>, Refusal> {
        let view = self.view;
        let Some(exit) = view.spot(node) else {
            if guard.is_some() && view.applies(Rule::Directives) {
                return Err(Refusal::Preprocessor);
            }
            // The only statement of an `if` or a loop.
            return Ok(Release::alone(node, node.range.start..view.end(node), false));
        };
        let released = view.released_text(exit.statement, guard)?;
        let behind = &exit.block.children[exit.number + 1..];
        let before_label = tail_before_label(behind);
        if id(exit.block) == id(self.spot.block) {
            let is_last = exit.number == self.last();
            if !is_last && before_label.is_none() && view.applies(Rule::Mixed) {
                return Err(Refusal::Mixed);
            }
            if is_last || before_label.is_none() {
                return Ok(Release::alone(exit.statement, released, true));
            }
        }
        let mut nodes: Vec<&Node> = behind.iter().take(before_label.unwrap_or(behind.len())).collect();
        let end = nodes.last().map_or(released.end, |node| match before_label {
            Some(_) => view.end(node),
            None => view.end_of_block(exit.block, view.end(node)),
        });
        // A `break` that ends the section with the loop or switch around it goes on where the call site does.
        let dropped = nodes.pop_if(|node| self.breaks_out(node));
        let tail_end = dropped.map_or(end, |node| node.range.start);
        Ok(Release {
            release: exit.statement,
            tail: released.end..tail_end,
            nodes,
            dropped,
            range: released.start..end,
            is_last: false,
        })
    }

    /// Whether a node is a `break` of a loop or switch of the section that leaves the section.
    fn breaks_out(&self, node: &Node) -> bool {
        let leaves = |step: &Step<'_>| {
            id(step.node) == id(node) && step.next.iter().all(|next| !self.is_inside(*next))
        };
        node.kind == Kind::Break && self.binds_inside(node, &[]) && self.flow.steps.iter().any(leaves)
    }

    /// Whether a `break` or `continue` in a tail belongs to a loop or a switch of the section.
    fn binds_inside(&self, node: &Node, tail: &[&Node]) -> bool {
        let Some(target) = self.view.target_of(node) else { return false };
        // Some step of the loop is in the section if the loop is, and if it is not in the tail itself.
        let inner: HashSet<Id> = target.walk().map(id).collect();
        let mut steps =
            (0..self.flow.steps.len()).filter(|step| inner.contains(&id(self.flow.steps[*step].node)));
        let is_of_tail = tail.iter().flat_map(|node| node.walk()).any(|own| id(own) == id(target));
        !is_of_tail && steps.all(|step| self.is_inside(step))
    }

    /// Jumps into the section, and tails that go back into it.
    pub(super) fn check_edges(&self, exits: &[Release<'a>]) -> Result<(), Refusal> {
        let enters = |next: &usize| self.is_inside(*next) && *next != self.site;
        let is_entry = |(number, step): (usize, &Step<'_>)| {
            number != self.site
                && !self.is_inside(number)
                && !self.flow.before[number].is_empty()
                && step.next.iter().any(enters)
        };
        if self.flow.steps.iter().enumerate().any(is_entry) && self.view.applies(Rule::EnteredElsewhere) {
            return Err(Refusal::EnteredElsewhere);
        }
        exits.iter().try_for_each(|exit| self.check_tail(exit))
    }

    /// A tail is entered by its release alone, and does not go back into the section.
    fn check_tail(&self, exit: &Release<'a>) -> Result<(), Refusal> {
        let no_entries = self.view.applies(Rule::EnteredElsewhere);
        let no_returns = self.view.applies(Rule::TailReturns);
        let tail: HashSet<Id> = exit.moved().flat_map(|node| node.walk().map(id)).collect();
        let release: HashSet<Id> = exit.release.walk().map(id).collect();
        for step in &self.flow.steps {
            let here = id(step.node);
            let is_of_exit = release.contains(&here) || tail.contains(&here);
            for next in &step.next {
                let there = id(self.node(*next));
                let is_back = self.is_inside(*next) && !tail.contains(&there) && !release.contains(&there);
                if is_of_exit && is_back && no_returns {
                    return Err(Refusal::TailReturns);
                }
                if !is_of_exit && tail.contains(&there) && no_entries {
                    return Err(Refusal::EnteredElsewhere);
                }
            }
        }
        let is_jump_back = |node: &Node| {
            matches!(node.kind, Kind::Break | Kind::Continue) && self.binds_inside(node, &exit.nodes)
        };
        if exit.nodes.iter().flat_map(|node| node.walk()).any(is_jump_back) && no_returns {
            return Err(Refusal::TailReturns);
        }
        Ok(())
    }
}

/// How many of the statements behind a release are run before a label or a `case` that nothing falls into: what is behind that is
/// reached otherwise.
fn tail_before_label(behind: &[Node]) -> Option<usize> {
    let label = behind.iter().position(|node| matches!(node.kind, Kind::Label(_) | Kind::Case { .. }))?;
    // What is declared there would be declared elsewhere.
    let declares = behind[..label].iter().any(|node| node.kind == Kind::Declarations);
    (!declares && behind[..label].last().is_some_and(ends_flow)).then_some(label)
}

/// Whether nothing that follows a statement is reached from it.
fn ends_flow(node: &Node) -> bool {
    match (&node.kind, node.children.as_slice()) {
        (Kind::Return | Kind::Break | Kind::Continue | Kind::Goto(_), _) => true,
        (Kind::Compound, [.., last]) => ends_flow(last),
        (Kind::If, [_, one, other]) => ends_flow(one) && ends_flow(other),
        _ => without_void(node).never_returns,
    }
}
