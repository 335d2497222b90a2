//! What a study states, as data: each observation with the place and the figure that are published, a statistic of the runs, and
//! the bounds within which the runs agree. `observations.toml` has those of the thesis's chapter 4.

use lockwork_stats::{mean, median};
use serde::Deserialize;

use crate::campaign::object;
use crate::data::Study;
use crate::table::{Row, Table};
use crate::tables::{Order, begin, changing, locks_of, pairs_of};
use crate::view::{Level, Metric, View, best, gain, share, worst};

/// The thesis's.
const THESIS: &str = include_str!("observations.toml");

/// A list of observations.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Observations {
    observation: Vec<Observation>,
}

/// One of them.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Observation {
    /// In words.
    claim: String,
    /// Where it is published.
    source: String,
    /// What is published.
    published: String,
    /// Why runs cannot say; then nothing else is given.
    #[serde(default)]
    not_modelled: Option<String>,
    #[serde(default)]
    statistic: Option<Statistic>,
    #[serde(default)]
    nodes: Option<Nodes>,
    /// The statistic is divided by its value at these nodes.
    #[serde(default)]
    over: Option<Nodes>,
    /// The machines that it is about; all, if there are none here.
    #[serde(default)]
    machines: Vec<String>,
    /// The statistic's mean over `machines` is divided by that over these.
    #[serde(default)]
    over_machines: Vec<String>,
    /// The applications that it is about; all that are lock-sensitive, if there are none here.
    #[serde(default)]
    applications: Vec<String>,
    /// The locks that it is about, under any of their names.
    #[serde(default)]
    locks: Vec<String>,
    /// The locks that those are compared with.
    #[serde(default)]
    others: Vec<String>,
    #[serde(default)]
    at_least: Option<f64>,
    #[serde(default)]
    at_most: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Nodes {
    One,
    Max,
    Opt,
}

impl Nodes {
    fn level(self) -> Level {
        match self {
            Nodes::One => Level::One,
            Nodes::Max => Level::Max,
            Nodes::Opt => Level::Opt,
        }
    }
}

/// What is computed of the runs of a machine, over the lock-sensitive applications unless applications are named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Statistic {
    /// The median over the applications of the gain of the best lock over the worst.
    GainMedian,
    /// The lowest of these gains.
    GainLeast,
    /// The share of the pairs of application and lock whose opt nodes are fewer than max nodes.
    FewerNodes,
    /// The highest gain of opt nodes over max nodes.
    NodesGainMost,
    /// The mean over pairs of application and lock of the gain of opt nodes over max nodes.
    NodesGainMean,
    /// The share of the applications on which the locks differ in their opt nodes.
    NodesByLock,
    /// The share of the locks whose opt nodes differ with the application.
    NodesByApplication,
    /// The share of the applications on which a lock of `locks` and one of `others` differ in their opt nodes.
    NodesByPair,
    /// The highest coverage of any lock.
    CoverageHighest,
    /// The mean coverage of the locks.
    CoverageMean,
    /// The mean coverage of `locks`.
    CoverageOf,
    /// The highest coverage of any lock, less the mean coverage of `locks`, in points.
    CoverageAbove,
    /// The share of the locks that harm at least one application.
    HarmfulLocks,
    /// The mean share of the applications that a lock harms.
    HarmMean,
    /// The share of the pairs of locks each of which is better than the other on some application.
    BothWays,
    /// The lowest share, over the applications, of the pairs of locks whose order changes with the nodes.
    ChangesLeast,
    /// Of two machines: the share of the pairs of locks, over the applications, whose order is reversed or is one on one machine
    /// and none on the other. Its mean over the pairs of machines.
    Inversions,
    /// The highest of these over the lowest.
    InversionsSpread,
    /// The geometric mean of the values of `locks` over those of `others`.
    Ratio,
    /// The same of the 99th percentiles.
    TailRatio,
    /// The mean over the pairs of application and lock of the 99th percentile over that at one node.
    TailGrowth,
    /// The same of the time of an operation, of all threads together.
    TimeGrowth,
    /// The share of the applications of which the best lock is one of `locks`.
    BestIsOf,
}

