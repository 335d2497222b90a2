//! What is left to run, in which order.
//!
//! A round has every configuration once. Within a round, the locks of one cell (application, level, placement) follow one
//! another, so that runs that are compared are near in time; their order is drawn anew for each round. After the rounds that every cell gets, a
//! cell of which some lock's relative standard deviation is too high gets further rounds, with all its locks: a round pairs them.

use std::collections::BTreeMap;

use lockwork_stats::relative_deviation;

use super::{Application, Campaign, CampaignLevel, Placement};
use crate::store::{Outcome, RunKey};

/// The host's nodes, each with its CPUs; nearest nodes first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topology {
    /// By node.
    pub nodes: Vec<Vec<u32>>,
}

impl Topology {
    /// How many CPUs there are.
    #[must_use]
    pub fn cpus(&self) -> usize {
        self.nodes.iter().map(Vec::len).sum()
    }

    /// The CPUs of the first `nodes` nodes.
    #[must_use]
    pub fn first_cpus(&self, nodes: u32) -> Vec<u32> {
        self.nodes.iter().take(nodes as usize).flatten().copied().collect()
    }
}

/// What is compared with one another: one application at one level in one placement.
#[derive(Debug, Clone)]
pub struct Cell<'a> {
    /// The application.
    pub application: &'a Application,
    /// The level.
    pub level: CampaignLevel,
    /// The placement.
    pub placement: Placement,
    /// Its locks, less those that the application cannot take.
    pub locks: Vec<&'a str>,
}

impl Cell<'_> {
    fn key(&self, lock: &str, round: u32) -> RunKey {
        RunKey {
            application: self.application.name.clone(),
            nodes: self.level.nodes,
            threads: self.level.threads,
            placement: self.placement,
            lock: lock.to_owned(),
            round,
        }
    }
}

/// All cells of a campaign on a host.
#[derive(Debug)]
pub struct Plan<'a> {
    campaign: &'a Campaign,
    /// In the order of the file.
    pub cells: Vec<Cell<'a>>,
}

/// A configuration that failed in so many rounds is not tried again: it would only use up the budget.
const FAILURES: usize = 2;

/// What is known of a run that was made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Past {
    pub(crate) outcome: Outcome,
    pub(crate) throughput: Option<f64>,
}

impl<'a> Plan<'a> {
    /// Of the applications of which `runs` holds.
    ///
    /// # Errors
    ///
    /// A sentence, if levels mean nothing on this host.
    pub fn new(
        campaign: &'a Campaign,
        host: &Topology,
        runs: impl Fn(&Application) -> bool,
    ) -> Result<Self, String> {
        let mut cells = Vec::new();
        for application in campaign.applications.iter().filter(|application| runs(application)) {
            let levels = application.levels.as_ref().unwrap_or(&campaign.levels);
            let levels =
                levels.on(host).map_err(|why| format!("application `{}`: {why}", application.name))?;
            let locks = application.locks.as_ref().unwrap_or(&campaign.locks);
            let placements = application.placements.as_ref().unwrap_or(&campaign.placements);
            for &placement in placements {
                for &level in &levels {
                    let locks = locks.iter().map(String::as_str);
                    let locks = locks.filter(|lock| !application.excluded.contains_key(*lock)).collect();
                    cells.push(Cell { application, level, placement, locks });
                }
            }
        }
        Ok(Plan { campaign, cells })
    }

    /// The runs of the first round that is not complete, in their order; empty when the campaign is. `retry` says which
    /// outcomes do not count as a run.
    pub(crate) fn next_round(&self, past: &BTreeMap<RunKey, Past>) -> Vec<RunKey> {
        let last = self.campaign.most_rounds.unwrap_or(self.campaign.rounds);
        (0..last).map(|round| self.round(round, past)).find(|keys| !keys.is_empty()).unwrap_or_default()
    }

    /// What is missing of a round.
    fn round(&self, round: u32, past: &BTreeMap<RunKey, Past>) -> Vec<RunKey> {
        let mut keys = Vec::new();
        for (place, cell) in self.cells.iter().enumerate() {
            if round >= self.campaign.rounds && self.is_steady(cell, round, past) {
                continue;
            }
            let seed = self.campaign.seed ^ (u64::from(round) << 32) ^ place as u64;
            let mut locks = cell.locks.clone();
            fastrand::Rng::with_seed(seed).shuffle(&mut locks);
            let missing = locks.into_iter().filter(|lock| !past.contains_key(&cell.key(lock, round)));
            keys.extend(
                missing.filter(|lock| !self.hopeless(cell, lock, past)).map(|lock| cell.key(lock, round)),
            );
        }
        keys
    }

