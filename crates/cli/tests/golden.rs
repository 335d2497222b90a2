//! What users see: help, lists, errors. The expected texts are in `snapshots/`; after a change that is meant,
//! run the tests with INSTA_UPDATE=always and read the difference.

mod common;

use common::{bare_lockwork, lockwork, output, script};

const COMMANDS: [&str; 20] = [
    "run",
    "compare",
    "delegate",
    "profile",
    "advise",
    "tune",
    "top",
    "bench",
    "sim",
    "predict",
    "transform",
    "study",
    "calibrate",
    "list",
    "info",
    "doctor",
    "monitor",
    "policy",
    "completions",
    "man",
];

/// Exit status, stdout and stderr of a command line, as one text.
fn transcript(arguments: &[&str]) -> String {
    let (status, stdout, stderr) = output(lockwork().args(arguments));
    let mut text = format!("exit status {}\n", status.unwrap());
    for (name, stream) in [("stdout", stdout), ("stderr", stderr)] {
        if !stream.is_empty() {
            text.push_str(&format!("--- {name}\n{stream}"));
        }
    }
    text
}

#[test]
fn help_of_every_command() {
    insta::assert_snapshot!("help", transcript(&["--help"]));
    for command in COMMANDS {
        insta::assert_snapshot!(format!("help_{command}"), transcript(&[command, "--help"]));
    }
    insta::assert_snapshot!("help_study_report", transcript(&["study", "report", "--help"]));
    insta::assert_snapshot!("help_sim_coverage", transcript(&["sim", "coverage", "--help"]));
    insta::assert_snapshot!("help_profile_report", transcript(&["profile", "report", "--help"]));
    insta::assert_snapshot!("help_study_run", transcript(&["study", "run", "--help"]));
    insta::assert_snapshot!("help_policy_check", transcript(&["policy", "check", "--help"]));
}

#[test]
fn every_help_has_examples() {
    for command in COMMANDS {
        assert!(transcript(&[command, "--help"]).contains("Example"), "{command}");
    }
}

#[test]
fn the_list_as_a_table() {
    insta::assert_snapshot!(transcript(&["list"]));
}

#[test]
fn the_list_as_json() {
    let (status, stdout, _) = output(lockwork().args(["list", "--json"]));
    assert_eq!(status, Some(0));
    let list: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    let entries = list.as_array().unwrap();
    for name in [
        "tas",
        "ttas",
        "backoff",
        "ticket",
        "clh-spin",
        "clh-stp",
        "mcs-spin",
        "mcs-stp",
        "k42-spin",
        "k42-stp",
        "futex",
        "gcr(mcs-stp)",
        "fc",
        "sanl-numa",
    ] {
        let entry = entries.iter().find(|entry| entry["name"] == name).unwrap_or_else(|| panic!("{name}"));
        assert!(entry["bytes"].is_u64() && entry["citation"].is_string() && entry["fairness"].is_string());
    }
}

#[test]
fn what_is_known_of_a_lock() {
    for lock in ["mcs-stp", "gcr(ticket, active=3)", "passthrough", "pthread"] {
        insta::assert_snapshot!(format!("info_{lock}"), transcript(&["info", lock]));
    }
    for (name, memory) in [
        ("gcr", "8 bytes a lock and those of the lock inside, 64 more"),
        ("locked(mcs-stp)", "8 bytes a delegate, 64 more"),
        ("locked", "what the lock inside takes"),
    ] {
        assert!(transcript(&["info", name]).contains(memory), "{name} takes {memory}");
    }
    assert!(
        transcript(&["info", "mcs"]).contains("mcs-spin, mcs-stp"),
        "an algorithm is known by its name, too"
    );
    assert!(transcript(&["info", "gcr"]).contains("promote"));
    let knobs = transcript(&["info", "rcl(servers=2)"]);
    let mut rows = knobs.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    // Its name, the value in the column `here`, the default.
    assert!(rows.any(|row| row.starts_with(&["servers", "2", "1"])), "{knobs}");
    assert!(transcript(&["run", "--lock", "rcl", "--", "true"]).contains("lockwork_delegate_t"));
    let (_, stdout, _) = output(lockwork().args(["info", "gcr(ticket, active=3)", "--json"]));
    let info: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(info["inner"]["name"], "ticket");
    assert_eq!(info["knobs"][0]["value"], 3);
}

