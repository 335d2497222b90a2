//! The compilation database: how each file is compiled.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::error::Error;

/// How one file is compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Command {
    /// Where the compiler runs.
    pub directory: PathBuf,
    /// The file, absolute.
    pub file: PathBuf,
    /// The arguments that matter to the meaning of the text.
    pub arguments: Vec<String>,
}

#[derive(Deserialize)]
struct Entry {
    directory: PathBuf,
    file: PathBuf,
    #[serde(default)]
    arguments: Vec<String>,
    #[serde(default)]
    command: String,
}

/// What a compilation database has.
#[derive(Debug)]
pub(crate) struct Database {
    /// How the files are compiled.
    pub commands: Vec<Command>,
    /// Other commands that compile some of these files otherwise.
    pub others: Vec<Command>,
    /// Files that are not there any more, as those by which a build tries the compiler.
    pub gone: Vec<PathBuf>,
    /// The directory that it is in.
    pub directory: PathBuf,
}

/// Reads `compile_commands.json`, or the one in a directory. A file that is compiled twice in the same way (as libtool does) counts once.
///
/// # Errors
///
/// If there is none, or it is something else.
pub(crate) fn read(path: &Path) -> Result<Database, Error> {
    let path = if path.is_dir() { path.join("compile_commands.json") } else { path.to_owned() };
    let text = std::fs::read_to_string(&path).map_err(|source| Error::file(&path, source))?;
    let wrong = |reason: String| Error::Database { path: path.clone(), reason };
    let entries: Vec<Entry> = serde_json::from_str(&text).map_err(|reason| wrong(reason.to_string()))?;
    let base = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // Where it is, and not where a link to it is.
    let place = path.canonicalize().map_err(|source| Error::file(&path, source))?;
    let place = place.parent().unwrap_or(Path::new("/")).to_owned();
    let mut seen: BTreeMap<PathBuf, BTreeSet<Vec<String>>> = BTreeMap::new();
    let (mut commands, mut others, mut gone) = (Vec::new(), Vec::new(), Vec::new());
    for entry in entries {
        let directory = absolute(base, &entry.directory);
        let file = absolute(&directory, &entry.file);
        if file.extension().is_none_or(|extension| extension != "c") {
            continue;
        }
        if !file.is_file() {
            if seen.insert(file.clone(), BTreeSet::new()).is_none() {
                gone.push(file);
            }
            continue;
        }
        let arguments = if entry.arguments.is_empty() {
            shlex::split(&entry.command)
                .ok_or_else(|| wrong(format!("the command of {} is no shell command", file.display())))?
        } else {
            entry.arguments
        };
        let arguments = meaningful(&arguments, &directory, &file);
        // libtool says by a macro that code is for a shared library.
        let mut compared = arguments.clone();
        compared.retain(|argument| argument != "-DPIC");
        let of_file = seen.entry(file.clone()).or_default();
        let is_first = of_file.is_empty();
        if of_file.insert(compared) {
            let all = if is_first { &mut commands } else { &mut others };
            all.push(Command { directory, file, arguments });
        }
    }
    match (commands.is_empty(), gone.first()) {
        (true, None) => Err(wrong("it names no C file".to_owned())),
        (true, Some(file)) => Err(wrong(format!("none of its files is there, as {}", file.display()))),
        (false, _) => Ok(Database { commands, others, gone, directory: place }),
    }
}

fn absolute(base: &Path, path: &Path) -> PathBuf {
    let joined = base.join(path);
    joined.canonicalize().unwrap_or(joined)
}

/// The arguments without the compiler, the file, what is written where, warnings, optimisations and the making of dependencies.
fn meaningful(arguments: &[String], directory: &Path, file: &Path) -> Vec<String> {
    let mut kept = Vec::new();
    let mut rest = arguments.iter().skip(1);
    while let Some(argument) = rest.next() {
        let takes_another = matches!(argument.as_str(), "-o" | "-MF" | "-MT" | "-MQ");
        if takes_another {
            rest.next();
        }
        let is_dropped = takes_another
            || argument == "-c"
            || ["-W", "-f", "-O", "-M"].iter().any(|prefix| argument.starts_with(prefix))
            || !argument.starts_with('-') && absolute(directory, Path::new(argument)) == file;
        if !is_dropped {
            kept.push(argument.clone());
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_bears_on_the_meaning_is_kept() {
        let all = "cc -Wall -O2 -Iinclude -DX=1 -include config.h -MF a.d -c -o a.o a.c -std=gnu11 -pthread";
        let kept =
            meaningful(&shlex::split(all).expect("a command"), Path::new("/src"), Path::new("/src/a.c"));
        assert_eq!(kept, ["-Iinclude", "-DX=1", "-include", "config.h", "-std=gnu11", "-pthread"]);
    }
}
