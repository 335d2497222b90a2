//! Rules by code location, by function, and by the lock's own symbol.

use std::path::Path;
use std::process::Command;

use crate::harness::{Bench, Report, call, rule, succeed};

/// Ways to link a program.
const WAYS: &[&[&str]] = &[
    &["-fPIE", "-pie"],
    &["-fno-pie", "-no-pie"],
    &["-fPIE", "-pie", "-rdynamic"],
    &["-fPIE", "-pie", "-fno-plt"],
];

fn at(file: &str, offset: u64) -> String {
    format!("{file}+{offset:#x}")
}

/// A call is named by its own offset, as disassemblers show it, or by that behind it, as backtraces do.
#[test]
fn by_module_and_offset() {
    for way in WAYS {
        let bench = Bench::new();
        let program = bench.build("places", "places.c", way);
        let (made, _) = call(&program, "make", "pthread_mutex_init");
        let (_, after_hidden) = call(&program, "make_hidden", "pthread_mutex_init");
        let (by_pointer, _) = call(&program, "make_by_pointer", "");
        let (_, after_first_use) = call(&program, "first_use", "pthread_mutex_lock");
        let policy = [
            "default = \"futex\"\n".to_owned(),
            // Inside the call, and in another module.
            rule(&[("init", &at("places", made + 1))], "tas"),
            rule(&[("init", &at("libc.so.6", made))], "tas"),
            rule(&[("init", &at("places", made))], "ticket"),
            rule(&[("init", &at(program.to_str().unwrap(), after_hidden))], "mcs-stp"),
            rule(&[("init", &at("places", by_pointer))], "clh-stp"),
            rule(&[("init", &at("places", after_first_use))], "gcr(ttas)"),
        ]
        .concat();
        let report = bench.report(&program, &policy);
        assert_eq!(report.counts(), [0, 0, 3, 2, 1, 7, 0], "{way:?}: {report:?}");
        for served in
            ["3 mutexes by ticket", "2 mutexes by mcs-stp", "1 mutexes by clh-stp", "7 mutexes by gcr(ttas)"]
        {
            assert!(report.summary.contains(served), "{served}: {report:?}");
        }
    }
}

const BY_FUNCTION: &str = r#"
default = "futex"
[[rule]]
init = "make"
lock = "ticket"
[[rule]]
init = "make_hidden"
lock = "mcs-stp"
[[rule]]
init = "make_by_pointer"
lock = "passthrough"
[[rule]]
init = "pthread_mutex_init"
lock = "tas"
"#;

#[test]
fn by_function() {
    for way in WAYS {
        let bench = Bench::new();
        let program = bench.build("places", "places.c", way);
        let report = bench.report(&program, BY_FUNCTION);
        assert_eq!(report.counts(), [3, 2, 1, 0, 7], "{way:?}: {report:?}");
    }
}

const BY_SYMBOL: &str = r#"
default = "futex"
[[rule]]
symbol = "hidden"
lock = "ticket"
[[rule]]
symbol = "shown"
lock = "mcs-stp"
[[rule]]
symbol = "table"
lock = "passthrough"
[[rule]]
symbol = "inside"
lock = "k42-stp"
"#;

#[test]
fn by_the_locks_own_symbol() {
    for way in WAYS {
        let bench = Bench::new();
        let program = bench.build("places", "places.c", way);
        let report = bench.report(&program, BY_SYMBOL);
        assert_eq!(report.counts(), [1, 1, 4, 1, 6], "{way:?}: {report:?}");
        assert!(report.summary.contains("forwarded to glibc 4 mutexes"), "{report:?}");
    }
}

const BY_TIMED_FUNCTION: &str = r#"
default = "futex"
[[rule]]
init = "lock_timed"
lock = "ticket"
[[rule]]
init = "lock_by_clock"
lock = "mcs-stp"
"#;

#[test]
fn by_the_function_of_a_timed_first_use() {
    let bench = Bench::new();
    let program = bench.build("timed", "timed.c", &[]);
    assert_eq!(bench.report(&program, BY_TIMED_FUNCTION).counts(), [1, 1, 0]);
}

fn strip(program: &Path) {
    succeed(Command::new("strip").arg(program));
}

/// A stripped program has the symbols that it exports, and its offsets.
#[test]
fn of_a_stripped_program() {
    for (exports, by_function, by_symbol) in
        [(true, [3, 0, 1, 0, 9], [0, 1, 0, 0, 12]), (false, [0, 0, 0, 0, 13], [0, 0, 0, 0, 13])]
    {
        let bench = Bench::new();
        let options: &[&str] = if exports { &["-rdynamic"] } else { &[] };
        let program = bench.build("places", "places.c", options);
        let (hidden, _) = call(&program, "make_hidden", "pthread_mutex_init");
        strip(&program);
        assert_eq!(bench.report(&program, BY_FUNCTION).counts(), by_function);
        assert_eq!(bench.report(&program, BY_SYMBOL).counts(), by_symbol);
        let by_offset = rule(&[("init", &at("places", hidden))], "ticket");
        assert_eq!(bench.report(&program, &by_offset).counts(), [2, 11]);
    }
}

/// The address that `nm` shows for a variable.
fn variable(program: &Path, name: &str) -> u64 {
    let output = Command::new("nm").arg(program).output().expect("nm");
    let text = String::from_utf8(output.stdout).expect("text");
    let line = text.lines().find(|line| line.split(' ').next_back() == Some(name));
    let digits = line.and_then(|line| line.split(' ').next()).expect("the variable");
    u64::from_str_radix(digits, 16).expect("an address")
}

