//! Stderr as it is: no buffer, no lock, no allocation, and not the one that a harness captures.

use std::fmt;

/// The descriptor 2. What is written by `eprintln!` in a test, or in a thread that a test has started, goes to its harness, which
/// says it when the test has ended, and so never if the process ends first.
pub(crate) struct Stderr;

impl fmt::Write for Stderr {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut left = text.as_bytes();
        while !left.is_empty() {
            // SAFETY: a valid slice.
            let written = unsafe { libc::write(2, left.as_ptr().cast(), left.len()) };
            match usize::try_from(written) {
                Ok(written @ 1..) => left = &left[written..],
                _ => return Err(fmt::Error),
            }
        }
        Ok(())
    }
}
