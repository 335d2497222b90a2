//! What was found: as a table, as JSON, and as a policy file with the evidence as comments.

use std::fmt::Write as _;

use comfy_table::CellAlignment;
use lockwork_stats::{Comparison, Estimate};
use serde_json::{Value, json};

use super::lab::{Bench, Subject};
use super::search::{Arm, Fate, Found, Ledger, Verdict};
use super::sites::Site;
use crate::compare::format;
use crate::host::Host;
use crate::terminal;

/// Everything that there is to tell.
pub(crate) struct Story<'a> {
    pub(crate) subject: &'a Subject,
    /// The program's name.
    pub(crate) name: &'a str,
    /// Whether any lock was seen.
    pub(crate) has_locks: bool,
    pub(crate) sites: &'a [Site],
    /// Why other locks are left alone.
    pub(crate) remarks: &'a [String],
    /// `None` where there was nothing to search.
    pub(crate) found: Option<&'a Found>,
    /// Share: 0.02 is 2%.
    pub(crate) least_gain: f64,
    /// Seconds.
    pub(crate) budget: f64,
    pub(crate) seed: u64,
    /// UTC, RFC 3339.
    pub(crate) date: String,
    /// The policy file, where one was written.
    pub(crate) written: Option<String>,
}

/// `1.23× (1.20× – 1.26×)`
fn ratio(ratio: Option<&Estimate>) -> String {
    ratio.map_or_else(
        || "—".to_owned(),
        |r| format!("{} ({})", format::ratio(r.value), format::ratio_interval(r)),
    )
}

/// What became of an arm, in words.
fn fate(fate: &Fate) -> String {
    match fate {
        Fate::NotTried => "not tried: the budget is too small for so many".to_owned(),
        Fate::In => "no better than the best".to_owned(),
        Fate::Failed(why) => format!("failed: {why}"),
        Fate::Slower => "slower".to_owned(),
        Fate::Beaten(rung) => format!("out in rung {rung}"),
        Fate::Best => "best in the search".to_owned(),
    }
}

