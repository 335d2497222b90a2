//! Kernels in the manner of SPLASH and Phoenix: converted, they compute what they did, under every sort of delegate, and without a
//! race that ThreadSanitizer sees.

use std::path::{Path, PathBuf};
use std::process::Command;

use lockwork_reengineer::{Choice, Error, Finding, Project, Refusal, Vocabulary};
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
            eprintln!("SKIPPED: libclang is not installed");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// The kernels, converted for any delegate.
fn converted() -> Option<TempDir> {
    let directory = copied();
    let project = project(directory.path(), false)?;
    for change in project.converted(&mut |_, _, _| {}).expect("converted") {
        std::fs::write(&change.path, &change.after).expect("written");
    }
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

/// The library for C programs: `LOCKWORK_C_DIR`, else the release build of this workspace.
fn library() -> PathBuf {
    let built = || Path::new(CRATE).join("../../target/release");
    let directory = std::env::var_os("LOCKWORK_C_DIR").map_or_else(built, PathBuf::from);
    let library = directory.join("liblockwork_c.a");
    assert!(library.exists(), "{}: run: cargo build --release -p lockwork-capi", library.display());
    library
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
    let include = format!("-I{CRATE}/../capi/include");
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

#[test]
fn converted_kernels_have_no_race_that_the_original_has_not() {
    let original = copied();
    let Some(converted) = converted() else { return };
    let stub = format!("-I{CRATE}/tests/stub");
    let options = ["-fsanitize=thread", "-g", "-D_GNU_SOURCE", "-Wno-missing-field-initializers", &stub];
    for (name, files) in KERNELS {
        let size = small(name);
        let before = compile(original.path(), name, files, &options, &[]);
        let expected = match printed(&before, size, None) {
            Err(said) if said.contains("unexpected memory mapping") => {
                eprintln!("SKIPPED: ThreadSanitizer does not run on this machine");
                return;
            }
            outcome => outcome.expect("the original has no race"),
        };
        let after = compile(converted.path(), name, files, &options, &[]);
        assert_eq!(printed(&after, size, None), Ok(expected), "{name}");
    }
}

#[test]
fn a_race_of_a_kernel_is_seen() {
    let directory = copied();
    let file = directory.path().join("raytrace.c");
    let text = std::fs::read_to_string(&file).expect("raytrace.c");
    // The first that each thread does, so that nothing can order it by chance.
    let lock = "    LOCK(gm->number_lock)\n    pid = gm->next_number++;\n    UNLOCK(gm->number_lock)\n";
    assert!(text.contains(lock));
    std::fs::write(&file, text.replace(lock, "    pid = gm->next_number++;\n")).expect("written");
    let program = compile(directory.path(), "raytrace", &["raytrace.c"], &["-fsanitize=thread", "-g"], &[]);
    let outcome = printed(&program, Some("4"), None);
    match outcome {
        Err(said) if said.contains("unexpected memory mapping") => {
            eprintln!("SKIPPED: ThreadSanitizer does not run on this machine");
        }
        outcome => assert!(outcome.is_err_and(|said| said.contains("data race")), "the sanitizer is of use"),
    }
}
