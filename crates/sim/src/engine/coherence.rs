//! Cache coherence: a directory that knows which caches have a line, and moves one copy of it at a time.
//!
//! A core that misses sends a request, which takes the request's share of the transfer. The line then serves it, or
//! lets it wait while it serves another. What others have is taken away (or made read-only) when the service begins;
//! the core has the line when it ends. So a request and its service, from a line that nobody else wants, take exactly
//! what the machine's table says.

pub(crate) mod outlook;

use self::outlook::Shortest;
use super::stats::Transfers;
use crate::machine::{Arbitration, Distance, Machine, Transfer};
use crate::memory::LineId;
use crate::random::Random;

/// A core's number.
pub(crate) type CoreId = u16;
/// A request's number.
pub(crate) type RequestId = u32;

/// Cycles from when a request has been served until the line turns to the next: the core does what it wanted the line for.
pub(crate) const BETWEEN_SERVICES: u64 = 1;

const NOBODY: CoreId = CoreId::MAX;
const NONE: RequestId = RequestId::MAX;

/// What a core wants to do with a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Read it: others may have copies.
    Load,
    /// Write it: nobody else may have a copy.
    Store,
}

#[derive(Debug, Clone)]
struct Line {
    /// The core that may write it, and whether it has.
    owner: CoreId,
    modified: bool,
    /// The node whose memory it is in, once somebody has used it.
    home: Option<u8>,
    /// Whether it is on its way to somebody, to whom, and until when.
    busy: bool,
    bound_for: CoreId,
    busy_until: u64,
    /// Requests that are on their way or being served, and those of them that want to write.
    in_flight: u16,
    writes_in_flight: u16,
    /// Those that wait, in the order of their arrival.
    first: RequestId,
    last: RequestId,
    /// How many of those want to write, and how many that want to read are before the first of these.
    writes_waiting: u16,
    reads_before: u16,
    /// Which last-level caches have cores with copies, and which cores of each.
    sharing: u64,
    sharers: Box<[u64]>,
    /// How many cores have copies.
    copies: u16,
}

/// A core's request for a line.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Request {
    pub(crate) core: CoreId,
    pub(crate) line: LineId,
    pub(crate) access: Access,
    next: RequestId,
}

/// What happens next to a request or a line.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Move {
    /// It waits for the line.
    Waits,
    /// It is served, and done after this many cycles.
    DoneIn(u64),
}

/// Which CPUs have which line.
#[derive(Debug)]
pub(crate) struct Directory {
    machine: Machine,
    lines: Vec<Line>,
    requests: Vec<Request>,
    free: RequestId,
    /// What each core has asked for.
    pending: Vec<Vec<RequestId>>,
    /// Costs by distance class, row by row of cores' last-level caches.
    transfers: Vec<Transfer>,
    llcs: usize,
    llc_of: Vec<u8>,
    node_of: Vec<u8>,
    /// Cores that lost their copy in the last service.
    pub(crate) lost: Vec<CoreId>,
    /// The least that requests take on their way.
    shortest: Shortest,
    pub(crate) counts: Transfers,
    /// Lines that came to each core from others, or from memory.
    misses: Vec<u64>,
    /// The same of all cores together.
    all_misses: u64,
    /// For an arbitration by chance.
    random: Random,
}

impl Directory {
    pub(crate) fn new(machine: &Machine, random: Random) -> Self {
        let llcs = machine.nodes * machine.llcs_per_node;
        let first_core = |llc: usize| llc * machine.cores_per_llc;
        let transfers: Vec<Transfer> = (0..llcs * llcs)
            .map(|pair| match (pair / llcs, pair % llcs) {
                (from, to) if from == to => machine.memory.llc,
                (from, to) => machine.transfer(machine.distance(first_core(from), first_core(to))),
            })
            .collect();
        Self {
            lines: Vec::new(),
            requests: Vec::new(),
            free: NONE,
            pending: vec![Vec::new(); machine.cores()],
            shortest: Shortest::new(machine, &transfers, llcs),
            transfers,
            llcs,
            llc_of: (0..machine.cores()).map(|core| machine.llc_of(core) as u8).collect(),
            node_of: (0..machine.cores()).map(|core| machine.node_of(core) as u8).collect(),
            lost: Vec::new(),
            counts: Transfers::default(),
            misses: vec![0; machine.cores()],
            all_misses: 0,
            random,
            machine: machine.clone(),
        }
    }

