//! Layers between the entry points and the locks see every acquisition and every release, each once.

mod common;

/// What the program `layers.c` does.
const DONE: &str = "acquired 4 mutexes locked, 2 mutexes tried (2 refused), 4 mutexes timed (2 refused), \
                    2 mutexes after waits, 2 read locks, 1 read locks tried (1 refused), \
                    2 read locks timed (1 refused), 1 write locks, 1 write locks tried (1 refused), \
                    2 write locks timed (1 refused); released 21";

#[test]
fn every_entry_goes_through_the_layers() {
    let program = common::compiled("layers");
    let mutexes = ["mcs-stp", "futex", "auto", "cst-mutex", "gcr(mcs-stp)", "biased(futex)"];
    let rwlocks = ["mcs-stp+cst-rwsem", "mcs-stp+bravo(rw-futex)", "mcs-stp+pf-t"];
    for lock in mutexes.into_iter().chain(rwlocks) {
        let mut command = common::limited(&program, 60);
        common::put_under(&mut command, lock);
        let output = command.env("LOCKWORK_COUNT", "1").output().expect("timeout (coreutils)");
        assert!(output.status.success(), "{lock}: {}", common::text(&output));
        let stderr = String::from_utf8_lossy(&output.stderr);
        let mut said = stderr.lines().filter_map(|line| line.split_once("]: ")).map(|(_, said)| said);
        let counts =
            said.find(|said| said.starts_with("acquired")).and_then(|said| said.rsplit_once("; on "));
        let counts = counts.map(|(counts, _)| counts);
        assert_eq!(counts, Some(DONE), "{lock}: {stderr}");
    }
    std::fs::remove_file(program).expect("our own file");
}

#[test]
fn without_layers_nothing_is_counted() {
    let program = common::compiled("layers");
    let mut command = common::limited(&program, 60);
    common::put_under(&mut command, "mcs-stp");
    let output = command.output().expect("timeout (coreutils)");
    assert!(output.status.success(), "{}", common::text(&output));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains(" served ") && !stderr.contains(" acquired "), "{stderr}");
    std::fs::remove_file(program).expect("our own file");
}
