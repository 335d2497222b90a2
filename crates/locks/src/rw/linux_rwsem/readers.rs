//! The readers in a list of sleepers: taken out together, and granted what has been added for them.

use core::ptr;

use lockwork_platform::{DataCell, Platform};

use super::{LinuxRwsem, Sleeper, Wish};
use crate::blocking::linux::sleepers::{append, next};
use crate::wait::grant;

impl<P: Platform> LinuxRwsem<P> {
    /// Takes the readers out of the list that ends with `end`, if the first is one. Returns the last of the list now, and
    /// the last of a list of the others.
    pub(super) fn choose(end: *mut Sleeper<P>) -> (*mut Sleeper<P>, *mut Sleeper<P>) {
        let (mut rest, mut chosen) = (ptr::null_mut(), ptr::null_mut());
        if !Self::begins_with_reader(end) {
            return (end, chosen);
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
            let list = if said.reads {
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
                return (rest, chosen);
            }
            sleeper = following;
        }
    }

    /// How many readers there are in the list that ends with `end`, if it begins with one.
    pub(super) fn readers_first(end: *mut Sleeper<P>) -> u32 {
        if !Self::begins_with_reader(end) {
            return 0;
        }
        let (mut sleeper, mut count) = (end, 0);
        loop {
            // SAFETY: I2.
            let wish = &unsafe { &*sleeper }.wish;
            // SAFETY: I2.
            count += u32::from(unsafe { wish.get() }.reads);
            // SAFETY: I2.
            sleeper = unsafe { next(sleeper) };
            if sleeper == end {
                return count;
            }
        }
    }

    /// Whether the list that ends with `end` begins with a reader.
    pub(super) fn begins_with_reader(end: *mut Sleeper<P>) -> bool {
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
    pub(super) fn grant_all(end: *mut Sleeper<P>) {
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
