//! Which CPUs there are, and what they share, as the kernel says it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::Serialize;

/// How far apart two CPUs are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Level {
    /// Hardware threads of one core.
    Core,
    /// Cores of one last-level cache.
    Llc,
    /// Last-level caches of one node.
    Node,
    /// Nodes; the rank of their distance among all distances between nodes, from 1.
    Hop(usize),
}

/// Where a CPU is. Cores and caches are numbered over the whole machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) cpu: usize,
    core: usize,
    llc: usize,
    pub(super) node: usize,
}

/// The CPUs of a machine that are online.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) places: Vec<Place>,
    pub(super) nodes: usize,
    /// The most of any node, cache, core.
    pub(super) llcs_per_node: usize,
    pub(super) cores_per_llc: usize,
    pub(super) threads_per_core: usize,
    /// Ranks of the distances between nodes, row by row; 0 from a node to itself.
    pub(super) hops: Vec<Vec<usize>>,
}

impl Layout {
    /// The layout that `system` shows: `/sys/devices/system`, or a copy.
    pub(super) fn read(system: &Path) -> Self {
        let online = list(&system.join("cpu/online")).unwrap_or_else(|| vec![0]);
        let nodes = Nodes::read(system);
        let (mut cores, mut llcs) = (Names::default(), Names::default());
        let mut places = Vec::new();
        for cpu in online {
            let here = system.join(format!("cpu/cpu{cpu}"));
            let node = nodes.of_cpu.get(&cpu).copied().unwrap_or(0);
            let siblings = list(&here.join("topology/thread_siblings_list")).unwrap_or_else(|| vec![cpu]);
            // Where the kernel does not say, the cores of a node share one cache.
            let sharers = last_level(&here.join("cache"))
                .unwrap_or_else(|| nodes.of_cpu.iter().filter(|of| *of.1 == node).map(|of| *of.0).collect());
            places.push(Place { cpu, core: cores.number(siblings), llc: llcs.number(sharers), node });
        }
        let most = |inner: fn(&Place) -> usize, outer: fn(&Place) -> usize| {
            let mut groups: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
            for place in &places {
                let group = groups.entry(outer(place)).or_default();
                if !group.contains(&inner(place)) {
                    group.push(inner(place));
                }
            }
            groups.values().map(Vec::len).max().unwrap_or(1)
        };
        Self {
            nodes: nodes.distances.len(),
            llcs_per_node: most(|place| place.llc, |place| place.node),
            cores_per_llc: most(|place| place.core, |place| place.llc),
            threads_per_core: most(|place| place.cpu, |place| place.core),
            hops: ranks(&nodes.distances),
            places,
        }
    }

    /// Whether every node, cache and core has as many parts as the others: a machine's file can say no more.
    pub(super) fn is_even(&self) -> bool {
        let all = self.nodes * self.llcs_per_node * self.cores_per_llc * self.threads_per_core;
        self.places.len() == all
    }

    /// How far apart two CPUs are.
    pub(super) fn level(&self, one: Place, other: Place) -> Level {
        match self.hops[one.node][other.node] {
            0 if one.core == other.core => Level::Core,
            0 if one.llc == other.llc => Level::Llc,
            0 => Level::Node,
            hops => Level::Hop(hops),
        }
    }
}

/// Numbers for groups of CPUs, in the order in which they are met.
#[derive(Default)]
struct Names(Vec<Vec<usize>>);

impl Names {
    fn number(&mut self, group: Vec<usize>) -> usize {
        let known = self.0.iter().position(|other| *other == group);
        known.unwrap_or_else(|| {
            self.0.push(group);
            self.0.len() - 1
        })
    }
}

/// The nodes that have CPUs, numbered from 0 without gaps.
struct Nodes {
    of_cpu: BTreeMap<usize, usize>,
    distances: Vec<Vec<usize>>,
}

impl Nodes {
    fn read(system: &Path) -> Self {
        let online = list(&system.join("node/online")).unwrap_or_default();
        let directory = |node: &usize| system.join(format!("node/node{node}"));
        let cpus = |node: &usize| list(&directory(node).join("cpulist")).unwrap_or_default();
        let with_cpus: Vec<usize> = online.iter().copied().filter(|node| !cpus(node).is_empty()).collect();
        if with_cpus.is_empty() {
            return Self { of_cpu: BTreeMap::new(), distances: vec![vec![10]] };
        }
        // A row has a number for each node that is online.
        let place = |node: usize| online.iter().position(|other| *other == node).unwrap_or(0);
        let row = |node: &usize| {
            let text = fs::read_to_string(directory(node).join("distance")).unwrap_or_default();
            let all: Vec<usize> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
            let elsewhere = |other: usize| if other == *node { 10 } else { 20 };
            with_cpus.iter().map(|other| *all.get(place(*other)).unwrap_or(&elsewhere(*other))).collect()
        };
        Self {
            of_cpu: with_cpus
                .iter()
                .enumerate()
                .flat_map(|(number, node)| cpus(node).into_iter().map(move |cpu| (cpu, number)))
                .collect(),
            distances: with_cpus.iter().map(row).collect(),
        }
    }
}

/// The rank of each distance among all between different nodes, from 1; the larger one where a pair has two.
fn ranks(distances: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let count = distances.len();
    let far = |from: usize, to: usize| distances[from][to].max(distances[to][from]);
    let pairs = (0..count).flat_map(|from| (0..count).map(move |to| (from, to)));
    let mut known: Vec<usize> =
        pairs.filter(|(from, to)| from != to).map(|(from, to)| far(from, to)).collect();
    known.sort_unstable();
    known.dedup();
    let rank = |from: usize, to: usize| match from == to {
        true => 0,
        false => known.partition_point(|distance| *distance < far(from, to)) + 1,
    };
    (0..count).map(|from| (0..count).map(|to| rank(from, to)).collect()).collect()
}

