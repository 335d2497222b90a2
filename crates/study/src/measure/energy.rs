//! Energy by RAPL, through the kernel's powercap files, or through perf's power unit where those are missing or closed. Where the
//! machine has neither, energy is not measured, and never estimated.
//!
//! A zone `package-N` of powercap counts the microjoules of a socket, its sub-zone `dram` those of the memory; both wrap around at
//! `max_energy_range_uj`. A counter wraps after minutes at the earliest, so that a run of a few minutes wraps it at most once. perf
//! counts the same in events `energy-pkg` and `energy-ram` on one CPU of each socket, in units of `energy-pkg.scale` joules and
//! without an end.

use std::cell::RefCell;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use perf_event::events::Dynamic;
use perf_event::{Builder, Counter};

/// Where Linux has powercap's files.
pub const POWERCAP: &str = "/sys/class/powercap";

/// Where Linux has perf's power unit.
pub const POWER: &str = "/sys/bus/event_source/devices/power";

/// The energy counters of a machine.
#[derive(Debug, Default)]
pub struct Rapl {
    zones: Vec<Zone>,
}

#[derive(Debug)]
struct Zone {
    counter: Source,
    dram: bool,
}

/// Where a zone's count is read.
#[derive(Debug)]
enum Source {
    /// A file of microjoules, which begins anew at `range`.
    Powercap { file: PathBuf, range: u64 },
    /// A counter of so many microjoules each.
    Perf { counter: RefCell<Counter>, unit: f64 },
}

impl Source {
    /// Microjoules since whenever.
    fn read(&self) -> Option<u64> {
        match self {
            Source::Powercap { file, .. } => number(file),
            Source::Perf { counter, unit } => {
                let count = counter.borrow_mut().read().ok()?;
                Some((count as f64 * unit) as u64)
            }
        }
    }

    /// Microjoules from one reading to the next.
    fn between(&self, before: u64, after: u64) -> u64 {
        match self {
            Source::Powercap { range, .. } if after < before => after + (range - before),
            _ => after.saturating_sub(before),
        }
    }
}

/// What the counters showed.
#[derive(Debug, Clone)]
pub(crate) struct Reading(Vec<u64>);

/// Joules between two readings.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Joules {
    pub(crate) package: f64,
    pub(crate) dram: Option<f64>,
}

fn number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

impl Rapl {
    /// The counters below `powercap`, else those of perf's unit at `power`: [`POWERCAP`] and [`POWER`] on a real machine. None,
    /// if they cannot be read: since Linux 5.10 powercap's only by root, perf's by whom `kernel.perf_event_paranoid` lets count
    /// on whole CPUs.
    #[must_use]
    pub fn find(powercap: &Path, power: &Path) -> Self {
        let zones = by_powercap(powercap);
        if !zones.is_empty() {
            return Rapl { zones };
        }
        Rapl { zones: by_perf(power).unwrap_or_default() }
    }

    /// Whether there is anything to read.
    #[must_use]
    pub fn is_there(&self) -> bool {
        !self.zones.is_empty()
    }

    pub(crate) fn read(&self) -> Option<Reading> {
        let counters: Option<Vec<u64>> = self.zones.iter().map(|zone| zone.counter.read()).collect();
        counters.filter(|counters| !counters.is_empty()).map(Reading)
    }

    pub(crate) fn between(&self, before: &Reading, after: &Reading) -> Joules {
        let sum = |dram: bool| {
            let zones = self.zones.iter().zip(before.0.iter().zip(&after.0));
            let used = zones
                .filter(|(zone, _)| zone.dram == dram)
                .map(|(zone, (before, after))| zone.counter.between(*before, *after));
            used.map(|micro| micro as f64 / 1e6).reduce(|a, b| a + b)
        };
        Joules { package: sum(false).unwrap_or_default(), dram: sum(true) }
    }
}

fn by_powercap(powercap: &Path) -> Vec<Zone> {
    let entries = fs::read_dir(powercap).into_iter().flatten().flatten();
    let mut zones: Vec<(PathBuf, Zone)> = entries
        .filter_map(|entry| {
            let (path, file) = (entry.path(), entry.file_name());
            // `intel-rapl:0` and `intel-rapl:0:1`; the same zones through `intel-rapl-mmio` would count twice.
            if !file.to_string_lossy().starts_with("intel-rapl:") {
                return None;
            }
            let name = fs::read_to_string(path.join("name")).ok()?;
            let dram = name.trim() == "dram";
            if !dram && !name.starts_with("package") {
                return None;
            }
            let file = path.join("energy_uj");
            number(&file)?;
            let range = number(&path.join("max_energy_range_uj"))?;
            Some((path, Zone { counter: Source::Powercap { file, range }, dram }))
        })
        .collect();
    zones.sort_by(|a, b| a.0.cmp(&b.0));
    let zones: Vec<Zone> = zones.into_iter().map(|(_, zone)| zone).collect();
    // Memory alone is not what a package uses.
    if zones.iter().all(|zone| zone.dram) { Vec::new() } else { zones }
}

