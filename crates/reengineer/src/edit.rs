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

/// The identifiers of a C text and where they are, comments and literals left out.
pub(crate) fn identifiers(text: &str) -> Vec<Range<usize>> {
    let bytes = text.as_bytes();
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &text.as_bytes()[at..];
        at += match rest {
            [b'/', b'/', ..] => rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len()),
            [b'/', b'*', ..] => {
                rest.windows(2).skip(2).position(|two| two == b"*/").map_or(rest.len(), |end| end + 4)
            }
            [quote @ (b'"' | b'\''), ..] => literal(rest, *quote),
            [first, ..] if is_part(*first) => {
                let length = rest.iter().position(|byte| !is_part(*byte)).unwrap_or(rest.len());
                if !first.is_ascii_digit() {
                    found.push(at..at + length);
                }
                length
            }
            _ => 1,
        };
    }
    found
}

/// The length of a string or character literal.
fn literal(text: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while at < text.len() {
        match text[at] {
            b'\\' => at += 1,
            b'\n' => return at,
            byte if byte == quote => return at + 1,
            _ => {}
        }
        at += 1;
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_comments_and_literals_are_none() {
        let text = "a /* b */ + 'c' + \"d\\\"e\" // f\n+ g1 0x1f";
        let found: Vec<_> = identifiers(text).into_iter().map(|range| &text[range]).collect();
        assert_eq!(found, ["a", "g1"]);
    }

    #[test]
    fn edits_that_overlap_are_none() {
        let edits = [Edit::new(1..3, "x"), Edit::new(2..4, "y")];
        assert_eq!(edited("abcdef", 0..6, &edits), None);
        assert_eq!(edited("abcdef", 0..6, &edits[..1]).as_deref(), Some("axdef"));
    }
}
