//! What documents say of locks is generated from the registry, and checked here. To write it anew:
//! `LOCKWORK_REGENERATE=1 cargo test -p lockwork-locks --test generated`.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use lockwork_locks::delegation::locked;
use lockwork_locks::describe::{Descriptor, Waiting};
use lockwork_locks::registry::{Entry, WRAPPERS, delegates, mutexes, rwlocks};

const AGAIN: &str = "LOCKWORK_REGENERATE=1 cargo test -p lockwork-locks --test generated";

/// The ways to wait that a lock has that has them all.
const ALL_WAYS: [Waiting; 5] =
    [Waiting::Spin, Waiting::SpinThenPark, Waiting::Park, Waiting::Yield, Waiting::Aware];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Compares a file with what it should be, or writes that.
fn check(path: &str, wanted: &str) {
    let path = root().join(path);
    if std::env::var_os("LOCKWORK_REGENERATE").is_some() {
        fs::write(&path, wanted).expect("a file to write");
        return;
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    assert!(found == wanted, "{} is not what the registry says; run: {AGAIN}", path.display());
}

/// A text in which the part between the markers of `name` is replaced.
fn between_markers(text: &str, name: &str, part: &str) -> String {
    let (begin, end) = (format!("<!-- generated: {name} -->\n"), "<!-- end of what is generated -->");
    let (before, rest) = text.split_once(&begin).unwrap_or_else(|| panic!("no marker `{}`", begin.trim()));
    let (_, after) = rest.split_once(end).expect("the end of what is generated");
    format!("{before}{begin}{part}{end}{after}")
}

/// An algorithm and its entries.
struct Algorithm {
    descriptor: &'static Descriptor,
    entries: Vec<&'static Entry>,
}

impl Algorithm {
    /// Those of some entries, in the order of the table.
    fn of(entries: impl Iterator<Item = &'static Entry>) -> Vec<Self> {
        let mut all: Vec<Self> = Vec::new();
        for entry in entries {
            match all.iter_mut().find(|known| known.descriptor.name == entry.descriptor.name) {
                Some(known) => known.entries.push(entry),
                None => all.push(Self { descriptor: entry.descriptor, entries: vec![entry] }),
            }
        }
        all
    }

    fn has_all_ways(&self) -> bool {
        self.entries.iter().map(|entry| entry.waiting).eq(ALL_WAYS)
    }

    fn names(&self) -> String {
        if self.has_all_ways() {
            return format!("`{}-*`", self.descriptor.name);
        }
        let names: Vec<_> = self.entries.iter().map(|entry| format!("`{}`", entry.name)).collect();
        names.join(", ")
    }

    fn waiting(&self) -> String {
        if self.has_all_ways() {
            return "any".to_owned();
        }
        let ways: Vec<_> = self.entries.iter().map(|entry| entry.waiting.word()).collect();
        ways.join(", ")
    }
}

/// A sentence as it stands in a table.
fn cell(text: &str) -> String {
    text.trim().trim_end_matches('.').replace('|', "\\|")
}

fn bytes(lock: &Descriptor) -> String {
    let holder = if lock.holder_node { " and the holder" } else { "" };
    match lock.bytes_per_waiter {
        0 => lock.bytes.to_string(),
        waiter => format!("{}, {waiter} for a waiter{holder}", lock.bytes),
    }
}

fn wrappers(are_mutexes: bool) -> impl Iterator<Item = &'static Descriptor> {
    WRAPPERS.iter().map(|(_, wrapper)| *wrapper).filter(move |wrapper| wrapper.is_mutex() == are_mutexes)
}

fn mutex_table() -> String {
    let mut text =
        "| Lock | Family | Waiting | Order | Bytes | Avoid |\n|---|---|---|---|---|---|\n".to_owned();
    for algorithm in Algorithm::of(mutexes()) {
        let (lock, waiting) = (algorithm.descriptor, algorithm.waiting());
        let row = (algorithm.names(), lock.family, lock.order, bytes(lock), cell(lock.avoid));
        let _ = writeln!(text, "| {} | {} | {waiting} | {} | {} | {} |", row.0, row.1, row.2, row.3, row.4);
    }
    for lock in wrappers(true) {
        let (name, family, order, avoid) = (lock.name, lock.family, lock.order, cell(lock.avoid));
        let _ =
            writeln!(text, "| `{name}(L)` | {family} | as `L` | {order} | `L` + {} | {avoid} |", lock.bytes);
    }
    text
}

