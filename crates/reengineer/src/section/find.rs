//! Finding sections: the statements that take locks, the plan for each, and of those that cannot be planned whole, one with pauses.

use std::collections::{BTreeSet, HashSet};

use super::asks::warnings;
use super::body::Body;
use super::breaks::Break;
use super::cut::Cut;
use super::extent::Extent;
use super::{Plan, Refusal, Section, View};
use crate::flow::{Effect, Flow, Id, id};
use crate::rule::Rule;
use crate::tree::{Kind, Node};
use crate::vocabulary::Action;

/// A function whose sections are looked for.
#[derive(Clone, Copy)]
pub(super) struct Finder<'a> {
    pub(super) view: &'a View<'a>,
    pub(super) flow: &'a Flow<'a>,
    /// Where sections pause, which take the lock again.
    pub(super) breaks: &'a [Break<'a>],
}

impl<'a> Finder<'a> {
    /// The sections of the function, in the order of the text.
    pub(super) fn sections(&self) -> Vec<Section> {
        let mut found: Vec<(&Node, Section)> =
            (0..self.flow.steps.len()).filter_map(|site| self.section(site)).collect();
        self.resume(&mut found);
        let mut found: Vec<Section> = found.into_iter().map(|(_, section)| section).collect();
        if self.view.applies(Rule::MacrosInside) {
            refuse_macros(&mut found);
        }
        for section in &mut found {
            section.warnings =
                section.plan.as_ref().map(|plan| warnings(self.view, plan)).unwrap_or_default();
        }
        found.sort_by_key(|section| section.offset);
        found
    }

    /// The section that begins at a step, if that takes a lock, and the step's node.
    fn section(&self, site: usize) -> Option<(&'a Node, Section)> {
        let node = self.flow.steps[site].node;
        let lock = match &self.flow.steps[site].effect {
            Effect::Lock(lock) => lock.as_str(),
            Effect::Unclear if !self.flow.before[site].is_empty() => "",
            _ => return None,
        };
        let is_clear = !lock.is_empty();
        if !is_clear && !self.takes(node) {
            return None;
        }
        let call = self.view.lock_calls(node).next();
        let by = call.and_then(|call| match &call.kind {
            Kind::Macro(what) => what.by.clone(),
            _ => None,
        });
        let section = Section {
            function: self.view.function.name.clone(),
            offset: node.range.start,
            lock: if is_clear { lock } else { "?" }.to_owned(),
            plan: if is_clear { self.plan(site, lock) } else { Err(self.view.unclear(node)) },
            warnings: Vec::new(),
            call: call.unwrap_or(node).range.start,
            taken_by: call.and_then(Node::called).unwrap_or_default().to_owned(),
            by,
            continues: false,
        };
        Some((node, section))
    }

    /// Whether a statement takes a lock somewhere inside an expression, other than by trying.
    fn takes(&self, node: &Node) -> bool {
        node.walk()
            .any(|inner| matches!(self.view.vocabulary.of(inner), Some((Action::Lock | Action::Try, _))))
    }

    /// How the section that takes `lock` at the step `site` becomes a closure, or why it does not.
    fn plan(&self, site: usize, lock: &str) -> Result<Plan, Refusal> {
        let extent = Extent::of(*self, site, lock)?;
        let cut = Cut::of(&extent)?;
        cut.check()?;
        let body = Body::of(&cut);
        body.check()?;
        body.plan()
    }

    /// Gives sections that cannot be converted because they release their lock and take it again a plan with pauses.
    fn resume(&self, found: &mut [(&'a Node, Section)]) {
        let is_refused = |it: &Break<'_>| {
            found.iter().any(|(node, section)| id(node) == id(it.calls[1]) && section.plan.is_err())
        };
        let breaks: Vec<Break<'_>> =
            Break::all(self.view, self.flow).into_iter().filter(is_refused).collect();
        let mut plans = Vec::new();
        for lock in breaks.iter().map(|it| it.lock.as_str()).collect::<BTreeSet<_>>() {
            plans.extend(self.plans_with_pauses(lock, &breaks, found));
        }
        // That the lock is given up in the midst is no reason any more.
        for (_, section) in
            found.iter_mut().filter(|(_, section)| matches!(section.plan, Err(Refusal::Mixed)))
        {
            let other = plans.iter().find(|(offset, plan)| *offset == section.offset && plan.is_err());
            if let Some((_, Err(reason))) = other {
                section.plan = Err(reason.clone());
            }
        }
        for (offset, plan) in plans {
            let Ok(plan) = plan else { continue };
            for (_, section) in found.iter_mut().filter(|(_, section)| section.plan.is_err()) {
                if plan.covered.contains(&section.call) {
                    section.continues = section.offset != offset;
                    section.plan = Ok(plan.clone());
                }
            }
        }
    }

    /// For each section of `lock` that has no plan, where it begins, and its plan if the lock counts as held over breaks. Those of other
    /// locks stay what they are: another lock that is held over one is not held for the whole of its section.
    fn plans_with_pauses(
        &self,
        lock: &str,
        breaks: &[Break<'_>],
        found: &[(&Node, Section)],
    ) -> Vec<(usize, Result<Plan, Refusal>)> {
        let is_hidden = |it: &&Break<'_>| it.lock == lock || !self.view.applies(Rule::Pauses);
        let paused: HashSet<Id> = breaks.iter().filter(is_hidden).flat_map(|it| it.calls.map(id)).collect();
        let flow = Flow::of(self.view.function, self.view.vocabulary, &paused);
        let finder = Finder { flow: &flow, breaks, ..*self };
        let is_of_lock = |section: &Section| section.plan.is_err() && section.lock == lock;
        let planned = |(node, section): &(&Node, Section)| {
            let is_site = |step: &usize| {
                let step = &flow.steps[*step];
                id(step.node) == id(node) && matches!(step.effect, Effect::Lock(_))
            };
            let site = (0..flow.steps.len()).find(is_site)?;
            Some((section.offset, finder.plan(site, &section.lock)))
        };
        found.iter().filter(|(_, section)| is_of_lock(section)).filter_map(planned).collect()
    }
}

/// Refuses sections with a macro inside that does something to another lock and stays as it is: it may return, which a closure must
/// not.
fn refuse_macros(sections: &mut [Section]) {
    loop {
        let plans = || sections.iter().filter_map(|section| section.plan.as_ref().ok());
        let covered: BTreeSet<usize> = plans().flat_map(|plan| plan.covered.iter().copied()).collect();
        let stays = |plan: &Plan| !plan.macros.is_subset(&covered);
        let Some(section) = sections.iter_mut().find(|section| section.plan.as_ref().is_ok_and(stays)) else {
            return;
        };
        section.plan = Err(Refusal::KeepsMacro);
    }
}
