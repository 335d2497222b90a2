//! What can go wrong before a single section is looked at.

use std::path::{Path, PathBuf};

/// Why nothing could be analysed or written. Refusals of single sections are in the report instead.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no libclang of version 17 or newer.
    #[error(
        "libclang 17 or newer is needed ({reason}); on Debian: apt install libclang1-19 libclang-common-19-dev"
    )]
    NoLibclang {
        /// What the loader says.
        reason: String,
    },
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// Its path.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// The compilation database is none.
    #[error("{}: no compilation database: {reason}; make one by `bear -- make`, or cmake -DCMAKE_EXPORT_COMPILE_COMMANDS=ON", path.display())]
    Database {
        /// Its path.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A section cannot be converted any more when those inside of it have been.
    #[error("{}: what begins at line {lines} cannot be converted after the sections inside; name it by --except, or give --hold", path.display())]
    Left {
        /// The file.
        path: PathBuf,
        /// The lines where they begin.
        lines: String,
    },
    /// The compiler cannot make anything of a file.
    #[error("{}: cannot be parsed", path.display())]
    Parse {
        /// Its path.
        path: PathBuf,
    },
    /// The file of macros is none.
    #[error("{}:{line}: {reason}; a line is `lock NAME ARGUMENT`, `unlock NAME ARGUMENT`, or, of macros, \
             `lock NAME EXPRESSION by CALL(…)`, `unlock NAME EXPRESSION`, with $1 for the first argument", path.display())]
    Macros {
        /// Its path.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        reason: &'static str,
    },
}

impl Error {
    pub(crate) fn parse(path: &Path) -> Self {
        Self::Parse { path: path.to_owned() }
    }

    pub(crate) fn file(path: &Path, source: std::io::Error) -> Self {
        Self::File { path: path.to_owned(), source }
    }
}
