//! `lockwork sim`: what it prints, writes and refuses.

mod common;

use std::fs;

use common::{lockwork, output, skipped};
use serde_json::Value;

/// Exit status, stdout and stderr of `lockwork sim` with these arguments.
fn sim(arguments: &[&str]) -> (i32, String, String) {
    let (status, stdout, stderr) = output(lockwork().arg("sim").args(arguments));
    (status.expect("it ends by itself"), stdout, stderr)
}

const SMALL: [&str; 10] =
    ["--locks", "futex,mcs-spin", "--threads", "1,4", "--seeds", "2", "--time", "0.2", "--delay", "500"];

fn small(more: &[&str]) -> (i32, String, String) {
    sim(&[&SMALL, more].concat())
}

#[test]
fn a_sweep_gives_the_same_figures_each_time() {
    let figures = || {
        let (status, stdout, stderr) = small(&["--json", "--no-report"]);
        assert_eq!(status, 0, "{stderr}");
        let documents: Value = serde_json::from_str(&stdout).expect("JSON");
        let document = documents[0].clone();
        assert!(document["simulated"].as_str().is_some_and(|machine| machine.contains("40 CPUs on 4 nodes")));
        let runs = document["runs"].as_array().expect("an array").clone();
        assert_eq!(runs.len(), 2 * 2 * 2);
        runs.iter().map(|run| run["values"].clone()).collect::<Vec<_>>()
    };
    let first = figures();
    assert!(
        first.iter().all(|values| values["throughput"].as_f64().is_some_and(|rate| rate > 0.0)),
        "{first:?}"
    );
    assert_eq!(first, figures());
}

#[test]
fn auto_is_the_mutex_though_a_delegate_has_that_name_too() {
    let arguments =
        ["--locks", "auto,sanl-plus,locked(auto)", "--threads", "2", "--seeds", "1", "--time", "0.05"];
    let (status, stdout, stderr) = sim(&[&arguments[..], &["--json", "--no-report"]].concat());
    assert_eq!(status, 0, "{stderr}");
    let documents: Value = serde_json::from_str(&stdout).expect("JSON");
    let runs = documents[0]["runs"].as_array().expect("an array");
    let mut locks: Vec<&str> = runs.iter().filter_map(|run| run["lock"].as_str()).collect();
    locks.sort_unstable();
    assert_eq!(locks, ["auto", "locked(auto)", "sanl-plus"]);
}

#[test]
fn a_sweep_writes_a_report_for_each_machine() {
    let directory = tempfile::tempdir().expect("a directory");
    let out = directory.path().to_str().expect("UTF-8");
    let (status, stdout, stderr) = small(&["--machine", "x6-2", "--machine", "i-20", "--out", out]);
    assert_eq!(status, 0, "{stderr}");
    assert!(stdout.contains("Simulated Oracle X6-2"), "{stdout}");
    for machine in ["x6-2", "i-20"] {
        let report =
            fs::read_to_string(directory.path().join(machine).join("report.html")).expect("a report");
        assert!(report.contains("Simulated machine"), "{machine}");
        assert!(directory.path().join(machine).join("runs.csv").exists());
        assert!(directory.path().join(machine).join("results.json").exists());
    }
}

#[test]
fn a_comparison_has_the_tests_of_the_one_engine() {
    let options =
        ["--locks", "futex,mcs-spin", "--threads", "1,4", "--seeds", "6", "--time", "0.1", "--delay", "500"];
    let (status, stdout, stderr) = sim(&[&options[..], &["--no-report", "--json"]].concat());
    assert_eq!(status, 0, "{stderr}");
    let documents: Value = serde_json::from_str(&stdout).unwrap();
    let summary = documents[0]["summary"].as_array().unwrap();
    let compared: Vec<_> =
        summary.iter().filter(|cell| cell["metric"] == "throughput" && cell["pairs"] == 6).collect();
    assert_eq!(compared.len(), 2, "{summary:#?}");
    for cell in compared {
        let rule = cell["five_percent"].as_str().unwrap();
        assert!(["alike", "differs", "undecided"].contains(&rule), "{cell}");
        // Without spread there is no t-test; six ranks that all lie on one side have a probability of 1/32, here of two comparisons.
        assert!(cell["student_p"].is_null() || (0.0..=1.0).contains(&cell["student_p"].as_f64().unwrap()));
        assert!(
            cell["wilcoxon_p"].is_null()
                || (1.0 / 32.0..=1.0).contains(&cell["wilcoxon_p"].as_f64().unwrap()),
            "{cell}"
        );
    }
}

