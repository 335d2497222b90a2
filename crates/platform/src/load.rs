//! How many threads of the system can run right now: the kernel's figure, sampled by whoever asks.

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use crate::clock::Clock;
use crate::sys;

/// For how long a sample counts. A scheduler's time slice is about as long.
const FRESH_NS: u64 = 3_000_000;

/// When the last sample was begun, by the monotonic clock. Who moves it on takes the sample, so nobody else does meanwhile,
/// and if that thread vanishes (in a child after `fork`) the next sample is taken all the same.
static SAMPLED_AT: AtomicU64 = AtomicU64::new(0);
/// The last sample, less those who have left since.
static RUNNABLE: AtomicUsize = AtomicUsize::new(0);

/// See [`Platform::runnable`](crate::Platform::runnable).
pub(crate) fn runnable() -> usize {
    let now = sys::now(Clock::Monotonic);
    let before = SAMPLED_AT.load(Relaxed);
    if now.saturating_sub(before) > FRESH_NS
        && SAMPLED_AT.compare_exchange(before, now, Relaxed, Relaxed).is_ok()
    {
        let mut buffer = [0; 128];
        let text = sys::read_file(c"/proc/loadavg", &mut buffer).unwrap_or_default();
        RUNNABLE.store(parse(text).unwrap_or(0), Relaxed);
    }
    RUNNABLE.load(Relaxed)
}

/// Takes one off the figure if it is more than `cpus`; whether it was.
pub(crate) fn claim(cpus: usize) -> bool {
    runnable() > cpus
        && RUNNABLE.fetch_update(Relaxed, Relaxed, |runnable| (runnable > cpus).then(|| runnable - 1)).is_ok()
}

/// The running count of `/proc/loadavg`: `0.20 0.18 0.12 1/80 11206` has 1.
fn parse(text: &[u8]) -> Option<usize> {
    let field = text.split(|byte| *byte == b' ').nth(3)?;
    let digits = field.split(|byte| *byte == b'/').next()?;
    core::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_running_count_is_found() {
        assert_eq!(parse(b"44.86 41.06 71.56 10/148 6584\n"), Some(10));
        assert_eq!(parse(b"0.20 0.18 0.12 1/80 11206\n"), Some(1));
        for text in [&b""[..], b"0.20 0.18", b"0.20 0.18 0.12 x/80 11206", b"0.20 0.18 0.12 "] {
            assert_eq!(parse(text), None);
        }
    }

    #[test]
    fn who_asks_runs() {
        assert!(runnable() >= 1);
    }
}
