//! CPUs, NUMA nodes and distances: the kernel's word at run time, or a virtual topology.
//!
//! `LOCKWORK_TOPOLOGY` holds an hwloc-style synthetic description such as `node:4 core:8`. Threads
//! are then spread over the virtual CPUs in the order in which they first ask.

use core::ffi::CStr;
use core::fmt;
use core::ptr::NonNull;

use lockwork_config as config;

use crate::published::Published;
use crate::{Native, arch, environment, sys, waiters};

/// CPUs beyond this number are mapped onto lower ones.
pub const MAX_CPUS: usize = 1024;
/// NUMA nodes beyond this number are mapped onto lower ones.
pub const MAX_NODES: usize = 64;

/// Distance of a node to itself, by the kernel's (ACPI's) convention.
const LOCAL_DISTANCE: u8 = 10;
/// Distance between two different nodes where nobody says otherwise.
const REMOTE_DISTANCE: u8 = 20;

/// What is known of the machine.
#[derive(Debug, Clone)]
pub struct Topology {
    nodes: usize,
    cpus: usize,
    is_virtual: bool,
    node_of_cpu: [u8; MAX_CPUS],
    /// The most groups of cores with a last-level cache of their own that a node has.
    clusters: usize,
    /// Which of its node's groups a CPU belongs to.
    cluster_of_cpu: [u8; MAX_CPUS],
    /// Domains of each node: see [`Placement::domain`].
    domains_of_node: usize,
    distances: [[u8; MAX_NODES]; MAX_NODES],
}

/// A description of a virtual topology that cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TopologyError {
    /// A word is not `type:count`.
    Malformed,
    /// A level's type is none of node, numa, package, socket, die, core, pu.
    UnknownLevel,
    /// A count is zero, or the product exceeds [`MAX_CPUS`] or [`MAX_NODES`].
    OutOfRange,
}

impl fmt::Display for TopologyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Malformed => "a topology is a list of `type:count`, for example `node:4 core:8`",
            Self::UnknownLevel => "topology levels are node, numa, package, socket, die, core and pu",
            Self::OutOfRange => "a topology has 1 to 1024 CPUs on 1 to 64 nodes",
        })
    }
}

impl core::error::Error for TopologyError {}

impl Topology {
    const fn uniform(nodes: usize, cpus: usize) -> Self {
        let mut distances = [[REMOTE_DISTANCE; MAX_NODES]; MAX_NODES];
        let mut node = 0;
        while node < MAX_NODES {
            distances[node][node] = LOCAL_DISTANCE;
            node += 1;
        }
        Self {
            nodes,
            cpus,
            is_virtual: false,
            node_of_cpu: [0; MAX_CPUS],
            clusters: 1,
            cluster_of_cpu: [0; MAX_CPUS],
            domains_of_node: 1,
            distances,
        }
    }

    /// A virtual topology from an hwloc-style description. The cores of a die share their last-level cache.
    ///
    /// # Errors
    ///
    /// See [`TopologyError`].
    pub fn synthetic(description: &str) -> Result<Self, TopologyError> {
        let (mut nodes, mut packages, mut dies, mut cpus) = (None, None, None, 1_usize);
        for word in description.split_whitespace() {
            let (level, count) = word.split_once(':').ok_or(TopologyError::Malformed)?;
            let count: usize = count.parse().map_err(|_| TopologyError::Malformed)?;
            if count == 0 {
                return Err(TopologyError::OutOfRange);
            }
            cpus = cpus.checked_mul(count).filter(|&n| n <= MAX_CPUS).ok_or(TopologyError::OutOfRange)?;
            match level {
                "node" | "numa" | "numanode" => nodes = Some(cpus),
                "package" | "socket" => packages = Some(cpus),
                "die" => dies = Some(cpus),
                "core" | "pu" => {}
                _ => return Err(TopologyError::UnknownLevel),
            }
        }
        let nodes = nodes.or(packages).unwrap_or(1);
        if nodes > MAX_NODES {
            return Err(TopologyError::OutOfRange);
        }
        let mut topology = Self::uniform(nodes, cpus);
        topology.is_virtual = true;
        for cpu in 0..cpus {
            topology.node_of_cpu[cpu] = (cpu * nodes / cpus) as u8;
        }
        if let Some(dies) = dies.filter(|dies| dies % nodes == 0) {
            topology.clusters = dies / nodes;
            for cpu in 0..cpus {
                topology.cluster_of_cpu[cpu] = (cpu * dies / cpus % topology.clusters) as u8;
            }
            topology.split_nodes(cpus);
        }
        Ok(topology)
    }

