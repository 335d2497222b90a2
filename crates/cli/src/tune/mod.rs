//! `lockwork tune`: finds the locks that a program should have, and believes in none that it has not measured.
//!
//! The profile says which locks hurt, `advise` what to try ([`sites`]), the [`search`] which of it is best, and a confirmation
//! against the untouched program whether that is true. Only then a policy is written.

mod lab;
mod report;
mod search;
mod server;
mod sites;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Args, ValueHint};

use crate::compare::interrupt;
use crate::compare::plan::{any_seed, split_locks};
use crate::error::Failure;
use crate::profile::view::View;
use crate::program::describe;
use crate::terminal::say;
use crate::{profile, specs, study, terminal};
use lab::{Bench, Subject, Wanted};
use report::Story;
use search::{Settings, Verdict};
use server::Ready;
use sites::{Limits, Site};

/// `lockwork tune`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lockwork tune -- ./bench
  lockwork tune --threads 2,8 --metric '+ops=([\\d.]+) ops/sec' --budget 20m -- ./bench -t {threads}
  lockwork tune --ready 11211 --metric '+ops=throughput: (.+)' \\
      --load 'lockwork study client memcached --port 11211 --rate 20000' -- memcached -p 11211
  lockwork tune --profile lockwork.profile --locks 'futex,gcr(mcs-stp)' --json -- ./bench
  lockwork run --policy lockwork.policy.toml -- ./bench

The program is profiled under glibc's locks, with most threads. For each lock that threads
waited for during 1% of their busy time or more, `lockwork advise` has candidates; they and the
untouched program run in interleaved rounds, and after each rung the worse half of a lock's
candidates goes. The best, for all locks together, then has to show its gain again against the
untouched program in fresh rounds: over all thread counts a gain of --least-gain or more and a
95% interval above 1, and at no thread count any metric that is worse. Otherwise no policy is
written. A candidate of which one run hangs, crashes or prints no figure is out.

The exit status is 0 whether or not there is a policy, 130 after Ctrl-C (what is known is
printed), else 1.")]
pub(crate) struct TuneArgs {
    /// Thread counts, separated by commas: {threads} in CMD or --load is replaced
    #[arg(long, short, value_name = "N,…", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    threads: Vec<u32>,
    /// Seconds after which a run is killed and its candidate is out
    #[arg(long, value_name = "SECS", default_value = "60", value_parser = crate::values::seconds)]
    timeout: Duration,
    /// What to measure, as for `lockwork compare`; repeatable: the first is to get better, the others may not get worse
    #[arg(long, short, value_name = "wall|REGEX", allow_hyphen_values = true, default_value = "wall")]
    metric: Vec<String>,
    /// For the first metric more is better
    #[arg(long)]
    higher_is_better: bool,
    /// So long may it take, such as 90s, 10m or 1h
    #[arg(long, short, value_name = "TIME", default_value = "10m", value_parser = study::seconds)]
    budget: f64,
    /// Rounds of the confirmation
    #[arg(long, short = 'n', value_name = "N", default_value_t = 11, value_parser = clap::value_parser!(u32).range(6..=10_000))]
    runs: u32,
    /// A gain below this many percent is not worth a policy
    #[arg(long, value_name = "PERCENT", default_value_t = 2.0)]
    least_gain: f64,
    /// The most locks to change, the hottest first
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    sites: u32,
    /// The most candidates for each of them
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1000))]
    candidates: u32,
    /// Candidates in place of those of `lockwork advise`, separated by commas
    #[arg(long, short, value_name = "A,B,…")]
    locks: Option<String>,
    /// What `lockwork profile` has recorded of CMD, in place of recording it now
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    profile: Option<PathBuf>,
    /// CMD is a server, which is up when this port of the loopback takes connections, or when this command succeeds
    #[arg(long, value_name = "PORT|CMD", value_parser = Ready::parse, requires = "load")]
    ready: Option<Ready>,
    /// What drives the server and is measured: a command of the shell
    #[arg(long, value_name = "CMD", requires = "ready")]
    load: Option<String>,
    /// Where the policy goes
    #[arg(long, short, value_name = "FILE", default_value = "lockwork.policy.toml", value_hint = ValueHint::FilePath)]
    output: PathBuf,
    /// The seed of the order of runs and of the bootstrap
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Print one JSON document on stdout in place of the table
    #[arg(long)]
    json: bool,
    /// The command to tune
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD", value_hint = ValueHint::CommandWithArguments)]
    command: Vec<String>,
}

