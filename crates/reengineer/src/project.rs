//! A program: its files, what of them can be converted, and the converted texts.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::call::{self, Frame, Seen};
use crate::clang::{self, Asked, Unit, Unsaved};
use crate::database::{self, Command};
use crate::edit::{Edit, edited};
use crate::error::Error;
use crate::locks::{Call, Fact, Locks, Place, Renaming, Use};
use crate::rewrite::conversion;
use crate::rule::Rule;
use crate::section::{Analysis, GivenUp, Meanwhile, Refusal, Rules, Section, Summary, analysis, summary};
use crate::source::{self, Source, Writable, restored};
use crate::tree::Function;
use crate::vocabulary::{Action, Vocabulary, leaves_its_caller, may_be_cancelled};

/// What to convert.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    /// Only these files; empty: all.
    pub files: Vec<PathBuf>,
    /// Only sections of the locks with these names; empty: all.
    pub locks: Vec<String>,
    /// Only the sections that begin at these places (the end of a path, a line); empty: all.
    pub sites: Vec<(PathBuf, usize)>,
    /// Only sections of the mutexes that these calls take, each the frames of a stack, the innermost first; `None`: all.
    pub calls: Option<Vec<Vec<Frame>>>,
    /// The sections that begin at these places stay as they are, with the others of their lock in their function.
    pub except: Vec<(PathBuf, usize)>,
    /// Sections that stay as they are may hold the delegate. Not every delegate can be held.
    pub may_hold: bool,
    /// Sections may ask for the thread that they run in. A delegate that runs them in another gives them another answer.
    pub any_thread: bool,
    /// A rule to leave out: a test sees that something notices.
    #[doc(hidden)]
    pub without: Option<Rule>,
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
    /// Which of the program's mutexes it takes: those of one number change together. `None`: that is not understood.
    pub mutex: Option<usize>,
}

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

/// What conversion does to a file.
#[derive(Clone, Debug)]
pub struct Change {
    /// Which.
    pub path: PathBuf,
    /// What it had before. It need not be UTF-8.
    pub before: Vec<u8>,
    /// What it has after.
    pub after: Vec<u8>,
    /// Where sections begin, as lines of the file as it was, that cannot become closures any more when those inside of them have: they
    /// hold the delegate.
    pub left: BTreeSet<usize>,
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
    outlines: BTreeMap<String, Outline>,
    /// The registered wrappers that do more than to take or release a lock.
    do_more: BTreeSet<String>,
    /// The calls of functions, if calls that were seen are to be found.
    calls: Vec<CallSite>,
}

/// A call of a function.
#[derive(Debug)]
struct CallSite {
    file: PathBuf,
    line: usize,
    /// The function that calls.
    function: String,
    callee: String,
}

/// Locks that are alike enough to be one, for what a function gives up.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Alike {
    /// Mutexes of a class.
    Class(usize),
    /// What macros take that is in a field or a variable of this name.
    Named(String),
    /// What macros take that a local variable or parameter names: it may be any.
    Any,
}

/// What the functions of one name do with the locks of their callers.
#[derive(Debug, Default)]
struct Outline {
    /// Where they give up a lock that they do not take.
    given_up: Vec<(PathBuf, GivenUp)>,
    /// By what calls they take locks, and of which they may hold the lock when they return.
    takes: Vec<(PathBuf, usize, Action)>,
    keeps: Vec<(PathBuf, usize, Action)>,
    /// What they call.
    callees: BTreeSet<String>,
    /// What they ask for that each thread has one of its own.
    asks: Option<String>,
}

impl Outline {
    /// Adds what one of the functions does, which is in this file.
    fn add(&mut self, file: &Path, summary: &Summary) {
        let here = |(offset, action): &(usize, Action)| (file.to_owned(), *offset, *action);
        self.asks = self.asks.take().or_else(|| summary.asks.clone());
        self.given_up.extend(summary.given_up.iter().map(|call| (file.to_owned(), call.clone())));
        self.takes.extend(summary.takes.iter().map(here));
        self.keeps.extend(summary.keeps.iter().map(here));
        self.callees.extend(summary.calls.iter().map(|(callee, _)| callee.clone()));
    }
}

/// What a function, with those that it calls, leaves of mutexes otherwise than it found them: the classes of those that it takes and
/// keeps, and of those that it has not taken and releases. `None`: one that is not known, and may be any.
#[derive(Clone, Debug, Default)]
struct Leaves {
    kept: BTreeSet<Option<usize>>,
    released: BTreeSet<Option<usize>>,
}

impl Leaves {
    /// Of both, one after the other: what the one takes the other may release.
    fn and<'a>(all: impl Iterator<Item = &'a Self>) -> Self {
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
}

