//! `lockwork calibrate`: what it measures can be simulated, and is what it says.

mod common;

use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use common::{lockwork, output};
use lockwork_sim::machine::Distance;
use lockwork_sim::{Machine, probe};
use serde_json::Value;

/// Runs `lockwork calibrate --quick`, which takes seconds, or minutes where a hundred processes are in its way.
fn calibrate(arguments: &[&str]) -> (i32, String, String) {
    let arguments: Vec<String> = arguments.iter().map(|&argument| argument.to_owned()).collect();
    let (send, receive) = mpsc::channel();
    thread::spawn(move || send.send(output(lockwork().args(["calibrate", "--quick"]).args(arguments))));
    let (status, stdout, stderr) =
        receive.recv_timeout(Duration::from_secs(300)).expect("the calibration comes to an end");
    (status.expect("it ends by itself"), stdout, stderr)
}

#[test]
fn what_is_measured_is_what_is_simulated() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("this-host.toml");
    let (status, stdout, stderr) = calibrate(&["--json", "--machine-out", path.to_str().unwrap()]);
    assert_eq!(status, 0, "{stderr}");
    let machine = Machine::read(&path).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(machine.name, "this-host");
    for cpu in 1..machine.cpus() {
        let distance = machine.distance(machine.core_of(0), machine.core_of(cpu));
        if distance != Distance::Same {
            assert_eq!(probe::transfer(&machine, 0, cpu), machine.transfer(distance), "{distance:?}");
        }
    }

    let report: Value = serde_json::from_str(&stdout).expect("JSON");
    assert_eq!(report["machine"]["memory"]["dram"], machine.memory.dram);
    let usable = thread::available_parallelism().unwrap().get();
    let pairs = report["pairs"].as_array().unwrap();
    // A control group may allow less than the affinity does.
    assert!(pairs.len() >= usable * (usable - 1) / 2, "{pairs:?}");
    for pair in pairs {
        assert!(pair["load_ns"]["median"].as_f64().unwrap() >= 0.0, "{pair}");
    }
    let figures = report["figures"].as_array().unwrap();
    let figure = |name: &str| figures.iter().find(|figure| figure["name"] == name).unwrap();
    for name in ["hit", "dram", "pause", "atomic", "syscall"] {
        assert_eq!(figure(name)["measured"], true, "{name}");
    }

    let mut sim = lockwork();
    sim.args(["sim", "--no-report", "--locks", "ttas", "--threads", "1", "--seeds", "1", "--time", "0.1"]);
    let (status, stdout, stderr) = output(sim.arg("--machine").arg(&path));
    assert_eq!(status, Some(0), "{stderr}");
    assert!(stdout.contains("Simulated"), "{stdout}");
}

#[test]
fn without_a_file_the_machine_is_printed() {
    let (status, stdout, stderr) = calibrate(&["--name", "a \"strange\" name"]);
    assert_eq!(status, 0, "{stderr}");
    let machine = Machine::parse("stdout", &stdout).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(machine.name, "a--strange--name");
    assert!(stdout.contains("# measured: ") && stdout.contains("# Not measured"), "{stdout}");
}

#[test]
fn where_the_file_cannot_be_is_said_at_once() {
    for (path, message) in [
        ("/proc/nowhere/machine.toml", "cannot be written"),
        ("/dev/null/machine.toml", "is no directory"),
        ("/tmp", "name a file"),
    ] {
        assert!(!Path::new(path).is_file());
        let (status, stdout, stderr) = calibrate(&["--machine-out", path]);
        assert_eq!((status, stdout.as_str()), (2, ""), "{stderr}");
        assert!(stderr.contains(message) && stderr.lines().count() == 1, "{stderr}");
    }
}

#[test]
fn locks_run_here_and_on_the_simulated_machine() {
    let grid = ["--locks", "futex,mcs-stp", "--threads", "2", "--think", "300,5000"];
    let (status, stdout, stderr) =
        calibrate(&[&["--check", "--machine", "e7-4850", "--json"], &grid[..]].concat());
    assert_eq!(status, 0, "{stderr}");
    let check: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    let cells = check["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 4);
    for cell in cells {
        for side in ["native", "simulated"] {
            let [lowest, median, highest] =
                ["lowest", "median", "highest"].map(|figure| cell[side][figure].as_f64().expect("a figure"));
            assert!(0.0 < lowest && lowest <= median && median <= highest, "{cell}");
        }
    }
    assert_eq!(check["summary"][2]["ratios"]["all"]["of"], 2);
    for (options, mend) in [
        (&["--locks", "futex"][..], "--check"),
        (&["--check", "--machine", "e7-4850", "--locks", "rw-futex"], "no reader-writer lock"),
        (&["--check", "--machine", "nowhere"], "unknown machine"),
    ] {
        let (status, _, stderr) = calibrate(options);
        assert_eq!(status, 2, "{stderr}");
        assert!(stderr.contains(mend), "{stderr}");
    }
}
