//! A program: its files, what of them can be converted, and the converted texts.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::clang::{self, Unit, Unsaved};
use crate::database::{self, Command};
use crate::edit::{Edit, edited, identifiers};
use crate::error::Error;
use crate::rewrite::conversion;
use crate::section::{Refusal, Section, sections};
use crate::vocabulary::Vocabulary;

/// What to convert.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    /// Only these files; empty: all.
    pub files: Vec<PathBuf>,
    /// Only sections of the locks with these names; empty: all.
    pub locks: Vec<String>,
    /// Only the sections that begin at these places (the end of a path, a line); empty: all.
    pub sites: Vec<(PathBuf, usize)>,
    /// Sections that stay as they are may hold the delegate. Not every delegate can be held.
    pub may_hold: bool,
}

/// A section and where it is.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The file.
    pub file: PathBuf,
    /// The line, from 1, in the file as it was.
    pub line: usize,
    /// The section.
    pub section: Section,
}

/// A file that changes.
#[derive(Clone, Debug)]
pub struct Change {
    /// Which.
    pub path: PathBuf,
    /// Its text before.
    pub before: String,
    /// Its text after.
    pub after: String,
}

/// A program, read and analysed.
#[derive(Debug)]
pub struct Project {
    commands: Vec<Command>,
    vocabulary: Vocabulary,
    choice: Choice,
    texts: BTreeMap<PathBuf, String>,
    /// All sections of the files as they are.
    pub findings: Vec<Finding>,
    /// What the compiler says of files that it finds errors in: their sections may be incomplete.
    pub errors: Vec<String>,
    headers: BTreeSet<PathBuf>,
}

impl Project {
    /// Reads and analyses the program of a compilation database. `progress` hears of each file.
    ///
    /// # Errors
    ///
    /// If there is no libclang, or a file cannot be read or parsed.
    pub fn open(
        database: &Path,
        vocabulary: Vocabulary,
        choice: Choice,
        progress: &mut dyn FnMut(usize, usize, &Path),
    ) -> Result<Self, Error> {
        clang::load()?;
        let mut commands = database::read(database)?;
        let is_wanted =
            |file: &Path| choice.files.is_empty() || choice.files.iter().any(|end| file.ends_with(end));
        commands.retain(|command| is_wanted(&command.file));
        let root = common(&commands);
        let mut project = Self {
            commands,
            vocabulary,
            choice,
            texts: BTreeMap::new(),
            findings: Vec::new(),
            errors: Vec::new(),
            headers: BTreeSet::new(),
        };
        for (number, command) in project.commands.clone().iter().enumerate() {
            progress(number, project.commands.len(), &command.file);
            let text = std::fs::read_to_string(&command.file)
                .map_err(|source| Error::file(&command.file, source))?;
            let unit = parse(command, &text)?;
            project.errors.extend(unit.errors.iter().cloned());
            let of_program = |path: &PathBuf| path.starts_with(&root);
            let include = |path: &PathBuf| command.directory.join(path).canonicalize().ok();
            project.headers.extend(unit.includes.iter().filter_map(include).filter(of_program));
            for section in project.sections_of(&unit, &text) {
                let line = line_of(&text, section.offset);
                project.findings.push(Finding { file: command.file.clone(), line, section });
            }
            project.texts.insert(command.file.clone(), text);
        }
        Ok(project)
    }

    fn sections_of(&self, unit: &Unit, text: &str) -> Vec<Section> {
        unit.functions.iter().flat_map(|function| sections(function, text, &self.vocabulary)).collect()
    }

    fn is_chosen(&self, file: &Path, line: usize, lock: &str) -> bool {
        let by_lock = self.choice.locks.is_empty() || self.choice.locks.iter().any(|name| is_of(lock, name));
        let by_site = self.choice.sites.is_empty()
            || self.choice.sites.iter().any(|(end, at)| file.ends_with(end) && *at == line);
        by_lock && by_site
    }

