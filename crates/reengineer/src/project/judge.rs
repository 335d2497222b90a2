//! Which mutexes become delegates, and which stay: a mutex changes if all that is done to it can, and at least one of its sections
//! becomes a closure.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::{Finding, Project, file_name};
use crate::locks::{Call, Use};
use crate::rule::Rule;
use crate::section::Refusal;
use crate::vocabulary::Action;

/// Mutexes that change together, or stay.
#[derive(Clone, Debug)]
pub struct Mutex {
    /// What sections of it call it, the most frequent first.
    pub names: Vec<String>,
    /// How many places take it.
    pub sections: usize,
    /// Of those, how many become closures.
    pub converted: usize,
    /// Whether the choice names a section of it.
    pub is_chosen: bool,
    /// Why it stays a mutex; `None` if it becomes a delegate.
    pub kept: Option<String>,
}

impl Project {
    /// The program's mutexes that sections take.
    #[must_use]
    pub fn mutexes(&self) -> Vec<Mutex> {
        let mut all: BTreeMap<usize, Vec<&Finding>> = BTreeMap::new();
        for found in &self.findings {
            if let Some(class) = found.mutex {
                all.entry(class).or_default().push(found);
            }
        }
        let mutex = |(class, sections): (usize, Vec<&Finding>)| {
            let mut names: BTreeMap<&str, usize> = BTreeMap::new();
            for found in &sections {
                *names.entry(found.section.lock.as_str()).or_default() += 1;
            }
            let mut names: Vec<_> = names.into_iter().collect();
            names.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
            Mutex {
                names: names.into_iter().map(|(name, _)| name.to_owned()).collect(),
                sections: sections.len(),
                converted: sections.iter().filter(|found| found.refusal().is_none()).count(),
                is_chosen: sections.iter().any(|found| self.is_chosen(found)),
                kept: self.locks.kept(class).map(str::to_owned),
            }
        };
        let mut found: Vec<Mutex> = all.into_iter().map(mutex).collect();
        found.sort_by_key(|mutex| std::cmp::Reverse(mutex.sections));
        found
    }

    /// Finds which mutexes become delegates, and refuses the sections of the others.
    pub(super) fn judge(&mut self) {
        let sections = self.sections_of_classes();
        self.seen = self.seen();
        self.refuse_for_callees();
        let covered = self.covered();
        let none = Vec::new();
        let reason = |class| {
            let sections = sections.get(&class).unwrap_or(&none);
            Some((class, self.reason_to_keep(class, sections, &covered)?))
        };
        let kept: Vec<(usize, String)> = self.locks.classes().into_iter().filter_map(reason).collect();
        for (class, reason) in kept {
            self.locks.keep_class(class, reason);
        }
        self.locks.settle_conditions();
        if !self.keeps(Rule::Understood) {
            self.locks.keep_none();
        }
        self.refuse_mutexes();
        self.warn_of_memory();
    }

    /// Notes which mutex each section takes. The sections of each, by their numbers.
    fn sections_of_classes(&mut self) -> BTreeMap<usize, Vec<usize>> {
        let mut classes: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (number, found) in self.findings.iter_mut().enumerate() {
            found.mutex = self.locks.at(&found.file, found.section.call, Action::Lock);
            if let Some(class) = found.mutex {
                classes.entry(class).or_default().push(number);
            }
        }
        classes
    }

    /// The calls of lock functions that become parts of closures.
    fn covered(&self) -> BTreeSet<(&Path, usize)> {
        let closures = self.findings.iter().filter(|found| self.is_chosen(found));
        closures
            .filter_map(|found| Some((found.file.as_path(), found.section.plan.as_ref().ok()?)))
            .flat_map(|(file, plan)| plan.covered.iter().map(move |call| (file, *call)))
            .collect()
    }

    /// Why the mutexes of a class stay, whose sections have these numbers; `None` if they can become delegates as far as calls go. All
    /// calls count, also those outside of sections.
    fn reason_to_keep(
        &self,
        class: usize,
        sections: &[usize],
        covered: &BTreeSet<(&Path, usize)>,
    ) -> Option<String> {
        let sections = || sections.iter().map(|number| &self.findings[*number]);
        let no_closure = || Some("no section of it can be a closure".to_owned());
        if !sections().any(|found| self.is_chosen(found)) {
            if sections().next().is_some() {
                return Some("it was not chosen".to_owned());
            }
            if !self.locks.is_used(class) {
                // A parameter of a function's type, or what is only declared.
                return Some("nothing takes it".to_owned());
            }
            // It is only tried for, or headers take it.
            return self.locks.calls_of(class).next().and_then(|_| no_closure());
        }
        let is_closure = |found: &Finding| found.refusal().is_none() && self.is_chosen(found);
        if !sections().any(is_closure) {
            return no_closure();
        }
        let may_hold = self.choice.may_hold || !self.keeps(Rule::Holds);
        let aside = sections().find(|found| !self.is_chosen(found));
        if let Some(found) = aside.filter(|_| !may_hold) {
            let place = format!("{}:{}", file_name(&found.file), found.line);
            return Some(format!("the section at {place} was not chosen (--hold allows it)"));
        }
        let is_left = |call: &&Call| !covered.contains(&(call.at.file.as_path(), call.at.offset));
        self.locks.calls_of(class).filter(is_left).find_map(|call| {
            let place = self.describe(&call.at);
            if !may_hold {
                return Some(format!("{} at {place} would hold the delegate (--hold allows it)", call.name));
            }
            if call.does == Use::Wait { call.is_fixed(&self.writable, &place) } else { None }
        })
    }

    /// Refuses the sections of mutexes that stay.
    fn refuse_mutexes(&mut self) {
        for found in self.findings.iter_mut().filter(|found| found.section.by.is_none()) {
            let reason = match found.mutex {
                Some(class) => self.locks.kept(class).map(str::to_owned),
                None => Some("the lock call names it in a way that is not understood".to_owned()),
            };
            if let (Ok(_), Some(reason)) = (&found.section.plan, reason) {
                found.section.plan = Err(Refusal::StaysMutex(reason));
            }
        }
    }

    /// Says, at the first section of each delegate, that the program destroys none of its kind.
    fn warn_of_memory(&mut self) {
        let mut said = BTreeSet::new();
        for number in 0..self.findings.len() {
            let found = &self.findings[number];
            let Some(class) = found.mutex.filter(|_| found.refusal().is_none()) else { continue };
            if !said.insert(class) {
                continue;
            }
            if let Some(at) = self.locks.is_never_destroyed(class) {
                let place = self.describe(at);
                let warning = format!(
                    "its mutex is initialised at {place}, and pthread_mutex_destroy is called for none of its kind: as a \
                     delegate each keeps memory until it is destroyed"
                );
                self.findings[number].section.warnings.push(warning);
            }
        }
    }
}
