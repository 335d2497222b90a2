//! `lockwork delegate`: RCL's way as one command (Lozi et al., "Remote Core Locking", USENIX ATC 2012, section 4). A program is
//! profiled, its hot mutexes become delegates, it is built, and its own benchmark says what that was good for.
//!
//! The sources and the program are what they were when it ends: the conversion is a patch beside the figures.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus};
use std::time::Duration;

use clap::{Args, ValueHint};
use lockwork_reengineer::Change;

use super::aside::{Aside, SUFFIX};
use super::chosen::{Chosen, Thresholds};
use super::{Only, Program, as_text, changes, patch};
use crate::compare::child::{self, End, Finished};
use crate::compare::{format, interrupt, plan};
use crate::error::Failure;
use crate::program::{beside, describe};
use crate::terminal;
use crate::terminal::say;

/// What stands for the program in commands.
const PLACE: &str = "{program}";
/// Delegates that can be held as a lock, which sections that stay locks need.
const THAT_CAN_BE_HELD: &str = "locked(futex),locked(cst-mutex),fc,sanl,rcl";
/// Those, and combiners.
const WITH_COMBINERS: &str = "locked(futex),locked(cst-mutex),fc,cc-synch,sanl,rcl";
/// What a build and a test may take.
const PATIENCE: Duration = Duration::from_secs(3600);
/// Lines of what a build or a test has printed that are shown when it fails.
const SHOWN: usize = 20;

/// `lockwork delegate`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lockwork delegate --program ./server --build 'make LIBS=\"$(pkg-config --libs lockwork)\"' \\
      --metric '+rate=([\\d.]+) requests/s' -- ./bench {program}
  lockwork delegate -p build --program build/server --build 'ninja -C build' --hold \\
      --test './check {program}' --share 5 -- ./bench {program}

In order: CMD runs with the recorder on, under glibc's locks. Mutexes in whose sections threads
spend 20% of their time, and for which they wait, are RCL's candidates (--share, --waited); where
there is none, that is the answer. What becomes of their sections is printed, and kept as
DIR/delegates.patch. The sources make way for converted ones, --build builds them, and they are
put back. The converted program then stands beside the other, with `.delegates` behind its name.
--test runs with each delegate, which LOCKWORK_DELEGATE names to the program; one with which it
fails is left out. Last, CMD is compared: the program as it was, and converted under each delegate.

The program has to be built already, with -g, and -fno-omit-frame-pointer if it takes locks in
wrappers. --build has to use the same flags, or flags are compared, and has to find lockwork.h and
the C library (pkg-config --cflags --libs lockwork). Sections have to be in the program itself:
libraries that the build makes beside it stay converted until the next build.")]
pub(crate) struct DelegateArgs {
    #[command(flatten)]
    sources: Program,
    /// The program that --build makes; {program} in CMD and in --test stands for it, or for its converted copy
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    program: PathBuf,
    /// What builds the program once its sources are converted: a command of the shell
    #[arg(long, value_name = "CMD")]
    build: String,
    /// What says by its exit status whether {program} works: a command of the shell
    #[arg(long, value_name = "CMD")]
    test: Option<String>,
    /// What `lockwork profile` has recorded of the program, in place of recording it now
    #[arg(long, value_name = "PROFILE", value_hint = ValueHint::FilePath)]
    from: Option<PathBuf>,
    #[command(flatten)]
    thresholds: Thresholds,
    /// The delegates, separated by commas [default: locked(futex), locked(cst-mutex), sanl, rcl, and without --hold fc and
    /// cc-synch]
    #[arg(long, value_name = "A,B,…")]
    delegates: Option<String>,
    /// The locks that the program as it was runs under, as for `lockwork compare`
    #[arg(long, short, value_name = "A,B,…", default_value = "pthread")]
    locks: String,
    /// What to measure, as for `lockwork compare`; repeatable
    #[arg(long, short, value_name = "wall|REGEX", allow_hyphen_values = true, default_value = "wall")]
    metric: Vec<String>,
    /// Measured rounds; a verdict takes 6
    #[arg(long, short = 'n', value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    runs: u32,
    /// Seconds after which a run is killed and counts as collapsed
    #[arg(long, value_name = "SECS", default_value = "60", value_parser = crate::values::seconds)]
    timeout: Duration,
    /// The version of what is measured, such as `git describe --always --dirty` says it
    #[arg(long, value_name = "VERSION")]
    commit: Option<String>,
    /// Where the profile, the patch and the comparison go
    #[arg(long, short, value_name = "DIR", default_value = "lockwork-delegate", value_hint = ValueHint::DirPath)]
    out: PathBuf,
    /// The benchmark; {program} in it is the program
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD", value_hint = ValueHint::CommandWithArguments)]
    command: Vec<String>,
}

