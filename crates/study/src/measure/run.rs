//! One run: preparation, server, command, figures.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use lockwork_config::report;
use lockwork_stats::fairness::{jain_index, unfairness_factor};
use rustix::process::Signal;

use super::child::{Ended, Place, Process};
use super::energy::{Joules, Rapl, Reading};
use super::host::{self, Host};
use super::pin::{self, Pinner};
use super::process;
use crate::campaign::{Application, Campaign, Placement};
use crate::store::{Outcome, Record, RunKey, Surroundings, Usage};

/// Puts a lock under a command, or takes the library away (`pthread`).
pub(crate) type Dress<'a> = &'a dyn Fn(&str, &mut Command) -> Result<(), String>;

/// What runs are made on and with.
pub(crate) struct Bench<'a> {
    pub(crate) campaign: &'a Campaign,
    pub(crate) host: Host,
    pub(crate) rapl: Rapl,
    /// This command, for `{lockwork}`.
    pub(crate) lockwork: PathBuf,
    /// The version of what is measured.
    pub(crate) commit: String,
    pub(crate) dress: Dress<'a>,
    pub(crate) interrupted: &'a dyn Fn() -> bool,
    /// A directory for the files of each application.
    pub(crate) scratch: PathBuf,
}

/// How long a program has to end after SIGTERM.
const GRACE: Duration = Duration::from_secs(5);

/// How long a server has to open its port.
const READY: Duration = Duration::from_secs(10);

/// How often a run is looked at: for Ctrl-C, and for new threads.
const LOOK: Duration = Duration::from_millis(100);
const LOOK_FOR_THREADS: Duration = Duration::from_millis(2);

/// Why a run has no figure.
struct Failed(Outcome, String);

/// What a run gave.
struct Given {
    seconds: f64,
    usage: Usage,
    text: String,
    energy: Option<(Joules, f64)>,
    /// CPU seconds that others used meanwhile.
    competing: Option<f64>,
    /// Whether the process under the lock came to its own end, at which the library reports.
    reports: bool,
    failed: Option<Failed>,
}

/// Replaces the placeholders of a word.
fn fill(word: &str, values: &BTreeMap<&str, String>) -> String {
    let mut text = word.to_owned();
    for (name, value) in values {
        text = text.replace(&format!("{{{name}}}"), value);
    }
    text
}

/// How a process ended, if not well.
fn complaint(status: ExitStatus, last: Option<&str>) -> Option<String> {
    use std::os::unix::process::ExitStatusExt;
    if status.success() {
        return None;
    }
    let how = match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, signal) => format!("signal {}", signal.unwrap_or_default()),
    };
    Some(match last {
        Some(line) => format!("{how}: {line}"),
        None => format!("{how}, and it printed nothing"),
    })
}

/// The last line that is neither blank nor the library's, no longer than a report's cell can be.
fn last_line(lines: &[(f64, String)]) -> Option<String> {
    let mut lines = lines.iter().rev().map(|(_, line)| line.trim());
    let line = lines.find(|line| !line.is_empty() && !line.starts_with("lockwork: "))?;
    Some(line.chars().take(200).collect())
}