#[test]
fn verdicts_are_checked_on_variants_of_the_machine() {
    let (status, stdout, stderr) = small(&["--sensitivity", "--no-report", "--json"]);
    assert_eq!(status, 0, "{stderr}");
    let document: Value = serde_json::from_str(&stdout).expect("JSON");
    let bands = document["sensitivity"].as_array().expect("an array");
    assert_eq!(bands.len(), 4);
    assert!(bands.iter().all(|band| band["holds"].is_boolean() && band["machine"] == "e7-4850"), "{bands:?}");
}

#[test]
fn a_background_and_an_arbitration_change_the_figures() {
    let throughput_of = |lock: &str, more: &[&str]| {
        let arguments = [&["--locks", lock, "--threads", "20", "--json", "--no-report"], more].concat();
        let (status, stdout, stderr) = sim(&[&["--seeds", "1", "--time", "0.2"], &arguments[..]].concat());
        assert_eq!(status, 0, "{stderr}");
        let documents: Value = serde_json::from_str(&stdout).expect("JSON");
        documents[0]["runs"][0]["values"]["throughput"].as_f64().expect("a figure")
    };
    let throughput = |more: &[&str]| throughput_of("ttas", more);
    let alone = throughput(&[]);
    assert_eq!(alone, throughput(&["--arbitration", "fifo"]), "as the machine's file says");
    assert_ne!(alone, throughput(&["--arbitration", "nearest"]));
    // Holders and the next in line are preempted.
    let queue = |more: &[&str]| throughput_of("mcs-spin", more);
    assert!(queue(&["--background", "20"]) < 0.5 * queue(&[]));
    let (status, _, stderr) = sim(&["--arbitration", "fair"]);
    assert_eq!(status, 2);
    assert!(stderr.contains("fifo, nearest or random"), "{stderr}");
}

#[test]
fn processes_share_the_machine_and_have_figures_of_their_own() {
    let arguments = ["--locks", "mcs-stp", "--threads", "40", "--seeds", "1", "--time", "0.2", "--no-report"];
    let (status, stdout, stderr) = sim(&[&arguments[..], &["--processes", "2", "--json"]].concat());
    assert_eq!(status, 0, "{stderr}");
    let documents: Value = serde_json::from_str(&stdout).expect("JSON");
    let values = &documents[0]["runs"][0]["values"];
    let figure = |name: &str| values[name].as_f64().unwrap_or_else(|| panic!("{name}: {values}"));
    let each = [figure("process 1"), figure("process 2")];
    assert!(each.iter().all(|throughput| *throughput > 0.0), "{values}");
    assert!((each[0] + each[1] - figure("throughput")).abs() < 1.0, "{values}");
    let (_, table, _) = sim(&[&arguments[..], &["--processes", "2"]].concat());
    assert!(table.contains("process 2, 1/s"), "{table}");
    let (_, table, _) = sim(&arguments);
    assert!(!table.contains("process"), "{table}");
}

#[test]
fn a_hand_off_is_explained() {
    let (status, stdout, stderr) = small(&["--explain", "--no-report"]);
    assert_eq!(status, 0, "{stderr}");
    assert!(stdout.contains("begins to release the lock") && stdout.contains("has the lock"), "{stdout}");
    assert!(stdout.contains("simulated"), "{stdout}");
}

#[test]
fn the_machines_are_listed_and_their_files_can_be_used() {
    let (status, stdout, _) = sim(&["machines", "--json"]);
    let machines: Value = serde_json::from_str(&stdout).expect("JSON");
    assert_eq!(status, 0);
    assert!(machines.as_array().is_some_and(|machines| machines.len() >= 12));
    let (_, table, _) = sim(&["machines"]);
    assert!(table.contains("e7-8870-v2"), "{table}");

    let (_, file, _) = sim(&["machines", "e7-4850"]);
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("mine.toml");
    fs::write(&path, file.replace("\"e7-4850\"", "\"mine\"")).expect("written");
    let (status, _, stderr) = small(&["--no-report", "--machine", path.to_str().expect("UTF-8")]);
    assert_eq!(status, 0, "{stderr}");
}

