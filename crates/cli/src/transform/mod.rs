//! `lockwork transform`: critical sections of a C program as closures.

mod aside;
mod chosen;
pub(crate) mod delegate;

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueHint};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use lockwork_reengineer::{Change, Choice, Finding, Mutex, Project, Vocabulary};
use serde_json::{Value, json};

use crate::error::Failure;
use crate::terminal;
use crate::terminal::say;
use chosen::{Chosen, Thresholds};

/// `lockwork transform`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lockwork transform -p build --check                     what can be converted, and why the rest cannot
  lockwork transform -p build --diff > delegates.patch    the same as a patch
  lockwork transform -p build --in-place                  write it
  lockwork transform -p build --check --lock '&cache.lock' --json
  lockwork profile -o run.profile -- ./server && lockwork transform --from run.profile -p build --check

A compilation database is made by `bear -- make`, by cmake -DCMAKE_EXPORT_COMPILE_COMMANDS=ON or
by meson. Converted files include lockwork.h and are linked with `pkg-config --cflags --libs
lockwork`. Each mutex becomes a delegate or stays a mutex by itself. With --hold, sections that
cannot be closures take and release the delegate as a lock; without, their mutex stays one.
--from converts the mutexes in whose sections a program compiled with -g spent much of its time:
RCL's criterion. Its lock calls are found by their lines; then all sections of those mutexes are
converted. `lockwork delegate` does all of that, and measures what came of it.")]
pub(crate) struct TransformArgs {
    /// Print what would be converted and what is refused [default]
    #[arg(long, conflicts_with_all = ["diff", "in_place"])]
    check: bool,
    /// Print a patch
    #[arg(long, conflicts_with = "in_place")]
    diff: bool,
    /// Write the files
    #[arg(long)]
    in_place: bool,
    /// Only sections of this lock, as the program names it; may be repeated
    #[arg(long, value_name = "EXPR")]
    lock: Vec<String>,
    /// Only the section that begins here; may be repeated
    #[arg(long, value_name = "FILE:LINE", value_parser = site)]
    site: Vec<(PathBuf, usize)>,
    /// Only sections of the mutexes that are worth delegating by what `lockwork profile -o PROFILE` recorded
    #[arg(long, value_name = "PROFILE", value_hint = ValueHint::FilePath, conflicts_with_all = ["lock", "site"])]
    from: Option<PathBuf>,
    #[command(flatten)]
    thresholds: Thresholds,
    #[command(flatten)]
    program: Program,
    /// Print the check as JSON
    #[arg(long, conflicts_with_all = ["diff", "in_place"])]
    json: bool,
    /// Only these files of the database
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    files: Vec<PathBuf>,
}

/// What is read, and what may become a closure.
#[derive(Debug, Args)]
struct Program {
    /// The compilation database, or the directory that it is in
    #[arg(short = 'p', long = "database", value_name = "PATH", default_value = ".", value_hint = ValueHint::AnyPath)]
    database: PathBuf,
    /// Leave the section that begins here a lock, and the others of its lock in its function; may be repeated
    #[arg(long, value_name = "FILE:LINE", value_parser = site)]
    except: Vec<(PathBuf, usize)>,
    /// Let sections that stay as they are hold the delegate, which `locked(L)`, `sanl` and `rcl` can, and combiners cannot
    #[arg(long)]
    hold: bool,
    /// Convert sections that ask for the thread that they run in, or name a thread-local variable, as well: delegates other than
    /// `locked(L)` run them in any thread
    #[arg(long)]
    any_thread: bool,
    /// Wrappers of the program's own: lines `lock NAME ARGUMENT`, `unlock NAME ARGUMENT`, the argument from 0. Of macros whose
    /// locks are no mutexes of POSIX's: `lock NAME EXPRESSION by CALL(…)`, `unlock NAME EXPRESSION`, `$1` being the first argument
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    macros: Option<PathBuf>,
}

fn site(text: &str) -> Result<(PathBuf, usize), String> {
    let (file, line) = text.rsplit_once(':').ok_or("write FILE:LINE")?;
    Ok((PathBuf::from(file), line.parse().map_err(|_| "write FILE:LINE")?))
}

