//! The C library that converted programs are linked with.

use std::path::{Path, PathBuf};

const CRATE: &str = env!("CARGO_MANIFEST_DIR");

/// The library for C programs: `LOCKWORK_C_DIR`, else the release build of this workspace.
pub(crate) fn library() -> PathBuf {
    let built = || Path::new(CRATE).join("../../target/release");
    let directory = std::env::var_os("LOCKWORK_C_DIR").map_or_else(built, PathBuf::from);
    let library = directory.join("liblockwork_c.a");
    assert!(library.exists(), "{}: run: cargo build --release -p lockwork-capi", library.display());
    library
}

/// Where its header is.
pub(crate) fn headers() -> PathBuf {
    Path::new(CRATE).join("../capi/include")
}
