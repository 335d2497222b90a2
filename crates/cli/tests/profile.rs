//! `lockwork profile` and its formats, each opened by what reads it: Go's pprof, inferno, a parser of OpenMetrics and promtool,
//! Chromium; and `lockwork top`. On a small program under the real library: the release build of this workspace, or what
//! `LOCKWORK_SO` names. Where a reader is not installed its test is skipped, and counted.

#[allow(dead_code, reason = "the other test of a page uses all of it")]
#[path = "common/browser.rs"]
mod browser;
mod common;

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use browser::Browser;
use common::{lockwork, output, real_library, skipped, watched};
use serde_json::Value;

/// The program, compiled once.
fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/profile.c");
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("profile-{}", std::process::id()));
        let flags = ["-O1", "-g", "-fno-omit-frame-pointer", "-pthread", "-Wall", "-Werror"];
        let status = Command::new("gcc").args(flags).arg("-o").arg(&target).arg(source).status().unwrap();
        assert!(status.success());
        target
    })
}

/// Records a part of the program under a lock.
fn record(part: &str, lock: &str, file: &Path) {
    let mut command = watched(&["profile", "--lock", lock, "-o"]);
    command.arg(file).arg("--").arg(program()).arg(part);
    let (status, stdout, stderr) = output(&mut command);
    assert_eq!(status, Some(0), "{part}: {stdout}{stderr}");
}

/// A profile of the part `mixed` under glibc's locks, recorded once.
fn mixed() -> &'static Path {
    static FILE: OnceLock<PathBuf> = OnceLock::new();
    FILE.get_or_init(|| {
        let file =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("mixed-{}.profile", std::process::id()));
        record("mixed", "pthread", &file);
        file
    })
}

fn report(file: &Path, options: &[&str]) -> Vec<u8> {
    let mut command = watched(&["profile", "report"]);
    let output = command.arg(file).args(options).output().unwrap();
    assert!(output.status.success(), "{options:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

fn json_of(file: &Path) -> Value {
    serde_json::from_slice(&report(file, &["--format", "json"])).expect("JSON")
}

fn lock<'a>(profile: &'a Value, name: &str) -> &'a Value {
    let mut locks = profile["locks"].as_array().expect("locks").iter();
    locks.find(|lock| lock["name"] == name).unwrap_or_else(|| panic!("no lock {name}: {profile:#}"))
}

/// The first of these that starts with these words.
fn reader(names: &[&str], words: &[&str]) -> Option<String> {
    let starts = |name: &&&str| {
        let status = Command::new(name).args(words).stdout(Stdio::null()).stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    };
    names.iter().find(starts).map(|name| (*name).to_owned())
}

/// Gives a command some bytes, and returns what it prints. It must succeed.
fn filter(command: &mut Command, bytes: &[u8]) -> String {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(bytes).unwrap();
    let output = child.wait_with_output().unwrap();
    let [stdout, stderr] =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(output.status.success(), "{command:?}: {}\n{stdout}{stderr}", output.status);
    stdout
}

#[test]
fn json_has_all_figures_by_their_names() {
    let profile = json_of(mixed());
    for key in ["threads_ns", "cpu_ns", "section_share", "dropped", "sampling"] {
        assert!(!profile[key].is_null(), "{key}");
    }
    let hot = lock(&profile, "hot");
    for key in ["name", "site", "kind", "served_by"] {
        assert!(hot[key].is_string(), "{key}");
    }
    assert_eq!([&hot["kind"], &hot["served_by"]], ["mutex", "pthread"]);
    for key in ["acquisitions", "contended", "owner_switches", "node_crossings"] {
        assert!(hot[key].is_u64(), "{key}");
    }
    for durations in ["wait_ns", "hold_ns", "think_ns"] {
        for key in ["total", "p50", "p99", "max"] {
            assert!(hot[durations][key].is_u64(), "{durations}.{key}");
        }
    }
    assert!(hot["waiters"]["mean"].is_f64() && hot["waiters"]["max"].is_u64());
    let blame = &hot["blame"][0];
    for side in ["waiter", "holder", "release"] {
        let frames = blame[side].as_array().expect(side);
        assert!(frames[0].as_str().unwrap().starts_with("hold (profile.c:"), "{side}: {blame}");
    }
    assert!(blame["ns"].as_u64().unwrap() > 0);
    // A quarter of the threads' acquisitions write.
    let read_share = lock(&profile, "shared")["read_share"].as_f64().unwrap();
    assert!((0.6..0.9).contains(&read_share), "{read_share}");
}

