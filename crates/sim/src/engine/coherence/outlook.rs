//! How far a thread may run ahead of the machine: for how long what it finds in a cache line cannot change.

use super::{Access, BETWEEN_SERVICES, CoreId, Directory, part};
use crate::machine::{Arbitration, Machine, Transfer};
use crate::memory::LineId;

/// For how long what an access finds cannot change.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Outlook {
    /// Cycles from the next event on.
    pub(crate) lookahead: u64,
    /// At least up to this time.
    pub(crate) until: u64,
}

/// The least that requests take: cycles on their way, or being served.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shortest {
    /// Any request.
    request: u64,
    /// Its service.
    service: u64,
    /// A request to write a line that another core has.
    write: u64,
    /// As that, from another last-level cache.
    far_write: u64,
    /// What each further copy adds to a request to write.
    each_copy: u64,
}

impl Shortest {
    /// Of a machine, whose transfers between `llcs` last-level caches these are, row by row.
    pub(super) fn new(machine: &Machine, transfers: &[Transfer], llcs: usize) -> Self {
        let share = |cost| part(cost, machine.memory.request_share);
        let stores = |far: bool| {
            let pairs =
                transfers.iter().enumerate().filter(move |(pair, _)| !far || pair / llcs != pair % llcs);
            pairs.map(|(_, transfer)| transfer.store).min().unwrap_or(0)
        };
        let loads = transfers.iter().map(|transfer| transfer.load).min().unwrap_or(0);
        let cheapest = loads.min(stores(false)).min(machine.memory.dram).min(machine.memory.dram_remote);
        Self {
            request: share(cheapest),
            service: cheapest - share(cheapest),
            write: share(stores(false)),
            far_write: share(stores(true)),
            each_copy: share(machine.memory.invalidate),
        }
    }
}

impl Directory {
    /// For how long what this access finds cannot change, whatever others do from the next event on.
    ///
    /// A copy that can be read is lost only to a writer. That request takes its time, the longer, the more
    /// have copies; and where the line turns to its requests in order, those before it come first.
    #[inline]
    pub(crate) fn outlook(&self, core: CoreId, number: LineId, access: Access) -> Outlook {
        let line = &self.lines[number as usize];
        let shortest = &self.shortest;
        if access == Access::Store || line.copies < 2 || !self.shares(line, core) {
            let lookahead = if line.in_flight == 0 { shortest.request } else { 0 };
            return Outlook { lookahead, until: 0 };
        }
        let lookahead = if line.writes_in_flight == 0 {
            let far = line.sharing & (line.sharing - 1) != 0;
            let transfer = if far { shortest.far_write } else { shortest.write };
            // Of those with copies one may be whoever asks, and one is part of the transfer.
            transfer + shortest.each_copy * u64::from(line.copies - 2)
        } else {
            0
        };
        let until = if line.busy && self.machine.memory.arbitration == Arbitration::Fifo {
            let each = shortest.service + BETWEEN_SERVICES;
            line.busy_until + BETWEEN_SERVICES + u64::from(line.reads_before) * each
        } else {
            0
        };
        Outlook { lookahead, until }
    }
}
