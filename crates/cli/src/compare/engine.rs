//! Runs the rounds: every lock and thread count once a round, in an order shuffled anew each time, so that
//! whatever else the machine does falls on all of them alike.

use std::sync::Arc;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use lockwork_config::report::divide;

use super::child::{self, End, Finished};
use super::interrupt;
use super::metric::Metric;
use super::plan::Plan;
use super::runs::{Measured, Outcome, Run, Values, given_up, six_digits};
use super::served::Served;

/// Runs everything, or until Ctrl-C.
pub(crate) fn measure(plan: &Plan) -> Measured {
    let mut measured = Measured { runs: Vec::new(), interrupted: false, hopeless: false };
    let mut order = fastrand::Rng::with_seed(plan.seed);
    let mut cells: Vec<(usize, usize)> =
        (0..plan.threads.len()).flat_map(|t| (0..plan.locks.len()).map(move |l| (l, t))).collect();
    let rounds = plan.warmup + plan.runs;
    let progress = progress_bar(u64::from(rounds) * cells.len() as u64);
    for round in 0..rounds {
        order.shuffle(&mut cells);
        for &(lock, threads) in &cells {
            if interrupt::requested() {
                break;
            }
            progress.set_message(label(plan, lock, threads));
            if !given_up(&measured.runs, lock, threads) {
                measured.runs.push(one_run(plan, round, lock, threads));
            }
            progress.inc(1);
        }
        if hopeless(&measured.runs) {
            measured.hopeless = true;
            break;
        }
    }
    progress.finish_and_clear();
    measured.interrupted = interrupt::requested();
    measured.runs.retain(|run| run.outcome != Outcome::Interrupted);
    measured
}

/// Whether nothing but crashes and missing metrics has been seen: the command or the metric is wrong.
fn hopeless(runs: &[Run]) -> bool {
    runs.iter().all(|run| matches!(run.outcome, Outcome::Crashed | Outcome::NoMetric))
}

fn label(plan: &Plan, lock: usize, threads: usize) -> String {
    match plan.threads[threads] {
        Some(count) => format!("{} × {count} threads", plan.locks[lock].name),
        None => plan.locks[lock].name.clone(),
    }
}

fn progress_bar(length: u64) -> ProgressBar {
    // Hidden by itself when stderr is no terminal.
    let bar = ProgressBar::with_draw_target(Some(length), ProgressDrawTarget::stderr());
    let template = "{bar:30} {pos}/{len} runs, about {eta} left: {msg}";
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("━╸─"));
    }
    bar.enable_steady_tick(Duration::from_millis(500));
    bar
}

fn one_run(plan: &Plan, round: u32, lock: usize, threads: usize) -> Run {
    let started = jiff::Timestamp::now();
    let begin = Instant::now();
    let result = child::run(plan.command(lock, threads, round == 0), plan.timeout);
    let mut run = Run {
        lock: plan.locks[lock].name.clone(),
        lock_index: lock,
        threads: plan.threads[threads],
        threads_index: threads,
        round: round.saturating_sub(plan.warmup),
        warmup: round < plan.warmup,
        started: format!("{started:.3}"),
        outcome: Outcome::Ok,
        exit_status: None,
        signal: None,
        reason: None,
        wall_s: begin.elapsed().as_secs_f64(),
        user_s: 0.0,
        system_s: 0.0,
        max_rss_kib: 0,
        competing_cpu_s: None,
        served: None,
        values: Values::missing(Arc::clone(&plan.metric_names)),
    };
    match result {
        Ok(finished) => fill(plan, &mut run, &finished),
        Err(_) if interrupt::requested() => run.outcome = Outcome::Interrupted,
        Err(error) => {
            run.outcome = Outcome::Crashed;
            run.reason = Some(format!("could not be started: {error}"));
        }
    }
    run
}

