//! How many threads of this process can run right now, and on how much of the machine it has a claim: what the kernel says,
//! sampled by the waiters that ask.
//!
//! Only this process counts. Other tenants of the machine have CPUs of their own, or take ours: then threads of ours are
//! preempted, and the kernel counts that. A look is bounded: a waiter that took stock of a thousand threads would not see for
//! ten milliseconds that the lock is its own. So a look is at [`BATCH`] threads, and a sample takes as many looks as it needs.
//!
//! A thread that moves [`DUE`] on has the right to the next look; all figures are hints, and two threads that look at the
//! same time (one of them was preempted meanwhile, or died in a parent of `fork`) spoil one sample and nothing else.

use core::ffi::CStr;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use super::preemptions;
use crate::cpu::Clock;
use crate::sys;

/// For how long a sample counts. A scheduler's time slice is about as long.
const FRESH_NS: u64 = 3_000_000;
/// From one look of a sample to the next.
const NEXT_NS: u64 = 1_000_000;
/// Threads that a look is at.
const BATCH: usize = 8;
/// For how long what the control group says counts. The kernel's averages move as often.
const LIMITS_NS: u64 = 2_000_000_000;

/// When the next look is due, by the monotonic clock.
static DUE: AtomicU64 = AtomicU64::new(0);
/// Threads that the current sample has seen, and how many of them are runnable.
static SEEN: AtomicUsize = AtomicUsize::new(0);
static SUM: AtomicUsize = AtomicUsize::new(0);
/// The last sample, less those that have left since.
static RUNNABLE: AtomicUsize = AtomicUsize::new(0);

/// See [`Sched::runnable`](crate::Sched::runnable).
pub(super) fn runnable() -> usize {
    let now = sys::now(Clock::Monotonic);
    let due = DUE.load(Relaxed);
    if now >= due && DUE.compare_exchange(due, now.saturating_add(NEXT_NS), Relaxed, Relaxed).is_ok() {
        look();
        if SEEN.load(Relaxed) == 0 {
            DUE.store(now.saturating_add(FRESH_NS), Relaxed);
        }
    }
    RUNNABLE.load(Relaxed)
}

/// Looks at the next threads of this process.
#[cold]
fn look() {
    let (seen, sum) = (SEEN.load(Relaxed), SUM.load(Relaxed));
    let some = sys::look_at_threads(seen, BATCH).unwrap_or_default();
    let sum = sum + some.runnable;
    if some.more {
        SEEN.store(seen + some.seen, Relaxed);
        SUM.store(sum, Relaxed);
        // More are known already than the last sample had.
        RUNNABLE.fetch_max(sum, Relaxed);
    } else {
        RUNNABLE.store(sum, Relaxed);
        SEEN.store(0, Relaxed);
        SUM.store(0, Relaxed);
    }
}

/// Takes one off the figure if it is more than `cpus`; whether it was.
pub(crate) fn claim(cpus: usize) -> bool {
    runnable() > cpus
        && RUNNABLE.fetch_update(Relaxed, Relaxed, |runnable| (runnable > cpus).then(|| runnable - 1)).is_ok()
}

/// See [`Sched::is_overloaded`](crate::Sched::is_overloaded).
pub(super) fn is_overloaded(cpus: usize) -> bool {
    runnable() > cpus || preemptions::are_frequent()
}

/// See [`Sched::crowded`](crate::Sched::crowded): of a process that may use `cpus` CPUs, on a machine on which a context
/// switch and back take `round_trip` ns.
pub(super) fn crowded(before: &mut u64, cpus: usize, round_trip: u64) -> bool {
    /// A look that comes later than the time of so many context switches does so because the thread was off its CPU.
    const INTERRUPTED: u64 = 10;
    let now = sys::now(Clock::Monotonic);
    let last = core::mem::replace(before, now);
    let interrupted = last != 0 && now.saturating_sub(last) > INTERRUPTED.saturating_mul(round_trip);
    interrupted || is_overloaded(cpus)
}

/// When the control group's files were last read; 0 = never.
static LIMITS_AT: AtomicU64 = AtomicU64::new(0);
/// CPUs that the control group has the quota of, rounded up; `usize::MAX` without one.
static QUOTA: AtomicUsize = AtomicUsize::new(usize::MAX);
/// How many CPUs this process may use at a time for good: those its control group has the quota of.
pub(super) fn quota() -> usize {
    ask_group();
    QUOTA.load(Relaxed)
}

fn ask_group() {
    let now = sys::now_roughly();
    let asked = LIMITS_AT.load(Relaxed);
    if (asked == 0 || now.saturating_sub(asked) > LIMITS_NS)
        && LIMITS_AT.compare_exchange(asked, now.max(1), Relaxed, Relaxed).is_ok()
    {
        QUOTA.store(Group::of_this_process().quota(), Relaxed);
    }
}

/// Where the control group of this process has its files, in either version of the interface.
struct Group {
    path: [u8; Self::LONGEST],
    /// Bytes of the path: `/sys/fs/cgroup` and the group's own.
    length: usize,
    /// Bytes of it that are no group: where the hierarchy is mounted.
    mount: usize,
    /// Whether the names of the files are those of version 2.
    unified: bool,
}

impl Group {
    const LONGEST: usize = 512;

    #[cold]
    fn of_this_process() -> Self {
        let mut buffer = [0; 2048];
        Self::named_in(sys::read_file(c"/proc/self/cgroup", &mut buffer).unwrap_or_default())
    }

