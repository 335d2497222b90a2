//! Plays for any lock.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Release};

use lockwork_locks::knobs::Knobs;
use lockwork_platform::AtomicCell;

use super::{Stage, expired, in_time};
use crate::erased::{AnyLock, Held};
use crate::model::{ModelPlatform, Play};

/// Longer than any waiter is patient, in ns.
const MUCH_LATER: u64 = 1_000_000_000;

/// `threads` threads lock `sections` times each.
pub fn exclusion<P: ModelPlatform>(lock: AnyLock<P>, threads: usize, sections: usize) -> Play {
    let stage = Stage::<P>::new(lock);
    let mut play = stage.play(threads * sections, threads * sections);
    for _ in 0..threads {
        let stage = Arc::clone(&stage);
        play = play.with(move || {
            for _ in 0..sections {
                stage.locked();
            }
        });
    }
    play
}

/// The lock is held from the start; two threads come before or after its release.
pub fn contended<P: ModelPlatform>(lock: AnyLock<P>) -> Play {
    let stage = Stage::<P>::new(lock);
    let held = stage.lock.lock();
    let releaser = Arc::clone(&stage);
    let mut play = stage.play(3, 3).with(move || {
        P::yield_now();
        assert!(releaser.lock.is_locked(), "held by this thread");
        releaser.finish(Some(held));
    });
    for _ in 0..2 {
        let stage = Arc::clone(&stage);
        play = play.with(move || _ = stage.locked());
    }
    play
}

/// The lock is held from the start; the thread that releases it comes again, while two others come.
pub fn come_again<P: ModelPlatform>(lock: AnyLock<P>) -> Play {
    come_again_as(lock, 0)
}

/// As [`come_again`], with `number` as the number of the thread that releases.
pub fn come_again_as<P: ModelPlatform>(lock: AnyLock<P>, number: usize) -> Play {
    let stage = Stage::<P>::new(lock);
    let mut held = Some(stage.lock.lock());
    let mut play = stage.play(4, 4);
    for thread in 0..3 {
        let stage = Arc::clone(&stage);
        let held = held.take_if(|_| thread == number);
        play = play.with(move || {
            if held.is_some() {
                P::yield_now();
                stage.finish(held);
            }
            stage.locked();
        });
    }
    play
}

/// The lock is held from the start, and released much later, while `others` wait: so much that a waiter that has not
/// looked at the clock meanwhile seems not to run.
pub fn passed_over<P: ModelPlatform>(lock: AnyLock<P>, others: usize) -> Play {
    let stage = Stage::<P>::new(lock);
    let held = stage.lock.lock();
    let releaser = Arc::clone(&stage);
    let mut play = stage.play(1 + others, 1 + others).with(move || {
        P::set_time(MUCH_LATER);
        releaser.finish(Some(held));
    });
    for _ in 0..others {
        let stage = Arc::clone(&stage);
        play = play.with(move || {
            P::hurry(20);
            stage.locked();
        });
    }
    play
}

/// As [`passed_over`], with a waiter whose deadline passes too.
pub fn passed_over_and_late<P: ModelPlatform>(lock: AnyLock<P>) -> Play {
    let stage = Stage::<P>::new(lock);
    let held = stage.lock.lock();
    let (releaser, waiter) = (Arc::clone(&stage), Arc::clone(&stage));
    stage
        .play(1, 2)
        .with(move || {
            P::set_time(MUCH_LATER);
            releaser.finish(Some(held));
        })
        .with(move || _ = waiter.timed(in_time()))
}

/// The lock is held from the start; the second of four gives up before it releases, so that three come while it is held and
/// a fourth node is in the queue.
pub fn give_up_before_release<P: ModelPlatform>(lock: AnyLock<P>) -> Play {
    let stage = Stage::<P>::new(lock);
    let held = stage.lock.lock();
    let releaser = Arc::clone(&stage);
    let first = Arc::clone(&stage);
    let mut play = stage.play(4, 4).with(move || _ = first.locked()).with(move || {
        assert!(!releaser.timed(expired()), "held");
        P::yield_now();
        releaser.finish(Some(held));
    });
    for _ in 0..2 {
        let stage = Arc::clone(&stage);
        play = play.with(move || _ = stage.locked());
    }
    play
}

/// The lock is held from the start; one thread waits for it, and another gives up, perhaps behind that.
pub fn give_up_behind<P: ModelPlatform>(lock: AnyLock<P>) -> Play {
    let stage = Stage::<P>::new(lock);
    let held = stage.lock.lock();
    let (releaser, waiter, hasty) = (Arc::clone(&stage), Arc::clone(&stage), Arc::clone(&stage));
    stage
        .play(2, 3)
        .with(move || {
            P::yield_now();
            releaser.finish(Some(held));
        })
        .with(move || _ = waiter.locked())
        .with(move || _ = hasty.timed(expired()))
}

