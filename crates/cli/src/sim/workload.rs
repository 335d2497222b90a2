//! Which workload `lockwork sim` runs: its options, and what is impossible.

use std::fmt;
use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};
use lockwork_sim::workload::{
    Distribution, Kind, MEMORY, Map, Micro, Mix, Phases, Quantity, Queue, Sections, Structure, Workload,
};
use lockwork_sim::{Machine, most_threads};

use crate::error::Failure;

/// What simulated threads do.
#[derive(Debug, Args)]
#[command(next_help_heading = "Workload")]
pub(crate) struct WorkloadArgs {
    /// What the threads do: one of those below
    #[arg(
        hide_possible_values = true,
        long,
        short,
        value_enum,
        value_name = "NAME",
        default_value = "micro",
        default_value_if("sections", clap::builder::ArgPredicate::IsPresent, "sections")
    )]
    workload: Name,
    /// Cycles that a thread computes between two sections: 2000 (a tenth more or less), fixed:2000, uniform:100-5000 or
    /// exponential:2000; what a producer computes for an item [default: 2000]
    #[arg(long, value_name = "CYCLES")]
    delay: Option<Distribution>,
    /// Shared cache lines that a section reads and writes, one after the other [default: 1; rw: 2; sections: uniform:1-4]
    #[arg(long, value_name = "N", value_parser = lines)]
    lines: Option<Distribution>,
    /// Cycles that a section computes beside that, written as those of --delay [default: fixed:0; sections:
    /// exponential:500]
    #[arg(long, value_name = "CYCLES")]
    work: Option<Distribution>,
    /// Locks, each with lines of its own, chosen at random for every section [default: 1; sections: 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    instances: Option<u32>,
    /// Two delays by turns, whatever the workload: the second one, written as those of --delay [default: 100 times --delay]
    #[arg(long, value_name = "CYCLES")]
    second_delay: Option<Distribution>,
    /// Two delays by turns, whatever the workload: for how long each, in simulated milliseconds [default: 1]
    #[arg(long, value_name = "MS", value_parser = milliseconds)]
    phase: Option<f64>,
    /// sections: a TOML or JSON file that describes them, as a profile of a program would
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    sections: Option<PathBuf>,
    /// avl, hash: different keys; about half of them are in the map at the start [default: 4096]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4_000_000))]
    keys: Option<u32>,
    /// hash: buckets [default: a quarter of --keys]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4_000_000))]
    buckets: Option<u32>,
    /// avl, hash, rw: the share of sections that write, from 0 to 1 [default: avl: 0.2; else 0.1]
    #[arg(long, value_name = "SHARE", value_parser = share)]
    write_share: Option<f64>,
    /// queue: how many of the threads produce; the others consume [default: half of them]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    producers: Option<u32>,
    /// queue: items that the buffer has room for [default: 16]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4_000_000))]
    capacity: Option<u32>,
    /// queue: cycles that a consumer computes with an item [default: as --delay]
    #[arg(long, value_name = "CYCLES")]
    consume: Option<Distribution>,
}

/// The workloads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Name {
    /// The papers' micro-benchmark: a delay, then a section that updates some cache lines
    Micro,
    /// The same, by its name in `lockwork bench`, for delegates and for `locked(LOCK)`
    Closures,
    /// The same, with threads that try until they succeed, instead of waiting in the lock
    Trylock,
    /// The same, with contention that changes: two delays by turns, as with --phase
    Phases,
    /// Sections of varying length and size, on several locks, as a profile of a program describes them
    Sections,
    /// A key-value map behind one lock, as an AVL tree: GCR's micro-benchmark
    Avl,
    /// The same as a hash table
    Hash,
    /// Readers that compare cache lines which writers update
    Rw,
    /// Producers and consumers: a bounded buffer with two condition variables
    Queue,
}

impl Name {
    const LINES: [Self; 6] =
        [Self::Micro, Self::Closures, Self::Trylock, Self::Phases, Self::Sections, Self::Rw];
    const LOCKS: [Self; 5] = [Self::Micro, Self::Closures, Self::Trylock, Self::Phases, Self::Sections];
    const MAPS: [Self; 2] = [Self::Avl, Self::Hash];
    const WRITERS: [Self; 3] = [Self::Avl, Self::Hash, Self::Rw];
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value();
        f.write_str(value.as_ref().map_or("", |value| value.get_name()))
    }
}

/// A workload, as far as it is known without a machine and a number of threads.
#[derive(Debug)]
pub(super) struct Choice {
    name: Name,
    kind: Load,
    phases: Option<Turns>,
}

/// Phases, as far as they are known without a machine.
#[derive(Debug, Clone, Copy)]
struct Turns {
    ms: f64,
    /// The delay of every second one, if that was given.
    second: Option<Distribution>,
}