    /// What the kernel says (`/sys/devices/system/node`); one node where it says nothing.
    #[must_use]
    pub fn discover() -> Self {
        let mut topology = Self::uniform(1, 1);
        topology.ask_kernel();
        topology
    }

    /// Fills a uniform topology with what the kernel says, in place: threads with small stacks come here.
    fn ask_kernel(&mut self) {
        let mut buffer = [0_u8; 512];
        if let Some(list) = read(c"/sys/devices/system/cpu/possible", &mut buffer) {
            self.cpus = parse_list(list).last().map_or(1, |cpu| (cpu + 1).min(MAX_CPUS));
        }
        let mut online = [0_u8; 128];
        let online = read(c"/sys/devices/system/node/online", &mut online).unwrap_or("0");
        for node in parse_list(online).filter(|&node| node < MAX_NODES) {
            self.nodes = self.nodes.max(node + 1);
            self.discover_node(node, &mut buffer);
        }
        self.discover_clusters(&mut buffer);
    }

    /// Numbers each node's last-level caches, taken to be those of level 3.
    fn discover_clusters(&mut self, buffer: &mut [u8]) {
        let mut path = [0_u8; 64];
        let mut known = [0_u64; MAX_CPUS / 64];
        let mut count = [0_u8; MAX_NODES];
        let mut cpus = 0;
        for cpu in 0..self.cpus {
            if known[cpu / 64] >> (cpu % 64) & 1 != 0 {
                continue;
            }
            let cache =
                file(&mut path, b"/sys/devices/system/cpu/cpu", cpu, b"/cache/index3/shared_cpu_list");
            let Some(sharers) = read(cache, buffer) else {
                if cpu == 0 {
                    return; // There is no such cache, or nobody says.
                }
                continue;
            };
            let node = self.node_of(cpu);
            for sharer in parse_list(sharers).filter(|&sharer| sharer < MAX_CPUS) {
                known[sharer / 64] |= 1 << (sharer % 64);
                self.cluster_of_cpu[sharer] = count[node];
                cpus += 1;
            }
            count[node] = count[node].saturating_add(1);
            self.clusters = self.clusters.max(count[node].into());
        }
        self.split_nodes(cpus);
    }

    /// Makes domains of the groups of cores with a last-level cache of their own, to which so many CPUs belong.
    fn split_nodes(&mut self, cpus: usize) {
        let groups = self.nodes * self.clusters;
        if splits_nodes(cpus / groups, groups) {
            self.domains_of_node = self.clusters;
        }
    }

    fn discover_node(&mut self, node: usize, buffer: &mut [u8]) {
        let mut path = [0_u8; 64];
        let directory = b"/sys/devices/system/node/node";
        if let Some(cpus) = read(file(&mut path, directory, node, b"/cpulist"), buffer) {
            for cpu in parse_list(cpus).filter(|&cpu| cpu < MAX_CPUS) {
                self.node_of_cpu[cpu] = node as u8;
            }
        }
        if let Some(distances) = read(file(&mut path, directory, node, b"/distance"), buffer) {
            for (other, distance) in distances.split_whitespace().take(MAX_NODES).enumerate() {
                self.distances[node][other] = distance.parse().unwrap_or(REMOTE_DISTANCE);
            }
        }
    }

    /// Number of NUMA nodes, at least 1.
    #[must_use]
    #[inline]
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// Number of [domains](Placement::domain), at least 1.
    #[must_use]
    #[inline]
    pub fn domains(&self) -> usize {
        self.nodes * self.domains_of_node
    }

    /// The domain of a CPU; CPUs beyond [`MAX_CPUS`] are folded onto lower ones.
    #[must_use]
    pub fn domain_of(&self, cpu: usize) -> usize {
        let node = self.node_of(cpu);
        if self.domains_of_node == 1 {
            return node;
        }
        node * self.domains_of_node + usize::from(self.cluster_of_cpu[cpu % MAX_CPUS])
    }

    /// Number of CPUs the machine can have, at least 1.
    #[must_use]
    pub fn cpus(&self) -> usize {
        self.cpus
    }

    /// Whether this is a virtual topology.
    #[must_use]
    pub fn is_virtual(&self) -> bool {
        self.is_virtual
    }

    /// The node of a CPU; CPUs beyond [`MAX_CPUS`] are folded onto lower ones.
    #[must_use]
    pub fn node_of(&self, cpu: usize) -> usize {
        self.node_of_cpu[cpu % MAX_CPUS] as usize
    }

