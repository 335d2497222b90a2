//! `lockwork predict`: from a profile to the simulator's sections, and from these to the locks that would suit the program on
//! another machine.
//!
//! A row of the profile becomes a kind of lock: so many locks, taken as often, held as long as the profile's histogram says. What
//! lies between a release and the next attempt is thinking. Of reader-writer locks, as many sections read. What a profile does not know is assumed, and said ([`ASSUMED`]).
//! How far that is off on the machine of the profile is simulated and printed first.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, ValueHint};
use comfy_table::CellAlignment;
use lockwork_profile_reader::Durations;
use lockwork_sim::workload::{Distribution, Kind, Protection, Quantity, Sections};
use lockwork_sim::{Machine, Options};
use serde::Serialize;

use super::grid::{self, Point};
use super::machines;
use super::predict_check;
use super::sensitivity::{self, Band};
use super::sweep::{Sweep, locks};
use super::workload::{Choice, milliseconds};
use crate::compare::format;
use crate::compare::interrupt;
use crate::compare::results::Document;
use crate::compare::summary::Cell;
use crate::error::Failure;
use crate::profile::view::View;
use crate::{calibrate, profile, terminal};

/// `lockwork predict`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lockwork profile -- ./server && lockwork predict --machine e7-8870-v2
  lockwork predict --machine my-server.toml --threads 16,64 --locks 'futex,mcs-stp,gcr(mcs-stp)' run.profile
  lockwork predict --machine x6-2 --host this-one.toml --json run.profile | jq .host.off_by
  lockwork predict --check --host i-20 --machine e7-4850     how good predictions between simulated machines are

The machine of the profile is simulated first, under the profile's lock and with its threads,
and the figure put beside what was measured: so far off are the others, too, at least. The
profile should be one of glibc's locks on the machine at hand. Figures are sections a second,
simulated: good for orders, not for amounts. The best five are simulated on variants of the
machine, too: believe in a verdict that holds on all of them.")]
pub(crate) struct PredictArgs {
    /// What `lockwork profile` recorded
    #[arg(value_name = "FILE", default_value = "lockwork.profile", value_hint = ValueHint::FilePath)]
    file: PathBuf,
    /// The machine to predict for: a name of `lockwork sim machines`, or a file
    #[arg(long, short, value_name = "NAME|FILE")]
    pub(super) machine: String,
    /// The machine of the profile, as `lockwork calibrate` has written it [default: this one, measured now]
    #[arg(long, value_name = "NAME|FILE")]
    pub(super) host: Option<String>,
    /// Simulate the workloads avl, hash and sections on --host, predict from their profiles which locks suit them on --machine,
    /// simulate them there, too, and compare the orders of the five locks that are best there
    #[arg(long, requires = "host", conflicts_with_all = ["file", "no_sensitivity"])]
    check: bool,
    /// The locks, separated by commas, the one that others are compared with first
    /// [default: futex,ttas,ticket,mcs-spin,mcs-stp,clh-stp,hmcs-spin,cna-stp,linux-mutex,cst-mutex,gcr(mcs-stp); where the hottest
    /// lock is a reader-writer lock: rw-futex,rw-ttas,pf-q,linux-rwsem,c-rw-wp,bravo(rw-futex),cst-rwsem]
    #[arg(long, short, value_name = "A,B,…")]
    pub(super) locks: Option<String>,
    /// Thread counts [default: the profile's, the machine's CPUs, and twice as many]
    #[arg(long, short, value_name = "N,…", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=100_000))]
    threads: Vec<u32>,
    /// Runs of each point; a verdict takes 6
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=1000))]
    seeds: u32,
    /// Simulated milliseconds, as for `lockwork sim`
    #[arg(long, value_name = "MS", default_value_t = 10.0, value_parser = milliseconds)]
    pub(super) time: f64,
    /// Leave out the variants of the machine
    #[arg(long)]
    no_sensitivity: bool,
    /// Print one JSON document on stdout in place of the tables
    #[arg(long)]
    pub(super) json: bool,
}

/// What a profile does not know.
const ASSUMED: &str = "Assumed: a section writes one shared cache line beside what its time is; threads compute between sections, and take \
                       locks independently of each other; readers hold a lock as long as writers do; `rw-futex` stands for glibc's \
                       reader-writer lock, and mutexes beside the predicted reader-writer lock are that lock, written.";

