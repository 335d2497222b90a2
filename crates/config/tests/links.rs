//! Links in documents lead to files and headings that are there, and those of the book's chapters stay within the book.

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the workspace")
}

/// The documents.
fn documents() -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> =
        ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "results/README.md"]
            .map(|name| root().join(name))
            .into();
    for folder in ["book/src", "docs/decisions"] {
        let entries = fs::read_dir(root().join(folder)).expect("a folder of documents");
        let files = entries.map(|entry| entry.expect("an entry").path());
        all.extend(files.filter(|path| path.extension().is_some_and(|extension| extension == "md")));
    }
    all
}

/// The text without blocks of code, in which brackets are no links.
fn prose(text: &str) -> String {
    text.split("```").step_by(2).collect()
}

/// What the links of a text lead to.
fn links(text: &str) -> Vec<String> {
    let text = prose(text);
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    targets.map(|(target, _)| target.to_owned()).collect()
}

/// The name by which a heading is linked to.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().to_lowercase();
    let kept = kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// The headings of a text, as anchors.
fn anchors(text: &str) -> Vec<String> {
    let lines = prose(text);
    lines
        .lines()
        .filter(|line| line.starts_with('#'))
        .map(|line| anchor(line.trim_start_matches('#')))
        .collect()
}

/// What is wrong with a link of a document, if anything.
fn fault(document: &Path, link: &str) -> Option<&'static str> {
    if link.contains("://") {
        return None;
    }
    let (path, heading) = link.split_once('#').unwrap_or((link, ""));
    let target =
        if path.is_empty() { Ok(document.to_owned()) } else { document.parent()?.join(path).canonicalize() };
    let Ok(target) = target else { return Some("is not there") };
    let book = root().join("book/src");
    if document.starts_with(&book) && !target.starts_with(&book) {
        return Some("is not in the book");
    }
    let is_there =
        || fs::read_to_string(&target).is_ok_and(|text| anchors(&text).iter().any(|it| it == heading));
    (!heading.is_empty() && !is_there()).then_some("has no such heading")
}

#[test]
fn links_lead_somewhere() {
    let mut count = 0;
    for document in documents() {
        let text = fs::read_to_string(&document).expect("a document");
        for link in links(&text) {
            count += 1;
            if let Some(fault) = fault(&document, &link) {
                panic!("{}: {link} {fault}", document.display());
            }
        }
    }
    assert!(count > 50, "{count} links");
}

#[test]
fn bad_links_are_found() {
    let chapter = root().join("book/src/study.md");
    for (link, expected) in [
        ("nothing.md", Some("is not there")),
        ("../../README.md", Some("is not in the book")),
        ("auto.md#no-such-heading", Some("has no such heading")),
        ("auto.md#readers-and-writers", None),
        ("https://example.org/", None),
    ] {
        assert_eq!(fault(&chapter, link), expected, "{link}");
    }
    assert_eq!(links("[a](b.md) and `c`\n```\n[d](e.md)\n```\n[f](#g)"), ["b.md", "#g"]);
}