/// Static locks of a stripped program, by their own addresses: in `.data` and in `.bss`.
#[test]
fn by_the_locks_own_address() {
    for way in WAYS {
        let bench = Bench::new();
        let program = bench.build("places", "places.c", way);
        let [hidden, shown, table] = ["hidden", "shown", "table"].map(|name| variable(&program, name));
        strip(&program);
        let policy = [
            "default = \"futex\"\n".to_owned(),
            // Inside a lock, and the address of another file.
            rule(&[("symbol", &at("places", hidden + 1))], "tas"),
            rule(&[("symbol", &at("libc.so.6", hidden))], "tas"),
            rule(&[("symbol", &at("places", hidden))], "ticket"),
            rule(&[("symbol", &at(program.to_str().unwrap(), shown))], "mcs-stp"),
            // The second of an array.
            rule(&[("symbol", &at("places", table + 40))], "clh-stp"),
        ]
        .concat();
        let report = bench.report(&program, &policy);
        assert_eq!(report.counts(), [0, 0, 1, 1, 1, 10], "{way:?}: {report:?}");
        for served in ["1 mutexes by ticket", "1 mutexes by mcs-stp", "1 mutexes by clh-stp"] {
            assert!(report.summary.contains(served), "{served}: {report:?}");
        }
    }
}

/// All conditions of a rule must hold, and the first rule that matches decides.
#[test]
fn the_first_rule_whose_conditions_all_hold_decides() {
    let bench = Bench::new();
    let program = bench.build("places", "places.c", &[]);
    let policy = [
        "default = \"futex\"\n".to_owned(),
        rule(&[("init", "make"), ("kind", "recursive")], "tas"),
        rule(&[("init", "first_use"), ("symbol", "shown"), ("kind", "normal")], "ticket"),
        rule(&[("init", "make"), ("symbol", "shown")], "tas"),
        rule(&[("init", "first_use")], "mcs-stp"),
        rule(&[("symbol", "hidden")], "tas"),
        rule(&[("kind", "mutex"), ("init", "make")], "k42-stp"),
    ]
    .concat();
    let report = bench.report(&program, &policy);
    assert_eq!(report.counts(), [0, 1, 0, 6, 0, 3, 3], "{report:?}");
}

/// A library is found by the name it was linked by and by that of its file.
#[test]
fn in_a_library() {
    let bench = Bench::new();
    let library = bench.build_library("libpart.so.1.2", "part.c", &["-Wl,-soname,libpart.so.1"]);
    std::os::unix::fs::symlink("libpart.so.1.2", bench.path("libpart.so.1")).unwrap();
    let program = bench.build("user", "user.c", &["-L.", "-l:libpart.so.1", "-Wl,-rpath,$ORIGIN"]);
    let (made, _) = call(&library, "part_make", "pthread_mutex_init");
    let path = bench.path("libpart.so.1.2").canonicalize().unwrap();
    for name in ["libpart.so", "libpart.so.1", "libpart.so.1.2", path.to_str().unwrap()] {
        let report = bench.report(&program, &rule(&[("init", &at(name, made))], "ticket"));
        assert_eq!(report.counts(), [2, 1], "{name}: {report:?}");
    }
    for name in ["libpart.so.2", "user", "part"] {
        let report = bench.report(&program, &rule(&[("init", &at(name, made))], "ticket"));
        assert_eq!(report.counts(), [0, 3], "{name}: {report:?}");
    }
    let by_symbol =
        [rule(&[("init", "part_make")], "ticket"), rule(&[("symbol", "part_mutex")], "mcs-stp")].concat();
    assert_eq!(bench.report(&program, &by_symbol).counts(), [2, 1, 0]);
    strip(&library);
    assert_eq!(bench.report(&program, &by_symbol).counts(), [2, 0, 1]);
}

/// A library that takes the place of one that was unloaded is not taken for it.
#[test]
fn in_libraries_that_come_and_go() {
    let bench = Bench::new();
    let first = bench.build_library("libfirst.so", "part.c", &[]);
    let second = bench.path("libsecond.so");
    std::fs::copy(&first, &second).unwrap();
    let program = bench.build("loader", "loader.c", &[]);
    let (made, _) = call(&first, "part_make", "pthread_mutex_init");
    let policy = [
        rule(&[("init", &at("libfirst.so", made))], "ticket"),
        rule(&[("init", &at("libsecond.so", made))], "mcs-stp"),
    ]
    .concat();
    let mut command = bench.under(&program, &policy);
    command.args([&first, &second, &first, &first]);
    let report = Report::of(&mut command);
    assert_eq!(report.counts(), [3, 1, 0], "{report:?}");
    let output = succeed(&mut command);
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(stdout.contains("at the place of the last one"), "the test is void: {stdout}");
}

#[test]
fn by_names_of_cxx() {
    let bench = Bench::new();
    let program = bench.build("names", "names.cc", &[]);
    let policy = [
        "default = \"futex\"\n".to_owned(),
        rule(&[("symbol", "(anonymous namespace)::guard")], "ticket"),
        rule(&[("symbol", "store::Cache::shared")], "ttas"),
        // A static variable of a function belongs to it; so does what the function takes first.
        rule(&[("symbol", "store::Cache::get")], "mcs-stp"),
        rule(&[("init", "store::Cache::count")], "k42-stp"),
        // The constructor is inlined here.
        rule(&[("init", "make")], "clh-stp"),
    ]
    .concat();
    let report = bench.report(&program, &policy);
    assert_eq!(report.counts(), [1, 1, 1, 2, 2, 0], "{report:?}");

    let mangled = [
        rule(&[("symbol", "_ZN5store5Cache6sharedE")], "ticket"),
        rule(&[("init", "_ZN5store5Cache5countIiEEiT_")], "ttas"),
    ]
    .concat();
    let report = bench.report(&program, &mangled);
    assert_eq!(report.counts(), [1, 1, 5], "{report:?}");
}
