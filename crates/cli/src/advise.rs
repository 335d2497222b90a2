//! `lockwork advise`: from a profile to what would help, by rules that are data.
//!
//! A rule asks for a figure of the profile, by name, and holds between two values. What it says, it says with the figure, its
//! source, the effect to expect and the command that tests it. That nothing is to be gained is advice, too.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::OnceLock;

use clap::{Args, ValueHint};
use lockwork_platform::topology::Topology;
use lockwork_study::Guidelines;
use serde::Serialize;

use crate::error::Failure;
use crate::profile::delegation;
use crate::profile::table::{duration, percent};
use crate::profile::view::{Row, View};
use crate::{environment, profile, terminal};

/// `lockwork advise`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lockwork profile -- ./server && lockwork advise
  lockwork advise run.profile --json | jq '.advice[].test'

Each piece of advice names the figures that it follows from, where the rule is from, the effect
to expect, and the command that tests it. Measure before you believe it: on most programs one
lock is as good as another.")]
pub(crate) struct AdviseArgs {
    /// What `lockwork profile` recorded
    #[arg(value_name = "FILE", default_value = "lockwork.profile", value_hint = ValueHint::FilePath)]
    file: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// A rule about one lock, or (`of_process`) about the whole program.
struct Rule {
    name: &'static str,
    /// All must hold: a figure, the value from which on, and the value below which.
    when: &'static [(&'static str, f64, f64)],
    of_process: bool,
    advice: &'static str,
    effect: &'static str,
    source: &'static str,
    /// Locks to try, as specs.
    candidates: &'static [&'static str],
}

const ANY: f64 = f64::INFINITY;

/// Part of the time that threads are busy below which a lock is not worth changing.
pub(crate) const WORTH: f64 = 0.01;