/// The lock is held from the start; the thread that releases it comes again, while another has it, and the deadline of
/// a third, which may have been passed over, passes.
pub fn give_up_passed_over<P: ModelPlatform>(lock: AnyLock<P>) -> Play {
    let stage = Stage::<P>::new(lock);
    let held = stage.lock.lock();
    let (again, waiter, hasty) = (Arc::clone(&stage), Arc::clone(&stage), Arc::clone(&stage));
    stage
        .play(3, 4)
        .with(move || {
            P::yield_now();
            again.finish(Some(held));
            again.locked();
        })
        .with(move || {
            waiter.locked();
            P::set_time(1);
        })
        .with(move || _ = hasty.timed(in_time()))
}

/// One thread locks while another tries, then locks.
pub fn attempt<P: ModelPlatform>(lock: AnyLock<P>) -> Play {
    let stage = Stage::<P>::new(lock);
    let (locker, trier) = (Arc::clone(&stage), Arc::clone(&stage));
    stage.play(2, 3).with(move || _ = locker.locked()).with(move || {
        let token = trier.lock.try_lock();
        trier.finish(token);
        trier.locked();
    })
}

/// Two threads try; the lock is free at the start, so one of them at least has it.
pub fn attempts<P: ModelPlatform>(lock: AnyLock<P>) -> Play {
    let stage = Stage::<P>::new(lock);
    let mut play = stage.play(1, 2);
    for _ in 0..2 {
        let stage = Arc::clone(&stage);
        play = play.with(move || {
            let token = stage.lock.try_lock();
            stage.finish(token);
        });
    }
    play
}

/// One thread locks twice, while another gives up at once, then locks with the same node.
pub fn give_up<P: ModelPlatform>(lock: AnyLock<P>) -> Play {
    let stage = Stage::<P>::new(lock);
    let (locker, hasty) = (Arc::clone(&stage), Arc::clone(&stage));
    let locker = move || {
        locker.locked();
        locker.locked();
    };
    stage.play(3, 4).with(locker).with(move || {
        hasty.timed(expired());
        hasty.locked();
    })
}

/// One thread locks, while a second gives up in the middle of the queue and a third waits behind it.
pub fn give_up_in_the_middle<P: ModelPlatform>(lock: AnyLock<P>) -> Play {
    let stage = Stage::<P>::new(lock);
    let (locker, hasty, patient) = (Arc::clone(&stage), Arc::clone(&stage), Arc::clone(&stage));
    stage
        .play(2, 3)
        .with(move || _ = locker.locked())
        .with(move || {
            hasty.timed(expired());
        })
        .with(move || _ = patient.locked())
}

/// A waiter's deadline passes at any moment while another thread holds the lock and releases it.
pub fn deadline<P: ModelPlatform>(lock: AnyLock<P>) -> Play {
    let stage = Stage::<P>::new(lock);
    let (locker, waiter) = (Arc::clone(&stage), Arc::clone(&stage));
    stage
        .play(1, 2)
        .with(move || {
            locker.locked();
            P::set_time(1);
        })
        .with(move || {
            waiter.timed(in_time());
        })
}

/// The lock is held from the start and released, while another gives up and comes back, perhaps to where it gave up, until its
/// deadline passes.
pub fn come_back<P: ModelPlatform>(lock: AnyLock<P>) -> Play {
    let stage = Stage::<P>::new(lock);
    let held = stage.lock.lock();
    let (releaser, hasty) = (Arc::clone(&stage), Arc::clone(&stage));
    stage
        .play(1, 3)
        .with(move || {
            P::switch();
            releaser.finish(Some(held));
            P::set_time(1);
        })
        .with(move || {
            hasty.timed(expired());
            hasty.timed(in_time());
        })
}

/// As [`come_back`], between two others: one may be ahead and one behind, which waits as long as it takes.
pub fn come_back_between<P: ModelPlatform>(lock: AnyLock<P>) -> Play {
    let stage = Stage::<P>::new(lock);
    let held = stage.lock.lock();
    let (releaser, hasty, patient) = (Arc::clone(&stage), Arc::clone(&stage), Arc::clone(&stage));
    stage
        .play(2, 4)
        .with(move || {
            P::switch();
            releaser.finish(Some(held));
        })
        .with(move || {
            hasty.timed(expired());
            hasty.timed(expired());
        })
        .with(move || _ = patient.locked())
}

