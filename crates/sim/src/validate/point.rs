//! What is simulated to judge claims, and what is looked at.

use std::hash::{Hash, Hasher};

use lockwork_locks::registry::{Choice, DelegateSpec};
use serde::{Deserialize, Serialize};

use crate::machine::{self, Machine};
use crate::simulation::Options;
use crate::workload::{Frame, Map, Micro, Mix, PerSection, Protection, RunResult, Workload};

/// Something to simulate.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    pub(super) machine: &'static str,
    /// A mutex, a reader-writer lock or a delegate.
    pub(super) lock: &'static str,
    pub(super) frame: Frame,
    pub(super) load: Load,
}

/// What the threads do.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Load {
    Micro(Micro),
    Map(Map),
    Mix(Mix),
}

impl From<Micro> for Load {
    fn from(micro: Micro) -> Self {
        Self::Micro(micro)
    }
}

impl From<Map> for Load {
    fn from(map: Map) -> Self {
        Self::Map(map)
    }
}

impl From<Mix> for Load {
    fn from(mix: Mix) -> Self {
        Self::Mix(mix)
    }
}

/// What is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Figure {
    /// Sections a second.
    Throughput,
    /// Cycles of a section.
    Section,
    /// Cycles of a section of the first thread.
    FirstSection,
    /// Cycles of a hand-off.
    HandOff,
    /// The share of the sections done by the upper half of the threads.
    Unfairness,
    /// Lines that came from another core or from memory, for a section.
    Misses,
    /// Those of them that came to the servers of delegates.
    ServerMisses,
    /// Read-modify-writes for a section.
    Atomics,
}

/// What a run of a point gave.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(from = "[u64; 8]", into = "[u64; 8]")]
pub struct Measured {
    pub(super) throughput: f64,
    pub(super) section: f64,
    pub(super) first_section: f64,
    pub(super) hand_off: f64,
    pub(super) unfairness: f64,
    pub(super) each: PerSection,
}

/// As bits, since text would neither keep every figure nor know what is no number.
impl From<Measured> for [u64; 8] {
    fn from(run: Measured) -> Self {
        let PerSection { misses, server_misses, atomics } = run.each;
        let Measured { throughput, section, first_section, hand_off, unfairness, .. } = run;
        [throughput, section, first_section, hand_off, unfairness, misses, server_misses, atomics]
            .map(f64::to_bits)
    }
}

impl From<[u64; 8]> for Measured {
    fn from(bits: [u64; 8]) -> Self {
        let [throughput, section, first_section, hand_off, unfairness, misses, server_misses, atomics] =
            bits.map(f64::from_bits);
        let each = PerSection { misses, server_misses, atomics };
        Self { throughput, section, first_section, hand_off, unfairness, each }
    }
}

impl Eq for Point {}

impl Hash for Point {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.machine, self.lock, self.frame.threads).hash(state);
    }
}

impl Point {
    /// Simulates it.
    ///
    /// # Panics
    ///
    /// If the lists of machines and locks have lost what a claim names, which a test excludes.
    #[must_use]
    pub fn run(&self, seed: u64) -> Measured {
        self.run_on(&self.machine(), seed)
    }

    /// The same on a variant of its machine.
    ///
    /// # Panics
    ///
    /// As [`Self::run`].
    #[must_use]
    pub fn run_on(&self, machine: &Machine, seed: u64) -> Measured {
        let options = Options { seed, strict_spin: true, ..Options::default() };
        let workload: &dyn Workload = match &self.load {
            Load::Micro(micro) => micro,
            Load::Map(map) => map,
            Load::Mix(mix) => mix,
        };
        let result = workload.run(&self.frame, machine, &self.protection(), options);
        Measured::new(&self.frame, machine, &result)
    }

    /// The machine that it runs on.
    ///
    /// # Panics
    ///
    /// If there is none of this name, which a test excludes.
    #[must_use]
    pub fn machine(&self) -> Machine {
        machine::named(self.machine).unwrap_or_else(|| panic!("no machine {}", self.machine))
    }

    pub(super) fn protection(&self) -> Protection {
        match (Choice::parse(self.lock), DelegateSpec::parse(self.lock)) {
            (Ok(Choice::Lock(spec)), _) => Protection::Lock(spec),
            (Ok(Choice::Rw(spec)), _) => Protection::Rw(spec),
            (Ok(other), _) => panic!("{}: {other} guards nothing by itself", self.lock),
            (Err(_), Ok(delegate)) => Protection::Delegate(delegate),
            (Err(error), Err(_)) => panic!("{}: {error}", self.lock),
        }
    }
}

impl Measured {
    fn new(frame: &Frame, machine: &Machine, result: &RunResult) -> Self {
        let first = (result.spent_by_thread.first(), result.by_thread.first());
        let (spent, sections) = (first.0.copied().unwrap_or(0), first.1.copied().unwrap_or(0));
        Self {
            throughput: result.sections as f64 / (machine.ns(frame.window) as f64 / 1e9),
            section: result.section,
            first_section: spent as f64 / sections.max(1) as f64,
            hand_off: result.hand_off,
            unfairness: lockwork_stats::fairness::unfairness_factor(&result.by_thread),
            each: result.each,
        }
    }

    pub(super) fn get(&self, figure: Figure) -> f64 {
        match figure {
            Figure::Throughput => self.throughput,
            Figure::Section => self.section,
            Figure::FirstSection => self.first_section,
            Figure::HandOff => self.hand_off,
            Figure::Unfairness => self.unfairness,
            Figure::Misses => self.each.misses,
            Figure::ServerMisses => self.each.server_misses,
            Figure::Atomics => self.each.atomics,
        }
    }
}

impl Figure {
    pub(super) fn unit(self) -> &'static str {
        match self {
            Self::Throughput => "/s",
            Self::Section | Self::FirstSection | Self::HandOff => "cycles",
            Self::Unfairness | Self::Misses | Self::ServerMisses | Self::Atomics => "",
        }
    }
}
