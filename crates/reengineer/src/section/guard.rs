//! The preprocessor's lines around nothing but one statement: a lock that is compiled under a condition, and releases under the same.

use std::ops::Range;

use super::text::without_comment;
use super::{Refusal, View};
use crate::rule::Rule;
use crate::tree::Node;

/// A `#ifdef NAME` or `#ifndef NAME` around nothing but one statement.
#[derive(Clone, Debug)]
pub(super) struct Guard {
    /// Whole lines, from the first one's beginning to the end of `#endif`.
    pub(super) range: Range<usize>,
    /// Its first line, without comments.
    pub(super) condition: String,
}

impl View<'_> {
    /// What the preprocessor has around nothing but a statement.
    pub(super) fn guard(&self, statement: &Node) -> Option<Guard> {
        let before = self.text.get(..statement.range.start)?;
        let after = self.text.get(self.end(statement)..)?;
        let begin = before.trim_end().rfind('\n')? + 1;
        let (first, rest) = before[begin..].split_once('\n')?;
        let mut words = without_comment(first)?.split_whitespace();
        let word = words.next().filter(|word| matches!(*word, "#ifdef" | "#ifndef"))?;
        let name = words.next()?;
        let is_alone = words.next().is_none() && rest.trim().is_empty();
        let (line, mut next) = after.split_once('\n')?;
        next = next.trim_start_matches(|next: char| next.is_whitespace());
        let last = next.lines().next()?;
        let ends = without_comment(last)?.trim() == "#endif" && without_comment(line)?.trim().is_empty();
        let end = self.text.len() - next.len() + last.len();
        (is_alone && ends).then(|| Guard { range: begin..end, condition: format!("{word} {name}") })
    }

    /// The text of a release: a section whose lock is guarded has releases that are guarded in the same way.
    pub(super) fn released_text(
        &self,
        statement: &Node,
        guard: Option<&Guard>,
    ) -> Result<Range<usize>, Refusal> {
        let plain = || Ok(statement.range.start..self.end(statement));
        let Some(guard) = guard else { return plain() };
        match self.guard(statement) {
            Some(own) if own.condition == guard.condition => Ok(own.range),
            _ if self.applies(Rule::Directives) => Err(Refusal::Preprocessor),
            _ => plain(),
        }
    }
}
