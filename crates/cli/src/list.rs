//! `lockwork list`: the locks there are.

use std::process::ExitCode;

use comfy_table::{Attribute, Cell, CellAlignment, ColumnConstraint};
use lockwork::Footprint;
use lockwork_locks::catalogue::{self, Algorithm, LockId, LockInfo};
use lockwork_locks::rw::catalogue::{RwLockId, RwSpec};
use serde::Serialize;

use crate::args::ListArgs;
use crate::error::Failure;
use crate::{rwlocks, terminal};

/// A lock as `--json` describes it; its name is a spec that `run` and `compare` take.
#[derive(Debug, Serialize)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) kind: &'static str,
    pub(crate) algorithm: &'static str,
    /// The wrapper around the lock, if any.
    pub(crate) wrapper: Option<&'static str>,
    pub(crate) family: String,
    pub(crate) waiting: Vec<&'static str>,
    pub(crate) fairness: &'static str,
    pub(crate) bytes: usize,
    pub(crate) bytes_per_waiter: usize,
    /// The holder keeps the bytes of a waiter.
    pub(crate) holder_node: bool,
    /// What the lock was seen to take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) measured: Option<Measured>,
    pub(crate) try_lock: bool,
    pub(crate) timed: &'static str,
    pub(crate) citation: &'static str,
    pub(crate) citation_key: &'static str,
    pub(crate) summary: &'static str,
}

/// Bytes of a lock at rest and of the state that it keeps, as measured.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Measured {
    /// NUMA nodes of the machine that was pretended.
    pub(crate) nodes: usize,
    pub(crate) unused: usize,
    /// After threads of one node have contended for it.
    pub(crate) one_node: usize,
    /// After threads of all nodes have.
    pub(crate) all_nodes: usize,
}

impl Measured {
    /// Of the lock that `spec` names.
    fn of(spec: &str, nodes: u8) -> Result<Self, Failure> {
        let nodes = nodes.into();
        let Footprint { unused, one_node, all_nodes } =
            Footprint::measure(spec, nodes).map_err(|error| Failure::usage(error.to_string()))?;
        Ok(Self { nodes, unused, one_node, all_nodes })
    }
}

impl Entry {
    /// A base lock.
    pub(crate) fn base(lock: &LockInfo) -> Self {
        Entry::new(lock.name.to_owned(), lock.algorithm, vec![lock.waiting])
    }

    /// An algorithm with these waiting policies.
    pub(crate) fn new(name: String, algorithm: &'static Algorithm, waiting: Vec<&'static str>) -> Self {
        Entry {
            name,
            kind: "mutex",
            algorithm: algorithm.name,
            wrapper: None,
            family: algorithm.family.to_string(),
            waiting,
            fairness: algorithm.fairness,
            bytes: algorithm.bytes,
            bytes_per_waiter: algorithm.bytes_per_waiter,
            holder_node: algorithm.holder_node,
            measured: None,
            // Every lock has it: the POSIX API needs it.
            try_lock: true,
            timed: algorithm.timed,
            citation: algorithm.citation.text,
            citation_key: algorithm.citation.key,
            summary: algorithm.summary,
        }
    }

    /// A base lock in a wrapper. A waiter waits in the one or the other.
    pub(crate) fn wrapped(wrapper: &'static Algorithm, lock: &LockInfo) -> Self {
        Entry {
            wrapper: Some(wrapper.name),
            algorithm: lock.algorithm.name,
            bytes: wrapper.bytes + lock.algorithm.bytes,
            bytes_per_waiter: wrapper.bytes_per_waiter.max(lock.algorithm.bytes_per_waiter),
            holder_node: lock.algorithm.holder_node,
            ..Entry::new(format!("{}({})", wrapper.name, lock.name), wrapper, vec![lock.waiting])
        }
    }
}

/// What `--json` lists.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Listed {
    Mutex(Entry),
    RwLock(rwlocks::Entry),
}