/// Runs it. The exit status is 0 with a policy or without, 130 after Ctrl-C.
pub(crate) fn main(args: &TuneArgs) -> Result<ExitCode, Failure> {
    let begin = Instant::now();
    if !(0.0..1000.0).contains(&args.least_gain) {
        return Err(Failure::usage("--least-gain is a number of percent, such as 2"));
    }
    let asked = asked_locks(args.locks.as_deref())?;
    let subject = Subject::new(&Wanted {
        command: &args.command,
        ready: args.ready.as_ref(),
        load: args.load.as_deref(),
        threads: &args.threads,
        metrics: &args.metric,
        higher_is_better: args.higher_is_better,
        timeout: args.timeout,
    })?;
    check_output(&args.output)?;
    interrupt::listen()?;
    let seed = args.seed.unwrap_or_else(any_seed);
    say!(
        "at most about {:.0} s, each run at most {} s; seed {seed}",
        args.budget,
        args.timeout.as_secs_f64()
    );
    let directory = tempfile::tempdir().map_err(|error| {
        Failure::with_status(
            1,
            format!("no temporary directory: {}; TMPDIR can name another place", describe(&error)),
        )
    })?;

    let view = profiled(args, &subject, directory.path())?.map(View::by_rule);
    let limits = Limits { sites: args.sites as usize, candidates: args.candidates as usize };
    let (sites, remarks) = match &view {
        Some(view) => sites::sites(view, &asked, limits),
        None => (Vec::new(), Vec::new()),
    };
    let settings = Settings {
        threads: subject.threads.len(),
        higher_is_better: subject.metrics.iter().map(|metric| metric.higher_is_better).collect(),
        candidates: sites.iter().map(|site| site.candidates.len()).collect(),
        budget: args.budget,
        rounds: args.runs,
        least_gain: args.least_gain / 100.0,
        seed,
    };
    let found = if sites.is_empty() {
        None
    } else {
        announce(&sites);
        let budget = Duration::from_secs_f64(args.budget);
        let mut bench = Bench::new(&subject, &sites, directory.path(), begin, budget);
        let found = search::search(&mut bench, &settings);
        bench.finish();
        Some(found.map_err(|why| Failure::with_status(1, format!("the untouched program failed: {why}")))?)
    };
    let name = view.as_ref().map_or(args.command[0].as_str(), |view| view.profile.name.as_str());
    let mut story = Story {
        subject: &subject,
        name,
        has_locks: view.is_some(),
        sites: &sites,
        remarks: &remarks,
        found: found.as_ref(),
        least_gain: settings.least_gain,
        budget: settings.budget,
        seed,
        date: format!("{:.0}", jiff::Timestamp::now()),
        written: None,
    };
    let policy = policy(&story);
    let written = policy.as_ref().map(|text| std::fs::write(&args.output, text));
    story.written = matches!(written, Some(Ok(()))).then(|| args.output.display().to_string());
    if args.json {
        terminal::print_json(&story.json())?;
    } else {
        terminal::print(&story.text())?;
    }
    if let (Some(text), Some(Err(error))) = (&policy, written) {
        say!("{text}");
        let why = cannot_write(&args.output, &error);
        return Err(Failure::with_status(1, format!("{why}; put the policy above elsewhere")));
    }
    Ok(match found {
        Some(found) if found.interrupted => ExitCode::from(interrupt::EXIT_STATUS),
        _ => ExitCode::SUCCESS,
    })
}

fn announce(sites: &[Site]) {
    for site in sites {
        say!("{}; to try: {}", site.describe(), site.candidates.join(", "));
    }
}

/// The candidates that are named.
fn asked_locks(text: Option<&str>) -> Result<Vec<String>, Failure> {
    let Some(text) = text else { return Ok(Vec::new()) };
    let parts = split_locks(text, "futex,mcs-stp")?;
    parts.into_iter().map(|part| specs::parse(part).map(|choice| choice.to_string())).collect()
}

/// Makes sure that the policy can be written, before minutes are spent.
fn check_output(output: &Path) -> Result<(), Failure> {
    if output.is_dir() {
        return Err(Failure::usage(format!(
            "`{}` is a directory; name a file by --output",
            output.display()
        )));
    }
    let was_there = output.exists();
    let parent = output.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::create_dir_all(parent)
        .and_then(|()| File::options().append(true).create(true).open(output))
        .and_then(|_| if was_there { Ok(()) } else { std::fs::remove_file(output) })
        .map_err(|error| {
            Failure::usage(format!("{}; name another file by --output", cannot_write(output, &error)))
        })
}

fn cannot_write(output: &Path, error: &std::io::Error) -> String {
    format!("cannot write to `{}`: {}; --output names another file", output.display(), describe(error))
}

/// The profile that is given, or one made now; `None` if no lock was seen.
fn profiled(args: &TuneArgs, subject: &Subject, directory: &Path) -> Result<Option<View>, Failure> {
    if let Some(path) = &args.profile {
        return profile::open(path).map(Some);
    }
    say!("the program with the recorder on");
    subject.record(directory)?.map(|path| profile::open(&path)).transpose()
}

/// The text of the policy, if one was confirmed.
fn policy(story: &Story<'_>) -> Option<String> {
    let found = story.found.filter(|found| found.verdict == Verdict::Confirmed)?;
    let confirmation = found.confirmation.as_ref()?;
    Some(story.policy(found, &confirmation.trials[0].arm, confirmation))
}
