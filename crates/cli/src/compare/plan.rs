//! A comparison as asked for, checked before anything is started.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use lockwork_locks::registry::{self, DelegateSpec};

use super::CompareArgs;
use super::metric::Metric;
use super::template::Template;
use crate::error::Failure;
use crate::preload::{self, Library, Request};
use crate::program;
use crate::specs::NO_PRELOAD;

/// A comparison that can start.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) locks: Vec<Lock>,
    /// Which of them the others are compared with.
    pub(crate) baseline: usize,
    /// The thread counts; a single `None` when the command does not depend on them.
    pub(crate) threads: Vec<Option<u32>>,
    /// The first is the primary one.
    pub(crate) metrics: Vec<Metric>,
    pub(crate) metric_names: Arc<[String]>,
    pub(crate) runs: u32,
    pub(crate) warmup: u32,
    pub(crate) timeout: Duration,
    pub(crate) seed: u64,
    /// The command as given.
    pub(crate) command: Vec<String>,
    invocation: Invocation,
    /// The command for locks, where the other one is of delegates.
    original: Option<Original>,
    /// Those of `locks` that are delegates.
    pub(crate) delegates: Vec<String>,
    /// The builds of the library, each with its label; one unless they are compared, none if no lock needs it.
    pub(crate) libraries: Vec<(String, Library)>,
    /// The version of what is measured, as the user gives it.
    pub(crate) commit: Option<String>,
    /// The machine, where it is a simulated one.
    pub(crate) simulated: Option<String>,
    /// Of the one table that shows all metrics; without it each metric has a table.
    pub(crate) title: Option<String>,
}

/// A program and its words, the first of which is its name.
#[derive(Debug, Default)]
struct Invocation {
    program: PathBuf,
    words: Vec<Template>,
}

/// The command of a program before its locks became delegates.
#[derive(Debug)]
struct Original {
    /// As given.
    command: Vec<String>,
    invocation: Invocation,
}

/// What [`Plan::of_benchmark`] is to measure.
#[derive(Debug)]
pub(crate) struct OwnBenchmark {
    pub(crate) name: String,
    /// In canonical spelling, the baseline first.
    pub(crate) locks: Vec<String>,
    pub(crate) threads: Vec<Option<u32>>,
    pub(crate) metrics: Vec<Metric>,
    pub(crate) runs: u32,
    pub(crate) warmup: u32,
    pub(crate) timeout: Duration,
    pub(crate) seed: u64,
    /// As the user gave it.
    pub(crate) command: Vec<String>,
    pub(crate) program: PathBuf,
    /// The program's name and arguments, where `{threads}` is replaced.
    pub(crate) words: Vec<String>,
    /// The version of what is measured.
    pub(crate) commit: Option<String>,
}

/// What [`Plan::of_simulation`] is to summarise.
#[derive(Debug)]
pub(crate) struct Simulated {
    /// What is simulated, in one line.
    pub(crate) machine: String,
    /// In canonical spelling, the baseline first.
    pub(crate) locks: Vec<String>,
    pub(crate) threads: Vec<Option<u32>>,
    pub(crate) metrics: Vec<Metric>,
    /// Seeds.
    pub(crate) runs: u32,
    /// As the user gave it.
    pub(crate) command: Vec<String>,
    /// The version of what is measured.
    pub(crate) commit: Option<String>,
}

/// One of the locks compared.
#[derive(Debug, Clone)]
pub(crate) struct Lock {
    /// In canonical spelling; behind it the label of the library where builds of it are compared.
    pub(crate) name: String,
    environment: preload::Changes,
    /// Whether the library runs with it.
    is_ours: bool,
    /// Whether it is a delegate, which the program has and the library does not bring.
    is_delegate: bool,
}

impl Plan {
    /// Checks every part of the request.
    pub(crate) fn new(args: &CompareArgs) -> Result<Self, Failure> {
        let (names, delegates) = candidates(args)?;
        let all = [names.as_slice(), delegates.as_slice()].concat();
        let baseline = choose_baseline(&all, args.baseline.as_deref())?;
        let needs_library = names.iter().any(|name| name != NO_PRELOAD);
        let libraries = if needs_library { libraries(args)? } else { Vec::new() };
        let metrics = parse_metrics(&args.metric, args.higher_is_better)?;
        let words = templates(&args.command)?;
        let before = args.original.as_deref().map(split_words).transpose()?.unwrap_or_default();
        let before_words = templates(&before)?;
        let threads = choose_threads(&args.threads, &[words.as_slice(), before_words.as_slice()].concat())?;
        let invocation = Invocation::new(words, &threads)?;
        let original = match before.is_empty() {
            true => None,
            false => Some(Original { command: before, invocation: Invocation::new(before_words, &threads)? }),
        };
        if needs_library {
            crate::environment::check()?;
            let of_locks = original.as_ref().map_or(&invocation, |original| &original.invocation);
            program::check_preloadable(&of_locks.program)?;
        }
        let of_locks = names.iter().flat_map(|name| variants(name, &libraries));
        let locks = of_locks.chain(delegates.iter().map(|name| delegate(name))).collect();
        Ok(Plan {
            locks,
            baseline,
            threads,
            metric_names: metrics.iter().map(|metric| metric.name.clone()).collect(),
            metrics,
            runs: args.runs,
            warmup: args.warmup,
            timeout: args.timeout,
            seed: args.seed.unwrap_or_else(any_seed),
            command: args.command.clone(),
            invocation,
            original,
            delegates,
            libraries,
            commit: args.commit.clone(),
            simulated: None,
            title: None,
        })
    }

