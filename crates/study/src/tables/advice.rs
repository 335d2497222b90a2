//! What advice is worth: the guidelines by application, all ways to choose a lock beside each other, the fitted tree.

use super::{begin, locks_of, note_runs};
use crate::guidelines::Guidelines;
use crate::table::{Cell, Column, Row, Table, Unit};
use crate::tree::{Example, Tree, covers, examples, favourite};
use crate::view::{Level, View, share};

/// Table 4.16: for each lock-sensitive application that the guidelines know, how many of the recommended locks cover it.
pub(crate) fn by_application(view: &View<'_>) -> Table {
    let title = format!(
        "Recommended locks that are within 5% of the best, by {} ({})",
        view.metric.name(),
        view.study.machine
    );
    let mut table = begin("4.16", title, &["application", "bottleneck", "advice"]);
    table.columns = vec![Column::new("recommended locks", Unit::Count)];
    for level in Level::ALL {
        table.columns.push(Column::new("recommended that cover", Unit::Percent).in_group(level.name()));
        table.columns.push(Column::new("all that cover", Unit::Percent).in_group(level.name()));
    }
    for application in view.sensitive() {
        let name = &view.study.applications[application];
        let Some(rules) = Guidelines::thesis().rules_for(name) else { continue };
        let words = |of: fn(&crate::Rule) -> (&str, &[String])| -> String {
            let parts: Vec<String> = rules
                .iter()
                .map(|rule| of(rule))
                .filter(|(_, properties)| !properties.is_empty())
                .map(|(verb, properties)| format!("{verb} {}", properties.join(" or ")))
                .collect();
            parts.join("; ")
        };
        let advice = [words(|rule| ("prefer", &rule.prefer)), words(|rule| ("avoid", &rule.avoid))];
        let advice: Vec<&str> = advice.iter().map(String::as_str).filter(|words| !words.is_empty()).collect();
        let bottlenecks: Vec<&str> = rules.iter().map(|rule| rule.bottleneck.as_str()).collect();
        let recommended =
            measured(view, application, Guidelines::thesis().recommended(&rules, &view.study.locks));
        let all = measured(view, application, (0..view.study.locks.len()).collect());
        let mut cells = vec![Cell::number(recommended.len() as f64)];
        for level in Level::ALL {
            let covering = covers(view, application, level);
            cells.push(Cell::optional(share(&recommended, |lock| covering[*lock])));
            cells.push(Cell::optional(share(&all, |lock| covering[*lock])));
        }
        table.rows.push(Row { labels: vec![name.clone(), bottlenecks.join(", "), advice.join("; ")], cells });
    }
    if table.rows.is_empty() {
        table.notes.push("The guidelines know none of these applications.".to_owned());
    }
    note_runs(&mut table, view);
    table
}

/// Those of `locks` that an application was measured with.
fn measured(view: &View<'_>, application: usize, locks: Vec<usize>) -> Vec<usize> {
    locks.into_iter().filter(|&lock| view.optimum(application, lock).is_some()).collect()
}

/// The share of the examples that a choice, made for each without looking at it, covers.
fn worth(examples: &[Example], choose: impl Fn(&Example, &[&Example]) -> Option<usize>) -> Option<f64> {
    let one_left_out = examples.iter().enumerate().map(|(place, example)| {
        let others: Vec<&Example> = examples
            .iter()
            .enumerate()
            .filter(|(other, _)| *other != place)
            .map(|(_, example)| example)
            .collect();
        (example, others)
    });
    share(one_left_out, |(example, others)| choose(example, &others).is_some_and(|lock| example.covers[lock]))
}