/// As [`deadline`], with time passing in a thread of its own.
pub fn deadline_any_time<P: ModelPlatform>(lock: AnyLock<P>) -> Play {
    let stage = Stage::<P>::new(lock);
    let (locker, waiter) = (Arc::clone(&stage), Arc::clone(&stage));
    stage
        .play(1, 2)
        .with(move || _ = locker.locked())
        .with(move || {
            waiter.timed(in_time());
        })
        .with(|| P::set_time(1))
}

/// A thread locks and lets another unlock, while a third waits.
pub fn release_elsewhere<P: ModelPlatform>(lock: AnyLock<P>) -> Play {
    let stage = Stage::<P>::new(lock);
    let mailbox = Arc::new(P::Usize::new(0));
    let post = Arc::clone(&mailbox);
    let (locker, releaser, waiter) = (Arc::clone(&stage), Arc::clone(&stage), Arc::clone(&stage));
    stage
        .play(2, 2)
        .with(move || {
            let token = locker.lock.lock();
            locker.section();
            // Never 0, not even for the token that is nothing: no word is all ones.
            post.store(!token.0, Release);
        })
        .with(move || {
            let word = receive::<P>(&mailbox);
            // SAFETY: the word of the acquisition in the other thread, used once.
            unsafe { releaser.lock.unlock(Held(word)) };
        })
        .with(move || _ = waiter.locked())
}

/// A thread locks, lets another unlock, and locks again.
pub fn release_elsewhere_and_again<P: ModelPlatform>(lock: AnyLock<P>) -> Play {
    let stage = Stage::<P>::new(lock);
    let mailbox = Arc::new(P::Usize::new(0));
    let post = Arc::clone(&mailbox);
    let (locker, releaser) = (Arc::clone(&stage), Arc::clone(&stage));
    stage
        .play(2, 2)
        .with(move || {
            let held = locker.lock.lock();
            // Never 0, as above.
            post.store(!held.0, Release);
            locker.locked();
        })
        .with(move || {
            let word = receive::<P>(&mailbox);
            releaser.section();
            // SAFETY: the word of the acquisition in the other thread, used once.
            unsafe { releaser.lock.unlock(Held(word)) };
        })
}

/// Waits for a token's word in a mailbox.
fn receive<P: ModelPlatform>(mailbox: &P::Usize) -> usize {
    loop {
        match mailbox.load(Acquire) {
            0 => P::pause(),
            word => return !word,
        }
    }
}

/// Two locks, taken in the same order by two threads and released in either order.
pub fn two_locks<P: ModelPlatform>(first: AnyLock<P>, second: AnyLock<P>) -> Play {
    let outer = Stage::<P>::new(first);
    let inner = Stage::<P>::new(second);
    let mut play = outer.play(2, 2);
    for crosswise in [false, true] {
        let (outer, inner) = (Arc::clone(&outer), Arc::clone(&inner));
        play = play.with(move || {
            let held = outer.lock.lock();
            outer.section();
            let nested = inner.lock.lock();
            inner.section();
            let release_outer = || {
                // SAFETY: the token of the acquisition above, used once.
                unsafe { outer.lock.unlock(held) };
            };
            let release_inner = || {
                // SAFETY: as above.
                unsafe { inner.lock.unlock(nested) };
            };
            if crosswise {
                release_outer();
                release_inner();
            } else {
                release_inner();
                release_outer();
            }
        });
    }
    play
}

/// Acquires and releases; the last of `threads` destroys the lock right after, as POSIX allows. Whether that was the caller.
fn destroyed<P: ModelPlatform>(stage: &Stage<P>, threads: usize) -> bool {
    let is_last = stage.locked() == threads;
    if is_last {
        // SAFETY: everybody has had the lock, and this thread was the last.
        unsafe { stage.lock.dispose() };
        P::retire(&*stage.lock);
    }
    is_last
}

/// The last thread destroys the lock right after its unlock: no other release may touch the lock any more.
pub fn destroy<P: ModelPlatform>(lock: AnyLock<P>, threads: usize) -> Play {
    let stage = Stage::<P>::new(lock);
    (0..threads).fold(stage.play(threads, threads), |play, _| {
        let stage = Arc::clone(&stage);
        play.with(move || _ = destroyed(&stage, threads))
    })
}

