//! The runs of one machine, from CSV.
//!
//! Columns, in any order, other columns being ignored:
//!
//! | column | meaning |
//! |---|---|
//! | `bench` (or `application`) | the application |
//! | `node` (or `nodes`) | how many NUMA nodes it ran on |
//! | `strategy` (or `lock`) | the lock |
//! | `throughput` | operations a second, or the inverse of the time that the run took; higher is better |
//! | `rep` | optional: which repetition, to pair runs of two variants |
//! | `p99` | optional: the 99th percentile of the response time, in any unit |
//! | `energy` | optional: see [`Energy`] |
//! | `seconds` | optional: how long the energy was measured |
//! | `variant` | optional: `interposed` (the default) or `linked`, for chapter 3 |
//!
//! A run whose throughput is empty, not a number, or not above 0 is a bad run: it is counted and reported, and takes no part in
//! a mean.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use crate::campaign::Placement;
use crate::error::Error;
use crate::store::Record;

/// How a file packed by gzip begins.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// What the column `energy` holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Energy {
    /// Joules that the run took. The power is that over the column `seconds`; without the column a run does one unit of work,
    /// so that it took 1 / throughput seconds.
    #[default]
    Joules,
    /// Watts, the mean over the run.
    Watts,
    /// Throughput per power (TPP), operations a joule.
    Efficiency,
}

/// How the application came to its lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Variant {
    /// By interposition, as everything in chapter 4.
    #[default]
    Interposed,
    /// The application was changed to call the lock.
    Linked,
}

/// One run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Run {
    pub(crate) throughput: f64,
    pub(crate) rep: Option<u32>,
    pub(crate) p99: Option<f64>,
    /// Operations a joule.
    pub(crate) efficiency: Option<f64>,
}

/// Where a run belongs: application and lock by their places in [`Study`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) application: usize,
    pub(crate) variant: Variant,
    pub(crate) nodes: u32,
    pub(crate) lock: usize,
}

/// The runs of one machine.
#[derive(Debug, Clone)]
pub struct Study {
    /// The machine: the file's name up to its first dot.
    pub machine: String,
    /// The applications, in the order of the alphabet.
    pub applications: Vec<String>,
    /// The locks, in the order of the alphabet.
    pub locks: Vec<String>,
    /// Runs without a usable throughput, by application.
    pub bad_runs: BTreeMap<String, usize>,
    /// How many hosts have shared the runs of a campaign, where this machine is one of them; else 1.
    pub hosts: usize,
    pub(crate) runs: BTreeMap<Key, Vec<Run>>,
}

impl Study {
    /// Reads a file, which may be packed by gzip.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, lacks a column, or has a row that cannot be understood.
    pub fn read(path: &Path, energy: Energy) -> Result<Self, Error> {
        let read = || {
            let mut file = BufReader::new(std::fs::File::open(path)?);
            let packed = file.fill_buf()?.starts_with(&GZIP);
            Ok((file, packed))
        };
        let (file, packed) = read().map_err(|error: std::io::Error| Error::Read {
            path: path.to_owned(),
            reason: error.to_string(),
        })?;
        match packed {
            true => Self::from_reader(flate2::read::MultiGzDecoder::new(file), path, energy),
            false => Self::from_reader(file, path, energy),
        }
    }

    /// Reads CSV from anywhere; `path` names the machine and appears in errors.
    ///
    /// # Errors
    ///
    /// As [`Study::read`].
    pub fn from_reader(source: impl Read, path: &Path, energy: Energy) -> Result<Self, Error> {
        let read = |error: csv::Error| Error::Read { path: path.to_owned(), reason: error.to_string() };
        let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(source);
        let columns = Columns::of(reader.headers().map_err(read)?, path)?;
        let mut raw = Vec::new();
        for record in reader.records() {
            let record = record.map_err(read)?;
            let line = record.position().map_or(0, csv::Position::line);
            let row = columns.row(&record, energy).map_err(|reason| Error::Row {
                path: path.to_owned(),
                line,
                reason,
            })?;
            raw.push(row);
        }
        Ok(Self::collect(machine_of(path), raw))
    }

    fn collect(machine: String, raw: Vec<Raw>) -> Self {
        let names = |of: fn(&Raw) -> &String| -> Vec<String> {
            let mut names: Vec<String> = raw.iter().map(|row| of(row).clone()).collect();
            names.sort_unstable();
            names.dedup();
            names
        };
        let (applications, locks) = (names(|row| &row.application), names(|row| &row.lock));
        let place =
            |names: &[String], name: &String| names.binary_search(name).expect("the names are of these rows");
        let mut runs: BTreeMap<Key, Vec<Run>> = BTreeMap::new();
        let mut bad_runs = BTreeMap::new();
        for row in raw {
            let Some(run) = row.run else {
                *bad_runs.entry(row.application).or_insert(0) += 1;
                continue;
            };
            let (application, lock) = (place(&applications, &row.application), place(&locks, &row.lock));
            let key = Key { application, variant: row.variant, nodes: row.nodes, lock };
            runs.entry(key).or_default().push(run);
        }
        Study { machine, applications, locks, bad_runs, hosts: 1, runs }
    }

