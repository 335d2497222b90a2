//! Programs of Debian's source packages: what of them becomes closures, and that the converted texts compile without new warnings and
//! stay as they are in a second run.
//!
//! `scripts/transform-programs.sh trees` fetches and configures them below `target/debian`; what cannot be fetched is skipped. Expected counts are of Debian 12's versions; of other versions only what holds of any is tested.

mod library;
mod skipped;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Instant;

use library::{headers, library};
use lockwork_reengineer::{Change, Choice, Error, Project, Vocabulary};
use skipped::skipped;
use tempfile::TempDir;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// What is expected of a package.
struct Package {
    name: &'static str,
    /// The version that the counts are of.
    version: &'static str,
    sections: usize,
    /// How many become closures where what stays a lock may hold the delegate.
    held: usize,
    /// How many become closures for any delegate.
    free: usize,
}

const fn package(
    name: &'static str,
    version: &'static str,
    sections: usize,
    held: usize,
    free: usize,
) -> Package {
    Package { name, version, sections, held, free }
}

const PACKAGES: [Package; 7] = [
    package("memcached", "1.6.18", 200, 164, 90),
    package("redis", "7.0.15", 19, 8, 5),
    package("unbound", "1.17.1", 131, 35, 10),
    package("libzstd", "1.5.4+dfsg2", 41, 23, 23),
    package("sqlite3", "3.40.1", 2, 0, 0),
    package("fuse3", "3.14.0", 56, 43, 4),
    package("db5.3", "5.3.28+dfsg2", 305, 150, 150),
];

fn expected(name: &str) -> &'static Package {
    PACKAGES.iter().find(|package| package.name == name).expect("a package")
}

/// Of memcached's 200 sections 95% of these have to become closures, whatever else changes.
const MEMCACHED: usize = 169;

/// A program that is ready to be analysed.
#[derive(Debug)]
struct Tree {
    path: PathBuf,
    version: String,
}

/// The folder that programs are fetched into.
fn folder() -> PathBuf {
    Path::new(ROOT).join("target/debian")
}

/// A package's program; `None`, which counts as skipped, where it cannot be had.
fn tree(name: &str) -> Option<Tree> {
    let output = Command::new(Path::new(ROOT).join("scripts/transform-programs.sh"))
        .args(["trees", name])
        .env("WORK", folder())
        .env("KEEP", "1")
        .output()
        .expect("a shell");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}", output.status);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().last().unwrap_or_default();
    if let Some(reason) = line.strip_prefix("SKIPPED ") {
        skipped(&format!("Debian's source of {reason}"));
        return None;
    }
    let [_, version, path] =
        line.splitn(3, ' ').collect::<Vec<_>>().try_into().expect("a name, a version and a path");
    Some(Tree { path: PathBuf::from(path), version: version.to_owned() })
}

/// A program, read; `None`, which counts as skipped, where there is no libclang.
fn project(tree: &Path, name: &str, may_hold: bool) -> Option<Project> {
    let mut vocabulary = Vocabulary::default();
    if name == "db5.3" {
        vocabulary.add_from(&Path::new(ROOT).join("scripts/berkeley-db/macros")).expect("its macros");
    }
    let choice = Choice { may_hold, ..Choice::default() };
    match Project::open(tree, vocabulary, choice, &mut |_, _, _| {}) {
        Ok(project) => {
            // Files by which a build has probed its compiler are gone.
            let errors: Vec<_> =
                project.errors.iter().filter(|error| !error.ends_with(": no such file")).collect();
            assert!(errors.is_empty(), "{name}: {errors:#?}");
            Some(project)
        }
        Err(Error::NoLibclang { .. }) => {
            skipped("libclang is not installed");
            None
        }
        Err(error) => panic!("{name}: {error}"),
    }
}