    /// A benchmark of our own, which needs no library: `lock_variable` tells the program its lock. The first lock is
    /// the baseline.
    pub(crate) fn of_benchmark(request: OwnBenchmark, lock_variable: &'static str) -> Result<Self, Failure> {
        let OwnBenchmark {
            locks,
            threads,
            metrics,
            runs,
            warmup,
            timeout,
            seed,
            command,
            program,
            words,
            commit,
            name,
        } = request;
        let words = templates(&words)?;
        let locks = locks
            .into_iter()
            .map(|name| {
                let mut environment = preload::without_library(None);
                environment.push((lock_variable, Some((&name).into())));
                Lock { name, environment, is_ours: false, is_delegate: false }
            })
            .collect();
        let metric_names = metrics.iter().map(|metric| metric.name.clone()).collect();
        Ok(Plan {
            locks,
            baseline: 0,
            threads,
            metrics,
            metric_names,
            runs,
            warmup,
            timeout,
            seed,
            command,
            invocation: Invocation { program, words },
            original: None,
            delegates: Vec::new(),
            libraries: Vec::new(),
            commit,
            simulated: None,
            title: Some(name),
        })
    }

    /// Runs that are simulated in this process. The first lock is the baseline.
    pub(crate) fn of_simulation(request: Simulated) -> Self {
        let Simulated { machine, locks, threads, metrics, runs, command, commit } = request;
        let of =
            |name| Lock { name, environment: preload::Changes::new(), is_ours: false, is_delegate: false };
        let locks = locks.into_iter().map(of).collect();
        Plan {
            locks,
            baseline: 0,
            threads,
            metric_names: metrics.iter().map(|metric| metric.name.clone()).collect(),
            metrics,
            runs,
            warmup: 0,
            timeout: Duration::ZERO,
            seed: 1,
            command,
            invocation: Invocation::default(),
            original: None,
            delegates: Vec::new(),
            libraries: Vec::new(),
            commit,
            title: Some(format!("Simulated {machine}")),
            simulated: Some(machine),
        }
    }

    /// The command of the program before its locks became delegates, as given.
    pub(crate) fn original(&self) -> Option<&[String]> {
        self.original.as_ref().map(|original| original.command.as_slice())
    }

    /// The command for a lock (an index into `locks`) and a thread count (an index into `threads`). If `asked`, the
    /// library says at the end what it served.
    pub(crate) fn command(&self, lock: usize, threads: usize, asked: bool) -> Command {
        let lock = &self.locks[lock];
        let invocation = match &self.original {
            Some(original) if !lock.is_delegate => &original.invocation,
            _ => &self.invocation,
        };
        let mut words = invocation.words.iter().map(|word| {
            // Every combination was expanded when the plan was made.
            word.expand(self.threads[threads]).unwrap_or_default()
        });
        let name = words.next().unwrap_or_default();
        let mut command = Command::new(&invocation.program);
        std::os::unix::process::CommandExt::arg0(&mut command, name);
        command.args(words);
        preload::apply(&lock.environment, &mut command);
        if asked && lock.is_ours {
            command.env(lockwork_config::VERBOSE.name, "1");
        }
        command
    }
}

impl Invocation {
    /// Of words that have a value at every thread count.
    fn new(words: Vec<Template>, threads: &[Option<u32>]) -> Result<Self, Failure> {
        Ok(Self { program: expand(&words, threads)?, words })
    }
}

