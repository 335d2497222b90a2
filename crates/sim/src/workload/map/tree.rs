//! An AVL tree in simulated memory: each node on a cache line of its own, every visit a load of that line.
//!
//! What it does is what the sequential tree of `lockwork-avl` does, without recursion: a simulated thread's stack is
//! short, and without a lock a tree may become a graph. A step that finds the tree in a state in which it cannot be
//! under a lock gives up.
//!
//! Invariants, checked by `check`:
//! - I1: keys in a left subtree are smaller than the node's, keys in a right subtree larger.
//! - I2: the heights of two sibling subtrees differ by at most one.
//! - I3: a node's `height` is one more than its higher child's.
//! - I4: every node is either reachable from the root once or on the free list once.

use std::cmp::Ordering;

use lockwork_platform::DataCell;

use super::super::cells::{get, set};
use super::{Damaged, Entries, visit};
use crate::platform::Plain;
use crate::simulation::Simulation;

/// A node's number.
type NodeId = u32;
/// No node.
const NIL: NodeId = NodeId::MAX;
/// No tree with numbers of 32 bits is that high.
const MAX_HEIGHT: usize = 64;

/// An ordered map of a fixed capacity.
pub(super) struct Tree {
    head: &'static Head,
    nodes: &'static [Node],
}

/// What belongs to no node.
#[repr(align(64))]
struct Head {
    root: Plain<NodeId>,
    /// The first free node.
    free: Plain<NodeId>,
    len: Plain<u32>,
}

#[repr(align(64))]
struct Node {
    key: Plain<u64>,
    value: Plain<u64>,
    left: Plain<NodeId>,
    /// The right child; in a free node, the next free one.
    right: Plain<NodeId>,
    height: Plain<u32>,
}

/// The way from the root to a node: the nodes on it, and whether it goes right from each.
struct Path {
    steps: [(NodeId, bool); MAX_HEIGHT],
    length: usize,
}

impl Path {
    fn new() -> Self {
        Self { steps: [(NIL, false); MAX_HEIGHT], length: 0 }
    }

    fn push(&mut self, node: NodeId, right: bool) -> Result<(), Damaged> {
        *self.steps.get_mut(self.length).ok_or(Damaged)? = (node, right);
        self.length += 1;
        Ok(())
    }
}

impl Tree {
    /// Puts a tree into a run's memory that has room for `capacity` nodes and has these keys, which ascend, each with
    /// its value.
    pub(super) fn place(run: &mut Simulation, capacity: usize, entries: &[(u64, u64)]) -> Self {
        let mut nodes: Vec<Node> = entries.iter().map(|(key, value)| Node::new(*key, *value)).collect();
        let (root, _) = link(&mut nodes, 0, entries.len());
        // The free ones, each with the next.
        for id in entries.len()..capacity {
            let next = if id + 1 < capacity { id as NodeId + 1 } else { NIL };
            nodes.push(Node { right: Plain::new(next), ..Node::new(0, 0) });
        }
        let free = if entries.len() < capacity { entries.len() as NodeId } else { NIL };
        let head =
            Head { root: Plain::new(root), free: Plain::new(free), len: Plain::new(entries.len() as u32) };
        Self {
            head: run.place_named("the tree's root", head),
            nodes: run.place_all("the tree's nodes", nodes),
        }
    }

