//! A test that cannot be run here says so where it is seen: past the harness, which drops what a passing test prints by `println!`,
//! and in the sum that `scripts/test.sh` prints at its end.

mod common;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Makes `a_test_that_can_be_skipped` one that is.
const SKIPPING: &str = "SKIPS_OF_THE_TESTKIT";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}

/// All sources of Rust in or below a directory.
fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("a readable directory") {
        let path = entry.expect("a readable directory").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|kind| kind == "rs") {
            found.push(path);
        }
    }
}

/// Whether a text says that a test is skipped by `print!` or a macro like it.
fn is_swallowed(text: &str) -> bool {
    let said = text.match_indices("\"SKIPPED").map(|(start, _)| text[..start].trim_end());
    said.into_iter().any(|before| ["print!(", "println!("].iter().any(|printing| before.ends_with(printing)))
}

#[test]
fn no_source_leaves_what_is_skipped_to_the_harness() {
    let quoted = "\"SKIPPED: libclang\"";
    for printing in ["println!(", "eprintln!(", "eprint!(\n    "] {
        assert!(is_swallowed(&format!("{printing}{quoted});")), "{printing}");
    }
    assert!(!is_swallowed(&format!("writeln!(io::stderr(), {quoted});")));

    let mut found = Vec::new();
    sources(&root().join("crates"), &mut found);
    let read = |path: &PathBuf| {
        fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    };
    let swallowed: Vec<&PathBuf> = found.iter().filter(|path| is_swallowed(&read(path))).collect();
    assert!(
        swallowed.is_empty(),
        "write these to io::stderr(), as `skipped` of the tests does: {swallowed:#?}"
    );
    assert!(
        found.iter().any(|path| read(path).contains("(io::stderr(), \"SKIPPED")),
        "the sources were not read"
    );
}

#[test]
fn a_test_that_can_be_skipped() {
    if env::var_os(SKIPPING).is_some() {
        common::skipped("a test of the testkit: it was told so");
    }
}

/// What a harness here prints of a skipped test, through the last part of the script.
#[test]
fn the_script_counts_what_is_skipped() {
    let harness = Command::new(env::current_exe().expect("a harness"))
        .args(["--exact", "a_test_that_can_be_skipped"])
        .env(SKIPPING, "1")
        .output()
        .expect("this harness");
    assert!(harness.status.success(), "{}", common::text(&harness));
    let log = tempfile::NamedTempFile::new().expect("a file");
    let both = [&*harness.stderr, &*harness.stdout, &*harness.stderr].concat();
    fs::write(&log, both).expect("written");

    let script = fs::read_to_string(root().join("scripts/test.sh")).expect("the script");
    let function = |name: &str| {
        let start = script.find(&format!("\n{name}() {{\n")).unwrap_or_else(|| panic!("no function {name}"));
        let length = script[start..].find("\n}\n").expect("its end");
        &script[start..start + length + 3]
    };
    let part = [function("died"), function("summary"), "summary\n"].concat();
    let output = Command::new("bash").args(["-euc", &part]).env("LOG", log.path()).output().expect("bash");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", common::text(&output));
    assert!(said.contains("test: 1 passed, 0 failed, 2 skipped"), "{said}");
    assert!(said.contains("test: skipped: a test of the testkit: it was told so (2 times)\n"), "{said}");
}
