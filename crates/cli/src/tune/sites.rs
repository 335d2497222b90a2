//! Which locks of a program are worth changing, and for what: the hot ones of its profile, and what `advise` says of them.

use lockwork_policy::{Choice, Init, Policy};

use crate::advise;
use crate::profile::table::percent;
use crate::profile::view::View;
use crate::specs;

/// Locks of one place of the program, which one rule of a policy names.
#[derive(Debug, Clone)]
pub(crate) struct Site {
    /// What to call it.
    pub(crate) name: String,
    /// Where it was initialised, or first used.
    pub(crate) place: String,
    /// `mutex` or `rwlock`.
    pub(crate) kind: String,
    /// The condition of a rule that names it: a line of TOML.
    pub(crate) condition: String,
    /// The part of the threads' busy time that they waited for it.
    pub(crate) waited: f64,
    /// How many threads waited, on average.
    pub(crate) waiters: f64,
    /// What to try, in canonical spelling.
    pub(crate) candidates: Vec<String>,
}

/// At most so many sites, and candidates of each.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) sites: usize,
    pub(crate) candidates: usize,
}

impl Site {
    /// A rule that gives it a lock.
    pub(crate) fn rule(&self, lock: &str) -> String {
        format!("[[rule]]\n{}\nkind = \"{}\"\nlock = \"{lock}\"\n", self.condition, self.kind)
    }

    /// Whether a policy can name it: by its variable, or by the code that initialised it. Code that is in no file has neither.
    fn can_be_named(&self) -> bool {
        let policy = Policy::parse(&self.rule("passthrough"));
        policy.is_ok_and(|policy| {
            let rule = &policy.rules[0];
            rule.symbol.is_some() || matches!(rule.init, Some(Init::Location(_)))
        })
    }

    /// In a sentence, without its end.
    pub(crate) fn describe(&self) -> String {
        // A lock that is called by the function that initialised it has that name in its place, too.
        let called = if self.place.starts_with(&self.name) {
            self.place.clone()
        } else {
            format!("{} ({})", self.name, self.place)
        };
        format!(
            "{called}: threads waited for it for {} of their busy time, {:.1} of them on average",
            percent(self.waited),
            self.waiters
        )
    }
}

/// The sites of a view [by rule](View::by_rule) that are worth a try, the hottest first, and why others are not; `asked` takes the place of the rules' candidates.
pub(crate) fn sites(view: &View, asked: &[String], limits: Limits) -> (Vec<Site>, Vec<String>) {
    let advice = advise::advice(view);
    let mut sites: Vec<Site> = Vec::new();
    let mut remarks = Vec::new();
    for row in view.locks.iter().filter(|row| advise::is_worth(view, row)) {
        let by_rules = advice.iter().filter(|piece| piece.rule == row.rule && piece.lock == row.name);
        let by_rules = by_rules.flat_map(|piece| piece.candidates.iter());
        let wanted = if asked.is_empty() { by_rules.collect() } else { of_kind(asked, row.kind()) };
        let site = Site {
            name: row.name.clone(),
            place: row.site.clone(),
            kind: row.kind().to_owned(),
            condition: row.rule.clone(),
            waited: view.of_busy(row.sum.wait.total_ns),
            waiters: view.mean_waiters(row),
            candidates: canonical(wanted, limits.candidates),
        };
        let why = if !site.can_be_named() {
            "no rule of a policy can name it"
        } else if site.candidates.is_empty() {
            "no rule of `lockwork advise` has a lock to try for it; name some by --locks"
        } else if sites.len() == limits.sites {
            "others were waited for longer; see --sites"
        } else {
            sites.push(site);
            continue;
        };
        remarks.push(format!("{} is left alone: {why}", site.name));
    }
    (sites, remarks)
}

/// The specs of a kind: mutexes for a mutex, reader-writer locks by themselves for a reader-writer lock.
fn of_kind<'a>(asked: &'a [String], kind: &str) -> Vec<&'a String> {
    let is_rw = |spec: &str| matches!(specs::parse(spec), Ok(Choice::Rw(_)));
    asked.iter().filter(|spec| is_rw(spec) == (kind == "rwlock")).collect()
}

/// Each once, at most so many, spelled as the library spells them.
fn canonical(specs: Vec<&String>, most: usize) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for spec in specs {
        if let Ok(choice) = specs::parse(spec) {
            let name = choice.to_string();
            if !all.contains(&name) {
                all.push(name);
            }
        }
    }
    all.truncate(most);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(condition: &str, kind: &str) -> Site {
        Site {
            name: "hot".to_owned(),
            place: "static in server".to_owned(),
            kind: kind.to_owned(),
            condition: condition.to_owned(),
            waited: 0.5,
            waiters: 1.0,
            candidates: Vec::new(),
        }
    }

    #[test]
    fn rules_are_policies() {
        for (condition, kind, lock) in [
            ("symbol = \"hot\"", "mutex", "futex"),
            ("init = \"libx.so.7+0x1a2b\"", "mutex", "gcr(mcs-stp)"),
            ("init = \"libx.so.7+0x1a2b\"", "rwlock", "bravo(rw-futex)"),
        ] {
            let site = site(condition, kind);
            assert!(site.can_be_named(), "{condition}");
            let policy = Policy::parse(&site.rule(lock)).unwrap();
            assert_eq!(policy.rules[0].lock.to_string(), lock);
        }
    }

    #[test]
    fn a_name_is_said_once() {
        assert_eq!(
            site("symbol = \"hot\"", "mutex").describe(),
            "hot (static in server): threads waited for it for 50.0% of their busy time, 1.0 of them on average"
        );
        let mut by_code = site("init = \"server+0x10\"", "mutex");
        by_code.place = "hot (server+0x10)".to_owned();
        assert!(by_code.describe().starts_with("hot (server+0x10): threads waited"));
    }

    #[test]
    fn code_without_a_file_cannot_be_named() {
        assert!(!site("init = \"0x7f0012345678\"", "mutex").can_be_named());
        assert!(!site("symbol = \"a\"b\"", "mutex").can_be_named());
    }

    #[test]
    fn candidates_are_of_the_sites_kind() {
        let asked = ["futex", "rw-futex", "gcr(mcs-stp)", "bravo(rw-futex)"].map(str::to_owned);
        assert_eq!(of_kind(&asked, "mutex"), ["futex", "gcr(mcs-stp)"]);
        assert_eq!(of_kind(&asked, "rwlock"), ["rw-futex", "bravo(rw-futex)"]);
        let twice = ["gcr( mcs-stp )", "gcr(mcs-stp)", "futex"].map(str::to_owned);
        assert_eq!(canonical(twice.iter().collect(), 8), ["gcr(mcs-stp)", "futex"]);
        assert_eq!(canonical(twice.iter().collect(), 1), ["gcr(mcs-stp)"]);
    }
}
