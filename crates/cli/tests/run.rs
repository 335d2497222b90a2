//! `lockwork run` becomes the program: its environment, exit status, signals and streams; and what it refuses.

mod common;

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Stdio;

use common::{harmless_library, lockwork, output, script};

/// The variables that a program sees.
fn environment(arguments: &[&str], preload: Option<&str>) -> Vec<String> {
    let mut command = lockwork();
    if let Some(preload) = preload {
        command.env("LD_PRELOAD", preload);
    }
    let (status, stdout, stderr) = output(command.arg("run").args(arguments).args(["--", "env"]));
    assert_eq!(status, Some(0), "{stderr}");
    let ours = |line: &&str| line.starts_with("LOCKWORK_") || line.starts_with("LD_PRELOAD=");
    let mut lines: Vec<String> = stdout.lines().filter(ours).map(str::to_owned).collect();
    // What was measured here is the machine's.
    lines.retain(|line| !["LOCKWORK_SO=", "LOCKWORK_SPIN_NS="].iter().any(|name| line.starts_with(name)));
    lines.sort();
    lines
}

fn library() -> String {
    harmless_library().canonicalize().unwrap().to_str().unwrap().to_owned()
}

#[test]
fn the_environment_tells_the_library_what_to_do() {
    let preload = format!("LD_PRELOAD={}", library());
    assert_eq!(environment(&["--lock", "mcs_stp"], None), [preload.as_str(), "LOCKWORK_LOCK=mcs-stp"]);
    assert_eq!(
        environment(&["--lock", "passthrough", "--no-follow"], None),
        [&preload, "LOCKWORK_LOCK=passthrough", "LOCKWORK_NO_FOLLOW=1"]
    );
    let default = format!("LOCKWORK_LOCK={}", lockwork_locks::registry::DEFAULT);
    assert_eq!(environment(&[], None), [preload, default]);
}

#[test]
fn holders_ask_for_time_where_that_is_wanted() {
    let ask = "LOCKWORK_TIME_SLICE=1".to_owned();
    assert!(!environment(&[], None).contains(&ask));
    let (status, stdout, stderr) = output(lockwork().args(["run", "--time-slice", "--", "env"]));
    assert_eq!(status, Some(0), "{stderr}");
    assert!(stdout.lines().any(|line| line == ask), "{stdout}");
    let warned =
        stderr == "lockwork: this kernel has no time-slice extensions; holders of mutexes go without\n";
    assert_eq!(warned, !lockwork_platform::slice::is_available(), "{stderr}");
}

#[test]
fn the_spinning_time_is_measured_once_or_given() {
    let directory = tempfile::tempdir().unwrap();
    let spin_ns = |arguments: &[&str], given: Option<&str>| {
        let mut command = lockwork();
        command.env("XDG_CACHE_HOME", directory.path());
        if let Some(given) = given {
            command.env("LOCKWORK_SPIN_NS", given);
        }
        output(command.arg("run").args(arguments).args(["--", "printenv", "LOCKWORK_SPIN_NS"]))
    };
    let (status, measured, stderr) = spin_ns(&[], None);
    assert_eq!(status, Some(0), "{stderr}");
    assert!(measured.trim().parse::<u64>().unwrap() > 0, "{measured}");
    assert_eq!(spin_ns(&[], None).1, measured, "kept in the cache");
    let kept = std::fs::read_to_string(directory.path().join("lockwork/calibration.json")).unwrap();
    assert!(kept.contains(&format!("\"least_round_trip_ns\": {}", measured.trim())), "{kept}");
    assert_eq!(spin_ns(&[], Some("7000")).1, "7000\n");
    assert_eq!(spin_ns(&["--spin-ns", "9000"], Some("7000")).1, "9000\n");
    let (status, _, stderr) = spin_ns(&[], Some("long"));
    assert_eq!(status, Some(2));
    assert!(
        stderr.contains("LOCKWORK_SPIN_NS=`long` is no number of nanoseconds: write for example 5000"),
        "{stderr}"
    );
}

#[test]
fn a_verbose_run_tells_the_program_its_own_id() {
    let (status, stdout, _) =
        output(lockwork().args(["run", "-v", "--", "sh", "-c", "echo $$ $LOCKWORK_VERBOSE"]));
    assert_eq!(status, Some(0));
    let ids: Vec<&str> = stdout.split_whitespace().collect();
    assert!(ids.len() == 2 && ids[0] == ids[1], "{stdout}");
}

#[test]
fn a_policy_is_passed_by_its_absolute_path() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("p.toml"), "default = \"ttas\"\n").unwrap();
    let mut command = lockwork();
    command.current_dir(directory.path()).args(["run", "--policy", "p.toml", "--", "env"]);
    let (_, stdout, _) = output(&mut command);
    let path = directory.path().canonicalize().unwrap().join("p.toml");
    assert!(stdout.contains(&format!("LOCKWORK_POLICY={}\n", path.display())), "{stdout}");
    assert!(!stdout.contains("LOCKWORK_LOCK="), "the policy has a default of its own");
}

