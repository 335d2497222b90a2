//! ffwd, fast fly-weight delegation: one thread of its own serves, and answers the requests of neighbouring lines together.
//!
//! Sepideh Roghanchi, Jakob Eriksson and Nilanjana Basu, "ffwd: delegation is (much) faster than you think", SOSP 2017.
//! Deviations: the answers of one delegate in a page of eight lines are held back until all are there, but each is written to its
//! requester's line, where the paper packs the answers to 15 clients of a socket, whatever they are for, into a line of their
//! own; the result of a section is where the section wrote it; requesters and idle servers sleep; lines are as many as threads; a
//! section inside a section runs in place.
//!
//! Properties: as [`rcl`](super::rcl), but there is one servicing thread. While a section holds it up, requesters run theirs
//! themselves, after some milliseconds. A section must not wait for what the requester of an earlier one of the same delegate
//! does once that has run: they may be answered together.

use super::served::Served;
use crate::describe::{Capabilities, Citation, Descriptor, Family, Kind, Order, Timed};
use crate::knobs;

/// What is known of it.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: "ffwd",
    kind: Kind::Delegate,
    capabilities: Capabilities { guard: true, ..Capabilities::SERVER },
    family: Family::Server,
    order: Order::LongTerm,
    order_note: "every scan of a server serves everybody who has a request there",
    bytes: 128,
    bytes_per_waiter: 64,
    timed: Timed::GivesUp("while its section has not begun"),
    knobs: knobs::SERVED,
    citation: Citation {
        key: "roghanchi17",
        text: "Roghanchi, Eriksson, Basu: ffwd: delegation is (much) faster than you think. SOSP 2017",
    },
    summary: "a thread of its own runs the sections, and answers neighbouring requests together",
    properties: "as rcl, with one servicing thread; answers leave in groups",
    deviations: "answers are written to the requesters' lines; requesters and idle servers sleep; nested sections run in place",
    avoid: "sections that block: rcl goes on where this waits, also for what a requester does after its section; as few CPUs as \
            threads",
    ..Descriptor::MUTEX
};

/// The ffwd delegate.
pub type Ffwd<P> = Served<P, true>;