/// Whether a program is there: on PATH, or a file.
pub(crate) fn is_program(name: &str) -> bool {
    use std::os::unix::fs::PermissionsExt;
    let executable = |path: &Path| {
        path.metadata().is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
    };
    if name.contains('/') {
        return executable(Path::new(name));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    // Servers are often where only root's PATH leads.
    let others = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    std::env::split_paths(&path).chain(others).any(|directory| executable(&directory.join(name)))
}

/// Runs the commands of an application's set-up, once.
pub(crate) fn prepare_application(bench: &Bench<'_>, application: &Application) -> Result<(), String> {
    let directory = bench.scratch.join(&application.name);
    let mark = directory.join(".ready");
    if std::fs::read_to_string(&mark).is_ok_and(|made| application.has_fingerprint(&made)) {
        return Ok(());
    }
    // What another definition, or a set-up that was cut short, has left.
    let cannot = |error: std::io::Error| format!("{}: {error}", directory.display());
    match std::fs::remove_dir_all(&directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(cannot(error)),
        _ => std::fs::create_dir_all(&directory).map_err(cannot)?,
    }
    let values = bench.values(application, None, &directory);
    for command in &application.setup {
        bench.attend(application, command, &values, &directory)?;
    }
    std::fs::write(&mark, application.fingerprint()).map_err(cannot)
}

impl Bench<'_> {
    fn values(
        &self,
        application: &Application,
        key: Option<&RunKey>,
        directory: &Path,
    ) -> BTreeMap<&'static str, String> {
        let mut values: BTreeMap<&'static str, String> = BTreeMap::new();
        values.insert("dir", directory.display().to_string());
        values.insert("lockwork", self.lockwork.display().to_string());
        values.insert("cpus", self.host.topology.cpus().to_string());
        if let Some(key) = key {
            values.insert("threads", key.threads.to_string());
            values.insert("nodes", key.nodes.to_string());
            values.insert("lock", key.lock.clone());
            values.insert("round", key.round.to_string());
            values.insert("seed", (key.round + 1).to_string());
            let of_it = application.server.iter().chain(&application.command);
            if of_it.chain(application.prepare.iter().flatten()).any(|word| word.contains("{port}")) {
                values.insert("port", free_port().to_string());
            }
        }
        values
    }

    fn command(
        &self,
        application: &Application,
        words: &[String],
        values: &BTreeMap<&'static str, String>,
        directory: &Path,
    ) -> Result<Command, String> {
        let words: Vec<String> = words
            .iter()
            .map(|word| {
                let own = application.values.iter().map(|(name, value)| (name.as_str(), value.clone()));
                // Values may have placeholders in their turn.
                fill(&fill(word, &own.collect()), &values.iter().map(|(k, v)| (*k, v.clone())).collect())
            })
            .collect();
        let (program, arguments) = words.split_first().ok_or("an empty command")?;
        let mut command = Command::new(program);
        command.args(arguments).current_dir(directory).envs(&application.environment);
        if !program.contains('/') {
            let mut path = std::env::var_os("PATH").unwrap_or_default();
            path.push(":/usr/sbin:/sbin");
            command.env("PATH", path);
        }
        Ok(command)
    }

    /// Runs a command without any lock, to its end.
    fn attend(
        &self,
        application: &Application,
        words: &[String],
        values: &BTreeMap<&'static str, String>,
        directory: &Path,
    ) -> Result<(), String> {
        let name = words.first().cloned().unwrap_or_default();
        let mut command = self.command(application, words, values, directory)?;
        (self.dress)("pthread", &mut command)?;
        let process =
            Process::start(command, &Place::default()).map_err(|error| format!("{name}: {error}"))?;
        let limit = self.campaign.timeout(application).max(Duration::from_secs(60));
        while !process.ends_within(LOOK) {
            if process.start.elapsed() > limit || (self.interrupted)() {
                return Err(format!(
                    "{name} had not ended after {:.0} s",
                    process.start.elapsed().as_secs_f64()
                ));
            }
        }
        let ended = process.end().map_err(|error| format!("{name}: {error}"))?;
        match complaint(ended.status, last_line(&ended.lines).as_deref()) {
            Some(why) => Err(format!("{name}: {why}")),
            None => Ok(()),
        }
    }

    /// Makes a run; `None` if Ctrl-C ended it.
    pub(crate) fn run(&self, application: &Application, key: &RunKey) -> Option<Record> {
        let started = format!("{:.0}", jiff::Timestamp::now());
        let mut surroundings = self.host.surroundings(&self.commit);
        let given = prepare_application(self, application)
            .map_err(|why| Failed(Outcome::Unprepared, format!("set-up: {why}")))
            .and_then(|()| self.measure(application, key))
            .unwrap_or_else(|failed| Given {
                seconds: 0.0,
                usage: Usage::default(),
                text: String::new(),
                energy: None,
                competing: None,
                reports: false,
                failed: Some(failed),
            });
        if (self.interrupted)() {
            return None;
        }
        surroundings.competing = given.competing;
        surroundings.temperature = host::temperature();
        surroundings.frequency = host::frequency();
        Some(judge(application, key, given, started, surroundings))
    }

    fn measure(&self, application: &Application, key: &RunKey) -> Result<Given, Failed> {
        let directory = self.scratch.join(&application.name);
        let values = self.values(application, Some(key), &directory);
        let unprepared = |why: String| Failed(Outcome::Unprepared, why);
        for command in &application.prepare {
            self.attend(application, command, &values, &directory)
                .map_err(|why| unprepared(format!("preparation: {why}")))?;
        }
        let place = self.place(key);
        let under_lock = |words: &[String]| -> Result<Process, Failed> {
            let mut command = self.command(application, words, &values, &directory).map_err(unprepared)?;
            let lock = if application.interposed { key.lock.as_str() } else { "pthread" };
            (self.dress)(lock, &mut command).map_err(unprepared)?;
            Process::start(command, &place).map_err(|error| unprepared(format!("{}: {error}", words[0])))
        };
        let limit = self.campaign.timeout(application);
        if application.server.is_empty() {
            let before = Others::now(None);
            let process = under_lock(&application.command)?;
            let mut pinner = self.pinner(key, &process);
            let watched = self.watch(application, &process, pinner.as_mut(), limit, None, before);
            let start = process.start;
            return Ok(give(application, &watched, start, None, end(process)?));
        }
        let server = under_lock(&application.server)?;
        let mut pinner = self.pinner(key, &server);
        if let Some(port) = values.get("port").and_then(|port| port.parse().ok()) {
            self.wait_for_port(&server, port).map_err(unprepared)?;
        }
        let mut command =
            self.command(application, &application.command, &values, &directory).map_err(unprepared)?;
        (self.dress)("pthread", &mut command).map_err(unprepared)?;
        let before = Others::now(Some(&server));
        let client = Process::start(command, &Place::default())
            .map_err(|error| unprepared(format!("{}: {error}", application.command[0])))?;
        let start = client.start;
        let watched = self.watch(application, &client, pinner.as_mut(), limit, Some(&server), before);
        let client = end(client)?;
        let alive = !server.ends_within(Duration::ZERO);
        server.signal(Signal::TERM);
        server.ends_within(GRACE);
        let server = end(server)?;
        let dead = (!alive).then(|| {
            let how = complaint(server.status, last_line(&server.lines).as_deref());
            Failed(Outcome::Crashed, format!("the server ended first: {}", how.unwrap_or_default()))
        });
        let mut given = give(application, &watched, start, dead, client);
        // What is measured is the server.
        given.usage = server.usage;
        given.reports = server.status.success();
        given.text.extend(server.lines.iter().map(|(_, line)| line.as_str()));
        Ok(given)
    }

    fn place(&self, key: &RunKey) -> Place {
        let cell = crate::campaign::cell_of(self.campaign, &self.host.topology, key);
        let confined = cell.is_some_and(|level| level.confined);
        Place {
            cpus: if confined { self.host.topology.first_cpus(key.nodes) } else { Vec::new() },
            spread: match key.placement {
                Placement::Interleaved => pin::memory_nodes(),
                _ => Vec::new(),
            },
        }
    }

    fn pinner(&self, key: &RunKey, process: &Process) -> Option<Pinner> {
        let cpus = self.host.topology.first_cpus(self.host.topology.nodes.len() as u32);
        (key.placement == Placement::Pinned).then(|| Pinner::new(process.id(), cpus))
    }

    fn wait_for_port(&self, server: &Process, port: u16) -> Result<(), String> {
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        while TcpStream::connect_timeout(&address, LOOK).is_err() {
            if server.ends_within(Duration::from_millis(20)) {
                return Err("the server ended before it opened its port".to_owned());
            }
            if server.start.elapsed() > READY || (self.interrupted)() {
                return Err(format!("the server did not open port {port} of the loopback"));
            }
        }
        Ok(())
    }

    /// Waits until a run is over, one way or another.
    fn watch(
        &self,
        application: &Application,
        process: &Process,
        mut pinner: Option<&mut Pinner>,
        limit: Duration,
        server: Option<&Process>,
        before: Option<Others>,
    ) -> Watched {
        let look = if pinner.is_some() { LOOK_FOR_THREADS } else { LOOK };
        let warm_up = Duration::from_secs_f64(application.warm_up);
        let stop = application.stop_after.map(Duration::from_secs_f64);
        let mut watched =
            Watched { told_to_end: false, timed_out: false, seconds: 0.0, energy: None, competing: None };
        let mut first: Option<(Reading, Instant)> = None;
        loop {
            let elapsed = process.start.elapsed();
            if first.is_none() && elapsed >= warm_up {
                first = self.rapl.read().map(|reading| (reading, Instant::now()));
            }
            let next = [Some(warm_up), stop, Some(limit)].into_iter().flatten();
            let next = next.filter_map(|at| at.checked_sub(elapsed).filter(|rest| !rest.is_zero())).min();
            if process.ends_within(next.map_or(look, |next| next.min(look))) {
                break;
            }
            let elapsed = process.start.elapsed();
            if let Some(pinner) = &mut pinner {
                pinner.look();
            }
            if stop.is_some_and(|stop| elapsed >= stop) {
                watched.told_to_end = true;
                break;
            }
            if elapsed >= limit || (self.interrupted)() {
                watched.timed_out = true;
                break;
            }
            if server.is_some_and(|server| server.ends_within(Duration::ZERO)) {
                break;
            }
        }
        watched.seconds = process.start.elapsed().as_secs_f64();
        let after = Others::now(server);
        watched.competing = before
            .zip(after)
            .map(|(before, after)| before.until(&after, process::group_seconds(process.id())));
        if let Some((before, at)) = first {
            let after = self.rapl.read();
            watched.energy =
                after.map(|after| (self.rapl.between(&before, &after), at.elapsed().as_secs_f64()));
        }
        if watched.told_to_end {
            process.signal(Signal::TERM);
            process.ends_within(GRACE);
        }
        watched
    }
}

