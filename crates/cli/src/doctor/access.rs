//! What the kernel lets this user measure: performance counters and BPF.

use std::fs;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::path::Path;

use lockwork_platform::cpu_time::Allowed;
use lockwork_study::{POWER, POWERCAP, Rapl};
use perf_event_open_sys as perf;

use super::Check;
use crate::monitor::{self, Daemon};

pub(super) fn checks(checks: &mut Vec<Check>) {
    checks.extend([counters(), energy(), bpf(), cpu_clocks(), scheduler()]);
}

fn counters() -> Check {
    let level = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").map(|text| text.trim().to_owned());
    let level = level.map_or_else(|_| "not there".to_owned(), |level| format!("perf_event_paranoid {level}"));
    match (open_counter(Counter::Hardware), open_counter(Counter::Software)) {
        (Ok(_), _) => Check::ok(
            "perf",
            format!("{level}; hardware counters open"),
            "cycles and cache misses can be counted with `perf stat`",
        ),
        (Err(hardware), Ok(_)) => Check::warn(
            "perf",
            format!("{level}; software events only ({})", crate::program::describe(&hardware)),
            "context switches can be counted; cycles and cache misses cannot (usual in virtual machines)",
        ),
        (_, Err(error)) => Check::warn(
            "perf",
            format!("{level}; closed ({})", crate::program::describe(&error)),
            "nothing can be counted; lower kernel.perf_event_paranoid or grant CAP_PERFMON",
        ),
    }
}

fn energy() -> Check {
    let zones = fs::read_dir(POWERCAP).into_iter().flatten().flatten();
    let mut names = zones.filter_map(|zone| zone.file_name().into_string().ok());
    match (
        Rapl::find(Path::new(POWERCAP), Path::new(POWER)).is_there(),
        names.any(|name| name.starts_with("intel-rapl")),
    ) {
        (true, _) => Check::ok(
            "energy",
            "RAPL's counters can be read",
            "`lockwork study` records joules and throughput per power",
        ),
        (false, true) => Check::warn(
            "energy",
            "RAPL's counters are closed to this user",
            "`lockwork study` records no energy: let root run it, make the files `energy_uj` readable, or lower kernel.perf_event_paranoid to 0",
        ),
        (false, false) => Check::warn(
            "energy",
            "no RAPL counters (usual in virtual machines)",
            "`lockwork study` says `not measured` where energy would be",
        ),
    }
}

#[derive(Clone, Copy)]
enum Counter {
    Hardware,
    Software,
}

/// Opens a counter of this thread in user mode, and closes it.
fn open_counter(counter: Counter) -> io::Result<()> {
    let mut attributes = perf::bindings::perf_event_attr {
        size: size_of::<perf::bindings::perf_event_attr>() as u32,
        ..Default::default()
    };
    match counter {
        Counter::Hardware => {
            attributes.type_ = perf::bindings::PERF_TYPE_HARDWARE;
            attributes.config = u64::from(perf::bindings::PERF_COUNT_HW_CPU_CYCLES);
        }
        Counter::Software => {
            attributes.type_ = perf::bindings::PERF_TYPE_SOFTWARE;
            attributes.config = u64::from(perf::bindings::PERF_COUNT_SW_CONTEXT_SWITCHES);
        }
    }
    attributes.set_disabled(1);
    attributes.set_exclude_kernel(1);
    attributes.set_exclude_hv(1);
    // SAFETY: `attributes` is initialised and says its own size; pid 0 and cpu -1 mean this thread on any CPU.
    let descriptor = unsafe { perf::perf_event_open(&raw mut attributes, 0, -1, -1, 0) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was just opened and nobody else has it.
    drop(unsafe { OwnedFd::from_raw_fd(descriptor) });
    Ok(())
}

/// Bits of `CapEff` in /proc/self/status.
const CAP_SYS_ADMIN: u64 = 1 << 21;
const CAP_BPF: u64 = 1 << 39;

fn bpf() -> Check {
    let btf = fs::File::open("/sys/kernel/btf/vmlinux").is_ok();
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let allowed = effective_capabilities(&status) & (CAP_SYS_ADMIN | CAP_BPF) != 0;
    let finding = format!(
        "{}; {}",
        if btf { "kernel types (BTF) readable" } else { "no kernel types (BTF)" },
        if allowed { "this user may load programs" } else { "this user may not load programs" }
    );
    match (btf, allowed) {
        (true, true) => {
            Check::ok("BPF", finding, "tracing tools such as bpftrace can watch futexes and the scheduler")
        }
        (true, false) => Check::warn("BPF", finding, "tracing tools need root or CAP_BPF and CAP_PERFMON"),
        (false, _) => Check::warn(
            "BPF",
            finding,
            "portable tracing tools do not work; the kernel needs CONFIG_DEBUG_INFO_BTF",
        ),
    }
}

/// Whether waiters can read the CPU clocks of those they wait for.
fn cpu_clocks() -> Check {
    let name = "CPU clocks";
    let fallback = "waiters of aware locks ask a monitor which threads run, or go by the load and the clock";
    match monitor::allow_cpu_clocks() {
        Some(Allowed::Yes) => Check::ok(
            name,
            "those of threads can be read",
            "waiters of aware locks see whether the thread ahead runs",
        ),
        Some(Allowed::Filtered) => Check::warn(
            name,
            "not read: a filter of system calls is in force",
            format!("{fallback}; LOCKWORK_CPU_CLOCKS=1 if the filter allows all of clock_gettime"),
        ),
        Some(Allowed::Coarse) => {
            Check::warn(name, "those of threads cannot be read, or stand still", fallback)
        }
        None => Check::warn(name, "not read: LOCKWORK_CPU_CLOCKS is not 1", fallback),
    }
}

/// Whether `lockwork monitor` can run, and whether it does.
fn scheduler() -> Check {
    let name = "scheduler";
    monitor::attach();
    let fallback = "programs go without";
    if lockwork_platform::monitor::is_attached() {
        return Check::ok(name, "a monitor runs", "waiters that may not read CPU clocks ask it who runs");
    }
    match monitor::ask_daemon() {
        Daemon::Able(tells) => Check::ok(
            name,
            format!("no monitor runs; one could ({tells})"),
            format!("{fallback}; `lockwork monitor` tells who runs where CPU clocks may not be read"),
        ),
        Daemon::Unable(why) => Check::warn(name, format!("not watched: {why}"), fallback),
        Daemon::Missing => Check::ok(
            name,
            "no monitor runs, and none has been built",
            format!("{fallback}; `{}` makes one, for where CPU clocks may not be read", monitor::BUILD),
        ),
    }
}

fn effective_capabilities(status: &str) -> u64 {
    let hex = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap_or_default();
    u64::from_str_radix(hex.trim(), 16).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities() {
        assert_eq!(effective_capabilities("Name:\tx\nCapEff:\t0000000000200000\n"), CAP_SYS_ADMIN);
        assert_eq!(effective_capabilities(""), 0);
    }
}
