//! The tree against its invariants, and against the standard library's map.

use super::{AvlMap, NIL};
use proptest::prelude::*;
use std::collections::BTreeMap;

fn map_of(keys: impl IntoIterator<Item = u64>) -> AvlMap {
    let mut map = AvlMap::with_capacity(0);
    for key in keys {
        map.insert(key, key * 10);
        map.check().unwrap();
    }
    map
}

#[test]
fn an_empty_map_has_nothing() {
    let mut map = AvlMap::with_capacity(8);
    assert_eq!((map.len(), map.get(1), map.remove(1)), (0, None, None));
    map.check().unwrap();
}

#[test]
fn insert_replaces_and_returns_the_old_value() {
    let mut map = map_of([5]);
    assert_eq!(map.insert(5, 7), Some(50));
    assert_eq!((map.len(), map.get(5)), (1, Some(7)));
}

#[test]
fn ascending_and_descending_keys_stay_balanced() {
    // A perfectly balanced tree of 1023 nodes has height 10; AVL allows 1.44 times as much.
    for map in [map_of(0..1023), map_of((0..1023).rev())] {
        assert!(map.height(map.root) <= 14, "height {}", map.height(map.root));
        assert!((0..1023).all(|key| map.get(key) == Some(key * 10)));
    }
}

#[test]
fn every_rotation_makes_the_middle_key_the_root() {
    for order in [[1, 2, 3], [3, 2, 1], [1, 3, 2], [3, 1, 2]] {
        let map = map_of(order);
        assert_eq!(map.node(map.root).key, 2, "{order:?}");
    }
}

#[test]
fn removing_a_node_with_two_children_promotes_its_successor() {
    let mut map = map_of([4, 2, 6, 1, 3, 5, 7]);
    assert_eq!(map.remove(4), Some(40));
    map.check().unwrap();
    assert_eq!(map.node(map.root).key, 5);
    assert_eq!(map.get(4), None);
}

#[test]
fn removed_nodes_are_reused() {
    let mut map = map_of(0..16);
    for key in 0..16 {
        map.remove(key);
        map.insert(key + 100, 0);
        map.check().unwrap();
    }
    assert_eq!(map.nodes.len(), 16, "a tree that does not grow must not allocate");
}

#[test]
fn check_finds_each_broken_invariant() {
    let good = map_of([4, 2, 6]);
    let (root, left) = (good.root, good.node(good.root).left);
    type Damage = fn(&mut AvlMap, root: u32, left: u32);
    let breaks: [(&str, Damage); 5] = [
        ("out of order", |map, _, left| map.node_mut(left).key = 5),
        ("records height", |map, root, _| map.node_mut(root).height = 9),
        ("two links", |map, root, left| map.node_mut(root).right = left),
        ("were counted", |map, _, _| map.len += 1),
        ("neither in the tree nor free", |map, root, _| {
            map.node_mut(root).left = NIL;
            map.len -= 1;
        }),
    ];
    for (message, damage) in breaks {
        let mut map = good.clone();
        damage(&mut map, root, left);
        let error = map.check().expect_err(message);
        assert!(error.contains(message), "{error}");
    }
}

#[derive(Debug, Clone)]
enum Step {
    Insert(u64, u64),
    Remove(u64),
    Get(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        (0..64u64, any::<u64>()).prop_map(|(key, value)| Step::Insert(key, value)),
        (0..64u64).prop_map(Step::Remove),
        (0..64u64).prop_map(Step::Get),
    ];
    prop::collection::vec(step, 0..400)
}

proptest! {
    #[test]
    fn behaves_like_a_btree_map(steps in steps()) {
        let mut map = AvlMap::with_capacity(0);
        let mut model = BTreeMap::new();
        for step in steps {
            match step {
                Step::Insert(key, value) => prop_assert_eq!(map.insert(key, value), model.insert(key, value)),
                Step::Remove(key) => prop_assert_eq!(map.remove(key), model.remove(&key)),
                Step::Get(key) => prop_assert_eq!(map.get(key), model.get(&key).copied()),
            }
            prop_assert_eq!(map.len(), model.len());
            map.check().map_err(TestCaseError::fail)?;
        }
    }
}
