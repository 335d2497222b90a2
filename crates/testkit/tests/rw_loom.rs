//! Every reader-writer lock under loom: two threads with three involuntary switches, three threads with two or (the largest
//! plays) one, and ten of them with [one fewer](LARGEST_OF_RWLOCKS); every ordering edge weakened and caught.
//! `LOCKWORK_DEEPER` explores those whole, `LOCKWORK_BOUNDS=FILE` notes there how many executions there were.

use std::cmp::Reverse;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Failed, Trial};
use lockwork_locks::registry::LockId;
use lockwork_testkit::exploration::{report, run};
use lockwork_testkit::largest::{LARGEST_OF_RWLOCKS, are_there, shallower};
use lockwork_testkit::model::Config;
use lockwork_testkit::mutation::{Witness, judge_source};
use lockwork_testkit::rw::RwSubject;
use lockwork_testkit::rw_plays::RwPlay;
use lockwork_testkit::scenarios::{Scenario, Subject, states_of_rwlocks_for_loom};
use lockwork_testkit::sources::{self, Source, proves};
use lockwork_testkit::watchdog::watchdog;

/// Far more than any scenario needs.
const LIMIT: Duration = Duration::from_secs(600);

/// Pool nodes that a lock may keep.
const KEPT: usize = 24;

/// Plays of two threads.
const PAIRS: &[&str] = &[
    "w w", "ww w", "r w", "rw w", "wr w", "r rw", "w W", "rw W", "w R", "wr R", "wc T", "wc t", "rc T",
    "a w", "aw w", "d w", "d r", "ww RR", "ww WW", "wwc tt",
];

/// Plays of three threads.
const TRIOS: &[&str] = &["r r w", "w r W", "w R w", "w r R", "w T c", "w t c", "wc t w", "wc T r"];

/// Plays of three threads with too many executions for two involuntary switches.
const LARGE_TRIOS: &[&str] = &["r w w", "w w w", "r w W", "w w W", "wc T w", "rc T w"];

/// Plays for locks whose other plays have only one involuntary switch: readers who leave while a writer waits for them
/// or has just given up, and one who comes in then; readers that may be readers already, and are, or are not.
const DEEP: &[(&str, usize)] =
    &[("h Ww", 2), ("h h w", 1), ("wh w j", 1), ("a ww", 2), ("w A", 2), ("w w A", 1), ("wn w l", 0)];

/// Plays for phase-fair locks: a thread comes in beside readers that a writer waits for, is late for that, or mistakes
/// a writer that has left for one that is there; a reader leaves while somebody tries, or gives up waiting for it; a reader that
/// gave up comes back while another writer is there.
const PHASED: &[(&str, usize)] = &[
    ("rw A", 3),
    ("wrw A", 2),
    ("wh w A", 0),
    ("wn w l", 0),
    ("r x", 3),
    ("r T c", 1),
    ("w w RR", 2),
    ("wc w tt", 1),
];

/// Plays for a biased lock whose readers are visible; threads 0 and 2 share a slot.
const VISIBLE: &[(&str, usize)] = &[("wrh  A", 0), ("wrh x r", 0), ("rxr r", 2)];

/// Plays for a bias that learns: it comes on after a time without writes, and a reader is visible then, and a writer revokes it.
const LEARNING: &[(&str, usize)] =
    &[("wrerr r", 1), ("wrerrw r", 1), ("wrerrr w", 1), ("wrerr x", 1), ("wrer w r", 0), ("wrer r r", 0)];

/// Plays for a lock whose writers hand it on to those of other nodes, threads 1 and 3; the second of a batch ends it.
const BATCHES: &[(&str, usize)] = &[("ww w", 2), ("w w W", 1), ("w w r", 1), ("d w w", 0), ("wc T w", 1)];

/// Plays for a lock that is handed to a writer that was woken in vain after a long time, and otherwise taken without
/// its guard; and whose last reader hands on if somebody slept before it came.
const HANDED: &[(&str, usize)] = &[("wew w", 2), ("wer w", 2), ("w x", 2), ("d w A", 1), ("d w w", 1)];

/// Plays for locks that know nodes, in which threads 1 and 3 are on a node that has no state yet.
const NODES: &[(&str, usize)] = &[("w r  r", 1), ("x r", 3)];

