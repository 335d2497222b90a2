//! A profile with names, its locks rolled up: one row for the locks that one place initialised, or that have one name.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use lockwork_profile_reader::{Edge, Kind, Lock, Profile};

use super::symbols::{Frame, Symbols};

/// One row: a lock, or all locks of one place.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    /// Numbers of the locks.
    pub(crate) members: Vec<u32>,
    /// What to call it.
    pub(crate) name: String,
    /// Where it was initialised, or first used: a function, and `module+0x1234`.
    pub(crate) site: String,
    /// How a policy names it: a line of TOML.
    pub(crate) rule: String,
    /// The figures of all.
    pub(crate) sum: Lock,
}

/// A profile with names.
pub(crate) struct View {
    pub(crate) profile: Profile,
    pub(crate) symbols: Symbols,
    /// Mutexes and reader-writer locks, the one that was waited for the longest first.
    pub(crate) locks: Vec<Row>,
    /// Conditions.
    pub(crate) conditions: Vec<Row>,
}

impl Row {
    /// Acquisitions, estimated.
    pub(crate) fn acquisitions(&self) -> u64 {
        self.sum.contended + self.sum.uncontended
    }

    /// How far that may be off: half the width of a 95% interval.
    pub(crate) fn acquisitions_error(&self) -> f64 {
        1.96 * (self.sum.uncontended_variance as f64).sqrt()
    }

    /// The same for the time held, in ns.
    pub(crate) fn hold_error_ns(&self) -> f64 {
        hold_error_ns(&self.sum)
    }

    /// The part of the acquisitions that waited.
    pub(crate) fn contended_share(&self) -> f64 {
        share(self.sum.contended, self.acquisitions())
    }

    /// The part of the acquisitions that read.
    pub(crate) fn read_share(&self) -> f64 {
        share(self.sum.contended_reads + self.sum.uncontended_reads, self.acquisitions())
    }

    /// What it is, in a word.
    pub(crate) fn kind(&self) -> &'static str {
        kind_name(self.sum.kind)
    }
}

/// How far the time that locks were held may be off, in ns: half the width of a 95% interval.
pub(crate) fn hold_error_ns(lock: &Lock) -> f64 {
    1.96 * (lock.hold_variance_us2 as f64).sqrt() * 1e3
}

/// A kind in a word.
pub(crate) fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Mutex => "mutex",
        Kind::RwLock => "rwlock",
        Kind::Cond => "cond",
    }
}

/// A part of a whole, 0 of nothing.
pub(crate) fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// Where the library's own functions are: a call from there has no place in the program.
pub(crate) const OWN_LIBRARY: &str = "liblockwork.so";

/// Whether a function is one of the libraries', which programs may have inlined.
fn is_own(frame: &Frame) -> bool {
    let of_rust = ["lockwork::", "<lockwork::"];
    frame.module == OWN_LIBRARY
        || frame.module.starts_with("liblockwork_c.so")
        || of_rust.iter().any(|start| frame.function.starts_with(start))
}

impl View {
    pub(crate) fn new(profile: Profile) -> Self {
        let symbols = Symbols::new(&profile.maps);
        let of_each = profile.locks.iter().map(|lock| {
            let [name, site, rule] = names(&symbols, lock);
            Row { members: vec![lock.index], name, site, rule, sum: lock.clone() }
        });
        let rows = rolled_up(of_each, |row| format!("{} {} {}", row.name, row.site, row.sum.served_by));
        let (conditions, locks) = rows.into_iter().partition(|row| row.sum.kind == Kind::Cond);
        Self { profile, symbols, locks, conditions }
    }

    /// The same with one row for all locks that a rule of a policy names, whatever the program calls each of them.
    pub(crate) fn by_rule(self) -> Self {
        Self { locks: rolled_up(self.locks, |row| row.rule.clone()), ..self }
    }

    /// The frames of a stack, the innermost first, without those of the library itself.
    pub(crate) fn stack(&self, number: u32) -> Vec<Frame> {
        let Some(addresses) = self.profile.stacks.get(number as usize) else { return Vec::new() };
        let frames = addresses.iter().flat_map(|address| self.symbols.frames(*address));
        let all: Vec<Frame> = frames.collect();
        let own = all.iter().take_while(|frame| is_own(frame)).count();
        // A stack of one frame that is ours says more than none.
        if own == all.len() { all } else { all[own..].to_vec() }
    }

    /// The innermost function of a stack.
    pub(crate) fn function(&self, number: u32) -> String {
        match self.stack(number).first() {
            Some(frame) => frame.function.clone(),
            None => "unknown".to_owned(),
        }
    }

    /// The edges of a row, the heaviest first.
    pub(crate) fn edges(&self, row: &Row) -> Vec<Edge> {
        let mut edges: Vec<Edge> =
            self.profile.edges.iter().filter(|edge| row.members.contains(&edge.lock)).copied().collect();
        edges.sort_by_key(|edge| std::cmp::Reverse(edge.ns));
        edges
    }

    /// Time that threads had locks. A thread that has several has them once.
    pub(crate) fn sections_ns(&self) -> u64 {
        self.locks.iter().map(|row| row.sum.outer_hold_ns).sum()
    }

    /// Time that threads had locks, or waited for the first.
    pub(crate) fn sections_and_waits_ns(&self) -> u64 {
        self.sections_ns() + self.locks.iter().map(|row| row.sum.outer_wait_ns).sum::<u64>()
    }