/// A section that conversion finds again by its number among those of its function and its lock.
#[derive(Debug)]
struct Known {
    /// It becomes a closure.
    is_closure: bool,
    /// Where it began, if it is to become one whatever is inside of it.
    line: Option<usize>,
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
        let files = commands.iter().map(|command| command.file.as_path());
        let root = source::root_of(files, &directory);
        let is_wanted =
            |file: &Path| choice.files.is_empty() || choice.files.iter().any(|end| file.ends_with(end));
        if !commands.iter().any(|command| is_wanted(&command.file)) {
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
            outlines: BTreeMap::new(),
            do_more: BTreeSet::new(),
            calls: Vec::new(),
        };
        let mut facts = BTreeMap::new();
        for (number, command) in project.commands.clone().iter().enumerate() {
            progress(number, project.commands.len(), &command.file);
            project.read(command, &mut facts)?;
            for other in others.iter().filter(|other| other.file == command.file) {
                project.read_again(other, &mut facts)?;
            }
        }
        let facts: Vec<Fact> = facts.into_values().collect();
        let keeps = |rule| project.keeps(rule);
        project.locks = Locks::of(&facts, &project.writable, &keeps, &|place| project.describe(place));
        project.judge();
        let files = project.choice.files.clone();
        let is_wanted = |file: &Path| files.is_empty() || files.iter().any(|end| file.ends_with(end));
        project.findings.retain(|found| is_wanted(&found.file));
        Ok(project)
    }

    /// Reads one file: its sections, and what it says of mutexes. What several files say, as headers do, counts once.
    fn read(&mut self, command: &Command, facts: &mut BTreeMap<String, Fact>) -> Result<(), Error> {
        let text = self.text(&command.file)?;
        // All texts are looked at, also of files that are not the program's: why these cannot be written is said where they would be.
        let vocabulary = self.vocabulary.clone();
        let mut look = |path: &Path| self.text(path).ok();
        let unit = parse(command, &text, &[], &vocabulary, Some(Asked { text: &mut look }))?;
        self.errors.extend(unit.errors.iter().cloned());
        facts.extend(unit.facts.iter().map(|fact| (format!("{fact:?}"), fact.clone())));
        for (file, function) in &unit.of_headers {
            let summary = summary(function, &self.vocabulary, self.rules());
            self.outlines.entry(function.name.clone()).or_default().add(file, &summary);
        }
        for function in &unit.functions {
            let Analysis { sections: mut all, summary } =
                analysis(function, &text, &self.vocabulary, self.rules());
            if self.vocabulary.wrapper(&function.name).is_some() && !self.vocabulary.only_calls(function) {
                self.do_more.insert(function.name.clone());
            }
            self.outlines.entry(function.name.clone()).or_default().add(&command.file, &summary);
            if self.choice.calls.is_some() {
                self.calls.extend(summary.calls.into_iter().map(|(callee, offset)| CallSite {
                    file: command.file.clone(),
                    line: line_of(&text, offset),
                    function: function.name.clone(),
                    callee,
                }));
            }
            // Conversion knows a section by its function and its lock.
            let excepted: BTreeSet<String> = all
                .iter()
                .filter(|section| is_at(&self.choice.except, &command.file, line_of(&text, section.offset)))
                .map(|section| section.lock.clone())
                .collect();
            for section in all.iter_mut().filter(|section| excepted.contains(&section.lock)) {
                section.plan = section.plan.clone().and(Err(Refusal::Excepted));
                section.warnings.clear();
            }
            let is_in = |at: &usize, other: &Function| other.range.contains(at);
            let is_broken = unit.error_places.iter().any(|place| match place {
                Some(at) => is_in(at, function) || !unit.functions.iter().any(|other| is_in(at, other)),
                None => true,
            });
            if is_broken && self.keeps(Rule::Errors) {
                for section in &mut all {
                    section.refuse(Refusal::HasErrors);
                }
            }
            if self.writable.illegible.contains(&command.file) {
                for section in &mut all {
                    section.refuse(Refusal::Illegible);
                }
            }
            for section in all {
                let line = line_of(&text, section.offset);
                self.findings.push(Finding { file: command.file.clone(), line, section, mutex: None });
            }
        }
        Ok(())
    }

    /// Reads one file as another command compiles it. A section that comes out otherwise stays a lock; a call that only this command
    /// compiles is one of its mutex, whose sections are not all known then.
    fn read_again(&mut self, command: &Command, facts: &mut BTreeMap<String, Fact>) -> Result<(), Error> {
        if !self.keeps(Rule::Commands) {
            return Ok(());
        }
        let text = self.text(&command.file)?;
        let vocabulary = self.vocabulary.clone();
        let mut look = |path: &Path| self.text(path).ok();
        let unit = parse(command, &text, &[], &vocabulary, Some(Asked { text: &mut look }))?;
        facts.extend(unit.facts.iter().map(|fact| (format!("{fact:?}"), fact.clone())));
        let mut refused = BTreeMap::new();
        let is_broken = !unit.errors.is_empty();
        for function in &unit.functions {
            let Analysis { sections, summary } = analysis(function, &text, &self.vocabulary, self.rules());
            self.outlines.entry(function.name.clone()).or_default().add(&command.file, &summary);
            let of_function =
                |found: &&Finding| found.file == command.file && found.section.function == function.name;
            let before: Vec<&Section> =
                self.findings.iter().filter(of_function).map(|found| &found.section).collect();
            let is_at = |one: &Section, other: &Section| {
                (&one.lock, one.offset, one.continues) == (&other.lock, other.offset, other.continues)
            };
            let serves = |one: &Section, other: &Section| match (&one.plan, &other.plan) {
                (Ok(one), Ok(other)) => one.serves(other),
                (Err(_), _) => true,
                (Ok(_), Err(_)) => false,
            };
            let changed = before
                .iter()
                .filter(|one| !sections.iter().any(|other| is_at(one, other) && serves(one, other)));
            let new = sections.iter().filter(|other| !before.iter().any(|one| is_at(one, other)));
            let differ: BTreeSet<String> =
                changed.copied().chain(new).map(|section| section.lock.clone()).collect();
            for lock in differ {
                refused.insert((command.file.clone(), function.name.clone(), lock), Refusal::OtherCommand);
            }
        }
        // What the compiler leaves out for an error might be anything.
        if is_broken {
            let of_file = self.findings.iter().filter(|found| found.file == command.file);
            refused.extend(of_file.map(|found| (found.key(), Refusal::OtherCommand)).collect::<Vec<_>>());
        }
        self.refuse(&refused);
        self.again.push(command.file.clone());
        Ok(())
    }

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

    /// A place for people.
    fn describe(&self, place: &Place) -> String {
        let name = place.file.file_name().unwrap_or_default().to_string_lossy();
        match self.texts.get(&place.file) {
            Some(text) => format!("{name}:{}", line_of(text, place.offset.min(text.len()))),
            None => name.into_owned(),
        }
    }

    fn keeps(&self, rule: Rule) -> bool {
        self.choice.without != Some(rule)
    }

    fn rules(&self) -> Rules {
        Rules { without: self.choice.without, any_thread: self.choice.any_thread }
    }

    /// What functions do, `own` by themselves, or what functions do that they call.
    fn with_callees<T: Clone + Ord>(
        &self,
        own: impl Fn(&Outline) -> BTreeSet<T>,
    ) -> BTreeMap<&str, BTreeSet<T>> {
        let mut found: BTreeMap<&str, BTreeSet<T>> =
            self.outlines.iter().map(|(name, outline)| (name.as_str(), own(outline))).collect();
        loop {
            let mut has_grown = false;
            for (name, outline) in &self.outlines {
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
    fn given_up(&self) -> BTreeMap<&str, BTreeSet<Alike>> {
        self.with_callees(|outline| {
            let alike = outline.given_up.iter().filter_map(|(file, call)| match &call.by_macro {
                Some(lock) => Some(named(lock).map_or(Alike::Any, Alike::Named)),
                None => self.locks.at(file, call.offset, call.action).map(Alike::Class),
            });
            alike.collect()
        })
    }

    /// Refuses sections that call a function which asks for its thread, or warns of them.
    fn refuse_callees_that_ask(&mut self) {
        let asked = self.with_callees(|outline| outline.asks.iter().cloned().collect());
        let said: Vec<(usize, String, String)> = (self.findings.iter().enumerate())
            .filter_map(|(number, found)| {
                let plan = found.section.plan.as_ref().ok()?;
                plan.calls.iter().find_map(|callee| {
                    let asked = asked.get(callee.as_str())?.first()?;
                    Some((number, callee.clone(), asked.clone()))
                })
            })
            .collect();
        if self.choice.any_thread {
            for (number, callee, asked) in said {
                let section = &mut self.findings[number].section;
                section.warnings.push(format!("{callee} asks for the server's `{asked}`"));
            }
            return;
        }
        let of_key = |(number, callee, asked): (usize, String, String)| {
            (self.findings[number].key(), Refusal::CalleeMeansThread { callee, asked })
        };
        let refused = said.into_iter().map(of_key).collect();
        self.refuse(&refused);
    }

    /// Refuses sections that call a function which may go on further up, or end its thread, or calls one that may.
    fn refuse_callees_that_leave(&mut self) {
        let leaves = self.with_callees(|outline| {
            outline.callees.iter().filter(|callee| leaves_its_caller(callee)).cloned().collect()
        });
        let mut refused = BTreeMap::new();
        for found in &self.findings {
            let Ok(plan) = &found.section.plan else { continue };
            let said = plan.calls.iter().find_map(|callee| {
                let by = leaves.get(callee.as_str())?.first()?.clone();
                Some(Refusal::CalleeLeaves { callee: callee.clone(), by })
            });
            refused.extend(said.map(|said| (found.key(), said)));
        }
        self.refuse(&refused);
    }

    /// Refuses sections that take a mutex which knows the thread that holds it, or call a function that does, or warns of them: where a
    /// delegate runs them in another thread, they wait for one that may wait for them.
    fn refuse_owned(&mut self) {
        let owned = self.locks.owned();
        let owned_at = |file: &Path, offset: usize, action: Action| {
            self.locks.at(file, offset, action).filter(|class| owned.contains_key(class))
        };
        let taken = self.with_callees(|outline| {
            let all = outline.takes.iter();
            all.filter_map(|(file, offset, action)| owned_at(file, *offset, *action)).collect()
        });
        let mut said: Vec<(usize, Option<String>, String)> = Vec::new();
        for (number, found) in self.findings.iter().enumerate() {
            let Ok(plan) = &found.section.plan else { continue };
            let own = plan.takes.iter().find_map(|(offset, action)| owned_at(&found.file, *offset, *action));
            let by_callee = || {
                let takes =
                    |callee: &String| Some((Some(callee.clone()), *taken.get(callee.as_str())?.first()?));
                plan.calls.iter().find_map(takes)
            };
            if let Some((callee, class)) = own.map(|class| (None, class)).or_else(by_callee) {
                said.push((number, callee, owned[&class].to_owned()));
            }
        }
        if self.choice.any_thread {
            for (number, callee, place) in said {
                let by = callee.map_or_else(String::new, |callee| format!("{callee} takes "));
                let warning =
                    format!("{by}a mutex that may be recursive or checked ({place}) is the server's");
                self.findings[number].section.warnings.push(warning);
            }
            return;
        }
        let of_key = |(number, callee, place): (usize, Option<String>, String)| {
            (self.findings[number].key(), Refusal::Owned { callee, place })
        };
        let refused = said.into_iter().map(of_key).collect();
        self.refuse(&refused);
    }

    /// What functions leave of mutexes otherwise than they found them. A function that calls itself does so as if it did not.
    fn leaves<'a>(&'a self, name: &'a str, known: &mut BTreeMap<&'a str, Leaves>) -> Leaves {
        if let Some(known) = known.get(name) {
            return known.clone();
        }
        let Some(outline) = self.outlines.get(name) else { return Leaves::default() };
        known.insert(name, Leaves::default());
        let class = |file: &Path, offset, action| self.locks.at(file, offset, action);
        let releases =
            |(_, call): &&(PathBuf, GivenUp)| call.action == Action::Unlock && call.by_macro.is_none();
        let own = Leaves {
            kept: outline.keeps.iter().map(|(file, at, action)| class(file, *at, *action)).collect(),
            released: (outline.given_up.iter().filter(releases))
                .map(|(file, call)| class(file, call.offset, Action::Unlock))
                .collect(),
        };
        let below: Vec<Leaves> = outline.callees.iter().map(|callee| self.leaves(callee, known)).collect();
        let all = Leaves::and(below.iter().chain([&own]));
        known.insert(name, all.clone());
        all
    }

    /// Refuses sections that call functions which take another lock and keep it, or release one of another's, unless others that are
    /// called do the opposite.
    fn refuse_callees_that_keep(&mut self) {
        let mut refused = BTreeMap::new();
        let mut known = BTreeMap::new();
        for found in &self.findings {
            let Ok(plan) = &found.section.plan else { continue };
            let of_calls: Vec<(&String, Leaves)> =
                plan.calls.iter().map(|callee| (callee, self.leaves(callee, &mut known))).collect();
            let all = Leaves::and(of_calls.iter().map(|(_, leaves)| leaves));
            let is_one = |(_, of): &&(&String, Leaves)| {
                !of.kept.is_disjoint(&all.kept) || !of.released.is_disjoint(&all.released)
            };
            if let Some((callee, _)) = of_calls.iter().find(is_one) {
                refused.insert(found.key(), Refusal::CalleeKeeps((*callee).clone()));
            }
        }
        self.refuse(&refused);
    }

    /// Refuses all sections of a function and its lock: conversion tells them apart by nothing else.
    fn refuse(&mut self, refused: &BTreeMap<(PathBuf, String, String), Refusal>) {
        for found in &mut self.findings {
            if let (Ok(_), Some(refusal)) = (&found.section.plan, refused.get(&found.key())) {
                found.section.plan = Err(refusal.clone());
            }
        }
    }

    /// Refuses sections that call a function which gives their lock up: inside a closure nobody holds it who could.
    fn refuse_callees(&mut self) {
        let given_up = self.given_up();
        let mut refused = BTreeMap::new();
        for found in &self.findings {
            let Ok(plan) = &found.section.plan else { continue };
            let own = match (found.mutex, &found.section.by) {
                (Some(class), _) => BTreeSet::from([Alike::Class(class)]),
                (None, Some(_)) => {
                    named(&found.section.lock).map(Alike::Named).into_iter().chain([Alike::Any]).collect()
                }
                (None, None) => continue,
            };
            let releases =
                |name: &&String| given_up.get(name.as_str()).is_some_and(|of| !of.is_disjoint(&own));
            if let Some(name) = plan.calls.iter().find(releases) {
                refused.insert(found.key(), Refusal::CalleeReleases(name.clone()));
            }
        }
        self.refuse(&refused);
    }

    /// Refuses sections by wrappers that do more than to take or release a lock: in a closure nothing of them would be left.
    fn refuse_wrappers(&mut self) {
        let mut refused = BTreeMap::new();
        for found in &self.findings {
            let Ok(plan) = &found.section.plan else { continue };
            if let Some(name) = plan.by.intersection(&self.do_more).next() {
                refused.insert(found.key(), Refusal::WrapperDoesMore(name.clone()));
            }
        }
        self.refuse(&refused);
    }

    /// Refuses sections that wait for conditions, or may be cancelled otherwise, where threads are cancelled.
    fn refuse_waits(&mut self) {
        let mut refused = BTreeMap::new();
        for found in &self.findings {
            let Ok(plan) = &found.section.plan else { continue };
            if plan.pauses.iter().any(|pause| matches!(pause.meanwhile, Meanwhile::Waits(_))) {
                refused.insert(found.key(), Refusal::Cancels);
            } else if let Some(name) = plan.calls.iter().find(|name| may_be_cancelled(name)) {
                refused.insert(found.key(), Refusal::MayBeCancelled(name.clone()));
            }
        }
        self.refuse(&refused);
        // Deeper down such calls are often what only reports that something has failed.
        let below = self.with_callees(|outline| {
            outline.callees.iter().filter(|name| may_be_cancelled(name)).cloned().collect::<BTreeSet<_>>()
        });
        let said: Vec<(usize, String)> = (self.findings.iter().enumerate())
            .filter_map(|(number, found)| {
                let plan = found.section.plan.as_ref().ok()?;
                plan.calls.iter().find_map(|callee| {
                    let name = below.get(callee.as_str())?.first()?;
                    Some((
                        number,
                        format!(
                            "{callee} may call {name}, in which a thread may be cancelled, perhaps another than its own"
                        ),
                    ))
                })
            })
            .collect();
        for (number, warning) in said {
            self.findings[number].section.warnings.push(warning);
        }
    }

    /// The calls of lock functions that become parts of closures.
    fn covered(&self) -> BTreeSet<(&Path, usize)> {
        let closures = self.findings.iter().filter(|found| self.is_chosen(found));
        closures
            .filter_map(|found| Some((found.file.as_path(), found.section.plan.as_ref().ok()?)))
            .flat_map(|(file, plan)| plan.covered.iter().map(move |call| (file, *call)))
            .collect()
    }

    /// Finds which mutexes become delegates, and refuses the sections of the others.
    fn judge(&mut self) {
        let mut classes: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (number, found) in self.findings.iter_mut().enumerate() {
            found.mutex = self.locks.at(&found.file, found.section.call, Action::Lock);
            if let Some(class) = found.mutex {
                classes.entry(class).or_default().push(number);
            }
        }
        self.seen = self.seen();
        if self.keeps(Rule::CalleeReleases) {
            self.refuse_callees();
        }
        if self.keeps(Rule::CalleeKeeps) {
            self.refuse_callees_that_keep();
        }
        if self.keeps(Rule::Owned) {
            self.refuse_owned();
        }
        if self.keeps(Rule::CalleeLeaves) {
            self.refuse_callees_that_leave();
        }
        if self.keeps(Rule::CalleeAsks) {
            self.refuse_callees_that_ask();
        }
        if self.keeps(Rule::Wrappers) {
            self.refuse_wrappers();
        }
        if self.keeps(Rule::Cancels) && self.outlines.values().any(|it| it.callees.contains("pthread_cancel"))
        {
            self.refuse_waits();
        }
        // All calls count, also those outside of sections.
        let covered = self.covered();
        let mut kept: Vec<(usize, String)> = Vec::new();
        for class in self.locks.classes() {
            let sections = classes.get(&class).map(Vec::as_slice).unwrap_or_default();
            let of = |number: &&usize| &self.findings[**number];
            let is_chosen = |found: &&Finding| self.is_chosen(found);
            if !sections.iter().map(|number| of(&number)).any(|found| is_chosen(&found)) {
                if !sections.is_empty() {
                    kept.push((class, "it was not chosen".to_owned()));
                } else if !self.locks.is_used(class) {
                    // A parameter of a function's type, or what is only declared.
                    kept.push((class, "nothing takes it".to_owned()));
                } else if self.locks.calls_of(class).next().is_some() {
                    // It is only tried for, or headers take it.
                    kept.push((class, "no section of it can be a closure".to_owned()));
                }
                continue;
            }
            let is_closure = |found: &Finding| found.refusal().is_none() && is_chosen(&found);
            if !sections.iter().any(|number| is_closure(&self.findings[*number])) {
                kept.push((class, "no section of it can be a closure".to_owned()));
                continue;
            }
            let may_hold = self.choice.may_hold || !self.keeps(Rule::Holds);
            let aside = sections.iter().map(|number| of(&number)).find(|found| !is_chosen(found));
            if let Some(found) = aside.filter(|_| !may_hold) {
                let place = format!("{}:{}", file_name(&found.file), found.line);
                kept.push((class, format!("the section at {place} was not chosen (--hold allows it)")));
                continue;
            }
            let is_left = |call: &&Call| !covered.contains(&(call.at.file.as_path(), call.at.offset));
            for call in self.locks.calls_of(class).filter(is_left) {
                let place = self.describe(&call.at);
                if !may_hold {
                    let reason =
                        format!("{} at {place} would hold the delegate (--hold allows it)", call.name);
                    kept.push((class, reason));
                    break;
                }
                let fixed = || call.is_fixed(&self.writable, &place);
                if call.does == Use::Wait
                    && let Some(reason) = fixed()
                {
                    kept.push((class, reason));
                    break;
                }
            }
        }
        for (class, reason) in kept {
            self.locks.keep_class(class, reason);
        }
        self.locks.settle_conditions();
        if !self.keeps(Rule::Understood) {
            self.locks.keep_none();
        }
        for found in &mut self.findings {
            if found.section.by.is_some() {
                continue;
            }
            let reason = match found.mutex {
                Some(class) => self.locks.kept(class).map(str::to_owned),
                None => Some("the lock call names it in a way that is not understood".to_owned()),
            };
            if let (Ok(_), Some(reason)) = (&found.section.plan, reason) {
                found.section.plan = Err(Refusal::StaysMutex(reason));
            }
        }
        self.warn_of_memory();
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

    /// What the calls of the choice are in the text.
    fn seen(&self) -> Vec<Seen> {
        let Some(calls) = &self.choice.calls else { return Vec::new() };
        let mut places: Vec<call::Place<'_>> = self.findings.iter().map(|found| self.place(found)).collect();
        // A function that ends by taking a lock for its caller jumps to the lock call, and is in no stack.
        let takes_for_callers = |found: &&Finding| found.refusal() == Some(&Refusal::Leaves);
        let mut takers: BTreeMap<&str, &Finding> = BTreeMap::new();
        for found in self.findings.iter().filter(takes_for_callers) {
            takers.insert(&found.section.function, found);
        }
        places.extend(self.calls.iter().filter_map(|call| {
            let taker = takers.get(call.callee.as_str())?;
            Some(call::Place {
                file: &call.file,
                function: &call.function,
                lines: BTreeSet::from([call.line]),
                begin: (&taker.file, taker.line),
                mutex: taker.mutex,
                is_whole: false,
            })
        }));
        let files: BTreeSet<&Path> = self.commands.iter().map(|command| command.file.as_path()).collect();
        calls.iter().map(|call| call::seen(call, &places, &files)).collect()
    }

    fn place<'a>(&self, found: &'a Finding) -> call::Place<'a> {
        let line =
            |offset: usize| self.texts.get(&found.file).map_or(found.line, |text| line_of(text, offset));
        let plan = found.section.plan.as_ref().ok();
        let again = plan.into_iter().flat_map(|plan| &plan.covered).map(|call| line(*call));
        let statement = found.line..=line(found.section.call).max(found.line);
        call::Place {
            file: &found.file,
            function: &found.section.function,
            lines: statement.chain(again).collect(),
            begin: (&found.file, found.line),
            mutex: found.mutex,
            is_whole: plan.is_some(),
        }
    }

    /// Whether the choice names a section, or the mutex that it takes.
    #[must_use]
    pub fn is_chosen(&self, found: &Finding) -> bool {
        let (locks, sites) = (&self.choice.locks, &self.choice.sites);
        let by_lock = locks.is_empty() || locks.iter().any(|name| is_of(&found.section.lock, name));
        let by_site = sites.is_empty() || is_at(sites, &found.file, found.line);
        let files = &self.choice.files;
        let by_file = files.is_empty() || files.iter().any(|end| found.file.ends_with(end));
        by_file && by_lock && by_site && (self.choice.calls.is_none() || self.was_seen(found.mutex))
    }

    /// A place of the choice's exceptions where no section begins.
    #[must_use]
    pub fn needless_exception(&self) -> Option<&(PathBuf, usize)> {
        let is_there = |place: &(PathBuf, usize)| {
            self.findings.iter().any(|found| is_at(std::slice::from_ref(place), &found.file, found.line))
        };
        self.choice.except.iter().find(|place| !is_there(place))
    }

    /// Whether a call of the choice takes a mutex.
    fn was_seen(&self, wanted: Option<usize>) -> bool {
        let takes =
            |seen: &Seen| matches!(seen, Seen::Section { mutex: Some(mutex), .. } if Some(*mutex) == wanted);
        self.seen.iter().any(takes)
    }

    /// The files that conversion changes, and those in which sections cannot become closures after all.
    ///
    /// # Errors
    ///
    /// If a file cannot be read or parsed.
    pub fn converted(&self, progress: &mut dyn FnMut(usize, usize, &Path)) -> Result<Vec<Change>, Error> {
        let mut edits: BTreeMap<&Path, Vec<Edit>> = BTreeMap::new();
        let renamed = self.locks.renamed();
        for (place, renaming) in &renamed {
            let Some(text) = self.texts.get(&place.file) else { continue };
            let edit = renaming_edit(text, place.offset, *renaming);
            edits.entry(&place.file).or_default().push(edit.ok_or_else(|| Error::parse(&place.file))?);
        }
        // Names first: what becomes a closure is found in the text that has them.
        let mut after: BTreeMap<&Path, String> = BTreeMap::new();
        for (path, edits) in edits {
            let text = &self.texts[path];
            let text = edited(text, 0..text.len(), &edits).ok_or_else(|| Error::parse(path))?;
            after.insert(path, text);
        }
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
                let (text, lines) = self.convert(command, text, &unsaved)?;
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

    /// Converts sections of one file from the inside out, until there is none left that can be. The text, and the lines where sections
    /// began that were to become closures and have not.
    fn convert(
        &self,
        command: &Command,
        text: &str,
        unsaved: &[Unsaved],
    ) -> Result<(String, BTreeSet<usize>), Error> {
        let mut text = text.to_owned();
        // Which sections were chosen is known by function and lock: conversion moves lines.
        let chosen: BTreeSet<(&str, &str)> = self
            .findings
            .iter()
            .filter(|found| found.file == command.file && found.refusal().is_none() && self.is_chosen(found))
            .map(|found| (found.section.function.as_str(), found.section.lock.as_str()))
            .collect();
        let is_planned = |found: &&Finding| {
            let section = &found.section;
            found.file == command.file
                && section.plan.is_ok()
                && !section.continues
                && section.by.is_none()
                && self.is_chosen(found)
        };
        let mut count = self.findings.iter().filter(is_planned).count();
        // Of each function and lock, which sections are to become closures, in the order of the text. What is found again of a section
        // that is refused may be without the reason, which has gone into a closure. Where they began is for people.
        let mut known: BTreeMap<(String, String), Vec<Known>> = BTreeMap::new();
        let of_file =
            self.findings.iter().filter(|found| found.file == command.file && !found.section.continues);
        for found in of_file {
            let key = (found.section.function.clone(), found.section.lock.clone());
            let line = is_planned(&found).then_some(found.line);
            known.entry(key).or_default().push(Known { is_closure: found.refusal().is_none(), line });
        }
        loop {
            let unit = parse(command, &text, unsaved, &self.vocabulary, None)?;
            let (mut edits, mut has_left) = (Vec::<Edit>::new(), false);
            for function in &unit.functions {
                let all = analysis(function, &text, &self.vocabulary, self.rules()).sections;
                let is_known = |section: &&Section| {
                    let is_alike = |other: &&Section| !other.continues && other.lock == section.lock;
                    let alike: Vec<&Section> = all.iter().filter(is_alike).collect();
                    let at = alike.iter().position(|other| other.offset == section.offset);
                    match (known.get(&(section.function.clone(), section.lock.clone())), at) {
                        (Some(of), Some(at)) if of.iter().any(|known| !known.is_closure) => {
                            of.len() == alike.len() && of[at].is_closure
                        }
                        _ => true,
                    }
                };
                let plans: Vec<_> = all
                    .iter()
                    .filter(|section| !section.continues && section.is_of_delegate())
                    .filter(is_known)
                    .filter(|section| chosen.contains(&(section.function.as_str(), section.lock.as_str())))
                    .filter_map(|section| Some((section, section.plan.as_ref().ok()?)))
                    .collect();
                // One section of a function at a time: what is converted changes the text around the next.
                let holds = |outer: &std::ops::Range<usize>| {
                    plans
                        .iter()
                        .any(|(_, plan)| outer.start < plan.slice.start && plan.slice.end <= outer.end)
                };
                for (section, plan) in plans.iter().filter(|(_, plan)| !holds(&plan.slice)) {
                    let conversion = conversion(&text, function, section, plan);
                    let before = |other: &&Section| {
                        !other.continues && other.lock == section.lock && other.offset < section.offset
                    };
                    let at = all.iter().filter(before).count();
                    let key = (section.function.clone(), section.lock.clone());
                    let of = known.get_mut(&key).filter(|of| at < of.len());
                    if let Some(conversion) = conversion {
                        if let Some(of) = of {
                            of.remove(at);
                        }
                        count = count.saturating_sub(usize::from(section.by.is_none()));
                        edits.extend(conversion);
                        break;
                    }
                    // It stays a lock, and others of the function go on without it.
                    if let Some(of) = of {
                        of[at].is_closure = false;
                        has_left = true;
                    }
                }
            }
            if edits.is_empty() && has_left {
                continue;
            }
            // What is left takes the delegate as a lock, which it may only with `--hold`.
            let left = || {
                let lines = known.values().flatten().filter_map(|known| known.line);
                if count > 0 { lines.collect() } else { BTreeSet::<usize>::new() }
            };
            if edits.is_empty() && count > 0 && !self.choice.may_hold {
                let lines = left().iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
                return Err(Error::Left { path: command.file.clone(), lines });
            }
            if edits.is_empty() {
                let lines = left();
                return Ok((text, lines));
            }
            text = edited(&text, 0..text.len(), &edits).ok_or_else(|| Error::parse(&command.file))?;
        }
    }
}

impl Change {
    /// Whether the text is another one after conversion.
    #[must_use]
    pub fn changes_text(&self) -> bool {
        self.before != self.after
    }

    /// The change as a patch, with paths from `directory` on.
    #[must_use]
    pub fn diff(&self, directory: &Path) -> Vec<u8> {
        let path = self.path.strip_prefix(directory).unwrap_or(&self.path).display().to_string();
        // A character for each byte, whatever it is.
        let characters = |bytes: &[u8]| bytes.iter().copied().map(char::from).collect::<String>();
        let header = |side: char| characters(format!("{side}/{path}").as_bytes());
        let (before, after) = (characters(&self.before), characters(&self.after));
        let lines = similar::TextDiff::from_lines(&before, &after)
            .unified_diff()
            .header(&header('a'), &header('b'))
            .to_string();
        lines.chars().filter_map(|character| u8::try_from(character).ok()).collect()
    }
}

impl Finding {
    /// What conversion, which moves lines, knows a section by: its file, its function and its lock.
    fn key(&self) -> (PathBuf, String, String) {
        (self.file.clone(), self.section.function.clone(), self.section.lock.clone())
    }

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

/// The name of the field or variable that an expression of a lock ends with, unless it is nothing but one variable.
fn named(lock: &str) -> Option<String> {
    let is_word = |next: char| next.is_ascii_alphanumeric() || next == '_';
    let start = lock.rfind(|next| !is_word(next)).map_or(0, |at| at + 1);
    if start > 0 && start < lock.len() {
        return Some(lock[start..].to_owned());
    }
    let inner = lock.trim_end_matches(|next| !is_word(next));
    (start > 0 && inner.len() < lock.len()).then(|| named(inner)).flatten()
}

/// Whether one of the places, each the end of a path and a line, is this one.
fn is_at(places: &[(PathBuf, usize)], file: &Path, line: usize) -> bool {
    places.iter().any(|(end, at)| file.ends_with(end) && *at == line)
}

fn line_of(text: &str, offset: usize) -> usize {
    text.as_bytes().iter().take(offset).filter(|byte| **byte == b'\n').count() + 1
}

/// How converted files name the delegates' header.
const HEADER: &str = "#include <lockwork.h>";
/// What closures need that carry `errno`.
const ERRNO_HEADER: &str = "#include <errno.h>";
/// The header, and what text needs that is half converted. It is read before a file's own text, so that it need not be installed.
const DECLARATIONS: &str = concat!(
    "#include <errno.h>\n",
    include_str!("../../capi/include/lockwork.h"),
    "\n#undef lockwork_any_lock\nint lockwork_any_lock();\n#undef lockwork_any_unlock\nint lockwork_any_unlock();\n",
    "#undef lockwork_any_trylock\nint lockwork_any_trylock();\n#undef lockwork_any_wait\nint lockwork_any_wait();\n",
    "#undef lockwork_any_timedwait\nint lockwork_any_timedwait();\n"
);
const DECLARATIONS_PATH: &str = "/lockwork/declarations.h";

fn parse(
    command: &Command,
    text: &str,
    others: &[Unsaved],
    vocabulary: &Vocabulary,
    asked: Option<Asked<'_>>,
) -> Result<Unit, Error> {
    let mut unsaved: Vec<Unsaved> = others.iter().filter(|file| file.path != command.file).cloned().collect();
    unsaved.push(Unsaved { path: command.file.clone(), text: text.to_owned() });
    unsaved.push(Unsaved { path: PathBuf::from(DECLARATIONS_PATH), text: DECLARATIONS.to_owned() });
    let mut arguments = command.arguments.clone();
    arguments.push("-w".to_owned());
    if asked.is_none() {
        arguments.extend(["-include".to_owned(), DECLARATIONS_PATH.to_owned()]);
    }
    if let Some(directory) = resource_directory() {
        arguments.extend(["-resource-dir".to_owned(), directory.display().to_string()]);
    }
    clang::parse(&command.file, &command.directory, &arguments, &unsaved, vocabulary, asked)
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

/// What becomes of each name of POSIX: for delegates, and in a macro that serves mutexes and delegates.
const NAMES: &[(&str, &str, Option<&str>)] = &[
    ("pthread_mutex_t", "lockwork_delegate_t", None),
    ("PTHREAD_MUTEX_INITIALIZER", "LOCKWORK_DELEGATE_INITIALIZER", None),
    ("pthread_mutex_init", "lockwork_delegate_init", Some("lockwork_any_init")),
    ("pthread_mutex_destroy", "lockwork_delegate_destroy", Some("lockwork_any_destroy")),
    ("pthread_mutex_lock", "lockwork_delegate_acquire_or_abort", Some("lockwork_any_lock")),
    ("pthread_mutex_unlock", "lockwork_delegate_release", Some("lockwork_any_unlock")),
    ("pthread_mutex_trylock", "lockwork_delegate_try_acquire_or_abort", Some("lockwork_any_trylock")),
    ("pthread_cond_wait", "lockwork_delegate_cond_wait_held", Some("lockwork_any_wait")),
    ("pthread_cond_timedwait", "lockwork_delegate_cond_timedwait_held", Some("lockwork_any_timedwait")),
    ("pthread_cond_t", "lockwork_delegate_cond_t", None),
    ("PTHREAD_COND_INITIALIZER", "LOCKWORK_DELEGATE_COND_INITIALIZER", None),
    ("pthread_cond_init", "lockwork_delegate_cond_init", Some("lockwork_any_cond_init")),
    ("pthread_cond_destroy", "lockwork_delegate_cond_destroy", Some("lockwork_any_cond_destroy")),
    ("pthread_cond_signal", "lockwork_delegate_cond_signal", Some("lockwork_any_cond_signal")),
    ("pthread_cond_broadcast", "lockwork_delegate_cond_broadcast", Some("lockwork_any_cond_broadcast")),
];

/// The edit for a place where a mutex or a condition of POSIX is named.
fn renaming_edit(text: &str, at: usize, renaming: Renaming) -> Option<Edit> {
    if let Renaming::Argument(length, replacement) = renaming {
        return Some(Edit::new(at..at + length, replacement));
    }
    let rest = text.get(at..)?;
    let length = rest.find(|next: char| !next.is_ascii_alphanumeric() && next != '_').unwrap_or(rest.len());
    let name = if let Renaming::StandsFor(name) = renaming { name } else { &rest[..length] };
    let (_, delegate, either) = NAMES.iter().find(|(known, ..)| *known == name)?;
    let name = if renaming == Renaming::Either { (*either)? } else { delegate };
    Some(Edit::new(at..at + length, name))
}

/// The text with the delegates' header, and what its closures need besides.
fn with_header(text: &str) -> String {
    let needs_errno = text.contains("lockwork_errno") && !text.contains(ERRNO_HEADER);
    let errno = if needs_errno { format!("{ERRNO_HEADER}\n") } else { String::new() };
    if text.contains(HEADER) {
        return text.replacen(HEADER, &format!("{errno}{HEADER}"), 1);
    }
    let at = place_of_include(text);
    format!("{}{errno}{HEADER}\n{}", &text[..at], &text[at..])
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Behind the last `#include` before the first use that is in no `#if` but a header's guard; else the beginning, or where the guard
/// begins.
fn place_of_include(text: &str) -> usize {
    let (mut at, mut depth, mut place) = (0, 0_usize, 0);
    // The macro that a header's guard, which is its first directive, asks for and then defines.
    let (mut asked, mut is_first, mut guard) = (None, true, 0);
    let use_of = |word: &str| text.find(word).unwrap_or(text.len());
    let first_use = use_of("lockwork_").min(use_of("LOCKWORK_"));
    let mut in_comment = false;
    for line in text.split_inclusive('\n') {
        let was_in_comment = in_comment;
        for (begin, _) in line.match_indices(['/', '*']) {
            match line.get(begin..begin + 2) {
                Some("/*") => in_comment = true,
                Some("*/") => in_comment = false,
                _ => {}
            }
        }
        let code = if was_in_comment { "" } else { line };
        let mut words = code.trim_start().strip_prefix('#').unwrap_or_default().split_whitespace();
        let (word, of) = (words.next().unwrap_or_default(), words.next());
        let end = at + line.len();
        if end > first_use {
            break;
        }
        let (asked_before, was_first) = (asked.take(), is_first);
        is_first &= word.is_empty();
        if word.is_empty() {
            asked = asked_before;
        } else if word.starts_with("if") {
            asked = of.filter(|_| was_first && word == "ifndef");
            depth += 1;
        } else if word == "endif" {
            depth = depth.saturating_sub(1);
            if depth < guard {
                // It was no header's.
                (guard, place) = (0, end);
            }
        } else if word == "define" && of.is_some() && of == asked_before {
            guard = 1;
            place = end;
        } else if depth == guard
            && (word.starts_with("include")
                || word == "define" && of.is_some_and(|name| name.contains("_SOURCE")))
        {
            place = end;
        }
        at = end;
    }
    place
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_is_named_before_its_first_use() {
        let line_before = |text: &str| text[..place_of_include(text)].lines().last().unwrap_or("").to_owned();
        let use_of = "static lockwork_delegate_t lock = LOCKWORK_DELEGATE_INITIALIZER;\n";
        let text = format!("#include <a.h>\n#ifdef X\n#include <x.h>\n#endif\n#include <b.h>\n{use_of}");
        assert_eq!(line_before(&text), "#include <b.h>");
        assert_eq!(line_before(&format!("{text}#include <late.h>\n")), "#include <b.h>");
        let guarded = format!("#ifndef A_H\n#define A_H\n#include <a.h>\n{use_of}#endif\n");
        assert_eq!(line_before(&guarded), "#include <a.h>");
        assert_eq!(
            line_before(&format!("#ifndef A_H\n#define A_H\n{use_of}#include <late.h>\n#endif\n")),
            "#define A_H"
        );
        assert_eq!(line_before(&format!("{use_of}#include <late.h>\n")), "");
        let defined = format!("#ifndef _GNU_SOURCE\n#define _GNU_SOURCE\n#endif\n{use_of}");
        assert_eq!(line_before(&defined), "#endif");
        let no_guard = format!("#ifdef X\n#include <a.h>\n#endif\n#ifndef Y\n#define Y 3\n#endif\n{use_of}");
        assert_eq!(line_before(&no_guard), "");
        assert_eq!(line_before(&format!("#ifndef Y\n#include <y.h>\n#endif\n{use_of}")), "");
        assert_eq!(line_before(&format!("#define _GNU_SOURCE\n{no_guard}")), "#define _GNU_SOURCE");
    }
}
