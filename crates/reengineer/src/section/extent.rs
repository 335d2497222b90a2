//! How far a section reaches: the steps before which its lock may be held, and the statements that they are in.

use std::collections::{BTreeSet, HashSet};

use super::breaks::Break;
use super::view::Spot;
use super::{Finder, Refusal, View};
use crate::flow::{Effect, Flow, Id, id};
use crate::rule::Rule;
use crate::tree::Node;

/// A section by the control flow of its function.
pub(super) struct Extent<'a> {
    pub(super) view: &'a View<'a>,
    pub(super) flow: &'a Flow<'a>,
    pub(super) breaks: &'a [Break<'a>],
    /// The step that takes the lock.
    pub(super) site: usize,
    pub(super) lock: &'a str,
    /// The statement that does so.
    pub(super) spot: Spot<'a>,
    /// The steps before which the lock may be held.
    pub(super) region: BTreeSet<usize>,
    /// That statement, and its following siblings up to the last one with a step of the region.
    pub(super) parts: Vec<&'a Node>,
    inside: HashSet<Id>,
}

impl<'a> Extent<'a> {
    /// That of the section which takes `lock` at the step `site`.
    pub(super) fn of(finder: Finder<'a>, site: usize, lock: &'a str) -> Result<Self, Refusal> {
        let Finder { view, flow, breaks } = finder;
        if flow.exploded {
            return Err(Refusal::Exploded);
        }
        if view.function.begins_in_macro && view.applies(Rule::Begins) {
            return Err(Refusal::FunctionInMacro);
        }
        if view.function.is_elsewhere {
            return Err(Refusal::NotAsWritten);
        }
        if flow.taken_again.contains(&site) && view.applies(Rule::TakenAgain) {
            return Err(Refusal::TakenAgain);
        }
        let spot = view.spot(flow.steps[site].node).ok_or(Refusal::NoBlock)?;
        if spot.statement.in_argument && view.applies(Rule::OneMacro) {
            return Err(Refusal::MacroArgument);
        }
        let region: BTreeSet<usize> = (0..flow.steps.len())
            .filter(|step| flow.before[*step].iter().any(|held| held.contains(&site)))
            .collect();
        let siblings = &spot.block.children[spot.number..];
        let has_held = |node: &Node| {
            let inside: HashSet<Id> = node.walk().map(id).collect();
            region.iter().any(|step| inside.contains(&id(flow.steps[*step].node)))
        };
        let last = siblings.iter().rposition(has_held).ok_or(Refusal::Leaves)?;
        let parts: Vec<&Node> = std::iter::once(spot.statement).chain(&siblings[1..=last]).collect();
        let inside = parts.iter().flat_map(|part| part.walk().map(id)).collect();
        let extent = Self { view, flow, breaks, site, lock, spot, region, parts, inside };
        if extent.region.iter().any(|step| !extent.is_inside(*step)) && view.applies(Rule::Leaves) {
            return Err(Refusal::Leaves);
        }
        Ok(extent)
    }

    /// The expression or statement that a step is.
    pub(super) fn node(&self, step: usize) -> &'a Node {
        self.flow.steps[step].node
    }

    /// Whether a step is in the statements.
    pub(super) fn is_inside(&self, step: usize) -> bool {
        self.inside.contains(&id(self.node(step)))
    }

    /// The number of the last of the statements in their block.
    pub(super) fn last(&self) -> usize {
        self.spot.number + self.parts.len() - 1
    }

    /// Whether another lock that is taken inside is among those that are held.
    pub(super) fn holds_another(&self, held: &[usize]) -> bool {
        held.iter().any(|other| *other != self.site && self.is_inside(*other))
    }

    /// Locks inside must nest, and each step must be reached with the lock or without it.
    pub(super) fn check_states(&self) -> Result<(), Refusal> {
        let (flow, view) = (self.flow, self.view);
        let is_mixed = |step: &usize| flow.before[*step].iter().any(|held| !held.contains(&self.site));
        if self.region.iter().any(is_mixed) && view.applies(Rule::Mixed) {
            return Err(Refusal::Mixed);
        }
        let nests = |step: &usize| self.nests(*step);
        if view.applies(Rule::Nested) && !self.region.iter().all(nests) {
            return Err(Refusal::Interleaved);
        }
        Ok(())
    }

    /// Whether the locks that may be held before a step of the region, and what the step releases, nest with the section.
    fn nests(&self, step: usize) -> bool {
        let (flow, before) = (self.flow, &self.flow.before[step]);
        let around = &flow.before[self.site];
        let outside = |held: &Vec<usize>| -> Vec<usize> {
            held.iter().copied().filter(|other| !self.is_inside(*other)).collect()
        };
        let releases = matches!(&flow.steps[step].effect, Effect::Unlock(_));
        let leaves = flow.steps[step].next.iter().any(|next| !self.region.contains(next));
        before.iter().all(|held| around.contains(&outside(held)))
            && !(releases && leaves && before.iter().any(|held| self.holds_another(held)))
            && !flow.released_unheld.contains(&step)
    }
}