    /// Makes room for lines.
    pub(crate) fn grow(&mut self, lines: usize) {
        let fresh = Line {
            owner: NOBODY,
            modified: false,
            home: None,
            busy: false,
            bound_for: NOBODY,
            busy_until: 0,
            in_flight: 0,
            writes_in_flight: 0,
            first: NONE,
            last: NONE,
            writes_waiting: 0,
            reads_before: 0,
            sharing: 0,
            sharers: Box::default(),
            copies: 0,
        };
        if self.lines.len() < lines {
            self.lines.resize(lines, fresh);
        }
    }

    /// Whether the core may do this with its own copy.
    #[inline]
    pub(crate) fn hits(&self, core: CoreId, line: LineId, access: Access) -> bool {
        let line = &self.lines[line as usize];
        line.owner == core || (access == Access::Load && self.shares(line, core))
    }

    fn bit(&self, core: CoreId) -> (usize, u64) {
        let llc = self.llc_of[core as usize] as usize;
        (llc, 1 << (core as usize - llc * self.machine.cores_per_llc))
    }

    #[inline]
    fn shares(&self, line: &Line, core: CoreId) -> bool {
        if line.sharing == 0 {
            return false;
        }
        let (llc, bit) = self.bit(core);
        line.sharers[llc] & bit != 0
    }

    /// Notes until when a line serves the request that it has turned to.
    pub(crate) fn set_busy_until(&mut self, line: LineId, time: u64) {
        self.lines[line as usize].busy_until = time;
    }

    /// Notes that its owner has written a line.
    #[inline]
    pub(crate) fn modify(&mut self, line: LineId) {
        self.lines[line as usize].modified = true;
    }

    /// Whether the line is on its way to somebody.
    pub(crate) fn is_busy(&self, line: LineId) -> bool {
        self.lines[line as usize].busy
    }

    /// Whether the core has asked for the line already.
    pub(crate) fn is_pending(&self, core: CoreId, line: LineId) -> bool {
        self.pending[core as usize].iter().any(|request| self.requests[*request as usize].line == line)
    }

    /// Sends a request. Returns it, and after how many cycles it arrives.
    pub(crate) fn send(&mut self, core: CoreId, line: LineId, access: Access) -> (RequestId, u64) {
        let request = Request { core, line, access, next: NONE };
        let id = if self.free == NONE {
            self.requests.push(request);
            (self.requests.len() - 1) as RequestId
        } else {
            let id = self.free;
            self.free = self.requests[id as usize].next;
            self.requests[id as usize] = request;
            id
        };
        self.pending[core as usize].push(id);
        let state = &mut self.lines[line as usize];
        state.in_flight += 1;
        state.writes_in_flight += u16::from(access == Access::Store);
        let (cost, _) = self.cost(core, line, access);
        (id, part(cost, self.machine.memory.request_share))
    }

    /// A request has arrived.
    pub(crate) fn arrive(&mut self, id: RequestId) -> Move {
        let Request { line, access, .. } = self.requests[id as usize];
        let line = &mut self.lines[line as usize];
        if !line.busy {
            return self.serve(id);
        }
        match access {
            Access::Store => line.writes_waiting += 1,
            Access::Load => line.reads_before += u16::from(line.writes_waiting == 0),
        }
        if line.first == NONE {
            line.first = id;
        } else {
            self.requests[line.last as usize].next = id;
        }
        line.last = id;
        Move::Waits
    }