impl Statistic {
    fn is_ratio(self) -> bool {
        use Statistic::{InversionsSpread, Ratio, TailGrowth, TailRatio, TimeGrowth};
        matches!(self, Ratio | TailRatio | TailGrowth | TimeGrowth | InversionsSpread)
    }

    fn is_of_machines(self) -> bool {
        matches!(self, Statistic::Inversions | Statistic::InversionsSpread)
    }

    fn metric(self) -> Metric {
        match self {
            Statistic::TailRatio | Statistic::TailGrowth => Metric::TailLatency,
            _ => Metric::Throughput,
        }
    }
}

impl Observations {
    /// Those of the thesis's chapter 4.
    ///
    /// # Panics
    ///
    /// If the file in the source is wrong, which a test excludes.
    #[must_use]
    pub fn thesis() -> Self {
        Self::parse(THESIS).unwrap_or_else(|error| panic!("observations.toml: {error}"))
    }

    /// Reads a list.
    ///
    /// # Errors
    ///
    /// A sentence that says what is wrong and where.
    pub fn parse(text: &str) -> Result<Self, String> {
        let table = toml::de::DeTable::parse(text).map_err(|error| error.to_string())?;
        let list: Observations =
            serde_json::from_value(object(table.get_ref())?).map_err(|error| error.to_string())?;
        for one in &list.observation {
            if one.not_modelled.is_some() == one.statistic.is_some() {
                return Err(format!("`{}` needs either a statistic or not-modelled", one.claim));
            }
            if one.statistic.is_some() && one.at_least.is_none() && one.at_most.is_none() {
                return Err(format!("`{}` has no bound: at-least or at-most", one.claim));
            }
        }
        Ok(list)
    }

    /// A row for each: what is published, what the studies say, and the verdict.
    #[must_use]
    pub fn table(&self, studies: &[Study]) -> Table {
        let names: Vec<&str> = studies.iter().map(|study| study.machine.as_str()).collect();
        let title = format!("What is published, and what these runs say ({})", names.join(", "));
        let labels = ["observation", "published", "place", "holds if", "these runs", "verdict"];
        let mut table = begin("observations", title, &labels);
        let mut counts = [0; 3];
        for observation in &self.observation {
            let (runs, verdict) = observation.judge(studies);
            counts[verdict as usize] += 1;
            let texts =
                [&observation.claim, &observation.published, &observation.source, &observation.rule(), &runs];
            let labels = texts.into_iter().cloned().chain([verdict.text().to_owned()]).collect();
            table.rows.push(Row { labels, cells: Vec::new() });
        }
        let [holds, differs, silent] = counts;
        table.notes.push(format!(
            "{holds} hold, {differs} differ, {silent} are not modelled or not measured. An observation holds if its bounds are met on \
             each machine. Where the thesis gives no figure the bound is ours."
        ));
        table
    }
}

/// Whether runs agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Holds,
    Differs,
    NotModelled,
}

impl Verdict {
    fn text(self) -> &'static str {
        match self {
            Verdict::Holds => "holds",
            Verdict::Differs => "differs",
            Verdict::NotModelled => "not modelled",
        }
    }
}

/// `A64` is `a-64`.
fn same_machine(one: &str, other: &str) -> bool {
    let plain = |name: &str| name.replace('-', "").to_ascii_lowercase();
    plain(one) == plain(other)
}

impl Observation {
    /// The bounds.
    fn rule(&self) -> String {
        let bounds = [("at least", self.at_least), ("at most", self.at_most)];
        let texts =
            bounds.iter().filter_map(|(word, bound)| Some(format!("{word} {}", self.number((*bound)?))));
        texts.collect::<Vec<_>>().join(", ")
    }

    fn number(&self, value: f64) -> String {
        let is_ratio = self.statistic.is_some_and(Statistic::is_ratio)
            || self.over.is_some()
            || !self.over_machines.is_empty();
        match is_ratio {
            true if value >= 10.0 => format!("{value:.0}×"),
            true => format!("{value:.2}×"),
            false => format!("{:.0}%", 100.0 * value),
        }
    }

