//! The variables that a closure shares with the function around it, and how: by their addresses, as copies, or declared before it.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Range;

use super::body::Body;
use super::plan::{Capture, Hoisted};
use super::{Refusal, View};
use crate::flow::{Id, id};
use crate::rule::Rule;
use crate::tree::{Kind, Node, Shape, Variable};

/// A section's variables while it is found out which of them the closure shares.
pub(super) struct Captures<'a> {
    pub(super) view: &'a View<'a>,
    pub(super) body: &'a Body<'a>,
    /// The block that the section is in.
    pub(super) block: &'a Node,
    /// Those that the section declares.
    pub(super) declared: BTreeMap<&'a Variable, &'a Node>,
    /// The texts of the pauses.
    pub(super) pauses: Vec<Range<usize>>,
    /// The texts that run at the call site.
    pub(super) tails: Vec<Range<usize>>,
    /// The nodes that run there.
    pub(super) at_call: Vec<&'a Node>,
    /// The nodes of the statements that release, acquire or wait.
    releases: &'a HashSet<Id>,
}

/// The captures of a section by their variables, and which of these stand in an argument of a macro.
#[derive(Default)]
struct Found<'a> {
    captures: BTreeMap<&'a Variable, Capture>,
    in_arguments: BTreeSet<&'a Variable>,
}

