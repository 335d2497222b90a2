//! A function while its sections are looked for: its tree with the way up, its text, the words for locks, and the rules that apply.

use std::collections::HashMap;
use std::ops::Range;

use super::text::directives;
use super::{Refusal, Rules};
use crate::flow::{Id, id};
use crate::rule::Rule;
use crate::tree::{Function, Kind, Local, Node, Shape, Variable, value_of};
use crate::vocabulary::Vocabulary;

/// What all steps of the analysis look at, and none changes.
pub(super) struct View<'a> {
    pub(super) function: &'a Function,
    pub(super) text: &'a str,
    pub(super) vocabulary: &'a Vocabulary,
    pub(super) rules: Rules,
    /// The parent of each node, and its number among the parent's children.
    parents: HashMap<Id, (&'a Node, usize)>,
}

/// A statement, the block that it is in, and its number there.
#[derive(Clone, Copy)]
pub(super) struct Spot<'a> {
    pub(super) statement: &'a Node,
    pub(super) block: &'a Node,
    pub(super) number: usize,
}

impl<'a> View<'a> {
    pub(super) fn of(
        function: &'a Function,
        text: &'a str,
        vocabulary: &'a Vocabulary,
        rules: Rules,
    ) -> Self {
        let children = |node: &'a Node| {
            node.children.iter().enumerate().map(move |(number, child)| (id(child), (node, number)))
        };
        Self { function, text, vocabulary, rules, parents: function.body.walk().flat_map(children).collect() }
    }

    /// Whether a rule is to be kept.
    pub(super) fn applies(&self, rule: Rule) -> bool {
        self.rules.applies(rule)
    }

    /// What a node is in, and the number of the node there.
    pub(super) fn parent(&self, node: &Node) -> Option<(&'a Node, usize)> {
        self.parents.get(&id(node)).copied()
    }

    /// What a node is in, from the inside out, each with the number of the child that the node is in.
    pub(super) fn around(&self, node: &Node) -> impl Iterator<Item = (&'a Node, usize)> {
        std::iter::successors(self.parent(node), |(around, _)| self.parent(around))
    }

    /// The loop or the `switch` that a `break` or a `continue` belongs to.
    pub(super) fn target_of(&self, jump: &Node) -> Option<&'a Node> {
        let is_target = |around: &&Node| {
            matches!(around.kind, Kind::While | Kind::Do | Kind::For { .. })
                || around.kind == Kind::Switch && jump.kind == Kind::Break
        };
        self.around(jump).map(|(around, _)| around).find(is_target)
    }

    /// What is to be known of a variable of the function.
    pub(super) fn local(&self, variable: &Variable) -> Option<&'a Local> {
        self.function.locals.get(variable)
    }

    pub(super) fn is_static(&self, variable: &Variable) -> bool {
        self.local(variable).is_some_and(|local| local.is_static)
    }

    /// Whether an expression is an array, whose value is where it is.
    pub(super) fn is_array(&self, of: &Node) -> bool {
        match &of.bare().kind {
            Kind::Local(variable) => self.local(variable).is_some_and(|local| local.shape == Shape::Array),
            Kind::Name(name) => self.function.arrays.contains(name),
            Kind::Member { name, .. } => self.function.arrays.contains(&format!(".{name}")),
            _ => false,
        }
    }

    /// The calls of lock functions in a node.
    pub(super) fn lock_calls<'n>(&self, node: &'n Node) -> impl Iterator<Item = &'n Node> + use<'n> {
        let calls: Vec<_> = node.walk().filter(|inner| self.vocabulary.of(inner).is_some()).collect();
        calls.into_iter()
    }

    /// The largest statement that does nothing but the step, and where it is.
    pub(super) fn spot(&self, mut statement: &'a Node) -> Option<Spot<'a>> {
        while let Some((around, _)) = self.parent(statement) {
            let Some((further, _)) = self.parent(around) else { break };
            let alone = around.kind == Kind::Compound && around.children.len() == 1;
            let is_once = further.kind == Kind::Do
                && further.children.last().is_some_and(
                    |last| matches!(&last.bare().kind, Kind::Literal(text) if value_of(text) == "0"),
                );
            statement = match further.kind {
                Kind::Do if alone && is_once => further,
                Kind::Compound if alone => around,
                _ if around.kind == Kind::Transparent => around,
                _ => break,
            };
        }
        let mut outer = statement;
        loop {
            let (around, number) = self.parent(outer)?;
            match around.kind {
                Kind::Compound => return Some(Spot { statement, block: around, number }),
                Kind::Label(_) | Kind::Case { .. } => outer = around,
                _ => return None,
            }
        }
    }

    /// Where a statement ends, with its semicolon.
    pub(super) fn end(&self, node: &Node) -> usize {
        let end = node.range.end;
        if self.text.get(..end).is_some_and(|text| text.ends_with(';')) {
            return end;
        }
        let mut rest = self.text.get(end..).unwrap_or_default().trim_start();
        // A comment may come first.
        while let Some((_, behind)) = rest.strip_prefix("/*").and_then(|rest| rest.split_once("*/")) {
            rest = behind.trim_start();
        }
        if rest.starts_with(';') { self.text.len() - rest.len() + 1 } else { end }
    }

    /// Where a block's text ends whose last statement ends at `end`: behind the preprocessor's lines and the comments that follow.
    pub(super) fn end_of_block(&self, block: &Node, end: usize) -> usize {
        let rest = self.text.get(end..block.range.end).unwrap_or_default();
        match rest.strip_suffix('}') {
            Some(rest) if directives(rest).next().is_some() => end + rest.trim_end().len(),
            _ => end,
        }
    }

    /// A part of the text, if it is one.
    pub(super) fn text_of(&self, range: Range<usize>) -> Result<&'a str, Refusal> {
        self.text.get(range).ok_or(Refusal::NotAsWritten)
    }
}
