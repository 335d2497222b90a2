//! What conversion does to a file, and how that is shown as a patch.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// What conversion does to a file.
#[derive(Clone, Debug)]
pub struct Change {
    /// Which.
    pub path: PathBuf,
    /// What it had before. It need not be UTF-8.
    pub before: Vec<u8>,
    /// What it has after.
    pub after: Vec<u8>,
    /// Where sections begin, as lines of the file as it was, that cannot become closures any more when those inside of them have: they
    /// hold the delegate.
    pub left: BTreeSet<usize>,
}

impl Change {
    /// Whether the text is another one after conversion.
    #[must_use]
    pub fn changes_text(&self) -> bool {
        self.before != self.after
    }

    /// The change as a patch, with paths from `directory` on.
    #[must_use]
    pub fn diff(&self, directory: &Path) -> Vec<u8> {
        let path = self.path.strip_prefix(directory).unwrap_or(&self.path).display().to_string();
        // A character for each byte, whatever it is.
        let characters = |bytes: &[u8]| bytes.iter().copied().map(char::from).collect::<String>();
        let header = |side: char| characters(format!("{side}/{path}").as_bytes());
        let (before, after) = (characters(&self.before), characters(&self.after));
        let lines = similar::TextDiff::from_lines(&before, &after)
            .unified_diff()
            .header(&header('a'), &header('b'))
            .to_string();
        lines.chars().filter_map(|character| u8::try_from(character).ok()).collect()
    }
}
