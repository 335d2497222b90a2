//! The library as its users see it, over every lock.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use lockwork::locks::*;
use lockwork::{
    Condvar, DynLock, DynMutex, Lock, Mutex, MutexGuard, Native, RawLock, RawRwLock, RwLock, Wakeup,
};
use lockwork_locks::hierarchical::combinations::COMBINATIONS;
use lockwork_locks::registry::{DEFAULT, WrapperId, mutexes};

fn counts<L: Lock>(mutex: &Mutex<u64, L>) {
    let before = *mutex.lock();
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..1_000 {
                    *mutex.lock() += 1;
                }
            });
        }
    });
    assert_eq!(*mutex.lock(), before + 3_000);
}

fn attempts<L: Lock>(mutex: &Mutex<u64, L>) {
    let held = mutex.lock();
    assert!(mutex.is_locked());
    assert!(mutex.try_lock().is_none());
    assert!(mutex.try_lock_for(Duration::from_millis(1)).is_none());
    assert!(mutex.try_lock_until(Instant::now()).is_none());
    drop(held);
    // The nodes of waiters that gave up may still be in the queue: one acquisition clears them away.
    drop(mutex.lock());
    assert!(mutex.try_lock().is_some());
    assert!(mutex.try_lock_for(Duration::ZERO).is_some());
    assert!(mutex.try_lock_until(Instant::now()).is_some());
}

/// A guard that is dropped in another thread.
fn travels<L: Lock>(mutex: &Mutex<u64, L>) {
    let guard = mutex.lock();
    thread::scope(|scope| {
        scope.spawn(move || drop(guard));
    });
    drop(mutex.lock());
}

/// Two threads that wait for each other's turns.
fn turns<L: Lock>(mutex: &Mutex<u64, L>) {
    const TURNS: u64 = 200;
    *mutex.lock() = 0;
    let changed = Condvar::new();
    thread::scope(|scope| {
        for parity in 0..2 {
            let changed = &changed;
            scope.spawn(move || {
                let mut turn = mutex.lock();
                while *turn < TURNS {
                    changed.wait_while(&mut turn, |turn| *turn < TURNS && *turn % 2 != parity);
                    if *turn < TURNS {
                        *turn += 1;
                    }
                    changed.notify_one();
                }
            });
        }
    });
    assert_eq!(*mutex.lock(), TURNS);
}

fn everything<L: Lock>(mutex: &Mutex<u64, L>) {
    counts(mutex);
    attempts(mutex);
    travels(mutex);
    turns(mutex);
}

macro_rules! statics {
    ($($test:ident: $lock:ty;)*) => {$(
        #[test]
        fn $test() {
            static MUTEX: Mutex<u64, $lock> = Mutex::unlocked(0);
            everything(&MUTEX);
        }
    )*};
}

statics! {
    tas: Tas;
    ttas: Ttas;
    backoff: Backoff;
    ticket: Ticket;
    clh_spin: ClhSpin;
    clh_stp: ClhStp;
    mcs_spin: McsSpin;
    mcs_stp: McsStp;
    k42_spin: K42Spin;
    k42_stp: K42Stp;
    futex: Futex;
    gcr_ticket: Gcr<Ticket>;
    gcr_mcs_stp: Gcr<McsStp>;
    the_default: DefaultLock;
}

#[test]
fn every_spec_makes_a_lock() {
    for lock in mutexes() {
        everything(&DynMutex::with_spec(lock.name, 0).unwrap());
        everything(&DynMutex::with_spec(&format!("gcr({}, active=1, enable=1)", lock.name), 0).unwrap());
    }
    everything(&DynMutex::with_spec("gcr-numa(mcs-stp, turn=2, active=1, enable=1)", 0).unwrap());
    for lock in WrapperId::Biased.inner_locks() {
        everything(&DynMutex::with_spec(&format!("biased({})", lock.name), 0).unwrap());
    }
}

#[test]
fn a_cohort_lock_can_be_named_by_its_parts() {
    for (global, local, name) in COMBINATIONS {
        let lock = DynLock::new(&format!("cohort({global}, {local})")).unwrap();
        assert!(format!("{lock:?}").contains(name), "{lock:?}");
    }
}

