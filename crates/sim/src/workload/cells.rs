//! Data that a lock guards.

use lockwork_platform::DataCell;

use crate::platform::Plain;

/// The value of a cell.
#[inline]
pub(super) fn get<T: Copy + Send>(cell: &Plain<T>) -> T {
    // SAFETY: the lock excludes writers; the control without a lock is there to be caught, and no value is torn.
    unsafe { cell.get() }
}

/// Changes the value of a cell.
#[inline]
pub(super) fn set<T: Copy + Send>(cell: &Plain<T>, value: T) {
    // SAFETY: as in `get`.
    unsafe { cell.set(value) };
}