    /// Where a CPU is in the hierarchy: see [`Placement::place`].
    #[must_use]
    pub fn place_of(&self, cpu: usize, level: usize) -> Option<usize> {
        let node = (self.nodes > 1).then(|| self.node_of(cpu));
        let cluster = (self.clusters > 1).then(|| self.cluster_of_cpu[cpu % MAX_CPUS].into());
        [node, cluster].into_iter().flatten().nth(level)
    }

    /// Relative memory distance between two nodes as the kernel gives it: 10 is local.
    #[must_use]
    pub fn distance(&self, from: usize, to: usize) -> u8 {
        self.distances[from % MAX_NODES][to % MAX_NODES]
    }
}

/// Whether so many groups of cores with a last-level cache of their own, each of so many CPUs, are [domains](Placement::domain), if
/// there are several to a node.
#[must_use]
pub const fn splits_nodes(cpus: usize, groups: usize) -> bool {
    /// Fewer say little: a turn within the group would be one of two threads or three.
    const FEWEST_CPUS: usize = 4;
    cpus >= FEWEST_CPUS && groups <= MAX_NODES
}

/// Writes `before<number>after` into `path`; the number has at most four digits.
fn file<'a>(path: &'a mut [u8; 64], before: &[u8], number: usize, after: &[u8]) -> &'a CStr {
    let mut length = 0;
    let mut append = |bytes: &[u8]| {
        path[length..length + bytes.len()].copy_from_slice(bytes);
        length += bytes.len();
    };
    append(before);
    for power in [1000, 100, 10, 1] {
        if power == 1 || number >= power {
            append(&[b'0' + (number / power % 10) as u8]);
        }
    }
    append(after);
    append(b"\0");
    CStr::from_bytes_until_nul(path).unwrap_or(c"")
}

fn read<'a>(path: &CStr, buffer: &'a mut [u8]) -> Option<&'a str> {
    core::str::from_utf8(sys::read_file(path, buffer)?).ok()
}

/// The numbers of a kernel list such as `0-3,8,10-11`, ascending.
fn parse_list(list: &str) -> impl Iterator<Item = usize> {
    list.trim().split(',').flat_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        match (first.parse::<usize>(), last.parse::<usize>()) {
            (Ok(first), Ok(last)) => first..last + 1,
            _ => 0..0,
        }
    })
}

/// What is asked of the kernel begins as this, and stays so without memory.
static UNIFORM: Topology = Topology::uniform(1, 1);

/// A topology that is made once.
///
/// Nobody waits for the thread that makes it: in a child of `fork` that thread may be a ghost. Threads that come at the
/// same time each make one, and the first to publish its own decides.
struct Once(Published<Native, Topology>);

impl Once {
    const fn new() -> Self {
        Self(Published::nothing())
    }

    #[inline(always)]
    fn get(&self) -> Option<&'static Topology> {
        self.0.get()
    }

    /// Publishes a copy of `start` that `change` has changed, unless somebody else comes first. In place: threads with small
    /// stacks come here, and a `malloc` may be waiting for us.
    fn publish(&self, start: &Topology, change: impl FnOnce(&mut Topology)) -> &'static Topology {
        self.publish_at(sys::map_pages(size_of::<Topology>()), start, change)
    }

    /// As [`Once::publish`], in fresh pages, if there is memory.
    fn publish_at(
        &self,
        place: Option<NonNull<u8>>,
        start: &Topology,
        change: impl FnOnce(&mut Topology),
    ) -> &'static Topology {
        let Some(place) = place else {
            // Locks may depend on the answer from now on: it stays, though memory may come back.
            // SAFETY: complete, and stays for ever.
            let (Ok(first) | Err(first)) = unsafe { self.0.first(NonNull::from(&UNIFORM)) };
            return first;
        };
        let mut mine = place.cast::<Topology>();
        // SAFETY: fresh pages, large and aligned enough, that nobody else knows; the value is data only.
        unsafe { sys::copy_by_words(start, mine) };
        // SAFETY: as above, and a topology since the copy.
        change(unsafe { mine.as_mut() });
        // SAFETY: complete; it never changes, and stays for ever once it is published.
        match unsafe { self.0.first(mine) } {
            Ok(ours) => ours,
            Err(theirs) => {
                // SAFETY: nobody has seen these pages, and nothing of ours points into them any more.
                unsafe { sys::unmap_pages(place, size_of::<Topology>()) };
                theirs
            }
        }
    }
}

static CURRENT: Once = Once::new();