const RULES: &[Rule] = &[
    Rule {
        name: "delegation",
        when: &[("time in sections under POSIX", delegation::UNDER_POSIX, ANY)],
        of_process: true,
        advice: "the program spends much of its time in critical sections: sections that run on one core, as with delegation, \
                 may be faster",
        effect: "shorter sections, whose data stay in one cache; the code has to be changed (lockwork delegate)",
        source: "Lozi et al., \"Remote Core Locking\" (USENIX ATC 2012), section 4: 20% under POSIX locks",
        candidates: &[],
    },
    Rule {
        name: "delegation, certainly",
        when: &[("time in sections under MCS", delegation::UNDER_MCS, ANY)],
        of_process: true,
        advice: "even under MCS the program spends most of its time in critical sections: delegation is the way",
        effect: "shorter sections, whose data stay in one cache; the code has to be changed (lockwork delegate)",
        source: "Lozi et al., \"Remote Core Locking\" (USENIX ATC 2012), section 4: 70% under MCS",
        candidates: &[],
    },
    Rule {
        name: "short sections, sleeping waiters",
        when: &[
            ("waited", WORTH, ANY),
            ("mutex", 1.0, ANY),
            ("served by glibc", 1.0, ANY),
            ("median hold, in ns", 0.0, 2000.0),
        ],
        of_process: false,
        advice: "sections are shorter than a wake-up: waiters that spin for a while before they sleep lose less time",
        effect: "fewer system calls and hand-offs without a wake-up, unless there are many more threads than CPUs",
        source: "Karlin et al., \"Empirical Studies of Competitive Spinning for a Shared-Memory Multiprocessor\" (SOSP 1991)",
        candidates: &["futex", "mcs-stp", "gcr(mcs-stp)"],
    },
    Rule {
        name: "too many threads",
        when: &[("waited", WORTH, ANY), ("mutex", 1.0, ANY), ("threads for each core", 2.0, ANY)],
        of_process: false,
        advice: "more threads than CPUs want this lock: let only some of them compete for it",
        effect: "fewer context switches and less cache traffic under overload",
        source: "Dice and Kogan, \"Avoiding Scalability Collapse by Restricting Concurrency\" (Euro-Par 2019)",
        candidates: &["gcr(mcs-stp)", "gcr(futex)"],
    },
    Rule {
        name: "readers disturb each other",
        when: &[("waited", WORTH, ANY), ("rwlock", 1.0, ANY), ("read share", 0.90, ANY)],
        of_process: false,
        advice: "nearly all acquisitions read: a lock whose readers do not write to one shared word helps",
        effect: "readers scale with the cores; writers pay more",
        source: "Dice and Kogan, \"BRAVO: Biased Locking for Reader-Writer Locks\" (USENIX ATC 2019)",
        candidates: &["rw-futex", "bravo(rw-futex)", "cst-rwsem"],
    },
    Rule {
        name: "readers on several nodes",
        when: &[("waited", WORTH, ANY), ("rwlock", 1.0, ANY), ("read share", 0.90, ANY), ("nodes", 2.0, ANY)],
        of_process: false,
        advice: "nearly all acquisitions read, on several nodes: a lock that counts readers by node keeps them out of each \
                 other's caches",
        effect: "10x Linux's rwsem on eight nodes with 10% writes, 12x simulated; on one node \
                 it was never better than rw-futex",
        source: "Kashyap et al., \"Scalable NUMA-aware Blocking Synchronization Primitives\" (USENIX ATC 2017), figure 7a",
        candidates: &["cst-rwsem", "rw-futex"],
    },
    Rule {
        name: "readers behind writers",
        when: &[("waited", WORTH, ANY), ("rwlock", 1.0, ANY), ("read share", 0.50, 0.90)],
        of_process: false,
        advice: "readers and writers mix: another reader-writer lock orders them differently",
        effect: "less waiting behind the other side; which lock is best has to be measured",
        source: "Guiroux, thesis (Grenoble 2018), section 4.5: no lock is best for all",
        candidates: &["rw-futex", "linux-rwsem", "pf-q"],
    },
    Rule {
        name: "a reader-writer lock that is a mutex",
        when: &[("waited", WORTH, ANY), ("rwlock", 1.0, ANY), ("read share", 0.0, 0.50)],
        of_process: false,
        advice: "most acquisitions write: the reader-writer lock gains nothing over a mutex, which is cheaper",
        effect: "fewer shared writes an acquisition; the code has to be changed, or a plainer reader-writer lock tried",
        source: "McKenney, \"Is Parallel Programming Hard, And, If So, What Can You Do About It?\", section 7.1",
        candidates: &["rw-futex", "linux-rwsem"],
    },
    Rule {
        name: "long sections",
        when: &[("waited", WORTH, ANY), ("median hold, in ns", 100_000.0, ANY)],
        of_process: false,
        advice: "sections are long: no lock makes them shorter; do less in them, or split what the lock protects",
        effect: "waiting falls with the time that the lock is held",
        source: "the profile itself: the time waited is the holder's",
        candidates: &[],
    },
];

/// A piece of advice.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Advice {
    /// The lock; empty for the program.
    pub(crate) lock: String,
    /// How a policy names it; empty for the program.
    pub(crate) rule: String,
    pub(crate) name: String,
    pub(crate) advice: String,
    /// The figures that it follows from.
    pub(crate) because: Vec<String>,
    pub(crate) effect: String,
    pub(crate) source: String,
    pub(crate) candidates: Vec<String>,
    /// The command that tests it.
    pub(crate) test: Option<String>,
}

/// The named figures of the program.
fn process_figures(view: &View) -> Vec<(&'static str, f64)> {
    let sections = delegation::in_sections(view).at_least();
    let under = |wanted: &str| view.locks.iter().all(|row| row.sum.served_by.starts_with(wanted));
    let mut figures = Vec::new();
    if under("pthread") {
        figures.push(("time in sections under POSIX", sections));
    }
    if under("mcs") {
        figures.push(("time in sections under MCS", sections));
    }
    figures
}

/// What locks take for NUMA nodes of this machine, or of the virtual one that `LOCKWORK_TOPOLOGY` describes.
fn nodes() -> usize {
    static NODES: OnceLock<usize> = OnceLock::new();
    *NODES.get_or_init(|| environment::topology().ok().flatten().unwrap_or_else(Topology::discover).domains())
}

