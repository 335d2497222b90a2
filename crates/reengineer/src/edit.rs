//! Replacements of parts of a text.

use std::ops::Range;

/// A text to put in the place of a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Edit {
    pub(crate) range: Range<usize>,
    pub(crate) text: String,
}

impl Edit {
    pub(crate) fn new(range: Range<usize>, text: impl Into<String>) -> Self {
        Self { range, text: text.into() }
    }
}

/// The part of `text` in `range` with the edits that lie in it; `None` if two of them overlap.
pub(crate) fn edited(text: &str, range: Range<usize>, edits: &[Edit]) -> Option<String> {
    let mut inside: Vec<&Edit> =
        edits.iter().filter(|edit| range.start <= edit.range.start && edit.range.end <= range.end).collect();
    inside.sort_by_key(|edit| (edit.range.start, edit.range.end));
    let mut at = range.start;
    let mut result = String::new();
    for edit in inside {
        if edit.range.start < at {
            return None;
        }
        result.push_str(&text[at..edit.range.start]);
        result.push_str(&edit.text);
        at = edit.range.end;
    }
    result.push_str(&text[at..range.end]);
    Some(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_that_overlap_are_none() {
        let edits = [Edit::new(1..3, "x"), Edit::new(2..4, "y")];
        assert_eq!(edited("abcdef", 0..6, &edits), None);
        assert_eq!(edited("abcdef", 0..6, &edits[..1]).as_deref(), Some("axdef"));
    }
}
