//! What the benchmark keeps behind its lock.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::avl::AvlMap;

/// A map from keys to values.
#[derive(Debug)]
pub(crate) enum Map {
    /// A balanced tree: look-ups touch a dozen lines.
    Tree(AvlMap),
    /// A hash table: look-ups touch one or two.
    Table(HashMap<u64, u64, BuildHasherDefault<Multiplied>>),
}

impl Map {
    /// An empty map that holds `capacity` entries before it allocates.
    pub(crate) fn with_capacity(hash: bool, capacity: usize) -> Self {
        if hash {
            Self::Table(HashMap::with_capacity_and_hasher(capacity, BuildHasherDefault::default()))
        } else {
            Self::Tree(AvlMap::with_capacity(capacity))
        }
    }

    /// Number of entries.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Tree(tree) => tree.len(),
            Self::Table(table) => table.len(),
        }
    }

    /// The value of `key`.
    pub(crate) fn get(&self, key: u64) -> Option<u64> {
        match self {
            Self::Tree(tree) => tree.get(key),
            Self::Table(table) => table.get(&key).copied(),
        }
    }

    /// Sets the value of `key`; returns the one it had.
    pub(crate) fn insert(&mut self, key: u64, value: u64) -> Option<u64> {
        match self {
            Self::Tree(tree) => tree.insert(key, value),
            Self::Table(table) => table.insert(key, value),
        }
    }

    /// Removes `key`; returns the value it had.
    pub(crate) fn remove(&mut self, key: u64) -> Option<u64> {
        match self {
            Self::Tree(tree) => tree.remove(key),
            Self::Table(table) => table.remove(&key),
        }
    }

    /// Checks the invariants that a lock which does not exclude would break.
    ///
    /// # Errors
    /// What is damaged.
    pub(crate) fn check(&self) -> Result<(), String> {
        match self {
            Self::Tree(tree) => tree.check(),
            Self::Table(table) if table.iter().count() == table.len() => Ok(()),
            Self::Table(table) => {
                Err(format!("the table does not have the {} entries it counts", table.len()))
            }
        }
    }
}

/// A hash that costs a multiplication (Knuth's), so that the time under the lock is the table's.
#[derive(Debug, Default)]
pub(crate) struct Multiplied(u64);

impl Hasher for Multiplied {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(byte.into()));
    }

    fn write_u64(&mut self, key: u64) {
        self.0 = (self.0 ^ key).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(32);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::Map;

    #[test]
    fn a_table_is_a_map() {
        let mut map = Map::with_capacity(true, 8);
        for key in 0..1000 {
            assert_eq!(map.insert(key, !key), None);
        }
        assert_eq!(map.insert(7, 8), Some(!7));
        assert_eq!((map.remove(8), map.get(8), map.get(7), map.len()), (Some(!8), None, Some(8), 999));
        map.check().unwrap();
    }
}
