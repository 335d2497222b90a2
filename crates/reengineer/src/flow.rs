//! The control flow of a function, and which locks may be held where.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ptr;

use crate::tree::{Function, Kind, Node, value_of};
use crate::vocabulary::{Action, Vocabulary};

/// A node by its identity.
pub(crate) type Id = *const Node;

/// The identity of a node.
pub(crate) fn id(node: &Node) -> Id {
    ptr::from_ref(node)
}

/// What a step does to locks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    None,
    /// With the lock as text.
    Lock(String),
    Unlock(String),
    /// Waits for a condition with the lock.
    Wait(String),
    /// A lock call whose result is used, or whose lock is no plain expression.
    Unclear,
}

/// A statement without statements in it, or the head of one with.
#[derive(Debug)]
pub(crate) struct Step<'a> {
    pub(crate) node: &'a Node,
    pub(crate) effect: Effect,
    pub(crate) next: Vec<usize>,
}

/// Sets of sites whose locks may be held at once, each sorted.
pub(crate) type States = BTreeSet<Vec<usize>>;

/// More sets than this are not followed.
const MOST_STATES: usize = 64;

/// The graph of a function.
#[derive(Debug)]
pub(crate) struct Flow<'a> {
    pub(crate) steps: Vec<Step<'a>>,
    /// What may be held before each step.
    pub(crate) before: Vec<States>,
    /// Steps that take a lock which may be held already, and those that release one which may not be held.
    pub(crate) taken_again: BTreeSet<usize>,
    pub(crate) released_unheld: BTreeSet<usize>,
    /// Whether there were more states than are followed.
    pub(crate) exploded: bool,
}

/// Where jumps lead.
#[derive(Clone, Copy)]
struct Targets {
    at_break: usize,
    at_continue: usize,
}

struct Builder<'a, 'v> {
    vocabulary: &'v Vocabulary,
    /// Releases and acquisitions between which a section pauses: it counts as held.
    paused: &'v HashSet<Id>,
    steps: Vec<Step<'a>>,
    labels: HashMap<&'a str, usize>,
    gotos: Vec<(usize, &'a str)>,
    /// The cases of the switches around, innermost last, and whether one is `default`.
    switches: Vec<(Vec<usize>, bool)>,
}

impl<'a> Flow<'a> {
    /// The flow of `function`. The lock calls of `paused` do nothing.
    pub(crate) fn of(function: &'a Function, vocabulary: &Vocabulary, paused: &HashSet<Id>) -> Self {
        let mut builder = Builder {
            vocabulary,
            paused,
            steps: Vec::new(),
            labels: HashMap::new(),
            gotos: Vec::new(),
            switches: Vec::new(),
        };
        let end = builder.add(&function.body, Effect::None, Vec::new());
        let targets = Targets { at_break: end, at_continue: end };
        let first = builder.statement(&function.body, end, targets);
        for (step, label) in std::mem::take(&mut builder.gotos) {
            builder.steps[step].next = builder.labels.get(label).copied().into_iter().collect();
        }
        let count = builder.steps.len();
        let mut flow = Self {
            steps: builder.steps,
            before: vec![States::new(); count],
            taken_again: BTreeSet::new(),
            released_unheld: BTreeSet::new(),
            exploded: false,
        };
        flow.follow(first);
        flow
    }

    fn follow(&mut self, first: usize) {
        self.before[first].insert(Vec::new());
        let mut work = vec![first];
        while let Some(step) = work.pop() {
            let after: States = self.before[step].clone().iter().map(|held| self.after(step, held)).collect();
            for next in self.steps[step].next.clone() {
                let known = self.before[next].len();
                self.before[next].extend(after.iter().cloned());
                if self.before[next].len() > MOST_STATES {
                    self.exploded = true;
                    return;
                }
                if self.before[next].len() > known {
                    work.push(next);
                }
            }
        }
    }

    /// What is held after a step before which `held` is.
    fn after(&mut self, step: usize, held: &[usize]) -> Vec<usize> {
        let mut held = held.to_vec();
        let lock_of = |site: usize| match &self.steps[site].effect {
            Effect::Lock(lock) => lock.as_str(),
            _ => "",
        };
        match &self.steps[step].effect {
            Effect::Lock(lock) => {
                if held.iter().any(|site| lock_of(*site) == lock) {
                    self.taken_again.insert(step);
                }
                if !held.contains(&step) {
                    held.push(step);
                    held.sort_unstable();
                }
            }
            Effect::Unlock(lock) => match held.iter().rposition(|site| lock_of(*site) == lock) {
                Some(position) => {
                    held.remove(position);
                }
                None => {
                    self.released_unheld.insert(step);
                }
            },
            Effect::None | Effect::Wait(_) | Effect::Unclear => {}
        }
        held
    }
}

impl<'a> Builder<'a, '_> {
    fn add(&mut self, node: &'a Node, effect: Effect, next: Vec<usize>) -> usize {
        self.steps.push(Step { node, effect, next });
        self.steps.len() - 1
    }

