//! Writing the converted texts: names first, then each file's sections, from the inside out.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::Path;

use super::header::with_header;
use super::parse::parse;
use super::renaming::renaming_edit;
use super::{Change, Finding, Project};
use crate::clang::Unsaved;
use crate::database::Command;
use crate::edit::{Edit, edited};
use crate::error::Error;
use crate::rewrite::conversion;
use crate::section::{Plan, Section, analysis};
use crate::source::restored;
use crate::tree::Function;

/// A section that conversion finds again by its number among those of its function and its lock.
#[derive(Debug)]
struct Known {
    /// It becomes a closure.
    is_closure: bool,
    /// Where it began, if it is to become one whatever is inside of it.
    line: Option<usize>,
}

/// A file while its sections become closures.
struct Conversion<'a> {
    project: &'a Project,
    command: &'a Command,
    text: String,
    /// Which sections were chosen is known by function and lock: conversion moves lines.
    chosen: BTreeSet<(&'a str, &'a str)>,
    /// Of each function and lock, which sections are to become closures, in the order of the text. What is found again of a section
    /// that is refused may be without the reason, which has gone into a closure. Where they began is for people.
    known: BTreeMap<(String, String), Vec<Known>>,
    /// How many sections of mutexes are to become closures and have not.
    count: usize,
}

impl Project {
    /// The files that conversion changes, and those in which sections cannot become closures after all.
    ///
    /// # Errors
    ///
    /// If a file cannot be read or parsed.
    pub fn converted(&self, progress: &mut dyn FnMut(usize, usize, &Path)) -> Result<Vec<Change>, Error> {
        // What becomes a closure is found in the text that has the names of delegates.
        let mut after = self.renamed()?;
        let mut left: BTreeMap<&Path, BTreeSet<usize>> = BTreeMap::new();
        let mut unsaved: Vec<Unsaved> = after
            .iter()
            .map(|(path, text)| Unsaved { path: (*path).to_owned(), text: text.clone() })
            .collect();
        for (number, command) in self.commands.iter().enumerate() {
            progress(number, self.commands.len(), &command.file);
            let has_sections =
                self.findings.iter().any(|found| found.file == command.file && found.refusal().is_none());
            if has_sections
                && let Some(text) = after.get(command.file.as_path()).or(self.texts.get(&command.file))
            {
                let (text, lines) = Conversion::of(self, command, text.clone()).run(&unsaved)?;
                left.insert(&command.file, lines);
                if let Some(place) = unsaved.iter_mut().find(|file| file.path == command.file) {
                    place.text.clone_from(&text);
                }
                after.insert(&command.file, text);
            }
        }
        let change = |(path, text): (&Path, String)| {
            let bytes = |text: &str| restored(text, &self.stand_ins[path]);
            let (before, after) = (bytes(&self.texts[path]), bytes(&with_header(&text)));
            let left = left.get(path).cloned().unwrap_or_default();
            Change { path: path.to_owned(), before, after, left }
        };
        let is_told = |change: &Change| change.changes_text() || !change.left.is_empty();
        Ok(after.into_iter().map(change).filter(is_told).collect())
    }

    /// The texts in which names of POSIX's become those of delegates.
    fn renamed(&self) -> Result<BTreeMap<&Path, String>, Error> {
        let mut edits: BTreeMap<&Path, Vec<Edit>> = BTreeMap::new();
        for (place, renaming) in self.locks.renamed() {
            let Some((path, text)) = self.texts.get_key_value(&place.file) else { continue };
            let edit = renaming_edit(text, place.offset, renaming).ok_or_else(|| Error::parse(path))?;
            edits.entry(path).or_default().push(edit);
        }
        let renamed = |(path, edits): (_, Vec<Edit>)| {
            let text = &self.texts[path];
            let text = edited(text, 0..text.len(), &edits).ok_or_else(|| Error::parse(path))?;
            Ok((path, text))
        };
        edits.into_iter().map(renamed).collect()
    }
}