/// The parts of waits add up to them, and are those of the lock.
#[test]
fn waits_are_split() {
    let directory = tempfile::tempdir().unwrap();
    for choice in ["pthread", "mcs-stp", "mcs-spin", "futex"] {
        let file = directory.path().join(choice);
        record("mixed", choice, &file);
        let profile = json_of(&file);
        let wait = &lock(&profile, "hot")["wait_ns"];
        let part = |name: &str| wait[name]["total"].as_u64().unwrap();
        let total = wait["total"].as_u64().unwrap();
        assert_eq!(part("spinning") + part("queued") + part("parked"), total, "{choice}: {wait}");
        match choice {
            "pthread" => assert_eq!(part("parked"), total, "{wait}"),
            "mcs-spin" => assert!(part("parked") == 0 && part("queued") > 0, "{wait}"),
            // Sections take longer than waiters spin.
            _ => assert!(part("parked") > total / 2, "{choice}: {wait}"),
        }
    }
}

#[test]
fn locks_have_the_names_that_the_program_gives_them() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("named");
    record("named", "mcs-stp", &file);
    let profile = json_of(&file);
    for name in ["the cache", "the index"] {
        assert_eq!(lock(&profile, name)["served_by"], "mcs-stp");
    }
}

/// A profile of another program is not left behind as this one's.
#[test]
fn where_nothing_is_recorded_no_profile_is_left() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("profile");
    record("nested", "pthread", &file);
    let mut command = watched(&["profile", "-o"]);
    let (status, _, stderr) = output(command.arg(&file).args(["--", "true"]));
    assert_eq!(status, Some(0), "{stderr}");
    assert!(stderr.contains("nothing was recorded") && !file.exists(), "{stderr}");
}

/// The locks of an array are one row, and one that is still held when the program would destroy it is no other lock afterwards.
#[test]
fn locks_of_one_variable_are_one_row() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("profile");
    record("destroyed", "ticket", &file);
    let profile = json_of(&file);
    let row = lock(&profile, "array");
    assert_eq!((&row["locks"], &row["rule"]), (&Value::from(64), &Value::from("symbol = \"array\"")));
    // The child has a profile of its own.
    assert_eq!(lock(&json_of(&directory.path().join("profile.1")), "array")["locks"], 1);
}

/// C11's functions are not what is to blame for waits.
#[test]
fn who_holds_a_mutex_of_c11_is_a_function_of_the_program() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("profile");
    for choice in ["pthread", "mcs-stp"] {
        record("c11", choice, &file);
        let profile = json_of(&file);
        let blame = lock(&profile, "of_c11")["blame"].as_array().unwrap();
        let names = |edge: &Value| {
            ["waiter", "holder"].map(|side| edge[side][0].as_str().unwrap_or_default().to_owned())
        };
        let (waiters, holders): (Vec<_>, Vec<_>) = blame.iter().map(names).map(|[a, b]| (a, b)).unzip();
        assert!(waiters.iter().all(|name| name.starts_with("hold_c11")), "{choice}: {waiters:?}");
        assert!(holders.iter().any(|name| name.starts_with("hold_c11")), "{choice}: {holders:?}");
    }
}

