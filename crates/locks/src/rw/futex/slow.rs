//! Waiting, giving up and waking. State, invariants (I) and ordering edges (E) are those of [`futex`](super).

use core::ptr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use lockwork_platform::{AtomicCell, AtomicInt, Deadline, FutexCell, Platform};

use super::{
    LATE, READER, READERS, READERS_WAITING, RwState, WAKING, WATCHED, WRITER, WRITERS_WAITING, admits_reader,
    is_free,
};
use crate::rw::{Preference, ReadRefused};
use crate::wait::{Awake, WAITING_ON_RWLOCK, Wait, expired, poll_within};

impl<P: Platform> RwState<P> {
    /// Polls for a short while, as long as `hopeless` holds and nobody sleeps: a thread that comes
    /// after sleepers would only keep the CPU from them. Returns the last state seen.
    fn spin(&self, hopeless: impl Fn(u32) -> bool) -> u32 {
        let look = || {
            let seen = self.state.load(Relaxed);
            (!hopeless(seen) || seen & (READERS_WAITING | WRITERS_WAITING) != 0).then_some(seen)
        };
        poll_within::<P, _>(P::spin_budget(), look).unwrap_or_else(|| self.state.load(Relaxed))
    }

    #[inline(never)]
    pub(super) fn lock_shared_slow(
        &self,
        preference: Preference,
        deadline: Option<Deadline>,
    ) -> Result<(), ReadRefused> {
        match self.try_lock_shared(preference) {
            Err(ReadRefused::Busy) => self.wait_shared(preference, deadline),
            settled => settled,
        }
    }

    #[cold]
    fn wait_shared(&self, preference: Preference, deadline: Option<Deadline>) -> Result<(), ReadRefused> {
        let barred = |state| !admits_reader(state, preference);
        let mut seen = self.spin(barred);
        let mut expired = false;
        let address = ptr::from_ref(self) as usize | WAITING_ON_RWLOCK;
        Wait::run::<P, _>(address, deadline, |wait| {
            loop {
                seen = match self.try_shared_from(seen, preference) {
                    Err((ReadRefused::Busy, seen)) => seen,
                    Err((refused, _)) => return Err(refused),
                    Ok(()) => return Ok(()),
                };
                if expired {
                    if self.give_up_shared(seen) {
                        return Err(ReadRefused::Busy);
                    }
                    seen = self.state.load(Relaxed);
                    continue;
                }
                let asleep = seen | READERS_WAITING;
                // ORDER: Relaxed: a waiting bit publishes nothing of a reader.
                if seen != asleep
                    && let Err(now) = self.state.compare_exchange(seen, asleep, Relaxed, Relaxed)
                {
                    seen = now;
                    continue;
                }
                expired = self.state.wait(asleep, wait.deadline).is_err();
                seen = self.spin(barred);
            }
        })
    }

    /// Stops waiting for a read lock, whose state was `seen`, not admitting a reader. Returns false if
    /// the state has changed in a way that forbids to leave.
    fn give_up_shared(&self, seen: u32) -> bool {
        if seen & READERS_WAITING == 0 {
            return true;
        }
        // I6: the bit may be there for our sake alone. ORDER: Relaxed: nothing is published.
        if self.state.compare_exchange(seen, seen & !READERS_WAITING, Relaxed, Relaxed).is_err() {
            return false;
        }
        // I2: other sleepers set it again. SAFETY: the caller uses the lock, so the cell is alive.
        unsafe { FutexCell::wake(&raw const self.state, u32::MAX) };
        true
    }

    #[cold]
    pub(super) fn lock_exclusive_slow(&self, preference: Preference, deadline: Option<Deadline>) -> bool {
        if self.try_exclusive_from(self.spin(|state| !is_free(state))).is_ok() {
            return true;
        }
        Wait::run::<P, _>(ptr::from_ref(self) as usize | WAITING_ON_RWLOCK, deadline, |_| {
            // ORDER: Relaxed: E3 publishes it.
            self.writers.fetch_add(1, Relaxed);
            let acquired = self.wait_exclusive(preference, deadline);
            if !acquired {
                self.give_up_exclusive();
            }
            acquired
        })
    }

