//! The readers in a list of sleepers: taken out together, and granted what has been added for them.

use core::ptr;

use lockwork_platform::{DataCell, Platform};

use super::{LinuxRwsem, MOST_WOKEN, Tagged, Wish};
use crate::blocking::linux::sleepers::{append, next};
use crate::wait::grant;

impl<P: Platform> LinuxRwsem<P> {
    /// Takes the readers out of the list that ends with `end`, if the first is one, as many as are let in together.
    /// Returns the last of the list now, the last of a list of the others, and their number.
    pub(super) fn choose(end: Tagged<P>) -> (Tagged<P>, Tagged<P>, usize) {
        let (mut rest, mut chosen, mut count) = (ptr::null_mut(), ptr::null_mut(), 0);
        if !Self::begins_with_reader(end) {
            return (end, chosen, count);
        }
        // SAFETY: I2.
        let mut sleeper = unsafe { next(end) };
        loop {
            // SAFETY: I2.
            let following = unsafe { next(sleeper) };
            // SAFETY: I2.
            let wish = &unsafe { &*sleeper }.wish;
            // SAFETY: I2.
            let said = unsafe { wish.get() };
            let list = if said.reads && count < MOST_WOKEN {
                count += 1;
                // SAFETY: I2.
                unsafe { wish.set(Wish { is_chosen: true, ..said }) };
                &mut chosen
            } else {
                &mut rest
            };
            // SAFETY: I2: in neither list.
            unsafe { append(*list, sleeper) };
            *list = sleeper;
            if sleeper == end {
                return (rest, chosen, count);
            }
            sleeper = following;
        }
    }

    /// Whether the list that ends with `end` begins with a reader.
    pub(super) fn begins_with_reader(end: Tagged<P>) -> bool {
        if end.is_null() {
            return false;
        }
        // SAFETY: I2.
        let first = unsafe { next(end) };
        // SAFETY: I2.
        let wish = &unsafe { &*first }.wish;
        // SAFETY: I2.
        unsafe { wish.get() }.reads
    }

    /// Grants what has been added for them to those in a list that was taken out of the lock's.
    pub(super) fn grant_all(end: Tagged<P>) {
        if end.is_null() {
            return;
        }
        // SAFETY: I5: not granted yet, and so it is with the others below.
        let mut sleeper = unsafe { next(end) };
        loop {
            // SAFETY: as above.
            let following = unsafe { next(sleeper) };
            // SAFETY: as above.
            grant::<P>(&unsafe { &*sleeper }.word);
            if sleeper == end {
                return;
            }
            sleeper = following;
        }
    }
}