/// A process makes its file when it uses a lock, and not before: shells and most of what they start never do.
#[test]
fn processes_that_use_no_lock_make_no_file() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("profile");
    let script = "sh -c true; (true); ls -A \"$1\"; exec \"$2\" nested";
    let mut command = watched(&["profile", "-o"]);
    command.arg(&file).args(["--", "sh", "-c", script, "sh"]).arg(directory.path()).arg(program());
    let (status, stdout, stderr) = output(&mut command);
    assert_eq!(status, Some(0), "{stderr}");
    assert!(!stdout.contains(".recording"), "{stdout}");
    assert!(file.exists() && std::fs::read_dir(directory.path()).unwrap().count() == 1);
}

/// A limit on the size of files ends neither the command nor a program that sets it.
#[test]
fn small_files_are_no_reason_to_end() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("profile");
    let limited = "ulimit -f 1000; exec \"$@\"";
    let mut command = watched(&["profile", "-o"]);
    command.arg(&file).args(["--", "sh", "-c", limited, "sh"]).arg(program()).arg("destroyed");
    let (status, _, stderr) = output(&mut command);
    assert_eq!(status, Some(0), "{stderr}");
    assert!(stderr.contains("is not recorded") && stderr.contains("ulimit -f"), "{stderr}");
    let plain = watched(&["profile", "-o"]);
    let mut command = Command::new("sh");
    command.args(["-c", limited, "sh"]).arg(plain.get_program()).args(plain.get_args()).arg(&file);
    command.args(["--", "true"]).env("LOCKWORK_SO", real_library());
    let (status, _, stderr) = output(&mut command);
    assert_eq!(status, Some(2), "{stderr}");
    assert!(stderr.contains("raise that limit (ulimit -f)"), "{stderr}");
    assert!(std::fs::read_dir(directory.path()).unwrap().next().is_none(), "nothing is left behind");
}

/// Time in sections within sections counts once.
#[test]
fn time_in_sections_is_at_most_all_time() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("nested");
    record("nested", "pthread", &file);
    let profile = json_of(&file);
    let held = |name: &str| lock(&profile, name)["hold_ns"]["total"].as_u64().unwrap();
    let [outer, inner] = [held("outer"), held("inner")];
    assert!(inner >= 200_000_000 && outer >= inner, "{outer} {inner}");
    let share = profile["section_share"].as_f64().unwrap();
    let once = outer as f64 / profile["threads_ns"].as_f64().unwrap();
    assert!((share - once).abs() < 0.01 && share <= 1.0, "{share}, {once}");
}

/// Threads without work do not hide a lock that those with work wait for.
#[test]
fn idle_threads_hide_no_lock() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("idle");
    record("idle", "pthread", &file);
    let profile = json_of(&file);
    let [all, busy] = ["wait_share", "busy_wait_share"].map(|key| profile[key].as_f64().unwrap());
    assert!(busy > 4.0 * all && busy <= 1.0, "{all} of all time, {busy} of busy time");
    let text = String::from_utf8(report(&file, &[])).unwrap();
    assert!(text.contains("hot (static in ") && text.contains("of their busy time"), "{text}");
}

#[test]
fn go_opens_pprof() {
    let Some(go) = reader(&["go", "/usr/local/go/bin/go"], &["tool", "pprof", "-h"]) else {
        // Its help has an exit status of its own in some versions.
        return skipped("profiles in pprof's format: no `go tool pprof`");
    };
    let directory = tempfile::tempdir().unwrap();
    for side in ["waiters", "holders"] {
        let file = directory.path().join(side);
        std::fs::write(&file, report(mixed(), &["--format", "pprof", "--side", side])).unwrap();
        let run = |options: &[&str]| {
            let mut command = Command::new(&go);
            command.args(["tool", "pprof"]).args(options).arg(&file);
            command.env("PPROF_TMPDIR", directory.path());
            filter(&mut command, b"")
        };
        let top = run(&["-top", "-sample_index=delay"]);
        assert!(top.contains("Type: delay") && top.contains(" hold"), "{top}");
        let counts = run(&["-top", "-sample_index=contentions"]);
        assert!(counts.contains("Type: contentions"), "{counts}");
        let tags = run(&["-tags"]);
        assert!(tags.contains("lock:") && tags.contains("hot"), "{tags}");
    }
}