/// What is predicted where nothing is asked for: mutexes, and reader-writer locks.
pub(super) const MUTEXES: &str =
    "futex,ttas,ticket,mcs-spin,mcs-stp,clh-stp,hmcs-spin,cna-stp,linux-mutex,cst-mutex,gcr(mcs-stp)";
const RWLOCKS: &str = "rw-futex,rw-ttas,pf-q,linux-rwsem,c-rw-wp,bravo(rw-futex),cst-rwsem";

/// So many of the best go on to the variants of the machine.
const BEST: usize = 5;
/// Locks with a smaller share of all acquisitions are left out.
const LEAST_SHARE: f64 = 0.001;

/// A profile as the simulator takes it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Fitted {
    pub(super) sections: Sections,
    /// Threads that use locks, on average.
    threads: u32,
    /// Acquisitions a second.
    measured: f64,
    /// What served the lock that was waited for most, as the simulator knows it.
    lock: String,
    /// Whether that is a reader-writer lock.
    is_rwlock: bool,
}

/// How far the simulation of the profile's own machine is off.
#[derive(Debug, Serialize)]
struct Host {
    machine: String,
    lock: String,
    threads: u32,
    measured: f64,
    simulated: Option<f64>,
    /// Simulated over measured.
    off_by: Option<f64>,
}

/// A lock at a thread count.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Rank {
    threads: u32,
    /// From 1.
    rank: usize,
    lock: String,
    /// Sections a second.
    throughput: f64,
    /// To the first lock at the same thread count.
    ratio: Option<f64>,
}

/// All that is said.
#[derive(Debug, Serialize)]
struct Prediction<'a> {
    program: &'a str,
    machine: String,
    host: Host,
    assumed: &'static str,
    /// By thread count, the best first.
    ranks: Vec<Rank>,
    sensitivity: Vec<Band>,
}

/// Predicts. The exit status is 0, or 130 after Ctrl-C.
pub(crate) fn main(args: &PredictArgs) -> Result<ExitCode, Failure> {
    if args.check {
        return predict_check::main(args);
    }
    let machine = machines::find(&args.machine)?;
    let view = profile::open(&args.file)?;
    let fitted = fit(&view)?;
    let default = if fitted.is_rwlock { RWLOCKS } else { MUTEXES };
    let locks = locks(args.locks.as_deref().unwrap_or(default))?;
    let threads = thread_counts(args, &machine, fitted.threads);
    let workload = Choice::of_sections(fitted.sections.clone());
    threads.iter().chain([&fitted.threads]).try_for_each(|threads| workload.check(*threads, 1, 0))?;
    interrupt::listen()?;
    let home = match &args.host {
        Some(name) => machines::find(name)?,
        None => calibrate::this_host()?,
    };
    let host = simulate_home(&home, &fitted, args)?;
    let sweep = sweep_of(args, machine.clone(), threads.clone(), workload, locks.clone());
    let document = sweep.run(0);
    let ranks = ranks(&document);
    let sensitivity = if args.no_sensitivity || interrupt::requested() {
        Vec::new()
    } else {
        let finalists = best(&ranks, &locks);
        let sweep =
            sweep_of(args, machine.clone(), threads, Choice::of_sections(fitted.sections.clone()), finalists);
        sensitivity::bands(&sweep, &[sweep.run(0)])
    };
    let prediction = Prediction {
        program: &view.profile.name,
        machine: machine.title.clone(),
        host,
        assumed: ASSUMED,
        ranks,
        sensitivity,
    };
    if args.json {
        terminal::print_json(&prediction)?;
    } else {
        terminal::print(&render(&prediction))?;
    }
    Ok(if interrupt::requested() { ExitCode::from(interrupt::EXIT_STATUS) } else { ExitCode::SUCCESS })
}

/// Values in the middle of buckets, with their weights.
fn quantity(durations: &Durations) -> Option<Quantity> {
    let values: Vec<(u64, u64)> = durations
        .buckets()
        .map(|(low, high, weight)| (u64::midpoint(low, high.max(low + 1) - 1), weight))
        .collect();
    let is_something = values.iter().any(|(value, _)| *value > 0);
    is_something.then(|| Quantity::Measured(Arc::from(values)))
}

