//! Runs a program with the recorder on, and keeps what its processes recorded.

use std::ffi::{OsString, c_int};
use std::fs::{self, File};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus};
use std::sync::atomic::{
    AtomicI32,
    Ordering::{Relaxed, SeqCst},
};

use lockwork_config as config;
use lockwork_platform::{Clock, sys};
use lockwork_profile::format::Region;
use lockwork_profile_reader as read;
use rustix::process::{Resource, getrlimit};

use crate::environment;
use crate::error::{Failure, NOT_EXECUTABLE};
use crate::preload::{self, Library};
use crate::program::{self, beside, describe};
use crate::run::read_policy;
use crate::specs;
use crate::terminal::say;

/// While it is there, signals that would end this process are the program's: what it does then is recorded, too.
struct Signals;

/// The program, once there is one.
static PROGRAM: AtomicI32 = AtomicI32::new(0);
/// A signal that came before; 0 = none.
static EARLY: AtomicI32 = AtomicI32::new(0);

impl Signals {
    /// Listens. Before the program is started, since whoever sees it run may send one at once.
    fn listen() -> Self {
        PROGRAM.store(0, SeqCst);
        EARLY.store(0, SeqCst);
        let pass_on = pass_on as extern "C" fn(c_int) as usize;
        // A terminal sends Ctrl-C to the program, too.
        let nothing = nothing as extern "C" fn(c_int) as usize;
        for (signal, handler) in [(libc::SIGINT, nothing), (libc::SIGTERM, pass_on), (libc::SIGHUP, pass_on)]
        {
            // SAFETY: a handler that calls `kill` at most, which is safe in signal handlers. Waiting for the program goes on.
            let before = unsafe { libc::signal(signal, handler) };
            if before == libc::SIG_IGN {
                // As `nohup` wants it, of the program as well, which would get the default in place of a handler.
                // SAFETY: sets no handler.
                unsafe { libc::signal(signal, libc::SIG_IGN) };
            }
        }
        Self
    }

    /// Tells of the program, which gets what has come for it.
    fn to(&self, program: u32) {
        PROGRAM.store(program.cast_signed(), SeqCst);
        let early = EARLY.swap(0, SeqCst);
        if early != 0 {
            pass_on(early);
        }
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
            // SAFETY: sets no handler.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
    }
}

extern "C" fn nothing(_signal: c_int) {}

extern "C" fn pass_on(signal: c_int) {
    match PROGRAM.load(SeqCst) {
        0 => {
            EARLY.store(signal, SeqCst);
            // It may have been started meanwhile, and its start have looked before.
            if PROGRAM.load(SeqCst) != 0 && EARLY.swap(0, SeqCst) != 0 {
                pass_on(signal);
            }
        }
        // SAFETY: no memory is involved, and the program has not been waited for: its id is its own.
        program => _ = unsafe { libc::kill(program, signal) },
    }
}

/// What to record, and where.
#[derive(Debug)]
pub(crate) struct Request {
    /// `None` where a policy decides.
    pub(crate) lock: Option<String>,
    pub(crate) policy: Option<PathBuf>,
    pub(crate) output: PathBuf,
    pub(crate) off: bool,
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct Recorded {
    /// The program's.
    pub(crate) status: ExitCode,
    /// The file of the process that used locks most; `None` if none did.
    pub(crate) profile: Option<PathBuf>,
    /// Those of the others.
    pub(crate) others: Vec<PathBuf>,
}

/// The lock to run under, as the library is told.
pub(crate) fn lock(spec: &str, policy: Option<&Path>) -> Result<Option<String>, Failure> {
    match policy {
        Some(_) => Ok(None),
        None if spec.trim() == "pthread" => Ok(Some("passthrough".to_owned())),
        None => specs::parse(spec).map(|choice| Some(choice.to_string())),
    }
}

/// A recording: where processes record, and how they are told.
pub(crate) struct Recording {
    place: Place,
    environment: preload::Changes,
}

impl Recording {
    /// Checks the request, and that a process will be able to make its file.
    pub(crate) fn prepare(request: &Request, library: &Library) -> Result<Self, Failure> {
        if let Some(policy) = &request.policy {
            read_policy(policy)?;
        }
        let place = Place::prepare(&request.output)?;
        let settings = preload::Request {
            lock: request.lock.clone(),
            policy: request.policy.as_ref().and_then(|path| path.canonicalize().ok()),
            ..preload::Request::default()
        };
        let mut environment = preload::with_library(library, &settings);
        environment.push((config::PROFILE.name, Some(place.prefix())));
        // Programs that are linked with Intel's instrumentation interface look there for what takes names of locks.
        let notify = "INTEL_LIBITTNOTIFY64";
        if std::env::var_os(notify).is_none() {
            environment.push((notify, Some(library.path().as_os_str().to_owned())));
        }
        if request.off {
            environment.push((config::PROFILE_OFF.name, Some("1".into())));
        }
        Ok(Self { place, environment })
    }

