//! A program: its files, what of them can be converted, and the converted texts.
//!
//! [`read`] has each file parsed and its functions analysed, [`judge`] finds which mutexes become delegates, [`refusals`] which sections
//! stay for what the functions do that they call, and [`convert`] writes the texts.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::call::Seen;
use crate::clang;
use crate::database::{self, Command};
use crate::error::Error;
use crate::locks::{Fact, Locks, Place};
use crate::rule::Rule;
use crate::section::{Refusal, Rules, Section};
use crate::source::{self, Writable};
use crate::vocabulary::Vocabulary;

mod change;
mod choice;
mod convert;
mod header;
mod judge;
mod outlines;
mod parse;
mod read;
mod refusals;
mod renaming;
mod seen;

pub use change::Change;
pub use choice::Choice;
pub use judge::Mutex;

use outlines::Outlines;
use seen::CallSite;

/// A section and where it is.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The file.
    pub file: PathBuf,
    /// The line, from 1, in the file as it was.
    pub line: usize,
    /// The section.
    pub section: Section,
    /// Which of the program's mutexes it takes: those of one number change together. `None`: that is not understood.
    pub mutex: Option<usize>,
}

/// What conversion, which moves lines, knows a section by: its file, its function and its lock.
type Key = (PathBuf, String, String);

impl Finding {
    fn key(&self) -> Key {
        (self.file.clone(), self.section.function.clone(), self.section.lock.clone())
    }

    /// Why the section stays as it is; `None` if it can be converted.
    #[must_use]
    pub fn refusal(&self) -> Option<&Refusal> {
        self.section.plan.as_ref().err()
    }
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
    /// Files that several commands compile, with other macros: once for each command but the first.
    pub again: Vec<PathBuf>,
    /// What the calls of the choice are, in their order.
    pub seen: Vec<Seen>,
    locks: Locks,
    writable: Writable,
    /// What stands in files for bytes that are no UTF-8.
    stand_ins: BTreeMap<PathBuf, BTreeMap<u8, u8>>,
    outlines: Outlines,
    /// The registered wrappers that do more than to take or release a lock.
    do_more: BTreeSet<String>,
    /// The calls of functions, if calls that were seen are to be found.
    calls: Vec<CallSite>,
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
        let database::Database { mut commands, others, gone, directory } = database::read(database)?;
        let root = source::root_of(commands.iter().map(|command| command.file.as_path()), &directory);
        if !commands.iter().any(|command| choice.has_file(&command.file)) {
            commands.clear();
        }
        let mut project = Self {
            commands,
            vocabulary,
            choice,
            texts: BTreeMap::new(),
            findings: Vec::new(),
            errors: gone.iter().map(|file| format!("{}: no such file", file.display())).collect(),
            again: Vec::new(),
            seen: Vec::new(),
            locks: Locks::default(),
            writable: Writable { root, illegible: BTreeSet::new() },
            stand_ins: BTreeMap::new(),
            outlines: Outlines::default(),
            do_more: BTreeSet::new(),
            calls: Vec::new(),
        };
        project.read_all(&others, progress)?;
        project.judge();
        let Self { findings, choice, .. } = &mut project;
        findings.retain(|found| choice.has_file(&found.file));
        Ok(project)
    }

    /// Reads the files of all commands, `others` being those that compile a file again, and joins what they say of mutexes.
    fn read_all(
        &mut self,
        others: &[Command],
        progress: &mut dyn FnMut(usize, usize, &Path),
    ) -> Result<(), Error> {
        let mut facts = BTreeMap::new();
        for (number, command) in self.commands.clone().iter().enumerate() {
            progress(number, self.commands.len(), &command.file);
            self.read(command, &mut facts)?;
            for other in others.iter().filter(|other| other.file == command.file) {
                self.read_again(other, &mut facts)?;
            }
        }
        let facts: Vec<Fact> = facts.into_values().collect();
        let keeps = |rule| self.keeps(rule);
        self.locks = Locks::of(&facts, &self.writable, &keeps, &|place| self.describe(place));
        Ok(())
    }

    /// A place for people.
    fn describe(&self, place: &Place) -> String {
        let name = file_name(&place.file);
        match self.texts.get(&place.file) {
            Some(text) => format!("{name}:{}", line_of(text, place.offset.min(text.len()))),
            None => name,
        }
    }

    fn keeps(&self, rule: Rule) -> bool {
        self.rules().applies(rule)
    }

    fn rules(&self) -> Rules {
        Rules { without: self.choice.without, any_thread: self.choice.any_thread }
    }

    /// Whether the choice names a section, or the mutex that it takes.
    #[must_use]
    pub fn is_chosen(&self, found: &Finding) -> bool {
        let Choice { locks, sites, calls, .. } = &self.choice;
        let by_lock = locks.is_empty() || locks.iter().any(|name| choice::is_of(&found.section.lock, name));
        let by_site = sites.is_empty() || choice::is_at(sites, &found.file, found.line);
        let by_file = self.choice.has_file(&found.file);
        by_file && by_lock && by_site && (calls.is_none() || self.was_seen(found.mutex))
    }

    /// A place of the choice's exceptions where no section begins.
    #[must_use]
    pub fn needless_exception(&self) -> Option<&(PathBuf, usize)> {
        let is_there = |place: &(PathBuf, usize)| {
            self.findings
                .iter()
                .any(|found| choice::is_at(std::slice::from_ref(place), &found.file, found.line))
        };
        self.choice.except.iter().find(|place| !is_there(place))
    }
}

/// The line, from 1, of a byte of a text.
fn line_of(text: &str, offset: usize) -> usize {
    text.as_bytes().iter().take(offset).filter(|byte| **byte == b'\n').count() + 1
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