/// As [`destroy`], and the process forks at once: its child, which forgets the waiters of every lock that the registry names, is not
/// to find this one there.
pub fn destroy_and_fork<P: ModelPlatform>(lock: AnyLock<P>, threads: usize) -> Play {
    let stage = Stage::<P>::new(lock);
    let address = stage.lock.address();
    (0..threads).fold(Play::new(|| {}), |play, _| {
        let stage = Arc::clone(&stage);
        play.with(move || {
            if destroyed(&stage, threads) {
                assert!(!P::fork().contains(&address), "somebody is registered for a lock that is gone");
            }
        })
    })
}

/// One thread tells the lock its knobs while another already uses it.
pub fn configured<P: ModelPlatform>(lock: AnyLock<P>) -> Play {
    let stage = Stage::<P>::new(lock);
    let (first, second) = (Arc::clone(&stage), Arc::clone(&stage));
    stage
        .play(2, 2)
        .with(move || {
            first.lock.configure(&Knobs { pass_limit: Some(1), ..Knobs::NONE });
            first.locked();
        })
        .with(move || _ = second.locked())
}

/// A thread asks whether the lock is locked while another comes and goes, and looks at nothing that has been given back. What it
/// is told may be old, and is not checked.
pub fn observed<P: ModelPlatform>(lock: AnyLock<P>) -> Play {
    let stage = Stage::<P>::new(lock);
    let (locker, observer) = (Arc::clone(&stage), Arc::clone(&stage));
    stage.play(1, 1).with(move || _ = locker.locked()).with(move || _ = observer.lock.is_locked())
}

/// The holder forks while others come, wait, give up or go; in the child it forgets them if the registry of waiters
/// names the lock, releases, and goes on.
pub fn forked<P: ModelPlatform>(lock: AnyLock<P>, others: usize) -> Play {
    let stage = Stage::<P>::new(lock);
    let forker = Arc::clone(&stage);
    let mut play = Play::new(|| {}).with(move || {
        forker.locked();
        let token = forker.lock.lock();
        P::switch();
        let waited_for = P::fork();
        if waited_for.contains(&forker.lock.address()) {
            // SAFETY: only this thread is left.
            unsafe { forker.lock.forget_waiters(Some(token)) };
        }
        assert!(forker.lock.is_locked(), "held by the thread that forked");
        assert!(forker.lock.try_lock().is_none(), "held by the thread that forked");
        forker.finish(Some(token));
        for _ in 0..2 {
            forker.locked();
            assert!(forker.timed(expired()), "nobody else is here");
        }
    });
    for number in 0..others {
        let other = Arc::clone(&stage);
        play = play.with(move || {
            if number % 2 == 1 {
                other.timed(expired());
            }
            other.locked();
            other.locked();
        });
    }
    play
}

/// A mixture: threads that lock, that try, whose deadline has passed, and whose deadline passes.
pub fn mixture<P: ModelPlatform>(lock: AnyLock<P>, threads: usize) -> Play {
    let stage = Stage::<P>::new(lock);
    let lockers = threads.div_ceil(4);
    let mut play = stage.play(2 * lockers, 2 * threads);
    for number in 0..threads {
        let stage = Arc::clone(&stage);
        play = play.with(move || match number % 4 {
            0 => {
                stage.locked();
                stage.locked();
            }
            1 => {
                stage.timed(expired());
                stage.timed(in_time());
            }
            2 => {
                P::set_time(1);
                let token = stage.lock.try_lock();
                stage.finish(token);
            }
            _ => _ = stage.timed(in_time()),
        });
    }
    play
}

/// Threads that give up and come back, again and again, while one locks.
pub fn come_back_often<P: ModelPlatform>(lock: AnyLock<P>, hasty: usize) -> Play {
    let stage = Stage::<P>::new(lock);
    let locker = Arc::clone(&stage);
    let mut play = stage.play(3, 3 + 4 * hasty).with(move || {
        for _ in 0..3 {
            locker.locked();
        }
    });
    for _ in 0..hasty {
        let stage = Arc::clone(&stage);
        play = play.with(move || {
            for _ in 0..4 {
                stage.timed(expired());
            }
        });
    }
    play
}

/// Many give up in one queue, but for the last.
pub fn exodus<P: ModelPlatform>(lock: AnyLock<P>, leavers: usize) -> Play {
    let stage = Stage::<P>::new(lock);
    let (locker, patient) = (Arc::clone(&stage), Arc::clone(&stage));
    let mut play = stage.play(3, 3 + leavers).with(move || {
        locker.locked();
        locker.locked();
    });
    for _ in 0..leavers {
        let stage = Arc::clone(&stage);
        play = play.with(move || _ = stage.timed(expired()));
    }
    play.with(move || _ = patient.locked())
}
