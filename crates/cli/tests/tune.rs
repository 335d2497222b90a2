//! `lockwork tune`, and `lockwork predict` from a profile, on a small program with one contended lock, under the real library: the
//! release build of this workspace, or what `LOCKWORK_SO` names.

mod common;

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use common::{lockwork, output};
use serde_json::Value;

const SCORE: &str = r"+score=score: (\d+)";

fn library() -> PathBuf {
    let built = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/release/liblockwork.so");
    let path = std::env::var_os("LOCKWORK_SO").map_or_else(built, PathBuf::from);
    path.canonicalize().unwrap_or_else(|error| panic!("{}: {error}; cargo build --release", path.display()))
}

/// The program, compiled once.
fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tune.c");
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("tune-{}", std::process::id()));
        let flags = ["-O1", "-pthread", "-Wall", "-Werror"];
        let status = Command::new("gcc").args(flags).arg("-o").arg(&target).arg(source).status().unwrap();
        assert!(status.success());
        target
    })
}

/// `lockwork tune` in a directory, with a watchdog that is no part of what is tested.
fn tune(directory: &Path, options: &[&str]) -> Command {
    let mut command = lockwork();
    command.env("LOCKWORK_SO", library()).current_dir(directory);
    command.args(["tune", "--json", "--seed", "1", "--runs", "6", "--timeout", "20"]).args(options);
    command
}

/// Runs it to its end.
fn tuned(directory: &Path, options: &[&str], words: &[&str]) -> Value {
    let mut command = tune(directory, options);
    command.arg("--").arg(program()).args(words);
    let (status, stdout, stderr) = output(&mut command);
    assert_eq!(status, Some(0), "{stdout}{stderr}");
    serde_json::from_str(&stdout).unwrap_or_else(|error| panic!("{error}: {stdout}{stderr}"))
}

#[test]
fn a_gain_becomes_a_policy() {
    let directory = tempfile::tempdir().unwrap();
    let options = ["--metric", SCORE, "--locks", "futex,ticket", "--threads", "2,4", "--budget", "60"];
    let found = tuned(directory.path(), &options, &["{threads}", "20"]);
    assert_eq!(found["verdict"], "confirmed", "{found:#}");
    assert_eq!(found["sites"][0]["name"], "hot");
    assert_eq!(found["sites"][0]["rule"], "symbol = \"hot\"");
    assert_eq!(found["sites"].as_array().unwrap().len(), 1, "nobody waits for the other lock");
    assert_eq!(found["best"][0]["lock"], "ticket");
    assert_eq!(found["confirmation"]["gain"]["value"], 1.3);
    assert_eq!(found["confirmation"]["rounds"], 6);
    let policy = std::fs::read_to_string(directory.path().join("lockwork.policy.toml")).unwrap();
    let rule =
        "default = \"passthrough\"\n\n[[rule]]\nsymbol = \"hot\"\nkind = \"mutex\"\nlock = \"ticket\"\n";
    assert!(policy.ends_with(rule), "{policy}");
    for evidence in
        ["# Confirmed: a gain of 1.30× (1.30× – 1.30×) in 6 fresh rounds.", "hot: futex: 1.00×", "seed 1"]
    {
        assert!(policy.contains(evidence), "{evidence}: {policy}");
    }
    // The policy is one, and serves the lock.
    let mut check = lockwork();
    check.args(["policy", "check"]).arg(directory.path().join("lockwork.policy.toml"));
    assert_eq!(output(&mut check).0, Some(0));
    let mut run = lockwork();
    run.env("LOCKWORK_SO", library()).args(["run", "-v", "--policy"]);
    run.arg(directory.path().join("lockwork.policy.toml")).arg("--").arg(program()).args(["2", "1"]);
    let (_, _, said) = output(&mut run);
    assert!(said.contains("served 1 mutexes by ticket"), "{said}");
}

/// Static locks of a stripped program have no name, and any thread may take one first: the policy goes by the lock's address.
#[test]
fn static_locks_of_a_stripped_program_are_told_apart() {
    let directory = tempfile::tempdir().unwrap();
    let address = |name: &str| {
        let output = Command::new("nm").arg(program()).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let line = text.lines().find(|line| line.ends_with(&format!(" {name}"))).expect("a variable");
        u64::from_str_radix(line.split(' ').next().unwrap(), 16).unwrap()
    };
    let hot = format!("stripped+{:#x}", address("hot"));
    let stripped = directory.path().join("stripped");
    assert!(Command::new("strip").arg("-o").arg(&stripped).arg(program()).status().unwrap().success());
    let options = ["--metric", SCORE, "--locks", "futex,ticket", "--threads", "2,4", "--budget", "60"];
    let mut command = tune(directory.path(), &options);
    command.arg("--").arg(&stripped).args(["{threads}", "20"]);
    let (status, stdout, stderr) = output(&mut command);
    assert_eq!(status, Some(0), "{stdout}{stderr}");
    let found: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(found["sites"][0]["name"], *hot, "{found:#}");
    assert_eq!(found["sites"][0]["rule"], format!("symbol = \"{hot}\""));
    assert_eq!(found["verdict"], "confirmed", "{found:#}");
    let mut run = lockwork();
    run.env("LOCKWORK_SO", library()).args(["run", "-v", "--policy"]);
    run.arg(directory.path().join("lockwork.policy.toml")).arg("--").arg(&stripped).args(["2", "1"]);
    let (_, _, said) = output(&mut run);
    assert!(said.contains("served 1 mutexes by ticket"), "{said}");
}

