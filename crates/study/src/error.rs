//! What can be wrong with a file of runs or with what is asked of it.

use std::fmt;
use std::path::PathBuf;

/// Why there is no report.
#[derive(Debug)]
pub enum Error {
    /// The file cannot be read, or is not CSV.
    Read {
        /// Its name.
        path: PathBuf,
        /// What the reader said.
        reason: String,
    },
    /// A column that every table needs is missing.
    NoColumn {
        /// The file.
        path: PathBuf,
        /// The column's names, of which one suffices.
        column: &'static str,
        /// The columns that there are.
        present: String,
    },
    /// A row cannot be understood.
    Row {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// There is no such table or figure.
    Unknown {
        /// What was asked for.
        id: String,
        /// What there is.
        known: String,
    },
    /// The table or figure needs a column that the files do not have.
    NotMeasured {
        /// The table or figure.
        id: String,
        /// What it needs.
        needs: &'static str,
    },
    /// The database of a campaign refuses.
    Store {
        /// The file.
        path: PathBuf,
        /// What SQLite said.
        reason: String,
    },
    /// A campaign that cannot run, or a run that cannot be made; what is wrong and what to do.
    Campaign(String),
    /// A figure could not be drawn.
    Draw(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Read { path, reason } => write!(f, "{}: {reason}", path.display()),
            Error::NoColumn { path, column, present } => {
                write!(f, "{}: no column {column}; there are: {present}", path.display())
            }
            Error::Row { path, line, reason } => write!(f, "{}, line {line}: {reason}", path.display()),
            Error::Unknown { id, known } => write!(f, "there is no {id}; there are {known}"),
            Error::NotMeasured { id, needs } => write!(f, "{id} needs {needs}, which the data does not have"),
            Error::Store { path, reason } => write!(f, "{}: {reason}", path.display()),
            Error::Campaign(reason) => f.write_str(reason),
            Error::Draw(reason) => write!(f, "the figure cannot be drawn: {reason}"),
        }
    }
}

impl Error {
    pub(crate) fn store(path: &std::path::Path, error: &rusqlite::Error) -> Self {
        Error::Store { path: path.to_owned(), reason: error.to_string() }
    }
}

impl std::error::Error for Error {}
