//! Finds the program to start, and refuses those into which nothing can be preloaded.
//!
//! The dynamic loader ignores `LD_PRELOAD` without a word in static programs and in programs that gain
//! privileges; that is why this looks before anything is started.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::elf;
use crate::error::{Failure, NOT_EXECUTABLE, NOT_FOUND};

/// Interpreters of interpreters: the kernel's own limit.
const MAX_SCRIPT_DEPTH: usize = 5;

/// Finds `name` as a shell does: by path when it contains a slash, else in `PATH`.
pub(crate) fn resolve(name: &OsStr) -> Result<PathBuf, Failure> {
    let not_found = |detail: &str| {
        let name = name.to_string_lossy();
        Failure::with_status(NOT_FOUND, format!("program `{name}` not found{detail}"))
    };
    if name.is_empty() {
        return Err(not_found(": its name is empty"));
    }
    if name.as_bytes().contains(&b'/') {
        let path = PathBuf::from(name);
        return match executable(&path) {
            Ok(()) => Ok(path),
            Err(Obstacle::Absent) => Err(not_found("; check the path")),
            Err(Obstacle::NotExecutable(why)) => Err(not_executable(&path, &why)),
        };
    }
    let search = std::env::var_os("PATH").unwrap_or_else(|| OsString::from("/usr/local/bin:/usr/bin:/bin"));
    let mut obstacle = None;
    for directory in std::env::split_paths(&search) {
        let path =
            if directory.as_os_str().is_empty() { Path::new(".").join(name) } else { directory.join(name) };
        match executable(&path) {
            Ok(()) => return Ok(path),
            Err(Obstacle::Absent) => {}
            Err(Obstacle::NotExecutable(why)) => {
                obstacle.get_or_insert((path, why));
            }
        }
    }
    match obstacle {
        Some((path, why)) => Err(not_executable(&path, &why)),
        None if Path::new(name).exists() => {
            Err(not_found(&format!(" in PATH; for the one here write `./{}`", name.to_string_lossy())))
        }
        None => Err(not_found(" in PATH; check the spelling, or give its path")),
    }
}

fn not_executable(path: &Path, why: &str) -> Failure {
    Failure::with_status(NOT_EXECUTABLE, format!("`{}` cannot be executed: {why}", path.display()))
}

enum Obstacle {
    Absent,
    NotExecutable(String),
}

fn executable(path: &Path) -> Result<(), Obstacle> {
    let metadata = fs::metadata(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Obstacle::Absent,
        _ => Obstacle::NotExecutable(describe(&error)),
    })?;
    if metadata.is_dir() {
        return Err(Obstacle::NotExecutable("it is a directory".to_owned()));
    }
    if metadata.permissions().mode() & 0o111 == 0 {
        return Err(Obstacle::NotExecutable("it is not executable; chmod +x it".to_owned()));
    }
    rustix::fs::access(path, rustix::fs::Access::EXEC_OK)
        .map_err(|error| Obstacle::NotExecutable(describe(&error.into())))
}

/// The path of a file beside another, whose name is followed by this.
pub(crate) fn beside(path: &Path, what: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(what);
    name.into()
}

/// An I/O error without Rust's ` (os error 2)`, its first letter small as it ends a sentence.
pub(crate) fn describe(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let mut chars = text.chars();
    chars.next().map(|first| first.to_lowercase().chain(chars).collect()).unwrap_or_default()
}

/// Refuses a program that would run without our library although it was asked for.
///
pub(crate) fn check_preloadable(path: &Path) -> Result<(), Failure> {
    check(path, path, 0)
}

fn check(program: &Path, path: &Path, depth: usize) -> Result<(), Failure> {
    let refuse = |why: String| {
        let through =
            if program == path { String::new() } else { format!(" (its interpreter `{}`)", path.display()) };
        Failure::usage(format!("`{}`{through} cannot run under another lock: {why}", program.display()))
    };
    if let Some(why) = privileges(path) {
        return Err(refuse(why));
    }
    let headers = elf::read(path).map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => refuse("it cannot be read, so it cannot be checked".to_owned()),
        _ => refuse(format!("it is no valid program: {}", describe(&error))),
    })?;
    let Some(headers) = headers else {
        let next = interpreter_of_script(path).map_err(|error| refuse(describe(&error)))?;
        if depth == MAX_SCRIPT_DEPTH {
            return Err(refuse("its interpreters are scripts, more than five deep".to_owned()));
        }
        return check(program, &next, depth + 1);
    };
    if let Some(why) = headers.mismatch() {
        return Err(refuse(format!("{why}, and the library is not; build Lockwork for it")));
    }
    match headers.interpreter {
        None => Err(refuse(
            "it is statically linked, and the dynamic loader alone can load the library; link it dynamically"
                .to_owned(),
        )),
        Some(loader) if loader.contains("ld-musl") => {
            Err(refuse("it is linked with musl, and the library needs glibc; build it with glibc".to_owned()))
        }
        Some(_) => Ok(()),
    }
}

