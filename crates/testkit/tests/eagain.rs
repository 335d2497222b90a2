//! `EAGAIN`, where a lock can count no more: levels of a recursive mutex, and readers.

mod common;

use std::path::Path;

use lockwork_locks::registry;

/// The reader-writer locks whose count has an end that a test can come to, all in one word of the lock, and what
/// `pthread_rwlock_tryrdlock` says there. `passthrough` is glibc itself, and tests the program.
const WITH_AN_END: [(&str, i32); 5] = [
    ("passthrough", libc::EAGAIN),
    ("mcs-stp+rw-futex", libc::EAGAIN),
    ("gcr(futex)+rw-futex", libc::EAGAIN),
    ("cst-mutex+rw-ttas", libc::EBUSY),
    ("cst-mutex+linux-rwsem", libc::EBUSY),
];

/// What the program says.
fn run(program: &Path, lock: &str, counted: bool, arguments: [&str; 2]) -> String {
    let mut command = common::limited(program, 120);
    common::put_under(command.args(arguments), lock);
    if counted {
        // The same through the layers.
        command.env("LOCKWORK_COUNT", "1");
    }
    let output = command.output().expect("timeout (coreutils)");
    assert!(output.status.success(), "{lock}, {counted}, {arguments:?}: {}", common::text(&output));
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn locks_that_can_count_no_more_say_so() {
    let program = common::compiled("eagain");
    for (lock, full) in WITH_AN_END {
        for counted in [false, true] {
            assert_eq!(run(&program, lock, counted, ["ends", &full.to_string()]), "fine\n", "{lock}");
        }
    }
    std::fs::remove_file(program).expect("our own file");
}

/// The others count by node, by phase or by thread: what one thread reads is not too much for them, and a writer waits for all.
#[test]
fn other_locks_do_not_refuse_many_readers_of_one_thread() {
    let program = common::compiled("eagain");
    let others = registry::rwlocks().map(|lock| lock.descriptor.name).chain(["bravo(cst-rwsem)"]);
    let ends = |name: &str| WITH_AN_END.iter().any(|(lock, _)| lock.ends_with(&format!("+{name}")));
    let others: Vec<&str> = others.filter(|name| !ends(name) && *name != "auto-rw").collect();
    assert!(others.len() > 8, "{others:?}");
    for name in others {
        let said = run(&program, &format!("mcs-stp+{name}"), false, ["many", &(1 << 22).to_string()]);
        assert_eq!(said, "fine\n", "{name}");
    }
    std::fs::remove_file(program).expect("our own file");
}

/// On one node it is as `rw-futex`, on several a word that has no room for so many, and then a count by node.
#[test]
fn auto_rw_says_when_it_can_count_no_more() {
    let program = common::compiled("eagain");
    let said = run(&program, "mcs-stp+auto-rw", false, ["many", &((1 << 26) + 2).to_string()]);
    assert!(["full\nfine\n", "fine\n"].contains(&&*said), "{said}");
    std::fs::remove_file(program).expect("our own file");
}
