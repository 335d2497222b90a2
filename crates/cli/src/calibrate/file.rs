//! From measurements to a machine's file, which says of each figure what it rests on.

use std::fmt::Write as _;

use serde::Serialize;

use super::layout::{Layout, Level};
use super::measured::{IDLE_US, LONG_IDLE, Measured, Pair, Spread, WakeCost};
use crate::doctor::machine::slice_ms;
use crate::host::Host;

/// A figure of the file.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Entry {
    /// The table of the file it is in; empty for the first lines.
    #[serde(skip)]
    table: &'static str,
    /// The key.
    pub(super) name: String,
    /// As the file has it.
    pub(super) value: String,
    /// Whether it was measured here.
    measured: bool,
    /// What it rests on.
    pub(super) note: String,
}

/// What the file says of itself.
pub(super) struct Title<'a> {
    pub(super) name: String,
    pub(super) host: &'a Host,
    pub(super) date: &'a str,
}

/// Cores of a last-level cache that the simulator can tell apart.
const MOST_CORES: usize = lockwork_sim::machine::MAX_CORES_PER_LLC;

/// Figures in cycles of one clock.
struct Clock(f64);

impl Clock {
    fn cycles(&self, ns: f64) -> u64 {
        (ns * self.0).round().max(0.0) as u64
    }

    /// In words: how many, and the middle half.
    fn spread(&self, what: &str, spread: &Spread) -> String {
        let (low, high) = (self.cycles(spread.low), self.cycles(spread.high));
        format!("measured: median of {} {what}, the middle half {low} to {high}", spread.count)
    }
}

/// A figure that was measured, or one that stands in for it.
fn figure(table: &'static str, name: &str, measured: Option<(u64, String)>, otherwise: (u64, &str)) -> Entry {
    let (value, note, is_measured) = match measured {
        Some((value, note)) => (value, note, true),
        None => (otherwise.0, format!("assumed: {}", otherwise.1), false),
    };
    Entry { table, name: name.to_owned(), value: value.to_string(), measured: is_measured, note }
}

/// All figures, in the order of the file.
pub(super) fn entries(layout: &Layout, measured: &Measured) -> Vec<Entry> {
    // As the file has it: what is read back must be what was meant.
    let ghz = measured.ghz.map_or(2.0, |ghz| (ghz * 1000.0).round() / 1000.0);
    let clock = Clock(ghz);
    let mut all = shape(layout, measured, ghz);
    all.extend(memory(layout, measured, &clock));
    all.extend(kernel(measured, &clock));
    all
}

/// What there is.
fn shape(layout: &Layout, measured: &Measured, ghz: f64) -> Vec<Entry> {
    let parts = layout.cores_per_llc.div_ceil(MOST_CORES);
    let cores = match parts {
        1 => "as the kernel says".to_owned(),
        _ => format!(
            "{} a cache, in {parts} parts: the simulator knows at most {MOST_CORES}",
            layout.cores_per_llc
        ),
    };
    let clock = match measured.ghz {
        Some(_) if cfg!(target_arch = "x86_64") => "measured: the time-stamp counter's frequency",
        Some(_) => "the highest frequency that the kernel names",
        None => "assumed: nobody says",
    };
    let entry = |name: &str, value: String, note: &str| Entry {
        table: "",
        name: name.to_owned(),
        value,
        measured: !note.starts_with("assumed"),
        note: note.to_owned(),
    };
    let says = "as the kernel says";
    let mut all = vec![
        entry("ghz", format!("{ghz:?}"), clock),
        entry("nodes", layout.nodes.to_string(), says),
        entry("llcs-per-node", (layout.llcs_per_node * parts).to_string(), says),
        entry("cores-per-llc", layout.cores_per_llc.div_ceil(parts).to_string(), &cores),
        entry("threads-per-core", layout.threads_per_core.to_string(), says),
    ];
    let distances = layout.hops.iter().flatten().max().copied().unwrap_or(0);
    if distances > 1 {
        let note =
            format!("the kernel's distances between nodes, of which there are {distances}, by their ranks");
        all.push(entry("hops", format!("{:?}", layout.hops), &note));
    }
    all
}