/// All ways to choose a lock beside each other: the share of the lock-sensitive applications covered.
pub(crate) fn choices(view: &View<'_>, baseline: &str) -> Table {
    let title =
        format!("Coverage by the way to choose the lock, by {} ({})", view.metric.name(), view.study.machine);
    let mut table = begin("guidelines", title, &["choice"]);
    let Some(base) = view.study.locks.iter().position(|lock| lock == baseline) else {
        table.notes.push(format!("{}: nothing was measured with {baseline}.", view.study.machine));
        return table;
    };
    let name = |example: &Example| &view.study.applications[example.application];
    let recommended = |example: &Example| {
        let rules = Guidelines::thesis().rules_for(name(example)).unwrap_or_default();
        measured(view, example.application, Guidelines::thesis().recommended(&rules, &view.study.locks))
    };
    let mut rows: Vec<(String, Vec<Cell>)> = Vec::new();
    for level in Level::ALL {
        table.columns.push(Column::new(level.name(), Unit::Percent));
        let mut known = examples(view, level, base);
        known.retain(|example| Guidelines::thesis().rules_for(name(example)).is_some());
        let locks = locks_of(view, &view.sensitive());
        let hindsight = favourite(known.iter(), &locks);
        let random =
            known.iter().filter_map(|example| share(recommended(example), |lock| example.covers[lock]));
        let random: Vec<f64> = random.collect();
        let values = [
            (format!("always {baseline}"), worth(&known, |_, _| Some(base))),
            (
                "always one lock, the best of the others' applications".to_owned(),
                worth(&known, |_, others| Some(favourite(others.iter().copied(), &locks)?.0)),
            ),
            (
                "always one lock, chosen in hindsight".to_owned(),
                hindsight
                    .filter(|_| !known.is_empty())
                    .map(|(_, covered)| covered as f64 / known.len() as f64),
            ),
            ("guidelines, any recommended lock".to_owned(), lockwork_stats::mean(&random)),
            (
                "guidelines, of the recommended the best of the others' applications".to_owned(),
                worth(&known, |example, others| {
                    Some(favourite(others.iter().copied(), &recommended(example))?.0)
                }),
            ),
            (
                "guidelines, the best recommended lock".to_owned(),
                share(&known, |example| recommended(example).iter().any(|&lock| example.covers[lock])),
            ),
            (
                "fitted tree, fitted to the others' applications".to_owned(),
                worth(&known, |example, others| Some(Tree::fit(others, &locks)?.lock(example))),
            ),
        ];
        for (place, (choice, value)) in values.into_iter().enumerate() {
            if rows.len() <= place {
                rows.push((choice, Vec::new()));
            }
            rows[place].1.push(Cell::optional(value));
        }
    }
    table.rows = rows.into_iter().map(|(choice, cells)| Row { labels: vec![choice], cells }).collect();
    table.notes.push(format!(
        "Of the lock-sensitive applications that the guidelines know and that were measured with {baseline}. A choice from the others' \
         applications does not see the application that it is for. The guidelines were written from data of the thesis's \
         A-64: on that machine they are no prediction."
    ));
    note_runs(&mut table, view);
    table
}

/// The tree fitted to all lock-sensitive applications, leaf by leaf.
pub(crate) fn fitted(view: &View<'_>, level: Level, baseline: &str) -> Table {
    let title = format!(
        "Decision tree from what {baseline} does to the lock to take, by {} at {} ({})",
        view.metric.name(),
        level.name(),
        view.study.machine
    );
    let mut table = begin("tree", title, &["if", "lock"]);
    table.columns = vec![Column::new("applications", Unit::Count), Column::new("covered", Unit::Count)];
    let Some(base) = view.study.locks.iter().position(|lock| lock == baseline) else {
        table.notes.push(format!("{}: nothing was measured with {baseline}.", view.study.machine));
        return table;
    };
    let examples = examples(view, level, base);
    let locks = locks_of(view, &view.sensitive());
    for (path, lock, applications, covered) in
        Tree::fit(&examples.iter().collect::<Vec<_>>(), &locks).iter().flat_map(Tree::leaves)
    {
        let path = if path.is_empty() { "always".to_owned() } else { path.join(" and ") };
        table.rows.push(Row {
            labels: vec![path, view.study.locks[lock].clone()],
            cells: vec![Cell::number(applications as f64), Cell::number(covered as f64)],
        });
    }
    let crossed = worth(&examples, |example, others| Some(Tree::fit(others, &locks)?.lock(example)));
    if let Some(crossed) = crossed {
        table.notes.push(format!(
            "Fitted to the other applications it covers {:.0}% of them (leave-one-out cross-validation).",
            100.0 * crossed
        ));
    }
    note_runs(&mut table, view);
    table
}