/// The profile as sections.
pub(super) fn fit(view: &View) -> Result<Fitted, Failure> {
    let all: u64 = view.locks.iter().map(|row| row.acquisitions()).sum();
    let mut think = Durations::default();
    let mut times = 0;
    let mut kinds = Vec::new();
    for row in &view.locks {
        think.merge(&row.sum.think);
        times += row.sum.wait.total_ns + row.sum.hold.total_ns + row.sum.think.total_ns;
        if (row.acquisitions() as f64) < LEAST_SHARE * all as f64 {
            continue;
        }
        kinds.extend(quantity(&row.sum.hold).map(|hold| Kind {
            name: row.name.clone(),
            share: row.acquisitions() as f64,
            instances: row.members.len(),
            hold,
            reads: if row.kind() == "rwlock" { row.read_share() } else { 0.0 },
            lines: Quantity::Drawn(Distribution::Fixed(1)),
        }));
    }
    let wall = view.profile.wall_ns.max(1) as f64;
    let refuse = |why: &str| Failure::usage(format!("nothing can be predicted from this profile: {why}"));
    if kinds.is_empty() {
        return Err(refuse("it has no lock that was held; record the program under load"));
    }
    let think =
        quantity(&think).ok_or_else(|| refuse("no thread took locks more than once; record for longer"))?;
    let hottest = view.locks.first();
    let is_rwlock = hottest.is_some_and(|row| row.kind() == "rwlock");
    let served_by = hottest.map_or("pthread", |row| row.sum.served_by.as_str());
    Ok(Fitted {
        sections: Sections { in_nanoseconds: true, think, locks: kinds },
        threads: (times as f64 / wall).round().max(1.0) as u32,
        measured: all as f64 / (wall / 1e9),
        lock: match (served_by, is_rwlock) {
            // glibc's mutex has the algorithm of `futex`.
            ("pthread", false) => "futex".to_owned(),
            ("pthread", true) => "rw-futex".to_owned(),
            (other, _) => other.to_owned(),
        },
        is_rwlock,
    })
}

fn simulate_home(home: &Machine, fitted: &Fitted, args: &PredictArgs) -> Result<Host, Failure> {
    let lock = grid::locks(&fitted.lock)?;
    let point = Point { workload: fitted.sections.clone(), lock: &lock[0], threads: fitted.threads };
    let simulated = grid::throughputs(home, &[point], args.time, 1..=args.seeds).into_iter().next().flatten();
    Ok(Host {
        machine: home.title.clone(),
        lock: fitted.lock.clone(),
        threads: fitted.threads,
        measured: fitted.measured,
        simulated,
        off_by: simulated.map(|simulated| simulated / fitted.measured),
    })
}

pub(super) fn thread_counts(args: &PredictArgs, machine: &Machine, of_profile: u32) -> Vec<u32> {
    if !args.threads.is_empty() {
        return args.threads.clone();
    }
    let cpus = machine.cpus() as u32;
    let mut counts = vec![of_profile, cpus, 2 * cpus];
    counts.sort_unstable();
    counts.dedup();
    counts
}

pub(super) fn sweep_of(
    args: &PredictArgs,
    machine: Machine,
    threads: Vec<u32>,
    workload: Choice,
    locks: Vec<Protection>,
) -> Sweep {
    Sweep {
        locks,
        machines: vec![machine],
        threads: vec![threads],
        seeds: args.seeds,
        options: Options { seed: 1, spin_sleep: true, strict_spin: false, background: 0 },
        workload,
        pinned: false,
        processes: 1,
        time_ms: args.time,
        commit: None,
    }
}

/// The locks by throughput, at each thread count; what collapsed has no rank.
fn ranks(document: &Document) -> Vec<Rank> {
    let cells: Vec<&Cell> = document.cells(&document.meta.metrics[0]).collect();
    let mut ranks = Vec::new();
    for at in cells.chunk_by(|a, b| a.threads == b.threads) {
        let mut of_count: Vec<Rank> = at
            .iter()
            .filter_map(|cell| {
                Some(Rank {
                    threads: cell.threads?,
                    rank: 0,
                    lock: cell.lock.clone(),
                    throughput: cell.median?.value,
                    ratio: cell.ratio.map(|ratio| ratio.value),
                })
            })
            .collect();
        of_count.sort_by(|a, b| b.throughput.total_cmp(&a.throughput));
        of_count.iter_mut().enumerate().for_each(|(place, rank)| rank.rank = place + 1);
        ranks.extend(of_count);
    }
    ranks
}