    /// The runs of a campaign: a study for each machine and, where there are several, each placement.
    #[must_use]
    pub fn of_records(records: &[Record]) -> Vec<Self> {
        let mut machines: BTreeMap<(&str, Placement), Vec<&Record>> = BTreeMap::new();
        for record in records {
            let machine = record.machine.as_deref().unwrap_or(&record.surroundings.host);
            machines.entry((machine, record.key.placement)).or_default().push(record);
        }
        let hosts: BTreeSet<&str> = records
            .iter()
            .filter(|record| record.machine.is_none())
            .map(|record| record.surroundings.host.as_str())
            .filter(|host| !host.is_empty())
            .collect();
        let placements: BTreeSet<Placement> = machines.keys().map(|(_, placement)| *placement).collect();
        let name = |machine: &str, placement: Placement| match placements.len() {
            1 => machine.to_owned(),
            _ => format!("{machine}-{}", placement.name()),
        };
        machines
            .iter()
            .map(|((machine, placement), records)| {
                let raw = records.iter().copied().map(Raw::of).collect();
                let hosts = if hosts.contains(machine) { hosts.len() } else { 1 };
                Study { hosts, ..Self::collect(name(machine, *placement), raw) }
            })
            .collect()
    }

    /// Forgets the runs of the applications of which `unwanted` holds.
    pub fn remove(&mut self, unwanted: impl Fn(&str) -> bool) {
        let applications = &self.applications;
        self.runs.retain(|key, _| !unwanted(&applications[key.application]));
        self.bad_runs.retain(|application, _| !unwanted(application));
    }

    /// Whether any run has an energy.
    #[must_use]
    pub fn has_energy(&self) -> bool {
        self.runs.values().flatten().any(|run| run.efficiency.is_some())
    }

    /// Whether any run has a tail latency.
    #[must_use]
    pub fn has_latency(&self) -> bool {
        self.runs.values().flatten().any(|run| run.p99.is_some())
    }

    /// Whether some application ran on several numbers of nodes.
    #[must_use]
    pub fn has_levels(&self) -> bool {
        let mut keys: Vec<(usize, u32)> = self.runs.keys().map(|key| (key.application, key.nodes)).collect();
        keys.sort_unstable();
        keys.dedup();
        keys.windows(2).any(|pair| pair[0].0 == pair[1].0)
    }

    /// Whether both variants of some application were measured.
    #[must_use]
    pub fn has_linked(&self) -> bool {
        self.runs.keys().any(|key| key.variant == Variant::Linked)
    }
}

/// A row, with names in place of places.
struct Raw {
    application: String,
    lock: String,
    nodes: u32,
    variant: Variant,
    /// Absent for a bad run.
    run: Option<Run>,
}

impl Raw {
    fn of(record: &Record) -> Self {
        let efficiency = |throughput: f64| {
            let (joules, seconds) = record.energy.zip(record.energy_seconds)?;
            Some(throughput * seconds / joules).filter(|value| value.is_finite() && *value > 0.0)
        };
        Raw {
            application: record.bench.clone(),
            lock: record.key.lock.clone(),
            nodes: record.key.nodes,
            variant: if record.variant == "linked" { Variant::Linked } else { Variant::Interposed },
            run: record.throughput.map(|throughput| Run {
                throughput,
                rep: Some(record.key.round),
                p99: record.p99.filter(|value| *value > 0.0),
                efficiency: efficiency(throughput),
            }),
        }
    }
}

/// Where the columns are.
struct Columns {
    application: usize,
    nodes: usize,
    lock: usize,
    throughput: usize,
    rep: Option<usize>,
    p99: Option<usize>,
    energy: Option<usize>,
    seconds: Option<usize>,
    variant: Option<usize>,
}

impl Columns {
    fn of(headers: &csv::StringRecord, path: &Path) -> Result<Self, Error> {
        let find = |names: &[&str]| {
            headers.iter().position(|header| names.iter().any(|name| header.eq_ignore_ascii_case(name)))
        };
        let need = |names: &[&str], column| {
            find(names).ok_or_else(|| Error::NoColumn {
                path: path.to_owned(),
                column,
                present: headers.iter().collect::<Vec<_>>().join(", "),
            })
        };
        Ok(Columns {
            application: need(&["bench", "application"], "`bench`")?,
            nodes: need(&["node", "nodes"], "`node`")?,
            lock: need(&["strategy", "lock"], "`strategy`")?,
            throughput: need(&["throughput"], "`throughput`")?,
            rep: find(&["rep"]),
            p99: find(&["p99"]),
            energy: find(&["energy"]),
            seconds: find(&["seconds"]),
            variant: find(&["variant"]),
        })
    }

