//! What every lock must do, on the real machine: one suite for all.

mod basics;
mod crowds;
mod forked;
mod order;
mod shop;
mod timed;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lockwork_locks::RawLock;
use lockwork_locks::api::Token;
use lockwork_locks::describe::Waiting;
use lockwork_locks::registry::{Entry, Visitor};
use lockwork_platform::Native;

pub use shop::Shop;

use crate::erased::{AnyLock, erased, zeroed};
use crate::watchdog::watchdog;

/// A lock, and what the suite must know of it.
#[derive(Clone)]
pub struct Traits {
    /// The name as in a lock spec.
    pub name: String,
    /// A lock.
    pub new: Arc<dyn Fn() -> AnyLock<Native> + Send + Sync>,
    /// A lock made of nothing but zeros.
    pub zeroed: fn() -> AnyLock<Native>,
    /// Whether the holder keeps a node.
    pub keeps: bool,
    /// Whether waiters get the lock in the order of their arrival.
    pub fifo: bool,
    /// Whether waiters never sleep: with more threads than CPUs such locks are slow, and get less to do.
    pub spins: bool,
}

impl fmt::Debug for Traits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Traits").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A lock of the registry.
struct Base<'a>(&'a Entry);

impl Visitor<Native> for Base<'_> {
    type Output = Traits;

    fn mutex<L: RawLock<Native> + 'static>(self, _: impl Fn() -> L) -> Traits {
        let fifo = self.0.descriptor.order.is_fifo();
        Traits { fifo, spins: self.0.waiting == Waiting::Spin, ..Traits::of::<L>(self.0.name.to_owned()) }
    }
}

impl Traits {
    /// Of a lock of the registry. Not generic, so that they are compiled here and not once in every test that uses it.
    #[must_use]
    pub fn of_base(lock: &Entry) -> Self {
        lock.id.dispatch(Base(lock))
    }

    /// Of the lock type `L`, whose waiters may sleep and come in any order.
    #[must_use]
    pub fn of<L: RawLock<Native> + 'static>(name: String) -> Self {
        Self {
            name,
            new: Arc::new(|| erased::<Native, _>(L::new())),
            zeroed: zeroed::<Native, L>,
            keeps: <L::Token as Token>::STORED,
            fifo: false,
            spins: false,
        }
    }

    /// Whether a release by a thread that does not hold the lock leaves it as it was. (Of a lock whose holder keeps a node that is for its
    /// caller to know, who has no node then.)
    fn shrugs(&self) -> bool {
        !self.keeps && !BROKEN_BY_UNLOCK.iter().any(|name| self.name.contains(name))
    }

    /// How many operations a thread of a crowd does: `plenty`, or as many as a spinning FIFO lock can do on
    /// over-subscribed CPUs in the same time.
    fn operations(&self, plenty: usize) -> usize {
        if self.spins { plenty.div_ceil(50) } else { plenty }
    }
}

/// One test of the suite.
#[derive(Clone, Copy, Debug)]
pub struct Check {
    /// What it shows.
    pub name: &'static str,
    /// The test. Panics when it fails.
    body: fn(&Traits),
    /// Whether the lock promises what it shows.
    applies: fn(&Traits) -> bool,
}

impl Check {
    /// The tests of the suite for a lock.
    #[must_use]
    pub fn of(traits: &Traits) -> Vec<&'static Self> {
        SUITE.iter().filter(|check| (check.applies)(traits)).collect()
    }

    /// Runs the test on a lock that it is for. It ends: a lock may hang that nobody else uses.
    ///
    /// # Panics
    ///
    /// When it fails.
    pub fn run(&self, traits: &Traits) {
        // What a test says of itself when it hangs is more, and comes first.
        let limit = LIMIT + Duration::from_secs(30);
        watchdog(limit, || format!("{}::{}", traits.name, self.name), || (self.body)(traits));
    }
}

/// Locks that an unlock too many breaks, by their names and in those of locks around them: see the limits in the README.
const BROKEN_BY_UNLOCK: &[&str] = &["ticket", "ptl", "twa", "glk"];

/// No test of the suite takes nearly that long, even on a busy machine.
pub const LIMIT: Duration = Duration::from_secs(300);

macro_rules! checks {
    ($($module:ident: $($name:ident $(($applies:expr))?)*;)*) => {
        &[$($(Check {
            name: stringify!($name),
            body: $module::$name,
            applies: { let _applies: fn(&Traits) -> bool = |_| true; $(let _applies: fn(&Traits) -> bool = $applies;)? _applies },
        },)*)*]
    };
}

/// The suite.
const SUITE: &[Check] = checks! {
    basics: excludes try_on_a_free_lock try_on_a_held_lock is_locked_tells zeroed_memory_is_unlocked
        locks_nest locks_are_released_in_any_order many_locks_are_held_at_once
        another_thread_releases a_thread_ends_while_it_holds
        a_lock_that_ends_held_locks_no_other nodes_are_returned(|lock| lock.keeps)
        an_unlock_too_many_changes_nothing(Traits::shrugs);
    crowds: a_crowd_excludes a_crowd_that_tries_excludes a_crowd_on_many_locks tries_get_through;
    order: arrivals_are_served_in_order(|lock| lock.fifo) nobody_starves;
    timed: a_passed_deadline_fails_on_a_held_lock a_passed_deadline_succeeds_on_a_free_lock
        a_deadline_is_met_in_time waits_until_the_deadline the_wall_clock_is_a_clock_too
        those_behind_a_leaver_are_served deadlines_race_with_releases a_storm_of_deadlines;
    forked: a_child_forgets_the_waiters a_child_of_a_waiter_takes_over;
};