#[test]
fn inferno_draws_folded_stacks() {
    for side in ["waiters", "holders"] {
        let text = String::from_utf8(report(mixed(), &["--format", "folded", "--side", side])).unwrap();
        let mut options = inferno::flamegraph::Options::default();
        let mut picture = Vec::new();
        inferno::flamegraph::from_lines(&mut options, text.lines(), &mut picture).expect("folded stacks");
        let picture = String::from_utf8(picture).unwrap();
        assert!(picture.contains("[hot]") && picture.contains(">hold ("), "{picture}");
    }
}

/// A parser that takes nothing but what the specification of OpenMetrics allows.
#[test]
fn openmetrics_are_parsed() {
    const PARSER: &str = "
import sys
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse
for family in parse(sys.stdin.read()):
    print(family.name, family.type, family.unit, sorted({s.labels['lock'] for s in family.samples}))
";
    let Some(python) =
        reader(&["python3", "/usr/bin/python3"], &["-c", "import prometheus_client.openmetrics.parser"])
    else {
        return skipped("OpenMetrics: no python3-prometheus-client");
    };
    let text = report(mixed(), &["--format", "openmetrics"]);
    let families = filter(Command::new(python).args(["-c", PARSER]), &text);
    for family in
        ["lockwork_acquisitions counter ", "lockwork_wait_seconds counter seconds", "lockwork_waiters gauge "]
    {
        assert!(families.contains(family), "{family}: {families}");
    }
    assert!(families.lines().all(|line| line.contains("'hot'") && line.contains("'shared'")), "{families}");
}

#[test]
fn promtool_finds_no_fault() {
    let Some(promtool) = reader(&["promtool"], &["--version"]) else {
        return skipped("metrics by promtool: not installed");
    };
    // It reads the format from before OpenMetrics, in which the help of a counter has the name of its samples.
    let text = report(mixed(), &["--format", "openmetrics"]);
    let mut child = Command::new(promtool)
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(&text).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() || output.status.code() == Some(3), "{}: {said}", output.status);
    for line in said.lines() {
        assert!(line.starts_with("lockwork_") && line.ends_with("_total no help text"), "{said}");
    }
}

/// Perfetto's own reader is no package: the rules of the trace event format that it goes by.
#[test]
fn perfettos_trace_keeps_to_its_format() {
    let trace: Value = serde_json::from_slice(&report(mixed(), &["--format", "perfetto"])).unwrap();
    let events = trace["traceEvents"].as_array().expect("events");
    let mut arrows: BTreeMap<u64, Vec<&Value>> = BTreeMap::new();
    let mut slices: BTreeMap<u64, Vec<(f64, f64)>> = BTreeMap::new();
    for event in events {
        let [name, phase] = ["name", "ph"].map(|key| event[key].as_str().expect("text"));
        let thread = event["tid"].as_u64().expect("a thread");
        assert!(event["pid"].is_u64() && !name.is_empty(), "{event}");
        if phase != "M" {
            assert!(event["ts"].as_f64().is_some_and(|at| at >= 0.0), "{event}");
        }
        match phase {
            "M" => assert!(event["args"]["name"].is_string(), "{event}"),
            "X" => {
                let [at, length] = ["ts", "dur"].map(|key| event[key].as_f64().expect("a number"));
                assert!(length >= 0.0, "{event}");
                slices.entry(thread).or_default().push((at, at + length));
            }
            "s" | "f" => arrows.entry(event["id"].as_u64().expect("a number")).or_default().push(event),
            other => panic!("no phase {other}"),
        }
    }
    assert!(!arrows.is_empty());
    for ends in arrows.values() {
        assert_eq!(ends.iter().map(|end| end["ph"].as_str().unwrap()).collect::<Vec<_>>(), ["s", "f"]);
        assert!(ends[0]["cat"] == ends[1]["cat"] && ends[0]["name"] == ends[1]["name"]);
        // An arrow begins and ends in slices, and goes forward in time.
        for end in ends {
            let at = end["ts"].as_f64().unwrap();
            let on_thread = &slices[&end["tid"].as_u64().unwrap()];
            assert!(on_thread.iter().any(|(from, to)| (*from..=*to).contains(&at)), "{end}");
        }
        assert!(ends[0]["ts"].as_f64() <= ends[1]["ts"].as_f64(), "{ends:?}");
    }
}