    /// What a transfer costs from start to end, and how far it comes.
    fn cost(&self, core: CoreId, line: LineId, access: Access) -> (u64, Distance) {
        let line = &self.lines[line as usize];
        let memory = &self.machine.memory;
        let here = self.llc_of[core as usize] as usize;
        let of = |transfer: Transfer| match access {
            Access::Load => transfer.load,
            Access::Store => transfer.store,
        };
        // A line on its way to its next owner will be there when the request comes.
        let bound_for_one = line.busy && line.owner == NOBODY && line.sharing == 0;
        let owner = if bound_for_one { line.bound_for } else { line.owner };
        if owner == core {
            return (memory.hit, Distance::Same);
        }
        if owner != NOBODY {
            let there = self.llc_of[owner as usize] as usize;
            let distance = self.machine.distance(core.into(), owner.into());
            return (of(self.transfers[here * self.llcs + there]), distance);
        }
        if line.sharing == 0 {
            let node = self.node_of[core as usize];
            return match line.home {
                Some(home) if home != node => {
                    (memory.dram_remote, Distance::Hops(self.machine.hops_between(node.into(), home.into())))
                }
                _ => (memory.dram, Distance::Node),
            };
        }
        let mine = self.shares(line, core);
        let (mut others, mut cheapest, mut dearest) = (0, (u64::MAX, here), (0, here));
        let mut llcs = line.sharing;
        while llcs != 0 {
            let llc = llcs.trailing_zeros() as usize;
            llcs &= llcs - 1;
            let copies = line.sharers[llc].count_ones() - u32::from(mine && llc == here);
            if copies > 0 {
                let cost = of(self.transfers[here * self.llcs + llc]);
                cheapest = cheapest.min((cost, llc));
                dearest = dearest.max((cost, llc));
                others += copies;
            }
        }
        let distance = |llc: usize| match llc == here {
            true => Distance::Llc,
            false => self.machine.distance(core.into(), llc * self.machine.cores_per_llc),
        };
        match access {
            _ if others == 0 => (memory.hit, Distance::Same),
            Access::Load => (cheapest.0, distance(cheapest.1)),
            Access::Store => (dearest.0 + memory.invalidate * u64::from(others - 1), distance(dearest.1)),
        }
    }

    /// Lines that have come to cores from others, or from memory.
    pub(crate) fn misses(&self) -> u64 {
        self.all_misses
    }

    /// Those of them that have come to this core.
    pub(crate) fn misses_of(&self, core: CoreId) -> u64 {
        self.misses[usize::from(core)]
    }

    /// Begins to serve a request.
    fn serve(&mut self, id: RequestId) -> Move {
        let Request { core, line: number, access, .. } = self.requests[id as usize];
        let (cost, distance) = self.cost(core, number, access);
        self.counts.count(distance);
        // A core that has a copy to read and asks to write misses nothing: no line comes.
        let has_copy = self.shares(&self.lines[number as usize], core);
        let missed = u64::from(distance != Distance::Same && !has_copy);
        self.misses[usize::from(core)] += missed;
        self.all_misses += missed;
        self.lost.clear();
        let line = &mut self.lines[number as usize];
        line.busy = true;
        line.bound_for = core;
        match access {
            Access::Store => {
                if line.owner != NOBODY && line.owner != core {
                    self.lost.push(line.owner);
                }
                while line.sharing != 0 {
                    let llc = line.sharing.trailing_zeros() as usize;
                    line.sharing &= line.sharing - 1;
                    let mut copies = std::mem::take(&mut line.sharers[llc]);
                    while copies != 0 {
                        let sharer = llc * self.machine.cores_per_llc + copies.trailing_zeros() as usize;
                        copies &= copies - 1;
                        if sharer != core as usize {
                            self.lost.push(sharer as CoreId);
                        }
                    }
                }
                line.owner = NOBODY;
                line.copies = 0;
            }
            Access::Load => {
                let owner = std::mem::replace(&mut line.owner, NOBODY);
                let modified = std::mem::take(&mut line.modified);
                if owner != NOBODY && owner != core && modified && self.machine.memory.migratory {
                    self.lost.push(owner);
                } else if owner != NOBODY {
                    self.share(number, owner);
                }
            }
        }
        Move::DoneIn(cost - part(cost, self.machine.memory.request_share))
    }

    fn share(&mut self, line: LineId, core: CoreId) {
        let (llc, bit) = self.bit(core);
        let llcs = self.llcs;
        let line = &mut self.lines[line as usize];
        if line.sharers.is_empty() {
            line.sharers = vec![0; llcs].into_boxed_slice();
        }
        line.sharing |= 1 << llc;
        line.copies += u16::from(line.sharers[llc] & bit == 0);
        line.sharers[llc] |= bit;
    }