/// The CPUs that share the highest cache that a CPU has.
fn last_level(caches: &Path) -> Option<Vec<usize>> {
    let entries = fs::read_dir(caches).ok()?.flatten().map(|entry| entry.path());
    let word = |path: &Path, name: &str| fs::read_to_string(path.join(name)).ok();
    let level = |path: &Path| word(path, "level")?.trim().parse::<u32>().ok();
    let of_data = |path: &Path| word(path, "type").is_some_and(|kind| kind.trim() != "Instruction");
    let (_, highest) =
        entries.filter(|path| of_data(path)).filter_map(|path| Some((level(&path)?, path))).max()?;
    list(&highest.join("shared_cpu_list"))
}

/// Bytes of the highest cache of the first CPU.
pub(super) fn last_level_bytes(system: &Path) -> Option<usize> {
    let entries = fs::read_dir(system.join("cpu/cpu0/cache")).ok()?.flatten();
    let sizes = entries.filter_map(|entry| {
        let text = fs::read_to_string(entry.path().join("size")).ok()?;
        text.trim().strip_suffix('K')?.parse::<usize>().ok()
    });
    sizes.max().map(|kib| kib * 1024)
}

/// The numbers of a kernel's list such as `0-3,8`; `None` if there is no such file.
fn list(path: &Path) -> Option<Vec<usize>> {
    let text = fs::read_to_string(path).ok()?;
    let range = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some(first.trim().parse::<usize>().ok()?..=last.trim().parse::<usize>().ok()?)
    };
    Some(text.trim().split(',').filter_map(range).flatten().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine of `nodes` nodes of two last-level caches of two cores of two threads. As on most, the second threads
    /// of all cores come after all first ones.
    fn system(nodes: usize) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        let write = |path: String, text: String| {
            let path = directory.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let cores = nodes * 4;
        write("cpu/online".to_owned(), format!("0-{}\n", 2 * cores - 1));
        // The last node has memory alone.
        write("node/online".to_owned(), format!("0-{nodes}\n"));
        write(format!("node/node{nodes}/cpulist"), "\n".to_owned());
        for node in 0..nodes {
            let first = node * 4;
            let cpus = format!("{first}-{},{}-{}\n", first + 3, first + cores, first + cores + 3);
            write(format!("node/node{node}/cpulist"), cpus);
            let far = |other: usize| match (node ^ other).count_ones() {
                0 => "10".to_owned(),
                links => (10 + 11 * links).to_string(),
            };
            let row: Vec<String> = (0..=nodes).map(far).collect();
            write(format!("node/node{node}/distance"), row.join(" "));
        }
        for cpu in 0..2 * cores {
            let core = cpu % cores;
            let here = format!("cpu/cpu{cpu}");
            write(format!("{here}/topology/thread_siblings_list"), format!("{core},{}\n", core + cores));
            let first = core / 2 * 2;
            for (index, level, kind) in [(0, 1, "Data"), (1, 1, "Instruction"), (3, 3, "Unified")] {
                let cache = format!("{here}/cache/index{index}");
                write(format!("{cache}/level"), format!("{level}\n"));
                write(format!("{cache}/type"), format!("{kind}\n"));
                write(format!("{cache}/size"), format!("{}K\n", 32 << (5 * index)));
                let shared = match level {
                    3 => format!("{first}-{},{}-{}\n", first + 1, first + cores, first + cores + 1),
                    _ => format!("{core},{}\n", core + cores),
                };
                write(format!("{cache}/shared_cpu_list"), shared);
            }
        }
        directory
    }

    #[test]
    fn a_machine_of_four_nodes() {
        let directory = system(4);
        let layout = Layout::read(directory.path());
        assert_eq!((layout.nodes, layout.places.len()), (4, 32));
        assert_eq!((layout.llcs_per_node, layout.cores_per_llc, layout.threads_per_core), (2, 2, 2));
        assert!(layout.is_even());
        assert_eq!(layout.hops, [[0, 1, 1, 2], [1, 0, 2, 1], [1, 2, 0, 1], [2, 1, 1, 0]]);
        let level = |one: usize, other: usize| layout.level(layout.places[one], layout.places[other]);
        let expected =
            [(16, Level::Core), (1, Level::Llc), (2, Level::Node), (4, Level::Hop(1)), (31, Level::Hop(2))];
        for (cpu, distance) in expected {
            assert_eq!(level(0, cpu), distance, "CPU {cpu}");
        }
        assert_eq!(last_level_bytes(directory.path()), Some(32 << 25));
    }

    #[test]
    fn cpus_that_are_off_make_it_uneven() {
        let directory = system(2);
        fs::write(directory.path().join("cpu/online"), "0-5,8-15").unwrap();
        let layout = Layout::read(directory.path());
        assert_eq!((layout.nodes, layout.cores_per_llc, layout.is_even()), (2, 2, false));
    }

    #[test]
    fn where_the_kernel_says_nothing_there_is_one_cpu() {
        let directory = tempfile::tempdir().unwrap();
        let layout = Layout::read(directory.path());
        assert_eq!((layout.places.len(), layout.nodes, layout.cores_per_llc), (1, 1, 1));
        assert_eq!(last_level_bytes(directory.path()), None);
    }
}