    fn judge(&self, studies: &[Study]) -> (String, Verdict) {
        if let Some(reason) = &self.not_modelled {
            return (reason.clone(), Verdict::NotModelled);
        }
        let figures = self.figures(studies);
        if figures.is_empty() {
            return ("not measured".to_owned(), Verdict::NotModelled);
        }
        let is_within = |value: f64| {
            self.at_least.is_none_or(|bound| value >= bound)
                && self.at_most.is_none_or(|bound| value <= bound)
        };
        let verdict = match figures.iter().all(|(_, value)| is_within(*value)) {
            true => Verdict::Holds,
            false => Verdict::Differs,
        };
        let text = |(name, value): &(String, f64)| match name.is_empty() {
            true => self.number(*value),
            false => format!("{name} {}", self.number(*value)),
        };
        (figures.iter().map(text).collect::<Vec<_>>().join(", "), verdict)
    }

    /// The statistic, for each machine that has it, or for all together.
    fn figures(&self, studies: &[Study]) -> Vec<(String, f64)> {
        let Some(statistic) = self.statistic else { return Vec::new() };
        let views = |machines: &[String]| -> Vec<View<'_>> {
            let wanted = |study: &&Study| {
                machines.is_empty() || machines.iter().any(|name| same_machine(name, &study.machine))
            };
            studies.iter().filter(wanted).map(|study| View::new(study, statistic.metric())).collect()
        };
        let own = views(&self.machines);
        if statistic.is_of_machines() {
            return self
                .of_machines(statistic, &own)
                .map(|value| (String::new(), value))
                .into_iter()
                .collect();
        }
        let values: Vec<(String, f64)> = own
            .iter()
            .filter_map(|view| Some((view.study.machine.clone(), self.relative(statistic, view)?)))
            .collect();
        if self.over_machines.is_empty() {
            return values;
        }
        let middle = |values: &[f64]| mean(values);
        let own: Vec<f64> = values.iter().map(|(_, value)| *value).collect();
        let others: Vec<f64> =
            views(&self.over_machines).iter().filter_map(|view| self.relative(statistic, view)).collect();
        let ratio = middle(&own).zip(middle(&others)).map(|(own, others)| own / others);
        ratio.map(|ratio| (String::new(), ratio)).into_iter().collect()
    }

    fn relative(&self, statistic: Statistic, view: &View<'_>) -> Option<f64> {
        let value = self.of(statistic, view, self.nodes.unwrap_or(Nodes::Max).level())?;
        match self.over {
            None => Some(value),
            Some(nodes) => Some(value / self.of(statistic, view, nodes.level())?),
        }
    }

    /// The applications that it is about.
    fn applications(&self, view: &View<'_>) -> Vec<usize> {
        if self.applications.is_empty() {
            // Sensitivity is the throughput's, whatever is looked at.
            return View::new(view.study, Metric::Throughput).sensitive();
        }
        let is_named = |&at: &usize| self.applications.contains(&view.study.applications[at]);
        view.tested().into_iter().filter(is_named).collect()
    }

    fn of(&self, statistic: Statistic, view: &View<'_>, level: Level) -> Option<f64> {
        let applications = self.applications(view);
        let locks = locks_of(view, &applications);
        let named = |names: &[String]| -> Vec<usize> {
            locks.iter().copied().filter(|&lock| names.contains(&view.study.locks[lock])).collect()
        };
        let (own, others) = (named(&self.locks), named(&self.others));
        let coverage = |lock: &usize| view.coverage(&applications, level, *lock);
        let coverages = |locks: &[usize]| locks.iter().filter_map(coverage).collect::<Vec<f64>>();
        let highest = |values: Vec<f64>| values.into_iter().reduce(f64::max);
        let lowest = |values: Vec<f64>| values.into_iter().reduce(f64::min);
        match statistic {
            Statistic::GainMedian => median(&gains(view, &applications, level)),
            Statistic::GainLeast => lowest(gains(view, &applications, level)),
            Statistic::FewerNodes => {
                share(optima(view, &applications, &locks), |(nodes, _, most, _)| nodes < most)
            }
            Statistic::NodesGainMost => highest(nodes_gains(view, &applications, &locks)),
            Statistic::NodesGainMean => mean(&nodes_gains(view, &applications, &locks)),
            Statistic::NodesByLock => share(&applications, |&application| {
                vary(locks.iter().filter_map(|&lock| Some(view.optimum(application, lock)?.0)))
            }),
            Statistic::NodesByApplication => share(&locks, |&lock| {
                vary(applications.iter().filter_map(|&application| Some(view.optimum(application, lock)?.0)))
            }),
            Statistic::NodesByPair => {
                let (one, other) = (*own.first()?, *others.first()?);
                let nodes = |application, lock| Some(view.optimum(application, lock)?.0);
                let both = applications.iter().filter_map(|&at| nodes(at, one).zip(nodes(at, other)));
                share(both, |(one, other)| one != other)
            }
            Statistic::CoverageHighest => highest(coverages(&locks)),
            Statistic::CoverageMean => mean(&coverages(&locks)),
            Statistic::CoverageOf => mean(&coverages(&own)),
            Statistic::CoverageAbove => Some(highest(coverages(&locks))? - mean(&coverages(&own))?),
            Statistic::HarmfulLocks => {
                share(locks.iter().filter_map(|&lock| view.harm(&applications, level, lock)), |harm| {
                    harm > 0.0
                })
            }
            Statistic::HarmMean => mean(
                &locks.iter().filter_map(|&lock| view.harm(&applications, level, lock)).collect::<Vec<f64>>(),
            ),
            Statistic::BothWays => share(pairs_of(&locks), |(one, other)| {
                let orders: Vec<Order> = orders(view, &applications, level, one, other);
                orders.contains(&Order::Better) && orders.contains(&Order::Worse)
            }),
            Statistic::ChangesLeast => lowest(
                applications
                    .iter()
                    .filter_map(|&at| changing(view, at, &view.nodes(at).collect::<Vec<u32>>()))
                    .collect(),
            ),
            Statistic::Ratio => ratio(view, &applications, level, &own, &others),
            // The view's values are inverses of latencies.
            Statistic::TailRatio => ratio(view, &applications, level, &others, &own),
            Statistic::TailGrowth | Statistic::TimeGrowth => growth(view, &applications, &locks, level),
            Statistic::BestIsOf => share(&applications, |&application| {
                let row = view.row(application, level);
                let best = best(&row);
                own.iter().any(|&lock| row[lock].is_some() && row[lock] == best)
            }),
            Statistic::Inversions | Statistic::InversionsSpread => None,
        }
    }

    /// Of each pair of machines, and of these the mean or the spread.
    fn of_machines(&self, statistic: Statistic, views: &[View<'_>]) -> Option<f64> {
        let level = self.nodes.unwrap_or(Nodes::Max).level();
        let places: Vec<usize> = (0..views.len()).collect();
        let shares: Vec<f64> = pairs_of(&places)
            .filter_map(|(one, other)| inversions(&views[one], &views[other], level))
            .collect();
        match statistic {
            Statistic::Inversions => mean(&shares),
            _ => Some(shares.iter().copied().reduce(f64::max)? / shares.iter().copied().reduce(f64::min)?),
        }
    }
}

