//! How fast the simulation is: simulated operations of a host second, at 40 and at 4,095 threads, with every turn of
//! every polling loop simulated; what a large run takes of memory; and how long a point of a sweep takes as users run
//! it.
//!
//! `cargo bench -p lockwork-sim [-- TEXT]`: all, or those whose line begins with a title and lock that contain the text.

use std::time::Instant;
use std::{env, fs};

use lockwork_locks::registry::Spec;
use lockwork_sim::workload::{Distribution, Frame, Micro, Protection, RunResult, Workload};
use lockwork_sim::{Machine, Options, machine};

/// Rounds; the median is what counts.
const ROUNDS: usize = 5;

/// A machine of 4,096 CPUs.
fn large() -> Machine {
    let mut machine = machine::named("e7-4850").expect("a machine of ours");
    machine.name = "4096 CPUs".to_owned();
    (machine.nodes, machine.cores_per_llc) = (64, 64);
    machine
}

/// The largest that this process has been, in MiB.
fn peak_mib() -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse::<f64>().ok());
    kib.unwrap_or(f64::NAN) / 1024.0
}

/// Whether this is asked for on the command line.
fn is_wanted(name: &str) -> bool {
    let mut texts = env::args().skip(1).filter(|text| !text.starts_with('-')).peekable();
    texts.peek().is_none() || texts.any(|text| name.contains(&text))
}

fn measure(title: &str, machine: &Machine, lock: &str, frame: Frame, spin_sleep: bool) {
    if !is_wanted(&format!("{title}: {lock}")) {
        return;
    }
    let micro = Micro { delay: Distribution::About(2000), ..Micro::SHORT };
    let spec = Protection::Lock(Spec::mutex(lock).expect("a lock of ours"));
    let mut rates: Vec<(f64, f64, f64)> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            let options = Options { spin_sleep, ..Options::default() };
            let result: RunResult = micro.run(&frame, machine, &spec, options);
            let seconds = start.elapsed().as_secs_f64();
            let operations = result.counts.operations as f64;
            (operations / seconds / 1e6, seconds, result.counts.events as f64 / operations)
        })
        .collect();
    rates.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (rate, seconds, events) = rates[ROUNDS / 2];
    let (least, most) = (rates[0].0, rates[ROUNDS - 1].0);
    println!(
        "{title}: {lock}: {rate:.1} M operations/s ({least:.1} to {most:.1}), {seconds:.2} s a run, {events:.2} events an operation, peak {:.1} MiB",
        peak_mib()
    );
}

fn main() {
    let e7 = machine::named("e7-4850").expect("a machine of ours");
    let cst = machine::named("e7-8870-v2").expect("a machine of ours");
    let forty = Frame { threads: 40, ..Frame::SHORT };
    for lock in ["mcs-spin", "ticket", "ttas", "hmcs-spin"] {
        measure("40 threads", &e7, lock, forty, false);
    }
    let point = Frame { threads: 120, window: cst.cycles(10_000_000), ..Frame::SHORT };
    measure("a point of 120 threads, 10 ms", &cst, "mcs-spin", point, true);
    measure("a point of 120 threads, 10 ms", &cst, "ttas", point, true);
    let many = Frame { threads: 4095, warm_up: 0, window: 3_000_000, ..Frame::SHORT };
    measure("4,095 threads", &large(), "mcs-spin", many, false);
}
