//! Every ordering of every lock's source, weakened on its own, must be caught by a loom scenario.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::LazyLock;
use std::sync::atomic::Ordering::{self, AcqRel, Acquire, Relaxed, Release};

use libtest_mimic::{Arguments, Failed, Trial};
use lockwork_testkit::mutation::{Mutant, Verdict, Witness, verdicts};
use lockwork_testkit::scenarios;

/// A weaker ordering that no scenario catches, and need not.
struct Allowed {
    file: &'static str,
    /// On the line of the site.
    snippet: &'static str,
    /// The orderings that do there.
    weaker: &'static [Ordering],
    reason: &'static str,
}

const ALLOWED: &[Allowed] = &[
    Allowed {
        file: "restrict/",
        snippet: "P::heavy_barrier(); // ORDER: E2, against a release.",
        weaker: &[AcqRel],
        reason: "a give-up against a release matters with one passive thread asleep and one admitted out of turn: more threads than \
                 the models have; the barrier of a thread that goes to sleep, of the same name, is caught",
    },
    Allowed {
        file: "restrict/",
        snippet: "match lock.state().compare_exchange(ptr::null_mut(), fresh.as_ptr(), AcqRel, Acquire)",
        weaker: &[Release],
        reason: "success reads null, which nobody published",
    },
    Allowed {
        file: "locks/src/biased.rs",
        snippet: "if self.held.load(Acquire) != 0 {",
        weaker: &[Relaxed],
        reason: "a model's light barrier is a fence, which acquires as well; the native one is the compiler's only",
    },
    Allowed {
        file: "locks/src/biased.rs",
        snippet: "match self.owner.compare_exchange(REVOKING, RETREATED, Release, Relaxed)",
        weaker: &[Relaxed],
        reason: "a model's light barrier is a fence, which releases as well; the native one is the compiler's only",
    },
    Allowed {
        file: "queue/mcs.rs",
        snippet: "let Some(next) = (unsafe { node.next.load(Acquire).as_ref() }) else { break };",
        weaker: &[Relaxed],
        reason: "only hints are written to the node, and models do not see that it has to be initialised before",
    },
    Allowed {
        file: "cond/",
        snippet: "if cell.compare_exchange(state, KICKED, AcqRel, Relaxed).is_ok()",
        weaker: &[Release],
        reason: "who kicks reads nothing of the waiter's",
    },
    Allowed {
        file: "cond/",
        snippet: "match self.word.compare_exchange(seen, claimed, AcqRel, Relaxed)",
        weaker: &[Acquire, Release],
        reason: "claims are made under the guard, which orders what claimers share; the waiter waits for the grant",
    },
    Allowed {
        file: "cond/",
        snippet: "if self.word.swap(GRANTED, AcqRel) == CLAIMED_PARKED",
        weaker: &[Release],
        reason: "the move to CLAIMED_PARKED publishes nothing",
    },
    Allowed {
        file: "cond/",
        snippet: "if self.word.compare_exchange(state, next, AcqRel, Relaxed).is_ok() && next == LEAVING",
        weaker: &[Acquire, Release],
        reason: "a leaver takes the guard before it touches what others do; the other moves publish nothing",
    },
];

fn source_line(mutant: &Mutant) -> String {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = fs::read_to_string(workspace.join(mutant.site.file)).expect("the source of a site");
    text.lines().nth(mutant.site.line as usize - 1).unwrap_or_default().trim().to_owned()
}

/// Judges all mutants of one file.
fn check(file: &str, witnesses: &[&Witness]) -> Result<(), Failed> {
    let mut missed = Vec::new();
    let mut used: BTreeMap<&str, &str> = BTreeMap::new();
    for (mutant, verdict) in verdicts(witnesses, file) {
        let line = source_line(&mutant);
        if std::env::var_os("LOCKWORK_MUTANTS").is_some() {
            eprintln!("{mutant:?} `{line}`: {verdict:?}");
        }
        let allowed = ALLOWED.iter().find(|allowed| {
            file == allowed.file
                && line.contains(allowed.snippet)
                && allowed.weaker.contains(&mutant.weaker())
        });
        match (verdict, allowed) {
            (Verdict::Caught { .. }, _) => {}
            (Verdict::Survived, Some(allowed)) => _ = used.insert(allowed.snippet, allowed.reason),
            (Verdict::Survived, None) => missed.push(format!("{mutant:?} `{line}`")),
        }
    }
    let stale = ALLOWED.iter().filter(|allowed| allowed.file == file && !used.contains_key(allowed.snippet));
    missed.extend(
        stale.map(|allowed| format!("allowed but caught: `{}` ({})", allowed.snippet, allowed.reason)),
    );
    if missed.is_empty() { Ok(()) } else { Err(missed.join("\n").into()) }
}

