//! Runs the program, or a server and what drives it, under policies.

use std::collections::HashMap;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use lockwork_policy::Choice;

use super::search::{Arm, Lab, Seen};
use super::server::{Ready, Server};
use super::sites::Site;
use crate::compare::child::{self, End, Finished};
use crate::compare::metric::Metric;
use crate::compare::plan;
use crate::compare::runs::Outcome;
use crate::compare::served::Served;
use crate::compare::template::Template;
use crate::compare::{engine, interrupt};
use crate::error::Failure;
use crate::preload::{self, Library, Request};
use crate::profile::record::{self, Recording};
use crate::program;
use crate::specs;
use crate::terminal::say;

/// What is tuned.
#[derive(Debug)]
pub(crate) struct Subject {
    /// As given.
    pub(crate) command: Vec<String>,
    program: PathBuf,
    words: Vec<Template>,
    /// Where the program is a server.
    load: Option<Load>,
    pub(crate) threads: Vec<Option<u32>>,
    pub(crate) metrics: Vec<Metric>,
    pub(crate) timeout: Duration,
    pub(crate) library: Library,
}

/// What drives a server and measures it.
#[derive(Debug)]
struct Load {
    ready: Ready,
    /// A command of the shell.
    command: Template,
}

/// As the command line has it.
#[derive(Debug)]
pub(crate) struct Wanted<'a> {
    pub(crate) command: &'a [String],
    pub(crate) ready: Option<&'a Ready>,
    pub(crate) load: Option<&'a str>,
    pub(crate) threads: &'a [u32],
    pub(crate) metrics: &'a [String],
    pub(crate) higher_is_better: bool,
    pub(crate) timeout: Duration,
}

/// What a run left.
struct Ran {
    finished: Finished,
    /// What the server printed.
    server: Option<String>,
}

impl Subject {
    /// Checks every part of the request.
    pub(crate) fn new(wanted: &Wanted<'_>) -> Result<Self, Failure> {
        let metrics = plan::parse_metrics(wanted.metrics, wanted.higher_is_better)?;
        let words = plan::templates(wanted.command)?;
        let load = match (wanted.ready, wanted.load) {
            (Some(ready), Some(load)) => {
                let mut command = plan::templates(&[load.to_owned()])?;
                Some(Load { ready: ready.clone(), command: command.remove(0) })
            }
            _ => None,
        };
        let all: Vec<Template> =
            words.iter().cloned().chain(load.iter().map(|load| load.command.clone())).collect();
        let threads = plan::choose_threads(wanted.threads, &all)?;
        let program = plan::expand(&words, &threads)?;
        if let Some(load) = &load {
            for &count in &threads {
                load.command.expand(count).map_err(Failure::usage)?;
            }
            if load.ready.is_taken() {
                return Err(Failure::usage(
                    "something takes connections at the port of --ready already: end it, or take another port",
                ));
            }
        }
        let library = Library::find()?;
        crate::environment::check()?;
        program::check_preloadable(&program)?;
        let command = wanted.command.to_vec();
        Ok(Subject { command, program, words, load, threads, metrics, timeout: wanted.timeout, library })
    }

    /// The program at a thread count, given by its place.
    fn command(&self, threads: usize) -> Command {
        // Every word was expanded when the request was checked.
        let mut words = self.words.iter().map(|word| word.expand(self.threads[threads]).unwrap_or_default());
        let mut command = Command::new(&self.program);
        command.arg0(words.next().unwrap_or_default()).args(words);
        command
    }

    /// Runs the program, whose command is dressed, to its end; or a server for as long as its load takes.
    ///
    /// # Errors
    ///
    /// What went wrong, in words; `None` if that was the user.
    fn run(&self, command: Command, threads: usize, log: &Path) -> Result<Ran, Option<String>> {
        let Some(load) = &self.load else {
            let finished = child::run(command, self.timeout).map_err(|error| not_started(&error))?;
            return Ok(Ran { finished, server: None });
        };
        let server = Server::start(command, &load.ready, self.timeout, log.to_owned())
            .map_err(|why| (!interrupt::requested()).then_some(why))?;
        let mut shell = Command::new("/bin/sh");
        shell.arg("-c").arg(load.command.expand(self.threads[threads]).unwrap_or_default());
        preload::apply(&preload::without_library(Some(&self.library)), &mut shell);
        let finished = child::run(shell, self.timeout).map_err(|error| not_started(&error))?;
        if let Some(how) = server.ended() {
            return Err(Some(format!("the server ended before its load: {how}")));
        }
        Ok(Ran { finished, server: Some(server.stop()) })
    }

    /// Runs the program under the recorder, with most threads; returns the profile.
    pub(crate) fn record(&self, directory: &Path) -> Result<Option<PathBuf>, Failure> {
        let request = record::Request {
            lock: record::lock(specs::NO_PRELOAD, None)?,
            policy: None,
            output: directory.join("lockwork.profile"),
            off: false,
        };
        let recording = Recording::prepare(&request, &self.library)?;
        let most = (0..self.threads.len()).max_by_key(|&place| self.threads[place]).unwrap_or(0);
        let mut command = self.command(most);
        recording.dress(&mut command);
        let ran = self.run(command, most, &directory.join("recorded.log"));
        let failed = match &ran {
            // What hung is in the profile as far as it came.
            Ok(ran) if ran.finished.end == End::TimedOut && self.load.is_none() => None,
            Ok(ran) => engine::complaint(&ran.finished, self.timeout).map(|(_, why)| why.unwrap_or_default()),
            Err(why) => Some(why.clone().unwrap_or_default()),
        };
        let collected = recording.collect();
        match failed {
            _ if interrupt::requested() => {
                Err(Failure::with_status(interrupt::EXIT_STATUS, "interrupted before anything was known"))
            }
            Some(why) => {
                Err(Failure::with_status(1, format!("the program failed with the recorder on: {why}")))
            }
            None => collected.map(|(profile, _)| profile),
        }
    }
}

