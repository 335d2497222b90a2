//! Reading the program's files: their texts, the sections of their functions, and what each says of mutexes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::choice::is_at;
use super::parse::parse;
use super::{CallSite, Finding, Project, line_of};
use crate::clang::{Asked, Unit};
use crate::database::Command;
use crate::error::Error;
use crate::locks::Fact;
use crate::rule::Rule;
use crate::section::{Analysis, Refusal, Section, analysis, summary};
use crate::source::Source;
use crate::tree::Function;

impl Project {
    /// Reads one file: its sections, and what it says of mutexes. What several files say, as headers do, counts once.
    pub(super) fn read(
        &mut self,
        command: &Command,
        facts: &mut BTreeMap<String, Fact>,
    ) -> Result<(), Error> {
        let text = self.text(&command.file)?;
        let unit = self.parsed(command, &text, facts)?;
        self.errors.extend(unit.errors.iter().cloned());
        for (file, function) in &unit.of_headers {
            let summary = summary(function, &self.vocabulary, self.rules());
            self.outlines.add(&function.name, file, &summary);
        }
        for function in &unit.functions {
            let Analysis { mut sections, summary } =
                analysis(function, &text, &self.vocabulary, self.rules());
            self.outlines.add(&function.name, &command.file, &summary);
            if self.vocabulary.wrapper(&function.name).is_some() && !self.vocabulary.only_calls(function) {
                self.do_more.insert(function.name.clone());
            }
            if self.choice.calls.is_some() {
                self.calls.extend(summary.calls.into_iter().map(|(callee, offset)| CallSite {
                    file: command.file.clone(),
                    line: line_of(&text, offset),
                    function: function.name.clone(),
                    callee,
                }));
            }
            self.except(&command.file, &text, &mut sections);
            let of_file = if self.writable.illegible.contains(&command.file) {
                Some(Refusal::Illegible)
            } else if has_errors(&unit, function) && self.keeps(Rule::Errors) {
                Some(Refusal::HasErrors)
            } else {
                None
            };
            for mut section in sections {
                if let Some(refusal) = &of_file {
                    section.refuse(refusal.clone());
                }
                let line = line_of(&text, section.offset);
                self.findings.push(Finding { file: command.file.clone(), line, section, mutex: None });
            }
        }
        Ok(())
    }

    /// Refuses the sections of a function that the choice excepts. Conversion knows a section by its function and its lock.
    fn except(&self, file: &Path, text: &str, sections: &mut [Section]) {
        let is_excepted =
            |section: &&Section| is_at(&self.choice.except, file, line_of(text, section.offset));
        let locks: BTreeSet<String> =
            sections.iter().filter(is_excepted).map(|section| section.lock.clone()).collect();
        for section in sections.iter_mut().filter(|section| locks.contains(&section.lock)) {
            if section.plan.is_ok() {
                section.refuse(Refusal::Excepted);
            }
        }
    }

    /// Parses a file as it is, and adds what it says of mutexes.
    fn parsed(
        &mut self,
        command: &Command,
        text: &str,
        facts: &mut BTreeMap<String, Fact>,
    ) -> Result<Unit, Error> {
        let vocabulary = self.vocabulary.clone();
        // All texts are looked at, also of files that are not the program's: why these cannot be written is said where they would be.
        let mut look = |path: &Path| self.text(path).ok();
        let unit = parse(command, text, &[], &vocabulary, Some(Asked { text: &mut look }))?;
        facts.extend(unit.facts.iter().map(|fact| (format!("{fact:?}"), fact.clone())));
        Ok(unit)
    }

    /// Reads one file as another command compiles it. A section that comes out otherwise stays a lock; a call that only this command
    /// compiles is one of its mutex, whose sections are not all known then.
    pub(super) fn read_again(
        &mut self,
        command: &Command,
        facts: &mut BTreeMap<String, Fact>,
    ) -> Result<(), Error> {
        if !self.keeps(Rule::Commands) {
            return Ok(());
        }
        let text = self.text(&command.file)?;
        let unit = self.parsed(command, &text, facts)?;
        let mut refused = BTreeMap::new();
        for function in &unit.functions {
            let Analysis { sections, summary } = analysis(function, &text, &self.vocabulary, self.rules());
            self.outlines.add(&function.name, &command.file, &summary);
            let of_function =
                |found: &&Finding| found.file == command.file && found.section.function == function.name;
            let before: Vec<&Section> =
                self.findings.iter().filter(of_function).map(|found| &found.section).collect();
            for lock in differing(&before, &sections) {
                refused.insert((command.file.clone(), function.name.clone(), lock), Refusal::OtherCommand);
            }
        }
        // What the compiler leaves out for an error might be anything.
        if !unit.errors.is_empty() {
            let of_file = self.findings.iter().filter(|found| found.file == command.file);
            refused.extend(of_file.map(|found| (found.key(), Refusal::OtherCommand)));
        }
        self.refuse(&refused);
        self.again.push(command.file.clone());
        Ok(())
    }

    /// The text of a file, which is read once. What stands in it for bytes that are no UTF-8 is noted.
    fn text(&mut self, path: &Path) -> Result<String, Error> {
        if let Some(text) = self.texts.get(path) {
            return Ok(text.clone());
        }
        let bytes = std::fs::read(path).map_err(|source| Error::file(path, source))?;
        let Source { text, stand_ins } = Source::new(bytes);
        let without = || (!self.keeps(Rule::Legible)).then(BTreeMap::new);
        match stand_ins.or_else(without) {
            Some(stand_ins) => drop(self.stand_ins.insert(path.to_owned(), stand_ins)),
            None => drop(self.writable.illegible.insert(path.to_owned())),
        }
        self.texts.insert(path.to_owned(), text.clone());
        Ok(text)
    }
}

/// Whether the compiler finds an error in a function, or where there is none: that may be of any.
fn has_errors(unit: &Unit, function: &Function) -> bool {
    let is_in = |at: &usize, other: &Function| other.range.contains(at);
    unit.error_places.iter().any(|place| match place {
        Some(at) => is_in(at, function) || !unit.functions.iter().any(|other| is_in(at, other)),
        None => true,
    })
}

/// The locks of a function of which one command makes other sections than another.
fn differing(before: &[&Section], after: &[Section]) -> BTreeSet<String> {
    let is_at = |one: &Section, other: &Section| {
        (&one.lock, one.offset, one.continues) == (&other.lock, other.offset, other.continues)
    };
    let serves = |one: &Section, other: &Section| match (&one.plan, &other.plan) {
        (Ok(one), Ok(other)) => one.serves(other),
        (Err(_), _) => true,
        (Ok(_), Err(_)) => false,
    };
    let changed =
        before.iter().filter(|one| !after.iter().any(|other| is_at(one, other) && serves(one, other)));
    let new = after.iter().filter(|other| !before.iter().any(|one| is_at(one, other)));
    changed.copied().chain(new).map(|section| section.lock.clone()).collect()
}
