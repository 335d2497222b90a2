//! The binary interface: the symbols that the program calls, glibc's types, and glibc's own functions.
//!
//! Symbols are exported without a version: the dynamic linker then binds callers of every version to them.

mod dlopen;
mod dlvsym;
pub(crate) mod entrances;
pub(crate) mod entry;
pub(crate) mod errno;
pub(crate) mod layout;
pub(crate) mod real;
mod symbols;
pub(crate) mod time;
