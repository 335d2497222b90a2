//! Reading a machine's file, and saying what is wrong with it.

use std::path::Path;

use super::{MAX_CORES_PER_LLC, MAX_CPUS, MAX_LLCS, Machine};
use crate::file::{self, FileError};

impl Machine {
    /// Reads a machine's file.
    ///
    /// # Errors
    ///
    /// If it cannot be read or does not describe a machine.
    pub fn read(path: &Path) -> Result<Self, FileError> {
        Self::parse(&path.display().to_string(), &file::text_of(path)?)
    }

    /// The machine that `text` describes; `file` is its name in errors.
    ///
    /// # Errors
    ///
    /// If it does not describe a machine.
    pub fn parse(file: &str, text: &str) -> Result<Self, FileError> {
        let machine: Self = file::parse(file, text)?;
        machine.check().map_err(|(key, problem)| FileError {
            file: file.to_owned(),
            line: line_of(text, key),
            problem,
        })?;
        Ok(machine)
    }

    /// What a parser does not see; with the key that is to blame.
    pub(super) fn check(&self) -> Result<(), (&'static str, String)> {
        let at_least_one = [
            ("nodes", self.nodes),
            ("llcs-per-node", self.llcs_per_node),
            ("cores-per-llc", self.cores_per_llc),
            ("threads-per-core", self.threads_per_core),
            ("store-buffer", self.core.store_buffer),
            ("loads", self.core.loads),
        ];
        for (key, value) in at_least_one {
            if value == 0 {
                return Err((key, format!("`{key}` is 0: a machine has at least one")));
            }
        }
        if self.cores_per_llc > MAX_CORES_PER_LLC {
            return Err((
                "cores-per-llc",
                format!("at most {MAX_CORES_PER_LLC} cores share a last-level cache"),
            ));
        }
        if self.nodes.saturating_mul(self.llcs_per_node) > MAX_LLCS {
            return Err(("nodes", format!("at most {MAX_LLCS} last-level caches make a machine")));
        }
        let cpus = [self.nodes, self.llcs_per_node, self.cores_per_llc, self.threads_per_core]
            .into_iter()
            .fold(1, usize::saturating_mul);
        if cpus > MAX_CPUS {
            return Err(("threads-per-core", format!("{cpus} CPUs: a machine has at most {MAX_CPUS}")));
        }
        if !(self.ghz > 0.0 && self.ghz < 100.0) {
            return Err(("ghz", format!("`ghz` is {}: cycles of a nanosecond, for example 2.4", self.ghz)));
        }
        let shares = [("request-share", self.memory.request_share), ("slice-jitter", self.os.slice_jitter)];
        for (key, share) in shares {
            if !(0.0..=0.9).contains(&share) {
                return Err((key, format!("`{key}` is {share}: a share between 0 and 0.9")));
            }
        }
        if !(1.0..=10.0).contains(&self.core.smt_slowdown) {
            return Err(("smt-slowdown", "`smt-slowdown` is a factor between 1 and 10".to_owned()));
        }
        if self.core.pause == 0 {
            return Err(("pause", "`pause` is 0: a spinning thread would stop the time".to_owned()));
        }
        if self.os.slice_us == 0 {
            return Err(("slice-us", "`slice-us` is 0: no thread would ever run".to_owned()));
        }
        self.check_hops()
    }

    fn check_hops(&self) -> Result<(), (&'static str, String)> {
        let square = self.hops.len() == self.nodes && self.hops.iter().all(|row| row.len() == self.nodes);
        if !self.hops.is_empty() && !square {
            return Err((
                "hops",
                format!("`hops` has {0} rows of {0} numbers: one for each node", self.nodes),
            ));
        }
        for from in 0..self.nodes {
            for to in 0..self.nodes {
                let hops = self.hops_between(from, to);
                if (hops == 0) != (from == to) {
                    return Err(("hops", format!("{hops} hops from node {from} to node {to}")));
                }
                if hops != self.hops_between(to, from) {
                    return Err((
                        "hops",
                        format!("node {from} is not as far from node {to} as {to} from {from}"),
                    ));
                }
                if hops > self.memory.hop.len() {
                    let problem =
                        format!("nodes {from} and {to} are {hops} hops apart: `hop` needs that many entries");
                    return Err(("hop", problem));
                }
            }
        }
        Ok(())
    }
}

/// The line of a key, from 1.
fn line_of(text: &str, key: &str) -> Option<usize> {
    let is_it = |line: &str| line.split('=').next().is_some_and(|name| name.trim() == key);
    text.lines().position(is_it).map(|index| index + 1)
}
