//! Every reader-writer lock under shuttle: three to five threads, random schedules.

use std::time::Duration;

use libtest_mimic::{Arguments, Trial};
use lockwork_testkit::engines::shuttle::{Schedules, ShuttlePlatform, explore};
use lockwork_testkit::model::Config;
use lockwork_testkit::rw::RwSubject;
use lockwork_testkit::rw_plays::{
    destroy, destroy_and_fork, fork, fork_beside_readers, fork_having_tried, fork_reading,
    fork_reading_beside, play,
};
use lockwork_testkit::scenarios::expired;
use lockwork_testkit::watchdog::watchdog;

/// Far more than the plays of a lock need.
const LIMIT: Duration = Duration::from_secs(1_800);

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
    "ar ar w w",
    "rx rx xr rA w",
    "dr dw rd wa",
    "r xr rw T c",
    "r r ww T c",
];

/// And for phase-fair locks, which treat those who may be readers already in ways of their own.
const GUESTS: &[&str] = &["rA wA Aw rw", "rn wl Aw xT c"];

/// Pool nodes that a lock may keep.
const KEPT: usize = 24;

fn check(subject: RwSubject, config: Config) {
    let guests = if subject.to_string().starts_with("pf-") { GUESTS } else { &[] };
    for parts in CROWDS.iter().chain(guests) {
        for schedules in [Schedules::Random(1_000), Schedules::Pct(300)] {
            explore(schedules, config, KEPT, move || play::<ShuttlePlatform>(subject, parts));
        }
    }
    for threads in [3, 5] {
        explore(Schedules::Pct(500), config, KEPT, move || destroy::<ShuttlePlatform>(subject, threads));
    }
    for schedules in [Schedules::Random(1_000), Schedules::Pct(1_000)] {
        explore(schedules, config, KEPT, move || destroy_and_fork::<ShuttlePlatform>(subject, 3));
    }
    explore(Schedules::Random(2_000), config, KEPT, move || fork::<ShuttlePlatform>(subject));
    for has_read in [false, true] {
        let play = move || fork_reading::<ShuttlePlatform>(subject, has_read);
        explore(Schedules::Random(2_000), config, KEPT, play);
    }
    for schedules in [Schedules::Random(2_000), Schedules::Pct(2_000)] {
        explore(schedules, config, KEPT, move || fork_reading_beside::<ShuttlePlatform>(subject));
        explore(schedules, config, KEPT, move || fork_beside_readers::<ShuttlePlatform>(subject));
        for deadline in [None, Some(expired())] {
            let play = move || fork_having_tried::<ShuttlePlatform>(subject, deadline);
            explore(schedules, config, KEPT, play);
        }
    }
}

fn main() {
    let arguments = Arguments::from_args();
    let trials = RwSubject::all().flat_map(|subject| {
        let of = |nodes| {
            let config = Config { nodes, ..Config::default() };
            let name = format!("{subject}, {nodes} nodes");
            Trial::test(name.clone(), move || {
                watchdog(LIMIT, || name.clone(), || check(subject, config));
                Ok(())
            })
        };
        let nodes: &[usize] = if subject.knows_nodes() { &[1, 2] } else { &[1] };
        nodes.iter().map(move |&nodes| of(nodes)).collect::<Vec<_>>()
    });
    libtest_mimic::run(&arguments, trials.collect()).exit();
}
