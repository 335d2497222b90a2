//! How many threads of the system can run right now, and on how much of a CPU this process has a claim: the kernel's
//! figures, sampled by whoever asks.

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

/// See [`Platform::crowded`](crate::Platform::crowded): of a process that may use `cpus` CPUs, on a machine on which a
/// context switch and back take `round_trip` ns.
pub(crate) fn crowded(before: &mut u64, cpus: usize, round_trip: u64) -> bool {
    /// A look that comes later than the time of so many context switches does so because the thread was off its CPU.
    const INTERRUPTED: u64 = 10;
    let now = sys::now(Clock::Monotonic);
    let last = core::mem::replace(before, now);
    let interrupted = last != 0 && now.saturating_sub(last) > INTERRUPTED.saturating_mul(round_trip);
    interrupted || runnable() > cpus.min(quota())
}

/// CPUs that the control group pays for, rounded up, by [`read_quota`]; 0 = not asked yet.
static QUOTA: AtomicUsize = AtomicUsize::new(0);

/// How many CPUs this process may use at a time for good: those its control group has the quota of.
fn quota() -> usize {
    match QUOTA.load(Relaxed) {
        0 => {
            let quota = read_quota();
            QUOTA.store(quota, Relaxed);
            quota
        }
        quota => quota,
    }
}

/// Reads the quota of the process's own group, as containers see it, in either version of the interface; `usize::MAX` where
/// there is none.
#[cold]
fn read_quota() -> usize {
    let mut buffer = [0; 64];
    if let Some(text) = sys::read_file(c"/sys/fs/cgroup/cpu.max", &mut buffer) {
        let mut fields = text.split(u8::is_ascii_whitespace).map(number);
        return cpus_of(fields.next().flatten(), fields.next().flatten());
    }
    let mut read = |path| number(sys::read_file(path, &mut buffer)?.trim_ascii_end());
    let quota = read(c"/sys/fs/cgroup/cpu/cpu.cfs_quota_us");
    cpus_of(quota, read(c"/sys/fs/cgroup/cpu/cpu.cfs_period_us"))
}

/// The number that `text` is; `max` and `-1`, which mean none, are none.
fn number(text: &[u8]) -> Option<u64> {
    core::str::from_utf8(text).ok()?.parse().ok()
}

/// How many CPUs can run for `quota` in each `period`, at least 1; `usize::MAX` without a limit.
fn cpus_of(quota: Option<u64>, period: Option<u64>) -> usize {
    match (quota, period) {
        (Some(quota), Some(period)) if period > 0 => quota.div_ceil(period).max(1) as usize,
        _ => usize::MAX,
    }
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
    fn a_wait_that_was_interrupted_is_a_sign() {
        let mut before = 0;
        assert!(!crowded(&mut before, usize::MAX, u64::MAX) || quota() < usize::MAX);
        assert_ne!(before, 0);
        before = 1;
        assert!(crowded(&mut before, usize::MAX, 1_000));
    }

    #[test]
    fn quotas_are_rounded_up() {
        assert_eq!(cpus_of(number(b"150000"), number(b"100000")), 2);
        assert_eq!(cpus_of(number(b"10"), number(b"100000")), 1);
        for (quota, period) in [(&b"max"[..], &b"100000"[..]), (b"-1", b"100000"), (b"5", b"0"), (b"5", b"")]
        {
            assert_eq!(cpus_of(number(quota), number(period)), usize::MAX);
        }
    }

    #[test]
    fn who_asks_runs() {
        assert!(runnable() >= 1);
    }
}