/// The Firefox profiler refuses tables whose columns differ in length, and numbers that point nowhere.
#[test]
fn firefoxs_tables_fit_together() {
    let profile: Value = serde_json::from_slice(&report(mixed(), &["--format", "firefox"])).unwrap();
    for thread in profile["threads"].as_array().expect("threads") {
        let length = |table: &str| thread[table]["length"].as_u64().expect(table);
        for table in ["samples", "stackTable", "frameTable", "funcTable"] {
            for (column, values) in thread[table].as_object().expect(table) {
                if let Some(values) = values.as_array() {
                    assert_eq!(values.len() as u64, length(table), "{table}.{column}");
                }
            }
        }
        let strings = thread["stringArray"].as_array().unwrap().len() as u64;
        for (table, column, below) in [
            ("samples", "stack", length("stackTable")),
            ("stackTable", "frame", length("frameTable")),
            ("stackTable", "prefix", length("stackTable")),
            ("frameTable", "func", length("funcTable")),
            ("funcTable", "name", strings),
        ] {
            let values = thread[table][column].as_array().unwrap();
            assert!(
                values
                    .iter()
                    .all(|value| value.is_null() || value.as_u64().is_some_and(|value| value < below))
            );
        }
        assert!(length("samples") > 0);
    }
}

/// In a real browser: drawn, no complaint, no request, and the charts can be read by keyboard.
#[test]
fn the_page_works_in_a_browser() {
    let directory = tempfile::tempdir().unwrap();
    let page = directory.path().join("profile.html");
    std::fs::write(&page, report(mixed(), &["--format", "html"])).unwrap();
    let mut browser = Browser::start();
    let url = browser.open(&page);
    assert_eq!(browser.evaluate("document.title"), format!("Locks of {}", short_name()));
    for what in ["svg.flame g", ".edge", "polyline", "#locks"] {
        let count = browser.evaluate(&format!("document.querySelectorAll('{what}').length"));
        assert!(count.as_u64().unwrap() > 0, "{what}");
    }
    let unlabelled =
        "[...document.querySelectorAll('svg')].filter(svg => !svg.getAttribute('aria-label')).length";
    assert_eq!(browser.evaluate(unlabelled), 0);
    browser.press("Tab", 9);
    assert_eq!(browser.evaluate("document.activeElement.className"), "skip");
    for method in ["Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"] {
        assert_eq!(browser.events_of(method).collect::<Vec<_>>(), Vec::<&Value>::new());
    }
    let asked = browser.events_of("Network.requestWillBeSent");
    let asked: Vec<&str> = asked.filter_map(|event| event["request"]["url"].as_str()).collect();
    assert!(asked.iter().all(|other| *other == url || other.starts_with("data:")), "{asked:?}");
}

/// What the kernel keeps of the program's name.
fn short_name() -> String {
    program().file_name().unwrap().to_string_lossy().chars().take(15).collect()
}

