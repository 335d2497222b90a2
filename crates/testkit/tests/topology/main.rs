//! Locks that know NUMA nodes, on virtual topologies. A process has one topology, so each gets a child process.

mod mutexes;
mod rwlocks;

use std::process::Command;

/// What is done on a topology.
const TURNS: &str = "nodes_take_turns";
const CONFORMANCE: &str = "conformance";
const RWLOCKS: &str = "rwlocks";

/// Runs the ignored tests of this program whose names contain `what` on a topology.
fn on(description: &str, what: &str) {
    let this = std::env::current_exe().expect("this program's path");
    let output = Command::new(this)
        .args(["--ignored", "--test-threads=1", what])
        .env("LOCKWORK_TOPOLOGY", description)
        .output()
        .expect("a child process");
    let text = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "on {description}:\n{}", String::from_utf8_lossy(&text));
}

#[test]
fn one_node() {
    on("node:1 core:2", TURNS);
    on("node:1 core:2", RWLOCKS);
}

#[test]
fn two_nodes() {
    on("node:2 core:4", TURNS);
    on("node:2 core:4", RWLOCKS);
    on("node:2 core:4", CONFORMANCE);
}

#[test]
fn three_nodes() {
    on("node:3 core:5", TURNS);
    on("node:3 core:5", RWLOCKS);
    on("node:3 core:5", CONFORMANCE);
}

#[test]
fn four_nodes() {
    on("node:4 core:8", TURNS);
    on("node:4 core:8", RWLOCKS);
}

#[test]
fn eight_nodes() {
    on("node:8 core:8", TURNS);
    on("node:8 core:8", RWLOCKS);
}

/// One node, whose two last-level caches are taken for nodes.
#[test]
fn two_caches() {
    on("die:2 core:4", TURNS);
    on("die:2 core:4", RWLOCKS);
}

#[test]
fn two_nodes_of_two_dies() {
    on("node:2 die:2 core:2", TURNS);
    on("node:2 die:2 core:2", CONFORMANCE);
}