/// What lines cost.
fn memory(layout: &Layout, measured: &Measured, clock: &Clock) -> Vec<Entry> {
    let own =
        |cycles: u64| (cycles.max(1), "measured: lines of a core's own, one after the other".to_owned());
    let mut all = vec![figure(
        "memory",
        "hit",
        measured.own.map(|(load, _)| own(clock.cycles(load))),
        (4, "no CPU could be used"),
    )];
    let near = transfer(measured, clock, Level::Llc);
    let node = transfer(measured, clock, Level::Node);
    let either = near.clone().or_else(|| node.clone());
    let base = either.as_ref().map_or((100, 105), |(load, store, _)| (*load, *store));
    let pair = |name: String, found: Option<(u64, u64, String)>, otherwise: (u64, u64, &str)| {
        let is_measured = found.is_some();
        let (load, store, note) =
            found.unwrap_or((otherwise.0, otherwise.1, format!("assumed: {}", otherwise.2)));
        let value = format!("{{ load = {load}, store = {store} }}");
        Entry { table: "memory", name, value, measured: is_measured, note }
    };
    let nobody = "no two usable CPUs are so far apart";
    all.push(pair("llc".to_owned(), near, (base.0, base.1, nobody)));
    if layout.llcs_per_node > 1 {
        all.push(pair("node".to_owned(), node, (base.0, base.1, nobody)));
    }
    let distances = layout.hops.iter().flatten().max().copied().unwrap_or(0);
    let hops: Vec<Entry> = (1..=distances)
        .map(|rank| {
            let far = |cycles: u64| cycles * (9 + 5 * rank as u64) / 5;
            let otherwise =
                (far(base.0), far(base.1), "2.8 times a transfer within the node, and more for each rank");
            pair(format!("hop {rank}"), transfer(measured, clock, Level::Hop(rank)), otherwise)
        })
        .collect();
    if !hops.is_empty() {
        let notes: Vec<String> = hops.iter().map(|hop| format!("{}: {}", hop.name, hop.note)).collect();
        let values: Vec<&str> = hops.iter().map(|hop| hop.value.as_str()).collect();
        all.push(Entry {
            table: "memory",
            name: "hop".to_owned(),
            value: format!("[{}]", values.join(", ")),
            measured: hops.iter().all(|hop| hop.measured),
            note: notes.join("; "),
        });
    }
    all.extend(migratory(measured, clock));
    let dram = measured.dram.as_ref().map(|dram| {
        (
            clock.cycles(dram.median),
            clock.spread("batches of dependent reads of more memory than caches hold", dram),
        )
    });
    all.push(figure("memory", "dram", dram.clone(), (220, "no memory could be measured")));
    let local = dram.map_or(220, |(cycles, _)| cycles);
    let remote = measured
        .dram_remote
        .as_ref()
        .map(|remote| (clock.cycles(remote.median), clock.spread("other nodes, each a median", remote)));
    let why = if layout.nodes > 1 {
        "8/5 of the local figure: no CPU of two nodes can be used"
    } else {
        "8/5 of the local figure, and of no consequence: there is one node"
    };
    all.push(figure("memory", "dram-remote", remote, (local * 8 / 5, why)));
    all
}

/// Whether a read of a line that another core has modified brings the right to write it: then a write after it takes next to nothing.
fn migratory(measured: &Measured, clock: &Clock) -> Option<Entry> {
    let cores = measured.pairs.iter().filter(|pair| pair.level != Level::Core);
    let (after_load, alone): (Vec<f64>, Vec<f64>) =
        cores.map(|pair| (pair.store_loaded_ns.median, pair.store_ns.median)).unzip();
    let (after_load, alone) = (Spread::of(after_load)?.median, Spread::of(alone)?.median);
    Some(Entry {
        table: "memory",
        name: "migratory".to_owned(),
        value: (after_load < alone / 2.0).to_string(),
        measured: true,
        note: format!(
            "measured: a write takes {} cycles where the line was read before, and else {}; true: it comes with the read",
            clock.cycles(after_load),
            clock.cycles(alone)
        ),
    })
}

