//! How long after an unlock the next holder, which waited for it, has the lock.
//!
//! A holder keeps the lock until another thread has come for it and for [`HOLD`] longer, so that this thread waits, notes
//! the time and unlocks. It comes back only when somebody else has had the lock. With two threads every acquisition but
//! the first is thus a hand-off, however few CPUs there are; with more, one that came after the unlock and barged in is
//! an operation, but no hand-off.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use lockwork_locks::registry::erased::ErasedLock;
use lockwork_platform::{Cpu, Native};

use super::crew::{Course, Times, crew, nanos};
use super::locks::{Job, Kind, Padded};
use super::{Figures, figure, histogram, merged, not_exclusive};

/// How long a section takes once somebody waits.
const HOLD: Duration = Duration::from_micros(5);
/// Pauses before a thread yields its CPU to the one it waits for.
const PATIENCE: u32 = 1000;

/// The benchmark.
pub(super) struct Handoff {
    pub(super) threads: u32,
    pub(super) time: Duration,
}

/// What the lock guards.
struct Section {
    acquisitions: u64,
    /// Just before the last unlock.
    released: Option<Instant>,
}

struct Guarded {
    lock: Box<Padded<dyn ErasedLock<Native>>>,
    section: Padded<UnsafeCell<Section>>,
    /// Threads that have come for the lock so far; the holder polls it.
    arrivals: Padded<AtomicU64>,
    /// Acquisitions so far; the last holder polls it.
    turn: Padded<AtomicU64>,
}

// SAFETY: the section is reached only by the holder of the lock, or when no other thread is left.
unsafe impl Sync for Guarded {}

impl Job for Handoff {
    fn run(&self, kind: &dyn Kind) -> Result<Figures, String> {
        let guarded = Guarded {
            lock: kind.padded(),
            section: Padded(UnsafeCell::new(Section { acquisitions: 0, released: None })),
            arrivals: Padded(AtomicU64::new(0)),
            turn: Padded(AtomicU64::new(0)),
        };
        let guarded = &guarded;
        let (done, _) = crew(self.threads, Times::at_once(self.time), |_, course| {
            let mut latency = histogram();
            let mut operations = 0_u64;
            while !course.is_over() {
                let (turn, nanos) = operate(guarded, course);
                operations += 1;
                if let Some(nanos) = nanos {
                    latency.saturating_record(nanos);
                }
                poll(course, &guarded.turn.0, |now| now > turn);
            }
            (operations, latency)
        })?;
        let operations: u64 = done.iter().map(|(operations, _)| operations).sum();
        // SAFETY: the threads have ended.
        let acquisitions = unsafe { &*guarded.section.0.get() }.acquisitions;
        if acquisitions != operations {
            return Err(not_exclusive(acquisitions, operations));
        }
        let latency = merged(done.iter().map(|(_, latency)| latency));
        let mut figures =
            vec![figure("handoffs", latency.len() as f64), figure("operations", operations as f64)];
        // Without a hand-off there is nothing to tell, which makes the run a failed one.
        if !latency.is_empty() {
            figures.push(figure("p50", latency.value_at_quantile(0.5) as f64));
            figures.push(figure("p99", latency.value_at_quantile(0.99) as f64));
            figures.push(figure("max", latency.max() as f64));
        }
        Ok(figures)
    }
}

/// One section; returns its turn, and the latency if the lock was handed over.
fn operate(guarded: &Guarded, course: &Course) -> (u64, Option<u64>) {
    let begin = Instant::now();
    // ORDER: Relaxed, here and below: arrivals and turns order nothing, the lock does.
    guarded.arrivals.0.fetch_add(1, Ordering::Relaxed);
    let held = guarded.lock.0.lock();
    let acquired = Instant::now();
    // SAFETY: this thread holds the lock.
    let section = unsafe { &mut *guarded.section.0.get() };
    section.acquisitions += 1;
    let turn = section.acquisitions;
    guarded.turn.0.store(turn, Ordering::Relaxed);
    let waited = section.released.filter(|&released| begin < released);
    let latency = waited.map(|released| nanos(released, acquired));
    // `turn` threads have had the lock; an arrival beyond these waits.
    poll(course, &guarded.arrivals.0, |now| now > turn);
    let waited_for = Instant::now();
    while waited_for.elapsed() < HOLD {
        Native::pause();
    }
    section.released = Some(Instant::now());
    // SAFETY: acquired above.
    unsafe { guarded.lock.0.unlock(held) };
    (turn, latency)
}

/// Waits until the counter is as wanted, or for the end.
fn poll(course: &Course, counter: &AtomicU64, wanted: impl Fn(u64) -> bool) {
    let mut polls = 0;
    while !wanted(counter.load(Ordering::Relaxed)) && !course.is_over() {
        if polls < PATIENCE {
            polls += 1;
            Native::pause();
        } else {
            thread::yield_now();
        }
    }
}
