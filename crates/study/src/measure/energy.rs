//! Energy by RAPL, through the kernel's powercap files. Where the machine has none, energy is not measured, and never estimated.
//!
//! A zone `package-N` counts the microjoules of a socket, its sub-zone `dram` those of the memory; both wrap around at
//! `max_energy_range_uj`. A counter wraps after minutes at the earliest, so that a run of a few minutes wraps it at most once.

use std::fs;
use std::path::{Path, PathBuf};

/// Where Linux has it.
pub const POWERCAP: &str = "/sys/class/powercap";

/// The energy counters of a machine.
#[derive(Debug, Clone, Default)]
pub struct Rapl {
    zones: Vec<Zone>,
}

#[derive(Debug, Clone)]
struct Zone {
    counter: PathBuf,
    dram: bool,
    range: u64,
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
    /// The counters below a directory, `/sys/class/powercap` on a real machine. None, if they cannot be read: since Linux 5.10
    /// only root can.
    #[must_use]
    pub fn find(powercap: &Path) -> Self {
        let entries = fs::read_dir(powercap).into_iter().flatten().flatten();
        let mut zones: Vec<Zone> = entries
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
                let counter = path.join("energy_uj");
                number(&counter)?;
                Some(Zone { counter, dram, range: number(&path.join("max_energy_range_uj"))? })
            })
            .collect();
        zones.sort_by(|a, b| a.counter.cmp(&b.counter));
        // Memory alone is not what a package uses.
        if zones.iter().all(|zone| zone.dram) {
            zones.clear();
        }
        Rapl { zones }
    }

    /// Whether there is anything to read.
    #[must_use]
    pub fn is_there(&self) -> bool {
        !self.zones.is_empty()
    }

    pub(crate) fn read(&self) -> Option<Reading> {
        let counters: Option<Vec<u64>> = self.zones.iter().map(|zone| number(&zone.counter)).collect();
        counters.filter(|counters| !counters.is_empty()).map(Reading)
    }

    pub(crate) fn between(&self, before: &Reading, after: &Reading) -> Joules {
        let sum = |dram: bool| {
            let zones = self.zones.iter().zip(before.0.iter().zip(&after.0));
            let used = zones.filter(|(zone, _)| zone.dram == dram).map(|(zone, (before, after))| {
                if after >= before { after - before } else { after + (zone.range - before) }
            });
            used.map(|micro| micro as f64 / 1e6).reduce(|a, b| a + b)
        };
        Joules { package: sum(false).unwrap_or_default(), dram: sum(true) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let rapl = Rapl::find(path);
        let before = rapl.read().unwrap();
        write(3_000_000, 500_000, 2_000_005);
        let joules = rapl.between(&before, &rapl.read().unwrap());
        assert_eq!(joules, Joules { package: 2.0 + 1.5, dram: Some(2.0) });
    }

    #[test]
    fn a_machine_without_counters_has_no_energy() {
        let directory = tempfile::tempdir().unwrap();
        assert!(!Rapl::find(directory.path()).is_there());
        assert!(!Rapl::find(&directory.path().join("absent")).is_there());
        zone(directory.path(), "intel-rapl:0:1", "dram", 5);
        assert!(Rapl::find(directory.path()).read().is_none(), "memory alone");
    }
}