/// Medians over all pairs of CPUs so far apart.
fn transfer(measured: &Measured, clock: &Clock, level: Level) -> Option<(u64, u64, String)> {
    let pairs: Vec<&Pair> = measured.pairs.iter().filter(|pair| pair.level == level).collect();
    let load = Spread::of(pairs.iter().map(|pair| pair.load_ns.median))?;
    let store = Spread::of(pairs.iter().map(|pair| pair.store_ns.median))?;
    // Of few pairs the rounds say more.
    let rounds = |of: fn(&Pair) -> Spread| {
        let middle = |end: fn(&Spread) -> f64| {
            Spread::of(pairs.iter().map(|pair| end(&of(pair))))
                .map_or(0, |spread| clock.cycles(spread.median))
        };
        format!("{} to {}", middle(|spread| spread.low), middle(|spread| spread.high))
    };
    let note = format!(
        "measured: median of {} {}, {} rounds of 64 lines each; the middle half of a pair's rounds: load {}, store {}",
        pairs.len(),
        if pairs.len() == 1 { "pair of CPUs" } else { "pairs of CPUs" },
        pairs[0].load_ns.count,
        rounds(|pair| pair.load_ns),
        rounds(|pair| pair.store_ns)
    );
    Some((clock.cycles(load.median).max(1), clock.cycles(store.median).max(1), note))
}

/// What cores and the operating system do.
fn kernel(measured: &Measured, clock: &Clock) -> Vec<Entry> {
    let plain =
        |ns: Option<f64>, how: &str| ns.map(|ns| (clock.cycles(ns).max(1), format!("measured: {how}")));
    let spread = |spread: Option<&Spread>, what: &str| {
        spread.map(|spread| (clock.cycles(spread.median), clock.spread(what, spread)))
    };
    let slice = measured.slice.as_ref().map(|slice| {
        let us = |ns: f64| (ns / 1e3).round().max(1.0) as u64;
        let says = slice_ms().filter(|ms| *ms > 0.0);
        let says = says.map_or(String::new(), |ms| format!("; the kernel says {ms} ms"));
        let (low, high) = (us(slice.low), us(slice.high));
        let note = format!(
            "measured: median of {} turns of two threads on one CPU, the middle half {low} to {high}{says}",
            slice.count
        );
        (us(slice.median), note)
    });
    let by_yields = plain(measured.context_switch, "threads that yield to each other");
    // Each way there is a call that sleeps and one that wakes.
    let calls = measured.round_trip.zip(measured.system_call).map(|(ns, call)| ns / 2.0 - 2.0 * call);
    let by_wakes = || {
        let how = "two threads that wake each other on one CPU, less the system calls: the wake itself is included, since \
                   threads that yielded to each other were hardly ever switched";
        plain(calls.filter(|ns| *ns > 0.0), how)
    };
    let order = if cfg!(target_arch = "x86_64") { "tso" } else { "weak" };
    let wake = |cost: Option<&WakeCost>, idle_us: u64, [call, latency]: [&str; 2], otherwise: [u64; 2]| {
        let alone = "a single CPU can be used";
        let calls =
            format!("wakes of a sleeper whose CPU has been idle for {idle_us} us, less the system call");
        let latencies = "times from the end of such a wake to the sleeper's return";
        [
            figure("os", call, spread(cost.map(|cost| &cost.call), &calls), (otherwise[0], alone)),
            figure("os", latency, spread(cost.map(|cost| &cost.latency), latencies), (otherwise[1], alone)),
        ]
    };
    let long_us = LONG_IDLE.as_micros() as u64;
    let halted = wake(measured.wake.as_ref(), long_us, ["wake", "wake-latency"], [1500, 3000]);
    let known = |name: &str, value: u64, note: String| Entry {
        table: "os",
        name: name.to_owned(),
        value: value.to_string(),
        measured: true,
        note,
    };
    let polled = measured.polled.iter().flat_map(|polled| {
        let how = format!(
            "measured: the longest time, of {IDLE_US:?} us, after which a CPU with nothing to do still notices a wake soon"
        );
        let until = known("idle-poll-us", polled.until.as_micros() as u64, how);
        let costs = wake(Some(&polled.cost), IDLE_US[0], ["wake-polled", "wake-latency-polled"], [0, 0]);
        let preempt = measured.preempt.as_ref().map(|spread| {
            let what = "times from the end of a wake until the sleeper runs in place of a thread that computes, less a context switch";
            known("preempt-latency", clock.cycles(spread.median), clock.spread(what, spread))
        });
        [until].into_iter().chain(costs).chain(preempt)
    });
    // What two threads that wake each other on one CPU do, less their calls and switches.
    let own = calls.zip(measured.context_switch).map(|(ns, switch)| {
        let how = "measured: one way of two threads that wake each other on one CPU, less the system calls and the switch";
        known("wake-own", clock.cycles(ns - switch).max(1), how.to_owned())
    });
    let sleep = measured.round_trip.map(|ns| {
        let how = "measured: two threads that wake each other on one CPU, there and back: what locks take for the cost of a sleep";
        known("round-trip", clock.cycles(ns).max(1), how.to_owned())
    });
    let mut all = vec![
        Entry {
            table: "core",
            name: "order".to_owned(),
            value: format!("\"{order}\""),
            measured: false,
            note: "as the architecture has it".to_owned(),
        },
        figure(
            "core",
            "pause",
            plain(measured.pause, "many, one after the other"),
            (40, "no CPU could be used"),
        ),
        figure(
            "core",
            "atomic",
            plain(measured.own.map(|own| own.1), "read-modify-writes of a core's own lines"),
            (20, "no CPU could be used"),
        ),
        figure("os", "slice-us", slice, (4000, "no thread was preempted by another in time")),
        figure("os", "context-switch", by_yields.or_else(by_wakes), (3000, "no CPU could be used")),
        figure(
            "os",
            "syscall",
            plain(measured.system_call, "wakes of a futex that nobody sleeps on"),
            (400, "no CPU could be used"),
        ),
    ];
    all.extend(halted.into_iter().chain(polled).chain(own).chain(sleep));
    all
}

