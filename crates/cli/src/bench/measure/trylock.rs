//! A storm of trylocks: nobody waits, everybody tries again.

use std::cell::UnsafeCell;
use std::time::Duration;

use lockwork_locks::registry::erased::ErasedLock;
use lockwork_platform::Native;

use super::crew::{Times, crew};
use super::locks::{Job, Kind, Padded};
use super::{Figures, figure, not_exclusive};
use crate::bench::options::Delay;

/// The benchmark.
pub(super) struct Trylock {
    pub(super) threads: u32,
    pub(super) time: Duration,
    /// Between two attempts.
    pub(super) delay: Delay,
}

struct Guarded {
    lock: Box<Padded<dyn ErasedLock<Native>>>,
    successes: Padded<UnsafeCell<u64>>,
}

// SAFETY: the counter is reached only by the holder of the lock, or when no other thread is left.
unsafe impl Sync for Guarded {}

impl Job for Trylock {
    fn run(&self, kind: &dyn Kind) -> Result<Figures, String> {
        let guarded = Guarded { lock: kind.padded(), successes: Padded(UnsafeCell::new(0)) };
        let guarded = &guarded;
        let (done, wall) = crew(self.threads, Times::at_once(self.time), |_, course| {
            let (mut attempts, mut successes) = (0_u64, 0_u64);
            while !course.is_over() {
                attempts += 1;
                if let Some(held) = guarded.lock.0.try_lock() {
                    successes += 1;
                    // SAFETY: this thread holds the lock.
                    unsafe { *guarded.successes.0.get() += 1 };
                    // SAFETY: acquired above.
                    unsafe { guarded.lock.0.unlock(held) };
                }
                self.delay.pass();
            }
            (attempts, successes)
        })?;
        let attempts: u64 = done.iter().map(|(attempts, _)| attempts).sum();
        let successes: u64 = done.iter().map(|(_, successes)| successes).sum();
        // SAFETY: the threads have ended.
        let under_lock = unsafe { *guarded.successes.0.get() };
        if under_lock != successes {
            return Err(not_exclusive(under_lock, successes));
        }
        Ok(vec![
            figure("rate", attempts as f64 / wall.as_secs_f64()),
            figure("success", successes as f64 / attempts.max(1) as f64),
            figure("attempts", attempts as f64),
            figure("successes", successes as f64),
            figure("failures", (attempts - successes) as f64),
        ])
    }
}
