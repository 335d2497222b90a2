//! Every reader-writer lock under shuttle: three to five threads, random schedules.

use std::time::Duration;

use libtest_mimic::{Arguments, Trial};
use lockwork_testkit::engines::shuttle::{Schedules, explore};
use lockwork_testkit::model::Config;
use lockwork_testkit::rw::RwSubject;
use lockwork_testkit::rw_plays::RwPlay;
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
    let each = |schedules: &[Schedules], play: RwPlay| {
        for schedules in schedules {
            explore(*schedules, config, KEPT, move || play.for_shuttle(subject));
        }
    };
    let guests = if subject.to_string().starts_with("pf-") { GUESTS } else { &[] };
    for parts in CROWDS.iter().chain(guests) {
        each(&[Schedules::Random(500), Schedules::Pct(150)], RwPlay::Parts(parts));
    }
    each(&[Schedules::Pct(250)], RwPlay::Destroy(3));
    each(&[Schedules::Pct(250)], RwPlay::Destroy(5));
    each(&[Schedules::Random(500), Schedules::Pct(500)], RwPlay::DestroyAndFork(3));
    each(&[Schedules::Random(1_000)], RwPlay::Fork);
    for has_read in [false, true] {
        each(&[Schedules::Random(1_000)], RwPlay::ForkReading { has_read });
    }
    let beside = [
        RwPlay::ForkReadingBeside,
        RwPlay::ForkBesideReaders,
        RwPlay::ForkHavingTried(None),
        RwPlay::ForkHavingTried(Some(expired())),
    ];
    for play in beside {
        each(&[Schedules::Random(1_000), Schedules::Pct(1_000)], play);
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