#[test]
fn bad_machines_and_impossible_workloads_are_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = |name: &str, change: (&str, &str)| {
        let (_, text, _) = sim(&["machines", "e7-4850"]);
        assert!(text.contains(change.0), "{}", change.0);
        let path = directory.path().join(name);
        fs::write(&path, text.replace(change.0, change.1)).expect("written");
        path.to_str().expect("UTF-8").to_owned()
    };
    let refused = |arguments: &[&str], message: &str| {
        let (status, stdout, stderr) = sim(&[&["--no-report"], arguments].concat());
        assert_eq!((status, stdout.as_str()), (2, ""), "{stderr}");
        assert!(stderr.contains(message), "{stderr}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
    };
    refused(&["--machine", "e7-4859"], "did you mean `e7-4850`?");
    refused(&["--machine", "missing.toml"], "missing.toml: ");
    refused(&["--machine", &file("zero.toml", ("nodes = 4", "nodes = 0"))], "zero.toml:6: `nodes` is 0");
    refused(&["--machine", &file("word.toml", ("ghz = 2.0", "ghz = \"fast\""))], "word.toml:5: ");
    refused(&["--machine", &file("key.toml", ("ghz = 2.0", "ghz = 2.0\nsockets = 4"))], "key.toml:6: ");
    refused(
        &["--machine", &file("hops.toml", ("cores-per-llc", "hops = [[0, 1]]\ncores-per-llc"))],
        "hops.toml:7: ",
    );
    refused(&["--locks", "pthread"], "`futex` has its algorithm");
    refused(&["--locks", "mcs-spni"], "did you mean `mcs-spin`?");
    refused(&["--locks", "mcs-stp+rw-futex"], "names two locks");
    refused(&["--max-cycles", "1000"], "raise it");
    refused(&["--threads", "0"], "--threads");
    refused(
        &["--machine", &file("cpus.toml", ("cores-per-llc", "threads-per-core = 2000\ncores-per-llc"))],
        "cpus.toml:7: 80000 CPUs: a machine has at most 65535",
    );
}

#[test]
fn more_threads_than_the_host_has_stacks_for_are_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let out = directory.path().to_str().expect("UTF-8");
    let refused = |arguments: &[&str]| {
        let (status, _, stderr) = sim(arguments);
        assert_eq!(status, 2, "{stderr}");
        assert!(stderr.contains("threads are more than") && stderr.contains("vm.max_map_count"), "{stderr}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
    };
    // A limit that is above both is none that a host has by itself.
    let limit = fs::read_to_string("/proc/sys/vm/max_map_count").expect("Linux");
    let limit: u64 = limit.trim().parse().expect("a number");
    if limit < 12_800_000 {
        refused(&["--no-report", "--threads", "100000", "--processes", "64"]);
    }
    if limit < 200_000 {
        refused(&["coverage", "--quick", "--threads", "100000", "--out", out]);
    } else {
        skipped(&format!("100,000 threads: vm.max_map_count is {limit}"));
    }
}

#[test]
fn runs_in_which_threads_do_not_get_on_say_what_each_does() {
    let common = ["--threads", "4", "--seeds", "2", "--no-report", "--time"];
    let (status, stdout, stderr) =
        sim(&[&common[..], &["0.001", "--locks", "mcs-spin", "--work", "50000"]].concat());
    assert_eq!(status, 1, "{stderr}");
    let said = stdout + &stderr;
    let said: Vec<_> =
        said.matches("no section ended within the simulated time: thread 0 on CPU 0 ").collect();
    assert_eq!(said.len(), 1, "once for both seeds");
    let (status, stdout, stderr) =
        sim(&[&common[..], &["0.05", "--locks", "mcs-spin", "--work", "50000", "--json"]].concat());
    assert_eq!(status, 0, "{stderr}");
    let documents: Value = serde_json::from_str(&stdout).expect("JSON");
    let run = &documents[0]["runs"][0];
    assert!(run["values"]["starving"].as_f64().is_some_and(|count| count > 0.0), "{run}");
    assert!(
        run["reason"].as_str().is_some_and(|reason| reason.contains("all the time: thread 0 on CPU 0 ")),
        "{run}"
    );
}

