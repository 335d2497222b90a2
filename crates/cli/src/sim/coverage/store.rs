//! The runs that have been made: a line of JSON each, written as soon as a run is over. A process that is killed loses the runs
//! under way; half a line at the end of a file is ignored, and ended before more is written.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};

use crate::compare::runs::Outcome;
use crate::error::Failure;
use crate::program::describe;

/// What a run is of.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Key {
    /// Of the machine's file, the workload's options and the time.
    pub(super) setting: String,
    pub(super) threads: u32,
    pub(super) pinned: bool,
    pub(super) lock: String,
    pub(super) seed: u32,
}

/// A run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Record {
    #[serde(flatten)]
    pub(super) key: Key,
    /// For readers: the key's setting decides.
    pub(super) machine: String,
    pub(super) load: String,
    pub(super) commit: String,
    pub(super) outcome: Outcome,
    pub(super) reason: Option<String>,
    /// Sections a second.
    pub(super) throughput: f64,
    /// Of the time of a section.
    pub(super) p99_ns: f64,
    /// The longest section that ended.
    pub(super) longest_ns: f64,
    pub(super) window_ns: f64,
    pub(super) jain: f64,
    /// Threads that were in one section all the time.
    pub(super) starving: usize,
    /// The host's time.
    pub(super) took_s: f64,
}

/// The runs of a directory.
#[derive(Debug)]
pub(super) struct Store {
    path: PathBuf,
    inner: Mutex<Inner>,
    /// Shared by those that write files of their own in this directory; a process that forgets runs has it alone, for it
    /// writes all files anew.
    _directory: File,
}

#[derive(Debug)]
struct Inner {
    /// Locked: nobody else writes it.
    file: File,
    /// Whether the last line may lack its end, as the disk was full.
    torn: bool,
    runs: HashMap<Key, Record>,
}

impl Store {
    /// Reads all files of runs in a directory. New runs go into one of them, which is the part's own where the matrix is made in
    /// parts. Refuses what two processes cannot do at once: to write one file, and to forget runs while others are made.
    pub(super) fn open(
        directory: &Path,
        part: Option<(u32, u32)>,
        forget: &[String],
    ) -> Result<Self, Failure> {
        let name = match part {
            None => "runs.jsonl".to_owned(),
            Some((k, n)) => format!("runs-{k}-of-{n}.jsonl"),
        };
        let path = directory.join(name);
        let failed = |path: &Path, error: &io::Error| {
            Failure::with_status(1, format!("`{}`: {}", path.display(), describe(error)))
        };
        let lock = directory.join("runs.lock");
        let guard = OpenOptions::new().create(true).append(true).open(&lock);
        let guard = guard.map_err(|error| failed(&lock, &error))?;
        if !forget.is_empty() {
            take(&guard, FlockOperation::NonBlockingLockExclusive).map_err(|error| failed(&lock, &error))?;
        }
        let mut runs = HashMap::new();
        for path in files(directory).map_err(|error| failed(directory, &error))? {
            if !forget.is_empty() {
                drop_runs_of(&path, forget).map_err(|error| failed(&path, &error))?;
            }
            let text = fs::read_to_string(&path).map_err(|error| failed(&path, &error))?;
            let records = text.lines().filter_map(|line| serde_json::from_str::<Record>(line).ok());
            runs.extend(records.map(|record| (record.key.clone(), record)));
        }
        take(&guard, FlockOperation::NonBlockingLockShared).map_err(|error| failed(&lock, &error))?;
        let open = || {
            let mut file = OpenOptions::new().create(true).append(true).open(&path)?;
            take(&file, FlockOperation::NonBlockingLockExclusive)?;
            if fs::read(&path)?.last().is_some_and(|last| *last != b'\n') {
                file.write_all(b"\n")?;
            }
            Ok(file)
        };
        let file = open().map_err(|error: io::Error| failed(&path, &error))?;
        Ok(Store { path, inner: Mutex::new(Inner { file, torn: false, runs }), _directory: guard })
    }

    /// Whether a run has been made.
    pub(super) fn has(&self, key: &Key) -> bool {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).runs.contains_key(key)
    }

    /// Has a run count under another key, if it was made under that of older versions.
    pub(super) fn rename(&self, old: &Key, new: &Key) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(mut record) = inner.runs.remove(old) {
            record.key = new.clone();
            inner.runs.entry(new.clone()).or_insert(record);
        }
    }

    /// A run that has been made.
    pub(super) fn get(&self, key: &Key) -> Option<Record> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).runs.get(key).cloned()
    }

    /// Keeps a run.
    pub(super) fn add(&self, record: Record) -> Result<(), Failure> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let written = serde_json::to_string(&record)
            .map_err(io::Error::from)
            // In one piece: the file has whole lines whenever the process ends.
            .and_then(|line| {
                let end_of_the_last = if inner.torn { "\n" } else { "" };
                inner.file.write_all(format!("{end_of_the_last}{line}\n").as_bytes())
            });
        inner.torn = written.is_err();
        written.map_err(|error| {
            Failure::with_status(1, format!("`{}`: {}", self.path.display(), describe(&error)))
        })?;
        inner.runs.insert(record.key.clone(), record);
        Ok(())
    }
}