#[test]
fn a_wrong_spec_makes_none() {
    for (spec, offset, message) in [
        ("tiket", 0, "unknown lock `tiket`: did you mean `ticket`?"),
        ("gcr(mcs-stp, speed=3)", 13, "`gcr` has no knob `speed`"),
        ("passthrough", 0, "unknown lock `passthrough`"),
        ("cohort(mcs-stp, futex)", 16, "`futex` cannot be the lock of a node"),
        (
            "cohort(futex, mcs-stp)",
            7,
            "there is no cohort lock of `futex` over `mcs-stp`; there are cohort(backoff,mcs-spin)",
        ),
        ("c-tkt-tkt(may-pass-local=0)", 25, "`may-pass-local` must be between 1 and 65535"),
        ("c-tkt-tkt(speed=1)", 10, "`c-tkt-tkt` has no knob `speed`"),
        ("hclh-stp(may-pass-local=4)", 0, "`hclh-stp` takes no arguments"),
        ("gcr(mcs-stp, turn=2)", 13, "`gcr` has no knob `turn`"),
        ("gcr(gcr(mcs-stp))", 4, "`gcr` cannot be wrapped"),
        ("biased(gcr(mcs-stp))", 7, "`gcr` cannot be wrapped"),
        ("biased", 0, "`biased` wraps a lock"),
        ("biased(k42-stp)", 7, "`k42-stp` leaves no room for the bias"),
        ("biased(mcs-stp, active=4)", 14, "expected `)`, found `,`"),
        ("gcr(mcs-stp, active=70000)", 20, "`active` must be between 0 and 65535"),
    ] {
        let error = DynLock::new(spec).unwrap_err();
        assert!(error.to_string().starts_with(message), "{spec}: {error}");
        assert_eq!(error.offset(), offset);
    }
}

#[test]
fn the_default_is_that_of_the_command() {
    assert_eq!(DEFAULT, "auto");
    let _: &Mutex<(), Auto> = &Mutex::new(());
}

/// `Mutex::unlocked` makes locks of zeroes.
#[test]
fn zeroes_are_default_knobs() {
    let mutex = Mutex::<(), Gcr<McsStp>>::unlocked(());
    assert_eq!(format!("{:?}", mutex.lock_ref()), format!("{:?}", Gcr::<McsStp>::new()));
    assert!(format!("{:?}", mutex.lock_ref()).contains(&format!("{:?}", GcrKnobs::default())));
}

#[test]
fn a_panic_unlocks_and_does_not_poison() {
    let mutex = Mutex::new(1);
    thread::scope(|scope| {
        let panicking = scope.spawn(|| {
            let mut guard = mutex.lock();
            *guard = 2;
            std::panic::resume_unwind(Box::new(()));
        });
        assert!(panicking.join().is_err());
    });
    assert_eq!(*mutex.lock(), 2);
}

/// A guard may be forgotten; the mutex then stays locked, wherever it is moved.
#[test]
fn a_locked_mutex_may_be_moved() {
    fn moved<L: RawLock<Native>>()
    where
        L::Token: std::fmt::Debug,
    {
        let mutex = Mutex::<_, L>::unlocked(3);
        std::mem::forget(mutex.lock());
        let moved = Box::new(mutex);
        assert!(moved.try_lock().is_none());
        assert!(moved.try_lock_for(Duration::from_millis(1)).is_none());
        assert_eq!(moved.into_inner(), 3);
    }
    moved::<Ticket>();
    moved::<ClhStp>();
    moved::<McsStp>();
    moved::<K42Stp>();
    moved::<Futex>();
    moved::<DefaultLock>();
}

#[test]
fn values_may_be_unsized() {
    let mutex: &Mutex<[u8]> = &Mutex::new([1, 2, 3]);
    mutex.lock()[1] = 5;
    assert_eq!(*mutex.lock(), [1, 5, 3]);
    let lock: &RwLock<[u8]> = &RwLock::new([1, 2]);
    lock.write()[0] = 7;
    assert_eq!(*lock.read(), [7, 2]);
}

#[test]
fn debug_shows_the_value_unless_it_is_locked() {
    let mutex = Mutex::new(7);
    assert_eq!(format!("{mutex:?}"), "Mutex { value: 7, .. }");
    let guard = mutex.lock();
    assert_eq!(format!("{mutex:?} {guard:?} {guard}"), "Mutex { value: <locked>, .. } 7 7");
    assert!(std::ptr::eq(MutexGuard::mutex(&guard), &raw const mutex));
    let lock = RwLock::new(8);
    assert_eq!(format!("{lock:?}"), "RwLock { value: 8, .. }");
    let _writer = lock.write();
    assert_eq!(format!("{lock:?}"), "RwLock { value: <locked>, .. }");
}

#[test]
fn a_wait_ends_at_its_deadline() {
    let (mutex, never) = (Mutex::new(()), Condvar::new());
    let mut guard = mutex.lock();
    let start = Instant::now();
    assert_eq!(never.wait_for(&mut guard, Duration::from_millis(5)), Wakeup::TimedOut);
    assert_eq!(never.wait_until(&mut guard, start), Wakeup::TimedOut);
    assert!(start.elapsed() >= Duration::from_millis(5));
    assert!(mutex.try_lock().is_none(), "the guard is a guard again");
}