fn rwlock_table() -> String {
    let mut text =
        "| Lock | Favours | Waiting | Order | Bytes | Avoid |\n|---|---|---|---|---|---|\n".to_owned();
    for algorithm in Algorithm::of(rwlocks()) {
        let (lock, waiting) = (algorithm.descriptor, algorithm.waiting());
        let favour = lock.rw().expect("a reader-writer lock").favour;
        let row = (algorithm.names(), lock.order, bytes(lock), cell(lock.avoid));
        let _ = writeln!(text, "| {} | {favour} | {waiting} | {} | {} | {} |", row.0, row.1, row.2, row.3);
    }
    for lock in wrappers(false) {
        let (name, order, avoid) = (lock.name, lock.order, cell(lock.avoid));
        let _ =
            writeln!(text, "| `{name}(L)` | as `L` | as `L` | {order} | `L` + {} | {avoid} |", lock.bytes);
    }
    text
}

/// Families with their locks, in rows that fit a terminal.
fn family_table() -> String {
    /// Columns for the names of a row.
    const WIDTH: usize = 76;
    let mut families: Vec<(String, Vec<String>)> = Vec::new();
    let mut add = |family: String, names: String| match families.iter_mut().find(|known| known.0 == family) {
        Some((_, all)) => all.push(names),
        None => families.push((family, vec![names])),
    };
    for algorithm in Algorithm::of(mutexes()) {
        add(algorithm.descriptor.family.to_string(), algorithm.names());
    }
    for lock in wrappers(true) {
        add("around any of these".to_owned(), format!("`{}(L)`", lock.name));
    }
    for algorithm in Algorithm::of(rwlocks()) {
        add("reader-writer".to_owned(), algorithm.names());
    }
    for lock in wrappers(false) {
        add("reader-writer".to_owned(), format!("`{}(L)`", lock.name));
    }
    for lock in delegates() {
        add(format!("delegates, {}", lock.descriptor.family), format!("`{}`", lock.name));
    }
    add("delegates, in place".to_owned(), "`locked(L)`".to_owned());
    let mut text = "| Family | Locks |\n|---|---|\n".to_owned();
    for (family, names) in &families {
        let mut rows = vec![String::new()];
        for name in names {
            let row = rows.last_mut().expect("at least one row");
            match row.len() {
                0 => row.push_str(name),
                length if length + 2 + name.len() <= WIDTH => *row += &format!(", {name}"),
                _ => rows.push(name.clone()),
            }
        }
        for (index, row) in rows.iter().enumerate() {
            let _ = writeln!(text, "| {} | {row} |", if index == 0 { family } else { "" });
        }
    }
    text
}

#[test]
fn the_table_of_the_readme() {
    let text = fs::read_to_string(root().join("README.md")).expect("README.md");
    check("README.md", &between_markers(&text, "locks", &family_table()));
}

/// What it takes of memory, as a sentence.
fn memory(lock: &Descriptor) -> String {
    let holder = if lock.holder_node { " and the holder" } else { "" };
    match (lock.bytes, lock.bytes_per_waiter) {
        // Wrappers, and the delegate that is a lock held around sections, are as large as what is inside.
        (0, 0) => "what `L` takes".to_owned(),
        (own, 0) if lock.largest_inner > 0 => format!("what `L` takes, and {own} bytes"),
        (own, waiter) if lock.largest_inner > 0 => {
            format!("what `L` takes, and {own} bytes; for a waiter {waiter}, or what it takes in `L`")
        }
        (own, 0) => format!("{own} bytes"),
        (own, waiter) => format!("{own} bytes, and {waiter} for a waiter{holder}"),
    }
}

/// All that is known of a lock, as a section of the book.
fn section(text: &mut String, names: &str, lock: &Descriptor) {
    let _ = writeln!(text, "\n### {names}\n\n{}.\n", cell(lock.summary));
    let (family, fairness, memory) = (lock.family.to_string(), lock.fairness().to_string(), memory(lock));
    let (timed, favours) = (lock.timed.to_string(), lock.rw().map(|facts| facts.favour.to_string()));
    for (name, value) in [
        ("Family", family.as_str()),
        ("Favours", favours.as_deref().unwrap_or_default()),
        ("Order", &fairness),
        ("Memory", &memory),
        ("Timed", &timed),
        ("Reading again", lock.rw().map_or("", |facts| facts.recursion)),
        ("Properties", lock.properties),
        ("Avoid", lock.avoid),
        ("Deviations", lock.deviations),
        ("Publication", lock.citation.text),
    ] {
        if !value.is_empty() {
            let _ = writeln!(text, "- {name}: {}.", cell(value));
        }
    }
    if !lock.knobs.is_empty() {
        let _ = writeln!(text, "\n| Knob | Default | Range | Meaning |\n|---|---|---|---|");
    }
    for knob in lock.knobs {
        let range = if knob.names.is_empty() {
            format!("{} to {}", knob.low, knob.high)
        } else {
            knob.names.join(", ")
        };
        let row = (knob.name, cell(knob.default), cell(knob.meaning));
        let _ = writeln!(text, "| `{}` | {} | {range} | {} |", row.0, row.1, row.2);
    }
}

