//! Threads that sleep in sections and pass a turn on, for a recorder to look at: `tests/recorded.c` of the command, in Rust.

use std::io::Read as _;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use lockwork::locks::McsStp;
use lockwork::{Condvar, DynMutex, Mutex, RwLock};

static HOT: Mutex<u64, McsStp> = Mutex::unlocked(0);
static SHARED: RwLock<u64> = RwLock::new(0);
static HEAP: OnceLock<Box<DynMutex<u64>>> = OnceLock::new();
static TURN: Condvar = Condvar::new();
static ARRIVED: AtomicU32 = AtomicU32::new(0);

#[inline(never)]
fn hold() {
    let mut count = HOT.lock();
    *count += 1;
    thread::sleep(Duration::from_micros(200));
}

#[inline(never)]
fn look() {
    let count = SHARED.read();
    thread::sleep(Duration::from_micros(50));
    assert!(*count < u64::MAX);
}

#[inline(never)]
fn change() {
    *SHARED.write() += 1;
}

#[inline(never)]
fn pass_turn(number: u64) {
    let heap = HEAP.get_or_init(|| Box::new(DynMutex::with_spec("gcr(ticket, active=2)", 0).unwrap()));
    // The first turn is passed when somebody waits for the next.
    while number == 0 && ARRIVED.load(SeqCst) == 0 {
        thread::sleep(Duration::from_micros(100));
    }
    let mut turns = heap.lock();
    if number != 0 {
        ARRIVED.fetch_add(1, SeqCst);
    }
    TURN.wait_while(&mut turns, |turns| *turns % 4 != number);
    *turns += 1;
    TURN.notify_all();
}

fn work(number: u64, rounds: u64) {
    for round in 0..rounds {
        hold();
        if round % 3 != 0 {
            look()
        } else {
            change()
        }
        pass_turn(number);
    }
}

fn main() {
    if std::env::args().count() > 1 {
        for number in 0..4 {
            thread::spawn(move || work(number, u64::MAX));
        }
        println!("up");
        std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
        std::process::exit(7);
    }
    thread::scope(|scope| (0..4).for_each(|number| _ = scope.spawn(move || work(number, 15))));
}
