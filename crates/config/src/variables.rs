//! The variables and files.

use core::ffi::CStr;

use super::{File, Reader, Variable};

/// A name that ends with a zero, as a C string.
const fn c_name(terminated: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(terminated.as_bytes()) {
        Ok(name) => name,
        Err(_) => panic!("a name has one zero, at its end"),
    }
}

macro_rules! variables {
    ($($reader:ident { $($id:ident = $name:literal, $form:literal, $default:literal, $option:expr, $help:literal;)* })*) => {
        $($(
            #[doc = concat!("`", $name, "`: ", $help, ".")]
            pub const $id: Variable = Variable {
                name: $name,
                c_name: c_name(concat!($name, "\0")),
                form: $form,
                default: $default,
                help: $help,
                option: $option,
                reader: Reader::$reader,
            };
        )*)*

        /// All variables, in the order of their tables.
        pub const VARIABLES: &[&Variable] = &[$($(&$id,)*)*];
    };
}

variables! {
    Library {
        LOCK = "LOCKWORK_LOCK", "a lock spec, such as `gcr(mcs-stp)`", "the default lock", Some("--lock"),
            "the lock for the program's mutexes, and behind a `+` the one for its reader-writer locks";
        POLICY = "LOCKWORK_POLICY", "a path", "none", Some("--policy"),
            "a policy file, which chooses a lock for each lock of the program";
        VERBOSE = "LOCKWORK_VERBOSE", "`0`, `1` or a process id", "`0`", Some("--verbose"),
            "when a process ends it says which locks were served: if there were any, or, in the process with this id, in any \
             case";
        COUNT = "LOCKWORK_COUNT", "`0` or `1`", "`0`", None,
            "the report of `LOCKWORK_VERBOSE` also says how locks were acquired (plainly, tried, timed, after waits on \
             conditions) and how many CPUs they take the process to have; counting makes every acquisition dearer";
        PROFILE = "LOCKWORK_PROFILE", "a path", "none", None,
            "each process records the waits for its locks in the file of this name with its process id behind it";
        PROFILE_OFF = "LOCKWORK_PROFILE_OFF", "`0` or `1`", "`0`", None,
            "the profile begins switched off; `lockwork top` switches it on";
        NO_FOLLOW = "LOCKWORK_NO_FOLLOW", "`0` or `1`", "`0`", Some("--no-follow"),
            "the program's children run without the library";
        STRICT_SPIN = "LOCKWORK_STRICT_SPIN", "`0` or `1`", "`0`", Some("--strict-spin"),
            "spinning locks spin for ever, as published; otherwise they begin to yield after about 100 us";
        SPIN_NS = "LOCKWORK_SPIN_NS", "nanoseconds", "measured once a machine, 5000 without the command",
            Some("--spin-ns"),
            "how long spin-then-park waiters spin before they sleep";
        TIME_SLICE = "LOCKWORK_TIME_SLICE", "`0` or `1`", "`0`", Some("--time-slice"),
            "threads that hold mutexes ask the kernel for a little more time when their time slice ends (Linux 7.0)";
        TOPOLOGY = "LOCKWORK_TOPOLOGY", "hwloc's synthetic form, such as `node:4 core:8`", "the machine's", None,
            "a virtual topology: threads are spread over its CPUs in the order in which they first ask";
        CPU_CLOCKS = "LOCKWORK_CPU_CLOCKS", "`0` or `1`", "they are read unless a filter of system calls is in force", None,
            "whether waiters of aware locks read the CPU clocks of those they wait for: `0` never, `1` under a filter, too";
        MONITOR = "LOCKWORK_MONITOR", "`0` or a path", "the usual socket", None,
            "the socket of `lockwork monitor`, which waiters of aware locks ask which threads run; `0` for none";
    }
    Linked {
        DELEGATE = "LOCKWORK_DELEGATE", "a delegate's spec, such as `rcl` or `locked(mcs-stp)`", "`cc-synch`", None,
            "what the delegates are that are initialised statically or without a spec";
    }
    Command {
        SO = "LOCKWORK_SO", "a path", "beside the command, or in `../lib`", None,
            "the path of liblockwork.so";
        BIN = "LOCKWORK_BIN", "a path", "`target/release/lockwork`", None,
            "the command that `scripts/demo.sh` runs";
    }
    Internal {
        BENCH_LOCK = "LOCKWORK_BENCH_LOCK", "a lock spec", "none", None,
            "the lock that a process of `lockwork bench` measures";
        BOUNDS = "LOCKWORK_BOUNDS", "a path", "not set", None,
            "the file to which models append how far they were explored";
        C_DIR = "LOCKWORK_C_DIR", "a path", "`target/release`", None,
            "where the tests of the C library find it";
        DEEPER = "LOCKWORK_DEEPER", "a number", "not set", None,
            "models run with all their involuntary switches and that many more; so many times as many generated functions are \
             converted";
        MUTANTS = "LOCKWORK_MUTANTS", "any", "not set", None,
            "the tests of mutants print each";
        REGENERATE = "LOCKWORK_REGENERATE", "any", "not set", None,
            "tests that compare generated text with a file write the file";
        SCHEDULES = "LOCKWORK_SCHEDULES", "a number", "300", None,
            "how many random schedules a scenario runs under";
        SEED = "LOCKWORK_SEED", "a number", "always the same", None,
            "the seed of random schedules";
        MONITOR_TEST_ROLE = "LOCKWORK_MONITOR_TEST_ROLE", "a name", "not set", None,
            "which part a process of the monitor's tests plays";
        MONITOR_TEST_SOCKET = "LOCKWORK_MONITOR_TEST_SOCKET", "a path", "not set", None,
            "the socket of such a test";
        MONITOR_TEST_NAPS = "LOCKWORK_MONITOR_TEST_NAPS", "a number", "not set", None,
            "how often such a process sleeps";
        MONITOR_TEST_WATCHER = "LOCKWORK_MONITOR_TEST_WATCHER", "a number", "not set", None,
            "a descriptor of such a test";
        MONITOR_TEST_BOARD = "LOCKWORK_MONITOR_TEST_BOARD", "a number", "not set", None,
            "a descriptor of such a test";
        MONITOR_TEST_PID = "LOCKWORK_MONITOR_TEST_PID", "a process id", "not set", None,
            "the monitor of such a test";
    }
}

/// Where a monitor listens, unless [`MONITOR`] says otherwise.
pub const MONITOR_SOCKET: &str = "/run/lockwork/monitor.sock";

/// What is kept of the machine's calibration, in the user's cache directory.
pub const CALIBRATION: &str = "lockwork/calibration.json";

/// The files.
pub const FILES: &[File] = &[
    File { path: MONITOR_SOCKET, help: "the socket of `lockwork monitor`" },
    File {
        path: "~/.cache/lockwork/calibration.json",
        help: "the round trip of a context switch, measured once a machine and kernel (`$XDG_CACHE_HOME` in the place of \
               `~/.cache`)",
    },
];
