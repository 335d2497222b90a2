//! The line that a process says under [`VERBOSE`](crate::VERBOSE), as it is found in the output of a run.
//!
//! ```text
//! lockwork: db_bench[4242]: served 3 mutexes by mcs-stp, 2 conditions; forwarded to glibc 1 mutexes, 0 rwlocks
//! ```

/// How every line of the library begins.
const LIBRARY: &str = "lockwork: ";
/// How what is said of the locks begins.
pub const SERVED: &str = "served ";
/// What stands between the locks that were served and those that were not.
pub const FORWARDED: &str = "; forwarded to glibc ";
/// Said in the place of locks that were served, where none was.
pub const NOTHING: &str = "nothing";

/// A line of output, divided where the library begins to speak: what the program wrote there, and what the library says, from
/// `served` on. `None` if that is nothing.
///
/// The program need not have ended its line: `db_bench` leaves a count of its operations with a `\r` behind, so that the
/// next count is written over it.
#[must_use]
pub fn divide(line: &str) -> Option<(&str, &str)> {
    let (before, report) = line.split_at(line.rfind(LIBRARY)?);
    let (process, said) = report[LIBRARY.len()..].split_once("]: ")?;
    let (_, id) = process.rsplit_once('[')?;
    let is_report = id.parse::<u32>().is_ok() && said.starts_with(SERVED) && said.contains(FORWARDED);
    is_report.then_some((before, said))
}
