//! The source files that ask for orderings, and the models that prove each of them.
//!
//! The files are found by walking the sources, and their models by asking the registry ([`Proof`]): a file that neither a
//! model nor the list of exceptions names fails the mutation tests.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use lockwork_locks::describe::{Descriptor, Proof, Waiting};
use lockwork_locks::registry::{Entry, LOCKS, WRAPPERS};

/// The directories whose orderings are proven.
const DIRECTORIES: [&str; 4] = ["locks/src", "platform/src", "preload/src", "lockwork/src/wait_free"];

/// The words that ask for an ordering.
const STRONG: [&str; 5] = ["Acquire", "Release", "AcqRel", "SeqCst", "heavy_barrier("];

/// The root of the workspace.
#[must_use]
pub fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A source file that asks for orderings stronger than `Relaxed`.
#[derive(Clone, Debug)]
pub struct Source {
    /// Its path from the root of the workspace.
    pub path: String,
    /// The lines that ask, by their numbers, each with the number of the line on which its statement begins.
    pub lines: BTreeMap<u32, Line>,
}

/// A line that asks for an ordering.
#[derive(Clone, Debug)]
pub struct Line {
    /// Where its statement begins.
    pub start: u32,
    /// The line.
    pub text: String,
}

/// All source files that ask for orderings, in the order of their paths. Tests do not count.
#[must_use]
pub fn all() -> Vec<Source> {
    let root = workspace();
    let mut found = Vec::new();
    for name in DIRECTORIES {
        walk(&root.join("crates").join(name), &mut found);
    }
    found.sort();
    found.iter().filter_map(|path| read(&root, path)).collect()
}

fn walk(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("a directory of sources") {
        let path = entry.expect("an entry").path();
        let is_test = path.file_stem().is_some_and(|stem| stem == "tests");
        if is_test {
            continue;
        }
        if path.is_dir() {
            walk(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The code of a line, without its comment.
fn code(line: &str) -> &str {
    line.split("//").next().unwrap_or_default().trim()
}

fn asks(code: &str) -> bool {
    let word = |at: usize, length: usize| {
        let around = |c: Option<char>| c.is_none_or(|c| !c.is_alphanumeric() && c != '_');
        around(code[..at].chars().next_back()) && around(code[at + length..].chars().next())
    };
    let is_call = !code.starts_with("use ") && !code.starts_with("pub use ") && !code.starts_with("fn ");
    is_call && STRONG.iter().any(|strong| code.match_indices(strong).any(|(at, _)| word(at, strong.len())))
}

fn read(root: &Path, path: &Path) -> Option<Source> {
    let text = fs::read_to_string(path).expect("a source");
    // The module of tests at the end, not the declaration of one in a file of its own.
    let end = text.find("\n#[cfg(test)]\nmod tests {").unwrap_or(text.len());
    let lines: Vec<&str> = text[..end].lines().map(code).collect();
    let ends = |line: &str| line.is_empty() || line.ends_with([';', '{', '}', ',']);
    let mut found = BTreeMap::new();
    let mut in_use = false;
    for (index, line) in lines.iter().enumerate() {
        in_use |= line.starts_with("use ") || line.starts_with("pub use ");
        if in_use {
            in_use = !line.ends_with(';');
            continue;
        }
        if asks(line) {
            // The arguments of a call may stand on lines of their own.
            // An arm of a `match` is a statement, too: another one may not be taken.
            let is_within = |above: usize| {
                !ends(lines[above]) || lines[above].ends_with(',') && !lines[above].contains("=>")
            };
            let start = (index.saturating_sub(8)..index).rev().take_while(|&above| is_within(above)).last();
            let start = start.unwrap_or(index) as u32 + 1;
            found.insert(index as u32 + 1, Line { start, text: (*line).to_owned() });
        }
    }
    let path = path.strip_prefix(root).expect("a path in the workspace").to_string_lossy().into_owned();
    (!found.is_empty()).then_some(Source { path, lines: found })
}

/// Whether a subject of the kit, by its name, is one whose models prove a source.
#[must_use]
pub fn proves(subject: &str, source: &str) -> bool {
    let by_lock = LOCKS.iter().any(|lock| {
        proofs_of(lock.descriptor, source)
            .any(|proof| named(proof, subject) || proof.by.is_empty() && stands_for(lock, subject))
    });
    by_lock
        || WRAPPERS.iter().any(|(_, wrapper)| proofs_of(wrapper, source).any(|proof| named(proof, subject)))
}

fn proofs_of(descriptor: &'static Descriptor, source: &str) -> impl Iterator<Item = &'static Proof> {
    descriptor.proofs.iter().filter(move |proof| source.ends_with(proof.source))
}

fn named(proof: &Proof, subject: &str) -> bool {
    proof.by.contains(&subject)
}

/// Whether a subject is made of a lock that stands for its algorithm: one that spins, or one that spins and then parks, or
/// one that there is in one way only.
fn stands_for(lock: &Entry, subject: &str) -> bool {
    let mut kin = LOCKS.iter().filter(|other| std::ptr::eq(other.descriptor, lock.descriptor));
    let is_only = kin.next() == Some(lock) && kin.next().is_none();
    let is_plain = is_only || matches!(lock.waiting, Waiting::Spin | Waiting::SpinThenPark);
    let rest = subject.strip_prefix(lock.name);
    is_plain && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with([',', '(']))
}
