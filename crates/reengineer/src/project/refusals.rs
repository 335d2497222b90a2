//! Sections that stay for what the functions do that they call, or that take their locks: what one function's text does not show.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::outlines::{Alike, Leaves, named};
use super::{Finding, Key, Project};
use crate::rule::Rule;
use crate::section::{Meanwhile, Plan, Refusal};
use crate::vocabulary::{Action, leaves_its_caller, may_be_cancelled};

impl Project {
    /// Refuses all such sections, or warns of them.
    pub(super) fn refuse_for_callees(&mut self) {
        if self.keeps(Rule::CalleeReleases) {
            self.refuse_callees_that_release();
        }
        if self.keeps(Rule::CalleeKeeps) {
            self.refuse_callees_that_keep();
        }
        if self.keeps(Rule::Owned) {
            self.refuse_owned();
        }
        if self.keeps(Rule::CalleeLeaves) {
            self.refuse_callees_that_leave();
        }
        if self.keeps(Rule::CalleeAsks) {
            self.refuse_callees_that_ask();
        }
        if self.keeps(Rule::Wrappers) {
            self.refuse_wrappers();
        }
        if self.keeps(Rule::Cancels) && self.outlines.call("pthread_cancel") {
            self.refuse_waits();
            self.warn_of_cancellation();
        }
    }