/// The files of runs of a directory, in the order of their names.
fn files(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.starts_with("runs") && name.ends_with(".jsonl") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Locks a file, or says who has it.
fn take(file: &File, how: FlockOperation) -> io::Result<()> {
    rustix::fs::flock(file, how).map_err(|error| match error {
        rustix::io::Errno::WOULDBLOCK => io::Error::other("another lockwork is at work here"),
        error => error.into(),
    })
}

/// Writes a file of runs anew without those of some locks. Lines that are no runs, such as those of another version, stay.
fn drop_runs_of(path: &Path, locks: &[String]) -> io::Result<()> {
    let text = fs::read_to_string(path)?;
    let is_kept = |line: &&str| {
        !serde_json::from_str::<Record>(line).is_ok_and(|record| locks.contains(&record.key.lock))
    };
    let kept: String = text.lines().filter(is_kept).flat_map(|line| [line, "\n"]).collect();
    let new = path.with_extension("jsonl.new");
    fs::write(&new, kept)?;
    fs::rename(&new, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(lock: &str, seed: u32) -> Record {
        let key = Key { setting: "0".to_owned(), threads: 2, pinned: true, lock: lock.to_owned(), seed };
        Record {
            key,
            machine: "i-20".to_owned(),
            load: "short".to_owned(),
            commit: "1".to_owned(),
            outcome: Outcome::Ok,
            reason: None,
            throughput: 1.5e6,
            p99_ns: 10.25,
            longest_ns: 20.0,
            window_ns: 1e6,
            jain: 1.0,
            starving: 0,
            took_s: 0.1,
        }
    }

    #[test]
    fn runs_survive_a_killed_process_and_half_a_line() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("runs.jsonl");
        let store = Store::open(directory.path(), None, &[]).unwrap();
        store.add(record("futex", 1)).unwrap();
        store.add(record("ttas", 1)).unwrap();
        drop(store);
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, &text[..text.len() - 20]).unwrap();
        let store = Store::open(directory.path(), None, &[]).unwrap();
        assert!(store.has(&record("futex", 1).key) && !store.has(&record("ttas", 1).key));
        store.add(record("ttas", 1)).unwrap();
        drop(store);
        let store = Store::open(directory.path(), None, &[]).unwrap();
        assert_eq!(store.get(&record("ttas", 1).key).unwrap().p99_ns, 10.25);
    }

    #[test]
    fn a_line_that_could_not_be_written_takes_no_other_along() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("runs.jsonl");
        let store = Store::open(directory.path(), None, &[]).unwrap();
        store.add(record("futex", 1)).unwrap();
        // As a disk that is full: half of the line is there, and an error.
        let swap = |file| std::mem::replace(&mut store.inner.lock().unwrap().file, file);
        let file = swap(File::open(&path).unwrap());
        assert!(store.add(record("ttas", 1)).is_err() && !store.has(&record("ttas", 1).key));
        let mut file = file;
        file.write_all(b"{\"setting\":\"0\",\"thr").unwrap();
        swap(file);
        store.add(record("ttas", 2)).unwrap();
        store.add(record("ttas", 3)).unwrap();
        drop(store);
        let store = Store::open(directory.path(), None, &[]).unwrap();
        assert!(store.has(&record("futex", 1).key) && store.has(&record("ttas", 2).key));
        assert!(store.has(&record("ttas", 3).key) && !store.has(&record("ttas", 1).key));
    }

    #[test]
    fn nobody_forgets_what_another_writes_and_two_do_not_write_one_file() {
        let directory = tempfile::tempdir().unwrap();
        let (path, forget) = (directory.path(), ["ttas".to_owned()]);
        let refused = |part, forget: &[String]| {
            let why = Store::open(path, part, forget).map(|_| ()).unwrap_err().to_string();
            assert!(why.contains("another lockwork is at work here"), "{why}");
        };
        let first = Store::open(path, Some((1, 2)), &[]).unwrap();
        first.add(record("ttas", 1)).unwrap();
        refused(None, &forget);
        refused(Some((1, 2)), &[]);
        let second = Store::open(path, Some((2, 2)), &[]).unwrap();
        assert!(second.has(&record("ttas", 1).key), "the report is of all parts");
        drop((first, second));
        let alone = Store::open(path, None, &forget).unwrap();
        assert!(!alone.has(&record("ttas", 1).key));
        refused(None, &[]);
        // It has forgotten, and only writes its own file from here on.
        assert!(Store::open(path, Some((2, 2)), &[]).is_ok());
    }

    #[test]
    fn lines_that_are_no_runs_are_kept_where_others_are_forgotten() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("runs.jsonl");
        let later = "{\"setting\":\"0\",\"lock\":\"ttas\",\"of\":\"a later version\"}";
        fs::write(&path, format!("{later}\n")).unwrap();
        let store = Store::open(directory.path(), None, &[]).unwrap();
        store.add(record("ttas", 1)).unwrap();
        store.add(record("futex", 1)).unwrap();
        drop(store);
        let store = Store::open(directory.path(), None, &["ttas".to_owned()]).unwrap();
        assert!(store.has(&record("futex", 1).key) && !store.has(&record("ttas", 1).key));
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!((text.lines().next(), text.lines().count()), (Some(later), 2));
    }

    #[test]
    fn parts_are_read_together_and_a_lock_can_be_forgotten() {
        let directory = tempfile::tempdir().unwrap();
        for part in [(1, 2), (2, 2)] {
            let store = Store::open(directory.path(), Some(part), &[]).unwrap();
            store.add(record("futex", part.0)).unwrap();
            store.add(record("ttas", part.0)).unwrap();
        }
        let store = Store::open(directory.path(), None, &["ttas".to_owned()]).unwrap();
        assert!(store.has(&record("futex", 1).key) && store.has(&record("futex", 2).key));
        assert!(!store.has(&record("ttas", 1).key) && !store.has(&record("ttas", 2).key));
    }
}
