//! Plays for the initialisation of a library by whichever thread comes first.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use lockwork_locks::inplace::start::{self, DONE, Entry};
use lockwork_platform::{AtomicCell, DataCell};

use super::{Scenario, Subject};
use crate::model::{ModelPlatform, Play};

/// The id of a thread that does not exist.
const GHOST: u32 = 99;

/// A library.
struct Library<P: ModelPlatform> {
    state: P::U32,
    /// What the initialisation writes.
    settings: P::Data<usize>,
    initialised: AtomicUsize,
}

impl<P: ModelPlatform> fmt::Debug for Library<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Library").finish_non_exhaustive()
    }
}

impl<P: ModelPlatform> Library<P> {
    fn use_it(&self, me: u32) {
        if start::done::<P>(&self.state).is_none() {
            match start::enter::<P>(&self.state, me, |thread| thread != GHOST) {
                Entry::Done(result) => assert_eq!(result, DONE + 1),
                Entry::Within => panic!("this thread does not initialise"),
                Entry::Initialise => {
                    // What the initialisation calls may need the library.
                    assert_eq!(start::enter::<P>(&self.state, me, |_| true), Entry::Within);
                    // SAFETY: I1: this thread alone initialises; the checker reports it if others look already.
                    unsafe { self.settings.set(7) };
                    self.initialised.fetch_add(1, Relaxed);
                    start::finish::<P>(&self.state, DONE + 1);
                }
            }
        }
        // SAFETY: initialised, and nobody changes it any more.
        assert_eq!(unsafe { self.settings.get() }, 7);
    }
}

/// So many threads need a library; `state` says how far a thread of the parent had come.
fn first_uses<P: ModelPlatform>(state: u32, threads: u32) -> Play {
    let library = Arc::new(Library::<P> {
        state: P::U32::new(state),
        settings: P::Data::new(0),
        initialised: AtomicUsize::new(0),
    });
    let all = Arc::clone(&library);
    let play = Play::new(move || assert_eq!(all.initialised.load(Relaxed), 1, "initialised once"));
    (1..=threads).fold(play, |play, me| {
        let library = Arc::clone(&library);
        play.with(move || library.use_it(me))
    })
}

/// What is played with the initialisation.
pub fn starts<P: ModelPlatform>() -> Vec<Subject> {
    vec![Subject {
        name: "start".to_owned(),
        scenarios: vec![
            Scenario::new("first-uses", 2, || first_uses::<P>(0, 2)),
            Scenario::new("first-uses-of-three", 3, || first_uses::<P>(0, 3)),
            Scenario::new("after-fork", 2, || first_uses::<P>(GHOST, 2)),
            Scenario::new("after-fork-of-three", 3, || first_uses::<P>(GHOST, 3)),
        ],
    }]
}