/// The named figures of a lock.
fn figures(view: &View, row: &Row) -> Vec<(&'static str, f64)> {
    let is = |holds: bool| f64::from(u8::from(holds));
    let cpus = std::thread::available_parallelism().map_or(1, usize::from) as f64;
    let threads = view.profile.threads_ns as f64 / view.profile.wall_ns.max(1) as f64;
    vec![
        ("waited", view.of_busy(row.sum.wait.total_ns)),
        ("mutex", is(row.kind() == "mutex")),
        ("rwlock", is(row.kind() == "rwlock")),
        ("served by glibc", is(row.sum.served_by == "pthread")),
        ("median hold, in ns", row.sum.hold.quantile(0.5) as f64),
        ("read share", row.read_share()),
        ("threads for each core", threads / cpus),
        ("share of the threads that wait for one lock", view.mean_waiters(row) / threads.max(1.0)),
        ("locks", view.profile.locks.len() as f64),
        ("nodes", nodes() as f64),
    ]
}

fn value(figures: &[(&str, f64)], name: &str) -> Option<f64> {
    figures.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
}

/// A figure in words.
fn tell(name: &str, value: f64) -> String {
    match name {
        "mutex" | "rwlock" | "served by glibc" => {
            format!(
                "it is {}",
                if name == "served by glibc" { "glibc's".to_owned() } else { format!("a {name}") }
            )
        }
        "median hold, in ns" => format!("median hold {}", duration(value)),
        "threads for each core" => format!("{value:.1} threads for each core"),
        "locks" | "nodes" => format!("{value:.0} {name}"),
        _ => format!("{name}: {}", percent(value)),
    }
}

/// The figures of a rule, if it holds.
fn holds(rule: &Rule, figures: &[(&str, f64)]) -> Option<Vec<String>> {
    rule.when
        .iter()
        .map(|&(name, least, below)| {
            let value = value(figures, name)?;
            (value >= least && value < below).then(|| tell(name, value))
        })
        .collect()
}

fn test(candidates: &[String]) -> Option<String> {
    (!candidates.is_empty()).then(|| {
        format!(
            "lockwork compare --locks '{}' -- CMD",
            [&["pthread".to_owned()], candidates].concat().join(",")
        )
    })
}

/// Whether a lock may be worth changing.
pub(crate) fn is_worth(view: &View, row: &Row) -> bool {
    view.of_busy(row.sum.wait.total_ns) >= WORTH
}

/// Everything that the rules say of a profile. Empty: nothing is to be gained.
pub(crate) fn advice(view: &View) -> Vec<Advice> {
    let mut all = Vec::new();
    let of_process = process_figures(view);
    let piece = |rule: &Rule, because: Vec<String>, row: Option<&Row>| {
        let candidates: Vec<String> = rule.candidates.iter().map(|spec| (*spec).to_owned()).collect();
        Advice {
            lock: row.map_or_else(String::new, |row| row.name.clone()),
            rule: row.map_or_else(String::new, |row| row.rule.clone()),
            name: rule.name.to_owned(),
            advice: rule.advice.to_owned(),
            because,
            effect: rule.effect.to_owned(),
            source: rule.source.to_owned(),
            test: test(&candidates),
            candidates,
        }
    };
    let worth = |row: &&Row| is_worth(view, row);
    // Where nobody waits there is nothing to gain, however long the sections are.
    if view.locks.iter().any(|row| worth(&row)) {
        for rule in RULES.iter().filter(|rule| rule.of_process) {
            if let Some(because) = holds(rule, &of_process) {
                all.push(piece(rule, because, None));
            }
        }
    }
    for row in view.locks.iter().filter(worth) {
        let figures = figures(view, row);
        for rule in RULES.iter().filter(|rule| !rule.of_process) {
            if let Some(because) = holds(rule, &figures) {
                all.push(piece(rule, because, Some(row)));
            }
        }
        if row.kind() == "mutex" {
            all.extend(by_thesis(row, &figures));
        }
    }
    all
}

