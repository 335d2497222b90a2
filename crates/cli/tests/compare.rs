//! `lockwork compare` on programs that are fast, slow, hang, crash or say nothing.

mod common;

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use common::{lockwork, output, script};
use serde_json::Value;

/// Does what is asked for under the lock it runs under: `program THREADS LOCK=ACTION…`.
const PROGRAM: &str = r#"#!/bin/sh
threads=$1; shift
lock=${LOCKWORK_LOCK:-pthread}
for rule; do
    case $rule in
    "$lock="*|"$lock-$threads="*) action=${rule#*=} ;;
    esac
done
case $action in
hang) sleep 1000 ;;
crash) kill -SEGV $$ ;;
fail) echo "cannot open database" >&2; exit 3 ;;
mute) echo "no figures today" ;;
*) echo "threads $threads preload ${LD_PRELOAD:-none}"; echo "P99: 12.5 us"; echo "score: ${action:-100} ops/sec" ;;
esac
"#;

struct Bench {
    directory: tempfile::TempDir,
    program: PathBuf,
}

impl Bench {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let program = script(directory.path(), "program", PROGRAM);
        Bench { directory, program }
    }

    fn out(&self) -> PathBuf {
        self.directory.path().join("report")
    }

    /// Compares with `--json`; `rules` are the program's.
    fn compare(&self, options: &[&str], rules: &[&str]) -> (Option<i32>, Value) {
        self.compare_into(&self.out(), options, rules)
    }

    fn compare_into(&self, out: &Path, options: &[&str], rules: &[&str]) -> (Option<i32>, Value) {
        let mut command = lockwork();
        command.args(["compare", "--json", "--out"]).arg(out).args(options);
        command.arg("--").arg(&self.program).arg("{threads}").args(rules);
        let (status, stdout, stderr) = output(&mut command);
        let document =
            serde_json::from_str(&stdout).unwrap_or_else(|error| panic!("{error}: {stdout}{stderr}"));
        (status, document)
    }
}

fn cell<'a>(document: &'a Value, lock: &str, threads: u32, metric: &str) -> &'a Value {
    let cells = document["summary"].as_array().unwrap();
    cells
        .iter()
        .find(|cell| cell["lock"] == lock && cell["threads"] == threads && cell["metric"] == metric)
        .unwrap_or_else(|| panic!("no {lock} at {threads} of {metric}"))
}

const SCORE: &str = r"+score=score: (\d+) ops/sec";