    fn node(&self, id: NodeId) -> Result<&'static Node, Damaged> {
        self.nodes.get(id as usize).ok_or(Damaged)
    }

    /// Goes to a key; `path` is the way there, or to where it would be.
    fn find(&self, key: u64, path: &mut Path) -> Result<Option<NodeId>, Damaged> {
        let mut at = get(&self.head.root);
        while at != NIL {
            let node = self.node(at)?;
            let right = match key.cmp(&get(&node.key)) {
                Ordering::Equal => return Ok(Some(at)),
                Ordering::Less => false,
                Ordering::Greater => true,
            };
            path.push(at, right)?;
            at = get(if right { &node.right } else { &node.left });
        }
        Ok(None)
    }

    /// Puts the smallest node of its right subtree in the place of a node with two children. The path goes on to where
    /// that node was.
    fn replace_by_successor(&self, at: NodeId, path: &mut Path) -> Result<(), Damaged> {
        let place = path.length;
        path.push(at, true)?;
        let node = self.node(at)?;
        let mut heir = get(&node.right);
        loop {
            let left = get(&self.node(heir)?.left);
            if left == NIL {
                break;
            }
            path.push(heir, false)?;
            heir = left;
        }
        let successor = self.node(heir)?;
        self.replace_below(path, path.length, get(&successor.right))?;
        set(&successor.left, get(&node.left));
        set(&successor.right, get(&node.right));
        set(&successor.height, get(&node.height));
        path.steps[place].0 = heir;
        self.replace_below(path, place, heir)
    }

    /// Makes `child` what the path leads to after its first `length` steps.
    fn replace_below(&self, path: &Path, length: usize, child: NodeId) -> Result<(), Damaged> {
        let link = match length.checked_sub(1).map(|last| path.steps[last]) {
            None => &self.head.root,
            Some((parent, false)) => &self.node(parent)?.left,
            Some((parent, true)) => &self.node(parent)?.right,
        };
        set(link, child);
        Ok(())
    }

    /// Restores I2 and I3 from the end of a path, below which one subtree has changed, up to where nothing changes any
    /// more.
    fn retrace(&self, path: &Path) -> Result<(), Damaged> {
        for length in (0..path.length).rev() {
            let at = path.steps[length].0;
            let before = get(&self.node(at)?.height);
            let root = self.rebalance(at)?;
            if root != at {
                self.replace_below(path, length, root)?;
            }
            if get(&self.node(root)?.height) == before {
                break;
            }
        }
        Ok(())
    }

    /// Restores I2 and I3 at a node whose subtrees hold them and differ in height by at most two; returns the subtree's
    /// new root.
    fn rebalance(&self, at: NodeId) -> Result<NodeId, Damaged> {
        let node = self.node(at)?;
        match self.balance(node)? {
            2.. => {
                let left = get(&node.left);
                if self.balance(self.node(left)?)? < 0 {
                    set(&node.left, self.rotate(left, false)?);
                }
                self.rotate(at, true)
            }
            ..=-2 => {
                let right = get(&node.right);
                if self.balance(self.node(right)?)? > 0 {
                    set(&node.right, self.rotate(right, true)?);
                }
                self.rotate(at, false)
            }
            _ => {
                self.update_height(node)?;
                Ok(at)
            }
        }
    }

    /// Makes a child of `at` the root of its subtree: the left one if that turns to the right, else the right one.
    fn rotate(&self, at: NodeId, right: bool) -> Result<NodeId, Damaged> {
        let node = self.node(at)?;
        let from = if right { &node.left } else { &node.right };
        let id = get(from);
        let pivot = self.node(id)?;
        let to = if right { &pivot.right } else { &pivot.left };
        set(from, get(to));
        set(to, at);
        self.update_height(node)?;
        self.update_height(pivot)?;
        Ok(id)
    }

    fn update_height(&self, node: &Node) -> Result<(), Damaged> {
        let height = self.height(get(&node.left))?.max(self.height(get(&node.right))?).saturating_add(1);
        if get(&node.height) != height {
            set(&node.height, height);
        }
        Ok(())
    }

    /// Height of the left subtree minus that of the right one.
    fn balance(&self, node: &Node) -> Result<i64, Damaged> {
        Ok(i64::from(self.height(get(&node.left))?) - i64::from(self.height(get(&node.right))?))
    }

    fn height(&self, id: NodeId) -> Result<u32, Damaged> {
        if id == NIL { Ok(0) } else { Ok(get(&self.node(id)?.height)) }
    }

    /// A free node.
    fn take_node(&self) -> Result<NodeId, Damaged> {
        let free = get(&self.head.free);
        set(&self.head.free, get(&self.node(free)?.right));
        Ok(free)
    }

    /// Checks a subtree at this depth, whose keys lie strictly between the bounds; returns its height.
    fn check_below(
        &self,
        at: NodeId,
        depth: usize,
        (above, below): (Option<u64>, Option<u64>),
        seen: &mut [bool],
    ) -> Result<u32, String> {
        if at == NIL {
            return Ok(0);
        }
        if depth == MAX_HEIGHT {
            return Err(format!("the tree is deeper than {MAX_HEIGHT}"));
        }
        visit(at, seen)?;
        let node = &self.nodes[at as usize];
        let (key, height) = (node.key.peek(), node.height.peek());
        if above.is_some_and(|bound| key <= bound) || below.is_some_and(|bound| key >= bound) {
            return Err(format!("key {key} of the tree is out of order"));
        }
        let left = self.check_below(node.left.peek(), depth + 1, (above, Some(key)), seen)?;
        let right = self.check_below(node.right.peek(), depth + 1, (Some(key), below), seen)?;
        if left.abs_diff(right) > 1 {
            return Err(format!("key {key} of the tree has subtrees of heights {left} and {right}"));
        }
        if height != 1 + left.max(right) {
            return Err(format!("key {key} of the tree records height {height}"));
        }
        Ok(height)
    }
}

impl Entries for Tree {
    fn look_up(&self, key: u64) -> Result<Option<u64>, Damaged> {
        let at = self.find(key, &mut Path::new())?;
        at.map(|at| Ok(get(&self.node(at)?.value))).transpose()
    }

    fn insert(&self, key: u64, value: u64) -> Result<bool, Damaged> {
        let mut path = Path::new();
        if let Some(at) = self.find(key, &mut path)? {
            set(&self.node(at)?.value, value);
            return Ok(false);
        }
        let new = self.take_node()?;
        let node = self.node(new)?;
        set(&node.key, key);
        set(&node.value, value);
        set(&node.left, NIL);
        set(&node.right, NIL);
        set(&node.height, 1);
        self.replace_below(&path, path.length, new)?;
        set(&self.head.len, get(&self.head.len).wrapping_add(1));
        self.retrace(&path)?;
        Ok(true)
    }

