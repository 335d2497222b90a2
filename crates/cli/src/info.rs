//! `lockwork info`: everything that is known of a lock.

use std::fmt::Write;
use std::process::ExitCode;

use clap::Args;
use lockwork_locks::describe::Descriptor;
use lockwork_locks::knobs::Knobs;
use lockwork_locks::registry::{self, Choice};
use serde::Serialize;

use crate::error::Failure;
use crate::knobs::Knob;
use crate::list::Entry;
use crate::{delegates, knobs, rwlocks, specs, terminal};

/// `lockwork info`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lockwork info mcs-stp
  lockwork info 'gcr(ticket)'
  lockwork info gcr --json")]
pub(crate) struct InfoArgs {
    /// The lock's name, or a whole spec
    #[arg(value_name = "LOCK")]
    pub(crate) lock: String,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// What is told of a lock.
#[derive(Debug, Serialize)]
struct Info {
    #[serde(flatten)]
    entry: Entry,
    /// Specs that name this algorithm.
    specs: Vec<String>,
    properties: &'static str,
    deviations: &'static str,
    avoid: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    knobs: Vec<Knob>,
    /// Of a wrapper: the lock inside.
    #[serde(skip_serializing_if = "Option::is_none")]
    inner: Option<Box<Info>>,
}

impl Info {
    /// Whether it is a wrapper by itself, of which only a spec says what is inside.
    fn is_open(&self) -> bool {
        registry::mutex_wrappers().any(|wrapper| wrapper.descriptor().name == self.entry.name)
    }
}

/// Prints what is known.
pub(crate) fn main(args: &InfoArgs) -> Result<ExitCode, Failure> {
    let name = args.lock.trim();
    if let Some(delegate) = delegates::Info::of(name) {
        if args.json {
            terminal::print_json(&delegate)?;
        } else {
            terminal::print(&delegate.text(paragraph))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    match (name, args.json) {
        ("passthrough" | "pthread", true) => {
            terminal::print_json(&serde_json::json!({ "name": name, "summary": plain(name) }))?;
        }
        ("passthrough" | "pthread", false) => terminal::print(&format!("{name}: {}", plain(name)))?,
        _ => match (rwlock(name), args.json) {
            (Some(rwlock), true) => terminal::print_json(&rwlock)?,
            (Some(rwlock), false) => terminal::print(&rwlock.text(paragraph))?,
            (None, true) => terminal::print_json(&lookup(name)?)?,
            (None, false) => terminal::print(&text(&lookup(name)?))?,
        },
    }
    Ok(ExitCode::SUCCESS)
}

/// The two names that are no locks of ours.
fn plain(name: &str) -> &'static str {
    if name == "pthread" {
        "the program as it is, without Lockwork; only `lockwork compare` knows it"
    } else {
        "the library is loaded, but every lock is glibc's own: what interposing costs"
    }
}

/// What is told of a reader-writer lock, if that is what the name means.
fn rwlock(name: &str) -> Option<rwlocks::Info> {
    match Choice::parse(name) {
        Ok(Choice::Rw(spec)) => Some(rwlocks::Info::of(&spec)),
        _ => None,
    }
}

fn lookup(name: &str) -> Result<Info, Failure> {
    if let Some(wrapper) = registry::mutex_wrappers().find(|wrapper| wrapper.descriptor().name == name) {
        let specs = wrapper.inner_locks().map(|lock| format!("{name}({})", lock.name)).collect();
        let entry = Entry::new(name.to_owned(), wrapper.descriptor(), vec![]);
        return Ok(info(entry, wrapper.descriptor(), specs, &Knobs::NONE));
    }
    let variants: Vec<_> = registry::mutexes().filter(|lock| lock.descriptor.name == name).collect();
    if let Some(first) = variants.first() {
        let specs = variants.iter().map(|lock| lock.name.to_owned()).collect();
        let waiting = variants.iter().map(|lock| lock.waiting.word()).collect();
        let entry = Entry::new(name.to_owned(), first.descriptor, waiting);
        return Ok(info(entry, first.descriptor, specs, &Knobs::NONE));
    }
    let Choice::Lock(spec) = specs::parse(name)? else {
        return Err(Failure::usage(format!("`{name}` is no lock of its own: name one")));
    };
    let lock = spec.base.info();
    let base = info(Entry::base(lock), lock.descriptor, vec![lock.name.to_owned()], &spec.knobs);
    let Some(wrapper) = &spec.wrapper else { return Ok(base) };
    let around = wrapper.id.descriptor();
    let entry = Entry::wrapped(around, lock);
    let mut wrapped = info(entry, around, vec![spec.to_string()], &wrapper.knobs);
    wrapped.inner = Some(Box::new(base));
    Ok(wrapped)
}

fn info(entry: Entry, lock: &'static Descriptor, specs: Vec<String>, given: &Knobs) -> Info {
    Info {
        entry,
        specs,
        properties: lock.properties,
        deviations: lock.deviations,
        avoid: lock.avoid,
        knobs: Knob::rows(lock.knobs, given),
        inner: None,
    }
}

fn text(info: &Info) -> String {
    let entry = &info.entry;
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = writeln!(text, "{}: {}\n", entry.name, entry.summary);
    let yes = |flag: bool| if flag { "yes" } else { "no" };
    let waiting = entry.waiting.join(", ");
    // A wrapper without a lock in it has no size of its own.
    let (besides, or_inner) =
        if info.is_open() { (" and those of the lock inside", ", or what that takes") } else { ("", "") };
    let memory = format!(
        "{} bytes a lock{besides}, {} more for each waiter{or_inner}{}",
        entry.bytes,
        entry.bytes_per_waiter,
        if entry.holder_node { " and for the holder" } else { "" }
    );
    let try_lock = yes(entry.try_lock);
    let mut fields: Vec<(&str, &str)> = vec![("family", &entry.family)];
    if !waiting.is_empty() {
        fields.push(("waiting", &waiting));
    }
    let rest: [(&str, &str); 8] = [
        ("fairness", &entry.fairness),
        ("memory", &memory),
        ("try", try_lock),
        ("timed", &entry.timed),
        ("properties", info.properties),
        ("avoid", info.avoid),
        ("deviations", info.deviations),
        ("citation", entry.citation),
    ];
    fields.extend(rest);
    let specs = info.specs.join(", ");
    fields.push(("specs", &specs));
    for (name, value) in fields {
        let _ = writeln!(text, "{}", paragraph(name, value));
    }
    if !info.knobs.is_empty() {
        let _ = writeln!(text, "\n{}", knobs::table(&info.knobs).trim_fmt());
    }
    if let Some(inner) = &info.inner {
        let _ = write!(text, "\n{}", self::text(inner));
    }
    text
}

/// A name and its value, wrapped and indented.
fn paragraph(name: &str, value: &str) -> String {
    const WIDTH: usize = 84;
    const INDENT: usize = 12;
    let mut lines = vec![String::new()];
    for word in value.split_whitespace() {
        let last = lines.len() - 1;
        if !lines[last].is_empty() && lines[last].chars().count() + word.chars().count() >= WIDTH {
            lines.push(word.to_owned());
        } else {
            if !lines[last].is_empty() {
                lines[last].push(' ');
            }
            lines[last].push_str(word);
        }
    }
    format!("{name:INDENT$}{}", lines.join(&format!("\n{:INDENT$}", "")))
}
