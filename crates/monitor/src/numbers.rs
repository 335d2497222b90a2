//! The numbers by which the kernel knows boards, and the thread that tells it which board has which number, and whether
//! to watch: context switches are watched only while clients ask for it.
//!
//! Telling takes milliseconds each time, for the kernel waits until no program is at work on what was there before;
//! clients are served meanwhile. A number is given to another process only when the kernel has forgotten the board that
//! had it and nobody keeps that board: a client that hands on boards of processes that have ended cannot collect more of
//! them than there are numbers. So there are never more than two orders for each number, however fast processes come and
//! go: while all numbers are taken, or about to be free, processes are turned away. A request to watch is a flag, and
//! comes before all orders.

use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvError, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use lockwork_platform::monitor::{AGAIN, LAST_WATCH};

use crate::alive::Alive;
use crate::watch::{Board, Switches, Watch};

/// What is to be told to the kernel.
#[derive(Debug)]
pub(crate) enum Order {
    /// The board of this number.
    Show(u32, Board),
    /// The number has no board any more.
    Hide(u32),
    /// Nothing, but the flag is set.
    Look,
}

/// What passes orders on to the kernel.
pub(crate) trait Tell: Send + 'static {
    /// What is known of processes with this number is to be written to this board.
    fn show(&mut self, number: u32, board: &Board);
    /// The number has no board any more.
    fn hide(&mut self, number: u32);
    /// Whether somebody still keeps the board of this number, whose process has none any more.
    fn is_kept(&self, number: u32) -> bool;
    /// Has context switches watched for a while from now on.
    fn watch(&mut self);
    /// Ends what has been asked for long ago; whether there is still something to end later.
    fn tire(&mut self) -> bool;
}

/// The teller looks at least this often for what is to end.
const A_WHILE: Duration = Duration::from_secs(1);
/// How long context switches are watched without a client asking again.
const LONGEST_WATCH: Duration = Duration::from_nanos(3 * AGAIN);

/// The numbers.
#[derive(Debug)]
pub(crate) struct Numbers {
    free: Vec<u32>,
    orders: Sender<Order>,
    /// Numbers that the kernel has forgotten.
    forgotten: Receiver<u32>,
    /// Numbers that the kernel is still to forget, and the user for whom each counts.
    leaving: HashMap<u32, u32>,
    /// A client wants context switches to be watched. The thread that sets it orders a look.
    wanted: Arc<AtomicBool>,
}

impl Numbers {
    /// `count` numbers, from 0, and a thread that passes orders on.
    ///
    /// # Errors
    ///
    /// There can be no such thread.
    pub(crate) fn new(count: u32, mut teller: impl Tell) -> io::Result<Self> {
        let (orders, todo) = mpsc::channel();
        let (forget, forgotten) = mpsc::channel();
        let wanted = Arc::new(AtomicBool::new(false));
        let is_wanted = Arc::clone(&wanted);
        thread::Builder::new()
            .name("boards".to_owned())
            .spawn(move || carry_out(&todo, &is_wanted, &mut teller, &forget))?;
        Ok(Self { free: (0..count).rev().collect(), orders, forgotten, leaving: HashMap::new(), wanted })
    }

    /// A number that nobody has.
    pub(crate) fn take(&mut self) -> Option<u32> {
        self.free.pop()
    }

    /// The users for whom numbers count that are given back but not free yet.
    pub(crate) fn users_leaving(&mut self) -> impl Iterator<Item = u32> {
        for number in self.forgotten.try_iter() {
            self.leaving.remove(&number);
            self.free.push(number);
        }
        self.leaving.values().copied()
    }

    /// Has the kernel write to `board` what it knows of processes with this number.
    pub(crate) fn show(&self, number: u32, board: Board) {
        self.order(Order::Show(number, board));
    }

    /// Gives back the number that a process of this user had.
    pub(crate) fn give_back(&mut self, number: u32, user: u32) {
        self.leaving.insert(number, user);
        self.order(Order::Hide(number));
    }

    /// A client wants context switches to be watched.
    pub(crate) fn watch(&self) {
        if !self.wanted.swap(true, Ordering::Relaxed) {
            self.order(Order::Look);
        }
    }

    fn order(&self, order: Order) {
        // The other end lives as long as this one.
        let _ = self.orders.send(order);
    }
}

/// Passes on orders until nobody can give any.
fn carry_out(todo: &Receiver<Order>, is_wanted: &AtomicBool, teller: &mut impl Tell, forget: &Sender<u32>) {
    // Numbers of boards that somebody may keep.
    let mut kept: Vec<u32> = Vec::new();
    let mut is_busy = false;
    while let Ok(order) = next(todo, is_busy || !kept.is_empty()) {
        if is_wanted.swap(false, Ordering::Relaxed) {
            teller.watch();
        }
        match order {
            Some(Order::Show(number, board)) => teller.show(number, &board),
            Some(Order::Hide(number)) => kept.push(number),
            Some(Order::Look) | None => {}
        }
        kept.retain(|&number| {
            let stays = teller.is_kept(number);
            if !stays {
                teller.hide(number);
                // Nobody listens any more when the daemon ends.
                let _ = forget.send(number);
            }
            stays
        });
        is_busy = teller.tire();
    }
}