    /// A request has been served: the core has the line. Returns the request, and whether others wait for the line.
    pub(crate) fn done(&mut self, id: RequestId) -> (Request, bool) {
        let request = self.requests[id as usize];
        self.requests[id as usize].next = self.free;
        self.free = id;
        self.pending[request.core as usize].retain(|pending| *pending != id);
        let node = self.node_of[request.core as usize];
        let line = &mut self.lines[request.line as usize];
        line.in_flight -= 1;
        line.writes_in_flight -= u16::from(request.access == Access::Store);
        line.home.get_or_insert(node);
        let waited_for = line.first != NONE;
        // It stays busy until the next is served, so that no request overtakes those that wait.
        line.busy = waited_for;
        match request.access {
            Access::Store => (line.owner, line.modified) = (request.core, true),
            Access::Load if line.sharing == 0 => line.owner = request.core,
            Access::Load => self.share(request.line, request.core),
        }
        (request, waited_for)
    }

    /// Serves the next of the requests that wait for a line.
    pub(crate) fn next(&mut self, line: LineId) -> Option<(RequestId, Move)> {
        let first = self.lines[line as usize].first;
        if first == NONE {
            self.lines[line as usize].busy = false;
            return None;
        }
        let chosen = match self.machine.memory.arbitration {
            Arbitration::Fifo => first,
            Arbitration::Nearest => self.nearest(line),
            Arbitration::Random => self.any(line),
        };
        self.unlink(line, chosen);
        Some((chosen, self.serve(chosen)))
    }

    /// The requests that wait for a line, in the order of their arrival.
    fn waiting(&self, line: LineId) -> impl Iterator<Item = RequestId> + '_ {
        let known = |id: RequestId| (id != NONE).then_some(id);
        let first = known(self.lines[line as usize].first);
        std::iter::successors(first, move |id| known(self.requests[*id as usize].next))
    }

    fn nearest(&self, line: LineId) -> RequestId {
        let cost = |id: &RequestId| {
            let Request { core, access, .. } = self.requests[*id as usize];
            self.cost(core, line, access).0
        };
        // The first of those that cost the least.
        self.waiting(line).min_by_key(cost).unwrap_or(NONE)
    }

    fn any(&mut self, line: LineId) -> RequestId {
        let count = self.waiting(line).count();
        let place = self.random.below(count as u64) as usize;
        self.waiting(line).nth(place).unwrap_or(NONE)
    }

    fn unlink(&mut self, line: LineId, chosen: RequestId) {
        let (mut before, mut id) = (NONE, self.lines[line as usize].first);
        while id != chosen {
            before = id;
            id = self.requests[id as usize].next;
        }
        let next = self.requests[chosen as usize].next;
        if before == NONE {
            self.lines[line as usize].first = next;
        } else {
            self.requests[before as usize].next = next;
        }
        if self.lines[line as usize].last == chosen {
            self.lines[line as usize].last = before;
        }
        self.requests[chosen as usize].next = NONE;
        let writes = self.requests[chosen as usize].access == Access::Store;
        self.lines[line as usize].writes_waiting -= u16::from(writes);
        self.lines[line as usize].reads_before = if before == NONE && !writes {
            self.lines[line as usize].reads_before - 1
        } else {
            let reads = |id: &RequestId| self.requests[*id as usize].access == Access::Load;
            self.waiting(line).take_while(reads).count() as u16
        };
    }

    /// The request itself.
    pub(crate) fn request(&self, id: RequestId) -> Request {
        self.requests[id as usize]
    }

    /// Says which CPUs have a line, for reports.
    pub(crate) fn describe(&self, line: LineId) -> String {
        let line = &self.lines[line as usize];
        match line.owner {
            NOBODY if line.busy => "on its way".to_owned(),
            NOBODY => format!(
                "shared by {} cores",
                line.sharers.iter().map(|cores| cores.count_ones()).sum::<u32>()
            ),
            core => format!("owned by core {core}"),
        }
    }
}

/// A share of a cost.
fn part(cost: u64, share: f64) -> u64 {
    (cost as f64 * share) as u64
}
