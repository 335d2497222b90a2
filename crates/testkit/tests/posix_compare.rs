//! How the POSIX suite compares what two runs printed, and reads what served them.

#[allow(dead_code, reason = "the suite reads the rest")]
#[path = "common/compare.rs"]
mod compare;

#[path = "common/served.rs"]
mod served;

use compare::{Deviation, differences};
use served::{Served, expect};

const GLIBC: &str = "a: lock: OK\na: unlock: OK\nb: wait: never returns\n";

#[test]
fn equal_outputs_have_no_difference() {
    assert_eq!(differences(GLIBC, GLIBC, &[]), []);
}

#[test]
fn another_outcome_a_missing_line_and_an_extra_case_are_differences() {
    let found = differences(GLIBC, "a: lock: EBUSY\nb: wait: never returns\nc: HANG\n", &[]);
    let cases: Vec<_> = found.iter().map(|difference| difference.case.as_str()).collect();
    assert_eq!(cases, ["a", "c"]);
    assert_eq!(found[0].lines.len(), 2);
}

#[test]
fn only_the_allowed_outcome_is_allowed() {
    let deviation = Deviation {
        step: "b: wait",
        glibc: "never returns",
        ours: "EBUSY",
        passthrough: false,
        reason: "a hang helps nobody",
    };
    let with = |outcome| format!("a: lock: OK\na: unlock: OK\nb: wait: {outcome}\n");
    assert_eq!(differences(GLIBC, &with("EBUSY"), &[&deviation]), []);
    assert_eq!(differences(GLIBC, &with("OK"), &[&deviation]).len(), 1);
    assert_eq!(differences(GLIBC, &with("EBUSY"), &[]).len(), 1);
}

#[test]
fn the_lines_of_all_processes_are_added_up() {
    let stderr = "lockwork: a[1]: served 3 mutexes by gcr(mcs-stp, active=2), 2 conditions, 1 rwlocks; forwarded to glibc 7 mutexes\n\
                  somebody else's line: served 5 mutexes by ttas\n\
                  lockwork: a[2]: served 1 mutexes by ttas, 2 mutexes by gcr(mcs-stp, active=2), 4 rwlocks by pf-t; forwarded\n\
                  lockwork: a[3]: served nothing; forwarded to glibc all locks, of which it initialised 3 mutexes\n\
                  lockwork: a[3]: policy.toml:4: ticket for 12 locks\n";
    let served = Served::read(stderr);
    let of = |lock: &str, count| (lock.to_owned(), count);
    assert_eq!(served.mutexes, [of("gcr(mcs-stp, active=2)", 5), of("ttas", 1)]);
    assert_eq!(served.rwlocks, [of("rw-futex", 1), of("pf-t", 4)]);
    assert_eq!(served.lines, 3);
}

#[test]
fn a_lock_that_served_nothing_and_one_that_served_instead_are_noticed() {
    let by = |lock: &str| vec![(lock.to_owned(), 1)];
    let mcs = Some("mcs-stp");
    assert_eq!(expect("mutexes", &by("mcs-stp"), mcs, &[]), Ok(()));
    assert_eq!(expect("mutexes", &[], None, &[]), Ok(()));
    assert_eq!(expect("mutexes", &[by("mcs-stp"), by("ttas")].concat(), mcs, &["ttas"]), Ok(()));
    assert!(expect("mutexes", &[], mcs, &[]).is_err());
    assert!(expect("mutexes", &by("ttas"), mcs, &[]).is_err());
    assert!(expect("mutexes", &by("ttas"), mcs, &["ttas"]).is_err());
    assert!(expect("mutexes", &by("ttas"), None, &[]).is_err());
}
