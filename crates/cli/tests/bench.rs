//! `lockwork bench`, as small as it goes: what the figures must satisfy whatever the machine does.

mod common;

use common::{lockwork, output};
use serde_json::Value;

const LOCKS: [&str; 3] = ["pthread", "ticket", "gcr(mcs-stp)"];

/// Runs one benchmark on two locks (and `pthread`), one round; checks the files, returns the benchmark's section.
fn bench(name: &str, seconds: &str, options: &[&str]) -> Value {
    let directory = tempfile::tempdir().unwrap();
    let mut command = lockwork();
    command.args(["bench", name, "--json", "--locks", "ticket,gcr(mcs-stp)", "--runs", "1", "--warmup", "0"]);
    command.args(["--time", seconds, "--timeout", "100", "--seed", "7", "--out"]).arg(directory.path());
    let (status, stdout, stderr) = output(command.args(options));
    assert_eq!(status, Some(0), "{stdout}{stderr}");
    let results: Value = serde_json::from_str(&stdout).unwrap();
    let files = directory.path().join(name);
    let file = std::fs::read_to_string(files.join("results.json")).unwrap();
    let file: Value = serde_json::from_str(&file).unwrap();
    for part in ["summary", "runs", "seed"] {
        assert_eq!(results["benchmarks"][0][part], file[part]);
    }
    assert!(results["host"]["cpus"].is_u64() && results["date"].is_string());
    assert_eq!(results["command"][1], "bench");
    let sections = results["benchmarks"].as_array().unwrap();
    assert_eq!(sections.len(), 1);
    let section = sections[0].clone();
    assert_eq!(section["name"], name);
    assert_eq!(section["locks"], serde_json::json!(LOCKS));
    assert_eq!(section["baseline"], "pthread");
    for cell in section["summary"].as_array().unwrap() {
        for what in ["ratio", "five_percent", "student_p", "wilcoxon_p"] {
            assert!(cell.get(what).is_some(), "{what}: {cell}");
        }
    }
    let csv = std::fs::read_to_string(files.join("runs.csv")).unwrap();
    assert_eq!(csv.lines().count(), 1 + section["runs"].as_array().unwrap().len());
    section
}

/// The figures of every run, each of which must have ended well, with every lock among them.
fn figures(section: &Value) -> Vec<&Value> {
    let runs = section["runs"].as_array().unwrap();
    for lock in LOCKS {
        assert!(runs.iter().any(|run| run["lock"] == lock), "{lock}");
    }
    runs.iter().inspect(|run| assert_eq!(run["outcome"], "ok", "{run}")).map(|run| &run["values"]).collect()
}

fn number(values: &Value, name: &str) -> f64 {
    values[name].as_f64().unwrap_or_else(|| panic!("no {name} in {values}"))
}

#[test]
fn pairs() {
    for values in figures(&bench("pair", "0.02", &[])) {
        assert!(number(values, "pair") > 0.0 && number(values, "pairs") >= 1000.0, "{values}");
    }
}

#[test]
fn contention_with_lines_delay_and_instances() {
    let options = ["--threads", "1,3", "--lines", "3", "--delay", "200ns", "--instances", "2"];
    let section = bench("contend", "0.02", &options);
    assert_eq!((&section["lines"], &section["delay"]), (&Value::from(3), &Value::from("200ns")));
    assert_eq!(section["runs"].as_array().unwrap().len(), 2 * LOCKS.len());
    for run in section["runs"].as_array().unwrap() {
        let threads = run["threads"].as_f64().unwrap();
        let values = &run["values"];
        let operations = number(values, "operations");
        assert!(number(values, "fewest") * threads <= operations, "{values}");
        assert!(operations <= number(values, "most") * threads, "{values}");
        assert!((0.5..=1.0).contains(&number(values, "unfairness")), "{values}");
        assert!(number(values, "jain") <= 1.0 + 1e-9 && number(values, "jain") * threads >= 1.0 - 1e-9);
        let percentiles = ["p50", "p99", "p99.9", "max"].map(|name| number(values, name));
        assert!(percentiles.is_sorted(), "{values}");
    }
    assert!(figures(&section).iter().all(|values| number(values, "throughput") > 0.0));
}

#[test]
fn hand_offs() {
    // The longer time is for a machine so busy that the second thread comes late.
    for values in figures(&bench("handoff", "0.5", &["--threads", "1,2"])) {
        let handoffs = number(values, "handoffs");
        assert!(handoffs > 0.0 && handoffs <= number(values, "operations"), "{values}");
        assert!(number(values, "p50") <= number(values, "p99"), "{values}");
    }
}

#[test]
fn trylocks_add_up() {
    for values in figures(&bench("trylock", "0.02", &["--threads", "2"])) {
        let attempts = number(values, "attempts");
        // Figures are kept with six digits, and fast machines make more than a million attempts.
        let sum = number(values, "successes") + number(values, "failures");
        assert!((attempts - sum).abs() <= 1e-5 * attempts, "{values}");
        assert!((0.0..=1.0).contains(&number(values, "success")), "{values}");
    }
}

#[test]
fn many_locks() {
    for values in figures(&bench("many", "0.02", &["--counts", "1,3000"])) {
        let bytes = number(values, "lock");
        assert!(bytes >= 2.0 && number(values, "resident_3000") >= bytes * 3000.0, "{values}");
        for count in ["1", "3000"] {
            assert!(number(values, &format!("touch_{count}")) > 0.0);
            assert!(number(values, &format!("pool_{count}")) <= number(values, &format!("resident_{count}")));
        }
    }
}

/// A run that does not end in time is a result: its cell has collapsed, and `bench` goes on.
#[test]
fn a_run_that_does_not_end_has_collapsed() {
    let mut command = lockwork();
    command.args(["bench", "many", "--counts", "20000000", "--time", "0.01", "--timeout", "0.05"]);
    let arguments = ["--locks", "ticket", "--runs", "1", "--warmup", "0", "--json", "--no-report"];
    let (status, stdout, stderr) = output(command.args(arguments));
    assert_eq!(status, Some(1), "{stderr}");
    let results: Value = serde_json::from_str(&stdout).unwrap();
    for cell in results["benchmarks"][0]["summary"].as_array().unwrap() {
        assert_eq!(cell["verdict"], "collapsed", "{cell}");
    }
    assert!(results["benchmarks"][0]["runs"][0]["reason"].as_str().unwrap().contains("still running"));
}