/// The locks and the delegates that are asked for, in canonical spelling.
fn candidates(args: &CompareArgs) -> Result<(Vec<String>, Vec<String>), Failure> {
    let delegates = parse_delegates(&args.delegates)?;
    if delegates.is_empty() {
        return Ok((parse_locks(&args.locks)?, delegates));
    }
    match (args.locks.is_empty(), &args.original) {
        (true, None) => Ok((Vec::new(), delegates)),
        (true, Some(_)) => Ok((vec![NO_PRELOAD.to_owned()], delegates)),
        (false, Some(_)) => Ok((parse_locks(&args.locks)?, delegates)),
        (false, None) => Err(Failure::usage(
            "--locks beside --delegates need a program that has locks: name the command of the program before its conversion by \
             --original, or leave --locks out",
        )),
    }
}

/// The words of a command that is given in one, as a shell splits them.
fn split_words(command: &str) -> Result<Vec<String>, Failure> {
    match shlex::split(command) {
        Some(words) if !words.is_empty() => Ok(words),
        _ => Err(Failure::usage(format!("--original `{command}` is no command; quote it as for a shell"))),
    }
}

/// A delegate: the program has it, and asks a variable which one it is.
fn delegate(name: &str) -> Lock {
    let mut environment = preload::without_library(None);
    environment.push((lockwork_config::DELEGATE.name, Some(name.into())));
    Lock { name: name.to_owned(), environment, is_ours: false, is_delegate: true }
}

/// A lock as each of the builds of the library serves it.
fn variants(name: &str, libraries: &[(String, Library)]) -> Vec<Lock> {
    if name == NO_PRELOAD || libraries.is_empty() {
        let first = libraries.first().map(|(_, library)| library);
        let environment = preload::without_library(first);
        return vec![Lock { name: name.to_owned(), environment, is_ours: false, is_delegate: false }];
    }
    let request = Request { lock: Some(name.to_owned()), ..Request::default() };
    let of = |(label, library): &(String, Library)| Lock {
        name: if libraries.len() > 1 { at_library(name, label) } else { name.to_owned() },
        environment: preload::with_library(library, &request),
        is_ours: true,
        is_delegate: false,
    };
    libraries.iter().map(of).collect()
}

/// The builds of the library to use: the one that is installed, unless others are named.
fn libraries(args: &CompareArgs) -> Result<Vec<(String, Library)>, Failure> {
    if args.libraries.is_empty() {
        return Ok(vec![(String::new(), Library::find()?)]);
    }
    let mut libraries: Vec<(String, Library)> = Vec::new();
    for text in &args.libraries {
        let (label, path) = match text.split_once('=') {
            Some((label, path)) => (label.to_owned(), PathBuf::from(path)),
            None => {
                let path = PathBuf::from(text);
                let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
                (stem, path)
            }
        };
        let is_name = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if label.is_empty() || !label.chars().all(is_name) {
            return Err(Failure::usage(format!(
                "library `{text}` has no name of letters, digits, `-`, `_` and `.`: write NAME=PATH, such as \
                 old=/tmp/liblockwork.so"
            )));
        }
        if libraries.iter().any(|(other, _)| *other == label) {
            return Err(Failure::usage(format!(
                "two libraries are called `{label}`: name them, as in --libraries old={0},new={0}",
                path.display()
            )));
        }
        libraries.push((label, Library::at(&path, ", which --libraries names,")?));
    }
    Ok(libraries)
}

/// A seed; 53 bits survive a round trip through any JSON reader.
pub(crate) fn any_seed() -> u64 {
    fastrand::u64(..1 << 53)
}

/// Splits at commas outside parentheses and checks each spec.
pub(crate) fn parse_locks(text: &str) -> Result<Vec<String>, Failure> {
    let mut names: Vec<String> = Vec::new();
    for part in split_locks(text, "pthread,mcs-stp")? {
        match part {
            "all" => names.extend(registry::mutexes().map(|lock| lock.name.to_owned())),
            "all+pthread" => {
                names.extend(registry::mutexes().map(|lock| format!("{}+{NO_PRELOAD}", lock.name)));
            }
            part => names.push(canonical(part)?),
        }
    }
    once(&names, "lock", "--locks")?;
    Ok(names)
}

/// The same for delegates; there may be none.
pub(crate) fn parse_delegates(text: &str) -> Result<Vec<String>, Failure> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let mut names: Vec<String> = Vec::new();
    for part in split_list("--delegates", text, "cc-synch,rcl")? {
        match part {
            "all" => names.extend(registry::delegates().map(|delegate| delegate.name.to_owned())),
            part => names.push(DelegateSpec::parse(part).map_err(Failure::usage)?.to_string()),
        }
    }
    once(&names, "delegate", "--delegates")?;
    Ok(names)
}

/// Refuses a name that is there twice.
fn once(names: &[String], what: &str, option: &str) -> Result<(), Failure> {
    match names.iter().enumerate().find(|&(index, name)| names[..index].contains(name)) {
        Some((_, name)) => {
            Err(Failure::usage(format!("{what} `{name}` is named twice in {option}; leave one out")))
        }
        None => Ok(()),
    }
}