#[test]
fn medians_ratios_and_verdicts() {
    let bench = Bench::new();
    let (status, document) = bench.compare(
        &[
            "--locks",
            "pthread,ttas,mcs-stp,gcr(mcs-stp, active=4)",
            "--threads",
            "2,8",
            "--metric",
            SCORE,
            "--metric",
            r"-p99=P99: ([\d.]+)",
            "--metric",
            "wall",
        ],
        &["ttas-2=50", "ttas-8=200"],
    );
    assert_eq!(status, Some(0));
    assert_eq!(document["baseline"], "pthread");
    let slower = cell(&document, "ttas", 2, "score");
    assert_eq!((&slower["verdict"], &slower["ratio"]["value"]), (&"slower".into(), &0.5.into()));
    assert_eq!(slower["median"]["low"], 50.0);
    let faster = cell(&document, "ttas", 8, "score");
    assert_eq!((&faster["verdict"], &faster["ratio"]["value"]), (&"faster".into(), &2.0.into()));
    assert_eq!(cell(&document, "mcs-stp", 8, "score")["verdict"], "no_difference");
    assert_eq!(cell(&document, "gcr(mcs-stp, active=4)", 8, "score")["verdict"], "no_difference");
    assert_eq!(cell(&document, "pthread", 8, "score")["verdict"], "baseline");
    assert_eq!(cell(&document, "ttas", 8, "p99")["median"]["value"], 12.5);
    assert!(cell(&document, "ttas", 8, "wall")["median"]["value"].as_f64().unwrap() > 0.0);

    let runs = document["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 4 * 2 * (1 + 7));
    for run in runs {
        assert_eq!(run["outcome"], "ok");
        assert!(run["values"]["score"].is_number() && run["values"]["wall"] == run["wall_s"]);
        assert!(run["wall_s"].as_f64().unwrap() > 0.0 && run["max_rss_kib"].as_i64().unwrap() > 0);
        assert!(
            run["competing_cpu_s"].is_number() && run["user_s"].is_number() && run["system_s"].is_number()
        );
    }
    for file in ["report.html", "results.json", "runs.csv", "meta.json", "table.txt"] {
        assert!(bench.out().join(file).metadata().unwrap().len() > 0, "{file}");
    }
    let csv = std::fs::read_to_string(bench.out().join("runs.csv")).unwrap();
    assert_eq!(csv.lines().count(), 1 + runs.len());
    assert!(csv.lines().next().unwrap().ends_with("reason,metric:score,metric:p99,metric:wall,served"));
}

/// Every round has each cell once, whatever the order.
#[test]
fn rounds_are_interleaved_and_repeatable() {
    let bench = Bench::new();
    let options = ["--locks", "pthread,ttas,ticket", "--threads", "1,2", "--runs", "3", "--seed", "42"];
    let order = |document: &Value| -> Vec<String> {
        let runs = document["runs"].as_array().unwrap();
        runs.iter().map(|run| format!("{} {}", run["lock"], run["threads"])).collect()
    };
    let first = order(&bench.compare(&options, &[]).1);
    assert_eq!(first, order(&bench.compare(&options, &[]).1));
    let rounds: Vec<&[String]> = first.chunks(6).collect();
    assert_eq!(rounds.len(), 4);
    for round in &rounds {
        let mut cells = round.to_vec();
        cells.sort();
        cells.dedup();
        assert_eq!(cells.len(), 6);
    }
    assert!(rounds.iter().any(|round| *round != rounds[0]), "the order never changes");
}

#[test]
fn pthread_runs_without_the_library() {
    let bench = Bench::new();
    let out = bench.directory.path().join("seen");
    let mut command = lockwork();
    command.env("LD_PRELOAD", common::harmless_library()).env("LOCKWORK_LOCK", "leftover");
    command.args([
        "compare",
        "--locks",
        "pthread,passthrough",
        "--no-report",
        "--runs",
        "1",
        "--warmup",
        "0",
        "--",
    ]);
    command.args([
        "sh",
        "-c",
        &format!("echo ${{{{LOCKWORK_LOCK-none}}}} ${{{{LD_PRELOAD-none}}}} >> {}", out.display()),
    ]);
    let (status, _, stderr) = output(&mut command);
    assert_eq!(status, Some(0), "{stderr}");
    let seen = std::fs::read_to_string(out).unwrap();
    let mut lines: Vec<&str> = seen.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines[0], "none none");
    assert!(lines[1].starts_with("passthrough /") && lines[1].contains("libc.so"), "{seen}");
}

#[test]
fn collapse_crash_and_silence_are_never_averaged_away() {
    let bench = Bench::new();
    let (status, document) = bench.compare(
        &["--locks", "pthread,ticket,ttas,tas,futex", "--threads", "8", "--timeout", "3", "--metric", SCORE],
        &["ticket=hang", "ttas=crash", "tas=fail", "futex=mute"],
    );
    assert_eq!(status, Some(0));
    let collapsed = cell(&document, "ticket", 8, "score");
    assert_eq!(collapsed["verdict"], "collapsed");
    // The time-out in the warm-up round was the first of two.
    assert_eq!(collapsed["note"], "collapsed (1/1 timed out, gave up)");
    assert!(collapsed["median"].is_null());
    for (lock, reason) in [
        ("ttas", "killed by SIGSEGV"),
        ("tas", "exit status 3; its last line: cannot open database"),
        ("futex", "no `score` in the output; its last line: no figures today"),
    ] {
        let failed = cell(&document, lock, 8, "score");
        assert_eq!((&failed["verdict"], &failed["note"]), (&"failed".into(), &"failed (7/7 runs)".into()));
        assert!(failed["median"].is_null());
        let runs = document["runs"].as_array().unwrap();
        let run = runs.iter().find(|run| run["lock"] == lock).unwrap();
        assert!(run["reason"].as_str().unwrap().starts_with(reason), "{run}");
    }
}

#[test]
fn a_lock_that_sometimes_collapses_has_collapsed() {
    let bench = Bench::new();
    let flaky = script(
        bench.directory.path(),
        "flaky",
        "#!/bin/sh\n[ \"$LOCKWORK_LOCK\" = ttas ] || exit 0\ncd \"$(dirname \"$0\")\"\necho >> count\n\
         [ $(wc -l < count) -ne 3 ] || sleep 1000\n",
    );
    let mut command = lockwork();
    command
        .args(["compare", "--json", "--no-report", "--locks", "pthread,ttas", "--timeout", "4", "--"])
        .arg(&flaky);
    let (_, stdout, _) = output(&mut command);
    let document: Value = serde_json::from_str(&stdout).unwrap();
    let cell = document["summary"].as_array().unwrap().iter().find(|cell| cell["lock"] == "ttas").unwrap();
    assert_eq!(cell["note"], "collapsed (1/7 timed out)");
    assert_eq!((&cell["ok"], &cell["timed_out"], cell["median"].is_null()), (&6.into(), &1.into(), true));
}

