//! What liblockwork.so is, seen from outside: the symbols it exports and imports, what it is linked with, and the
//! environment variables it obeys.

mod common;

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Output};

use lockwork_platform::cpu_time::{self, Allowed};

/// The locking API of glibc's libc.so.6, but for attribute objects, barriers and semaphores.
const API: &str = "
    pthread_mutex_init pthread_mutex_destroy pthread_mutex_lock pthread_mutex_trylock pthread_mutex_unlock
    pthread_mutex_timedlock pthread_mutex_clocklock pthread_mutex_consistent
    pthread_mutex_getprioceiling pthread_mutex_setprioceiling
    pthread_cond_init pthread_cond_destroy pthread_cond_wait pthread_cond_timedwait pthread_cond_clockwait
    pthread_cond_signal pthread_cond_broadcast
    pthread_rwlock_init pthread_rwlock_destroy pthread_rwlock_rdlock pthread_rwlock_wrlock
    pthread_rwlock_tryrdlock pthread_rwlock_trywrlock pthread_rwlock_timedrdlock pthread_rwlock_timedwrlock
    pthread_rwlock_clockrdlock pthread_rwlock_clockwrlock pthread_rwlock_unlock
    pthread_spin_init pthread_spin_destroy pthread_spin_lock pthread_spin_trylock pthread_spin_unlock
    mtx_init mtx_destroy mtx_lock mtx_trylock mtx_timedlock mtx_unlock
    cnd_init cnd_destroy cnd_wait cnd_timedwait cnd_signal cnd_broadcast
    __pthread_mutex_init __pthread_mutex_destroy __pthread_mutex_lock __pthread_mutex_trylock
    __pthread_mutex_unlock __pthread_rwlock_init __pthread_rwlock_destroy __pthread_rwlock_rdlock
    __pthread_rwlock_wrlock __pthread_rwlock_tryrdlock __pthread_rwlock_trywrlock __pthread_rwlock_unlock
    pthread_cancel _Fork dlopen dlvsym prctl syscall
    lockwork_name __itt_sync_create __itt_sync_rename
";