/// What a user chooses of the program besides.
#[derive(Debug, Default)]
struct Only {
    files: Vec<PathBuf>,
    locks: Vec<String>,
    sites: Vec<(PathBuf, usize)>,
}

impl Program {
    /// Reads it, and says what could not be read; notes in `chosen` where the calls of a profile are.
    fn read(&self, only: Only, mut chosen: Option<&mut Chosen>) -> Result<Project, Failure> {
        let mut vocabulary = Vocabulary::default();
        if let Some(path) = &self.macros {
            vocabulary.add_from(path).map_err(Failure::usage)?;
        }
        let choice = Choice {
            calls: chosen.as_deref().map(Chosen::calls),
            files: only.files,
            locks: only.locks,
            sites: only.sites,
            except: self.except.clone(),
            may_hold: self.hold,
            any_thread: self.any_thread,
            ..Choice::default()
        };
        let bar = Bar::new();
        let project = Project::open(&self.database, vocabulary, choice, &mut |at, of, file| {
            bar.show("reading", at, of, file)
        })
        .map_err(Failure::usage)?;
        bar.0.finish_and_clear();
        for error in project.errors.iter().take(5) {
            say!("lockwork: {error}");
        }
        let again: BTreeSet<&PathBuf> = project.again.iter().collect();
        if let Some(first) = again.first() {
            let others = match again.len() - 1 {
                0 => String::new(),
                others => format!(" and {others} more"),
            };
            say!(
                "lockwork: {}{others}: compiled by several commands, with other macros; what differs stays as it is",
                first.display()
            );
        }
        if let Some((file, line)) = project.needless_exception() {
            return Err(Failure::usage(format!(
                "no section begins at {}:{line}, which --except names; --check lists where sections begin",
                file.display()
            )));
        }
        if let Some(chosen) = &mut chosen {
            chosen.place(&project)?;
        }
        Ok(project)
    }
}

/// What conversion does to the files of a program. Says which sections do not become closures after all.
fn changes(project: &Project) -> Result<Vec<Change>, Failure> {
    let bar = Bar::new();
    let mut changes = project
        .converted(&mut |at, of, file| bar.show("converting", at, of, file))
        .map_err(Failure::usage)?;
    bar.0.finish_and_clear();
    for change in &changes {
        for line in &change.left {
            say!(
                "lockwork: {}:{line}: stays a lock: it cannot become a closure when the sections inside of it have",
                change.path.display()
            );
        }
    }
    changes.retain(Change::changes_text);
    Ok(changes)
}

/// All changes as one patch, with paths from the current directory on.
fn patch(changes: &[Change]) -> Vec<u8> {
    let here = std::env::current_dir().unwrap_or_default();
    changes.iter().flat_map(|change| change.diff(&here)).collect()
}