    fn row(&self, record: &csv::StringRecord, energy: Energy) -> Result<Raw, String> {
        let text = |column: usize, what: &str| match record.get(column) {
            Some(text) if !text.is_empty() => Ok(text.to_owned()),
            _ => Err(format!("no {what}")),
        };
        let nodes = text(self.nodes, "number of nodes")?;
        let nodes = whole(&nodes).ok_or_else(|| format!("`{nodes}` is no number of nodes"))?;
        let variant = match self.variant.and_then(|column| record.get(column)) {
            None | Some("" | "interposed") => Variant::Interposed,
            Some("linked" | "manual") => Variant::Linked,
            Some(other) => return Err(format!("`{other}` is no variant: interposed or linked")),
        };
        let optional = |column: Option<usize>| number(record.get(column?)?);
        let throughput = number(record.get(self.throughput).unwrap_or_default());
        let run = throughput.map(|throughput| Run {
            throughput,
            rep: self.rep.and_then(|column| record.get(column)?.parse().ok()),
            p99: optional(self.p99),
            efficiency: optional(self.energy).map(|value| match energy {
                Energy::Efficiency => value,
                Energy::Watts => throughput / value,
                Energy::Joules => throughput * optional(self.seconds).unwrap_or(1.0 / throughput) / value,
            }),
        });
        Ok(Raw {
            application: text(self.application, "application")?,
            lock: text(self.lock, "lock")?,
            nodes,
            variant,
            run,
        })
    }
}

/// The machine that a file is of: its name up to the first dot.
fn machine_of(path: &Path) -> String {
    let name = path.file_name().map_or_else(|| "data".into(), |name| name.to_string_lossy());
    name.split('.').next().unwrap_or(&name).to_owned()
}

/// A count from 1 on; some programs write whole numbers as `8.0`.
fn whole(text: &str) -> Option<u32> {
    let text = text
        .split_once('.')
        .filter(|(_, rest)| rest.bytes().all(|digit| digit == b'0'))
        .map_or(text, |(whole, _)| whole);
    text.parse().ok().filter(|count| *count > 0)
}

/// A measured value; everything measured here is above 0.
fn number(text: &str) -> Option<f64> {
    text.parse().ok().filter(|value: &f64| value.is_finite() && *value > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Outcome, RunKey, Surroundings, Usage};
    use crate::tables::{best_over_worst, campaign_tables};
    use crate::view::{Metric, View};

    fn record(host: &str, lock: &str, round: u32, machine: Option<&str>) -> Record {
        Record {
            key: RunKey {
                application: "x".to_owned(),
                nodes: 1,
                threads: 1,
                placement: Placement::Unpinned,
                lock: lock.to_owned(),
                round,
            },
            bench: "x".to_owned(),
            outcome: Outcome::Ok,
            reason: None,
            machine: machine.map(str::to_owned),
            variant: "interposed".to_owned(),
            started: String::new(),
            seconds: 1.0,
            throughput: Some(1.0),
            p50: None,
            p99: None,
            p999: None,
            energy: None,
            energy_dram: None,
            energy_seconds: None,
            usage: Usage::default(),
            jain: None,
            upper_half: None,
            metrics: BTreeMap::new(),
            surroundings: Surroundings { host: host.to_owned(), ..Surroundings::default() },
            served: None,
        }
    }

    /// Whether some note of the thesis's tables, and of the campaign's, says that there were several hosts.
    fn notes(records: &[Record]) -> [bool; 2] {
        let studies = Study::of_records(records);
        let own = studies.iter().map(|study| best_over_worst(&View::new(study, Metric::Throughput)));
        let say = |tables: Vec<crate::Table>, what: &str| {
            tables.iter().flat_map(|table| &table.notes).any(|note| note.contains(what))
        };
        [
            say(own.collect(), "n1: one of 2 hosts that shared the runs"),
            say(campaign_tables(records, &[], "a"), "The runs are of 2 hosts: n1, n2."),
        ]
    }

    #[test]
    fn tables_of_several_hosts_say_that_each_ran_a_part() {
        let on = |second: &str, machine: Option<&str>| {
            let round = |(round, host)| ["a", "b"].map(|lock| record(host, lock, round, machine));
            notes(&[(0, "n1"), (1, second)].into_iter().flat_map(round).collect::<Vec<_>>())
        };
        assert_eq!(on("n2", None), [true, true]);
        assert_eq!(on("n1", None), [false, false]);
        // Which host has simulated makes no difference.
        assert_eq!(on("n2", Some("i-20")), [false, false]);
    }
}