/// One line on stderr that names the mend, exit status 2 or a shell's, nothing on stdout.
#[test]
fn bad_command_lines() {
    let lines = [
        "",
        "lst",
        "run",
        "run --lok ttas -- true",
        "run --lock mcs-stpp -- true",
        "run --lock mcs -- true",
        "run --lock pthread -- true",
        "run --lock gcr(mcs-stp,activ=4) -- true",
        "run --lock gcr(mcs-stp -- true",
        "run --policy /nonexistent.toml -- true",
        "run -- no-such-program",
        "run -- /no/such/program",
        "run -- /tmp",
        "info nothing",
        "policy chek x",
        "compare -- true",
        "compare --locks pthread",
        "compare --locks pthread,,ttas -- true",
        "compare --locks pthread,pthread -- true",
        "compare --locks pthread,tas,ttass -- true",
        "compare --locks ttas --baseline pthread -- true",
        "compare --locks pthread --runs 0 -- true",
        "compare --locks pthread --timeout never -- true",
        "compare --locks pthread --threads 2 -- true",
        "compare --locks pthread -- echo {threads}",
        "compare --locks pthread --threads 2,x -- echo {threads}",
        "compare --locks pthread --threads 2 -- echo {1/(threads-2)}",
        "compare --locks pthread --threads 2 -- echo {thread}",
        "compare --locks pthread --metric ( -- true",
        "compare --locks pthread --metric a=1 --metric a=2 -- true",
        "compare --locks pthread --higher-is-better -- true",
        "compare --locks pthread --out /proc/nowhere -- true",
        "compare --locks pthread -- no-such-program",
        "bench nothing",
        "bench --locks ttas,ttass",
        "bench --locks ttas,,tas",
        "bench --locks passthrough",
        "bench --locks mcs",
        "bench handoff --threads 1",
        "bench --delay 5s",
        "bench --time 2 --timeout 1",
        "bench --out /proc/nowhere",
        "bench --measure",
    ];
    let mut text = String::new();
    for line in lines {
        let arguments: Vec<&str> = line.split_whitespace().collect();
        let (status, stdout, stderr) = output(lockwork().args(&arguments));
        if !line.is_empty() {
            assert_eq!(stdout, "", "{line}");
            assert!(stderr.starts_with("lockwork: ") && stderr.lines().count() == 1, "{line}: {stderr}");
        }
        assert_ne!(status, Some(0), "{line}");
        text.push_str(&format!("$ lockwork {line}\n{stderr}exit status {}\n\n", status.unwrap()));
    }
    insta::assert_snapshot!(text);
}

#[test]
fn policies() {
    let directory = tempfile::tempdir().unwrap();
    let good = directory.path().join("good.toml");
    std::fs::write(
        &good,
        "default = \"gcr(mcs-stp)\"\n[[rule]]\ninit = \"librocksdb.so.7+0x1a2b3c\"\nlock = \"mcs-stp\"\n\
         [[rule]]\ninit = \"rocksdb::LRUCache::Insert\"\nkind = \"mutex\"\nlock = \"ticket\"\n\
         [[rule]]\nsymbol = \"global_mutex\"\nlock = \"passthrough\"\n",
    )
    .unwrap();
    insta::assert_snapshot!("policy", transcript(&["policy", "check", good.to_str().unwrap()]));
    let (_, stdout, _) = output(lockwork().args(["policy", "check", "--json"]).arg(&good));
    let policy: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(policy["rules"][1]["kind"], "mutex");

    let bad = directory.path().join("bad.toml");
    for (rule, expected) in [
        (
            "kind = \"recursiv\"\nlock = \"ttas\"\n",
            "line 4, column 8: unknown kind `recursiv`: did you mean `recursive`?",
        ),
        (
            "kind = \"mutex\"\nlock = \"c-rw-np\"\n",
            "line 5, column 9: `c-rw-np` is a reader-writer lock, and the rule's kind is `mutex`: name another lock such as \
             `mcs-stp`, or write kind = \"rwlock\"",
        ),
    ] {
        std::fs::write(&bad, format!("default = \"ttas\"\n\n[[rule]]\n{rule}")).unwrap();
        for command in [["policy", "check"].as_slice(), &["run", "--policy"]] {
            let mut lockwork = lockwork();
            lockwork.args(command).arg(&bad);
            if command[0] == "run" {
                lockwork.args(["--", "true"]);
            }
            let (status, _, stderr) = output(&mut lockwork);
            assert_eq!(status, Some(2));
            assert!(stderr.contains(expected) && stderr.contains("bad.toml"), "{stderr}");
        }
    }
}

#[test]
fn a_missing_or_bad_library_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let text_file = script(directory.path(), "liblockwork.so", "not a library");
    for (library, expected) in [
        ("/nonexistent/liblockwork.so", "cannot be used: no such file or directory"),
        (text_file.to_str().unwrap(), "is no shared library of this machine"),
    ] {
        let (status, stdout, stderr) =
            output(bare_lockwork().env("LOCKWORK_SO", library).args(["run", "--", "echo", "started"]));
        assert_eq!((status, stdout.as_str()), (Some(2), ""));
        assert!(stderr.contains(expected) && stderr.contains("LOCKWORK_SO"), "{stderr}");
        assert_eq!(stderr.lines().count(), 1);
    }
}

