//! How long spin-then-park waiters spin: the round trip of a context switch, measured once a machine and kept in the
//! user's cache directory.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::thread;
use std::time::Instant;

use lockwork_platform::sys::{futex_wait, futex_wake};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde::{Deserialize, Serialize};

use crate::host;

/// What the cache holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Calibration {
    /// Another processor or kernel makes it stale.
    cpu: String,
    kernel: String,
    /// Of earlier versions a median is kept by another name, which depends on what else ran; it is measured anew.
    least_round_trip_ns: u64,
}

/// The round trip of a context switch in ns: from the cache, else measured (about 20 ms) and put there. `None` if
/// neither is possible; a cache that cannot be written is measured anew each time.
pub(crate) fn round_trip_ns() -> Option<u64> {
    // Every `lockwork run` comes here, so the key must be cheap.
    let (cpu, kernel) = (host::cpu_model(), host::kernel());
    let file = cache_file();
    let cached = file.as_ref().and_then(|file| fs::read(file).ok());
    let cached = cached.and_then(|text| serde_json::from_slice::<Calibration>(&text).ok());
    if let Some(known) = cached.filter(|known| known.cpu == cpu && known.kernel == kernel) {
        return Some(known.least_round_trip_ns);
    }
    let least_round_trip_ns = thread::spawn(measure).join().ok()??;
    let calibration = Calibration { cpu, kernel, least_round_trip_ns };
    if let Some(file) = file {
        store(&file, &calibration);
    }
    Some(least_round_trip_ns)
}

/// Where it is kept: `lockwork/calibration.json` in `$XDG_CACHE_HOME` or `~/.cache`.
pub(crate) fn cache_file() -> Option<PathBuf> {
    let directory = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = directory("XDG_CACHE_HOME").or_else(|| Some(directory("HOME")?.join(".cache")))?;
    Some(cache.join(lockwork_config::CALIBRATION))
}

/// A process that reads the file meanwhile sees the old one or the new one. A failure costs the next run 20 ms.
fn store(file: &PathBuf, calibration: &Calibration) {
    let fresh = file.with_extension(std::process::id().to_string());
    let text = serde_json::to_string_pretty(calibration).unwrap_or_default();
    let written = file
        .parent()
        .map_or(Ok(()), fs::create_dir_all)
        .and_then(|()| fs::write(&fresh, text + "\n"))
        .and_then(|()| fs::rename(&fresh, file));
    if written.is_err() {
        let _ = fs::remove_file(&fresh);
    }
}

/// Two threads on one CPU wake each other in turn, so that every turn is a futex call that sleeps, one that wakes, and a
/// switch. The least of some batches: other programs only make it take longer, and what is kept must not depend on them.
/// Binds the calling thread and its child to that CPU.
pub(crate) fn measure() -> Option<u64> {
    const BATCHES: usize = 21;
    const ROUNDS: u32 = 100;
    let allowed = sched_getaffinity(None).ok()?;
    let cpu = (0..CpuSet::MAX_CPU).find(|&cpu| allowed.is_set(cpu))?;
    let mut one = CpuSet::new();
    one.set(cpu);
    sched_setaffinity(None, &one).ok()?;
    // Whose turn it is: even the measuring thread's, odd the other's.
    let turn = AtomicU32::new(0);
    let play = |parity: u32, rounds: u32| {
        for _ in 0..rounds {
            loop {
                let now = turn.load(SeqCst);
                if now % 2 == parity {
                    break;
                }
                futex_wait(turn.as_ptr(), now, None);
            }
            turn.fetch_add(1, SeqCst);
            futex_wake(turn.as_ptr(), 1);
        }
    };
    let least = thread::scope(|scope| {
        scope.spawn(|| play(1, ROUNDS * BATCHES as u32));
        let timed = |_| {
            let start = Instant::now();
            play(0, ROUNDS);
            start.elapsed().as_nanos() as u64 / u64::from(ROUNDS)
        };
        (0..BATCHES).map(timed).min()
    });
    Some(least?.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_trip_is_measured() {
        let ns = thread::spawn(measure).join().unwrap().unwrap();
        assert!((100..100_000_000).contains(&ns), "{ns} ns");
    }

    #[test]
    fn what_is_stored_is_read_back() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("a/calibration.json");
        let calibration =
            Calibration { cpu: "c".to_owned(), kernel: "k".to_owned(), least_round_trip_ns: 4_200 };
        store(&file, &calibration);
        let read: Calibration = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        assert_eq!(read, calibration);
        assert_eq!(fs::read_dir(file.parent().unwrap()).unwrap().count(), 1);
    }
}