fn canonical(spec: &str) -> Result<String, Failure> {
    if spec == NO_PRELOAD {
        return Ok(spec.to_owned());
    }
    crate::specs::parse(spec).map(|choice| choice.to_string())
}

/// The specs of a list, one of which would be `example`.
pub(crate) fn split_locks<'a>(text: &'a str, example: &str) -> Result<Vec<&'a str>, Failure> {
    split_list("--locks", text, example)
}

fn split_list<'a>(option: &str, text: &'a str, example: &str) -> Result<Vec<&'a str>, Failure> {
    let parts: Vec<&str> = crate::specs::split_outside_parentheses(text).into_iter().map(str::trim).collect();
    if parts.contains(&"") {
        return Err(Failure::usage(format!(
            "{option} `{text}` has an empty name; separate names by single commas, such as {example}"
        )));
    }
    Ok(parts)
}

/// The name of a lock that the library with this label serves.
pub(crate) fn at_library(lock: &str, label: &str) -> String {
    format!("{lock}@{label}")
}

fn choose_baseline(names: &[String], asked: Option<&str>) -> Result<usize, Failure> {
    let Some(asked) = asked else {
        return Ok(names.iter().position(|name| name == NO_PRELOAD).unwrap_or(0));
    };
    let asked = match DelegateSpec::parse(asked) {
        Ok(delegate) => delegate.to_string(),
        Err(_) => canonical(asked)?,
    };
    names.iter().position(|name| *name == asked).ok_or_else(|| {
        Failure::usage(format!(
            "baseline `{asked}` is not among those compared, {}; add it there",
            names.join(",")
        ))
    })
}

/// The words of a command.
pub(crate) fn templates(command: &[String]) -> Result<Vec<Template>, Failure> {
    command.iter().map(|word| Template::parse(word)).collect::<Result<_, _>>().map_err(Failure::usage)
}

/// Makes sure that all words have a value at every thread count: division by zero and the like show only then. The program that
/// the first one names.
pub(crate) fn expand(words: &[Template], threads: &[Option<u32>]) -> Result<PathBuf, Failure> {
    let mut program = PathBuf::new();
    for &count in threads {
        for (index, word) in words.iter().enumerate() {
            let word = word.expand(count).map_err(Failure::usage)?;
            if index == 0 {
                program = program::resolve(word.as_ref())?;
            }
        }
    }
    Ok(program)
}

/// The metrics that are named.
pub(crate) fn parse_metrics(texts: &[String], higher_is_better: bool) -> Result<Vec<Metric>, Failure> {
    let mut metrics: Vec<Metric> = Vec::new();
    for text in texts {
        let metric = Metric::parse(text).map_err(Failure::usage)?;
        if metrics.iter().any(|other| other.name == metric.name) {
            return Err(Failure::usage(format!(
                "two metrics are called `{}`; name one with NAME=REGEX",
                metric.name
            )));
        }
        metrics.push(metric);
    }
    if higher_is_better {
        let primary = &mut metrics[0];
        if primary.is_wall() {
            return Err(Failure::usage(
                "--higher-is-better makes no sense for wall-clock time; name a metric with --metric REGEX",
            ));
        }
        primary.higher_is_better = true;
    }
    Ok(metrics)
}

/// The thread counts that are asked for, which the words must use; `None` of a command that does not depend on them.
pub(crate) fn choose_threads(asked: &[u32], words: &[Template]) -> Result<Vec<Option<u32>>, Failure> {
    let used = words.iter().any(Template::uses_threads);
    match (asked, used) {
        ([], false) => Ok(vec![None]),
        ([], true) => Err(Failure::usage("the command uses {threads}; say which with --threads 2,8,32")),
        (_, false) => Err(Failure::usage(
            "--threads has no effect: put {threads} where the command takes its number of threads",
        )),
        (asked, true) => {
            let mut threads: Vec<Option<u32>> = Vec::new();
            for &count in asked {
                if !threads.contains(&Some(count)) {
                    threads.push(Some(count));
                }
            }
            Ok(threads)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_baseline_is_pthread_or_the_first() {
        let names = ["ttas", "pthread", "ticket"].map(str::to_owned);
        assert_eq!(choose_baseline(&names, None).unwrap(), 1);
        assert_eq!(choose_baseline(&names[2..], None).unwrap(), 0);
        assert_eq!(choose_baseline(&names, Some("ticket")).unwrap(), 2);
        assert!(
            choose_baseline(&names[..2], Some("ticket")).unwrap_err().to_string().contains("add it there")
        );
    }
}
