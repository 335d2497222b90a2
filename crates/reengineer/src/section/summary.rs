//! What a function does that its callers have to know: whose locks it gives up, which it takes and keeps, what it calls, and whether
//! it asks for its thread.

use std::collections::BTreeSet;

use super::View;
use super::asks::{asked_of_the_thread, calls_in, taken};
use crate::flow::{Effect, Flow, Step};
use crate::tree::{Kind, Node};
use crate::vocabulary::Action;

/// What a function does to the locks of its callers, and by whom else.
#[derive(Debug)]
pub(crate) struct Summary {
    /// The calls that release a lock, or wait with one, that the function may not hold by itself: their offsets.
    pub given_up: Vec<GivenUp>,
    /// The calls by which it takes locks: their offsets.
    pub takes: Vec<(usize, Action)>,
    /// Those of which it may hold the lock when it returns.
    pub keeps: Vec<(usize, Action)>,
    /// The functions that it calls, and the offsets of the calls.
    pub calls: Vec<(String, usize)>,
    /// What it asks for, first, that each thread has one of its own.
    pub asks: Option<String>,
}

/// Where a function gives up a lock that it may not hold by itself.
#[derive(Clone, Debug)]
pub(crate) struct GivenUp {
    /// The offset of the call.
    pub offset: usize,
    /// What the call does.
    pub action: Action,
    /// The lock, where it is a macro's.
    pub by_macro: Option<String>,
}

impl Summary {
    /// That of a function whose flow is known.
    pub(super) fn of(view: &View<'_>, flow: &Flow<'_>) -> Self {
        let nodes = || view.function.body.walk();
        Self {
            given_up: given_up(view, flow),
            takes: taken(nodes(), view.vocabulary).collect(),
            keeps: keeps(view, flow),
            calls: calls_in(nodes(), view.vocabulary)
                .map(|(name, node)| (name.to_owned(), node.range.start))
                .collect(),
            asks: nodes().find_map(|node| asked_of_the_thread(view.function, node)).map(str::to_owned),
        }
    }
}

/// The calls that release a lock, or wait with one, that may not have been taken here.
fn given_up(view: &View<'_>, flow: &Flow<'_>) -> Vec<GivenUp> {
    let mut found = Vec::new();
    for (number, step) in flow.steps.iter().enumerate().filter(|(_, step)| step.effect != Effect::None) {
        for call in parts_of(step).iter().flat_map(|part| view.lock_calls(part)) {
            let Some((action @ (Action::Unlock | Action::Wait), of)) = view.vocabulary.of(call) else {
                continue;
            };
            let lock = of.expression();
            let is_it = |site: &usize| matches!(&flow.steps[*site].effect, Effect::Lock(taken) if Some(taken) == lock.as_ref());
            if flow.before[number].iter().any(|held| !held.iter().any(is_it)) {
                let by_macro = lock.filter(|_| matches!(call.kind, Kind::Macro(_)));
                found.push(GivenUp { offset: call.range.start, action, by_macro });
            }
        }
    }
    found
}

/// The calls that take locks which may be held when the function returns.
fn keeps(view: &View<'_>, flow: &Flow<'_>) -> Vec<(usize, Action)> {
    // Its last step is the first that was added.
    let at_end: BTreeSet<usize> = flow.before.first().into_iter().flatten().flatten().copied().collect();
    let is_kept = |(number, step): &(usize, &Step<'_>)| {
        at_end.contains(number)
            // What becomes of it depends on its result.
            || step.effect == Effect::Unclear && !flow.before[*number].is_empty()
    };
    let kept = flow.steps.iter().enumerate().filter(is_kept);
    // A `for` is a step for its head, of which nothing is known: its body has steps of its own.
    let plain = kept.filter(|(_, step)| !matches!(step.node.kind, Kind::For { .. }));
    plain.flat_map(|(_, step)| taken(step.node.walk(), view.vocabulary)).collect()
}

/// The nodes that a step stands for: of a `for`, its head.
fn parts_of<'a>(step: &Step<'a>) -> &'a [Node] {
    match (&step.node.kind, step.node.children.as_slice()) {
        (Kind::For { .. }, [heads @ .., _]) => heads,
        _ => std::slice::from_ref(step.node),
    }
}
