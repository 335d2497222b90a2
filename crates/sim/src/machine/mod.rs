//! Models of machines: what a file says of one, checked, and in the form in which the simulation uses it.
//!
//! A model is a TOML file; `machines/` has those that come with Lockwork. All costs are in cycles of the machine's
//! clock unless a name says otherwise. See the files for what each figure rests on.

mod file;
mod library;
mod variants;

pub use library::{library, named, text_of};

use lockwork_platform::topology;
use serde::{Deserialize, Serialize};

/// Cores of one last-level cache that the directory can tell apart.
pub const MAX_CORES_PER_LLC: usize = 64;
/// Last-level caches of a machine.
pub const MAX_LLCS: usize = 64;
/// CPUs of a machine: their numbers have 16 bits.
pub const MAX_CPUS: usize = 65_535;

/// A machine.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Machine {
    /// Short name, as `--machine` takes it.
    pub name: String,
    /// What it is, in one line.
    pub title: String,
    /// Where the figures are from.
    pub source: String,
    /// Cycles of a nanosecond.
    pub ghz: f64,
    /// NUMA nodes.
    pub nodes: usize,
    /// Last-level caches of a node.
    #[serde(default = "one")]
    pub llcs_per_node: usize,
    /// Cores that share a last-level cache.
    pub cores_per_llc: usize,
    /// Hardware threads of a core.
    #[serde(default = "one")]
    pub threads_per_core: usize,
    /// Interconnect links between two nodes, row by row; 1 between any two where it is not given.
    #[serde(default)]
    pub hops: Vec<Vec<usize>>,
    /// What memory costs.
    pub memory: Memory,
    /// What a core does.
    #[serde(default)]
    pub core: Core,
    /// What the operating system does.
    #[serde(default)]
    pub os: Os,
}

/// What it costs to get a cache line, in cycles, by how far away it is.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Memory {
    /// A hit in the core's own cache.
    #[serde(default = "four")]
    pub hit: u64,
    /// From another core of the same last-level cache.
    pub llc: Transfer,
    /// From another last-level cache of the same node; as `llc` where it is not given.
    #[serde(default)]
    pub node: Option<Transfer>,
    /// From another node, by the number of hops, from one.
    #[serde(default)]
    pub hop: Vec<Transfer>,
    /// From the memory of the same node, where no cache has the line.
    pub dram: u64,
    /// From the memory of another node.
    pub dram_remote: u64,
    /// The share of a transfer that is the request on its way. The line can serve others until it arrives.
    #[serde(default = "request_share")]
    pub request_share: f64,
    /// Whether a core that reads a line which another one has modified becomes its owner, and may write it with no further request:
    /// migratory sharing (Stenström, Brorsson and Sandberg, "An adaptive cache coherence protocol optimized for migratory
    /// sharing", ISCA 1993). Otherwise both have copies to read.
    #[serde(default)]
    pub migratory: bool,
    /// For each further core whose copy a write takes away.
    #[serde(default = "two")]
    pub invalidate: u64,
    /// Which of the waiting requests a line serves next.
    #[serde(default)]
    pub arbitration: Arbitration,
}

/// A line that another core has modified.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Transfer {
    /// To read it.
    pub load: u64,
    /// To write it.
    pub store: u64,
}

/// Which of the waiting requests a line serves next.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arbitration {
    /// The first to arrive.
    #[default]
    Fifo,
    /// The one that costs the least, which is the nearest to the core that has the line; at one distance loads and stores may
    /// differ. Among equals, the first.
    Nearest,
    /// Any of them, by chance.
    Random,
}

/// In which order a core's stores become visible to others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// In program order, as on x86.
    #[default]
    Tso,
    /// In any, but for what releases and fences say, as on aarch64. Loads are in program order all the same.
    Weak,
}

/// What a core does.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Core {
    /// Stores on their way at a time.
    pub store_buffer: usize,
    /// Loads on their way at a time, where a thread reads several lines that do not depend on each other: 1 = one after the
    /// other. Of the processors here, the older ones have 8 to 10 misses under way at a time.
    pub loads: usize,
    /// In which order they become visible.
    pub order: Order,
    /// The pause instruction.
    pub pause: u64,
    /// An atomic read-modify-write of a line that the core owns, or a full fence with nothing to wait for. InstLatX64 has measured 19
    /// to 22 cycles (LOCK ADD) on Intel's processors of the generations here, and on AMD's those that their files say.
    pub atomic: u64,
    /// How much longer a core's own work takes while its other hardware thread works, as a factor.
    pub smt_slowdown: f64,
}

impl Default for Core {
    fn default() -> Self {
        Self { store_buffer: 8, loads: 8, order: Order::Tso, pause: 10, atomic: 20, smt_slowdown: 1.5 }
    }
}

