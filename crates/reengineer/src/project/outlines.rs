//! What the functions of a program do with the locks of their callers, each with those that it calls.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::locks::Locks;
use crate::section::{GivenUp, Summary};
use crate::vocabulary::Action;

/// The functions by their names.
#[derive(Debug, Default)]
pub(super) struct Outlines {
    by_name: BTreeMap<String, Outline>,
}

/// What the functions of one name do with the locks of their callers.
#[derive(Debug, Default)]
pub(super) struct Outline {
    /// Where they give up a lock that they do not take.
    given_up: Vec<(PathBuf, GivenUp)>,
    /// By what calls they take locks, and of which they may hold the lock when they return.
    pub(super) takes: Vec<(PathBuf, usize, Action)>,
    keeps: Vec<(PathBuf, usize, Action)>,
    /// What they call.
    pub(super) callees: BTreeSet<String>,
    /// What they ask for that each thread has one of its own.
    pub(super) asks: Option<String>,
}

/// Locks that are alike enough to be one, for what a function gives up.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Alike {
    /// Mutexes of a class.
    Class(usize),
    /// What macros take that is in a field or a variable of this name.
    Named(String),
    /// What macros take that a local variable or parameter names: it may be any.
    Any,
}

/// What a function, with those that it calls, leaves of mutexes otherwise than it found them: the classes of those that it takes and
/// keeps, and of those that it has not taken and releases. `None`: one that is not known, and may be any.
#[derive(Clone, Debug, Default)]
pub(super) struct Leaves {
    kept: BTreeSet<Option<usize>>,
    released: BTreeSet<Option<usize>>,
}

impl Leaves {
    /// Of both, one after the other: what the one takes the other may release.
    pub(super) fn and<'a>(all: impl Iterator<Item = &'a Self>) -> Self {
        let (mut kept, mut released) = (BTreeSet::new(), BTreeSet::new());
        for one in all {
            kept.extend(&one.kept);
            released.extend(&one.released);
        }
        // One that is not known may be any of the others.
        let without = |of: &BTreeSet<Option<usize>>, others: &BTreeSet<Option<usize>>| {
            let is_left = |class: &&Option<usize>| {
                !others.contains(class) && !others.contains(&None) && (class.is_some() || others.is_empty())
            };
            of.iter().filter(is_left).copied().collect()
        };
        Self { kept: without(&kept, &released), released: without(&released, &kept) }
    }

    /// Whether something of these is among the others.
    pub(super) fn meets(&self, others: &Self) -> bool {
        !self.kept.is_disjoint(&others.kept) || !self.released.is_disjoint(&others.released)
    }
}

impl Outlines {
    /// Adds a function, which is in this file.
    pub(super) fn add(&mut self, name: &str, file: &Path, summary: &Summary) {
        let here = |(offset, action): &(usize, Action)| (file.to_owned(), *offset, *action);
        let outline = self.by_name.entry(name.to_owned()).or_default();
        outline.asks = outline.asks.take().or_else(|| summary.asks.clone());
        outline.given_up.extend(summary.given_up.iter().map(|call| (file.to_owned(), call.clone())));
        outline.takes.extend(summary.takes.iter().map(here));
        outline.keeps.extend(summary.keeps.iter().map(here));
        outline.callees.extend(summary.calls.iter().map(|(callee, _)| callee.clone()));
    }

    /// Whether a function of the program calls one of this name.
    pub(super) fn call(&self, callee: &str) -> bool {
        self.by_name.values().any(|outline| outline.callees.contains(callee))
    }

    /// What functions do, `own` by themselves, or what functions do that they call.
    pub(super) fn with_callees<T: Clone + Ord>(
        &self,
        own: impl Fn(&Outline) -> BTreeSet<T>,
    ) -> BTreeMap<&str, BTreeSet<T>> {
        let mut found: BTreeMap<&str, BTreeSet<T>> =
            self.by_name.iter().map(|(name, outline)| (name.as_str(), own(outline))).collect();
        loop {
            let mut has_grown = false;
            for (name, outline) in &self.by_name {
                let callees = outline.callees.iter().filter_map(|callee| found.get(callee.as_str()));
                let of_callees: Vec<T> = callees.flatten().cloned().collect();
                let all = found.entry(name).or_default();
                let before = all.len();
                all.extend(of_callees);
                has_grown |= all.len() > before;
            }
            if !has_grown {
                return found;
            }
        }
    }

    /// The locks that a function gives up which it, or a function that it calls, does not take.
    pub(super) fn given_up(&self, locks: &Locks) -> BTreeMap<&str, BTreeSet<Alike>> {
        self.with_callees(|outline| {
            let alike = outline.given_up.iter().filter_map(|(file, call)| match &call.by_macro {
                Some(lock) => Some(named(lock).map_or(Alike::Any, Alike::Named)),
                None => locks.at(file, call.offset, call.action).map(Alike::Class),
            });
            alike.collect()
        })
    }

    /// What functions leave of mutexes otherwise than they found them; `known` keeps what was asked for. A function that calls itself
    /// does so as if it did not.
    pub(super) fn leaves<'a>(
        &'a self,
        name: &'a str,
        locks: &Locks,
        known: &mut BTreeMap<&'a str, Leaves>,
    ) -> Leaves {
        if let Some(known) = known.get(name) {
            return known.clone();
        }
        let Some(outline) = self.by_name.get(name) else { return Leaves::default() };
        known.insert(name, Leaves::default());
        let releases =
            |(_, call): &&(PathBuf, GivenUp)| call.action == Action::Unlock && call.by_macro.is_none();
        let own = Leaves {
            kept: outline.keeps.iter().map(|(file, at, action)| locks.at(file, *at, *action)).collect(),
            released: (outline.given_up.iter().filter(releases))
                .map(|(file, call)| locks.at(file, call.offset, Action::Unlock))
                .collect(),
        };
        let below: Vec<Leaves> =
            outline.callees.iter().map(|callee| self.leaves(callee, locks, known)).collect();
        let all = Leaves::and(below.iter().chain([&own]));
        known.insert(name, all.clone());
        all
    }
}

/// The name of the field or variable that an expression of a lock ends with, unless it is nothing but one variable.
pub(super) fn named(lock: &str) -> Option<String> {
    let is_word = |next: char| next.is_ascii_alphanumeric() || next == '_';
    let start = lock.rfind(|next| !is_word(next)).map_or(0, |at| at + 1);
    if start > 0 && start < lock.len() {
        return Some(lock[start..].to_owned());
    }
    let inner = lock.trim_end_matches(|next| !is_word(next));
    (start > 0 && inner.len() < lock.len()).then(|| named(inner)).flatten()
}