#[test]
fn without_a_baseline_value_there_is_no_ratio() {
    let bench = Bench::new();
    let (_, document) =
        bench.compare(&["--locks", "pthread,ttas", "--threads", "2", "--metric", SCORE], &["pthread=mute"]);
    let cell = cell(&document, "ttas", 2, "score");
    assert_eq!((&cell["verdict"], cell["ratio"].is_null()), (&"no_baseline".into(), true));
}

#[test]
fn a_hopeless_comparison_stops_after_one_round() {
    let bench = Bench::new();
    let (status, document) =
        bench.compare(&["--locks", "pthread,ttas", "--threads", "2", "--metric", "nonsense: ([0-9]+)"], &[]);
    assert_eq!(status, Some(1));
    assert_eq!(document["hopeless"], true);
    assert_eq!(document["runs"].as_array().unwrap().len(), 2);
}

#[test]
fn five_rounds_are_too_few_for_a_verdict() {
    let bench = Bench::new();
    let (_, document) = bench.compare(
        &["--locks", "pthread,ttas", "--threads", "2", "--runs", "5", "--metric", SCORE],
        &["ttas=50"],
    );
    let cell = cell(&document, "ttas", 2, "score");
    assert_eq!((&cell["verdict"], &cell["ratio"]["value"]), (&"not_enough_rounds".into(), &0.5.into()));
}

#[test]
fn the_table_says_it_all() {
    let bench = Bench::new();
    let mut command = lockwork();
    command.args(["compare", "--locks", "pthread,ttas,ticket", "--threads", "2", "--timeout", "3"]);
    command.args(["--metric", SCORE, "--out"]).arg(bench.out()).arg("--").arg(&bench.program);
    let (_, stdout, stderr) = output(command.args(["{threads}", "ttas=50", "ticket=hang"]));
    for expected in [
        "score: median, higher is better",
        "× pthread (paired)",
        "0.50×",
        "slower",
        "collapsed (1/1 timed out, gave up)",
        "baseline",
        "ticket at 2 threads (2 runs): still running after 3 s, killed",
        "pthread (2 threads): every lock is glibc's, without the library\n",
        "ttas (2 threads): nothing was heard of what it served",
        "ticket (2 threads): nothing was heard of what it served",
        "Report: ",
        "report.html",
    ] {
        assert!(stdout.contains(expected), "{expected}: {stdout}");
    }
    assert!(!stdout.contains('\x1b') && !stderr.contains('\x1b'), "colours are for terminals");
    assert!(stderr.contains("seed "), "{stderr}");
}

