//! A small decision tree from what one measures with one lock alone to the lock to take.
//!
//! Several locks may be within 5% of the best, so a leaf is not labelled with a class: it names the lock that covers most of
//! its applications, and a split is as good as the applications that its two leaves cover. The usual crates for trees have no
//! such target.

use crate::view::{Level, View};
use lockwork_stats::Tolerance;

/// A leaf has at least this many applications: fewer are anecdotes.
const LEAF: usize = 3;

/// Questions asked one after another.
const DEPTH: usize = 2;

/// What is asked of an application, measured under the baseline lock.
pub(crate) const FEATURES: [&str; 3] = [
    "speed-up from one node to the next count",
    "speed-up from one node to max nodes",
    "gain of opt nodes over max nodes",
];

/// An application: its features, and by lock whether it covers the application.
#[derive(Debug, Clone)]
pub(crate) struct Example {
    pub(crate) application: usize,
    features: [f64; FEATURES.len()],
    pub(crate) covers: Vec<bool>,
}

/// The lock-sensitive applications that were measured under the baseline.
pub(crate) fn examples(view: &View<'_>, level: Level, baseline: usize) -> Vec<Example> {
    view.sensitive()
        .into_iter()
        .filter_map(|application| {
            let value = |nodes| view.value(application, nodes, baseline);
            let mut nodes = view.nodes(application);
            let (one, next, max) = (nodes.next()?, nodes.next()?, view.nodes(application).next_back()?);
            let gain = view.optimum(application, baseline)?.1 / value(max)?;
            let features = [value(next)? / value(one)?, value(max)? / value(one)?, gain];
            Some(Example { application, features, covers: covers(view, application, level) })
        })
        .collect()
}

/// By lock, whether it covers an application.
pub(crate) fn covers(view: &View<'_>, application: usize, level: Level) -> Vec<bool> {
    let row = view.row(application, level);
    let best = crate::view::best(&row);
    row.iter()
        .map(|value| {
            value.zip(best).is_some_and(|(value, best)| !Tolerance::FIVE_PERCENT.exceeds(best, value))
        })
        .collect()
}

/// The lock that covers most of the examples (the first of equals), and how many.
pub(crate) fn favourite<'a>(
    examples: impl Iterator<Item = &'a Example> + Clone,
    locks: &[usize],
) -> Option<(usize, usize)> {
    let counts =
        locks.iter().map(|&lock| (lock, examples.clone().filter(|example| example.covers[lock]).count()));
    counts.reduce(|best, next| if next.1 > best.1 { next } else { best })
}

/// A fitted tree.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Tree {
    Leaf { lock: usize, applications: usize, covered: usize },
    Split { feature: usize, threshold: f64, below: Box<Tree>, above: Box<Tree> },
}

impl Tree {
    /// Fits a tree; `None` without examples or locks.
    pub(crate) fn fit(examples: &[&Example], locks: &[usize]) -> Option<Self> {
        if examples.is_empty() {
            return None;
        }
        Self::grow(examples, locks, DEPTH)
    }

    fn grow(examples: &[&Example], locks: &[usize], depth: usize) -> Option<Self> {
        let (lock, covered) = favourite(examples.iter().copied(), locks)?;
        let leaf = Tree::Leaf { lock, applications: examples.len(), covered };
        if depth == 0 {
            return Some(leaf);
        }
        let mut best: Option<(usize, usize, f64)> = None;
        for feature in 0..FEATURES.len() {
            let mut values: Vec<f64> = examples.iter().map(|example| example.features[feature]).collect();
            values.sort_unstable_by(f64::total_cmp);
            values.dedup();
            for pair in values.windows(2) {
                let threshold = f64::midpoint(pair[0], pair[1]);
                let side = |below: bool| {
                    examples
                        .iter()
                        .copied()
                        .filter(move |example| (example.features[feature] < threshold) == below)
                };
                if side(true).count() < LEAF || side(false).count() < LEAF {
                    continue;
                }
                let covers = |below| favourite(side(below), locks).map_or(0, |(_, covered)| covered);
                let total = covers(true) + covers(false);
                if total > best.map_or(covered, |(total, ..)| total) {
                    best = Some((total, feature, threshold));
                }
            }
        }
        let Some((_, feature, threshold)) = best else { return Some(leaf) };
        let (below, above): (Vec<&Example>, Vec<&Example>) =
            examples.iter().partition(|example| example.features[feature] < threshold);
        Some(Tree::Split {
            feature,
            threshold,
            below: Box::new(Self::grow(&below, locks, depth - 1)?),
            above: Box::new(Self::grow(&above, locks, depth - 1)?),
        })
    }

    /// The lock for an application.
    pub(crate) fn lock(&self, example: &Example) -> usize {
        match self {
            Tree::Leaf { lock, .. } => *lock,
            Tree::Split { feature, threshold, below, above } => {
                if example.features[*feature] < *threshold {
                    below.lock(example)
                } else {
                    above.lock(example)
                }
            }
        }
    }

    /// The leaves: the questions that lead to each, its lock, its applications, how many the lock covers.
    pub(crate) fn leaves(&self) -> Vec<(Vec<String>, usize, usize, usize)> {
        match self {
            Tree::Leaf { lock, applications, covered } => vec![(Vec::new(), *lock, *applications, *covered)],
            Tree::Split { feature, threshold, below, above } => {
                let mut leaves = Vec::new();
                for (tree, relation) in [(below, "below"), (above, "at least")] {
                    for (mut path, lock, applications, covered) in tree.leaves() {
                        path.insert(0, format!("{} {relation} {threshold:.2}", FEATURES[*feature]));
                        leaves.push((path, lock, applications, covered));
                    }
                }
                leaves
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example(feature: f64, covers: [bool; 2]) -> Example {
        Example { application: 0, features: [1.0, feature, 1.0], covers: covers.to_vec() }
    }

    #[test]
    fn a_feature_that_decides_is_found() {
        let mut examples: Vec<Example> = (0..5).map(|i| example(f64::from(i), [true, false])).collect();
        examples.extend((10..15).map(|i| example(f64::from(i), [false, true])));
        let tree = Tree::fit(&examples.iter().collect::<Vec<_>>(), &[0, 1]).unwrap();
        assert!(examples.iter().all(|example| example.covers[tree.lock(example)]));
        let Tree::Split { feature: 1, threshold: 7.0, .. } = tree else { panic!("{tree:?}") };
        assert_eq!(tree.leaves().iter().map(|leaf| leaf.3).sum::<usize>(), 10);
    }

    #[test]
    fn a_feature_that_does_not_help_is_not_asked_for() {
        let examples: Vec<Example> = (0..10).map(|i| example(f64::from(i), [true, i % 2 == 0])).collect();
        let tree = Tree::fit(&examples.iter().collect::<Vec<_>>(), &[0, 1]).unwrap();
        assert_eq!(tree, Tree::Leaf { lock: 0, applications: 10, covered: 10 });
        assert_eq!(Tree::fit(&[], &[0, 1]), None);
    }
}