/// A server under `lockwork profile` with these options, once it is up, and its process.
fn serve(options: &[&str], file: &Path) -> (Child, u32) {
    let mut command = lockwork();
    command.env("LOCKWORK_SO", real_library());
    command.arg("profile").args(options).arg("-o").arg(file);
    command.args(["--", "timeout", "--foreground", "--signal=KILL", "60"]).arg(program()).arg("serve");
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "up\n");
    let watchdog = children(child.id())[0];
    let server = children(watchdog)[0];
    (child, server)
}

fn children(process: u32) -> Vec<u32> {
    let list =
        std::fs::read_to_string(format!("/proc/{process}/task/{process}/children")).unwrap_or_default();
    list.split_whitespace().map(|id| id.parse().unwrap()).collect()
}

/// Waits until something holds.
fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// What ends `lockwork profile` ends the program, and the profile is whole.
#[test]
fn a_terminated_profile_is_whole() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("profile");
    let (mut child, _) = serve(&[], &file);
    let status = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert!(status.success());
    drop(child.stdout.take());
    child.wait().unwrap();
    let left: Vec<_> =
        std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(left, std::slice::from_ref(&file));
    assert!(json_of(&file)["locks"].is_array());
}

/// The recorder is switched on and off while the program runs: what is recorded between is in the profile.
#[test]
fn the_recorder_is_switched_at_run_time() {
    let directory = tempfile::tempdir().unwrap();
    for choice in ["pthread", "mcs-stp"] {
        let file = directory.path().join(choice);
        let (mut child, server) = serve(&["--off", "--lock", choice], &file);
        let top = |options: &[&str]| {
            let id = server.to_string();
            let mut command = watched(&["top", &id]);
            let (status, stdout, stderr) = output(command.args(options));
            assert_eq!(status, Some(0), "{options:?}: {stdout}{stderr}");
            stdout
        };
        let picture = top(&["--once"]);
        assert!(picture.contains("The recorder is off.") && !picture.contains(" hot "), "{picture}");
        top(&["--record", "on"]);
        eventually("nothing is recorded", || top(&["--once"]).contains(" hot "));
        top(&["--record", "off"]);
        // The process was the watchdog's child before, and recorded in another file.
        let maps = std::fs::read_to_string(format!("/proc/{server}/maps")).unwrap();
        let recording = maps
            .lines()
            .find_map(|line| Some(PathBuf::from(&line[line.find(directory.path().to_str()?)?..])));
        let recording = recording.expect("the server records");
        let acquired = || lock(&json_of(&recording), "hot")["acquisitions"].as_u64().unwrap();
        // Sections that had begun end.
        std::thread::sleep(Duration::from_millis(100));
        let before = acquired();
        assert!(before > 0);
        std::thread::sleep(Duration::from_millis(200));
        assert_eq!(acquired(), before, "{choice}: it records while it is off");
        top(&["--record", "on"]);
        eventually("it does not go on", || acquired() > before);
        Command::new("kill").args(["-KILL", &server.to_string()]).status().unwrap();
        drop(child.stdout.take());
        child.wait().unwrap();
    }
}

/// A part of the program that ends well when its input does, under plain `lockwork run`.
struct Live {
    child: Child,
    directory: tempfile::TempDir,
}

impl Live {
    fn start(lock: &str, part: &str) -> Self {
        let mut child = watched(&["run", "--lock", lock, "--"])
            .arg(program())
            .arg(part)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "up\n");
        Self { child, directory: tempfile::tempdir().unwrap() }
    }

    /// The process: `lockwork run` becomes the program.
    fn id(&self) -> u32 {
        children(self.child.id())[0]
    }

    /// `lockwork top` of it, which has it record in a directory of its own.
    fn top(&self, options: &[&str]) -> Command {
        let mut command = watched(&["top", &self.id().to_string()]);
        command.args(options).env("TMPDIR", self.directory.path());
        command
    }

    fn picture(&self, options: &[&str]) -> String {
        let (status, stdout, stderr) = output(&mut self.top(options));
        assert_eq!(status, Some(0), "{options:?}: {stdout}{stderr}");
        stdout
    }

    fn recordings(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.directory.path()).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect()
    }

    fn maps(&self) -> String {
        std::fs::read_to_string(format!("/proc/{}/maps", self.id())).unwrap()
    }

    /// Ends the program, which must end well and leave no recording.
    fn end(mut self) {
        drop(self.child.stdin.take());
        assert_eq!(self.child.wait().unwrap().code(), Some(7));
        assert_eq!(self.recordings(), Vec::<PathBuf>::new());
    }
}