impl Story<'_> {
    /// The locks of an arm: `hot: futex; other: ticket`.
    fn title(&self, arm: &Arm) -> String {
        let of = |&(site, candidate): &(usize, usize)| {
            format!("{}: {}", self.sites[site].name, self.sites[site].candidates[candidate])
        };
        arm.iter().map(of).collect::<Vec<_>>().join("; ")
    }

    fn metric(&self) -> String {
        let metric = &self.subject.metrics[0];
        let better = if metric.higher_is_better { "higher is better" } else { "lower is better" };
        format!("{} ({better})", metric.name)
    }

    /// ` at 2, 8 threads`, or nothing of a command that does not depend on them.
    fn threads(&self) -> String {
        let counts: Vec<String> = self.subject.threads.iter().flatten().map(u32::to_string).collect();
        if counts.is_empty() { String::new() } else { format!(" at {} threads", counts.join(", ")) }
    }

    /// The conclusion, in a sentence or two.
    pub(crate) fn conclusion(&self) -> String {
        const NOTHING: &str = "No lock of this program is worth changing";
        let least = crate::profile::table::percent(self.least_gain);
        let Some(found) = self.found else {
            return match self.remarks {
                _ if !self.has_locks => format!("{NOTHING}: it used none that could be seen."),
                [] => format!("{NOTHING}: its threads hardly wait for any."),
                _ => format!("{NOTHING}: there is nothing to try for those that threads wait for."),
            };
        };
        let confirmed = || found.confirmation.as_ref().map(|ledger| ledger.gain(0, 0));
        let in_fresh_rounds =
            |gain: &Comparison| format!("{} in {} fresh rounds", ratio(gain.ratio.as_ref()), gain.pairs);
        match &found.verdict {
            Verdict::Confirmed => format!(
                "Confirmed: a gain of {}.",
                confirmed().map_or_else(String::new, |gain| in_fresh_rounds(&gain))
            ),
            Verdict::NothingToGain => {
                format!("{NOTHING}: nothing that was tried was better by {least} than the untouched program.")
            }
            Verdict::NothingRan(why) => format!(
                "No verdict and no policy: all that was tried failed, which says nothing of the program's locks. The first: {why}. \
                 `lockwork compare` runs the whole program under one lock, which needs no rule."
            ),
            Verdict::NotReproduced => format!(
                "{NOTHING}: what looked best in the search did not reproduce its gain ({}; at least {least} and an \
                 interval above 1 would have been).",
                confirmed().map_or_else(String::new, |gain| in_fresh_rounds(&gain))
            ),
            Verdict::Worse { threads, metric } => format!(
                "{NOTHING} for all that was asked: what is best makes {} worse{} ({}). Tune with fewer thread counts or metrics \
                 to accept that.",
                self.subject.metrics[*metric].name,
                self.subject.threads[*threads]
                    .map_or_else(String::new, |count| format!(" at {count} threads")),
                ratio(
                    found
                        .confirmation
                        .as_ref()
                        .and_then(|ledger| ledger.gain_at(0, *threads, *metric).ratio)
                        .as_ref()
                )
            ),
            Verdict::Failed(why) => {
                format!("No policy: what looked best in the search failed when it was confirmed: {why}.")
            }
            Verdict::OutOfBudget => format!(
                "No policy: {:.0} s are too few for a confirmation, which takes 6 rounds; shorten the runs, or raise --budget.",
                self.budget
            ),
            Verdict::Interrupted => "Interrupted before there was a verdict: no policy.".to_owned(),
        }
    }

    /// For the terminal.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for site in self.sites {
            let _ = writeln!(text, "{}.", site.describe());
        }
        for remark in self.remarks {
            let _ = writeln!(text, "{remark}.");
        }
        if let Some(found) = self.found {
            let _ = writeln!(
                text,
                "\n{}{}: gain over the untouched program, the median of the ratios within rounds; above 1 is better",
                self.metric(),
                self.threads()
            );
            let _ = writeln!(text, "{}", self.table(&found.search).trim_fmt());
            if let (Some(ledger), true) = (&found.confirmation, self.has_several_cells()) {
                let _ = writeln!(text, "\nThe best, in fresh rounds:");
                let _ = writeln!(text, "{}", self.confirmation_table(ledger).trim_fmt());
            }
        }
        let _ = writeln!(text, "\n{}", self.conclusion());
        match (&self.written, self.found.map(|found| found.spent)) {
            (Some(path), _) => {
                let _ = writeln!(
                    text,
                    "Policy: {path}\nUse it:  lockwork run --policy {path} -- {}",
                    self.command()
                );
            }
            (None, Some(spent)) => {
                let _ =
                    writeln!(text, "No policy was written; {spent:.0} s of {:.0} s were used.", self.budget);
            }
            (None, None) => {}
        }
        text
    }

    fn command(&self) -> String {
        format::command(&self.subject.command)
    }

    fn has_several_cells(&self) -> bool {
        self.subject.threads.len() * self.subject.metrics.len() > 1
    }

    fn table(&self, ledger: &Ledger) -> comfy_table::Table {
        let mut table = terminal::wrapping_table();
        table.set_header(["lock", "served by", "rounds", "gain", "95% interval", "what came of it"]);
        for (place, trial) in ledger.trials.iter().enumerate() {
            let gain = ledger.gain(place, 0);
            let names: Vec<&str> =
                trial.arm.iter().map(|(site, _)| self.sites[*site].name.as_str()).collect();
            let locks: Vec<&str> =
                trial.arm.iter().map(|&(site, lock)| self.sites[site].candidates[lock].as_str()).collect();
            let dash = || "—".to_owned();
            table.add_row([
                names.join("\n"),
                locks.join("\n"),
                gain.pairs.to_string(),
                gain.ratio.as_ref().map_or_else(dash, |r| format::ratio(r.value)),
                gain.ratio.as_ref().map_or_else(dash, format::ratio_interval),
                fate(&trial.fate),
            ]);
        }
        align(&mut table, &[2, 3, 4]);
        table
    }

    fn confirmation_table(&self, ledger: &Ledger) -> comfy_table::Table {
        let mut table = terminal::table();
        table.set_header(["metric", "threads", "rounds", "gain", "95% interval"]);
        for (metric, threads, gain) in self.cells(ledger) {
            let dash = || "—".to_owned();
            table.add_row([
                self.subject.metrics[metric].name.clone(),
                self.subject.threads[threads].map_or_else(String::new, |count| count.to_string()),
                gain.pairs.to_string(),
                gain.ratio.as_ref().map_or_else(dash, |r| format::ratio(r.value)),
                gain.ratio.as_ref().map_or_else(dash, format::ratio_interval),
            ]);
        }
        align(&mut table, &[1, 2, 3, 4]);
        table
    }

    /// Each metric at each thread count, of the arm that was confirmed.
    fn cells(&self, ledger: &Ledger) -> Vec<(usize, usize, Comparison)> {
        let metrics = 0..self.subject.metrics.len();
        let cells = metrics.flat_map(|metric| (0..self.subject.threads.len()).map(move |t| (metric, t)));
        cells.map(|(metric, threads)| (metric, threads, ledger.gain_at(0, threads, metric))).collect()
    }

    /// The policy file of what was confirmed.
    pub(crate) fn policy(&self, found: &Found, arm: &Arm, confirmation: &Ledger) -> String {
        let host = Host::read();
        let mut text = format!(
            "# Made by `lockwork tune` {} on {}, on {}, {} CPUs.\n# Command: {}\n# Metric: {}{}; seed {}.\n",
            env!("CARGO_PKG_VERSION"),
            self.date,
            host.cpu,
            host.cpus,
            self.command(),
            self.metric(),
            self.threads(),
            self.seed
        );
        let _ = writeln!(text, "#\n# {}", self.conclusion());
        if self.has_several_cells() {
            for (metric, threads, gain) in self.cells(confirmation) {
                let name = &self.subject.metrics[metric].name;
                let at = format::threads(self.subject.threads[threads]);
                let _ = writeln!(text, "#   {name}, {at}: {}", ratio(gain.ratio.as_ref()));
            }
        }
        text.push_str(
            "# Gains are medians of the ratios to the untouched program within rounds, with 95% intervals; above 1 is better.\n",
        );
        for &(site, _) in arm {
            let _ = writeln!(text, "#\n# {}. In the search:", self.sites[site].describe());
            for (place, trial) in found.search.trials.iter().enumerate() {
                if trial.arm.iter().any(|(of, _)| *of == site) {
                    let gain = found.search.gain(place, 0);
                    let _ = writeln!(
                        text,
                        "#   {}: {} in {} rounds, {}",
                        self.title(&trial.arm),
                        ratio(gain.ratio.as_ref()),
                        gain.pairs,
                        fate(&trial.fate)
                    );
                }
            }
        }
        // A name or a message may have ends of lines.
        let comments: String = text.lines().map(comment).collect();
        format!("{comments}\n{}", Bench::rules(self.sites, arm))
    }

    /// All of it.
    pub(crate) fn json(&self) -> Value {
        let metric = |metric: &crate::compare::metric::Metric| json!({ "name": metric.name, "unit": metric.unit, "higher_is_better": metric.higher_is_better });
        let site = |site: &Site| {
            json!({
                "name": site.name, "site": site.place, "kind": site.kind, "rule": site.condition,
                "wait_share": site.waited, "waiters": site.waiters, "candidates": site.candidates,
            })
        };
        let trials = |ledger: &Ledger| -> Vec<Value> {
            let of = |(place, trial): (usize, &super::search::Trial)| {
                let mut value = self.gain(&ledger.gain(place, 0));
                value["policy"] = self.arm(&trial.arm);
                value["outcome"] = fate(&trial.fate).into();
                value
            };
            ledger.trials.iter().enumerate().map(of).collect()
        };
        let confirmation = |ledger: &Ledger| {
            let mut value = self.gain(&ledger.gain(0, 0));
            value["policy"] = self.arm(&ledger.trials[0].arm);
            let cells = self.cells(ledger).into_iter().map(|(metric, threads, gain)| {
                let mut value = self.gain(&gain);
                value["metric"] = self.subject.metrics[metric].name.clone().into();
                value["threads"] = self.subject.threads[threads].into();
                value
            });
            value["cells"] = cells.collect();
            value
        };
        json!({
            "lockwork": env!("CARGO_PKG_VERSION"),
            "date": self.date,
            "program": self.name,
            "command": self.subject.command,
            "threads": self.subject.threads,
            "metrics": self.subject.metrics.iter().map(metric).collect::<Vec<Value>>(),
            "seed": self.seed,
            "budget_s": self.budget,
            "spent_s": self.found.map(|found| found.spent),
            "least_gain": self.least_gain,
            "sites": self.sites.iter().map(site).collect::<Vec<Value>>(),
            "left_alone": self.remarks,
            "best": self.found.and_then(|found| Some(self.arm(&found.search.trials[found.best?].arm))),
            "search": self.found.map(|found| trials(&found.search)),
            "confirmation": self.found.and_then(|found| found.confirmation.as_ref()).map(confirmation),
            "verdict": self.verdict(),
            "conclusion": self.conclusion(),
            "interrupted": self.found.is_some_and(|found| found.interrupted),
            "policy": self.written,
        })
    }

    /// The verdict in a word.
    fn verdict(&self) -> &'static str {
        match self.found.map(|found| &found.verdict) {
            None | Some(Verdict::NothingToGain) => "nothing_to_gain",
            Some(Verdict::NothingRan(_)) => "nothing_ran",
            Some(Verdict::Confirmed) => "confirmed",
            Some(Verdict::NotReproduced) => "not_reproduced",
            Some(Verdict::Worse { .. }) => "worse_elsewhere",
            Some(Verdict::Failed(_)) => "failed",
            Some(Verdict::OutOfBudget) => "out_of_budget",
            Some(Verdict::Interrupted) => "interrupted",
        }
    }

    fn arm(&self, arm: &Arm) -> Value {
        let of = |&(site, candidate): &(usize, usize)| json!({ "site": self.sites[site].name, "rule": self.sites[site].condition, "lock": self.sites[site].candidates[candidate] });
        arm.iter().map(of).collect()
    }

    fn gain(&self, gain: &Comparison) -> Value {
        json!({ "rounds": gain.pairs, "gain": gain.ratio })
    }
}

fn align(table: &mut comfy_table::Table, columns: &[usize]) {
    for &column in columns {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
}

/// A line of a policy file that says nothing to a machine, whatever is in it: TOML allows no control characters there.
fn comment(line: &str) -> String {
    let line: String = line.chars().map(|c| if c.is_control() && c != '\t' { ' ' } else { c }).collect();
    if line.starts_with('#') { format!("{line}\n") } else { format!("# {line}\n") }
}