/// How a run went.
struct Watched {
    told_to_end: bool,
    timed_out: bool,
    seconds: f64,
    energy: Option<(Joules, f64)>,
    /// CPU seconds that others used.
    competing: Option<f64>,
}

/// What the machine has done by a moment, to know what others did during a run. Set-up, preparation and what a server does
/// before its client begins are outside of the run.
#[derive(Debug, Clone, Copy)]
struct Others {
    /// CPU seconds of all.
    busy: f64,
    /// Of the server.
    server: f64,
}

impl Others {
    fn now(server: Option<&Process>) -> Option<Self> {
        let server = server.map_or(0.0, |server| process::group_seconds(server.id()));
        Some(Others { busy: process::busy_seconds()?, server })
    }

    /// What others used until `after`, where the measured command has used `own`. Ticks are rounded: less than nothing is
    /// nothing.
    fn until(&self, after: &Self, own: f64) -> f64 {
        ((after.busy - self.busy) - (after.server - self.server) - own).max(0.0)
    }
}

fn end(process: Process) -> Result<Ended, Failed> {
    process.end().map_err(|error| Failed(Outcome::Crashed, error.to_string()))
}

fn give(
    application: &Application,
    watched: &Watched,
    start: Instant,
    dead: Option<Failed>,
    ended: Ended,
) -> Given {
    let last = last_line(&ended.lines);
    let failed = if watched.timed_out {
        let said = last
            .as_deref()
            .map_or_else(|| ", and it had printed nothing".to_owned(), |line| format!(": {line}"));
        let seconds = start.elapsed().as_secs_f64();
        Some(Failed(Outcome::TimedOut, format!("killed after {seconds:.1} s{said}")))
    } else {
        dead.or_else(|| {
            let told = watched.told_to_end;
            complaint(ended.status, last.as_deref())
                .filter(|_| !told)
                .map(|why| Failed(Outcome::Crashed, why))
        })
    };
    let warm = ended.lines.iter().filter(|(at, _)| *at >= application.warm_up);
    Given {
        seconds: watched.seconds,
        usage: ended.usage,
        text: warm.map(|(_, line)| line.as_str()).collect(),
        energy: watched.energy,
        competing: watched.competing,
        reports: ended.status.success() && !watched.told_to_end,
        failed,
    }
}