#[test]
fn every_workload_is_simulated_and_named() {
    let directory = tempfile::tempdir().expect("a directory");
    let profile = directory.path().join("profile.toml");
    fs::write(&profile, "think = 2000\n[[lock]]\nhold = [[100, 9], [900, 1]]\n").expect("written");
    let profile = profile.to_str().expect("UTF-8");
    let workloads: [&[&str]; 12] = [
        &["--workload", "micro"],
        &["--workload", "closures"],
        &["--workload", "trylock"],
        &["--workload", "phases", "--phase", "0.05"],
        &["--workload", "trylock", "--second-delay", "exponential:9000"],
        &["--workload", "avl", "--phase", "0.02"],
        &["--workload", "sections"],
        &["--sections", profile, "--phase", "0.03"],
        &["--workload", "avl", "--keys", "64"],
        &["--workload", "hash", "--buckets", "16"],
        &["--workload", "rw", "--write-share", "0.5"],
        &["--workload", "queue", "--producers", "1"],
    ];
    let common = [
        "--locks",
        "mcs-stp,rw-futex,rcl,sanl,locked(ticket)",
        "--threads",
        "4",
        "--seeds",
        "1",
        "--time",
        "0.1",
        "--json",
        "--no-report",
    ];
    for workload in workloads {
        let (status, stdout, stderr) = sim(&[&common, workload].concat());
        assert_eq!(status, 0, "{workload:?}: {stderr}");
        let documents: Value = serde_json::from_str(&stdout).expect("JSON");
        for run in documents[0]["runs"].as_array().expect("an array") {
            assert_eq!(run["outcome"], "ok", "{workload:?}: {run}");
            for figure in ["throughput", "section", "p99", "transfers", "unfairness", "jain"] {
                let value = run["values"][figure].as_f64();
                assert!(value.is_some_and(|value| value > 0.0), "{workload:?}: {run}");
            }
        }
        let name = if workload[0] == "--sections" { "sections" } else { workload[1] };
        let turns = ["--phase", "--second-delay"].iter().any(|option| workload.contains(option));
        let name = format!("workload {name}{}", if turns && name != "phases" { " in phases" } else { "" });
        let machine = documents[0]["simulated"].as_str().expect("a machine");
        assert!(machine.ends_with(&name), "{machine}");
    }
}

#[test]
fn producers_have_a_consumer_where_no_number_of_threads_is_given() {
    let options = ["--locks", "futex", "--seeds", "1", "--time", "0.1", "--no-report", "--json"];
    let (status, stdout, stderr) =
        sim(&[&["--workload", "queue", "--producers", "3"], &options[..]].concat());
    assert_eq!(status, 0, "{stderr}");
    let documents: Value = serde_json::from_str(&stdout).expect("JSON");
    assert_eq!(documents[0]["threads"][0], 4);
}

#[test]
fn options_of_other_workloads_and_bad_profiles_are_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = |name: &str, text: &str| {
        let path = directory.path().join(name);
        fs::write(&path, text).expect("written");
        path.to_str().expect("UTF-8").to_owned()
    };
    let refused = |arguments: &[&str], message: &str| {
        let (status, stdout, stderr) = sim(&[&["--no-report"], arguments].concat());
        assert_eq!((status, stdout.as_str()), (2, ""), "{stderr}");
        assert!(stderr.contains(message), "{stderr}");
    };
    refused(&["--workload", "avl", "--lines", "4"], "`--lines` means nothing to the workload avl");
    refused(&["--keys", "4"], "it is an option of avl, hash");
    refused(&["--workload", "rw", "--write-share", "1.5"], "a share between 0 and 1");
    refused(&["--workload", "rw", "--lines", "uniform:1-4"], "only those of `sections` differ");
    refused(&["--workload", "queue", "--threads", "4", "--producers", "4"], "at least 5 threads");
    refused(&["--workload", "nonsense"], "nonsense");
    refused(&["--lines", "4096", "--instances", "100000"], "MiB of simulated memory");
    refused(&["--sections", "missing.toml"], "missing.toml: ");
    let bad = file("bad.toml", "think = 5\n[[lock]]\nhold = \"often\"\n");
    refused(&["--sections", &bad], "bad.toml:3: `often` is no time");
    let bad = file("bad.json", "{\n\"think\": 5,\n\"lock\": 7}");
    refused(&["--sections", &bad], "bad.json:3: invalid type");
    let good = file("good.toml", "think = 5\n[[lock]]\nhold = 5\n");
    refused(&["--sections", &good, "--delay", "7"], "`--delay` and `--sections` exclude each other");
    refused(&["--sections", &good, "--workload", "micro"], "it is an option of sections");
}