impl<'a> Conversion<'a> {
    /// That of a command's file, which has the text `text` with the names of delegates.
    fn of(project: &'a Project, command: &'a Command, text: String) -> Self {
        let of_file = || project.findings.iter().filter(|found| found.file == command.file);
        let is_closure = |found: &Finding| found.refusal().is_none() && project.is_chosen(found);
        let is_planned =
            |found: &&Finding| is_closure(found) && !found.section.continues && found.section.by.is_none();
        let mut known: BTreeMap<(String, String), Vec<Known>> = BTreeMap::new();
        for found in of_file().filter(|found| !found.section.continues) {
            let line = is_planned(&found).then_some(found.line);
            let is_closure = found.refusal().is_none();
            known.entry(key_of(&found.section)).or_default().push(Known { is_closure, line });
        }
        Self {
            project,
            command,
            text,
            chosen: of_file()
                .filter(|found| is_closure(found))
                .map(|found| (found.section.function.as_str(), found.section.lock.as_str()))
                .collect(),
            known,
            count: of_file().filter(is_planned).count(),
        }
    }

    /// Converts sections from the inside out, until there is none left that can be. The text, and the lines where sections began that
    /// were to become closures and have not.
    fn run(mut self, unsaved: &[Unsaved]) -> Result<(String, BTreeSet<usize>), Error> {
        loop {
            let unit = parse(self.command, &self.text, unsaved, &self.project.vocabulary, None)?;
            let (mut edits, mut has_left) = (Vec::new(), false);
            for function in &unit.functions {
                has_left |= self.convert_one(function, &mut edits);
            }
            if !edits.is_empty() {
                let text = edited(&self.text, 0..self.text.len(), &edits);
                self.text = text.ok_or_else(|| Error::parse(&self.command.file))?;
                continue;
            }
            if has_left {
                continue;
            }
            let left = self.left();
            // What is left takes the delegate as a lock, which it may only with `--hold`.
            if self.count > 0 && !self.project.choice.may_hold {
                let lines = left.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
                return Err(Error::Left { path: self.command.file.clone(), lines });
            }
            return Ok((self.text, left));
        }
    }

    /// The lines where sections began that were to become closures and have not.
    fn left(&self) -> BTreeSet<usize> {
        let lines = self.known.values().flatten().filter_map(|known| known.line);
        if self.count > 0 { lines.collect() } else { BTreeSet::new() }
    }

    /// Adds the edits of one section of a function: what is converted changes the text around the next. Whether one was left as a lock,
    /// so that others of the function go on without it.
    fn convert_one(&mut self, function: &Function, edits: &mut Vec<Edit>) -> bool {
        let Project { vocabulary, .. } = self.project;
        let all = analysis(function, &self.text, vocabulary, self.project.rules()).sections;
        let plans: Vec<(&Section, &Plan)> = all
            .iter()
            .filter(|section| self.is_wanted(section, &all))
            .filter_map(|section| Some((section, section.plan.as_ref().ok()?)))
            .collect();
        let holds = |outer: &Range<usize>| {
            plans.iter().any(|(_, plan)| outer.start < plan.slice.start && plan.slice.end <= outer.end)
        };
        let mut has_left = false;
        for (section, plan) in plans.iter().filter(|(_, plan)| !holds(&plan.slice)) {
            let at = alike(section, &all).filter(|other| other.offset < section.offset).count();
            let known = self.known.get_mut(&key_of(section)).filter(|known| at < known.len());
            if let Some(conversion) = conversion(&self.text, function, section, plan) {
                if let Some(known) = known {
                    known.remove(at);
                }
                self.count = self.count.saturating_sub(usize::from(section.by.is_none()));
                edits.extend(conversion);
                return has_left;
            }
            if let Some(known) = known {
                known[at].is_closure = false;
                has_left = true;
            }
        }
        has_left
    }

    /// Whether a section, among all of its function as the text is now, is one that is to become a closure.
    fn is_wanted(&self, section: &Section, all: &[Section]) -> bool {
        let is_known = || match self.known.get(&key_of(section)) {
            Some(known) if known.iter().any(|known| !known.is_closure) => {
                let at = alike(section, all).filter(|other| other.offset < section.offset).count();
                known.len() == alike(section, all).count() && known[at].is_closure
            }
            _ => true,
        };
        !section.continues
            && section.is_of_delegate()
            && is_known()
            && self.chosen.contains(&(section.function.as_str(), section.lock.as_str()))
    }
}

/// What of its key a section has within its file.
fn key_of(section: &Section) -> (String, String) {
    (section.function.clone(), section.lock.clone())
}

/// The sections of a function that begin with the lock of this one, itself among them.
fn alike<'s>(section: &'s Section, all: &'s [Section]) -> impl Iterator<Item = &'s Section> {
    all.iter().filter(|other| !other.continues && other.lock == section.lock)
}
