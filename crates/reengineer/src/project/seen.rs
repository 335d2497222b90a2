//! The lock calls that were seen in the running program: which sections of the text they begin.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::{Finding, Project, line_of};
use crate::call::{self, Seen};
use crate::section::Refusal;

/// A call of a function.
#[derive(Debug)]
pub(super) struct CallSite {
    pub(super) file: PathBuf,
    pub(super) line: usize,
    /// The function that calls.
    pub(super) function: String,
    pub(super) callee: String,
}

impl Project {
    /// What the calls of the choice are in the text.
    pub(super) fn seen(&self) -> Vec<Seen> {
        let Some(calls) = &self.choice.calls else { return Vec::new() };
        let mut places: Vec<call::Place<'_>> = self.findings.iter().map(|found| self.place(found)).collect();
        // A function that ends by taking a lock for its caller jumps to the lock call, and is in no stack.
        let takes_for_callers = |found: &&Finding| found.refusal() == Some(&Refusal::Leaves);
        let mut takers: BTreeMap<&str, &Finding> = BTreeMap::new();
        for found in self.findings.iter().filter(takes_for_callers) {
            takers.insert(&found.section.function, found);
        }
        places.extend(self.calls.iter().filter_map(|call| {
            let taker = takers.get(call.callee.as_str())?;
            Some(call::Place {
                file: &call.file,
                function: &call.function,
                lines: BTreeSet::from([call.line]),
                begin: (&taker.file, taker.line),
                mutex: taker.mutex,
                is_whole: false,
            })
        }));
        let files: BTreeSet<&Path> = self.commands.iter().map(|command| command.file.as_path()).collect();
        calls.iter().map(|call| call::seen(call, &places, &files)).collect()
    }

    /// A section as calls are compared with it.
    fn place<'a>(&self, found: &'a Finding) -> call::Place<'a> {
        let line =
            |offset: usize| self.texts.get(&found.file).map_or(found.line, |text| line_of(text, offset));
        let plan = found.section.plan.as_ref().ok();
        let again = plan.into_iter().flat_map(|plan| &plan.covered).map(|call| line(*call));
        let statement = found.line..=line(found.section.call).max(found.line);
        call::Place {
            file: &found.file,
            function: &found.section.function,
            lines: statement.chain(again).collect(),
            begin: (&found.file, found.line),
            mutex: found.mutex,
            is_whole: plan.is_some(),
        }
    }

    /// Whether a call of the choice takes a mutex.
    pub(super) fn was_seen(&self, wanted: Option<usize>) -> bool {
        let takes =
            |seen: &Seen| matches!(seen, Seen::Section { mutex: Some(mutex), .. } if Some(*mutex) == wanted);
        self.seen.iter().any(takes)
    }
}
