//! `EAGAIN`, where a lock can count no more: levels of a recursive mutex, and readers.

mod common;

/// The locks whose count of readers is one word, as glibc's. `passthrough` is glibc itself, and tests the program.
#[test]
fn locks_that_can_count_no_more_say_so() {
    let program = common::compiled("eagain");
    for lock in ["passthrough", "mcs-stp", "cst-mutex+rw-futex", "gcr(futex)"] {
        for counted in [false, true] {
            let mut command = common::limited(&program, 60);
            common::put_under(&mut command, lock);
            if counted {
                // The same through the layers.
                command.env("LOCKWORK_COUNT", "1");
            }
            let output = command.output().expect("timeout (coreutils)");
            assert!(output.status.success(), "{lock}, {counted}: {}", common::text(&output));
        }
    }
    std::fs::remove_file(program).expect("our own file");
}
