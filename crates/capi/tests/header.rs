//! `lockwork.h` declares what the library defines: cbindgen reads the library's source, and the compiler compares both.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::{env, fs};

use cbindgen::{Builder, Config, ExportConfig, ItemType, Language};

const CRATE: &str = env!("CARGO_MANIFEST_DIR");

/// The names of the library's types, and the tags of the header's.
const TYPES: [(&str, &str); 7] = [
    ("Mutex", "lockwork_mutex"),
    ("RwLock", "lockwork_rwlock"),
    ("Condition", "lockwork_cond"),
    ("Delegate", "lockwork_delegate"),
    ("Posted", "lockwork_posted"),
    ("DelegateCondition", "lockwork_delegate_cond"),
    ("Timespec", "timespec"),
];

/// What the library imports from the C library.
const IMPORTED: [&str; 3] = ["__register_atfork", "__errno_location", "secure_getenv"];

/// The declarations that the library's source amounts to. The header's types stand for its own.
fn generated() -> String {
    let owned = |name: &str| name.to_owned();
    let export = ExportConfig {
        item_types: vec![ItemType::Functions, ItemType::Typedefs],
        exclude: IMPORTED.map(owned).to_vec(),
        rename: TYPES.iter().map(|(ours, theirs)| (owned(ours), owned(theirs))).collect(),
        ..ExportConfig::default()
    };
    let config = Config { language: Language::C, export, ..Config::default() };
    // In a library with the recorder other functions stand at some of the entry points, of the same names and arguments.
    let sources = tempfile::tempdir().expect("a directory");
    for entry in fs::read_dir(Path::new(CRATE).join("src")).expect("the sources") {
        let path = entry.expect("the sources").path();
        let text = fs::read_to_string(&path).expect("a source");
        let plain =
            text.replace(r#"cfg_attr(not(feature = "profile"), unsafe(no_mangle))"#, "unsafe(no_mangle)");
        fs::write(sources.path().join(path.file_name().expect("a name")), plain).expect("a file");
    }
    let builder = Builder::new().with_config(config).with_src(sources.path().join("lib.rs"));
    let mut text = Vec::new();
    builder.generate().expect("sources that cbindgen reads").write(&mut text);
    String::from_utf8(text).expect("UTF-8")
}

/// The functions that a text declares.
fn functions(text: &str) -> BTreeSet<&str> {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let starts = text.match_indices("lockwork_").map(|(at, _)| at);
    starts
        .filter(|at| !text[..*at].ends_with(is_of_name))
        .filter_map(|at| {
            let name = text[at..].split(|c| !is_of_name(c)).next()?;
            text[at + name.len()..].starts_with('(').then_some(name)
        })
        .filter(|name| !name.starts_with("lockwork_any"))
        .collect()
}

/// The header, without the words of its comments.
fn header() -> String {
    let path = Path::new(CRATE).join("include/lockwork.h");
    let text = fs::read_to_string(path).expect("the header");
    let mut parts = text.split("/*");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.split_once("*/").map_or("", |(_, behind)| behind))
}

#[test]
fn the_header_declares_what_the_library_defines() {
    let (generated, header) = (generated(), header());
    assert_eq!(functions(&generated), functions(&header));
    assert!(functions(&header).contains("lockwork_delegate_run"), "{header}");

    let directory = tempfile::tempdir().expect("a directory");
    fs::write(directory.path().join("generated.h"), &generated).expect("a file");
    let both = directory.path().join("both.c");
    fs::write(&both, "#include <lockwork.h>\n#include \"generated.h\"\n").expect("a file");
    let output = Command::new("cc")
        .args(["-std=gnu11", "-Wall", "-Werror", "-fsyntax-only", "-I"])
        .arg(Path::new(CRATE).join("include"))
        .arg(&both)
        .output()
        .expect("a C compiler");
    assert!(output.status.success(), "{}\n{generated}", String::from_utf8_lossy(&output.stderr));
}
