//! The reader-writer lock under shuttle: three to five threads, random schedules.

mod rw_plays;

use lockwork_testkit::engines::shuttle::{Schedules, ShuttlePlatform, explore};
use lockwork_testkit::model::Config;
use rw_plays::{destroy, fork, play};

/// Plays for random schedules.
const CROWDS: &[&str] = &[
    "rwr wrw rrw",
    "wW rR wr RW",
    "w w w w w",
    "r r w w",
    "rw rw wr wr rr",
    "rT wT rT c w",
    "rt wt rw c w",
    "wT wT wt wt c r",
    "rwTt rwTt c wr",
];

fn explore_all<const W: bool>() {
    for parts in CROWDS {
        for schedules in [Schedules::Random(1_500), Schedules::Pct(500)] {
            explore(schedules, Config::default(), 0, || play::<ShuttlePlatform, W>(parts));
        }
    }
    for threads in [3, 5] {
        explore(Schedules::Pct(500), Config::default(), 0, move || destroy::<ShuttlePlatform, W>(threads));
    }
    explore(Schedules::Random(3_000), Config::default(), 0, fork::<ShuttlePlatform, W>);
}

#[test]
fn prefer_readers() {
    explore_all::<false>();
}

#[test]
fn prefer_writers() {
    explore_all::<true>();
}
