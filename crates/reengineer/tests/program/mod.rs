//! A C program in a directory of its own: converted, compiled before and after, and run.

#[path = "../skipped/mod.rs"]
mod skipped;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use lockwork_reengineer::{Change, Choice, Error, Project, Vocabulary};
use skipped::skipped;
use tempfile::TempDir;

/// Where the delegate is that the tests compile with.
const STUB: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/stub");

/// Makes sure that a second run changes nothing: the program was converted, and is read again.
#[allow(dead_code, reason = "not all tests that have this module convert")]
pub(crate) fn changes_nothing(again: &Project) {
    let changes = again.converted(&mut |_, _, _| {}).expect("converted");
    let changes: Vec<_> = changes.iter().filter(|it| it.changes_text()).map(|it| &it.path).collect();
    assert!(changes.is_empty(), "a second run changes {changes:?}");
}

/// One file and its compilation database.
pub(crate) struct Program {
    directory: TempDir,
}

impl Program {
    /// The program whose only file has this text.
    pub(crate) fn new(text: &str) -> Self {
        let directory = TempDir::new().expect("a directory");
        let program = Self { directory };
        std::fs::write(program.file(), text).expect("written");
        let database = serde_json::json!([{
            "directory": program.path(),
            "file": "program.c",
            "arguments": ["cc", "-std=gnu11", "-D_GNU_SOURCE", "-I", STUB, "-c", "-o", "program.o", "program.c"],
        }]);
        std::fs::write(program.path().join("compile_commands.json"), database.to_string()).expect("written");
        program
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.path().join("program.c")
    }

    /// The program, read; `None`, which counts as skipped, where there is no libclang.
    #[allow(dead_code, reason = "not all tests that have this module read it so")]
    pub(crate) fn project(&self, choice: Choice) -> Option<Project> {
        self.project_with(Vocabulary::default(), choice)
    }

    /// The same, with words of the program's own.
    pub(crate) fn project_with(&self, vocabulary: Vocabulary, choice: Choice) -> Option<Project> {
        let project = self.open(vocabulary, choice)?;
        assert!(project.errors.is_empty(), "{:#?}", project.errors);
        Some(project)
    }

    /// The program, which the compiler finds errors in.
    #[allow(dead_code, reason = "not all tests that have this module have such a program")]
    pub(crate) fn project_with_errors(&self, choice: Choice) -> Option<Project> {
        self.open(Vocabulary::default(), choice)
    }

    fn open(&self, vocabulary: Vocabulary, choice: Choice) -> Option<Project> {
        match Project::open(self.path(), vocabulary, choice, &mut |_, _, _| {}) {
            Ok(project) => Some(project),
            Err(Error::NoLibclang { .. }) => {
                skipped("libclang is not installed");
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// Writes what was converted.
    #[allow(dead_code, reason = "not all tests that have this module write it so")]
    pub(crate) fn write(&self, changes: &[Change]) {
        for change in changes {
            std::fs::write(&change.path, &change.after).expect("written");
        }
    }

    /// Compiles the program without a warning, and runs it.
    pub(crate) fn run(&self) -> Output {
        let compiled = self.compile();
        let text = std::fs::read(self.file()).expect("written");
        let text = String::from_utf8_lossy(&text);
        assert!(compiled.status.success(), "{}\n{text}", String::from_utf8_lossy(&compiled.stderr));
        self.start()
    }

    /// The same; `None` if it does not compile.
    #[allow(dead_code, reason = "not all tests that have this module expect programs that do not compile")]
    pub(crate) fn try_run(&self) -> Option<Output> {
        self.compile().status.success().then(|| self.start())
    }

    /// What the preprocessor makes of the program.
    #[allow(dead_code, reason = "not all tests that have this module look at it")]
    pub(crate) fn preprocessed(&self) -> String {
        let made = Command::new("gcc").args(["-E", "-P", "-I", STUB]).arg(self.file()).output().expect("gcc");
        assert!(made.status.success(), "{made:?}");
        String::from_utf8_lossy(&made.stdout).into_owned()
    }

    /// Compiles the program with a library in place of the tests' delegate, and runs it under the delegate that is named.
    #[allow(dead_code, reason = "not all tests that have this module have the library")]
    pub(crate) fn run_with(&self, headers: &Path, library: &Path, delegate: &str) -> Output {
        let compiled = self.compile_with(headers, &[library.as_os_str(), "-lm".as_ref(), "-ldl".as_ref()]);
        assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
        self.command().env("LOCKWORK_DELEGATE", delegate).output().expect("it runs")
    }

    fn compile(&self) -> Output {
        self.compile_with(STUB.as_ref(), &[])
    }

    fn compile_with(&self, headers: &Path, libraries: &[&OsStr]) -> Output {
        Command::new("gcc")
            .args(["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE", "-pthread", "-I"])
            .arg(headers)
            .arg("-o")
            .arg(self.path().join("program"))
            .arg(self.file())
            .args(libraries)
            .output()
            .expect("gcc")
    }

    fn start(&self) -> Output {
        self.command().output().expect("it runs")
    }

    fn command(&self) -> Command {
        let mut command = Command::new("timeout");
        command.arg("10").arg(self.path().join("program"));
        command
    }
}
