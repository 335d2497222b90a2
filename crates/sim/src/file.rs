//! Files that users write: read by their ending, with the line of whatever is wrong.

use std::fmt;
use std::path::Path;

use serde::de::DeserializeOwned;

use crate::toml;

/// A file that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileError {
    /// The file, as it was named.
    pub file: String,
    /// The line, from 1, where the problem has one.
    pub line: Option<usize>,
    /// What is wrong, and what would be right.
    pub problem: String,
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.file, self.problem),
            None => write!(f, "{}: {}", self.file, self.problem),
        }
    }
}

impl std::error::Error for FileError {}

/// The text of a file.
pub(crate) fn text_of(path: &Path) -> Result<String, FileError> {
    std::fs::read_to_string(path).map_err(|error| FileError {
        file: path.display().to_string(),
        line: None,
        problem: error.to_string(),
    })
}

/// What a text says: JSON if the name of the file ends so, else TOML.
pub(crate) fn parse<T: DeserializeOwned>(file: &str, text: &str) -> Result<T, FileError> {
    let wrong = |line, problem| FileError { file: file.to_owned(), line, problem };
    if Path::new(file).extension().is_some_and(|ending| ending == "json") {
        return serde_json::from_str(text).map_err(|error| {
            let problem = error.to_string();
            // The place is said by ours.
            let problem = problem.split(" at line ").next().unwrap_or(&problem).to_owned();
            wrong(Some(error.line()), problem)
        });
    }
    toml::read(text).map_err(|error| {
        let line = error.place.map(|place| text[..place.start.min(text.len())].matches('\n').count() + 1);
        wrong(line, error.problem)
    })
}
