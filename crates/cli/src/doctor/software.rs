//! The library, and the program it is to go under.

use std::ffi::OsStr;
use std::process::{Command, Stdio};

use super::Check;
use crate::elf;
use crate::preload::{self, Library, Request};
use crate::program;

/// Looks for the library and tries it under a program that does nothing.
pub(super) fn library(checks: &mut Vec<Check>) -> Option<Library> {
    match Library::find() {
        Err(failure) => {
            checks.push(Check::fail(
                "library",
                failure.to_string(),
                "`lockwork run` refuses to start anything",
            ));
            None
        }
        Ok(library) => {
            checks.push(try_loading(&library));
            Some(library)
        }
    }
}

fn try_loading(library: &Library) -> Check {
    let path = library.path().display().to_string();
    let mut command = Command::new("/bin/true");
    let request = Request { lock: Some("passthrough".to_owned()), ..Request::default() };
    preload::apply(&preload::with_library(library, &request), &mut command);
    match command.stdin(Stdio::null()).output() {
        // The loader complains on stderr and goes on.
        Ok(output) if output.status.success() && output.stderr.is_empty() => {
            Check::ok("library", path, "loads")
        }
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            let said = said.lines().next().unwrap_or("it said nothing").to_owned();
            Check::fail(
                "library",
                format!("{path}: /bin/true under it ended with {}: {said}", output.status),
                "rebuild it on this machine",
            )
        }
        Err(error) => Check::warn("library", path, format!("could not be tried: {error}")),
    }
}

/// Looks at a program as `lockwork run` would.
pub(super) fn program(name: &OsStr, library: Option<&Library>, checks: &mut Vec<Check>) {
    let path = match program::resolve(name) {
        Ok(path) => path,
        Err(failure) => {
            checks.push(Check::fail("program", failure.to_string(), "nothing to run"));
            return;
        }
    };
    match program::check_preloadable(&path) {
        Err(failure) => {
            checks.push(Check::fail("program", failure.to_string(), "`lockwork run` refuses it"));
        }
        Ok(()) => {
            let finding = format!("{} can be preloaded into", path.display());
            let consequence = if library.is_some() {
                "can run under any lock"
            } else {
                "can run, once the library is there"
            };
            checks.push(Check::ok("program", finding, consequence));
            checks.extend(habits(&elf::imports(&path)));
        }
    }
}

/// What a program does that some locks do not bear as glibc's mutex does, as far as its imports show it.
struct Habit {
    name: &'static str,
    functions: &'static [&'static str],
    consequence: &'static str,
}

const HABITS: [Habit; 2] = [
    Habit {
        name: "signals",
        functions: &["pthread_kill", "tgkill", "pthread_sigqueue"],
        consequence: "if a handler stops threads, a lock that hands itself over may wait for one of them: see README, Limits",
    },
    Habit {
        name: "priorities",
        functions: &[
            "sched_setscheduler",
            "sched_setparam",
            "pthread_setschedparam",
            "pthread_setschedprio",
            "pthread_attr_setschedpolicy",
        ],
        consequence: "real-time threads can stall each other in queue locks where they cannot in glibc's: see README, Limits",
    },
];

fn habits(imports: &[String]) -> Vec<Check> {
    let of = |habit: &Habit| {
        let used: Vec<&str> = habit
            .functions
            .iter()
            .copied()
            .filter(|function| imports.iter().any(|name| name == function))
            .collect();
        (!used.is_empty()).then(|| {
            Check::warn(habit.name, format!("the program imports {}", used.join(", ")), habit.consequence)
        })
    };
    HABITS.iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_warned_of_by_what_it_imports() {
        let names = |imports: &[&str]| -> Vec<String> {
            let imports: Vec<String> = imports.iter().map(|&name| name.to_owned()).collect();
            habits(&imports).into_iter().map(|check| check.name.to_owned()).collect()
        };
        assert!(names(&["malloc", "pthread_mutex_lock"]).is_empty());
        assert_eq!(names(&["malloc", "pthread_kill"]), ["signals"]);
        assert_eq!(names(&["sched_setscheduler", "tgkill"]), ["signals", "priorities"]);
    }
}