/// Prints the list.
pub(crate) fn main(args: &ListArgs) -> Result<ExitCode, Failure> {
    if args.json {
        let base = catalogue::LOCKS.iter().map(Entry::base);
        let wrapped = catalogue::WRAPPERS
            .iter()
            .flat_map(|wrapper| catalogue::wrapped_by(wrapper).map(|lock| Entry::wrapped(wrapper, lock)));
        let measured =
            |entry: Entry| Ok(Entry { measured: Some(Measured::of(&entry.name, args.nodes)?), ..entry });
        let mutexes = base.chain(wrapped).map(|entry| Ok(Listed::Mutex(measured(entry)?)));
        let all = mutexes.chain(rwlocks::Entry::all().map(|entry| Ok(Listed::RwLock(entry))));
        terminal::print_json(&all.collect::<Result<Vec<_>, Failure>>()?)?;
    } else {
        terminal::print(&table(args.nodes)?)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn table(nodes: u8) -> Result<String, Failure> {
    let mut table = terminal::wrapping_table();
    table.set_header([
        "lock", "family", "waiting", "fairness", "bytes", "1 node", "all", "+ waiter", "timed", "citation",
    ]);
    for lock in catalogue::LOCKS {
        let measured = Measured::of(lock.name, nodes)?;
        table.add_row(row(lock.name, lock.waiting, lock.algorithm, "", measured));
    }
    for wrapper in catalogue::WRAPPERS {
        // Around a lock whose own bytes are known.
        let inner = LockId::Futex.info().name;
        let (whole, inner) =
            (Measured::of(&format!("{}({inner})", wrapper.name), nodes)?, Measured::of(inner, nodes)?);
        let measured = Measured {
            unused: wrapper.bytes,
            one_node: whole.one_node - inner.one_node,
            all_nodes: whole.all_nodes - inner.all_nodes,
            ..whole
        };
        table.add_row(row(&format!("{}(LOCK)", wrapper.name), "as LOCK", wrapper, "+", measured));
    }
    if let Some(names) = table.column_mut(0) {
        names.set_constraint(ColumnConstraint::ContentWidth);
    }
    for index in [4, 5, 6, 7] {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    Ok(format!(
        "{}\n\
         bytes, as measured: of an unused lock, after use on one NUMA node, on all of {nodes}; plus those of every waiter (and of\n\
         the holder where marked *). Every lock can be tried. stp: spins, then parks.\n\
         `passthrough` is glibc's own lock behind the library. The default is `{}`. More: lockwork info LOCK\n\n\
         {}\n\
         Reader-writer locks go behind a mutex, as in `mcs-stp+{}`, or alone, which leaves mutexes to glibc. The default is `{}`.\n",
        table.trim_fmt(),
        catalogue::DEFAULT,
        rwlocks::table(),
        RwLockId::CstRwsem.info().name,
        RwSpec::DEFAULT,
    ))
}

fn row(name: &str, waiting: &str, algorithm: &Algorithm, sign: &str, measured: Measured) -> Vec<Cell> {
    let mark = if algorithm.holder_node { "*" } else { "" };
    vec![
        Cell::new(name).add_attribute(Attribute::Bold),
        Cell::new(algorithm.family),
        Cell::new(waiting),
        Cell::new(first_clause(algorithm.fairness)),
        Cell::new(format!("{sign}{}", measured.unused)),
        Cell::new(format!("{sign}{}", measured.one_node)),
        Cell::new(format!("{sign}{}", measured.all_nodes)),
        Cell::new(format!("{}{mark}", algorithm.bytes_per_waiter)),
        Cell::new(first_clause(algorithm.timed)),
        Cell::new(short_citation(algorithm.citation.text)),
    ]
}

/// What comes before explanations.
pub(crate) fn first_clause(text: &str) -> &str {
    text.split([':', ',', ';']).next().unwrap_or(text)
}

/// `Dice, Kogan 2019`
pub(crate) fn short_citation(text: &str) -> String {
    let all = text.split(':').next().unwrap_or(text);
    let authors = match all.split_once(',') {
        Some((first, rest)) if rest.contains(',') => format!("{first} et al."),
        _ => all.to_owned(),
    };
    let is_year = |digits: &&str| digits.len() == 4 && (digits.starts_with("19") || digits.starts_with("20"));
    let year = text.rsplit(|c: char| !c.is_ascii_digit()).find(is_year).unwrap_or_default();
    format!("{authors} {year}").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_in_json_is_a_spec() {
        for wrapper in catalogue::WRAPPERS {
            for lock in catalogue::wrapped_by(wrapper) {
                for entry in [Entry::base(lock), Entry::wrapped(wrapper, lock)] {
                    assert_eq!(crate::specs::parse(&entry.name).unwrap().to_string(), entry.name);
                }
            }
        }
    }

    #[test]
    fn citations_are_shortened() {
        assert_eq!(
            short_citation("Dice, Kogan: Avoiding scalability collapse. EuroSys 2019"),
            "Dice, Kogan 2019"
        );
        assert_eq!(
            short_citation("Magnusson, Landin, Hagersten: Queue locks. IPPS 1994"),
            "Magnusson et al. 1994"
        );
        assert_eq!(short_citation("Dice, Kogan: Locks. PPoPP 2025, arXiv 2501.02380"), "Dice, Kogan 2025");
        assert_eq!(short_citation("folklore"), "folklore");
    }
}
