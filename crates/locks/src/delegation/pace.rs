//! Giving way: where a process has more threads than CPUs, one that requests or serves section after section does not keep its
//! CPU until the scheduler takes it away.
//!
//! Such a thread is nearly always inside a request, or runs those of others. Taken off its CPU there, at the end of a time slice
//! of three milliseconds or more, it waits for the slices of all others; so does whoever waits for it. A thread that offers its
//! CPU between two requests, every [`TURN_NS`], is not taken off it in one, and those that have been served, or are woken, soon
//! have a CPU.

use lockwork_platform::{Clock, Platform};

/// For how long a thread goes on before it offers its CPU to others. A switch costs a fiftieth of that.
const TURN_NS: u64 = 100_000;

/// Steps from one look at the clock to the next.
const STEPS: u32 = 32;

/// Of one thread.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Steps until the next look.
    left: u32,
    /// When the thread last offered its CPU.
    since: u64,
}

impl Pace {
    /// Of a thread that begins.
    #[must_use]
    pub const fn new() -> Self {
        Self { left: STEPS, since: 0 }
    }

    /// After each request, or each round over those of others, outside of sections.
    #[inline(always)]
    pub fn step<P: Platform>(&mut self) {
        self.left -= 1;
        if self.left == 0 {
            self.look::<P>();
        }
    }

    #[cold]
    fn look<P: Platform>(&mut self) {
        self.left = STEPS;
        let now = P::now(Clock::Monotonic);
        if now.saturating_sub(self.since) < TURN_NS {
            return;
        }
        self.since = now;
        // Of this process: others would only gain by it.
        if P::runnable() > P::parallelism() {
            P::yield_now();
            self.since = P::now(Clock::Monotonic);
        }
    }
}

impl Default for Pace {
    fn default() -> Self {
        Self::new()
    }
}