/// A copy of a tree, whose compilation database names the copy, and where the delegates' header is.
fn copied(tree: &Path) -> TempDir {
    let directory = TempDir::new().expect("a directory");
    let copy = directory.path().join("tree");
    let output = Command::new("cp").arg("-a").arg(tree).arg(&copy).output().expect("cp");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let database = copy.join("compile_commands.json");
    let text = std::fs::read_to_string(&database).expect("a database");
    let text = text.replace(tree.to_str().expect("a path"), copy.to_str().expect("a path"));
    let compiler = r#""arguments": ["cc", "#;
    assert!(text.contains(compiler), "{text}");
    let text = text.replace(compiler, &format!("{compiler}\"-I{}\", ", headers().display()));
    std::fs::write(&database, text).expect("written");
    directory
}

/// How many sections there are, and how many of them become closures. Each is one, or says why not.
fn counts(project: &Project) -> (usize, usize) {
    for found in &project.findings {
        let text = std::fs::read_to_string(&found.file).expect("a file");
        let line = text.lines().nth(found.line - 1).unwrap_or_default();
        assert!(!line.trim().is_empty(), "{}:{}", found.file.display(), found.line);
        if let Some(reason) = found.refusal() {
            assert!(reason.to_string().len() > 10, "{}:{}: {reason}", found.file.display(), found.line);
        }
    }
    let all = project.findings.len();
    (all, all - project.findings.iter().filter(|found| found.refusal().is_some()).count())
}

/// What a compiler says of the files that changed, as they are.
fn warnings(tree: &Path, changes: &[Change]) -> BTreeMap<PathBuf, Vec<String>> {
    #[derive(serde::Deserialize)]
    struct Command {
        directory: PathBuf,
        file: PathBuf,
        arguments: Vec<String>,
    }
    let text = std::fs::read_to_string(tree.join("compile_commands.json")).expect("a database");
    let commands: Vec<Command> = serde_json::from_str(&text).expect("a database");
    let mut found = BTreeMap::new();
    for command in commands {
        let path = command.directory.join(&command.file);
        let path = path.canonicalize().unwrap_or(path);
        if found.contains_key(&path) || !changes.iter().any(|change| change.path == path) {
            continue;
        }
        let output = std::process::Command::new("gcc")
            .current_dir(&command.directory)
            .args(&command.arguments[1..])
            .args(["-Wall", "-Wextra", "-fsyntax-only"])
            .output()
            .expect("gcc");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{}: {said}", path.display());
        // Lines move.
        let message = |line: &str| line.split_once(": warning: ").map(|(_, message)| message.to_owned());
        found.insert(path, said.lines().filter_map(message).collect());
    }
    found
}

fn write(changes: &[Change]) {
    for change in changes {
        std::fs::write(&change.path, &change.after).expect("written");
    }
}

/// Compares how many sections there are, and how many become closures, with what is expected of a package.
fn check_counts(project: &Project, tree: &Tree, package: &Package, may_hold: bool, begin: Instant) {
    let (all, closures) = counts(project);
    let (kind, expected) =
        if may_hold { ("with what must be held", package.held) } else { ("for any delegate", package.free) };
    let (name, seconds) = (package.name, begin.elapsed().as_secs_f64());
    eprintln!("{name} {}: {closures} of {all} sections {kind}, {seconds:.1} s", tree.version);
    assert!(closures <= all && all > 0);
    if tree.version == package.version {
        assert_eq!((all, closures), (package.sections, expected), "{name} {kind}");
    }
}

/// Counts what can be converted.
fn check(name: &str, may_hold: bool) {
    let Some(tree) = tree(name) else { return };
    let begin = Instant::now();
    if let Some(project) = project(&tree.path, name, may_hold) {
        check_counts(&project, &tree, expected(name), may_hold, begin);
    }
}

