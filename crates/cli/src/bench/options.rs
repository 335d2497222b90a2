//! Benchmarks by name, the figures they give, and the delay between operations.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use lockwork_platform::{Cpu, Native};

use crate::compare::metric::Metric;

/// The warm-up of a run that has one: its measured time by this.
pub(crate) const WARM_UP_PART: u32 = 10;

/// What can be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Benchmark {
    Pair,
    Contend,
    Handoff,
    Trylock,
    Many,
    Closures,
}

impl Benchmark {
    /// As the command line and the files call it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Benchmark::Pair => "pair",
            Benchmark::Contend => "contend",
            Benchmark::Handoff => "handoff",
            Benchmark::Trylock => "trylock",
            Benchmark::Many => "many",
            Benchmark::Closures => "closures",
        }
    }

    /// Whether the number of threads is the user's choice.
    pub(crate) fn takes_threads(self) -> bool {
        !matches!(self, Benchmark::Pair | Benchmark::Many)
    }

    /// The figures of a run, the primary one first.
    pub(crate) fn metrics(self, counts: &[u32]) -> Vec<Metric> {
        let of = |list: &[(&str, &'static str, bool)]| {
            list.iter().map(|&(name, unit, higher)| Metric::printed(name, unit, higher)).collect()
        };
        match self {
            Benchmark::Pair => of(&[("pair", "ns", false), ("pairs", "", true)]),
            Benchmark::Contend => of(&[
                ("throughput", "1/s", true),
                ("p50", "ns", false),
                ("p99", "ns", false),
                ("p99.9", "ns", false),
                ("max", "ns", false),
                ("unfairness", "", false),
                ("jain", "", true),
                ("operations", "", true),
                ("fewest", "", true),
                ("most", "", true),
            ]),
            Benchmark::Closures => of(&[
                ("throughput", "1/s", true),
                ("p50", "ns", false),
                ("p99", "ns", false),
                ("p99.9", "ns", false),
                ("max", "ns", false),
                ("unfairness", "", false),
                ("jain", "", true),
                ("operations", "", true),
                ("transfer", "ns", false),
                // Of servers, and 0 without: Lozi et al., section 4.2.
                ("use_rate", "", false),
                ("false_serialisation", "", false),
            ]),
            Benchmark::Handoff => of(&[
                ("p50", "ns", false),
                ("p99", "ns", false),
                ("max", "ns", false),
                ("handoffs", "", true),
                ("operations", "", true),
            ]),
            Benchmark::Trylock => of(&[
                ("rate", "1/s", true),
                ("success", "", true),
                ("attempts", "", true),
                ("successes", "", true),
                ("failures", "", false),
            ]),
            Benchmark::Many => {
                let mut largest_first = counts.to_vec();
                largest_first.sort_unstable_by(|a, b| b.cmp(a));
                largest_first.dedup();
                let each = |what: &'static str, unit| {
                    move |count: &u32| Metric::printed(&format!("{what}_{count}"), unit, false)
                };
                let mut metrics: Vec<Metric> = largest_first.iter().map(each("touch", "ns")).collect();
                metrics.push(Metric::printed("lock", "B", false));
                metrics.extend(largest_first.iter().map(each("resident", "B")));
                metrics.extend(largest_first.iter().map(each("pool", "B")));
                metrics
            }
        }
    }
}

/// What a section of closures works on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Object {
    /// `--lines` cache lines, each found through the one before.
    Lines,
    /// A counter.
    Counter,
    /// A hash map of 1,024 keys.
    Map,
    /// A priority queue of some thousand items.
    Heap,
    /// A FIFO queue of some thousand items.
    Queue,
}

impl Object {
    /// As it is written.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Lines => "lines",
            Self::Counter => "counter",
            Self::Map => "map",
            Self::Heap => "heap",
            Self::Queue => "queue",
        }
    }
}

/// What a thread does between two operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Delay {
    /// So many pauses of the processor.
    Pauses(u32),
    /// Reading the clock for so long.
    Time(Duration),
}

impl Delay {
    /// Passes it.
    pub(crate) fn pass(self) {
        match self {
            Delay::Pauses(count) => (0..count).for_each(|_| Native::pause()),
            Delay::Time(time) => {
                let begin = Instant::now();
                while begin.elapsed() < time {
                    Native::pause();
                }
            }
        }
    }
}

impl FromStr for Delay {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || {
            format!(
                "`{text}` is no delay: write a number of pauses (100) or a time (500ns, 2us), at most a second"
            )
        };
        let (digits, unit) = match text.strip_suffix("ns") {
            Some(digits) => (digits, 1),
            None => match text.strip_suffix("us") {
                Some(digits) => (digits, 1000),
                None => (text, 0),
            },
        };
        let number: u32 = digits.parse().map_err(|_| expected())?;
        let time = Duration::from_nanos(u64::from(number) * unit);
        if number > 1_000_000_000 || time > Duration::from_secs(1) {
            return Err(expected());
        }
        Ok(if unit == 0 { Delay::Pauses(number) } else { Delay::Time(time) })
    }
}

/// As it is parsed.
impl fmt::Display for Delay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Delay::Pauses(count) => write!(f, "{count}"),
            Delay::Time(time) => write!(f, "{}ns", time.as_nanos()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_are_pauses_or_times() {
        assert_eq!("7".parse(), Ok(Delay::Pauses(7)));
        assert_eq!("2us".parse::<Delay>().unwrap().to_string(), "2000ns");
        for bad in ["", "ns", "-1", "1.5us", "2000000us", "5s"] {
            assert!(bad.parse::<Delay>().unwrap_err().contains("500ns"), "{bad}");
        }
    }
}
