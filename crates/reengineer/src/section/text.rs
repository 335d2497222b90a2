//! What the text of a C file says that the compiler's tree does not: the preprocessor's lines, comments, and words that are not
//! compiled.

/// The preprocessor's lines in a text, without `#`.
pub(super) fn directives(text: &str) -> impl Iterator<Item = String> {
    text.lines().filter_map(|line| Some(line.trim_start().strip_prefix('#')?.trim_start().to_owned()))
}

/// A line without the comment at its end; `None` if something else follows that, or it does not end there.
pub(super) fn without_comment(line: &str) -> Option<&str> {
    match (line.find("//"), line.find("/*")) {
        _ if line.ends_with('\\') => None,
        (None, None) => Some(line),
        (Some(at), None) => Some(&line[..at]),
        (None, Some(at)) => {
            let (_, behind) = line[at + 2..].split_once("*/")?;
            behind.trim().is_empty().then_some(&line[..at])
        }
        (Some(_), Some(_)) => None,
    }
}

/// Where a text has a sign, other than in a comment.
pub(super) fn find_in_code(text: &str, sign: char) -> Option<usize> {
    let mut at = 0;
    loop {
        let rest = text.get(at..)?;
        let end = if rest.starts_with("/*") {
            rest.find("*/").map(|end| end + 2)?
        } else if rest.starts_with("//") {
            rest.find('\n')?
        } else if rest.starts_with(sign) {
            return Some(at);
        } else {
            rest.chars().next()?.len_utf8()
        };
        at += end;
    }
}

/// Whether a text that is not compiled has a word, other than in a comment.
pub(super) fn has_word(text: &str, is_it: impl Fn(&str) -> bool) -> bool {
    let mut code = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("/*") {
        code.push_str(&rest[..at]);
        code.push(' ');
        rest = rest[at..].split_once("*/").map_or("", |(_, behind)| behind);
    }
    code.push_str(rest);
    code.lines()
        .map(|line| line.split_once("//").map_or(line, |(line, _)| line))
        .flat_map(|line| line.split(|next: char| next != '_' && !next.is_alphanumeric()))
        .any(is_it)
}