    /// What is found of the sections that have plans, by their numbers.
    fn of_plans<'p, T>(&'p self, mut of: impl FnMut(&'p Finding, &'p Plan) -> Option<T>) -> Vec<(usize, T)> {
        let found = |(number, found): (usize, &'p Finding)| {
            let plan = found.section.plan.as_ref().ok()?;
            Some((number, of(found, plan)?))
        };
        self.findings.iter().enumerate().filter_map(found).collect()
    }

    /// Refuses sections, and with each all of its function and its lock: conversion tells them apart by nothing else.
    fn refuse_numbered(&mut self, refused: Vec<(usize, Refusal)>) {
        let of_key = |(number, refusal): (usize, Refusal)| (self.findings[number].key(), refusal);
        let refused = refused.into_iter().map(of_key).collect();
        self.refuse(&refused);
    }

    /// The same by what conversion knows the sections by.
    pub(super) fn refuse(&mut self, refused: &BTreeMap<Key, Refusal>) {
        for found in &mut self.findings {
            if let (Ok(_), Some(refusal)) = (&found.section.plan, refused.get(&found.key())) {
                found.section.plan = Err(refusal.clone());
            }
        }
    }

    /// Refuses sections for what they mean in another thread, or warns of them where they may run in any.
    fn refuse_or_warn(&mut self, said: Vec<(usize, (Refusal, String))>) {
        if !self.choice.any_thread {
            let refused = said.into_iter().map(|(number, (refusal, _))| (number, refusal)).collect();
            return self.refuse_numbered(refused);
        }
        for (number, (_, warning)) in said {
            self.findings[number].section.warnings.push(warning);
        }
    }

    /// Functions that give the section's lock up: inside a closure, nothing that they call holds it.
    fn refuse_callees_that_release(&mut self) {
        let given_up = self.outlines.given_up(&self.locks);
        let refused = self.of_plans(|found, plan| {
            let own: BTreeSet<Alike> = match (found.mutex, &found.section.by) {
                (Some(class), _) => BTreeSet::from([Alike::Class(class)]),
                (None, Some(_)) => {
                    named(&found.section.lock).map(Alike::Named).into_iter().chain([Alike::Any]).collect()
                }
                (None, None) => return None,
            };
            let releases =
                |name: &&String| given_up.get(name.as_str()).is_some_and(|of| !of.is_disjoint(&own));
            Some(Refusal::CalleeReleases(plan.calls.iter().find(releases)?.clone()))
        });
        self.refuse_numbered(refused);
    }

    /// Functions that take another lock and keep it, or release one of another's, unless others that are called do the opposite.
    fn refuse_callees_that_keep(&mut self) {
        let mut known = BTreeMap::new();
        let mut leaves = |callee| self.outlines.leaves(callee, &self.locks, &mut known);
        let refused = self.of_plans(|_, plan| {
            let of_calls: Vec<(&String, Leaves)> =
                plan.calls.iter().map(|callee| (callee, leaves(callee))).collect();
            let all = Leaves::and(of_calls.iter().map(|(_, leaves)| leaves));
            let (callee, _) = of_calls.iter().find(|(_, of)| of.meets(&all))?;
            Some(Refusal::CalleeKeeps((*callee).clone()))
        });
        self.refuse_numbered(refused);
    }

    /// Mutexes that know the thread which holds them: where a delegate runs a section that takes one, by itself or by what it calls, in
    /// another thread, it waits for one that may wait for it.
    fn refuse_owned(&mut self) {
        let owned = self.locks.owned();
        let owned_at = |file: &Path, offset: usize, action: Action| {
            self.locks.at(file, offset, action).filter(|class| owned.contains_key(class))
        };
        let taken = self.outlines.with_callees(|outline| {
            let all = outline.takes.iter();
            all.filter_map(|(file, offset, action)| owned_at(file, *offset, *action)).collect()
        });
        let said = self.of_plans(|found, plan| {
            let own = plan.takes.iter().find_map(|(offset, action)| owned_at(&found.file, *offset, *action));
            let by_callee = || {
                let takes =
                    |callee: &String| Some((Some(callee.clone()), *taken.get(callee.as_str())?.first()?));
                plan.calls.iter().find_map(takes)
            };
            let (callee, class) = own.map(|class| (None, class)).or_else(by_callee)?;
            let place = owned[&class].to_owned();
            let by = callee.as_ref().map_or_else(String::new, |callee| format!("{callee} takes "));
            let warning = format!("{by}a mutex that may be recursive or checked ({place}) is the server's");
            Some((Refusal::Owned { callee, place }, warning))
        });
        self.refuse_or_warn(said);
    }

    /// Functions that may go on further up, or end their thread, or call one that may.
    fn refuse_callees_that_leave(&mut self) {
        let leaves = self.outlines.with_callees(|outline| {
            outline.callees.iter().filter(|callee| leaves_its_caller(callee)).cloned().collect()
        });
        let refused = self.of_plans(|_, plan| {
            plan.calls.iter().find_map(|callee| {
                let by = leaves.get(callee.as_str())?.first()?.clone();
                Some(Refusal::CalleeLeaves { callee: callee.clone(), by })
            })
        });
        self.refuse_numbered(refused);
    }

    /// Functions that ask for their thread, or call one that does.
    fn refuse_callees_that_ask(&mut self) {
        let asked = self.outlines.with_callees(|outline| outline.asks.iter().cloned().collect());
        let said = self.of_plans(|_, plan| {
            plan.calls.iter().find_map(|callee| {
                let asked = asked.get(callee.as_str())?.first()?.clone();
                let warning = format!("{callee} asks for the server's `{asked}`");
                Some((Refusal::CalleeMeansThread { callee: callee.clone(), asked }, warning))
            })
        });
        self.refuse_or_warn(said);
    }

    /// Wrappers that do more than to take or release a lock: in a closure nothing of them would be left.
    fn refuse_wrappers(&mut self) {
        let refused = self.of_plans(|_, plan| {
            let name = plan.by.intersection(&self.do_more).next()?;
            Some(Refusal::WrapperDoesMore(name.clone()))
        });
        self.refuse_numbered(refused);
    }

    /// Sections that wait for conditions, or may be cancelled otherwise, where threads are cancelled.
    fn refuse_waits(&mut self) {
        let refused = self.of_plans(|_, plan| {
            if plan.pauses.iter().any(|pause| matches!(pause.meanwhile, Meanwhile::Waits(_))) {
                return Some(Refusal::Cancels);
            }
            let name = plan.calls.iter().find(|name| may_be_cancelled(name))?;
            Some(Refusal::MayBeCancelled(name.clone()))
        });
        self.refuse_numbered(refused);
    }

    /// Warns of calls deeper down in which a thread may be cancelled: they are often what only reports that something has failed.
    fn warn_of_cancellation(&mut self) {
        let below = self.outlines.with_callees(|outline| {
            outline.callees.iter().filter(|name| may_be_cancelled(name)).cloned().collect()
        });
        let said = self.of_plans(|_, plan| {
            plan.calls.iter().find_map(|callee| {
                let name: &String = below.get(callee.as_str())?.first()?;
                Some(format!(
                    "{callee} may call {name}, in which a thread may be cancelled, perhaps another than its own"
                ))
            })
        });
        for (number, warning) in said {
            self.findings[number].section.warnings.push(warning);
        }
    }
}