fn fill(plan: &Plan, run: &mut Run, finished: &Finished) {
    run.wall_s = six_digits(finished.wall_s);
    run.user_s = six_digits(finished.usage.user);
    run.system_s = six_digits(finished.usage.system);
    run.max_rss_kib = finished.usage.max_rss;
    run.competing_cpu_s = finished.competing_cpu_s.map(six_digits);
    match finished.end {
        End::Exited(status) => run.exit_status = Some(status),
        End::Signalled(signal) => run.signal = Some(signal),
        End::TimedOut | End::Interrupted => {}
    }
    match complaint(finished, plan.timeout) {
        Some((outcome, reason)) => (run.outcome, run.reason) = (outcome, reason),
        None => read_metrics(plan, run, finished),
    }
}

/// How a run went wrong, if it did, and why, unless that was the user.
pub(crate) fn complaint(finished: &Finished, timeout: Duration) -> Option<(Outcome, Option<String>)> {
    let crashed = |how: String| (Outcome::Crashed, Some(with_hint(how, finished)));
    match finished.end {
        End::Exited(0) => None,
        End::Exited(status) => Some(crashed(format!("exit status {status}"))),
        End::Signalled(signal) => Some(crashed(format!("killed by {}", signal_name(signal)))),
        End::TimedOut => {
            let reason = format!("still running after {} s, killed", timeout.as_secs_f64());
            Some((Outcome::TimedOut, Some(reason)))
        }
        End::Interrupted => Some((Outcome::Interrupted, None)),
    }
}

fn read_metrics(plan: &Plan, run: &mut Run, finished: &Finished) {
    let (values, served) = values(&plan.metrics, finished);
    run.served = served;
    for (index, (metric, value)) in plan.metrics.iter().zip(values).enumerate() {
        run.values.set(index, value);
        if value.is_none() && run.outcome == Outcome::Ok {
            run.outcome = Outcome::NoMetric;
            run.reason = Some(no_metric(metric, finished));
        }
    }
}

/// Each metric's value in a run, and what the library said that it served.
pub(crate) fn values(metrics: &[Metric], finished: &Finished) -> (Vec<Option<f64>>, Option<Served>) {
    let texts: Vec<String> = finished.stdout.texts().into_iter().chain(finished.stderr.texts()).collect();
    let served = Served::read(texts.iter().map(String::as_str));
    let texts = if served.is_some() { without_reports(&texts) } else { texts };
    let of = |metric: &Metric| metric.value(finished.wall_s, texts.iter().map(String::as_str));
    (metrics.iter().map(of).collect(), served)
}

/// Why a run without a figure is a bad one.
pub(crate) fn no_metric(metric: &Metric, finished: &Finished) -> String {
    with_hint(format!("no `{}` in the output", metric.name), finished)
}

/// The output without what the library says in it, which is no figure of the program.
fn without_reports(texts: &[String]) -> Vec<String> {
    let own = |text: &String| {
        let lines = text.split_inclusive('\n').map(|line| divide(line).map_or(line, |(before, _)| before));
        lines.collect::<String>()
    };
    texts.iter().map(own).collect()
}

/// Adds the last line of output, which mostly says why.
fn with_hint(reason: String, finished: &Finished) -> String {
    const LONGEST: usize = 160;
    match finished.stderr.last_line().or_else(|| finished.stdout.last_line()) {
        Some(line) if line.chars().count() > LONGEST => {
            let line: String = line.chars().take(LONGEST).collect();
            format!("{reason}; its last line: {line}…")
        }
        Some(line) => format!("{reason}; its last line: {line}"),
        None => format!("{reason}; it printed nothing"),
    }
}

fn signal_name(signal: i32) -> String {
    let name = match signal {
        libc::SIGABRT => "SIGABRT",
        libc::SIGBUS => "SIGBUS",
        libc::SIGFPE => "SIGFPE",
        libc::SIGHUP => "SIGHUP",
        libc::SIGILL => "SIGILL",
        libc::SIGINT => "SIGINT",
        libc::SIGKILL => "SIGKILL",
        libc::SIGPIPE => "SIGPIPE",
        libc::SIGQUIT => "SIGQUIT",
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGSYS => "SIGSYS",
        libc::SIGTERM => "SIGTERM",
        libc::SIGTRAP => "SIGTRAP",
        libc::SIGXCPU => "SIGXCPU",
        other => return format!("signal {other}"),
    };
    name.to_owned()
}