/// Goes all the way. The exit status is 0 where there was nothing worth delegating, too; 130 after Ctrl-C.
pub(crate) fn main(args: &DelegateArgs) -> Result<ExitCode, Failure> {
    let way = Way::new(args)?;
    fs::create_dir_all(&args.out).map_err(|error| {
        let why = describe(&error);
        Failure::usage(format!("`{}` cannot be made: {why}; name another by --out", args.out.display()))
    })?;
    interrupt::listen()?;
    let profile = match &args.from {
        Some(file) => file.clone(),
        None => way.record()?,
    };
    let mut chosen = Chosen::read(&profile, &args.thresholds)?;
    if chosen.is_empty() {
        terminal::print(&chosen.nothing())?;
        return Ok(ExitCode::SUCCESS);
    }
    let project = args.sources.read(Only::default(), Some(&mut chosen))?;
    terminal::print(&as_text(&project, Some(&chosen)))?;
    let changes = changes(&project)?;
    go_on()?;
    if changes.is_empty() {
        terminal::print("No mutex that is worth it becomes a delegate; the reasons are above\n")?;
        return Ok(ExitCode::SUCCESS);
    }
    way.build(&changes)?;
    let delegates = way.tested()?;
    way.compare(&delegates)
}

/// Fails after Ctrl-C.
fn go_on() -> Result<(), Failure> {
    match interrupt::requested() {
        true => Err(Failure::with_status(interrupt::EXIT_STATUS, "interrupted")),
        false => Ok(()),
    }
}

/// What is asked for, checked before anything runs for minutes.
struct Way<'a> {
    args: &'a DelegateArgs,
    /// The program, by a path with a slash: a shell takes others for names of commands.
    program: PathBuf,
    converted: PathBuf,
    delegates: Vec<String>,
}

impl<'a> Way<'a> {
    fn new(args: &'a DelegateArgs) -> Result<Self, Failure> {
        let lacks_it = |text: &String| !text.contains(PLACE);
        let mut commands = vec![("CMD", args.command.iter().all(lacks_it))];
        commands.extend(args.test.as_ref().map(|test| ("--test", lacks_it(test))));
        if let Some((name, _)) = commands.iter().find(|(_, lacks)| *lacks) {
            return Err(Failure::usage(format!(
                "{name} runs the program before and after: write {PLACE} where it names it, as in `./bench {PLACE}`"
            )));
        }
        let program = program_file(&args.program)?;
        let by_default = if args.sources.hold { THAT_CAN_BE_HELD } else { WITH_COMBINERS };
        let delegates = plan::parse_delegates(args.delegates.as_deref().unwrap_or(by_default))?;
        if delegates.is_empty() {
            return Err(Failure::usage("--delegates names none"));
        }
        plan::parse_locks(&args.locks)?;
        plan::parse_metrics(&args.metric, false)?;
        Ok(Self { args, converted: beside(&program, "delegates"), program, delegates })
    }

    /// The benchmark's words, with the program in its place.
    fn words(&self, program: &Path) -> Vec<String> {
        self.args.command.iter().map(|word| word.replace(PLACE, &program.display().to_string())).collect()
    }

    /// The same for a command in which braces have a meaning.
    fn templates(&self, program: &Path) -> Vec<String> {
        let literal = |text: &str| text.replace('{', "{{").replace('}', "}}");
        let program = literal(&program.display().to_string());
        let word = |word: &String| word.split(PLACE).map(literal).collect::<Vec<_>>().join(&program);
        self.args.command.iter().map(word).collect()
    }

    /// Runs the benchmark with the recorder on.
    fn record(&self) -> Result<PathBuf, Failure> {
        let file = self.args.out.join("profile");
        // What was recorded before is of another run.
        let _ = fs::remove_file(&file);
        let mut words = ["profile", "-o", &file.display().to_string(), "--"].map(str::to_owned).to_vec();
        words.extend(self.words(&self.program));
        let status = step(&words)?;
        go_on()?;
        match status.success() && file.is_file() {
            true => Ok(file),
            false => Err(Failure::with_status(
                1,
                format!(
                    "there is no profile ({status}): the command above has to run a program with locks, and to succeed"
                ),
            )),
        }
    }

    /// Builds the converted program. The sources and the other program make way for that long.
    fn build(&self, changes: &[Change]) -> Result<(), Failure> {
        let kept = self.args.out.join("delegates.patch");
        fs::write(&kept, patch(changes))
            .map_err(|error| Failure::usage(format!("{}: {}", kept.display(), describe(&error))))?;
        let mut aside = Aside::new();
        say!(
            "lockwork: {} files make way for converted ones; should this be killed, they are there with .{SUFFIX} behind their names",
            changes.len()
        );
        aside.make_way(&self.program)?;
        for change in changes {
            aside.replace(&change.path, &change.before, &change.after)?;
        }
        let built = in_shell(&self.args.build, None).and_then(|build| match build.end {
            End::Exited(0) => keep(&self.program, &self.converted),
            end => {
                say!("{}", last_lines(&build));
                Err(Failure::with_status(
                    1,
                    format!(
                        "the converted program does not build: --build {}; it has to find lockwork.h and to link the C library \
                         (pkg-config --cflags --libs lockwork)",
                        how(end)
                    ),
                ))
            }
        });
        aside.restore()?;
        go_on()?;
        built
    }