/// Lines of its processes that the record of a run keeps.
const MOST_SAID: usize = 8;

/// The record of a run.
fn judge(
    application: &Application,
    key: &RunKey,
    given: Given,
    started: String,
    surroundings: Surroundings,
) -> Record {
    let mut metrics: BTreeMap<String, f64> = BTreeMap::new();
    let mut counts: Vec<u64> = Vec::new();
    if given.failed.is_none() {
        for (name, pattern) in &application.metrics {
            match name.as_str() {
                "counts" => counts = pattern.all(&given.text).into_iter().map(|count| count as u64).collect(),
                _ => metrics.extend(pattern.value(&given.text).map(|value| (name.clone(), value))),
            }
        }
        if let Some(work) = application.work {
            metrics.insert("throughput".to_owned(), work / (given.seconds - application.warm_up).max(1e-9));
        }
    }
    let throughput = metrics.get("throughput").copied().filter(|value| *value > 0.0);
    let said = said(&given.text);
    let (outcome, reason) = match (given.failed, throughput) {
        (Some(Failed(outcome, reason)), _) => (outcome, Some(reason)),
        (None, None) => (Outcome::Silent, Some("its output has no throughput above 0".to_owned())),
        // The library says nothing of a program that has no lock, and is not there in one that was linked statically.
        // One that was told to end may have ended without a report.
        (None, Some(_))
            if application.interposed && given.reports && key.lock != "pthread" && serves_nothing(&said) =>
        {
            (Outcome::NotServed, Some("the library served no lock of it".to_owned()))
        }
        (None, Some(_)) => match too_long(application, &metrics, given.seconds) {
            Some(why) => (Outcome::Silent, Some(why)),
            None => (Outcome::Ok, None),
        },
    };
    let ok = outcome == Outcome::Ok;
    let of = |name: &str| metrics.get(name).copied().filter(|_| ok);
    Record {
        key: key.clone(),
        bench: application.of.clone().unwrap_or_else(|| application.name.clone()),
        outcome,
        reason,
        machine: application.machine.clone(),
        variant: application.variant.clone().unwrap_or_else(|| "interposed".to_owned()),
        started,
        seconds: given.seconds,
        throughput: throughput.filter(|_| ok),
        p50: of("p50"),
        p99: of("p99"),
        p999: of("p999"),
        energy: given.energy.map(|(joules, _)| joules.package),
        energy_dram: given.energy.and_then(|(joules, _)| joules.dram),
        energy_seconds: given.energy.map(|(_, seconds)| seconds),
        usage: given.usage,
        jain: (counts.len() > 1).then(|| jain_index(&counts)),
        upper_half: (counts.len() > 1).then(|| unfairness_factor(&counts)),
        metrics,
        surroundings,
        served: kept(said),
    }
}

