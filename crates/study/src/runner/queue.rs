//! A work list in files on a file system that all nodes of a cluster share.
//!
//! `todo` has a file for each unit. A task takes the first unit by renaming it into `taken`, which only one task can, writes a file
//! into `done` for every result, and takes the next until the list is empty. The coordinator collects `done`, and puts back the units
//! of jobs that are gone.
//!
//! Nothing is lost whoever is killed, whenever: a result is in `done` or collected or still in a unit, and counts once, however
//! often it is handed in. A coordinator that starts anew goes on from the files.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::Error;

/// A unit of the work list.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Unit<K> {
    pub(super) keys: Vec<K>,
    /// How many jobs have taken it and vanished.
    pub(super) tries: u32,
}

/// The files of a work list.
#[derive(Debug, Clone)]
pub(super) struct Queue {
    pub(super) root: PathBuf,
}

pub(super) fn failed(path: &Path, error: &io::Error) -> Error {
    Error::Campaign(format!("{}: {error}", path.display()))
}

impl Queue {
    pub(super) fn directory(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    pub(super) fn make(&self) -> Result<(), Error> {
        for name in ["todo", "taken", "done", "log"] {
            let path = self.directory(name);
            fs::create_dir_all(&path).map_err(|error| failed(&path, &error))?;
        }
        Ok(())
    }

    /// The names in a directory, in the order of the alphabet, which is that of the units.
    pub(super) fn names(&self, name: &str) -> Result<Vec<String>, Error> {
        let path = self.directory(name);
        let entries = fs::read_dir(&path).map_err(|error| failed(&path, &error))?;
        let mut names: Vec<String> = entries
            .flatten()
            .filter_map(|entry| entry.file_name().into_string().ok())
            // What is being written begins with a dot.
            .filter(|name| !name.starts_with('.'))
            .collect();
        names.sort_unstable();
        Ok(names)
    }

    /// Writes a file so that it is there whole or not at all.
    pub(super) fn write(&self, directory: &str, name: &str, value: &impl Serialize) -> Result<(), Error> {
        let directory = self.directory(directory);
        let (draft, path) = (directory.join(format!(".{name}.{}", std::process::id())), directory.join(name));
        let text = serde_json::to_string(value).expect("plain data");
        fs::write(&draft, text)
            .and_then(|()| fs::File::open(&draft)?.sync_all())
            .and_then(|()| fs::rename(&draft, &path))
            .map_err(|error| failed(&path, &error))
    }

    pub(super) fn read<T: DeserializeOwned>(&self, directory: &str, name: &str) -> Option<T> {
        serde_json::from_str(&fs::read_to_string(self.directory(directory).join(name)).ok()?).ok()
    }

    /// Whether a result was handed in and not collected yet.
    pub(super) fn has_done(&self, name: &str) -> bool {
        self.directory("done").join(name).exists()
    }

    /// Takes the first unit of the list for a job.
    pub(super) fn take<K: DeserializeOwned>(&self, job: &str) -> Result<Option<(String, Unit<K>)>, Error> {
        for name in self.names("todo")? {
            let taken = format!("{name}@{job}");
            // Fails if another task was quicker.
            if fs::rename(self.directory("todo").join(&name), self.directory("taken").join(&taken)).is_ok()
                && let Some(unit) = self.read("taken", &taken)
            {
                return Ok(Some((taken, unit)));
            }
        }
        Ok(None)
    }

    pub(super) fn remove(&self, directory: &str, name: &str) {
        // Gone already if somebody else has removed it: all the better.
        let _ = fs::remove_file(self.directory(directory).join(name));
    }
}

/// This task, as `squeue` calls it.
pub(super) fn job() -> String {
    let variable = |name: &str| std::env::var(name).ok();
    match (variable("SLURM_ARRAY_JOB_ID"), variable("SLURM_ARRAY_TASK_ID")) {
        (Some(job), Some(task)) => format!("{job}_{task}"),
        _ => variable("SLURM_JOB_ID").unwrap_or_else(|| format!("pid{}", std::process::id())),
    }
}