/// For each application the gain of the best lock over the worst.
fn gains(view: &View<'_>, applications: &[usize], level: Level) -> Vec<f64> {
    let of = |&application: &usize| {
        let row = view.row(application, level);
        best(&row).zip(worst(&row)).map(|(best, worst)| gain(best, worst))
    };
    applications.iter().filter_map(of).collect()
}

/// For each pair of application and lock: opt nodes with the value there, max nodes with the value there.
fn optima<'a>(
    view: &'a View<'_>,
    applications: &'a [usize],
    locks: &'a [usize],
) -> impl Iterator<Item = (u32, f64, u32, f64)> + 'a {
    applications.iter().flat_map(move |&application| {
        locks.iter().filter_map(move |&lock| {
            let (nodes, value) = view.optimum(application, lock)?;
            let most = view.nodes(application).next_back()?;
            Some((nodes, value, most, view.value(application, most, lock)?))
        })
    })
}

fn nodes_gains(view: &View<'_>, applications: &[usize], locks: &[usize]) -> Vec<f64> {
    optima(view, applications, locks).map(|(_, value, _, at_most)| gain(value, at_most)).collect()
}

fn vary(values: impl Iterator<Item = u32>) -> bool {
    let values: Vec<u32> = values.collect();
    values.iter().any(|value| *value != values[0])
}