#[test]
fn everybody_is_notified() {
    let (mutex, changed) = (Mutex::<_, K42Stp>::unlocked(false), Condvar::new());
    let woken = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                let mut set = mutex.lock();
                changed.wait_while(&mut set, |set| !*set);
                woken.fetch_add(1, Relaxed);
            });
        }
        *mutex.lock() = true;
        changed.notify_all();
    });
    assert_eq!(woken.into_inner(), 16);
}

fn reads_and_writes<L: RawRwLock<Native>>(lock: &RwLock<u64, L>) {
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| (0..1_000).for_each(|_| *lock.write() += 1));
            scope.spawn(|| (0..1_000).for_each(|_| assert!(*lock.read() <= 2_000)));
        }
    });
    let (one, other) = (lock.read(), lock.try_read().unwrap());
    assert_eq!((*one, *other), (2_000, 2_000));
    assert!(lock.try_write().is_none());
    assert!(lock.try_write_for(Duration::from_millis(1)).is_none());
    assert!(lock.try_write_until(Instant::now()).is_none());
    thread::scope(|scope| {
        scope.spawn(move || drop((one, other)));
    });
    let writer = lock.try_write().unwrap();
    assert!(lock.try_read().is_none());
    assert!(lock.try_read_for(Duration::from_millis(1)).is_none());
    assert!(lock.try_read_until(Instant::now()).is_none());
    drop(writer);
    assert!(lock.try_write_for(Duration::ZERO).is_some());
    assert!(lock.try_read_for(Duration::ZERO).is_some());
}

#[test]
fn both_preferences_of_the_reader_writer_lock() {
    static READERS: RwLock<u64> = RwLock::new(0);
    static WRITERS: RwLock<u64, RwPreferWriters> = RwLock::unlocked(0);
    reads_and_writes(&READERS);
    reads_and_writes(&WRITERS);
}

#[test]
fn owners_need_no_lock() {
    let mut mutex = Mutex::<_, Ticket>::from(1);
    *mutex.get_mut() += 1;
    assert_eq!(mutex.into_inner(), 2);
    let mut lock = RwLock::<_, RwPreferReaders>::from(1);
    *lock.get_mut() += 1;
    assert_eq!(lock.into_inner(), 2);
    assert_eq!(RwLock::<u8>::default().into_inner(), 0);
}

#[cfg(feature = "lock_api")]
#[test]
fn lock_api_0_5() {
    fn works<L: RawLock<Native>>() {
        let mutex = lock_api_05::Mutex::<lockwork::RawMutex<L>, _>::new(0);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| (0..1_000).for_each(|_| *mutex.lock() += 1));
            }
        });
        let guard = mutex.lock();
        assert_eq!(*guard, 2_000);
        assert!(mutex.try_lock().is_none());
        assert!(mutex.try_lock_for(Duration::from_millis(1)).is_none());
        thread::scope(|scope| {
            scope.spawn(move || drop(guard));
        });
        assert!(mutex.try_lock_until(Instant::now() + Duration::from_secs(600)).is_some());
    }
    works::<Futex>();
    works::<McsStp>();
    works::<ClhStp>();
    works::<DefaultLock>();
}

#[cfg(feature = "lock_api_0_4")]
#[test]
fn lock_api_0_4() {
    fn works<L: RawLock<Native>>() {
        let mutex = lock_api_04::Mutex::<lockwork::RawMutex04<L>, _>::new(0);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| (0..1_000).for_each(|_| *mutex.lock() += 1));
            }
        });
        let guard = mutex.lock();
        assert_eq!(*guard, 2_000);
        assert!(mutex.try_lock().is_none());
        assert!(mutex.try_lock_for(Duration::from_millis(1)).is_none());
        thread::scope(|scope| {
            scope.spawn(move || drop(guard));
        });
        assert!(mutex.try_lock_until(Instant::now() + Duration::from_secs(600)).is_some());
    }
    works::<Futex>();
    works::<McsStp>();
    works::<ClhStp>();
    works::<DefaultLock>();
}

#[test]
fn who_gave_up_on_a_mutex_that_was_leaked_held_has_the_next_one_there() {
    const LONG: Duration = Duration::from_secs(60);
    let mut place = Box::new(Mutex::<(), McsStp>::unlocked(()));
    std::mem::forget(place.lock());
    assert!(place.try_lock_for(Duration::ZERO).is_none(), "held");
    // Dropped where it is.
    *place = Mutex::unlocked(());
    let next = &*place;
    let ready = std::sync::Barrier::new(2);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let guard = next.lock();
            ready.wait();
            std::thread::sleep(Duration::from_millis(20));
            drop(guard);
        });
        ready.wait();
        assert!(next.try_lock_for(LONG).is_some(), "released long before");
    });
}