    /// Waits, as a registered writer, for the lock or the deadline. Returns whether it has the lock, and then is no
    /// longer registered.
    fn wait_exclusive(&self, preference: Preference, deadline: Option<Deadline>) -> bool {
        let mut is_late = false;
        let mut watches = false;
        let mut awake = Awake::default();
        loop {
            // ORDER: Relaxed: the CAS that sets our bit shows whether the state is still the same, and E3 does the rest.
            let turn = self.turn.load(Relaxed);
            let seen = self.state.load(Relaxed);
            if is_free(seen) {
                // ORDER: E1, E2, E3.
                if self.state.compare_exchange(seen, seen & !WATCHED | WRITER, Acquire, Relaxed).is_ok() {
                    // ORDER: Relaxed: E3 has been acquired. A writer that gives up and still counts us leaves a bit behind that our
                    // release removes.
                    let others = self.writers.fetch_sub(1, Relaxed) > 1;
                    if others && seen & WRITERS_WAITING == 0 {
                        // I3: the thread that woke us cleared it.
                        self.state.fetch_or(WRITERS_WAITING, Relaxed);
                    }
                    return true;
                }
            } else if is_late {
                if watches {
                    self.stop_watching();
                }
                return false;
            } else if preference == Preference::Readers
                && seen & WRITER == 0
                && (watches || seen & WATCHED == 0)
            {
                // I7. ORDER: Relaxed: E3 is for those that sleep on `turn`.
                let watched = seen | WATCHED;
                if seen == watched || self.state.compare_exchange(seen, watched, Relaxed, Relaxed).is_ok() {
                    watches = true;
                    // A state that changes all the time ends every sleep at once.
                    is_late =
                        self.state.wait(watched, deadline).is_err() || deadline.is_some_and(expired::<P>);
                    if !is_free(self.spin(|state| !is_free(state))) {
                        awake.again::<P>();
                    }
                }
            } else if seen & WAKING != 0 {
                // I4. ORDER: Relaxed: publishes nothing.
                let late = seen | LATE;
                if seen == late || self.state.compare_exchange(seen, late, Relaxed, Relaxed).is_ok() {
                    watches = false;
                    is_late = self.state.wait(late, deadline).is_err();
                }
            // ORDER: Release is E3, which is why the bit is set even if it is there.
            } else if self.state.compare_exchange(seen, seen | WRITERS_WAITING, Release, Relaxed).is_ok() {
                watches = false;
                is_late = self.turn.wait(turn, deadline).is_err();
                self.spin(|state| !is_free(state));
            }
        }
    }

    /// Lets the next writer watch, which the end of a registration wakes (I7).
    fn stop_watching(&self) {
        // ORDER: Acquire is E3: writers that relied on us had loaded `turn` before.
        let seen = self.state.fetch_and(!WATCHED, Acquire);
        if seen & WATCHED != 0 {
            // SAFETY: the caller uses the lock, so the cell is alive.
            unsafe { FutexCell::wake(&raw const self.state, u32::MAX) };
        }
    }

    /// Ends the registration of a writer that has not got the lock.
    fn give_up_exclusive(&self) {
        // ORDER: Relaxed: a release that still counts us bars readers only until the next line is done.
        if self.writers.fetch_sub(1, Relaxed) == 1 {
            // Nobody is left for readers to wait behind. ORDER: Acquire is E3.
            let seen = self.state.fetch_and(!(WRITERS_WAITING | READERS_WAITING), Acquire);
            if seen & READERS_WAITING != 0 {
                // SAFETY: the caller uses the lock, so the cell is alive. I2.
                unsafe { FutexCell::wake(&raw const self.state, u32::MAX) };
            }
        }
        // I3: a wake may have been spent on us, and a writer that came meanwhile may miss its bit: it had loaded
        // `turn` before it set the bit. ORDER: Relaxed: E3.
        self.turn.fetch_add(1, Relaxed);
        // SAFETY: as above.
        unsafe { FutexCell::wake(&raw const self.turn, 1) };
    }

