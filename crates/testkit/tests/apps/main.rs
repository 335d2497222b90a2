//! Real programs, unchanged, under liblockwork.so: they must end, succeed, and print what they
//! print without it.
//!
//! A program that does not end in time is described (every thread's state) and killed. A program
//! that is not installed fails its tests; `scripts/setup.sh test` installs them all. Only where a runtime with a garbage collector cannot
//! be had are its tests skipped.
//!
//! The library is taken from `LOCKWORK_SO`, else from `target/release`.

mod allocators;
mod collectors;
mod controls;
mod databases;
mod git;
mod memcached;
mod process;
mod programs;
mod scripts;
mod x265;

/// Instantiates a check of one application as one test a lock.
macro_rules! under_each_lock {
    ($check:path: $($name:ident = $spec:literal),+ $(,)?) => {
        $(
            #[test]
            fn $name() {
                $check($spec);
            }
        )+
    };
}
use under_each_lock;
