//! `lockwork list`: the locks there are.

use std::process::ExitCode;

use clap::Args;
use comfy_table::{Attribute, Cell, CellAlignment, ColumnConstraint};
use lockwork_footprint::Footprint;
use lockwork_locks::describe::Descriptor;
use lockwork_locks::registry::{self, LockId, Spec, WrapperId};
use serde::Serialize;

use crate::error::Failure;
use crate::prose::{first_clause, short_citation};
use crate::{delegates, rwlocks, terminal};

/// `lockwork list`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lockwork list
  lockwork list --nodes 2                         memory as on a machine with two NUMA nodes
  lockwork list --json | jq -r '.[].name'")]
pub(crate) struct ListArgs {
    /// Measure what a lock takes of memory on a machine with so many NUMA nodes
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u8).range(1..=64))]
    pub(crate) nodes: u8,
    /// Print a JSON array of objects
    #[arg(long)]
    pub(crate) json: bool,
}

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
    pub(crate) fairness: String,
    pub(crate) bytes: usize,
    pub(crate) bytes_per_waiter: usize,
    /// The holder keeps the bytes of a waiter.
    pub(crate) holder_node: bool,
    /// What the lock was seen to take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) measured: Option<Measured>,
    pub(crate) try_lock: bool,
    pub(crate) timed: String,
    pub(crate) citation: &'static str,
    pub(crate) citation_key: &'static str,
    pub(crate) summary: &'static str,
}

/// Bytes of a lock at rest and of the state that it keeps, as measured.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Measured {
    /// NUMA nodes of the pretended machine.
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
        let spec = Spec::mutex(spec).map_err(|error| Failure::usage(error.to_string()))?;
        let Footprint { unused, one_node, all_nodes } = Footprint::measure(spec, nodes);
        Ok(Self { nodes, unused, one_node, all_nodes })
    }
}

impl Entry {
    /// A base lock.
    pub(crate) fn base(lock: &registry::Entry) -> Self {
        Entry {
            timed: lock.descriptor.timed_by(lock.waiting).to_string(),
            ..Entry::new(lock.name.to_owned(), lock.descriptor, vec![lock.waiting.word()])
        }
    }

    /// An algorithm with these waiting policies.
    pub(crate) fn new(name: String, lock: &'static Descriptor, waiting: Vec<&'static str>) -> Self {
        Entry {
            name,
            kind: "mutex",
            algorithm: lock.name,
            wrapper: None,
            family: lock.family.to_string(),
            waiting,
            fairness: lock.fairness().to_string(),
            bytes: lock.bytes,
            bytes_per_waiter: lock.bytes_per_waiter,
            holder_node: lock.holder_node,
            measured: None,
            // Every lock has it: the POSIX API needs it.
            try_lock: true,
            timed: lock.timed.to_string(),
            citation: lock.citation.text,
            citation_key: lock.citation.key,
            summary: lock.summary,
        }
    }

    /// A base lock in a wrapper. A waiter waits in the one or the other.
    pub(crate) fn wrapped(wrapper: &'static Descriptor, lock: &registry::Entry) -> Self {
        Entry {
            wrapper: Some(wrapper.name),
            algorithm: lock.descriptor.name,
            bytes: wrapper.bytes + lock.descriptor.bytes,
            bytes_per_waiter: wrapper.bytes_per_waiter.max(lock.descriptor.bytes_per_waiter),
            holder_node: lock.descriptor.holder_node,
            ..Entry::new(format!("{}({})", wrapper.name, lock.name), wrapper, vec![lock.waiting.word()])
        }
    }
}

/// What `--json` lists.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Listed {
    Mutex(Entry),
    RwLock(rwlocks::Entry),
    Delegate(delegates::Entry),
}

/// Prints the list.
pub(crate) fn main(args: &ListArgs) -> Result<ExitCode, Failure> {
    if args.json {
        let base = registry::mutexes().map(Entry::base);
        let wrapped = registry::mutex_wrappers().flat_map(|wrapper| {
            wrapper.inner_locks().map(move |lock| Entry::wrapped(wrapper.descriptor(), lock))
        });
        let measured =
            |entry: Entry| Ok(Entry { measured: Some(Measured::of(&entry.name, args.nodes)?), ..entry });
        let mutexes = base.chain(wrapped).map(|entry| Ok(Listed::Mutex(measured(entry)?)));
        let rwlocks = rwlocks::Entry::all().map(|entry| Ok(Listed::RwLock(entry)));
        let delegates = delegates::Entry::all().map(|entry| Ok(Listed::Delegate(entry)));
        let all = mutexes.chain(rwlocks).chain(delegates);
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
    for lock in registry::mutexes() {
        let measured = Measured::of(lock.name, nodes)?;
        table.add_row(row(lock.name, lock.waiting.word(), lock.descriptor, "", measured));
    }
    for wrapper in registry::mutex_wrappers().map(WrapperId::descriptor) {
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
         the holder where marked *). Every lock can be tried. stp: spins, then parks. restriction: lets few of the threads compete for\n\
         the lock inside. long-term: waiters are passed over, but each is served in the end. that of its mode, as its mode: changes\n\
         with what the lock finds.\n\
         `passthrough` is glibc's own lock behind the library. The default is `{}`. More: lockwork info LOCK\n\n\
         {}\n\
         Reader-writer locks go behind a mutex, as in `mcs-stp+{}`, or alone, which leaves mutexes to glibc. Beside a mutex that is named\n\
         alone it is `{}`; beside `auto` it is `auto-rw`.\n\n\
         {}\n\
         Delegates run closures for programs that call them: `lockwork::Delegated`, `lockwork_delegate_t`. More: lockwork info DELEGATE\n",
        table.trim_fmt(),
        registry::DEFAULT,
        rwlocks::table(),
        LockId::CstRwsem.info().name,
        Spec::DEFAULT_RWLOCK,
        delegates::table(),
    ))
}

fn row(name: &str, waiting: &str, lock: &Descriptor, sign: &str, measured: Measured) -> Vec<Cell> {
    let mark = if lock.holder_node { "*" } else { "" };
    vec![
        Cell::new(name).add_attribute(Attribute::Bold),
        Cell::new(lock.family),
        Cell::new(waiting),
        Cell::new(first_clause(&lock.fairness().to_string())),
        Cell::new(format!("{sign}{}", measured.unused)),
        Cell::new(format!("{sign}{}", measured.one_node)),
        Cell::new(format!("{sign}{}", measured.all_nodes)),
        Cell::new(format!("{}{mark}", lock.bytes_per_waiter)),
        Cell::new(first_clause(&lock.timed.to_string())),
        Cell::new(short_citation(lock.citation.text)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_in_json_is_a_spec() {
        for wrapper in registry::mutex_wrappers() {
            for lock in wrapper.inner_locks() {
                for entry in [Entry::base(lock), Entry::wrapped(wrapper.descriptor(), lock)] {
                    assert_eq!(crate::specs::parse(&entry.name).unwrap().to_string(), entry.name);
                }
            }
        }
    }
}