    /// The files as they would be after conversion.
    ///
    /// # Errors
    ///
    /// If a file cannot be read or parsed.
    pub fn converted(&self, progress: &mut dyn FnMut(usize, usize, &Path)) -> Result<Vec<Change>, Error> {
        let stays = |found: &&Finding| {
            found.refusal().is_some() || !self.is_chosen(&found.file, found.line, &found.section.lock)
        };
        if let Some(first) = self.findings.iter().find(stays).filter(|_| !self.choice.may_hold) {
            let count = self.findings.iter().filter(stays).count();
            return Err(Error::StaysLocked { path: first.file.clone(), line: first.line, count });
        }
        let mut changes = Vec::new();
        for (number, command) in self.commands.iter().enumerate() {
            progress(number, self.commands.len(), &command.file);
            let before = &self.texts[&command.file];
            let after = self.convert(command, before)?;
            changes.push(Change { path: command.file.clone(), before: before.clone(), after });
        }
        for path in self.headers.iter().filter(|path| !self.texts.contains_key(*path)) {
            let before = std::fs::read_to_string(path).map_err(|source| Error::file(path, source))?;
            changes.push(Change { path: path.clone(), after: before.clone(), before });
        }
        for change in &mut changes {
            change.after = with_delegates(&change.after);
            if let Some(at) = without_counterpart(&change.after) {
                let name = change.after[at.clone()].to_owned();
                // The line is that of the file as it is.
                let place = change.before.find(&name).unwrap_or(at.start);
                let line = line_of(&change.before, place.min(change.before.len()));
                return Err(Error::NoCounterpart { path: change.path.clone(), line, name });
            }
        }
        changes.retain(|change| change.before != change.after);
        Ok(changes)
    }

    /// Converts sections of one file from the inside out, until there is none left that can be.
    fn convert(&self, command: &Command, text: &str) -> Result<String, Error> {
        let mut text = text.to_owned();
        // Which sections were chosen is known by the lines that they had: conversion moves them.
        let chosen: BTreeSet<(String, String)> = self
            .findings
            .iter()
            .filter(|found| {
                found.file == command.file && self.is_chosen(&found.file, found.line, &found.section.lock)
            })
            .map(|found| (found.section.function.clone(), found.section.lock.clone()))
            .collect();
        loop {
            let unit = parse(command, &text)?;
            let mut edits: Vec<Edit> = Vec::new();
            for function in &unit.functions {
                let all = sections(function, &text, &self.vocabulary);
                let plans: Vec<_> = all
                    .iter()
                    .filter(|section| chosen.contains(&(section.function.clone(), section.lock.clone())))
                    .filter_map(|section| Some((section, section.plan.as_ref().ok()?)))
                    .collect();
                // One section of a function at a time: what is converted changes the text around the next.
                let holds = |outer: &std::ops::Range<usize>| {
                    plans
                        .iter()
                        .any(|(_, plan)| outer.start < plan.slice.start && plan.slice.end <= outer.end)
                };
                if let Some((section, plan)) = plans.iter().find(|(_, plan)| !holds(&plan.slice)) {
                    edits.extend(conversion(&text, function, section, plan).unwrap_or_default());
                }
            }
            if edits.is_empty() {
                return Ok(text);
            }
            text = edited(&text, 0..text.len(), &edits).ok_or_else(|| Error::parse(&command.file))?;
        }
    }
}

impl Change {
    /// The change as a patch, with paths from `directory` on.
    #[must_use]
    pub fn diff(&self, directory: &Path) -> String {
        let path = self.path.strip_prefix(directory).unwrap_or(&self.path).display().to_string();
        similar::TextDiff::from_lines(&self.before, &self.after)
            .unified_diff()
            .header(&format!("a/{path}"), &format!("b/{path}"))
            .to_string()
    }
}

impl Finding {
    /// Why the section stays as it is; `None` if it can be converted.
    #[must_use]
    pub fn refusal(&self) -> Option<&Refusal> {
        self.section.plan.as_ref().err()
    }
}

/// Whether a lock's expression is that of the lock that a user calls `name`.
fn is_of(lock: &str, name: &str) -> bool {
    let bare = |text: &str| text.replace(['(', ')', '&', ' '], "");
    bare(lock) == bare(name)
}

fn line_of(text: &str, offset: usize) -> usize {
    text[..offset].matches('\n').count() + 1
}

/// The deepest directory that all files are in.
fn common(commands: &[Command]) -> PathBuf {
    let mut directories = commands.iter().filter_map(|command| command.file.parent());
    let Some(first) = directories.next() else { return PathBuf::new() };
    directories.fold(first.to_owned(), |root, directory| {
        root.ancestors().find(|ancestor| directory.starts_with(ancestor)).unwrap_or(Path::new("/")).to_owned()
    })
}

