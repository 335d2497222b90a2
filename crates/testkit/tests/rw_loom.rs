//! Every reader-writer lock under loom: two threads with three involuntary switches, three threads with two or (the largest
//! plays) one; every ordering edge weakened and caught. `LOCKWORK_BOUNDS=1` prints how many executions there were.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Failed, Trial};
use lockwork_locks::rw::catalogue::RwLockId;
use lockwork_testkit::engines::loom::LoomPlatform;
use lockwork_testkit::exploration::{report, run};
use lockwork_testkit::model::Config;
use lockwork_testkit::mutation::{Verdict, Witness, verdicts};
use lockwork_testkit::rw::RwSubject;
use lockwork_testkit::rw_plays::{destroy, play, play_used};
use lockwork_testkit::scenarios::{Scenario, Subject};
use lockwork_testkit::watchdog::watchdog;

/// Far more than any scenario needs.
const LIMIT: Duration = Duration::from_secs(300);

/// Pool nodes that a lock may keep.
const KEPT: usize = 24;

/// Plays of two threads.
const PAIRS: &[&str] = &[
    "w w", "ww w", "r w", "rw w", "wr w", "r rw", "w W", "rw W", "w R", "wr R", "wc T", "wc t", "rc T",
    "a w", "aw w", "d w", "d r",
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
/// a writer that has left for one that is there; a reader leaves while somebody tries, or gives up waiting for it.
const PHASED: &[(&str, usize)] =
    &[("rw A", 3), ("wrw A", 2), ("wh w A", 0), ("wn w l", 0), ("r x", 3), ("r T c", 1)];

/// Plays for a biased lock whose readers are visible; threads 0 and 2 share a slot.
const VISIBLE: &[(&str, usize)] = &[("wrh  A", 0), ("wrh x r", 0), ("rxr r", 2)];

/// Plays for a lock that is handed to a writer that was woken in vain after a long time, and otherwise taken without
/// its guard; and whose last reader hands on if somebody slept before it came.
const HANDED: &[(&str, usize)] = &[("wew w", 2), ("wer w", 2), ("w x", 2), ("d w A", 1), ("d w w", 2)];

/// Plays for locks that know nodes, in which threads 1 and 3 are on a node that has no state yet.
const NODES: &[(&str, usize)] = &[("w r  r", 1), ("x r", 3)];

/// Plays in which a lock has been used, within so many involuntary switches.
fn used(subject: RwSubject, config: Config, plays: &[(&'static str, usize)]) -> Vec<Scenario> {
    let scenario = |&(parts, preemptions): &(&'static str, usize)| {
        let threads = parts.split(' ').count();
        let scenario = Scenario::new(parts, threads, move || play_used::<LoomPlatform>(subject, parts));
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
    matches!(subject, RwSubject::Spec(spec) if spec.base == RwLockId::LinuxRwsem)
}

/// A play as a scenario.
fn scenario(subject: RwSubject, spin_budget: u32, parts: &'static str) -> Scenario {
    let threads = parts.split(' ').count();
    let scenario = Scenario::new(parts, threads, move || play::<LoomPlatform>(subject, parts));
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

/// Plays as scenarios, without spinning.
fn scenarios(subject: RwSubject, plays: &[&[&'static str]]) -> Subject {
    let scenarios = plays.iter().copied().flatten().map(|parts| scenario(subject, 0, parts));
    Subject { name: subject.to_string(), scenarios: scenarios.chain(deep(subject)).collect() }
}

/// All plays of a lock.
fn check(subject: RwSubject) {
    // The bias adds nothing to plays in which nobody is visible: those of three threads are the inner lock's own.
    let is_wrapped = subject.knows_nodes() && subject.to_string().starts_with("bravo");
    let plays: &[&[&str]] = if is_wrapped { &[PAIRS] } else { &[PAIRS, TRIOS, LARGE_TRIOS] };
    let Subject { name, mut scenarios } = scenarios(subject, plays);
    scenarios.extend(["w w", "r w", "wr w", "wc T", "wc t"].map(|parts| scenario(subject, 1, parts)));
    // With CPUs to spare writers that may sleep spin for as long as readers, which give way.
    if subject.knows_nodes() && !subject.spins() {
        let mut play = scenario(subject, 1, "r w");
        play.config.runnable = 1;
        scenarios.push(play);
    }
    scenarios.extend([("destroy", 2, 3), ("destroy-of-three", 3, 1)].map(|(name, threads, preemptions)| {
        let config = crowded();
        let preemptions = match (subject.knows_nodes() || is_linux(subject), threads) {
            (true, 2) => 1,
            (true, _) => 0,
            (false, _) => preemptions,
        };
        let scenario = Scenario::new(name, threads, move || destroy::<LoomPlatform>(subject, threads));
        Scenario { config, preemptions, resident: KEPT, ..scenario }
    }));
    for scenario in &scenarios {
        let start = Instant::now();
        let what = || format!("{name}::{} (spin {})", scenario.name, scenario.config.spin_budget);
        let executions = watchdog(LIMIT, what, || run(scenario));
        report(&what(), scenario, executions, start.elapsed());
    }
}

/// Weaker orderings that no play catches, and need not: part of the line, and why.
const ALLOWED: &[(&str, &str)] = &[
    (
        "self.state.fetch_and(!(WRITERS_WAITING | READERS_WAITING), Acquire)",
        "loom runs loads and stores in the order of the source: a load of `turn` by the writer whose bit is cleared must not \
         return what is written to it afterwards",
    ),
    (
        "let seen = self.state.fetch_and(!WATCHED, Acquire);",
        "as above, of a writer that sleeps on `turn` because another watches",
    ),
    (
        "while word.load(Acquire) & BARRED != 0 && is_resting",
        "for a child of `fork`, which only shuttle plays, in one order of accesses: a reader that leaves too late looks at what \
         a writer before wrote",
    ),
    (
        "let drawn = self.tickets.load(Acquire);",
        "it keeps a load behind it that could otherwise be 2^31 turns old; no play has as many",
    ),
    (
        "let _ = slot.load(Acquire);",
        "for four threads: a reader that joins itself when another that shares its slot has left for it, and a writer before and \
         after that one; each is a load of what was written long before",
    ),
    (
        "slot.store(if is_on { name } else { 0 }, Release);",
        "a model's light barrier, a fence, releases what was seen before it; a writer between the two looks at the bias and then a \
         reader that joins are in `rh xr A`, which catches it within one involuntary switch, and takes minutes",
    ),
];

/// The sources, and the locks that are made of each.
const SOURCES: &[(&str, &[&str])] = &[
    ("rw/futex", &["rw-futex", "rw-futex, writers preferred"]),
    ("rw/ttas", &["rw-ttas"]),
    ("rw/pf_t", &["pf-t"]),
    ("rw/pf_q", &["pf-q"]),
    ("rw/phases", &["pf-t"]),
    ("rw/bravo", &["bravo(rw-ttas)"]),
    ("rw/linux_rwsem", &["linux-rwsem"]),
    ("rw/by_node", &["cst-rwsem", "cst-rwsem-neutral", "c-rw-rp"]),
];

/// Weakens every ordering of a source.
fn mutate(file: &str, names: &[&str]) -> Result<(), Failed> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let subjects = RwSubject::all().filter(|subject| names.contains(&subject.to_string().as_str()));
    let witnesses: Vec<Witness> =
        subjects.flat_map(|subject| Witness::all_of(scenarios(subject, &[PAIRS, TRIOS]))).collect();
    let mut missed = Vec::new();
    for (mutant, verdict) in verdicts(&witnesses.iter().collect::<Vec<_>>(), file) {
        let source = fs::read_to_string(workspace.join(mutant.site.file)).expect("the source of a site");
        let line = source.lines().nth(mutant.site.line as usize - 1).unwrap_or_default();
        let allowed = ALLOWED.iter().any(|(part, _)| line.contains(part));
        println!("{mutant:?} `{}`: {verdict:?}", line.trim());
        if matches!(verdict, Verdict::Survived) != allowed {
            missed.push(format!("{mutant:?} `{}`", line.trim()));
        }
    }
    if missed.is_empty() {
        return Ok(());
    }
    Err(format!("not caught, or caught against expectation:\n{}", missed.join("\n")).into())
}

fn main() {
    let arguments = Arguments::from_args();
    let mut trials: Vec<Trial> = RwSubject::all()
        .map(|subject| {
            Trial::test(subject.to_string(), move || {
                check(subject);
                Ok(())
            })
        })
        .collect();
    let mutants = SOURCES
        .iter()
        .map(|(file, names)| Trial::test(format!("mutants of {file}"), move || mutate(file, names)));
    trials.extend(mutants);
    libtest_mimic::run(&arguments, trials).exit();
}
