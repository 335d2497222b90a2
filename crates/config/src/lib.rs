//! Every environment variable and file of Lockwork: name, form, default, meaning, and how its value is read.
//!
//! The library under a program, the Rust crate and the command read a variable by the same function from here, so that a
//! value means the same to all of them. Help texts, the manual and the book print [`VARIABLES`] and [`FILES`].
//!
//! A variable that is set to nothing counts as not set. Neither std nor an allocator is needed.
#![no_std]

use core::ffi::CStr;
use core::fmt;

pub mod report;
mod variables;

pub use variables::*;

/// The program that reads a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    /// `liblockwork.so`, and through it every program under it. The command sets it, or passes it on.
    Library,
    /// The C and C++ library, in programs that are linked with it.
    Linked,
    /// The command.
    Command,
    /// The tests and scripts of this repository, and what the command says to itself.
    Internal,
}

/// An environment variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Its name.
    pub name: &'static str,
    /// The same, as the C library takes it.
    pub c_name: &'static CStr,
    /// The form of its value.
    pub form: &'static str,
    /// What holds where it is not set.
    pub default: &'static str,
    /// What it does: a clause for tables, without a full stop.
    pub help: &'static str,
    /// The option of `lockwork run` for it, if there is one.
    pub option: Option<&'static str>,
    /// The program that reads it.
    pub reader: Reader,
}

/// A file that is looked for where nobody names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct File {
    /// Where it is.
    pub path: &'static str,
    /// What it is: a clause for tables, without a full stop.
    pub help: &'static str,
}

/// The variables that this reader reads.
pub fn read_by(reader: Reader) -> impl Iterator<Item = &'static Variable> {
    VARIABLES.iter().copied().filter(move |variable| variable.reader == reader)
}

/// A value that cannot be understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed<'a> {
    /// The variable.
    pub variable: &'static Variable,
    /// Its value.
    pub value: &'a str,
    /// What it should be, as the end of the sentence "… is no".
    pub expected: &'static str,
}

impl fmt::Display for Malformed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}=`{}` is no {}", self.variable.name, self.value, self.expected)
    }
}

impl core::error::Error for Malformed<'_> {}

/// The value of a variable, unless it is set to nothing.
#[must_use]
pub fn text(value: Option<&str>) -> Option<&str> {
    value.filter(|value| !value.is_empty())
}

/// Whether a switch is on: `0` is off, any other value is on.
#[must_use]
pub fn switch(value: Option<&str>) -> bool {
    text(value).is_some_and(|value| value != "0")
}

/// [`SPIN_NS`].
///
/// # Errors
///
/// The value is no number.
pub fn spin_ns(value: Option<&str>) -> Result<Option<u64>, Malformed<'_>> {
    let Some(value) = text(value) else { return Ok(None) };
    let expected = "number of nanoseconds: write for example 5000";
    value.parse().map(Some).map_err(|_| Malformed { variable: &SPIN_NS, value, expected })
}

/// When the library says what it served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Report {
    /// Never.
    Never,
    /// If it served or forwarded any lock.
    IfUsed,
    /// In any case.
    Always,
}

/// [`VERBOSE`], in the process with this id.
#[must_use]
pub fn verbose(value: Option<&str>, process: u32) -> Report {
    match text(value) {
        None | Some("0") => Report::Never,
        // Also in a container's first process, whose id it is.
        Some("1") => Report::IfUsed,
        Some(value) if value.parse() == Ok(process) => Report::Always,
        Some(_) => Report::IfUsed,
    }
}

/// Whether waiters read the CPU clocks of those they wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpuClocks {
    /// Unless a filter of system calls might object.
    IfUnfiltered,
    /// Never.
    Never,
    /// Even under a filter of system calls.
    EvenFiltered,
}