/// The topology of this process, discovered at the first call: that of `LOCKWORK_TOPOLOGY` where it is set. A bad value ends
/// the process, with a message and status 2.
#[must_use]
#[inline]
pub fn current() -> &'static Topology {
    CURRENT.get().unwrap_or_else(|| initialise())
}

#[cold]
#[inline(never)]
fn initialise() -> &'static Topology {
    let Some(value) = environment::variable(&config::TOPOLOGY) else {
        return CURRENT.publish(&UNIFORM, Topology::ask_kernel);
    };
    match value.to_str() {
        Ok(description) => synthetic(description),
        Err(_) => sys::refuse(format_args!("{} is not UTF-8", config::TOPOLOGY.name)),
    }
}

/// Publishes the virtual topology of a description. Apart, because it needs more stack than small threads have.
#[inline(never)]
fn synthetic(description: &str) -> &'static Topology {
    match Topology::of_variable(description) {
        Ok(topology) => CURRENT.publish(&topology, |_| ()),
        Err(error) => sys::refuse(format_args!("{error}")),
    }
}

/// A value of `LOCKWORK_TOPOLOGY` that describes no topology.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadVariable<'a> {
    value: &'a str,
    error: TopologyError,
}

impl fmt::Display for BadVariable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}=`{}`: {}", config::TOPOLOGY.name, self.value, self.error)
    }
}

impl core::error::Error for BadVariable<'_> {}

impl Topology {
    /// The virtual topology that `LOCKWORK_TOPOLOGY` describes with this value.
    ///
    /// # Errors
    ///
    /// The value describes none. Everything that reads the variable refuses to go on then.
    pub fn of_variable(value: &str) -> Result<Self, BadVariable<'_>> {
        Self::synthetic(value).map_err(|error| BadVariable { value, error })
    }
}

/// Sets the topology of this process, if it is not set yet: the first call, explicit or by [`current`], decides.
pub fn set(topology: Topology) {
    if CURRENT.get().is_none() {
        CURRENT.publish(&topology, |_| ());
    }
}

/// The CPU of the calling thread: the kernel's, or the thread's virtual one.
#[must_use]
pub fn cpu() -> usize {
    let topology = current();
    if topology.is_virtual {
        return waiters::current().map_or(0, waiters::Slot::index) % topology.cpus;
    }
    arch::rseq_cpu().unwrap_or_else(|| sys::getcpu().0)
}

/// Where the calling thread runs.
pub trait Placement: Sized {
    /// The CPU this thread runs on (virtual under a virtual topology).
    fn cpu() -> usize;

    /// The domain this thread runs on (virtual under a virtual topology): what NUMA-aware locks take for its node, and their text
    /// calls so. It is its NUMA node; where a node has several groups of cores with a last-level cache of their own, of four CPUs or
    /// more, it is that group, as if the firmware said *L3 cache as NUMA domain*. A line that another group has modified
    /// comes from as far away as from another node, or nearly so.
    fn domain() -> usize;

    /// The number of domains, at least 1 and at most [`MAX_NODES`].
    fn domains() -> usize;

    /// Where this thread runs in the machine's hierarchy, from the top: at level 0 its NUMA node, at level 1 which of
    /// the node's groups of cores with a last-level cache of their own. A level at which there is only one is left out;
    /// `None` below the lowest.
    fn place(level: usize) -> Option<usize> {
        (level == 0 && Self::domains() > 1).then(Self::domain)
    }
}

impl Placement for Native {
    fn cpu() -> usize {
        cpu()
    }

    #[inline]
    fn domain() -> usize {
        let topology = current();
        // Mostly there is nothing to look up.
        if topology.domains() == 1 { 0 } else { topology.domain_of(cpu()) }
    }

    #[inline]
    fn domains() -> usize {
        current().domains()
    }

