//! What the entry points jump through while the process is profiled: a page of the profile's file in the place of
//! [`ENTRANCES`], which holds the recorder's functions while it is on, and else those that serve without it. So a recorder that is
//! off is on no path.
//!
//! A command switches it by writing to that page (`Region::switch`), from another process and while threads jump through it. Each
//! word is one function or another that takes the same call, so any mixture serves.

use core::ptr;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicPtr, AtomicU64};

use lockwork_profile::format::{ENTRANCES as WORDS, Page, Region};
use syscalls::{Errno, Sysno, syscall};

use super::{mutex, rwlock};
use crate::abi::entrances::{self, Column, ENTRANCES, Entrances, RWLOCK_OPERATIONS};
use crate::abi::real;
use crate::life::start;
use crate::serve;
use crate::serve::mutex::table::{self, LEAVES, PASSTHROUGH_TAG, TAGS};
use crate::serve::mutex::{LOCK, TRYLOCK, UNLOCK};

const _: () = assert!(size_of::<Entrances>() <= WORDS * size_of::<u64>());

/// The profile's functions, as they are before anything is known of the locks: those that a process jumps to which has been asked
/// to record. They serve as the plain ones do until one of them has made the file.
pub(crate) const fn asking() -> Entrances {
    let mut routes = [const { [const { AtomicPtr::new(ptr::null_mut()) }; 2] }; RWLOCK_OPERATIONS];
    let mut operation = 0;
    while operation < RWLOCK_OPERATIONS {
        let function = rwlock::ENTRANCES[operation].cast_mut();
        routes[operation] = [AtomicPtr::new(function), AtomicPtr::new(function)];
        operation += 1;
    }
    let [lock, trylock, unlock] =
        [mutex::enter_lock as *const (), mutex::enter_trylock as *const (), mutex::enter_unlock as *const ()];
    Entrances {
        columns: [Column::new(lock, lock), Column::new(trylock, trylock), Column::new(unlock, unlock)],
        checked: [
            AtomicPtr::new(mutex::lock as *mut ()),
            AtomicPtr::new(mutex::trylock as *mut ()),
            AtomicPtr::new(mutex::unlock as *mut ()),
        ],
        rwlock: routes,
    }
}

/// The functions that serve without a profile, the leaf functions as they are now.
fn plain() -> Entrances {
    let plain = Entrances {
        columns: table::first_leaves(),
        checked: serve::mutex::checked(),
        rwlock: serve::rwlock::routes(),
    };
    for (column, leaves) in plain.columns.iter().zip(&LEAVES) {
        for (cell, leaf) in column.0.iter().zip(&leaves.0) {
            cell.store(leaf.load(Relaxed), Relaxed);
        }
    }
    plain
}

/// The profile's functions.
fn profiled() -> Entrances {
    let profiled = plain();
    let put = |cell: &AtomicPtr<()>, function: *const ()| cell.store(function.cast_mut(), Relaxed);
    let [glibcs_lock, glibcs_unlock] = if real::mutexes_are_known() {
        [mutex::enter_known_lock as *const (), mutex::enter_known_unlock as *const ()]
    } else {
        [mutex::enter_glibcs_lock as *const (), mutex::enter_unlock as *const ()]
    };
    for tag in 0..TAGS as u32 {
        let [undecided, decided] =
            [mutex::enter_trylock as *const (), mutex::enter_decided_trylock as *const ()];
        let [lock, trylock, unlock] = if table::ops(tag).is_some() {
            [mutex::enter_our_lock as *const (), decided, mutex::enter_unlock as *const ()]
        } else if tag == PASSTHROUGH_TAG || start::forwards_everything() {
            [glibcs_lock, decided, glibcs_unlock]
        } else {
            [mutex::enter_lock as *const (), undecided, mutex::enter_unlock as *const ()]
        };
        put(&profiled.columns[LOCK].0[tag as usize], lock);
        put(&profiled.columns[TRYLOCK].0[tag as usize], trylock);
        put(&profiled.columns[UNLOCK].0[tag as usize], unlock);
    }
    for (operation, function) in [
        (LOCK, mutex::lock as *const ()),
        (TRYLOCK, mutex::trylock as *const ()),
        (UNLOCK, mutex::unlock as *const ()),
    ] {
        put(&profiled.checked[operation], function);
    }
    for (route, function) in profiled.rwlock.iter().zip(rwlock::ENTRANCES) {
        route.iter().for_each(|cell| put(cell, function));
    }
    profiled
}

