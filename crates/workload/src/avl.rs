//! A sequential AVL tree: an ordered map from `u64` keys to `u64` values.
//!
//! Nodes live in one vector and name each other by index; removed nodes are kept for reuse. A tree
//! that was given enough capacity therefore never allocates, so what a benchmark measures under its
//! lock is the tree and not the allocator.
//!
//! Invariants, checked by [`AvlMap::check`]:
//! - I1: keys in a left subtree are smaller than the node's, keys in a right subtree larger.
//! - I2: the heights of two sibling subtrees differ by at most one.
//! - I3: a node's `height` is one more than its higher child's.
//! - I4: every node is either reachable from the root once or on the free list once.

use std::cmp::Ordering;

#[cfg(test)]
mod tests;

/// No node.
const NIL: u32 = u32::MAX;

#[derive(Debug, Clone)]
struct Node {
    key: u64,
    value: u64,
    left: u32,
    /// The right child; in a node on the free list, the next free node.
    right: u32,
    height: u8,
}

/// An ordered map as a height-balanced binary tree.
#[derive(Debug, Clone)]
pub(crate) struct AvlMap {
    nodes: Vec<Node>,
    root: u32,
    free: u32,
    len: usize,
}

impl AvlMap {
    /// An empty map that holds `capacity` entries before it allocates.
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        Self { nodes: Vec::with_capacity(capacity), root: NIL, free: NIL, len: 0 }
    }

    /// Number of entries.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The value of `key`.
    pub(crate) fn get(&self, key: u64) -> Option<u64> {
        let mut at = self.root;
        while at != NIL {
            let node = self.node(at);
            at = match key.cmp(&node.key) {
                Ordering::Less => node.left,
                Ordering::Greater => node.right,
                Ordering::Equal => return Some(node.value),
            };
        }
        None
    }

    /// Sets the value of `key`; returns the value it had.
    ///
    /// # Panics
    /// When the map would hold `u32::MAX` entries.
    pub(crate) fn insert(&mut self, key: u64, value: u64) -> Option<u64> {
        let mut replaced = None;
        self.root = self.insert_below(self.root, key, value, &mut replaced);
        self.len += usize::from(replaced.is_none());
        replaced
    }

    /// Removes `key`; returns the value it had.
    pub(crate) fn remove(&mut self, key: u64) -> Option<u64> {
        let mut removed = None;
        self.root = self.remove_below(self.root, key, &mut removed);
        self.len -= usize::from(removed.is_some());
        removed
    }

    /// Inserts into the subtree at `at`; returns the subtree's new root.
    fn insert_below(&mut self, at: u32, key: u64, value: u64, replaced: &mut Option<u64>) -> u32 {
        if at == NIL {
            return self.take_node(key, value);
        }
        let node = self.node(at);
        let (left, right) = (node.left, node.right);
        match key.cmp(&node.key) {
            Ordering::Less => {
                let child = self.insert_below(left, key, value, replaced);
                self.node_mut(at).left = child;
            }
            Ordering::Greater => {
                let child = self.insert_below(right, key, value, replaced);
                self.node_mut(at).right = child;
            }
            Ordering::Equal => {
                *replaced = Some(std::mem::replace(&mut self.node_mut(at).value, value));
                return at;
            }
        }
        self.rebalance(at)
    }

    /// Removes `key` from the subtree at `at`; returns the subtree's new root.
    fn remove_below(&mut self, at: u32, key: u64, removed: &mut Option<u64>) -> u32 {
        if at == NIL {
            return NIL;
        }
        let node = self.node(at);
        let (left, right) = (node.left, node.right);
        match key.cmp(&node.key) {
            Ordering::Less => {
                let child = self.remove_below(left, key, removed);
                self.node_mut(at).left = child;
            }
            Ordering::Greater => {
                let child = self.remove_below(right, key, removed);
                self.node_mut(at).right = child;
            }
            Ordering::Equal => {
                *removed = Some(node.value);
                self.put_node(at);
                if left == NIL || right == NIL {
                    return if left == NIL { right } else { left };
                }
                // The successor takes the removed node's place.
                let (rest, successor) = self.detach_min(right);
                let heir = self.node_mut(successor);
                heir.left = left;
                heir.right = rest;
                return self.rebalance(successor);
            }
        }
        self.rebalance(at)
    }

    /// Takes the smallest node out of the non-empty subtree at `at`; returns what is left of the
    /// subtree, and that node.
    fn detach_min(&mut self, at: u32) -> (u32, u32) {
        let Node { left, right, .. } = *self.node(at);
        if left == NIL {
            return (right, at);
        }
        let (rest, min) = self.detach_min(left);
        self.node_mut(at).left = rest;
        (self.rebalance(at), min)
    }

    /// Restores I2 and I3 at `at`, whose subtrees hold them and differ in height by at most two;
    /// returns the subtree's new root.
    fn rebalance(&mut self, at: u32) -> u32 {
        let Node { left, right, .. } = *self.node(at);
        match self.balance(at) {
            2 => {
                if self.balance(left) < 0 {
                    self.node_mut(at).left = self.rotate_left(left);
                }
                self.rotate_right(at)
            }
            -2 => {
                if self.balance(right) > 0 {
                    self.node_mut(at).right = self.rotate_right(right);
                }
                self.rotate_left(at)
            }
            _ => {
                self.update_height(at);
                at
            }
        }
    }

    /// Makes the right child of `at` the root of its subtree.
    fn rotate_left(&mut self, at: u32) -> u32 {
        let pivot = self.node(at).right;
        self.node_mut(at).right = self.node(pivot).left;
        self.node_mut(pivot).left = at;
        self.update_height(at);
        self.update_height(pivot);
        pivot
    }

    /// Makes the left child of `at` the root of its subtree.
    fn rotate_right(&mut self, at: u32) -> u32 {
        let pivot = self.node(at).left;
        self.node_mut(at).left = self.node(pivot).right;
        self.node_mut(pivot).right = at;
        self.update_height(at);
        self.update_height(pivot);
        pivot
    }

    fn update_height(&mut self, at: u32) {
        let Node { left, right, .. } = *self.node(at);
        self.node_mut(at).height = 1 + self.height(left).max(self.height(right));
    }

    /// Height of the left subtree minus that of the right one.
    fn balance(&self, at: u32) -> i32 {
        let node = self.node(at);
        i32::from(self.height(node.left)) - i32::from(self.height(node.right))
    }

    fn height(&self, at: u32) -> u8 {
        if at == NIL { 0 } else { self.node(at).height }
    }

    fn node(&self, at: u32) -> &Node {
        &self.nodes[at as usize]
    }

    fn node_mut(&mut self, at: u32) -> &mut Node {
        &mut self.nodes[at as usize]
    }

    /// A leaf from the free list, or a new one.
    fn take_node(&mut self, key: u64, value: u64) -> u32 {
        let leaf = Node { key, value, left: NIL, right: NIL, height: 1 };
        if self.free != NIL {
            let at = self.free;
            self.free = self.node(at).right;
            *self.node_mut(at) = leaf;
            return at;
        }
        let at = self.nodes.len();
        assert!(at < NIL as usize, "an AvlMap holds fewer than u32::MAX entries");
        self.nodes.push(leaf);
        at as u32
    }

    /// Puts an unlinked node on the free list.
    fn put_node(&mut self, at: u32) {
        self.node_mut(at).right = self.free;
        self.free = at;
    }

    /// Checks every invariant, and that no entry was lost.
    ///
    /// # Errors
    /// Names the first broken invariant. A map that threads changed without mutual exclusion
    /// usually has one.
    pub(crate) fn check(&self) -> Result<(), String> {
        let mut seen = vec![false; self.nodes.len()];
        self.check_below(self.root, None, None, &mut seen)?;
        let reachable = seen.iter().filter(|&&s| s).count();
        if reachable != self.len {
            return Err(format!("{reachable} entries are reachable, {} were counted", self.len));
        }
        let mut at = self.free;
        while at != NIL {
            self.visit(at, &mut seen)?;
            at = self.node(at).right;
        }
        match seen.iter().position(|&s| !s) {
            Some(lost) => Err(format!("node {lost} is neither in the tree nor free")),
            None => Ok(()),
        }
    }

    /// Checks the subtree at `at`, whose keys lie strictly between the bounds; returns its height.
    fn check_below(
        &self,
        at: u32,
        above: Option<u64>,
        below: Option<u64>,
        seen: &mut [bool],
    ) -> Result<u8, String> {
        if at == NIL {
            return Ok(0);
        }
        self.visit(at, seen)?;
        let node = self.node(at);
        if above.is_some_and(|bound| node.key <= bound) || below.is_some_and(|bound| node.key >= bound) {
            return Err(format!("key {} is out of order", node.key));
        }
        let left = self.check_below(node.left, above, Some(node.key), seen)?;
        let right = self.check_below(node.right, Some(node.key), below, seen)?;
        if left.abs_diff(right) > 1 {
            return Err(format!("key {} has subtrees of heights {left} and {right}", node.key));
        }
        if node.height != 1 + left.max(right) {
            return Err(format!("key {} records height {}", node.key, node.height));
        }
        Ok(node.height)
    }

    fn visit(&self, at: u32, seen: &mut [bool]) -> Result<(), String> {
        match seen.get_mut(at as usize) {
            None => Err(format!("a link names node {at} of {}", self.nodes.len())),
            Some(true) => Err(format!("node {at} has two links to it")),
            Some(unseen) => {
                *unseen = true;
                Ok(())
            }
        }
    }
}