/// The first lock, and those with the best mean ranks.
fn best(ranks: &[Rank], locks: &[Protection]) -> Vec<Protection> {
    let mean = |lock: &Protection| {
        let name = lock.to_string();
        // What has no rank is behind all that have one.
        let counts = ranks.iter().filter(|rank| rank.rank == 1).count();
        let own: Vec<usize> = ranks.iter().filter(|rank| rank.lock == name).map(|rank| rank.rank).collect();
        own.iter().sum::<usize>() + (counts - own.len()) * (locks.len() + 1)
    };
    let mut others: Vec<&Protection> = locks.iter().skip(1).collect();
    others.sort_by_key(|lock| mean(lock));
    locks.iter().take(1).chain(others.into_iter().take(BEST)).cloned().collect()
}

fn render(prediction: &Prediction<'_>) -> String {
    let host = &prediction.host;
    let mut text = format!(
        "{} on the machine of the profile ({}), {} threads under {}: measured {} sections a second, simulated {}{}.\n{}\n\n\
         Simulated on {}:\n",
        prediction.program,
        host.machine,
        host.threads,
        host.lock,
        format::value(host.measured),
        host.simulated.map_or_else(|| "none".to_owned(), format::value),
        host.off_by.map_or_else(String::new, |off| format!(", which is {} of it", format::ratio(off))),
        prediction.assumed,
        prediction.machine
    );
    let mut table = terminal::table();
    table.set_header(["threads", "rank", "lock", "sections/s", "× first lock"]);
    for rank in &prediction.ranks {
        table.add_row([
            if rank.rank == 1 { rank.threads.to_string() } else { String::new() },
            rank.rank.to_string(),
            rank.lock.clone(),
            format::value(rank.throughput),
            rank.ratio.map_or_else(|| "—".to_owned(), format::ratio),
        ]);
    }
    for column in [0, 1, 3, 4] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    text.push_str(&table.trim_fmt());
    if let Some(best) = prediction.ranks.iter().max_by(|a, b| a.throughput.total_cmp(&b.throughput)) {
        text.push_str(&format!(
            "\nMost, {} sections a second, by {} with {} threads.\n",
            format::value(best.throughput),
            best.lock,
            best.threads
        ));
    }
    if !prediction.sensitivity.is_empty() {
        text.push_str(&sensitivity::render(&prediction.sensitivity));
    }
    text
}

#[cfg(test)]
mod tests {
    use lockwork_profile_reader::{Lock, Profile};

    use super::*;

    fn durations(each_ns: u64, count: usize) -> Durations {
        let mut durations = Durations::default();
        (0..count).for_each(|_| durations.add(each_ns));
        durations
    }

    fn lock(index: u32, count: usize, hold_ns: u64, wait_ns: u64, think_ns: u64) -> Lock {
        Lock {
            index,
            site: 0x1000 * u64::from(index),
            served_by: "pthread".to_owned(),
            contended: count as u64 / 2,
            uncontended: count.div_ceil(2) as u64,
            wait: durations(wait_ns, count),
            hold: durations(hold_ns, count),
            think: durations(think_ns, count),
            waiting_max: 1,
            ..Lock::default()
        }
    }

    fn view(locks: Vec<Lock>) -> View {
        View::new(Profile { wall_ns: 1_000_000_000, threads: 5, locks, ..Profile::default() })
    }