/// [`CPU_CLOCKS`]. Nothing but `1` stands for the choice by which a filter of system calls may end the program.
///
/// # Errors
///
/// The value is neither.
pub fn cpu_clocks(value: Option<&str>) -> Result<CpuClocks, Malformed<'_>> {
    match text(value) {
        None => Ok(CpuClocks::IfUnfiltered),
        Some("0") => Ok(CpuClocks::Never),
        Some("1") => Ok(CpuClocks::EvenFiltered),
        Some(value) => Err(Malformed { variable: &CPU_CLOCKS, value, expected: "choice: write 0 or 1" }),
    }
}

/// Which monitor a process connects to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Monitor<'a> {
    /// The one at [`MONITOR_SOCKET`], if it is there and root's.
    Usual,
    /// None.
    No,
    /// The one at this path.
    At(&'a str),
}

/// [`MONITOR`].
#[must_use]
pub fn monitor(value: Option<&str>) -> Monitor<'_> {
    match text(value) {
        None => Monitor::Usual,
        Some("0") => Monitor::No,
        Some(path) => Monitor::At(path),
    }
}

/// Variables of a reader as a Markdown table, for the book.
#[derive(Clone, Copy, Debug)]
pub struct Table(pub Reader);

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| variable | value | default | meaning |\n|---|---|---|---|")?;
        for Variable { name, form, default, help, option, .. } in read_by(self.0) {
            write!(f, "| `{name}` | {form} | {default} | {help}")?;
            if let Some(option) = option {
                write!(f, " (`lockwork run {option}`)")?;
            }
            writeln!(f, " |")?;
        }
        Ok(())
    }
}

/// [`FILES`] as a Markdown table, for the book.
#[derive(Clone, Copy, Debug)]
pub struct FileTable;

impl fmt::Display for FileTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| file | is |\n|---|---|")?;
        FILES.iter().try_for_each(|File { path, help }| writeln!(f, "| `{path}` | {help} |"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_counts_as_not_set() {
        assert_eq!(spin_ns(Some("")), Ok(None));
        assert!(!switch(Some("")) && !switch(None));
        assert_eq!(verbose(Some(""), 1), Report::Never);
        assert_eq!(cpu_clocks(Some("")), Ok(CpuClocks::IfUnfiltered));
        assert_eq!(monitor(Some("")), Monitor::Usual);
    }

    #[test]
    fn values() {
        assert!(switch(Some("1")) && switch(Some("yes")) && !switch(Some("0")));
        assert_eq!(spin_ns(Some("5000")), Ok(Some(5000)));
        assert_eq!(verbose(Some("1"), 4242), Report::IfUsed);
        assert_eq!(verbose(Some("4242"), 4242), Report::Always);
        assert_eq!(verbose(Some("0"), 0), Report::Never);
        assert_eq!(verbose(Some("1"), 1), Report::IfUsed, "the first process of a container");
        assert_eq!(cpu_clocks(Some("0")), Ok(CpuClocks::Never));
        assert_eq!(cpu_clocks(Some("1")), Ok(CpuClocks::EvenFiltered));
        for unclear in ["off", "no", "false", "00", "2"] {
            assert!(cpu_clocks(Some(unclear)).is_err(), "{unclear}");
        }
        assert_eq!(monitor(Some("0")), Monitor::No);
        assert_eq!(monitor(Some("/a")), Monitor::At("/a"));
    }

    #[test]
    fn a_bad_value_is_named_with_its_variable() {
        extern crate std;
        let error = spin_ns(Some("long")).expect_err("no number");
        assert_eq!(
            std::format!("{error}"),
            "LOCKWORK_SPIN_NS=`long` is no number of nanoseconds: write for example 5000"
        );
    }

    #[test]
    fn names_are_unique_and_ours() {
        for (index, variable) in VARIABLES.iter().enumerate() {
            assert!(variable.name.starts_with("LOCKWORK_"));
            assert_eq!(variable.c_name.to_bytes(), variable.name.as_bytes());
            assert!(VARIABLES[..index].iter().all(|other| other.name != variable.name), "{}", variable.name);
        }
    }
}
