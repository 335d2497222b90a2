//! Tests that cannot be run here.

use std::io::{self, Write as _};

/// Says that something is not tested here, and why, past the harness, which keeps what passing tests print to itself.
/// `scripts/test.sh` counts these lines.
pub(crate) fn skipped(what: &str) {
    let _ = writeln!(io::stderr(), "SKIPPED: {what}");
}