/// A program that was started without the recorder can be looked at, has nothing of it before, and ends well after.
#[test]
fn top_looks_at_what_was_started_by_run() {
    for lock in ["pthread+rw-futex", "passthrough", "cst-mutex", "mcs-stp", "gcr(ticket)+cst-rwsem"] {
        let live = Live::start(lock, "serve-until-told");
        assert!(!live.maps().contains(" rw-s "), "{lock}: {}", live.maps());
        let picture = live.picture(&["--once", "--interval", "0.3"]);
        assert!(picture.contains(" hot ") && picture.contains(" shared "), "{lock}: {picture}");
        let [file] = &live.recordings()[..] else { panic!("{lock}: {:?}", live.recordings()) };
        // It is off when nobody looks.
        let acquired = || lock_of(&json_of(file), "hot");
        eventually("it records while nobody looks", || {
            let before = acquired();
            std::thread::sleep(Duration::from_millis(100));
            acquired() == before
        });
        // A second look begins where the first has ended.
        let before = acquired();
        assert!(live.picture(&["--once", "--interval", "0.3"]).contains(" hot "), "{lock}");
        assert!(acquired() > before, "{lock}");
        live.picture(&["--record", "on"]);
        let before = acquired();
        eventually("it does not go on", || acquired() > before);
        live.picture(&["--record", "off"]);
        assert_eq!(live.recordings().len(), 1, "{lock}");
        live.end();
    }
}

fn lock_of(profile: &Value, name: &str) -> u64 {
    lock(profile, name)["acquisitions"].as_u64().unwrap()
}

/// Elsewhere than on a terminal the pictures follow each other, until the reader leaves.
#[test]
fn top_writes_to_a_pipe_until_its_reader_leaves() {
    let live = Live::start("auto", "serve-until-told");
    let mut top = live.top(&["--interval", "0.2"]).stdout(Stdio::piped()).spawn().unwrap();
    let pictures = BufReader::new(top.stdout.take().unwrap());
    let seen = pictures.lines().map_while(Result::ok).filter(|line| line.contains(" hot ")).take(3).count();
    assert_eq!(seen, 3);
    assert_eq!(top.wait().unwrap().code(), Some(0));
    live.end();
}

/// What ends `lockwork top` by a signal leaves the program with the recorder off.
#[test]
fn an_interrupted_top_switches_off() {
    let live = Live::start("mcs-stp", "serve-until-told");
    let mut top = live.top(&["--interval", "0.2"]).stdout(Stdio::piped()).spawn().unwrap();
    let pictures = BufReader::new(top.stdout.take().unwrap());
    assert!(pictures.lines().map_while(Result::ok).any(|line| line.contains(" hot ")));
    let watched = children(top.id())[0].to_string();
    Command::new("kill").args(["-TERM", &watched]).status().unwrap();
    top.wait().unwrap();
    let [file] = &live.recordings()[..] else { panic!("{:?}", live.recordings()) };
    eventually("it records while nobody looks", || {
        let before = lock_of(&json_of(file), "hot");
        std::thread::sleep(Duration::from_millis(100));
        lock_of(&json_of(file), "hot") == before
    });
    live.end();
}