fn main() {
    let arguments = Arguments::from_args();
    let files = [
        "competitive/",
        "queue/ticket.rs",
        "queue/twa.rs",
        "queue/alock.rs",
        "queue/mcs.rs",
        "queue/ptl.rs",
        "queue/mcs_timepub.rs",
        "queue/mcs_try.rs",
        "queue/clh.rs",
        "queue/k42.rs",
        "queue/hemlock.rs",
        "queue/reciprocating.rs",
        "hierarchical/cna/",
        "hierarchical/cst/",
        "hierarchical/fc_mcs.rs",
        "hierarchical/hclh.rs",
        "hierarchical/shfl/",
        "load/malth.rs",
        "load/glk.rs",
        "load/flexguard.rs",
        "blocking/futex.rs",
        "blocking/linux",
        "blocking/mutexee.rs",
        "hierarchical/lazy.rs",
        "hierarchical/directory.rs",
        "/wait.rs",
        "restrict/",
        "locks/src/biased.rs",
        "cond/",
    ];
    let trials = files.map(|file| Trial::test(file, move || check(file, &witnesses_of(file)))).into();
    libtest_mimic::run(&arguments, trials).exit();
}

/// The scenarios of the locks whose source it is. Files that share some explore them once.
fn witnesses_of(file: &str) -> Vec<&'static Witness> {
    static ALL: LazyLock<Vec<Witness>> =
        LazyLock::new(|| scenarios::for_loom().into_iter().flat_map(Witness::all_of).collect());
    let names: &[&str] = match file {
        "competitive/" => &["tas", "tas-ls", "ttas", "ttas-ls", "backoff", "hbo"],
        "queue/ticket.rs" => &["ticket", "ticket-ls"],
        "queue/twa.rs" => &["twa"],
        "queue/alock.rs" => &["alock, two slots"],
        "queue/mcs.rs" => {
            &["mcs-spin", "mcs-stp", "flexguard, overloaded", "flexguard, behind threads that do not run"]
        }
        "queue/ptl.rs" => &["ptl, two slots at once"],
        "queue/mcs_timepub.rs" => &["mcs-timepub", "mcs-timepub, as time passes"],
        "queue/mcs_try.rs" => &["mcs-try-spin", "mcs-try-stp"],
        "queue/clh.rs" => &["clh-spin", "clh-stp"],
        "queue/k42.rs" => &["k42-spin", "k42-stp"],
        "queue/hemlock.rs" => &["hemlock-spin", "hemlock-stp"],
        "queue/reciprocating.rs" => &["reciprocating-spin", "reciprocating-stp"],
        "hierarchical/cna/" => &["cna-spin", "cna-stp", "cna-stp(may-pass-local=1)"],
        "hierarchical/cst/" => &["cst-mutex", "cst-mutex, on one node"],
        "hierarchical/fc_mcs.rs" => &["fc-mcs-spin", "fc-mcs-stp", "fc-mcs-stp, splicing"],
        "hierarchical/hclh.rs" => &["hclh-spin", "hclh-stp", "hclh-stp, splicing"],
        "hierarchical/shfl/" => &["shfl-spin", "shfl-stp", "shfl-spin, shuffling", "shfl-stp, shuffling"],
        "load/flexguard.rs" => &["flexguard", "flexguard, overloaded"],
        "load/glk.rs" => &["glk, adapting at once", "glk, adapting at once, overloaded"],
        "load/malth.rs" => &["malth-spin", "malth-stp", "malth-stp, promoting at once"],
        "blocking/futex.rs" => &["futex"],
        "blocking/linux" => &["linux-mutex", "linux-mutex, overtaking"],
        "blocking/mutexee.rs" => &["mutexee"],
        "hierarchical/lazy.rs" | "hierarchical/directory.rs" => {
            &["c-tkt-mcs-stp", "c-tkt-mcs-stp(may-pass-local=1)"]
        }
        "restrict/" => &["gcr(futex)", "gcr(tas)", "gcr-numa(futex)"],
        "locks/src/biased.rs" => &["biased(tas)", "biased(futex)"],
        "cond/" => &["cond(futex)"],
        _ => &["mcs-stp", "mcs-spin", "mcs-aware", "mcs-ls", "clh-stp", "clh-spin", "k42-stp", "k42-spin"],
    };
    ALL.iter().filter(|witness| names.contains(&witness.subject())).collect()
}