/// Waits, for a minute at most, until `condition` holds.
fn eventually(what: &str, condition: impl Fn() -> bool) {
    let begin = Instant::now();
    while !condition() {
        assert!(begin.elapsed() < Duration::from_secs(60), "{what} never happened");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Gone, or a zombie whose parent has not looked yet.
fn has_ended(pid: &str) -> bool {
    match std::fs::read_to_string(Path::new("/proc").join(pid).join("stat")) {
        Ok(stat) => stat.contains(") Z") || stat.contains(") X"),
        Err(_) => true,
    }
}

#[test]
fn ctrl_c_kills_the_run_and_prints_what_is_there() {
    let bench = Bench::new();
    let pids = bench.directory.path().join("pids");
    let slow = script(
        bench.directory.path(),
        "slow",
        &format!(
            "#!/bin/sh\n[ \"$LOCKWORK_LOCK\" = ttas ] || exit 0\nsleep 1000 &\necho $! $$ > {0}.new\nmv {0}.new {0}\nwait\n",
            pids.display()
        ),
    );
    let child = lockwork()
        .args(["compare", "--json", "--locks", "pthread,ttas", "--warmup", "0", "--seed", "1", "--out"])
        .arg(bench.out())
        .arg("--")
        .arg(&slow)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    eventually("the slow run", || pids.exists());
    let lockwork = rustix::process::Pid::from_raw(child.id().cast_signed()).unwrap();
    rustix::process::kill_process(lockwork, rustix::process::Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["interrupted"], true);
    assert!(document["runs"].as_array().unwrap().iter().all(|run| run["lock"] == "pthread"));
    for pid in std::fs::read_to_string(&pids).unwrap().split_whitespace() {
        eventually("the end of the run's processes", || has_ended(pid));
    }
}

/// The host's speed changes tenfold between rounds, and `ttas` does a tenth more than `pthread` in each of them.
#[test]
fn a_drifting_host_hides_no_difference() {
    let bench = Bench::new();
    let drifting = script(
        bench.directory.path(),
        "drifting",
        "#!/bin/sh\nlock=${LOCKWORK_LOCK:-pthread}\ncd \"$(dirname \"$0\")\"\necho >> \"count-$lock\"\n\
         set -- 1000 100 700 300 150 900 200 500\nshift $(($(wc -l < \"count-$lock\") - 1))\n\
         [ $lock = ttas ] && score=$(($1 * 11 / 10)) || score=$1\necho \"score: $score ops/sec\"\n",
    );
    let mut command = lockwork();
    command.args(["compare", "--json", "--no-report", "--locks", "pthread,ttas,tas", "--metric", SCORE]);
    let (_, stdout, _) = output(command.args(["--", drifting.to_str().unwrap()]));
    let document: Value = serde_json::from_str(&stdout).unwrap();
    let cell = |lock: &str| {
        document["summary"].as_array().unwrap().iter().find(|cell| cell["lock"] == lock).unwrap().clone()
    };
    let faster = cell("ttas");
    assert_eq!((&faster["verdict"], &faster["ratio"]["low"]), (&"faster".into(), &1.1.into()), "{faster}");
    assert_eq!(faster["pairs"], 7);
    let alike = |name| [&faster[name]["low"], &faster[name]["high"]].map(|end| end.as_f64().unwrap());
    let [low, high] = alike("median");
    assert!(low < 0.5 * high, "the medians' intervals overlap by far: {faster}");
    assert_eq!(cell("tas")["verdict"], "no_difference");
}

/// Every lock is compared with itself under the first build.
/// Scores by the delegate that it is told, or, under locks, as it was before it had delegates.
const CONVERTED: &str = r#"#!/bin/sh
echo "$1 $2 under ${LOCKWORK_DELEGATE-no delegate} preload ${LD_PRELOAD:+yes}" >> "$(dirname "$0")/seen"
case "$1 $LOCKWORK_DELEGATE" in
before*) score=100 ;;
*cc-synch) score=200 ;;
*) score=100 ;;
esac
echo "score: $score ops/sec"
"#;

#[test]
fn delegates_are_compared_with_the_program_before() {
    let directory = tempfile::tempdir().unwrap();
    let program = script(directory.path(), "program", CONVERTED);
    let out = directory.path().join("report");
    let original = format!("'{}' before {{threads}}", program.display());
    let compare = |options: &[&str]| {
        let mut command = lockwork();
        command.env("LOCKWORK_DELEGATE", "leftover").args(["compare", "--json", "--out"]).arg(&out);
        command.args(["--runs", "6", "--warmup", "0", "--metric", SCORE]).args(options);
        output(command.arg("--").arg(&program).args(["after", "{threads}"]))
    };
    let delegates = ["--delegates", "cc-synch,locked(mcs-stp)", "--threads", "2"];
    let (status, stdout, stderr) = compare(&[&delegates[..], &["--original", &original]].concat());
    assert_eq!(status, Some(0), "{stderr}");
    let document: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(document["locks"], serde_json::json!(["pthread", "cc-synch", "locked(mcs-stp)"]));
    assert_eq!(document["baseline"], "pthread");
    let [fast, same] = ["cc-synch", "locked(mcs-stp)"].map(|name| cell(&document, name, 2, "score"));
    assert_eq!([&fast["ratio"]["value"], &same["ratio"]["value"]], [2.0, 1.0], "{document:#}");
    assert_eq!([&fast["verdict"], &same["verdict"]], ["faster", "no_difference"], "{document:#}");
    let seen = std::fs::read_to_string(directory.path().join("seen")).unwrap();
    let mut lines: Vec<&str> = seen.lines().collect();
    lines.sort_unstable();
    lines.dedup();
    let expected = [
        "after 2 under cc-synch preload ",
        "after 2 under locked(mcs-stp) preload ",
        "before 2 under leftover preload ",
    ];
    assert_eq!(lines, expected);
    let table = std::fs::read_to_string(out.join("table.txt")).unwrap();
    assert!(table.contains("before {threads}  (under locks, before conversion)"), "{table}");

    // Without the program as it was, delegates are compared with one of them; locks need it.
    let (status, stdout, _) = compare(&[&delegates[..], &["--baseline", "locked(mcs-stp)"]].concat());
    let document: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!((status, &document["baseline"]), (Some(0), &Value::from("locked(mcs-stp)")));
    for (options, mend) in [
        (&["--locks", "mcs-stp"][..], "by --original, or leave --locks out"),
        (&["--original", "'"], "is no command; quote it as for a shell"),
        (
            &["--baseline", "rcl"],
            "baseline `rcl` is not among those compared, cc-synch,locked(mcs-stp); add it there",
        ),
    ] {
        let (status, _, stderr) = compare(&[&delegates[..], options].concat());
        assert_eq!(status, Some(2), "{stderr}");
        assert!(stderr.contains(mend) && stderr.lines().count() == 1, "{stderr}");
    }
    let (status, _, stderr) = compare(&["--delegates", "mcs-stp"]);
    assert_eq!(status, Some(2), "{stderr}");
}