    /// The delegates with which the program passes its test.
    fn tested(&self) -> Result<Vec<String>, Failure> {
        let Some(test) = &self.args.test else { return Ok(self.delegates.clone()) };
        let test = test.replace(PLACE, &format::command(&[self.converted.display().to_string()]));
        let mut passed = Vec::new();
        for delegate in &self.delegates {
            let run = in_shell(&test, Some(delegate))?;
            go_on()?;
            if run.end == End::Exited(0) {
                passed.push(delegate.clone());
            } else {
                say!("{}", last_lines(&run));
                say!("lockwork: {delegate} is left out: with it --test {}", how(run.end));
            }
        }
        match passed.is_empty() {
            false => Ok(passed),
            true => Err(Failure::with_status(1, "the converted program fails its test with every delegate")),
        }
    }

    /// Compares the program as it was with the converted one under these delegates.
    fn compare(&self, delegates: &[String]) -> Result<ExitCode, Failure> {
        let args = self.args;
        let mut words = vec!["compare".to_owned()];
        let mut with = |name: &str, value: &str| words.extend([name, value].map(str::to_owned));
        with("--original", &format::command(&self.templates(&self.program)));
        with("--locks", &args.locks);
        with("--delegates", &delegates.join(","));
        args.metric.iter().for_each(|metric| with("--metric", metric));
        with("--runs", &args.runs.to_string());
        with("--timeout", &args.timeout.as_secs_f64().to_string());
        args.commit.iter().for_each(|commit| with("--commit", commit));
        with("--out", &args.out.join("comparison").display().to_string());
        words.push("--".to_owned());
        words.extend(self.templates(&self.converted));
        let status = step(&words)?;
        let patch = args.out.join("delegates.patch");
        terminal::print(&format!("The conversion: patch -p1 < {}\n", patch.display()))?;
        Ok(ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)))
    }
}

/// The file that a build makes anew: not a link to it, and no script that runs something else.
fn program_file(given: &Path) -> Result<PathBuf, Failure> {
    let file = match fs::symlink_metadata(given) {
        Ok(about) if about.is_symlink() => given.canonicalize().unwrap_or_else(|_| given.to_owned()),
        _ => given.to_owned(),
    };
    let Some(begin) = fs::read(&file).ok().filter(|_| file.is_file()) else {
        return Err(Failure::usage(format!(
            "there is no program `{}`: build it first, with -g",
            given.display()
        )));
    };
    if begin.starts_with(b"#!") {
        return Err(Failure::usage(format!(
            "`{}` is a script: name the program that it runs (libtool has it in .libs)",
            given.display()
        )));
    }
    Ok(if file.components().count() > 1 { file } else { Path::new(".").join(file) })
}

/// A step that is a command of lockwork's: shown as a user would type it, and run.
fn step(words: &[String]) -> Result<ExitStatus, Failure> {
    let failed = |error: &std::io::Error| Failure::with_status(1, format!("lockwork: {}", describe(error)));
    terminal::print(&format!("\n$ lockwork {}\n", format::command(words)))?;
    let mut itself = Command::new(std::env::current_exe().map_err(|error| failed(&error))?);
    child::die_with_parent(&mut itself);
    itself.args(words).status().map_err(|error| failed(&error))
}

/// Runs a command of the user's, the program of which has this delegate.
fn in_shell(command: &str, delegate: Option<&String>) -> Result<Finished, Failure> {
    let mut shell = Command::new("sh");
    shell.args(["-c", command]);
    let variable = lockwork_config::DELEGATE.name;
    let mut shown = String::new();
    if let Some(delegate) = delegate {
        shell.env(variable, delegate);
        shown = format!("{variable}='{delegate}' ");
    }
    terminal::print(&format!("\n$ {shown}{command}\n"))?;
    child::run(shell, PATIENCE).map_err(|error| match interrupt::requested() {
        true => Failure::with_status(interrupt::EXIT_STATUS, "interrupted"),
        false => Failure::with_status(1, format!("sh: {}", describe(&error))),
    })
}

/// What it printed last.
fn last_lines(run: &Finished) -> String {
    let texts = [&run.stdout, &run.stderr].map(|stream| stream.texts().swap_remove(0));
    let lines: Vec<&str> = texts.iter().flat_map(|text| text.lines()).collect();
    lines[lines.len().saturating_sub(SHOWN)..].join("\n")
}

/// How a command ended, for a sentence.
fn how(end: End) -> String {
    match end {
        End::Exited(status) => format!("ends with status {status}"),
        End::Signalled(signal) => format!("dies of signal {signal}"),
        End::TimedOut => format!("does not end within {} minutes", PATIENCE.as_secs() / 60),
        End::Interrupted => "is interrupted".to_owned(),
    }
}

/// Keeps a program that was built under another name.
fn keep(program: &Path, converted: &Path) -> Result<(), Failure> {
    fs::rename(program, converted).map_err(|error| {
        let mend = match error.kind() {
            std::io::ErrorKind::NotFound => "--build has not made it".to_owned(),
            _ => describe(&error),
        };
        Failure::with_status(1, format!("there is no converted `{}`: {mend}", program.display()))
    })
}
