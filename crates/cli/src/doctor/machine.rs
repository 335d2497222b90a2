//! The machine: libc, kernel, CPUs, nodes, clocks.

use std::ffi::CStr;
use std::fs;

use lockwork_platform::slice;
use lockwork_platform::topology::Topology;

use super::Check;
use crate::calibration;
use crate::environment;
use crate::host::{cpuinfo_field, glibc_version};

pub(super) fn checks(checks: &mut Vec<Check>) {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    checks.extend([
        glibc(),
        kernel(),
        cpus(),
        numa(),
        rseq(),
        slice_extension(),
        clock(&cpuinfo),
        waiting(&cpuinfo),
        context_switch(),
        time_slice(),
    ]);
}

/// The oldest glibc the library is made for: the first whose libpthread is part of libc.
const OLDEST_GLIBC: (u32, u32) = (2, 34);

fn glibc() -> Check {
    let version = glibc_version();
    match major_minor(&version) {
        Some(found) if found >= OLDEST_GLIBC => {
            Check::ok("glibc", version, "the library can take the place of its locks")
        }
        _ => Check::warn("glibc", version, "the library is tested with 2.34 and later only"),
    }
}

fn kernel() -> Check {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    match major_minor(&release) {
        // Wiping the registry's page in a forked child needs MADV_WIPEONFORK.
        Some(version) if version < (4, 14) => {
            Check::fail("kernel", release, "4.14 or later is needed (MADV_WIPEONFORK)")
        }
        _ => Check::ok("kernel", release, "has what the locks need: private futexes, MADV_WIPEONFORK"),
    }
}

/// `6.1` of `6.1.0-13-amd64`.
fn major_minor(version: &str) -> Option<(u32, u32)> {
    let mut numbers = version.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

fn cpus() -> Check {
    let online = online_cpus();
    let usable = std::thread::available_parallelism().map_or(1, usize::from);
    let finding = match online {
        Some(online) if online != usable => {
            format!("{usable} usable of {online} online (affinity or control group)")
        }
        _ => format!("{usable}"),
    };
    if usable == 1 {
        return Check::warn(
            "CPUs",
            finding,
            "locks cannot be contended by running threads: a spin lock only loses time here",
        );
    }
    let consequence = format!(
        "with more than {usable} runnable threads FIFO spin locks (ticket, *-spin) stall; take a *-stp lock or gcr(…)"
    );
    Check::ok("CPUs", finding, consequence)
}

/// Counts `0-3,8` in the kernel's list.
fn online_cpus() -> Option<usize> {
    let text = fs::read_to_string("/sys/devices/system/cpu/online").ok()?;
    count_list(text.trim())
}

fn count_list(list: &str) -> Option<usize> {
    list.split(',')
        .map(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
            Some(last.checked_sub(first)? + 1)
        })
        .sum()
}

fn numa() -> Check {
    let topology = match environment::topology() {
        Ok(Some(topology)) => topology,
        Ok(None) => Topology::discover(),
        Err(error) => {
            return Check::fail("NUMA", error.to_string(), "unset it, or describe it like `node:4 core:8`");
        }
    };
    let (nodes, domains) = (topology.nodes(), topology.domains());
    let origin = if topology.is_virtual() { ", virtual (LOCKWORK_TOPOLOGY)" } else { "" };
    let caches = if domains > nodes {
        format!(", {domains} groups of cores with a last-level cache, which NUMA-aware locks take for nodes")
    } else {
        String::new()
    };
    if nodes == 1 {
        let effect = if domains == 1 {
            "memory is equally near everywhere; hand-offs stay on the node"
        } else {
            "memory is equally near everywhere; hand-offs between the groups are slow"
        };
        return Check::ok("NUMA", format!("1 node{caches}{origin}"), effect);
    }
    let distances: Vec<String> = (0..nodes)
        .map(|from| {
            (0..nodes).map(|to| topology.distance(from, to).to_string()).collect::<Vec<_>>().join(" ")
        })
        .collect();
    Check::ok(
        "NUMA",
        format!("{nodes} nodes{caches}{origin}; distances {}", distances.join(" / ")),
        "hand-offs between nodes are slow; compare locks with the program pinned to one node and to all",
    )
}

fn rseq() -> Check {
    let name: &CStr = c"__rseq_size";
    // SAFETY: the name is NUL-terminated, and RTLD_DEFAULT needs no handle.
    let symbol = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    if symbol.is_null() {
        return Check::warn(
            "rseq",
            "glibc does not register it",
            "a thread asks for its CPU by getcpu, some 10 ns more",
        );
    }
    // SAFETY: glibc documents the symbol as a constant unsigned int.
    let size = unsafe { symbol.cast::<u32>().read() };
    if size == 0 {
        return Check::warn(
            "rseq",
            "switched off or not in the kernel",
            "a thread asks for its CPU by getcpu, some 10 ns more",
        );
    }
    Check::ok("rseq", format!("registered, {size} bytes"), "a thread reads its CPU and node with one load")
}

