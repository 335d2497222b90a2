//! What the nodes of a function ask of others: the functions that they call, the locks that they take, and what of the thread's own
//! they ask for.

use std::collections::BTreeSet;
use std::ops::Range;

use super::View;
use super::plan::Plan;
use crate::tree::{Function, Kind, Node, Unary};
use crate::vocabulary::{Action, Vocabulary, means_the_thread, runs_elsewhere};

/// What of a thread's own a node asks for.
pub(super) fn asked_of_the_thread<'n>(function: &Function, node: &'n Node) -> Option<&'n str> {
    match &node.kind {
        Kind::Declaration(variable)
            if function.locals.get(variable).is_some_and(|local| local.is_of_thread) =>
        {
            Some(&variable.name)
        }
        Kind::Call(name) if means_the_thread(name) => Some(name),
        Kind::ThreadLocal(name) => Some(name),
        _ => None,
    }
}

/// The calls among nodes that take locks.
pub(super) fn taken<'n>(
    nodes: impl Iterator<Item = &'n Node>,
    vocabulary: &Vocabulary,
) -> impl Iterator<Item = (usize, Action)> {
    // What macros take that are no calls is no mutex.
    nodes.filter(|node| matches!(node.kind, Kind::Call(_))).filter_map(|node| match vocabulary.of(node) {
        Some((action @ (Action::Lock | Action::Try), _)) => Some((node.range.start, action)),
        _ => None,
    })
}

/// The functions that nodes call, other than to take and release locks, and those that they pass to what they call.
pub(super) fn calls_in<'n>(
    nodes: impl Iterator<Item = &'n Node>,
    vocabulary: &Vocabulary,
) -> impl Iterator<Item = (&'n str, &'n Node)> {
    nodes
        .filter(|node| vocabulary.of(node).is_none())
        .filter_map(|node| match &node.kind {
            Kind::Call(name) => Some((name.as_str(), node)),
            _ => None,
        })
        .flat_map(|(name, node)| {
            let given = node.children.iter().skip(1).filter_map(passed).filter(|_| !runs_elsewhere(name));
            std::iter::once(name).filter(|name| !name.is_empty()).chain(given).map(move |name| (name, node))
        })
}

/// The function, or something else of the file, that is passed as it is.
fn passed(mut argument: &Node) -> Option<&str> {
    loop {
        argument = match (&argument.kind, argument.children.as_slice()) {
            (Kind::Name(name), _) => return Some(name),
            (Kind::Transparent | Kind::Cast(_) | Kind::Unary(Unary::Address), [.., inner]) => inner,
            _ => return None,
        };
    }
}

/// What of a section changes its meaning in another thread or another function. What runs at the call site is in the function's own
/// thread, and in the function.
pub(super) fn warnings(view: &View<'_>, plan: &Plan) -> Vec<String> {
    let exits = plan.exits.iter().map(|exit| &exit.range);
    let moved: Vec<&Range<usize>> = exits.chain(plan.pauses.iter().map(|pause| &pause.range)).collect();
    let runs_inside = |node: &&Node| {
        let at = node.range.start;
        plan.slice.contains(&at) && !moved.iter().any(|range| range.contains(&at))
    };
    let warning = |node: &Node| match &node.kind {
        Kind::Call(name) if means_the_thread(name) => Some(format!("{name} answers for the server's thread")),
        Kind::ThreadLocal(name) => Some(format!("`{name}` is the server's")),
        Kind::FunctionName(name) => Some(format!("`{name}` is the closure's name")),
        _ => None,
    };
    let found: BTreeSet<String> = view.function.body.walk().filter(runs_inside).filter_map(warning).collect();
    found.into_iter().collect()
}