/// The file.
pub(super) fn render(title: &Title<'_>, layout: &Layout, measured: &Measured, entries: &[Entry]) -> String {
    let command: Vec<String> = std::env::args().skip(1).collect();
    let mut text = format!(
        "# Measured by `lockwork {}` on {}\n# {}\n# by {} of {} CPUs that are online. In cycles of one clock, \
         whatever the frequency of a core at the time.\n",
        plain(&command.join(" ")),
        title.date,
        plain(&title.host.line()),
        measured.cpus,
        layout.places.len()
    );
    if !layout.is_even() {
        text.push_str(
            "# Not all nodes, caches and cores have as many parts: the machine here has as many as the largest of each.\n",
        );
    }
    let siblings: Vec<&Pair> = measured.pairs.iter().filter(|pair| pair.level == Level::Core).collect();
    if let Some(load) = Spread::of(siblings.iter().map(|pair| pair.load_ns.median)) {
        let _ = writeln!(
            text,
            "# Between hardware threads of a core a line takes {:.1} ns, which the simulator takes for a hit.",
            load.median
        );
    }
    text.push_str(
        "# Not measured, and as assumed for every machine: request-share, invalidate, arbitration, store-buffer, loads,\n\
         # smt-slowdown, slice-jitter, migration, process-switch, wakeup-granularity-us. `lockwork sim --sensitivity` varies some.\n",
    );
    let cpu = &title.host.cpu;
    let strings = [
        ("name", title.name.clone()),
        (
            "title",
            format!("{}: {cpu}, {} CPUs, NUMA nodes: {}", title.host.name, layout.places.len(), layout.nodes),
        ),
        ("source", format!("Measured by lockwork calibrate, {}", title.date)),
    ];
    for (key, value) in strings {
        // Strings of JSON are strings of TOML.
        let _ = writeln!(text, "{key} = {}", serde_json::Value::from(value));
    }
    let mut table = "";
    for entry in entries {
        if entry.table != table {
            table = entry.table;
            let _ = writeln!(text, "\n[{table}]");
        }
        let _ = writeln!(text, "# {}\n{} = {}", plain(&entry.note), entry.name, entry.value);
    }
    text
}

