//! liblockwork.so: where it is, and the environment that puts it under a program.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use lockwork_config::{self as config, Reader};
use object::elf::ET_DYN;

use crate::calibration;
use crate::elf;
use crate::error::Failure;
use crate::program::describe;

const FILE_NAME: &str = "liblockwork.so";

/// The library, found and checked.
#[derive(Debug, Clone)]
pub(crate) struct Library {
    path: PathBuf,
}

impl Library {
    /// Looks at `LOCKWORK_SO`, else beside this program, in `../lib` and in `../lib/lockwork`.
    pub(crate) fn find() -> Result<Self, Failure> {
        let (path, origin) = match std::env::var_os(config::SO.name).filter(|value| !value.is_empty()) {
            Some(path) => (PathBuf::from(path), ", which LOCKWORK_SO names,"),
            None => (installed()?, ""),
        };
        Library::at(&path, origin)
    }

    /// The library of this path; `origin` follows the path in errors.
    pub(crate) fn at(path: &Path, origin: &str) -> Result<Self, Failure> {
        let refuse = |why: &str| {
            let mend = "run `cargo build --release`, or set LOCKWORK_SO to its path";
            Failure::usage(format!("library `{}`{origin} {why}; {mend}", path.display()))
        };
        let absolute =
            path.canonicalize().map_err(|error| refuse(&format!("cannot be used: {}", describe(&error))))?;
        match elf::read(&absolute) {
            Err(error) => return Err(refuse(&format!("cannot be read: {}", describe(&error)))),
            Ok(Some(headers)) if headers.kind == ET_DYN.0 && headers.mismatch().is_none() => {}
            Ok(_) => return Err(refuse("is no shared library of this machine")),
        }
        // The loader splits LD_PRELOAD at these and knows no quoting.
        if absolute.as_os_str().as_bytes().iter().any(|byte| b" :".contains(byte)) {
            return Err(refuse("has a blank or colon in its path, which LD_PRELOAD cannot express"));
        }
        Ok(Library { path: absolute })
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

fn installed() -> Result<PathBuf, Failure> {
    let own = std::env::current_exe().map_err(|error| {
        Failure::usage(format!("where this program is is unknown: {error}; set LOCKWORK_SO"))
    })?;
    let directory = own.parent().unwrap_or(Path::new("/"));
    let candidates =
        ["", "../lib", "../lib/lockwork"].map(|relative| directory.join(relative).join(FILE_NAME));
    match candidates.iter().find(|candidate| candidate.exists()) {
        Some(found) => Ok(found.clone()),
        None => Err(Failure::usage(format!(
            "{FILE_NAME} is neither beside `{}` nor in ../lib of it; run `cargo build --release`, or set \
             LOCKWORK_SO to its path",
            own.display()
        ))),
    }
}

/// What the library is to do.
#[derive(Debug, Clone, Default)]
pub(crate) struct Request {
    pub(crate) lock: Option<String>,
    /// An absolute path.
    pub(crate) policy: Option<PathBuf>,
    pub(crate) verbose: bool,
    pub(crate) no_follow: bool,
}

/// Changes to a program's environment: a variable's new value, or `None` where it must not be set.
pub(crate) type Changes = Vec<(&'static str, Option<OsString>)>;

/// The environment for a program under `library`; an existing `LD_PRELOAD` is kept behind ours.
pub(crate) fn with_library(library: &Library, request: &Request) -> Changes {
    let mut preload = library.path.clone().into_os_string();
    if let Some(others) = others_preloaded(Some(library)) {
        preload.push(":");
        preload.push(others);
    }
    let flag = |set: bool| set.then(|| OsString::from("1"));
    vec![
        ("LD_PRELOAD", Some(preload)),
        (config::LOCK.name, request.lock.as_ref().map(OsString::from)),
        (config::POLICY.name, request.policy.clone().map(PathBuf::into_os_string)),
        // `run` becomes the program, which then finds its own id here: it reports even if it used no lock.
        (config::VERBOSE.name, request.verbose.then(|| std::process::id().to_string().into())),
        (config::NO_FOLLOW.name, flag(request.no_follow)),
        (config::SPIN_NS.name, spin_ns()),
    ]
}

/// What the user has set, else what was calibrated; without either the library has a default.
fn spin_ns() -> Option<OsString> {
    let given = std::env::var_os(config::SPIN_NS.name).filter(|value| !value.is_empty());
    given.or_else(|| Some(calibration::round_trip_ns()?.to_string().into()))
}

/// The environment for a program without any of this: no variable that the library reads is set.
pub(crate) fn without_library(library: Option<&Library>) -> Changes {
    let mut changes: Changes =
        config::read_by(Reader::Library).map(|variable| (variable.name, None)).collect();
    changes.push(("LD_PRELOAD", others_preloaded(library)));
    changes
}

/// `LD_PRELOAD` as it is, less our own library, whether from this place or another.
fn others_preloaded(library: Option<&Library>) -> Option<OsString> {
    let value = std::env::var_os("LD_PRELOAD")?;
    let kept: Vec<&[u8]> = value
        .as_bytes()
        .split(|byte| b" :".contains(byte))
        .filter(|entry| !entry.is_empty())
        .filter(|entry| {
            let path = Path::new(OsStr::from_bytes(entry));
            path.file_name() != Some(OsStr::new(FILE_NAME)) && library.is_none_or(|ours| path != ours.path)
        })
        .collect();
    let joined = kept.join(&b':');
    (!joined.is_empty()).then(|| OsStr::from_bytes(&joined).to_owned())
}

/// Applies `changes` to a command.
pub(crate) fn apply(changes: &Changes, command: &mut std::process::Command) {
    for (name, value) in changes {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
}
