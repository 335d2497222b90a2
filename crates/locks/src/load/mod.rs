//! Load control: while there are more waiters than it takes to keep the lock busy, some of them are put aside.

pub mod flexguard;
pub mod glk;
pub mod lc;
pub mod malth;
