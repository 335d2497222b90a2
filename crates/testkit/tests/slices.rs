//! Holders of mutexes ask for time-slice extensions if they are told to, and not otherwise.

mod common;

#[test]
fn holders_ask_when_told_to() {
    let program = common::compiled("slices");
    for (lock, asks) in [
        ("mcs-stp", true),
        ("mcs-stp", false),
        ("gcr(mcs-stp)", true),
        ("futex", true),
        ("passthrough", false),
    ] {
        let mut command = common::limited(&program, 60);
        common::put_under(&mut command, lock);
        if asks {
            command.arg("asks").env("LOCKWORK_TIME_SLICE", "1");
        }
        let output = command.output().expect("timeout (coreutils)");
        assert!(output.status.success(), "{lock}, {asks}: {}", common::text(&output));
        let text = String::from_utf8_lossy(&output.stdout);
        match text.trim() {
            "fine" => {}
            reason => common::skipped(&format!("time-slice extensions under {lock}: {reason}")),
        }
    }
    std::fs::remove_file(program).expect("our own file");
}