impl<'a> Captures<'a> {
    /// Those of a section; `releases` are the nodes of the statements that release its lock, take it again or wait.
    pub(super) fn of(body: &'a Body<'a>, releases: &'a HashSet<Id>) -> Self {
        let declaration = |node: &&'a Node| match &node.kind {
            Kind::Declaration(variable) => Some((variable, *node)),
            _ => None,
        };
        Self {
            view: body.cut.extent.view,
            body,
            block: body.cut.extent.spot.block,
            declared: body.held.iter().filter_map(declaration).collect(),
            pauses: body.pauses().collect(),
            tails: body.tails(),
            at_call: body.at_call(),
            releases,
        }
    }

    /// The variables that the closure shares with the function around it.
    pub(super) fn all(&self) -> Result<Vec<Capture>, Refusal> {
        self.check_arrays()?;
        self.check_literals()?;
        let hoists = self.hoists()?;
        self.check_meanings()?;
        let mut found = self.found(hoists)?;
        self.check_spelt(&mut found)?;
        self.settled(found)
    }

    /// The uses of a variable in the section.
    pub(super) fn uses(&self, variable: &Variable) -> impl Iterator<Item = &'a Node> {
        let is_use = move |node: &&Node| matches!(&node.kind, Kind::Local(used) if used == variable);
        self.body.held.iter().copied().filter(is_use)
    }

    /// An array of variable size cannot be declared before the section, and would not outlive a pause in it.
    fn check_arrays(&self) -> Result<(), Refusal> {
        let is_sized = |variable: &&&Variable| {
            self.view.local(variable).is_some_and(|local| local.shape == Shape::VariableArray)
        };
        match self.declared.keys().find(is_sized).filter(|_| !self.pauses.is_empty()) {
            Some(variable) => Err(Refusal::VariableArray(variable.name.clone())),
            None => Ok(()),
        }
    }

    /// What stands in a macro's place for its argument may mean one variable here and another one there.
    fn check_meanings(&self) -> Result<(), Refusal> {
        let mut meant: HashMap<usize, &Variable> = HashMap::new();
        for node in self.body.held.iter().filter(|node| !node.from_macro) {
            if let Kind::Local(variable) = &node.kind
                && meant.insert(node.range.start, variable).is_some_and(|other| other != variable)
                && self.view.applies(Rule::OneMeaning)
            {
                return Err(Refusal::MeansTwo(variable.name.clone()));
            }
        }
        Ok(())
    }

    /// What the section names, and what of that is to be declared before it.
    fn found(&self, hoists: BTreeMap<&'a Variable, Hoisted>) -> Result<Found<'a>, Refusal> {
        let is_inner =
            |variable: &Variable| self.declared.contains_key(variable) && !hoists.contains_key(variable);
        let Found { mut captures, mut in_arguments } = Found::default();
        for node in &self.body.held {
            let Kind::Local(variable) = &node.kind else { continue };
            if self.releases.contains(&id(node)) || is_inner(variable) {
                continue;
            }
            let capture = match captures.entry(variable) {
                Entry::Occupied(entry) => entry.into_mut(),
                Entry::Vacant(entry) => entry.insert(self.capture(variable, hoists.get(variable).cloned())?),
            };
            if node.from_macro {
                capture.by_value = true;
                continue;
            }
            // Another text is put in the name's place, so that the name must be there: as it is, and nothing else at the same place.
            let at = node.range.start;
            if self.view.text.get(at..at + variable.name.len()) != Some(variable.name.as_str()) {
                return Err(Refusal::NotAsWritten);
            }
            capture.uses.insert(at);
            in_arguments.extend(node.in_argument.then_some(variable));
        }
        // Declared inside, used outside only.
        for (variable, hoisted) in hoists {
            if let Entry::Vacant(entry) = captures.entry(variable) {
                entry.insert(self.capture(variable, Some(hoisted))?);
            }
        }
        Ok(Found { captures, in_arguments })
    }

    /// A macro may take the name for something else as well, or for text: a copy of the same name stays what the macro gets.
    fn check_spelt(&self, found: &mut Found<'a>) -> Result<(), Refusal> {
        for variable in &found.in_arguments {
            let Some(capture) = found.captures.get_mut(variable) else { continue };
            capture.by_value |= self.can_be_copied(capture);
            let is_word = |next: char| next.is_alphanumeric() || next == '_';
            let has_it = |text: &String| {
                let mut words = text.split(|next| !is_word(next));
                words.any(|word| word == variable.name || word.split('_').any(|part| part == variable.name))
            };
            let is_spelt = |(range, text): &(Range<usize>, String)| {
                capture.uses.iter().any(|at| range.contains(at)) && has_it(text)
            };
            let is_made = self.view.function.made.iter().any(is_spelt);
            if !capture.by_value && is_made && self.view.applies(Rule::Spelt) {
                return Err(Refusal::MacroSpells(variable.name.clone()));
            }
        }
        Ok(())
    }

    /// The captures, where what has no address is copied and all copies can be made.
    fn settled(&self, found: Found<'a>) -> Result<Vec<Capture>, Refusal> {
        let mut names = BTreeSet::new();
        let mut settled = Vec::new();
        for (variable, capture) in found.captures {
            let by_value = capture.by_value || capture.is_register;
            // A copy stands for the variable if nothing has its address.
            if by_value && !self.can_be_copied(&capture) && self.view.applies(Rule::Copied) {
                return Err(Refusal::MacroNames(variable.name.clone()));
            }
            // The text of two variables of one name cannot be told apart where one of them is hoisted.
            if !names.insert(&variable.name) {
                return Err(Refusal::DeclaredInside(variable.name.clone()));
            }
            settled.push(Capture { by_value, ..capture });
        }
        Ok(settled)
    }

    /// Whether a copy can stand for a variable while the section runs.
    fn can_be_copied(&self, capture: &Capture) -> bool {
        let (view, variable) = (self.view, &capture.variable);
        let has_address = view.function.body.walk().any(|node| {
            matches!(&node.kind, Kind::Local(used) if used == variable) && view.needs_address(node)
        });
        // Other threads may change a static variable meanwhile.
        let is_fixed = view
            .local(variable)
            .is_none_or(|local| local.shape == Shape::Array || local.is_static && !local.is_const);
        !has_address && !is_fixed && capture.hoisted.is_none()
    }

    /// The capture of a variable of which no use has been looked at.
    pub(super) fn capture(&self, variable: &Variable, hoisted: Option<Hoisted>) -> Result<Capture, Refusal> {
        let name = || variable.name.clone();
        let local = self.view.local(variable).ok_or_else(|| Refusal::UnnamedType(name()))?;
        match local.shape {
            Shape::Unnamed if self.view.applies(Rule::NamedTypes) => {
                return Err(Refusal::UnnamedType(name()));
            }
            Shape::VariableArray if self.view.applies(Rule::VariableArrays) => {
                return Err(Refusal::VariableArray(name()));
            }
            _ => {}
        }
        // What cannot be written is declared before it has its value, and written once.
        let plain = local.plain_type.as_ref().filter(|_| hoisted.is_some());
        Ok(Capture {
            variable: variable.clone(),
            type_name: plain.unwrap_or(&local.type_name).clone(),
            uses: BTreeSet::new(),
            by_value: false,
            is_register: local.is_register,
            is_const: local.is_const && plain.is_none(),
            is_set: false,
            hoisted,
        })
    }
}
