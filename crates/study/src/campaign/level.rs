//! Levels of contention: NUMA nodes, as in the thesis, or threads.

use serde::{Deserialize, Serialize};

use super::Topology;

/// Which levels a campaign has.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Levels {
    /// So many threads: numbers, `cpus`, `cpus*2`, `cpus/2`.
    Threads(Vec<Count>),
    /// So many nodes, with a thread for each CPU of them and nowhere else to run; empty: one, two, four, … and all.
    Nodes(Vec<u32>),
    /// Of a simulated machine: a level of so many nodes has so many threads.
    Machine(Vec<Level>),
}

impl Default for Levels {
    fn default() -> Self {
        Levels::Threads(vec![Count::Text("cpus".to_owned())])
    }
}

/// A count of threads.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Count {
    /// As it is.
    Number(u32),
    /// Of the CPUs of the host.
    Text(String),
}

impl Count {
    fn on(&self, cpus: u32) -> Result<u32, String> {
        let text = match self {
            Count::Number(0) => return Err("no run has 0 threads".to_owned()),
            Count::Number(number) => return Ok(*number),
            Count::Text(text) => text,
        };
        let wrong = || format!("`{text}` is no count of threads: a number, cpus, cpus*2 or cpus/2");
        let rest = text.trim().strip_prefix("cpus").ok_or_else(wrong)?.trim();
        let factor =
            |digits: &str| digits.trim().parse::<u32>().ok().filter(|factor| *factor > 0).ok_or_else(wrong);
        match rest.split_at_checked(1) {
            None => Ok(cpus),
            Some(("*", factor_text)) => cpus.checked_mul(factor(factor_text)?).ok_or_else(wrong),
            Some(("/", factor_text)) => Ok((cpus / factor(factor_text)?).max(1)),
            _ => Err(wrong()),
        }
    }
}

/// A level of contention.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Level {
    /// What the column `node` says: nodes, or threads where levels are counts of threads.
    pub nodes: u32,
    /// Threads of the application.
    pub threads: u32,
    /// Whether the program may run on those nodes only.
    #[serde(default)]
    pub confined: bool,
}

impl Levels {
    /// Refuses levels that no table could tell apart: the column `node` is a level's name, whatever threads it has.
    pub(super) fn check(&self) -> Result<(), String> {
        let Levels::Machine(levels) = self else { return Ok(()) };
        for (place, level) in levels.iter().enumerate() {
            if level.nodes == 0 || level.threads == 0 {
                return Err("levels.machine: a level has a node and a thread at least".to_owned());
            }
            if let Some(other) =
                levels[..place].iter().find(|other| other.nodes == level.nodes && *other != level)
            {
                return Err(format!(
                    "levels.machine has two levels of {} nodes, with {} and {} threads: tables tell levels apart by their nodes",
                    level.nodes, other.threads, level.threads
                ));
            }
        }
        Ok(())
    }

    /// The levels on a host, ascending, each once.
    ///
    /// # Errors
    ///
    /// A sentence, if a count is none or the host has fewer nodes.
    pub fn on(&self, host: &Topology) -> Result<Vec<Level>, String> {
        let mut levels: Vec<Level> = match self {
            Levels::Threads(counts) => counts
                .iter()
                .map(|count| {
                    let threads = count.on(host.cpus() as u32)?;
                    Ok(Level { nodes: threads, threads, confined: false })
                })
                .collect::<Result<_, String>>()?,
            Levels::Nodes(counts) => {
                let all = host.nodes.len() as u32;
                let powers = std::iter::successors(Some(1_u32), |count| Some(count * 2));
                let default: Vec<u32> = powers.take_while(|count| *count < all).chain([all]).collect();
                let counts = if counts.is_empty() { &default } else { counts };
                // A host with fewer nodes runs the levels that it has.
                counts
                    .iter()
                    .filter(|count| **count > 0 && **count <= all)
                    .map(|&nodes| Level {
                        nodes,
                        threads: host.first_cpus(nodes).len() as u32,
                        confined: true,
                    })
                    .collect()
            }
            Levels::Machine(levels) => levels.clone(),
        };
        levels.sort_unstable();
        levels.dedup();
        match levels.is_empty() {
            true => Err("no level of contention that this host has".to_owned()),
            false => Ok(levels),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host() -> Topology {
        Topology { nodes: vec![vec![0, 1, 2], vec![3, 4, 5], vec![6, 7, 8]] }
    }

    #[test]
    fn threads_are_numbers_or_multiples_of_the_cpus() {
        let count = |text: &str| Count::Text(text.to_owned()).on(6);
        assert_eq!((count("cpus"), count("cpus*2"), count("cpus / 4")), (Ok(6), Ok(12), Ok(1)));
        for wrong in ["", "cpu", "cpus*0", "cpus+1", "cpus*x", "6"] {
            assert!(count(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn nodes_double_up_to_all_of_them() {
        let levels = Levels::Nodes(Vec::new()).on(&host()).unwrap();
        let pairs: Vec<(u32, u32)> = levels.iter().map(|level| (level.nodes, level.threads)).collect();
        assert_eq!(pairs, [(1, 3), (2, 6), (3, 9)]);
        assert!(Levels::Nodes(vec![4]).on(&host()).is_err(), "the host has no four nodes");
    }
}