    /// Lets a command record.
    pub(crate) fn dress(&self, command: &mut Command) {
        preload::apply(&self.environment, command);
    }

    /// The files, when the command has ended: that of the process that used locks most, if any did, and those of the others.
    pub(crate) fn collect(&self) -> Result<(Option<PathBuf>, Vec<PathBuf>), Failure> {
        self.place.collect()
    }
}

/// Runs `command` to its end.
pub(crate) fn run(request: &Request, command: &[OsString]) -> Result<Recorded, Failure> {
    environment::check()?;
    let (name, arguments) = command.split_first().ok_or_else(|| Failure::usage("no command is given"))?;
    let program = program::resolve(name)?;
    let library = Library::find()?;
    program::check_preloadable(&program)?;
    let recording = Recording::prepare(request, &library)?;
    let mut child = Command::new(&program);
    child.arg0(name).args(arguments);
    recording.dress(&mut child);
    let signals = Signals::listen();
    let mut child = child.spawn().map_err(|error| {
        let why = describe(&error);
        Failure::with_status(NOT_EXECUTABLE, format!("`{}` cannot be executed: {why}", program.display()))
    })?;
    signals.to(child.id());
    let status = child.wait();
    drop(signals);
    let status =
        status.map_err(|error| Failure::with_status(1, format!("lost sight of the program: {error}")))?;
    let (profile, others) = recording.collect()?;
    // What is there then is of another program, and would be taken for this one's.
    if profile.is_none() && read::load(&request.output).is_ok() {
        let _ = fs::remove_file(&request.output);
    }
    Ok(Recorded { status: exit_code(status), profile, others })
}

fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default());
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}

/// Where processes record: files beside the one that is asked for.
struct Place {
    output: PathBuf,
    directory: PathBuf,
    /// What the names of files begin with.
    name: OsString,
}