/// Fit for a comment.
fn plain(text: &str) -> String {
    text.replace(|character: char| character.is_control(), " ")
}

#[cfg(test)]
mod tests {
    use lockwork_sim::Machine;

    use super::*;

    fn nothing() -> Measured {
        Measured {
            ghz: None,
            cpus: 1,
            pairs: Vec::new(),
            own: None,
            dram: None,
            dram_remote: None,
            pause: None,
            system_call: None,
            wake: None,
            polled: None,
            preempt: None,
            context_switch: None,
            slice: None,
            round_trip: None,
        }
    }

    fn machine(layout: &Layout, measured: &Measured) -> (Machine, String) {
        let host = Host::read();
        let title = Title { name: "a-name".to_owned(), host: &host, date: "today" };
        let text = render(&title, layout, measured, &entries(layout, measured));
        (Machine::parse("file", &text).unwrap_or_else(|error| panic!("{error}\n{text}")), text)
    }

    fn layout(nodes: usize, cores: usize) -> Layout {
        let rank = |from: usize, to: usize| from.abs_diff(to);
        let hops = (0..nodes).map(|from| (0..nodes).map(|to| rank(from, to)).collect()).collect();
        Layout {
            places: Vec::new(),
            nodes,
            llcs_per_node: 1,
            cores_per_llc: cores,
            threads_per_core: 1,
            hops,
        }
    }

    #[test]
    fn what_is_not_measured_is_assumed_and_said_to_be() {
        let (machine, text) = machine(&layout(3, 8), &nothing());
        assert_eq!((machine.nodes, machine.cores()), (3, 24));
        assert_eq!(machine.hops_between(0, 2), 2);
        assert_eq!(machine.memory.hop.len(), 2);
        assert!(!text.contains("# measured"), "{text}");
    }

    #[test]
    fn what_is_measured_is_in_cycles_of_the_clock() {
        let spread = |median: f64| Spread { median, low: median - 1.0, high: median + 1.0, count: 9 };
        let pair = |level, load: f64, store: f64| Pair {
            from: 0,
            to: 1,
            level,
            load_ns: spread(load),
            store_ns: spread(store),
            store_loaded_ns: spread(1.0),
        };
        let measured = Measured {
            ghz: Some(2.50004),
            pairs: vec![
                pair(Level::Llc, 40.0, 44.0),
                pair(Level::Llc, 60.0, 64.0),
                pair(Level::Llc, 48.0, 52.0),
                pair(Level::Hop(1), 100.0, 104.0),
            ],
            own: Some((1.6, 8.0)),
            slice: Some(spread(3.2e6)),
            ..nothing()
        };
        let (machine, _) = machine(&layout(2, 8), &measured);
        assert_eq!(machine.ghz, 2.5);
        assert_eq!((machine.memory.llc.load, machine.memory.llc.store), (120, 130));
        assert_eq!((machine.memory.hop[0].load, machine.memory.hop[0].store), (250, 260));
        assert!(machine.memory.migratory, "a write after a read takes 1 ns, and 52 by itself");
        assert_eq!((machine.memory.hit, machine.core.atomic, machine.os.slice_us), (4, 20, 3200));
    }

    #[test]
    fn caches_of_many_cores_come_in_parts() {
        let (machine, _) = machine(&layout(1, 96), &nothing());
        assert_eq!((machine.llcs_per_node, machine.cores_per_llc, machine.cores()), (2, 48, 96));
    }
}
