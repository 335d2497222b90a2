//! Which cells there are, and which runs they take.

use std::hash::{DefaultHasher, Hash, Hasher};

use clap::Parser;
use lockwork_sim::Machine;
use lockwork_sim::workload::{Frame, Protection};
use lockwork_study::digest;

use super::CoverageArgs;
use super::store::Key;
use crate::error::Failure;
use crate::sim::workload::{Choice, WorkloadArgs};
use crate::sim::{machines, sweep};

/// One lock of each kind that anybody would choose, and those that studies compare with.
const LOCKS: &str = "futex,futex-adaptive,linux-mutex,mutexee,ttas,backoff,ticket,twa,mcs-spin,mcs-stp,clh-spin,hemlock-spin,\
                     reciprocating-spin,malth-spin,malth-stp,cna-stp,shfl-spin,shfl-stp,cst-mutex,hmcs-spin,c-bo-mcs-spin,glk,\
                     gcr(mcs-stp)";
const QUICK_LOCKS: &str =
    "futex,ttas,backoff,mcs-spin,mcs-stp,malth-stp,shfl-stp,cst-mutex,hmcs-spin,gcr(mcs-stp)";
const RWLOCKS: &str =
    "rw-futex,rw-ttas,pf-t,pf-q,pf-q-stp,linux-rwsem,c-rw-wp,c-rw-rp,c-rw-np,cst-rwsem,bravo(rw-futex)";
const QUICK_RWLOCKS: &str = "rw-futex,pf-q-stp,linux-rwsem,c-rw-wp,cst-rwsem,bravo(rw-futex)";

const MACHINES: [&str; 4] = ["a-64", "i-20", "e7-8870-v2", "2s-64"];
const QUICK_MACHINES: [&str; 3] = ["a-64", "i-20", "2s-64"];

/// The workloads by name, as options of `lockwork sim`.
const LOADS: [(&str, &str); 7] = [
    ("short", "--workload micro --delay 500"),
    ("middle", "--workload micro --delay 20000"),
    ("long", "--workload micro --delay 200000"),
    ("avl", "--workload avl"),
    ("hash", "--workload hash"),
    ("sections", "--workload sections"),
    ("phases", "--workload phases"),
];
const QUICK_LOADS: [&str; 5] = ["short", "middle", "long", "avl", "sections"];

/// The same for reader-writer locks: percentage of writers, delay.
const RW_LOADS: [(&str, &str); 8] = [
    ("rw0-500", "--workload rw --write-share 0 --delay 500"),
    ("rw1-500", "--workload rw --write-share 0.01 --delay 500"),
    ("rw10-500", "--workload rw --write-share 0.1 --delay 500"),
    ("rw50-500", "--workload rw --write-share 0.5 --delay 500"),
    ("rw0-20000", "--workload rw --write-share 0 --delay 20000"),
    ("rw1-20000", "--workload rw --write-share 0.01 --delay 20000"),
    ("rw10-20000", "--workload rw --write-share 0.1 --delay 20000"),
    ("rw50-20000", "--workload rw --write-share 0.5 --delay 20000"),
];
const QUICK_RW_LOADS: [&str; 4] = ["rw0-500", "rw10-500", "rw1-20000", "rw50-20000"];

/// A matrix that can start.
pub(super) struct Plan {
    pub(super) machines: Vec<Machine>,
    pub(super) loads: Vec<Load>,
    pub(super) locks: Vec<Protection>,
    pub(super) cells: Vec<Place>,
    pub(super) seeds: u32,
    pub(super) strict_spin: bool,
    time_ms: f64,
}

/// A workload.
pub(super) struct Load {
    pub(super) name: String,
    options: String,
    pub(super) choice: Choice,
}

/// A cell: machine and workload by their places.
pub(super) struct Place {
    pub(super) machine: usize,
    pub(super) load: usize,
    pub(super) threads: u32,
    pub(super) pinned: bool,
}

/// One run.
pub(super) struct Job<'a> {
    /// The cell and the lock, by their places.
    pub(super) at: (usize, usize),
    pub(super) cell: &'a Place,
    pub(super) lock: &'a Protection,
    pub(super) seed: u32,
    pub(super) key: Key,
}

/// Options of a workload, as text.
#[derive(Parser)]
#[command(no_binary_name = true, disable_help_flag = true)]
struct Options {
    #[command(flatten)]
    workload: WorkloadArgs,
}