impl Place {
    /// Makes sure that a process will be able to make its file.
    fn prepare(output: &Path) -> Result<Self, Failure> {
        let refuse = |error: &std::io::Error| {
            let mend = match error.kind() {
                std::io::ErrorKind::StorageFull => {
                    "; a process needs 30 MB there, give another place by --output"
                }
                _ => "; give another place by --output",
            };
            Failure::usage(format!("cannot record in `{}`: {}{mend}", output.display(), describe(error)))
        };
        let parent =
            output.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let directory = parent.canonicalize().map_err(|error| refuse(&error))?;
        let Some(file) = output.file_name().filter(|_| !output.is_dir()) else {
            return Err(refuse(&std::io::ErrorKind::IsADirectory.into()));
        };
        let bytes = size_of::<Region>() as u64;
        // To make a larger file ends a process by a signal.
        if getrlimit(Resource::Fsize).current.is_some_and(|most| most < bytes) {
            return Err(Failure::usage(
                "cannot record: files may not be as large as the 30 MB that a process needs; raise that limit (ulimit -f)",
            ));
        }
        let mut name = file.to_owned();
        name.push(format!(".{}.recording", std::process::id()));
        let place = Self { output: directory.join(file), directory, name };
        let mut probe = place.prefix();
        probe.push(".probe");
        let made = File::create_new(&probe).and_then(|file| {
            let room = rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, bytes);
            match room {
                Err(rustix::io::Errno::OPNOTSUPP) => Ok(()),
                room => room.map_err(Into::into),
            }
        });
        let _ = fs::remove_file(&probe);
        made.map_err(|error| refuse(&error))?;
        Ok(place)
    }

    fn prefix(&self) -> OsString {
        self.directory.join(&self.name).into_os_string()
    }

    /// Gives the files their names: the busiest process's, and the others'. Fails where something was recorded and none of it can
    /// be read: that no lock was used would be a verdict on what nobody has seen.
    fn collect(&self) -> Result<(Option<PathBuf>, Vec<PathBuf>), Failure> {
        let mut found = Vec::new();
        let mut unreadable = Vec::new();
        // A directory that cannot be read hides recordings: that is no verdict either.
        let cannot = |error: std::io::Error| {
            let why = describe(&error);
            let directory = self.directory.display();
            Failure::with_status(
                1,
                format!("recordings in `{directory}` cannot be found: {why}; give another place by --output"),
            )
        };
        for entry in fs::read_dir(&self.directory).map_err(cannot)? {
            let entry = entry.map_err(cannot)?;
            if !entry.file_name().to_string_lossy().starts_with(&*self.name.to_string_lossy()) {
                continue;
            }
            let path = entry.path();
            match read::load(&path) {
                Ok(region) if region.header.locks.load(Relaxed) != 0 => {
                    found.push((business(&region), region, path))
                }
                Ok(_) => _ = fs::remove_file(&path),
                Err(error) => unreadable.push(complaint(&path, &error)),
            }
        }
        match &unreadable[..] {
            [first, ..] if found.is_empty() => return Err(Failure::with_status(1, first)),
            others => others.iter().for_each(|why| say!("lockwork: {why}")),
        }
        found.sort_by_key(|(business, ..)| std::cmp::Reverse(*business));
        let mut kept = Vec::new();
        for (number, (_, region, path)) in found.iter().enumerate() {
            let target = match number {
                0 => self.output.clone(),
                _ => beside(&self.output, &number.to_string()),
            };
            let header = &region.header;
            // A process that still runs goes on recording in its file.
            let runs = Path::new(&format!("/proc/{}", header.pid.load(Relaxed))).exists();
            if runs {
                fs::rename(path, &target)
            } else {
                if header.ended_ns.load(Relaxed) == 0 {
                    header.ended_ns.store(sys::now(Clock::Monotonic), Relaxed);
                    // It was killed, and has used more since it noted that.
                    header.cpu_ns.store(0, Relaxed);
                }
                match read::store(region, &target) {
                    Ok(()) => fs::remove_file(path),
                    // The file that there is takes no more room.
                    Err(_) => fs::rename(path, &target),
                }
            }
            .map_err(|error| {
                let why = describe(&error);
                Failure::with_status(
                    1,
                    format!("`{}` cannot be written: {why}; it is in `{}`", target.display(), path.display()),
                )
            })?;
            kept.push(target);
        }
        let mut kept = kept.into_iter();
        Ok((kept.next(), kept.collect()))
    }
}

/// That a recording cannot be read, and what to do.
fn complaint(path: &Path, error: &std::io::Error) -> String {
    let why = describe(error);
    format!(
        "`{}` was recorded and cannot be read: {why}; if the preload library and this command are of different builds, \
         install both anew, else record again",
        path.display()
    )
}

/// What tells the process that is meant from the shells around it.
pub(crate) fn business(region: &Region) -> (u64, u64) {
    let locks = &region.locks;
    let waited = locks.iter().map(|lock| lock.wait_ns.load(Relaxed)).sum();
    let acquired =
        locks.iter().map(|lock| lock.contended.load(Relaxed) + lock.uncontended.load(Relaxed)).sum();
    (acquired, waited)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place() -> (tempfile::TempDir, Place) {
        let directory = tempfile::tempdir().expect("a directory");
        let place = Place::prepare(&directory.path().join("profile")).expect("room for a recording");
        (directory, place)
    }

    #[test]
    fn a_program_that_used_no_lock_recorded_nothing() {
        let (_directory, place) = place();
        assert_eq!(place.collect().expect("nothing to read"), (None, Vec::new()));
    }

    #[test]
    fn a_directory_that_is_gone_is_no_verdict() {
        let (directory, place) = place();
        drop(directory);
        let failure = place.collect().expect_err("nothing can be found there").to_string();
        assert!(failure.contains("cannot be found: no such file"), "{failure}");
    }

    #[test]
    fn what_cannot_be_read_is_no_verdict() {
        let (_directory, place) = place();
        let mut recording = place.prefix();
        recording.push(".1");
        fs::write(&recording, "of another build").expect("written");
        let failure = place.collect().expect_err("unreadable").to_string();
        assert!(failure.contains("cannot be read") && failure.contains("install both anew"), "{failure}");
        assert!(Path::new(&recording).exists());
    }
}
