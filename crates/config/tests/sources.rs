//! The sources name no variable that this crate does not know, and the book's tables are its own.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use lockwork_config::{FileTable, REGENERATE, Reader, Table, VARIABLES};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}

/// All text files that may name a variable. What was decided in the past may name one that is gone.
fn sources() -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = ["README.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "Makefile"]
        .into_iter()
        .map(|name| root().join(name))
        .collect();
    let mut directories: Vec<PathBuf> =
        ["crates", "scripts", "book/src", ".ci"].into_iter().map(|name| root().join(name)).collect();
    while let Some(directory) = directories.pop() {
        let Ok(entries) = fs::read_dir(&directory) else { continue };
        for entry in entries {
            let path = entry.expect("a readable directory").path();
            if path.is_dir() {
                directories.push(path);
            } else {
                files.push(path);
            }
        }
    }
    files
}

/// The names in a text that begin like a variable of ours.
fn names(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices("LOCKWORK_").map(|(start, _)| {
        let rest = &text[start..];
        let end = rest.find(|c: char| !(c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_'));
        &rest[..end.unwrap_or(rest.len())]
    })
}

/// Macros of the C headers, which begin in the same way.
fn macros() -> BTreeSet<String> {
    let headers = sources()
        .into_iter()
        .filter(|path| path.extension().is_some_and(|kind| kind == "h" || kind == "hpp"));
    let texts = headers.filter_map(|path| fs::read_to_string(path).ok());
    texts
        .flat_map(|text| {
            let defined = text.lines().filter_map(|line| line.strip_prefix("#define "));
            defined.filter_map(|rest| names(rest).next().map(str::to_owned)).collect::<Vec<_>>()
        })
        .collect()
}

#[test]
fn every_variable_in_the_sources_is_known() {
    let macros = macros();
    let mut unknown = BTreeSet::new();
    let mut seen = BTreeSet::new();
    for path in sources() {
        let Ok(text) = fs::read_to_string(&path) else { continue };
        let lists_all =
            path.ends_with("config/src/variables.rs") || path.ends_with("book/src/environment.md");
        for name in names(&text) {
            // The prefix by itself stands for all of them.
            if name == "LOCKWORK_" || macros.contains(name) {
                continue;
            }
            match VARIABLES.iter().find(|variable| variable.name == name) {
                Some(variable) if !lists_all => _ = seen.insert(variable.name),
                Some(_) => {}
                None => _ = unknown.insert(format!("{name} in {}", path.display())),
            }
        }
        // Rust sources name a variable by its constant.
        let constant = |name: &str| format!("::{}.name", name.trim_start_matches("LOCKWORK_"));
        seen.extend(
            VARIABLES.iter().map(|variable| variable.name).filter(|name| text.contains(&constant(name))),
        );
    }
    assert!(unknown.is_empty(), "add to crates/config/src/variables.rs, or take away: {unknown:#?}");
    let unused: Vec<_> = VARIABLES
        .iter()
        .filter(|variable| !seen.contains(variable.name))
        .map(|variable| variable.name)
        .collect();
    assert!(unused.is_empty(), "no source or document names {unused:?}");
}

const HEAD: &str = "\
# Environment and files

Whatever reads a variable reads it in the same way: the library under a program, the command and the Rust crate. A variable
that is set to nothing counts as not set. A value that cannot be understood is refused: the program, or the command, says why
and ends with status 2.

<!-- Generated from crates/config by `LOCKWORK_REGENERATE=1 cargo test -p lockwork-config`. -->
";

#[test]
fn the_books_tables_are_these() {
    let path = root().join("book/src/environment.md");
    let mut expected = HEAD.to_owned();
    let sections = [
        ("Programs under the library", Reader::Library),
        ("Programs linked with the C library", Reader::Linked),
        ("The command", Reader::Command),
        ("Tests and scripts", Reader::Internal),
    ];
    for (title, reader) in sections {
        let _ = write!(expected, "\n## {title}\n\n{}", Table(reader));
    }
    let _ = write!(expected, "\n## Files\n\n{FileTable}");
    if std::env::var_os(REGENERATE.name).is_some() {
        fs::write(&path, &expected).expect("the book can be written");
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    assert!(found == expected, "out of date: run LOCKWORK_REGENERATE=1 cargo test -p lockwork-config");
}