/// Whether a thread may ask for a little more time when its slice ends in a critical section (Linux 7.0).
fn slice_extension() -> Check {
    let name = "slice extension";
    if slice::is_available() {
        Check::ok(name, "in this kernel", "with `lockwork run --time-slice` holders of mutexes ask for it")
    } else {
        Check::ok(name, "not in this kernel", "no lock asks for it; holders are preempted as anybody is")
    }
}

fn has(cpuinfo: &str, flags: &[&str]) -> bool {
    let field = cpuinfo_field(cpuinfo, "flags").unwrap_or_default();
    flags.iter().all(|flag| field.split_whitespace().any(|word| word == *flag))
}

fn clock(cpuinfo: &str) -> Check {
    if cfg!(not(target_arch = "x86_64")) {
        return Check::ok("clock", "architectural counter", "short delays are measured by it");
    }
    if has(cpuinfo, &["constant_tsc", "nonstop_tsc"]) {
        Check::ok(
            "clock",
            "invariant time-stamp counter",
            "short delays are the same whatever the CPU's frequency",
        )
    } else {
        Check::warn(
            "clock",
            "the time-stamp counter is not said to be invariant",
            "back-off delays vary with the CPU's frequency: expect wider intervals",
        )
    }
}

fn waiting(cpuinfo: &str) -> Check {
    if cfg!(not(target_arch = "x86_64")) {
        return Check::ok(
            "spin waiting",
            "by the architecture's hint",
            "spinning leaves the core to its sibling",
        );
    }
    let found: Vec<&str> = ["waitpkg", "monitor"].into_iter().filter(|flag| has(cpuinfo, &[flag])).collect();
    if found.contains(&"waitpkg") {
        Check::ok(
            "spin waiting",
            "PAUSE; UMWAIT (waitpkg) is there",
            "the locks spin with PAUSE, here as anywhere",
        )
    } else {
        Check::ok(
            "spin waiting",
            "PAUSE; no UMWAIT (waitpkg)",
            "the locks spin with PAUSE; nothing is missing",
        )
    }
}

fn context_switch() -> Check {
    let name = "context switch";
    match calibration::round_trip_ns() {
        Some(ns) => {
            let place = calibration::cache_file().map(|file| format!("; kept in {}", file.display()));
            let consequence =
                "spin-then-park waiters spin for so long, unless LOCKWORK_SPIN_NS says otherwise";
            Check::ok(
                name,
                format!("{ns} ns there and back"),
                format!("{consequence}{}", place.unwrap_or_default()),
            )
        }
        None => Check::warn(name, "cannot be measured", "spin-then-park waiters spin for 5,000 ns"),
    }
}

fn time_slice() -> Check {
    let consequence = "a lock holder preempted at a bad moment stops spinning waiters for about so long";
    match slice_ms() {
        Some(ms) if ms > 0.0 => Check::ok("time slice", format!("{ms:.1} ms"), consequence),
        Some(_) => Check::ok("time slice", "less than a tick of the kernel's clock", consequence),
        None => Check::warn(
            "time slice",
            "the kernel does not say",
            "how long a preempted lock holder stops others is unknown",
        ),
    }
}

/// What the scheduler says of itself, else, in ticks of its clock, what it says of this process.
pub(crate) fn slice_ms() -> Option<f64> {
    if let Ok(text) = fs::read_to_string("/sys/kernel/debug/sched/base_slice_ns")
        && let Ok(ns) = text.trim().parse::<f64>()
    {
        return Some(ns / 1e6);
    }
    let mut slice = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `slice` is valid for writes; 0 is this process.
    let result = unsafe { libc::sched_rr_get_interval(0, &raw mut slice) };
    (result == 0).then(|| slice.tv_sec as f64 * 1e3 + slice.tv_nsec as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        assert_eq!(major_minor("2.36"), Some((2, 36)));
        assert_eq!(major_minor("6.1.0-13-amd64"), Some((6, 1)));
        assert_eq!(major_minor("garbage"), None);
    }

    #[test]
    fn cpu_lists() {
        assert_eq!(count_list("0"), Some(1));
        assert_eq!(count_list("0-3,8"), Some(5));
        assert_eq!(count_list("3-0"), None);
        assert_eq!(count_list(""), None);
    }

    #[test]
    fn flags_are_whole_words() {
        let cpuinfo = "processor : 0\nflags\t: fpu constant_tsc nonstop_tsc_s3\n";
        assert!(has(cpuinfo, &["constant_tsc"]));
        assert!(!has(cpuinfo, &["constant_tsc", "nonstop_tsc"]));
    }
}
