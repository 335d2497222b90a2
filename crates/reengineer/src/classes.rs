//! Names that stand for one thing: Tarjan's disjoint sets.

use std::collections::{BTreeMap, BTreeSet};

/// Names, and which of them are of one class.
#[derive(Debug, Default)]
pub(crate) struct Classes {
    numbers: BTreeMap<String, usize>,
    /// The number of a name that is of the same class; itself for one of them.
    same: Vec<usize>,
}

impl Classes {
    /// The class of a name, which has one of its own if it is new.
    pub(crate) fn number(&mut self, name: &str) -> usize {
        if let Some(number) = self.numbers.get(name) {
            return self.root(*number);
        }
        let number = self.same.len();
        self.same.push(number);
        self.numbers.insert(name.to_owned(), number);
        number
    }

    fn root(&self, mut number: usize) -> usize {
        while self.same[number] != number {
            number = self.same[number];
        }
        number
    }

    /// Two names are of one class. Whether that is new.
    pub(crate) fn join(&mut self, one: &str, other: &str) -> bool {
        let (one, other) = (self.number(one), self.number(other));
        self.same[one.max(other)] = one.min(other);
        one != other
    }

    /// The class of a name; `None` if there is none.
    pub(crate) fn class(&self, name: &str) -> Option<usize> {
        self.numbers.get(name).map(|number| self.root(*number))
    }

    /// All classes.
    pub(crate) fn all(&self) -> BTreeSet<usize> {
        self.numbers.values().map(|number| self.root(*number)).collect()
    }
}