#[test]
fn the_library_is_found_beside_the_program_or_in_lib() {
    let directory = tempfile::tempdir().unwrap();
    let bin = directory.path().join("bin");
    std::fs::create_dir(&bin).unwrap();
    let program = bin.join("lockwork");
    common::install(env!("CARGO_BIN_EXE_lockwork").as_ref(), &program);
    let run = || {
        let mut command = std::process::Command::new(&program);
        command.env_remove("LOCKWORK_SO").args(["run", "--", "sh", "-c", "echo $LD_PRELOAD"]);
        output(&mut command)
    };
    let (status, _, stderr) = run();
    assert_eq!(status, Some(2));
    assert!(stderr.contains("cargo build --release"), "{stderr}");
    for place in ["lib/lockwork", "lib", "bin"] {
        let place = directory.path().join(place);
        std::fs::create_dir_all(&place).unwrap();
        let library = place.join("liblockwork.so");
        std::fs::copy(common::harmless_library(), &library).unwrap();
        let (status, stdout, stderr) = run();
        assert_eq!(status, Some(0), "{stderr}");
        assert_eq!(stdout.trim(), library.canonicalize().unwrap().to_str().unwrap());
    }
}

#[test]
fn a_bad_topology_is_refused() {
    let (status, _, stderr) =
        output(lockwork().env("LOCKWORK_TOPOLOGY", "nodes:4").args(["run", "--", "true"]));
    assert_eq!(status, Some(2));
    assert!(stderr.contains("LOCKWORK_TOPOLOGY=`nodes:4`"), "{stderr}");
}

#[test]
fn a_closed_pipe_is_no_error() {
    let shell = format!("'{}' list --json | true; exit 0", env!("CARGO_BIN_EXE_lockwork"));
    let (status, _, stderr) = output(std::process::Command::new("sh").args(["-c", &shell]));
    assert_eq!((status, stderr.as_str()), (Some(0), ""));
}

#[test]
fn completions_and_pages_are_made() {
    for shell in ["bash", "zsh", "fish"] {
        let (status, stdout, _) = output(lockwork().args(["completions", shell]));
        assert_eq!(status, Some(0));
        assert!(stdout.contains("lockwork") && stdout.contains("no-follow"), "{shell}");
    }
    let directory = tempfile::tempdir().unwrap();
    let (status, _, stderr) = output(lockwork().args(["man", "--out"]).arg(directory.path()));
    assert_eq!(status, Some(0), "{stderr}");
    for page in ["lockwork.1", "lockwork-run.1", "lockwork-compare.1", "lockwork-policy-check.1"] {
        let text = std::fs::read_to_string(directory.path().join(page)).unwrap();
        assert!(text.contains(".SH NAME"), "{page}");
    }
}

#[test]
fn the_doctor_looks_at_machine_and_program() {
    let (status, stdout, _) = output(lockwork().args(["doctor", "--json", "sh"]));
    let findings: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    let checks = findings["checks"].as_array().unwrap();
    for name in [
        "library",
        "program",
        "glibc",
        "kernel",
        "CPUs",
        "NUMA",
        "rseq",
        "clock",
        "time slice",
        "perf",
        "energy",
        "BPF",
    ] {
        let check = checks.iter().find(|check| check["name"] == name).unwrap_or_else(|| panic!("{name}"));
        assert!(["ok", "warn", "fail"].iter().any(|status| check["status"] == *status));
        assert!(!check["consequence"].as_str().unwrap().is_empty());
    }
    let failed = checks.iter().any(|check| check["status"] == "fail");
    assert_eq!(status, Some(i32::from(failed)));

    let caches = output(lockwork().env("LOCKWORK_TOPOLOGY", "die:8 core:8").arg("doctor")).1;
    assert!(caches.contains("1 node, 8 groups of cores with a last-level cache"), "{caches}");

    let (status, stdout, _) = output(lockwork().args(["doctor", "no-such-program"]));
    assert_eq!(status, Some(1));
    assert!(stdout.contains("FAIL"), "{stdout}");
}

/// What cannot be profiled or reported: one line that says why.
#[test]
fn bad_profiles() {
    let own = std::process::id();
    for (arguments, expected) in [
        (
            "profile report /nonexistent",
            "profile `/nonexistent` cannot be read: no such file or directory; check the path",
        ),
        (
            "profile report /dev/null",
            "profile `/dev/null` cannot be read: it is no profile of lockwork's; record it with `lockwork profile -o FILE -- CMD`",
        ),
        ("profile report /", "profile `/` cannot be read: is a directory"),
        (
            "advise /nonexistent",
            "profile `/nonexistent` cannot be read: no such file or directory; check the path",
        ),
        (
            "top 4194305",
            "there is no process 4194305; without a number `lockwork top` finds the one that there is",
        ),
        (
            &format!("top {own}"),
            &format!("process {own} does not run under lockwork; start it by `lockwork run -- CMD`"),
        ),
        (
            "profile -o /nonexistent/x -- true",
            "cannot record in `/nonexistent/x`: no such file or directory; give another place by --output",
        ),
        (
            "profile -o /tmp -- true",
            "cannot record in `/tmp`: is a directory; give another place by --output",
        ),
        (
            "profile -- no-such-program",
            "program `no-such-program` not found in PATH; check the spelling, or give its path",
        ),
    ] {
        let text = transcript(&arguments.split(' ').collect::<Vec<_>>());
        let (_, message) = text.split_once("--- stderr\n").expect("a message");
        assert_eq!(message, format!("lockwork: {expected}\n"), "{arguments}");
        assert!(!text.contains("--- stdout"), "{text}");
    }
}
