//! Key-value maps behind one lock: threads look up, insert and remove keys of a range at random.
//!
//! The GCR paper's micro-benchmark (Dice and Kogan, Euro-Par 2019, section 6.1) with the paper's figures as defaults: an
//! AVL tree, 4096 keys of which about half are in the map at the start, 80% look-ups, the rest split evenly between
//! insertions and removals. The hash table is the same with another structure. Under a reader-writer lock look-ups
//! share it.

mod table;
mod tree;

use std::cell::Cell;

use self::table::Table;
use self::tree::Tree;
use super::Workload;
use super::distribution::Distribution;
use super::frame::{self, Frame, Load, Thread};
use super::locks::{Access, Protection};
use super::observed::RunResult;
use crate::machine::Machine;
use crate::memory::LINE;
use crate::random::Random;
use crate::simulation::{Options, Simulation};

/// What the threads do. Times in cycles.
#[derive(Debug, Clone, PartialEq)]
pub struct Map {
    /// What the map is.
    pub structure: Structure,
    /// Between two operations.
    pub delay: Distribution,
    /// Different keys, at least 1.
    pub keys: u32,
    /// The share of operations that insert or remove, between 0 and 1.
    pub write_share: f64,
}

/// What a map is. Every node is on a cache line of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Structure {
    /// An AVL tree.
    Tree,
    /// A hash table of so many buckets, each a chain. Sixteen buckets share a cache line.
    Table {
        /// At least one.
        buckets: u32,
    },
}

impl Map {
    /// The paper's figures, and a delay of our own: the paper gives none.
    pub const GCR: Self =
        Self { structure: Structure::Tree, delay: Distribution::About(2000), keys: 4096, write_share: 0.2 };
}

impl Workload for Map {
    fn run(&self, frame: &Frame, machine: &Machine, lock: &Protection, options: Options) -> RunResult {
        let entries = half_of(self.keys, options.seed);
        let place = |run: &mut Simulation| Operations {
            map: self.clone(),
            len: Cell::new(entries.len() as i64),
            structure: match self.structure {
                Structure::Tree => Box::new(Tree::place(run, self.keys as usize, &entries)),
                Structure::Table { buckets } => {
                    Box::new(Table::place(run, self.keys as usize, buckets, &entries))
                }
            },
        };
        frame::run(frame, machine, (lock, 1), options, place)
    }

    fn memory(&self) -> u64 {
        u64::from(self.keys) * LINE as u64
            + match self.structure {
                Structure::Tree => 0,
                Structure::Table { buckets } => u64::from(buckets) * size_of::<u32>() as u64,
            }
    }
}

/// About half of the keys of a range, in ascending order, with their values.
fn half_of(keys: u32, seed: u64) -> Vec<(u64, u64)> {
    // A part of the run that is no thread's.
    let mut random = Random::split(seed, u64::MAX - 1);
    let kept = (0..u64::from(keys)).filter(|_| random.below(2) == 1);
    kept.map(|key| (key, value_of(key))).collect()
}

/// The value that belongs to a key, so that a look-up can tell a wrong one.
fn value_of(key: u64) -> u64 {
    !key
}

/// The data are in a state that no lock that excludes allows; whoever finds that gives up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Damaged;

/// An ordered or unordered map in simulated memory, of a fixed capacity.
trait Entries {
    /// The value of a key.
    fn look_up(&self, key: u64) -> Result<Option<u64>, Damaged>;
    /// Sets the value of a key. Returns whether the key is a new one.
    fn insert(&self, key: u64, value: u64) -> Result<bool, Damaged>;
    /// Removes a key. Returns whether it was there.
    fn remove(&self, key: u64) -> Result<bool, Damaged>;
    /// Checks all that must hold, from outside the run, and that there are so many keys.
    fn check(&self, len: i64) -> Result<(), String>;
}

/// Marks a node as found, from outside the run; each must be found once.
fn visit(at: u32, seen: &mut [bool]) -> Result<(), String> {
    let nodes = seen.len();
    match seen.get_mut(at as usize) {
        None => Err(format!("a link of the map names node {at} of {nodes}")),
        Some(true) => Err(format!("node {at} of the map has two links to it")),
        Some(unseen) => {
            *unseen = true;
            Ok(())
        }
    }
}

/// What the threads do, with the map that they do it to.
struct Operations {
    map: Map,
    structure: Box<dyn Entries>,
    /// Keys that should be in the map.
    len: Cell<i64>,
}

impl Operations {
    fn look_up(&self, key: u64, thread: &Thread) -> Result<(), Damaged> {
        match self.structure.look_up(key)? {
            Some(value) if value != value_of(key) => {
                thread.found(|| format!("key {key} of the map has the value of another"));
            }
            _ => {}
        }
        Ok(())
    }

    fn write(&self, key: u64, inserts: bool) -> Result<(), Damaged> {
        let by = match inserts {
            true => i64::from(self.structure.insert(key, value_of(key))?),
            false => -i64::from(self.structure.remove(key)?),
        };
        self.len.set(self.len.get() + by);
        Ok(())
    }
}

impl Load for Operations {
    fn think_time(&self) -> u64 {
        self.map.delay.mean()
    }

    fn turn(&self, thread: &mut Thread) {
        let key = thread.random.below(u64::from(self.map.keys));
        let writes = thread.random.fraction() < self.map.write_share;
        let inserts = writes && thread.random.below(2) == 1;
        let access = if writes { Access::Write } else { Access::Read };
        thread.section(0, access, |thread| {
            let done = if writes { self.write(key, inserts) } else { self.look_up(key, thread) };
            if done.is_err() {
                thread.found(|| "the map was none for a while: the lock does not exclude".to_owned());
            }
        });
        thread.think(|random| self.map.delay.draw(random));
    }

    fn check(&self) -> Result<(), String> {
        self.structure.check(self.len.get())
    }
}
