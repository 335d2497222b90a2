//! RCL, remote core locking: threads of their own run the sections of their delegates.
//!
//! Jean-Pierre Lozi, Florian David, Gaël Thomas, Julia Lawall and Gilles Muller, "Remote core locking: migrating critical-section
//! execution to improve the performance of multithreaded applications", USENIX ATC 2012, and "Fast and portable locking for
//! multicore architectures", ACM TOCS 2016. Deviations: real-time priorities only by a knob, and no management or backup thread:
//! requesters that sleep look whether their server makes progress ([`served`](super::served), I4); an idle server sleeps; lines
//! are found by the numbers of threads and are as many as threads, instead of 256 Ki; a section inside a section runs in place.
//!
//! Properties: no order among requesters, but each scan serves everybody; 128 bytes a delegate, and 64 for each thread at each
//! server. A requester's request and answer are one line transfer each. Neither side uses an atomic operation, as long as all
//! sections of a delegate are run by one servicing thread.

use super::served::Served;
use crate::describe::{Capabilities, Citation, Descriptor, Family, Kind, Order, Proof, Timed};
use crate::knobs;

/// What is known of it.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: "rcl",
    kind: Kind::Delegate,
    capabilities: Capabilities { guard: true, ..Capabilities::SERVER },
    family: Family::Server,
    order: Order::LongTerm,
    order_note: "every scan of a server serves everybody who has a request there and whose delegate is free",
    bytes: 128,
    bytes_per_waiter: 64,
    timed: Timed::GivesUp("while its section has not begun"),
    knobs: knobs::SERVED,
    proofs: &[
        Proof { source: "delegation/served/mod.rs", by: &["rcl", "ffwd"] },
        Proof { source: "delegation/served/service.rs", by: &["rcl", "ffwd"] },
        Proof { source: "delegation/lines.rs", by: &["rcl", "ffwd"] },
    ],
    citation: Citation {
        key: "lozi12",
        text: "Lozi, David, Thomas, Lawall, Muller: Remote core locking. USENIX ATC 2012",
    },
    summary: "threads of their own run the sections; a section that blocks does not stop the others",
    properties: "the data of sections stays on the server's CPU; one line transfer for the request and one for the answer",
    deviations: "real-time priorities by a knob only; sleeping requesters watch the server; idle servers sleep; nested sections run in place",
    avoid: "as few CPUs as threads: each server wants one",
    ..Descriptor::MUTEX
};

/// The RCL delegate.
pub type Rcl<P> = Served<P, false>;