/// What the guidelines of the thesis say of a mutex.
fn by_thesis(row: &Row, figures: &[(&'static str, f64)]) -> Vec<Advice> {
    let thesis = Guidelines::thesis();
    let names: Vec<String> = lockwork_locks::registry::mutexes().map(|entry| entry.name.to_owned()).collect();
    let rules = thesis.rules_of(figures);
    let chosen = thesis.recommended(&rules, &names);
    let candidates: Vec<String> = chosen.into_iter().take(4).map(|place| names[place].clone()).collect();
    rules
        .into_iter()
        .map(|rule| Advice {
            lock: row.name.clone(),
            rule: row.rule.clone(),
            name: rule.bottleneck.clone(),
            advice: match (rule.prefer.as_slice(), rule.avoid.as_slice()) {
                ([], avoid) => format!("avoid locks that are {}", avoid.join(" or ")),
                (prefer, _) => format!("prefer locks with: {}", prefer.join(", ")),
            },
            because: value(figures, &rule.feature)
                .map(|value| tell(&rule.feature, value))
                .into_iter()
                .collect(),
            effect: format!("as seen with {} applications of the study", rule.evidence),
            source: format!("Guiroux, thesis (Grenoble 2018): {}", rule.source),
            test: test(&candidates),
            candidates: candidates.clone(),
        })
        .collect()
}

pub(crate) fn main(args: &AdviseArgs) -> Result<ExitCode, Failure> {
    let view = profile::open(&args.file)?;
    let advice = advice(&view);
    if args.json {
        terminal::print_json(&serde_json::json!({ "program": view.profile.name, "advice": advice }))?;
    } else {
        terminal::print(&render(&view, &advice))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn render(view: &View, advice: &[Advice]) -> String {
    if advice.is_empty() {
        let waited = percent(view.of_busy(view.waits_ns()));
        return format!(
            "Nothing to gain: the threads of {} waited for locks for {waited} of their busy time, and for no single lock for \
             {} of it or more. Keep glibc's.\n",
            view.profile.name,
            percent(WORTH)
        );
    }
    let mut text = String::new();
    for piece in advice {
        let about = if piece.lock.is_empty() {
            format!("{}, as a whole", view.profile.name)
        } else {
            piece.lock.clone()
        };
        let _ = writeln!(text, "{about}: {}", piece.advice);
        let _ = writeln!(text, "  because: {}", piece.because.join("; "));
        let _ = writeln!(text, "  expect:  {}", piece.effect);
        let _ = writeln!(text, "  source:  {}", piece.source);
        if let Some(test) = &piece.test {
            let _ = writeln!(text, "  test:    {test}");
            // Each on a line of its own, so that it can be copied into a policy file.
            let _ = writeln!(
                text,
                "  policy:  [[rule]]\n           {}\n           lock = \"{}\"",
                piece.rule, piece.candidates[0]
            );
        }
        text.push('\n');
    }
    if advice.iter().any(|piece| piece.test.is_some()) {
        text.push_str("`lockwork tune -- CMD` measures these, and writes a policy of what helps.\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_candidate_is_a_lock() {
        for rule in RULES {
            for candidate in rule.candidates {
                assert!(crate::specs::parse(candidate).is_ok(), "{candidate}");
            }
        }
    }

    #[test]
    fn readers_by_node_are_for_several_nodes_and_few_writes() {
        let rule = RULES.iter().find(|rule| rule.name == "readers on several nodes").unwrap();
        let of = |read_share, nodes| {
            holds(rule, &[("waited", 0.1), ("rwlock", 1.0), ("read share", read_share), ("nodes", nodes)])
        };
        assert!(of(0.95, 1.0).is_none(), "one node");
        assert!(of(0.8, 8.0).is_none(), "many writes");
        assert_eq!(of(0.95, 8.0).unwrap()[2..], ["read share: 95.0%", "8 nodes"]);
        assert_eq!(rule.candidates[0], "cst-rwsem");
    }

    #[test]
    fn thresholds_are_those_of_the_paper() {
        let delegation = RULES.iter().find(|rule| rule.name == "delegation").unwrap();
        assert!(holds(delegation, &[("time in sections under POSIX", 0.199)]).is_none());
        assert!(holds(delegation, &[("time in sections under POSIX", 0.2)]).is_some());
        assert!(holds(delegation, &[("time in sections under MCS", 0.9)]).is_none());
        let certainly = RULES.iter().find(|rule| rule.name == "delegation, certainly").unwrap();
        assert!(holds(certainly, &[("time in sections under MCS", 0.69)]).is_none());
        assert!(holds(certainly, &[("time in sections under MCS", 0.71)]).is_some());
    }
}