    #[test]
    fn a_profile_becomes_sections() {
        // 3000 sections a second that take 100 + 200 + 700 µs: three threads, though five were seen.
        let fitted = fit(&view(vec![
            lock(1, 2900, 100_000, 200_000, 700_000),
            lock(2, 100, 100_000, 200_000, 700_000),
            lock(3, 1, 1_000, 0, 1_000),
        ]))
        .unwrap();
        assert_eq!((fitted.threads, fitted.measured, fitted.lock.as_str()), (3, 3001.0, "futex"));
        let shares: Vec<f64> = fitted.sections.locks.iter().map(|kind| kind.share).collect();
        assert_eq!(shares, [2900.0, 100.0], "the third is taken too rarely to count");
        let about = |value: u64, wanted: f64| (value as f64 / wanted - 1.0).abs() < 0.07;
        assert!(about(fitted.sections.think.mean(), 700_000.0));
        assert!(fitted.sections.locks.iter().all(|kind| about(kind.hold.mean(), 100_000.0)));
    }

    #[test]
    fn nothing_is_predicted_from_nothing() {
        let why = |locks| fit(&view(locks)).unwrap_err().to_string();
        assert!(why(Vec::new()).contains("no lock that was held"));
        let mut once = lock(1, 1, 1000, 0, 0);
        once.think = Durations::default();
        assert!(why(vec![once]).contains("more than once"));
    }

    #[test]
    fn the_best_are_those_with_the_best_mean_ranks() {
        let locks = locks("futex,ttas,ticket,mcs-stp,clh-stp,mcs-spin,hmcs-spin").unwrap();
        let rank = |threads, rank, lock: &str| Rank {
            threads,
            rank,
            lock: lock.to_owned(),
            throughput: 1.0,
            ratio: None,
        };
        let of_count = |threads, names: &[&str]| -> Vec<Rank> {
            names.iter().enumerate().map(|(place, name)| rank(threads, place + 1, name)).collect()
        };
        // `ttas` collapses with many threads.
        let mut all =
            of_count(2, &["ttas", "mcs-stp", "clh-stp", "ticket", "mcs-spin", "hmcs-spin", "futex"]);
        all.extend(of_count(64, &["hmcs-spin", "mcs-stp", "clh-stp", "mcs-spin", "ticket", "futex"]));
        let chosen: Vec<String> = best(&all, &locks).iter().map(Protection::to_string).collect();
        assert_eq!(chosen, ["futex", "mcs-stp", "clh-stp", "hmcs-spin", "ttas", "ticket"]);
    }

    #[test]
    fn readers_of_a_profile_read() {
        let mut rwlock = lock(1, 3000, 100_000, 200_000, 700_000);
        rwlock.kind = lockwork_profile_reader::Kind::RwLock;
        // Half of the acquisitions waited.
        (rwlock.contended_reads, rwlock.uncontended_reads) = (1000, 1400);
        let fitted = fit(&view(vec![rwlock])).unwrap();
        assert!(fitted.is_rwlock);
        assert_eq!((fitted.lock.as_str(), fitted.sections.locks[0].reads), ("rw-futex", 0.8));
        assert!(locks(RWLOCKS).unwrap().iter().all(|lock| matches!(lock, Protection::Rw(_))));
    }

    /// The locks keep their order on a machine if the profile of the sections keeps what matters of them.
    #[test]
    fn a_profile_of_sections_ranks_locks_as_the_sections_themselves() {
        let machine = machines::find("e7-4850").unwrap();
        let truth = Sections {
            in_nanoseconds: true,
            think: Quantity::Drawn(Distribution::Fixed(3000)),
            locks: vec![Kind {
                name: "hot".to_owned(),
                share: 1.0,
                instances: 1,
                hold: Quantity::Drawn(Distribution::Fixed(300)),
                reads: 0.0,
                lines: Quantity::Drawn(Distribution::Fixed(1)),
            }],
        };
        let profiled = fit(&view(vec![lock(1, 3000, 300, 1000, 3000)])).unwrap().sections;
        let locks = locks("ttas,ticket,hmcs-spin").unwrap();
        let order = |sections: &Sections| {
            let points: Vec<Point<'_, Sections>> =
                locks.iter().map(|lock| Point { workload: sections.clone(), lock, threads: 20 }).collect();
            let throughputs = grid::throughputs(&machine, &points, 0.2, 1..=1);
            let mut order: Vec<usize> = (0..locks.len()).collect();
            order.sort_by(|a, b| throughputs[*b].unwrap().total_cmp(&throughputs[*a].unwrap()));
            order
        };
        assert_eq!(order(&profiled), order(&truth));
    }
}