/// The next order, or, with `more` to look after, nothing after a while.
fn next(todo: &Receiver<Order>, more: bool) -> Result<Option<Order>, RecvError> {
    if !more {
        return todo.recv().map(Some);
    }
    match todo.recv_timeout(A_WHILE) {
        Ok(order) => Ok(Some(order)),
        Err(RecvTimeoutError::Timeout) => Ok(None),
        Err(RecvTimeoutError::Disconnected) => Err(RecvError),
    }
}

/// Tells Linux. Where it refuses, for want of memory, the board stays empty, which tells nobody anything.
#[derive(Debug)]
pub(crate) struct Linux {
    watch: Arc<Watch>,
    alive: Arc<Alive>,
    /// Numbers that have a board.
    shown: HashSet<u32>,
    /// The number of the last watch.
    last: u32,
    /// The watch that is on, and when it was asked for last.
    on: Option<(Switches, Instant)>,
}

impl Linux {
    pub(crate) fn new(watch: Arc<Watch>, alive: Arc<Alive>) -> Self {
        Self { watch, alive, shown: HashSet::new(), last: 0, on: None }
    }

    /// Begins another watch. Clients are told last: until then all that boards say is of earlier ones.
    fn begin(&mut self) -> Option<Switches> {
        self.last = self.last % LAST_WATCH + 1;
        let switches = self.watch.switches(self.last, self.shown.iter().copied()).ok()?;
        self.alive.say_watch(self.last);
        Some(switches)
    }
}

impl Tell for Linux {
    fn show(&mut self, number: u32, board: &Board) {
        if self.watch.show(number, board).is_ok() {
            self.shown.insert(number);
        }
    }

    fn hide(&mut self, number: u32) {
        self.watch.hide(number);
        self.shown.remove(&number);
    }

    fn watch(&mut self) {
        let switches = self.on.take().map(|(switches, _)| switches).or_else(|| self.begin());
        self.on = switches.map(|switches| (switches, Instant::now()));
    }

    fn is_kept(&self, number: u32) -> bool {
        self.watch.is_kept(number)
    }

    fn tire(&mut self) -> bool {
        if self.on.as_ref().is_some_and(|(_, asked)| asked.elapsed() > LONGEST_WATCH) {
            self.alive.say_watch(0);
            self.on = None;
        }
        self.on.is_some()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    /// Passes an order on when it is told to, and says how often it was to watch.
    struct Slow(Receiver<()>, Arc<AtomicUsize>);

    impl Tell for Slow {
        fn show(&mut self, _number: u32, _board: &Board) {
            unreachable!("nobody has a board");
        }

        fn hide(&mut self, number: u32) {
            self.0.recv().expect("the test");
            assert_eq!(number, 0);
        }

        fn is_kept(&self, _number: u32) -> bool {
            false
        }

        fn watch(&mut self) {
            self.1.fetch_add(1, Ordering::Relaxed);
        }

        fn tire(&mut self) -> bool {
            false
        }
    }

    #[test]
    fn a_number_is_taken_again_when_the_kernel_has_forgotten_it() {
        let (told, is_told) = mpsc::channel();
        let mut numbers = Numbers::new(2, Slow(is_told, Arc::default())).expect("a thread");
        assert_eq!((numbers.take(), numbers.take(), numbers.take()), (Some(0), Some(1), None));
        numbers.give_back(0, 1000);
        assert!(numbers.users_leaving().eq([1000]));
        assert_eq!(numbers.take(), None, "the kernel does not know yet");
        told.send(()).expect("the thread");
        while numbers.users_leaving().count() > 0 {
            thread::yield_now();
        }
        assert_eq!(numbers.take(), Some(0));
    }

    #[test]
    fn who_asks_often_asks_once() {
        let (told, is_told) = mpsc::channel();
        let watched = Arc::new(AtomicUsize::new(0));
        let mut numbers = Numbers::new(1, Slow(is_told, Arc::clone(&watched))).expect("a thread");
        numbers.give_back(0, 1000);
        (0..100).for_each(|_| numbers.watch());
        told.send(()).expect("the thread");
        while numbers.users_leaving().count() > 0 || watched.load(Ordering::Relaxed) == 0 {
            thread::yield_now();
        }
        // Once before what it was busy with, if it was that quick, and once after it.
        assert!(watched.load(Ordering::Relaxed) <= 2);
    }
}
