//! Where a section gives its lock up and goes on later: waits for conditions, and releases behind which the lock is taken again.

use std::collections::BTreeSet;

use super::Refusal;
use super::breaks::Break;
use super::extent::Extent;
use super::names::Fixed;
use super::plan::{Meanwhile, Pause};
use crate::flow::{Effect, id};
use crate::rule::Rule;
use crate::tree::{Kind, Node};
use crate::vocabulary::waits_without_end;

/// A pause while it is looked at.
pub(super) struct Paused<'a> {
    pub(super) pause: Pause,
    pub(super) condition: Option<&'a Node>,
    /// The statements between the release and the acquisition.
    pub(super) between: Vec<&'a Node>,
    /// The statements that release, acquire or wait.
    pub(super) calls: Vec<&'a Node>,
}

impl<'a> Extent<'a> {
    /// Where the section gives its lock up and goes on later, in the order of the text.
    pub(super) fn pauses(&self) -> Result<Vec<Paused<'a>>, Refusal> {
        let view = self.view;
        let fixed = Fixed::by(view, self.node(self.site));
        let (mut found, mut waits) = (Vec::new(), Vec::new());
        for step in &self.region {
            let node = self.node(*step);
            if let Effect::Wait(of) = &self.flow.steps[*step].effect {
                found.push(self.wait(*step, of, &fixed)?);
                waits.push(*step);
            }
            let is_it = |it: &&Break<'_>| id(it.calls[0]) == id(node) && it.lock == self.lock;
            if let Some(again) = self.breaks.iter().find(is_it) {
                found.push(self.interruption(*step, again)?);
            }
        }
        // Which condition the call site stands ready for is known once a closure has returned. A wait that is not the first one
        // returns once without a signal, as it may: what is in a loop asks again.
        let is_once = |wait: &usize| !self.comes_back(*wait);
        if found.len() > 1 && waits.iter().any(is_once) && view.applies(Rule::Loops) {
            return Err(Refusal::WaitsOnce);
        }
        let is_in_expression = |pause: &Paused<'_>| {
            view.around(pause.calls[0]).any(|(around, _)| around.kind == Kind::StatementExpression)
        };
        if found.iter().any(is_in_expression) {
            return Err(Refusal::Opaque);
        }
        found.sort_by_key(|pause| pause.pause.range.start);
        Ok(found)
    }

    /// The wait with the lock `of` at a step.
    fn wait(&self, step: usize, of: &str, fixed: &Fixed<'_>) -> Result<Paused<'a>, Refusal> {
        let (view, node) = (self.view, self.node(step));
        let is_alone = self.flow.before[step].iter().all(|held| held.as_slice() == [self.site]);
        if (of != self.lock || !is_alone) && view.applies(Rule::Waits) {
            return Err(Refusal::Waits);
        }
        let call = view.lock_calls(node).next().ok_or(Refusal::Waits)?;
        if !matches!(&call.kind, Kind::Call(name) if waits_without_end(name)) {
            return Err(Refusal::Waits);
        }
        let condition = call.children.get(1).ok_or(Refusal::Waits)?;
        let name = condition.expression().ok_or(Refusal::Waits)?;
        if !fixed.has(condition) && view.applies(Rule::Fixed) {
            return Err(Refusal::NamesCondition);
        }
        let statement = view.spot(node).map_or(node, |spot| spot.statement);
        let range = statement.range.start..view.end(statement);
        Ok(Paused {
            pause: Pause { range, meanwhile: Meanwhile::Waits(name) },
            condition: Some(condition),
            between: Vec::new(),
            calls: vec![statement],
        })
    }

    /// The release at a step, behind which the lock is taken again.
    fn interruption(&self, step: usize, again: &Break<'a>) -> Result<Paused<'a>, Refusal> {
        let view = self.view;
        // What is taken inside would stay taken from one run of the closure to the next, in whatever thread that is.
        let keeps = self.flow.before[step].iter().any(|held| self.holds_another(held));
        if keeps && view.applies(Rule::Pauses) {
            return Err(Refusal::Interleaved);
        }
        let [release, acquire] = again.statements;
        let range = release.range.start..view.end(acquire);
        let between = view.end(release)..acquire.range.start;
        Ok(Paused {
            pause: Pause { range, meanwhile: Meanwhile::Runs(between) },
            condition: None,
            between: again.between.clone(),
            calls: vec![release, acquire],
        })
    }

    /// Whether a step of the section can be reached from itself within it.
    fn comes_back(&self, step: usize) -> bool {
        let mut seen = BTreeSet::new();
        let mut work = vec![step];
        while let Some(at) = work.pop() {
            for next in self.flow.steps[at].next.iter().copied().filter(|next| self.region.contains(next)) {
                if next == step {
                    return true;
                }
                if seen.insert(next) {
                    work.push(next);
                }
            }
        }
        false
    }
}