#[test]
fn published_claims_are_judged() {
    let directory = tempfile::tempdir().expect("a directory");
    let out = directory.path().to_str().expect("UTF-8");
    let (status, stdout, stderr) = sim(&["validate", "RCL", "--seeds", "1", "--json", "--out", out]);
    assert_eq!(status, 0, "{stderr}");
    let written = |name| fs::read_to_string(directory.path().join(name)).expect("written");
    assert_eq!(written("validate.json"), stdout);
    let rows: Value = serde_json::from_str(&stdout).expect("JSON");
    let rows = rows.as_array().expect("an array");
    for row in rows {
        for key in ["claim", "source", "published", "rule", "ours", "band", "verdict"] {
            assert!(row[key].is_string(), "{row}");
        }
    }
    let count = |verdict| rows.iter().filter(|row| row["verdict"] == verdict).count();
    let (agree, differ, not_modelled) = (count("agrees"), count("differs"), count("not modelled"));
    assert_eq!(agree + differ + not_modelled, rows.len());
    let said = format!("{agree} agree, {differ} differ, {not_modelled} are not modelled");
    assert!(written("validate.txt").contains(&said), "{said}");
    let is_of_time = |ours: &str| ours.contains(" cycles");
    let in_place = |row: &&Value| {
        let starts = |name: &str| row["claim"].as_str().is_some_and(|claim| claim.starts_with(name));
        ["CAS at ", "POSIX at ", "MCS at "].into_iter().any(starts)
            && row["ours"].as_str().is_some_and(is_of_time)
    };
    let in_place: Vec<&Value> = rows.iter().filter(in_place).collect();
    assert_eq!(in_place.len(), 6);
    assert!(
        in_place.iter().all(|row| row["verdict"] == "agrees"),
        "in-place locks are within 1.5x of RCL's figure 7c: {in_place:?}"
    );
    let served = |row: &&Value| row["claim"].as_str().is_some_and(|claim| claim.starts_with("RCL at "));
    assert!(rows.iter().filter(served).all(|row| row["verdict"] != "not modelled"), "{rows:?}");
    let bound = |row: &&Value| row["rule"].as_str().is_some_and(|rule| rule.starts_with("theirs: "));
    assert!(rows.iter().all(|row| !bound(&row) || row["published"] != "in words"), "{rows:?}");
    let (status, _, stderr) = sim(&["validate", "RCL", "--out", "/proc/nowhere"]);
    assert_eq!(status, 2);
    assert!(stderr.contains("another directory with --out, or leave that out"), "{stderr}");
    let (status, _, stderr) = sim(&["validate", "Nobody"]);
    assert_eq!(status, 2);
    assert!(stderr.contains("name a part of a source"), "{stderr}");
}

#[test]
fn published_claims_are_judged_on_variants_of_their_machines() {
    let directory = tempfile::tempdir().expect("a directory");
    let out = directory.path().to_str().expect("UTF-8");
    let (status, stdout, stderr) =
        sim(&["validate", "trylocks", "--seeds", "1", "--sensitivity", "--json", "--out", out]);
    assert_eq!(status, 0, "{stderr}");
    let rows: Value = serde_json::from_str(&stdout).expect("JSON");
    let rows = rows.as_array().expect("an array");
    assert_eq!(rows.len(), 4);
    for row in rows {
        assert!(row["on_variants"]["band"].is_string(), "{row}");
        let others = row["on_variants"]["differs_with"].as_array().expect("an array");
        // A thread that is alone pays for its atomic operations, and for nothing that others do.
        let atomics = |name: &Value| name.as_str().is_some_and(|name| name.ends_with(" atomics"));
        assert!(others.iter().all(atomics), "{row}");
    }
    let hold = rows.iter().filter(|row| row["on_variants"]["differs_with"] == serde_json::json!([])).count();
    let table = fs::read_to_string(directory.path().join("validate.txt")).expect("written");
    let said = format!("{hold} of 4 simulated verdicts hold on all variants of their machines");
    assert!(table.contains(&said), "{said}: {table}");
    assert!(table.contains("on variants"), "{table}");
}