    fn remove(&self, key: u64) -> Result<bool, Damaged> {
        let mut path = Path::new();
        let Some(at) = self.find(key, &mut path)? else { return Ok(false) };
        let node = self.node(at)?;
        let (left, right) = (get(&node.left), get(&node.right));
        if left == NIL || right == NIL {
            self.replace_below(&path, path.length, if left == NIL { right } else { left })?;
        } else {
            self.replace_by_successor(at, &mut path)?;
        }
        set(&node.right, get(&self.head.free));
        set(&self.head.free, at);
        set(&self.head.len, get(&self.head.len).wrapping_sub(1));
        self.retrace(&path)?;
        Ok(true)
    }

    fn check(&self, len: i64) -> Result<(), String> {
        let mut seen = vec![false; self.nodes.len()];
        self.check_below(self.head.root.peek(), 0, (None, None), &mut seen)?;
        let reachable = seen.iter().filter(|seen| **seen).count();
        let counted = self.head.len.peek();
        if reachable as i64 != len || i64::from(counted) != len {
            return Err(format!("the tree has {reachable} keys, counts {counted}, and should have {len}"));
        }
        let mut at = self.head.free.peek();
        while at != NIL {
            visit(at, &mut seen)?;
            at = self.nodes[at as usize].right.peek();
        }
        match seen.iter().position(|seen| !seen) {
            Some(lost) => Err(format!("node {lost} is neither in the tree nor free")),
            None => Ok(()),
        }
    }
}

impl Node {
    /// A leaf.
    fn new(key: u64, value: u64) -> Self {
        Self {
            key: Plain::new(key),
            value: Plain::new(value),
            left: Plain::new(NIL),
            right: Plain::new(NIL),
            height: Plain::new(1),
        }
    }
}

/// Links the nodes from `start` to before `end`, whose keys ascend, as a tree. Returns its root and height.
fn link(nodes: &mut [Node], start: usize, end: usize) -> (NodeId, u32) {
    if start == end {
        return (NIL, 0);
    }
    let middle = start.midpoint(end);
    let (left, left_height) = link(nodes, start, middle);
    let (right, right_height) = link(nodes, middle + 1, end);
    let height = 1 + left_height.max(right_height);
    let node = &mut nodes[middle];
    node.left = Plain::new(left);
    node.right = Plain::new(right);
    node.height = Plain::new(height);
    (middle as NodeId, height)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::BTreeSet;
    use std::rc::Rc;

    use super::super::{Entries, half_of, value_of};
    use super::*;
    use crate::{Options, Random, machine};

    #[test]
    fn a_tree_does_what_an_ordered_set_does() {
        const KEYS: u32 = 200;
        let machine = machine::named("e7-4850").expect("a machine of ours");
        // SAFETY: what is placed is used only while the run is there.
        let mut run = unsafe { Simulation::new(&machine, Options::default()) };
        let entries = half_of(KEYS, 7);
        let tree = Rc::new(Tree::place(&mut run, KEYS as usize, &entries));
        let done = Rc::new(RefCell::new(0));
        let (theirs, count) = (Rc::clone(&tree), Rc::clone(&done));
        run.spawn(0, true, move || {
            let mut model: BTreeSet<u64> = entries.iter().map(|(key, _)| *key).collect();
            let mut random = Random::new(11);
            for _ in 0..5_000 {
                let key = random.below(KEYS.into());
                let value = model.contains(&key).then(|| value_of(key));
                assert_eq!(theirs.look_up(key), Ok(value));
                if random.below(2) == 0 {
                    assert_eq!(theirs.insert(key, value_of(key)), Ok(model.insert(key)));
                } else {
                    assert_eq!(theirs.remove(key), Ok(model.remove(&key)));
                }
                theirs.check(model.len() as i64).expect("all invariants hold");
                *count.borrow_mut() += 1;
            }
        });
        run.run(u64::MAX / 2);
        assert_eq!(*done.borrow(), 5_000);
    }

    #[test]
    fn what_is_no_tree_is_found_out() {
        let machine = machine::named("e7-4850").expect("a machine of ours");
        // SAFETY: what is placed is used only while the run is there.
        let mut run = unsafe { Simulation::new(&machine, Options::default()) };
        let mut broken = |change: fn(&Tree)| {
            let entries: Vec<_> = (0..7).map(|key| (key, value_of(key))).collect();
            let tree = Rc::new(Tree::place(&mut run, 8, &entries));
            tree.check(7).expect("a tree");
            change(&tree);
            tree.check(7).expect_err("none any more")
        };
        // Node 3 is the root, 1 and 5 are below it.
        assert!(broken(|tree| tree.head.len.put(6)).contains("counts 6"));
        assert!(broken(|tree| tree.nodes[1].key.put(9)).contains("out of order"));
        assert!(broken(|tree| tree.head.free.put(3)).contains("two links"));
        assert!(broken(|tree| tree.nodes[1].height.put(5)).contains("records height 5"));
        assert!(broken(|tree| tree.nodes[3].left.put(NIL)).contains("heights 0 and 2"));
        assert!(broken(|tree| tree.head.free.put(NIL)).contains("neither in the tree nor free"));
    }
}
