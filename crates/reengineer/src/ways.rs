//! Which structures may become one another without a word of their names.
//!
//! A pointer to a structure that is converted to a `void *` goes a *way*: that of the variable, field, parameter or result that it
//! is put in, or [`ELSEWHERE`], where nothing is followed. What comes out of a way may be any structure that goes it. A structure is
//! a way of its own, because what was converted to it may be converted from it again. This is Steensgaard's unification (POPL 1996)
//! once more, over structures by their types.
//!
//! Structures of one way have their mutexes in common where both have one, and the ways of their pointers where both begin alike up
//! to there: only for such a common beginning C allows to read a structure as another one (C17 6.5.2.3).

use std::collections::{BTreeMap, BTreeSet};

use crate::classes::Classes;
use crate::locks::{Fact, Thing};
use crate::rule::Rule;

/// The way of what is not followed.
pub(crate) const ELSEWHERE: &str = "elsewhere";

/// What matters of a structure's or a union's type, those within it with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Its mutexes and conditions, and its pointers to some.
    pub locks: Vec<(Within, Thing)>,
    /// Its other pointers.
    pub pointers: Vec<Pointer>,
}

/// Where a mutex, or a pointer to one, is in a structure.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Within {
    /// Which type of POSIX's it is.
    pub number: usize,
    /// It is a pointer to one.
    pub is_pointer: bool,
    /// The bit that it begins at.
    pub begin: i64,
    /// The bit behind it, or behind the last of an array.
    pub end: i64,
    /// There are several, between the one and the other.
    pub is_array: bool,
}

impl Within {
    /// Whether the other may be the same.
    fn meets(&self, other: &Self) -> bool {
        let meets = self.begin < other.end && other.begin < self.end;
        (self.number, self.is_pointer) == (other.number, other.is_pointer)
            && (self.begin == other.begin || meets && (self.is_array || other.is_array))
    }
}

/// A pointer in a structure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pointer {
    /// The bit that it begins at.
    pub begin: i64,
    /// What the structure has before it: the same number for the same sizes and sorts of members.
    pub before: u64,
    /// What it points to: a structure, or whatever the member has.
    pub way: Thing,
}

/// The mutexes of a program that are one another's by the ways of their structures, in pairs.
pub(crate) fn alike(facts: &[Fact], keeps: &dyn Fn(Rule) -> bool) -> Vec<(Thing, Thing)> {
    let mut ways = Ways::of(facts, keeps);
    while ways.join_unseen() || keeps(Rule::Holders) && ways.join_pointers() {}
    ways.locks()
}

/// The ways of a program.
#[derive(Default)]
struct Ways<'a> {
    classes: Classes,
    /// By structures. What a definition has may differ by the macros of the files that see it.
    layouts: BTreeMap<&'a str, Vec<&'a Layout>>,
    /// Structures, each with its name in files that do not see its definition. Others may have that name, too.
    unseen: BTreeSet<(&'a str, &'a str)>,
    /// Which structures go which way.
    goes: BTreeSet<(&'a str, &'a str)>,
}

impl<'a> Ways<'a> {
    fn of(facts: &'a [Fact], keeps: &dyn Fn(Rule) -> bool) -> Self {
        let mut ways = Self::default();
        let defined: BTreeSet<&String> = facts
            .iter()
            .filter_map(|fact| match fact {
                Fact::Defined(function) => Some(function),
                _ => None,
            })
            .collect();
        for fact in facts {
            match fact {
                Fact::SameWay { one, other, by } if keeps(*by) => drop(ways.classes.join(one, other)),
                // What is not the program's may do anything.
                Fact::PassedBy { function, way } if !defined.contains(function) => {
                    ways.classes.join(way, ELSEWHERE);
                }
                Fact::Veiled { structure, way } => {
                    ways.goes.insert((structure, way));
                    ways.classes.number(way);
                    if keeps(Rule::Between) {
                        ways.classes.join(structure, way);
                    }
                }
                Fact::Layout { structure, unseen, layout } => {
                    ways.layouts.entry(structure).or_default().push(layout);
                    ways.unseen.insert((structure, unseen));
                    ways.goes.insert((structure, structure));
                    ways.classes.number(structure);
                }
                _ => {}
            }
        }
        ways
    }

    /// The layouts of structures, each with the class of a way that it goes.
    fn layouts(&self) -> impl Iterator<Item = (usize, &'a Layout)> {
        self.goes.iter().flat_map(|(structure, way)| {
            let class = self.classes.class(way);
            let all = self.layouts.get(structure).into_iter().flatten();
            all.filter_map(move |layout| Some((class?, *layout)))
        })
    }

    /// What goes some way by a name whose definition is not seen may be any structure of that name. Whether that is new of any.
    fn join_unseen(&mut self) -> bool {
        let mut is_new = false;
        for (structure, unseen) in &self.unseen {
            is_new |= self.classes.class(unseen).is_some() && self.classes.join(structure, unseen);
        }
        is_new
    }

    /// Pointers in the same place of structures that go the same way go the same way themselves. Whether that is new of any.
    fn join_pointers(&mut self) -> bool {
        let mut first: BTreeMap<(usize, i64, u64), &str> = BTreeMap::new();
        let mut same = Vec::new();
        for (class, layout) in self.layouts() {
            for Pointer { begin, before, way } in &layout.pointers {
                let one = *first.entry((class, *begin, *before)).or_insert(way);
                same.push((one, way));
            }
        }
        // All are joined, whatever comes of the first.
        same.into_iter().fold(false, |is_new, (one, other)| self.classes.join(one, other) || is_new)
    }

    /// What structures of one way have in the same place, in pairs.
    fn locks(&self) -> Vec<(Thing, Thing)> {
        let mut by_class: BTreeMap<usize, BTreeSet<&(Within, Thing)>> = BTreeMap::new();
        for (class, layout) in self.layouts() {
            by_class.entry(class).or_default().extend(&layout.locks);
        }
        let mut found = Vec::new();
        for locks in by_class.values() {
            for (number, (within, thing)) in locks.iter().enumerate() {
                // They are in the order of where they begin.
                let may_meet = locks.iter().skip(number + 1).take_while(|(other, _)| {
                    (other.number, other.is_pointer) == (within.number, within.is_pointer)
                        && other.begin < within.end
                });
                let met = may_meet.filter(|(other, _)| within.meets(other));
                found.extend(met.map(|(_, other)| (thing.clone(), other.clone())));
            }
        }
        found
    }
}