#[derive(Debug)]
enum Load {
    Micro(Micro),
    Sections(Sections),
    Map(Map),
    Mix(Mix),
    /// With the number of producers, if that was given.
    Queue(Queue, Option<u32>),
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.name.fmt(f)?;
        if self.phases.is_some() && self.name != Name::Phases { f.write_str(" in phases") } else { Ok(()) }
    }
}

impl WorkloadArgs {
    /// The workload that was asked for.
    pub(super) fn choose(&self) -> Result<Choice, Failure> {
        self.check_options()?;
        let name = self.workload;
        let delay = self.delay.unwrap_or(Distribution::About(2000));
        let kind = match name {
            Name::Micro | Name::Closures | Name::Trylock | Name::Phases => Load::Micro(self.micro(delay)?),
            Name::Sections => Load::Sections(self.sections(delay)?),
            Name::Avl | Name::Hash => Load::Map(self.map(delay)),
            Name::Rw => Load::Mix(Mix {
                delay,
                write_share: self.write_share.unwrap_or(Mix::TENTH.write_share),
                writers: None,
                lines: self.fixed_lines(Mix::TENTH.lines)?,
                work: self.work.unwrap_or(Distribution::NONE),
            }),
            Name::Queue => {
                let consume = self.consume.unwrap_or(delay);
                let capacity = self.capacity.unwrap_or(16) as usize;
                Load::Queue(Queue { producers: 0, capacity, produce: delay, consume }, self.producers)
            }
        };
        let turns = name == Name::Phases || self.phase.is_some() || self.second_delay.is_some();
        let phases = turns.then_some(Turns { ms: self.phase.unwrap_or(1.0), second: self.second_delay });
        Ok(Choice { name, kind, phases })
    }

    fn micro(&self, delay: Distribution) -> Result<Micro, Failure> {
        Ok(Micro {
            delay,
            tries: self.workload == Name::Trylock,
            lines: self.fixed_lines(1)?,
            work: self.work.unwrap_or(Distribution::NONE),
            locks: self.instances.unwrap_or(1) as usize,
        })
    }

    fn sections(&self, think: Distribution) -> Result<Sections, Failure> {
        if let Some(file) = &self.sections {
            return Sections::read(file).map_err(Failure::usage);
        }
        let kind = Kind {
            name: "the locks".to_owned(),
            share: 1.0,
            instances: self.instances.unwrap_or(4) as usize,
            hold: Quantity::Drawn(self.work.unwrap_or(Distribution::Exponential(500))),
            reads: 0.0,
            lines: Quantity::Drawn(self.lines.unwrap_or(Distribution::Uniform(1, 4))),
        };
        Ok(Sections { in_nanoseconds: false, think: Quantity::Drawn(think), locks: vec![kind] })
    }

    fn map(&self, delay: Distribution) -> Map {
        let keys = self.keys.unwrap_or(Map::GCR.keys);
        let (structure, share) = match self.workload {
            Name::Hash => {
                let buckets = self.buckets.unwrap_or(keys.div_ceil(4));
                (Structure::Table { buckets }, 0.1)
            }
            _ => (Structure::Tree, Map::GCR.write_share),
        };
        Map { structure, delay, keys, write_share: self.write_share.unwrap_or(share) }
    }

    /// The number of lines where it is to be one number.
    fn fixed_lines(&self, default: usize) -> Result<usize, Failure> {
        match self.lines {
            None => Ok(default),
            Some(Distribution::Fixed(lines)) => Ok(lines as usize),
            Some(lines) => Err(Failure::usage(format!(
                "`--lines {lines}` varies: every section of the workload {} has as many lines, only those of \
                 `sections` differ",
                self.workload
            ))),
        }
    }

    /// Refuses options that the workload does not have.
    fn check_options(&self) -> Result<(), Failure> {
        let name = self.workload;
        let from_file = self.sections.is_some();
        let options: [(&str, bool, &[Name]); 11] = [
            ("--delay", self.delay.is_some(), Name::value_variants()),
            ("--lines", self.lines.is_some(), &Name::LINES),
            ("--work", self.work.is_some(), &Name::LINES),
            ("--instances", self.instances.is_some(), &Name::LOCKS),
            ("--sections", from_file, &[Name::Sections]),
            ("--keys", self.keys.is_some(), &Name::MAPS),
            ("--buckets", self.buckets.is_some(), &[Name::Hash]),
            ("--write-share", self.write_share.is_some(), &Name::WRITERS),
            ("--producers", self.producers.is_some(), &[Name::Queue]),
            ("--capacity", self.capacity.is_some(), &[Name::Queue]),
            ("--consume", self.consume.is_some(), &[Name::Queue]),
        ];
        for (option, _, workloads) in options.into_iter().filter(|(_, given, _)| *given) {
            if !workloads.contains(&name) {
                let theirs: Vec<String> = workloads.iter().map(Name::to_string).collect();
                return Err(Failure::usage(format!(
                    "`{option}` means nothing to the workload {name}: it is an option of {}",
                    theirs.join(", ")
                )));
            }
            if from_file && option != "--sections" {
                return Err(Failure::usage(format!(
                    "`{option}` and `--sections` exclude each other: the file says it"
                )));
            }
        }
        Ok(())
    }
}