fn write(words: &[AtomicU64; WORDS], from: &Entrances) {
    for (word, cell) in words.iter().zip(from.cells()) {
        word.store(cell.load(Relaxed).expose_provenance() as u64, Relaxed);
    }
}

/// A page to jump through. A thread may have looked at the gate before, and jump through the other half a moment later.
fn write_page(page: &Page, from: &Entrances) {
    write(&page.words, from);
    write(&page.asking, &ENTRANCES.asking);
}

/// Puts the file's page in the place of [`ENTRANCES`], with the profile's functions if it is on.
pub(super) fn enter(region: &Region) {
    let [on, off] = [profiled(), plain()];
    write(&region.entrances.on.words, &on);
    write(&region.entrances.off.words, &off);
    let now = if region.is_enabled() { on } else { off };
    write_page(&region.entrances.live, &now);
    if map(&region.entrances.live).is_err() {
        // It cannot be switched, then.
        map_anew(&now);
    }
}

/// Takes the file's page away again.
pub(super) fn leave() {
    map_anew(&plain());
}

/// Maps the page a second time.
fn map(page: &Page) -> Result<usize, Errno> {
    const MAYMOVE_FIXED: usize = 1 | 2;
    // An old size of 0 leaves a shared mapping where it is, and makes another one of the same pages.
    // SAFETY: in the place of a static of that size and alignment, whose contents are the same or serve the same calls. The kernel
    // lets no thread see the moment between.
    unsafe {
        syscall!(
            Sysno::mremap,
            ptr::from_ref(page),
            0,
            size_of::<Page>(),
            MAYMOVE_FIXED,
            &raw const ENTRANCES
        )
    }
}

/// Maps a page that is this process's own, with these functions.
fn map_anew(functions: &Entrances) {
    const READ_WRITE: usize = 1 | 2;
    const PRIVATE_ANONYMOUS: usize = 2 | 32;
    const MAYMOVE_FIXED: usize = 1 | 2;
    let bytes = size_of::<Page>();
    // SAFETY: a fresh mapping.
    let fresh = unsafe { syscall!(Sysno::mmap, 0, bytes, READ_WRITE, PRIVATE_ANONYMOUS, usize::MAX, 0) };
    let Ok(fresh) = fresh else { return };
    // SAFETY: mapped, as large as a page, and zero, which is a valid one.
    write_page(unsafe { &*(fresh as *const Page) }, functions);
    // SAFETY: as in `map`.
    let _ = unsafe { syscall!(Sysno::mremap, fresh, bytes, bytes, MAYMOVE_FIXED, &raw const ENTRANCES) };
}

/// The leaf function of an operation and a tag changes: where the entry points jumped to the one before, they jump to the next.
pub(super) fn leaf_changes(region: Option<&Region>, operation: usize, tag: usize, leaf: [*mut (); 2]) {
    let cell = &ENTRANCES.usual.columns[operation].0[tag];
    let _ = cell.compare_exchange(leaf[0], leaf[1], Relaxed, Relaxed);
    if let Some(region) = region {
        let word = entrances::column(operation) / size_of::<u64>() + tag;
        let [before, after] = leaf.map(|leaf| leaf.expose_provenance() as u64);
        let word = &region.entrances.off.words[word];
        let _ = word.compare_exchange(before, after, Relaxed, Relaxed);
    }
}