/// How two locks compare on each application that both were measured with.
fn orders(view: &View<'_>, applications: &[usize], level: Level, one: usize, other: usize) -> Vec<Order> {
    let both = |&at: &usize| view.at(at, level, one).zip(view.at(at, level, other));
    applications.iter().filter_map(both).map(|(one, other)| Order::of(one, other)).collect()
}

/// The geometric mean, over applications, of the values of some locks over those of others.
fn ratio(
    view: &View<'_>,
    applications: &[usize],
    level: Level,
    own: &[usize],
    others: &[usize],
) -> Option<f64> {
    let mut logarithms = Vec::new();
    for &application in applications {
        for &one in own {
            for &other in others {
                let values = view.at(application, level, one).zip(view.at(application, level, other));
                logarithms.extend(values.map(|(one, other)| (one / other).ln()));
            }
        }
    }
    mean(&logarithms).map(f64::exp)
}

/// The mean, as the thesis says `on average`, of the values at one node over those at a level. Values are inverses of times.
fn growth(view: &View<'_>, applications: &[usize], locks: &[usize], level: Level) -> Option<f64> {
    let pairs =
        applications.iter().flat_map(|&application| locks.iter().map(move |&lock| (application, lock)));
    let times: Vec<f64> = pairs
        .filter_map(|(at, lock)| view.at(at, Level::One, lock).zip(view.at(at, level, lock)))
        .map(|(one, here)| one / here)
        .collect();
    mean(&times)
}

/// The share of the pairs of locks that are not in the same order on two machines, over the applications of both.
fn inversions(one: &View<'_>, other: &View<'_>, level: Level) -> Option<f64> {
    let place = |names: &[String], name: &String| names.binary_search(name).ok();
    let common: Vec<(usize, usize)> = (0..one.study.locks.len())
        .filter_map(|lock| Some((lock, place(&other.study.locks, &one.study.locks[lock])?)))
        .collect();
    let mut same = Vec::new();
    for application in one.sensitive() {
        let Some(there) = place(&other.study.applications, &one.study.applications[application]) else {
            continue;
        };
        for (a, b) in pairs_of(&common) {
            let here = orders(one, &[application], level, a.0, b.0);
            let there = orders(other, &[there], level, a.1, b.1);
            same.extend(here.first().zip(there.first()).map(|(here, there)| here == there));
        }
    }
    share(same, |same| !same)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_says_what_is_wrong_with_it() {
        let with = |rest: &str| {
            let text = format!("[[observation]]\nclaim = \"c\"\nsource = \"s\"\npublished = \"p\"\n{rest}");
            Observations::parse(&text).map(|_| ()).unwrap_err()
        };
        assert!(with("").contains("either a statistic or not-modelled"));
        assert!(with("statistic = \"ratio\"").contains("no bound"));
        assert!(with("statistic = \"mood\"\nat-least = 1").contains("mood"));
    }

    #[test]
    fn a_verdict_needs_the_bounds_on_every_machine() {
        let study = |machine: &str, slow: f64| {
            let csv =
                format!("bench,node,strategy,throughput\na,1,x,100\na,1,y,100\na,2,x,100\na,2,y,{slow}\n");
            Study::from_reader(csv.as_bytes(), std::path::Path::new(machine), crate::data::Energy::default())
                .unwrap()
        };
        let list = Observations::parse(
            "[[observation]]\nclaim = \"x beats y\"\nsource = \"s\"\npublished = \"2x\"\nstatistic = \"ratio\"\n\
             locks = [\"x\"]\nothers = [\"y\", \"z\"]\napplications = [\"a\"]\nat-least = 1.5",
        )
        .unwrap();
        let row = |studies: &[Study]| list.table(studies).rows.remove(0).labels;
        assert_eq!(row(&[study("m-1", 50.0)])[3..], ["at least 1.50×", "m-1 2.00×", "holds"]);
        assert_eq!(row(&[study("m-1", 50.0), study("m-2", 90.0)])[5], "differs");
    }
}
