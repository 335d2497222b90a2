//! The model checkers: loom (exhaustive within bounds, weak memory) and shuttle (random, more threads).

pub mod loom;
pub mod shuttle;
pub mod stacks;