    /// Adds what `node` is; its first step. `next` comes after it.
    fn statement(&mut self, node: &'a Node, next: usize, targets: Targets) -> usize {
        let children = node.children.as_slice();
        match (&node.kind, children) {
            (Kind::Compound, _) => {
                children.iter().rev().fold(next, |next, child| self.statement(child, next, targets))
            }
            (Kind::If, [condition, branches @ ..]) => {
                let mut nexts: Vec<_> =
                    branches.iter().map(|branch| self.statement(branch, next, targets)).collect();
                if branches.len() < 2 {
                    nexts.push(next);
                }
                self.expression(condition, nexts)
            }
            (Kind::While, [condition, body]) => {
                let head = self.expression(condition, Vec::new());
                let body = self.statement(body, head, Targets { at_break: next, at_continue: head });
                self.steps[head].next = ways(condition, body, next);
                head
            }
            (Kind::Do, [body, condition]) => {
                let head = self.expression(condition, Vec::new());
                let body = self.statement(body, head, Targets { at_break: next, at_continue: head });
                self.steps[head].next = ways(condition, body, next);
                body
            }
            (Kind::For { is_endless }, [heads @ .., body]) => {
                let effect =
                    heads.iter().map(|head| self.effect_inside(head)).find(|effect| *effect != Effect::None);
                let head = self.add(node, effect.unwrap_or(Effect::None), Vec::new());
                let body = self.statement(body, head, Targets { at_break: next, at_continue: head });
                self.steps[head].next = if *is_endless { vec![body] } else { vec![body, next] };
                head
            }
            (Kind::Switch, [value, body]) => {
                self.switches.push((Vec::new(), false));
                self.statement(body, next, Targets { at_break: next, ..targets });
                let (mut cases, has_default) = self.switches.pop().unwrap_or_default();
                if !has_default {
                    cases.push(next);
                }
                self.expression(value, cases)
            }
            (Kind::Case { is_default }, [.., inner]) => {
                let inner = self.statement(inner, next, targets);
                let here = self.add(node, Effect::None, vec![inner]);
                if let Some((cases, has_default)) = self.switches.last_mut() {
                    cases.push(here);
                    *has_default |= is_default;
                }
                here
            }
            (Kind::Label(name), [.., inner]) => {
                let inner = self.statement(inner, next, targets);
                let here = self.add(node, Effect::None, vec![inner]);
                self.labels.insert(name, here);
                here
            }
            (Kind::Goto(name), _) => {
                let here = self.add(node, Effect::None, Vec::new());
                self.gotos.push((here, name));
                here
            }
            (Kind::Break, _) => self.add(node, Effect::None, vec![targets.at_break]),
            (Kind::Continue, _) => self.add(node, Effect::None, vec![targets.at_continue]),
            (Kind::Return, _) => {
                let effect = self.effect_inside(node);
                // The last step of all is the end of the function, which was added first.
                self.add(node, effect, vec![0])
            }
            _ => self.expression(node, vec![next]),
        }
    }

    /// Adds an expression, or a statement that is one.
    fn expression(&mut self, node: &'a Node, next: Vec<usize>) -> usize {
        let effect = if self.paused.contains(&id(node)) { Effect::None } else { self.effect(node) };
        self.add(node, effect, if without_void(node).never_returns { Vec::new() } else { next })
    }

    /// What a statement does that is nothing but one lock call; one that has such a call somewhere inside is unclear.
    fn effect(&self, node: &Node) -> Effect {
        let bare = without_void(node);
        let Some((action, lock)) = self.vocabulary.of(bare) else { return self.effect_inside(node) };
        match (action, lock.expression()) {
            (Action::Lock, Some(lock)) => Effect::Lock(lock),
            (Action::Unlock, Some(lock)) => Effect::Unlock(lock),
            (Action::Wait, Some(lock)) => Effect::Wait(lock),
            _ => Effect::Unclear,
        }
    }

    fn effect_inside(&self, node: &Node) -> Effect {
        let has_call = node.walk().any(|inner| self.vocabulary.of(inner).is_some());
        if has_call { Effect::Unclear } else { Effect::None }
    }
}

/// An expression without parentheses, conversions that are not spelt, and a conversion to `void`.
pub(crate) fn without_void(node: &Node) -> &Node {
    let bare = node.bare();
    match (&bare.kind, bare.children.as_slice()) {
        (Kind::Cast(name), [.., inner]) if name == "void" => inner.bare(),
        _ => bare,
    }
}

/// Where a loop goes on from its condition: a constant leaves it one way.
fn ways(condition: &Node, body: usize, next: usize) -> Vec<usize> {
    match &condition.bare().kind {
        Kind::Literal(text) if value_of(text) == "0" => vec![next],
        Kind::Literal(text) if !text.is_empty() => vec![body],
        _ => vec![body, next],
    }
}