fn run(command: &mut Command) -> Output {
    command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

fn stdout(command: &mut Command) -> String {
    let output = run(command);
    assert!(output.status.success(), "{command:?}:\n{}", common::text(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn nm(which: &str) -> Vec<String> {
    let text = stdout(Command::new("nm").args(["-D", "-P", which]).arg(common::lockwork_so()));
    text.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

fn dynamic_section() -> String {
    stdout(Command::new("readelf").args(["-d", "-W"]).arg(common::lockwork_so()))
}

#[test]
fn the_whole_api_is_exported_without_versions() {
    let exported: BTreeSet<String> = nm("--defined-only").into_iter().collect();
    let missing: Vec<_> = API.split_whitespace().filter(|name| !exported.contains(*name)).collect();
    assert!(missing.is_empty(), "not exported, or with a version: {missing:?}");
}

/// A symbol of ours that is not part of the API would get in the way of the program's own.
#[test]
fn nothing_else_is_exported() {
    let api: BTreeSet<&str> = API.split_whitespace().collect();
    let more: Vec<_> = nm("--defined-only").into_iter().filter(|name| !api.contains(name.as_str())).collect();
    assert!(more.is_empty(), "exported beyond the API: {more:?}");
}

#[test]
fn no_allocator_is_imported() {
    let forbidden = ["malloc", "calloc", "realloc", "free", "posix_memalign", "aligned_alloc", "memalign"];
    let imported = nm("--undefined-only");
    assert!(!imported.is_empty());
    for name in imported {
        let bare = name.split('@').next().unwrap_or_default();
        assert!(!forbidden.contains(&bare), "{name} is imported");
    }
}

#[test]
fn libc_is_the_only_library_it_needs() {
    let section = dynamic_section();
    let needed: Vec<_> = section.lines().filter(|line| line.contains("(NEEDED)")).collect();
    assert!(!needed.is_empty());
    for line in needed {
        // The loader itself is always there; the linker names it when thread-local storage is looked up.
        assert!(line.contains("[libc.so.6]") || line.contains("[ld-linux"), "{line}");
    }
}

#[test]
fn it_starts_first_and_is_never_unloaded() {
    let section = dynamic_section();
    let flags = section.lines().find(|line| line.contains("(FLAGS_1)")).unwrap_or_default();
    assert!(flags.contains("INITFIRST") && flags.contains("NODELETE"), "flags: {flags}");
}

fn under(lock: &str, program: &str, case: &str) -> Command {
    let mut command = common::command(program);
    common::put_under(&mut command, lock);
    command.arg(case);
    command
}

#[test]
fn verbose_tells_what_was_served_and_is_silent_otherwise() {
    let output = run(&mut under("mcs-stp", "mutex_many", "contest_normal"));
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    let lines: Vec<_> = stderr.lines().filter(|line| line.starts_with("lockwork:")).collect();
    assert_eq!(lines.len(), 1, "{stderr}");
    assert!(lines[0].contains("mcs-stp"), "{stderr}");

    let silent = run(under("mcs-stp", "mutex_many", "contest_normal").env_remove("LOCKWORK_VERBOSE"));
    assert!(silent.status.success());
    assert_eq!(String::from_utf8_lossy(&silent.stderr), "");
}

/// A monitor that does not answer is no reason to wait for long, and one is asked only where that is of use.
#[test]
fn programs_under_aware_locks_look_for_a_monitor() {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("monitor-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory");
    let socket = directory.join("socket");
    let listener = UnixListener::bind(&socket).expect("a socket");
    listener.set_nonblocking(true).expect("a socket that does not block");
    let asks_if = |clocks: &str, lock: &str, monitor: &OsStr| {
        let mut program = under(lock, "mutex_many", "contest_normal");
        let output = run(program.env("LOCKWORK_MONITOR", monitor).env("LOCKWORK_CPU_CLOCKS", clocks));
        assert!(output.status.success(), "{}", common::text(&output));
        // All that the program has started ask as well.
        std::iter::from_fn(|| listener.accept().ok()).count() > 0
    };
    let asks = |lock: &str, monitor: &OsStr| asks_if("0", lock, monitor);
    assert!(asks("mcs-aware", socket.as_os_str()));
    assert!(asks("gcr(flexguard)", socket.as_os_str()));
    assert!(!asks("mcs-stp", socket.as_os_str()));
    assert!(!asks("mcs-aware", OsStr::new("0")));
    if cpu_time::allow() == Allowed::Yes {
        assert!(!asks_if("", "mcs-aware", socket.as_os_str()), "it can see for itself");
    } else {
        common::skipped("that programs which read CPU clocks do not ask: they cannot be read here");
    }
    drop(listener);
    let mut program = under("mcs-aware", "mutex_many", "contest_normal");
    assert!(run(program.env("LOCKWORK_MONITOR", &socket).env("LOCKWORK_CPU_CLOCKS", "0")).status.success());
    std::fs::remove_dir_all(directory).expect("our own directory");
}

#[test]
fn children_are_followed_unless_told_otherwise() {
    let list = |follow: bool| {
        let mut shell = Command::new("sh");
        // The shell's own child prints what it inherited.
        shell.args(["-c", "env; true"]).env_clear().env("PATH", "/usr/bin:/bin");
        shell.env("LD_PRELOAD", common::lockwork_so()).env("LOCKWORK_LOCK", "ttas");
        if !follow {
            shell.env("LOCKWORK_NO_FOLLOW", "1");
        }
        stdout(&mut shell)
    };
    assert!(list(true).contains("liblockwork.so"));
    assert!(!list(false).contains("liblockwork.so"));
}

/// Another library in LD_PRELOAD stays when ours removes itself.
#[test]
fn only_our_entry_is_removed_from_the_preloads() {
    let other = common::suite().join("bin/libctor.so");
    let both = format!("{}:{}", common::lockwork_so().display(), other.display());
    let mut shell = Command::new("sh");
    shell.args(["-c", "env; true"]).env_clear().env("PATH", "/usr/bin:/bin");
    let text = stdout(shell.env("LD_PRELOAD", both).env("LOCKWORK_NO_FOLLOW", "1"));
    assert!(!text.contains("liblockwork.so"), "{text}");
    assert!(text.contains("libctor.so"), "{text}");
}

#[test]
fn an_empty_environment_gets_the_default_lock() {
    let mut command = Command::new(common::suite().join("bin/symver"));
    command.arg("old_mutex").env_clear();
    command.env("LD_PRELOAD", common::lockwork_so()).env("LOCKWORK_VERBOSE", "1");
    let output = run(&mut command);
    assert!(output.status.success(), "{}", common::text(&output));
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(stderr.contains(lockwork_locks::registry::DEFAULT), "{stderr}");
}

/// The environment is read before any constructor could use a lock: `early` locks in `.preinit_array`.
#[test]
fn the_choice_is_made_before_the_first_lock() {
    for lock in ["ticket", "mcs-stp", "gcr(k42-stp)"] {
        let output = run(&mut under(lock, "early", "early_constructors"));
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{}", common::text(&output));
        assert!(stderr.contains(lock), "{stderr}");
    }
}
