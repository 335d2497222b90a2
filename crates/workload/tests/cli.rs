//! The program as a user sees it.

use std::process::{Command, Output};

fn avl(args: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_lockwork-avl")).args(args.split_whitespace()).output().unwrap()
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

#[test]
fn text_has_one_line_for_each_figure() {
    let output = avl("--threads 2 --ops 2000");
    assert!(output.status.success());
    let text = stdout(&output);
    for line in ["threads: 2\n", "operations: 2000\n", "wall: 0.", "ops/sec: ", " P99: ", " P99.9: "] {
        assert!(text.contains(line), "{line:?} is not in\n{text}");
    }
    assert!(!text.contains("unfairness"), "the threads of a counted run do equally much by design");
}

#[test]
fn json_of_a_timed_run_has_fairness() {
    let output = avl("--threads 4 --seconds 0.05 --json");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["threads"], 4);
    assert!(report["ops_per_second"].as_f64().unwrap() > 0.0);
    assert!(report["latency_us"]["p99.9"].as_f64() >= report["latency_us"]["p50"].as_f64());
    let unfairness = report["fairness"]["unfairness_factor"].as_f64().unwrap();
    assert!((0.5..=1.0).contains(&unfairness), "{unfairness}");
    let jain = report["fairness"]["jain_index"].as_f64().unwrap();
    assert!((0.25..=1.0).contains(&jain), "{jain}");
}

#[test]
fn bad_options_exit_with_2_and_say_why() {
    for (args, reason) in [
        ("--threads 0", "0 is not in 1..=10000"),
        ("--lookup-percent 101", "101 is not in 0..=100"),
        ("--seconds never", "expected a number of seconds"),
        ("--ops 1 --seconds 1", "cannot be used with"),
        ("--thread 2", "--threads"),
    ] {
        let output = avl(args);
        assert_eq!(output.status.code(), Some(2), "{args}");
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(stderr.contains(reason), "{args}: {stderr}");
    }
}

#[test]
fn help_shows_examples() {
    let output = avl("--help");
    assert!(stdout(&output).contains("lockwork run --lock"));
}

#[test]
fn a_queue_delivers_every_item() {
    let queue = |args: &str| {
        Command::new(env!("CARGO_BIN_EXE_lockwork-queue")).args(args.split_whitespace()).output().unwrap()
    };
    for args in [
        "--items 5000 --capacity 1",
        "--producers 3 --consumers 2 --capacity 7 --items 5001 --work-ns 500",
        "--producers 2 --consumers 5 --capacity 100 --items 3 --unlock-first",
    ] {
        let output = queue(args);
        assert!(output.status.success(), "{args}: {}", String::from_utf8_lossy(&output.stderr));
        let text = stdout(&output);
        let figure = |name: &str| -> f64 {
            let line =
                text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("{text}"));
            line.parse().unwrap()
        };
        assert!(figure("items/sec: ") > 0.0 && figure("switches/item: ") >= 0.0, "{args}: {text}");
        assert!(figure("streak: ") >= 1.0 && (0.0..=1.0).contains(&figure("waited: ")), "{args}: {text}");
    }
    assert_eq!(queue("--capacity 0").status.code(), Some(2));
}