#[test]
fn other_preloaded_libraries_are_kept_behind_ours() {
    let other = library().replace("libc.so", "libm.so");
    assert_eq!(environment(&[], Some(&other))[0], format!("LD_PRELOAD={}:{other}", library()));
    // Ours is not loaded twice.
    let both = format!("{}:{other}", library());
    assert_eq!(environment(&[], Some(&both))[0], format!("LD_PRELOAD={both}"));
}

#[test]
fn arguments_and_streams_are_the_programs() {
    let mut child = lockwork()
        .args(["run", "sh", "-c", "cat; echo \"$1\" >&2", "sh", "--lock"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"through\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "through\n");
    // It came after the program's name, so it is the program's own.
    assert_eq!(String::from_utf8_lossy(&output.stderr), "--lock\n");
    assert!(output.status.success());
}

#[test]
fn exit_status_and_signals_are_the_programs() {
    let (status, ..) = output(lockwork().args(["run", "--", "sh", "-c", "exit 7"]));
    assert_eq!(status, Some(7));
    let output = lockwork().args(["run", "--", "sh", "-c", "kill -TERM $$"]).output().unwrap();
    assert_eq!(output.status.signal(), Some(15));
}

#[test]
fn the_program_keeps_its_name() {
    let (_, stdout, _) =
        output(lockwork().args(["run", "--", "sh", "-c", "cat /proc/$$/cmdline | tr '\\0' ' '"]));
    assert!(stdout.starts_with("sh -c"), "{stdout}");
}

/// Exit status 2, one line, and nothing ran.
fn refused(program: &Path, expected: &str) {
    for command in [vec!["run", "--"], vec!["compare", "--locks", "pthread,ttas", "--no-report", "--"]] {
        let (status, stdout, stderr) = output(lockwork().args(&command).arg(program));
        assert_eq!((status, stdout.as_str()), (Some(2), ""), "{stderr}");
        assert!(stderr.contains(expected) && stderr.lines().count() == 1, "{stderr}");
    }
}

#[test]
fn static_programs_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let source = directory.path().join("static.c");
    std::fs::write(&source, "int main(void) { return 0; }\n").unwrap();
    for flag in ["-static", "-static-pie"] {
        let program = directory.path().join("static");
        let status = std::process::Command::new("gcc")
            .arg(flag)
            .arg(&source)
            .arg("-o")
            .arg(&program)
            .status()
            .unwrap();
        assert!(status.success(), "gcc and libc6-dev are needed: see scripts/setup.sh");
        refused(&program, "statically linked");
        // A script is as its interpreter.
        refused(
            &script(directory.path(), "script", &format!("#!{}\n", program.display())),
            "statically linked",
        );
    }
}

#[test]
fn privileged_programs_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("true");
    std::fs::copy("/bin/true", &program).unwrap();
    for (mode, expected) in [(0o4755, "setuid"), (0o2755, "setgid")] {
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(mode)).unwrap();
        refused(&program, expected);
    }
    // CAP_NET_RAW, permitted and effective, as setcap(8) stores it.
    let mut capability = [0; 20];
    capability[..8].copy_from_slice(&[1, 0, 0, 2, 0, 0x20, 0, 0]);
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let flags = rustix::fs::XattrFlags::empty();
    match rustix::fs::setxattr(&program, "security.capability", &capability, flags) {
        Ok(()) => refused(&program, "file capabilities"),
        Err(error) => eprintln!("file capabilities are not tested here: {error}"),
    }
}

/// An ELF header and no more.
fn elf(class: u8, machine: u16) -> Vec<u8> {
    let mut bytes = vec![0x7f, b'E', b'L', b'F', class, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    bytes.extend(2u16.to_le_bytes());
    bytes.extend(machine.to_le_bytes());
    bytes.extend(1u32.to_le_bytes());
    bytes.resize(if class == 1 { 52 } else { 64 }, 0);
    bytes
}

#[test]
fn programs_of_other_machines_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    for (bytes, expected) in [
        (elf(1, 3), "32-bit"),
        (elf(2, 243), "built for RISC-V"),
        (elf(2, 62)[..20].to_vec(), "no valid program"),
    ] {
        let program = script(directory.path(), "program", "");
        std::fs::write(&program, bytes).unwrap();
        refused(&program, expected);
    }
}

#[test]
fn what_is_no_program_has_a_shells_status() {
    let directory = tempfile::tempdir().unwrap();
    let plain = script(directory.path(), "plain", "echo\n");
    std::fs::set_permissions(&plain, std::fs::Permissions::from_mode(0o644)).unwrap();
    for (program, expected) in [("no-such-program", 127), ("/no/such", 127), ("", 127), ("/tmp", 126)] {
        let (status, _, stderr) = output(lockwork().args(["run", "--", program]));
        assert_eq!(status, Some(expected), "{program}: {stderr}");
    }
    let (status, ..) = output(lockwork().args(["run", "--"]).arg(&plain));
    assert_eq!(status, Some(126));
    // Without a #! line it is the shell's, as execvp has it.
    let script = script(directory.path(), "script", "exit 5\n");
    let (status, ..) = output(lockwork().args(["run", "--"]).arg(&script));
    assert_eq!(status, Some(5));
}
