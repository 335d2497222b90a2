//! All measurements of a machine, one after the other.

use std::path::Path;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

use super::kernel::{self, Wake};
use super::layout::{Layout, Level, Place, last_level_bytes};
use super::lines::{self, Round};
use super::threads;
use crate::calibration;
use crate::error::Failure;
use crate::host::Host;

/// The middle of some values.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Spread {
    pub(super) median: f64,
    /// The quarters' bounds.
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) count: usize,
}

impl Spread {
    /// Of any values; `None` if there are none.
    pub(super) fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let at =
            |share: f64| values.get(((values.len().max(1) - 1) as f64 * share).round() as usize).copied();
        Some(Self { median: at(0.5)?, low: at(0.25)?, high: at(0.75)?, count: values.len() })
    }
}

/// What is between two CPUs, in nanoseconds, beyond what one's own line costs.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Pair {
    /// The CPU that modifies the lines, and the one that wants them.
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) level: Level,
    /// To read them, to modify them, and to modify them once they have been read.
    pub(super) load_ns: Spread,
    pub(super) store_ns: Spread,
    pub(super) store_loaded_ns: Spread,
}

/// How long to measure.
#[derive(Debug)]
pub(super) struct Effort {
    /// Rounds between two CPUs, at most.
    rounds: usize,
    wakes: u32,
    slices: Duration,
    /// Memory that no cache holds.
    memory: usize,
    batches: usize,
}

impl Effort {
    pub(super) fn new(quick: bool, system: &Path, host: &Host) -> Self {
        const LEAST: usize = 64 << 20;
        const MOST: usize = 1 << 30;
        let memory = 4 * last_level_bytes(system).unwrap_or(0);
        let share_of_all = usize::try_from(host.memory_mib).map_or(MOST, |mib| mib << 18);
        let memory = memory.clamp(LEAST, MOST).min(share_of_all.max(1 << 20));
        match quick {
            true => Self { rounds: 40, wakes: 20, slices: Duration::from_millis(100), memory, batches: 25 },
            false => Self { rounds: 1000, wakes: 300, slices: Duration::from_secs(1), memory, batches: 201 },
        }
    }
}

/// What was measured, in nanoseconds; `None` is what could not be.
#[derive(Debug)]
pub(super) struct Measured {
    /// Cycles of a nanosecond.
    pub(super) ghz: Option<f64>,
    /// CPUs that could be used.
    pub(super) cpus: usize,
    pub(super) pairs: Vec<Pair>,
    /// Reading and modifying a line of one's own.
    pub(super) own: Option<(f64, f64)>,
    pub(super) dram: Option<Spread>,
    pub(super) dram_remote: Option<Spread>,
    pub(super) pause: Option<f64>,
    pub(super) system_call: Option<f64>,
    /// Wakes of CPUs that have been idle for long.
    pub(super) wake: Option<WakeCost>,
    /// Those of CPUs that have not, if they take less.
    pub(super) polled: Option<Polled>,
    /// From a wake until the sleeper runs in place of a thread that computes.
    pub(super) preempt: Option<Spread>,
    pub(super) context_switch: Option<f64>,
    pub(super) slice: Option<Spread>,
    /// Of two threads that wake each other on one CPU.
    pub(super) round_trip: Option<f64>,
}

impl Measured {
    /// Measures all, with a bar that shows how far it is.
    pub(super) fn take(layout: &Layout, effort: &Effort) -> Result<Self, Failure> {
        let allowed = threads::allowed();
        let usable: Vec<Place> =
            layout.places.iter().copied().filter(|place| allowed.contains(&place.cpu)).collect();
        let Some(first) = usable.first().copied() else {
            return Err(Failure::with_status(1, "the kernel does not say which CPUs this process may use"));
        };
        let count = usable.len() * (usable.len() - 1) / 2;
        // Thousands of pairs take a minute, too.
        let rounds = effort.rounds.min(1_000_000 / count.max(1)).max(20);
        let bar = progress_bar(count as u64 + 8);
        let step = |what: &'static str| {
            bar.set_message(what);
            bar.inc(1);
        };
        let mut pairs = Vec::new();
        bar.set_message("lines between CPUs");
        for (index, from) in usable.iter().enumerate() {
            for to in &usable[index + 1..] {
                pairs.extend(pair(layout, *from, *to, rounds));
                bar.inc(1);
            }
        }
        step("the clock");
        let ghz = kernel::ghz();
        step("a core's own lines");
        let own = lines::own(first.cpu, effort.rounds);
        step("memory");
        let chase = |home: Place, reader: Place| {
            Spread::of(lines::memory(home.cpu, reader.cpu, effort.memory, effort.batches)?)
        };
        let dram = chase(first, first);
        step("memory of other nodes");
        let others = nodes_but(&usable, first.node);
        let dram_remote = Spread::of(others.iter().filter_map(|home| Some(chase(*home, first)?.median)));
        step("pause and system calls");
        let pause = kernel::pause(first.cpu);
        let system_call = kernel::system_call(first.cpu);
        step("wakes");
        let sleeper = usable.iter().filter(|place| layout.level(first, **place) != Level::Core);
        let sleeper = sleeper.min_by_key(|place| layout.level(first, **place));
        let after = |asleep: Duration| {
            WakeCost::of(&kernel::wakes(first.cpu, sleeper?.cpu, effort.wakes, asleep, false)?, system_call?)
        };
        let wake = after(LONG_IDLE);
        let polled = wake.as_ref().and_then(|wake| polled(wake, &after));
        let taken =
            sleeper.and_then(|place| kernel::wakes(first.cpu, place.cpu, effort.wakes, LONG_IDLE, true));
        step("context switches");
        let context_switch = kernel::context_switch(first.cpu);
        let round_trip = std::thread::spawn(calibration::measure).join().ok().flatten().map(|ns| ns as f64);
        step("time slices");
        let slices = kernel::slices(first.cpu, effort.slices).unwrap_or_default();
        let slice = if slices.len() < 4 { None } else { Spread::of(slices) };
        bar.finish_and_clear();
        Ok(Self {
            ghz,
            cpus: usable.len(),
            pairs,
            own,
            dram,
            dram_remote,
            pause,
            system_call,
            wake,
            polled,
            preempt: taken.and_then(|wakes| {
                let switch = context_switch.unwrap_or(0.0);
                Spread::of(wakes.iter().map(|wake| (wake.awake - wake.call - switch).max(0.0)))
            }),
            context_switch,
            slice,
            round_trip,
        })
    }
}

