//! The one way `lockwork` says that it cannot do what was asked: a line on stderr and an exit status.

use std::fmt;

/// A bad request; nothing was started.
pub(crate) const USAGE: u8 = 2;
/// The program exists but cannot be executed, as a shell says it.
pub(crate) const NOT_EXECUTABLE: u8 = 126;
/// The program was not found, as a shell says it.
pub(crate) const NOT_FOUND: u8 = 127;

/// What went wrong, in one line that names the mend, and the exit status that goes with it.
#[derive(Debug)]
pub(crate) struct Failure {
    /// The process's exit status.
    pub(crate) status: u8,
    message: String,
}

impl Failure {
    /// A failure with exit status 2.
    pub(crate) fn usage(message: impl fmt::Display) -> Self {
        Failure::with_status(USAGE, message)
    }

    /// A failure with an exit status of its own.
    pub(crate) fn with_status(status: u8, message: impl fmt::Display) -> Self {
        // One line, whatever file names or messages of other programs contain.
        let message = message.to_string().replace(['\n', '\r'], " ");
        Failure { status, message }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}