#[test]
fn the_chapter_of_the_book() {
    let mut text = format!(
        "# All locks\n\nGenerated from the locks' own descriptions; `lockwork info LOCK` prints the same. To write it anew: \
         `{AGAIN}`.\n\nA *NUMA node* is what the kernel calls so; where a node has several groups of cores with a last-level cache of \
         their own, of four CPUs or more, as on chiplet machines, it is that group, as if the firmware said *L3 cache as NUMA domain*. \
         `lockwork doctor` says how many there are. `hmcs` and `ahmcs` know both levels.\n\n## Mutexes\n\n{}",
        mutex_table()
    );
    for algorithm in Algorithm::of(mutexes()) {
        section(&mut text, &algorithm.names(), algorithm.descriptor);
    }
    for lock in wrappers(true) {
        section(&mut text, &format!("`{}(L)`", lock.name), lock);
    }
    let _ = write!(text, "\n## Reader-writer locks\n\n{}", rwlock_table());
    for algorithm in Algorithm::of(rwlocks()) {
        section(&mut text, &algorithm.names(), algorithm.descriptor);
    }
    for lock in wrappers(false) {
        section(&mut text, &format!("`{}(L)`", lock.name), lock);
    }
    text.push_str("\n## Delegates\n");
    for lock in delegates() {
        section(&mut text, &format!("`{}`", lock.name), lock.descriptor);
    }
    section(&mut text, "`locked(L)`", &locked::DESCRIPTOR);
    check("book/src/locks.md", &text);
}

/// The entries of a bibliography: their keys and the text that follows each.
fn publications(bibliography: &str) -> Vec<(&str, &str)> {
    let entries = bibliography.split("\n@").skip(1);
    entries.filter_map(|entry| entry.split_once('{')?.1.split_once(',')).collect()
}

/// A field of such an entry, `title = {…}`, without its braces.
fn field(entry: &str, name: &str) -> String {
    let start = entry
        .match_indices(name)
        .find_map(|(at, _)| entry[at + name.len()..].trim_start().strip_prefix("= {"))
        .unwrap_or_default();
    let mut depth = 1;
    let inside = start.chars().take_while(|&c| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        depth > 0
    });
    inside.filter(|c| !matches!(c, '{' | '}' | '\\')).collect()
}

/// Letters and digits alone, in small letters: titles differ in case and in dashes.
fn plain(text: &str) -> String {
    text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

#[test]
fn keys_of_the_bibliography_are_unique() {
    let text = fs::read_to_string(root().join("REFERENCES.bib")).expect("REFERENCES.bib");
    let mut keys: Vec<_> = publications(&text).into_iter().map(|(key, _)| key).collect();
    assert!(keys.len() > 40, "{} entries", keys.len());
    keys.sort_unstable();
    for two in keys.windows(2) {
        assert_ne!(two[0], two[1], "two publications have one key");
    }
}

#[test]
fn every_citation_is_in_the_bibliography() {
    let text = fs::read_to_string(root().join("REFERENCES.bib")).expect("REFERENCES.bib");
    let publications = publications(&text);
    let all = mutexes()
        .chain(rwlocks())
        .chain(delegates())
        .map(|entry| entry.descriptor)
        .chain(wrappers(true))
        .chain(wrappers(false));
    for lock in all {
        let (key, cited) = (lock.citation.key, lock.citation.text);
        let found = publications.iter().find(|(known, _)| *known == key);
        let (_, entry) = found.unwrap_or_else(|| panic!("{}: no `{key}`", lock.name));
        let title = plain(&field(entry, "title"));
        assert!(!title.is_empty(), "`{key}` has no title");
        // What is cited may leave out the second half of a title.
        let named = cited.split_once(": ").map_or("", |(_, rest)| rest.split(". ").next().unwrap_or(rest));
        let is_begun_by = |named: &str| !named.is_empty() && title.starts_with(named);
        let same = plain(cited).contains(&title) || is_begun_by(&plain(named));
        assert!(same, "{}: `{key}` is `{title}`, not `{cited}`", lock.name);
    }
}
