//! Kernels in the manner of SPLASH and Phoenix: converted, they compute what they did, under every sort of delegate, and without a
//! race that ThreadSanitizer sees.

mod library;
mod skipped;

use std::path::{Path, PathBuf};
use std::process::Command;

use library::{headers, library};
use lockwork_reengineer::{Choice, Error, Finding, Project, Refusal, Vocabulary};
use skipped::skipped;
use tempfile::TempDir;

const CRATE: &str = env!("CARGO_MANIFEST_DIR");

/// Each program and its files.
const KERNELS: [(&str, &[&str]); 5] = [
    ("radiosity", &["radiosity.c"]),
    ("raytrace", &["raytrace.c"]),
    ("linear_regression", &["linear_regression.c", "map_reduce.c"]),
    ("matrix_multiply", &["matrix_multiply.c", "map_reduce.c"]),
    ("string_match", &["string_match.c", "map_reduce.c"]),
];

/// A lock in place, combiners, servers, and a vote between them.
const DELEGATES: [&str; 6] = ["locked(futex)", "locked(cst-mutex)", "cc-synch", "fc", "rcl", "sanl"];

/// Of each sort one, for what takes longer.
const SORTS: [&str; 4] = ["locked(futex)", "cc-synch", "rcl", "sanl"];

/// The kernels' files in a directory of their own.
fn copied() -> TempDir {
    let directory = TempDir::new().expect("a directory");
    let mut commands = Vec::new();
    for entry in std::fs::read_dir(Path::new(CRATE).join("kernels")).expect("kernels") {
        let entry = entry.expect("an entry");
        let name = entry.file_name().into_string().expect("a name");
        std::fs::copy(entry.path(), directory.path().join(&name)).expect("a copy");
        if name.ends_with(".c") {
            commands.push(serde_json::json!({
                "directory": directory.path(),
                "file": name,
                "arguments": ["cc", "-std=gnu11", "-c", name],
            }));
        }
    }
    let database = serde_json::Value::Array(commands).to_string();
    std::fs::write(directory.path().join("compile_commands.json"), database).expect("written");
    directory
}