pub(crate) fn main(args: &TransformArgs) -> Result<ExitCode, Failure> {
    if args.from.is_none() && args.thresholds.are_given() {
        return Err(Failure::usage("--share and --waited judge a profile: name it by --from"));
    }
    let from = args.from.as_deref();
    let mut chosen = from.map(|file| Chosen::read(file, &args.thresholds)).transpose()?;
    if let Some(nothing) = chosen.as_ref().filter(|chosen| chosen.is_empty()) {
        return print_nothing(args, nothing);
    }
    let only = Only { files: args.files.clone(), locks: args.lock.clone(), sites: args.site.clone() };
    let project = args.program.read(only, chosen.as_mut())?;
    if !args.diff && !args.in_place {
        let text =
            if args.json { as_json(&project, chosen.as_ref()) } else { as_text(&project, chosen.as_ref()) };
        terminal::print(&text)?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(chosen) = &chosen {
        eprint!("{}", chosen.text());
    }
    let changes = changes(&project)?;
    if args.diff {
        terminal::print_bytes(&patch(&changes))?;
    } else {
        changes.iter().try_for_each(|change| write(&change.path, &change.after, &change.path))?;
        say!("lockwork: {} files written; {}", changes.len(), summary(&project));
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes a file whole or not at all, with the permissions of another one, or of the one that it takes the place of.
fn write(path: &Path, text: &[u8], like: &Path) -> Result<(), Failure> {
    let failed = |error| Failure::usage(format_args!("{}: {error}", path.display()));
    let directory = path.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(directory).map_err(failed)?;
    file.write_all(text).map_err(failed)?;
    let permissions = std::fs::metadata(like).map_err(failed)?.permissions();
    file.as_file().set_permissions(permissions).map_err(failed)?;
    file.persist(path).map_err(|error| failed(error.error))?;
    Ok(())
}

/// Says that a profile has nothing worth delegating. A patch is empty then.
fn print_nothing(args: &TransformArgs, chosen: &Chosen) -> Result<ExitCode, Failure> {
    if args.json {
        let document = json!({ "profile": chosen.json(), "sections": [], "mutexes": [] });
        terminal::print(&format!("{document:#}\n"))?;
    } else if args.diff {
        eprint!("{}", chosen.nothing());
    } else {
        terminal::print(&chosen.nothing())?;
    }
    Ok(ExitCode::SUCCESS)
}

fn as_text(project: &Project, chosen: Option<&Chosen>) -> String {
    let mut text = chosen.map_or_else(String::new, Chosen::text);
    let is_shown = |found: &&Finding| chosen.is_none() || project.is_chosen(found);
    for found in project.findings.iter().filter(is_shown) {
        let place = format!(
            "{}:{}: {}: {}",
            found.file.display(),
            found.line,
            found.section.function,
            found.section.lock
        );
        text += &match found.refusal() {
            None => format!("{place}: can be converted\n"),
            Some(refusal) => format!("{place}: stays a lock: {refusal}\n"),
        };
        for warning in &found.section.warnings {
            text += &format!("{place}: warning: {warning}\n");
        }
    }
    text += "\n";
    let is_shown = |mutex: &Mutex| chosen.is_none() || mutex.is_chosen;
    for mutex in project.mutexes().into_iter().filter(is_shown) {
        text += &match &mutex.kept {
            None => format!(
                "{}: becomes a delegate: {} of {} sections are closures\n",
                names(&mutex),
                mutex.converted,
                mutex.sections
            ),
            Some(reason) => format!("{}: stays a mutex: {reason}\n", names(&mutex)),
        };
    }
    text + &summary(project) + "\n"
}

/// What sections call a mutex: the three most frequent names.
fn names(mutex: &Mutex) -> String {
    mutex.names.iter().take(3).map(String::as_str).collect::<Vec<_>>().join(", ")
}

fn summary(project: &Project) -> String {
    let converted = project.findings.iter().filter(|found| found.refusal().is_none()).count();
    let mutexes = project.mutexes();
    format!(
        "{} sections, {converted} can be converted, {} stay locks; {} mutexes, {} become delegates",
        project.findings.len(),
        project.findings.len() - converted,
        mutexes.len(),
        mutexes.iter().filter(|mutex| mutex.kept.is_none()).count()
    )
}

fn as_json(project: &Project, chosen: Option<&Chosen>) -> String {
    let sections: Vec<Value> = project
        .findings
        .iter()
        .map(|found| {
            json!({
                "file": found.file,
                "line": found.line,
                "function": found.section.function,
                "lock": found.section.lock,
                "chosen": project.is_chosen(found),
                "converted": found.refusal().is_none(),
                "reason": found.refusal().map(ToString::to_string),
                "warnings": found.section.warnings,
            })
        })
        .collect();
    let mutex = |mutex: &Mutex| {
        json!({
            "names": mutex.names,
            "sections": mutex.sections,
            "chosen": mutex.is_chosen,
            "converted": mutex.converted,
            "becomes_delegate": mutex.kept.is_none(),
            "reason": mutex.kept,
        })
    };
    let mutexes: Vec<Value> = project.mutexes().iter().map(mutex).collect();
    let mut document = json!({ "sections": sections, "mutexes": mutexes });
    if let Some(chosen) = chosen {
        document["profile"] = chosen.json();
    }
    format!("{document:#}\n")
}

/// Files read and written; on a terminal only.
struct Bar(ProgressBar);

impl Bar {
    fn new() -> Self {
        let style = ProgressStyle::with_template("{msg} {bar:30} {pos}/{len}")
            .unwrap_or_else(|_| ProgressStyle::default_bar());
        Self(ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr()).with_style(style))
    }

    fn show(&self, what: &'static str, at: usize, of: usize, _: &Path) {
        self.0.set_length(of as u64);
        self.0.set_position(at as u64);
        self.0.set_message(what);
    }
}