    /// How far that may be off: half the width of a 95% interval.
    pub(crate) fn sections_error_ns(&self) -> u64 {
        let variance: u64 = self.locks.iter().map(|row| row.sum.hold_variance_us2).sum();
        (1.96e3 * (variance as f64).sqrt()) as u64
    }

    /// Time that threads waited for locks.
    pub(crate) fn waits_ns(&self) -> u64 {
        self.locks.iter().map(|row| row.sum.wait.total_ns).sum()
    }

    /// The part of the threads' time that a time is.
    pub(crate) fn of_threads(&self, ns: u64) -> f64 {
        share(ns, self.profile.threads_ns)
    }

    /// The part of the time that threads were busy: on a CPU, or waiting for locks asleep. Threads that wait for work are neither.
    pub(crate) fn of_busy(&self, ns: u64) -> f64 {
        let asleep: u64 = self.locks.iter().map(|row| row.sum.parked.total_ns).sum();
        let busy = match self.profile.cpu_ns {
            0 => self.profile.threads_ns,
            cpu => (cpu + asleep).min(self.profile.threads_ns),
        };
        share(ns, busy).min(1.0)
    }

    /// How many threads waited on average.
    pub(crate) fn mean_waiters(&self, row: &Row) -> f64 {
        share(row.sum.wait.total_ns, self.profile.wall_ns)
    }

    /// The row of a lock.
    pub(crate) fn row_of(&self, lock: u32) -> Option<&Row> {
        self.locks.iter().chain(&self.conditions).find(|row| row.members.contains(&lock))
    }
}

/// One row for those of one kind that have one `key`; the one that was waited for the longest first.
fn rolled_up(rows: impl IntoIterator<Item = Row>, key: impl Fn(&Row) -> String) -> Vec<Row> {
    let mut sums: BTreeMap<(&'static str, String), Row> = BTreeMap::new();
    for row in rows {
        match sums.entry((row.kind(), key(&row))) {
            Entry::Vacant(place) => _ = place.insert(row),
            Entry::Occupied(mut place) => {
                let sum = place.get_mut();
                sum.members.extend(&row.members);
                merge(&mut sum.sum, &row.sum);
            }
        }
    }
    let mut rows: Vec<Row> = sums.into_values().collect();
    rows.sort_by_key(|row| std::cmp::Reverse((row.sum.wait.total_ns, row.acquisitions())));
    rows
}

/// Name, site and rule of a lock.
fn names(symbols: &Symbols, lock: &Lock) -> [String; 3] {
    let code = if lock.site != 0 { lock.site } else { lock.first_use };
    let place = symbols.place(code);
    // A lock of the Rust library is acquired by a function of its own, in that of the program.
    let frames = symbols.frames(code);
    let innermost = frames.iter().find(|frame| !is_own(frame)).or(frames.first());
    let site = match innermost {
        Some(Frame { function, line: Some(line), .. }) => format!("{function} ({line}, {place})"),
        Some(Frame { function, .. }) if *function != place => format!("{function} ({place})"),
        _ => place.clone(),
    };
    let by_place = format!("init = \"{place}\"");
    let called = |name: String| if lock.name.is_empty() { name } else { lock.name.clone() };
    if lock.address != 0
        && let Some(variable) = symbols.variable(lock.address)
    {
        // A rule names a variable, not a place in it: locks of an array are one row.
        let rule = format!("symbol = \"{}\"", variable.pattern());
        let site = if lock.site == 0 { format!("static in {}", variable.module) } else { site };
        return [called(variable.name()), site, rule];
    }
    // Which code took it first changes from run to run.
    if lock.address != 0
        && let Some(place) = symbols.static_place(lock.address)
    {
        let module = place.rsplit_once('+').map_or("", |(module, _)| module);
        let site = if lock.site == 0 { format!("static in {module}") } else { site };
        let rule = format!("symbol = \"{place}\"");
        return [called(place), site, rule];
    }
    let function = innermost.map_or_else(|| place.clone(), |frame| frame.function.clone());
    [called(function), site, by_place]
}

fn merge(sum: &mut Lock, lock: &Lock) {
    sum.contended += lock.contended;
    sum.contended_reads += lock.contended_reads;
    sum.uncontended += lock.uncontended;
    sum.uncontended_reads += lock.uncontended_reads;
    sum.uncontended_variance += lock.uncontended_variance;
    sum.wait.merge(&lock.wait);
    sum.wait_reads_ns += lock.wait_reads_ns;
    sum.outer_wait_ns += lock.outer_wait_ns;
    sum.parked.merge(&lock.parked);
    sum.queued.merge(&lock.queued);
    sum.spinning.merge(&lock.spinning);
    sum.outer_hold_ns += lock.outer_hold_ns;
    sum.hold.merge(&lock.hold);
    sum.hold_variance_us2 += lock.hold_variance_us2;
    sum.think.merge(&lock.think);
    sum.waiting_max = sum.waiting_max.max(lock.waiting_max);
    sum.owner_switches += lock.owner_switches;
    sum.node_crossings += lock.node_crossings;
    sum.tries_failed += lock.tries_failed;
    sum.timed_out += lock.timed_out;
    sum.unfinished += lock.unfinished;
}