/// Counts, and converts a copy: it compiles with the warnings that it had, and a second run changes nothing.
fn convert(name: &str) {
    let Some(tree) = tree(name) else { return };
    let copy = copied(&tree.path);
    let path = copy.path().join("tree");
    let begin = Instant::now();
    let Some(project) = project(&path, name, true) else { return };
    check_counts(&project, &tree, expected(name), true, begin);
    let changes = project.converted(&mut |_, _, _| {}).expect("converted");
    let before = warnings(&path, &changes);
    write(&changes);
    for (file, after) in warnings(&path, &changes) {
        assert_eq!(after, before[&file], "{}", file.display());
    }
    changes_nothing(&path, name);
}

/// A second run changes nothing.
fn changes_nothing(tree: &Path, name: &str) {
    let project = project(tree, name, true).expect("there is libclang");
    let changes = project.converted(&mut |_, _, _| {}).expect("converted");
    let changes: Vec<&PathBuf> =
        changes.iter().filter(|change| change.changes_text()).map(|change| &change.path).collect();
    assert!(changes.is_empty(), "{name}: a second run changes {changes:?}");
}

fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{said}", output.status);
    output
}

/// Whether tests may take longer than they are worth every time.
fn runs_deeper() -> bool {
    std::env::var_os("LOCKWORK_DEEPER").is_some()
}

#[test]
fn memcached_is_converted_and_built() {
    let Some(tree) = tree("memcached") else { return };
    let copy = copied(&tree.path);
    let path = copy.path().join("tree");
    let begin = Instant::now();
    let Some(project) = project(&path, "memcached", true) else { return };
    let changes = project.converted(&mut |_, _, _| {}).expect("converted");
    check_counts(&project, &tree, expected("memcached"), true, begin);
    let (all, closures) = counts(&project);
    let least = if tree.version == "1.6.18" { MEMCACHED } else { all * 4 / 5 };
    assert!(closures * 100 >= least * 95, "{closures} of {all}");
    write(&changes);
    // A section that gives its lock up in between is one closure, which counts wherever it takes the lock.
    let text: String = changes.iter().map(|change| String::from_utf8_lossy(&change.after)).collect();
    let written = text.matches("\nstatic void *lockwork_").count();
    let whole =
        project.findings.iter().filter(|found| found.refusal().is_none() && !found.section.goes_on()).count();
    assert_eq!(written, whole);
    changes_nothing(&path, "memcached");
    // Its own flags say -Wall -Werror -pedantic: there is no new warning.
    let root = folder().canonicalize().expect("a folder").join("root/usr/include");
    run(Command::new("make")
        .current_dir(&path)
        .args(["-j2", "ACLOCAL=:", "AUTOCONF=:", "AUTOMAKE=:", "AUTOHEADER=:", "CC=gcc"])
        .arg(format!("CPPFLAGS=-I{} -I{}", root.display(), headers().display()))
        .arg(format!("LIBS=-levent {} -lm -ldl -pthread", library().display()))
        .arg("memcached"));
    let version = run(Command::new(path.join("memcached")).arg("-V"));
    assert!(String::from_utf8_lossy(&version.stdout).contains(&tree.version), "{version:?}");
}

#[test]
fn memcacheds_sections_for_any_delegate() {
    check("memcached", false);
}

#[test]
fn redis() {
    check("redis", false);
    convert("redis");
}

/// Its configuration takes half a minute, so that this is only for deeper runs.
#[test]
fn unbound() {
    if runs_deeper() {
        check("unbound", false);
        convert("unbound");
    }
}

#[test]
fn zstd() {
    if runs_deeper() {
        check("libzstd", false);
    }
    convert("libzstd");
}

/// Two sections, neither of which can be converted, in one file of 240,000 lines: only for deeper runs, too.
#[test]
fn sqlite() {
    if runs_deeper() {
        check("sqlite3", true);
    }
}

#[test]
fn fuse() {
    check("fuse3", false);
    convert("fuse3");
}

#[test]
fn berkeley_db() {
    check("db5.3", true);
}
