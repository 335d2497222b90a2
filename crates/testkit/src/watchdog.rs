//! Ends a test that hangs, and says where its threads are.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use crate::stderr::Stderr;

/// Runs `f`. If it takes longer than `limit`, prints what every thread of the process is doing, then
/// what `describe` says, and aborts the process.
pub fn watchdog<R>(limit: Duration, describe: impl Fn() -> String + Send, f: impl FnOnce() -> R) -> R {
    let (done, wait) = channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            if wait.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
                // Not to the harness, which would keep it for itself.
                let words = format!("watchdog: not done after {limit:?}: {}\n{}\n", describe(), threads());
                let _ = Stderr.write_str(&words);
                std::process::abort();
            }
        });
        let result = f();
        drop(done);
        result
    })
}

/// One line for every thread of this process: its name, state, kernel wait channel and system call.
#[must_use]
pub fn threads() -> String {
    let Ok(tasks) = fs::read_dir("/proc/self/task") else { return String::from("no /proc/self/task") };
    tasks.flatten().map(|task| describe_thread(&task.path())).collect()
}

fn describe_thread(task: &Path) -> String {
    let read = |name: &str| {
        fs::read_to_string(task.join(name)).map(|text| text.trim().to_owned()).unwrap_or_default()
    };
    let stat = read("stat");
    let state = stat.rsplit(") ").next().and_then(|rest| rest.chars().next()).unwrap_or('?');
    let id = task.file_name().unwrap_or_default().to_string_lossy();
    format!("  {id} {:<16} {state} wchan={} syscall={}\n", read("comm"), read("wchan"), read("syscall"))
}
