//! Where a lock is released and, later in the same block, taken again: a section may pause there, and what is between runs at the call
//! site.

use std::collections::HashSet;

use super::View;
use super::view::Spot;
use crate::flow::{Effect, Flow, Id, id};
use crate::tree::{Kind, Node};

/// A release and an acquisition of the same lock behind it, in one block.
#[derive(Clone, Debug)]
pub(super) struct Break<'a> {
    pub(super) lock: String,
    /// The expressions that release and acquire.
    pub(super) calls: [&'a Node; 2],
    /// The statements that do so.
    pub(super) statements: [&'a Node; 2],
    /// What is between.
    pub(super) between: Vec<&'a Node>,
}

impl<'a> Break<'a> {
    /// All of a function.
    pub(super) fn all(view: &View<'a>, flow: &Flow<'a>) -> Vec<Self> {
        let spots: Vec<(usize, Spot<'a>)> = (0..flow.steps.len())
            .filter(|step| matches!(flow.steps[*step].effect, Effect::Lock(_) | Effect::Unlock(_)))
            .filter_map(|step| Some((step, view.spot(flow.steps[step].node)?)))
            .collect();
        let break_at = |(first, release): &(usize, Spot<'a>)| {
            let Effect::Unlock(lock) = &flow.steps[*first].effect else { return None };
            let takes_it = Effect::Lock(lock.clone());
            let (step, acquire) = spots
                .iter()
                .filter(|(step, acquire)| {
                    flow.steps[*step].effect == takes_it
                        && id(acquire.block) == id(release.block)
                        && acquire.number > release.number
                })
                .min_by_key(|(_, acquire)| acquire.number)?;
            let between: Vec<&Node> =
                release.block.children[release.number + 1..acquire.number].iter().collect();
            between.iter().all(|node| runs_elsewhere(view, node, lock)).then(|| Self {
                lock: lock.clone(),
                calls: [flow.steps[*first].node, flow.steps[*step].node],
                statements: [release.statement, acquire.statement],
                between,
            })
        };
        spots.iter().filter_map(break_at).collect()
    }
}

/// Whether a statement may run at the call site in the middle of a section: nothing jumps into it or out of it, and it leaves the lock
/// alone.
fn runs_elsewhere(view: &View<'_>, node: &Node, lock: &str) -> bool {
    let own: HashSet<Id> = node.walk().map(id).collect();
    let is_own = |node: &Node| own.contains(&id(node));
    let switch_of =
        |case: &Node| view.around(case).map(|(around, _)| around).find(|around| around.kind == Kind::Switch);
    node.walk().all(|inner| match &inner.kind {
        Kind::Return | Kind::Goto(_) | Kind::ComputedGoto | Kind::Label(_) => false,
        // Its scope goes on behind the acquisition.
        Kind::Declarations => id(inner) != id(node),
        Kind::Break | Kind::Continue => view.target_of(inner).is_some_and(is_own),
        Kind::Case { .. } => switch_of(inner).is_some_and(is_own),
        Kind::Call(_) => {
            view.vocabulary.of(inner).is_none_or(|(_, of)| of.expression().as_deref() != Some(lock))
        }
        _ => true,
    })
}
