//! A hash table in simulated memory: buckets side by side as natively, each the start of a chain of nodes.
//!
//! Invariants, checked by `check`:
//! - I1: every node is in the chain of its key's bucket once, or on the free list once.
//! - I2: no key is in two nodes, and each has its own value.

use lockwork_platform::DataCell;

use super::super::cells::{get, set};
use super::{Damaged, Entries, value_of, visit};
use crate::platform::Plain;
use crate::simulation::Simulation;

/// A node's number.
type NodeId = u32;
/// No node.
const NIL: NodeId = NodeId::MAX;

/// A map of a fixed capacity.
pub(super) struct Table {
    head: &'static Head,
    /// The first node of each chain.
    buckets: &'static [Plain<NodeId>],
    nodes: &'static [Node],
}

/// What belongs to no bucket.
#[repr(align(64))]
struct Head {
    /// The first free node.
    free: Plain<NodeId>,
    len: Plain<u32>,
}

#[repr(align(64))]
struct Node {
    key: Plain<u64>,
    value: Plain<u64>,
    next: Plain<NodeId>,
}

/// The bucket of a key: Fibonacci hashing (Knuth, volume 3, section 6.4).
fn bucket_of(key: u64, buckets: usize) -> usize {
    let mixed = key.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    ((u128::from(mixed) * buckets as u128) >> 64) as usize
}

impl Table {
    /// Puts a table into a run's memory that has room for `capacity` nodes and has these keys, each with its value.
    pub(super) fn place(run: &mut Simulation, capacity: usize, buckets: u32, entries: &[(u64, u64)]) -> Self {
        let mut firsts = vec![NIL; buckets.max(1) as usize];
        let mut nodes = Vec::with_capacity(capacity);
        for (key, value) in entries {
            let first = &mut firsts[bucket_of(*key, buckets.max(1) as usize)];
            let next = std::mem::replace(first, nodes.len() as NodeId);
            nodes.push(Node { key: Plain::new(*key), value: Plain::new(*value), next: Plain::new(next) });
        }
        let free = if nodes.len() < capacity { nodes.len() as NodeId } else { NIL };
        // The free ones, each with the next.
        for id in entries.len()..capacity {
            let next = if id + 1 < capacity { id as NodeId + 1 } else { NIL };
            nodes.push(Node { key: Plain::new(0), value: Plain::new(0), next: Plain::new(next) });
        }
        let head = Head { free: Plain::new(free), len: Plain::new(entries.len() as u32) };
        Self {
            head: run.place_named("the table's free list", head),
            buckets: run.place_all("the table's buckets", firsts.into_iter().map(Plain::new)),
            nodes: run.place_all("the table's nodes", nodes),
        }
    }

    fn node(&self, id: NodeId) -> Result<&'static Node, Damaged> {
        self.nodes.get(id as usize).ok_or(Damaged)
    }

    /// The link to the node of a key, or the last link of its chain, with what the link names.
    fn find(&self, key: u64) -> Result<(&'static Plain<NodeId>, NodeId), Damaged> {
        let mut link = &self.buckets[bucket_of(key, self.buckets.len())];
        // No chain has more nodes than there are.
        for _ in 0..=self.nodes.len() {
            let at = get(link);
            if at == NIL {
                return Ok((link, NIL));
            }
            let node = self.node(at)?;
            if get(&node.key) == key {
                return Ok((link, at));
            }
            link = &node.next;
        }
        Err(Damaged)
    }

    /// Checks the chain of a bucket.
    fn check_chain(&self, bucket: usize, seen: &mut [bool], keys: &mut Vec<u64>) -> Result<(), String> {
        let mut at = self.buckets[bucket].peek();
        while at != NIL {
            visit(at, seen)?;
            let node = &self.nodes[at as usize];
            let key = node.key.peek();
            if bucket_of(key, self.buckets.len()) != bucket {
                return Err(format!(
                    "key {key} is in bucket {bucket} of the table, where it does not belong"
                ));
            }
            if node.value.peek() != value_of(key) {
                return Err(format!("key {key} of the table has the value of another"));
            }
            keys.push(key);
            at = node.next.peek();
        }
        Ok(())
    }
}

impl Entries for Table {
    fn look_up(&self, key: u64) -> Result<Option<u64>, Damaged> {
        match self.find(key)? {
            (_, NIL) => Ok(None),
            (_, at) => Ok(Some(get(&self.node(at)?.value))),
        }
    }

    fn insert(&self, key: u64, value: u64) -> Result<bool, Damaged> {
        let (link, at) = self.find(key)?;
        if at != NIL {
            set(&self.node(at)?.value, value);
            return Ok(false);
        }
        let new = get(&self.head.free);
        let node = self.node(new)?;
        set(&self.head.free, get(&node.next));
        set(&node.key, key);
        set(&node.value, value);
        set(&node.next, NIL);
        set(link, new);
        set(&self.head.len, get(&self.head.len).wrapping_add(1));
        Ok(true)
    }

    fn remove(&self, key: u64) -> Result<bool, Damaged> {
        let (link, at) = self.find(key)?;
        if at == NIL {
            return Ok(false);
        }
        let node = self.node(at)?;
        set(link, get(&node.next));
        set(&node.next, get(&self.head.free));
        set(&self.head.free, at);
        set(&self.head.len, get(&self.head.len).wrapping_sub(1));
        Ok(true)
    }

    fn check(&self, len: i64) -> Result<(), String> {
        let mut seen = vec![false; self.nodes.len()];
        let mut keys = Vec::new();
        for bucket in 0..self.buckets.len() {
            self.check_chain(bucket, &mut seen, &mut keys)?;
        }
        let (reachable, counted) = (keys.len(), self.head.len.peek());
        if reachable as i64 != len || i64::from(counted) != len {
            return Err(format!("the table has {reachable} keys, counts {counted}, and should have {len}"));
        }
        keys.sort_unstable();
        if let Some(pair) = keys.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(format!("key {} is in the table twice", pair[0]));
        }
        let mut at = self.head.free.peek();
        while at != NIL {
            visit(at, &mut seen)?;
            at = self.nodes[at as usize].next.peek();
        }
        match seen.iter().position(|seen| !seen) {
            Some(lost) => Err(format!("node {lost} is neither in the table nor free")),
            None => Ok(()),
        }
    }
}