    fn place(level: usize) -> Option<usize> {
        current().place_of(cpu(), level)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::sync::mpsc;
    use std::thread;

    use core::ptr;

    use super::*;

    #[test]
    fn synthetic_topologies_spread_cpus_over_nodes() {
        let topology = Topology::synthetic("node:4 core:8").expect("well-formed");
        assert_eq!((topology.nodes(), topology.cpus()), (4, 32));
        assert_eq!([0, 7, 8, 31].map(|cpu| topology.node_of(cpu)), [0, 0, 1, 3]);
        assert_eq!((topology.distance(1, 1), topology.distance(1, 2)), (10, 20));
    }

    #[test]
    fn packages_stand_for_nodes_where_none_are_named() {
        let topology = Topology::synthetic("package:2 core:10 pu:2").expect("well-formed");
        assert_eq!((topology.nodes(), topology.cpus()), (2, 40));
    }

    #[test]
    fn groups_of_cores_with_a_cache_are_domains() {
        let domains = |description: &str| {
            let topology = Topology::synthetic(description).expect("well-formed");
            let of_cpus: std::vec::Vec<_> = (0..topology.cpus()).map(|cpu| topology.domain_of(cpu)).collect();
            assert!(of_cpus.is_sorted(), "{description}: {of_cpus:?}");
            assert_eq!(of_cpus.last(), Some(&(topology.domains() - 1)), "{description}");
            (topology.nodes(), topology.domains())
        };
        assert_eq!(domains("core:8"), (1, 1));
        assert_eq!(domains("node:4 core:8"), (4, 4));
        assert_eq!(domains("die:2 core:4"), (1, 2));
        assert_eq!(domains("node:2 die:8 core:8"), (2, 16));
        assert_eq!(domains("node:2 die:2 core:2"), (2, 2), "groups of two CPUs");
        assert_eq!(domains("node:32 die:4 core:4"), (32, 32), "more than fit");
    }

    #[test]
    fn a_place_has_a_part_for_every_level_with_a_choice() {
        let place = |description, cpu| {
            let topology = Topology::synthetic(description).expect("well-formed");
            [0, 1, 2].map(|level| topology.place_of(cpu, level))
        };
        assert_eq!(place("node:2 die:2 core:2", 5), [Some(1), Some(0), None]);
        assert_eq!(place("node:2 die:2 core:2", 6), [Some(1), Some(1), None]);
        assert_eq!(place("node:2 core:4", 6), [Some(1), None, None]);
        assert_eq!(place("die:4 core:2", 7), [Some(3), None, None]);
        assert_eq!(place("core:8", 7), [None, None, None]);
    }

    #[test]
    fn nobody_waits_for_a_thread_that_makes_the_topology() {
        static ONCE: Once = Once::new();
        let (begun, is_begun) = mpsc::channel();
        let (done, is_done) = mpsc::channel::<()>();
        let slow = thread::spawn(move || {
            ONCE.publish(&UNIFORM, |place| {
                place.cpus = 7;
                begun.send(()).expect("the test listens");
                // Ends when the test is through, or has failed.
                let _ = is_done.recv();
            })
        });
        is_begun.recv().expect("the thread began");
        let ours = ONCE.publish(&UNIFORM, |place| place.cpus = 5);
        assert_eq!(ours.cpus(), 5);
        drop(done);
        let theirs = slow.join().expect("no panic");
        assert!(ptr::eq(ours, theirs) && ONCE.get().is_some_and(|topology| ptr::eq(topology, ours)));
    }

    #[test]
    fn the_first_answer_stays_though_it_was_for_lack_of_memory() {
        let once = Once::new();
        let first = once.publish_at(None, &UNIFORM, |place| place.cpus = 7);
        assert_eq!(first.cpus(), 1);
        assert!(ptr::eq(once.publish(&UNIFORM, |place| place.cpus = 7), first));
        assert!(once.get().is_some_and(|topology| ptr::eq(topology, first)));
    }

    #[test]
    fn files_are_named_by_number() {
        for (number, name) in [(0, c"cpu0/x"), (10, c"cpu10/x"), (305, c"cpu305/x"), (1023, c"cpu1023/x")] {
            assert_eq!(file(&mut [0; 64], b"cpu", number, b"/x"), name);
        }
    }

    #[test]
    fn bad_descriptions_are_refused() {
        assert_eq!(Topology::synthetic("node").err(), Some(TopologyError::Malformed));
        assert_eq!(Topology::synthetic("node:x").err(), Some(TopologyError::Malformed));
        assert_eq!(Topology::synthetic("blade:2").err(), Some(TopologyError::UnknownLevel));
        assert_eq!(Topology::synthetic("node:0").err(), Some(TopologyError::OutOfRange));
        assert_eq!(Topology::synthetic("node:65 core:2").err(), Some(TopologyError::OutOfRange));
        assert_eq!(Topology::synthetic("node:4 core:9999").err(), Some(TopologyError::OutOfRange));
    }

    #[test]
    fn kernel_lists_are_parsed() {
        assert!(parse_list("0-3,8,10-11\n").eq([0, 1, 2, 3, 8, 10, 11]));
        assert_eq!(parse_list("\n").count(), 0);
    }

    #[test]
    fn the_machine_at_hand_has_a_node_and_a_cpu() {
        let topology = Topology::discover();
        assert!(topology.nodes() >= 1 && topology.cpus() >= 1);
        assert!(topology.node_of(0) < topology.nodes());
    }
}
