//! From a profile to a patch: `lockwork profile`, then `lockwork transform --from`, on a small program with a hot mutex and a cold one,
//! under the real library: the release build of this workspace, or what `LOCKWORK_SO` names. Skipped where there is no libclang.

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;

use common::{lockwork, output, script, skipped};
use serde_json::Value;

fn library() -> PathBuf {
    let built = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/release/liblockwork.so");
    let path = std::env::var_os("LOCKWORK_SO").map_or_else(built, PathBuf::from);
    path.canonicalize().unwrap_or_else(|error| panic!("{}: {error}; cargo build --release", path.display()))
}

/// The program's source in a directory of its own, with a compilation database.
struct Tree(tempfile::TempDir);

impl Tree {
    fn new() -> Self {
        let tree = Self(tempfile::tempdir().unwrap());
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transform.c");
        std::fs::copy(source, tree.path("hot.c")).unwrap();
        let entry = serde_json::json!([{ "directory": tree.path("."), "file": "hot.c", "command": "cc -g -c hot.c" }]);
        std::fs::write(tree.path("compile_commands.json"), entry.to_string()).unwrap();
        tree
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Compiles it from another directory, as a build does that is out of the tree.
    fn compile(&self, name: &str, flags: &[&str]) {
        let build = self.path("build");
        std::fs::create_dir_all(&build).unwrap();
        let flags =
            ["-O1", "-fno-omit-frame-pointer", "-pthread", "-Wall", "-Wextra", "-Werror"].iter().chain(flags);
        let mut gcc = Command::new("gcc");
        gcc.current_dir(build).args(flags).arg("-o").arg(self.path(name)).arg("../hot.c");
        assert!(gcc.status().unwrap().success());
    }

    /// Runs a program with the recorder on, for as many threads.
    fn record(&self, name: &str, threads: &str) -> PathBuf {
        let file = self.path(&format!("{name}-{threads}.profile"));
        let mut command = lockwork();
        command.env("LOCKWORK_SO", library()).args(["profile", "-o"]).arg(&file);
        command.arg("--").arg(self.path(name)).args([threads, "50"]);
        let (status, stdout, stderr) = output(&mut command);
        assert_eq!(status, Some(0), "{stdout}{stderr}");
        file
    }

    /// What `transform --from` answers, by status, output and errors; `None` where there is no libclang.
    fn transform(&self, profile: &Path, options: &[&str]) -> Option<(Option<i32>, String, String)> {
        let mut command = lockwork();
        command.current_dir(self.0.path()).args(["transform", "--from"]).arg(profile).args(options);
        let (status, stdout, stderr) = output(&mut command);
        if stderr.contains("libclang 17 or newer is needed") {
            skipped(stderr.lines().next().unwrap_or_default());
            return None;
        }
        Some((status, stdout, stderr))
    }
}

fn lines_with(text: &str, what: &str) -> usize {
    text.lines().filter(|line| line.contains(what)).count()
}

#[test]
fn only_the_hot_mutex_is_chosen() {
    let tree = Tree::new();
    tree.compile("hot", &["-g"]);
    let profile = tree.record("hot", "4");
    let Some((status, text, errors)) = tree.transform(&profile, &["--json"]) else { return };
    assert_eq!(status, Some(0), "{errors}");
    let document: Value = serde_json::from_str(&text).unwrap();

    let locks = document["profile"]["locks"].as_array().unwrap();
    let lock = |name: &str| locks.iter().find(|lock| lock["name"] == name).unwrap_or(&Value::Null);
    let hot = lock("hot");
    assert_eq!(hot["chosen"], true, "{hot:#}");
    assert!(hot["section_share"].as_f64().unwrap() > 0.2, "{hot:#}");
    let source = std::fs::read_to_string(tree.path("hot.c")).unwrap();
    let line = |text: &str| source.lines().position(|line| line.contains(text)).unwrap() + 1;
    let by_macro = format!("hot.c:{}", line("WITH_HOT(pthread_mutex_lock)"));
    assert!(hot["taken_at"].as_array().unwrap().iter().any(|at| *at == by_macro), "{by_macro}: {hot:#}");
    assert!(lock("cold")["reason"].as_str().unwrap().contains("below 20.0%"), "{locks:#?}");
    assert!(lock("table")["reason"].as_str().unwrap().contains("reader-writer lock"), "{locks:#?}");

    let sections = document["sections"].as_array().unwrap();
    let mut chosen: Vec<&str> = sections
        .iter()
        .filter(|it| it["chosen"] == true)
        .map(|it| it["function"].as_str().unwrap())
        .collect();
    chosen.sort_unstable();
    assert_eq!(
        chosen,
        ["by_macro", "inlined", "plain", "read_hot"],
        "all sections of the mutex, seen or not"
    );
    assert!(sections.iter().all(|it| it["converted"] == it["chosen"]), "{sections:#?}");

    let (status, text, errors) = tree.transform(&profile, &["--check"]).unwrap();
    assert_eq!(status, Some(0), "{errors}");
    assert_eq!([lines_with(&text, "  chosen  hot "), lines_with(&text, "  left    ")], [1, 2], "{text}");
    assert_eq!(lines_with(&text, ": work: "), 0, "sections that are not chosen are not told: {text}");

    let (status, patch, errors) = tree.transform(&profile, &["--diff"]).unwrap();
    assert_eq!(status, Some(0), "{errors}");
    assert_eq!(lines_with(&errors, "  chosen  hot "), 1, "{errors}");
    assert_eq!(lines_with(&patch, "+static lockwork_delegate_t hot"), 1, "{patch}");
    assert_eq!(lines_with(&patch, "-    pthread_mutex_lock(&cold)"), 0, "{patch}");

    let (status, text, _) = tree.transform(&profile, &["--share", "100"]).unwrap();
    assert_eq!((status, text.lines().count()), (Some(0), 1), "{text}");
    assert!(text.starts_with("Nothing is worth delegating in hot; the most is hot, "), "{text}");
    let (status, patch, errors) = tree.transform(&profile, &["--share", "100", "--diff"]).unwrap();
    assert_eq!((status, patch.as_str(), errors.lines().count()), (Some(0), "", 1), "{errors}");

    // One thread waits for nobody, however long its sections are.
    let (status, text, _) = tree.transform(&tree.record("hot", "1"), &[]).unwrap();
    assert_eq!((status, text.lines().count()), (Some(0), 1), "{text}");
    assert!(text.contains("threads wait for it for less than 1.0% of their time"), "{text}");
}

#[test]
fn one_place_is_converted_in_place_and_all_other_lines_stay() {
    let tree = Tree::new();
    let before = std::fs::read_to_string(tree.path("hot.c")).unwrap();
    let line = before.lines().position(|line| line.contains("pthread_mutex_lock(&cold)")).unwrap() + 1;
    let site = format!("hot.c:{line}");
    let transform = || {
        let mut command = lockwork();
        command.current_dir(tree.0.path()).args(["transform", "--site", &site, "--in-place"]);
        output(&mut command)
    };
    let (status, text, errors) = transform();
    if errors.contains("libclang 17 or newer is needed") {
        skipped(errors.lines().next().unwrap_or_default());
        return;
    }
    assert_eq!(status, Some(0), "{text}{errors}");
    let written =
        "1 files written; 5 sections, 1 can be converted, 4 stay locks; 2 mutexes, 1 become delegates";
    assert!(format!("{text}{errors}").contains(written), "{text}{errors}");
    let after = std::fs::read_to_string(tree.path("hot.c")).unwrap();
    assert_eq!(lines_with(&after, "static lockwork_delegate_t cold"), 1, "{after}");
    assert_eq!(lines_with(&after, "static pthread_mutex_t hot"), 1, "{after}");
    let gone = [
        "static pthread_mutex_t cold = PTHREAD_MUTEX_INITIALIZER;",
        "pthread_mutex_lock(&cold);",
        "cold_sum++;",
        "pthread_mutex_unlock(&cold);",
    ];
    let mut lines = after.lines();
    for kept in before.lines().filter(|line| !gone.contains(&line.trim())) {
        assert!(lines.any(|line| line == kept), "`{kept}` is gone, or in another place:\n{after}");
    }
    let _ = transform();
    assert_eq!(std::fs::read_to_string(tree.path("hot.c")).unwrap(), after, "a second run changes nothing");
}

/// What the converted program is compiled with.
fn with_the_library() -> Vec<String> {
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("../capi/include");
    let archive = library().with_file_name("liblockwork_c.a");
    ["-I", &include.display().to_string(), &archive.display().to_string(), "-lm", "-ldl"]
        .map(str::to_owned)
        .to_vec()
}

/// `lockwork delegate` in a tree, of the program `hot`; `None` where there is no libclang.
fn delegate(tree: &Tree, options: &[&str]) -> Option<(Option<i32>, String, String)> {
    let mut command = lockwork();
    command.env("LOCKWORK_SO", library()).current_dir(tree.0.path()).arg("delegate").args(options);
    command.args(["--program", "./hot", "--", "./measured", "{program}"]);
    let (status, stdout, stderr) = output(&mut command);
    if stderr.contains("libclang 17 or newer is needed") {
        skipped(stderr.lines().next().unwrap_or_default());
        return None;
    }
    Some((status, stdout, stderr))
}

#[test]
fn one_command_goes_from_a_profile_to_a_comparison() {
    let tree = Tree::new();
    tree.compile("hot", &["-g"]);
    script(tree.0.path(), "measured", "#!/bin/sh\n\"$1\" 4 50 && echo measured 1\n");
    let words = ["cd build && gcc -O1 -pthread -Wall -Wextra -Werror -o ../hot ../hot.c".to_owned()];
    let build = [words.as_slice(), &with_the_library()].concat().join(" ");
    let [source, program] = ["hot.c", "hot"].map(|name| std::fs::read(tree.path(name)).unwrap());
    let is_as_before = || {
        assert_eq!(std::fs::read(tree.path("hot.c")).unwrap(), source);
        assert_eq!(std::fs::read(tree.path("hot")).unwrap(), program);
        assert!(!tree.path("hot.before-delegate").exists());
    };

    let test = r#"[ "$LOCKWORK_DELEGATE" != cc-synch ] && {program} 2 5"#;
    let options = ["--build", &build, "--test", test, "--delegates", "locked(futex),cc-synch,fc"];
    let measured = ["--runs", "2", "--metric", "+figure=measured (.*)"];
    let Some((status, text, errors)) = delegate(&tree, &[&options[..], &measured].concat()) else { return };
    assert_eq!(status, Some(0), "{text}{errors}");
    is_as_before();
    assert_eq!(lines_with(&text, "  chosen  hot "), 1, "{text}");
    assert_eq!(lines_with(&errors, "cc-synch is left out: with it --test ends with status 1"), 1, "{errors}");
    let table = std::fs::read_to_string(tree.path("lockwork-delegate/comparison/table.txt")).unwrap();
    for (row, times) in [("pthread ", 1), ("locked(futex) ", 1), ("fc ", 1), ("cc-synch ", 0)] {
        let rows = table.lines().filter(|line| line.trim_start().starts_with(row)).count();
        assert_eq!(rows, times, "{row}: {table}");
    }
    let patch = std::fs::read_to_string(tree.path("lockwork-delegate/delegates.patch")).unwrap();
    assert_eq!(lines_with(&patch, "+static lockwork_delegate_t hot"), 1, "{patch}");
    let converted = std::fs::read(tree.path("hot.delegates")).unwrap();
    assert!(converted.windows(8).any(|bytes| bytes == b"lockwork") && converted != program);

    // With the profile that there is. Whatever goes wrong, sources and program are there as they were.
    let from = ["--from", "lockwork-delegate/profile"];
    let refused = |options: &[&str], expected: &str| {
        let (status, text, errors) = delegate(&tree, &[&from, options].concat()).unwrap();
        assert_ne!(status, Some(0), "{text}{errors}");
        assert!(errors.contains(expected), "{errors}, not {expected}");
        is_as_before();
    };
    let broken = "grep -q lockwork_delegate_t hot.c && echo broken >hot; false";
    refused(&["--build", broken], "the converted program does not build: --build ends with status 1");
    refused(&["--build", "true"], "--build has not made it");
    refused(&["--build", &build, "--test", "false {program}"], "fails its test with every delegate");
    refused(
        &["--build", &build, "--test", "true"],
        "--test runs the program before and after: write {program}",
    );
    refused(&["--build", &build, "--delegates", "nonsense"], "nonsense");
    std::fs::write(tree.path("hot.c.before-delegate"), "").unwrap();
    refused(&["--build", &build], "`lockwork delegate` is at work here, or was killed");

    let nothing = [&from[..], &["--share", "100", "--build", "false"]].concat();
    let (status, text, errors) = delegate(&tree, &nothing).unwrap();
    assert_eq!(status, Some(0), "{errors}");
    assert!(text.starts_with("Nothing is worth delegating in hot; "), "{text}");
    is_as_before();
}

#[test]
fn what_cannot_be_used_is_refused_with_the_mend() {
    let tree = Tree::new();
    tree.compile("hot", &["-g"]);
    tree.compile("bare", &[]);
    tree.compile("stripped", &["-s"]);
    let profile = tree.record("hot", "4");
    let refused = |tree: &Tree, profile: &Path, expected: &str| {
        let Some((status, text, errors)) = tree.transform(profile, &["--check"]) else { return };
        assert_eq!((status, text.as_str(), errors.lines().count()), (Some(2), "", 1), "{text}{errors}");
        assert!(errors.contains(expected), "{errors}, not {expected}");
    };
    let mend = "there is no debug information in bare: compile it with -g and record again";
    refused(&tree, &tree.record("bare", "4"), mend);
    refused(&tree, &tree.record("stripped", "4"), &mend.replace("bare", "stripped"));

    // Another program has a file of the same name, with other functions.
    let other = Tree::new();
    let source = "#include <pthread.h>\npthread_mutex_t m;\nvoid f(void) { pthread_mutex_lock(&m); pthread_mutex_unlock(&m); }\n";
    std::fs::write(other.path("hot.c"), source).unwrap();
    refused(&other, &profile, "in no file of this compilation database: name the program's own by -p");

    let whole = std::fs::read(&profile).unwrap();
    let cut = tree.path("cut.profile");
    std::fs::write(&cut, &whole[..whole.len() / 2]).unwrap();
    refused(&tree, &cut, "it is cut short");
    refused(&tree, &cut, "; record it with `lockwork profile -o FILE -- CMD`");
    refused(&tree, &tree.path("hot.c"), "it is no profile of lockwork's");
    refused(&tree, &tree.path("none"), "no such file or directory; check the path");

    // The text has moved since the program was built.
    let text = std::fs::read_to_string(tree.path("hot.c")).unwrap();
    std::fs::write(tree.path("hot.c"), format!("\n\n\n\n\n{text}")).unwrap();
    refused(&tree, &profile, "the sources have changed since, so record again");
    tree.compile("hot", &["-g"]);
    refused(&tree, &profile, "was built after that was recorded; record again with `lockwork profile`");
}