#[test]
fn builds_of_the_library_are_compared_lock_by_lock() {
    let bench = Bench::new();
    let build = |name: &str| {
        let path = bench.directory.path().join(name);
        std::fs::copy(common::harmless_library(), &path).unwrap();
        format!("{}={}", &name[..3], path.display())
    };
    let program = script(
        bench.directory.path(),
        "builds",
        "#!/bin/sh\ncase $LOCKWORK_LOCK-$LD_PRELOAD in\nttas-*new.so) score=200 ;;\nticket-*) score=50 ;;\n*) score=100 ;;\nesac\n\
         echo \"score: $score ops/sec\"\n",
    );
    let mut command = lockwork();
    command.args(["compare", "--json", "--locks", "pthread,ttas,ticket", "--metric", SCORE, "--out"]);
    command.arg(bench.out()).args(["--libraries", &[build("old.so"), build("new.so")].join(",")]);
    let (status, stdout, stderr) = output(command.args(["--", program.to_str().unwrap()]));
    assert_eq!(status, Some(0), "{stderr}");
    let document: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(
        document["locks"],
        serde_json::json!(["pthread", "ttas@old", "ttas@new", "ticket@old", "ticket@new"])
    );
    assert_eq!(document["libraries"][1]["label"], "new");
    let said: Vec<(&str, &str, Option<f64>)> = document["summary"]
        .as_array()
        .unwrap()
        .iter()
        .map(|cell| {
            let text = |name: &str| cell[name].as_str().unwrap();
            (text("baseline"), text("verdict"), cell["ratio"]["value"].as_f64())
        })
        .collect();
    assert_eq!(
        said,
        [
            ("pthread", "baseline", None),
            ("ttas@old", "baseline", None),
            ("ttas@old", "faster", Some(2.0)),
            ("ticket@old", "baseline", None),
            ("ticket@old", "no_difference", Some(1.0)),
        ]
    );
    let table = std::fs::read_to_string(bench.out().join("table.txt")).unwrap();
    assert!(table.contains("× old (paired)") && table.contains("@new is "), "{table}");
}

#[test]
fn what_was_served_is_said_and_is_no_figure() {
    let bench = Bench::new();
    // Its last line of its own has no end, as that of db_bench.
    let program = script(
        bench.directory.path(),
        "served",
        "#!/bin/sh\nlock=${LOCKWORK_LOCK:-pthread}\necho \"score: 100 ops/sec\"\nprintf 'finished 7 ops  \\r' >&2\n\
         [ -z \"$LOCKWORK_VERBOSE\" ] || case $lock in\n\
         ttas) echo \"lockwork: a[7]: served 2 mutexes by ttas, 3 rwlocks by rw-futex; forwarded to glibc 1 mutexes\" ;;\n\
         ticket*) echo \"lockwork: b[8]: served nothing; forwarded to glibc 0 mutexes\" ;;\nesac >&2\n",
    );
    let mut command = lockwork();
    command.args([
        "compare",
        "--locks",
        "pthread,ttas,ticket+pthread,tas",
        "--metric",
        r"=(\d+) \S+",
        "--out",
    ]);
    command.arg(bench.out()).args(["--", program.to_str().unwrap()]);
    let (status, stdout, stderr) = output(&mut command);
    assert_eq!(status, Some(0), "{stderr}");
    for expected in [
        "pthread: every lock is glibc's, without the library",
        "ttas: served 2 mutexes by ttas, 3 rwlocks by rw-futex; forwarded to glibc 1 mutexes",
        "tas: nothing was heard of what it served",
        "Figures of `ttas` are of mutexes and of reader-writer locks. `ttas+pthread` leaves reader-writer locks to glibc",
        "`ticket+pthread` served no lock of the program",
    ] {
        assert!(stdout.contains(expected), "{expected}: {stdout}");
    }
    let csv = std::fs::read_to_string(bench.out().join("runs.csv")).unwrap();
    assert!(csv.lines().skip(1).all(|line| line.contains(",100,")), "{csv}");
    // Only the first round is asked.
    assert_eq!(csv.matches("rw-futex").count(), 1, "{csv}");
}