/// Plays in which a lock has been used, within so many involuntary switches.
fn used(subject: RwSubject, config: Config, plays: &[(&'static str, usize)]) -> Vec<Scenario> {
    let scenario = |&(parts, preemptions): &(&'static str, usize)| {
        let threads = parts.split(' ').count();
        let scenario = Scenario::new(parts, threads, move || RwPlay::Used(parts).for_loom(subject));
        Scenario { config, preemptions, resident: KEPT, ..scenario }
    };
    plays.iter().map(scenario).collect()
}

/// A machine on which more threads can run than there are CPUs, so that nobody spins for long.
fn crowded() -> Config {
    Config { spin_budget: 0, runnable: usize::MAX, ..Config::default() }
}

/// The deep plays of a lock.
fn deep(subject: RwSubject) -> Vec<Scenario> {
    let config = crowded();
    let name = subject.to_string();
    match name.as_str() {
        "bravo(rw-ttas)" => return used(subject, config, VISIBLE),
        "linux-rwsem" => return used(subject, config, HANDED),
        phased if phased.starts_with("pf-") => return used(subject, config, PHASED),
        "auto-rw" => {
            let config = Config { parallelism: 4, ..config };
            let nodes = Config { nodes: 2, ..config };
            let mut plays = used(subject, config, LEARNING);
            plays.extend(used(subject, nodes, &LEARNING[..2]));
            plays.extend(used(subject, nodes, BATCHES));
            plays.extend(used(subject, nodes, NODES));
            return plays;
        }
        _ => {}
    }
    if !subject.knows_nodes() {
        return Vec::new();
    }
    let mut plays = used(subject, config, DEEP);
    plays.extend(used(subject, Config { nodes: 2, parallelism: 4, ..config }, NODES));
    // Where waiters poll, three threads have many executions; by-node locks whose waiters sleep are played in depth.
    if subject.spins() || name.starts_with("bravo") {
        plays.iter_mut().filter(|play| play.threads > 2).for_each(|play| play.preemptions = 0);
    }
    plays
}

/// Whether it takes more steps than others without nodes.
fn is_linux(subject: RwSubject) -> bool {
    matches!(subject, RwSubject::Spec(spec) if spec.base == LockId::LinuxRwsem)
}

/// A play as a scenario.
fn scenario(subject: RwSubject, spin_budget: u32, parts: &'static str) -> Scenario {
    let threads = parts.split(' ').count();
    let scenario = Scenario::new(parts, threads, move || RwPlay::Parts(parts).for_loom(subject));
    // Threads that poll have many executions where one of them reads twice, as have locks that take many steps.
    let polls = subject.spins() && parts.contains('a');
    let many_steps = threads > 2 && (is_linux(subject) || subject.to_string() == "bravo(rw-futex)");
    let large = LARGE_TRIOS.contains(&parts) || subject.knows_nodes() || polls || many_steps;
    let scenario = if large {
        scenario.within(1)
    } else if is_linux(subject) {
        scenario.within(2)
    } else {
        scenario
    };
    let nodes = if subject.knows_nodes() && threads == 2 { 2 } else { 1 };
    Scenario { config: Config { spin_budget, nodes, ..crowded() }, resident: KEPT, ..scenario }
}

/// Attempts to read and to write while somebody reads.
fn attempts(subject: RwSubject) -> Scenario {
    let play = Scenario::new("attempts", 2, move || RwPlay::AttemptsBesideReader.for_loom(subject));
    Scenario { config: crowded(), resident: KEPT, ..play }
}

/// Plays as scenarios, without spinning.
fn scenarios<'a>(subject: RwSubject, plays: &'a [&'static str]) -> impl Iterator<Item = Scenario> + 'a {
    plays.iter().map(move |parts| scenario(subject, 0, parts))
}

/// The plays that mutants are shown to, of every lock.
fn subjects() -> Vec<Subject> {
    let of_lock = |subject: RwSubject| {
        let plays = scenarios(subject, PAIRS).chain(scenarios(subject, TRIOS)).chain(deep(subject));
        let plays = plays.chain([attempts(subject)]);
        Subject { name: subject.to_string(), scenarios: plays.collect() }
    };
    RwSubject::all().map(of_lock).chain(states_of_rwlocks_for_loom()).collect()
}

/// These, as deep as they are explored.
static WITNESSES: LazyLock<Vec<Witness>> = LazyLock::new(|| {
    let as_deep = |subject| shallower(subject, LARGEST_OF_RWLOCKS);
    subjects().into_iter().map(as_deep).flat_map(Witness::all_of).collect()
});

/// Whether a bias around another lock adds nothing to plays in which nobody is visible: those of three threads are the inner
/// lock's own.
fn is_wrapped(subject: RwSubject) -> bool {
    subject.knows_nodes() && subject.to_string().starts_with("bravo")
}

/// The plays of a lock that no mutant is shown to.
fn others(subject: RwSubject) -> Vec<Scenario> {
    let mut plays: Vec<Scenario> =
        if is_wrapped(subject) { Vec::new() } else { scenarios(subject, LARGE_TRIOS).collect() };
    plays.extend(["w w", "r w", "wr w", "wc T", "wc t"].map(|parts| scenario(subject, 1, parts)));
    // With CPUs to spare writers that may sleep spin for as long as readers, which give way.
    if subject.knows_nodes() && !subject.spins() {
        let mut play = scenario(subject, 1, "r w");
        play.config.runnable = 1;
        plays.push(play);
    }
    plays.extend([("destroy", 2, 3), ("destroy-of-three", 3, 1)].map(|(name, threads, preemptions)| {
        let config = crowded();
        let preemptions = match (subject.knows_nodes() || is_linux(subject), threads) {
            (true, 2) => 1,
            (true, _) => 0,
            (false, _) => preemptions,
        };
        let scenario = Scenario::new(name, threads, move || RwPlay::Destroy(threads).for_loom(subject));
        Scenario { config, preemptions, resident: KEPT, ..scenario }
    }));
    plays
}

/// A test that explores a scenario by `explore`, which returns the number of executions.
fn trial(lock: &str, scenario: Scenario, explore: impl Fn() -> u64 + Send + 'static) -> Trial {
    let name = format!("{lock}::{} (spin {})", scenario.name, scenario.config.spin_budget);
    Trial::test(name.clone(), move || {
        let start = Instant::now();
        let executions = watchdog(LIMIT, || name.clone(), explore);
        report(&name, &scenario, executions, start.elapsed());
        Ok(())
    })
}

/// One test for each lock and play.
fn plays() -> Vec<Trial> {
    let wrapped: Vec<String> =
        RwSubject::all().filter(|subject| is_wrapped(*subject)).map(|it| it.to_string()).collect();
    let is_left_out = |witness: &&Witness| {
        wrapped.iter().any(|name| name == witness.subject()) && TRIOS.contains(&witness.scenario().name)
    };
    let shown = WITNESSES.iter().filter(|witness| !is_left_out(witness));
    let mut trials: Vec<Trial> = shown
        .map(|witness| trial(witness.subject(), witness.scenario().clone(), || witness.explore()))
        .collect();
    for subject in RwSubject::all() {
        let lock = subject.to_string();
        trials.extend(others(subject).into_iter().map(|play| {
            let played = play.clone();
            trial(&lock, play, move || run(&played))
        }));
    }
    trials
}

/// Weakens every ordering of a source.
fn mutate(source: &Source) -> Result<(), Failed> {
    let is_state = |subject: &str| match subject.strip_prefix("state of ") {
        Some("pf-q") => source.path.contains("rw/pf_q"),
        Some(_) => source.path.contains("rw/by_node"),
        None => false,
    };
    // The word of a lock that has a state from the beginning is loaded only, and never changes: there is nothing to weaken.
    let is_alone = source.path.ends_with("rw/by_node/alone.rs");
    let is_witness = |witness: &&Witness| {
        (proves(witness.subject(), &source.path) || is_state(witness.subject()))
            && (!is_alone || PAIRS.contains(&witness.scenario().name))
    };
    let witnesses: Vec<&Witness> = WITNESSES.iter().filter(is_witness).collect();
    judge_source(source, &witnesses).map_err(Failed::from)
}

fn main() {
    let arguments = Arguments::from_args();
    let mut sources: Vec<Source> = sources::all();
    sources.retain(|source| source.path.starts_with("crates/locks/src/rw/"));
    // What takes longest comes first, so that all CPUs have work until the end.
    sources.sort_by_key(|source| Reverse(source.lines.len()));
    let mutants = sources
        .into_iter()
        .map(|source| Trial::test(format!("mutants of {}", source.path), move || mutate(&source)));
    // Mutants need what the others have explored.
    let largest = Trial::test("the largest are there", || Ok(are_there(LARGEST_OF_RWLOCKS, &subjects())?));
    libtest_mimic::run(&arguments, plays().into_iter().chain(mutants).chain([largest]).collect()).exit();
}