    #[inline(never)]
    pub(super) fn unlock_shared_slow(&self, mut seen: u32, preference: Preference) {
        loop {
            let is_last = seen & READERS == READER;
            if is_last && seen & (WRITERS_WAITING | WATCHED) == WRITERS_WAITING {
                let waking = (seen - READER) | WRITER | WAKING;
                // I5: the lock stays ours until `turn` has changed. E2 comes with the end of `WAKING`.
                match self.release_to_writer(seen, waking, preference) {
                    Ok(()) => return,
                    Err(now) => seen = now,
                }
            } else {
                let state = &raw const self.state;
                // ORDER: Release is E2. From here on there may be no lock.
                let left = if is_last { (seen - READER) & !WATCHED } else { seen - READER };
                match self.state.compare_exchange(seen, left, Release, Relaxed) {
                    Ok(_) if is_last && seen & WATCHED != 0 => {
                        // I7. SAFETY: alive at the exchange; a wake that comes late is spurious.
                        return unsafe { FutexCell::wake(state, u32::MAX) };
                    }
                    Ok(_) => return,
                    Err(now) => seen = now,
                }
            }
        }
    }

    #[cold]
    pub(super) fn unlock_exclusive_slow(&self, mut seen: u32, preference: Preference) {
        let state = &raw const self.state;
        loop {
            let readers_first = preference == Preference::Readers && seen & READERS_WAITING != 0;
            if seen & WRITERS_WAITING == 0 || readers_first {
                // I6. ORDER: Release is E1.
                match self.state.compare_exchange(seen, seen & WRITERS_WAITING, Release, Relaxed) {
                    Ok(_) if seen & READERS_WAITING == 0 => return,
                    // SAFETY: the cell was alive at the exchange.
                    Ok(_) => return unsafe { FutexCell::wake(state, u32::MAX) },
                    Err(now) => seen = now,
                }
            } else {
                match self.release_to_writer(seen, seen | WAKING, preference) {
                    Ok(()) => return,
                    Err(now) => seen = now,
                }
            }
        }
    }

    /// Frees the lock, which the caller holds, by way of a state with `WRITER | WAKING`, and wakes a writer. In one step for a `fork`:
    /// if all who wait have given up, nobody is registered, and a child would find `WAKING` for ever.
    ///
    /// # Errors
    ///
    /// The state, if it is not the one that was `seen`; then nothing has been done.
    fn release_to_writer(&self, seen: u32, waking: u32, preference: Preference) -> Result<(), u32> {
        let (state, turn) = (&raw const self.state, &raw const self.turn);
        let (wake_one, wake_all) = P::in_steps(|| -> Result<_, u32> {
            // ORDER: Acquire is E3.
            self.state.compare_exchange(seen, waking, Acquire, Relaxed)?;
            Ok(self.end_waking(preference))
        })?;
        if wake_one {
            // SAFETY: the cell was alive at the exchange (I5).
            unsafe { FutexCell::wake(turn, 1) };
        }
        if wake_all {
            // SAFETY: as above.
            unsafe { FutexCell::wake(state, u32::MAX) };
        }
        Ok(())
    }

    /// Frees the lock, which the caller holds as `WRITER | WAKING`. Whether to wake a sleeper of `turn`, and all of the state word.
    fn end_waking(&self, preference: Preference) -> (bool, bool) {
        // ORDER: Relaxed: E3.
        self.turn.fetch_add(1, Relaxed);
        let mut seen = self.state.load(Relaxed);
        let mut waiting;
        let wake_all = loop {
            // A bit without a registered writer is a leftover: see `wait_exclusive`. ORDER: Relaxed: E3 has been acquired.
            waiting = self.writers.load(Relaxed) != 0;
            // Readers stay behind the writer that wakes up, until it has had the lock.
            let bars = preference == Preference::Writers && waiting && seen & WRITERS_WAITING != 0;
            let next = match (bars, seen & LATE != 0) {
                (false, _) => 0,
                (true, false) => seen & (WRITERS_WAITING | READERS_WAITING),
                (true, true) => WRITERS_WAITING,
            };
            // ORDER: Release is E1.
            match self.state.compare_exchange(seen, next, Release, Relaxed) {
                Ok(_) => break seen & (READERS_WAITING | LATE) != 0 && next & READERS_WAITING == 0,
                Err(now) => seen = now,
            }
        };
        (waiting, wake_all)
    }
}