    /// The group that the text of `/proc/self/cgroup` names: `0::/a` of version 2, `4:cpu,cpuacct:/a` of version 1.
    fn named_in(text: &[u8]) -> Self {
        let line = |is_it: &dyn Fn(&[u8]) -> bool| {
            text.split(|byte| *byte == b'\n').find_map(|line| {
                let mut fields = line.splitn(3, |byte| *byte == b':');
                let (_, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
                is_it(controllers).then_some(path)
            })
        };
        let of_cpu = |controllers: &[u8]| controllers.split(|byte| *byte == b',').any(|name| name == b"cpu");
        let (mount, own, unified): (&[u8], _, _) = match line(&of_cpu) {
            Some(path) => (b"/sys/fs/cgroup/cpu", path, false),
            None => (b"/sys/fs/cgroup", line(&<[u8]>::is_empty).unwrap_or_default(), true),
        };
        let mut group = Self { path: [0; Self::LONGEST], length: 0, mount: 0, unified };
        group.append(mount);
        group.mount = group.length;
        group.append(own.strip_suffix(b"/").unwrap_or(own));
        group
    }

    /// Appends to the path what there is room for, with room left for the name of a file.
    fn append(&mut self, bytes: &[u8]) {
        const FILE: usize = 32;
        let end = self.length + bytes.len();
        if end <= Self::LONGEST - FILE {
            self.path[self.length..end].copy_from_slice(bytes);
            self.length = end;
        }
    }

    /// Reads a file of the group whose path has `length` bytes.
    fn read<'a>(&self, length: usize, file: &[u8], buffer: &'a mut [u8]) -> Option<&'a [u8]> {
        let mut path = self.path;
        path[length..].fill(0);
        path[length..length + file.len()].copy_from_slice(file);
        sys::read_file(CStr::from_bytes_until_nul(&path).ok()?, buffer)
    }

    /// The smallest quota of the group and those it is in, in CPUs, rounded up; `usize::MAX` without one.
    fn quota(&self) -> usize {
        let mut least = usize::MAX;
        let mut length = self.length;
        loop {
            least = least.min(self.quota_of(length));
            if length <= self.mount {
                return least;
            }
            let own = &self.path[self.mount..length];
            // In a container the hierarchy may be mounted from the group on: a level that is not there has no quota.
            length = self.mount + own.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
        }
    }

    fn quota_of(&self, length: usize) -> usize {
        let mut buffer = [0; 64];
        if self.unified {
            let text = self.read(length, b"/cpu.max", &mut buffer).unwrap_or_default();
            let mut fields = text.split(u8::is_ascii_whitespace).map(number);
            return cpus_of(fields.next().flatten(), fields.next().flatten());
        }
        let mut read = |file: &[u8]| number(self.read(length, file, &mut buffer)?.trim_ascii_end());
        let quota = read(b"/cpu.cfs_quota_us");
        cpus_of(quota, read(b"/cpu.cfs_period_us"))
    }
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

#[cfg(test)]
mod tests {
    extern crate std;

    use std::format;
    use std::process::{Child, Command};
    use std::string::String;
    use std::vec::Vec;

    use super::*;

    /// Processes that are busy until this is dropped.
    struct Neighbours(Vec<Child>);

    impl Drop for Neighbours {
        fn drop(&mut self) {
            for child in &mut self.0 {
                child.kill().expect("it runs");
                child.wait().expect("it has ended");
            }
        }
    }

    #[test]
    fn the_threads_of_other_processes_do_not_count() {
        const OTHERS: usize = 24;
        /// Threads that other tests may have begun meanwhile.
        const MORE: usize = 10;
        let busy =
            |_| Command::new("sh").args(["-c", "while :; do :; done"]).spawn().expect("there is a shell");
        let _neighbours = Neighbours((0..OTHERS).map(busy).collect());
        let threads =
            || std::fs::read_dir("/proc/self/task").expect("this process can list its threads").count();
        let before = threads();
        while runnable() == 0 {
            std::thread::yield_now();
        }
        let most = before.max(threads()) + MORE;
        assert!(runnable() <= most, "{} runnable of {most} threads at most", runnable());
    }

    #[test]
    fn the_control_group_is_found_in_either_version() {
        let path = |text: &[u8]| {
            let group = Group::named_in(text);
            let path = String::from_utf8_lossy(&group.path[..group.length]).into_owned();
            (path, group.mount, group.unified)
        };
        assert_eq!(path(b"0::/a/b\n"), (String::from("/sys/fs/cgroup/a/b"), 14, true));
        assert_eq!(path(b"0::/\n"), (String::from("/sys/fs/cgroup"), 14, true));
        assert_eq!(path(b""), (String::from("/sys/fs/cgroup"), 14, true));
        let both = b"9:name=systemd:/x\n4:cpu,cpuacct:/a\n3:cpuset:/c\n0::/b\n";
        assert_eq!(path(both), (String::from("/sys/fs/cgroup/cpu/a"), 18, false));
        let long = format!("0::/{}\n", "x".repeat(600));
        assert_eq!(path(long.as_bytes()).0, "/sys/fs/cgroup", "no room for it");
    }

    #[test]
    fn a_wait_that_was_interrupted_is_a_sign() {
        let mut before = 0;
        let crowd = crowded(&mut before, usize::MAX, u64::MAX);
        assert!(!crowd || preemptions::are_frequent());
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
}