#[test]
fn wall_time_ends_with_a_policy_or_with_none() {
    let directory = tempfile::tempdir().unwrap();
    let options = ["--locks", "futex,mcs-stp", "--budget", "8", "--output", "p.toml"];
    let found = tuned(directory.path(), &options, &["3", "20"]);
    let policy = directory.path().join("p.toml");
    assert_eq!(found["verdict"] == "confirmed", policy.exists(), "{found:#}");
    assert_eq!(found["policy"].is_null(), !policy.exists());
    assert!(found["search"].as_array().is_some_and(|trials| trials.len() == 2), "{found:#}");
}

#[test]
fn a_program_that_does_not_wait_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let found = tuned(directory.path(), &["--budget", "20"], &["1", "20"]);
    assert_eq!(found["verdict"], "nothing_to_gain", "{found:#}");
    let conclusion = found["conclusion"].as_str().unwrap();
    assert!(conclusion.starts_with("No lock of this program is worth changing"), "{conclusion}");
    assert!(std::fs::read_dir(directory.path()).unwrap().next().is_none(), "nothing is left behind");
}

#[test]
fn a_server_is_driven() {
    let directory = tempfile::tempdir().unwrap();
    let options = [
        "--ready",
        "test -e mark",
        "--load",
        "rm mark; sleep 0.05; echo score: 5",
        "--metric",
        SCORE,
        "--locks",
        "futex",
        "--budget",
        "60",
    ];
    let found = tuned(directory.path(), &options, &["3", "1", "serve", "mark"]);
    assert_eq!(found["sites"][0]["name"], "hot", "{found:#}");
    assert_eq!(found["verdict"], "nothing_to_gain", "{found:#}");
    assert_eq!(found["search"][0]["gain"]["value"], 1.0, "{found:#}");
}

#[test]
fn what_cannot_be_measured_is_said() {
    let directory = tempfile::tempdir().unwrap();
    let mut command =
        tune(directory.path(), &["--metric", "speed: (.+)", "--locks", "futex", "--budget", "20"]);
    let (status, _, stderr) = output(command.arg("--").arg(program()).args(["3", "40"]));
    assert_eq!(status, Some(1));
    let last = stderr.lines().last().unwrap();
    assert_eq!(
        last,
        "lockwork: the untouched program failed: no `speed: (.+)` in the output; its last line: score: 100"
    );
    for (options, mend) in [
        (["--load", "true"], "--ready"),
        (["--ready", "80"], "--load"),
        (["--threads", "2"], "put {threads} where"),
        (["--locks", "nonsense"], "nonsense"),
        (["--least-gain", "2000"], "--least-gain"),
        (["--output", "/"], "is a directory"),
    ] {
        let mut command = tune(directory.path(), &options);
        let (status, _, stderr) = output(command.arg("--").arg("true"));
        assert_eq!(status, Some(2), "{options:?}: {stderr}");
        assert!(stderr.contains(mend), "{options:?}: {stderr}");
    }
}

#[test]
fn ctrl_c_keeps_what_is_known() {
    let directory = tempfile::tempdir().unwrap();
    let mut command = tune(directory.path(), &["--locks", "futex,mcs-stp", "--budget", "100"]);
    command.arg("--").arg(program()).args(["3", "1000"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stages = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    assert!(stages.any(|line| line.contains("rung 1 of 1")), "it came to the search");
    let pid = rustix::process::Pid::from_raw(child.id().cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    // Read to its end, lest the pipe fill.
    stages.for_each(drop);
    let mut text = String::new();
    child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{text}");
    let found: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&found["verdict"], &found["interrupted"]), (&Value::from("interrupted"), &Value::from(true)));
    assert!(found["policy"].is_null() && !directory.path().join("lockwork.policy.toml").exists());
}

#[test]
fn a_profile_is_simulated_at_home_and_elsewhere() {
    let directory = tempfile::tempdir().unwrap();
    let mut record = lockwork();
    record.env("LOCKWORK_SO", library()).current_dir(directory.path());
    record.args(["profile", "-o", "run.profile", "--"]).arg(program()).args(["3", "50"]);
    let (status, _, stderr) = output(&mut record);
    assert_eq!(status, Some(0), "{stderr}");
    let predict = |options: &[&str]| {
        let mut command = lockwork();
        command.current_dir(directory.path()).args(["predict"]).args(options);
        output(&mut command)
    };
    let quick =
        ["--host", "e7-4850", "--seeds", "1", "--time", "2", "--no-sensitivity", "--json", "run.profile"];
    let options =
        [&["--machine", "e7-8870-v2", "--threads", "2,4", "--locks", "futex,mcs-stp"], &quick[..]].concat();
    let (status, stdout, stderr) = predict(&options);
    assert_eq!(status, Some(0), "{stderr}");
    let found: Value = serde_json::from_str(&stdout).unwrap();
    assert!(found["host"]["off_by"].as_f64().is_some_and(|off| off > 0.0), "{found:#}");
    assert_eq!(found["host"]["lock"], "futex");
    let ranks = found["ranks"].as_array().unwrap();
    let places: Vec<_> = ranks.iter().map(|rank| (&rank["threads"], &rank["rank"])).collect();
    assert_eq!(serde_json::to_value(places).unwrap(), serde_json::json!([[2, 1], [2, 2], [4, 1], [4, 2]]));
    for (options, mend) in [
        (&["--machine", "nowhere", "run.profile"][..], "unknown machine `nowhere`"),
        (&["--machine", "e7-4850", "absent.profile"], "check the path"),
        (&["--machine", "e7-4850", "--locks", "pthread", "run.profile"], "`futex` has its algorithm"),
    ] {
        let (status, _, stderr) = predict(options);
        assert_eq!(status, Some(2), "{stderr}");
        assert!(stderr.contains(mend), "{stderr}");
    }
}