    fn runs<'p>(
        cell: &Cell<'_>,
        lock: &str,
        rounds: u32,
        past: &'p BTreeMap<RunKey, Past>,
    ) -> impl Iterator<Item = &'p Past> {
        (0..rounds).filter_map(move |round| past.get(&cell.key(lock, round))).collect::<Vec<_>>().into_iter()
    }

    fn hopeless(&self, cell: &Cell<'_>, lock: &str, past: &BTreeMap<RunKey, Past>) -> bool {
        let last = self.campaign.most_rounds.unwrap_or(self.campaign.rounds);
        Self::runs(cell, lock, last, past).filter(|run| run.outcome != Outcome::Ok).count() >= FAILURES
    }

    /// Whether a run of a round that has begun is still to be made: not if its configuration has failed too often by now.
    pub(crate) fn still_wanted(&self, key: &RunKey, past: &BTreeMap<RunKey, Past>) -> bool {
        let cell = self.cells.iter().find(|cell| cell.key(&key.lock, key.round) == *key);
        cell.is_some_and(|cell| !past.contains_key(key) && !self.hopeless(cell, &key.lock, past))
    }

    /// Whether no lock of a cell has too high a deviation over the rounds before `round`.
    fn is_steady(&self, cell: &Cell<'_>, round: u32, past: &BTreeMap<RunKey, Past>) -> bool {
        cell.locks.iter().all(|lock| {
            let values: Vec<f64> =
                Self::runs(cell, lock, round, past).filter_map(|run| run.throughput).collect();
            relative_deviation(&values).is_none_or(|deviation| deviation <= self.campaign.deviation)
        })
    }

    /// How many runs there are at least: all cells, the rounds that every cell gets.
    #[must_use]
    pub fn least(&self) -> usize {
        self.cells.iter().map(|cell| cell.locks.len()).sum::<usize>() * self.campaign.rounds as usize
    }

    /// The runs of the least that are still to be made.
    pub(crate) fn left(&self, past: &BTreeMap<RunKey, Past>) -> Vec<RunKey> {
        (0..self.campaign.rounds).flat_map(|round| self.round(round, past)).collect()
    }
}

/// The level of a run.
pub(crate) fn cell_of(campaign: &Campaign, host: &Topology, key: &RunKey) -> Option<CampaignLevel> {
    let application = campaign.application(&key.application)?;
    let levels = application.levels.as_ref().unwrap_or(&campaign.levels).on(host).ok()?;
    levels.into_iter().find(|level| (level.nodes, level.threads) == (key.nodes, key.threads))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn campaign(rounds: &str) -> Campaign {
        Campaign::parse(&format!(
            "name = 'c'\nlocks = ['a', 'b', 'c']\nlevels.threads = [1, 2]\n{rounds}\n
             [[application]]\nname = 'x'\ncommand = ['x']\nwork = 1\nexcluded = {{ c = 'why' }}\n
             [[application]]\nname = 'y'\ncommand = ['y']\nwork = 1\n"
        ))
        .unwrap()
    }

    fn host() -> Topology {
        Topology { nodes: vec![vec![0, 1]] }
    }

    fn ok(throughput: f64) -> Past {
        Past { outcome: Outcome::Ok, throughput: Some(throughput) }
    }

    #[test]
    fn rounds_follow_one_another_and_cells_stay_together() {
        let campaign = campaign("rounds = 2");
        let plan = Plan::new(&campaign, &host(), |_| true).unwrap();
        assert_eq!(plan.least(), 2 * (2 + 2 + 3 + 3));
        let mut past = BTreeMap::new();
        let first = plan.next_round(&past);
        assert_eq!(first.len(), 10);
        let cells: Vec<(String, u32)> =
            first.iter().map(|key| (key.application.clone(), key.nodes)).collect();
        assert!(cells.is_sorted(), "{cells:?}");
        past.extend(first.into_iter().map(|key| (key, ok(1.0))));
        assert!(plan.next_round(&past).iter().all(|key| key.round == 1));
    }

    #[test]
    fn cells_that_vary_get_more_rounds_and_failures_are_given_up() {
        let campaign = campaign("rounds = 2\nmost-rounds = 4");
        let plan = Plan::new(&campaign, &host(), |_| true).unwrap();
        let mut past = BTreeMap::new();
        let mut made = 0;
        loop {
            let keys = plan.next_round(&past);
            if keys.is_empty() {
                break;
            }
            for key in keys {
                made += 1;
                let value = match (key.application.as_str(), key.nodes, key.lock.as_str()) {
                    ("x", 1, "a") => ok(f64::from(key.round) * 10.0 + 1.0),
                    ("y", _, "c") => Past { outcome: Outcome::Crashed, throughput: None },
                    _ => ok(1.0),
                };
                past.insert(key, value);
            }
        }
        assert_eq!(made, plan.least() + 2 * 2, "two more rounds of the one cell that varies");
        assert!(plan.left(&past).is_empty());
    }
}
