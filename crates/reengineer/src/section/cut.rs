//! Where the text of a section is cut: the statement that takes the lock, the releases with what follows them, the pauses, and the slice
//! that the closure's call takes the place of. Whether all of that text can be moved is asked here, too.

use std::collections::{BTreeSet, HashSet};
use std::ops::Range;

use super::exits::Release;
use super::extent::Extent;
use super::guard::Guard;
use super::pauses::Paused;
use super::plan::Meanwhile;
use super::text::{directives, has_word};
use super::{Refusal, View};
use crate::flow::{Id, id};
use crate::rule::Rule;
use crate::tree::{Kind, Node};

/// A section by its text.
pub(super) struct Cut<'a> {
    pub(super) extent: &'a Extent<'a>,
    /// What the preprocessor has around the lock.
    pub(super) guard: Option<Guard>,
    /// The text of the statement that takes the lock.
    pub(super) lock: Range<usize>,
    /// The text that the call takes the place of.
    pub(super) slice: Range<usize>,
    pub(super) exits: Vec<Release<'a>>,
    pub(super) pauses: Vec<Paused<'a>>,
}

impl<'a> Cut<'a> {
    /// The cuts of a section whose extent is known, if nothing enters it or leaves it by another way.
    pub(super) fn of(extent: &'a Extent<'a>) -> Result<Self, Refusal> {
        let Extent { view, spot, .. } = *extent;
        let guard = view.guard(spot.statement);
        let exits = extent.exits(guard.as_ref())?;
        extent.check_states()?;
        extent.check_edges(&exits)?;
        let lock = guard.as_ref().map_or_else(
            || spot.statement.range.start..view.end(spot.statement),
            |guard| guard.range.clone(),
        );
        let last_end = extent.parts.last().map_or(spot.statement.range.end, |part| view.end(part));
        let exits_end = exits.iter().map(|exit| exit.range.end).max().unwrap_or_default();
        let slice = lock.start..last_end.max(exits_end);
        if exits.iter().any(|exit| exit.range.start < lock.end) && view.applies(Rule::OneMacro) {
            return Err(Refusal::OneMacro);
        }
        let pauses = extent.pauses()?;
        // A loop without an end gives its lock up nowhere else.
        if exits.is_empty() && pauses.is_empty() {
            return Err(Refusal::Leaves);
        }
        Ok(Self { extent, guard, lock, slice, exits, pauses })
    }

    /// The statements that release the lock, take it again or wait.
    pub(super) fn calls(&self) -> impl Iterator<Item = &'a Node> {
        let releases = self.exits.iter().map(|exit| exit.release);
        releases.chain(self.pauses.iter().flat_map(|pause| pause.calls.iter().copied()))
    }

    /// The text that leaves the slice, or is replaced in it.
    pub(super) fn moved(&self) -> Vec<Range<usize>> {
        let exits = self.exits.iter().map(|exit| exit.range.clone());
        exits.chain(self.pauses.iter().map(|pause| pause.pause.range.clone())).collect()
    }

    /// The statements that run while the section has given its lock up.
    pub(super) fn meanwhile(&self) -> impl Iterator<Item = &'a Node> {
        self.pauses.iter().flat_map(|pause| &pause.between).copied()
    }

    /// All text that is moved must be what the compiler sees there, and leave the preprocessor's lines whole.
    pub(super) fn check(&self) -> Result<(), Refusal> {
        let view = self.extent.view;
        for statement in std::iter::once(self.extent.spot.statement).chain(self.calls()) {
            view.check_alone(statement)?;
        }
        self.check_whole()?;
        view.check_directives(&self.slice)?;
        view.check_defined(&self.slice)?;
        self.check_guard()?;
        let pauses = self.pauses.iter().map(|pause| &pause.pause.range);
        for moved in self.exits.iter().map(|exit| &exit.tail).chain(pauses) {
            view.check_directives(moved)?;
        }
        view.check_inactive(&self.slice, &self.moved())
    }

    /// Each part of the text is that of its statements.
    fn check_whole(&self) -> Result<(), Refusal> {
        let view = self.extent.view;
        view.check_whole(&self.slice, &self.extent.parts)?;
        for exit in &self.exits {
            view.check_whole(&exit.tail, &exit.nodes)?;
            if let Some(dropped) = exit.dropped {
                view.check_whole(&(exit.tail.end..exit.range.end), &[dropped])?;
            }
        }
        for pause in &self.pauses {
            let nodes: Vec<&Node> = pause.between.iter().chain(&pause.calls).copied().collect();
            view.check_whole(&pause.pause.range, &nodes)?;
            if let Meanwhile::Runs(between) = &pause.pause.meanwhile {
                view.text_of(between.clone())?;
            }
        }
        Ok(())
    }

    /// Without its lock the section is what it was: nothing but the lock and its releases differs.
    fn check_guard(&self) -> Result<(), Refusal> {
        let view = self.extent.view;
        if self.guard.is_none() || !view.applies(Rule::Directives) {
            return Ok(());
        }
        let own = 2 * (1 + self.exits.len());
        let all = directives(view.text.get(self.slice.clone()).unwrap_or_default()).count();
        if self.pauses.is_empty() && all == own { Ok(()) } else { Err(Refusal::Preprocessor) }
    }
}