fn pair(layout: &Layout, from: Place, to: Place, rounds: usize) -> Option<Pair> {
    let seen = lines::between(from.cpu, to.cpu, rounds)?;
    let beyond = |of: fn(&Round) -> (f64, f64)| {
        Spread::of(seen.iter().map(of).map(|(other, own)| (other - own).max(0.0)))
    };
    Some(Pair {
        from: from.cpu,
        to: to.cpu,
        level: layout.level(from, to),
        load_ns: beyond(|round| (round.load, round.own_load))?,
        store_ns: beyond(|round| (round.modify, round.own_modify))?,
        store_loaded_ns: beyond(|round| (round.modify_loaded, round.own_modify))?,
    })
}

/// A CPU of each node but one.
fn nodes_but(usable: &[Place], node: usize) -> Vec<Place> {
    let mut found: Vec<Place> = Vec::new();
    for place in usable.iter().filter(|place| place.node != node) {
        if found.iter().all(|other| other.node != place.node) {
            found.push(*place);
        }
    }
    found
}

/// By then a CPU with nothing to do has halted.
pub(super) const LONG_IDLE: Duration = Duration::from_micros(800);

/// By when CPUs may halt that look for work before they do, in microseconds; after the first of these times nobody has.
pub(super) const IDLE_US: [u64; 5] = [20, 50, 100, 200, 400];

/// What a wake costs, in nanoseconds.
#[derive(Debug)]
pub(super) struct WakeCost {
    /// The waker, beyond a system call.
    pub(super) call: Spread,
    /// From then until the sleeper is awake.
    pub(super) latency: Spread,
}

impl WakeCost {
    fn of(wakes: &[Wake], call: f64) -> Option<Self> {
        Some(Self {
            call: Spread::of(wakes.iter().map(|wake| (wake.call - call).max(0.0)))?,
            latency: Spread::of(wakes.iter().map(|wake| (wake.awake - wake.call).max(0.0)))?,
        })
    }

    fn both(&self) -> f64 {
        self.call.median + self.latency.median
    }
}

/// Wakes of CPUs that have not halted.
#[derive(Debug)]
pub(super) struct Polled {
    /// The longest time after which they had not.
    pub(super) until: Duration,
    pub(super) cost: WakeCost,
}

/// How long CPUs look for work before they halt, and what a wake costs meanwhile; `None` where that is hardly less than `long`, later.
fn polled(long: &WakeCost, after: &dyn Fn(Duration) -> Option<WakeCost>) -> Option<Polled> {
    /// Less of a difference is none.
    const LESS: f64 = 1.5;
    let [first, ..] = IDLE_US.map(Duration::from_micros);
    let soon = after(first)?;
    if soon.both() * LESS > long.both() {
        return None;
    }
    let between = (soon.both() * long.both()).sqrt();
    let polls = |asleep: &Duration| after(*asleep).is_some_and(|cost| cost.both() < between);
    let later = IDLE_US[1..].iter().map(|us| Duration::from_micros(*us));
    let until = later.take_while(polls).last().unwrap_or(first);
    Some(Polled { until, cost: soon })
}

fn progress_bar(length: u64) -> ProgressBar {
    // Hidden by itself when stderr is no terminal.
    let bar = ProgressBar::with_draw_target(Some(length), ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len}, about {eta} left: {msg}") {
        bar.set_style(style);
    }
    bar
}