impl Plan {
    /// Checks every part of the request.
    pub(super) fn new(args: &CoverageArgs) -> Result<Self, Failure> {
        let quick = |short: &'static [&'static str], full: &'static [&'static str]| {
            if args.quick { short } else { full }
        };
        let or =
            |asked: &[String], default: Vec<String>| if asked.is_empty() { default } else { asked.to_vec() };
        let texts = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<String>>();

        let machines = or(&args.machine, texts(quick(&QUICK_MACHINES, &MACHINES)));
        let machines = machines.iter().map(|name| machines::find(name)).collect::<Result<Vec<_>, _>>()?;
        let known: Vec<(&str, &str)> = LOADS.into_iter().chain(RW_LOADS).collect();
        let loads = match (args.rwlocks, args.quick) {
            (false, false) => LOADS.iter().map(|(name, _)| (*name).to_owned()).collect(),
            (false, true) => texts(&QUICK_LOADS),
            (true, false) => RW_LOADS.iter().map(|(name, _)| (*name).to_owned()).collect(),
            (true, true) => texts(&QUICK_RW_LOADS),
        };
        let loads = or(&args.load, loads);
        let loads = loads.iter().map(|text| Load::parse(text, &known)).collect::<Result<Vec<_>, _>>()?;
        let locks = match (&args.locks, args.rwlocks, args.quick) {
            (Some(locks), ..) => locks.as_str(),
            (None, false, false) => LOCKS,
            (None, false, true) => QUICK_LOCKS,
            (None, true, false) => RWLOCKS,
            (None, true, true) => QUICK_RWLOCKS,
        };
        let locks = sweep::locks(locks)?;
        if locks.len() < 2 {
            return Err(Failure::usage(
                "coverage compares locks: name two at least, as in --locks futex,mcs-stp",
            ));
        }
        let placements: &[bool] = match args.placement.as_deref() {
            Some("pinned") => &[true],
            Some(_) => &[false],
            None if args.quick => &[false],
            None => &[false, true],
        };
        let mut cells = Vec::new();
        for (machine, description) in machines.iter().enumerate() {
            for (load, of) in loads.iter().enumerate() {
                for &pinned in placements {
                    for threads in sweep::threads(&args.threads, description, of.choice.fewest_threads()) {
                        of.choice.check(threads, 1, 0)?;
                        cells.push(Place { machine, load, threads, pinned });
                    }
                }
            }
        }
        let seeds = args.seeds.unwrap_or(if args.quick { 1 } else { 3 });
        Ok(Plan { machines, loads, locks, cells, seeds, strict_spin: args.strict_spin, time_ms: args.time })
    }

    /// How a cell's workload runs.
    pub(super) fn frame(&self, cell: &Place) -> Frame {
        let machine = &self.machines[cell.machine];
        let threads = cell.threads as usize;
        let (warm_up, window) = sweep::times(machine, threads > machine.cpus(), self.time_ms);
        let phases = self.loads[cell.load].choice.phases(machine);
        Frame {
            threads,
            processes: 1,
            pinned: cell.pinned,
            warm_up,
            window,
            phases,
            explain: false,
            profile: false,
        }
    }

    /// All runs: every cell with the first seed, then with the next. Cells come in an order that mixes long and short ones,
    /// so that what has been done says how long the rest takes; the locks of a cell follow one another, so that what is
    /// interrupted has whole cells.
    pub(super) fn jobs(&self) -> Vec<Job<'_>> {
        let mut order: Vec<usize> = (0..self.cells.len()).collect();
        fastrand::Rng::with_seed(1).shuffle(&mut order);
        let mut jobs = Vec::new();
        for seed in 1..=self.seeds {
            for &place in &order {
                let cell = &self.cells[place];
                for (index, lock) in self.locks.iter().enumerate() {
                    jobs.push(Job { at: (place, index), cell, lock, seed, key: self.key(cell, lock, seed) });
                }
            }
        }
        jobs
    }

    fn key(&self, cell: &Place, lock: &Protection, seed: u32) -> Key {
        // All that decides a run beside what the key says in words.
        let (machine, options) = (&self.machines[cell.machine], &self.loads[cell.load].options);
        let setting = format!("{machine:?}\0{options}\0{}\0{}", self.time_ms.to_bits(), self.strict_spin);
        Key {
            setting: format!("{:016x}", digest(setting.as_bytes())),
            threads: cell.threads,
            pinned: cell.pinned,
            lock: lock.to_string(),
            seed,
        }
    }

    /// The key that older versions gave a run, by the standard library's hash. That may change with Rust; as long as it does
    /// not, what was simulated before counts.
    pub(super) fn key_before(&self, job: &Job<'_>) -> Key {
        let mut hasher = DefaultHasher::new();
        format!("{:?}", self.machines[job.cell.machine]).hash(&mut hasher);
        self.loads[job.cell.load].options.hash(&mut hasher);
        (self.time_ms.to_bits(), self.strict_spin).hash(&mut hasher);
        Key { setting: format!("{:016x}", hasher.finish()), ..job.key.clone() }
    }

    /// What the figures are.
    pub(super) fn title(&self) -> String {
        let names: Vec<&str> = self.machines.iter().map(|machine| machine.name.as_str()).collect();
        let seeds =
            if self.seeds == 1 { "one seed".to_owned() } else { format!("medians of {} seeds", self.seeds) };
        format!("Simulated: {}; {seeds}, {} ms each", names.join(", "), self.time_ms)
    }

    /// The command that shows a cell by itself.
    pub(super) fn command(&self, cell: &Place) -> String {
        let unpinned = if cell.pinned { "" } else { " --unpinned" };
        let strict = if self.strict_spin { " --strict-spin" } else { "" };
        format!(
            "lockwork sim --machine {} {} --threads {}{unpinned}{strict} --time {} --seeds {}",
            self.machines[cell.machine].name,
            self.loads[cell.load].options,
            cell.threads,
            self.time_ms,
            self.seeds
        )
    }
}

impl Load {
    /// A name of a known one, or `NAME=OPTIONS`.
    fn parse(text: &str, known: &[(&str, &str)]) -> Result<Self, Failure> {
        let (name, options) = match text.split_once('=') {
            Some((name, options)) => (name, options),
            None => *known.iter().find(|(name, _)| *name == text).ok_or_else(|| {
                let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
                Failure::usage(format!(
                    "unknown workload `{text}`: there are {}; or NAME=OPTIONS, such as 'mine=--workload avl --delay 5000'",
                    names.join(", ")
                ))
            })?,
        };
        let parsed = Options::try_parse_from(options.split_whitespace()).map_err(|error| {
            let text = error.to_string();
            let first = text.lines().next().unwrap_or_default().trim_start_matches("error: ");
            Failure::usage(format!("workload `{name}`, options `{options}`: {first}"))
        })?;
        Ok(Load { name: name.to_owned(), options: options.to_owned(), choice: parsed.workload.choose()? })
    }
}
