//! What the entry points in assembly jump through: one page of addresses.
//!
//! In a process that is profiled it is a page of the profile's file, mapped here. A command that switches the recorder on or off
//! writes other addresses to that file, so that nothing of the recorder is left on any path while it is off
//! (`layers/profile`).
//!
//! They reach it through the gate of a board, which a command changes to have a process recorded that was started without: by one
//! byte, so that they jump through the second half of the page.

use core::ffi::c_int;
use core::sync::atomic::AtomicPtr;
use core::sync::atomic::Ordering::Relaxed;

use lockwork_profile::board::Board;
use lockwork_profile::format::Page;

use crate::abi::layout::Mutex;
use crate::layers::profile;
use crate::serve::mutex::table::TAGS;
use crate::serve::{mutex, rwlock};

/// Addresses of functions by tag.
#[repr(transparent)]
pub(crate) struct Column(pub(crate) [AtomicPtr<()>; TAGS]);

impl Column {
    /// `first` serves mutexes that are undecided, `rest` all others.
    pub(crate) const fn new(first: *const (), rest: *const ()) -> Self {
        let mut cells = [const { AtomicPtr::new(core::ptr::null_mut()) }; TAGS];
        let mut tag = 0;
        while tag < TAGS {
            cells[tag] = AtomicPtr::new(if tag == 0 { first } else { rest }.cast_mut());
            tag += 1;
        }
        Self(cells)
    }
}

/// Operations on reader-writer locks.
pub(crate) const RWLOCK_OPERATIONS: usize = 9;

/// The page.
#[repr(C)]
pub(crate) struct Entrances {
    /// Operations on mutexes without bookkeeping: lock, trylock, unlock.
    pub(crate) columns: [Column; 3],
    /// The same for kinds that need more than the lock. Called with the mutex, the return address and the frame pointer of the
    /// call.
    pub(crate) checked: [AtomicPtr<()>; 3],
    /// For each operation on a reader-writer lock, what serves those of ours, and what serves those that are not known to be.
    pub(crate) rwlock: [[AtomicPtr<()>; 2]; RWLOCK_OPERATIONS],
}

/// As much memory as [`Page`], and as aligned.
#[repr(C)]
#[cfg_attr(not(target_arch = "aarch64"), repr(align(4096)))]
#[cfg_attr(target_arch = "aarch64", repr(align(65536)))]
pub(crate) struct Aligned {
    /// Usually.
    pub(crate) usual: Entrances,
    unused: [u8; ASKING - size_of::<Entrances>()],
    /// When the process has been asked to record: the recorder's functions, that of them which is called first begins.
    pub(crate) asking: Entrances,
}

/// How far into the page that is. One bit of an address, so that one byte tells the halves apart.
pub(crate) const ASKING: usize = core::mem::offset_of!(Page, asking);

const _: () = assert!(
    size_of::<Aligned>() == size_of::<Page>()
        && align_of::<Aligned>() == align_of::<Page>()
        && core::mem::offset_of!(Aligned, asking) == ASKING
        && ASKING.is_power_of_two()
);

/// Where the entry points jump to.
pub(crate) static ENTRANCES: Aligned = Aligned {
    usual: Entrances {
        columns: mutex::table::first_leaves(),
        checked: mutex::checked(),
        rwlock: rwlock::routes(),
    },
    unused: [0; _],
    asking: profile::entrances::asking(),
};

/// Has an operation on a mutex of any kind done, as the entry points would for the call with this return address and frame pointer.
///
/// # Safety
///
/// As the function that the operation is named after.
pub(crate) unsafe fn operate(operation: usize, mutex: *mut Mutex, caller: usize, frame: usize) -> c_int {
    type Checked = unsafe extern "C" fn(*mut Mutex, usize, usize) -> c_int;
    // SAFETY: the gate leads to one half of the page or the other.
    let entrances = unsafe { &*profile::BOARD.gate.load(Relaxed).cast::<Entrances>() };
    let function = entrances.checked[operation].load(Relaxed);
    // SAFETY: what is there has this type, or takes fewer arguments.
    let function = unsafe { core::mem::transmute::<*mut (), Checked>(function) };
    // SAFETY: the caller's contract.
    unsafe { function(mutex, caller, frame) }
}

/// The offset of the word in a board that leads to [`ENTRANCES`].
pub(crate) const GATE: usize = core::mem::offset_of!(Board, gate);

/// The offset of a column in [`ENTRANCES`].
pub(crate) const fn column(operation: usize) -> usize {
    core::mem::offset_of!(Entrances, columns) + operation * size_of::<Column>()
}

/// The offset of an operation on kinds that need more than the lock.
pub(crate) const fn checked(operation: usize) -> usize {
    core::mem::offset_of!(Entrances, checked) + operation * size_of::<usize>()
}

/// The offset of an operation on reader-writer locks, ours (0) or others (1).
pub(crate) const fn rwlock(operation: usize, others: usize) -> usize {
    core::mem::offset_of!(Entrances, rwlock) + (2 * operation + others) * size_of::<usize>()
}

impl Entrances {
    /// Its words.
    pub(crate) fn cells(&self) -> &[AtomicPtr<()>] {
        let count = size_of::<Self>() / size_of::<AtomicPtr<()>>();
        // SAFETY: a structure of nothing but arrays of them.
        unsafe { core::slice::from_raw_parts(core::ptr::from_ref(self).cast(), count) }
    }
}