impl<'a> View<'a> {
    /// The text of a statement that takes or releases a lock, or waits, falls away: what comes from a macro must be all of it.
    fn check_alone(&self, statement: &Node) -> Result<(), Refusal> {
        if self.crossing(&statement.range, &[statement]).is_none() || !self.applies(Rule::AsWritten) {
            return Ok(());
        }
        let is_of_name = |next: &char| *next == '_' || next.is_ascii_alphanumeric();
        let text = self.text_of(statement.range.clone())?;
        Err(Refusal::MacroDoesMore(text.chars().take_while(is_of_name).collect()))
    }

    /// A text that is moved must be that of these nodes, and nothing else may begin or end in it.
    fn check_whole(&self, range: &Range<usize>, nodes: &[&Node]) -> Result<(), Refusal> {
        self.text_of(range.clone())?;
        // An empty statement may have gone with what is before it, as behind the block of `{ pthread_mutex_unlock(&lock); };`.
        let is_in = |node: &Node| {
            node.kind == Kind::Empty || range.start <= node.range.start && node.range.end <= range.end
        };
        let is_whole = self.crossing(range, nodes).is_none() && nodes.iter().all(|node| is_in(node));
        if is_whole || !self.applies(Rule::AsWritten) { Ok(()) } else { Err(Refusal::NotAsWritten) }
    }

    /// A node, other than these and what is in them, that begins or ends in a range.
    fn crossing(&self, range: &Range<usize>, nodes: &[&Node]) -> Option<&'a Node> {
        let own: HashSet<Id> = nodes.iter().map(|node| id(node)).collect();
        let mut stack = vec![&self.function.body];
        while let Some(node) = stack.pop() {
            if own.contains(&id(node)) {
                continue;
            }
            let Range { start, end } = node.range;
            // These end where what is in them does.
            let ends_itself = !matches!(
                node.kind,
                Kind::If
                    | Kind::While
                    | Kind::For { .. }
                    | Kind::Switch
                    | Kind::Label(_)
                    | Kind::Case { .. }
                    | Kind::Transparent
            );
            let crosses = range.contains(&start) || ends_itself && range.start < end && end <= range.end;
            if crosses && node.kind != Kind::Empty {
                return Some(node);
            }
            stack.extend(&node.children);
        }
        None
    }

    /// A text that is moved must have its `#if`s and `#define`s whole.
    fn check_directives(&self, range: &Range<usize>) -> Result<(), Refusal> {
        if !self.applies(Rule::Directives) {
            return Ok(());
        }
        let mut depth = 0_usize;
        let mut defined = BTreeSet::new();
        for word in directives(self.text_of(range.clone())?) {
            let name = || {
                word.split(|next: char| next.is_whitespace() || next == '(')
                    .nth(1)
                    .unwrap_or_default()
                    .to_owned()
            };
            if word.starts_with("if") {
                depth += 1;
            } else if word.starts_with("endif") {
                depth = depth.checked_sub(1).ok_or(Refusal::Preprocessor)?;
            } else if word.starts_with("include") || depth == 0 && word.starts_with("el") {
                return Err(Refusal::Preprocessor);
            } else if word.starts_with("define") {
                defined.insert(name());
            } else if word.starts_with("undef") && !defined.remove(&name()) {
                return Err(Refusal::Preprocessor);
            }
        }
        if depth > 0 || !defined.is_empty() { Err(Refusal::Preprocessor) } else { Ok(()) }
    }

    /// No macro that the text may need is defined in the function before it.
    fn check_defined(&self, slice: &Range<usize>) -> Result<(), Refusal> {
        let before = self.text_of(self.function.range.start..slice.start)?;
        let defines = directives(before).any(|word| word.starts_with("define") || word.starts_with("undef"));
        if defines && self.applies(Rule::Defined) { Err(Refusal::Preprocessor) } else { Ok(()) }
    }

    /// What another configuration compiles may not return: the closure would, and its caller would not.
    fn check_inactive(&self, slice: &Range<usize>, moved: &[Range<usize>]) -> Result<(), Refusal> {
        if !self.applies(Rule::Directives) {
            return Ok(());
        }
        let starts: BTreeSet<usize> = self.function.body.walk().map(|node| node.range.start).collect();
        let mut begin = None;
        let mut at = slice.start;
        for line in self.text_of(slice.clone())?.split_inclusive('\n') {
            if line.trim_start().starts_with('#') {
                let branch = begin.unwrap_or(at)..at;
                let is_moved = moved.iter().any(|it| it.start <= branch.start && branch.end <= it.end);
                if starts.range(branch.clone()).next().is_none() {
                    let text = self.text_of(branch)?;
                    if !is_moved && has_word(text, |word| word == "return") {
                        return Err(Refusal::ReturnsElsewhere);
                    }
                    let is_call =
                        |word: &str| word.starts_with("pthread_mutex_") || word.starts_with("pthread_cond_");
                    if has_word(text, is_call) {
                        return Err(Refusal::LocksElsewhere);
                    }
                }
                begin = Some(at + line.len());
            }
            at += line.len();
        }
        Ok(())
    }
}