fn by_perf(power: &Path) -> io::Result<Vec<Zone>> {
    // One CPU of each socket.
    let cpus = cpu_list(&fs::read_to_string(power.join("cpumask"))?);
    let mut zones = Vec::new();
    for (event, dram) in [("energy-pkg", false), ("energy-ram", true)] {
        if dram && !power.join("events").join(event).exists() {
            continue;
        }
        for cpu in &cpus {
            let mut which = Dynamic::builder(power)?;
            which.event(event)?;
            let scale = which.scale()?.ok_or_else(|| io::Error::other("energy without a scale"))?;
            let event = which.build().map_err(io::Error::other)?;
            // The unit counts whatever runs, and refuses to leave anything out.
            let counter = Builder::new(event)
                .any_pid()
                .one_cpu(*cpu)
                .exclude_kernel(false)
                .exclude_hv(false)
                .enabled(true)
                .build()?;
            zones.push(Zone {
                counter: Source::Perf { counter: RefCell::new(counter), unit: scale * 1e6 },
                dram,
            });
        }
    }
    Ok(zones)
}

/// The CPUs of a list such as `0,24-25`.
fn cpu_list(text: &str) -> Vec<usize> {
    let ranges = text.trim().split(',').filter_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some(first.parse::<usize>().ok()?..=last.parse().ok()?)
    });
    ranges.flatten().collect()
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    /// Says that something is not tested here, and why, past the harness, which keeps what passing tests print to itself.
    /// `scripts/test.sh` counts these lines.
    fn skipped(why: &str) {
        let _ = writeln!(io::stderr(), "SKIPPED: energy by perf: {why}");
    }

    fn zone(directory: &Path, file: &str, name: &str, micro: u64) {
        let zone = directory.join(file);
        fs::create_dir_all(&zone).unwrap();
        fs::write(zone.join("name"), format!("{name}\n")).unwrap();
        fs::write(zone.join("energy_uj"), format!("{micro}\n")).unwrap();
        fs::write(zone.join("max_energy_range_uj"), "10000000\n").unwrap();
    }

    #[test]
    fn packages_and_memory_are_added_up_and_wrap_around() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        let write = |package: u64, other: u64, dram: u64| {
            zone(path, "intel-rapl:0", "package-0", package);
            zone(path, "intel-rapl:1", "package-1", other);
            zone(path, "intel-rapl:0:0", "core", 77);
            zone(path, "intel-rapl:0:1", "dram", dram);
            zone(path, "intel-rapl-mmio:0", "package-0", package);
            zone(path, "intel-rapl:2", "psys", package);
        };
        write(1_000_000, 9_000_000, 5);
        let rapl = Rapl::find(path, Path::new("/nonexistent"));
        let before = rapl.read().unwrap();
        write(3_000_000, 500_000, 2_000_005);
        let joules = rapl.between(&before, &rapl.read().unwrap());
        assert_eq!(joules, Joules { package: 2.0 + 1.5, dram: Some(2.0) });
    }

    #[test]
    fn a_machine_without_counters_has_no_energy() {
        let directory = tempfile::tempdir().unwrap();
        assert!(!Rapl::find(directory.path(), directory.path()).is_there());
        assert!(!Rapl::find(&directory.path().join("absent"), &directory.path().join("absent")).is_there());
        zone(directory.path(), "intel-rapl:0:1", "dram", 5);
        assert!(Rapl::find(directory.path(), directory.path()).read().is_none(), "memory alone");
    }

    #[test]
    fn lists_of_cpus_are_read() {
        assert_eq!(cpu_list("0,24-26\n"), [0, 24, 25, 26]);
        assert!(cpu_list("").is_empty());
    }

    /// A power unit whose energy is the time-stamp counter, a billionth of a joule a tick: it takes some tenths of a watt to
    /// some watts.
    #[test]
    fn perf_counts_where_powercap_does_not() {
        let msr = Path::new("/sys/bus/event_source/devices/msr");
        let directory = tempfile::tempdir().unwrap();
        let power = directory.path();
        for folder in ["events", "format"] {
            fs::create_dir(power.join(folder)).unwrap();
        }
        let Ok(kind) = fs::read_to_string(msr.join("type")) else {
            skipped("no perf unit that counts time stamps");
            return;
        };
        for (file, text) in [
            ("type", kind.as_str()),
            ("cpumask", "0\n"),
            ("format/event", "config:0-63\n"),
            ("events/energy-pkg", "event=0x00\n"),
            ("events/energy-pkg.scale", "1e-9\n"),
            ("events/energy-pkg.unit", "Joules\n"),
        ] {
            fs::write(power.join(file), text).unwrap();
        }
        match by_perf(power) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                skipped("kernel.perf_event_paranoid forbids to count on a whole CPU");
                return;
            }
            found => assert_eq!(found.unwrap().len(), 1),
        }
        let rapl = Rapl::find(Path::new("/nonexistent"), power);
        let (before, begin) = (rapl.read().unwrap(), std::time::Instant::now());
        std::thread::sleep(std::time::Duration::from_millis(20));
        let (joules, seconds) = (rapl.between(&before, &rapl.read().unwrap()), begin.elapsed().as_secs_f64());
        assert!((0.1..=20.0).contains(&(joules.package / seconds)), "{joules:?} in {seconds} s");
        assert_eq!(joules.dram, None);
    }
}