/// How converted files name the delegates' header.
const HEADER: &str = "#include <lockwork.h>";
/// What converted text needs to be parsed before its types are changed.
const DECLARATIONS: &str = "int lockwork_delegate_run();\n";
const DECLARATIONS_PATH: &str = "/lockwork/declarations.h";

fn parse(command: &Command, text: &str) -> Result<Unit, Error> {
    let unsaved = [
        Unsaved { path: command.file.clone(), text: text.to_owned() },
        Unsaved { path: PathBuf::from(DECLARATIONS_PATH), text: DECLARATIONS.to_owned() },
    ];
    let mut arguments = command.arguments.clone();
    arguments.push("-w".to_owned());
    if !text.contains(HEADER) {
        arguments.extend(["-include".to_owned(), DECLARATIONS_PATH.to_owned()]);
    }
    if let Some(directory) = resource_directory() {
        arguments.extend(["-resource-dir".to_owned(), directory.display().to_string()]);
    }
    clang::parse(&command.file, &command.directory, &arguments, &unsaved)
}

/// Where the compiler's own headers are: those of the newest clang.
fn resource_directory() -> Option<PathBuf> {
    let entries =
        |path: &str| std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    let version = |path: &PathBuf| -> Option<u32> {
        path.file_name()?.to_str()?.trim_start_matches("llvm-").split('.').next()?.parse().ok()
    };
    let newest = entries("/usr/lib")
        .filter(|path| path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"llvm-")))
        .filter(|path| path.join("lib/clang").is_dir())
        .max_by_key(version)?;
    entries(newest.join("lib/clang").to_str()?)
        .filter(|path| path.join("include/stddef.h").exists())
        .max_by_key(version)
}

/// What becomes of each name of POSIX.
const NAMES: &[(&str, &str)] = &[
    ("pthread_mutex_t", "lockwork_delegate_t"),
    ("PTHREAD_MUTEX_INITIALIZER", "LOCKWORK_DELEGATE_INITIALIZER"),
    ("pthread_mutex_init", "lockwork_delegate_init"),
    ("pthread_mutex_destroy", "lockwork_delegate_destroy"),
    ("pthread_mutex_lock", "lockwork_delegate_acquire"),
    ("pthread_mutex_unlock", "lockwork_delegate_release"),
];

/// Where a text uses a mutex in a way that a delegate has no counterpart of.
fn without_counterpart(text: &str) -> Option<std::ops::Range<usize>> {
    const WAITS: &[&str] = &["pthread_cond_wait", "pthread_cond_timedwait", "pthread_cond_clockwait"];
    let is_one = |name: &str| {
        WAITS.contains(&name)
            || ["pthread_mutex_", "pthread_mutexattr_", "PTHREAD_MUTEX_"]
                .iter()
                .any(|prefix| name.starts_with(prefix))
    };
    identifiers(text).into_iter().find(|range| is_one(&text[range.clone()]))
}

/// The text with delegates in place of mutexes, and their header.
fn with_delegates(text: &str) -> String {
    let names: BTreeMap<&str, &str> = NAMES.iter().copied().collect();
    let edits: Vec<Edit> = identifiers(text)
        .into_iter()
        .filter_map(|range| Some(Edit::new(range.clone(), *names.get(&text[range])?)))
        .collect();
    let is_converted = text.contains("lockwork_delegate_run(");
    if edits.is_empty() && !is_converted || text.contains(HEADER) {
        return text.to_owned();
    }
    let mut edits = edits;
    let at = place_of_include(text);
    edits.push(Edit::new(at..at, format!("{HEADER}\n")));
    edited(text, 0..text.len(), &edits).unwrap_or_else(|| text.to_owned())
}

/// Behind the last `#include` that is in no `#if` but a header's guard; else the beginning.
fn place_of_include(text: &str) -> usize {
    let (mut at, mut depth, mut place, mut guard) = (0, 0_usize, 0, 0);
    for line in text.split_inclusive('\n') {
        let word = line.trim_start().strip_prefix('#').map(str::trim_start).unwrap_or_default();
        let end = at + line.len();
        if word.starts_with("ifndef") && depth == 0 && place == 0 && guard == 0 {
            guard = 1;
            depth = 1;
        } else if word.starts_with("if") {
            depth += 1;
        } else if word.starts_with("endif") {
            depth = depth.saturating_sub(1);
        } else if depth <= guard
            && (word.starts_with("include") || word.starts_with("define") && guard == 1 && place == 0)
        {
            place = end;
        }
        at = end;
    }
    place
}
