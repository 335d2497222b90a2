//! What of a program the user wants converted.

use std::path::{Path, PathBuf};

use crate::call::Frame;
use crate::rule::Rule;

/// What to convert.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    /// Only these files; empty: all.
    pub files: Vec<PathBuf>,
    /// Only sections of the locks with these names; empty: all.
    pub locks: Vec<String>,
    /// Only the sections that begin at these places (the end of a path, a line); empty: all.
    pub sites: Vec<(PathBuf, usize)>,
    /// Only sections of the mutexes that these calls take, each the frames of a stack, the innermost first; `None`: all.
    pub calls: Option<Vec<Vec<Frame>>>,
    /// The sections that begin at these places stay as they are, with the others of their lock in their function.
    pub except: Vec<(PathBuf, usize)>,
    /// Sections that stay as they are may hold the delegate. Not every delegate can be held.
    pub may_hold: bool,
    /// Sections may ask for the thread that they run in. A delegate that runs them in another gives them another answer.
    pub any_thread: bool,
    /// A rule to leave out: a test sees that something notices.
    #[doc(hidden)]
    pub without: Option<Rule>,
}

impl Choice {
    /// Whether a file is one of the choice's.
    pub(super) fn has_file(&self, file: &Path) -> bool {
        self.files.is_empty() || self.files.iter().any(|end| file.ends_with(end))
    }
}

/// Whether a lock's expression is that of the lock that a user calls `name`.
pub(super) fn is_of(lock: &str, name: &str) -> bool {
    let bare = |text: &str| text.replace(['(', ')', '&', ' '], "");
    bare(lock) == bare(name)
}

/// Whether one of the places, each the end of a path and a line, is this one.
pub(super) fn is_at(places: &[(PathBuf, usize)], file: &Path, line: usize) -> bool {
    places.iter().any(|(end, at)| file.ends_with(end) && *at == line)
}