/// What is wrong if an operation took longer than the run: the program says its times in another unit than seconds. Of simulated
/// time this says nothing.
fn too_long(application: &Application, metrics: &BTreeMap<String, f64>, seconds: f64) -> Option<String> {
    let percentiles = ["p50", "p99", "p999"].into_iter().filter_map(|name| Some((name, *metrics.get(name)?)));
    let (name, value) = percentiles.into_iter().find(|(_, value)| *value > seconds)?;
    application.machine.is_none().then(|| {
        format!("its {name} is {value} s, but the run took {seconds:.1} s: give metrics.{name} a `scale` that makes seconds of it")
    })
}

/// What the library said that it served, in the processes of a run: from `served` on, each different line once.
fn said(text: &str) -> Vec<&str> {
    let mut lines = Vec::new();
    for (_, said) in text.lines().filter_map(report::divide) {
        if !lines.contains(&said) {
            lines.push(said);
        }
    }
    lines
}

/// What the record keeps of that: no more than a few lines, those first that say of a lock that it was served.
fn kept(mut said: Vec<&str>) -> Option<String> {
    said.sort_by_key(|line| serves_nothing(&[line]));
    said.truncate(MOST_SAID);
    (!said.is_empty()).then(|| said.join("; and "))
}

/// Whether the library reported no lock that it served.
fn serves_nothing(said: &[&str]) -> bool {
    said.iter()
        .all(|said| said.strip_prefix(report::SERVED).is_some_and(|what| what.starts_with(report::NOTHING)))
}

/// A port of the loopback that was free a moment ago.
fn free_port() -> u16 {
    TcpListener::bind(("127.0.0.1", 0))
        .and_then(|listener| listener.local_addr())
        .map_or(0, |address| address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_served_is_told_once_and_nothing_is_not_something() {
        let nothing = "lockwork: sh[1]: served nothing; forwarded to glibc 0 mutexes";
        let some = "lockwork: db[2]: served 3 mutexes by ticket; forwarded to glibc 1 mutexes";
        let text = format!("{nothing}\n9 ops\r{some}\n{}\n", some.replace("[2]", "[3]"));
        assert_eq!(said(&text).len(), 2, "both of the program's processes said the same");
        assert!(said(&text)[1].starts_with("served 3 mutexes by ticket"));
        assert!(!serves_nothing(&said(&text)));
        // Helpers that served nothing, each with counts of its own, before the one that did.
        let helpers = (0..20).map(|n| format!("{nothing}, {n} rwlocks\n")).collect::<String>();
        let text = format!("{helpers}{some}\n");
        assert!(!serves_nothing(&said(&text)));
        let kept = kept(said(&text)).expect("lines");
        assert!(kept.starts_with("served 3 mutexes by ticket"));
        assert_eq!(kept.split("; and ").count(), MOST_SAID);
        assert!(serves_nothing(&said(nothing)));
        assert!(serves_nothing(&said("the program was served well")));
    }
}
