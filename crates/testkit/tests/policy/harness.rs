//! Compiles the programs, runs them under a policy, and reads the library's report.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

use crate::common::{lockwork_so, text};

/// Seconds after which a program is killed.
const LIMIT: &str = "120";

/// A directory for programs and policies.
pub(crate) struct Bench(TempDir);

impl Bench {
    pub(crate) fn new() -> Self {
        Self(TempDir::new().expect("a temporary directory"))
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Compiles `source`, a file of `crates/testkit/policy`, with optimisation.
    pub(crate) fn build(&self, output: &str, source: &str, options: &[&str]) -> PathBuf {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("policy");
        let out = self.path(output);
        let compiler = if source.ends_with(".cc") { "g++" } else { "gcc" };
        let mut command = Command::new(compiler);
        command
            .args(["-O2", "-Wall", "-Wextra", "-Werror", "-pthread", "-I"])
            .arg(&sources)
            .arg("-o")
            .arg(&out)
            .arg(sources.join(source))
            .args(options)
            .current_dir(self.0.path());
        succeed(&mut command);
        out
    }

    /// A library beside a program, found by name wherever both are.
    pub(crate) fn build_library(&self, output: &str, source: &str, options: &[&str]) -> PathBuf {
        let options = [&["-shared", "-fPIC"], options].concat();
        self.build(output, source, &options)
    }

    /// Writes a policy file.
    pub(crate) fn policy(&self, text: &str) -> PathBuf {
        let path = self.path("policy.toml");
        std::fs::write(&path, text).expect("a file in the temporary directory");
        path
    }

    /// A program under a policy; `LOCKWORK_VERBOSE` is set.
    pub(crate) fn under(&self, program: &Path, policy: &str) -> Command {
        let policy = self.policy(policy);
        under(program, &[("LOCKWORK_POLICY", path(&policy)), ("LOCKWORK_VERBOSE", "1")])
    }

    /// What the library reports of a program that must succeed under a policy.
    pub(crate) fn report(&self, program: &Path, policy: &str) -> Report {
        Report::of(&mut self.under(program, policy))
    }
}

/// A program under the library with variables for it in an otherwise empty environment. It is killed when it does not
/// end, by a process that is not under the library.
pub(crate) fn under(program: &Path, variables: &[(&str, &str)]) -> Command {
    let mut command = Command::new("timeout");
    command.env_clear().env("PATH", "/usr/bin:/bin");
    command.args(["-s", "KILL", LIMIT, "env"]);
    command.arg(format!("LD_PRELOAD={}", path(&lockwork_so())));
    command.args(variables.iter().map(|(name, value)| format!("{name}={value}")));
    command.arg(program);
    command
}

/// As text, which all paths of the tests are.
pub(crate) fn path(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

/// Runs a command that must succeed.
pub(crate) fn succeed(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}:\n{}", text(&output));
    output
}

/// The lines that the library printed.
#[derive(Debug)]
pub(crate) struct Report {
    /// The line about served and forwarded locks, without its beginning.
    pub(crate) summary: String,
    /// By the line of the rule in the policy, 0 for the default: its lock and how many locks it decided.
    pub(crate) rules: BTreeMap<usize, (String, u64)>,
}

impl Report {
    pub(crate) fn of(command: &mut Command) -> Self {
        let output = succeed(command);
        assert!(String::from_utf8_lossy(&output.stdout).ends_with("done\n"), "{}", text(&output));
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        Self::read(&stderr)
    }

    fn read(stderr: &str) -> Self {
        let mut lines = stderr.lines().map(|line| {
            let line = line.strip_prefix("lockwork: ").unwrap_or_else(|| panic!("{stderr}"));
            line.split_once("]: ").unwrap_or_else(|| panic!("{stderr}")).1
        });
        let summary = lines.next().unwrap_or_else(|| panic!("no report")).to_owned();
        let rules = lines.map(|line| Self::rule(line).unwrap_or_else(|| panic!("{line}"))).collect();
        Self { summary, rules }
    }

    /// `/tmp/x/policy.toml:4: ticket for 12 locks`, or `default` in place of the number.
    fn rule(line: &str) -> Option<(usize, (String, u64))> {
        let (place, decision) = line.split_once("policy.toml:")?.1.split_once(": ")?;
        let place = if place == " default" { 0 } else { place.parse().ok()? };
        let (lock, count) = decision.strip_suffix(" locks")?.split_once(" for ")?;
        Some((place, (lock.to_owned(), count.parse().ok()?)))
    }

    /// Counts in the order of the policy's rules, the default's last.
    pub(crate) fn counts(&self) -> Vec<u64> {
        let default = self.rules.get(&0).map(|(_, count)| *count);
        let rules = self.rules.iter().filter(|(line, _)| **line != 0);
        rules.map(|(_, (_, count))| *count).chain(default).collect()
    }
}

/// A rule of a policy.
pub(crate) fn rule(conditions: &[(&str, &str)], lock: &str) -> String {
    let mut text = "[[rule]]\n".to_owned();
    for (key, value) in conditions.iter().chain(&[("lock", lock)]) {
        text.push_str(&format!("{key} = \"{value}\"\n"));
    }
    text
}

/// The call of `callee` in function `caller` of a file, as the file has it: the offsets of the call and of what
/// follows it. An empty `callee` stands for the only indirect call.
pub(crate) fn call(file: &Path, caller: &str, callee: &str) -> (u64, u64) {
    let output = succeed(Command::new("objdump").args(["-d", "--no-show-raw-insn"]).arg(file));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let header = format!("<{caller}>:");
    let mut lines =
        text.lines().skip_while(|line| !line.ends_with(&header)).skip(1).take_while(|line| !line.is_empty());
    let is_call = |line: &str| {
        let instruction = line.split('\t').nth(1).unwrap_or_default();
        let mnemonic = instruction.split_whitespace().next().unwrap_or_default();
        let calls = mnemonic.starts_with("call") || mnemonic == "bl" || mnemonic == "blr";
        // `call 1060 <callee@plt>`, `call *0x2e5a(%rip)  # 3fe0 <callee@GLIBC_2.2.5>`, `call *%rax`
        calls
            && if callee.is_empty() {
                !instruction.contains('<') || instruction.contains('*')
            } else {
                instruction.contains(&format!("<{callee}@"))
            }
    };
    let address = |line: &str| {
        let digits = line.trim_start().split(':').next().unwrap_or_default();
        u64::from_str_radix(digits, 16).unwrap_or_else(|_| panic!("{line}"))
    };
    let found = lines
        .find(|line| is_call(line))
        .unwrap_or_else(|| panic!("no call of {callee} in {caller}:\n{text}"));
    let next = lines.next().unwrap_or_else(|| panic!("{caller} ends with a call"));
    (address(found), address(next))
}