/// A matrix of two cells.
const COVERAGE: [&str; 14] = [
    "coverage",
    "--locks",
    "futex,mcs-spin",
    "--machine",
    "i-20",
    "--load",
    "short",
    "--threads",
    "2,4",
    "--placement",
    "pinned",
    "--time",
    "0.2",
    "--json",
];

#[test]
fn a_coverage_matrix_goes_on_where_it_ended() {
    let directory = tempfile::tempdir().expect("a directory");
    let out = directory.path().to_str().expect("UTF-8");
    let coverage = |more: &[&str]| sim(&[&COVERAGE[..], &["--out", out], more].concat());
    let (status, stdout, stderr) = coverage(&["--seeds", "1"]);
    assert_eq!(status, 0, "{stderr}");
    assert!(stderr.contains("4 runs, 4 of them"), "{stderr}");
    let document: Value = serde_json::from_str(&stdout).expect("JSON");
    assert_eq!(document["cells"].as_array().map(Vec::len), Some(2));
    let best = &document["locks"][0];
    assert!(best["within_5"].as_f64().is_some_and(|share| share > 0.0), "{best}");
    for name in ["coverage.html", "coverage.csv", "coverage.txt", "coverage.json"] {
        assert!(directory.path().join(name).exists(), "{name}");
    }
    // Another seed; and half of a line is as if its run had not been.
    let runs = directory.path().join("runs.jsonl");
    let text = fs::read_to_string(&runs).expect("the runs");
    fs::write(&runs, &text[..text.len() - 9]).expect("half a line");
    let (_, _, stderr) = coverage(&["--seeds", "2"]);
    assert!(stderr.contains("8 runs, 5 of them"), "{stderr}");
    let (_, _, stderr) = coverage(&["--seeds", "2", "--forget", "futex"]);
    assert!(stderr.contains("8 runs, 4 of them"), "{stderr}");
    assert!(coverage(&["--load", "none"]).2.contains("unknown workload `none`"));
    assert!(coverage(&["--load", "own=--workload avl --lines 3"]).2.contains("`--lines` means nothing"));
}

#[test]
fn parts_of_a_coverage_matrix_make_one() {
    let directory = tempfile::tempdir().expect("a directory");
    let out = directory.path().to_str().expect("UTF-8");
    let coverage = |more: &[&str]| sim(&[&COVERAGE[..], &["--seeds", "1", "--out", out], more].concat());
    for part in ["1/2", "2/2"] {
        let (status, stdout, stderr) = coverage(&["--part", part]);
        assert_eq!((status, stdout.as_str()), (0, ""), "{stderr}");
        assert!(stderr.contains("4 runs, 2 of them"), "{stderr}");
    }
    assert!(coverage(&[]).2.contains("4 runs, 0 of them"));
}

#[test]
fn predictions_are_checked_against_the_workloads_themselves() {
    let (status, stdout, stderr) = output(lockwork().args([
        "predict",
        "--check",
        "--host",
        "i-20",
        "--machine",
        "x6-2",
        "--threads",
        "2,4",
        "--locks",
        "futex,ticket,mcs-stp",
        "--seeds",
        "2",
        "--time",
        "0.2",
        "--json",
    ]));
    assert_eq!(status, Some(0), "{stderr}");
    let found: Value = serde_json::from_str(&stdout).expect("JSON");
    let cells = found["cells"].as_array().expect("an array");
    let places: Vec<_> =
        cells.iter().map(|cell| (cell["workload"].as_str(), cell["threads"].as_u64())).collect();
    let all = ["avl", "hash", "sections"].map(|name| [(Some(name), Some(2)), (Some(name), Some(4))]);
    assert_eq!(places, all.concat());
    for cell in cells {
        assert!(
            cell["tau"].is_null() || cell["tau"].as_f64().is_some_and(|tau| (-1.0..=1.0).contains(&tau)),
            "{cell}"
        );
        let locks = cell["locks"].as_array().expect("an array");
        assert!(
            locks.len() == 3 && locks.iter().all(|lock| lock["predicted"]["value"].is_number()),
            "{cell}"
        );
    }
}