/// Commands that ask at once are answered by one recording.
#[test]
fn tops_that_come_together_share_a_recording() {
    for _ in 0..5 {
        let live = Live::start("auto", "serve-until-told");
        let options = ["--once", "--interval", "0.3"];
        let tops: Vec<Child> =
            (0..4).map(|_| live.top(&options).stdout(Stdio::piped()).spawn().unwrap()).collect();
        for top in tops {
            let output = top.wait_with_output().unwrap();
            let picture = String::from_utf8(output.stdout).unwrap();
            assert_eq!(output.status.code(), Some(0), "{picture}");
            // One that ended may have switched it off for the others.
            assert!(picture.contains(" hot ") || picture.contains("The recorder is off"), "{picture}");
        }
        assert_eq!(live.recordings().len(), 1);
        live.end();
    }
}

/// A program that is killed while somebody looks leaves no recording.
#[test]
fn the_recording_of_a_killed_program_goes_with_the_top_that_asked() {
    let mut live = Live::start("mcs-stp", "serve-until-told");
    let mut top = live.top(&["--interval", "0.2"]).stdout(Stdio::piped()).spawn().unwrap();
    let pictures = BufReader::new(top.stdout.take().unwrap());
    let mut lines = pictures.lines().map_while(Result::ok);
    assert!(lines.any(|line| line.contains(" hot ")));
    Command::new("kill").args(["-KILL", &live.id().to_string()]).status().unwrap();
    live.child.wait().unwrap();
    lines.for_each(drop);
    assert_eq!(top.wait().unwrap().code(), Some(0));
    assert_eq!(live.recordings(), Vec::<PathBuf>::new());
}

/// A program that uses no lock answers to no question, which is taken back.
#[test]
fn top_of_a_program_that_uses_no_lock_says_so() {
    let live = Live::start("auto", "uses-none");
    let picture = live.picture(&["--once", "--interval", "0.1"]);
    assert!(picture.contains("has used no lock since it was asked to record"), "{picture}");
    assert!(!live.maps().contains(" rw-s "));
    live.end();
}

/// One line says what is wrong and what to do.
#[test]
fn what_top_cannot_look_at_is_said_in_one_line() {
    let refused = |id: u32| {
        let (status, stdout, stderr) = output(&mut watched(&["top", &id.to_string(), "--once"]));
        assert_eq!((status, stdout.as_str(), stderr.lines().count()), (Some(2), "", 1), "{stderr}");
        stderr
    };
    let mut plain = Command::new("sleep").arg("60").spawn().unwrap();
    let id = plain.id();
    // It is a shell's fork before it is another program.
    eventually("it does not start", || {
        std::fs::read_to_string(format!("/proc/{id}/comm")).is_ok_and(|name| name == "sleep\n")
    });
    let line = refused(id);
    plain.kill().unwrap();
    plain.wait().unwrap();
    assert!(line.contains("does not run under lockwork; start it by `lockwork run -- CMD`"), "{line}");
    let line = refused(id);
    assert!(line.contains(&format!("there is no process {id}")), "{line}");
    // Where there is no room, or a limit, the program goes on without.
    let live = Live::start("auto", "serve-until-told");
    let (status, _, line) = output(live.top(&["--once"]).env("TMPDIR", "/nowhere"));
    assert_eq!((status, line.lines().count()), (Some(2), 1), "{line}");
    assert!(line.contains("cannot record in `/nowhere`") && line.contains("TMPDIR"), "{line}");
    let limit = |size: &str| {
        let id = live.id().to_string();
        assert!(Command::new("prlimit").args(["--pid", &id, size]).status().unwrap().success());
    };
    limit("--fsize=1000:");
    let (status, _, line) = output(&mut live.top(&["--once"]));
    assert_eq!((status, line.lines().count()), (Some(2), 1), "{line}");
    assert!(line.contains("may not make files of 30 MB"), "{line}");
    limit("--fsize=unlimited:");
    assert!(live.picture(&["--once", "--interval", "0.3"]).contains(" hot "));
    live.end();
}