/// What the operating system does, in cycles unless said otherwise.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Os {
    /// How long a thread runs before another that waits for the CPU gets it, in microseconds.
    pub slice_us: u64,
    /// By what share slices differ, up or down. Without it threads fall into lockstep.
    pub slice_jitter: f64,
    /// From one thread to another.
    pub context_switch: u64,
    /// What comes on top of that where the other thread is another process's: another address space, whose translations the
    /// CPU does not have.
    pub process_switch: u64,
    /// In and out of the kernel, with nothing done there.
    pub syscall: u64,
    /// What waking a sleeper costs the waker, beside the system call.
    pub wake: u64,
    /// From a wake to the sleeper's being ready to run.
    pub wake_latency: u64,
    /// How long a CPU with nothing to do looks for work before it halts, in microseconds (KVM's `halt_poll_ns`, Linux's `haltpoll`; or how
    /// long it stays in a shallow state). 0: every wake costs what it costs of a CPU that has halted.
    pub idle_poll_us: u64,
    /// As `wake`, of a sleeper whose CPU has not halted.
    pub wake_polled: u64,
    /// As `wake_latency`, of a sleeper whose CPU has nothing to do and has not halted. One whose CPU is busy waits for that at once.
    pub wake_latency_polled: u64,
    /// As `wake`, of a sleeper that comes to the waker's own CPU: no other CPU need be told. 0: as any other.
    pub wake_own: u64,
    /// From a wake to the interrupt by which the sleeper takes the CPU from a thread that runs.
    pub preempt_latency: u64,
    /// What a sleep costs by the measurement that locks go by: two threads that wake each other on one CPU, there and back. 0: what the
    /// figures here add up to.
    pub round_trip: u64,
    /// What a thread loses when it comes to another core.
    pub migration: u64,
    /// How much longer a thread must have run than one that wakes up before that takes its CPU away, in microseconds.
    pub wakeup_granularity_us: u64,
    /// How much less than the thread that has its CPU a sleeper counts as having run when it wakes up, at most, in microseconds.
    pub sleeper_credit_us: u64,
}

impl Default for Os {
    fn default() -> Self {
        Self {
            slice_us: 4000,
            slice_jitter: 0.2,
            context_switch: 3000,
            process_switch: 1000,
            syscall: 400,
            wake: 1500,
            wake_latency: 3000,
            idle_poll_us: 0,
            wake_polled: 1500,
            wake_latency_polled: 3000,
            wake_own: 0,
            preempt_latency: 0,
            round_trip: 0,
            migration: 5000,
            wakeup_granularity_us: 1000,
            sleeper_credit_us: 3000,
        }
    }
}

impl Os {
    /// What a thread's sleep costs, in cycles, from the decision to sleep until it runs again.
    pub(crate) fn round_trip(&self) -> u64 {
        match self.round_trip {
            0 => 2 * (self.context_switch + self.syscall) + self.wake + self.wake_latency,
            measured => measured,
        }
    }
}

fn one() -> usize {
    1
}

fn two() -> u64 {
    2
}

fn four() -> u64 {
    4
}

fn request_share() -> f64 {
    0.4
}

/// How far apart two cores are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Distance {
    /// The same core.
    Same,
    /// The same last-level cache.
    Llc,
    /// The same node.
    Node,
    /// Another node, this many links away.
    Hops(usize),
}

impl Machine {
    /// Cores.
    #[must_use]
    pub fn cores(&self) -> usize {
        self.nodes * self.llcs_per_node * self.cores_per_llc
    }

    /// Hardware threads: the CPUs that the operating system sees.
    #[must_use]
    pub fn cpus(&self) -> usize {
        self.cores() * self.threads_per_core
    }

    /// The core of a CPU. CPUs are numbered node by node; the hardware threads of a core come one after the other.
    #[must_use]
    pub fn core_of(&self, cpu: usize) -> usize {
        cpu / self.threads_per_core
    }

    /// The last-level cache of a core.
    #[must_use]
    pub fn llc_of(&self, core: usize) -> usize {
        core / self.cores_per_llc
    }

    /// The node of a core.
    #[must_use]
    pub fn node_of(&self, core: usize) -> usize {
        self.llc_of(core) / self.llcs_per_node
    }

    /// How many [domains](lockwork_platform::Placement::domain) it has.
    #[must_use]
    pub fn domains(&self) -> usize {
        let llcs = self.nodes * self.llcs_per_node;
        let split = topology::splits_nodes(self.cores_per_llc * self.threads_per_core, llcs);
        if split { llcs } else { self.nodes }
    }

    /// The domain of a core.
    #[must_use]
    pub fn domain_of(&self, core: usize) -> usize {
        if self.domains() == self.nodes { self.node_of(core) } else { self.llc_of(core) }
    }

    /// Links between two nodes.
    #[must_use]
    pub fn hops_between(&self, from: usize, to: usize) -> usize {
        match self.hops.get(from).and_then(|row| row.get(to)) {
            Some(hops) => *hops,
            None => usize::from(from != to),
        }
    }

    /// How far apart two cores are.
    #[must_use]
    pub fn distance(&self, from: usize, to: usize) -> Distance {
        if from == to {
            return Distance::Same;
        }
        if self.llc_of(from) == self.llc_of(to) {
            return Distance::Llc;
        }
        match self.hops_between(self.node_of(from), self.node_of(to)) {
            0 => Distance::Node,
            hops => Distance::Hops(hops),
        }
    }

    /// What a transfer over this distance costs.
    #[must_use]
    pub fn transfer(&self, distance: Distance) -> Transfer {
        match distance {
            Distance::Same => Transfer { load: self.memory.hit, store: self.memory.hit },
            Distance::Llc => self.memory.llc,
            Distance::Node => self.memory.node.unwrap_or(self.memory.llc),
            Distance::Hops(hops) => self.memory.hop[hops - 1],
        }
    }

    /// Cycles of a time in nanoseconds.
    #[must_use]
    pub fn cycles(&self, ns: u64) -> u64 {
        (ns as f64 * self.ghz) as u64
    }

    /// Nanoseconds of a time in cycles.
    #[must_use]
    pub fn ns(&self, cycles: u64) -> u64 {
        (cycles as f64 / self.ghz) as u64
    }
}