/// How a program gains privileges, which makes the loader ignore `LD_PRELOAD`.
fn privileges(path: &Path) -> Option<String> {
    let mend = "the dynamic loader then ignores LD_PRELOAD; run a copy without it";
    let mode = fs::metadata(path).map(|metadata| metadata.mode()).unwrap_or_default();
    if mode & 0o4000 != 0 {
        return Some(format!("it is setuid, and {mend}"));
    }
    // Without the group's execute bit the bit means mandatory locking, not setgid.
    if mode & 0o2010 == 0o2010 {
        return Some(format!("it is setgid, and {mend}"));
    }
    let mut value = [0u8; 64];
    match rustix::fs::getxattr(path, "security.capability", &mut value[..]) {
        Ok(length) if length > 0 => Some(format!("it has file capabilities, and {mend}")),
        _ => None,
    }
}

/// The program that executes a script: what its `#!` line says, through `env` when that is it, else `/bin/sh`.
fn interpreter_of_script(path: &Path) -> io::Result<PathBuf> {
    let mut line = Vec::new();
    File::open(path)?.take(512).read_to_end(&mut line)?;
    let Some(rest) = line.strip_prefix(b"#!") else {
        return Ok(PathBuf::from("/bin/sh"));
    };
    let rest = rest.split(|&byte| byte == b'\n').next().unwrap_or_default().trim_ascii();
    let mut words = rest.split(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty());
    let interpreter = words.next().map(|word| PathBuf::from(OsString::from_vec(word.to_vec())));
    let interpreter = interpreter.ok_or_else(|| io::Error::other("its `#!` line names no interpreter"))?;
    if interpreter.file_name() == Some(OsStr::new("env")) {
        let named = words.find(|word| !word.starts_with(b"-") && !word.contains(&b'='));
        if let Some(found) = named.and_then(|word| resolve(OsStr::from_bytes(word)).ok()) {
            return Ok(found);
        }
    }
    if !interpreter.exists() {
        return Err(io::Error::other(format!("its interpreter `{}` does not exist", interpreter.display())));
    }
    Ok(interpreter)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(directory: &Path, name: &str, text: &str, mode: u32) -> PathBuf {
        let path = directory.join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    #[test]
    fn statuses_are_a_shells() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(resolve(OsStr::new("no-such-program-anywhere")).unwrap_err().status, NOT_FOUND);
        assert_eq!(resolve(OsStr::new("")).unwrap_err().status, NOT_FOUND);
        assert_eq!(resolve(OsStr::new("/no/such")).unwrap_err().status, NOT_FOUND);
        assert_eq!(resolve(OsStr::new("/tmp")).unwrap_err().status, NOT_EXECUTABLE);
        let plain = script(directory.path(), "plain", "", 0o644);
        assert_eq!(resolve(plain.as_os_str()).unwrap_err().status, NOT_EXECUTABLE);
        assert!(resolve(OsStr::new("sh")).unwrap().is_absolute());
    }

    #[test]
    fn scripts_are_followed() {
        let directory = tempfile::tempdir().unwrap();
        for (name, text) in
            [("sh", "#!/bin/sh\n"), ("env", "#! /usr/bin/env -S FOO=1 sh -e\n"), ("none", "echo\n")]
        {
            let path = script(directory.path(), name, text, 0o755);
            let interpreter = interpreter_of_script(&path).unwrap();
            assert_eq!(interpreter.file_name(), Some(OsStr::new("sh")), "{name}");
            check_preloadable(&path).unwrap();
        }
        let path = script(directory.path(), "missing", "#!/no/such/interpreter\n", 0o755);
        assert!(check_preloadable(&path).unwrap_err().to_string().contains("does not exist"));
        let own = directory.path().join("loop");
        let path = script(directory.path(), "loop", &format!("#!{}\n", own.display()), 0o755);
        assert!(check_preloadable(&path).unwrap_err().to_string().contains("five deep"));
    }

    #[test]
    fn privileged_programs_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let copy = directory.path().join("true");
        fs::copy("/bin/true", &copy).unwrap();
        check_preloadable(&copy).unwrap();
        for (mode, word) in [(0o4755, "setuid"), (0o2755, "setgid")] {
            fs::set_permissions(&copy, fs::Permissions::from_mode(mode)).unwrap();
            let failure = check_preloadable(&copy).unwrap_err();
            assert!(failure.to_string().contains(word), "{failure}");
            assert_eq!(failure.status, 2);
        }
    }
}
