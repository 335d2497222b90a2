//! The numbers by which the kernel knows boards, and the thread that tells it which board has which number.
//!
//! That takes the kernel milliseconds each time, for it waits until no program is at work on what was there before; clients are
//! served meanwhile. A number is given to another process only when the kernel has forgotten the board that had it. So there are
//! never more than two orders for each number, however fast processes come and go: while all numbers are taken, or about to
//! be free, processes are turned away.

use std::io;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

use crate::watch::{Board, Watch};

/// What is to be told to the kernel.
#[derive(Debug)]
pub(crate) enum Order {
    /// The board of this number.
    Show(u32, Board),
    /// The number has no board any more.
    Hide(u32),
}

/// The numbers.
#[derive(Debug)]
pub(crate) struct Numbers {
    free: Vec<u32>,
    orders: Sender<Order>,
    /// Numbers that the kernel has forgotten.
    forgotten: Receiver<u32>,
}

impl Numbers {
    /// So many numbers, from 0; `tell` passes orders on to the kernel, on a thread of its own.
    ///
    /// # Errors
    ///
    /// There can be no such thread.
    pub(crate) fn new(count: u32, mut tell: impl FnMut(&Order) + Send + 'static) -> io::Result<Self> {
        let (orders, todo) = mpsc::channel::<Order>();
        let (forget, forgotten) = mpsc::channel();
        thread::Builder::new().name("boards".to_owned()).spawn(move || {
            for order in todo {
                tell(&order);
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

/// Tells the kernel. Where it refuses, for want of memory, the board stays empty, which tells nobody anything.
pub(crate) fn tell(watch: &Watch, order: &Order) {
    match order {
        Order::Show(number, board) => _ = watch.show(*number, board),
        Order::Hide(number) => _ = watch.hide(*number),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_taken_again_when_the_kernel_has_forgotten_it() {
        let (told, is_told) = mpsc::channel();
        let mut numbers = Numbers::new(2, move |order| {
            is_told.recv().expect("the test");
            assert!(matches!(order, Order::Hide(0)));
        })
        .expect("a thread");
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