impl Choice {
    /// A workload by its name, with the options that it has where none are given.
    fn usual(name: Name) -> Result<Self, Failure> {
        let args = WorkloadArgs {
            workload: name,
            delay: None,
            lines: None,
            work: None,
            instances: None,
            second_delay: None,
            phase: None,
            sections: None,
            keys: None,
            buckets: None,
            write_share: None,
            producers: None,
            capacity: None,
            consume: None,
        };
        args.choose()
    }

    /// What predictions are checked with.
    pub(super) fn to_predict() -> Result<Vec<Self>, Failure> {
        [Name::Avl, Name::Hash, Name::Sections].into_iter().map(Self::usual).collect()
    }

    /// Sections that are described already.
    pub(super) fn of_sections(sections: Sections) -> Self {
        Choice { name: Name::Sections, kind: Load::Sections(sections), phases: None }
    }

    /// The workload on a machine, for so many threads.
    pub(super) fn on(&self, threads: u32) -> Box<dyn Workload> {
        match &self.kind {
            Load::Micro(micro) => Box::new(micro.clone()),
            Load::Sections(sections) => Box::new(sections.clone()),
            Load::Map(map) => Box::new(map.clone()),
            Load::Mix(mix) => Box::new(mix.clone()),
            Load::Queue(queue, producers) => {
                let producers = producers.unwrap_or(threads / 2) as usize;
                Box::new(Queue { producers, ..queue.clone() })
            }
        }
    }

    /// Its phases on a machine.
    pub(super) fn phases(&self, machine: &Machine) -> Option<Phases> {
        let Turns { ms, second } = self.phases?;
        let usual = match &self.kind {
            Load::Micro(micro) => micro.delay.mean(),
            Load::Sections(sections) if sections.in_nanoseconds => machine.cycles(sections.think.mean()),
            Load::Sections(sections) => sections.think.mean(),
            Load::Map(map) => map.delay.mean(),
            Load::Mix(mix) => mix.delay.mean(),
            Load::Queue(queue, _) => queue.produce.mean(),
        };
        let delay = second.unwrap_or(Distribution::About(usual.saturating_mul(100)));
        Some(Phases { each: machine.cycles((ms * 1e6) as u64), delay })
    }

    /// The fewest threads that it can have.
    pub(super) fn fewest_threads(&self) -> u32 {
        match &self.kind {
            Load::Queue(_, producers) => producers.unwrap_or(1).saturating_add(1),
            _ => 1,
        }
    }

    /// Refuses what cannot be simulated: so many threads of each of the processes, beside those of the background.
    pub(super) fn check(&self, threads: u32, processes: u32, background: u32) -> Result<(), Failure> {
        let fewest = self.fewest_threads();
        if threads < fewest {
            return Err(Failure::usage(format!(
                "the workload {self} takes at least {fewest} threads, one of which consumes: not {threads}"
            )));
        }
        let all = u64::from(threads) * u64::from(processes) + u64::from(background);
        let (most, mappings) = most_threads();
        if all > most {
            return Err(Failure::usage(format!(
                "{all} threads are more than this host has stacks for: at most {most}, by its vm.max_map_count of {mappings}"
            )));
        }
        match self.on(threads).memory().saturating_mul(processes.into()) {
            ..=MEMORY => Ok(()),
            bytes => Err(Failure::usage(format!(
                "the data of the workload {self} take {} MiB of simulated memory, and {} can be had",
                bytes >> 20,
                MEMORY >> 20
            ))),
        }
    }
}

/// Cache lines: a number, or a distribution.
fn lines(text: &str) -> Result<Distribution, String> {
    const MOST: u64 = 4096;
    let lines: Distribution = match text.parse::<u64>() {
        Ok(lines) => Distribution::Fixed(lines),
        Err(_) => text.parse()?,
    };
    match (lines.mean(), Quantity::Drawn(lines).most()) {
        (1.., ..=MOST) => Ok(lines),
        _ => Err(format!("between 1 and {MOST} lines")),
    }
}

/// A share of all.
pub(crate) fn share(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err("a share between 0 and 1, such as 0.2".to_owned()),
    }
}

/// A number of simulated milliseconds, as the command line takes it.
pub(super) fn milliseconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(ms) if (0.001..=100_000.0).contains(&ms) => Ok(ms),
        _ => Err("a number of simulated milliseconds between 0.001 and 100000".to_owned()),
    }
}