fn not_started(error: &std::io::Error) -> Option<String> {
    (!interrupt::requested()).then(|| format!("could not be started: {}", program::describe(error)))
}

/// The real program under policies made of sites and candidates.
pub(crate) struct Bench<'a> {
    subject: &'a Subject,
    sites: &'a [Site],
    directory: &'a Path,
    /// The files of arms; an arm is here from its first run on.
    policies: HashMap<Arm, PathBuf>,
    begin: Instant,
    bar: ProgressBar,
    shows_progress: bool,
}

impl<'a> Bench<'a> {
    /// A bench whose budget began at `begin`.
    pub(crate) fn new(
        subject: &'a Subject,
        sites: &'a [Site],
        directory: &'a Path,
        begin: Instant,
        budget: Duration,
    ) -> Self {
        // Hidden by itself when stderr is no terminal.
        let bar = ProgressBar::with_draw_target(Some(budget.as_secs()), ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos} of {len} s: {msg}") {
            bar.set_style(style.progress_chars("━╸─"));
        }
        let shows_progress = !bar.is_hidden();
        Bench { subject, sites, directory, policies: HashMap::new(), begin, bar, shows_progress }
    }

    /// Takes the progress bar away.
    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }

    /// The rules of an arm, as a policy file has them.
    pub(crate) fn rules(sites: &[Site], arm: &Arm) -> String {
        let mut text = String::from("default = \"passthrough\"\n");
        for &(site, candidate) in arm {
            text.push('\n');
            text.push_str(&sites[site].rule(&sites[site].candidates[candidate]));
        }
        text
    }

    /// The file of an arm's policy, and whether this is its first run.
    fn policy(&mut self, arm: &Arm) -> Result<(PathBuf, bool), String> {
        if let Some(path) = self.policies.get(arm) {
            return Ok((path.clone(), false));
        }
        let path = self.directory.join(format!("{}.toml", self.policies.len()));
        fs::write(&path, Self::rules(self.sites, arm))
            .map_err(|error| format!("no policy can be written: {}", program::describe(&error)))?;
        self.policies.insert(arm.clone(), path.clone());
        Ok((path, true))
    }

    /// A figure for each metric, or why there is none; `None` if that was the user.
    fn try_run(&mut self, arm: &Arm, threads: usize) -> Result<Vec<f64>, Option<String>> {
        let subject = self.subject;
        let mut command = subject.command(threads);
        let mut is_asked = false;
        if arm.is_empty() {
            preload::apply(&preload::without_library(Some(&subject.library)), &mut command);
        } else {
            let (policy, is_first) = self.policy(arm).map_err(Some)?;
            let request = Request { policy: Some(policy), ..Request::default() };
            preload::apply(&preload::with_library(&subject.library, &request), &mut command);
            if is_first {
                command.env(lockwork_config::VERBOSE.name, "1");
                is_asked = true;
            }
        }
        let ran = subject.run(command, threads, &self.directory.join("server.log"))?;
        if let Some((outcome, why)) = engine::complaint(&ran.finished, subject.timeout) {
            return Err(why.filter(|_| outcome != Outcome::Interrupted));
        }
        let (values, served) = engine::values(&subject.metrics, &ran.finished);
        let served = match &ran.server {
            Some(text) => Served::read([text.as_str()]),
            None => served,
        };
        if let Some(served) = served.filter(|_| is_asked) {
            self.has_effect(arm, &served).map_err(Some)?;
        }
        let of = |(metric, value): (&Metric, Option<f64>)| {
            value.ok_or_else(|| Some(engine::no_metric(metric, &ran.finished)))
        };
        subject.metrics.iter().zip(values).map(of).collect()
    }

    /// Makes sure that each lock of an arm served something: a rule that matches nothing measures nothing.
    fn has_effect(&self, arm: &Arm, served: &Served) -> Result<(), String> {
        for &(site, candidate) in arm {
            let lock = &self.sites[site].candidates[candidate];
            let spec = match specs::parse(lock) {
                Ok(choice @ Choice::Rw(_)) => choice.rwlock(),
                Ok(choice) => choice.mutex(),
                Err(_) => None,
            };
            if spec.is_some_and(|spec| !served.is_any_by(&spec.to_string())) {
                // A lock that nothing initialises is called by the code that took it first, and threads may race for that.
                return Err(format!(
                    "its rule ({}) matched no lock that was used: other code came first in this run, or the run went another \
                     way than the recorded one",
                    self.sites[site].condition
                ));
            }
        }
        Ok(())
    }
}

impl Lab for Bench<'_> {
    fn run(&mut self, arm: &Arm, threads: usize) -> Seen {
        self.bar.set_position(self.begin.elapsed().as_secs());
        match self.try_run(arm, threads) {
            _ if interrupt::requested() => Seen::Interrupted,
            Ok(values) => Seen::Values(values),
            Err(why) => Seen::Failed(why.unwrap_or_else(|| "it ended for no known reason".to_owned())),
        }
    }

    fn elapsed(&self) -> f64 {
        self.begin.elapsed().as_secs_f64()
    }

    fn interrupted(&self) -> bool {
        interrupt::requested()
    }

    fn stage(&mut self, what: &str) {
        if self.shows_progress {
            self.bar.set_message(what.to_owned());
        } else {
            say!("{:.0} s: {what}", self.elapsed());
        }
    }
}
