//! The host as every figure must name it, and what else goes on there.

use std::collections::BTreeMap;
use std::fs;

use lockwork_platform::topology;

use crate::campaign::Topology;
use crate::store::Surroundings;

/// What does not change from run to run.
#[derive(Debug, Clone)]
pub(crate) struct Host {
    /// Its name.
    pub(crate) name: String,
    /// Kernel and release.
    pub(crate) kernel: String,
    /// The CPUs that this process may use, by node.
    pub(crate) topology: Topology,
    /// What can be read of its settings.
    pub(crate) settings: BTreeMap<String, String>,
}

impl Host {
    /// Of this machine.
    pub(crate) fn read() -> Self {
        let uname = rustix::system::uname();
        Host {
            name: uname.nodename().to_string_lossy().into_owned(),
            kernel: format!("{} {}", uname.sysname().to_string_lossy(), uname.release().to_string_lossy()),
            topology: nodes(),
            settings: settings(),
        }
    }

    /// With the name that a Slurm node has, where several are one host.
    pub(crate) fn named(mut self, name: Option<String>) -> Self {
        self.name = name.unwrap_or(self.name);
        self
    }

    /// As it is now.
    pub(crate) fn surroundings(&self, commit: &str) -> Surroundings {
        Surroundings {
            host: self.name.clone(),
            kernel: self.kernel.clone(),
            commit: commit.to_owned(),
            settings: self.settings.clone(),
            competing: None,
            load: load(),
            temperature: None,
            frequency: None,
            job: std::env::var("SLURM_JOB_ID").ok(),
        }
    }
}

/// The CPUs of this process by node, from the nearest to the farthest from the first.
fn nodes() -> Topology {
    let machine = topology::Topology::discover();
    let mut nodes: BTreeMap<(u8, usize), Vec<u32>> = BTreeMap::new();
    let allowed = allowed_cpus();
    let first = allowed.first().map_or(0, |cpu| machine.node_of(*cpu as usize));
    for cpu in allowed {
        let node = machine.node_of(cpu as usize);
        nodes.entry((machine.distance(first, node), node)).or_default().push(cpu);
    }
    Topology { nodes: nodes.into_values().collect() }
}

/// The CPUs that this process may run on.
fn allowed_cpus() -> Vec<u32> {
    // SAFETY: all-zero bytes are a valid set of CPUs: the empty one.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set is valid for writes of its size; 0 is the calling thread.
    let read = unsafe { libc::sched_getaffinity(0, size_of_val(&set), &raw mut set) };
    if read != 0 {
        return vec![0];
    }
    // SAFETY: every number is below CPU_SETSIZE, within the set.
    let is_set = |cpu: &u32| unsafe { libc::CPU_ISSET(*cpu as usize, &set) };
    (0..libc::CPU_SETSIZE as u32).filter(is_set).collect()
}

fn line_of(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().next()?.trim();
    (!line.is_empty()).then(|| line.to_owned())
}

/// What matters for a figure and can be read without privileges; a missing file is a missing entry.
fn settings() -> BTreeMap<String, String> {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| {
        cpuinfo.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            (key.trim() == name).then(|| value.trim().to_owned())
        })
    };
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let cpu = "/sys/devices/system/cpu";
    let found = [
        ("processor", field("model name")),
        ("microcode", field("microcode")),
        ("memory", memory.lines().next().and_then(|line| Some(line.split_once(':')?.1.trim().to_owned()))),
        ("cpus", std::thread::available_parallelism().ok().map(|count| count.to_string())),
        ("governor", line_of(&format!("{cpu}/cpu0/cpufreq/scaling_governor"))),
        ("boost", line_of(&format!("{cpu}/cpufreq/boost"))),
        ("no_turbo", line_of(&format!("{cpu}/intel_pstate/no_turbo"))),
        ("smt", line_of(&format!("{cpu}/smt/control"))),
        ("transparent_hugepage", line_of("/sys/kernel/mm/transparent_hugepage/enabled")),
        ("numa_balancing", line_of("/proc/sys/kernel/numa_balancing")),
        ("clocksource", line_of("/sys/devices/system/clocksource/clocksource0/current_clocksource")),
        ("bios", line_of("/sys/class/dmi/id/bios_version")),
        ("product", line_of("/sys/class/dmi/id/product_name")),
    ];
    found.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

fn load() -> Option<f64> {
    line_of("/proc/loadavg")?.split_whitespace().next()?.parse().ok()
}

/// The highest of the thermal zones, degrees Celsius.
pub(super) fn temperature() -> Option<f64> {
    let zones = fs::read_dir("/sys/class/thermal").ok()?.flatten();
    let readings = zones.filter_map(|zone| fs::read_to_string(zone.path().join("temp")).ok());
    readings.filter_map(|text| text.trim().parse::<f64>().ok()).map(|milli| milli / 1e3).reduce(f64::max)
}

/// The mean frequency of the CPUs in MHz, by the driver or, where there is none, as the kernel reckons it.
pub(super) fn frequency() -> Option<f64> {
    let cpus = fs::read_dir("/sys/devices/system/cpu").ok()?.flatten();
    let khz = cpus.filter_map(|cpu| fs::read_to_string(cpu.path().join("cpufreq/scaling_cur_freq")).ok());
    let mhz: Vec<f64> = khz.filter_map(|text| text.trim().parse::<f64>().ok()).map(|khz| khz / 1e3).collect();
    lockwork_stats::mean(&mhz).or_else(|| {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").ok()?;
        let fields = cpuinfo.lines().filter(|line| line.starts_with("cpu MHz"));
        let mhz: Vec<f64> = fields.filter_map(|line| line.split_once(':')?.1.trim().parse().ok()).collect();
        lockwork_stats::mean(&mhz)
    })
}
