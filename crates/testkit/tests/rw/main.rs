//! What every reader-writer lock must do, on the real machine: one test for each lock and property.

mod favour;
mod forked;
mod sharing;
mod waiting;

use std::time::Duration;

use libtest_mimic::{Arguments, Trial};
use lockwork_locks::describe::Favour;
use lockwork_platform::{Clock, Cpu, Deadline, Native};
use lockwork_testkit::rw::RwSubject;
use lockwork_testkit::watchdog::watchdog;

/// No test takes more than a few seconds, even on a busy machine.
const LIMIT: Duration = Duration::from_secs(120);

/// A cheap random number, different for every thread and round.
pub(crate) fn random(seed: &mut u64) -> u64 {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    *seed >> 8
}

pub(crate) fn soon(clock: Clock, ns: u64) -> Deadline {
    Deadline::after(clock, Native::now(clock), ns)
}

type Check = (&'static str, fn(RwSubject), fn(RwSubject) -> bool);

fn always(_: RwSubject) -> bool {
    true
}

const CHECKS: &[Check] = &[
    ("writers_exclude_everybody", |subject| sharing::exclusion(subject, 4, 10_000), always),
    (
        "writers_exclude_everybody_with_many_threads",
        |subject| {
            if subject.spins() {
                sharing::exclusion(subject, 8, 500)
            } else {
                sharing::exclusion(subject, 64, 300)
            }
        },
        always,
    ),
    ("readers_share", sharing::readers_share, always),
    ("attempts", sharing::attempts, always),
    (
        "attempts_to_write_do_not_hinder_attempts_to_read",
        sharing::attempts_to_write_do_not_hinder_attempts_to_read,
        always,
    ),
    ("zero_is_unlocked", sharing::zero_is_unlocked, always),
    ("disposal", sharing::disposal, always),
    ("a_lock_that_ends_held_locks_no_other", sharing::a_lock_that_ends_held_locks_no_other, always),
    ("deadlines", waiting::deadlines, always),
    ("hasty_crowd", waiting::hasty_crowd, always),
    ("wake_chain", waiting::wake_chain, always),
    ("fork_drops_the_waiters_of_a_writer", forked::of_a_writer, always),
    ("fork_drops_the_waiters_of_a_reader", forked::of_a_reader, always),
    ("downgrade", sharing::downgrade, always),
    ("recursion", sharing::recursion, always),
    ("release_elsewhere", sharing::release_elsewhere, always),
    ("readers_pass_a_waiting_writer", favour::readers_pass, |subject| subject.favour() == Favour::Readers),
    ("readers_wait_behind_a_waiting_writer", favour::readers_wait_behind_a_waiting_writer, |subject| {
        subject.favour() != Favour::Readers
    }),
    (
        "a_writer_that_gives_up_lets_the_readers_behind_it_in",
        favour::a_writer_that_gives_up_lets_the_readers_behind_it_in,
        |subject| subject.favour() != Favour::Readers,
    ),
    ("readers_do_not_starve_a_writer", favour::readers_do_not_starve_a_writer, |subject| {
        subject.favour() != Favour::Readers
    }),
    ("writers_do_not_starve_a_reader", favour::writers_do_not_starve_a_reader, |subject| {
        subject.favour() != Favour::Writers
    }),
];

fn main() {
    let arguments = Arguments::from_args();
    let mut trials: Vec<Trial> = RwSubject::all()
        .flat_map(|subject| {
            let checks = CHECKS.iter().filter(move |(_, _, applies)| applies(subject));
            checks.map(move |(name, check, _)| {
                let name = format!("{subject}::{name}");
                Trial::test(name.clone(), move || {
                    watchdog(LIMIT, || name.clone(), || check(subject));
                    Ok(())
                })
            })
        })
        .collect();
    trials.push(Trial::test("rw-futex::the_preference_can_be_an_argument", || {
        sharing::the_preference_can_be_an_argument();
        Ok(())
    }));
    libtest_mimic::run(&arguments, trials).exit();
}
