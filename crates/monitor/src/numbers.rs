//! The numbers by which the kernel knows boards, and the thread that tells it which board has which number. While no number has a
//! board, and that for more than a moment, context switches are not watched at all.
//!
//! Telling takes milliseconds each time, for the kernel waits until no program is at work on what was there before; clients are
//! served meanwhile. A number is given to another process only when the kernel has forgotten the board that had it. So there are
//! never more than two orders for each number, however fast processes come and go: while all numbers are taken, or about to
//! be free, processes are turned away.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use crate::watch::{Board, Switches, Watch};

/// What is to be told to the kernel.
#[derive(Debug)]
pub(crate) enum Order {
    /// The board of this number.
    Show(u32, Board),
    /// The number has no board any more.
    Hide(u32),
}

/// Who passes orders on to the kernel.
pub(crate) trait Tell: Send + 'static {
    /// Does so.
    fn tell(&mut self, order: &Order);
    /// There have been none for a while.
    fn rest(&mut self);
}

/// For so long there are none before it is said so.
const A_WHILE: Duration = Duration::from_secs(1);

/// The numbers.
#[derive(Debug)]
pub(crate) struct Numbers {
    free: Vec<u32>,
    orders: Sender<Order>,
    /// Numbers that the kernel has forgotten.
    forgotten: Receiver<u32>,
}

impl Numbers {
    /// So many numbers, from 0, and somebody who passes orders on, on a thread of its own.
    ///
    /// # Errors
    ///
    /// There can be no such thread.
    pub(crate) fn new(count: u32, mut teller: impl Tell) -> io::Result<Self> {
        let (orders, todo) = mpsc::channel();
        let (forget, forgotten) = mpsc::channel();
        thread::Builder::new().name("boards".to_owned()).spawn(move || {
            while let Some(order) = next(&todo, &mut teller) {
                teller.tell(&order);
                if let Order::Hide(number) = order {
                    // Nobody listens any more when the daemon ends.
                    let _ = forget.send(number);
                }
            }
        })?;
        Ok(Self { free: (0..count).rev().collect(), orders, forgotten })
    }

    /// A number that nobody has.
    pub(crate) fn take(&mut self) -> Option<u32> {
        self.free.extend(self.forgotten.try_iter());
        self.free.pop()
    }

    /// Has the kernel write to `board` what it knows of processes with this number.
    pub(crate) fn show(&self, number: u32, board: Board) {
        self.order(Order::Show(number, board));
    }

    /// Gives a number back.
    pub(crate) fn give_back(&self, number: u32) {
        self.order(Order::Hide(number));
    }

    fn order(&self, order: Order) {
        // The other end lives as long as this one.
        let _ = self.orders.send(order);
    }
}

/// The next order, until nobody can give any.
fn next(todo: &Receiver<Order>, teller: &mut impl Tell) -> Option<Order> {
    match todo.recv_timeout(A_WHILE) {
        Ok(order) => Some(order),
        Err(RecvTimeoutError::Disconnected) => None,
        Err(RecvTimeoutError::Timeout) => {
            teller.rest();
            todo.recv().ok()
        }
    }
}

/// Tells Linux. Where it refuses, for want of memory, the board stays empty, which tells nobody anything.
#[derive(Debug)]
pub(crate) struct Linux {
    watch: Arc<Watch>,
    /// Numbers that have a board.
    shown: usize,
    /// While there may be some.
    switches: Option<Switches>,
}

impl Linux {
    pub(crate) fn new(watch: Arc<Watch>) -> Self {
        Self { watch, shown: 0, switches: None }
    }
}

impl Tell for Linux {
    fn tell(&mut self, order: &Order) {
        match order {
            Order::Show(number, board) => {
                self.shown += usize::from(self.watch.show(*number, board).is_ok());
                self.switches = self.switches.take().or_else(|| self.watch.switches().ok());
            }
            Order::Hide(number) => self.shown -= usize::from(self.watch.hide(*number)),
        }
    }

    fn rest(&mut self) {
        if self.shown == 0 {
            self.switches = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Passes an order on when it is told to.
    struct Slow(Receiver<()>);

    impl Tell for Slow {
        fn tell(&mut self, order: &Order) {
            self.0.recv().expect("the test");
            assert!(matches!(order, Order::Hide(0)));
        }

        fn rest(&mut self) {}
    }

    #[test]
    fn a_number_is_taken_again_when_the_kernel_has_forgotten_it() {
        let (told, is_told) = mpsc::channel();
        let mut numbers = Numbers::new(2, Slow(is_told)).expect("a thread");
        assert_eq!((numbers.take(), numbers.take(), numbers.take()), (Some(0), Some(1), None));
        numbers.give_back(0);
        assert_eq!(numbers.take(), None, "the kernel does not know yet");
        told.send(()).expect("the thread");
        let taken = std::iter::repeat_with(|| {
            thread::yield_now();
            numbers.take()
        });
        assert_eq!(taken.flatten().next(), Some(0));
    }
}