#[test]
fn a_report_can_be_made_again_from_what_was_measured() {
    let bench = Bench::new();
    let options = ["--locks", "pthread,ttas,ticket", "--threads", "2,8", "--metric", SCORE, "--timeout", "3"];
    bench.compare(
        &[&options[..], &["--commit", "abc123"]].concat(),
        &["ttas=50", "ticket-8=hang", "ticket-2=fail"],
    );
    let made = ["report.html", "results.json", "table.txt"].map(|file| bench.out().join(file));
    let read = || made.each_ref().map(|file| std::fs::read_to_string(file).unwrap());
    let before = read();
    made.iter().for_each(|file| std::fs::remove_file(file).unwrap());
    // From a directory above it.
    let mut command = common::bare_lockwork();
    let (status, stdout, stderr) =
        output(command.arg("compare").arg("--report-from").arg(bench.directory.path()));
    assert_eq!(status, Some(0), "{stderr}");
    assert!(stdout.contains("report.html"), "{stdout}");
    assert_eq!(read(), before);
    assert!(before[2].contains("commit abc123"), "{}", before[2]);

    std::fs::write(bench.out().join("runs.csv"), "lock,threads,outcome\nmcs,2,ok\n").unwrap();
    let (status, _, stderr) =
        output(common::bare_lockwork().arg("compare").arg("--report-from").arg(bench.out()));
    assert_eq!(status, Some(2));
    assert!(stderr.contains("line 2: ") && stderr.contains("no lock `mcs`"), "{stderr}");
}

/// The shares that a table by hand would have, over the comparisons of a directory.
#[test]
fn coverage_of_saved_comparisons() {
    let bench = Bench::new();
    let saved = bench.directory.path().join("saved");
    let options = ["--locks", "pthread,ttas,mcs-stp", "--threads", "2,8", "--runs", "3", "--metric", SCORE];
    for (comparison, rules) in
        [("even", ["ttas-2=98", "ttas-8=99"]), ("uneven", ["ttas-2=50", "mcs-stp-8=200"])]
    {
        let (status, _) = bench.compare_into(&saved.join(comparison), &options, &rules);
        assert_eq!(status, Some(0));
    }
    let (status, stdout, stderr) =
        output(lockwork().args(["compare", "--no-report", "--json", "--coverage"]).arg(&saved));
    assert_eq!(status, Some(0), "{stderr}");
    let document: Value = serde_json::from_str(&stdout).expect("JSON");
    let cells = document["cells"].as_array().expect("an array");
    let mut groups: Vec<_> = cells.iter().map(|cell| cell["group"].as_str().expect("a name")).collect();
    groups.sort_unstable();
    assert_eq!(groups, ["even", "even", "uneven", "uneven"]);
    let locks = document["locks"].as_array().expect("an array");
    // Even: 100, 98, 100 and 100, 99, 100. Uneven: 100, 50, 100 and 100, 100, 200.
    for (name, within_5, worst) in [("pthread", 0.75, 0.5), ("ttas", 0.5, 0.5), ("mcs-stp", 1.0, 1.0)] {
        let lock = locks.iter().find(|lock| lock["lock"] == name).expect("a lock");
        assert_eq!((&lock["within_5"], &lock["worst"]), (&within_5.into(), &worst.into()), "{name}");
    }
    // What is not there is named.
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("avl.json");
    let none = output(lockwork().args(["compare", "--no-report", "--coverage"]).arg(&file));
    assert!(none.0 == Some(2) && none.2.contains("avl.json"), "{}", none.2);
}