/// The kernels, read; `None`, which counts as skipped, where there is no libclang.
fn project(directory: &Path, may_hold: bool) -> Option<Project> {
    let choice = Choice { may_hold, ..Choice::default() };
    match Project::open(directory, Vocabulary::default(), choice, &mut |_, _, _| {}) {
        Ok(project) => {
            assert!(project.errors.is_empty(), "{:#?}", project.errors);
            Some(project)
        }
        Err(Error::NoLibclang { .. }) => {
            skipped("libclang is not installed");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Writes what was converted.
fn write(project: &Project) {
    for change in project.converted(&mut |_, _, _| {}).expect("converted") {
        std::fs::write(&change.path, &change.after).expect("written");
    }
}

/// The kernels, converted for any delegate.
fn converted() -> Option<TempDir> {
    let directory = copied();
    let project = project(directory.path(), false)?;
    write(&project);
    // Also where all names of locks are in a header's macros.
    let is_closure = |found: &&Finding| found.refusal().is_none() && !found.section.goes_on();
    let closures = project.findings.iter().filter(is_closure).count();
    let count = |name: &str| {
        let text = std::fs::read_to_string(directory.path().join(name)).expect("a file");
        text.matches("static void *lockwork_").count()
    };
    assert_eq!(["radiosity.c", "raytrace.c", "map_reduce.c"].map(count).into_iter().sum::<usize>(), closures);
    Some(directory)
}

/// Compiles a kernel without a warning.
fn compile(directory: &Path, name: &str, files: &[&str], options: &[&str], libraries: &[PathBuf]) -> PathBuf {
    let program = directory.join(name);
    let compiled = Command::new("gcc")
        .args(["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread"])
        .args(options)
        .args(files.iter().map(|file| directory.join(file)))
        .args(libraries)
        .args(["-lm", "-ldl", "-o"])
        .arg(&program)
        .output()
        .expect("gcc");
    assert!(compiled.status.success(), "{name}: {}", String::from_utf8_lossy(&compiled.stderr));
    program
}

/// What a kernel prints that runs with four threads. Its size may be left to it.
fn printed(program: &Path, size: Option<&str>, delegate: Option<&str>) -> Result<String, String> {
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", "60", "setarch", "-R"]).arg(program).arg("4").args(size);
    if let Some(delegate) = delegate {
        command.env("LOCKWORK_DELEGATE", delegate);
    }
    let output = command.output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(format!("{}: {}: {said}", program.display(), output.status))
    }
}

/// A size with which a kernel ends soon, also where a server has no CPU of its own.
fn small(name: &str) -> Option<&'static str> {
    Some(match name {
        "radiosity" | "matrix_multiply" => "1",
        "raytrace" => "4",
        _ => "10000",
    })
}

#[test]
fn all_sections_but_those_of_one_macro_are_converted() {
    let directory = copied();
    for may_hold in [false, true] {
        let Some(project) = project(directory.path(), may_hold) else { return };
        let all = project.findings.len();
        let refused: Vec<_> =
            project.findings.iter().filter_map(|found| Some((found, found.refusal()?))).collect();
        for (found, refusal) in &refused {
            let is_barrier = found.section.lock.contains("barrier") && **refusal == Refusal::OneMacro;
            assert!(is_barrier, "{}:{}: {refusal}", found.file.display(), found.line);
        }
        assert_eq!((all, refused.len()), (39, 4), "sections, and those that stay");
    }
}

#[test]
fn converted_kernels_compute_what_they_did_under_every_sort_of_delegate() {
    let original = copied();
    let Some(converted) = converted() else { return };
    let include = format!("-I{}", headers().display());
    for (name, files) in KERNELS {
        let before = compile(original.path(), name, files, &[], &[]);
        let expected = printed(&before, small(name), None).expect("the original runs");
        let after = compile(converted.path(), name, files, &[&include], &[library()]);
        for delegate in DELEGATES {
            assert_eq!(
                printed(&after, small(name), Some(delegate)),
                Ok(expected.clone()),
                "{name} under {delegate}"
            );
        }
    }
}

/// Options for ThreadSanitizer, and where the library's header is.
fn sanitizing() -> [String; 3] {
    ["-fsanitize=thread".to_owned(), "-g".to_owned(), format!("-I{}", headers().display())]
}

/// Whether a program did not start because ThreadSanitizer does not run on this machine, which counts as skipped.
fn is_skipped(outcome: &Result<String, String>) -> bool {
    let is_skipped = outcome.as_ref().is_err_and(|said| said.contains("unexpected memory mapping"));
    if is_skipped {
        skipped("ThreadSanitizer does not run on this machine");
    }
    is_skipped
}

#[test]
fn converted_kernels_have_no_race_that_the_original_has_not() {
    let original = copied();
    let Some(converted) = converted() else { return };
    let options = sanitizing();
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    for (name, files) in KERNELS {
        let size = small(name);
        let before = compile(original.path(), name, files, &options, &[]);
        let before = printed(&before, size, None);
        if is_skipped(&before) {
            return;
        }
        let expected = before.expect("the original has no race");
        // The library, which is not compiled with the sanitizer, tells it what sections happen before what.
        let after = compile(converted.path(), name, files, &options, &[library()]);
        for delegate in SORTS {
            assert_eq!(
                printed(&after, size, Some(delegate)),
                Ok(expected.clone()),
                "{name} under {delegate}"
            );
        }
    }
}

#[test]
fn a_race_of_a_converted_kernel_is_seen() {
    let directory = copied();
    let file = directory.path().join("raytrace.c");
    let text = std::fs::read_to_string(&file).expect("raytrace.c");
    // The first that each thread does, so that nothing can order it by chance.
    let lock = "    LOCK(gm->number_lock)\n    pid = gm->next_number++;\n    UNLOCK(gm->number_lock)\n";
    assert!(text.contains(lock));
    std::fs::write(&file, text.replace(lock, "    pid = gm->next_number++;\n")).expect("written");
    let Some(project) = project(directory.path(), false) else { return };
    write(&project);
    let options = sanitizing();
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let program = compile(directory.path(), "raytrace", &["raytrace.c"], &options, &[library()]);
    for delegate in ["locked(futex)", "cc-synch", "rcl"] {
        let outcome = printed(&program, Some("4"), Some(delegate));
        if is_skipped(&outcome) {
            return;
        }
        assert!(outcome.is_err_and(|said| said.contains("data race")), "{delegate} hides it");
    }
}
